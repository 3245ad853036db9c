"""Each format imported: the contexts of reading in place, and no key of a line lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.library.listing import SessionInfo, facts_of
from sessiontree.library.places import sessions_in
from tests.agents import test_codex, test_gemini, test_pi
from tests.agents.conftest import CLAUDE_CODE, CORPUS, NO_CORPUS, SESSION
from tests.agents.test_bad_input import ALL, Make
from tests.agents.test_claude_code_threads import CHAINS, _any_transcript
from tests.fixtures.test_conformance import FIXTURES
from tests.importing.conftest import SUBAGENT, damage_in, imported, touched
from tests.support.transcripts import CALL, assistant, compressed, result, user, written

AGENTS = Path(__file__).parents[2] / "fixtures/agents"
REAL = [*CLAUDE_CODE, *sorted((CORPUS / "pi-v1").glob("*.jsonl"))]


def _forks() -> list[SessionInfo]:
    """The sessions of agents that were forked from another one, or started by it."""
    every = sessions_in([str(AGENTS)], lambda problem: None)
    return [one for one in every if one.copy_of not in (None, one.id)]


@pytest.mark.parametrize("one", _forks(), ids=lambda one: f"{one.made_by} {one.id}")
def test_the_import_of_a_fork_names_what_it_is_of(one: SessionInfo, out: Path) -> None:
    made = import_session(one.file, out)
    assert facts_of(made.file).copy_of == one.copy_of


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason=NO_CORPUS)
@pytest.mark.parametrize("file", REAL, ids=lambda path: path.stem)
def test_a_real_session_is_imported_whole(file: Path, out: Path) -> None:
    done = imported(file, out)
    assert done.damage == []
    assert done.new == done.entries
    with Session.open(file, readonly=True) as own, Session.open(done.file, readonly=True) as ours:
        assert [e.uuid for e in ours.entries()] == [e.uuid for e in own.entries()]
        first, second = ([e for e in s.entries() if e.type != "branch"] for s in (ours, own))
        assert [entry.timestamp for entry in first] == [entry.timestamp for entry in second]


@pytest.mark.parametrize("made", ALL)
def test_every_format_is_imported(made: Make, tmp_path: Path, out: Path) -> None:
    file = made(tmp_path / "source" / "s.jsonl")
    done = imported(file, out)
    assert done.damage == []
    with Session.open(done.file, readonly=True) as session:
        assert session.metadata["importedFrom"]["file"] == "s.jsonl"
        assert session.metadata["agent"] == done.agent
        assert (session.header["version"], session.header["format"]) == (2, "sessiontree/2")
        assert str(tmp_path) not in session.header.line.decode()


@pytest.mark.parametrize("name", CHAINS)
def test_a_forked_or_cyclic_chain_is_imported_sound(name: str, tmp_path: Path, out: Path) -> None:
    imported(written(tmp_path / "t" / "s.jsonl", CHAINS[name]), out)


@pytest.mark.slow
def test_any_transcript_is_imported_sound(tmp_path: Path) -> None:
    for seed in range(60):
        file = written(tmp_path / f"t{seed}" / "s.jsonl", _any_transcript(seed))
        imported(file, tmp_path / f"o{seed}")


def test_subagents_are_imported_as_lanes(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s.jsonl", CALL)
    written(tmp_path / "t" / "s" / "subagents" / "agent-one.jsonl", SUBAGENT)
    done = imported(file, out)
    with Session.open(done.file, readonly=True, lane="agent-one") as session:
        assert [e.uuid for e in session.find(type="message")] == ["a", "b", "r", "s1", "s2"]
        assert session.leaf.uuid == "s2"
        told = [entry for entry in session.entries() if "original" in entry]
        assert [entry.uuid for entry in told] == ["a", "b", "r", "s1", "s2"]


def test_a_growing_subagent_moves_only_its_lane(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s.jsonl", CALL[:2])
    imported(file, out)
    beside = tmp_path / "t" / "s" / "subagents" / "agent-one.jsonl"
    written(beside, SUBAGENT[:1])
    assert imported(file, out).new == 2
    written(beside, SUBAGENT)
    done = imported(file, out)
    assert done.new == 1
    with Session.open(done.file, readonly=True) as session:
        assert session.context().entries[-1] == session.entry("b")


def test_the_keys_that_reading_leaves_out_are_in_original(tmp_path: Path, out: Path) -> None:
    told = {"stdout": "all of it", "interrupted": False}
    line = result("r", "b", "t", toolUseResult=told, requestId="req", gitBranch="main")
    done = imported(written(tmp_path / "t" / f"{SESSION}.jsonl", [*CALL[:2], line]), out)
    with Session.open(done.file, readonly=True) as session:
        original = session.entry("r")["original"]
    assert original["toolUseResult"] == told
    assert (original["requestId"], original["gitBranch"]) == ("req", "main")
    assert original["type"] == "user"
    assert "message" not in original


def _rebuilt(entry: Any, names: dict[str, str]) -> dict[str, Any]:
    """The source line of an entry, from the import alone."""
    if entry.type == "custom" and entry["customType"].startswith(("pi:", "claude-code:")):
        return dict(entry["data"])
    held = {names.get(key, key): entry[key] for key in entry}
    return {**held, **entry.get("original", {})}


def test_each_source_line_can_be_rebuilt_from_the_import(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "t"
    pi = test_pi.written(folder / "pi.jsonl", test_pi.EVERYTHING)
    claude = written(folder / f"{SESSION}.jsonl", CHAINS["a compaction"])
    kinds = ("parent", "firstKeptEntry", "from", "target")
    names = {"uuid": "id"} | {f"{kind}Uuid": f"{kind}Id" for kind in kinds}
    for file, renamed, key in ((pi, names, "id"), (claude, {}, "uuid")):
        done = import_session(file, out)
        with Session.open(done.file, readonly=True) as session:
            for text in file.read_text().splitlines()[1:]:
                line = json.loads(text)
                line.pop("sessionId", None)
                made = _rebuilt(session.entry(line[key]), renamed)
                assert line.items() <= made.items()


def test_result_files_beside_the_source_are_imported(tmp_path: Path, out: Path) -> None:
    said = "Full output saved to: /home/me/.claude/projects/-p/s/tool-results/b1.txt\nPreview…"
    said += " /home/me/.claude/projects/-p/s/tool-results/gone.txt"
    block = {"type": "tool_result", "tool_use_id": "t", "content": said}
    file = written(tmp_path / "t" / "s.jsonl", [*CALL[:2], user("r", "b", [block])])
    folder = tmp_path / "t" / "s" / "tool-results"
    folder.mkdir(parents=True)
    (folder / "b1.txt").write_text("word\n" * 20_000)
    done = imported(file, out)
    assert done.blobs == 1
    (lost,) = done.damage
    assert "gone.txt" in lost.cause
    assert lost.line == 3
    with Session.open(done.file) as session:
        assert session.entry("r")["toolResults"] == {"s/tool-results/b1.txt": "word\n" * 20_000}
        session.fork(tmp_path / "fork.jsonl")
    assert damage_in(tmp_path / "fork.jsonl") == []


def test_result_files_of_subagents_are_in_the_sessions_folder(tmp_path: Path, out: Path) -> None:
    file = written(tmp_path / "t" / "s.jsonl", [user("a", None)])
    said = "Full output saved to: /home/me/.claude/projects/-p/s/tool-results/b1.txt"
    block = {"type": "tool_result", "tool_use_id": "t", "content": said}
    inner = [user("r", None, [block], isSidechain=True, agentId="one")]
    written(tmp_path / "t" / "s" / "subagents" / "agent-one.jsonl", inner)
    (tmp_path / "t" / "s" / "tool-results").mkdir()
    (tmp_path / "t" / "s" / "tool-results" / "b1.txt").write_text("all of it")
    done = imported(file, out)
    with Session.open(done.file, readonly=True) as session:
        assert session.entry("r")["toolResults"] == {"s/tool-results/b1.txt": "all of it"}


def test_a_result_file_outside_its_folder_is_not_read(tmp_path: Path, out: Path) -> None:
    said = "s/tool-results/.. and s/tool-results/link"
    block = {"type": "tool_result", "tool_use_id": "t", "content": said}
    file = written(tmp_path / "t" / "s.jsonl", [user("r", None, [block])])
    folder = tmp_path / "t" / "s" / "tool-results"
    folder.mkdir(parents=True)
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    done = import_session(file, out)
    assert "secret" not in Path(done.file).read_text()
    assert len(done.damage) == 2


def test_large_content_is_imported_into_blobs(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "t"
    file = written(folder / "s.jsonl", [user("a", None, "x" * 100_000), assistant("b", "a")])
    done = imported(file, out)
    assert done.blobs == 1
    assert os.path.getsize(done.file) < 5_000
    assert imported(touched(file), out).new == 0


def test_a_compressed_rollout_updates_the_session_of_a_plain_one(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "t"
    turns = [test_codex.said("user", f"{number}") for number in range(50)]
    file = test_codex.written(folder / "rollout.jsonl", *turns)
    done = imported(file, out)
    packed = folder / "rollout.jsonl.zst"
    packed.write_bytes(compressed(file.read_bytes().splitlines(keepends=True)))
    again = imported(packed, out)
    assert (again.file, again.new, again.entries) == (done.file, 0, done.entries)
    whole = packed.read_bytes()
    packed.write_bytes(whole[: len(whole) // 2])
    cut = import_session(packed, out)
    assert cut.new == 0
    assert 10 < (cut.entries or 0) < 50
    assert any(found.file == str(packed) for found in cut.damage)


def test_the_header_keeps_the_rest_of_its_source_line(tmp_path: Path, out: Path) -> None:
    folder = tmp_path / "t"
    done = import_session(test_codex.written(folder / "r.jsonl"), out)
    with Session.open(done.file, readonly=True) as session:
        assert session.header["original"]["payload"]["cwd"] == "/project"
        assert "base_instructions" not in session.header["original"]["payload"]
        assert session.context().system == "Be terse."
    chat = test_gemini.document(folder / "session-1.json", *test_gemini.MESSAGES)
    with Session.open(import_session(chat, out).file, readonly=True) as session:
        assert session.header["original"] == {"lastUpdated": test_gemini.META["lastUpdated"]}


@pytest.mark.parametrize("name", sorted(path.name for path in FIXTURES.glob("foreign-*/")))
def test_progress_goes_up_to_the_whole_of_all_files(name: str, tmp_path: Path, out: Path) -> None:
    file = shutil.copytree(FIXTURES / name, tmp_path / "t") / "session.jsonl"
    seen: list[tuple[int, int]] = []
    import_session(file, out, progress=lambda done, total: seen.append((done, total)))
    told = [done for done, _ in seen]
    assert told == sorted(told)
    assert seen[-1][1] * 0.9 <= told[-1] <= seen[-1][1]
    assert seen[-1][1] >= file.stat().st_size
    again: list[tuple[int, int]] = []
    done = import_session(file, out, progress=lambda *each: again.append(each))
    assert (done.entries, again) == (None, [])
