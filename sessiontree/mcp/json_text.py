"""One entry of an object in JSON text with comments, put in and taken out by changes of the text.

Invariant: all other bytes stay, with their comments, their order and their spaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sessiontree.errors import UsageError

_STRINGS_AND_COMMENTS: Final = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|\ufeff', re.DOTALL
)
_TRAILING_COMMA: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_SPACE: Final = re.compile(r"\s*")
_DECODER: Final = json.JSONDecoder()


class _Member(NamedTuple):
    key: str
    start: int  # of the key
    at: int  # of the value
    end: int
    value: Any


class _Object(NamedTuple):
    start: int  # of the brace
    end: int  # behind the brace
    members: list[_Member]

    def get(self, key: str) -> _Member | None:
        found = [member for member in self.members if member.key == key]
        if len(found) > 1:
            raise UsageError(f"it has the key {key!r} twice")
        return found[0] if found else None


def with_entry(text: str, group: str, name: str, value: Mapping[str, Any]) -> str:
    """Put an entry into an object of the top object; keep what else stands in an older entry.

    Raises:
        UsageError: the text is not an object of JSON, or `group` is something else.
    """
    bare = _bare(text)
    if not bare.strip():
        return text + json.dumps({group: {name: value}}, indent=2, ensure_ascii=False) + "\n"
    top = _object(bare, _SPACE.match(bare).end(), "the file")  # type: ignore[union-attr]
    found = top.get(group)
    if found is None:
        return _added(text, bare, top, group, {name: value}, _unit(text, top))
    servers = _object(bare, found.at, repr(group))
    old = servers.get(name)
    if old is None:
        return _added(text, bare, servers, name, value, _unit(text, top))
    new = {**old.value, **value} if isinstance(old.value, dict) else dict(value)
    if new == old.value:
        return text
    shown = _shown(new, _indent(text, old.start), _unit(text, top), _line_end(text, servers))
    return text[: old.at] + shown + text[old.end :]


def without_entry(text: str, group: str, name: str) -> str:
    """Take an entry out of an object of the top object; the same text if it is not there.

    Raises:
        UsageError: the text is not an object of JSON, or `group` is something else.
    """
    bare = _bare(text)
    if not bare.strip():
        return text
    top = _object(bare, _SPACE.match(bare).end(), "the file")  # type: ignore[union-attr]
    found = top.get(group)
    if found is None:
        return text
    servers = _object(bare, found.at, repr(group))
    old = servers.get(name)
    if old is None:
        return text
    place = servers.members.index(old)
    start = len(text[: old.start].rstrip())
    if place < len(servers.members) - 1:
        comma = bare.index(",", old.end)
        return text[:start] + text[old.end : comma] + text[comma + 1 :]
    end = old.end
    own_comma = _without_comments(text).find(",", end, servers.end)
    if own_comma >= 0:
        return text[:start] + text[end:own_comma] + text[own_comma + 1 :]
    if len(servers.members) == 1:
        rest = text[end : servers.end - 1]
        return text[:start] + ("" if not rest.strip() else rest) + text[servers.end - 1 :]
    comma = bare.index(",", servers.members[place - 1].end)
    return text[:comma] + text[comma + 1 : start] + text[end:]


def _bare(text: str) -> str:
    """The text as plain JSON, each character at its place; an error says why it is not JSON."""

    bare = _TRAILING_COMMA.sub(
        lambda found: found[0] if found[0][0] == '"' else " ", _without_comments(text)
    )
    if bare.strip():
        try:
            json.loads(bare)
        except (json.JSONDecodeError, RecursionError) as error:
            where = f"line {error.lineno}: " if isinstance(error, json.JSONDecodeError) else ""
            what = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deep"
            raise UsageError(f"it is not JSON: {where}{what}") from error
    return bare


def _object(bare: str, start: int, what: str) -> _Object:
    if bare[start] != "{":
        raise UsageError(f"{what} is not an object")
    members: list[_Member] = []
    at = _past(bare, start + 1)
    while bare[at] != "}":
        key, end = _DECODER.raw_decode(bare, at)
        value_at = _past(bare, _past(bare, end) + 1)
        value, value_end = _DECODER.raw_decode(bare, value_at)
        members.append(_Member(key, at, value_at, value_end, value))
        at = _past(bare, value_end)
        if bare[at] == ",":
            at = _past(bare, at + 1)
    return _Object(start, at + 1, members)


def _past(bare: str, at: int) -> int:
    """The place of the first character that is not a space."""
    found = _SPACE.match(bare, at)
    assert found is not None
    return found.end()


def _added(text: str, bare: str, to: _Object, key: str, value: Any, unit: str) -> str:
    """The text with one more member at the end of an object."""
    name = json.dumps(key)
    last = to.members[-1] if to.members else None
    if last is not None and "\n" not in text[to.start : last.start]:  # all on one line
        entry = f", {name}: {json.dumps(value, ensure_ascii=False)}"
        return text[: last.end] + entry + text[last.end :]
    line = _line_end(text, to)
    outer = _indent(text, to.start)
    inner = _indent(text, last.start) if last is not None else outer + unit
    entry = f"{line}{inner}{name}: {_shown(value, inner, unit, line)}"
    end = len(text[: to.end - 1].rstrip())
    if last is None:
        rest = text[end : to.end - 1]
        rest = rest if "\n" in rest else f"{line}{outer}"
        return text[:end] + entry + rest + text[to.end - 1 :]
    if _without_comments(text).find(",", last.end, to.end) >= 0:  # a comma stands behind the last
        return text[:end] + entry + "," + text[end:]
    return text[: last.end] + "," + text[last.end : end] + entry + text[end:]


def _without_comments(text: str) -> str:
    """The text with spaces in place of its comments."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])

    return _STRINGS_AND_COMMENTS.sub(blank, text)


def _shown(value: Any, indent: str, unit: str, line: str) -> str:
    """A value as JSON, its further lines indented."""
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line + indent)


def _line_end(text: str, near: _Object) -> str:
    return "\r\n" if "\r\n" in text[: near.end] else "\n"


def _indent(text: str, at: int) -> str:
    """The spaces at the start of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())].lstrip("\ufeff")


def _unit(text: str, top: _Object) -> str:
    """One step of indentation."""
    first = top.members[0].start if top.members else top.start
    return (
        _indent(text, first) if "\n" in text[top.start : first] and _indent(text, first) else "  "
    )
