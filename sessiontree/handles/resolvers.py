"""The built-in resolvers: `blob`, `file` and `session`. None of them uses a network."""

from __future__ import annotations

from sessiontree.handles.plugins import Resolver


def built_in() -> list[Resolver]:
    """A fresh resolver of each built-in plugin."""
    from sessiontree.handles.blob import BlobResolver
    from sessiontree.handles.builtin import FileResolver
    from sessiontree.handles.session import SessionResolver

    return [BlobResolver(), FileResolver(), SessionResolver()]
