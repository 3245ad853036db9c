"""Random breakages of a transcript: what kills, editors and file systems do to its lines."""

from __future__ import annotations

import re
from random import Random
from typing import Final

_PARENT: Final = re.compile(rb'("parent(?:Uuid|Id)": ?")([^"]+)(")')
_GONE: Final = rb"\g<1>gone\g<2>\g<3>"


def broken(lines: list[bytes], rng: Random, times: int) -> bytes:
    """A file of some lines, broken in several places, now and then the first; not the last."""
    parts = [line + b"\n" for line in lines]
    is_first = not rng.randrange(3) and len(parts) > 5
    apart = range(3 if is_first else 1, len(parts) - 2, 3)  # whose marks cannot be told apart
    places = rng.sample(apart, min(times, len(apart)))
    for at in [0, *places] if is_first else places:
        part = parts[at]
        kind = rng.choice(["cut", "torn", "lost", "doubled", "fused", "reordered", "orphaned"])
        if kind == "orphaned" and not at:
            parts[at] = bytes(len(part) - 1) + b"\n"
        elif kind == "cut":
            parts[at] = part[: rng.randrange(len(part) + 1)] + b"\n"
        elif kind == "torn":
            parts[at] = part[: rng.randrange(len(part) + 1)]
        elif kind == "lost":
            parts[at] = b""
        elif kind == "doubled":
            parts[at] = part + part
        elif kind == "fused":
            parts[at] = part.removesuffix(b"\n")
        elif kind == "reordered":
            parts[at], parts[at + 1] = parts[at + 1], parts[at]
        elif kind == "orphaned":
            parts[at] = _PARENT.sub(_GONE, part, count=1)
    return b"".join(parts)
