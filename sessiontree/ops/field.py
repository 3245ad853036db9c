"""What a field of a struct of parameters declares: for methods, and for people at a command.

Invariant: a parameter is described once, for all doors.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect as kinds_of

_DOOR: Final = "door"


class CommandForm(NamedTuple):
    """How people give a parameter to a command."""

    names: tuple[str, ...]
    """The options; for an argument its metavar."""

    metavar: str | None
    kind: str | None
    """What the text names, if its type does not say: `path`, `place`, `store`, `time`, …."""

    choices: tuple[str, ...]
    """The words in the order for people, if it is not that of the alphabet."""

    @property
    def is_option(self) -> bool:
        return self.names[0].startswith("-")


def opt(
    *names: str,
    help: str,
    metavar: str | None = None,
    kind: str | None = None,
    choices: tuple[str, ...] = (),
    **more: Any,
) -> msgspec.Meta:
    """Describe a parameter that is an option of the command; `more` as for `msgspec.Meta`.

    The value may be left out if the metavar is in brackets: it is then empty.
    """
    door = CommandForm(names, metavar, kind, choices)
    return msgspec.Meta(description=help, extra={_DOOR: door}, **more)


def arg(name: str, *, help: str, kind: str | None = None, **more: Any) -> msgspec.Meta:
    """Describe a parameter that is an argument of the command: `REF`, `[REF]`, `[DIR]…`.

    Where `…` follows the name of one value, the command does the operation for each of several.
    """
    return opt(name, help=help, kind=kind, **more)


only_for_people: Final = msgspec.Meta(extra={"for_people": True})
"""Keep a parameter out of the methods: only the command has it."""

optional_for_people: Final = msgspec.Meta(extra={"optional": True})
"""Let people leave out a parameter that methods need: it is None then."""


class Parameter(NamedTuple):
    """A parameter of an operation, as its field declares it."""

    name: str
    description: str
    type: kinds_of.Type
    """The type, without null and without what describes it."""

    default: Any
    """None if there is none, or if it is None."""

    is_required: bool
    names: str | None
    """What the text names: `session`."""

    door: CommandForm | None
    is_for_people: bool
    """True if methods do not have it."""

    is_optional: bool
    """True if people may leave it out, though methods need it."""

    @property
    def is_list(self) -> bool:
        return isinstance(self.type, kinds_of.ListType)

    @property
    def is_repeated(self) -> bool:
        """True if the command takes several, and does the operation for each."""
        door = self.door
        return door is not None and not self.is_list and door.names[0].rstrip("]").endswith("…")


def parameters(struct: type[msgspec.Struct]) -> list[Parameter]:
    """The parameters that the fields of a struct declare, those of its bases first."""
    return [_parameter(field) for field in kinds_of.type_info(struct).fields]  # type: ignore[attr-defined]


def _parameter(field: kinds_of.Field) -> Parameter:
    about: dict[str, Any] = {}
    kind = plain(field.type, about)
    default = None if field.default is msgspec.NODEFAULT else field.default
    if field.default_factory is not msgspec.NODEFAULT:
        default = field.default_factory()
    return Parameter(
        field.encode_name,
        about.get("description", ""),
        kind,
        default,
        field.required,
        about.get("names"),
        about.get(_DOOR),
        about.get("for_people", False),
        about.get("optional", False),
    )


def plain(kind: kinds_of.Type, about: dict[str, Any] | None = None) -> kinds_of.Type:
    """A type without null; `about` gets what describes it, the outermost first."""
    if isinstance(kind, kinds_of.Metadata):
        for key, value in {**(kind.extra_json_schema or {}), **(kind.extra or {})}.items():
            if about is not None:
                about.setdefault(key, value)
        return plain(kind.type, about)
    if isinstance(kind, kinds_of.UnionType):
        others = [each for each in kind.types if not isinstance(each, kinds_of.NoneType)]
        if len(others) == 1:
            return plain(others[0], about)
    return kind
