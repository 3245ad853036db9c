"""What a session did to some files is found without reading all of it, and is the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.history import edits
from tests.support.lines import blocks_of
from tests.support.soak import amount
from tests.support.table import for_each

HEADER = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h", "id": "s"}
FILES = ("a.py", "b.py", "other.txt")


def entry(number: int, message: dict[str, Any]) -> dict[str, Any]:
    parent = f"m{number - 1}" if number else "h"
    return {"type": "message", "uuid": f"m{number}", "parentUuid": parent, "message": message}


def calls(*given: tuple[int, str]) -> dict[str, Any]:
    """A message with calls, of which each writes a file."""
    blocks = [
        {
            "type": "toolCall",
            "id": f"call-{id:05}",
            "name": "write",
            "arguments": {"path": file, "content": f"by {id}"},
        }
        for id, file in given
    ]
    return {"role": "assistant", "model": "m", "content": blocks}


def result(id: int, failed: bool = False) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": f"call-{id:05}", "content": "x", "isError": failed}


def written(file: Path, messages: list[dict[str, Any]], end: str = "\n") -> Path:
    entries = [{**HEADER, "parentUuid": None}]
    entries += [entry(number, message) for number, message in enumerate(messages)]
    file.write_text("\n".join(map(json.dumps, entries)) + end)
    return file


def assert_the_same(file: Path) -> int:
    """What is found for names is what is found of all that is named so."""
    with Session.open(file, readonly=True) as session:
        every = session.file_events()
        for names in (["a.py"], ["a.py", "b.py"]):
            wanted = [event for event in every if any(name in event.path for name in names)]
            assert session.file_events(names) == wanted
    return len(every)


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Calls in messages, and results of some of them, in any order behind their calls."""
    files = draw(st.lists(st.sampled_from(FILES), max_size=12))
    messages: list[dict[str, Any]] = []
    waiting: list[int] = []
    given = list(enumerate(files))
    while given or waiting:
        if draw(st.booleans()) and waiting:
            id = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            if draw(st.integers(0, 4)):
                messages.append(result(id, draw(st.booleans())))
            continue
        count = draw(st.integers(1, 4))
        some, given = given[:count], given[count:]
        if some:
            messages.append(calls(*some))
            waiting += [id for id, _ in some]
    return messages


@for_each("most", [0, 2, 100])
def test_events_of_names_are_those_of_all_about_these_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """With few calls without a result their ids are searched for, with many all is decoded."""
    monkeypatch.setattr(edits, "_MAX_SEARCHED", most)
    sizes = iter(range(10**6))

    @settings(max_examples=amount(60), deadline=None)
    @given(histories(), st.sampled_from(["\n", ""]))
    def check(messages: list[dict[str, Any]], end: str) -> None:
        file = written(tmp_path / f"{next(sizes)}.jsonl", messages, end)
        with blocks_of(64, 256):
            assert_the_same(file)

    check()


def test_events_of_very_many_calls_are_found_whole(tmp_path: Path) -> None:
    given = [(number, FILES[number % 3]) for number in range(400)]
    messages = [calls(*given[:300]), *(calls(each) for each in given[300:])]
    messages += [result(id, id % 7 == 0) for id, _ in reversed(given)]
    assert assert_the_same(written(tmp_path / "s.jsonl", messages)) == 400


def test_a_path_of_the_home_is_below_the_home_of_who_worked_there(tmp_path: Path) -> None:
    message = calls((1, "~/.config/a.py"))
    file = written(tmp_path / "s.jsonl", [message, result(1)])
    for cwd, path in (
        ("/Users/ann/work", "/Users/ann/.config/a.py"),
        ("/root", "/root/.config/a.py"),
        ("/srv/work", "~/.config/a.py"),
    ):
        lines = file.read_text().splitlines()
        header = {**json.loads(lines[0]), "cwd": cwd}
        file.write_text("\n".join([json.dumps(header), *lines[1:], ""]))
        with Session.open(file, readonly=True) as session:
            assert [event.path for event in session.file_events()] == [path]
