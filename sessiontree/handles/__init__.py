"""Handles: pointers to content that is kept elsewhere, and their resolvers."""

from sessiontree.handles.builtin import built_in
from sessiontree.handles.registry import Registry

Registry.built_in = staticmethod(built_in)
