"""The samples of Codex's own files give what Codex sent for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.agents.codex_samples import SAMPLES
from tests.agents.test_real_codex import sent

VERSIONS = sorted(SAMPLES.iterdir())


@pytest.mark.parametrize("folder", VERSIONS, ids=lambda folder: str(folder.name))
def test_a_sample_gives_what_codex_sent(folder: Path) -> None:
    requests = json.loads((folder / "sent.json").read_text())
    rows = {row.id: row for row in Store(folder).list()}
    assert rows.keys() == requests.keys()
    facts = {(row.name, row.first_message) for row in rows.values()}
    assert facts == {("A thread with a revert", "first")}  # a fork takes the name along
    for id, row in rows.items():
        with Session.open(row.file, readonly=True) as session:
            assert session.verify() == []
            *here, _answer = session.context().messages
            assert [sent(item) for item in here] == requests[id]
            is_fork = "forkedFrom" in session.metadata
            assert len(session.branches()) == (1 if is_fork else 2)
