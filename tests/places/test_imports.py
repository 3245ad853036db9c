"""`import` and `backup` straight to an address do there what they do in a folder."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from sessiontree import Session, Store
from sessiontree.cli import main
from sessiontree.importing.backup import Backup, BackupResult
from sessiontree.importing.importer import ImportResult, import_session
from sessiontree.storage.place import Place
from sessiontree.storage.places import place_of
from tests.agents.conftest import state_of
from tests.importing.conftest import assert_same, lanes_of, messages
from tests.places.kinds import KINDS, opened
from tests.places.server import server
from tests.places.steps import kill_at_each_step, stepped
from tests.support.children import read_line, running, tell
from tests.support.homes import (
    FOLDERS,
    SESSIONS,
    delete,
    empty_home,
    go_on,
    put_sessions,
    transcript,
)
from tests.support.transcripts import Line, assistant, user, written

LARGE: Final = "word " * 20_000
FIRST: Final[list[Line]] = [
    user("a", None, LARGE),
    assistant("b", "a"),
    user("c", "b", "other " * 20_000),
]
MORE: Final[list[Line]] = [*FIRST, assistant("d", "c"), user("e", "d", "third " * 20_000)]

LOCAL: Final = [kind for kind in KINDS if kind != "s3"]


@pytest.fixture(params=LOCAL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with opened(request.param, tmp_path / "place") as (made, _):
        yield made


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with sessions of all agents."""
    home = empty_home(tmp_path, monkeypatch)
    put_sessions(home)
    return home


def said(folder: str | Path, source: Path, into: str) -> ImportResult:
    """The import of a file; what it wrote to has all that a folder would have."""
    before = state_of(source.parent)
    done = import_session(source, into)
    assert state_of(source.parent) == before
    there = import_session(source, folder)
    assert (done.new, done.blobs, done.made) == (there.new, there.blobs, there.made)
    assert_same(source, done.file)
    return done


def test_an_import_at_an_address_is_as_one_in_a_folder(place: Place, tmp_path: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    folder, into = tmp_path / "out", place.address("team")
    first = said(folder, source, into)
    assert first.made
    assert first.blobs == 2
    [made] = folder.glob("*.jsonl")
    log = place.log(place.name(first.file), readonly=True)
    assert log.read(0, log.size()) == made.read_bytes()
    assert import_session(source, into).is_up_to_date
    written(source, MORE)
    grown = said(folder, source, into)
    assert (grown.file, grown.made, grown.blobs) == (first.file, False, 1)
    size = place.find(place.name(first.file))
    assert import_session(source, into).is_up_to_date
    assert place.find(place.name(first.file)) == size


def test_an_agent_goes_on_beside_what_a_user_added(place: Place, tmp_path: Path) -> None:
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    file = import_session(source, place.address("team")).file
    with Session.open(file) as session:
        mine = session.append_message({"role": "user", "content": "mine"})
    written(source, MORE)
    assert not import_session(source, place.address("team")).made
    with Session.open(file, readonly=True) as session:
        assert session.leaf.uuid == mine.uuid
        assert session.verify() == []
    assert lanes_of(file) == ["claude-code", "main"]


def backed_up(home: Path, place: Place) -> BackupResult:
    """A pass as a command makes it: in its own memory, with the cache of the one before."""
    return Backup(place.address("team"), cache=str(home / ".cache")).run()


def counts(result: BackupResult) -> tuple[int, int, int, int]:
    kept = len(result.new), len(result.grown), result.unchanged, len(result.kept_alone)
    assert result.is_complete, result.failed
    return kept


def test_a_backup_at_an_address_keeps_all_and_nothing_twice(place: Place, home: Path) -> None:
    first = backed_up(home, place)
    assert counts(first) == (SESSIONS, 0, 0, 0)
    assert {result.agent for result in first.new} == set(FOLDERS)
    for new in first.new:
        assert messages(new.file) == messages(new.source)
    kept = sorted(place.list())
    for _ in range(2):
        assert counts(backed_up(home, place)) == (0, 0, SESSIONS, 0)
    assert sorted(place.list()) == kept
    go_on(transcript(home), "one more")
    result = backed_up(home, place)
    assert counts(result) == (0, 1, SESSIONS - 1, 0)
    assert "one more" in str(messages(result.grown[0].file))
    delete(transcript(home))
    assert counts(backed_up(home, place)) == (0, 0, SESSIONS - 1, 1)
    assert len(Store(place.address("team")).list()) == SESSIONS


def test_a_backup_leaves_a_session_in_the_trash_there(place: Place, home: Path) -> None:
    store = Store(place.address("team"))
    first = backed_up(home, place)
    one = next(result for result in first.new if result.agent == "claude-code")
    store.trash(one.file)
    for _ in range(2):
        result = backed_up(home, place)
        assert counts(result) == (0, 0, SESSIONS - 1, 0)
        assert result.trashed == 1
    go_on(transcript(home), "one more")
    assert [new.agent for new in backed_up(home, place).new] == ["claude-code"]


def test_a_pass_without_news_opens_no_session(
    place: Place, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        backed_up(home, place)
    names: list[str] = []

    def log(name: str, **options: object) -> None:
        names.append(name)

    monkeypatch.setattr(place, "log", log)
    assert counts(backed_up(home, place)) == (0, 0, SESSIONS, 0)
    assert names == []


def test_two_at_once_make_one_session(place: Place, tmp_path: Path) -> None:
    lines = [user("u0", None, LARGE)]
    lines += [user(f"u{n}", f"u{n - 1}", f"{n} " * 300) for n in range(1, 60)]
    source = written(tmp_path / "t" / "s.jsonl", lines[:30])
    into = place.address("team")
    for _ in range(2):
        with ThreadPoolExecutor(3) as threads:
            for done in [threads.submit(import_session, source, into) for _ in range(3)]:
                done.result()
        [found] = place.list("team/")
        assert_same(source, place.address(found.name))
        uuids = uuids_at_log(place, found.name)
        assert len(uuids) == len(set(uuids))
        written(source, lines)


def uuids_at_log(place: Place, name: str) -> list[str]:
    log = place.log(name, readonly=True)
    return [json.loads(line)["uuid"] for line in log.read(0, log.size()).splitlines()]


@pytest.mark.parametrize("is_new", [True, False])
def test_a_killed_import_is_completed_by_the_next(
    is_new: bool, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = stepped(place, monkeypatch)
    number = itertools.count()
    source, into = tmp_path / "t" / "s.jsonl", ""

    def prepare() -> None:
        nonlocal into
        into = place.address(f"team-{next(number)}")
        written(source, FIRST)
        if not is_new:
            import_session(source, into)
            written(source, MORE)

    def act() -> None:
        import_session(source, into)

    def check() -> None:
        for one in Store(into).list():  # whole, with all that its lines name
            with Session.open(one.file, readonly=True) as session:
                assert session.verify() == []
        act()
        [found] = Store(into).list()
        assert_same(source, found.file)
        uuids = uuids_at_log(place, place.name(found.file))
        assert len(uuids) == len(set(uuids))
        assert import_session(source, into).is_up_to_date

    assert kill_at_each_step(steps, prepare, act, check) >= 2


def test_the_commands_import_and_back_up_at_an_address(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = f"memory://imports-{os.getpid()}"
    url = f"{top}/team"

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        return done.stdout

    source = str(transcript(home))
    [result] = json.loads(run("import", source, "-o", f"{top}/alone", "--json"))
    assert result["file"].startswith(f"{top}/alone/")
    assert result["made"]
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    [planned] = json.loads(run("import", source, "--dry-run", "--json"))
    [result] = json.loads(run("import", source, "--json"))
    assert result["file"] == planned["file"]
    assert result["file"].startswith(f"{url}/+")
    assert "up to date" in run("import", source)
    monkeypatch.delenv("SESSIONTREE_STORE")
    told = json.loads(run("backup", "--store", url, "--json"))
    assert told["store"] == url
    assert (len(told["new"]), told["unchanged"]) == (SESSIONS - 1, 1)
    assert json.loads(run("backup", "--store", url, "--json"))["unchanged"] == SESSIONS
    assert len(json.loads(run("ls", url, "--json"))) == SESSIONS


CHILD: Final = """
import os, signal, sys
from sessiontree.importing import import_session
from sessiontree.storage.postgres.connections import Connections

left = int(sys.argv[3])

def counted(name):
    call = getattr(Connections, name)
    def called(*args, **kwargs):
        global left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **kwargs)
    setattr(Connections, name, called)

for name in ("run", "insert", "transaction", "one"):
    counted(name)
print("ready", flush=True)
sys.stdin.readline()
import_session(sys.argv[1], sys.argv[2])
print("done", flush=True)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_in_an_import_leaves_all_to_the_next(tmp_path: Path) -> None:
    """Of a real process, at each fourth of its calls to a real server."""
    base = server().database()
    url = server().address(base)
    place, _ = place_of(url)
    source = written(tmp_path / "t" / "s.jsonl", FIRST)
    killed = 0
    try:
        for at in itertools.count(1, 4):
            into = f"{url}/team-{at}"
            with running(CHILD, source, into, at) as child:
                assert read_line(child) == "ready"
                tell(child)
                is_done = read_line(child) == "done"
            for found in place.list(f"team-{at}/"):
                with Session.open(place.address(found.name), readonly=True) as session:
                    assert session.verify() == []
            done = import_session(source, into)
            assert_same(source, done.file)
            assert [found.name for found in place.list(f"team-{at}/")] == [place.name(done.file)]
            if is_done:
                break
            killed += 1
        assert killed >= 4
    finally:
        place.close()
        server().execute(f"DROP DATABASE {base} WITH (FORCE)")
