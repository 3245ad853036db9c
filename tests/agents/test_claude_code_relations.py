"""Claude Code's lines that relate sessions, forks and costs, and trees without false branches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sessiontree import Session
from sessiontree.importing.importer import import_session
from tests.agents.conftest import SESSION
from tests.support.table import for_each
from tests.support.transcripts import assistant, line, result, user, with_subagent, written

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents" / "claude_code"
OTHER = "99999999-2222-4333-8444-555555555555"
SIDE: dict[str, Any] = {"isSidechain": True, "agentId": "one"}


def parallel(parent: str, after: str = "", **more: Any) -> list[dict[str, Any]]:
    """A response with three parallel calls, their results, and an answer below the last."""
    names = [f"{after}{name}" for name in ("a1", "a2", "a3")]
    above = [parent, *names]
    calls = [
        assistant(name, up, f"m{after}", [f"t{name}"], **more)
        for name, up in zip(names, above, strict=False)
    ]
    results = [result(f"r{name}", name, f"t{name}", **more) for name in names]
    return [*calls, *results, assistant(f"{after}end", f"r{names[-1]}", f"n{after}", **more)]


def test_parallel_calls_are_no_branches_where_the_user_went_back(tmp_path: Path) -> None:
    lines = [user("p", None), *parallel("p"), user("q", "end"), *parallel("q", "x")]
    file = written(tmp_path / "s.jsonl", [*lines, user("again", "end"), assistant("z", "again")])
    with Session.open(file, readonly=True) as session:
        found = [(branch.leaf, branch.fork, branch.length) for branch in session.branches()]
        assert found == [("xend", "end", 8), ("z", "end", 2)]
        assert [e.uuid for e in session.path("xend") if e.type == "message"][-7:] == [
            *("xa1", "xa2", "xa3", "rxa1", "rxa2", "rxa3", "xend")
        ]
        assert session.verify() == []


def test_parallel_calls_of_a_subagent_are_no_branches(tmp_path: Path) -> None:
    inner = [user("p", None, **SIDE), *parallel("p", "x", **SIDE)]
    file = with_subagent(tmp_path / "s.jsonl", *inner)
    with Session.open(file, readonly=True, lane="agent-one") as session:
        assert [b.length for b in session.branches() if b.lane is not None] == [8]
        results = [m for m in session.context().messages if "tool_result" in str(m["content"])]
        assert len(results) == 3


@for_each(("kept", "seen"), [(["b"], ["b"]), (["a", "b"], ["a", "b"]), (["x"], [])])
def test_a_compaction_keeps_the_messages_that_its_mark_names(
    kept: list[str], seen: list[str], tmp_path: Path
) -> None:
    about = {"preservedMessages": {"uuids": kept}}
    mark = line("mark", None, "system", subtype="compact_boundary", compactMetadata=about)
    lines = [user("a", None), assistant("b", "a"), {**mark, "logicalParentUuid": "b"}]
    lines += [user("sum", "mark", "They talked.", isCompactSummary=True), user("c", "sum")]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert [e.uuid for e in session.context().entries] == ["sum", *seen, "c"]
        assert (session.verify(), len(session.branches())) == ([], 1)


def test_a_compaction_after_a_lost_entry_is_no_branch(tmp_path: Path) -> None:
    mark = line("mark", None, "system", subtype="compact_boundary", logicalParentUuid="lost")
    lines = [user("a", None), assistant("b", "a"), mark]
    lines += [user("sum", "mark", "They talked.", isCompactSummary=True), assistant("c", "sum")]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert [branch.leaf for branch in session.branches()] == ["c"]
        assert [turn.leaf for turn in session.outline().turns] == ["c"]
        (found,) = session.verify()
        assert (found.kind, "lost" in found.cause) == ("reference", True)


def test_a_subagent_has_the_name_and_the_task_of_its_call(tmp_path: Path) -> None:
    task = {"subagent_type": "Explore", "description": "Find it", "prompt": "Find all of it"}
    call = {"type": "tool_use", "id": "t1", "name": "Task", "input": task}
    asked = assistant("b", "a")
    asked["message"]["content"] = [call]
    answered = result("r", "b", "t1")
    answered["toolUseResult"] = {"agentId": "one"}
    file = written(tmp_path / "s.jsonl", [user("a", None), asked, answered])
    inner = [user("s1", None, **SIDE), assistant("s2", "s1", **SIDE)]
    written(tmp_path / "s" / "subagents" / "agent-one.jsonl", inner)
    with Session.open(file, readonly=True) as session:
        (agent,) = session.outline().turns[0].subagents
        assert (agent.name, agent.task, agent.caller) == ("Explore", "Find it", "b")


def test_a_fork_goes_on_from_the_entry_that_it_names(tmp_path: Path) -> None:
    ref = {"type": "fork-context-ref", "agentId": "one", "parentSessionId": SESSION}
    inner: list[dict[str, Any]] = [
        {**ref, "parentLastUuid": "a", "contextLength": 1},
        assistant("f1", None, "m", ["t"], **SIDE),
        result("f2", "f1", "t", **SIDE),
    ]
    file = with_subagent(tmp_path / "s.jsonl", *inner)
    imported = import_session(file, tmp_path / "store").file
    for each in (file, Path(imported)):
        with Session.open(each, readonly=True, lane="agent-one") as session:
            assert session.damage == []
            assert [e.uuid for e in session.path() if e.type == "message"] == ["a", "f1", "f2"]
            assert [b.fork for b in session.branches() if b.lane == "agent-one"] == ["a"]
    assert import_session(file, tmp_path / "store").new == 0


def test_a_sample_of_the_real_program_is_sound() -> None:
    (file,) = SAMPLES.glob("2.1.330/*.jsonl")
    with Session.open(file, readonly=True) as session:
        assert (session.verify(), session.notes) == ([], [])
        assert [branch.lane for branch in session.branches()] == [None]
        assert len(session.turns()) >= 4
        calls = [e.uuid for e in session.find(type="message") if '"Agent"' in e.line.decode()]
        agents = [agent for turn in session.outline().turns for agent in turn.subagents]
        assert len(agents) == 2
        assert all(agent.caller in calls for agent in agents if agent.work.calls.get("Read"))
        drawn = list(session.render(all=True))
    first = next(at for at, row in enumerate(drawn) if "lane agent-" in row)
    assert next(at for at, row in enumerate(drawn) if "HELLO" in row) < first


def test_subagents_that_call_each_other_are_drawn(tmp_path: Path) -> None:
    file = with_subagent(tmp_path / "s.jsonl", user("s1", None, **SIDE))
    folder = tmp_path / "s" / "subagents"
    for agent, call in (("one", "t2"), ("two", "t1")):
        written(folder / f"agent-{agent}.meta.json", [{"toolUseId": call}])
    written(folder / "agent-one.jsonl", [assistant("s1", None, "m1", ["t1"], **SIDE)])
    written(folder / "agent-two.jsonl", [assistant("s2", None, "m2", ["t2"], **SIDE)])
    data = {"agentId": "one", "toolUseId": "t2", "calledBy": "s2"}
    with Session.create(tmp_path / "ours.jsonl") as session:
        for name, caller in (("agent-1", "second"), ("agent-2", "first")):
            with session.lane(name, at=session.header) as lane:
                lane.append("custom", customType="x:subagent", data={**data, "calledBy": caller})
                lane.append_message({"role": "user", "content": f"said on {name}"})
    text = (tmp_path / "ours.jsonl").read_text()
    with Session.open(tmp_path / "ours.jsonl", readonly=True) as session:
        said = {e["message"]["content"][-7:]: e.uuid for e in session.find(type="message")}
    text = text.replace('"second"', f'"{said["agent-2"]}"').replace(
        '"first"', f'"{said["agent-1"]}"'
    )
    (tmp_path / "ours.jsonl").write_text(text)
    for each in (file, tmp_path / "ours.jsonl"):
        with Session.open(each, readonly=True) as session:
            drawn = "\n".join(session.render(all=True))
            assert all(e.uuid[:8] in drawn for e in session.find(type="message"))


def test_a_fork_whose_history_is_elsewhere_is_told_once(tmp_path: Path) -> None:
    ref = {"type": "fork-context-ref", "parentSessionId": OTHER, "parentLastUuid": "gone"}
    file = with_subagent(tmp_path / "s.jsonl", ref, user("f1", None, **SIDE))
    with Session.open(file, readonly=True, lane="agent-one") as session:
        (told,) = session.damage
        assert (told.kind, told.line) == ("reference", 1)
        assert "'gone'" in told.cause
        assert OTHER in told.cause
        assert [message["content"] for message in session.context().messages] == ["say f1"]


def test_related_sessions_are_in_the_metadata(tmp_path: Path) -> None:
    related: list[dict[str, Any]] = [
        {"type": "derived-from", "v": 1, "sessionId": SESSION, "sessions": [OTHER]},
        {"type": "continued-in", "sessionId": SESSION, "continuedInSessionId": OTHER},
    ]
    file = written(tmp_path / "s.jsonl", [user("a", None), *related])
    with Session.open(file, readonly=True) as session:
        assert session.metadata["continuedIn"] == OTHER
        assert session.metadata["derivedFrom"] == [OTHER]
        assert session.notes == []


TYPES = """
progress summary custom-title ai-title last-prompt tag relocated agent-name agent-color
agent-setting pr-link frame-link mode permission-mode memory-mode worktree-state cost-state
queue-operation bridge-session history-suppression attribution-snapshot isolation-latch
session-owner dev-mods atis-latch tools-used ended-by-model continued-in derived-from observer-ref
resume-head-vouch content-replacement file-history-snapshot file-history-delta fork-context-ref
api-request-shape api-request-blob api-request api-request-resumed data-flow-records
data-flow-incomplete artifact-comment-monitor artifact-autoreact-ledger host-row repl-mode
hybrid-organization
"""
"""The types of lines beside the conversation that Claude Code 2.1.330 knows."""


def test_no_type_of_the_program_is_damage_or_a_note(tmp_path: Path) -> None:
    lines = [{"type": kind, "sessionId": SESSION} for kind in TYPES.split()]
    file = written(tmp_path / "s.jsonl", [user("a", None), *lines, assistant("b", "a")])
    with Session.open(file, readonly=True) as session:
        assert (session.verify(), session.damage, session.notes) == ([], [], [])
        assert len(session.find(type="custom")) == len(TYPES.split())
        assert len(session.context().messages) == 2


def _cost(**models: Any) -> dict[str, Any]:
    used = {model: {"inputTokens": 1, "costUSD": cost} for model, cost in models.items()}
    return {"type": "cost-state", "sessionId": SESSION, "modelUsage": used}


@for_each(
    ("states", "cost"),
    [
        ([{"m": 0.25}, {"m": 0.75, "n": 0.5}, {"m": 0.75, "n": 0.5}], 1.25),  # sums so far
        ([{"m": 0.75}, {"m": 0.25}], 1.0),  # a count that began anew
        ([{"m": "much"}, {"m": True}, {"m": -1}, {"m": 10**400}], 0.0),
    ],
)
def test_the_costs_of_a_session_are_counted_once(
    states: list[dict[str, Any]], cost: float, tmp_path: Path
) -> None:
    lines = [user("a", None), assistant("b", "a"), *(_cost(**state) for state in states)]
    file = written(tmp_path / "s.jsonl", lines)
    with Session.open(file, readonly=True) as session:
        assert session.stats().usage.cost == cost
        assert session.stats().usage.input == 0
        assert len(session.context().messages) == 2


def test_a_task_notification_is_no_prompt(tmp_path: Path) -> None:
    note = user("n", "b", "<task-notification> done", promptSource="system")
    more = user("o", "n", "the harness says", promptSource="system")
    file = written(tmp_path / "s.jsonl", [user("a", None), assistant("b", "a"), note, more])
    with Session.open(file, readonly=True) as session:
        assert len(session.turns()) == 1
