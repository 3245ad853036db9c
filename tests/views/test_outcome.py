"""How a turn ended, and how an outline, an opened turn and JSON say it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.conversation import HEADER, line, opened, write
from tests.support.terminal import done, printed_json

STOP = "[Request interrupted by user]"
BLOCK = {"messageUuid": "m", "index": 0, "block": {"type": "text", "text": "Half an"}}
STEPS: dict[str, dict[str, Any]] = {
    "asked": {"role": "user", "content": "Do it"},
    "again": {"role": "user", "content": "Do it so"},
    "/model": {"role": "user", "content": "/model"},
    "thought": {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm"}]},
    "call": {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "Bash"}]},
    "result": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]},
    "said": {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    "image": {"role": "assistant", "content": [{"type": "image"}]},
    "note": {"role": "assistant", "model": "<synthetic>", "content": "No response requested."},
    "aborted": {"role": "assistant", "content": "I", "stopReason": "aborted"},
    "nothing": {"role": "assistant", "content": [], "stopReason": "aborted"},
    "failed": {"role": "assistant", "content": [], "stopReason": "error"},
    "stop": {"role": "user", "content": STOP},
}
DEAL = ("asked", "call", "result")


def lines(steps: Sequence[str | int]) -> list[dict[str, Any]]:
    """A message for each step; a number is a wait of so many seconds."""
    made: list[dict[str, Any]] = []
    above, time = "root", 0
    for number, step in enumerate(steps):
        if isinstance(step, int):
            time += step
            continue
        at = f"2026-02-10T{time // 3600:02}:{time // 60 % 60:02}:{time % 60:02}.000Z"
        kind, said = ("block", BLOCK) if step == "block" else ("message", {"message": STEPS[step]})
        made.append(line(kind, f"e{number}", above, **said, timestamp=at))
        above = f"e{number}"
    return made


@pytest.mark.parametrize(
    ("steps", "outcome"),
    [
        ((*DEAL, "said"), "answered"),
        (("asked", "image"), "answered"),
        ((*DEAL, "stop"), "given up"),
        ((*DEAL, "stop", "note"), "given up"),
        ((*DEAL, "stop", "said"), "answered"),
        ((*DEAL, "stop", 60, "again", "said"), "interrupted"),
        ((*DEAL, "aborted", 60, "again", "failed"), "interrupted"),
        ((*DEAL, "stop", 601, "again", "said"), "given up"),
        ((*DEAL, "stop", 9, "/model", "asked", "said"), "given up"),
        ((*DEAL, 1, "again", "said"), "steered"),
        ((*DEAL, 6, "again", "said"), "no answer"),
        (DEAL, "unfinished"),
        (DEAL[:2], "unfinished"),
        (("asked", "stop"), "no output"),
        (("asked", "thought", "nothing", 9, "again", "said"), "no output"),
        (("asked",), "no output"),
        (("asked", "thought"), "no output"),
        (("asked", 1, "again", "said"), None),
        (("/model", 9, "asked", "said"), None),
        ((*DEAL, "failed"), "failed"),
        (("asked", "block"), "broke off"),
    ],
)
def test_a_turn_says_how_it_ended(
    steps: Sequence[str | int], outcome: str | None, file: Path
) -> None:
    with opened(file, *lines(steps)) as session:
        assert session.outline().turns[0].outcome == outcome
    row = next(row for row in printed_json("tree", file) if row["prompt"])
    assert row["outcome"] == outcome
    assert printed_json("tree", file, "--turn", "1")[0]["outcome"] == outcome
    is_marked = outcome not in ("answered", "failed", None)
    drawn, turn = done("tree", file), done("tree", file, "--turn", "1")
    drawn = re.sub("interrupted( once)?, went on", "", drawn)
    assert is_marked == any(word in drawn for word in WORDS) == (f"\n{outcome}: " in turn)
    assert not is_marked or f"  {outcome}" in drawn


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ((*DEAL, "said"), (0, 0, 0)),
        ((*DEAL, "stop"), (1, 1, 0)),
        ((*DEAL, "stop", "said"), (1, 0, 0)),
        ((*DEAL, "stop", "call", "stop"), (2, 1, 1)),
        ((*DEAL, "aborted"), (1, 1, 0)),
        (DEAL[:2], (0, 0, 1)),
        (("asked", "block"), (1, 1, 0)),
        (("asked", "stop", "block"), (1, 0, 0)),
        ((*DEAL, "failed"), (0, 0, 0)),
    ],
)
def test_what_was_interrupted_and_stays_without_a_result_is_counted(
    steps: Sequence[str | int], counts: tuple[int, int, int], file: Path
) -> None:
    with opened(file, *lines(steps)) as session:
        work = session.outline().turns[0].work
    assert (work.interruptions, work.stopped, work.unanswered) == counts


WORDS = (
    *("given up", "steered", "interrupted", "no output", "no answer", "unfinished", "broke off"),
)


def test_a_comparison_has_the_outcomes_of_whole_turns(file: Path) -> None:
    side = line("message", "s", "root", message=STEPS["asked"])
    with opened(file, *lines((*DEAL, "said", "again", *DEAL[1:])), side) as session:
        found = session.compare("e6", "s").as_dict()
        assert [turn["outcome"] for turn in found["one"]["turns"]] == ["answered", "unfinished"]
        found = session.compare("e1", "s").as_dict()
        assert [turn["outcome"] for turn in found["one"]["turns"]] == [None]


def test_without_times_the_next_prompt_goes_on(file: Path) -> None:
    write(file, [HEADER, *({**one, "timestamp": None} for one in lines((*DEAL, "stop", "again")))])
    assert "  interrupted" in done("tree", file)
