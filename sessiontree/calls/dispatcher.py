"""Dispatcher: finds a method by its name, checks its parameters, and runs it as events.

Invariants:

- `call` raises nothing but what `take` raises.
- Each call ends with one `done`.
- Each event has its provenance, and the hash of all methods unless the caller does without it.
- A call of a method of this package loads no other namespace.
- A call gives any number of `progress`, `data` and `guidance`, at most one `error`, and last
  `done`, once. After an `error` comes nothing but `done`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import msgspec

from sessiontree.calls.scope import Scope
from sessiontree.core.display import masking
from sessiontree.errors import hearing
from sessiontree.ops import OWN
from sessiontree.ops.budget import TOKENS, as_builtins, fit
from sessiontree.ops.guidance import Refusal, nearest, refusal_of
from sessiontree.ops.operation import Method, Namespace, schema_hash
from sessiontree.ops.params import Call, Stopped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.redact.redaction import Redaction


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """What a call tells.

    Attributes:
        provenance: who tells it, as a path: `sessiontree/tree/render`.
        schema: the hash of all methods; when it changes, a client asks for the methods again.
            Empty if the call is made without it.
    """

    provenance: str
    schema: str


class Progress(Event, frozen=True, kw_only=True, tag="progress"):
    """How far the work is.

    Attributes:
        message: what is being done.
        fraction: how much of it is done, from 0 to 1; None if that is not known.
    """

    message: str
    fraction: float | None = None


class Data(Event, frozen=True, kw_only=True, tag="data"):
    """A result.

    Attributes:
        content_type: what the value is: `sessiontree.Drawing`, by the name of its schema.
        value: the value, as JSON has it.
        left_out: what was cut from the value to keep the budget, and how to get it.
    """

    content_type: str
    value: Any
    left_out: str | None = None


class Guidance(Event, frozen=True, kw_only=True, tag="guidance"):
    """What to do next.

    Attributes:
        kind: the kind of error, such as `unknown_method`; `warning` if the call goes on.
        next: what to do, as a sentence.
        available: the names that would do.
        example: parameters that would do.
        given: the name that was given, if it stands for more than one of the available names.
    """

    kind: str
    next: str
    available: list[str] = []
    example: dict[str, Any] | None = None
    given: str | None = None


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """Why there is no result.

    Attributes:
        message: what is wrong, and where.
        recoverable: whether the same method can succeed, with other parameters or later.
    """

    message: str
    recoverable: bool


class Done(Event, frozen=True, kw_only=True, tag="done"):
    """The end of the call."""


Take = Callable[[Event], object]
"""What gets the events of a call, one after the other."""

ENTRY_POINTS: Final = "sessiontree.namespaces"
"""The group of entry points by which other packages add namespaces."""

ROOT: Final = "sessiontree"
"""The start of every provenance."""


class Dispatcher:
    """Calls methods by their names.

    Args:
        scope: what the calls may reach.
        namespaces: the namespaces; by default those of this package and of the entry points.

    Attributes:
        needs: tells what the program that calls has to be started with before it offers a method;
            None: it does.
    """

    def __init__(self, scope: Scope, namespaces: Iterable[Namespace] | None = None) -> None:
        self.scope = scope
        self.needs: Callable[[Method], str | None] = lambda method: None
        self._given = None if namespaces is None else list(namespaces)

    @property
    def namespaces(self) -> dict[str, Namespace]:
        """The namespaces by their names."""
        return self._every[0]

    @property
    def problems(self) -> list[str]:
        """Why a namespace of another package does not take part."""
        return self._every[1]

    @cached_property
    def _every(self) -> tuple[dict[str, Namespace], list[str]]:
        """All namespaces, and the problems with them."""
        problems: list[str] = []
        given = self._given
        found = [*OWN.values(), *_plugged(problems)] if given is None else given
        namespaces: dict[str, Namespace] = {}
        for namespace in found:
            if namespaces.setdefault(namespace.name, namespace) is not namespace:
                problems += [f"there is more than one namespace {namespace.name!r}"]
        return namespaces, problems

    @cached_property
    def schema(self) -> str:
        """The hash of all methods."""
        return schema_hash(self.namespaces.values())

    @property
    def methods(self) -> dict[str, Method]:
        """All methods by their whole names."""
        return {
            method.full_name: method
            for namespace in self.namespaces.values()
            for method in namespace.methods.values()
        }

    def method(self, name: str) -> Method | None:
        """The method of a whole name; None if there is none."""
        first, _, second = name.partition(".")
        namespace = self._namespace(first)
        return None if namespace is None else namespace.methods.get(second)

    def call(
        self,
        name: str,
        params: Any,
        take: Take,
        *,
        stop: threading.Event | None = None,
        hashed: bool = True,
    ) -> None:
        """Call a method, and give each event to `take`.

        Args:
            name: the namespace and the method, as `tree.render`.
            params: the parameters: a mapping, as JSON has it.
            take: gets the events.
            stop: when it is set, the work stops at its next report.
            hashed: whether the events have the hash of all methods. The first hash needs the
                schemas of all methods, which takes longer than most calls.
        """
        told = _EventEmitter(take, self.schema if hashed else "", masked=self.scope.redact)
        try:
            self._run(name, params, told, stop or threading.Event())
            told.done()
        except _SinkError as error:
            raise error.cause from None

    def _run(self, name: str, params: Any, told: _EventEmitter, stop: threading.Event) -> None:
        try:
            method = self._method(name, told)
            given = _converted(method, params)
            with (
                hearing(lambda text, _: told.guidance("warning", text)),
                masking(told.text_mask),
                Call(self.scope, told, stop, self) as call,
            ):
                result = as_builtins(method.answer(call, given))
            value, left_out = fit(told.mask_all(result), getattr(given, "budget", TOKENS))
        except Stopped:
            told.refuse(Refusal("the call was stopped", "stopped", "Call again."))
        except Exception as error:
            told.refuse(refusal_of(error))
        else:
            told.data(method.content_type, value, left_out)

    def _method(self, name: str, told: _EventEmitter) -> Method:
        if not isinstance(name, str) or "." not in name:
            raise Refusal(
                f"{name!r:.100} has no dot: a call names a namespace and a method",
                "bad_name",
                "Call a method as 'tree.render'; schema.list lists all.",
                self.namespaces,
            )
        first, _, second = name.partition(".")
        namespace = self._namespace(first)
        if namespace is None:
            near = nearest(first, self.namespaces)
            raise Refusal(
                f"there is no namespace {first!r:.100}{near}",
                "unknown_namespace",
                "Call a method of one of the available namespaces.",
                self.namespaces,
            )
        told.provenance = f"{ROOT}/{first}"
        method = namespace.methods.get(second)
        if method is None:
            near = nearest(second, namespace.methods)
            raise Refusal(
                f"{first} has no method {second!r:.100}{near}",
                "unknown_method",
                "Call one of the available methods.",
                [each.full_name for each in namespace.methods.values()],
            )
        told.provenance = f"{ROOT}/{first}/{second}"
        return method

    def _namespace(self, name: str) -> Namespace | None:
        """The namespace of a name; one of this package is loaded without the others."""
        if self._given is None and name in OWN:
            return OWN[name]
        return self.namespaces.get(name)


def _plugged(problems: list[str]) -> Iterable[Namespace]:
    """The namespaces of other packages; `problems` gets why one cannot be loaded."""
    from importlib.metadata import entry_points  # slow to import, few calls need it

    for point in entry_points(group=ENTRY_POINTS):
        try:
            yield _loaded(point)
        except (Exception, SystemExit) as error:  # whatever another package raises
            said = ": ".join(filter(None, (type(error).__name__, str(error))))
            problems.append(f"{point.name} ({point.value}) cannot be loaded: {said}")


def _loaded(point: EntryPoint) -> Namespace:
    """The namespace of an entry point, whose schemas can be made."""
    found = point.load()
    if not isinstance(found, Namespace):
        raise TypeError("it is not a Namespace")
    schema_hash([found])
    return found


def _converted(method: Method, params: Any) -> msgspec.Struct:
    """The parameters as the method takes them; a refusal says which does not fit, and why."""
    known = method.params_schema["properties"]
    if not isinstance(params, Mapping):
        what = "null" if params is None else type(params).__name__
        raise Refusal(
            f"the parameters of {method.full_name} are an object, not {what}",
            "bad_parameter",
            "Give the parameters by their names.",
            known,
            method.example,
        )
    for name in params:
        if name not in known:
            raise Refusal(
                f"{method.full_name} has no parameter {name!r:.100}{nearest(str(name), known)}",
                "bad_parameter",
                "Give only the available parameters.",
                known,
                method.example,
            )
    try:
        return msgspec.convert(dict(params), method.params)
    except (msgspec.ValidationError, RecursionError, UnicodeEncodeError) as error:
        legal = _legal_values(method, str(error))
        raise Refusal(
            f"a parameter of {method.full_name} does not fit: {error}",
            "bad_parameter",
            "Give one of the available values." if legal else _CHANGE,
            legal or known,
            method.example,
        ) from None


_CHANGE: Final = "Change that parameter, and call again."


def _legal_values(method: Method, error: str) -> list[str]:
    """The values that the parameter takes that an error is about, if it takes only some."""
    name = error.rpartition("`$.")[2].rstrip("`")
    schema = method.params_schema["properties"].get(name, {})
    for each in (schema, *schema.get("anyOf", ())):
        if "enum" in each:
            return [value for value in each["enum"] if value is not None]
    return []


class _SinkError(BaseException):
    """What takes the events raised an error, which goes on to the caller.

    It is no `Exception`, so that no method takes it for an error of its own.
    """

    def __init__(self, cause: BaseException) -> None:
        super().__init__(cause)
        self.cause = cause


class _EventEmitter:
    """Makes the events of one call: with their provenance, the hash, and secrets masked."""

    def __init__(self, take: Take, schema: str, *, masked: bool) -> None:
        self.provenance = ROOT
        self._take = take
        self._schema = schema
        self._masked = masked

    @cached_property
    def _redaction(self) -> Redaction:
        return _redaction()

    @property
    def text_mask(self) -> Callable[[str], str] | None:
        """What masks each text before it is cut; None: nothing is masked."""
        return self._redaction.text if self._masked else None

    def mask(self, value: Any) -> Any:
        """A part of the result with its secrets masked, if they are to be.

        A secret has the same mask in all parts of a call.
        """
        return self._redaction.value(value) if self._masked else value

    def mask_all(self, value: Any) -> Any:
        """The same for what is told. Parts that were masked before stay as they are."""
        return _redaction().value(value) if self._masked else value

    def progress(self, message: str, fraction: float | None) -> None:
        self._give(Progress, message=self.mask_all(message), fraction=fraction)

    def data(self, content_type: str, value: Any, left_out: str | None) -> None:
        self._give(Data, content_type=content_type, value=value, left_out=left_out)

    def guidance(
        self,
        kind: str,
        next: str,
        available: Sequence[str] = (),
        example: dict[str, Any] | None = None,
        given: str | None = None,
    ) -> None:
        self._give(
            Guidance,
            kind=kind,
            next=self.mask_all(next),
            available=self.mask_all(list(available)),
            example=example,
            given=given,
        )

    def refuse(self, refusal: Refusal) -> None:
        self.guidance(refusal.kind, refusal.next, refusal.available, refusal.example, refusal.given)
        message = self.mask_all(str(refusal))
        self._give(Error, message=message, recoverable=refusal.recoverable)

    def done(self) -> None:
        self._give(Done)

    def _give(self, type: type[Event], /, **fields: Any) -> None:
        event = type(provenance=self.provenance, schema=self._schema, **fields)
        try:
            self._take(event)
        except BaseException as error:
            raise _SinkError(error) from error


def _redaction() -> Redaction:
    from sessiontree.redact.redaction import Redaction  # slow: it compiles all rules

    return Redaction()
