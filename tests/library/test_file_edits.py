"""The edits of a file over sessions: under its former names, and once however many copies tell."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from sessiontree.library.file_edits import MAX_NAMES, Target, edits_of
from tests.support.table import for_each

MINUTE = "2026-03-01T09:{:02}:00.000Z"


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    """Writes a session; each call is the minute or None, its id, and its script or arguments."""

    def writes(name: str, *calls: tuple[int | None, str, Any], age: int = 0, id: str = "") -> str:
        header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "root"}
        lines = [{**header, "parentUuid": None, "id": id or name, "cwd": "/p"}]
        for minute, call, given in calls:
            done = not call.startswith("failed")
            tool, arguments = (
                ("bash", {"command": given}) if isinstance(given, str) else ("write", given)
            )
            block = {"type": "toolCall", "id": call, "name": tool, "arguments": arguments}
            said = {"role": "assistant", "content": [block]}
            told = {"role": "toolResult", "toolCallId": call, "content": "", "isError": not done}
            for kind, message in (("c", said), ("r", told)):
                entry = {"type": "message", "uuid": f"{call}{kind}{len(lines)}"}
                above = {"parentUuid": lines[-1]["uuid"]}
                time = {} if minute is None else {"timestamp": MINUTE.format(minute)}
                lines.append({**entry, **above, **time, "message": message})
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        os.utime(file, (1_000 - age, 1_000 - age))
        return str(file)

    return writes


def wrote(path: str, content: str = "x\n") -> dict[str, str]:
    return {"path": path, "content": content}


def found(files: list[str], *paths: str, root: str = "/p") -> tuple[list[str], list[str]]:
    """The calls that tell of a file, and all its paths."""
    target = Target((root,), list(paths))
    edits = edits_of(target, files, pytest.fail)
    return [edit.event.call for edit in edits], target.paths


def test_a_file_has_the_edits_of_its_former_names(write: Callable[..., str]) -> None:
    files = [
        write(
            "one", (1, "w", wrote("a.py")), (3, "m", "git mv a.py b.py"), (9, "o", wrote("a.px"))
        ),
        write("two", (5, "n", "mv b.py lib/c.py"), (7, "v", wrote("lib/c.py"))),
        write("old", (0, "u", wrote("/p/a.py"))),
    ]
    assert found(files, "lib/c.py") == (
        ["u", "w", "m", "n", "v"],
        ["lib/c.py", "b.py", "a.py"],
    )


def test_a_move_that_failed_or_that_is_of_another_file_gives_no_name(
    write: Callable[..., str],
) -> None:
    files = [
        write("one", (1, "w", wrote("a.py")), (3, "failed", "mv a.py b.py")),
        write("two", (4, "z", wrote("z.py")), (5, "n", "mv z.py y.py"), (7, "v", wrote("b.py"))),
        write("far", (2, "f", "mv /elsewhere/x.py /p/b.py")),
    ]
    assert found(files, "b.py") == (["f", "failed", "v"], ["b.py"])


def test_a_file_has_so_many_names(write: Callable[..., str]) -> None:
    calls = [(n, f"m{n}", f"mv {n}.py {n + 1}.py") for n in range(30)]
    calls_found, paths = found([write("one", *calls)], "30.py")
    assert paths == [f"{n}.py" for n in range(30, 30 - MAX_NAMES, -1)]
    assert calls_found == [f"m{n}" for n in range(30 - MAX_NAMES, 30)]


def test_a_copy_of_a_session_tells_nothing_again(write: Callable[..., str]) -> None:
    """The older file is the original; of copies under another id the times decide."""
    calls = (1, "c1", wrote("a.py")), (2, "c2", wrote("a.py", "y\n"))
    more = (5, "c3", wrote("a.py", "z\n"))
    first = write("first", *calls, id="one", age=9)
    copy = write("copy", *calls, more, id="one")
    fork = write("fork", *calls, (6, "c4", wrote("a.py", "f\n")), id="two")
    target = Target(("/p",), ["a.py"])
    told = edits_of(target, [copy, fork, first], pytest.fail)
    assert [(edit.event.call, edit.file) for edit in told] == [
        ("c1", first),
        ("c2", first),
        ("c3", copy),
        ("c4", fork),
    ]


def test_a_short_id_that_calls_share_does_not_join_them(write: Callable[..., str]) -> None:
    one = write("one", (1, "c", wrote("a.py")), (2, "c", wrote("a.py", "y\n")), id="one")
    two = write("two", (3, "c", wrote("a.py")), id="two")
    assert found([one, two], "a.py")[0] == ["c", "c", "c"]


def test_copies_are_told_as_the_original_tells_them(write: Callable[..., str]) -> None:
    """An import is newer than what it was made of; else the older file, else the first name."""
    call = (1, "c1", wrote("a.py"))
    young, old, twin = (write(name, call, id=name, age=age) for name, age in COPIES.items())
    for files in permutations((young, old, twin)):
        told = edits_of(Target(("/p",), ["a.py"]), list(files), pytest.fail)
        assert [edit.file for edit in told] == [old]
    os.utime(old)
    os.utime(twin)
    assert [edit.file for edit in edits_of(Target(("/p",), ["a.py"]), [old, young], print)] == [
        young
    ]


COPIES = {"young": 3, "old": 9, "twin": 9}


@pytest.mark.parametrize(
    ("one", "two", "count"),
    [
        ((1, "c", wrote("a.py")), (1, "c", wrote("a.py")), 1),
        ((1, "c", wrote("a.py")), (2, "c", wrote("a.py")), 2),
        ((1, "c", wrote("a.py")), (1, "d", wrote("a.py")), 2),
        ((1, "c", wrote("a.py")), (1, "c", wrote("b.py")), 2),
        ((1, "", wrote("a.py")), (1, "", wrote("a.py")), 1),
        ((1, "", wrote("a.py")), (1, "", wrote("a.py", "y\n")), 2),
        ((1, "", wrote("a.py")), (2, "", wrote("a.py")), 2),
        ((None, "c", wrote("a.py")), (None, "c", wrote("a.py")), 1),
        ((None, "c", wrote("a.py")), (None, "c", wrote("a.py", "y\n")), 2),
        ((None, "c", wrote("a.py")), (1, "c", wrote("a.py")), 2),
    ],
)
def test_calls_of_two_sessions_are_copies_if_all_that_names_them_is_the_same(
    write: Callable[..., str], one: Any, two: Any, count: int
) -> None:
    files = [write("one", one, id="one"), write("two", two, id="two")]
    assert len(found(files, "a.py", "b.py")[0]) == count


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        ([(1, "c", wrote("a.py"))], [(2, "c", wrote("a.py", ""))], ["c"]),
        ([(1, "c", wrote("a.py"))], [(2, "d", wrote("a.py"))], ["c", "d"]),
        ([(1, "", wrote("a.py"))], [(2, "", wrote("a.py"))], ["", ""]),
        (
            [(1, "c", wrote("a.py")), (2, "c", wrote("a.py"))],
            [(2, "c", wrote("a.py")), (3, "c", wrote("a.py"))],
            ["c", "c", "c"],
        ),
    ],
)
def test_copies_of_one_session_have_the_ids_of_its_calls_at_other_times(
    write: Callable[..., str], one: Any, two: Any, told: list[str]
) -> None:
    files = [write("one", *one, id="same"), write("two", *two, id="same")]
    assert found(files, "a.py")[0] == told


def test_what_was_done_to_files_of_the_same_name_elsewhere_is_not_told(
    write: Callable[..., str],
) -> None:
    calls = [
        (1, "w", wrote("/elsewhere/a.py")),
        (2, "m", "mv /elsewhere/a.py /elsewhere/b.py"),
        (3, "n", "mv /elsewhere/b.py /elsewhere/a.py"),
        (None, "f", wrote("a.py")),
    ]
    assert found([write("one", *calls)], "a.py") == (["f"], ["a.py"])


@for_each(
    "line",
    ['{"a":"tool_use a.py"}', '{"a":"toolCall a.py"}', '{"a":"local_shell_call a.py"}', "{"],
)
@for_each(("name", "is_opened"), [("s.jsonl", True), ("s.json", True), ("quiet.jsonl", False)])
def test_a_file_is_opened_if_a_line_may_be_a_call_with_the_name(
    tmp_path: Path, line: str, name: str, is_opened: bool
) -> None:
    """A document has the call and the name on lines of their own."""
    file = tmp_path / name
    if name == "s.jsonl":
        said, is_opened = line, "a.py" in line
    elif name == "s.json":
        said = "a.py"
    else:
        said = f"{line.replace('a.py', '')}\na.py, in another line than the call\n"
    file.write_text(said)
    problems: list[str] = []
    assert edits_of(Target(("/p",), ["a.py"]), [str(file)], problems.append) == []
    assert len(problems) == is_opened


def test_a_file_that_cannot_be_read_is_reported_and_hides_nothing(
    write: Callable[..., str], tmp_path: Path
) -> None:
    good = write("good", (1, "w", wrote("a.py")))
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"toolCall": "a.py"}\n')
    quiet = tmp_path / "quiet.jsonl"
    quiet.write_text("a.py, and nothing that calls anything\n")
    problems: list[str] = []
    told = edits_of(
        Target(("/p",), ["a.py"]),
        [str(wrong), str(quiet), str(tmp_path / "gone.jsonl"), good],
        problems.append,
    )
    assert [edit.event.call for edit in told] == ["w"]
    assert len(problems) == 2
    assert all(name in said for name, said in zip(("wrong", "gone"), problems, strict=True))
