"""The namespaces of this package, each imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Final

from sessiontree.ops.operation import Namespace

_MODULES: Final = {
    "tree": ("look", "tree"),
    "node": ("node",),
    "context": ("context",),
    "branch": ("branch",),
    "session": ("look", "session", "intake"),
    "file": ("file",),
    "handle": ("context",),
    "health": ("care",),
    "schema": ("schema",),
}
"""The modules of each namespace; the first defines it, the others add methods."""


class _Own(Mapping[str, Namespace]):
    """The namespaces by their names; to look one up imports its modules, and no others.

    The methods are in the order of the modules, whichever a command imported first.
    """

    def __getitem__(self, name: str) -> Namespace:
        modules = [importlib.import_module(f"{__name__}.{module}") for module in _MODULES[name]]
        found: Namespace = getattr(modules[0], name.upper())
        order = {module.__name__: place for place, module in enumerate(modules)}
        found.sort(lambda method: order.get(method.function.__module__, len(order)))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


OWN: Final[Mapping[str, Namespace]] = _Own()
