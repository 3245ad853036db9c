"""The request for a summary: messages as plain text, for a model that writes a summary.

Every shape of message gives the same text. Thinking is left out. A long result, and the long
arguments of a call, are cut in the middle, and the cut is marked with its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sessiontree.context.providers.reading import (
    Media,
    MessageReader,
    Part,
    ProviderBlock,
    Result,
    SentCall,
    TextPart,
    Thinking,
)
from sessiontree.context.providers.values import RequestNotes
from sessiontree.core.display import mask_then_cut
from sessiontree.core.message import Message, json_text

LONGEST: Final = 2_000  # characters of a result, or of the arguments of a call

_TASK: Final = """\
Below, between the <conversation> tags, is a conversation between a user and an agent. Write a \
summary that replaces it: afterwards, the agent has only your summary, and must be able to go on \
with the work. Keep the user's goals, requirements and decisions; what was done and found, with \
the names of files, functions and commands; errors and how they were solved; the current state; \
and the next steps. Carry over what an earlier summary in the conversation says. Do not answer \
the conversation, and do not continue it."""


def summary_request(messages: Iterable[Message], instructions: str | None) -> str:
    """The request to a model to summarize messages, with the user's instructions."""
    said = dialogue(messages).replace("</conversation", "<\\/conversation")  # only ours closes it
    parts = [_TASK, f"<conversation>\n{said}\n</conversation>"]
    if instructions is not None:
        parts.append(f"The user's instructions for this summary:\n{instructions}")
    return "\n\n".join([*parts, "Write the summary now."])


def dialogue(messages: Iterable[Message]) -> str:
    """Messages as text, each part below a line that names the speaker."""
    reading, names = MessageReader(RequestNotes(), None), dict[str, str]()
    parts: list[str] = []
    last = ""
    for message in messages:
        for side, part in reading.parts_of(message):
            for title, text in _passages(part, side, names):
                parts.append(text if title == last else f"[{title}]\n{text}")
                last = title if title in ("user", "assistant") else ""
    return "\n\n".join(parts)


def _passages(part: Part, side: str, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The title and the text of a part; `names` has the tool of each call so far."""
    if isinstance(part, TextPart):
        yield side, part.text
    elif isinstance(part, Media):
        yield side, _media(part)
    elif isinstance(part, SentCall):
        names[part.id] = part.name
        yield f"call of {part.name or 'a tool'}", _cut(_as_text(part.arguments))
    elif isinstance(part, Result):
        name = part.name or names.get(part.id) or "a call"
        texts = [
            piece.text if isinstance(piece, TextPart) else _media(piece) for piece in part.parts
        ]
        title = "failed result" if part.failed else "result"
        yield f"{title} of {name}", _cut("\n".join(texts)) or "(empty)"
    elif isinstance(part, ProviderBlock):
        yield "tool of the provider", _cut(json_text(part.block))
    else:
        assert isinstance(part, Thinking)


def _media(media: Media) -> str:
    return f"({media.kind}: {media.name})" if media.name else f"({media.kind})"


def _as_text(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json_text(arguments)


def _cut(text: str) -> str:
    left = len(text) - LONGEST
    if left <= 0:
        return text
    half = LONGEST // 2
    begin = mask_then_cut(text, 0, half)[:half]
    end = mask_then_cut(text, len(text) - half, len(text))[-half:]
    return f"{begin}\n[… {left:,} characters are left out …]\n{end}"
