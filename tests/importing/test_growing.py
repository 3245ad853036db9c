"""Growing sources: new entries are added once, and a user keeps the main lane."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.library.listing import facts_of
from tests.agents import test_codex, test_gemini, test_pi
from tests.agents.conftest import NO_CORPUS, SESSION
from tests.agents.test_bad_input import LOGS, Make
from tests.agents.test_claude_code_threads import CHAINS, _any_transcript
from tests.importing.conftest import damage_in, imported, messages, touched, without_origins
from tests.importing.test_formats import REAL
from tests.support.transcripts import Line, assistant, encoded, line, result, user, written


def test_a_fork_of_an_import_gets_nothing_of_what_its_source_adds(
    tmp_path: Path, out: Path
) -> None:
    lines = [user("a", None), assistant("b", "a", "m")]
    source = written(tmp_path / "t" / "s.jsonl", lines)
    made = imported(source, out).file
    with Session.open(made, readonly=True) as session:
        forks = [session.fork(out / name) for name in ("0.jsonl", "z.jsonl")]
    before = [Path(fork).read_bytes() for fork in forks]
    same = import_session(source, out)
    assert (same.file, same.made, same.new, same.blobs) == (made, False, 0, 0)
    written(source, [*lines, user("c", "b")])
    again = import_session(source, out)
    assert (again.file, again.new, again.blobs) == (made, 1, 0)
    assert [Path(fork).read_bytes() for fork in forks] == before


def test_the_transcript_of_a_subagent_names_the_session_of_its_agent(
    tmp_path: Path, out: Path
) -> None:
    lines = [user("a", None, agentId="abc", isSidechain=True)]
    made = imported(written(tmp_path / "t" / "agent-abc.jsonl", lines), out)
    with Session.open(made.file, readonly=True) as session:
        assert session.id == f"{SESSION}.agent-abc"
        assert session.metadata["agentSessionId"] == SESSION


def grown(folder: Path, content: bytes, name: str = "s.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_bytes(content)
    return touched(file)


def assert_grows(lines: list[bytes], folder: Path, out: Path, start: int = 1) -> str:
    """Import each state of a growing file; the context is that of reading in place."""
    files = set()
    for count in range(start, len(lines) + 1):
        file = grown(folder, b"".join(lines[:count]))
        done = import_session(file, out)
        files.add(done.file)
        assert without_origins(done.file) == without_origins(file), count
        assert damage_in(done.file) == [], count
        before = Path(done.file).read_bytes()
        assert import_session(touched(file), out).is_up_to_date, count
        assert Path(done.file).read_bytes() == before
    (file_of_all,) = files
    return file_of_all


@pytest.mark.parametrize("made", LOGS)
def test_each_state_of_a_growing_log_is_imported(made: Make, tmp_path: Path, out: Path) -> None:
    lines = made(tmp_path / "made" / "s.jsonl").read_bytes().splitlines(keepends=True)
    start = 2 if made is LOGS[0] else 1  # a title alone does not say whose it is
    target = assert_grows(lines, tmp_path / "t", out, start)
    whole = import_session(tmp_path / "t" / "s.jsonl", tmp_path / "at-once")
    assert messages(target) == messages(whole.file)


@pytest.mark.parametrize("name", CHAINS)
def test_a_growing_chain_has_at_each_line_the_context_of_reading_in_place(
    name: str, tmp_path: Path, out: Path
) -> None:
    assert_grows(encoded(CHAINS[name]), tmp_path / "t", out)


def test_an_entry_joined_to_one_that_gets_below_it_is_joined_elsewhere(
    tmp_path: Path, out: Path
) -> None:
    lines = [user("x", None), user("a", "last"), user("b", "gone"), user("last", "b")]
    target = assert_grows(encoded(lines), tmp_path / "t", out)
    assert "say a" in str(messages(target))


@pytest.mark.slow
def test_any_growing_transcript_has_the_context_of_reading_in_place(tmp_path: Path) -> None:
    dice = random.Random(7)
    for seed in range(20):
        lines = encoded(_any_transcript(seed + 1000))
        folder, out = tmp_path / f"t{seed}", tmp_path / f"o{seed}"
        assert_grows(lines, folder, out, start=dice.randint(1, len(lines)))


def test_an_import_follows_a_chat_that_is_rewound_and_replaced(tmp_path: Path, out: Path) -> None:
    lines = [
        test_gemini.META,
        test_gemini.user("u1", "one"),
        test_gemini.gemini("g1", "part"),
        test_gemini.gemini("g1", "part and whole"),
        test_gemini.user("u2", "two"),
        test_gemini.gemini("g1", "another"),
        {"$rewindTo": "u2"},
        test_gemini.user("u3", "three"),
        {"$set": {"messages": [test_gemini.user("u1", "one"), test_gemini.user("u9", "nine")]}},
        {"$set": {"summary": "A title"}},
    ]
    target = assert_grows(encoded(lines), tmp_path / "t", out)
    with Session.open(target, readonly=True) as session:
        assert "part" in json.dumps([dict(entry.body) for entry in session.entries()])


def test_a_torn_line_is_imported_once_it_is_whole(tmp_path: Path, out: Path) -> None:
    whole = b"".join(encoded(CHAINS["plain"]))
    done = import_session(grown(tmp_path / "t", whole[:-30]), out)
    (torn,) = done.damage
    assert (torn.kind, torn.line) == ("cut short", 3)
    done = imported(grown(tmp_path / "t", whole), out)
    assert (done.new, done.damage) == (1, [])


TURNS: list[Line] = [user("a", None), assistant("b", "a"), user("c", "b"), assistant("d", "c")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A transcript with the first two of the turns."""
    return written(tmp_path / "t" / "s.jsonl", TURNS[:2])


def test_the_main_leaf_follows_the_source(file: Path, out: Path) -> None:
    done = imported(file, out)
    with Session.open(done.file) as session:
        session.label("a", "mark")  # no move
    done = imported(written(file, TURNS), out)
    with Session.open(done.file, readonly=True) as session:
        assert session.leaf.uuid == "d"
        assert session.entry("mark").uuid == "a"


@pytest.mark.parametrize("way", ["append", "branch", "switch", "lane"])
def test_the_main_lane_stays_with_a_user_who_appended(way: str, file: Path, out: Path) -> None:
    done = imported(file, out)
    with Session.open(done.file) as session:
        if way == "append":
            session.append_message({"role": "user", "content": "mine"})
        elif way == "branch":
            session.branch("a", summary="another way")
        elif way == "switch":
            session.switch("a")
        else:
            with session.lane("mine") as lane:
                lane.append_message({"role": "user", "content": "mine"})
        leaf = session.leaf.uuid
    for count in (3, 4):
        done = import_session(written(file, TURNS[:count]), out)
        assert done.new == 1
        assert import_session(touched(file), out).is_up_to_date
        with Session.open(done.file, readonly=True) as session:
            assert session.verify() == []
            if way == "lane":  # the main lane was not touched
                assert session.leaf.uuid == TURNS[count - 1]["uuid"]
            else:
                assert session.leaf.uuid == leaf
                lane_of_agent = messages(done.file, "claude-code")
                assert lane_of_agent == messages(file)


def test_an_update_does_not_move_an_open_writer(file: Path, out: Path) -> None:
    done = imported(file, out)
    with Session.open(done.file) as session:
        mine = session.append_message({"role": "user", "content": "mine"})
        import_session(written(file, TURNS), out)
        assert session.append_message({"role": "user", "content": "more"}).parent_uuid == mine.uuid
        session.refresh()
        assert session.entry("d").lane == "claude-code"
        assert session.verify() == []


def test_a_new_title_is_imported_unless_the_user_set_a_name(tmp_path: Path, out: Path) -> None:
    def titled(*titles: str) -> list[Line]:
        side = [{"type": "ai-title", "aiTitle": found, "sessionId": SESSION} for found in titles]
        return [*TURNS[:2], *side]

    file = written(tmp_path / "t" / "s.jsonl", titled())
    done = imported(file, out)
    imported(written(file, titled("One")), out)
    imported(written(file, titled("One", "Two")), out)
    with Session.open(done.file) as session:
        assert session.name == "Two"
        session.rename("Mine")
    import_session(written(file, titled("One", "Two", "Three")), out)
    with Session.open(done.file, readonly=True) as session:
        assert session.name == "Mine"


def test_a_source_that_lost_its_name_takes_none_away(tmp_path: Path, out: Path) -> None:
    title = {"type": "ai-title", "aiTitle": "One", "sessionId": SESSION}
    file = written(tmp_path / "t" / "s.jsonl", TURNS[:1])
    done = imported(file, out)
    for lines in ([*TURNS[:2], title], TURNS[:3], [*TURNS[:3], title], TURNS[:4]):
        import_session(written(file, lines), out)
        with Session.open(done.file, readonly=True) as session:
            assert session.name == "One"
            assert session.metadata["importedFrom"].get("name") == "One"
            assert [entry["name"] for entry in session.entries() if "name" in entry] == ["One"]


def test_a_source_that_shrank_removes_nothing(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s.jsonl", TURNS)
    done = imported(file, out)
    before = Path(done.file).read_bytes()
    again = import_session(written(file, TURNS[:2]), out)
    assert again.is_up_to_date
    assert Path(done.file).read_bytes() == before


def test_late_parallel_results_get_parents_as_when_read_in_place(tmp_path: Path, out: Path) -> None:
    lines = [
        user("a", None),
        assistant("b1", "a", "m", ["t1"]),
        assistant("b2", "b1", "m", ["t2"]),
        result("r2", "b2", "t2"),
        result("r1", "b1", "t1"),
        line("p", "r1", "progress"),
        assistant("c", "r1", "n"),
    ]
    target = assert_grows(encoded(lines), tmp_path / "t", out)
    assert len(messages(target)[0]) == 6


def test_an_import_that_was_renamed_is_found_again(file: Path, out: Path) -> None:
    done = imported(file, out)
    other = out / "kept" / "mine.jsonl"
    other.parent.mkdir()
    Path(done.file).rename(other)
    again = imported(written(file, TURNS), out)
    assert (again.file, again.new) == (str(other), 2)


def test_an_import_follows_a_version_1_file_that_pi_migrates(tmp_path: Path, out: Path) -> None:
    header = {"type": "session", "id": "s", "cwd": "/project"}
    header["timestamp"] = "2026-01-01T00:00:00Z"
    said = [{"role": "user", "content": f"say {number}"} for number in range(5)]
    lines: list[Line] = [header, *({"type": "message", "message": message} for message in said)]
    target = assert_grows(encoded(lines), tmp_path / "t", out)
    anew: list[Line] = [{**header, "version": 3}]
    for number, message in enumerate(said):
        parent = f"{number - 1:08}" if number else None
        anew.append({**lines[1], "id": f"{number:08}", "parentId": parent, "message": message})
    anew.append({**lines[1], "id": "new", "parentId": "00000004", "message": said[0]})
    file = grown(tmp_path / "t", b"".join(encoded(anew)))
    done = import_session(file, out)
    assert done.file == target
    assert messages(target) == messages(file)
    assert import_session(touched(file), out).is_up_to_date


@pytest.mark.parametrize("of_pi", ["by its folder", "by its header", ""])
def test_an_import_of_version_1_says_that_it_is_of_pi(
    of_pi: str, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / ".pi" / "agent"))
    header: Line = {"type": "session", "id": "s", "cwd": "/project"}
    if "header" in of_pi:
        header |= {"provider": "anthropic", "modelId": "claude"}
    folder = tmp_path / (".pi/agent/sessions/--project--" if "folder" in of_pi else "else")
    folder.mkdir(parents=True)
    file = folder / "s.jsonl"
    line_of_user = {"type": "message", "message": {"role": "user", "content": "x"}}
    file.write_bytes(b"".join(encoded([header, line_of_user])))
    agent = "pi" if of_pi else None
    assert facts_of(str(file)).made_by == agent
    done = import_session(file, out)
    assert facts_of(done.file).made_by == agent
    with Session.open(done.file, readonly=True) as session:
        assert session.outline().agent == agent


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason=NO_CORPUS)
@pytest.mark.parametrize("file", REAL, ids=lambda path: path.stem)
def test_an_import_follows_a_real_growing_session(file: Path, tmp_path: Path, out: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    step = max(len(lines) // 6, 1)
    states = [b"".join(lines[:count]) for count in (*range(2, len(lines), step), len(lines))]
    for state in states:
        source = grown(tmp_path / "t", state)
        done = import_session(source, out)
        assert messages(done.file) == messages(source)
    with Session.open(done.file, readonly=True) as session:
        assert session.verify() == []
        again = [entry for entry in session.entries() if "variantOf" in entry]
    assert len(again) < len(lines) / 5


def test_an_import_follows_a_cycle_that_a_compaction_keeps(tmp_path: Path, out: Path) -> None:
    lines = [
        test_pi.HEADER,
        test_pi.message("e4", "e7", "user", "say e4"),
        test_pi.entry("e5", "e7", "context_edit", targetId="gone", replacement=None),
        test_pi.entry("e6", "e4", "compaction", summary="s", firstKeptEntryId="e7", tokensBefore=1),
        test_pi.entry("e7", "e5", "context_edit", targetId="gone", replacement=None),
    ]
    assert_grows(encoded(lines), tmp_path / "t", out)


few_examples = settings(deadline=None, max_examples=10)
ids = st.sampled_from(["m1", "m2", "m3", "m4"])
texts = st.sampled_from(["one", "two", "three", ""])


@st.composite
def chat_messages(draw: st.DrawFn) -> Line:
    if draw(st.booleans()):
        return test_gemini.user(draw(ids), draw(texts))
    more = {"toolCalls": [test_gemini.CALL]} if draw(st.booleans()) else {}
    return test_gemini.gemini(draw(ids), draw(texts), **more)


chat_lines = st.one_of(
    chat_messages(),
    chat_messages(),
    st.builds(lambda id: {"$rewindTo": id}, ids),
    st.builds(lambda found: {"$set": {"messages": found}}, st.lists(chat_messages(), max_size=3)),
    st.just({"$set": {"summary": "A title"}}),
)

prompts = st.lists(texts.map(lambda text: test_codex.said("user", text)), max_size=2)


def replaced(text: str, kept: list[Line]) -> Line:
    history = [found["payload"] for found in kept]
    return test_codex.line("compacted", message=text, replacement_history=history)


rollout_lines = st.one_of(
    st.builds(test_codex.said, st.sampled_from(["user", "assistant", "developer"]), texts),
    st.builds(test_codex.call, ids),
    st.builds(test_codex.output, ids),
    st.sampled_from([test_codex.rolled_back(turns) for turns in range(4)]),
    st.builds(lambda text: test_codex.line("compacted", message=text), texts),
    st.builds(replaced, texts, prompts),
    st.builds(lambda model: test_codex.line("turn_context", model=model, effort=model), texts),
)


@st.composite
def pi_logs(draw: st.DrawFn) -> list[Line]:
    lines: list[Line] = [test_pi.HEADER]
    for number in range(draw(st.integers(1, 8))):
        near = [f"e{n}" for n in range(max(0, number - 3), number)] + ["e7", "gone"]
        parent = draw(st.sampled_from([*near, None]) if number else st.none())
        target = draw(st.sampled_from([*near, "root"]))
        lines.append(draw(st.sampled_from(_entries(f"e{number}", parent, target))))
    return lines


def _entries(id: str, parent: str | None, target: str) -> list[Line]:
    entry, text = test_pi.entry, test_pi.text
    return [
        test_pi.message(id, parent, "user", f"say {id}"),
        test_pi.message(id, parent, "assistant", text(f"said {id}"), provider="p", model="m"),
        entry(id, parent, "compaction", summary="sum", firstKeptEntryId=target, tokensBefore=1),
        entry(id, parent, "branch_summary", fromId=target, summary="left"),
        entry(id, parent, "context_edit", targetId=target, replacement=None),
        entry(id, parent, "label", targetId=target, label=f"name-{id}"),
        entry(id, parent, "session_info", name=f"name {id}"),
        entry(id, parent, "usage", kind="turn", provider="p", model="m", usage={}),
        entry(id, parent, "next-year"),
    ]


def assert_any_grows(lines: list[Line]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_grows(encoded(lines), Path(folder) / "t", Path(folder) / "out")


@pytest.mark.slow
@few_examples
@given(st.lists(chat_lines, max_size=7))
def test_an_import_follows_any_growing_chat(lines: list[Line]) -> None:
    assert_any_grows([test_gemini.META, *lines])


@pytest.mark.slow
@few_examples
@given(st.lists(rollout_lines, max_size=7))
def test_an_import_follows_any_growing_rollout(lines: list[Line]) -> None:
    assert_any_grows([test_codex.line("session_meta", **test_codex.META), *lines])


@pytest.mark.slow
@few_examples
@given(pi_logs())
def test_an_import_follows_any_growing_session_of_pi(lines: list[Line]) -> None:
    assert_any_grows(lines)
