"""Work: the turns of a page, made by several processes where the session is large.

Invariant: the turns come in order, and are the same however many processes make them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from sessiontree.operations.workers import Crew, available
from sessiontree.page.making import ABOVE, MadeTurn, Maker

_MANY: Final = 4_000
"""Entries from which on several processes are faster than one."""

_SHARE: Final = 256
"""Entries that a process takes at once, in whole turns."""

_AS_JSON: Final = b"j"
_AS_MESSAGE_PACK: Final = b"m"

_Made = tuple[int, MadeTurn]  # the place of a turn, and the turn


def all_turns(maker: Maker) -> Iterator[_Made]:
    """All turns with their places, in order; first what is above them."""
    is_large = len(maker.tree) > _MANY
    processes = available() if is_large and maker.redaction is None else 1  # it counts secrets
    yield from Crew(maker.made, _encoded, _decoded, processes).results(list(_shares(maker)))


def _shares(maker: Maker) -> Iterator[range]:
    first, size = ABOVE, 0
    for place in range(ABOVE, len(maker.outline.turns)):
        size += len(maker.owned[place])
        if size > _SHARE:
            yield range(first, place + 1)
            first, size = place + 1, 0
    yield range(first, len(maker.outline.turns))


def _plain(value: Any) -> str:
    """Markup as the text that it is."""
    return str.__str__(value)


_encoder: Final = msgspec.msgpack.Encoder(enc_hook=_plain)
_decoder: Final = msgspec.msgpack.Decoder(tuple[int, MadeTurn])


def _encoded(made: _Made) -> bytes:
    try:
        return _AS_MESSAGE_PACK + _encoder.encode(made)
    except UnicodeEncodeError:  # half of a pair of surrogates, as Node cuts texts
        return _AS_JSON + json.dumps(msgspec.to_builtins(made, enc_hook=_plain)).encode("ascii")


def _decoded(frame: bytes) -> _Made:
    if frame[:1] == _AS_MESSAGE_PACK:
        return _decoder.decode(frame[1:])
    return msgspec.convert(json.loads(frame[1:]), tuple[int, MadeTurn], strict=False)
