"""The store that `--store` or a variable names is the same one for each command, and is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import Session, StorageError, Store
from tests.agents.conftest import SESSION
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused, run
from tests.support.transcripts import user, written

COMMANDS = (
    *("ls", "search x", "stats", "show latest", "append latest --text x", "verify latest"),
    *("call session.list", "new", "gc", "restore", "trash x", "fork latest", "backup agents"),
    *("move-project /project /q", "import agents"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder, which has the session of an agent in `agents`; commands run in it."""
    for name in ("HOME", "SESSIONTREE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("SESSIONTREE_STORE", raising=False)
    home = tmp_path / "home"
    written(home / "agents" / f"{SESSION}.jsonl", [user("a", None)])
    monkeypatch.chdir(home)
    return home


def with_store(line: str, store: str, monkeypatch: pytest.MonkeyPatch, how: str) -> list[str]:
    """The words of a command in this store."""
    words = line.split()
    if how == "SESSIONTREE_STORE":
        monkeypatch.setenv(how, store)
    elif words[0] == "gc":
        return [*words, how, store]
    return [*words, *([] if how == "SESSIONTREE_STORE" else [f"{how}={store}"])]


def test_an_import_goes_to_the_store_by_project_or_into_a_folder_itself(home: Path) -> None:
    for name in ("store", "folder"):
        os.mkdir(name)
    done("import", "agents", "--store", "store")
    done("import", "agents", "-o", "folder")
    assert [file.parent.name for file in home.glob("store/**/*.jsonl")] == ["+project"]
    assert [file.parent.name for file in home.glob("folder/**/*.jsonl")] == ["folder"]
    assert "Moved 1 session" in run("move-project", "/project", "/q", "--store", "store").stderr
    told = refused("import", "agents", "--store", "store", "-o", "folder", status=2)
    assert "not both" in told


@for_each("line", COMMANDS)
@for_each("how", ["--store", "SESSIONTREE_STORE"])
def test_a_store_that_is_named_and_not_there_is_refused_and_not_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str, how: str
) -> None:
    words = with_store(line, "missing/yet", monkeypatch, how)
    if line == "gc" and how == "SESSIONTREE_STORE":
        words.append("--store")
    told = refused(*words)
    assert "there is no folder" in told
    assert "missing/yet" in told
    assert ("SESSIONTREE_STORE names it" in told) == (how == "SESSIONTREE_STORE")
    assert not (home / "missing").exists()


@pytest.mark.parametrize("line", [line for line in COMMANDS if "x" not in line.split()])
def test_the_home_folder_in_the_name_of_a_store_is_expanded_for_each_command(
    home: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    said(Store(home / "kept"), "hello", cwd="/project")
    monkeypatch.chdir("agents")
    before = set(os.listdir())
    line = line.replace(" agents", " .")
    result = run(*with_store(line, "~/kept", monkeypatch, "--store"))
    assert result.exit_code == 0, result.output
    assert set(os.listdir()) == before


def test_a_default_store_that_is_not_there_yet_is_no_error() -> None:
    assert printed_json("ls") == []
    assert "Nothing was searched" in run("search", "x").stderr
    done("new")
    assert len(printed_json("ls")) == 1


@pytest.mark.parametrize("variable", ["SESSIONTREE_STORE", "SESSIONTREE_HOME"])
def test_a_default_store_that_is_a_file_is_told_with_the_variable_that_names_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (home / "chat.jsonl").touch()
    monkeypatch.setenv(variable, "chat.jsonl")
    for words in (["ls"], ["new"]):
        assert f"{variable} names it: change the variable" in refused(*words)


def test_no_session_is_made_below_the_name_of_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "memory://named-below/p/w.jsonl"
    done("new", file)
    monkeypatch.setenv("SESSIONTREE_STORE", file)
    assert "is the address of a session, not of a store" in refused("new")
    monkeypatch.delenv("SESSIONTREE_STORE")
    assert "is the address of a session, not of a store" in refused("new", "--store", file)


def test_what_is_not_found_is_told_with_the_command_that_lists_that_store(home: Path) -> None:
    os.mkdir("my store")
    for words in (["show", "nope"], ["append", "nope", "--text", "x"], ["branches", "nope"]):
        assert "sessiontree ls --store 'my store' lists them" in refused(
            *words, "--store", "my store"
        )
        assert "'sessiontree ls' lists them" in refused(*words)
        assert "'sessiontree ls --store memory://named' lists them" in refused(
            *words, "--store", "memory://named"
        )


@pytest.mark.parametrize(
    ("line", "store"),
    [("new --store={}", "u:geheim@127.0.0.1:1"), ("ls {}", "u@h"), ("copy s.jsonl {}", "h/")],
)
def test_an_address_that_names_no_database_is_refused(home: Path, line: str, store: str) -> None:
    Session.create("s.jsonl").close()
    told = refused(*line.format(f"postgresql://{store}").split())
    shown = f"postgresql://{store.replace(':geheim', '').rstrip('/')}/"
    assert told == f"Error: {shown} names no database; write {shown}DATABASE\n"


def test_a_command_that_helps_is_readable_where_the_path_has_quotes(home: Path) -> None:
    file = home / "a b.jsonl"
    said(Store(home), "hello")
    [made] = home.glob("+*/*.jsonl")
    file.write_bytes(made.read_bytes() + b"{\n")
    told = run("show", file).stderr
    assert told.endswith(f"; see sessiontree verify '{file}'\n")


def test_a_home_that_is_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("SESSIONTREE_HOME", str(file))
    for words in (("ls", "--all"), ("search", "x"), ("trash", "latest"), ("restore",)):
        assert "a file, not a folder" in refused(*words)
    with pytest.raises(StorageError, match="is not a folder"):
        Store(file).list()


def test_a_home_may_be_spelled_from_the_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(Store(tmp_path / "home" / "mine"), "one", id="aaaa-1")
    monkeypatch.setenv("SESSIONTREE_HOME", "~/mine")
    assert "aaaa-1" in done("ls", "--all")
