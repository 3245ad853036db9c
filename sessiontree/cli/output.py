"""How entries, messages and other values are printed: in words, or as JSON.

Invariants: JSON is printed as it is stored; a control character in it is escaped,
which changes no value.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import msgspec
import orjson

from sessiontree.cli.terminal import out, short, tell, write
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, block_preview, blocks_of, preview_of, role_of
from sessiontree.text.preview import preview as entry_preview
from sessiontree.text.preview import role as entry_role
from sessiontree.text.preview import shown


def out_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    write(_as_json(value) + "\n")


def out_json_list(values: Iterable[Any]) -> None:
    """Print a JSON list, each value in a line of its own as it comes."""
    before = "["
    for value in values:
        write(before + _as_json(value))
        before = ",\n"
    write("]\n" if before != "[" else "[]\n")


def _as_json(value: Any) -> str:
    if isinstance(value, Entry):
        return _escaped(_stored(value))
    try:
        return _escaped(msgspec.json.encode(value).decode())
    except UnicodeEncodeError:  # a lone surrogate, which JSON can spell and UTF-8 cannot
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def _stored(entry: Entry) -> str:
    """An entry's line as stored; a damaged one by what could be decoded of it."""
    try:
        text = entry.line.decode()
        _check_json(text)
    except (ValueError, RecursionError):
        return json.dumps(dict(entry.as_stored), separators=(",", ":"))
    return text.strip().replace("\r", " ")


def _check_json(text: str) -> None:
    """Refuse what is no JSON; the standard library allows some that is, and orjson refuses."""
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        json.loads(text, parse_constant=int)  # int() refuses NaN and the infinities


def _escaped(text: str) -> str:
    """JSON with the characters that drive a terminal, or that it cannot show, as \\u escapes."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    is_utf_8 = encoding.lower() in ("utf-8", "utf8")
    if text.isprintable() and (is_utf_8 or text.isascii()):
        return text
    return "".join(
        c if printable(c) and (is_utf_8 or c.isascii()) else json.dumps(c)[1:-1] for c in text
    )


def named(entry: Entry) -> str:
    """An entry in a few words, for what is told."""
    words = ": ".join(filter(None, (speaker(entry), entry_preview(entry))))
    return f"{short(entry.uuid)} ({words})"


def speaker(entry: Entry) -> str:
    """The role an entry speaks in, else its type."""
    return one_line(entry_role(entry) or entry.type)


def out_written(entry: Entry, done: str, *, as_json: bool) -> None:
    """Print the entry that was written, for scripts to go on with, and tell what was done."""
    tell(done)
    if as_json:
        out_json(entry)
    else:
        out(entry.uuid)


def out_message(message: Message) -> None:
    """Print a message: its role, and its text beside it."""
    first, *others = text_of_message(message).split("\n")
    out(f"{one_line(role_of(message)):<18}{first}".rstrip())
    for line in others:
        out(f"{'':18}{line}".rstrip())


def text_of_message(message: Message) -> str:
    """All a message says, its calls and results in short."""
    parts = [block_preview(block) for block in blocks_of(shown(message))]
    parts.append(preview_of({key: value for key, value in message.items() if key != "content"}))
    if message.get("role") == "bashExecution":
        parts.append(str(message.get("output", "")))
    return "\n".join(part.rstrip() for part in parts if part.strip())
