"""`session`: sessions of agents are imported, recorded and handed to agents by calls."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from tests.support.calls import Calls
from tests.support.conversation import said_in
from tests.support.sessions import said
from tests.support.stopping import reports_until_stopped
from tests.support.streams import contents, conversation
from tests.support.transcripts import project_folder, written
from tests.support.transcripts import user as question


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of Claude Code with two sessions, and where it looks for them."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    projects = tmp_path / "claude" / "projects"
    for name in ("one", "two"):
        about = {"sessionId": name, "cwd": str(tmp_path)}
        lines = [question(f"{name}-{n}", None, f"{name} {n}", **about) for n in range(3)]
        written(projects / "-p" / f"{name}.jsonl", lines)
    return projects


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def calls(home: Path, store: Store) -> Calls:
    return Calls(store.root, agents=True)


def test_the_folder_of_an_agent_is_imported_and_again_adds_what_is_new(
    calls: Calls, store: Store, home: Path
) -> None:
    tried = calls.value("session.import", sources=[str(home)], dry_run=True)
    assert (tried["imported"], store.list()) == (2, [])
    first = calls.value("session.import", sources=[str(home)])
    assert (first["imported"], first["new"]) == (2, tried["new"])
    assert {one["id"] for one in first["items"]} == {"one", "two"}
    with (home / "-p" / "one.jsonl").open("a") as file:
        file.write(json.dumps(question("one-3", "one-2", "more", sessionId="one")) + "\n")
    again = calls.value("session.import", sources=["one", str(home / "-p" / "two.jsonl")])
    assert (again["imported"], again["updated"], again["same"], again["new"]) == (0, 1, 1, 1)
    assert again["items"][0]["id"] == "one"
    assert len(store.list()) == 2


def test_what_is_left_out_of_an_import_is_told(calls: Calls, home: Path, tmp_path: Path) -> None:
    (home / "-p" / "no.jsonl").write_text("not a session\n")
    (home / "-p" / "link.jsonl").symlink_to(written(tmp_path / "x.jsonl", [question("x", None)]))
    answer = calls("session.import", sources=[str(home)])
    assert answer.value["imported"] == 2
    (_, link), (_, other) = answer.guidance
    assert "link.jsonl is a link that leads outside" in link
    assert "no.jsonl" in other


@pytest.mark.parametrize(
    ("sources", "kind"),
    [
        ([], "bad_parameter"),
        (["/etc"], "outside"),
        (["none"], "session_not_found"),
        (["own"], "session_not_found"),
        (["FILE"], "nothing_to_do"),
    ],
)
def test_what_cannot_be_imported_is_refused(
    calls: Calls, store: Store, sources: list[str], kind: str
) -> None:
    file = said(store, "hello", id="own")
    given = [file if source == "FILE" else source for source in sources]
    assert calls("session.import", sources=given).kind == kind
    assert len(store.list()) == 1


def test_a_stopped_import_keeps_whole_sessions_alone(
    calls: Calls, store: Store, home: Path
) -> None:
    for number in range(30):
        lines = [question(f"{number}", None, "x" * 100, sessionId=f"s{number}")]
        written(home / "-p" / f"{number}.jsonl", lines)
    reports = reports_until_stopped(calls, "session.import", 20, sources=[str(home)])
    assert reports == 20
    found = store.list()
    assert 0 < len(found) < 20
    for one in found:
        assert calls.value("health.check", session=one.file)["sound"]
    assert not list(Path(store.root).rglob("*.tmp*"))
    assert calls.value("session.import", sources=[str(home)])["same"] == len(found)


def test_a_stream_is_recorded_in_several_calls_and_counts_once(calls: Calls) -> None:
    events: list[Any] = conversation()
    first = calls.value("session.record", events=events[:9], prompt="Count the lines")
    rest = [json.dumps(event) for event in events[5:]]
    done = calls.value("session.record", events=rest, session=first["id"])
    assert done["file"] == first["file"]
    whole = calls.value("session.record", events=events, prompt="Count the lines")
    assert whole["id"] != first["id"]
    assert whole["messages"] == 2
    with (
        Session.open(done["file"], readonly=True) as session,
        Session.open(whole["file"], readonly=True) as at_once,
    ):
        assert contents(session) == contents(at_once)
        assert len(contents(session)) > 3
        assert session.entry(done["leaf"])


def test_a_stream_on_a_scratch_lane_moves_no_other_leaf(calls: Calls, store: Store) -> None:
    file = said(store, "hello", id="own")
    done = calls.value("session.record", events=conversation(), session="own", scratch=True)
    assert done["lane"].startswith("scratch/")
    assert said_in(Path(file)) == ["hello"]


def test_a_stream_of_another_kind_is_kept_and_told(calls: Calls) -> None:
    answer = calls("session.record", events=[{"type": "odd"}, "not JSON"])
    assert answer.value["file"]
    assert any("not understood" in text or "was understood" in text for _, text in answer.guidance)
    with Session.open(answer.value["file"], readonly=True) as session:
        kept = [entry["data"] for entry in session.find(type="custom")]
    assert {"type": "odd"} in kept
    assert {"text": "not JSON"} in kept


def test_a_stopped_recording_keeps_what_came(calls: Calls, store: Store) -> None:
    said(store, "hello", id="own")
    events = conversation(deltas=False)
    reports_until_stopped(calls, "session.record", 4, events=events, session="own")
    with store.open("own", readonly=True) as session:
        assert any(message["role"] == "assistant" for message in session.context().messages)


def test_an_agent_goes_on_with_its_own_session_as_it_is(
    calls: Calls, home: Path, tmp_path: Path
) -> None:
    id = "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10"
    lines = [question("q", None, "hello", sessionId=id, cwd=str(tmp_path))]
    written(home / project_folder(tmp_path, tmp_path).name / f"{id}.jsonl", lines)
    reading = Calls(calls.scope.store.root, agents=True, write=False)
    found = reading.value("session.resume_command", session=id)
    assert found["command"] == ["claude", "--resume", id]
    assert found["agent"] == "claude-code"
    assert "is not on the PATH" in " ".join(found["warnings"])


def test_a_session_is_converted_for_another_agent_where_calls_may_write(
    calls: Calls, store: Store, tmp_path: Path
) -> None:
    file = said(store, "hello", cwd=str(tmp_path), id="own")
    found = calls.value("session.resume_command", session="own", agent="claude-code")
    assert found["converted"] is True
    assert os.path.isfile(found["file"])
    assert found["line"].endswith(f"claude --resume {Path(found['file']).stem}")
    assert said_in(Path(file)) == ["hello"]
    copy = Path(found["file"]).read_bytes()
    again = calls.value("session.resume_command", session="own", agent="claude-code")
    keys = ("line", "command", "cwd", "file")  # a session without anything new has its copy
    assert [again[key] for key in keys] == [found[key] for key in keys]
    assert Path(found["file"]).read_bytes() == copy


def test_the_agents_own_session_of_a_recording_is_named_where_calls_reach_it(
    calls: Calls, store: Store, home: Path, tmp_path: Path
) -> None:
    id = "5e551015-0000-4000-8000-000000000001"
    (home / "-p" / "one.jsonl").rename(home / "-p" / f"{id}.jsonl")
    facts = {"agent": "claude-code", "agentSessionId": id}
    said(store, "hello", cwd=str(tmp_path), id="own", metadata=facts)
    found = calls.value("session.resume_command", session="own")
    assert found["command"] == ["claude", "--resume", id]
    assert Calls(store.root)("session.resume_command", session="own").kind == "outside"


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"session": "own"}, "bad_value"),
        ({"session": "own", "agent": "vim"}, "bad_parameter"),
        ({"session": "own", "agent": "pi", "cwd": "/none/there"}, "session_not_found"),
        ({"session": "none", "agent": "pi"}, "session_not_found"),
    ],
)
def test_a_hand_over_that_cannot_be_done_is_refused(
    calls: Calls, store: Store, params: dict[str, Any], kind: str
) -> None:
    said(store, "hello", id="own")
    assert calls("session.resume_command", **params).kind == kind


def test_no_copy_is_made_in_the_folder_of_an_agent_that_calls_do_not_reach(
    home: Path, store: Store, tmp_path: Path
) -> None:
    said(store, "hello", cwd=str(tmp_path), id="own")
    before = sorted(home.rglob("*"))
    answer = Calls(store.root)("session.resume_command", session="own", agent="claude-code")
    assert answer.kind == "outside"
    assert sorted(home.rglob("*")) == before
