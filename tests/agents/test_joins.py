"""Entries whose parent is not in the file, and answers that a file has twice."""

from __future__ import annotations

import json
from pathlib import Path

from sessiontree import Session, import_session
from sessiontree.agents.base import Link, joins
from sessiontree.core.codec import encode
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from tests.agents import test_pi
from tests.page.reading import page_of
from tests.support.table import for_each
from tests.support.terminal import run
from tests.support.transcripts import Line, assistant, encoded, user, written

GAP: list[Line] = [user("a", None), assistant("b", "a"), user("d", "lost"), assistant("e", "d")]
PI = [
    test_pi.HEADER,
    test_pi.message("a", None, "user", "say a"),
    test_pi.message("b", "a", "assistant", [{"type": "text", "text": "said b"}]),
    test_pi.message("d", "lost", "user", "say d"),
]


def parents(file: Path) -> dict[str, str | None]:
    with Session.open(file, readonly=True) as session:
        return {entry.uuid: entry.parent_uuid for entry in session.entries()}


def kinds(file: Path) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [found.kind for found in session.damage]


@for_each("lines", [GAP, PI])
def test_a_path_goes_past_a_missing_entry_and_each_view_says_so(
    lines: list[Line], tmp_path: Path
) -> None:
    file = written(tmp_path / "session.jsonl", lines)
    assert parents(file)["d"] == "b"
    assert kinds(file) == ["joined"]
    with Session.open(file, readonly=True) as session:
        assert session.entry("d").get("metadata")["missingParent"] == "lost"
        [warning] = session.context().warnings
        assert warning.startswith("the entry before d is missing")
    for command in ("tree", "export"):
        assert "the one before it in the file" in run(command, file).stdout
    assert ":3: " in run("verify", file).stdout or ":4: " in run("verify", file).stdout
    assert page_of(file).index["gists"].count("The entry before is missing") == 1


def test_a_main_line_is_not_joined_to_a_sidechain(tmp_path: Path) -> None:
    side = [user("s", None, isSidechain=True), assistant("t", "s", isSidechain=True)]
    more = user("u", "gone", isSidechain=True)
    file = written(tmp_path / "session.jsonl", [*GAP[:2], *side, *GAP[2:], more])
    assert parents(file)["d"] == "b"
    assert parents(file)["u"] == "t"


def test_no_entry_is_joined_to_one_below_it() -> None:
    assert joins([Link("b", "a", 0), Link("a", "lost", 0)]) == {}
    assert joins([Link("x", None, 0), Link("b", "a", 0), Link("a", "lost", 0)]) == {"a": "x"}
    assert joins([Link("a", "b", 0), Link("b", "a", 0), Link("c", "lost", 0)]) == {"c": "b"}
    assert joins([Link("a", None, 0), Link("b", "lost", 1)]) == {}
    many = [Link(str(n), str(n + 1)) for n in range(5_000)]
    assert joins(many) == {}


def test_an_import_stays_as_it_is_when_the_parent_comes_later(tmp_path: Path) -> None:
    file = written(tmp_path / "session.jsonl", GAP)
    made = Path(import_session(file, tmp_path / "store").file)
    before = parents(made)
    assert before["d"] == "b"
    assert kinds(made) == []
    with file.open("ab") as appended:
        appended.writelines(encoded([assistant("lost", "b"), user("f", "e")]))
    assert parents(file)["d"] == "lost"
    import_session(file, tmp_path / "store")
    after = parents(made)
    assert before.items() <= after.items()
    assert after["lost"] == "b"
    with Session.open(made, readonly=True) as session:
        said = [str(message["content"]) for message in session.context().messages]
        assert [text[-1] for text in said if "say" in text] == ["a", "d", "f"]
        assert "said lost" in said[2]
        assert session.context().warnings == []


def test_an_import_from_before_joins_is_not_repeated(tmp_path: Path) -> None:
    """It has the entry without its parent below the header."""
    file = written(tmp_path / "session.jsonl", GAP)
    made = Path(import_session(file, tmp_path / "store").file)
    lines = made.read_bytes().splitlines()
    keys = json.loads(lines[3])
    del keys["crc"]
    assert keys.pop("metadata") == {"missingParent": "lost"}
    lines[3] = encode({**keys, "parentUuid": json.loads(lines[0])["uuid"]})
    made.write_bytes(b"\n".join(lines) + b"\n")
    before = parents(made)
    with file.open("ab") as appended:
        appended.writelines(encoded([user("f", "e")]))
    assert import_session(file, tmp_path / "store").new == 1
    assert {**before, "f": "e"}.items() <= parents(made).items()


def test_a_replay_of_answers_stays_below_its_own_prompts(tmp_path: Path) -> None:
    lines: list[Line] = []
    for copy in "xy":
        above = None
        for number in (1, 2):
            prompt, answer = f"{copy}u{number}", f"{copy}a{number}"
            lines += [user(prompt, above, "same"), assistant(answer, prompt, f"m{number}", ["t"])]
            lines[-1]["message"]["usage"] = {"input_tokens": 7, "output_tokens": 1}
            above = answer
    file = written(tmp_path / "session.jsonl", [*lines, user("last", "ya2")])
    with Session.open(file, readonly=True) as session:
        assert [entry.uuid for entry in session.path()][1:] == ["yu1", "ya1", "yu2", "ya2", "last"]
    assert parents(file)["xa2"] == "xu2"
    assert CountCache(None).count(facts_of(str(file))).usage.tokens == 16
