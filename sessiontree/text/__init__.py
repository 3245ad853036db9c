"""Entries as text that people read and search."""
