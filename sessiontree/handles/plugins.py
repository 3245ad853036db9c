"""Plugins: what resolves handles, and those that installed packages bring.

A resolver is an object with `schemas`, what it makes handles of, and
`resolve(handle, scope)`, which gives the data; `resolve_many(handles, scope)` is
optional, and gives a list with the data, or the error, of each. A package brings
one by an entry point of the group `sessiontree.handles`, named as the plugin is; it
stands for a resolver, or for a class that makes one.

Invariants: nothing of a package is imported before a handle of its plugin is asked
for; one that cannot be loaded is told then, and hides no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from sessiontree.core.handle import Handle
from sessiontree.errors import CallerError, UnknownHandleError
from sessiontree.handles.schema import HandleSchema

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.handles.registry import Scope

ENTRY_POINTS: Final = "sessiontree.handles"
"""The group of the entry points."""


class Resolver(Protocol):
    """What resolves the handles of a plugin; it may have `resolve_many` too."""

    @property
    def schemas(self) -> Sequence[HandleSchema]:
        """What it makes handles of."""

    def resolve(self, handle: Handle, scope: Scope) -> Any:
        """The data of a handle, of the kind its schema says.

        A `ResolvedHandle` where the kind, or the media type, depends on what is found.
        """


def check_resolver(resolver: Any) -> None:
    """Refuse what is no resolver.

    Raises:
        CallerError: without schemas, or without `resolve`.
    """
    schemas = getattr(resolver, "schemas", None)
    if not isinstance(schemas, list | tuple) or not schemas:
        fault = "its `schemas` is no list of HandleSchema"
    elif not all(isinstance(schema, HandleSchema) for schema in schemas):
        fault = "its `schemas` holds something else than HandleSchema"
    elif not callable(getattr(resolver, "resolve", None)):
        fault = "it has no `resolve`"
    else:
        return
    raise CallerError(f"{resolver!r:.80} is no resolver: {fault}")


class Installed:
    """The resolvers that installed packages bring, each loaded once."""

    def __init__(self) -> None:
        self._points: dict[str, list[EntryPoint]] | None = None
        self._loaded: dict[str, list[Resolver]] = {}
        self._broken: dict[str, list[UnknownHandleError]] = {}

    @property
    def names(self) -> Sequence[str]:
        """The plugins there are, loaded or not."""
        return list(self._found())

    def _found(self) -> dict[str, list[EntryPoint]]:
        if self._points is None:
            from importlib.metadata import entry_points  # slow, and seldom needed

            points: dict[str, list[EntryPoint]] = {}
            for point in entry_points(group=ENTRY_POINTS):
                points.setdefault(point.name, []).append(point)
            self._points = points
        return self._points

    def load(self, plugin: str) -> list[Resolver]:
        """The resolvers of a plugin; why others of it could not be loaded is in `broken`."""
        if plugin not in self._loaded:
            loaded: list[Resolver] = []
            broken: list[UnknownHandleError] = []
            for point in self._found().get(plugin, ()):
                try:
                    loaded.append(_loaded(point))
                except Exception as error:  # whatever a package does when it is imported
                    message = (
                        f"the plugin {plugin!r} cannot be loaded from {point.value}: "
                        f"{type(error).__name__}: {error}; mend or remove the package that has it"
                    )
                    broken.append(UnknownHandleError(message, plugin))
            self._broken[plugin], self._loaded[plugin] = broken, loaded
        return self._loaded[plugin]

    def broken(self, plugin: str | None = None) -> list[UnknownHandleError]:
        """Why resolvers of a plugin, by default of all, could not be loaded when asked for."""
        if plugin is not None:
            return self._broken.get(plugin, [])
        return [error for errors in self._broken.values() for error in errors]


def _loaded(point: EntryPoint) -> Resolver:
    found = point.load()
    resolver: Resolver = found() if isinstance(found, type) else found
    check_resolver(resolver)
    other = next((s.plugin for s in resolver.schemas if s.plugin != point.name), None)
    if other is not None:
        raise CallerError(f"its schemas are of {other!r}")
    return resolver
