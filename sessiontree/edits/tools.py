"""What a tool call does to files, and what it shows of them.

The tools of Claude Code, Codex, pi and Gemini CLI are read, Anthropic's text editor, OpenAI's
`apply_patch`, and others that name their arguments alike. What an agent keeps beside a result (the
content before, the hunks, the content that was shown) is taken before the arguments: the user may
have changed the edit before allowing it.

Invariants: texts are as the agent tells them; a call that is not understood does nothing; whether a
call was done is for the caller to find out (`activity.ended_calls`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from sessiontree.core.activity import PATH_KEYS
from sessiontree.core.entry import decode_leniently
from sessiontree.core.limits import LINE, Budget, find, take_search
from sessiontree.core.message import LOOK, ToolCall
from sessiontree.edits.patch import (
    FilePatch,
    Hunk,
    added_content,
    applied,
    hunks_of,
    parse_numbered,
    parse_patch,
    parse_unified,
    structured_hunks,
    taken_back,
)
from sessiontree.edits.shell import ShellEffect, effects, script_of

Kind = Literal["write", "append", "edit", "delete", "move", "change"]

_PATCHES: Final = ("input", "patch", "patchText")
_SHELLS: Final = frozenset(
    {
        *("bash", "shell", "exec_command", "local_shell", "run_shell_command", "container.exec"),
        *("shell_command", "execute_bash", "terminal", "run_terminal_cmd", "local_shell_call"),
        *("execute", "execute_command", "run_commands"),
    }
)
_REMOTE: Final = frozenset({"owner", "repo", "project_id"})
"""Arguments of tools that change a file of a server, such as GitHub's `create_or_update_file`."""

_WRITERS: Final = re.compile(r"write|create", re.IGNORECASE)
_READERS: Final = re.compile(r"read|view|open", re.IGNORECASE)
_CUT_OF_PI: Final = re.compile(
    r"\n\n(?:\[[^\]\n]*(?:offset=|truncated|limit)[^\]\n]*\]|\.\.\. \(\d+ more lines[^\n]*\))\s*$"
    r"|^\[Line \d+ is |\n\n\[[^\]\n]*exceeds[^\n]*$"
)
_CUT_OF_GEMINI: Final = re.compile(r"^\s*IMPORTANT: The file content has been truncated")
_LEFT_OUT: Final = re.compile(
    r"(?i:truncated|omitted|lines? left out|full output)|\[Showing |^Total output lines:",
    re.MULTILINE,
)
_OF_CODEX: Final = re.compile(
    r"(?:(?:Chunk ID|Exit code|Wall time|Process exited|Original)[^\n]*\n)+Output:\n"
)
_OF_GEMINI: Final = re.compile(
    r"(?:Command: [^\n]*\nDirectory: [^\n]*\n)?Output: (.*?)\n"
    r"(?:Error: |Exit Code: |Process Group PGID: )",
    re.DOTALL,
)
_END_OF_COMMAND: Final = re.compile(
    r"\n?<(?:shellId: \S{1,40} )?(?:completed|exited) with exit code -?\d+>\s*\Z"  # Copilot CLI
    r"|(?:\n\n|\A)Command (?:exited with code -?\d+|timed out[^\n]*|aborted)\s*\Z"  # pi
)
_NUMBERED: Final = re.compile(r" *(\d{1,9})(→|\t)(.*)", re.ASCII)
_NUMBER_WITH_TABS: Final = re.compile(r"Read|view|str_replace\w*")
"""The tools whose lines have a number and a tab; of another tool, the file has them itself."""

_PASSES: Final = 4
"""The steps to look at a character a few times."""

_LEAST: Final = 8
"""The characters that a new text needs to be found in a file."""

_REMINDER: Final = "<system-reminder>"


class Replacement(msgspec.Struct, frozen=True, array_like=True):
    """A text that takes the place of another; `every` time that stands there, or once."""

    old: str
    new: str
    every: bool = False


class Edit(msgspec.Struct, frozen=True):
    """One change of one file."""

    path: str  # the path as the call names it
    # `write` gives the whole `content`, `append` the text at the end; `edit` has `swaps` or
    # `hunks`; `move` has `to`, and hunks where it changes the file too; `change` is one that is not
    # told
    kind: Kind
    swaps: tuple[Replacement, ...] = ()  # texts that take the place of others, in order
    hunks: tuple[Hunk, ...] = ()  # lines that take the place of others, in order
    content: str | None = None  # the content after the change, where it is told
    before: str | None = None  # the content before the change, where it is told
    is_new: bool = False  # whether the file was not there before
    to: str = ""  # the new path; empty unless the file is moved
    # the number of the line behind which the text of `content` is inserted; else None
    line: int | None = None


class SeenLines(msgspec.Struct, frozen=True):
    """Lines of a file that a call showed."""

    path: str  # the path as the call names it
    text: str  # the text that was shown, with its line ends; of a part without the last one
    first: int = 1  # the number of its first line, from 1; 0 if it is not told which lines they are
    is_whole: bool = False  # whether it is all of the file, with the end of its last line
    total: int | None = None  # the number of lines of the file; None if it is not told

    @property
    def has_all_lines(self) -> bool:
        """True if it is all of the file, but for the end of its last line."""
        return self.first == 1 and self.total == self.text.removesuffix("\n").count("\n") + 1


def characters_of(edit: Edit) -> int:
    """How many characters the texts of an edit have."""
    swaps = sum(len(swap.old) + len(swap.new) for swap in edit.swaps)
    lines = [len(line) + 1 for hunk in edit.hunks for line in (*hunk.before, *hunk.after)]
    return swaps + sum(lines) + len(edit.content or "") + len(edit.before or "")


def edits_of(call: ToolCall, told: Mapping[str, Any]) -> list[Edit]:
    """The changes of a call that was done, in order; `told` is what the agent keeps beside it."""
    name, arguments = call.name.rpartition("__")[2].lower(), _arguments(call.arguments)
    if call.shape == "apply_patch_call":
        return list(_operation(arguments))
    if isinstance(arguments, str):
        return list(_patched(arguments))
    if not isinstance(arguments, Mapping):
        return []
    if (patch := _patch_in(name, arguments)) is not None:
        return list(_patched(patch))
    if is_shell(call):
        return list(_of_shell(script_of(arguments)))
    path = _path_in(arguments)
    if path is None or not arguments.keys().isdisjoint(_REMOTE):
        return []
    edit = _edit_of(name, path, arguments)
    return [] if edit is None else [_as_told(edit, told)]


def seen_in(call: ToolCall, told: Mapping[str, Any], result: str) -> list[SeenLines]:
    """What a call that was done showed of files; `result` is the text of its result."""
    name, arguments = call.name.rpartition("__")[2].lower(), _arguments(call.arguments)
    if not isinstance(arguments, Mapping):
        return []
    shown = told.get("file")
    if isinstance(shown, Mapping):
        return [seen] if (seen := _seen_by_claude(shown)) is not None else []
    if is_shell(call):
        return list(_seen_in_shell(script_of(arguments), result))
    path = _path_in(arguments)
    if path is None or not _READERS.search(name):
        return []
    return [_lines_read(path, arguments, result, call.name) or SeenLines(path, "", 0)]


def _lines_read(
    path: str, arguments: Mapping[str, Any], result: str, tool: str
) -> SeenLines | None:
    """The lines that the result of a reader shows, if it is certain which they are."""
    first = arguments.get("offset", arguments.get("start_line", 1)) or 1
    if not result or not isinstance(first, int) or first < 1:
        return None
    if (numbered := _numbered(path, result, tool)) is not None:
        return numbered
    is_part = any(arguments.get(key) for key in ("limit", "end_line", "view_range", "ranges"))
    if is_part or _CUT_OF_PI.search(result) or _CUT_OF_GEMINI.match(result):
        return None
    if first == 1:
        return SeenLines(path, result, 1, is_whole=True)
    return SeenLines(path, result.removesuffix("\n"), first) if result != "\n" else None


def paths_in(call: ToolCall) -> Iterator[str]:
    """The paths that a call names, to find out if it is about a file; quickly, and too many."""
    arguments = _arguments(call.arguments)
    if isinstance(arguments, str):
        yield arguments
    elif isinstance(arguments, Mapping):
        yield from (value for value in arguments.values() if isinstance(value, str))
        yield script_of(arguments)


def with_arguments(call: ToolCall) -> ToolCall:
    """The call with its arguments decoded, where they are an object in a text."""
    return ToolCall(call.id, call.name, _arguments(call.arguments), call.shape)


def _arguments(given: Any) -> Any:
    if not isinstance(given, str) or not given.startswith("{"):
        return given
    decoded = _decoded(given)
    return decoded if isinstance(decoded, dict) else given


def _decoded(text: str) -> Any:
    return decode_leniently(text.encode("utf-8", "replace"))


def _path_in(arguments: Mapping[str, Any]) -> str | None:
    for key in PATH_KEYS:  # a generator takes twice as long
        if isinstance(path := arguments.get(key), str) and path:
            return path
    return None


def _patch_in(name: str, arguments: Mapping[str, Any]) -> str | None:
    if name not in ("apply_patch", "applypatch"):
        return None
    given = next((arguments[key] for key in _PATCHES if key in arguments), None)
    return given if isinstance(given, str) else None


def is_shell(call: ToolCall) -> bool:
    """True if a call runs a script of a shell."""
    name = call.name.rpartition("__")[2].lower()
    return name in _SHELLS or call.shape in ("local_shell_call", "shell_call")


def _operation(arguments: Any) -> Iterator[Edit]:
    """The edit of OpenAI's `apply_patch` tool: one operation on one file."""
    if not isinstance(arguments, Mapping) or (path := _path_in(arguments)) is None:
        return
    kind, diff = arguments.get("type"), arguments.get("diff")
    lines = diff.split("\n") if isinstance(diff, str) else []
    if kind == "create_file":
        yield Edit(path, "write", content=added_content(lines), is_new=True)
    elif kind == "update_file":
        yield Edit(path, "edit", hunks=tuple(hunks_of(lines)))
    elif kind == "delete_file":
        yield Edit(path, "delete")


def _patched(text: str) -> Iterator[Edit]:
    yield from map(_of_patch, parse_patch(text))


def _of_patch(patch: FilePatch) -> Edit:
    if patch.kind == "add":
        return Edit(patch.path, "write", content=patch.content, is_new=True)
    if patch.kind == "delete":
        return Edit(patch.path, "delete")
    if patch.moved_to is not None:
        return Edit(patch.path, "move", hunks=patch.hunks, to=patch.moved_to)
    return Edit(patch.path, "edit", hunks=patch.hunks)


def _of_shell(script: str) -> Iterator[Edit]:
    for effect in effects(script):
        if effect.kind == "patch":
            yield from (_below(effect.to, edit) for edit in _patched(effect.text))
        elif effect.kind != "show":
            yield _of_effect(effect)


def _below(folder: str, edit: Edit) -> Edit:
    if not folder:
        return edit
    to = f"{folder}/{edit.to}" if edit.to and not edit.to.startswith("/") else edit.to
    path = edit.path if edit.path.startswith("/") else f"{folder}/{edit.path}"
    return msgspec.structs.replace(edit, path=path, to=to)


def _of_effect(effect: ShellEffect) -> Edit:
    if effect.kind in ("write", "append"):
        return Edit(effect.path, effect.kind, content=effect.text)
    if effect.kind == "move":
        name = effect.path.rpartition("/")[2]
        to = effect.to + name if effect.to.endswith("/") else effect.to
        return Edit(effect.path, "move", to=to)
    return Edit(effect.path, "delete" if effect.kind == "delete" else "change")


def _edit_of(name: str, path: str, arguments: Mapping[str, Any]) -> Edit | None:
    command = arguments.get("command")
    if command in ("view", "undo_edit"):
        return Edit(path, "change") if command == "undo_edit" else None
    swaps = tuple(_swaps(arguments))
    if swaps and not (len(swaps) == 1 and not swaps[0].old):
        return Edit(path, "edit", swaps=swaps)
    if swaps:  # an edit of nothing makes the file
        return Edit(path, "write", content=swaps[0].new)
    line = arguments.get("insert_line")
    if isinstance(line, int):
        text = arguments.get("insert_text", arguments.get("new_str"))
        return Edit(path, "edit", content=text, line=line) if isinstance(text, str) else None
    content = arguments.get("content", arguments.get("file_text", arguments.get("contents")))
    if isinstance(content, str) and (command == "create" or _WRITERS.search(name)):
        return Edit(path, "write", content=content)
    if isinstance(diff := arguments.get("diff"), str) and (hunks := parse_unified(diff)):
        return Edit(path, "edit", hunks=hunks)
    if "new_source" in arguments:
        return Edit(path, "change")
    return None


_PAIRS: Final = (
    *(("old_string", "new_string"), ("oldText", "newText"), ("old_str", "new_str")),
    *(("oldString", "newString"), ("old_text", "new_text")),
)


def _swaps(arguments: Mapping[str, Any]) -> Iterator[Replacement]:
    edits = arguments.get("edits")
    if isinstance(edits, str):
        edits = _decoded(edits)
    for each in edits if isinstance(edits, list) else (arguments,):
        if not isinstance(each, Mapping):
            continue
        for old, new in _PAIRS:
            before, after = each.get(old), each.get(new, "")
            if new == "new_text" in each and "insert_line" not in each:
                before = each.get(old, "")  # Cline's editor makes a file so
            if isinstance(before, str) and isinstance(after, str):
                many = (
                    each.get("replace_all") or each.get("replaceAll") or each.get("allow_multiple")
                )
                expected = each.get("expected_replacements")
                is_many = isinstance(expected, int) and expected > 1
                yield Replacement(before, after, bool(many) or is_many)
                break


def _as_told(edit: Edit, told: Mapping[str, Any]) -> Edit:
    """An edit with what the agent keeps beside its result."""
    before = next(
        (
            text
            for key in ("originalFile", "originalFileContents", "original_file", "originalContent")
            if isinstance(text := told.get(key), str)
        ),
        None,
    )
    after = told.get("updated_file", told.get("newContent"))
    if isinstance(after, str):
        return Edit(edit.path, "write", content=after, before=before, is_new=before == "")
    if edit.kind == "write":
        is_new = told.get("type") == "create"
        return msgspec.structs.replace(edit, before=before, is_new=is_new)
    swaps = tuple(_swaps(told)) or edit.swaps
    hunks = structured_hunks(told.get("structuredPatch"))
    if not hunks and isinstance(diff := told.get("fileDiff"), str):
        hunks = parse_unified(diff)
    elif not hunks and isinstance(diff := told.get("diff"), str):
        hunks = parse_numbered(diff)
    return msgspec.structs.replace(edit, swaps=swaps, hunks=hunks or edit.hunks, before=before)


def _seen_by_claude(shown: Mapping[str, Any]) -> SeenLines | None:
    path, text = shown.get("filePath"), shown.get("content")
    first, count, total = (shown.get(key) for key in ("startLine", "numLines", "totalLines"))
    if not isinstance(path, str) or not isinstance(text, str) or not isinstance(first, int):
        return None
    first = max(first, 1)
    if first == 1 and count == total:
        return SeenLines(
            path, text, 1, is_whole=True, total=total if isinstance(total, int) else None
        )
    if not text:
        return None
    if not isinstance(total, int) or not isinstance(count, int) or first - 1 + count < total:
        return SeenLines(path, text, first)  # whether an LF ends the file is not told
    if text.endswith("\n"):  # what follows the last LF counts as a line
        text, total = text[:-1], total - 1
    return SeenLines(path, text, first, total=total)


def _numbered(path: str, text: str, tool: str) -> SeenLines | None:
    """Lines that are shown with their numbers, as Claude Code and Anthropic's editor do."""
    text = text.partition(_REMINDER)[0].rstrip("\n")
    found: list[re.Match[str]] = []
    for line in text.split("\n"):
        numbered = _NUMBERED.fullmatch(line)
        if numbered is None or int(numbered[1]) != len(found) + int((found or [numbered])[0][1]):
            return None
        found.append(numbered)
    first = int(found[0][1])
    if first < 1 or (found[0][2] == "\t" and not _NUMBER_WITH_TABS.fullmatch(tool)):
        return None
    return SeenLines(path, "\n".join(line[3] for line in found), first)


def _seen_in_shell(script: str, result: str) -> Iterator[SeenLines]:
    """The file that a script of one command shows; where its last line ends is not told."""
    found = effects(script)
    if len(found) != 1 or found[0].kind != "show" or "\n" in script.strip():
        return
    shown = found[0]
    if (text := _output_in(result)) is None or not text:
        return
    lines = text.removesuffix("\n").split("\n")
    first, last = shown.first or 1, shown.last
    is_end = last is None or len(lines) < last - first + 1
    total = first - 1 + len(lines) if is_end else None
    yield SeenLines(shown.path, "\n".join(lines), first, total=total)


def _output_in(result: str) -> str | None:
    """What a command printed, in the result of a shell; None if some of it is left out."""
    return None if _LEFT_OUT.search(result) else output_of_command(result)


_PRINTED: Final = ("output", "stdout", "stderr")
_STATE: Final = frozenset(
    {
        *("metadata", "exit_code", "exitCode", "returncode", "timed_out", "duration"),
        *("duration_seconds", "interrupted", "success", *_PRINTED),
    }
)
"""The keys of a result that is an object: what a command printed, and how it ended."""


def output_of_command(result: str) -> str:
    """What a command printed, in the result of a shell, without what an agent writes around it."""
    if result.startswith("{"):
        keys = _arguments(result)
        if isinstance(keys, Mapping) and keys and keys.keys() <= _STATE:
            printed = [keys.get(key) for key in _PRINTED]
            return "\n".join(text for text in printed if isinstance(text, str) and text)
    if (of_codex := _OF_CODEX.match(result)) is not None:
        return result[of_codex.end() :]
    if (of_gemini := _OF_GEMINI.match(result)) is not None:
        return of_gemini[1]
    end = _END_OF_COMMAND.search(result, max(0, len(result) - LOOK))
    return result if end is None else result[: end.start()]


class SideFacts:
    """What an agent keeps of calls beside their results, in one line of its file."""

    def __init__(self, line: Mapping[str, Any]) -> None:
        self._line = line
        self._shown = _shown_by_id(line)  # a line may have very many calls, an entry for each
        self._original: Any = None
        self._shown_in_original: Mapping[str, Mapping[str, Any]] = {}

    def of(self, keys: Mapping[str, Any], id: str) -> Mapping[str, Any]:
        """What is kept of a call; empty if nothing.

        Args:
            keys: the keys of the entry that has the result; of an import also what it kept.
            id: the id of the call.
        """
        original = keys.get("original")
        for holder in (self._line, keys, original):
            told = holder.get("toolUseResult") if isinstance(holder, Mapping) else None
            if isinstance(told, Mapping):
                return told
        message = self._line.get("message", keys.get("message"))
        if isinstance(message, Mapping) and isinstance(told := message.get("details"), Mapping):
            return told
        if id in self._shown:
            return self._shown[id]
        if original is not self._original:
            self._original, self._shown_in_original = original, _shown_by_id(original)
        return self._shown_in_original.get(id, {})


def _shown_by_id(holder: Any) -> dict[str, Mapping[str, Any]]:
    """What Gemini CLI shows of the results of calls, by their ids."""
    found: dict[str, Mapping[str, Any]] = {}
    calls = holder.get("toolCalls") if isinstance(holder, Mapping) else None
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping) and isinstance(id := call.get("id"), str):
            shown = call.get("resultDisplay")
            found.setdefault(id, shown if isinstance(shown, Mapping) else {})
    return found


def after(edit: Edit, text: str | None, steps: Budget) -> str | None:
    """The content of a file after an edit of `text`; None where that is not known.

    Line ends of the file are kept: agents edit a file with CRLF as if it had LF.

    Raises:
        TooMuchError: the edit needs more steps than are left.
    """
    if edit.kind == "write":
        return edit.content
    if text is None or edit.kind in ("delete", "change"):
        return None
    if "\r" in text and "\r\n" in text and "\r\n" not in _wanted(edit):
        steps.take(_PASSES * len(text))
        made = after(edit, text.replace("\r\n", "\n"), steps)
        return made.replace("\n", "\r\n") if made is not None else None
    if edit.kind == "append":
        steps.take(len(text))
        return text + (edit.content or "")
    if edit.line is not None:
        return _inserted(text, edit.line, edit.content or "", steps)
    made = _swapped(text, edit.swaps, steps) if edit.swaps else None
    if made is None and edit.hunks:
        take_search(steps, text, "\n")
        lines = applied(edit.hunks, text.split("\n"), steps)
        made = None if lines is None else "\n".join(lines)
    if made is None and edit.kind == "move" and not edit.hunks:
        return text
    return made


def undone(edit: Edit) -> Edit | None:
    """The edit that takes one back; None for one that cannot be told from its content."""
    if edit.kind != "edit" or edit.line is not None or any(swap.every for swap in edit.swaps):
        return None
    if edit.swaps:
        if any(len(swap.new) < _LEAST for swap in edit.swaps):
            return None
        swaps = tuple(Replacement(swap.new, swap.old) for swap in reversed(edit.swaps))
        return Edit(edit.path, "edit", swaps=swaps)
    if any(sum(map(len, hunk.after)) < _LEAST for hunk in edit.hunks):
        return None
    return Edit(edit.path, "edit", hunks=taken_back(edit.hunks))


def _wanted(edit: Edit) -> str:
    return "".join(swap.old for swap in edit.swaps)


def _inserted(text: str, line: int, content: str, steps: Budget) -> str | None:
    steps.take(len(text) + LINE * text.count("\n"))
    lines = text.split("\n")
    if not 0 <= line <= len(lines):
        return None
    return "\n".join([*lines[:line], *content.removesuffix("\n").split("\n"), *lines[line:]])


def _swapped(text: str, swaps: Sequence[Replacement], steps: Budget) -> str | None:
    for swap in swaps:
        made = _every(text, swap, steps) if swap.every else _only(text, swap, steps)
        if made is None:
            return None
        text = made
    return text


def _only(text: str, swap: Replacement, steps: Budget) -> str | None:
    """A text with another one in the place of the only one; None if there is none or more."""
    size = len(swap.old)
    at = find(text, swap.old, 0, steps)
    if at < 0 or find(text, swap.old, at + size, steps) >= 0:
        return None
    return text[:at] + swap.new + text[at + size :]


def _every(text: str, swap: Replacement, steps: Budget) -> str | None:
    if find(text, swap.old, 0, steps) < 0:
        return None
    count = text.count(swap.old)
    # the characters by which a text that stands in many places may make a file longer
    if count > 1 and count * (len(swap.new) - len(swap.old)) > 1 << 20:
        return None
    steps.take(_PASSES * len(text) + LINE * count)
    return text.replace(swap.old, swap.new)
