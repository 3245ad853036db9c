"""Entries as the context that a model gets."""
