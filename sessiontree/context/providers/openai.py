"""What OpenAI's two shapes, Responses and Chat Completions, have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sessiontree.context.providers.parts import Call, Media, Part, Result, Text, stand_in
from sessiontree.context.providers.values import Notes, arguments_text, fit_name
from sessiontree.core.media import IMAGES, PDF

FAILED: Final = "The call failed:"
_NOTHING: Final = "(no output)"


def output_text(result: Result) -> str:
    """A result's text; that the call failed is said in words, for want of a mark."""
    said = [part.text for part in result.parts if isinstance(part, Text)]
    lead = [FAILED] if result.failed else []
    return "\n".join(lead + (said or [_NOTHING]))


def name_of(call: Call, notes: Notes) -> str:
    """The name to call a tool by."""
    name = fit_name(call.name)
    if name != call.name:
        notes.add(f"the tool {call.name!r} is called {name!r}")
    return name


def arguments_of(call: Call) -> str:
    """A call's arguments as text: as the model wrote them where they were stored so."""
    given = call.arguments
    return given if isinstance(given, str) else arguments_text(given)


def by_authority(parts: Sequence[Part]) -> Iterator[tuple[str, list[Text | Media]]]:
    """What the user's side says beside results, in runs of the roles `user` and `developer`."""
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


def data_url(media: Media) -> str:
    """The bytes of an image or a document as a data URL."""
    return f"data:{media.media_type};base64,{media.data}"


def file_name(media: Media) -> str:
    """A file name, which OpenAI demands beside a file's bytes."""
    name = media.name or "document"
    return name if name.lower().endswith(".pdf") else f"{name}.pdf"


def is_sendable_data(media: Media) -> bool:
    """Whether the bytes are of a kind that OpenAI reads."""
    types = IMAGES if media.kind == "image" else {PDF}
    return bool(media.data) and media.media_type in types


def instead_of(media: Media, notes: Notes) -> str:
    """Words in place of what cannot be sent."""
    notes.add(f"the {stand_in(media)[1:-1]} cannot be sent to OpenAI; its name stands for it")
    return stand_in(media)
