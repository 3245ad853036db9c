"""Values of JSON checked by the types of an SDK, which are read when a test runs.

A new version of an SDK brings its new keys, block types and literals along. No value fits a type
that JSON cannot have, such as a file or a `NotGiven`.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import typing_extensions
from typing_extensions import is_typeddict

_LISTS = (list, Iterable, Sequence, Collection)
_PLAIN: dict[Any, type] = {str: str, int: int, bool: bool, None: type(None), type(None): type(None)}
_REQUIRED = (Required, typing_extensions.Required)
_OPTIONAL = (NotRequired, typing_extensions.NotRequired)
_WRAPPERS = (Annotated, *_REQUIRED, *_OPTIONAL)


def faults(value: Any, kind: Any, place: str = "") -> list[str]:
    """Say where a value does not fit a type: unknown keys, missing keys, wrong values."""
    return list(_faults(value, _bare(kind), place))


def _faults(value: Any, kind: Any, place: str) -> Iterator[str]:
    origin = get_origin(kind)
    if kind in (Any, object):
        return
    if is_typeddict(kind):
        yield from _of_keys(value, kind, place)
    elif origin in (Union, types.UnionType):
        yield from _of_union(value, kind, place)
    elif origin is Literal or origin is typing_extensions.Literal:
        if value not in get_args(kind):
            yield f"{place}: {value!r:.60} is not one of {get_args(kind)!r:.200}"
    elif origin in _LISTS:
        if not isinstance(value, list):
            yield f"{place}: {value!r:.60} is not a list"
        else:
            (item,) = get_args(kind)
            for index, each in enumerate(value):
                yield from _faults(each, _bare(item), f"{place}[{index}]")
    elif origin in (dict, Mapping):
        if not isinstance(value, dict):
            yield f"{place}: {value!r:.60} is not an object"
        else:
            for key, each in value.items():
                yield from _faults(each, _bare(get_args(kind)[1]), f"{place}.{key}")
    elif not _is_plain(value, kind):
        yield f"{place}: {value!r:.60} is not a {getattr(kind, '__name__', kind)}"


def _is_plain(value: Any, kind: Any) -> bool:
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    expected = _PLAIN.get(kind) if kind is None or isinstance(kind, type) else None
    if expected is None or not isinstance(value, expected):
        return False
    return expected is not int or not isinstance(value, bool)


def _of_keys(value: Any, kind: Any, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place}: {value!r:.60} is not an object"
        return
    fields = fields_of(kind)
    for key in value.keys() - fields.keys():
        yield f"{place}: {kind.__name__} has no key {key!r}"
    for key, (field, is_required) in fields.items():
        if key in value:
            yield from _faults(value[key], field, f"{place}.{key}")
        elif is_required:
            yield f"{place}: {kind.__name__} needs the key {key!r}"


def _of_union(value: Any, kind: Any, place: str) -> Iterator[str]:
    """The faults by the member of a union that fits best."""
    members = _members(kind)
    named = [member for member in members if _is_named(value, member)]
    best: list[str] | None = None
    for member in named:
        found = list(_faults(value, member, place))
        if not found:
            return
        if best is None or len(found) < len(best):
            best = found
    if best is None:
        label = value.get("type") or value.get("role") if isinstance(value, dict) else value
        best = [f"{place}: no member of the union takes {label!r:.80}"]
    yield from best


@cache
def _members(kind: Any) -> tuple[Any, ...]:
    found: list[Any] = []
    for member in map(_bare, get_args(kind)):
        is_union = get_origin(member) in (Union, types.UnionType)
        found += _members(member) if is_union else [member]
    return tuple(found)


def _is_named(value: Any, member: Any) -> bool:
    """True if a value can be meant as a member: by its JSON type, and by literals as its `type`."""
    if not is_typeddict(member):
        origin = get_origin(member)
        is_object, is_list = origin in (dict, Mapping), origin in _LISTS
        return (isinstance(value, dict), isinstance(value, list)) == (is_object, is_list)
    return isinstance(value, dict) and all(
        value[key] in get_args(field)
        for key, (field, _) in fields_of(member).items()
        if get_origin(field) is Literal and isinstance(value.get(key), str)
    )


@cache
def fields_of(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The keys of a TypedDict, the type of each, and whether it must be there.

    The SDKs have their annotations as text, so `__required_keys__` knows no `Required`.
    """
    found: dict[str, tuple[Any, bool]] = {}
    for base in getattr(kind, "__orig_bases__", ()):
        if is_typeddict(base):
            found |= fields_of(base)
    for key, hint in hints_of(kind, include_extras=True).items():
        if key in found:
            continue
        is_required = get_origin(hint) in _REQUIRED
        if not is_required and get_origin(hint) not in _OPTIONAL:
            is_required = kind.__total__
        found[key] = _bare(hint), is_required
    return found


def _bare(kind: Any) -> Any:
    while get_origin(kind) in _WRAPPERS:
        kind = get_args(kind)[0]
    return kind
