"""The numbers of prompts that are found without counting work are those of the outline."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.errors import SessionTreeError
from sessiontree.views.turns import numbers_of, prompt_numbers
from tests.formats.conftest import CORPUS

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = sorted({*FIXTURES.glob("*/session.jsonl"), *CORPUS.rglob("*.jsonl")})


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_they_are_those_of_the_outline(file: Path) -> None:
    try:
        session = Session.open(file, readonly=True)
    except SessionTreeError:
        return  # a file that is no session
    with session:
        whole = numbers_of(session.cursor)
        prompts = prompt_numbers(session.cursor)
        began = [turn.uuid for turn in session.outline().turns if turn.prompt is not None]
        numbered = {uuid for uuid in began if uuid in whole}
    assert {uuid: prompts.get(uuid) for uuid in numbered} == {
        uuid: whole[uuid] for uuid in numbered
    }
