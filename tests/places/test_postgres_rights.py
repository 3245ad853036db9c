"""What users of PostgreSQL can do with the rights that the guide lists, and with no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session, Store, sync
from sessiontree.errors import StorageError
from sessiontree.library.copies import copy
from sessiontree.operations.sync import sync_session
from sessiontree.storage.fs import DISK
from sessiontree.storage.places import place_of
from tests.places.server import server
from tests.support.conversation import assistant, user

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guide" / "postgresql.md"


def grants() -> str:
    """The statements of the guide that give rights."""
    blocks = re.findall(r"```sql\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return "".join(block for block in blocks if "GRANT" in block)


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a database with a session, with `{}` in the place of the user."""
    base = server().database()
    Session.create(f"{server().address(base)}/p/first.jsonl", cwd="/p").close()
    names = {role: f"{role}_{base}" for role in ("reader", "writer")}
    given = re.sub(r"\b(reader|writer)\b", lambda found: names[found[1]], grants())
    roles = "".join(f"CREATE ROLE {name} LOGIN;" for name in names.values())
    connect = f"GRANT CONNECT ON DATABASE {base} TO {', '.join(names.values())};"
    server().execute(f"REVOKE ALL ON DATABASE {base} FROM PUBLIC; {roles} {connect} {given}", base)
    yield server().address(base).replace("postgres@", "{}@").replace("{}", "{}_" + base)
    place_of(server().address(base))[0].close()
    server().execute(f"DROP DATABASE {base} WITH (FORCE)")
    for name in names.values():
        server().execute(f"DROP ROLE {name}")


@pytest.mark.slow
def test_a_writer_can_do_all(url: str, tmp_path: Path) -> None:
    store = Store(url.format("writer"))
    file = f"{url.format('writer')}/p/s.jsonl"
    with (
        Session.create(file, cwd="/p", spill_over=100) as session,
        ThreadPoolExecutor(1) as threads,
    ):
        followed = threads.submit(next, session.follow())
        first = session.append_message(user("a" * 500))
        assert followed.result(60).uuid == first.uuid
        with session.batch():
            session.append_message(assistant("b"))
            session.append_message(user("c"))
        session.label(first.uuid, "here")
        session.branch(first.uuid)
        session.append_message(user("another way"))
        with session.scratch() as trial:
            trial.append_message(user("only tried"))
        session.compact("what was before")
        assert session.context().messages
    with Session.open(file, exclusive=True) as session:
        session.append_message(user("alone"))
        later = datetime.now(UTC) + timedelta(days=30)
        assert session.gc(now=later).entries
    with Session.open(file) as session:
        session.repair()
        assert session.verify() == []
        session.fork(f"{url.format('writer')}/p/fork.jsonl")
    copied = str(tmp_path / "copy.jsonl")
    copy(file, copied)
    with Session.open(copied) as session:
        session.append_message(user("on a laptop"))
    sync_session(DISK, copied, file)
    assert len(store.list()) == 3
    assert len(list(store.search("on a laptop"))) == 1
    trashed = store.trash(file)
    assert len(store.trashed()) == 1
    assert store.restore(trashed)
    store.trash(file)
    store.empty_trash(older_than=timedelta(0))
    assert store.trashed() == []
    place_of(file)[0].close()


@pytest.mark.slow
def test_a_reader_can_read_all_and_write_nothing(url: str) -> None:
    writers, file = (f"{url.format(role)}/p/s.jsonl" for role in ("writer", "reader"))
    with Session.create(writers, cwd="/p", spill_over=100) as session:
        session.append_message(user("a" * 500))
        session.append_message(assistant("b"))
    store = Store(url.format("reader"))
    assert len(store.list()) == 2
    assert len(list(store.search("aaaa", blobs=True))) == 1
    with Session.open(file, readonly=True) as session:
        assert len(session.context().messages) == 2
        assert session.verify() == []
        assert session.to_markdown()
    with Session.open(file) as session, pytest.raises(StorageError, match=r"denied.*ask the owner"):
        session.append_message(user("c"))
    with pytest.raises(StorageError, match=r"denied.*ask the owner"):
        Session.create(f"{url.format('reader')}/p/new.jsonl", cwd="/p")
    with pytest.raises(StorageError, match=r"denied.*ask the owner"):
        store.trash(file)
    for one in (writers, file):
        place_of(one)[0].close()


@pytest.mark.slow
def test_a_session_that_cannot_be_united_for_lack_of_rights_is_named(
    url: str, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    copy(f"{server().address(url.rpartition('/')[2])}", mine)
    with Session.open(mine / "p" / "first.jsonl", spill_over=100) as session:
        session.append_message(user("a" * 500))
    (problem,) = sync(mine, url.format("reader")).problems
    assert re.match(rf"{re.escape(str(mine))}/p/first.jsonl: .*denied", problem)
    place_of(url.format("reader"))[0].close()
