"""Masking secrets: the rules that find them, and the masks that take their place."""
