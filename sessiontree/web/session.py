"""One session of the live view: its states, one after another, as the file grows.

A thread waits for a change of the session's files; it makes a state with the new entries at the end
at once, where a whole reading takes long. Another thread reads the session whole. The start of a
large session is a state of its own, so that something can be read while the rest is read.

Invariants: a state has a number, which grows; the changes of the last states are kept, so that a
page that was away for a moment goes on; what keeps the session from being read is told in one line,
and the reading goes on when it is gone; the file is never written.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from sessiontree.errors import SessionNotFoundError, SessionTreeError, fault
from sessiontree.library.cache import stamp_of
from sessiontree.page.document import Document
from sessiontree.session import Session
from sessiontree.storage.fs import DISK, FileSystem
from sessiontree.storage.lines import Excerpt
from sessiontree.storage.places import located
from sessiontree.web.page_state import PageState, change, state_of
from sessiontree.web.updates import start_of, with_news

_KEPT_CHANGES: Final = 64
_MAX_VIEWED: Final = 8
"""Sessions that are kept open; the one that was asked for longest ago is closed."""

_LARGE: Final = 300_000
"""Bytes from which on the start of a session is shown before the rest is read."""

_POLL_MILLISECONDS: Final = 500
_PAUSE: Final = 2
"""The pause after a session was read, as a multiple of the time that it took."""

_LONGEST_PAUSE: Final = 10.0
_SOON: Final = 0.15  # seconds of a reading that needs no pause after it
_GONE: Final = "The session is gone. The page goes on when it is there again."
_START: Final = "The start of the session. The rest is being read."


class PageUpdate(NamedTuple):
    """What a page gets: a change of the session, a problem, or none; `number` is the state's."""

    number: int
    kind: str
    data: str


class LiveSession:
    """A session that pages show; its threads run until `close`.

    Those who wait for news are in the event loop `loop`.
    """

    def __init__(self, file: str, loop: asyncio.AbstractEventLoop) -> None:
        self.file = file
        self.watchers = 0
        self._loop = loop
        self._alone = threading.Lock()
        self._state: PageState | None = None
        self._before: PageState | None = None
        self._number = 0
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_KEPT_CHANGES)
        self._problem = ""
        self._stop = threading.Event()
        self._news = asyncio.Event()
        self._making = threading.Lock()  # held while the next state is made of the newest
        self._due = threading.Event()
        self._due.set()
        self._took = 0.0
        for run in (self._watch, self._run):
            threading.Thread(target=run, name="viewed", daemon=True).start()

    def close(self) -> None:
        """Let the thread end."""
        self._stop.set()
        self._due.set()
        self._tell()

    @property
    def is_closed(self) -> bool:
        return self._stop.is_set()

    async def index(self) -> bytes:
        """The index of the newest state, compressed; waits for the first one."""
        while True:
            news = self._news
            with self._alone:
                state, number = self._state, self._number
            if state is not None:
                return await asyncio.to_thread(state.packed_index, number)
            if self.is_closed:
                return b""
            await news.wait()

    def part(self, name: str) -> bytes | None:
        """A chunk of the newest state or the one before, compressed; None without one."""
        with self._alone:
            states = (self._state, self._before)
        return next((s.parts[name] for s in states if s is not None and name in s.parts), None)

    async def news(self, number: int, problem: str) -> PageUpdate:
        """What follows a state and a problem that are known, as soon as there is something."""
        while True:
            news = self._news
            with self._alone:
                found = self._after(number)
                now = self._problem
            if found is not None:
                return found
            if now != problem:
                return PageUpdate(number, "problem", now)
            await news.wait()

    def _after(self, number: int) -> PageUpdate | None:
        if number == self._number:
            return None
        data = next((data for n, data in self._changes if n == number + 1), None)
        if data is None:
            return PageUpdate(self._number, "again", "")
        return PageUpdate(number + 1, "change", data.decode())

    def _tell(self) -> None:
        def wake() -> None:
            self._news.set()
            self._news = asyncio.Event()

        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            self._loop.call_soon_threadsafe(wake)

    def _watch(self) -> None:
        stamps = stamps_of(self.file)
        for _ in self._moments():
            now = stamps_of(self.file)
            if now == stamps or self._is_idle:
                continue
            stamps = now
            if not now or now[0][0] != self.file:
                self._note(_GONE)
            elif self._took > _SOON:
                self._show_news()
            self._due.set()

    def _show_news(self) -> None:
        with self._making, suppress(Exception):  # the whole reading tells what is wrong
            if self._state is not None and (grown := self._grown(self._state)):
                self._publish(grown)

    def _grown(self, state: PageState) -> PageState | None:
        with suppress(Exception):  # as above
            return with_news(state, self.file)
        return None

    def _run(self) -> None:
        while self._due.wait() and not self._stop.is_set():
            self._due.clear()
            started = time.monotonic()
            self._read()
            self._took = time.monotonic() - started
            if self._took > _SOON:
                self._stop.wait(min(_PAUSE * self._took, _LONGEST_PAUSE))

    @property
    def _is_idle(self) -> bool:
        return self._state is not None and not self.watchers

    def _read(self) -> None:
        try:
            if self._state is None and (most := start_of(self.file, _LARGE)):
                with suppress(SessionTreeError, OSError):  # the whole may be readable
                    start = read(self.file, Excerpt(self.file, most), _START)
                    with self._making:
                        self._publish(start)
            stamps = stamps_of(self.file)
            found = read(self.file, DISK)
            with self._making:  # what came meanwhile may be on the page already, and stays there
                is_old = stamps_of(self.file) != stamps
                self._publish((is_old and self._grown(found)) or found)
            problem = ""
        except SessionNotFoundError:
            problem = _GONE
        except SessionTreeError as error:
            problem = f"The session cannot be read now: {error}"
        except OSError as error:
            problem = f"The session cannot be read now: {error.strerror or error}"
        except Exception as error:
            problem = f"The session cannot be shown now: {fault(error)}"
        self._note(problem)

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            with self._alone:
                self._problem = problem
            self._tell()

    def _publish(self, state: PageState) -> None:
        with self._alone:
            before, number = self._state, self._number + 1
        made = b"" if before is None else change(before, state, number)
        with self._alone:
            self._before, self._state, self._number = before, state, number
            if before is not None:
                self._changes.append((number, made))
        self._tell()

    def _moments(self) -> Iterator[None]:
        """Now, and whenever the files may have changed, until the end."""
        yield None
        while not self._stop.is_set():
            watched = [folder for folder in folders_of(self.file) if os.path.isdir(folder)]
            with suppress(OSError, RuntimeError):
                yield from self._watched(watched)
            if not self._stop.wait(_POLL_MILLISECONDS / 1000):
                yield None

    def _watched(self, folders: list[str]) -> Iterator[None]:
        from watchfiles import watch  # heavy, and needed only now

        yield None
        if not folders:
            return
        for _ in watch(
            *folders,
            watch_filter=None,
            stop_event=self._stop,
            debounce=20,
            step=5,
            rust_timeout=_POLL_MILLISECONDS,
            yield_on_timeout=True,
            recursive=False,
            raise_interrupt=False,
        ):
            yield None
            if folders != [each for each in folders_of(self.file) if os.path.isdir(each)]:
                return


def read(file: str, fs: FileSystem, part: str = "") -> PageState:
    """Read a session whole; `part` says what is missing of it in this file system."""
    with Session.open(file, readonly=True, fs=fs) as session:
        return state_of(Document(session.cursor, session.original), part=part)


def folders_of(file: str) -> list[str]:
    """The folders with the files of a session: its own, and that of its subagents."""
    real = os.path.realpath(file)
    return [os.path.dirname(real), os.path.join(real.removesuffix(".jsonl"), "subagents")]


def stamps_of(file: str) -> list[tuple[str, int, int, int]]:
    """What changes with the files of a session."""
    place, name = located(file)
    if place is not None:
        kept = place.find(name)
        return [] if kept is None else [(file, 0, kept.size, int(kept.modified * 1e9))]
    paths = [file]
    with suppress(OSError):
        folder = folders_of(file)[1]
        paths += (os.path.join(folder, name) for name in sorted(os.listdir(folder)))
    found = []
    for path in paths:
        size, modified, _, inode = stamp_of([path])
        if size >= 0:
            found.append((path, inode, size, modified))
    return found


class LiveSessions:
    """The sessions that are viewed, by their files."""

    def __init__(self) -> None:
        self._viewed: OrderedDict[str, LiveSession] = OrderedDict()

    def of(self, file: str) -> LiveSession:
        """The viewed session of a file; begins to view it."""
        found = self._viewed.pop(file, None)
        if found is None:
            found = LiveSession(file, asyncio.get_running_loop())
        self._viewed[file] = found
        for path, other in [*self._viewed.items()]:
            if len(self._viewed) <= _MAX_VIEWED:
                break
            if not other.watchers:
                self._viewed.pop(path).close()
        return found

    def close(self) -> None:
        """Close all."""
        for viewed in self._viewed.values():
            viewed.close()
