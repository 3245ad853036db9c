"""What messages record of an agent's work: files of calls, failures, interruptions.

Agents name these facts in ways of their own; a value that is not understood tells nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from sessiontree.core.message import (
    LOOK,
    RESULT_ITEMS,
    THOUGHT_BLOCKS,
    Message,
    ToolCall,
    beginning_of,
    blocks_of,
    is_partial,
    is_result_block,
    kind_of,
    numbered_blocks,
    printed,
    result_ids,
    says_interrupted,
    slash_command,
    text_of,
)

SYNTHETIC: Final = "<synthetic>"
"""The model of a message that Claude Code writes in the model's place."""

_MAX_FILES: Final = 100  # of one call
_LONGEST_PATH: Final = 300
PATH_KEYS: Final = (
    *("file_path", "path", "filePath", "notebook_path", "absolute_path", "filename", "filepath"),
)
"""The arguments that name the file of a call, in the tools of all agents."""

_CHANGING: Final = re.compile(r"edit|write|replace|patch|create|notebook", re.IGNORECASE)
_READING: Final = re.compile(r"read|view|cat|open", re.IGNORECASE)
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_NOTE: Final = "<task-notification>"
_REFUSED: Final = "The user doesn't want to "
_EXIT: Final = re.compile(r'(?:exit code:? |exited with code |"exit_code": ?)(-?\d{1,6})', re.I)
_EXIT_OF_ERROR: Final = re.compile(
    r"\AExit code (-?\d{1,6})(?:\n|\Z)"  # Claude Code
    r"|(?:\n\n|\A)Command exited with code (-?\d{1,6})\s*\Z"  # pi
    r"|\(exit code: (-?\d{1,6})\)"  # Droid
    r"|(?:\n|\A)Command failed with exit code: (-?\d{1,6})\.\s*\Z"  # Kimi Code
)
_EXIT_IN_JSON: Final = re.compile(r'"exit_code": ?(-?\d{1,6})[,}\s]')  # older versions of Codex
_EXIT_AT_END: Final = re.compile(
    r"<(?:shellId: \S{1,40} )?(?:completed|exited) with exit code (-?\d{1,6})>\s*\Z"  # Copilot CLI
    r"|\nExit Code: (-?\d{1,6})\n(?:Signal|Background|Process)"  # Gemini CLI and Qwen Code
)
"""The exit code behind what a command printed, as agents write it there."""
_GISTS: Final = ("Primary Request and Intent:", "\nSummary:\n", "\nAnalysis:\n")
_ARGUMENTS: Final = re.compile("<command-args>(.*?)</command-args>", re.DOTALL)
_SHELL: Final = re.compile("<bash-input>(.*?)</bash-input>", re.DOTALL)


class FileAccess(NamedTuple):
    """A file that a call names, and whether the call changes it."""

    path: str
    changed: bool


def files_of(call: ToolCall) -> Iterator[FileAccess]:
    """The files that a call reads or changes, as far as its arguments name them."""
    arguments = call.arguments
    if isinstance(arguments, str):
        patch = arguments[: 1 << 20]
    elif isinstance(arguments, Mapping):
        is_change = bool(_CHANGING.search(call.name))
        path = next(
            (p for key in PATH_KEYS if isinstance(p := arguments.get(key), str) and p), None
        )
        if path is not None and (is_change or _READING.search(call.name)):
            yield FileAccess(path[:_LONGEST_PATH], is_change)
        given = arguments.get("input", arguments.get("patch"))
        patch = given[: 1 << 20] if isinstance(given, str) else ""
    else:
        return
    if "*** " not in patch:
        return
    for number, found in enumerate(_PATCHED.finditer(patch.replace("\\n", "\n"))):
        if number == _MAX_FILES:
            return
        yield FileAccess(found[1].strip()[:_LONGEST_PATH], True)


def is_interruption(message: Message) -> bool:
    """True if a message says that the user interrupted the agent, or broke off itself."""
    return says_interrupted(message) if message.get("role") == "user" else is_partial(message)


def is_output(message: Message) -> bool:
    """True if a message of a model has more than thoughts: a text, a call, an image."""
    if message.get("tool_calls") or message.get("refusal"):
        return True
    blocks = numbered_blocks(message)
    return any(kind_of(block) not in THOUGHT_BLOCKS and not _is_blank(block) for block in blocks)


def _is_blank(block: Mapping[str, Any]) -> bool:
    text = block.get("text")
    return isinstance(text, str) and not text.strip()


def is_note_of_program(message: Message) -> bool:
    """True if a message of the user is a note that Claude Code gives the model of a task."""
    return message.get("role") == "user" and beginning_of(message).lstrip().startswith(_NOTE)


def error_of(message: Message) -> str | None:
    """What went wrong with a whole answer of a model, such as an error of its API; or None."""
    given = message.get("errorMessage")
    if message.get("stopReason") == "error":
        return given if isinstance(given, str) and given else "the answer ended with an error"
    if message.get("model") == SYNTHETIC and (text := text_of(message)):
        return text if "error" in text[:LOOK].lower() else None
    return None


CallEnding = Literal["done", "failed", "refused"]
"""How a call ended; the user did not allow a call that is refused."""


def ended_calls(message: Message) -> Iterator[tuple[str, CallEnding]]:
    """The ids of the calls whose results a message has, and how each ended."""
    return ((id, ending_of(block)) for id, block in results_in(message))


def results_of(message: Message) -> Iterator[tuple[str, str]]:
    """The ids of the calls whose results a message has, and the text of each result."""
    return ((id, output_of(block)) for id, block in results_in(message))


def results_in(message: Message) -> list[tuple[str, Mapping[str, Any]]]:
    """The ids of the calls whose results a message has, each with the block that is the result.

    The message itself is the result of one call where it has no such blocks.
    """
    ids = result_ids(message)
    if not ids or message.get("role") != "user":
        return [(id, message) for id in ids]
    blocks = [block for block in blocks_of(message) if is_result_block(block)]
    return list(zip(ids, blocks or [message], strict=False))


def ending_of(result: Mapping[str, Any]) -> CallEnding:
    """How a call ended, by its result as `results_in` gives it."""
    text = _text_of_result(result)
    if text.startswith(_REFUSED):
        return "refused"
    return "failed" if _is_failure(result, text) else "done"


def output_of(result: Mapping[str, Any]) -> str:
    """The text of a result as `results_in` gives it."""
    output = printed(result.get("output"))
    return (
        output if isinstance(output, str) else text_of({"content": output or result.get("content")})
    )


def exit_code_of(result: Mapping[str, Any]) -> int | None:
    """The exit code of a command, by its result as `results_in` gives it; None without one."""
    text = _text_of_result(result)
    code = _exit_code(result, text)
    if code is not None or not _says_error(result):
        return code
    found = _EXIT_OF_ERROR.search(text) or _EXIT_OF_ERROR.search(_end_of_result(result))
    return _exit_in_details(result) if found is None else _code_in(found)


def _exit_in_details(result: Mapping[str, Any]) -> int | None:
    """The exit code that an agent keeps beside a result."""
    details = result.get("details")
    code = details.get("exit") if isinstance(details, Mapping) else None
    return code if isinstance(code, int) else None


def _exit_code(result: Mapping[str, Any], text: str) -> int | None:
    found = _EXIT.search(text) if kind_of(result) in RESULT_ITEMS else None
    if found is None and "xit" in (end := _end_of_result(result)):
        found = (_EXIT_IN_JSON if text.startswith("{") else _EXIT_AT_END).search(end)
    return None if found is None else _code_in(found)


def _code_in(found: re.Match[str]) -> int:
    return int(next(filter(None, found.groups())))


def _end_of_result(result: Mapping[str, Any]) -> str:
    """The end of the text of a result; empty if it may end in what a program printed alone."""
    output = result.get("output")
    if isinstance(output, str):
        return output[-LOOK:] if output.startswith('{"output":') else ""
    content = result.get("content")
    if isinstance(content, list) and content and isinstance(content[-1], dict):
        content = content[-1].get("text")
    return content[-LOOK:] if isinstance(content, str) else ""


def _says_error(block: Mapping[str, Any]) -> bool:
    return block.get("isError") is True or block.get("is_error") is True


def _is_failure(block: Mapping[str, Any], text: str) -> bool:
    if _says_error(block):
        return True
    if (code := _exit_code(block, text)) is not None:
        return code != 0
    # the starts of results of Codex's `apply_patch` that failed, which have no exit code
    is_item = kind_of(block) in RESULT_ITEMS
    return is_item and text.startswith(("apply_patch verification failed", "patch rejected"))


def _text_of_result(block: Mapping[str, Any]) -> str:
    output = block.get("output")
    return output[:LOOK] if isinstance(output, str) else beginning_of(block)


def gist_of(summary: str) -> str:
    """A summary of a compaction without the words that Claude Code begins each with."""
    start = summary[:20_000]  # where the gist begins
    for heading in _GISTS:
        if (at := start.find(heading)) >= 0:
            return summary[at + len(heading) :].lstrip("*# \n-")
    return summary


class FirstPrompt:
    """The prompt that is the title of a session without a name: the first that was typed.

    A command without arguments, such as `/clear`, is the title only if no other prompt follows.
    """

    def __init__(self) -> None:
        self.text: str | None = None  # as it was typed; None without a prompt
        self.is_found = False  # whether no later prompt can replace it

    def take(self, text: str | None) -> None:
        """Note the next prompt, as it is stored; None is none."""
        if self.is_found or text is None:
            return
        typed = as_typed(text)
        self.is_found = typed == text or " " in typed
        if self.is_found or self.text is None:
            self.text = typed


def as_typed(text: str) -> str:
    """The text of a prompt as the user typed it; Claude Code wraps slash commands in tags."""
    if not text.startswith("<"):
        return text
    if (command := slash_command(text[: 1 << 16])) is not None:
        arguments = _ARGUMENTS.search(text[: 1 << 16])
        return f"{command} {arguments[1].strip()}".rstrip() if arguments else command
    if shell := _SHELL.match(text[: 1 << 16]):
        return f"! {shell[1].strip()}"
    return text
