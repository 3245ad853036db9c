"""The commands about files that agents changed refuse what is wrong, and say what to do instead."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sessiontree import Store
from tests.support.edited import ask, project, write
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, run

TEXT = "first = 1\nsecond = 2\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that an agent wrote; the sessions are in a folder beside its project."""
    store, folder = project(tmp_path)
    with store.create(cwd=str(folder), durability="os", id="first") as session:
        ask(session, "Count")
        write(session, folder / "a.py", TEXT)
    return folder / "a.py"


@pytest.fixture
def store(file: Path) -> Path:
    return file.parent.parent / "store"


@for_each(
    ("lines", "wrong"),
    [
        ("3", "there is no line 3"),
        ("0", "there is no line 0"),
        ("2-9", "2-9 is not a range of them"),
        ("2-1", "2-1 is not a range of them"),
    ],
)
def test_lines_that_a_file_does_not_have_are_named(
    file: Path, store: Path, lines: str, wrong: str
) -> None:
    result = run("blame", f"{file}:{lines}", store)
    assert result.exit_code == 1
    assert f"{file} has 2 lines; {wrong}" in result.output


def test_blame_of_a_deleted_file_names_the_commands_that_take_it(file: Path, store: Path) -> None:
    file.unlink()
    result = run("blame", file, store)
    assert result.exit_code == 1
    assert "there is no file" in result.output
    assert "'history FILE' and 'recover FILE'" in result.output
    assert "a.py" in done("history", file, store)
    assert "2 lines" in done("recover", file, store)


@pytest.mark.parametrize("command", ["blame", "history", "recover"])
def test_a_second_file_that_is_not_a_session_is_refused(
    file: Path, store: Path, command: str
) -> None:
    result = run(command, file, file)
    assert result.exit_code == 1
    assert f"{file} is not a session" in result.output
    assert done(command, file, next(store.glob("**/*.jsonl")))


def test_an_existing_file_is_replaced_only_if_that_is_asked_for(file: Path, store: Path) -> None:
    (state,) = printed_json("recover", file, store)
    file.write_text("mine\n")
    words = ("recover", file, store, "--at", state["uuid"], "-o", file)
    result = run(*words)
    assert result.exit_code == 1
    assert "choose another name, or give --overwrite" in result.output
    assert file.read_text() == "mine\n"
    done(*words, "--overwrite")
    assert file.read_text() == TEXT


def test_a_file_comes_back_with_the_folder_that_went_with_it(file: Path, store: Path) -> None:
    file.unlink()
    out = file.parent / "gone" / "deep" / file.name
    done("recover", file, store, "--at", "latest", "-o", out)
    assert out.read_text() == TEXT


def test_a_folder_is_never_replaced(file: Path, store: Path) -> None:
    (state,) = printed_json("recover", file, store)
    result = run("recover", file, store, "--at", state["uuid"], "-o", file.parent)
    assert result.exit_code == 1
    assert "--overwrite" not in result.output


def test_calls_of_one_id_are_all_told_once_also_with_a_copy(file: Path, store: Path) -> None:
    """A model of one's own may number the calls of each turn from 1."""
    text = TEXT
    with Store(store).create(cwd=str(file.parent), durability="os", id="short") as session:
        for name in ("third", "fourth"):
            ask(session, name)
            text += f"{name} = 0\n"
            given = {"file_path": str(file), "content": text}
            call = {"type": "tool_use", "id": "call_1", "name": "Write", "input": given}
            session.append_message({"role": "assistant", "content": [call]})
            result = {"type": "tool_result", "tool_use_id": "call_1", "content": "done"}
            session.append_message({"role": "user", "content": [result]})
    file.write_text(text)
    for copy in (False, True):
        if copy:
            shutil.copytree(store, store.with_name("copy"))
        edits = printed_json("history", file, store.parent)
        assert [(edit["session"], edit["kept"]) for edit in edits] == [
            ("first", 2),
            ("short", 1),
            ("short", 1),
        ]
