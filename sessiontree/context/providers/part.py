"""The parts that messages of every provider are made of, once their shape is taken off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Side = Literal["user", "assistant"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words.

    Attributes:
        text: never empty, without lone surrogates.
        item_id: the id of the OpenAI Responses item it came in, or None.
        phase: OpenAI's `commentary` or `final_answer`, or None.
        instruction: whether it stood in a message of OpenAI's role `developer`.
    """

    text: str
    item_id: str | None = None
    phase: str | None = None
    instruction: bool = False


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a document, by exactly one of its bytes, its address, or a provider's file.

    Attributes:
        kind: `image` or `document`.
        data: base64 of the bytes, or None.
        media_type: such as `image/png`; empty where none is known.
        url: an http(s) address, or None.
        file_id: the name of a file that `file_host` keeps, or None.
        file_host: `anthropic` or `openai`.
        name: the file's name or title, or None.
    """

    kind: Literal["image", "document"]
    data: str | None = None
    media_type: str = ""
    url: str | None = None
    file_id: str | None = None
    file_host: str = ""
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a model thought, sealed so that only its maker can read or check it.

    A seal is bound to the model. So thinking is sent back only while the model in
    force is the one that thought it; a provider's prompt cache does not outlive a
    change of the model either.

    Attributes:
        text: the thought itself where it is told; for Responses nothing (see `told`).
        seal: the signature, the redacted data, or the encrypted content.
        maker: `anthropic` or `openai`; empty where neither made it, or there is no seal.
        redacted: whether it is an Anthropic block without text.
        item: the Responses item, `reasoning` or `compaction`, or None.
        told: what such an item tells of the thought, for people to read.
    """

    text: str
    seal: str
    maker: str
    redacted: bool = False
    item: dict[str, Any] | None = None
    told: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call.

    Attributes:
        id: the id in the session as read; in turns the one to send.
        name: the tool's name as stored; it may be empty or unfit.
        arguments: an object, or text for a tool that takes free text.
        freeform: whether the tool takes free text.
        item_id: the id of the OpenAI Responses item it came in, or None.
    """

    id: str
    name: str
    arguments: Any
    freeform: bool = False
    item_id: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered.

    Attributes:
        id: the call's id, as for `Call`.
        parts: text and media.
        failed: whether it is marked as an error.
        name: the tool's name, empty where unknown.
        freeform: whether the call it answers was one of free text.
    """

    id: str
    parts: tuple[Text | Media, ...]
    failed: bool = False
    name: str = ""
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class Hosted:
    """A block of a tool that Anthropic itself ran: the call, or its result.

    Attributes:
        id: of the call, in both.
        block: as stored.
    """

    id: str
    block: dict[str, Any]


Part = Text | Media | Thinking | Call | Result | Hosted
