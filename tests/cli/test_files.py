"""The commands about files that agents changed, on input that is not as one hopes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from tests.support.edited import ask, do, project, replace, write
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused

NAMES = ("a b.py", "-n.py", ":a.py", "[id].py", 'q"t\t.py', "new\nline.py", "é.py")


def blamed(file: Path | str, *sessions: Path | str | None) -> list[str | None]:
    """The session that each line is of."""
    return [row["session"] for row in rows("blame", file, *sessions)]


def rows(command: str, file: Path | str, *more: Path | str | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = printed_json(command, file, *map(str, more))
    return found


def session_in(store: Store, app: Path, id: str) -> Session:
    return store.create(cwd=str(app), durability="os", id=id)


def git(folder: Path, *words: str) -> None:
    who = {
        f"GIT_{role}_{key}": "a@b" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")
    }
    subprocess.run(
        ["git", *words], cwd=folder, check=True, capture_output=True, env={**os.environ, **who}
    )


@for_each("name", NAMES)
def test_a_file_of_any_name_is_found(tmp_path: Path, name: str) -> None:
    store, app = project(tmp_path)
    git(app, "init", "-q")
    with session_in(store, app, "first") as session:
        write(session, app / name, "one\n")
    git(app, "add", "-A")
    git(app, "commit", "-qm", "one")
    with session_in(store, app, "second") as session:
        replace(session, app / name, "one\n", "one\ntwo\n")
    assert blamed(app / name, store.root) == ["first", "second"]
    assert len(rows("history", app / name, store.root)) == 2
    assert rows("recover", app / name, store.root)[-1]["known"] == 2


def test_a_file_that_was_renamed_twice_keeps_its_writers(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    git(app, "init", "-q")
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "a line of some length\nanother one\n")
        git(app, "add", "-A")
        git(app, "commit", "-qm", "one")
        for old, new in (("a.py", "b.py"), ("b.py", "c.py")):
            git(app, "mv", old, new)
            git(app, "commit", "-qm", new)
    assert blamed(app / "c.py", store.root) == ["first", "first"]


def test_without_a_repository_and_without_git_the_edits_alone_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "one\ntwo\n")
    (app / "a.py").write_text("one\nby a person\ntwo\n")
    assert blamed(app / "a.py", store.root) == ["first", None, "first"]
    monkeypatch.setenv("PATH", str(app))
    assert blamed(app / "a.py", store.root) == ["first", None, "first"]


def test_a_file_whose_name_looks_like_a_line_is_that_file(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a:2", "one\n")
        write(session, app / "new\nline", "one\ntwo\n")
    assert blamed(app / "a:2", store.root) == ["first"]
    assert blamed(f"{app / 'a:2'}:1", store.root) == ["first"]
    assert [row["text"] for row in rows("blame", f"{app}/new\nline:2-2", store.root)] == ["two"]


@for_each("end", ["\n", "\r\n"])
def test_the_line_ends_of_a_file_do_not_count(tmp_path: Path, end: str) -> None:
    store, app = project(tmp_path)
    file = app / "a.py"
    with session_in(store, app, "first") as session:
        do(session, "Write", {"file_path": str(file), "content": "one\ntwo\n"})
        do(session, "Edit", {"file_path": str(file), "old_string": "two", "new_string": "2\n3"})
    file.write_bytes(f"one{end}2{end}3{end}".encode())
    assert blamed(file, store.root) == ["first"] * 3
    assert rows("blame", file, store.root)[0]["text"] == "one"


def test_two_sessions_that_edit_one_file_at_once_keep_their_lines(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    file = app / "a.py"
    with session_in(store, app, "first") as first, session_in(store, app, "second") as second:
        write(first, file, "one\ntwo\nthree\n")
        for number in range(3):
            replace(first, file, "one\n", f"one\nfirst {number}\n")
            replace(second, file, "three\n", f"second {number}\nthree\n")
    lines = file.read_text().splitlines()
    for line, session in zip(lines, blamed(file, store.root), strict=True):
        assert session == ("second" if line.startswith("second") else "first"), line


def test_an_edit_that_does_not_fit_or_failed_explains_nothing(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    file = app / "a.py"
    with session_in(store, app, "first") as session:
        given = {"file_path": str(file), "old_string": "not there", "new_string": "new"}
        do(session, "Edit", given)
        do(session, "Write", {"file_path": str(file), "content": "new\n"}, failed=True)
    file.write_text("new\nother\n")
    assert blamed(file, store.root) == [None, None]
    assert [row["outcome"] for row in rows("history", file, store.root)][1] == "failed"


def test_a_session_that_is_being_written_tells_its_whole_lines(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "one\n")
        replace(session, app / "a.py", "one\n", "one\ntwo\n")
        file = Path(str(session.file))
    file.write_bytes(file.read_bytes()[:-40])
    assert blamed(app / "a.py", file)[0] == "first"
    assert [row["outcome"] for row in rows("history", app / "a.py", file)][-1] == "unanswered"


def test_what_has_no_lines_is_refused(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    (app / "a.bin").write_bytes(b"a\0b")
    assert "is binary" in refused("blame", app / "a.bin", store.root)
    assert "is not a file" in refused("blame", app, store.root)
    assert "no file" in refused("blame", app / "none", store.root)


def test_the_outcome_of_each_edit_is_told(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    file = app / "a.py"
    with session_in(store, app, "first") as session:
        ask(session, "Write it")
        write(session, file, "one\n")
        replace(session, file, "one\n", "one\ntwo\n")
        replace(session, file, "two\n", "three\n")
        given = {"file_path": str(file), "old_string": "three\n", "new_string": "four\n"}
        do(session, "Edit", given, failed=True)
    assert [row["outcome"] for row in rows("history", file, store.root)] == [
        *("kept", "replaced", "kept", "failed"),
    ]
    (at,) = {row["uuid"] for row in rows("recover", file, store.root)[:1]}
    out = tmp_path / "out.py"
    done("recover", file, store.root, "--at", at, "-o", out)
    assert out.read_text() == "one\n"
    assert "is there already" in refused("recover", file, store.root, "--at", at, "-o", out)


def test_what_became_of_a_file_is_not_known_where_its_project_is_not(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with session_in(store, app, "first") as session:
        write(session, app / "a.py", "one\n")
        write(session, app / "b.py", "two\n")
    (app / "a.py").unlink()
    assert rows("history", app / "a.py", store.root)[0]["outcome"] == "deleted"
    app.rename(tmp_path / "moved")
    assert rows("history", app / "b.py", store.root)[0]["outcome"] == "absent"
    with session_in(store, app, "second") as session:
        do(session, "Bash", {"command": f"rm {app / 'b.py'}"})
    assert rows("history", app / "b.py", store.root)[0]["outcome"] == "deleted"
