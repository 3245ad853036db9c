"""Schemas of handles: what their meta means, and what they resolve to.

A range of versions is one or more conditions, all of which hold: `1` or `1.x`
(any 1), `1.2` (any 1.2), `1.2.3`, `>=1.2`, `<2`, `*`. A condition compares as
many numbers as it gives, so `<2` also excludes `2.0.0-rc.1`; one with three
numbers uses the precedence of semantic versioning (semver.org 2.0.0, 11).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr

from sessiontree.core.entry import decode_leniently
from sessiontree.core.handle import EARLY, KINDS, NUMBER, Handle, Kind
from sessiontree.errors import HandleDataError, HandleSchemaError, ResolverFailedError, UsageError


class MetaField(msgspec.Struct, frozen=True):
    """A field of a handle schema, which describes one part of a handle's meta.

    Attributes:
        name: the name of the part.
        required: whether a handle must have the part; optional parts come last.
        prefix: the first characters of the part, such as `msg-`.
        pattern: a regular expression for the characters after the prefix.
        form: a description of the pattern for people, such as `a number from 1`.
    """

    name: str
    required: bool = True
    prefix: str = ""
    pattern: str | None = None
    form: str = ""

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
    """A description of the handles of one method of a plugin.

    Attributes:
        plugin, method: the plugin and the method of the handles.
        versions: the versions of the handles: one or more conditions with spaces between them,
            such as `1` or `1.x` (any 1), `1.2` (any 1.2), `1.2.3`, `>=1.2 <2`, `*` (any).
        meta: a field for each part of meta.
        kind: the kind of data that the handles resolve to.
        resolves_to: a description of the data for people, as text; or a JSON schema, which the
            data must fit (not for `binary`). A `$ref` to another address is not followed.
    """

    plugin: str
    method: str
    versions: str = "*"
    meta: Sequence[MetaField] = ()
    kind: Kind = "document"
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
        # slow to import, and few schemas are JSON schemas
        from jsonschema import SchemaError  # type: ignore[import-untyped, unused-ignore]

        if self.kind == "binary":
            raise UsageError(
                f"resolves_to of {self.name} is a JSON schema, and the data of the kind binary is "
                "bytes; give a text"
            )
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


Precedence = tuple[tuple[int, ...], tuple[Any, ...]]

_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
}
_CONDITION: Final = re.compile(
    rf"(>=|<=|>|<|=|)({NUMBER})(?:\.({NUMBER})(?:\.({NUMBER})({EARLY})?|\.x)?|(?:\.x){{1,2}})?"
)


@lru_cache(maxsize=256)  # the handles of a session have few versions
def _is_within(version: str, versions: str) -> bool:
    found = _precedence(version)
    return all(holds(found) for holds in _conditions(versions))


def _conditions(versions: str) -> list[Callable[[Precedence], bool]]:
    if versions.strip() == "*":
        return []
    conditions = [_condition(text) for text in versions.split()]
    if not conditions:
        raise UsageError("a range of versions is empty; give '*' for any")
    return conditions


def _precedence(version: str) -> Precedence:
    numbers, _, early = version.partition("+")[0].partition("-")
    core = tuple(map(int, numbers.split(".")))
    if not early:
        return core, (1,)  # after every pre-release of the same three numbers
    return core, (0, *map(_identifier, early.split(".")))


def _identifier(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


def _condition(text: str) -> Callable[[Precedence], bool]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not a range of versions; give '1.x', '1.2', '>=1.2 <3' or '*'"
        )
    given = [part for part in found.group(2, 3, 4) if part]
    compare = _COMPARISONS[found[1] or "="]
    if len(given) == 3:
        whole = _precedence(".".join(given) + (found[5] or ""))
        return lambda version: compare(version, whole)
    numbers = tuple(map(int, given))
    return lambda version: compare(version[0][: len(numbers)], numbers)
