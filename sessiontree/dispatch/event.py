"""The events of a call.

Invariants: a call gives any number of `progress`, `data` and `guidance`, at most one `error`, and
last `done`, once. After an `error` comes nothing but `done`.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", omit_defaults=True):
    """What a call tells.

    Attributes:
        provenance: who tells it, as a path: `sessiontree/tree/render`.
        schema: the hash of all methods; when it changes, a client asks for the methods again.
            Empty if the call is made without it.
    """

    provenance: str
    schema: str


class Progress(Event, frozen=True, kw_only=True, tag="progress"):
    """How far the work is.

    Attributes:
        message: what is being done.
        fraction: how much of it is done, from 0 to 1; None if that is not known.
    """

    message: str
    fraction: float | None = None


class Data(Event, frozen=True, kw_only=True, tag="data"):
    """A result.

    Attributes:
        content_type: what the value is: `sessiontree.Drawing`, by the name of its schema.
        value: the value, as JSON has it.
        left_out: what was cut from the value to keep the budget, and how to get it.
    """

    content_type: str
    value: Any
    left_out: str | None = None


class Guidance(Event, frozen=True, kw_only=True, tag="guidance"):
    """What to do next.

    Attributes:
        kind: the kind of error, such as `unknown_method`; `warning` if the call goes on.
        next: what to do, as a sentence.
        available: the names that would do.
        example: parameters that would do.
        given: the name that was given, if it stands for more than one of the available names.
    """

    kind: str
    next: str
    available: list[str] = []
    example: dict[str, Any] | None = None
    given: str | None = None


class Error(Event, frozen=True, kw_only=True, tag="error"):
    """Why there is no result.

    Attributes:
        message: what is wrong, and where.
        recoverable: whether the same method can succeed, with other parameters or later.
    """

    message: str
    recoverable: bool


class Done(Event, frozen=True, kw_only=True, tag="done"):
    """The end of the call."""
