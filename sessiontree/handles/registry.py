"""Handles to content: which resolver is asked for which, and the asking.

Invariants: a handle goes to the resolver whose schema names its plugin and method
and includes its version, the latest registered first, so that a 1.x and a 2.x
live side by side; one that breaks, or cannot be loaded, costs nobody but its own
handles; resolving ends, whatever handles point to.

Plugins: what resolves handles, and those that installed packages bring.

A resolver is an object with `schemas`, what it makes handles of, and
`resolve(handle, scope)`, which gives the data; `resolve_many(handles, scope)` is
optional, and gives a list with the data, or the error, of each. A package brings
one by an entry point of the group `sessiontree.handles`, named as the plugin is; it
stands for a resolver, or for a class that makes one.

Invariants: nothing of a package is imported before a handle of its plugin is asked
for; one that cannot be loaded is told then, and hides no other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.media import UNKNOWN_BYTES
from sessiontree.errors import (
    EntryError,
    HandleCycleError,
    HandleDataError,
    HandleError,
    ResolverFailedError,
    SessionTreeError,
    TargetRefusedError,
    UnknownHandleError,
    UsageError,
)
from sessiontree.handles.schema import HandleSchema

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.core.entry import Entry
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.fs import FileSystem


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
        UsageError: without schemas, or without `resolve`.
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
    raise UsageError(f"{resolver!r:.80} is no resolver: {fault}")


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
        raise UsageError(f"its schemas are of {other!r}")
    return resolver


DEEPEST: Final = 16
"""Handles that lead to one another before it is called endless."""

Resolution = ResolvedHandle | SessionTreeError

_ALONE: Final = object()
"""Stands for what a resolver did not give together with the others."""


class HandleSession(Protocol):
    """The session that handles are in, as a resolver sees it: a `Session`."""

    reader: TreeReader
    cursor: Cursor
    disk: FileSystem

    @property
    def id(self) -> str: ...
    @property
    def header(self) -> Entry: ...
    @property
    def file(self) -> str | None: ...
    @property
    def blobs(self) -> Blobs: ...
    def beside(self, file: str) -> HandleSession:
        """Another session on the same disk, opened to read."""

    def __enter__(self) -> HandleSession: ...
    def __exit__(self, *error: Any) -> None: ...


class Scope:
    """Where handles are resolved: what a resolver may ask for.

    Use it as a context manager: it closes what resolvers opened.
    """

    def __init__(
        self,
        registry: Registry,
        session: HandleSession | None = None,
        root: str | None = None,
    ) -> None:
        """A scope that nothing is resolved in yet.

        Args:
            registry: knows the resolvers.
            session: the session that the handles stand in.
            root: the folder that `file` handles are below.
        """
        self._registry = registry
        self._session = session
        self._root = root
        self._chain: tuple[tuple[str, Handle], ...] = ()
        self._depth = 0
        self.opened = ExitStack()
        self.found: dict[Any, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.opened.close()

    @property
    def session(self) -> HandleSession:
        """The session that the handles stand in.

        Raises:
            TargetRefusedError: none was given.
        """
        if self._session is None:
            raise TargetRefusedError(
                f"{self._at()} needs the session that it stands in; name it (--session FILE)",
                self._at(),
            )
        return self._session

    @property
    def root(self) -> str:
        """The folder that `file` handles are below.

        Raises:
            TargetRefusedError: none was given.
        """
        if self._root is None:
            raise TargetRefusedError(
                f"{self._at()} is below a folder that was not named; name the root "
                "(root=…, or --root DIR)",
                self._at(),
            )
        return self._root

    def _at(self) -> str:
        return str(self._chain[-1][1]) if self._chain else "the handle"

    def within(self, session: HandleSession) -> Scope:
        """The same, for handles that stand in another session."""
        scope = self._copy(self._chain)
        scope._session = session
        return scope

    def entered(self, handle: Handle) -> Scope:
        """The same, while a handle is being resolved.

        Raises:
            HandleCycleError: it is being resolved already, or too many are.
        """
        step = (self._session.id if self._session else "", handle)
        chain = (*self._chain, step)
        if step in self._chain:
            way = " → ".join(str(above) for _, above in chain[chain.index(step) :])
            raise HandleCycleError(f"handles lead back to themselves: {way}", str(handle))
        return self.deeper(chain)

    def deeper(self, chain: tuple[tuple[str, Handle], ...] | None = None) -> Scope:
        """The same, one step further from what was asked for first.

        Raises:
            HandleCycleError: that is too far.
        """
        scope = self._copy(self._chain if chain is None else chain)
        scope._depth += 1
        if scope._depth > DEEPEST:
            first, last = (scope._chain[0][1], scope._at()) if scope._chain else ("", "")
            raise HandleCycleError(
                f"more than {DEEPEST} handles lead to one another, from {first} on; "
                "point to the content itself",
                last,
            )
        return scope

    def _copy(self, chain: tuple[tuple[str, Handle], ...]) -> Scope:
        scope = Scope(self._registry, self._session, self._root)
        scope._chain, scope._depth = chain, self._depth
        scope.opened, scope.found = self.opened, self.found
        return scope

    def resolve(self, handle: Handle | str) -> ResolvedHandle:
        """Resolve a handle, of any plugin.

        Raises:
            HandleError: it is not well formed, or not what its schema says.
            UnknownHandleError: nothing is registered for it.
            HandleCycleError: handles lead back to themselves.
            ResolveError, and what else its resolver raises: it cannot be had.
        """
        return self._registry.resolve(_as_handle(handle), self)

    def resolve_many(self, handles: Iterable[Handle | str]) -> list[Resolution]:
        """Resolve handles, each distinct one once, a plugin's together.

        Returns:
            For each, in order, what it resolved to, or the error.
        """
        return self._registry.resolve_many(handles, self)


class Registry:
    """The resolvers that are known."""

    built_in: ClassVar[Callable[[], list[Resolver]]] = staticmethod(list)
    """Makes the resolvers that this package brings."""
    _default: ClassVar[Registry | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, resolvers: Iterable[Resolver] = (), *, plugins: bool = False) -> None:
        """A registry of resolvers, the last before all others.

        Args:
            resolvers: to be registered.
            plugins: whether to look for those of installed packages too.
        """
        self._resolvers: list[Resolver] = []
        self._installed = Installed() if plugins else None
        for resolver in resolvers:
            self.register(resolver)

    @classmethod
    def default(cls) -> Registry:
        """The registry of this process: the built-in resolvers, and installed plugins.

        A plugin is loaded when one of its handles is asked for.
        """
        with Registry._lock:
            if Registry._default is None:
                Registry._default = cls(cls.built_in(), plugins=True)
            return Registry._default

    def register(self, resolver: Resolver) -> None:
        """Add a resolver; it goes before those that are there.

        Raises:
            UsageError: it is none.
        """
        check_resolver(resolver)
        self._resolvers.insert(0, resolver)

    def unregister(self, resolver: Resolver) -> None:
        """Take a resolver out again; nothing where it is not there."""
        self._resolvers = [other for other in self._resolvers if other is not resolver]

    @property
    def plugins(self) -> list[str]:
        """The names of all plugins, loaded or not, sorted."""
        registered = {schema.plugin for found in self._resolvers for schema in found.schemas}
        return sorted(registered.union(self._installed.names if self._installed else ()))

    def schemas(self) -> list[HandleSchema]:
        """All schemas, by plugin; loads every plugin. See `broken` for those that cannot be."""
        names = self._installed.names if self._installed else ()
        loaded = [resolver for plugin in names for resolver in self._load(plugin)]
        found = [schema for resolver in [*self._resolvers, *loaded] for schema in resolver.schemas]
        return sorted(found, key=lambda schema: schema.plugin)

    @property
    def broken(self) -> list[UnknownHandleError]:
        """Why plugins that were asked for could not be loaded."""
        return self._installed.broken() if self._installed else []

    def _load(self, plugin: str) -> list[Resolver]:
        return self._installed.load(plugin) if self._installed else []

    def check(self, handle: Handle) -> HandleSchema | None:
        """The schema of a handle that keeps to it; None where nobody here knows its plugin.

        A session may hold handles of plugins that are not installed here.

        Raises:
            HandleSchemaError: its meta is not what the schema says.
        """
        try:
            _, schema = self._found(handle)
        except UnknownHandleError:
            return None
        schema.check(handle)
        return schema

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """Resolve one handle; see `Scope.resolve`."""
        resolver, schema = self._found(handle)
        schema.check(handle)
        return _resolved(handle, schema, _asked(resolver.resolve, handle, scope.entered(handle)))

    def resolve_many(self, handles: Iterable[Handle | str], scope: Scope) -> list[Resolution]:
        """Resolve handles, each distinct one once; see `Scope.resolve_many`."""
        wanted = [_as_handle_or_error(handle) for handle in handles]
        groups: dict[int, tuple[Resolver, dict[Handle, HandleSchema]]] = {}
        done: dict[Handle, Resolution] = {}
        for handle in dict.fromkeys(h for h in wanted if isinstance(h, Handle)):
            try:
                resolver, schema = self._found(handle)
                schema.check(handle)
            except SessionTreeError as error:
                done[handle] = error
            else:
                groups.setdefault(id(resolver), (resolver, {}))[1][handle] = schema
        for resolver, schemas in groups.values():
            done.update(self._batch(resolver, schemas, scope))
        return [h if isinstance(h, SessionTreeError) else done[h] for h in wanted]

    def _batch(
        self, resolver: Resolver, schemas: Mapping[Handle, HandleSchema], scope: Scope
    ) -> Iterator[tuple[Handle, Resolution]]:
        """Resolve distinct handles of one resolver; one by one where it cannot do them at once."""
        handles = list(schemas)
        for handle, data in zip(handles, self._together(resolver, handles, scope), strict=True):
            try:
                if data is _ALONE:
                    yield handle, self.resolve(handle, scope)
                else:
                    yield handle, _resolved(handle, schemas[handle], data)
            except SessionTreeError as error:
                yield handle, error

    def _together(self, resolver: Resolver, handles: list[Handle], scope: Scope) -> list[Any]:
        """What a resolver gives for handles at once; where it cannot, each is for itself."""
        alone = [_ALONE] * len(handles)
        resolve_many = getattr(resolver, "resolve_many", None)
        if resolve_many is None or len(handles) < 2:
            return alone
        try:
            found = list(resolve_many(handles, scope.deeper()))
        except Exception:  # whichever it failed on, the others are not to blame
            return alone
        return found if len(found) == len(handles) else alone

    def _found(self, handle: Handle) -> tuple[Resolver, HandleSchema]:
        """The resolver of a handle, and its schema.

        Raises:
            UnknownHandleError: there is none; says what is there.
        """
        found = _matching(self._resolvers, handle) or _matching(self._load(handle.plugin), handle)
        if found is not None:
            return found
        if self._installed and (broken := self._installed.broken(handle.plugin)):
            raise broken[0]
        raise UnknownHandleError(self.unknown(handle), str(handle))

    def unknown(self, handle: Handle) -> str:
        """Why nothing here resolves a handle: its plugin, version or method; and what is there."""
        known = [*self._resolvers, *self._load(handle.plugin)]
        schemas = [s for found in known for s in found.schemas if s.plugin == handle.plugin]
        if not schemas and self._installed and (broken := self._installed.broken(handle.plugin)):
            return str(broken[0])
        if not schemas:
            there = ", ".join(self.plugins) or "none"
            return (
                f"unknown plugin {handle.plugin!r}; registered: {there}; register it, or install "
                f"the package that brings it, by an entry point of the group {ENTRY_POINTS!r}"
            )
        names = ", ".join(schema.name for schema in schemas)
        has_method = any(schema.method == handle.method for schema in schemas)
        if not has_method and any(schema.includes(handle.version) for schema in schemas):
            return f"{handle.plugin} has no method {handle.method!r}; registered: {names}"
        return f"no resolver for version {handle.version} of {handle.plugin}; registered: {names}"


def _asked(resolve: Callable[[Handle, Scope], Any], handle: Handle, scope: Scope) -> Any:
    """What a resolver gives; an error of its own becomes one that callers can catch."""
    try:
        return resolve(handle, scope)
    except SessionTreeError:
        raise
    except Exception as error:
        raise ResolverFailedError(
            f"the resolver of {handle.plugin} failed on {handle}: {type(error).__name__}: {error}",
            str(handle),
        ) from error


def _as_handle(handle: Handle | str) -> Handle:
    return handle if isinstance(handle, Handle) else Handle.parse(handle)


def _as_handle_or_error(handle: Handle | str) -> Handle | HandleError:
    try:
        return _as_handle(handle)
    except HandleError as error:
        return error


def _matching(
    resolvers: Iterable[Resolver], handle: Handle
) -> tuple[Resolver, HandleSchema] | None:
    for resolver in resolvers:
        for schema in resolver.schemas:
            if (schema.plugin, schema.method) != (handle.plugin, handle.method):
                continue
            if schema.includes(handle.version):
                return resolver, schema
    return None


def _resolved(handle: Handle, schema: HandleSchema, data: Any) -> ResolvedHandle:
    """What a resolver gave, checked and named.

    Raises:
        HandleDataError: it is not of the kind of the schema.
    """
    if isinstance(data, SessionTreeError):
        raise data
    if isinstance(data, ResolvedHandle):
        return ResolvedHandle(handle, data.kind, data.data, data.media_type)
    if schema.kind == "binary":
        return ResolvedHandle(handle, "binary", data, UNKNOWN_BYTES)
    try:
        dumps(data)
    except EntryError as error:
        raise HandleDataError(f"{handle} resolved to {error}", str(handle)) from error
    return ResolvedHandle(handle, schema.kind, data)
