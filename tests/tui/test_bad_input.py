"""No session, however hostile or damaged, controls the terminal or ends the browser."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

from sessiontree import Session
from tests.support.saying import assistant, text, user
from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.tui.driving import Driven, drive
from tests.tui.sessions import branched, saying

HOSTILE = (
    "\x1b[2J\x1b[31mred \x1b]0;title\x07 \x9b31m",
    "[bold]markup[/bold] [/] [red]x [@click=app.quit]quit[/] [link=http://e]l[/link]",
    "\u202edlrow\u202c \u2066x\u2069 \u200f",
    "tab\tand\rreturn\x00null\x7f\x85",
    "e" + "\u0301" * 1000,
    "漢字" * 1000,
    "a" * 40_000,
    "{}[]$:%s{0}",
)


@for_each("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_without_control_of_the_terminal(
    tmp_path: Path, hostile: str
) -> None:
    with Session.create(tmp_path / "s.jsonl", durability="os", cwd=hostile) as session:
        first = session.append_message(user(hostile))
        label = {"type": "label", "uuid": "l", "parentUuid": first.uuid, "label": hostile}
        session.append_message(
            assistant(text(hostile), {"type": hostile, "x": hostile}, model=hostile)
        )
        call = {"type": "toolCall", "id": "c", "name": hostile, "arguments": {hostile: hostile}}
        session.append_message(assistant(call))
    with (tmp_path / "s.jsonl").open("a") as file:
        file.write(json.dumps({**label, "targetUuid": first.uuid}) + "\n")
    screens: list[str] = []

    async def steps(driven: Driven) -> None:
        screens.append(driven.text)
        keys = ("enter", "enter", "z", "slash", "a", "enter", "escape", "L", "escape", "slash")
        screens.extend([await driven.press(each) for each in (*keys, "a", "enter")])

    drive(steps, tmp_path)
    for screen in screens:
        shown = {unicodedata.category(c) for c in screen if c not in "\n\u200c\u200d"}
        assert not shown & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert "[bold]markup" in "".join(screens) or "markup" not in hostile


def test_damage_is_told_and_the_rest_is_readable(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:3], b"\x00\xff{ broken\n", *lines[3:], b'{"type":"mess']))

    async def steps(driven: Driven) -> None:
        assert "damaged" in driven.foot
        assert "In Rust" in driven.text

    drive(steps, file=file)


def test_a_missing_blob_is_told_in_its_place(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file, durability="os", spill_over=100) as session:
        session.append_message(user("short"))
        session.append_message(assistant(text("long " * 100)))
    for blob in (tmp_path / "s.jsonl.blobs").iterdir():
        blob.unlink()

    async def steps(driven: Driven) -> None:
        shown = await driven.press("enter")
        assert "short" in shown
        assert "missing" in shown or "is not there" in shown

    drive(steps, file=file)


def test_a_file_that_is_no_session_is_told(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_text("no session\n")

    async def steps(driven: Driven) -> None:
        assert "not readable" in driven.rows[0]
        assert "s.jsonl" in "".join(driven.foot.split())  # a long path is wrapped
        await driven.press("enter", "space", "z", "slash", "escape", "dollar_sign", "f5")

    drive(steps, file=file)


def test_a_session_that_is_deleted_or_replaced_while_it_is_shown(tmp_path: Path) -> None:
    file = branched(tmp_path / "s.jsonl")

    async def steps(driven: Driven) -> None:
        file.unlink()
        await driven.press("enter", "escape", "L", "escape")
        assert "In Rust" in driven.text
        await driven.press("f5")
        assert "there is no file" in driven.foot
        saying(file, "Another session")
        assert "Another session" in await driven.press("f5")

    drive(steps, file=file)


def test_a_session_that_is_gone_from_the_list(tmp_path: Path) -> None:
    file = saying(tmp_path / "s.jsonl", "Soon gone")

    async def steps(driven: Driven) -> None:
        file.unlink()
        assert "not readable" in await driven.press("enter")
        assert "there is no session" in await driven.press("escape", "f5")

    drive(steps, tmp_path)


@in_soak("turns", 10_000, 100_000)
def test_a_very_long_session_is_outlined(tmp_path: Path, turns: int) -> None:
    file = tmp_path / "s.jsonl"
    header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h", "id": "i"}
    lines: list[dict[str, object]] = [{**header, "parentUuid": None}]
    for n in range(turns):
        above = lines[-1]["uuid"]
        message = {"role": "user", "content": f"prompt {n}"}
        lines.append({"type": "message", "uuid": f"{n}", "parentUuid": above, "message": message})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    async def steps(driven: Driven) -> None:
        assert f"prompt {turns - 1}" in driven.chosen
        assert "prompt 0" in (await driven.press("home"), driven.chosen)[1]
        assert "turn 1 " in await driven.press("enter")

    drive(steps, file=file)


def test_an_empty_session_has_no_turns(tmp_path: Path) -> None:
    Session.create(tmp_path / "s.jsonl", durability="os").close()

    async def steps(driven: Driven) -> None:
        await driven.press("enter", "space", "z", "at", "dollar_sign")
        assert "no tokens and no cost" in driven.foot
        assert "no label" in await driven.press("escape", "L")

    drive(steps, file=tmp_path / "s.jsonl")
