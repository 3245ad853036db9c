"""The turns of a session: each prompt of each branch, and what was done after it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.core.usage import Usage
from sessiontree.views.turns import SessionOutline, entries_of, numbers_of, prompt_numbers
from sessiontree.views.work import ends_of
from tests.agents.conftest import CORPUS
from tests.support.conversation import HEADER, chain, line, message, opened, write
from tests.support.saying import call
from tests.support.table import for_each
from tests.support.terminal import done, printed_json
from tests.support.trees import Tree

FIXTURES = Path(__file__).parents[2] / "fixtures"


def names(outline: SessionOutline) -> list[tuple[str, str | None]]:
    return [(turn.name, turn.prompt) for turn in outline.turns]


def answer(uuid: str, parent: str, *calls: dict[str, Any], **keys: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": list(calls), **keys}
    return line("message", uuid, parent, message=said)


def result(uuid: str, parent: str, id: str, **keys: Any) -> dict[str, Any]:
    said = {"role": "toolResult", "toolCallId": id, "toolName": "x", "content": [], **keys}
    return line("message", uuid, parent, message=said)


def sessions() -> list[Path]:
    own, agents = FIXTURES.glob("*/session.jsonl"), FIXTURES.glob("agents/*/**/*.jsonl")
    return sorted(file for file in [*own, *agents] if "blob-folder" not in str(file))


@pytest.mark.filterwarnings("ignore")
def test_every_prompt_of_every_fixture_is_a_turn_and_all_usage_counts_once() -> None:
    for file in sessions():
        try:
            session = Session.open(file, readonly=True)
        except SessionTreeError:
            continue
        with session:
            _check(session, copies="codex" in str(file))


@pytest.mark.filterwarnings("ignore")
def test_every_prompt_of_a_random_session_is_a_turn_and_all_usage_counts_once() -> None:
    for seed in range(30):
        with Tree(Random(seed)).grow(60).session as session:
            _check(session)


def _check(session: Session, *, copies: bool = False) -> None:
    outline = session.outline()
    drawn = {turn.uuid for turn in outline.turns}
    tips = [branch.leaf for branch in session.branches()]
    first = [turn[0] for tip in tips for turn in session.turns(tip)]
    asked = {e.uuid for e in first if e.type != "handle" or e.get("role")}  # none is resolved
    assert copies or asked <= drawn
    spent = session.stats().usage
    cost = round(outline.work.usage.cost - spent.cost, 9)
    assert (outline.work.usage, cost) == (
        Usage(spent.input, spent.output, spent.cache_read, spent.cache_write,
              outline.work.usage.cost),
        0,
    )  # fmt: skip
    rows = [row for row in session.tree() if row.prompt and row.turn is not None]
    numbers = [turn.number for turn in outline.turns if turn.prompt is not None]
    assert session.reader.index().has_late_parents or {row.turn for row in rows} <= {*numbers}
    for turn in outline.turns:
        entries = entries_of(session.cursor, turn)
        assert (entries[0].uuid, entries[-1].uuid) == (turn.uuid, turn.leaf)
    ends = sum(not turn.subagent for turn in outline.turns)
    assert bool(tips) <= bool(ends)


@pytest.mark.filterwarnings("ignore")
def test_a_number_keeps_its_turn_while_the_session_grows() -> None:
    tree = Tree(Random(7))
    known: list[tuple[str, str | None]] = []
    for _ in range(25):
        now = names(tree.grow(4).session.outline())
        assert now[: len(known)] == known
        known = now
    tree.session.close()


def test_what_was_done_is_counted_by_turn(file: Path) -> None:
    usage = {"input": 10, "output": 5, "cacheRead": 99, "cost": {"total": 0.25}}
    lines = [
        message("p", "root", "Mend it", "user"),
        answer("a", "p", call("1", "Read", path="x.py"), call("2", "Bash"), id="m", usage=usage),
        answer("b", "a", call("3", "Edit", path="x.py"), id="m", usage=usage, model="one"),
        answer("b2", "b", call("4", "Edit", path="y.py"), call("5", "Edit", path="z.py")),
        *(result("r1", "b2", "1"), result("r2", "r1", "2", isError=True)),
        *(result("r3", "r2", "4"), result("r4", "r3", "5", isError=True)),
        answer("c", "r4", {"type": "text", "text": "Done\nnow"}, stopReason="aborted"),
    ]
    with opened(file, *lines) as session:
        (turn,) = session.outline().turns
        work = turn.work
        assert work.calls == {"Edit": 3, "Read": 1, "Bash": 1}
        assert (work.failed, work.unanswered, work.interruptions) == (2, 1, 1)
        assert work.files == ("x.py", "y.py", "z.py")
        assert work.changed == ("y.py",)  # the calls for the others failed, or did not end
        assert (work.tokens, work.usage.cost, work.models) == (15, 0.25, ("one",))
        assert (turn.answer, turn.leaf) == ("Done↵now", "c")
        assert [event.kind for event in turn.events] == ["interruption"]


def test_another_try_is_a_part_of_the_turn_and_interruptions_begin_none(file: Path) -> None:
    interrupted = message("i", "a", "[Request interrupted by user]", "user")
    lines = [*chain("p", "a"), interrupted, message("b", "p", "again", "assistant")]
    with opened(file, *lines, message("q", "b", "more", "user")) as session:
        outline = session.outline()
        assert names(outline) == [("1", "p"), ("1.1", None), ("2", "more")]
        first, second, _ = outline.turns
        assert (first.leaf, first.current, second.above, second.leaves) == ("i", True, 0, True)


def test_names_labels_and_summaries_stand_where_a_branch_begins(file: Path) -> None:
    lines = [
        *chain("p", "a", "p2", "a2"),
        line("branch", "x", "a", name="other"),
        line("branch_summary", "s", "x", summary="p2 failed", fromUuid="a2"),
        message("p3", "s", "p3", "user"),
        line("label", "l", "p3", targetUuid="a2", label="a good state"),
    ]
    with opened(file, *lines) as session:
        _, second, third = session.outline().turns
        assert second.labels == (("a2", "a good state"),)
        assert third.names == ("other",)
        assert [(event.kind, event.text) for event in third.events] == [("summary", "p2 failed")]
        (label,) = session.labels()
        assert (label.label, label.uuid, label.preview, label.current) == (
            *("a good state", "a2", "a2"),
            False,
        )


def subagent(lane: str, caller: str | None, uuid: str) -> list[dict[str, Any]]:
    data = {"description": f"task of {lane}", **({"calledBy": caller} if caller else {})}
    start = line("custom", f"{uuid}0", "root", customType="x:subagent", data=data)
    said = chain(f"{uuid}1", f"{uuid}2", below=f"{uuid}0")
    return [{**entry, "lane": lane} for entry in [start, *said]]


def test_a_subagent_hangs_at_the_call_that_started_it_and_is_no_branch(file: Path) -> None:
    lines = [
        *chain("p", "a"),
        *subagent("agent-1", "a", "s"),
        *subagent("agent-2", "s2", "t"),
        *chain("p2", "a2", below="a"),
        *subagent("agent-3", None, "u"),
    ]
    for second, entry in enumerate([*lines[:8], *lines[10:], *lines[8:10]]):
        entry["timestamp"] = f"2026-02-10T21:11:{second:02}.000Z"
    with opened(file, *lines) as session:
        outline = session.outline()
        found = {
            agent.lane: (turn.name, turn.lane, agent.task)
            for turn in outline.turns
            for agent in turn.subagents
        }
        assert found == {
            "agent-1": ("1", None, "task of agent-1"),
            "agent-2": ("1", "agent-1", "task of agent-2"),
            "agent-3": ("1", None, "task of agent-3"),
        }
        assert [turn.name for turn in outline.turns if not turn.subagent] == ["1", "2"]
        assert [branch.lane for branch in session.branches()] == [None]
        assert session.stats().branches == 1


def test_subagents_that_call_each_other_are_turns_of_their_own(file: Path) -> None:
    lines = [*chain("p"), *subagent("agent-1", "t1", "s"), *subagent("agent-2", "s1", "t")]
    with opened(file, *lines) as session:
        turns = session.outline().turns
        assert len(turns) == 3
        assert not any(turn.subagents or turn.subagent for turn in turns)


def test_lines_in_any_order_give_the_same_turns(file: Path) -> None:
    lines = chain("p1", "a1", "p2", "a2")
    with opened(file, lines[2], lines[3], lines[0], lines[1]) as session:
        turns = session.outline().turns
        assert [(turn.prompt, turn.above, turn.leaf) for turn in turns] == [
            ("p1", None, "a1"),
            ("p2", 0, "a2"),
        ]


@pytest.mark.parametrize("lines", [[], [line("label", "l", "root", targetUuid="root", label="x")]])
def test_an_empty_session_has_no_turns(lines: list[dict[str, Any]], file: Path) -> None:
    with opened(file, *lines) as session:
        outline = session.outline()
        assert (outline.turns, outline.here, outline.work.calls) == ((), None, {})


def test_a_comparison_has_what_each_side_did_since_they_parted(file: Path) -> None:
    lines = [*chain("p1", "a1"), message("a2", "a1", "a2", "assistant"), *chain("p2", below="a1")]
    with opened(file, *lines) as session:
        found = session.compare("a2")
        assert (found.fork, found.turn and found.turn.prompt) == ("a1", "p1")
        assert (found.one.is_rest, [turn.prompt for turn in found.one.turns]) == (True, [None])
        assert (found.other.is_rest, [turn.prompt for turn in found.other.turns]) == (False, ["p2"])
        same = session.compare("@")
        assert (same.one.turns, same.other.turns) == ((), ())
        assert json.loads(json.dumps(found.as_dict()))["one"]["turns"][0]["leaf"] == "a2"


def test_a_comparison_has_the_events_of_each_turn(file: Path) -> None:
    short = {"summary": "short", "firstKeptEntryUuid": "a1", "tokensBefore": 9}
    lines = [*chain("p1", "a1"), line("compaction", "c", "a1", **short), *chain("p2", below="a1")]
    with opened(file, *lines) as session:
        (turn,) = session.compare("c").one.turns
        (whole, _) = session.outline().turns
        assert turn.events == whole.events
        assert [event.kind for event in turn.events] == ["compaction"]


def test_two_trees_in_one_file_share_no_entry(file: Path) -> None:
    write(file, [HEADER, *chain("p1", "a1"), *chain("p2", "a2", below="gone")])
    with Session.open(file, readonly=True) as session:
        found = session.compare("a1", "a2")
        assert found.fork is None
        assert [turn.prompt for turn in found.one.turns] == ["p1"]


@for_each(("length", "is_cut"), [(499, False), (500, False), (501, True)])
def test_of_a_long_text_its_start_and_its_end_are_told(length: int, is_cut: bool) -> None:
    text = "".join(f"{number:04} " for number in range(200))[:length]
    told = ends_of(text)
    assert (told != text) == is_cut
    if is_cut:
        begins, _, end = told.partition(" … ")
        assert text.startswith(begins)
        assert text.endswith(end)
        assert 150 < len(end) <= 160
        assert len(told) <= 500


PROMPTED = sorted({*FIXTURES.glob("*/session.jsonl"), *CORPUS.rglob("*.jsonl")})


@for_each("file", PROMPTED)
def test_numbers_of_prompts_are_those_of_the_outline(file: Path) -> None:
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
        (("asked", "stop"), "no answer"),
        (("asked", "thought", "nothing", 9, "again", "said"), "no answer"),
        (("asked",), "no answer"),
        (("asked", "thought"), "no answer"),
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


def test_a_time_that_the_user_has_no_date_for_is_left_out(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = line("message", "e1", "root", message=STEPS["asked"], timestamp="0001-01-01T00:00:00Z")
    with opened(file, asked):
        pass
    monkeypatch.setenv("TZ", "America/New_York")
    try:
        time.tzset()
        assert done("tree", file, "--turn", "1").startswith("turn 1 of 1\n")
        assert "1  Do it" in done("tree", file)
    finally:
        monkeypatch.undo()
        time.tzset()


WORDS = (*("given up", "steered", "interrupted", "no answer", "unfinished", "broke off"),)


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
