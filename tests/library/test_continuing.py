"""A program continues its session or begins one, with one call."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree import AsyncSession, AsyncStore, RefError, Session, Store
from sessiontree.errors import ReadOnlyError
from tests.support.loops import in_each_loop
from tests.support.sessions import by_hand, said

PROMPT = {"role": "user", "content": "Build a CLI"}


def test_a_session_is_made_once_and_then_continued(file: Path) -> None:
    with Session.open_or_create(file, cwd="/p", id="one", name="First", durability="os") as made:
        prompt = made.append_message(PROMPT)
    with Session.open_or_create(file, cwd="/q", id="two", name="Second") as again:
        assert again.leaf == prompt
        assert (again.id, again.name, again.header["cwd"]) == ("one", "First", "/p")


def test_a_session_that_another_program_makes_meanwhile_is_opened(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = Session.create

    def overtaken(*args: Any, **options: Any) -> Session:
        create(file, id="theirs").close()
        return create(*args, **options)

    monkeypatch.setattr(Session, "create", overtaken)
    with Session.open_or_create(file, id="mine") as session:
        assert session.id == "theirs"


def test_a_store_makes_the_session_of_an_id_once(store: Store) -> None:
    with store.open_or_create("chat-7", cwd="/p", name="First") as made:
        made.append_message(PROMPT)
    with store.open_or_create("chat-7", name="Second", lane="side") as again:
        assert (again.file, again.name, again.lane_name) == (made.file, "First", "side")
    assert [one.id for one in store.list()] == ["chat-7"]


def test_two_sessions_of_one_id_are_not_guessed_between(store: Store) -> None:
    for cwd in ("/p", "/q"):
        said(store, "x", cwd=cwd, id="twice")
    with pytest.raises(RefError, match="twice"):
        store.open_or_create("twice")
    with store.open_or_create("twice", cwd="/q") as session:
        assert session.header["cwd"] == "/q"


def test_the_newest_session_of_a_directory_is_continued(store: Store) -> None:
    with store.continue_latest(cwd="/p", name="Begun") as begun:
        begun.append_message(PROMPT)
    said(store, "elsewhere", cwd="/q")
    with store.continue_latest(cwd="/p", name="Not again") as session:
        assert (session.file, session.name) == (begun.file, "Begun")
        assert len(session.context().messages) == 1


def test_the_current_directory_is_continued_by_default(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said(store, "elsewhere", cwd="/q")
    monkeypatch.chdir(tmp_path)
    with store.continue_latest() as session:
        assert session.header["cwd"] == os.getcwd()


def test_the_file_of_another_agent_is_passed_over(store: Store) -> None:
    ours = said(store, "ours", cwd="/p")
    line = '{"type":"user","uuid":"u","parentUuid":null,"sessionId":"s","timestamp":"2099-01-01T00:00:00.000Z","cwd":"/p","version":"2.1.0","message":{"role":"user","content":"theirs"}}\n'  # noqa: E501
    Path(store.project_dir("/p"), "theirs.jsonl").write_text(line)
    assert store.list(cwd="/p")[0].agent is not None
    with store.continue_latest(cwd="/p") as session:
        assert session.file == ours
        session.append_message(PROMPT)


def test_a_misspelt_option_is_refused_also_by_a_type_checker(store: Store) -> None:
    with pytest.raises(TypeError, match="nmae"):
        store.create(nmae="x")  # type: ignore[call-arg]
    by_hand(Path(store.root, "p", "x.jsonl"), "hello", id="chosen")
    with pytest.raises(TypeError, match="readnoly"):
        store.open("chosen", readnoly=True)  # type: ignore[call-arg]
    with store.open("chosen", readonly=True) as session, pytest.raises(ReadOnlyError):
        session.append_message(PROMPT)


@in_each_loop
async def test_the_same_is_awaited(tmp_path: Path) -> None:
    store = AsyncStore(tmp_path / "store")
    async with store.continue_latest(cwd="/p") as session:
        await session.append_message(PROMPT)
        file = session.file
    async with store.continue_latest(cwd="/p") as session:
        assert session.file == file
    async with store.open_or_create("chosen", name="Chat") as session:
        assert session.id == "chosen"
    async with AsyncSession.open_or_create(tmp_path / "x.jsonl", name="Chat") as session:
        assert await session.name == "Chat"
