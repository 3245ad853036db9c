"""Messages as agents and providers write them, read without changing them.

Four shapes are read: the pi coding agent's (`toolCall` blocks, role `toolResult`), Anthropic's
(`tool_use` and `tool_result` blocks), OpenAI Chat's (`tool_calls`, role `tool`) and OpenAI
Responses' (items with a `call_id`, most of them without a role).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from sessiontree.core.display import mask_then_cut
from sessiontree.errors import EntryError

Message = Mapping[str, Any]

_COMMAND: Final = "<command-name>", "</command-name>"
_TYPED: Final = ("<command-name>", "<command-message>", "<bash-input>")
_INTERRUPTED: Final = ("[Request interrupted by user", "<turn_aborted>")
LOOK: Final = 400
"""Characters at the start of a text in which a sign is looked for."""

THOUGHT_BLOCKS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})
"""The kinds of blocks and items that hold what a model thinks."""

IMAGE_BLOCKS: Final = frozenset({"image", "image_url", "input_image"})
RESULT_BLOCKS: Final = frozenset({"tool_result"})
CALL_BLOCKS: Final = frozenset({"toolCall", "tool_use"})
CALL_ITEMS: Final = frozenset(
    {
        *("function_call", "custom_tool_call", "local_shell_call", "shell_call"),
        *("apply_patch_call", "computer_call"),
    }
)
_ARGUMENTS: Final = ("arguments", "input", "action", "operation")
RESULT_ITEMS: Final = frozenset(f"{name}_output" for name in CALL_ITEMS)
HOSTED_ITEMS: Final = frozenset(
    {
        *("web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call"),
        *("mcp_call", "mcp_list_tools", "mcp_approval_request"),
        *("tool_search_call", "tool_search_output", "program", "program_output"),
    }
)
"""Items of tools that run at the provider: a call with its result, or one that needs none."""

RESPONSES_ITEMS: Final = (
    CALL_ITEMS
    | RESULT_ITEMS
    | HOSTED_ITEMS
    | {"reasoning", "item_reference", "compaction", "compaction_trigger"}
    | {"additional_tools", "configuration_update", "mcp_approval_response"}
)
"""Items of OpenAI Responses that are messages without a role."""


def check_message(message: Any) -> None:
    """Check that a value is a dict with a `role`, or a Responses item; else an EntryError."""
    if not isinstance(message, (dict, Mapping)):  # a check for dict is much faster
        raise EntryError(
            f"a message must be a dict with a role, not a {type(message).__name__}; "
            'give {"role": "user", "content": "…"}, or the model_dump(mode=\'json\') of an SDK\'s '
            "object"
        )
    role = message.get("role")
    if (isinstance(role, str) and role) or (role is None and _is_of_responses(message)):
        return
    raise EntryError(
        f"the message has {'no role' if role is None else f'the role {role!r}'}; "
        'give it one, such as {"role": "user", "content": "…"}'
    )


def _is_of_responses(message: Message) -> bool:
    """True if this is an item of OpenAI Responses, perhaps of a type that is not known yet."""
    kind = kind_of(message)
    is_new = isinstance(message.get("id"), str) and kind not in CALL_BLOCKS | {"message", ""}
    return kind in RESPONSES_ITEMS or is_new


_SAYING: Final = (
    *("content", "output", "tool_calls", "function_call", "refusal", "audio"),
    *("command", "summary", "sections"),
)
"""The keys of a message that have what it says, in any shape."""


def check_new_message(message: Any) -> None:
    """Check a message that is to be written; else an EntryError.

    It is a message, and has a key for what it says. The content may be empty, or null.
    """
    check_message(message)
    if "content" in message:  # as in most
        return
    if kind_of(message) in RESPONSES_ITEMS:
        return
    if not any(key in message for key in _SAYING) and message.get("role") is not None:
        raise EntryError(
            f"the message of role {message['role']!r} has no content; give it a 'content', such as "
            '{"role": "user", "content": "…"}'
        )


ABORTED: Final = "aborted"
"""The stop reason of a message that broke off; the name is pi's."""


def is_partial(message: Message) -> bool:
    """True if a message broke off before its end."""
    return message.get("partial") is True or message.get("stopReason") == ABORTED


def ends_in_thought(message: Message) -> bool:
    """True if a model's message, or item, ends in what it thought: no words or calls came of it."""
    last = numbered_blocks(message)[-1:]
    return any(kind_of(block) in THOUGHT_BLOCKS for block in last) and not calls_beside(message)


def role_of(message: Message) -> str:
    """The role; for a Responses item without one, the role it plays."""
    role = message.get("role")
    if isinstance(role, str):
        return role
    kind = kind_of(message)
    if kind in RESULT_ITEMS:
        return "tool"
    return "user" if kind == "mcp_approval_response" else "assistant"


TOOL: Final = "tool"
"""The role of results of tools, as people read it."""


def speaker_of(message: Message) -> str:
    """The role as people read it: `tool` for results of tools, however their shape names them."""
    role = role_of(message)
    if role == "user" and _is_all_results(message.get("content")):
        return TOOL
    return speaker_named(role)


def speaker_named(role: str) -> str:
    """A role as people read it, where no message is known."""
    return TOOL if role == "toolResult" else role


def _is_all_results(content: Any) -> bool:
    return isinstance(content, list) and bool(content) and all(map(is_result_block, content))


def kind_of(block: Mapping[str, Any]) -> str:
    """The `type` of a content block or an item; empty where it is not a string."""
    kind = block.get("type")
    return kind if isinstance(kind, str) else ""


def blocks_of(message: Message) -> Iterator[Mapping[str, Any]]:
    """The content blocks, with string content as one text block."""
    content = message.get("content")
    if isinstance(content, str):
        content = [content] if content else []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield block
        elif isinstance(block, str):
            yield {"type": "text", "text": block}


MAX_BLOCKS: Final = 200_000
"""The content blocks and calls of a message."""


def count_of_blocks(message: Message) -> int:
    """How many content blocks and calls a message has, found without a look at each."""
    parts = (message.get("content"), message.get("tool_calls"))
    return sum(len(part) for part in parts if isinstance(part, list))


def is_item(message: Message) -> bool:
    """True if a message is an item of OpenAI Responses without a role."""
    return "role" not in message


def numbered_blocks(message: Message) -> list[Mapping[str, Any]]:
    """The blocks of a message by index. An item is its own block 0."""
    return [message] if is_item(message) else list(blocks_of(message))


def block_text(block: Mapping[str, Any]) -> str:
    """The `text` of a block of any type, where it is a string; else empty."""
    text = block.get("text")
    return text if isinstance(text, str) else ""


def thought_text(part: Mapping[str, Any]) -> str:
    """What a block or an item of thinking says, and its summary; empty if it is sealed."""
    texts = [part.get("thinking")]
    if isinstance(summary := part.get("summary"), list):
        texts += [block_text(piece) for piece in summary if isinstance(piece, Mapping)]
    return "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())


def text_of(message: Message) -> str:
    """All text blocks of a message, joined by newlines."""
    return "\n".join(text for block in blocks_of(message) if (text := block_text(block)))


def system_text(message: Message) -> str:
    """The text of a system message, with its `sections` where it has them."""
    text, sections = text_of(message), message.get("sections")
    if text or not isinstance(sections, list):
        return text
    return "\n\n".join(filter(None, map(block_text, blocks_of({"content": sections}))))


class ToolCall:
    """A tool call: its id, the tool's name, the arguments and the shape."""

    __slots__ = ("arguments", "id", "name", "shape")

    def __init__(self, id: str, name: str, arguments: Any, shape: str) -> None:
        self.id, self.name, self.arguments, self.shape = id, name, arguments, shape


def calls_of(message: Message) -> list[ToolCall]:
    """The tool calls of a message, in order."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    calls = [call for block in blocks if (call := call_in(block)) is not None]
    return calls + calls_beside(message)


def call_in(block: Any) -> ToolCall | None:
    """The tool call that a content block is; None for any other block."""
    if not isinstance(block, dict) or (kind := kind_of(block)) not in CALL_BLOCKS:
        return None
    id, name = block.get("id"), block.get("name")
    if not isinstance(id, str):
        return None
    arguments = block.get("arguments", block.get("input"))
    return ToolCall(id, name if isinstance(name, str) else "", arguments, kind)


def calls_beside(message: Message) -> list[ToolCall]:
    """The tool calls of a message that are not in its content, in order."""
    calls: list[ToolCall] = []
    chat_calls = message.get("tool_calls")
    if isinstance(chat_calls, list):
        for call in chat_calls:
            if isinstance(call, dict):
                made = call.get("function") or call.get("custom")
                made = made if isinstance(made, dict) else {}
                named = {"id": call.get("id"), "name": made.get("name")}
                _add_call(calls, named, "id", made.get("arguments", made.get("input")), "chat")
    item = message.get("type")
    if isinstance(item, str) and item in CALL_ITEMS:
        arguments = next((message[each] for each in _ARGUMENTS if each in message), None)
        _add_call(calls, message, "call_id", arguments, item)
    return calls


def without_cut_calls(message: Message) -> tuple[Message | None, list[ToolCall]]:
    """A message that broke off without the calls that it broke off in, and those calls.

    The arguments of such a call are text that is not a JSON object yet. None for an item that is
    one.
    """
    cut = [call for call in calls_of(message) if _is_cut(call)]
    if not cut:
        return message, cut
    if any(call.shape in CALL_ITEMS for call in cut):
        return None, cut
    made, content, calls = dict(message), message.get("content"), message.get("tool_calls")
    if isinstance(content, list):
        made["content"] = [b for b in content if (c := call_in(b)) is None or not _is_cut(c)]
    if isinstance(calls, list):
        kept = [c for c in calls if not any(map(_is_cut, calls_beside({"tool_calls": [c]})))]
        made["tool_calls"] = kept
        if not kept:
            del made["tool_calls"]
            made.setdefault("content", [])
    return made, cut


def without_calls(message: Message) -> Message | None:
    """A message without its calls; None if it has nothing else."""
    content = message.get("content")
    if isinstance(content, list):
        rest = [block for block in content if call_in(block) is None]
    else:
        rest = [content] if content else []
    return {**message, "content": rest, "tool_calls": None} if rest else None


def image_in(message: Message) -> Mapping[str, Any] | None:
    """The first image among the content blocks of a message, or of a result; None without one."""
    return next((block for block in blocks_of(message) if kind_of(block) in IMAGE_BLOCKS), None)


def calls_to_run(blocks: Iterable[Message]) -> list[ToolCall]:
    """The calls in blocks or items of an answer, their arguments decoded; without those cut off.

    The arguments are a dict. Those of a custom tool of OpenAI are text.
    """
    every = [call for one in blocks for call in calls_of({"content": [one]}) + calls_beside(one)]
    found = []
    for call in every:
        if isinstance(call.arguments, str) and call.shape != "custom_tool_call":
            if _is_cut(call):
                continue
            call = ToolCall(call.id, call.name, json.loads(call.arguments), call.shape)
        found.append(call)
    return found


def _is_cut(call: ToolCall) -> bool:
    if not isinstance(call.arguments, str):
        return False
    try:
        return not isinstance(json.loads(call.arguments), dict)
    except (ValueError, RecursionError):
        return True


def tools_of(message: Message) -> list[str]:
    """The names of the tools that a message calls, or whose result it says it is."""
    named = message.get("toolName", message.get("name") if message.get("role") == TOOL else None)
    own = [named] if isinstance(named, str) and named else []
    return list(dict.fromkeys([*own, *(call.name for call in calls_of(message) if call.name)]))


def _add_call(calls: list[ToolCall], call: Message, key: str, arguments: Any, shape: str) -> None:
    id, name = call.get(key), call.get("name")
    if isinstance(id, str):
        calls.append(ToolCall(id, name if isinstance(name, str) else "", arguments, shape))


def result_ids(message: Message) -> list[str]:
    """The ids of the calls whose results a message has, in order."""
    role = message.get("role")
    if role == "toolResult":
        return _ids(message.get("toolCallId"))
    if role == "tool":
        return _ids(message.get("tool_call_id"))
    kind = message.get("type")
    if isinstance(kind, str) and kind in RESULT_ITEMS:
        if answers_no_call(message):
            return []
        named = message.get("id") if kind == "local_shell_call_output" else None
        return _ids(message.get("call_id", named))
    content = message.get("content")
    if role != "user" or not isinstance(content, list):
        return []
    return [block["tool_use_id"] for block in content if is_result_block(block)]


def answers_no_call(message: Message) -> bool:
    """True if this is an output that Codex gives a model without a call, named for what it is."""
    is_output = kind_of(message) == "function_call_output" and "call_id" not in message
    return is_output and isinstance(message.get("name"), str)


def _ids(id: Any) -> list[str]:
    """The id alone; the empty id, which no call has, where the result names no call."""
    return [id if isinstance(id, str) else ""]


def is_result_block(block: Any) -> bool:
    """True if a content block is a tool result that names its call."""
    return (
        isinstance(block, dict)
        and kind_of(block) in RESULT_BLOCKS
        and isinstance(block.get("tool_use_id"), str)
    )


def message_in(keys: Mapping[str, Any]) -> Message | None:
    """The message in an entry, given its keys as stored; None for an entry without one.

    A block is a message of that block alone. It has the role that Anthropic's results have, so
    that `calls_of` and `result_ids` read both kinds: the block itself does not name its role.
    """
    message, block = keys.get("message"), keys.get("block")
    if isinstance(message, dict):
        return message
    return {"role": "user", "content": [block]} if isinstance(block, dict) else None


def is_prompt(message: Message) -> bool:
    """True if this is a user message with content that is not a tool result."""
    content = message.get("content") if message.get("role") == "user" else None
    if isinstance(content, str):
        return bool(content)
    return isinstance(content, list) and any(not is_result_block(block) for block in content)


def begins_turn(keys: Mapping[str, Any]) -> bool:
    """True if an entry, given its keys as stored, is a prompt: what the user typed.

    A command that the user typed is one, such as `/review`. Other messages with `isMeta` in the
    metadata are not, as the program wrote them in the user's name; nor is a message that says that
    the user interrupted the agent, nor what a compaction repeats. What the user typed is one, even
    where no message has it.
    """
    message = keys.get("message")
    if not isinstance(message, dict):
        return typed_text(keys) is not None
    if not is_prompt(message):
        return False
    if keys.get("metadata"):
        if repeated_by(keys) is not None:
            return False
        if is_generated(keys):
            return is_typed_command(message)
    return not says_interrupted(message)


def is_generated(keys: Mapping[str, Any]) -> bool:
    """True if a program marked an entry as its own, also a command, which it wraps in tags."""
    metadata = keys.get("metadata")
    return isinstance(metadata, dict) and metadata.get("isMeta") is True


REPEATS: Final = "repeats"
"""The key in the metadata of an entry that a compaction lists for the model.

Its value is the uuid of the entry that it repeats, or null if no other entry says the same.
"""


def repeated_by(keys: Mapping[str, Any]) -> str | None:
    """The uuid of the entry that said what an entry only repeats, for the model; None if it is new.

    An agent that compacts lists what stays in the context. People read it where it was said.
    """
    metadata = keys.get("metadata")
    repeated = metadata.get(REPEATS) if isinstance(metadata, dict) else None
    return repeated if isinstance(repeated, str) else None


def is_typed_command(message: Message) -> bool:
    """True if a message of Claude Code holds a command that the user typed, such as `/review`."""
    return message.get("role") == "user" and beginning_of(message).lstrip().startswith(_TYPED)


def says_interrupted(message: Message) -> bool:
    """True if a message of the user says that the user interrupted the agent."""
    return beginning_of(message).startswith(_INTERRUPTED)


def beginning_of(message: Message) -> str:
    """The start of the text of a message, in which a sign is looked for."""
    content = message.get("content")
    if isinstance(content, str):
        return content[:LOOK]
    return block_text(next(iter(blocks_of(message)), {}))[:LOOK]


TYPED: Final = "typed"
"""The key of the metadata of a `custom` entry that holds a prompt of the user, as `content`."""


def typed_text(keys: Mapping[str, Any]) -> str | None:
    """The prompt in a `custom` entry, given its keys as stored, that no message has; or None."""
    metadata, data = keys.get("metadata"), keys.get("data")
    if not isinstance(metadata, dict) or metadata.get(TYPED) is not True:
        return None
    text = data.get("content") if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


FAILURE: Final = "isApiErrorMessage"
"""The key of a line of Claude Code that holds an error of its API in place of an answer."""


def failure_in(keys: Mapping[str, Any]) -> str | None:
    """The error in a `custom` entry, given its keys as stored, that ended a turn; or None.

    Claude Code shows such an error to the user, and never sends it to the model.
    """
    data = keys.get("data")
    if not isinstance(data, dict) or data.get(FAILURE) is not True:
        return None
    message = data.get("message")
    return text_of(message) or None if isinstance(message, dict) else None


def slash_command(text: str) -> str | None:
    """The slash command in a message of Claude Code, such as `/clear`, or None."""
    _, start, rest = text.partition(_COMMAND[0])
    name, end, _ = rest.partition(_COMMAND[1])
    return name.strip() or None if start and end else None


def interrupted_result(call: ToolCall) -> dict[str, Any]:
    """A result for a call that was never answered, in the shape of the call."""
    text = "Interrupted: no result was recorded for this call."
    if call.shape == "toolCall":
        named = {"toolCallId": call.id, "toolName": call.name}
        content = [{"type": "text", "text": text}]
        return {"role": "toolResult", **named, "content": content, "isError": True}
    if call.shape == "tool_use":
        block = {"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": True}
        return {"role": "user", "content": [block]}
    if call.shape == "chat":
        return {"role": "tool", "tool_call_id": call.id, "content": text}
    key = "id" if call.shape == "local_shell_call" else "call_id"
    return {"type": f"{call.shape}_output", key: call.id, "output": text}


def block_preview(block: Mapping[str, Any]) -> str:
    """A content block in a few words."""
    kind = kind_of(block)
    if text := block_text(block):
        return text
    if kind in CALL_BLOCKS:
        return f"{block.get('name')}({_arguments_text(block.get('arguments', block.get('input')))})"
    if kind in RESULT_BLOCKS:
        return text_of(block)
    if kind in IMAGE_BLOCKS:
        return "[image]"
    if kind == "thinking":
        return f"(thinking) {block.get('thinking', '')}"
    return f"[{kind}]" if kind else ""


def call_preview(call: ToolCall) -> str:
    """A tool call in a few words."""
    return f"{call.name}({_arguments_text(call.arguments)})"


def printed(output: Any) -> Any:
    """What a program printed, of an output that older versions of Codex put in JSON with its state.

    Other outputs are given as they are.
    """
    if not isinstance(output, str) or not output.startswith('{"output":'):
        return output
    try:
        found = orjson.loads(output)
    except orjson.JSONDecodeError:  # cut, or no JSON of Codex
        return output
    is_wrapped = set(found) == {"output", "metadata"} and isinstance(found["output"], str)
    return found["output"] if is_wrapped else output


def preview_of(message: Message) -> str:
    """A message in a few words: its text, else its calls, else its reasoning or output."""
    if parts := [part for block in blocks_of(message) if (part := block_preview(block))]:
        return " ".join(parts)
    if calls := calls_of(message):
        return " ".join(map(call_preview, calls))
    if kind_of(message) == "reasoning":
        summary = message.get("summary")
        thoughts = summary if isinstance(summary, list) else []
        words = " ".join(block_text(part) for part in thoughts if isinstance(part, dict))
        return f"(thinking) {words}".rstrip()
    if message.get("role") == "bashExecution":
        return f"$ {message.get('command', '')}"
    output = printed(message.get("output"))
    return output if isinstance(output, str) else ""


def _arguments_text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    if isinstance(arguments, dict):
        return ", ".join(f"{key}={_short(value)}" for key, value in arguments.items())
    return "" if arguments is None else _short(arguments)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json_text(value)
    return text if len(text) <= 60 else mask_then_cut(text, 0, 60)[:59] + "…"


def json_text(value: Any) -> str:
    """A value as JSON, for display or measure. It never fails, so it is not always valid JSON."""
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # a lone surrogate, an integer of more than 64 bits, a deep nesting
        pass
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except (ValueError, RecursionError):
        return "…"


_DEEPEST_INDENTED: Final = 12  # levels
"""Deeper values are on one line: each level makes every line below it longer."""


_INDENTED: Final = (
    orjson.OPT_INDENT_2 | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
_OTHERWISE: Final = re.compile(rb"null|\de[-\d]|0\.0000")
"""What orjson may write in another way than Python: NaN as null, and numbers far from one."""


def indented_text(value: Any) -> str:
    """A value as JSON on several lines, for people; one that is nested deep on one line."""
    if _is_deeper(value, _DEEPEST_INDENTED):
        return json_text(value)
    with suppress(TypeError):  # half of a pair of surrogates, a large number, another key
        text = orjson.dumps(value, option=_INDENTED, default=str)
        if _OTHERWISE.search(text) is None:
            return text.decode()
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, default=str)
    except (ValueError, RecursionError):
        return json_text(value)


def _is_deeper(value: Any, levels: int) -> bool:
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list | tuple):
        return False
    return not levels or any(_is_deeper(each, levels - 1) for each in value)
