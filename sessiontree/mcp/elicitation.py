"""Asks the user which one is meant, where a name stands for more than one.

A client of an older protocol gets a request while its call waits. A client of the protocol of
2026-07-28 gets an answer that asks for input, and calls again with it. A client that cannot ask
gets the refusal, which names all that would do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from sessiontree.mcp.answer import Answer, clean, sendable

_CHOICE: Final = "choice"
_MOST: Final = 50


class Choice(NamedTuple):
    """The name that was given, and the one that the user means."""

    given: str
    meant: str


def is_ambiguous(found: Answer) -> bool:
    """Whether a call was refused because a name stands for more than one."""
    guidance = found.refusal
    return guidance is not None and guidance.given is not None and bool(guidance.available)


def replaced(params: dict[str, Any], choice: Choice) -> dict[str, Any]:
    """The parameters with the name that is meant."""
    return {key: choice.meant if one == choice.given else one for key, one in params.items()}


def chosen(params: types.CallToolRequestParams) -> Choice | None:
    """What the user chose, in a call that is made again with input."""
    given, inputs = params.request_state, params.input_responses or {}
    reply = inputs.get(_CHOICE)
    meant = _meant(reply) if isinstance(reply, types.ElicitResult) else None
    return Choice(given, meant) if given is not None and meant is not None else None


async def ask(
    ctx: ServerRequestContext[Any, Any],
    found: Answer,
    titles: Callable[[], Awaitable[Mapping[str, str]]],
) -> Choice | types.InputRequiredResult | None:
    """Ask the user; None if the client cannot, or the user does not choose.

    `titles` gives what the user reads for a name, for those names that have a title.
    """
    guidance = found.refusal
    assert guidance is not None
    assert guidance.given is not None
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        return None
    names = sendable(guidance.available[:_MOST])
    message = clean(f"{guidance.given!r} stands for more than one. Which one is meant?")
    known = await titles()
    read = [clean(known.get(name, name)) for name in names]
    choice = {"type": "string", "title": "Name", "enum": names, "enumNames": read}
    schema = {
        "type": "object",
        "properties": {_CHOICE: choice},
        "required": [_CHOICE],
    }
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        if ctx.params is not None and ctx.params.get("requestState") is not None:
            return None  # the user was asked, and did not choose
        form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        return types.InputRequiredResult(
            input_requests={_CHOICE: types.ElicitRequest(params=form)},
            request_state=clean(guidance.given),
        )
    try:
        reply = await ctx.session.elicit_form(message, schema, ctx.request_id)
    except (MCPError, ValidationError):
        return None
    meant = _meant(reply)
    return Choice(guidance.given, meant) if meant is not None else None


def _meant(reply: types.ElicitResult) -> str | None:
    if reply.action != "accept" or reply.content is None:
        return None
    meant = reply.content.get(_CHOICE)
    return meant if isinstance(meant, str) else None
