"""Compaction: the tokens of a context, the cut point, and a summary made without a model.

Tokens are estimated as the pi coding agent does: four characters each, an image and a page of a PDF
at a fixed cost. The caller may pass another counter. A summary that no model makes has the
requests, the files touched and the last answer.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from itertools import accumulate
from typing import Any, Final

import msgspec

from sessiontree.core.activity import PATH_KEYS
from sessiontree.core.callback import called
from sessiontree.core.display import one_line
from sessiontree.core.entry import SUMMARIES, Entry
from sessiontree.core.media import PDF
from sessiontree.core.message import (
    IMAGE_BLOCKS,
    RESULT_BLOCKS,
    Message,
    calls_of,
    is_prompt,
    json_text,
    kind_of,
    result_ids,
    role_of,
    text_of,
)
from sessiontree.errors import EntryError, UsageError

CHARACTERS_PER_TOKEN: Final = 4
IMAGE_TOKENS: Final = 1200
PDF_PAGE: Final = 65_536  # the estimated characters of base64 for one page of a PDF
KEEP_TOKENS: Final = 20_000
TokenCounter = Callable[[Message], int]  # takes a message of a context, gives its tokens


def estimate_tokens(message: Message) -> int:
    """Estimate a message's tokens: one token for four characters, and 1,200 tokens for an image."""
    characters, images = _size_of_content(message)
    for call in calls_of(message):
        characters += len(call.name) + _size_of_value(call.arguments)
    for key in ("command", "output"):
        if (value := message.get(key)) is not None:
            characters += _size_of_value(value)
    return -(-characters // CHARACTERS_PER_TOKEN) + images * IMAGE_TOKENS


def _size_of_content(message: Message) -> tuple[int, int]:
    content = message.get("content")
    if isinstance(content, str):
        return len(content), 0
    characters = images = 0
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            characters += len(block)
        elif isinstance(block, dict):
            more, pages = _size_of_block(block)
            characters, images = characters + more, images + pages
    return characters, images


def _size_of_block(block: dict[str, Any]) -> tuple[int, int]:
    kind = kind_of(block)
    if kind in IMAGE_BLOCKS:
        return 0, 1
    if kind == "document":
        return _text_size_of(block), _pages_of(block)
    if kind in RESULT_BLOCKS:
        return _size_of_content(block)
    texts = (block.get("text"), block.get("thinking"))
    return sum(len(text) for text in texts if isinstance(text, str)), 0


def _text_size_of(block: dict[str, Any]) -> int:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("type") != "text":
        return 0
    data = source.get("data")
    return len(data) if isinstance(data, str) else 0


def _pages_of(block: dict[str, Any]) -> int:
    source = block.get("source")
    if not isinstance(source, dict) or source.get("media_type") != PDF:
        return 0
    data = source.get("data")
    return -(-len(data) // PDF_PAGE) if isinstance(data, str) else 1


def _size_of_value(value: Any) -> int:
    return len(value) if isinstance(value, str) else len(json_text(value))


class Slice(msgspec.Struct, frozen=True):
    """What one entry contributes to a context."""

    uuid: str  # the entry on the path
    messages: Sequence[Message]  # its messages, in order; empty for an entry without any
    sources: Sequence[Entry] = ()  # of each message; a merge has those of another branch


def cut_point(pieces: Sequence[Slice], keep: int, count: TokenCounter) -> str | None:
    """The uuid of the first entry to keep, so that about `keep` tokens stay.

    A cut falls before a prompt where there is one between half and one and a half times `keep`,
    else before the message nearest to `keep` that is not a result; never between a call and its
    result. None where everything fits into `keep`, or nothing can be left out.
    """
    costs = [sum(map(count, piece.messages)) for piece in pieces]
    if sum(costs) <= keep:
        return None
    open_after = _open_calls(pieces)
    kept = 0
    prompts: list[tuple[int, int]] = []
    others: list[tuple[int, int]] = []
    first = next((at for at, piece in enumerate(pieces) if _is_new(piece)), 0)
    for place in range(len(pieces) - 1, first, -1):
        kept += costs[place]
        messages = pieces[place].messages
        if not messages or open_after[place - 1] or result_ids(messages[0]):
            continue
        distance = abs(kept - keep)
        if is_prompt(messages[0]) and keep <= 2 * kept and 2 * kept <= 3 * keep:
            prompts.append((distance, place))
        else:
            others.append((distance, place))
    best = min(prompts, default=None) or min(others, default=None)
    return pieces[best[1]].uuid if best else None


def _is_new(piece: Slice) -> bool:
    return any(role_of(message) != "compactionSummary" for message in piece.messages)


def _open_calls(pieces: Sequence[Slice]) -> list[bool]:
    """For each piece, whether a call up to it gets its result only after it."""
    answered_by = [-1] * len(pieces)
    waiting: dict[str, list[int]] = {}
    for place, piece in enumerate(pieces):
        for message in piece.messages:
            for id in result_ids(message):
                if waiting.get(id):
                    answered_by[waiting[id].pop()] = place
            for call in calls_of(message):
                waiting.setdefault(call.id, []).append(place)
    return [last > place for place, last in enumerate(accumulate(answered_by, max))]


class Summarized(Sequence[Entry]):
    """The entries that a summarizer gets, oldest first."""

    @property
    @abstractmethod
    def text(self) -> str:
        """A request to a model to write the summary, with the conversation and the instructions.

        Give it to a model as the only message. Long results of tools are cut, and thinking is left
        out.
        """


# Takes the entries that are left, oldest first, and the user's instructions if there are any; gives
# the text that replaces the entries. Only an AsyncSession takes a coroutine function.
_Text = str | Coroutine[Any, Any, str]
Summarizer = Callable[[Summarized], _Text] | Callable[[Summarized, str], _Text]
Summary = str | Summarizer

_REQUEST_WIDTH: Final = 200
_ANSWER_WIDTH: Final = 1000
_READING: Final = {"read", "view", "cat", "open", "read_file", "readfile", "notebookread"}
_CHANGING: Final = {
    *("write", "edit", "multiedit", "create", "write_file", "edit_file", "insert", "apply_patch"),
    *("str_replace", "str_replace_editor", "str_replace_based_edit_tool", "notebookedit"),
}


def summarize(entries: Sequence[Entry]) -> str:
    """Summarize without a model: list the requests, files, earlier summaries and last answer."""
    seen = _Summary()
    for entry in entries:
        seen.take(entry)
    parts = "\n\n".join(filter(None, seen.parts()))
    return parts or f"{len(entries)} entries without a request or an answer."


def text_of_summary(
    summary: Summary, entries: Sequence[Entry], instructions: str | None = None
) -> str:
    """A summary as text: itself, or the result of the summarizer; else an EntryError.

    A summarizer gets the instructions as a second argument, if there are any.

    Raises:
        UsageError: there are instructions, and the summarizer does not take them.
    """
    given = (entries,) if instructions is None else (entries, instructions)
    if callable(summary) and instructions is not None:
        _check_takes(summary, given)
    text = called(summary, *given) if callable(summary) else summary
    if not isinstance(text, str) or not text.strip():
        source = "the summarizer returned" if callable(summary) else "the summary is"
        raise EntryError(f"{source} {text!r:.60}; a summary must be non-empty text")
    return text


def _check_takes(summarizer: Summarizer, given: tuple[Any, ...]) -> None:
    if summarizer is summarize:
        raise UsageError(
            "the built-in summarizer follows no instructions; give a summarizer that asks a model"
        )
    try:
        signature = inspect.signature(summarizer)
    except ValueError:  # of a function in C, which says nothing of its arguments
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        raise UsageError(
            "the summarizer takes no instructions; write it as a function of the entries and the "
            "instructions"
        ) from error


class _Summary:
    def __init__(self) -> None:
        self._asked: list[str] = []
        self._earlier: list[str] = []
        self._read: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._answer = ""

    def take(self, entry: Entry) -> None:
        if entry.type in SUMMARIES or entry.type == "compaction":
            text = entry.get("summary")
            self._earlier += [one_line(text, _ANSWER_WIDTH)] if isinstance(text, str) else []
        message = entry.get("message") if entry.type in ("message", "handle") else None
        if entry.type == "block" and isinstance(block := entry.get("block"), dict):
            message = {"role": "assistant", "content": [block]}
        if not isinstance(message, dict):
            return
        text = text_of(message)
        if text and is_prompt(message):
            self._asked.append(one_line(text, _REQUEST_WIDTH))
        if text and message.get("role") == "assistant":
            self._answer = one_line(text, _ANSWER_WIDTH)
        for call in calls_of(message):
            path, name = _path_in(call.arguments), call.name.lower()
            files = self._changed if name in _CHANGING else self._read
            if path is not None and name in _CHANGING | _READING:
                files[path] = None

    def parts(self) -> list[str]:
        return [
            _listed("Asked", self._asked),
            _listed("Earlier", self._earlier),
            _listed("Files changed", list(self._changed)),
            _listed("Files read", [path for path in self._read if path not in self._changed]),
            f"Last answer: {self._answer}" if self._answer else "",
        ]


def _path_in(arguments: Any) -> str | None:
    if not isinstance(arguments, dict):
        return None
    found = (arguments.get(key) for key in (*PATH_KEYS, "file"))
    return next((one_line(path, _REQUEST_WIDTH) for path in found if isinstance(path, str)), None)


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"- {line}" for line in lines)]) if lines else ""
