"""Each key that writes does one thing, and tells what it did or why it did not."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest

from sessiontree import Session, Store
from sessiontree.tui.leaving import Resume
from tests.cli.screens import AGENTS
from tests.tui.driving import Driven, drive
from tests.tui.sessions import branched, saying


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "store"))
    return Store()


def _claude(tmp_path: Path) -> Path:
    source = next((AGENTS / "claude_code").rglob("*.jsonl"))
    file = tmp_path / source.name
    file.write_bytes(source.read_bytes())
    return file


def test_a_turn_is_gone_on_from(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")

    async def steps(driven: Driven) -> None:
        text = await driven.press("left_square_bracket", "b")
        assert "the next entry goes below" in driven.foot
        assert "◀ In Go" in text

    drive(steps, file=file)
    with Session.open(file, readonly=True) as session:
        assert session.context().messages[-1]["content"] == [
            {"type": "text", "text": "Here it is in Go."}
        ]


def test_a_turn_gets_a_label_and_loses_it(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")

    async def steps(driven: Driven) -> None:
        await driven.press("home", "l", *"start", "enter")
        assert "[start] Build a CLI" in driven.chosen
        assert "is labelled start" in driven.foot
        await driven.press("l", "ctrl+u", "enter")
        assert "[start]" not in driven.text
        await driven.press("l", "x", "backspace", "escape")
        await driven.press("l", "a", "at", "enter")
        assert "a label has no @" in driven.foot

    drive(steps, file=file)


def test_an_entry_is_labelled_gone_on_from_and_forked(tmp_path: Path, store: Store) -> None:
    file = branched(tmp_path / "s.jsonl")

    async def steps(driven: Driven) -> None:
        await driven.press("home", "enter", "right_square_bracket", "l", *"asked", "enter")
        assert "is labelled asked" in driven.foot
        assert "goes below" in await driven.press("b")
        await driven.press("f")
        assert "copied the path" in driven.foot
        assert "[asked]" in await driven.press("escape")

    drive(steps, file=file)
    with Session.open(store.list()[0].file, readonly=True) as copy:
        assert len(copy.context().messages) == 2


def test_the_path_to_a_turn_is_forked_into_the_store(tmp_path: Path, store: Store) -> None:
    async def steps(driven: Driven) -> None:
        await driven.press("left_square_bracket", "f")
        assert "copied the path" in driven.foot

    drive(steps, file=branched(tmp_path / "s.jsonl"))
    with Session.open(store.list()[0].file, readonly=True) as copy:
        said = str(copy.context().messages)
    assert "In Go" in said
    assert "In Rust" not in said


def test_the_path_to_a_turn_is_exported_and_nothing_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out.md"

    async def steps(driven: Driven) -> None:
        await driven.press("e", "ctrl+u")
        await driven.paste(str(target))
        await driven.press("enter")
        assert "exported as Markdown" in driven.foot
        await driven.press("e", "ctrl+u")
        await driven.paste(str(target))
        await driven.press("enter")
        assert "out.md" in driven.foot.replace(" ", "")
        assert "exported" not in driven.foot

    drive(steps, file=branched(tmp_path / "s.jsonl"))
    assert "Here it is in Rust." in target.read_text()


def test_a_session_is_exported_as_a_page(tmp_path: Path) -> None:
    target = tmp_path / "out.HTML"

    async def steps(driven: Driven) -> None:
        await driven.press("e", "ctrl+u")
        await driven.paste(str(target))
        await driven.press("enter")
        assert "exported as a page" in driven.foot

    drive(steps, file=branched(tmp_path / "s.jsonl"))
    assert target.read_text().startswith("<!DOCTYPE html>")


def test_a_prompt_and_an_id_are_copied(tmp_path: Path) -> None:
    branched(tmp_path / "s.jsonl")

    async def steps(driven: Driven) -> None:
        await driven.press("ctrl+y")
        assert len(driven.app.clipboard) == 36
        await driven.press("enter", "home", "y")
        assert driven.app.clipboard == "Build a CLI"

    drive(steps, tmp_path)


def test_a_session_of_the_store_is_trashed_when_the_user_agrees(
    tmp_path: Path, store: Store
) -> None:
    for name in "ab":
        with store.create(durability="os") as session:
            session.append_message({"role": "user", "content": f"session {name}"})

    async def steps(driven: Driven) -> None:
        await driven.press("ctrl+t", "n", "enter")
        assert "2 sessions" in driven.rows[0]
        await driven.press("ctrl+t", "y", "enter")
        assert "1 session" in driven.rows[0]
        await driven.press("enter", "t", "y", "e", "s", "enter")
        assert "there is no session" in driven.text

    drive(steps, Path(store.root))
    assert len(store.trashed()) == 2


def test_a_session_outside_of_the_store_is_not_trashed(tmp_path: Path) -> None:
    file = saying(tmp_path / "s.jsonl", "outside")

    async def steps(driven: Driven) -> None:
        await driven.press("t", "y", "enter")
        assert "is not a session of" in driven.foot

    drive(steps, file=file)
    assert file.exists()


@pytest.mark.parametrize("keys", [("b",), ("l", "x", "enter")])
def test_a_session_of_another_agent_is_not_written_and_the_message_says_to_import(
    tmp_path: Path, keys: tuple[str, ...]
) -> None:
    file = _claude(tmp_path)
    before = file.read_bytes()

    async def steps(driven: Driven) -> None:
        await driven.press(*keys)
        assert "import" in driven.foot

    drive(steps, file=file)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (("enter", "r", "enter"), ("claude-code", True)),
        (("enter", "R", "enter"), ("claude-code", False)),
        (("ctrl+r", "ctrl+u", *"pi", "enter"), ("pi", True)),
    ],
)
def test_a_resume_ends_the_browser_with_the_session_and_the_agent(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, ...],
    expected: tuple[str, bool],
) -> None:
    file = _claude(tmp_path)
    for name in ("claude", "pi"):
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "programs"), prepend=os.pathsep)

    async def steps(driven: Driven) -> None:
        await driven.pilot.press(*keys[:1])
        await driven.settled()
        for key in keys[1:]:
            await driven.pilot.press(key)
            await driven.pilot.pause()

    assert drive(steps, tmp_path).return_value == Resume(str(file), *expected)


def test_an_agent_that_is_not_installed_is_told_and_the_browser_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    async def steps(driven: Driven) -> None:
        await driven.press("r", "ctrl+u", *"pi", "enter")
        assert "'pi' is not on the PATH; install it" in driven.foot

    drive(steps, file=_claude(tmp_path))


def test_an_unknown_agent_is_told(tmp_path: Path) -> None:
    async def steps(driven: Driven) -> None:
        await driven.press("r", "ctrl+u", *"emacs", "enter")
        assert "there is no agent emacs; the agents are claude-code" in driven.foot
        await driven.press("r", "ctrl+u", "enter")  # no agent: nothing happens
        assert driven.app.is_running

    drive(steps, file=branched(tmp_path / "s.jsonl"))


def test_a_search_over_the_list_opens_its_hit(tmp_path: Path) -> None:
    saying(tmp_path / "a.jsonl", "where is the needle")
    saying(tmp_path / "b.jsonl", "only hay")

    async def steps(driven: Driven) -> None:
        assert (
            "1 hit" in await driven.press("ctrl+f", *"needle", "enter") or "2 hits" in driven.text
        )
        assert "where is the needle" in await driven.press("enter")
        assert driven.rows[0].startswith("turn 1")

    drive(steps, tmp_path)


def test_a_turn_is_opened_in_the_browser_and_the_server_ends_with_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    file = branched(tmp_path / "s.jsonl")
    monkeypatch.setenv("BROWSER", "/bin/true")
    found: list[str] = []

    async def steps(driven: Driven) -> None:
        await driven.press("home", "w")
        found.append(driven.foot)
        address = driven.foot.replace(" ", "").removeprefix("open").removeprefix("ed")
        with urlopen(address.partition("#")[0]) as answer:
            assert b"<title>" in answer.read()

    drive(steps, file=file)
    assert "http://127.0.0.1:" in found[0]
    port = int(found[0].partition("127.0.0.1:")[2].partition("/")[0])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
