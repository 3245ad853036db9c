"""Trajectories read as sessions: each step, its metrics and its subagents, and written again."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, import_session
from sessiontree.agents import recognise
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import facts_of
from sessiontree.library.resume import plan
from tests.support.atif import check_trajectory
from tests.support.table import for_each
from tests.support.terminal import done, refused

FIXTURE: Final = Path(__file__).parents[2] / "fixtures/agents/atif/1.6/trajectory.json"
MODEL: Final = "anthropic/claude-opus-4-1"
AGENT: Final = {"name": "a", "version": "1"}

Step = dict[str, Any]


def trajectory(*steps: Step, **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": "ATIF-v1.7", "agent": AGENT, "steps": numbered, **more}


def user(text: Any = "hello", **more: Any) -> Step:
    return {"source": "user", "message": text, **more}


def agent(text: Any = "hi", **more: Any) -> Step:
    return {"source": "agent", "message": text, **more}


def call(id: str) -> dict[str, Any]:
    return {"tool_call_id": id, "function_name": "sh", "arguments": {"c": id}}


def written(folder: Path, found: Any, **layout: Any) -> Path:
    file = folder / "trajectory.json"
    file.write_text(json.dumps(found, **layout))
    return file


def messages(file: Path) -> list[dict[str, Any]]:
    with Session.open(file, readonly=True) as session:
        return [dict(m) for m in session.context(verbatim=True).messages]


def again(file: Path, made: Path) -> dict[str, Any]:
    """The trajectory that a session is written as."""
    with Session.open(file, readonly=True) as session:
        session.convert("atif", made)
    found: dict[str, Any] = json.loads(made.read_bytes())
    check_trajectory(found, FIXTURE.parent)
    return found


def bare(found: Any) -> Any:
    """A trajectory without what each writer says in its own way."""
    if isinstance(found, list):
        return [bare(each) for each in found]
    if not isinstance(found, dict):
        return found
    kept = {key: bare(value) for key, value in found.items()}
    for key in ("schema_version", "final_metrics", "llm_call_count"):
        kept.pop(key, None)
    if isinstance(kept.get("extra"), dict):
        kept["extra"].pop("entry", None)
    return {key: value for key, value in kept.items() if value != {}}


def test_a_list_knows_a_trajectory() -> None:
    facts = facts_of(str(FIXTURE))
    assert (facts.agent, facts.id) == ("ATIF", "b7c1d2e3-0000-4000-8000-000000000001")
    assert facts.title == "Why do our retries hammer the API? Fix the notes."
    assert facts.modified == "2026-03-02T09:00:47.000Z"


def test_each_step_is_read_with_its_metrics() -> None:
    with Session.open(FIXTURE, readonly=True) as session:
        stats = session.stats()
        said = [dict(entry["message"]) for entry in session.path() if entry.type == "message"]
        outline = session.outline()
    roles = [message["role"] for message in said]
    assert roles[:5] == ["system", "user", "assistant", "toolResult", "toolResult"]
    answer = said[2]
    assert [block["type"] for block in answer["content"]] == [
        *("thinking", "text", "toolCall", "toolCall")
    ]
    assert answer["model"] == MODEL
    assert answer["usage"] == {
        "input": 200,
        "output": 40,
        "cacheRead": 600,
        "cacheWrite": 100,
        "cost": {"total": 0.0125},
    }
    assert (stats.usage.input, stats.usage.output) == (1230, 116)
    assert (stats.usage.cache_read, stats.usage.cache_write) == (1500, 100)
    assert round(stats.usage.cost, 4) == 0.0168
    assert [turn.prompt for turn in outline.turns if not turn.subagent] == [
        None,  # the step of the system
        "Why do our retries hammer the API? Fix the notes.",
        "How would you test it? See the chart. [image]",
    ]
    assert outline.turns[1].work.calls == {"bash_command": 3, "subagent": 1, "fetch": 1}


def test_a_subagent_is_a_lane_of_its_call() -> None:
    with Session.open(FIXTURE, readonly=True) as session:
        (subagent,) = session.outline().turns[1].subagents
        caller = session.entry(str(subagent.caller))
    assert (subagent.name, subagent.lane) == ("reader", "agent-reader-1")
    assert caller["message"]["content"][1]["name"] == "subagent"
    assert subagent.work.usage.output == 12


def test_a_compaction_replaces_the_context_above_it() -> None:
    first, *rest = messages(FIXTURE)
    assert (first["role"], first["summary"]) == (
        "compactionSummary",
        "Summary: the notes were read.",
    )
    assert [message["role"] for message in rest] == ["assistant", "toolResult", "user", "assistant"]


@for_each("is_imported", [False, True])
def test_a_trajectory_written_again_has_all_that_it_had(tmp_path: Path, is_imported: bool) -> None:
    file = Path(import_session(FIXTURE, tmp_path / "store").file) if is_imported else FIXTURE
    found = again(file, tmp_path / "made.json")
    assert found["final_metrics"] == {
        "total_steps": 8,
        "total_prompt_tokens": 2620,
        "total_completion_tokens": 104,
        "total_cached_tokens": 1500,
        "total_cost_usd": pytest.approx(0.0168),
        "extra": {"reward": 1.0},
    }
    before = json.loads(FIXTURE.read_bytes())
    before["trajectory_id"] = before["session_id"]
    before["steps"][3]["message"] = before["steps"][3]["message"][0]["text"]
    inner = before["subagent_trajectories"][0]
    inner["steps"][1]["model_name"] = inner["agent"]["model_name"]
    assert bare(found) == bare(before)


def test_a_session_written_as_a_trajectory_is_read_back(tmp_path: Path) -> None:
    session = Session.create(metadata={"agent": "mine", "agentVersion": "3"})
    session.append_message({"role": "user", "content": "look"})
    called = {"type": "toolCall", "id": "c1", "name": "ls", "arguments": {"path": "."}}
    usage = {"input": 5, "output": 3, "cacheRead": 2, "cacheWrite": 1, "cost": {"total": 0.5}}
    thought = {"type": "thinking", "thinking": "hm"}
    told = {"model": "m", "usage": usage}
    session.append_message({"role": "assistant", "content": [thought, called], **told})
    session.append_message(
        {"role": "toolResult", "toolCallId": "c1", "content": "no", "isError": True}
    )
    session.convert("atif", tmp_path / "made.trajectory.json")
    prompt, answer, result = messages(tmp_path / "made.trajectory.json")
    assert prompt["content"] == "look"
    assert answer["content"] == [thought, called]
    assert answer["usage"] == usage
    assert (result["toolCallId"], result["isError"]) == ("c1", True)
    with Session.open(tmp_path / "made.trajectory.json", readonly=True) as read:
        assert read.stats().usage == session.stats().usage
    one = again(tmp_path / "made.trajectory.json", tmp_path / "two.json")
    assert one["agent"] == {"name": "mine", "version": "3", "model_name": "m"}


@for_each(
    ("named", "unnamed", "expected"),
    [
        (("a", "b"), 0, [("a", "a"), ("b", "b")]),
        ((), 2, [("a", "0"), ("b", "1")]),
        ((), 1, [("a", ""), ("b", "0")]),
        (("a",), 1, [("a", "a"), ("b", "0")]),
        (("a", "b"), 1, [("a", "a"), ("b", "b"), (None, "0")]),
    ],
)
def test_each_result_has_a_call(
    tmp_path: Path, named: tuple[str, ...], unnamed: int, expected: list[tuple[str | None, str]]
) -> None:
    results = [{"source_call_id": id, "content": id} for id in named]
    results += [{"content": str(number)} for number in range(unnamed)]
    step = agent(tool_calls=[call("a"), call("b")], observation={"results": results})
    file = written(tmp_path, trajectory(user(), step))
    found = [
        (m.get("toolCallId"), "".join(block["text"] for block in m["content"]))
        for m in messages(file)[2:]
    ]
    assert found == expected
    assert bare(again(file, tmp_path / "two.json"))["steps"][1]["observation"]["results"] == results


def test_what_no_call_is_named_for_is_no_prompt(tmp_path: Path) -> None:
    step = agent(observation={"results": [{"content": "$ ls"}]})
    file = written(tmp_path, trajectory(user(), step, user("more")))
    with Session.open(file, readonly=True) as session:
        assert [turn.prompt for turn in session.outline().turns] == ["hello", "more"]


def test_an_image_keeps_its_path(tmp_path: Path) -> None:
    source = {"media_type": "image/png", "path": "images/chart.png"}
    said = [{"type": "text", "text": "see"}, {"type": "image", "source": source}]
    file = written(tmp_path, trajectory(user(said)))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "chart.png").write_bytes(b"\x89PNG")
    with Session.open(file, readonly=True) as session:
        made = session.convert("atif", tmp_path / "two.json")
    found = json.loads((tmp_path / "two.json").read_bytes())
    check_trajectory(found, tmp_path)
    assert found["steps"][0]["message"] == said
    assert any("has the path that it had" in loss.what for loss in made.losses)


def test_copied_context_costs_nothing(tmp_path: Path) -> None:
    metrics = {"prompt_tokens": 5, "completion_tokens": 1}
    copied = agent(is_copied_context=True, metrics=metrics)
    file = written(tmp_path, trajectory(user(), copied, agent(metrics=metrics)))
    with Session.open(file, readonly=True) as session:
        assert session.stats().usage.input == 5
    found = again(file, tmp_path / "two.json")
    assert [step.get("is_copied_context", False) for step in found["steps"]] == [False, True, False]
    assert found["final_metrics"]["total_prompt_tokens"] == 5


@for_each("layout", [{}, {"indent": 2}, {"indent": "\t"}, {"separators": (",", ":")}])
def test_the_layout_of_the_document_is_of_no_matter(tmp_path: Path, layout: Any) -> None:
    file = written(tmp_path, json.loads(FIXTURE.read_bytes()), **layout)
    assert messages(file) == messages(FIXTURE)
    ((row,),) = [json.loads(done("ls", file, "--json"))]
    assert (row["turns"], row["usage"]["output"]) == (2, 116)


def test_only_the_shape_of_a_trajectory_is_one() -> None:
    shape = trajectory(user())
    assert recognise(json.dumps(shape).encode()) is not None
    for key in ("schema_version", "agent"):
        rest = {k: v for k, v in shape.items() if k not in (key, "steps")}
        assert recognise(json.dumps(rest).encode()) is None
    for wrong in ("ATIF-v1.7-x", "ATIF-v2.0", "atif-v1.7", 1.7, None):
        assert recognise(json.dumps({**shape, "schema_version": wrong}).encode()) is None
    nested = {"type": "user", "text": "ATIF-v1.7", "inner": shape}
    assert recognise(json.dumps(nested).encode()) is None


def test_a_trajectory_that_is_cut_is_read_as_far_as_it_is_whole(tmp_path: Path) -> None:
    content = FIXTURE.read_bytes()
    whole = messages(FIXTURE)
    for cut in range(400, len(content) - 2, 301):
        file = tmp_path / "trajectory.json"
        file.write_bytes(content[:cut])
        try:
            session = Session.open(file, readonly=True)
        except SessionTreeError:
            continue
        with session:
            said = [entry["message"] for entry in session.entries() if entry.type == "message"]
            damage = session.damage
        assert len(said) <= 14
        assert [each.kind for each in damage] == ["cut short"]
    assert whole


@for_each(
    "step",
    [
        {},
        [],
        7,
        {"source": "agent"},
        {"source": "agent", "message": None, "tool_calls": [{}], "observation": {"results": [{}]}},
        {"source": "agent", "message": 3, "tool_calls": {}, "observation": []},
        {"source": "agent", "message": "x", "metrics": {"prompt_tokens": "9", "cost_usd": "x"}},
        {"source": "user", "message": [{"type": "image"}, 3, {"type": "text"}]},
        {"source": "system", "message": {"a": 1}, "extra": 4},
        {"source": "robot", "message": "x", "timestamp": 12},
    ],
)
def test_odd_steps_are_read_without_a_fault(tmp_path: Path, step: Any) -> None:
    found = trajectory(user(), agent())
    found["steps"] = [found["steps"][0], step, found["steps"][1]]
    file = written(tmp_path, found)
    said = messages(file)
    assert (said[0]["content"], said[-1]["content"][0]["text"]) == ("hello", "hi")
    for command in ("tree", "stats", "export", "ls"):
        done(command, file)
    made = import_session(file, tmp_path / "store")
    assert messages(Path(made.file)) == said


def test_subagents_of_subagents_are_lanes(tmp_path: Path) -> None:
    inner = trajectory(user("inner"), agent("i"), trajectory_id="inner")
    named = [{"source_call_id": "c", "subagent_trajectory_ref": [{"trajectory_id": "inner"}]}]
    step = agent(tool_calls=[call("c")], observation={"results": named})
    outer = trajectory(user("outer"), step, trajectory_id="outer", subagent_trajectories=[inner])
    file = written(tmp_path, trajectory(user(), agent(), subagent_trajectories=[outer]))
    with Session.open(file, readonly=True) as session:
        assert [*session.stats().lanes] == ["main", "agent-outer", "agent-inner"]


def test_what_is_no_trajectory_below_one_is_kept_and_reported(tmp_path: Path) -> None:
    found = trajectory(user(), subagent_trajectories=[7, trajectory(user("inner"))])
    with Session.open(written(tmp_path, found), readonly=True) as session:
        assert [each.kind for each in session.damage] == ["foreign line"]
        assert [*session.stats().lanes] == ["main", "agent-166"]


def test_deep_trajectories_are_read_or_refused(tmp_path: Path) -> None:
    found = trajectory(user("deepest"))
    for _ in range(300):
        found = trajectory(user(), subagent_trajectories=[found])
    with Session.open(written(tmp_path, found), readonly=True) as session:
        assert len(session.stats().lanes) == 301


def test_commands_work_on_a_trajectory_and_a_folder_of_them(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / "jobs" / name / "agent"
        folder.mkdir(parents=True)
        shutil.copy(FIXTURE, folder / "trajectory.json")
    jobs = tmp_path / "jobs"
    assert "terminus" not in done("ls", jobs)
    assert done("ls", jobs).count(" atif ") == 1  # one session, and its copy
    assert "Retries never «wait»" in done("search", "wait", jobs)
    assert "With a clock that the test moves." in done("export", FIXTURE)
    assert done("ls", jobs, "--agent", "atif") == done("ls", jobs)
    refused("resume", FIXTURE)


def test_the_further_files_of_a_run_are_found(tmp_path: Path) -> None:
    for name in ("trajectory.json", "trajectory.cont-1.json", "trajectory.summary-1.json"):
        found = trajectory(user(name), session_id=name)
        (tmp_path / name).write_text(json.dumps(found))
    (tmp_path / "other.json").write_text(json.dumps(trajectory(user(), session_id="x")))
    listed = json.loads(done("ls", tmp_path, "--json"))
    assert {row["id"] for row in listed} == {
        *("trajectory.json", "trajectory.cont-1.json", "trajectory.summary-1.json")
    }


def test_nothing_resumes_a_trajectory_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(SessionTreeError, match="is of no agent; name the agent"):
        plan(facts_of(str(FIXTURE)))
    environ = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "pi")}
    found = plan(facts_of(str(FIXTURE)), "pi", str(tmp_path), environ=environ)
    assert found.is_converted


def test_an_import_takes_what_the_agent_adds(tmp_path: Path) -> None:
    file = written(tmp_path, trajectory(user(), agent(), session_id="s"))
    first = import_session(file, tmp_path / "store")
    written(tmp_path, trajectory(user(), agent(), user("more"), session_id="s"))
    second = import_session(file, tmp_path / "store")
    assert (first.file, second.new) == (second.file, 1)
    assert import_session(file, tmp_path / "store").is_up_to_date
