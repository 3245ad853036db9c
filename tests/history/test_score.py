"""The score of blame counts what is right, what is wrong and what must never be."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.history.lines import Line
from tests.history.project import Project, score
from tests.support.soak import in_soak

SEED = 4

pytestmark = pytest.mark.slow


def row(number: int, line: Line) -> dict[str, Any]:
    """What a blame that knows the truth says of a line."""
    writer = line.writer
    if writer is None:
        known: dict[str, Any] = dict.fromkeys(("agent", "session", "call", "prompt"))
        return {"line": number, "text": line.text, "certainty": "none", **known}
    known = {"agent": writer.agent, "session": writer.session, "call": writer.call}
    known["prompt"] = writer.prompts[0]
    return {"line": number, "text": line.text, "certainty": "exact", **known}


def truth(project: Project, file: Path, **about: Any) -> list[dict[str, Any]]:
    lines = project.files[str(file.relative_to(project.root))]
    return [row(number, line) | about for number, line in enumerate(lines, 1)]


def test_the_truth_itself_is_right() -> None:
    made = score(SEED, truth)
    assert made.share == 1
    assert made.counts["agents"] > 100
    assert made.counts["persons"] > 50
    assert (made.wrong, made.forbidden, made.counts["other prompt"]) == ([], [], 0)


def test_a_blame_that_knows_nothing_is_never_forbidden() -> None:
    made = score(SEED, partial(truth, certainty="none"))
    assert made.share == 0
    assert len(made.wrong) == made.counts["agents"]
    assert made.forbidden == []


def test_a_persons_line_given_to_an_agent_and_a_wrong_session_are_forbidden() -> None:
    worst = partial(truth, agent="pi", session="none of them", certainty="exact")
    made = score(SEED, worst)
    assert made.counts["given"] == made.counts["persons"]
    assert made.counts["wrong exact"] == made.counts["agents"]
    assert len(made.forbidden) == made.counts["persons"] + made.counts["agents"]
    assert "truth the person" in str(made)


def test_another_call_of_the_right_session_is_wrong() -> None:
    made = score(SEED, partial(truth, call="another"))
    assert made.share == 0
    assert made.counts["wrong exact"] == 0


SEEDS = (1, 2, 3, 4)
LEAST_SHARE = 0.98


@pytest.mark.slow
@in_soak("seeds", SEEDS[:1], SEEDS)
def test_blame_names_the_call_that_wrote_a_line(seeds: tuple[int, ...]) -> None:
    """98% of agents' lines have their call; none of the person's is an agent's."""
    for seed in seeds:
        made = score(seed)
        assert not made.forbidden, "\n".join([str(made), "never to be:", *made.forbidden])
        assert made.share >= LEAST_SHARE, str(made)
        assert made.counts["other prompt"] == 0, str(made)
