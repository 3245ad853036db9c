"""The built-in resolvers: `blob`, `file` and `session`. None of them uses a network."""

from __future__ import annotations

from sessiontree.plugins import Resolver


def built_in() -> list[Resolver]:
    """A fresh resolver of each built-in plugin."""
    from sessiontree.resolvers.blob import BlobResolver
    from sessiontree.resolvers.file import FileResolver
    from sessiontree.resolvers.session import SessionResolver

    return [BlobResolver(), FileResolver(), SessionResolver()]
