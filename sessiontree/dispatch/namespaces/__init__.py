"""The namespaces of this package, a module for each."""

from typing import Final

from sessiontree.dispatch.namespace import Namespace
from sessiontree.dispatch.namespaces import handle, node, tree

OWN: Final[tuple[Namespace, ...]] = (tree.TREE, node.NODE, handle.HANDLE)
