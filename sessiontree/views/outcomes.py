"""What came of a call, in a few words, by the text of its result.

Invariants: a text that is not understood is counted in lines or bytes; no text fails; the cost
grows with its length.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.display import one_line
from sessiontree.core.entry import decode_leniently
from sessiontree.core.message import image_in
from sessiontree.text.amounts import counted
from sessiontree.text.preview import size_in_short

_MAX_TODOS: Final = 1000
_START: Final = 4000
"""Characters at the start of a result in which its sum is looked for."""


def lines_in(text: str) -> int:
    return text.rstrip("\n").count("\n") + 1 if text.strip() else 0


def image_type(result: Mapping[str, Any]) -> str:
    """The media type of the image that a result has; empty without one."""
    if (block := image_in(result)) is None:
        return ""
    source = block.get("source")
    given = source if isinstance(source, Mapping) else block
    media_type = given.get("media_type", given.get("mimeType"))
    return one_line(media_type, 40) if isinstance(media_type, str) else "image"


_FOLDER_HEADING: Final = re.compile(r"Directory listing for [^\n]*\n|- [^\n]*/\n(?= )")


def entries_listed(text: str) -> str:
    heading = _FOLDER_HEADING.match(text)
    count = lines_in(text if heading is None else text[heading.end() :])
    return counted(count, "entry", "entries") if count else "empty"


_NOTHING: Final = re.compile(r"(?:No|0) (?:files?|matche?s?|results?|content)", re.IGNORECASE)
_FOUND: Final = re.compile(
    r"Found (?:at least )?([\d,]{1,12}) (?:total )?(file|match|result|occurrence|line|reference)",
    re.IGNORECASE,
)
_HIT: Final = re.compile(r"^(?:([^\n:]{1,300}?)[:-])?(\d{1,9})[:-]", re.MULTILINE)
_FILE_OF_HITS: Final = re.compile(r"^(?:File: [^\n]+|(?:/|\./|\w:\\)[^\n:]*:)$", re.MULTILINE)


def hits_in(text: str, told: Mapping[str, Any], *, finds: bool) -> str:
    """How much a search found: `9 in 4 files`, `4 files` or `nothing`."""
    files = told.get("numFiles")
    if isinstance(files, int) and (finds or told.get("mode") == "files_with_matches"):
        return counted(files, "file") if files > 0 else "nothing"
    if not text.strip() or _NOTHING.match(text):
        return "nothing"
    found = _FOUND.search(text[:_START])
    if found is not None and found[2].lower() == "file":
        return f"{found[1]} file{'' if found[1] == '1' else 's'}"
    if finds:
        return counted(lines_in(text), "file")
    hits, seen = 0, set[str]()
    for hit in _HIT.finditer(text):
        hits += 1
        seen.add(hit[1] or "")
    seen.discard("")
    in_files = len(set(_FILE_OF_HITS.findall(text))) or len(seen)
    if found is None and not hits:
        return counted(lines_in(text), "file")
    count = found[1] if found is not None else f"{hits:,}"
    if in_files:
        return f"{count} in {counted(in_files, 'file')}"
    return f"{count} hit{'' if count == '1' else 's'}"


_LINK: Final = re.compile(
    r"\"url\": ?\"|^\[\d+\] |^[ \t]{0,8}(?:\d{1,4}\. )?(?:URL|Link): ", re.MULTILINE
)


def results_in_words(text: str) -> str:
    count = sum(1 for _ in _LINK.finditer(text))
    if count:
        return counted(count, "result")
    return size_in_short(len(text.encode("utf-8", "replace"))) if text.strip() else "nothing"


_TODO: Final = re.compile(
    r"^[ \t]{0,40}(?:[-*]|#?\d{1,4}[.)]?)?[ \t]{0,4}\[(x|X| |~|-|/|>|\w{2,12})\] (\S[^\n]*)$",
    re.MULTILINE,
)
_STATES: Final = {
    **dict.fromkeys(("completed", "complete", "done", "x", "finished"), "done"),
    **dict.fromkeys(("in_progress", "doing", "active", "~", "/", ">", "inprogress"), "now"),
}


def todos_in(arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The items of a list of todos, each with its state: `done`, `now` or `open`."""
    given = next(
        (v for key in ("todos", "plan", "tasks", "items") if (v := arguments.get(key))), ()
    )
    if isinstance(given, str):
        decoded = decode_leniently(given.encode("utf-8", "replace")) if given[:1] == "[" else None
        if not isinstance(decoded, list):
            return [
                (item[2], _STATES.get(item[1].lower(), "open"))
                for item, _ in zip(_TODO.finditer(given), range(_MAX_TODOS), strict=False)
            ]
        given = decoded
    items = (
        [item for item in given[:_MAX_TODOS] if isinstance(item, Mapping)]
        if isinstance(given, list | tuple)
        else []
    )
    keys = ("content", "step", "description", "text", "title", "subject", "task")
    return [
        (
            next((v for key in keys if isinstance(v := item.get(key), str)), ""),
            _STATES.get(str(item.get("status", "")).lower().replace("-", "_"), "open"),
        )
        for item in items
    ]


def items_in_json(text: str) -> str | None:
    """How many items a result has that is JSON; None for any other."""
    value = decode_leniently(text.encode("utf-8", "replace"))
    if isinstance(value, dict):
        lists = [v for v in value.values() if isinstance(v, list)]
        value = lists[0] if len(lists) == 1 else None
    return counted(len(value), "item") if isinstance(value, list) else None
