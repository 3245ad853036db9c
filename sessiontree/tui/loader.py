"""One session, read in a thread of its own so that no key waits for the disk; what keys write.

A function that writes opens the session to write, does one thing, closes it, and returns what to
show. It raises before it writes anything, or what it says is done; no file is ever replaced.

Invariants: the session is opened read-only, with the first question, and used in that thread alone;
a reader that is closed gives up what it reads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sessiontree.core.display import one_line
from sessiontree.core.entry import MAIN
from sessiontree.library.hidden import hide
from sessiontree.library.homes import agent_at
from sessiontree.library.listing import facts_of
from sessiontree.library.one import open_to_write
from sessiontree.page import is_page_name
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.place import whole_path
from sessiontree.store import Store

T = TypeVar("T")
Opening = Callable[[str], Session | None]
"""Opens a file; None if it does not give a session."""


class ReaderClosed(Exception):
    """The reader was closed, or has no session."""


def _readonly(file: str) -> Session:
    return Session.open(file, readonly=True)


class FileReader:
    """Answers questions about one session file, one after another."""

    def __init__(self, file: str, opening: Opening = _readonly) -> None:
        self.file = file
        self._opening = opening
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._session: Session | None = None
        self._is_closed = False
        Thread(target=self._run, name="reader", daemon=True).start()

    async def ask(self, question: Callable[[Session], T]) -> T:
        """What a function makes of the session.

        Raises:
            Ended: the reader is closed, or has no session.
            Exception: any error of the function, and of opening the session.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def settle(value: Any, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is None:
                answer.set_result(value)
            else:
                answer.set_exception(error)

        def run() -> None:
            value, error = None, None
            try:
                self.check()
                value = question(self._opened())
            except Exception as failed:
                error = failed
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, value, error)

        self._waiting.put(run)
        return await answer

    def check(self) -> None:
        """Raise Ended if the reader is closed; long readings call it from time to time."""
        if self._is_closed:
            raise ReaderClosed

    def close(self) -> None:
        """Close the session once what is read is done or given up."""
        self._is_closed = True
        self._waiting.put(None)

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._opening(self.file)
        if self._session is None:
            raise ReaderClosed
        return self._session

    def _run(self) -> None:
        while (question := self._waiting.get()) is not None:
            question()
        if self._session is not None:
            self._session.close()


def branch(file: str, uuid: str) -> str:
    """Go on from an entry, in the same file."""
    session, _ = open_to_write(file, MAIN)
    with session, session.writer.at_tip():
        session.branch(uuid)
    return f"the next entry goes below {_named(uuid)}"


def label(file: str, uuid: str, text: str) -> str:
    """Give an entry a label, or remove its label where the text is empty."""
    session, _ = open_to_write(file, MAIN)
    with session, session.writer.at_tip():
        session.label(uuid, text or None)
    return f"{_named(uuid)} is labelled {text}" if text else f"{_named(uuid)} has no label now"


def fork(file: str, uuid: str) -> str:
    """Copy the path to an entry into a new session of the store."""
    return f"copied the path to {_named(uuid)} into {Store().fork(whole_path(file), uuid)}"


def export(file: str, uuid: str, target: str) -> str:
    """Write the transcript up to an entry as Markdown into a new file.

    A name that ends in `.html` gets a page with the whole session, which opens at the entry.
    """
    path = os.path.abspath(os.path.expanduser(target))
    is_page = is_page_name(path)
    with Session.open(file, readonly=True) as session:
        if is_page:
            parts = session.to_html(uuid)
        else:
            parts = session.to_markdown(uuid, beside=os.path.dirname(path))
        create_file(DISK, path, (part.encode("utf-8", "replace") for part in parts))
    return f"exported as {'a page' if is_page else 'Markdown'} to {path}"


def removal(file: str) -> str:
    """The question before `remove`."""
    agent = agent_at(file)
    if agent is None:
        return "Move this session to the trash?"
    return f"{agent.program} keeps this session: its file stays. Hide it from the lists?"


def remove(file: str) -> str:
    """Move a session to the trash of the store; hide the session of an agent."""
    if agent_at(file) is not None:
        hide([facts_of(file).id])
        return "hidden; 'sessiontree hide --undo' brings it back"
    Store().trash(whole_path(file))
    return "moved to the trash; 'sessiontree restore' brings it back"


def _named(uuid: str) -> str:
    return one_line(uuid, 100)[:8]
