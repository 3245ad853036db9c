"""A secret is masked in each place of a session that holds its text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import pytest

from benchmarks.redaction import Example, examples, is_left
from sessiontree import Redaction
from tests.support.soak import in_soak
from tests.support.table import for_each

LEAST_RECALL: Final = 0.95

SHAPES: Final[dict[str, Callable[[str], Any]]] = {
    "prompt": lambda text: {"role": "user", "content": text},
    "blocks": lambda text: {"role": "user", "content": [{"type": "text", "text": text}]},
    "result": lambda text: {
        "role": "toolResult",
        "toolCallId": "c1",
        "content": [{"type": "text", "text": f"$ cat it\n{text}\n$ "}],
    },
    "command": lambda text: {
        "role": "assistant",
        "content": [
            {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": text}}
        ],
    },
    "JSON text": lambda text: {"role": "user", "content": json.dumps({"output": text})},
    "JSON in a text": lambda text: {"role": "user", "content": f"log: {json.dumps(text)} end"},
    "lines": lambda text: {"role": "user", "content": f"first line\n\n{text}\n\nlast line\n"},
}


def left(shape: str, some: list[Example]) -> list[Example]:
    """The examples whose secret is left in an entry of a shape."""
    return [
        example
        for example in some
        if is_left(
            example.secret,
            json.dumps(Redaction().value({"message": SHAPES[shape](example.text)}, "e")),
        )
    ]


@pytest.mark.slow
@for_each("shape", list(SHAPES))
@for_each("name", ["context.txt", "context-held-out.txt"])
@in_soak("every", 10, 3)
def test_a_secret_is_masked_in_an_entry_of_each_shape(shape: str, name: str, every: int) -> None:
    some = examples(name)[::every]
    missed = left(shape, some)
    assert len(missed) <= (1 - LEAST_RECALL) * len(some), missed
