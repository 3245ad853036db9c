"""What OpenAI's two APIs, Responses and Chat Completions, have in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from sessiontree.context.providers.parts import Call, Media, Part, Result, Text, cannot_be_sent
from sessiontree.context.providers.values import Notes
from sessiontree.core.media import IMAGES, PDF

FAILED: Final = "The call failed:"
_NOTHING: Final = "(no output)"


def output_text(result: Result) -> str:
    """A result's text. A failure is said in words, because there is no key for it."""
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    lead = [FAILED] if result.failed else []
    return "\n".join(lead + (texts or [_NOTHING]))


def arguments_of(call: Call) -> str:
    """A call's arguments as text, unchanged where they were stored as text."""
    given = call.arguments
    if isinstance(given, str):
        return given
    return json.dumps(given, ensure_ascii=False, separators=(",", ":"))


def by_authority(parts: Sequence[Part]) -> Iterator[tuple[str, list[Text | Media]]]:
    """The user's side without results, in runs of the roles `user` and `developer`."""
    run: list[Text | Media] = []
    speaker = ""
    for part in parts:
        if not isinstance(part, Text | Media):
            continue
        role = "developer" if isinstance(part, Text) and part.instruction else "user"
        if run and role != speaker:
            yield speaker, run
            run = []
        speaker = role
        run.append(part)
    if run:
        yield speaker, run


def only_text(run: Sequence[Text | Media]) -> str | None:
    """The text of a run that is a single text, else None."""
    return run[0].text if len(run) == 1 and isinstance(run[0], Text) else None


def image_url(media: Media) -> str | None:
    """The address of an image, or its bytes as a data URL; None where it can have neither."""
    return _data_url(media) if is_sendable_data(media) else media.url


def file_of(media: Media) -> dict[str, str]:
    """The bytes of a document, and the file name that OpenAI requires with them."""
    name = media.name or "document"
    name = name if name.lower().endswith(".pdf") else f"{name}.pdf"
    return {"filename": name, "file_data": _data_url(media)}


def _data_url(media: Media) -> str:
    return f"data:{media.media_type};base64,{media.data}"


def is_sendable_data(media: Media) -> bool:
    """Whether the bytes are of a type that OpenAI reads."""
    types = IMAGES if media.kind == "image" else {PDF}
    return bool(media.data) and media.media_type in types


def instead_of(media: Media, notes: Notes) -> str:
    """Text in place of media that cannot be sent."""
    return cannot_be_sent(media, "OpenAI", notes)
