"""A viewed session tells pages what is new, and only so many sessions are viewed at once."""

from __future__ import annotations

import asyncio
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from sessiontree.web import session as module
from sessiontree.web.session import LiveSession, LiveSessions, PageUpdate, folders_of, stamps_of
from tests.support.conversation import user
from tests.web.serving import talk


def index_of(packed: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


async def shown(one: LiveSession, number: int, rows: int) -> list[PageUpdate]:
    """The changes after a state, until the page has so many rows."""
    found: list[PageUpdate] = []
    while len(index_of(await one.index())["kinds"]) < rows or not found:
        found.append(await one.news(number + len(found), ""))
    return found


def test_a_page_gets_each_change_in_order_and_starts_again_behind_the_last(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"

    async def watched() -> None:
        one = LiveSession(str(file), asyncio.get_running_loop())
        one.watchers = 1
        try:
            index = index_of(await one.index())
            assert (index["number"], index["kinds"]) == (1, "TuaTuaO")
            assert [one.part(name) is not None for name in index["names"]] == [True]
            assert one.part("another") is None
            session.append_message(user("more"))
            found = await shown(one, 1, 9)
            session.append_message(user("and more"))
            found += await shown(one, 1 + len(found), 10)
            assert [news.number for news in found] == [*range(2, 2 + len(found))]
            assert {news.kind for news in found} == {"change"}
            assert [json.loads(news.data)["number"] for news in found] == [
                news.number for news in found
            ]
            assert await one.news(1, "") == found[0]
            again = await one.news(10_000, "")
            assert (again.kind, again.data) == ("again", "")
            assert again.number >= found[-1].number
            assert [one.part(name) for name in index["names"]] == [None]
        finally:
            one.close()
        assert one.is_closed

    with talk(file) as session:
        asyncio.run(asyncio.wait_for(watched(), 30))


def test_what_keeps_a_session_from_being_read_is_told_until_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    talk(file).close()
    text = file.read_bytes()

    async def watched() -> None:
        one = LiveSession(str(file), asyncio.get_running_loop())
        one.watchers = 1
        try:
            await one.index()
            file.unlink()
            gone = await one.news(1, "")
            assert gone == PageUpdate(1, "problem", module._GONE)
            file.write_text("no session\n")
            wrong = await one.news(1, gone.data)
            assert (wrong.number, wrong.kind) == (1, "problem")
            assert wrong.data.startswith("The session cannot be read now: ")
            assert str(file) in wrong.data
            file.write_bytes(text)
            news = await one.news(1, wrong.data)
            while news.kind == "change":  # as a thread may publish before it tells
                news = await one.news(news.number, wrong.data)
            assert (news.kind, news.data) == ("problem", "")
        finally:
            one.close()

    asyncio.run(asyncio.wait_for(watched(), 30))


def test_a_session_that_is_closed_before_it_was_read_has_no_index(tmp_path: Path) -> None:
    async def watched() -> None:
        one = LiveSession(str(tmp_path / "none.jsonl"), asyncio.get_running_loop())
        assert await one.news(0, "") == PageUpdate(0, "problem", module._GONE)
        one.close()
        assert await one.index() == b""

    asyncio.run(asyncio.wait_for(watched(), 30))


def test_the_session_asked_for_longest_ago_is_closed_unless_a_page_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MAX_VIEWED", 2)
    files = [str(tmp_path / f"{name}.jsonl") for name in "abcd"]

    async def viewing() -> None:
        every = LiveSessions()
        a, b = every.of(files[0]), every.of(files[1])
        assert every.of(files[0]) is a
        c = every.of(files[2])
        assert [one.is_closed for one in (a, b, c)] == [False, True, False]
        a.watchers = 1
        d = every.of(files[3])
        assert [one.is_closed for one in (a, c, d)] == [False, True, False]
        assert every.of(files[1]) is not b
        assert [one.is_closed for one in (a, d)] == [False, True]
        every.close()
        assert a.is_closed

    asyncio.run(viewing())


def test_the_stamps_change_with_the_file_and_its_subagents(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    assert stamps_of(str(file)) == []
    file.write_text("1")
    folder = tmp_path / "a" / "subagents"
    assert folders_of(str(file)) == [str(tmp_path), str(folder)]
    folder.mkdir(parents=True)
    seen = [stamps_of(str(file))]
    for change in ("y", "x"):
        (folder / f"agent-{change}.jsonl").write_text(change)
        seen.append(stamps_of(str(file)))
    file.write_text("22")
    seen.append(stamps_of(str(file)))
    assert [[Path(path).name for path, *_ in one] for one in seen] == [
        ["a.jsonl"],
        ["a.jsonl", "agent-y.jsonl"],
        ["a.jsonl", "agent-x.jsonl", "agent-y.jsonl"],
        ["a.jsonl", "agent-x.jsonl", "agent-y.jsonl"],
    ]
    at = file.stat()
    assert seen[-1][0] == (str(file), at.st_ino, 2, at.st_mtime_ns)
    assert seen[-2][0] != seen[-1][0]
