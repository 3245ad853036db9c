"""Recovery: looking a session file over, and mending what can be mended.

Repair guesses nothing. It takes out what carries nothing (NUL bytes, blank
lines, torn fragments), puts back what was only pushed together or dressed up
(fused lines, CR LF, a byte order mark, a missing final newline), and adopts the
lines that an older program appended without uuids. Entries that lost their
parent, wrong checksums and uuids that stand twice stay as they are, and are named.

Invariants: the original is kept whole beside the file before anything else; the
new file takes its place under the writer's lock, at once; a line that is sound
is carried over byte for byte; mending what was mended changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sessiontree.core.adoption import Adoption
from sessiontree.core.codec import crc, decode, is_sealed
from sessiontree.core.damage import Damage, ignore
from sessiontree.core.verification import Verification
from sessiontree.storage.journal import Journal, replace_file
from sessiontree.storage.lines import whole_lines
from sessiontree.storage.view import View

_SPACE: Final = re.compile(r"\s*")

Progress = Callable[[int, int], None]
"""Takes the bytes done and the bytes in all."""


class Mending(msgspec.Struct, frozen=True):
    """What repair does to one line.

    Attributes:
        line: the number of the line in the file before, from 1.
        offset: the byte offset of the line.
        what: what was done, in words.
    """

    line: int
    offset: int
    what: str


class Repair(msgspec.Struct, frozen=True):
    """The outcome of a repair.

    Attributes:
        mended: what was done, in file order; empty where nothing had to be.
        evidence: the path of the original, kept whole; None where nothing was done.
        remaining: what is damaged still.
    """

    mended: list[Mending]
    evidence: str | None
    remaining: list[Damage]


def verify(journal: Journal, progress: Progress | None = None) -> list[Damage]:
    """Everything that is not sound in a file, in file order."""
    view = View(journal)
    verification = Verification(view.report)
    for offset, block in whole_lines(journal.read, 0, view.complete):
        verification.take_block(block, offset)
        if progress is not None:
            progress(offset + len(block), view.size)
    if not view.reads_to_end:
        rest = journal.read(view.size - view.complete, view.complete)
        verification.take(rest, view.complete)
        if decode(rest, view.complete, ignore) is not None:
            view.report("open end", view.complete, "the last line has no newline")
    verification.finish()
    return view.damage


def repair(journal: Journal, *, dry_run: bool = False) -> Repair:
    """Mend a file in place of itself; with `dry_run` only say what would be done.

    The lock must be held.
    """
    mended: list[Mending] = []
    for _ in _mended_lines(View(journal), mended):
        pass
    if not mended or dry_run:
        return Repair(mended, None, verify(journal))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    suffix = f".damaged-{stamp}"
    lines = _mended_lines(View(journal), [])
    replace_file(journal.fs, journal.path, suffix, (line + b"\n" for line in lines))
    journal.reopen()
    return Repair(mended, journal.path + suffix, verify(journal))


def _mended_lines(view: View, mended: list[Mending]) -> Iterator[bytes]:
    """The lines of the file as they should be; what was done to them goes to `mended`."""
    adoption = Adoption()
    for number, (offset, line) in enumerate(view.lines(), 1):

        def note(what: str, number: int = number, offset: int = offset) -> None:
            mended.append(Mending(number, offset, what))

        for bare in _bare_lines(line, note):
            yield adoption.take(bare, note)
    if not view.reads_to_end:
        mended.append(Mending(number, offset, "ended the last line with a newline"))


def _bare_lines(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """What a line holds, without what carries nothing."""
    bare = line
    if bare.strip(b"\0") != bare:
        bare = bare.strip(b"\0")
        note(f"took out {len(line) - len(bare)} NUL bytes")
    if bare.startswith(b"\xef\xbb\xbf"):
        bare = bare[3:]
        note("took out a byte order mark")
    if bare.endswith(b"\r"):
        bare = bare[:-1]
        note("took out a CR before the newline")
    if not bare.strip():
        if bare == line:
            note("took out a blank line")
        return []
    if _is_json(bare):
        return [bare]
    return _apart(bare, note)


def _is_json(line: bytes) -> bool:
    kinds: list[str] = []
    decode(line, 0, lambda kind, offset, cause: kinds.append(kind))
    return "json" not in kinds


def _apart(line: bytes, note: Callable[[str], None]) -> list[bytes]:
    """The entries of a line that is no JSON: those fused in it, and none for a fragment."""
    entries, rest = _whole_objects(line)
    if not rest:
        note(f"put {len(entries)} entries that shared a line on lines of their own")
        return entries
    sealed = _sealed_end(rest)
    if sealed is not None:
        entries.append(sealed)
        rest = rest[: len(rest) - len(sealed)]
    kept = f", and kept the {len(entries)} whole entries beside it" if entries else ""
    note(f"took out a torn fragment of {len(rest)} bytes{kept}")
    return entries


def _whole_objects(line: bytes) -> tuple[list[bytes], bytes]:
    """The JSON objects that stand at the start of a line, and what follows them."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return [], line
    found: list[bytes] = []
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        if not _is_entry(value):
            break
        found.append(text[at:end].encode())
        at = _SPACE.match(text, end).end()  # type: ignore[union-attr]
    return found, text[at:].encode()


def _is_entry(value: Any) -> bool:
    return (
        isinstance(value, dict) and isinstance(value.get("type"), str) and bool(value.get("uuid"))
    )


def _sealed_end(rest: bytes) -> bytes | None:
    """The entry that ends these bytes, if its checksum proves where it starts."""
    if not is_sealed(rest):
        return None
    at = rest.rfind(b'{"type":"')
    while at >= 0:
        if crc(rest[at:-18]) == rest[-10:-2] and decode(rest[at:], 0, ignore) is not None:
            return rest[at:]
        at = rest.rfind(b'{"type":"', 0, at)
    return None
