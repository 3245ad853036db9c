"""Short ways to say messages and to look at what is sent."""

from __future__ import annotations

from typing import Any

from sessiontree import Context, Session
from sessiontree.context.providers.values import Request

PIXEL = "R0lGODlhAQABAIAAAAUEBAAAACwAAAAAAQABAAACAkQBADs="
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/gif"}


def context(*messages: dict[str, Any], verbatim: bool = False) -> Context:
    """The context of a session in memory that holds these messages."""
    session = Session.create(cwd="/project")
    for message in messages:
        session.append_message(message)
    return session.context(verbatim=verbatim)


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(*blocks: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks), **more}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(id: str, name: str = "ls", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(id: str, content: Any = "done", *, failed: bool = False) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": id, "content": content, "isError": failed}


def chat_call(id: str, arguments: str, name: str = "ls") -> dict[str, Any]:
    made = {"name": name, "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": made}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def anthropic_blocks(request: Request) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(message["role"], message["content"]) for message in request.params["messages"]]
