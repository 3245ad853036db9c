"""One table in TOML text, put in and taken out by changes of the text.

Invariants: all other bytes stay; a change that would alter any other value is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.errors import UsageError

_HEADER: Final = re.compile(r"\s*\[")
_NOTHING: Final = re.compile(r"\s*(#.*)?$")


def with_table(text: str, group: str, name: str, value: Mapping[str, Any]) -> str:
    """Put the table `[group.name]` in; keep what else stands in an older one.

    Raises:
        UsageError: the text is not TOML, or the table cannot be put in without other changes.
    """
    before = _parsed(text)
    old = _entry(before, group, name)
    new = {**old, **value} if old is not None else dict(value)
    if old == new:
        return text
    line = "\r\n" if "\r\n" in text else "\n"
    keys = [f"{key} = {_shown(one)}" for key, one in value.items()]
    if old is None:
        if text and not text.endswith("\n"):
            text += line
        gap = line if text.strip() else ""
        changed = text + gap + "".join(f"{each}{line}" for each in [f"[{group}.{name}]", *keys])
    else:
        lines = text.splitlines(keepends=True)
        start, end = _block(lines, group, name)
        rest = _without_keys(lines[start + 1 : end], value)
        made = [lines[start], *(f"{each}{line}" for each in keys), *rest]
        changed = "".join([*lines[:start], *made, *lines[end:]])
    return _checked(changed, before, group, name, new)


def without_table(text: str, group: str, name: str) -> str:
    """Take the table `[group.name]` out, with the tables below it; the same text without one.

    Raises:
        UsageError: the text is not TOML, or the table cannot be taken out without other changes.
    """
    before = _parsed(text)
    if _entry(before, group, name) is None:
        return text
    lines = text.splitlines(keepends=True)
    while (found := _find(lines, group, name)) is not None:
        start, end = found
        if start and not lines[start - 1].strip():  # the line that sets the table apart
            start -= 1
        del lines[start:end]
    return _checked("".join(lines), before, group, name, None)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"it is not TOML: {error}") from error


def _entry(parsed: Mapping[str, Any], group: str, name: str) -> dict[str, Any] | None:
    servers = parsed.get(group, {})
    found = servers.get(name) if isinstance(servers, dict) else None
    if not isinstance(servers, dict) or not (found is None or isinstance(found, dict)):
        raise UsageError(f"{group!r} in it is not a table of tables")
    return found


def _checked(
    text: str, before: dict[str, Any], group: str, name: str, value: dict[str, Any] | None
) -> str:
    """The text, if it says the same as before but for the one table."""
    servers = {key: one for key, one in before.get(group, {}).items() if key != name}
    if value is not None:
        servers[name] = value
    wanted = {key: one for key, one in before.items() if key != group}
    try:
        found = _parsed(text)
    except UsageError:
        found = {}
    if servers or found.get(group) == {}:
        wanted[group] = servers
    if found != wanted:
        raise UsageError(
            f"the table [{group}.{name}] cannot be changed without changing other lines: {group} "
            "is not written as tables with headers"
        )
    return text


def _block(lines: list[str], group: str, name: str) -> tuple[int, int]:
    found = _find(lines, group, name)
    if found is None:
        raise UsageError(f"[{group}.{name}] is not written as a table with a header")
    return found


def _find(lines: list[str], group: str, name: str) -> tuple[int, int] | None:
    """The lines of the first table with the name, or below it; without comments at the end."""
    wanted = re.compile(
        rf"""\s*\[\s*["']?{re.escape(group)}["']?\s*\.\s*["']?{re.escape(name)}["']?\s*[\].]"""
    )
    start = next(
        (n for n, line in enumerate(lines) if wanted.match(line) and _begins(lines, n)), None
    )
    if start is None:
        return None
    after = range(start + 1, len(lines))
    end = next((n for n in after if _HEADER.match(lines[n]) and _begins(lines, n)), len(lines))
    while _NOTHING.match(lines[end - 1]):
        end -= 1
    return start, end


def _begins(lines: list[str], number: int) -> bool:
    """Whether a line is one of TOML's own, and not of an array or of a text."""
    return _is_whole("".join(lines[:number]))


def _without_keys(lines: list[str], keys: Mapping[str, Any]) -> list[str]:
    """Lines without the values of keys, which may go over several lines."""
    rest: list[str] = []
    number = 0
    while number < len(lines):
        key = lines[number].partition("=")[0].strip().strip("\"'")
        if key not in keys:
            rest.append(lines[number])
            number += 1
            continue
        end = number + 1
        while end < len(lines) and not _is_whole("".join(lines[number:end])):
            end += 1
        number = end
    return rest


def _is_whole(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _shown(value: Any) -> str:
    """A text or a list of texts as TOML, whose texts are written as those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
