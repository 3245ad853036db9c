"""Entries, messages and other values as text for people, or as JSON.

Invariants: an entry is printed as JSON as it is stored; a control character in JSON is
escaped, which changes no value.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from sessiontree.cli.terminal import mask_with, out, short, tell, write
from sessiontree.core.damage import NEXT_STEP, Damage
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message, speaker_of
from sessiontree.core.usage import Usage
from sessiontree.text.amounts import about, counted, dollars
from sessiontree.text.preview import preview as entry_preview
from sessiontree.text.preview import speaker as entry_speaker

if TYPE_CHECKING:
    from sessiontree.agents.writing import Loss
    from sessiontree.redact.redaction import Redaction

_MAX_PLACES: Final = 8


def tell_losses(agent: str, losses: Iterable[Loss]) -> None:
    """Say what a converted session does not keep; lanes with the same loss share a line."""
    kinds: dict[str, list[Loss]] = {}
    for loss in losses:
        kinds.setdefault(re.sub("lane '.*?'", "lane", loss.what), []).append(loss)
    for first, *others in kinds.values():
        more = f"; so it is with {counted(len(others), 'other lane')}" if others else ""
        tell(f"Not kept in {agent}: {first}{more}")


def out_json(value: Any) -> None:
    """Print a value as one line of JSON; one with `as_dict` in the shape that it gives."""
    write(_as_json(value) + "\n")


def out_json_indented(value: Any) -> None:
    """Print a value of dicts, lists, texts and numbers as JSON that people read."""
    write(_escaped(json.dumps(value, ensure_ascii=False, indent=2)) + "\n")


def out_json_list(values: Iterable[Any]) -> int:
    """Print a JSON list, each value in a line of its own as it comes; the number of values."""
    count = 0
    for count, value in enumerate(values, 1):
        write(("[" if count == 1 else ",\n") + _as_json(value))
    write("]\n" if count else "[]\n")
    return count


def _as_json(value: Any) -> str:
    if isinstance(value, Entry):
        return _escaped(_stored(value))
    has_shape = not isinstance(value, dict) and hasattr(value, "as_dict")
    plain = value.as_dict() if has_shape else value
    try:
        return _escaped(msgspec.json.encode(plain).decode())
    except UnicodeEncodeError:  # a lone surrogate: JSON can spell it, UTF-8 cannot
        return json.dumps(msgspec.to_builtins(plain), separators=(",", ":"))


def _stored(entry: Entry) -> str:
    """An entry's line as stored; for a damaged line, what could be decoded of it."""
    try:
        text = entry.line.decode()
        try:
            orjson.loads(text)
        except orjson.JSONDecodeError:  # it may be JSON still: the standard library accepts more
            json.loads(text, parse_constant=int)  # int() refuses NaN and the infinities
    except (ValueError, RecursionError):
        return json.dumps(dict(entry.as_stored), separators=(",", ":"))
    return text.strip().replace("\r", " ")


def _escaped(text: str) -> str:
    """JSON with \\u escapes for characters that the terminal obeys or cannot show."""
    if text.isascii() and text.isprintable():
        return text
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    is_utf_8 = encoding.lower() in ("utf-8", "utf8")
    if is_utf_8 and text.isprintable():
        return text
    return "".join(
        c if printable(c) and (is_utf_8 or c.isascii()) else json.dumps(c)[1:-1] for c in text
    )


def for_people(value: Any) -> str:
    """A value as JSON text that people read."""
    return json.dumps(value, ensure_ascii=False)


def out_findings(found: Iterable[Damage]) -> None:
    """Print findings, one a line."""
    for damage in found:
        place = f"{damage.file}:{damage.line}: byte {damage.offset}"
        out(f"{place}: {damage.kind}: {damage.cause}; {NEXT_STEP[damage.kind]}")


def tell_redaction(redaction: Redaction) -> None:
    """Report what was masked and where, without any secret; masking ends."""
    mask_with(None)  # the report is made of masks
    found: dict[str, dict[str, int]] = {}
    for (rule, entry), count in redaction.masked.items():
        found.setdefault(rule, {})[entry] = count
    for rule, counts in found.items():
        places = [short(e) + (f" ({n:,} times)" if n > 1 else "") for e, n in counts.items()]
        more = f" and {len(places) - _MAX_PLACES:,} more" if len(places) > _MAX_PLACES else ""
        where = ", ".join(places[:_MAX_PLACES])
        tell(f"Masked {rule}: {sum(counts.values()):,}, in {where}{more}")
    for entry, media_type, size in redaction.left_out:
        kind = redaction.text(media_type)
        tell(f"Left out of {short(entry)}: {kind}, {size:,} bytes that are not text")
    if redaction.unsealed:
        where = ", ".join(map(short, redaction.unsealed[:_MAX_PLACES]))
        total = counted(len(redaction.unsealed), "masked entry", "masked entries")
        tell(f"Removed the signatures of {total}: {where}")
    if not (redaction.masked or redaction.left_out):
        tell("No secrets were found")
    missed = "secrets that match no rule, are split over several blocks, or are encoded"
    tell(f"Check the result before you share it: redaction does not find {missed}")


def out_facts(facts: Mapping[str, Any]) -> None:
    """Print names and values, one pair a line; empty values are left out."""
    for key, value in facts.items():
        if value:
            out(f"{one_line(key):<14} {one_line(str(value), 1000)}")


def cost_in_words(reported: float, estimated: float, unpriced: int) -> str:
    """What was spent: as reported, estimated, and in how many answers it is not known."""
    parts = [f"{dollars(reported)} reported"] if reported else []
    parts += [f"{about(estimated)} at list prices"] if estimated else []
    parts += [f"{counted(unpriced, 'answer')} without a price"] if unpriced else []
    return ", ".join(parts)


def usage_in_words(usage: Usage, cost: str) -> dict[str, str]:
    """Tokens and the cost as facts."""
    return {
        "tokens": f"{usage.input:,} in, {usage.output:,} out, "
        f"{usage.cache_read:,} read from cache, {usage.cache_write:,} written to it",
        "cost": cost,
    }


def describe(entry: Entry) -> str:
    """An entry in a few words: its short uuid, its role and the start of its text."""
    words = ": ".join(filter(None, (speaker(entry), entry_preview(entry))))
    return f"{short(entry.uuid)} ({words})"


def speaker(entry: Entry, message: Message | None = None) -> str:
    """Who speaks in an entry, which a handle resolves to; else the type of the entry."""
    return one_line(entry_speaker(entry, message) or entry.type)


def out_entry_row(entry: Entry) -> None:
    """Print an entry on one line: its short uuid, its role, the start of its text."""
    out(f"{short(entry.uuid):<8}  {speaker(entry):<14}  {entry_preview(entry)}".rstrip())


def out_written(entry: Entry, done: str, *, as_json: bool) -> None:
    """Print the new entry, or its uuid, for scripts; say what was done."""
    tell(done)
    out_json(entry) if as_json else out(entry.uuid)


def out_message(message: Message) -> None:
    """Print a message: its role, and its text beside it."""
    from sessiontree.views.parts import text_of_message  # few commands show messages

    first, *others = text_of_message(message).split("\n")
    out(f"{one_line(speaker_of(message)):<18}{first}".rstrip())
    for line in others:
        out(f"{'':18}{line}".rstrip())
