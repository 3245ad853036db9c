"""Claude Code: the same messages in the same order as its own reader gives."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.agents.base import Link, joins
from sessiontree.agents.claude_code.threads import ThreadNode, by_uuid, main_leaf, node_of
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS, Told, conversation
from tests.support import transcripts
from tests.support.transcripts import CALL, Line, assistant, encoded, line, result, user, written

Sdk = Callable[..., Told]


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
@pytest.mark.parametrize("file", CLAUDE_CODE, ids=lambda path: path.stem)
def test_a_real_transcript_reads_as_claude_code_reads_it(file: Path, sdk: Sdk) -> None:
    expected = sdk(file)
    assert len(expected) > 5
    assert conversation(file) == expected
    assert conversation(file, verbatim=False) == expected
    with Session.open(file, readonly=True) as session:
        assert session.context().warnings == []


PLAIN: list[Line] = [user("a", None), assistant("b", "a"), user("c", "b")]
COMPACTED: Line = {"subtype": "compact_boundary", "compactMetadata": {"preTokens": 1234}}
CHAINS: dict[str, list[Line]] = {
    "plain": PLAIN,
    "progress forks the chain": [
        *CALL[:2],
        line("p", "b", "progress"),
        line("q", "p", "progress"),
        result("r", "b", "t"),
        line("s", "q", "progress"),
        assistant("c", "r"),
        line("u", "s", "progress"),
    ],
    "parallel calls, each result below its own call": [
        user("a", None),
        assistant("b1", "a", "m", ["t1"]),
        assistant("b2", "b1", "m", ["t2"]),
        assistant("b3", "b2", "m", ["t3"]),
        result("r1", "b1", "t1"),
        result("r2", "b2", "t2"),
        result("r3", "b3", "t3"),
        assistant("c", "r2", "n"),
    ],
    "a result written before another call": [
        user("a", None),
        assistant("b1", "a", "m", ["t1"]),
        result("r1", "b1", "t1"),
        assistant("b2", "b1", "m", ["t2"]),
        result("r2", "b2", "t2", sourceToolAssistantUUID="b1"),
        user("z", "r2"),
    ],
    "a result before its call": [CALL[2], *CALL[:2], assistant("c", "r", "n")],
    "an old branch ends later in the file": [*PLAIN, user("d", "a"), line("e", "c", "system")],
    "meta and team say nothing": [
        user("a", None),
        user("m", "a", isMeta=True),
        assistant("b", "m"),
        user("t", "b", teamName="team"),
        assistant("c", "t"),
        user("n", "c", isMeta=True),
    ],
    "a side chain between": [
        *CALL[:2],
        user("s1", None, isSidechain=True),
        assistant("s2", "s1", isSidechain=True),
        result("r", "b", "t"),
        user("s3", "s2", isSidechain=True),
    ],
    "a compaction": [
        *PLAIN[:2],
        line("x", None, "system", logicalParentUuid="b", **COMPACTED),
        user("y", "x", "This session goes on from another.", isCompactSummary=True),
        assistant("c", "y"),
    ],
    "compactions that name each other": [
        line("x", None, "system", subtype="compact_boundary", logicalParentUuid="z"),
        user("y", "x", "One", isCompactSummary=True),
        line("w", None, "system", subtype="compact_boundary", logicalParentUuid="y"),
        user("z", "w", "Two", isCompactSummary=True),
    ],
    "a boundary without a summary": [
        user("a", None),
        line("x", None, "system", subtype="compact_boundary", logicalParentUuid="a"),
        assistant("c", "x"),
    ],
    "a summary in the middle of a chain": [
        user("a", None),
        user("y", "a", "Summary", isCompactSummary=True),
        assistant("c", "y"),
    ],
    "a loop": [user("a", "c"), assistant("b", "a"), user("c", "b"), user("d", "b")],
    "a loop beside": [user("a", None), user("x", "y"), user("y", "x"), assistant("b", "a")],
    "itself": [user("a", "a"), assistant("b", "a")],
    "a parent that is missing": [user("a", "gone"), assistant("b", "a")],
    "parents after their children": [user("c", "b"), assistant("b", "a"), user("a", None)],
    "the same line twice": [*PLAIN[:2], *PLAIN],
    "one uuid, two contents": [*PLAIN[:2], user("a", None, "other")],
    "one id of two responses": [
        *CALL[:2],
        assistant("c", "b", "n", ["t"]),
        result("r", "c", "t"),
        user("z", "r"),
    ],
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_reads_as_claude_code_reads_it(name: str, tmp_path: Path, sdk: Sdk) -> None:
    file = written(tmp_path / "t" / "s.jsonl", CHAINS[name])
    expected = sdk(file)
    assert expected
    assert conversation(file) == expected


def _any_transcript(seed: int) -> list[Line]:
    """Lines with random ids and parents."""
    dice = random.Random(seed)
    lines: list[Line] = []
    for number in range(dice.randint(1, 14)):
        if lines and dice.random() < 0.05:
            lines.append(dice.choice(lines))  # as a resume copies history
            continue
        uuid = f"u{number}"
        near = f"u{max(0, number - dice.randint(1, 3))}"
        parent = dice.choice([near] * 8 + [None, f"u{dice.randrange(14)}", "gone"])
        response = dice.choice(["", "m1", "m1", "m2", "m3"])
        call = f"t{dice.randrange(5)}"
        more: Line = {}
        if dice.random() < 0.1:
            more[dice.choice(["isMeta", "isSidechain", "teamName"])] = True
        if dice.random() < 0.3:
            more["sourceToolAssistantUUID"] = f"u{dice.randrange(14)}"
        made = dice.randrange(10)
        if made < 3:
            lines.append(assistant(uuid, parent, response, [call][: dice.randrange(2)], **more))
        elif made < 7:
            lines.append(result(uuid, parent, call, **more))
        elif made < 9:
            lines.append(user(uuid, parent, **more))
        else:
            lines.append(line(uuid, parent, dice.choice(["progress", "system", "attachment"])))
    return lines


def _nodes(lines: list[Line]) -> list[ThreadNode]:
    return [node for n, made in enumerate(encoded(lines)) if (node := node_of(made, n))]


def _repaired(lines: list[Line]) -> list[Line]:
    """The lines as Claude Code would read what sessiontree reads of them.

    An entry whose parent is lost is joined to another one, and answers with one id below different
    prompts are different responses: a replay repeats them below a copy of their prompt.
    """
    nodes = _nodes(lines)
    last = by_uuid(nodes)
    kept = [node for node in nodes if last[node.uuid] is node]
    above = joins([Link(node.uuid, node.parent, (node.sidechain, node.team)) for node in kept])
    assert last.keys().isdisjoint(last[uuid].parent for uuid in above)
    for uuid, parent in above.items():
        last[uuid].parent = parent
    return [_line_of(last[made["uuid"]], made, last) for made in lines]


def _line_of(node: ThreadNode, made: Line, nodes: dict[str, ThreadNode]) -> Line:
    moved = {**made, "parentUuid": node.parent}
    if node.response is None:
        return moved
    id = f"{node.response} below {_answered(node, nodes)}"
    return {**moved, "message": {**made["message"], "id": id}}


def _answered(answer: ThreadNode, nodes: dict[str, ThreadNode]) -> str | None:
    """The prompt above an answer, or the entry of another response."""
    seen = set()
    above = nodes.get(answer.parent or "")
    while above is not None and above.uuid not in seen:
        seen.add(above.uuid)
        is_prompt = above.is_message and not above.has_result
        if is_prompt and above.response != answer.response:
            return above.uuid
        above = nodes.get(above.parent or "")
    return None


@pytest.mark.slow
def test_any_chain_reads_as_claude_code_reads_it(tmp_path: Path, sdk: Sdk) -> None:
    """Claude Code stops where a parent is lost; the path continues at the entry before it."""
    compared = 0
    for seed in range(60):
        lines = _any_transcript(seed)
        messages = [found for found in lines if found["type"] in ("user", "assistant")]
        if all(m.get("isSidechain") or m.get("teamName") or m.get("isMeta") for m in messages):
            continue  # there Claude Code shows nothing, and we show whose file it is
        file = written(tmp_path / "t" / "s.jsonl", lines)
        expected = sdk(written(tmp_path / "joined" / "s.jsonl", _repaired(lines)))
        if expected:  # it is at a loss where every chain is a loop; we show the last message
            compared += 1
            assert conversation(file) == expected, seed
    assert compared > 30


def _compacted(lines: list[Line], leaf: str, *more: Line) -> list[Line]:
    mark = line("mark", None, "system", subtype="compact_boundary", logicalParentUuid=leaf)
    return [*lines, mark, user("sum", "mark", "What was done.", isCompactSummary=True), *more]


def _tree(file: Path) -> set[tuple[str, str | None, bool]]:
    """Each entry, its parent, and whether it is on the path."""
    with Session.open(file, readonly=True) as session:
        path = {entry.uuid for entry in session.path()}
        said = [entry for entry in session.entries() if entry.type != "branch"]
        return {(entry.uuid, entry.parent_uuid, entry.uuid in path) for entry in said}


@pytest.mark.slow
def test_a_compaction_at_the_end_changes_nothing_before_it(tmp_path: Path, sdk: Sdk) -> None:
    compared = 0
    for seed in range(60):
        lines = _any_transcript(seed)
        nodes = _nodes(_repaired(lines))
        leaf = main_leaf(nodes, by_uuid(nodes))
        if leaf is None or not leaf.is_main:
            continue
        before = _tree(written(tmp_path / "t" / "s.jsonl", lines))
        whole = _compacted(lines, leaf.uuid)
        file = written(tmp_path / "t" / "s.jsonl", whole)
        assert _tree(file) >= before, seed
        joined = written(tmp_path / "joined" / "s.jsonl", _repaired(whole))
        assert conversation(file) == sdk(joined), seed
        compared += 1
    assert compared > 30


def test_each_of_two_compactions_keeps_parallel_calls_before_it(tmp_path: Path, sdk: Sdk) -> None:
    first = [
        user("a", None),
        assistant("b1", "a", "m", ["t1"]),
        assistant("b2", "b1", "m", ["t2"]),
        result("r1", "b1", "t1"),
        result("r2", "b2", "t2"),
    ]
    second = [
        user("a'", "sum"),
        assistant("b1'", "a'", "m'", ["t1'"]),
        assistant("b2'", "b1'", "m'", ["t2'"]),
        result("r1'", "b1'", "t1'"),
        result("r2'", "b2'", "t2'"),
    ]
    mark = line("mark'", None, "system", subtype="compact_boundary", logicalParentUuid="r1'")
    last = user("sum'", "mark'", "All was done.", isCompactSummary=True)
    lines = [*_compacted(first, "r1", *second), mark, last]
    file = written(tmp_path / "t" / "s.jsonl", lines)
    with Session.open(file, readonly=True) as session:
        path = {entry.uuid for entry in session.path()}
        assert path >= {made["uuid"] for made in lines}
        assert len(session.branches()) == 1
    assert conversation(file) == sdk(file)


def test_subagents_are_lanes_and_read_as_claude_code_reads_them(tmp_path: Path, sdk: Sdk) -> None:
    more: dict[str, Any] = {"isSidechain": True, "agentId": "one"}
    inner = [
        user("s1", None, **more),
        user("s2", "s1", isMeta=True, **more),
        assistant("s3", "s2", "n", **more),
        line("s4", "s2", "progress", **more),
    ]
    file = transcripts.with_subagent(tmp_path / "t" / "s.jsonl", *inner)
    folder = tmp_path / "t" / "s" / "subagents"
    written(folder / "workflows" / "w" / "agent-two.jsonl", [user("a", None, **more)])
    assert conversation(file) == sdk(file)
    assert conversation(file, "agent-one") == sdk(file, "one")
    assert conversation(file, "agent-two") == sdk(file, "two")
    with Session.open(file, readonly=True) as session:
        told = session.find(type="custom")
        assert {entry.lane for entry in session.entries()} == {None, "agent-one", "agent-two"}
    agent = next(entry for entry in told if entry["customType"] == "claude-code:subagent")
    assert agent["data"] == {"agentId": "one", "calledBy": "b", **transcripts.FACTS}
    assert conversation(folder / "agent-one.jsonl") == sdk(file, "one")
