"""A summary made without a model: the requests, the files touched and the last answer."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from sessiontree.core.callback import called
from sessiontree.core.display import one_line
from sessiontree.core.entry import SUMMARIES, Entry
from sessiontree.core.message import calls_of, is_prompt, text_of
from sessiontree.errors import EntryError, UsageError


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
_PATH_KEYS: Final = ("path", "file_path", "filePath", "filename", "file", "notebook_path")


def summarize(entries: Sequence[Entry]) -> str:
    """Summarize without a model: list the requests, files, earlier summaries and last answer."""
    seen = _Seen()
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


class _Seen:
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
    found = (arguments.get(key) for key in _PATH_KEYS)
    return next((one_line(path, _REQUEST_WIDTH) for path in found if isinstance(path, str)), None)


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{title}:", *(f"- {line}" for line in lines)]) if lines else ""
