"""The namespaces of this package, a module for each."""

from typing import Final

from sessiontree.dispatch.namespace import Namespace
from sessiontree.dispatch.namespaces import context, handle, node, tree

OWN: Final[tuple[Namespace, ...]] = (tree.TREE, node.NODE, context.CONTEXT, handle.HANDLE)
