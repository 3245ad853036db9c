"""The registry: the schemas of handles, and the resolver that a handle goes to.

A resolver is an object with `schemas`, the handles that it resolves, and `resolve(handle, scope)`,
which returns the data. `resolve_many(handles, scope)` is optional and returns a list with the data,
or the error, of each. A package brings a resolver by an entry point of the group
`sessiontree.handles`, named as the plugin; it is a resolver, or a class that makes one.

Invariants:

- A handle goes to the resolver whose schema names its plugin and method and includes its version,
  the latest registered first, so a 1.x and a 2.x can be used together.
- A resolver that fails, or cannot be loaded, affects its own handles only; it is not tried again.
- Resolving ends, whatever handles point to.
- Nothing of a package is imported before a handle of its plugin is resolved.
- Threads may use a registry at once: none sees a scan of the packages that is unfinished, and a
  resolver of a package is made once.
"""

from __future__ import annotations

import operator
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from importlib import import_module
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self

import msgspec
from msgspec.structs import force_setattr

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.callback import called
from sessiontree.core.entry import decode_leniently
from sessiontree.core.handle import KINDS, NUMBER, Handle, Kind
from sessiontree.core.jsonbytes import dumps
from sessiontree.core.media import UNKNOWN_BYTES
from sessiontree.core.message import json_text
from sessiontree.errors import (
    EntryError,
    HandleCycleError,
    HandleDataError,
    HandleError,
    HandleSchemaError,
    ResolverFailedError,
    SessionTreeError,
    TargetRefusedError,
    UnknownHandleError,
    UsageError,
    with_step,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.core.entry import Entry
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader
    from sessiontree.storage.blobs import Blobs
    from sessiontree.storage.fs import FileSystem


class MetaField(msgspec.Struct, frozen=True):
    """A field of a handle schema, which describes one part of a handle's meta."""

    name: str
    required: bool = True  # optional parts come last
    prefix: str = ""  # the first characters of the part, such as `msg-`
    pattern: str | None = None  # a regular expression for the characters after the prefix
    form: str = ""  # a description of the pattern for people, such as `a number from 1`

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise UsageError(
                f"the pattern of meta field {self.name!r} is not a regular expression: {error}"
            ) from error

    def fault(self, part: str) -> str | None:
        """Return a text that says what is wrong with a part of meta, or None."""
        if not part.startswith(self.prefix):
            return f"does not begin with {self.prefix!r}"
        if self.pattern and not re.fullmatch(self.pattern, part[len(self.prefix) :]):
            form = f"does not match {self.prefix}{self.pattern}"
            return f"is not {self.form}" if self.form else form
        return None


class HandleSchema(msgspec.Struct, frozen=True):
    """A description of the handles of one method of a plugin."""

    plugin: str
    method: str
    # The versions of the handles, by their first two numbers: one or more conditions with spaces
    # between them, such as `1` or `1.x` (any 1), `1.2` (any 1.2), `>=1.2 <2`, `*` (any).
    versions: str = "*"
    meta: Sequence[MetaField] = ()  # a field for each part of meta
    kind: Kind = "document"  # the kind of data that the handles resolve to
    # A description of the data for people, as text; or a JSON schema, which the data must fit (not
    # for `binary`), and which needs the package jsonschema. A `$ref` to another address is not
    # followed.
    resolves_to: str | Mapping[str, Any] = ""

    def __post_init__(self) -> None:
        Handle(self.plugin, "1.0.0", self.method)  # refuses empty names
        _conditions(self.versions)
        if self.kind not in KINDS:
            raise UsageError(f"a kind is one of {', '.join(KINDS)}, not {self.kind!r}")
        force_setattr(self, "meta", tuple(self.meta))
        if not isinstance(self.resolves_to, str):
            self._check_resolves_to(self.resolves_to)
        required = [field.required for field in self.meta]
        if required != sorted(required, reverse=True):
            raise UsageError(f"meta of {self.name}: fields that are not required come last")

    @property
    def name(self) -> str:
        """A text with the plugin, the versions and the method, for errors and lists."""
        return f"{self.plugin}@{self.versions}::{self.method}"

    def includes(self, version: str) -> bool:
        """Return whether the schema covers this version. The version must be well formed."""
        return _is_within(version, self.versions)

    def check(self, handle: Handle) -> None:
        """Check that the meta of a handle fits the fields.

        Raises:
            HandleSchemaError: a part does not fit; the error names the part.
        """
        for place, field in enumerate(self.meta):
            if place >= len(handle.meta):
                if field.required:
                    part = _part(place, field)
                    raise HandleSchemaError(f"{handle} has no {part}; {self._wanted()}", part)
                return
            fault = field.fault(handle.meta[place])
            if fault is not None:
                part = _part(place, field)
                message = f"{part} of {handle} is wrong: it {fault}; {self._wanted()}"
                raise HandleSchemaError(message, part)
        if len(handle.meta) > len(self.meta):
            part = f"meta[{len(self.meta)}]"
            message = f"{handle} has too many parts of meta, from {part} on; {self._wanted()}"
            raise HandleSchemaError(message, part)

    def _check_resolves_to(self, schema: Mapping[str, Any]) -> None:
        if self.kind == "binary":
            raise UsageError(
                f"resolves_to of {self.name} is a JSON schema, and the data of the kind binary is "
                "bytes; give a text"
            )
        try:
            # slow to import, and few schemas are JSON schemas
            from jsonschema import SchemaError  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise UsageError(
                f"resolves_to of {self.name} is a JSON schema, which needs a package that is not "
                f"installed ({error}); run: pip install 'sessiontree[schemas]', or give a text"
            ) from error
        try:
            _validator_class(schema).check_schema(dict(schema))
        except SchemaError as error:
            raise UsageError(
                f"resolves_to of {self.name} is not a JSON schema: {error.message:.200} "
                f"at {error.json_path}; correct it, or give a text"
            ) from error

    def check_data(self, handle: Handle, data: bytes) -> None:
        """Check the data of a handle, as JSON, against `resolves_to` if that is a JSON schema.

        Raises:
            HandleDataError: the data does not fit; the error has the first fault and its place.
            ResolverFailedError: the schema refers to another one, or has a wrong pattern.
        """
        if isinstance(self.resolves_to, str):
            return
        # in place of the default registry of jsonschema, which reads addresses of the network
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped, unused-ignore]

        schema = dict(self.resolves_to)
        try:
            faults = _validator_class(schema)(schema, registry=REGISTRY).iter_errors(
                decode_leniently(data)
            )
            fault = next(faults, None)  # the rest may be millions
        except RecursionError:
            raise HandleDataError(
                f"{handle} resolved to data that is nested too deeply for its schema", str(handle)
            ) from None
        except Exception as error:  # a reference to another schema, or a wrong pattern
            raise ResolverFailedError(
                f"resolves_to of {self.name} cannot be used: {type(error).__name__}: "
                f"{error!s:.200}; correct the plugin",
                str(handle),
            ) from error
        if fault is not None:
            raise HandleDataError(
                f"{handle} resolved to data that does not fit the schema of {self.name}: "
                f"{fault.message:.200} at {fault.json_path:.200}; correct its content, or its "
                "resolver",
                str(handle),
            )

    def _wanted(self) -> str:
        fields = [
            f":{field.prefix}<{field.name}>" if field.required else f"[:{field.name}]"
            for field in self.meta
        ]
        return f"its form is {self.plugin}@VERSION::{self.method}{''.join(fields)}"

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `handle schemas --json` prints."""
        return {
            "plugin": self.plugin,
            "method": self.method,
            "versions": self.versions,
            "kind": self.kind,
            "meta": [
                {
                    "index": index,
                    "name": field.name,
                    "required": field.required,
                    "prefix": field.prefix or None,
                    "pattern": field.pattern,
                    "form": field.form or None,
                }
                for index, field in enumerate(self.meta)
            ],
            "resolvesTo": self.resolves_to,
        }


def _part(place: int, field: MetaField) -> str:
    return f"meta[{place}] ({field.name})"


def _validator_class(schema: Mapping[str, Any]) -> Any:
    """The validator of the draft that a JSON schema names, by default the newest."""
    from jsonschema.validators import Draft202012Validator, validator_for  # type: ignore[import-untyped, unused-ignore]

    return validator_for(dict(schema), default=Draft202012Validator)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "": operator.eq,
    "=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}
_CONDITION: Final = re.compile(rf"(>=|<=|>|<|=|)({NUMBER})(?:\.({NUMBER}))?(?:\.x)*")


@lru_cache(maxsize=256)  # the handles of a session have few versions
def _is_within(version: str, versions: str) -> bool:
    major, minor, _ = version.split(".", 2)
    found = int(major), int(minor)
    return all(compare(found[: len(given)], given) for compare, given in _conditions(versions))


def _conditions(versions: str) -> list[tuple[Callable[[Any, Any], bool], tuple[int, ...]]]:
    """Take a range apart: comparisons, each with a major, or a major and a minor."""
    if versions.strip() == "*":
        return []
    conditions = [_CONDITION.fullmatch(text) for text in versions.split()]
    if not conditions or None in conditions:
        raise UsageError(
            f"{versions!r} is not a range of versions; give '1.x', '1.2', '>=1.2 <3' or '*'"
        )
    return [
        (_COMPARISONS[found[1]], tuple(map(int, filter(None, found.group(2, 3)))))
        for found in conditions
        if found
    ]


DEEPEST: Final = 16  # the longest chain of handles that lead to one another
Resolution = ResolvedHandle | SessionTreeError
Step = tuple[Handle, Mapping[str, Any]]  # the handle of an entry, and the entry's metadata


class Resolver(Protocol):
    """An object that resolves the handles of a plugin. A method `resolve_many` is optional.

    In an `AsyncSession`, the methods may be coroutine functions. The methods of the scope that
    such a function gets are awaited.
    """

    @property
    def schemas(self) -> Sequence[HandleSchema]:
        """A schema for each form of handle that the object resolves."""

    def resolve(self, handle: Handle, scope: ResolverScope) -> Any:
        """Return the data of a handle. The data is of the kind that the schema names.

        `scope.metadata(handle)` has the metadata of the `handle` entry. Return a `ResolvedHandle`
        instead if the kind or the media type depends on the content.
        """


class HandleSession(Protocol):
    """The session that handles are in: what resolvers use of a `Session`."""

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


class ResolverScope:
    """Where handles are resolved: the session and the folder that a resolver may use.

    A context manager: leaving it closes what resolvers opened.
    """

    def __init__(
        self,
        registry: Registry,
        session: HandleSession | None = None,
        root: str | None = None,
        kept: dict[Any, Any] | None = None,
    ) -> None:
        self._registry = registry
        self._session = session
        self._session_id = session.id if session else ""
        self._root = root
        self._chain: list[tuple[str, Handle]] = []  # never changed in place
        self._depth = 0
        self._metadata: Mapping[Handle, Mapping[str, Any]] = {}
        self.opened = ExitStack()  # closes what resolvers opened
        self.found: dict[Any, Any] = {}  # what resolvers keep for the next handle
        # What of the session's entries is known; it stays true while the session does not grow.
        self.kept: dict[Any, Any] = {} if kept is None else kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.opened.close()

    @property
    def session(self) -> HandleSession:
        """The session that the handles are in; a TargetRefusedError where none was given."""
        if self._session is None:
            error = TargetRefusedError(
                f"{self._at()} needs the session that it is in; name the session", self._at()
            )
            raise with_step(error, "name session")
        return self._session

    @property
    def root(self) -> str:
        """The folder that `file` handles are below; a TargetRefusedError where none was given."""
        if self._root is None:
            error = TargetRefusedError(
                f"{self._at()} is below a folder that was not named; name that folder as the root",
                self._at(),
            )
            raise with_step(error, "name root")
        return self._root

    def metadata(self, handle: Handle) -> Mapping[str, Any]:
        """The metadata of the `handle` entry for which a handle is being resolved.

        Empty where the entry has none, or where a handle is resolved without an entry. Do not
        change it.
        """
        return self._metadata.get(handle, {})

    def _at(self) -> str:
        return str(self._chain[-1][1]) if self._chain else "the handle"

    def _copy(self) -> ResolverScope:
        scope = object.__new__(type(self))
        scope.__dict__.update(self.__dict__)  # `copy.copy` takes ten times as long
        return scope

    def within(self, session: HandleSession) -> ResolverScope:
        """The scope for handles that are in a session: this one, or that of another session."""
        if session is self._session:
            return self
        scope = self._copy()
        scope._session = session
        scope._session_id = session.id
        scope.kept = self.found.setdefault((ResolverScope.within, id(session)), {})
        return scope

    @property
    def leading(self) -> list[Handle]:
        """The handles that led to the one that is being resolved, the first one first."""
        return [handle for _, handle in self._chain[:-1]]

    def is_in(self, session_id: str) -> bool:
        """Whether a handle that is being resolved is in a session."""
        return any(session == session_id for session, _ in self._chain)

    def follow(self, handle: Handle, metadata: Mapping[str, Any]) -> ResolvedHandle:
        """Resolve the one handle that the handle being resolved leads to, by an entry.

        A step that an earlier handle made is known, and not resolved again.
        """
        known: dict[Handle, Step] = self.kept.setdefault(ResolverScope.follow, {})
        known[self._chain[-1][1]] = handle, metadata
        steps: list[Handle] = []
        while (step := known.get(handle)) is not None and len(steps) <= DEEPEST:
            steps.append(handle)
            handle, metadata = step
        return self._registry.resolve(handle, self.entered(*steps), metadata)

    def step(self, handle: Handle) -> Step | None:
        """What a handle of an entry of this session leads to, where an earlier handle passed it."""
        known: dict[Handle, Step] = self.kept.get(ResolverScope.follow, {})
        return known.get(handle)

    def about(self, metadata: Mapping[Handle, Mapping[str, Any]]) -> Self:
        """This scope, a fresh one, with the metadata of the handles that are being resolved."""
        self._metadata = metadata
        return self

    def entered(self, *handles: Handle) -> ResolverScope:
        """The same scope while handles that lead to one another are being resolved.

        Raises:
            HandleCycleError: they lead back to themselves, or are too many.
        """
        scope = self._copy()
        steps = [(self._session_id, handle) for handle in handles]
        scope._chain = chain = self._chain + steps
        scope._depth += len(steps)
        if scope._depth > DEEPEST or len(set(chain)) < len(chain):
            raise scope._endless(len(self._chain))
        return scope

    def _endless(self, start: int) -> HandleCycleError:
        """Why the handles of the chain from a place on are not resolved."""
        deepest = max(start, DEEPEST - self._depth + len(self._chain))
        self._chain = chain = self._chain[: deepest + 1]
        if len(set(chain)) == len(chain):
            return self._too_deep()
        last = next(place for place, step in enumerate(chain) if step in chain[:place])
        first = chain.index(chain[last])
        way = " → ".join(str(handle) for _, handle in chain[first : last + 1])
        return HandleCycleError(f"handles lead back to themselves: {way}", str(chain[last][1]))

    def deeper(self) -> ResolverScope:
        """The same scope, one step further from the first handle, up to `DEEPEST` steps."""
        scope = self._copy()
        scope._depth += 1
        if scope._depth > DEEPEST:
            raise scope._too_deep()
        return scope

    def _too_deep(self) -> HandleCycleError:
        first, last = (self._chain[0][1], self._at()) if self._chain else ("", "")
        return HandleCycleError(
            f"more than {DEEPEST} handles lead to one another, from {first} on; "
            "point to the content itself",
            last,
        )

    def resolve(self, handle: Handle | str | Mapping[str, Any]) -> ResolvedHandle:
        """Resolve a handle, of any plugin.

        Raises:
            HandleError: it is not well formed, or does not fit its schema.
            UnknownHandleError: no resolver is registered for it.
            HandleCycleError: handles lead back to themselves.
            ResolveError, or another error of its resolver: the content is missing.
        """
        return self._registry.resolve(_parsed(handle), self)

    def resolve_many(self, handles: Iterable[Handle | str | Mapping[str, Any]]) -> list[Resolution]:
        """For each handle what it resolved to, or the error; distinct ones once, together."""
        return self._registry.resolve_many(handles, self)

    def resolve_all(
        self, handles: Sequence[Handle], metadata: Sequence[Mapping[str, Any]]
    ) -> list[Resolution]:
        """The same for the handles of entries, with the metadata of each entry."""
        return self._registry.resolve_many(handles, self, metadata)


class Registry:
    """The resolvers of handles."""

    built_in: ClassVar[Callable[[], list[Resolver]]] = staticmethod(list)
    """Makes the built-in resolvers."""
    _default: ClassVar[Registry | None] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, resolvers: Iterable[Resolver] = (), *, plugins: bool = False) -> None:
        """Make a registry of resolvers, the last before all others.

        Args:
            resolvers: the resolvers to register.
            plugins: whether to use those of installed packages too.
        """
        self._resolvers: tuple[Resolver, ...] = ()
        self._changing = threading.Lock()
        self._installed = _Installed(plugins=plugins)
        for resolver in resolvers:
            self.register(resolver)

    @classmethod
    def default(cls) -> Registry:
        """Return the registry of this process: the built-in resolvers and installed plugins.

        A plugin is loaded when a handle of the plugin is resolved.
        """
        import_module(__package__)  # sets `built_in`; waits for a thread that is importing it
        with Registry._lock:
            if Registry._default is None:
                Registry._default = cls(cls.built_in(), plugins=True)
            return Registry._default

    def register(self, resolver: Resolver) -> None:
        """Add a resolver, which is tried before all resolvers that were added earlier.

        Raises:
            UsageError: the object is not a resolver.
        """
        _check_resolver(resolver)
        with self._changing:
            self._resolvers = (resolver, *self._resolvers)

    def unregister(self, resolver: Resolver) -> None:
        """Remove a resolver. If the resolver is not registered, nothing happens."""
        with self._changing:
            self._resolvers = tuple(each for each in self._resolvers if each is not resolver)

    @property
    def plugins(self) -> list[str]:
        """The names of all plugins, loaded or not, sorted."""
        registered = {schema.plugin for found in self._resolvers for schema in found.schemas}
        return sorted(registered.union(self._installed.plugins()))

    def schemas(self) -> list[HandleSchema]:
        """Load every plugin, and return all schemas. `broken` has the errors of loading."""
        loaded = chain.from_iterable(map(self._installed.load, self._installed.plugins()))
        found = [schema for each in (*self._resolvers, *loaded) for schema in each.schemas]
        return sorted(found, key=lambda schema: schema.plugin)

    @property
    def broken(self) -> list[UnknownHandleError]:
        """The errors of the plugins that could not be loaded, of those that were used."""
        return list(chain.from_iterable(map(self._installed.errors, self._installed.plugins())))

    def check(self, handle: Handle) -> HandleSchema | None:
        """Check a handle and return its schema, or None if no resolver fits the handle.

        A session may hold handles of plugins that are not known in this process. If a resolver
        fits, but the meta does not fit the schema, HandleSchemaError is raised.
        """
        try:
            _, schema = self._found(handle)
        except UnknownHandleError:
            return None
        schema.check(handle)
        return schema

    def resolve(
        self, handle: Handle, scope: ResolverScope, metadata: Mapping[str, Any] | None = None
    ) -> ResolvedHandle:
        """Resolve one handle.

        `scope` has the session and the root folder of `file` handles; `metadata` is that of the
        handle's entry.
        """
        resolver, schema = self._found(handle)
        schema.check(handle)
        data = _ask(resolver, handle, scope, metadata or {})
        return _resolved(handle, schema, data)

    def resolve_many(
        self,
        handles: Iterable[Handle | str | Mapping[str, Any]],
        scope: ResolverScope,
        metadata: Sequence[Mapping[str, Any]] | None = None,
    ) -> list[Resolution]:
        """Return what each handle points to, or the error; `metadata` is that of their entries.

        Equal handles with equal metadata are resolved once.
        """
        wanted: list[Handle | SessionTreeError] = []
        for given in handles:
            try:
                wanted.append(_parsed(given))
            except HandleError as error:
                wanted.append(error.with_traceback(None))
        facts = metadata or [{}] * len(wanted)
        batch: dict[Handle, Mapping[str, Any]] = {}
        for handle, one in zip(wanted, facts, strict=True):
            if isinstance(handle, Handle):
                batch.setdefault(handle, one)
        done = self._resolve_distinct(batch, scope)
        again: dict[tuple[Handle, str], Resolution] = {}  # with other metadata than in the batch

        def found(handle: Handle, one: Mapping[str, Any]) -> Resolution:
            if one == batch[handle]:
                return done[handle]
            key = handle, json_text(one)
            if key not in again:
                again[key] = self._resolve_distinct({handle: one}, scope)[handle]
            return again[key]

        return [
            found(handle, one) if isinstance(handle, Handle) else handle
            for handle, one in zip(wanted, facts, strict=True)
        ]

    def _resolve_distinct(
        self, metadata: Mapping[Handle, Mapping[str, Any]], scope: ResolverScope
    ) -> dict[Handle, Resolution]:
        """What each of some handles points to, given with the metadata of their entries."""
        groups: dict[int, tuple[Resolver, dict[Handle, HandleSchema]]] = {}
        done: dict[Handle, Resolution] = {}
        for handle in metadata:
            try:
                resolver, schema = self._found(handle)
                schema.check(handle)
            except SessionTreeError as error:
                done[handle] = error.with_traceback(None)  # whose frames hold all they read
            else:
                groups.setdefault(id(resolver), (resolver, {}))[1][handle] = schema
        for resolver, schemas in groups.values():
            answers = _ask_all(resolver, list(schemas), scope, metadata)
            for (handle, schema), data in zip(schemas.items(), answers, strict=True):
                try:
                    done[handle] = _resolved(handle, schema, data)
                except SessionTreeError as error:
                    done[handle] = error.with_traceback(None)
        return done

    def _found(self, handle: Handle) -> tuple[Resolver, HandleSchema]:
        """Return the resolver of a handle, and its schema.

        Raises:
            UnknownHandleError: no resolver fits, or its plugin cannot be loaded.
        """
        for resolver in self._candidates(handle.plugin):
            for schema in resolver.schemas:
                if (schema.plugin, schema.method) != (handle.plugin, handle.method):
                    continue
                if schema.includes(handle.version):
                    return resolver, schema
        if errors := self._installed.errors(handle.plugin):
            raise errors[0]
        raise UnknownHandleError(self.unknown(handle), str(handle))

    def _candidates(self, plugin: str) -> list[Resolver]:
        """Return all resolvers that may know a plugin; loads the installed ones of the plugin."""
        return [*self._resolvers, *self._installed.load(plugin)]

    def unknown(self, handle: Handle) -> str:
        """Explain why no resolver fits a handle, and name the available plugins or forms."""
        candidates = self._candidates(handle.plugin)
        schemas = [s for found in candidates for s in found.schemas if s.plugin == handle.plugin]
        if not schemas and (errors := self._installed.errors(handle.plugin)):
            return str(errors[0])
        if not schemas:
            there = ", ".join(self.plugins) or "none"
            return (
                f"unknown plugin {handle.plugin!r}; registered: {there}; register it, or install "
                "the package that brings it, by an entry point of the group 'sessiontree.handles'"
            )
        names = ", ".join(schema.name for schema in schemas)
        has_method = any(schema.method == handle.method for schema in schemas)
        if not has_method and any(schema.includes(handle.version) for schema in schemas):
            return f"{handle.plugin} has no method {handle.method!r}; registered: {names}"
        return f"no resolver for version {handle.version} of {handle.plugin}; registered: {names}"


class _Installed:
    """The plugins of installed packages: the entry points with the name of each."""

    def __init__(self, *, plugins: bool) -> None:
        self._scanning = threading.Lock()
        self._points: dict[str, dict[EntryPoint, None]] | None = None if plugins else {}
        self._making = threading.RLock()  # a resolver may resolve handles while it is made
        self._loaded: dict[EntryPoint, Resolver | str] = {}  # the resolver, or why there is none

    def plugins(self) -> Mapping[str, Iterable[EntryPoint]]:
        """All plugins; the first call scans the installed packages."""
        with self._scanning:
            if self._points is None:
                from importlib.metadata import entry_points  # slow to import

                points: defaultdict[str, dict[EntryPoint, None]] = defaultdict(dict)
                for point in entry_points(
                    group="sessiontree.handles"
                ):  # a package may be there twice
                    points[point.name][point] = None
                self._points = dict(points)
            return self._points

    def load(self, plugin: str) -> list[Resolver]:
        """The resolvers of a plugin that can be loaded; each is loaded once."""
        loaded = map(self._load, self.plugins().get(plugin, ()))
        return [resolver for resolver in loaded if not isinstance(resolver, str)]

    def _load(self, point: EntryPoint) -> Resolver | str:
        if point in self._loaded:
            return self._loaded[point]
        try:
            found = point.load()  # outside the lock: other threads may wait for the same import
            with self._making:
                if point not in self._loaded:
                    self._loaded[point] = _resolver(point, found)
        except (Exception, SystemExit) as error:  # whatever another package raises
            self._loaded.setdefault(
                point,
                f"the plugin {point.name!r} cannot be loaded from {point.value}: "
                f"{type(error).__name__}: {error}; repair or remove its package",
            )
        return self._loaded[point]

    def errors(self, plugin: str) -> list[UnknownHandleError]:
        """Why resolvers of a plugin could not be loaded, each a new error to raise."""
        loaded = ((point, self._loaded.get(point)) for point in self.plugins().get(plugin, ()))
        return [UnknownHandleError(why, at.name) for at, why in loaded if isinstance(why, str)]


def _resolver(point: EntryPoint, found: Any) -> Resolver:
    """Return the resolver that an entry point names, checked; an instance if it is a class."""
    resolver: Resolver = found() if isinstance(found, type) else found
    _check_resolver(resolver)
    other = next((s.plugin for s in resolver.schemas if s.plugin != point.name), None)
    if other is not None:
        raise UsageError(f"its schemas are of {other!r}")
    return resolver


def _check_resolver(resolver: Any) -> None:
    schemas = getattr(resolver, "schemas", None)
    if not isinstance(schemas, list | tuple) or not schemas:
        fault = "its `schemas` is not a list of HandleSchema"
    elif not all(isinstance(schema, HandleSchema) for schema in schemas):
        fault = "its `schemas` holds something other than HandleSchema"
    elif not callable(getattr(resolver, "resolve", None)):
        fault = "it has no `resolve`"
    else:
        return
    raise UsageError(f"{resolver!r:.80} is not a resolver: {fault}")


def _ask(
    resolver: Resolver, handle: Handle, scope: ResolverScope, metadata: Mapping[str, Any]
) -> Any:
    """What a resolver returns for a handle; its own errors become a ResolverFailedError."""
    within = scope.entered(handle).about({handle: metadata})
    try:
        return called(resolver.resolve, handle, within, alone=True)
    except SessionTreeError:
        raise
    except Exception as error:
        raise _failed(handle, error) from error


def _ask_all(
    resolver: Resolver,
    handles: list[Handle],
    scope: ResolverScope,
    metadata: Mapping[Handle, Mapping[str, Any]],
) -> Iterator[Any]:
    """The data of each handle, or its error: of all at once if the resolver can."""
    resolve_many = getattr(resolver, "resolve_many", None)
    if resolve_many is None or len(handles) < 2:
        for handle in handles:
            try:
                yield _ask(resolver, handle, scope, metadata[handle])
            except SessionTreeError as error:
                yield error
        return
    try:
        found = list(called(resolve_many, handles, scope.deeper().about(metadata), alone=True))
        if len(found) != len(handles):
            raise ValueError(f"resolve_many returned {len(found)} results, not {len(handles)}")
    except SessionTreeError as error:
        found = [error] * len(handles)
    except Exception as error:
        found = [_failed(handle, error) for handle in handles]
    yield from found


def _failed(handle: Handle, error: Exception) -> ResolverFailedError:
    failed = ResolverFailedError(
        f"the resolver of {handle.plugin} failed on {handle}: {type(error).__name__}: {error}",
        str(handle),
    )
    failed.__cause__ = error
    return failed


def _parsed(handle: Handle | str | Mapping[str, Any]) -> Handle:
    return handle if isinstance(handle, Handle) else Handle.from_json(handle)[0]


def _resolved(handle: Handle, schema: HandleSchema, data: Any) -> ResolvedHandle:
    """What a resolver returned, checked; raises HandleDataError."""
    if isinstance(data, SessionTreeError):
        raise data
    if isinstance(data, Exception):
        raise _failed(handle, data) from data
    if isinstance(data, ResolvedHandle):
        found = type(data)(handle, data.kind, data.data, data.media_type)
        if found.kind == schema.kind and not isinstance(schema.resolves_to, str):
            schema.check_data(handle, json_of(handle, found.data))
        return found
    if schema.kind == "binary":
        return ResolvedHandle(handle, "binary", data, UNKNOWN_BYTES)
    body = json_of(handle, data)
    found = ResolvedHandle(handle, schema.kind, data)
    schema.check_data(handle, body)
    return found


def json_of(handle: Handle, data: Any) -> bytes:
    """The data of a handle as JSON; HandleDataError if it is none."""
    try:
        return dumps(data)
    except EntryError as error:
        raise HandleDataError(f"{handle} resolved to {error}", str(handle)) from error
