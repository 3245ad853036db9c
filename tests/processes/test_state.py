"""Two writers on one file that die, lose power, repair and come back, against a plain model.

A writer dies by its disk: after some bytes of a write, or before some other call,
every further call fails and its descriptors are closed, locks with them, as they
are when a process ends. A power cut kills both writers and takes from the file what
was not synced, or leaves zeros or garbage in its place. What was acknowledged must
be there after the first; what was synced, after the second; nothing else may be
there but what was tried.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, stateful
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sessiontree import Entry, NothingToDoError, Session
from sessiontree.storage.fs import Disk
from tests.support.conversation import user
from tests.support.model import Known, context_in, path_in
from tests.support.soak import in_soak


class Killed(BaseException):
    """What a dead process would do next."""


class MortalDisk(Disk):
    """The disk as one process has it, which may die.

    Attributes:
        calls_left: the changing calls after which it dies; None lives on.
        part: how much of its last write still gets out, of 1.
        synced: the size of each file at its last sync, by identity; shared by all.
    """

    def __init__(self, synced: dict[tuple[int, int], int]) -> None:
        self.calls_left: int | None = None
        self.part = 0.0
        self.synced = synced
        self.dead = False
        self._open: set[int] = set()

    def die(self) -> None:
        if not self.dead:
            self.dead = True
            for fd in self._open:
                os.close(fd)

    def _live(self) -> None:
        if self.dead:
            raise Killed

    def _change(self) -> None:
        self._live()
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.die()
                raise Killed

    def open(self, path: str, flags: int) -> int:
        self._live()
        fd = super().open(path, flags)
        self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        if self.dead:
            return  # it is closed; dropped sessions, which a dead process has none of, ask
        self._open.discard(fd)  # a folder that is synced was opened beside `open`
        super().close(fd)

    def unlock(self, fd: int) -> None:
        if not self.dead:  # as above
            super().unlock(fd)

    def write(self, fd: int, block: bytes) -> int:
        if self.calls_left == 0 and not self.dead:
            super().write(fd, block[: int(len(block) * self.part)])
        self._change()
        return super().write(fd, block)

    def sync(self, fd: int) -> None:
        self._change()
        super().sync(fd)
        found = self.stat(fd)
        self.synced[found.identity] = found.size


def _mortal(kind: str, check: Callable[[MortalDisk], None]) -> Callable[..., Any]:
    """A call of the disk, before which a process may turn out to be dead."""

    def call(disk: MortalDisk, *arguments: Any) -> Any:
        check(disk)
        return getattr(Disk, kind)(disk, *arguments)

    return call


for _kind in ("sync_folder", "replace", "link", "unlink"):
    setattr(MortalDisk, _kind, _mortal(_kind, MortalDisk._change))
MortalDisk.lock = _mortal("lock", MortalDisk._live)  # type: ignore[method-assign]


class Living:
    """A writer that is at work, and the leaf it stands at."""

    def __init__(self, session: Session, disk: MortalDisk, leaf: str, syncs: bool) -> None:
        self.session = session
        self.syncs = syncs
        self.disk = disk
        self.leaf = leaf


writers = st.sampled_from(["a", "b"])
places = st.integers(0, 1000)


class WritersAgainstModel(RuleBasedStateMachine):
    """`known` is what stands in the file, in its order; `safe`, what no power cut may take."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "s.jsonl"
        self.synced: dict[tuple[int, int], int] = {}
        self.writers: dict[str, Living] = {}
        self.said = 0
        with Session.create(self.file, cwd="/p", fs=MortalDisk(self.synced)) as session:
            self.known = {session.header.uuid: Known("session", None)}
        self.safe = list(self.known)
        self.tried: list[Known] = []

    def teardown(self) -> None:
        for writer in self.writers.values():
            writer.disk.die()
        shutil.rmtree(self.folder)

    def _words(self) -> str:
        self.said += 1
        return f"words {self.said}"

    def _any(self, place: int) -> str:
        return list(self.known)[place % len(self.known)]

    def _living(self, name: str, durability: str = "fsync") -> Living:
        """A writer at work; one that died comes back at the last entry of the file."""
        if name not in self.writers:
            disk = MortalDisk(self.synced)
            syncs = durability == "fsync"
            session = Session.open(self.file, durability="fsync" if syncs else "os", fs=disk)
            last = list(self.known)[-1]
            assert session.leaf.uuid == last
            self.writers[name] = Living(session, disk, last, syncs)
        return self.writers[name]

    def _do(self, name: str, act: Callable[[Session], list[Entry]], *tried: Known) -> None:
        """Let a writer write entries, which are then known, or die."""
        writer = self._living(name)
        self.tried = list(tried)
        try:
            written = act(writer.session)
        except Killed:
            self._find(must=list(self.known))
            return
        assert len(written) == len(tried)
        for entry, known in zip(written, tried, strict=True):
            self.known[entry.uuid] = known._replace(parent=entry.parent_uuid)
            assert entry["parentUuid"] == (known.parent or writer.leaf)
            writer.leaf = entry.uuid
        if writer.syncs and written:
            self.safe = list(self.known)

    def _find(self, must: list[str]) -> None:
        """After a death: all of `must` is there, and nothing that was never tried."""
        self.writers = {n: w for n, w in self.writers.items() if not w.disk.dead}
        with Session.open(self.file, readonly=True) as session:
            found = list(session.entries())
        uuids = [entry.uuid for entry in found]
        assert len(set(uuids)) == len(uuids)
        assert [uuid for uuid in uuids if uuid in must] == must
        known = {}
        for entry in found:
            if entry.uuid in self.known:
                known[entry.uuid] = self.known[entry.uuid]
                continue
            says = entry.get("summary") or (entry.get("message") or {}).get("content", "")
            first_kept = entry.get("firstKeptEntryUuid", "")
            tried = [k for k in self.tried if (k.type, k.says) == (entry.type, says)]
            assert tried, f"{entry!r} was never written"
            assert entry.parent_uuid in known
            known[entry.uuid] = Known(entry.type, entry.parent_uuid, says, first_kept=first_kept)
        self.known = known

    @rule(name=writers, size=st.sampled_from([0, 0, 0, 5_000, 200_000]))
    def append(self, name: str, size: int) -> None:
        words = self._words() + " " * size
        message = user(words)
        self._do(name, lambda s: [s.append_message(message)], Known("message", None, words))

    @rule(name=writers, place=places)
    def append_below(self, name: str, place: int) -> None:
        self._living(name).session.refresh()
        words, parent = self._words(), self._any(place)
        message, known = user(words), Known("message", parent, words)
        self._do(name, lambda s: [s.append_message(message, parent=parent)], known)

    @rule(name=writers, count=st.integers(1, 5))
    def append_a_batch(self, name: str, count: int) -> None:
        words = [self._words() for _ in range(count)]

        def batch(session: Session) -> list[Entry]:
            with session.batch():
                return [session.append_message(user(w)) for w in words]

        self._do(name, batch, *(Known("message", None, w) for w in words))

    @rule(name=writers, place=places)
    def branch(self, name: str, place: int) -> None:
        self._living(name).session.refresh()
        to = self._any(place)
        self._do(name, lambda s: [s.branch(to)], Known("branch", to))

    @rule(name=writers, place=places)
    def pop(self, name: str, place: int) -> None:
        path = path_in(self.known, self._living(name).leaf)[:-1]
        if not path:
            return
        to, words = path[place % len(path)], self._words()
        self._do(name, lambda s: [s.pop(to, summary=words)], Known("stack_summary", to, words))

    @rule(name=writers, place=places)
    def compact(self, name: str, place: int) -> None:
        path = path_in(self.known, self._living(name).leaf)
        kept, words = path[place % len(path)], self._words()

        def compact(session: Session) -> list[Entry]:
            return [session.compact(words, first_kept=kept)]

        try:
            self._do(name, compact, Known("compaction", None, words, first_kept=kept))
        except NothingToDoError:
            return

    @rule(name=writers, calls=st.integers(0, 1), part=st.floats(0, 1))
    def will_die_writing(self, name: str, calls: int, part: float) -> None:
        writer = self._living(name)
        writer.disk.calls_left, writer.disk.part = calls, part

    @rule(name=writers, durability=st.sampled_from(["os", "fsync"]))
    def come_anew(self, name: str, durability: str) -> None:
        if name in self.writers:
            self.writers.pop(name).session.close()
        self._living(name, durability)

    @rule(name=writers)
    def be_killed(self, name: str) -> None:
        self._living(name).disk.die()
        self._find(must=list(self.known))

    @rule(loss=st.sampled_from(["all", "a part", "zeros", "garbage"]), part=st.floats(0, 1))
    def lose_power(self, loss: str, part: float) -> None:
        for writer in self.writers.values():
            writer.disk.die()
        content = self.file.read_bytes()
        found = self.file.stat()
        safe = self.synced[found.st_dev, found.st_ino]
        pending = content[safe:]
        left = {
            "all": b"",
            "a part": pending[: int(len(pending) * part)],
            "zeros": bytes(len(pending)),
            "garbage": b"\x80\xff\n\x00"[: len(pending)] * (len(pending) // 4),
        }[loss]
        os.truncate(self.file, safe)
        with self.file.open("ab") as file:
            file.write(left)
        self.synced[found.st_dev, found.st_ino] = safe + len(left)
        self._find(must=self.safe)

    @rule(what=st.sampled_from([b"\0" * 40, b'{"type":"mess', b"\xff\n", b"\r\n"]))
    def another_program_leaves_something(self, what: bytes) -> None:
        with self.file.open("ab") as file:
            file.write(what)

    @rule(name=writers, calls=st.none() | st.integers(0, 8))
    def repair(self, name: str, calls: int | None) -> None:
        disk = self._living(name).disk
        if calls is not None:
            disk.calls_left, disk.part = calls, 0.5
        try:
            done = self._living(name).session.repair()
        except Killed:
            self._find(must=list(self.known))
            return
        disk.calls_left = None
        # Bytes that are no part of an entry are nobody's to throw away.
        assert {damage.kind for damage in done.remaining} <= {"json"}
        assert self._living(name).session.repair(dry_run=True).mended == []

    @precondition(lambda self: self.writers)
    @invariant()
    def each_writer_stands_where_it_was(self) -> None:
        for writer in self.writers.values():
            assert writer.session.leaf.uuid == writer.leaf
            said = [text(message) for message in writer.session.context().messages]
            assert said == context_in(self.known, writer.leaf)

    @invariant()
    def a_reader_sees_what_is_known(self) -> None:
        with Session.open(self.file, readonly=True) as session:
            there = {entry.uuid: entry.parent_uuid for entry in session.entries()}
            assert there == {uuid: known.parent for uuid, known in self.known.items()}
            assert list(there) == list(self.known)
            last = list(self.known)[-1]
            assert session.leaf.uuid == last
            assert [text(m) for m in session.context().messages] == context_in(self.known, last)


def text(message: Mapping[str, object]) -> object:
    return message.get("summary") or message["content"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
@in_soak("examples", 10, 2000)
def test_writers_that_die_and_come_back_lose_nothing_that_was_acknowledged(examples: int) -> None:
    chosen = settings(deadline=None, max_examples=examples, stateful_step_count=30)
    chosen = settings(chosen, suppress_health_check=list(HealthCheck))
    stateful.run_state_machine_as_test(WritersAgainstModel, settings=chosen)
