"""What OpenAI's two APIs, Responses and Chat Completions, have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sessiontree.context.providers.parts import Call, Media, Part, Result, Text, cannot_be_sent
from sessiontree.context.providers.values import Notes, arguments_text, fit_name
from sessiontree.core.media import IMAGES, PDF

FAILED: Final = "The call failed:"
_NOTHING: Final = "(no output)"


def output_text(result: Result) -> str:
    """A result's text. A failure is said in words, because there is no key for it."""
    texts = [part.text for part in result.parts if isinstance(part, Text)]
    lead = [FAILED] if result.failed else []
    return "\n".join(lead + (texts or [_NOTHING]))


def name_of(call: Call, notes: Notes) -> str:
    """A tool's name, fit to be sent."""
    name = fit_name(call.name)
    if name != call.name:
        notes.add(f"the tool {call.name!r} is called {name!r}")
    return name


def arguments_of(call: Call) -> str:
    """A call's arguments as text, unchanged where they were stored as text."""
    given = call.arguments
    return given if isinstance(given, str) else arguments_text(given)


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


def data_url(media: Media) -> str:
    """The bytes of an image or a document as a data URL."""
    return f"data:{media.media_type};base64,{media.data}"


def file_name(media: Media) -> str:
    """A file name, which OpenAI requires with the bytes of a file."""
    name = media.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def is_sendable_data(media: Media) -> bool:
    """Whether the bytes are of a type that OpenAI reads."""
    types = IMAGES if media.kind == "image" else {PDF}
    return bool(media.data) and media.media_type in types


def instead_of(media: Media, notes: Notes) -> str:
    """Text in place of media that cannot be sent."""
    return cannot_be_sent(media, "OpenAI", notes)
