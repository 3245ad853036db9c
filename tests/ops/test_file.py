"""The namespace `file`: who wrote a line, what was done to a file, and what it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.support.calls import Calls
from tests.support.edited import ask, do, project, replace, write
from tests.support.sessions import said

KEY = "sk-ant-api03-" + "aB3" * 31 + "AA"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A project whose file one agent wrote and another changed, with the store beside it."""
    store, folder = project(tmp_path)
    file = folder / "a.py"
    with store.create(cwd=str(folder), durability="os", id="first") as session:
        ask(session, "Write a loop")
        write(session, file, "def run():\n    while True:\n        step()\n")
    with store.create(cwd=str(folder), durability="os", id="second") as session:
        ask(session, "Wait between the steps")
        replace(session, file, "step()\n", "step()\n        sleep(1)\n        # why\n")
        do(
            session,
            "Edit",
            {"file_path": str(file), "old_string": "x", "new_string": "y"},
            failed=True,
        )
    file.write_text(file.read_text() + "run()\n")
    return folder


@pytest.fixture
def calls(app: Path) -> Calls:
    return Calls(app.parent / "store", projects=[str(app)], write=False)


def test_blame_tells_who_wrote_each_run_of_lines_and_why(app: Path, calls: Calls) -> None:
    first, second, person = calls.value("file.blame", file=str(app / "a.py"))["items"]
    assert (first["first"], first["last"], first["text"]) == (1, 3, "def run():")
    assert (first["session"], first["turn"], first["prompt"]) == ("first", "1", "Write a loop")
    assert (second["first"], second["last"], second["certainty"]) == (4, 5, "exact")
    assert (second["agent"], second["model"]) == ("sessiontree", "m")
    assert (person["first"], person["last"], person["certainty"]) == (6, 6, "none")
    assert "session" not in person
    entry = calls.value("node.get", session="second", entry=second["entry"])
    assert "sleep(1)" in str(entry)


def test_a_reason_stands_once_on_a_page(app: Path, calls: Calls) -> None:
    file = app / "a.py"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0], "    # a person", *lines[1:]]) + "\n")
    first, person, again, *_ = calls.value("file.blame", file="a.py")["items"]
    assert first["entry"] == again["entry"]
    assert (first["prompt"], again.get("prompt")) == ("Write a loop", None)
    assert person["certainty"] == "none"


def test_blame_of_some_lines_and_some_sessions(app: Path, calls: Calls) -> None:
    (item,) = calls.value("file.blame", file="a.py", lines="5")["items"]
    assert (item["first"], item["last"], item["text"]) == (5, 5, "# why")
    assert calls.value("file.blame", file="a.py:5")["items"] == [item]
    items = calls.value("file.blame", file="a.py", lines="2-4")["items"]
    assert [(one["first"], one["last"]) for one in items] == [(2, 3), (4, 4)]
    items = calls.value("file.blame", file="a.py", sessions=["first"])["items"]
    assert {one.get("session") for one in items} == {"first", None}
    assert calls("file.blame", file="a.py", lines="5-4").kind == "bad_value"
    assert calls("file.blame", file="a.py", lines="7").kind == "bad_value"
    assert calls("file.blame", file="a.py", lines="x").kind == "bad_parameter"
    assert calls("file.blame", file="a.py", since="x").kind == "bad_parameter"
    assert calls("file.blame", file="a.py", sessions=["none"]).kind == "session_not_found"
    assert calls("file.blame", file="none.py").kind == "storage"


def test_the_pages_of_a_long_blame_have_each_line_once(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    lines = [f"line {number}\n" for number in range(600)]
    with store.create(cwd=str(app), durability="os") as session:
        ask(session, "Number the lines " * 100)
        write(session, app / "a.txt", "".join(lines))
    lines[::2] = [f"a person's line {number}\n" for number in range(300)]
    (app / "a.txt").write_text("".join(lines))
    calls = Calls(store.root, projects=[str(app)])
    items = calls.pages("file.blame", file="a.txt", budget=1000)
    told = [n for one in items for n in range(one["first"], one["last"] + 1)]
    assert told == list(range(1, 601))
    whole = calls.value("file.blame", file="a.txt", lines="2-2")
    assert len(whole["items"]) == 1


def test_history_has_each_edit_with_its_outcome_the_last_first(app: Path, calls: Calls) -> None:
    failed, changed, made = calls.value("file.history", file="a.py")["items"]
    assert [one["outcome"] for one in (failed, changed, made)] == ["failed", "kept", "kept"]
    assert (changed["kept"], changed["added"], changed["prompt"]) == (
        2,
        2,
        "Wait between the steps",
    )
    assert "+        sleep(1)" in changed["diff"]
    (short, *_) = calls.value("file.history", file="a.py", longest=4, sessions=["first"])["items"]
    assert (short["diff"], short["left_out"] > 10) == ("@@ -", True)
    assert len(calls.pages("file.history", file="a.py", budget=200)) == 3


def test_recover_lists_the_states_and_reads_one(app: Path, calls: Calls) -> None:
    os.unlink(app / "a.py")
    last, first = calls.value("file.recover", file="a.py")["items"]
    assert (first["known"], last["known"], first["session"]) == (3, 5, "first")
    found = calls.value("file.recover", file="a.py", at=first["at"])
    assert found["text"] == "def run():\n    while True:\n        step()\n"
    assert "next" not in found
    assert not (app / "a.py").exists()
    assert calls("file.recover", file="a.py", at="nothing").guidance[-1] == (
        "no_such_ref",
        "Call file.recover without `at`; it lists the states.",
    )


def test_a_long_state_comes_in_parts(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    text = "".join(f"line {number}\n" for number in range(2000))
    with store.create(cwd=str(app), durability="os") as session:
        write(session, app / "a.txt", text)
    calls = Calls(store.root, projects=[str(app)])
    (state,) = calls.value("file.recover", file="a.txt")["items"]
    told, offset = "", 0
    while offset is not None:
        answer = calls("file.recover", file="a.txt", at=state["at"], offset=offset, budget=800)
        assert answer.tokens <= 800
        told += answer.value["text"]
        offset = answer.value.get("next")
    assert told == text


def test_a_state_with_gaps_is_refused_unless_it_may_be_partial(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with store.create(cwd=str(app), durability="os") as session:
        given = {"file_path": str(app / "a.py"), "offset": 2}
        do(session, "Read", given, "     2→two\n     3→three\n")
        do(session, "Edit", {**given, "old_string": "two", "new_string": "zwei"})
    calls = Calls(store.root, projects=[str(app)])
    state, look = calls.value("file.recover", file="a.py")["items"]
    assert (look["kind"], state["kind"]) == ("read", "edit")
    assert (state["known"], state["missing"]) == (2, ["line 1", "lines from 4 on"])
    refused = calls("file.recover", file="a.py", at=state["at"])
    assert refused.error is not None
    assert "missing: line 1" in refused.error
    assert refused.guidance[-1][1].startswith("Give `partial`")
    found = calls.value("file.recover", file="a.py", at=state["at"], partial=True)
    assert found["text"].startswith("<<< not known: line 1 >>>\nzwei\nthree\n")


def test_list_counts_what_a_session_did_to_files(app: Path, calls: Calls) -> None:
    (row,) = calls.value("file.list", session="second")["items"]
    assert (row["path"], row["edits"], row["failed"], row["added"]) == (str(app / "a.py"), 1, 1, 2)
    assert calls.value("file.list")["items"] == [row]
    assert calls("file.list", session="none").kind == "session_not_found"


METHODS = ("file.blame", "file.history", "file.recover")


@pytest.mark.parametrize("name", METHODS)
def test_no_file_outside_of_the_projects_is_read(app: Path, calls: Calls, name: str) -> None:
    outside = app.parent / "secret.txt"
    outside.write_text("a secret\n")
    (app / "link.txt").symlink_to(outside)
    (app / "up").symlink_to(app.parent)
    for path in (str(outside), "../secret.txt", "link.txt", "up/secret.txt", "/etc/passwd", "a\0b"):
        answer = calls(name, file=path)
        assert answer.kind == "outside", path
        assert "a secret" not in str(answer.events)
    assert calls("file.blame", file="link.txt:1").kind == "outside"
    beside = app.parent / "app-2"
    beside.mkdir()
    (beside / "a.py").write_text("a secret\n")
    assert calls(name, file=str(beside / "a.py")).kind == "outside"
    answer = Calls(app.parent / "store")(name, file=str(app / "a.py"))
    assert (answer.kind, answer.error) == ("outside", "no file of a project can be read here")


@pytest.mark.parametrize("name", METHODS)
def test_no_session_outside_of_the_scope_is_read(app: Path, calls: Calls, name: str) -> None:
    other = Store(app.parent / "other")
    with other.create(cwd=str(app), durability="os", id="other") as session:
        ask(session, "an outer prompt")
        do(session, "Write", {"file_path": str(app / "a.py"), "content": "sleep(2)\n"})
        file = session.file
    assert file is not None
    inner = said(calls.scope.store, "hello")
    (Path(inner).parent / "link.jsonl").symlink_to(file)
    assert "outer prompt" not in str(calls(name, file="a.py").events)
    assert calls(name, file="a.py", sessions=[file]).kind == "outside"


def test_a_call_that_is_not_confined_reads_what_the_user_may_read(app: Path) -> None:
    calls = Calls(app.parent / "store", confined=False)
    assert calls.value("file.blame", file=str(app / "a.py"))["items"]
    assert calls("file.blame", file="a\0b").kind == "bad_value"


def test_secrets_are_masked_before_a_text_is_cut(tmp_path: Path) -> None:
    store, app = project(tmp_path)
    with store.create(cwd=str(app), durability="os") as session:
        ask(session, "x" * 250 + f" use {KEY} ")
        write(session, app / "a.py", "x" * 120 + f' key = "{KEY}"\n')
    calls = Calls(store.root, projects=[str(app)], redact=True)
    answers = [calls("file.blame", file="a.py"), calls("file.history", file="a.py", longest=180)]
    answers.append(calls("file.recover", file="a.py", at=answers[0].value["items"][0]["entry"]))
    for answer in answers:
        assert answer.error is None
        assert KEY[:20] not in str(answer.events)
    assert KEY[:20] in str(Calls(store.root, projects=[str(app)])("file.blame", file="a.py").events)


def test_a_session_that_cannot_be_read_is_told_and_hides_nothing(app: Path, calls: Calls) -> None:
    with calls.scope.store.create(cwd=str(app), durability="os") as session:
        write(session, app / "a.py", "new\n")
        file = Path(str(session.file))
    file.write_bytes(file.read_bytes()[:-30])
    answer = calls("file.history", file="a.py")
    assert [one["session"] for one in answer.value["items"] if one["kind"] == "edit"] == [
        "second"
    ] * 2


def test_a_path_is_of_the_first_project_that_has_it(app: Path, tmp_path: Path) -> None:
    other = tmp_path / "other-app"
    other.mkdir()
    calls = Calls(tmp_path / "store", projects=[str(other), str(app)])
    assert calls.value("file.blame", file="a.py")["items"][0]["session"] == "first"
    assert calls.scope.project_file("new.py") == str(other / "new.py")


def test_a_session_of_memory_is_no_file() -> None:
    assert Session.create().file_events() == []
