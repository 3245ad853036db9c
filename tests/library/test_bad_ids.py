"""An id that cannot be a file's name, in another agent's session: all commands work with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.usage import FileCounts
from sessiontree.importing.importer import Batch, Importer
from sessiontree.library import counts
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import SessionInfo, facts_of, session_infos
from sessiontree.library.trash import finish
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import path_in
from tests.support.foreign import AGENTS, BAD_IDS, PROMPT, foreign_session
from tests.support.homes import empty_home
from tests.support.sessions import by_hand
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, run

EACH_ONCE = [(id, AGENTS[n % len(AGENTS)]) for n, id in enumerate(BAD_IDS.values())]
"""Each id in the session of one agent; each agent has some."""


def made_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one good session in its store; its folder `work` is the current one."""
    home = empty_home(tmp_path, monkeypatch)
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    by_hand(home / "store" / "good.jsonl", "a good prompt", id="good-id", cwd="/elsewhere")
    return home


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return made_home(tmp_path, monkeypatch)


@pytest.mark.slow
@for_each("id, agent", EACH_ONCE)
def test_an_id_that_cannot_be_a_name_keeps_no_list_from_the_other_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, id: str
) -> None:
    home = made_home(tmp_path, monkeypatch)
    file = foreign_session(home, agent, id, str(home / "work"))
    for words in (("ls",), ("ls", "--branches"), ("ls", home)):
        result = run(*words)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        assert "a good prompt" in result.stdout
        assert PROMPT in result.stdout
    assert {one["file"] for one in printed_json("ls")} == {
        str(home / "store" / "good.jsonl"),
        str(file),
    }
    assert [one["turns"] for one in printed_json("ls", file)] == [1]
    assert "a good prompt" in done("ls", "--store", home / "store")
    assert printed_json("stats")["sessions"] == 2
    assert printed_json("stats")["notCounted"] == 0
    assert set(printed_json("stats", "--by", "agent")["rows"]) <= {agent, "sessiontree"}
    assert {hit["file"] for hit in printed_json("search", PROMPT)} == {str(file)}


@pytest.mark.slow
@for_each("id, agent", EACH_ONCE)
def test_a_session_whose_id_cannot_be_a_name_is_converted_resumed_and_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str, id: str
) -> None:
    home = made_home(tmp_path, monkeypatch)
    file = foreign_session(home, agent, id, str(home / "work"))
    for target in ("pi", "claude-code", "codex", "gemini", "atif"):
        done("convert", file, "--to", target)
        done("resume", file, "--in", target) if target != "atif" else None
    assert printed_json("import", file, "--dry-run")
    backed_up = run("backup", file, "--json")
    assert "a fault" not in backed_up.output
    imported = [one for one in printed_json("ls", home / "store") if one["importedFrom"]]
    assert [one["firstMessage"] for one in imported] == [PROMPT]
    assert imported[0]["file"].startswith(str(home / "store"))
    assert printed_json("import", file, "-o", home / "imports")
    assert not [path for path in home.parent.rglob("*") if path.name in ("passwd", "y", "b")]


@pytest.mark.slow
@for_each("id", BAD_IDS.values(), ids=BAD_IDS)
def test_a_working_directory_that_cannot_be_a_path_keeps_no_other_session_from_being_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, id: str
) -> None:
    home = made_home(tmp_path, monkeypatch)
    for number, agent in enumerate(AGENTS):
        foreign_session(home, agent, f"the-id-{number}", id, number)
    foreign_session(home, "pi", "here", str(home / "work"), 9)
    assert f"cd {home / 'work'} && pi --session" in done("resume")
    assert "a fault" not in run("resume", "the-id-3").output
    for number in range(len(AGENTS)):
        done("resume", f"the-id-{number}", "--in", "pi", "--cwd", ".")


def test_long_ids_that_differ_are_converted_to_files_that_differ(home: Path) -> None:
    work = home / "work"
    for number, end in enumerate(("a", "b")):
        file = foreign_session(home, "pi", "x" * 10_000 + end, str(work), number)
        for target in ("pi", "atif"):
            done("convert", file, "--to", target)
    names = sorted(os.listdir(work))
    assert len(names) == 4
    assert all(len(name.encode()) <= 255 for name in names)


def test_a_long_lane_is_converted_to_a_subagent(tmp_path: Path) -> None:
    file = by_hand(tmp_path / "s.jsonl", "hello")
    for end in "ab":
        with Session.open(file, lane="x" * 10_000 + end) as session:
            session.append_message({"role": "user", "content": f"on the lane {end}"})
    with Session.open(file, readonly=True) as session:
        made = session.convert("claude-code", tmp_path / "made.jsonl")
    assert len({os.path.basename(path) for path in made.beside if path.endswith(".jsonl")}) == 2


@for_each("name", BAD_IDS.values(), ids=BAD_IDS)
def test_a_name_from_a_file_leads_to_no_path_outside_the_folder(tmp_path: Path, name: str) -> None:
    expected = str(tmp_path / name) if name == "a\nb" else None
    assert path_in(str(tmp_path), name) == expected
    assert path_in(str(tmp_path), "good", name) == (expected and str(tmp_path / "good" / name))


def test_the_longest_name_of_a_file_leads_to_a_path(tmp_path: Path) -> None:
    assert path_in(str(tmp_path), "x" * 255) is not None
    assert path_in(str(tmp_path), "x" * 256) is None
    assert path_in(str(tmp_path), "\udcff") is not None  # a byte that is not UTF-8
    assert path_in(str(tmp_path), "subagents", "a.jsonl") == str(tmp_path / "subagents/a.jsonl")


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two sessions; what reads the first meets an error that nobody expects."""
    names = ("odd", "good")
    return [str(by_hand(tmp_path / "s" / f"{name}.jsonl", "hello", id=name)) for name in names]


def _odd(file: str) -> None:
    if "odd" in os.path.basename(file):
        raise ValueError("nobody expects this")


def _is_reported(problems: list[str], file: str) -> bool:
    expected = f"{file}: a fault in sessiontree, please report it: ValueError: nobody expects this"
    return problems == [expected]


def test_an_unexpected_error_of_one_session_is_reported_and_the_others_are_listed(
    two: list[str],
) -> None:
    problems: list[str] = []

    def look(file: str) -> SessionInfo:
        _odd(file)
        return facts_of(file)

    assert [one.id for one in session_infos(two, problems.append, look)] == ["good"]
    assert _is_reported(problems, two[0])


def test_an_unexpected_error_of_one_session_is_reported_and_the_others_are_counted(
    two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    problems: list[str] = []
    count = counts._counts_of

    def counted(one: SessionInfo, *others: object) -> FileCounts | None:
        _odd(one.file)
        return count(one, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(counts, "_counts_of", counted)
    every = CountCache(None, problems.append).counted(map(facts_of, two))
    assert [counts and counts.turns for _, counts in every] == [None, 1]
    assert _is_reported(problems, two[0])


def test_an_unexpected_error_of_one_file_is_reported_and_the_others_are_imported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = foreign_session(home, "pi", "odd", str(home / "work"), 1)
    foreign_session(home, "pi", "good", str(home / "work"), 2)
    take = Importer.take

    def taken(self: Importer, path: str, *given: object) -> object:
        if path == str(file):
            raise ValueError("nobody expects this")
        return take(self, path, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(Importer, "take", taken)
    batch = Batch(Importer(home / "imports"), [str(home / ".pi")], print)
    assert [result.id for result in batch.results(lambda *shown: None)] == ["good"]
    assert (_is_reported(batch.left_out, str(file)), batch.failed) == (True, True)
    result = run("backup")
    assert result.exit_code == 1
    assert f"Not kept: {file}: {file}: a fault" not in result.output
    assert "nobody expects this" in result.stderr
    assert "1 new" in result.stderr


@for_each("is_absolute", [True, False])
def test_a_mark_in_the_trash_moves_no_file_from_outside_the_store(
    tmp_path: Path, is_absolute: bool
) -> None:
    """A store may come from somebody else, with marks that name any path."""
    outside = by_hand(tmp_path / "outside" / "s.jsonl", "hello")
    root = tmp_path / "root"
    place = str(outside) if is_absolute else f"x/../../../{outside.relative_to(tmp_path)}"
    mark = root / ".trash" / f".moving-{place.split('/')[0]}"
    mark.parent.mkdir(parents=True)
    mark.write_text(place)
    Path(f"{root / place.lstrip('/')}.blobs").mkdir(parents=True)
    finish(DISK, str(root))
    assert outside.exists()
    assert not mark.exists()
