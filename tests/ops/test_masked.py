"""With `redact`, no answer has a piece of a secret, wherever a text is cut."""

from __future__ import annotations

from pathlib import Path
from random import Random
from string import ascii_letters
from typing import Any, Final

import pytest

from sessiontree import Session
from tests.ops.test_fit import NAMED, READS, WITHOUT_SESSION
from tests.support.calls import Calls
from tests.support.soak import in_soak
from tests.support.table import for_each

BODY: Final = "".join(Random(7).choices(ascii_letters, k=36))
SECRET: Final = f"ghp_{BODY}"
"""A half of it is not known as a secret: its length counts."""
PIECE: Final = 10
"""Characters of a secret that may not be together in an answer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session in which the same secret stands at many places of its texts."""
    root = tmp_path_factory.mktemp("secrets")
    with Session.create(root / "s.jsonl", durability="os") as session, session.batch():
        for n in range(0, 160, 6):
            text = f"{'e ' * n}{SECRET} is the key"
            call = {"type": "tool_use", "id": f"c{n}", "name": "Bash", "input": {"command": text}}
            result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text}
            session.append_message({"role": "user", "content": text})
            session.append_message({"role": "assistant", "content": [call]})
            session.append_message({"role": "user", "content": [result]})
            session.append_handle(f"file@1.0.0::path:{n}", role="user", preview=text)
            session.label("@~1", f"label-{n}")
            session.branch("@~2", summary=text)
    return root


def pieces_in(answer: Any) -> list[str]:
    told = str(answer.events)
    pieces = (BODY[at : at + PIECE] for at in range(len(BODY) - PIECE))
    return [piece for piece in pieces if piece in told]


@for_each(("name", "params"), READS, ids=NAMED)
@in_soak("budgets", [200, 0], [200, 700, 4000, 0])
def test_no_piece_of_a_secret_leaves(
    folder: Path, name: str, params: dict[str, Any], budgets: list[int]
) -> None:
    calls = Calls(folder, redact=True, write=False)
    given = {} if name in WITHOUT_SESSION else {"session": str(folder / "s.jsonl")}
    for budget in budgets:
        answer = calls(name, budget=budget, **given, **params)
        assert answer.error is None
        assert not pieces_in(answer)
