"""A session in the store is masked in place: the old one or the new one is whole, and one row."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, SessionBusyError, Store
from sessiontree.library import rewrite
from sessiontree.storage.fs import DISK
from tests.support.faultydisk import FaultyDisk
from tests.support.homes import empty_home, files_of_agents, put_sessions, transcript
from tests.support.sessions import chat, version_1
from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.support.terminal import done, printed_json, refused, run
from tests.support.transcripts import folder_of_a_user, user

TOKEN: Final = "ghp_" + "q7Rt2LmZ9xWc4VbN8sKd" + "3HjF6gYp1aUe5kBv"
LONG: Final = "word " * 20_000
IMAGE: Final = {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 2_000}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = empty_home(tmp_path, monkeypatch)
    (made / "store").mkdir()
    return made


def session_of(home: Path) -> Path:
    """A session with branches, whose lines, blobs and header have a secret."""
    file = chat(
        home / "store" / "chat.jsonl",
        "plain",
        f"use {TOKEN}",
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": TOKEN, "signature": "x"}],
        },
        f"{LONG} {TOKEN}",
        {"role": "user", "content": [{"type": "image", "source": IMAGE}]},
        LONG,
        cwd=f"/home/me/{TOKEN}",
    )
    with Session.open(file) as session:
        session.branch("@~3")
        session.append_message({"role": "user", "content": "elsewhere"})
        session.label("@", "here")
    return file


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def shape(file: Path | str) -> list[tuple[Any, ...]]:
    with Session.open(file, readonly=True) as session:
        return [(e.type, e.uuid, e.parent_uuid, e.lane) for e in session.entries()]


def in_use(home: Path) -> bytes:
    """All bytes of the store without the trash."""
    files = (path for path in (home / "store").rglob("*") if path.is_file())
    return b"".join(path.read_bytes() for path in files if ".trash" not in path.parts)


def test_no_secret_is_left_outside_the_trash_and_all_else_stays(home: Path) -> None:
    file = session_of(home)
    before = shape(file)
    shown = run("audit", file, "--mask")
    assert (shown.exit_code, shown.stdout) == (0, f"{file}\n")
    assert TOKEN not in shown.output
    assert TOKEN.encode() not in in_use(home)
    assert shape(file) == before
    assert run("verify", file).exit_code == 0
    assert b"iVBOR" * 2_000 in in_use(home)
    assert printed_json("audit")["secrets"] == []
    assert [one.file for one in Store().list()] == [str(file)]


def test_the_trash_has_the_old_session_whole_until_it_is_emptied(home: Path) -> None:
    file = session_of(home)
    before = file.read_bytes()
    (made,) = printed_json("audit", file, "--mask")
    assert Path(made["trashed"]).read_bytes() == before
    with Session.open(made["trashed"], readonly=True) as session:
        assert session.verify() == []
    assert [one.file for one in Store().trashed()] == [made["trashed"]]
    done("trash", "--empty", "--older-than", "2100-01-01")
    assert TOKEN.encode() not in all_bytes(home)


def test_masking_again_changes_nothing(home: Path) -> None:
    file = session_of(home)
    done("audit", file, "--mask")
    before = all_bytes(home)
    assert "no secrets found" in run("audit", file, "--mask").stderr
    assert all_bytes(home) == before


def test_what_only_lies_beside_the_session_is_removed_too(home: Path) -> None:
    file = chat(home / "store" / "chat.jsonl", "plain", LONG)
    blobs = Path(f"{file}.blobs")
    (blobs / ("a" * 64)).write_text(TOKEN)
    Path(f"{file}.archive-2026-01-01").write_text(json.dumps({"type": "x", "t": TOKEN}) + "\n")
    done("audit", file, "--mask")
    assert TOKEN.encode() not in in_use(home)
    assert run("verify", file).exit_code == 0


def test_a_backup_stays_masked_and_up_to_date(home: Path) -> None:
    original = folder_of_a_user(home)
    with original.open("a") as opened:
        opened.write(json.dumps(user("zz", None, f"use {TOKEN}")) + "\n")
    Store().backup([home / ".claude"])
    (row,) = Store().list()
    shown = run("audit", row.id[:8], "--mask")
    assert (shown.exit_code, shown.stdout) == (0, f"{row.file}\n"), shown.output
    with original.open("a") as opened:
        opened.write(json.dumps(user("zzz", "zz", "and more")) + "\n")
    done("backup")
    assert [one.file for one in Store().list()] == [row.file]
    assert TOKEN.encode() not in in_use(home)
    with Session.open(row.file, readonly=True) as session:
        assert session.entries()
        assert "and more" in Path(row.file).read_text()


def test_an_agents_file_is_refused_with_what_to_do(home: Path) -> None:
    original = folder_of_a_user(home)
    before = original.read_bytes()
    with original.open("a") as opened:
        opened.write(json.dumps(user("zz", None, f"use {TOKEN}")) + "\n")
    before = original.read_bytes()
    for name in (str(original), "5f0c8a52"):
        message = refused("audit", name, "--mask")
        assert "is kept by Claude Code, and is never changed; import it, change the" in message
        assert f"('sessiontree import {original}')" in message
        assert "backup" not in message  # one step
        assert TOKEN not in message
    assert original.read_bytes() == before


@for_each(
    "words",
    [(), (".",)],
)
def test_mask_wants_the_names_of_sessions(home: Path, words: tuple[str, ...]) -> None:
    assert "name each session to rewrite" in refused("audit", *words, "--mask", status=2)


RESULT: Final = {
    "role": "toolResult",
    "toolCallId": "c",
    "content": [
        {"type": "text", "text": "line\n" * 1_000},
        {"type": "text", "text": "short"},
        {"type": "image", "source": IMAGE},
    ],
}


def test_pruning_leaves_stubs_of_what_was_large(home: Path) -> None:
    shot = {
        "role": "user",
        "content": [{"type": "image", "source": {**IMAGE, "data": "iVBOR" * 20_000}}],
    }
    call = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": LONG}}
    said = {"role": "assistant", "content": [call]}
    file = chat(home / "store" / "chat.jsonl", LONG, said, RESULT, shot, cwd="/work")
    before, size = shape(file), len(in_use(home))
    shown = run("audit", file, "--prune")
    assert (shown.exit_code, shown.stdout) == (0, f"{file}\n")
    assert shape(file) == before
    with Session.open(file, readonly=True) as session:
        assert session.verify() == []
        first, called, result, image = session.context().messages
    assert (first["content"], called["content"]) == (LONG, [call])
    assert [block["text"] for block in result["content"]] == [
        *("[tool output, 5,000 bytes, pruned]", "short", "[image/png, 7,500 bytes, pruned]"),
    ]
    assert image["content"] == [{"type": "text", "text": "[image/png, 75,000 bytes, pruned]"}]
    assert len(in_use(home)) < size - 100_000
    assert "nothing to prune" in run("audit", file, "--prune").stderr


def test_a_pruned_backup_of_each_agent_stays_pruned_and_up_to_date(home: Path) -> None:
    put_sessions(home)
    original = transcript(home)
    block = {"type": "tool_result", "tool_use_id": "t", "content": "line\n" * 9_000}
    with original.open("a") as opened:
        opened.write(json.dumps(user("zz", None, [block], toolUseResult={"stdout": LONG})) + "\n")
    Store().backup()
    (row,) = (one for one in Store().list() if one.imported_from == original.name)
    size = len(in_use(home))
    done("audit", row.file, "--prune")
    pruned = len(in_use(home))
    assert pruned < size - 140_000
    for file in files_of_agents(home):
        file.touch()
    with original.open("a") as opened:
        opened.write(json.dumps(user("zzz", "zz", "and more")) + "\n")
    done("backup")
    assert "and more" in Path(row.file).read_text()
    assert len(in_use(home)) < pruned + 2_000


def test_a_snapshot_of_codex_is_pruned_whole() -> None:
    entry = {"payload": {"replacement_history": [{"text": "word"}] * 2_000}}
    made = rewrite.Pruning().value({"type": "custom", "original": entry}, "e")
    stub = made["original"]["payload"]["replacement_history"]
    assert stub == "[snapshot, 32,001 bytes, pruned]"


def test_what_is_no_session_file_of_the_store_is_refused(home: Path) -> None:
    elsewhere = chat(home / "chat.jsonl", f"use {TOKEN}")
    link = home / "store" / "link.jsonl"
    link.symlink_to(elsewhere)
    old = version_1(home / "store" / "old.jsonl", TOKEN)
    done("trash", chat(home / "store" / "gone.jsonl", TOKEN))
    (trashed,) = Store().trashed()
    before = all_bytes(home)
    for file, why in (
        (elsewhere, "is not in"),
        (link, "is a link"),
        (old, "is of an older version"),
        (trashed.file, "is in the trash of"),
    ):
        assert why in refused("audit", file, "--mask")
    assert all_bytes(home) == before


def test_a_damaged_session_is_refused_and_stays(home: Path) -> None:
    file = session_of(home)
    with file.open("ab") as opened:
        opened.write(b'{"type":"message","message":{"content":"' + TOKEN.encode())
    before = all_bytes(home)
    message = refused("audit", file, "--mask")
    assert "is damaged" in message
    assert TOKEN not in message
    assert all_bytes(home) == before


def test_a_session_that_grew_meanwhile_stays(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = session_of(home)

    def grow(new: str) -> None:
        with Session.open(file) as session:
            session.append_message({"role": "user", "content": "late"})

    change = rewrite.Masking()
    with pytest.raises(SessionBusyError):
        rewrite.rewrite(DISK, str(home / "store"), str(file), change, grow)
    assert "late" in file.read_text()
    assert not list((home / "store" / ".trash").iterdir())


class Killed(BaseException):
    """The program is gone."""


class Dying(FaultyDisk):
    """Dies before call number `left` of those that change something, and stays dead."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left
        self.is_dead = False

    def _call(self, kind: str, what: int | str) -> None:
        self.left -= kind in CHANGING
        if self.left == 0:
            self.left, self.is_dead = 1, True
            raise Killed
        super()._call(kind, what)


CHANGING: Final = frozenset(
    {"write", "replace", "link", "unlink", "make_folder", "remove_folder", "sync_folder", "sync"}
)


@in_soak("every", 11, 1)
def test_a_kill_leaves_the_old_session_or_the_new_one_and_the_next_run_finishes(
    tmp_path: Path, home: Path, every: int
) -> None:
    file = session_of(home)
    Path(f"{file}.archive-2026-01-01").write_text(json.dumps({"type": "x", "t": TOKEN}) + "\n")
    kept, root = tmp_path / "kept", home / "store"
    shutil.copytree(root, kept)
    before, old = shape(file), file.read_bytes()
    is_new = set()
    for left in count(1, every):
        shutil.rmtree(root)
        shutil.copytree(kept, root)
        disk = Dying(left)
        with suppress(Killed):
            rewrite.mask(disk, str(root), str(file))
        is_done = disk.left > 0 and not disk.is_dead
        with Session.open(file, readonly=True) as session:
            assert session.verify() == [], left
        assert shape(file) == before, left
        is_new.add(file.read_bytes() != old)
        assert [one.file for one in Store().list()] == [str(file)], left
        rewrite.mask(DISK, str(root), str(file))
        assert TOKEN.encode() not in in_use(home), left
        problems: list[str] = []
        Store().empty_trash(older_than=timedelta(0), report=problems.append)
        assert problems == [], left
        assert TOKEN.encode() not in all_bytes(root), left
        if is_done:
            break
    assert left > 20
    assert is_new == {False, True}
