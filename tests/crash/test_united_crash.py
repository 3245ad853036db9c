"""A power cut while a session is copied, or two copies are united, loses nothing.

On a disk that lists all states a crash may leave (`crashdisk.py`), each state is finished by
another run, with the same result.
"""

from __future__ import annotations

from sessiontree import Session
from sessiontree.operations.copy import SessionCopy
from sessiontree.operations.sync import sync_session
from tests.support.conversation import user
from tests.support.crashdisk import Folders, crash_states

FOLDER = "/model/"
CHAT = "/model/chat.jsonl"
OTHER = "/model/other.jsonl"
OF_A_CRASH = {"torn", "json", "nul", "utf-8", "open end"}
"""The damage that a power cut leaves at the end of a write."""

LARGE = "a text too large for a line " * 10


def begun() -> dict[str, bytes]:
    disk = Folders({FOLDER: b""})
    with Session.create(CHAT, cwd="/p", fs=disk, spill_over=100) as session:
        session.append_message(user(LARGE))
        session.append_message({"role": "assistant", "content": "said"})
    return disk.files()


def both_went_on() -> dict[str, bytes]:
    disk = Folders(begun())
    SessionCopy(disk, CHAT, OTHER).go()
    for file in (CHAT, OTHER):
        with Session.open(file, fs=disk, spill_over=100) as session:
            session.append_message(user(f"{file} {LARGE}"))
    return disk.files()


def entries(disk: Folders, file: str) -> tuple[object, ...]:
    """The entries with their content, and the leaf."""
    with Session.open(file, readonly=True, fs=disk) as session:
        found = list(session.entries())
        assert {damage.kind for damage in session.verify()} <= OF_A_CRASH
        return sorted(entry.line for entry in found), session.leaf.uuid


def test_a_power_cut_leaves_the_first_lines_of_a_copy_which_another_run_finishes() -> None:
    before = begun()
    disk = Folders(before)
    SessionCopy(disk, CHAT, OTHER).go()
    wanted = disk.files()
    assert wanted[OTHER] == before[CHAT]
    states = 0
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            states += 1
            if OTHER in files:
                assert before[CHAT].startswith(files[OTHER])
            again = Folders(files)
            SessionCopy(again, CHAT, OTHER).go()
            assert again.files()[OTHER] == before[CHAT]
            assert entries(again, OTHER) == entries(again, CHAT)
    assert states > 20


def test_a_power_cut_while_two_copies_are_united_is_made_up_for_by_another_run() -> None:
    before = both_went_on()
    disk = Folders(before)
    sync_session(disk, CHAT, OTHER)
    wanted = entries(disk, CHAT)
    assert entries(disk, OTHER) == wanted
    states = 0
    for snapshot in disk.snapshots:
        for files in crash_states(snapshot):
            states += 1
            assert files[CHAT].startswith(before[CHAT])
            assert files[OTHER].startswith(before[OTHER])
            again = Folders(files)
            sync_session(again, OTHER, CHAT)
            assert entries(again, CHAT) == entries(again, OTHER) == wanted
    assert states > 20
