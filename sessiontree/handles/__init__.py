"""Handles: pointers to content that somebody else keeps, and what resolves them."""
