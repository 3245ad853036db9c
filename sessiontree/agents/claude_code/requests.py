"""The requests that Claude Code records, from 2.1.330 on: `api-request` and its parts.

A record names its system prompt and tools (`shapeHash`), and its messages by their hashes: the
first `keep` of the record `base`, then `tail`. A line `api-request-blob` has a message; a message
that the transcript has anyway, such as an answer, is not repeated: it is the content of
consecutive lines of one answer, or of the user. A hash is the SHA-256 of compact JSON with sorted
keys, in which a text is one block, and without marks of the cache; `requestDigest` is that of the
whole request, with the marks.

Not recorded: `metadata`, `stream`, and the first block of the system prompt, for the billing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

CACHE: Final = "cache_control"


def canonical(value: Any, *, cache: bool = False) -> bytes:
    """The bytes that are hashed; with marks of the cache only for a whole request."""
    plain = _plain(value, cache)
    try:
        return orjson.dumps(plain, option=orjson.OPT_SORT_KEYS)
    except (TypeError, ValueError):  # a lone surrogate, a large number, or deep nesting
        text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        return text.encode("utf-8", "surrogatepass")


def _plain(value: Any, cache: bool) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each, cache) for key, each in value.items() if cache or key != CACHE}
    if isinstance(value, list):
        return [_plain(each, cache) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)  # as JavaScript writes it
    return value


def digest(value: Any) -> str:
    """The hash of a system prompt with its tools."""
    return hashlib.sha256(canonical(value)).hexdigest()


def message_bytes(message: Mapping[str, Any]) -> bytes:
    """The bytes of which a message's hash is made."""
    return canonical(_in_blocks(message))


def digest_of_request(body: Mapping[str, Any]) -> str:
    messages = [_in_blocks(message) for message in body["messages"]]
    return hashlib.sha256(canonical({**body, "messages": messages}, cache=True)).hexdigest()


def _in_blocks(message: Mapping[str, Any]) -> dict[str, Any]:
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": blocks}


def messages_of_runs(
    said: Iterable[Mapping[str, Any]], wanted: set[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages with the wanted hashes, of the transcript's messages in their order.

    A record may name the start of what is one message now: each is tried.
    """
    run: tuple[Any, Any] | None = None
    blocks: list[Any] = []
    hashed = hashlib.sha256()
    for message in said:
        role, id, content = message.get("role"), message.get("id"), message.get("content")
        if content is None:
            run = None
            continue
        is_users = role == "user"
        before, run = run, (role, None if is_users else id)
        if run != before or (id is None and not is_users):
            blocks = []
            hashed = hashlib.sha256(b'{"content":[')
        found_blocks = _in_blocks(message)["content"]
        for block in found_blocks if isinstance(found_blocks, list) else [found_blocks]:
            hashed.update((b"," if blocks else b"") + canonical(block))
            blocks.append(block)
        ended = hashed.copy()
        ended.update(b'],"role":' + canonical(role) + b"}")
        if (found := ended.hexdigest()) in wanted:
            yield found, {"role": role, "content": [_plain(block, False) for block in blocks]}


def with_marks(body: dict[str, Any], marks: Iterable[Any]) -> tuple[dict[str, Any], int]:
    """A request with the marks of the cache, and the number of marks that have no place in it."""
    made = dict(body)
    own = {id(made): made}  # the copies: what is shared with other requests stays as it is
    lost = 0
    for mark in marks:
        path = mark.get("path") if isinstance(mark, dict) else None
        place = _place(made, path, own) if isinstance(path, list) else None
        if place is None:
            lost += 1
        else:
            place[CACHE] = mark.get("value")
    return made, lost


def _place(value: Any, path: list[Any], own: dict[int, Any]) -> dict[str, Any] | None:
    """The object at a path, copied with all that holds it; None if there is none."""
    for key in path:
        try:
            inner = value[key]
        except (LookupError, TypeError):
            return None
        if not isinstance(inner, dict | list):
            return None
        if id(inner) not in own:
            inner = inner.copy()
            own[id(inner)] = value[key] = inner
        value = inner
    return value if isinstance(value, dict) else None
