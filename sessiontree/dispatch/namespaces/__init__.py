"""The namespaces of this package, a module for each; that of sessions is in three."""

from typing import Final

from sessiontree.dispatch.namespace import Namespace
from sessiontree.dispatch.namespaces import (
    branch,
    context,
    handle,
    health,
    node,
    schema,
    session,
    session_care,
    session_intake,
    tree,
)

OWN: Final[tuple[Namespace, ...]] = (
    tree.TREE,
    node.NODE,
    context.CONTEXT,
    branch.BRANCH,
    session.SESSION,
    handle.HANDLE,
    health.HEALTH,
    schema.SCHEMA,
)

__all__ = ["OWN", "session_care", "session_intake"]
