"""One call: what a method reports while it works, and the sessions that it opens.

Invariants: a session that a call opens is closed with the call; damage that the call meets in it is
told; a call that was stopped goes no further than its next report.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self, TypeVar

import msgspec

from sessiontree.core.entry import MAIN, Entry
from sessiontree.errors import ForeignFormatError
from sessiontree.ops.budget import Budgeted, Paged
from sessiontree.ops.field import arg, only_for_people, opt

if TYPE_CHECKING:
    from sessiontree.calls.scope import Scope
    from sessiontree.handles.registry import Registry
    from sessiontree.library.listing import SessionInfo
    from sessiontree.library.places import Selection
    from sessiontree.ops.operation import Method
    from sessiontree.redact.redaction import Redaction
    from sessiontree.session import Session
    from sessiontree.store import Store


T = TypeVar("T")


class Stopped(BaseException):
    """The caller does not want the result any more.

    It is no `Exception`, so that a method that goes on after an error does not go on after this.
    """


class Reporter(Protocol):
    """Where the reports of a call go."""

    def progress(self, message: str, fraction: float | None) -> None: ...

    def guidance(self, kind: str, next: str) -> None: ...

    def mask(self, value: Any) -> Any: ...


class MethodCatalog(Protocol):
    """The methods that can be called; see `Dispatcher`."""

    @property
    def schema(self) -> str: ...

    @property
    def methods(self) -> Mapping[str, Method]: ...

    @property
    def problems(self) -> Sequence[str]: ...

    @property
    def needs(self) -> Callable[[Method], str | None]: ...


NameOfOne = Annotated[
    str,
    msgspec.Meta(
        description="Its id, the start of it, its name, 'latest', or the path of its file.",
        examples=["latest"],
        extra={"names": "session"},
    ),
]
SessionName = Annotated[NameOfOne, msgspec.Meta(extra=arg("FILE", help="").extra)]
"""The session that an operation is about, which a command has as its FILE."""

ABOUT_REF = (
    "An entry: '@' for the leaf, a uuid or its start, a label, a branch, a lane; with ~N, the Nth "
    "entry above."
)
EntryRef = Annotated[
    str, msgspec.Meta(description=ABOUT_REF, examples=["@"], extra={"names": "entry"})
]

HandleForm = str | dict[str, Any]
"""A handle as text, or as the JSON object of either form."""

FORMS_OF_TIME: Final = "a date, a time, 'yesterday', or an age: 12h, 2w."

Root = Annotated[
    str | None,
    opt(
        "--root",
        metavar="DIR",
        kind="path",
        help="The folder below which handles of files are read; without it, none is read.",
    ),
]

LaneName = Annotated[
    str,
    opt(
        "--lane",
        metavar="LANE",
        help="The lane to write on; a line of entries with its own leaf.",
    ),
]


NoPager = Annotated[
    bool,
    opt("--no-pager", help="Do not open a pager on a terminal for long output."),
    only_for_people,
]


class OfSession(Budgeted, kw_only=True):
    """Parameters of a method about one session."""

    session: SessionName


class PagedOfSession(Paged, kw_only=True):
    """Parameters of a method that answers with a page about one session."""

    session: SessionName


class Call:
    """What a method has of its call.

    Args:
        scope: what the call may reach.
        tell: where its reports go.
        stop: set when the caller does not want the result any more.
        catalog: the methods that can be called.

    Attributes:
        rows: False if entries are shown as they are: results then need no rows of them.
        is_command: True if people gave a command, and see its result.
    """

    rows = True
    width: int | None = None
    """The columns of a drawing; None: no limit."""
    is_command = False

    def __init__(
        self, scope: Scope, tell: Reporter, stop: threading.Event, catalog: MethodCatalog
    ) -> None:
        self.scope = scope
        self.catalog = catalog
        self._tell = tell
        self._stop = stop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._opened.__exit__(*raised)

    def close(self) -> None:
        """Close what the call opened; it does so itself when it ends."""
        self._opened.close()

    @cached_property
    def _opened(self) -> contextlib.ExitStack:
        """What is closed when the call ends."""
        return contextlib.ExitStack()

    def check(self) -> None:
        """Raise `Stopped` where the caller does not want the result any more."""
        if self._stop.is_set():
            raise Stopped

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, one at a time, until the call is stopped."""
        for item in items:
            self.check()
            yield item

    def progress(self, message: str, done: float | None = None, size: float | None = None) -> None:
        """Report how far the work is: what is done, of how much."""
        self.check()
        fraction = min(done / size, 1.0) if size and done is not None else None
        self._tell.progress(message, fraction)

    def warn(self, text: str) -> None:
        """Tell something that the caller has to know; the call goes on."""
        self._tell.guidance("warning", text)

    def leave_out(self, problem: str) -> None:
        """Tell what the result does without, such as a session that cannot be read."""
        self.warn(problem)

    def tell_none(self, selection: Selection, places: Sequence[str] = ()) -> None:
        """Tell why no session in some places is selected; see `Scope.missing`."""
        if why := self.scope.missing(selection):
            self.warn(why)

    def wrote(self, entry: Entry, text: str, *about: Entry | str) -> None:
        """Say to people what was written: `text` with what it is about, such as entries, put in."""

    def did(self, text: str, *about: Entry | str) -> None:
        """Say to people what was done: `text` with what it is about put in."""

    def show(self, item: Any) -> None:
        """Show people a part of the result as soon as it is there."""

    def tell_nothing(self, text: str) -> None:
        """Say to people why the result is empty."""

    def note(self, text: str, *about: Entry | str) -> None:
        """Say something more to people that the result itself shows to a program."""

    def mask(self, value: Any) -> Any:
        """A value with its secrets masked, if they are to be; to do before a text is cut.

        The rest of a secret that was cut is not known as one.
        """
        return self._tell.mask(value)

    @property
    def store(self) -> Store:
        """The store of the call."""
        return self.scope.store

    def check_write(self) -> None:
        """Refuse where calls may not change anything."""
        self.scope.check_write()

    def file(self, session: str) -> str:
        """The path of a session's file; see `Scope.file`."""
        return self.scope.file(session, self.warn)

    def row(self, session: str) -> SessionInfo | None:
        """The conversation that an id or a name stands for; see `Scope.row`."""
        return self.scope.row(session, self.warn)

    def file_to_write(self, session: str) -> str:
        """The path of the file to write of a session; see `Scope.file_to_write`.

        Raises:
            Refusal: the call may not write.
        """
        self.scope.check_write()
        return self.scope.file_to_write(session, self.warn)

    def file_in_store(self, session: str) -> str:
        """The path of the file of a session in the store; see `Scope.file_in_store`."""
        return self.scope.file_in_store(session, self.warn)

    def file_in_trash(self, session: str) -> str:
        """The path of the file of a session in the trash; see `Scope.file_in_trash`."""
        return self.scope.file_in_trash(session, self.warn)

    def project_file(self, path: str) -> str:
        """The path of a file that agents changed; see `Scope.project_file`."""
        return self.scope.project_file(path)

    def places(self, named: Sequence[str] = ()) -> list[str]:
        """Where sessions are looked for: the files of those named, or all places."""
        return list(dict.fromkeys(map(self.file, named))) or self.scope.places

    def reaches(self, file: str) -> bool:
        """True if the call may read a session file that was found; see `Scope.reaches`."""
        return self.scope.reaches(file)

    def open(self, session: str, root: str | None = None) -> Session:
        """Open a session to read, as `reading`, until the call ends: its result may read it."""
        return self._opened.enter_context(self.reading(session, root))

    def new_session(self, path: str, of: Session | None = None, *, or_store: bool = False) -> str:
        """The path or the address of a new session, such as a copy of `of`.

        Without one, it may go into the store. See `Scope.new_session`.
        """
        return self.scope.new_session(path)

    def redaction(self, asked: bool, rules: str | None = None) -> Redaction | None:
        """What masks secrets in a copy, if that is asked for or holds for all that leaves."""
        if not (asked or self.scope.redact):
            return None
        from sessiontree.redact.redaction import Redaction  # slow: it compiles all rules

        return Redaction(homes=[os.path.expanduser("~")])

    def new_file(self, path: str) -> str:
        """The path of a new file; see `Scope.new_file`."""
        return self.scope.new_file(path)

    def migrated(self, file: str) -> None:
        """Tell that a file of version 1 was migrated."""
        self.warn(f"{file} is of version 2 now; the original is kept as {file}.v1")

    @property
    def registry(self) -> Registry:
        """The plugins that resolve handles."""
        from sessiontree.handles.registry import Registry  # few calls need it

        return self.scope.registry or Registry.default()

    def local(self, path: str) -> str:
        """The path of a file that the call may read; see `Scope.local`."""
        return self.scope.local(path)

    @contextlib.contextmanager
    def reading(self, session: str, root: str | None = None) -> Iterator[Session]:
        """Open a session to read; handles of files are read below `root`, which is in the scope."""
        from sessiontree.session import Session  # a list of sessions opens none

        self.check()
        folder = None if root is None else self.local(root)
        file, registry = self.file(session), self.scope.registry
        with Session.open(file, readonly=True, registry=registry, root=folder) as opened:
            try:
                yield opened
            finally:
                if found := opened.damage:
                    more = f" ({len(found):,} findings)" if len(found) > 1 else ""
                    self._tell.guidance("damage", f"{found[0]}{more}; health.check tells all")

    @contextlib.contextmanager
    def annotating(self, session: str) -> Iterator[Session]:
        """Open a session to label or name it; one that an agent keeps is imported first.

        The agent's file stays as it is. Its row in lists shows what its import has.
        """
        file = self.file_to_write(session)
        with contextlib.ExitStack() as stack:
            try:
                opened = stack.enter_context(self.writing(file))
            except ForeignFormatError:
                from sessiontree.importing.importer import Importer  # slow to import

                importer = Importer(self.store.root, by_project=True, reaches=self.reaches)
                file = importer.take(file).file
                self.note("The file of the agent is not changed; its import has it: {}", file)
                opened = stack.enter_context(self.writing(file))
            yield opened

    @contextlib.contextmanager
    def writing(
        self,
        session: str,
        lane: str | None = None,
        *,
        scratch: bool = False,
        hold: bool = True,
    ) -> Iterator[Session]:
        """Open a session to write at the leaf of a lane, and hold its lock.

        A file of version 1 is migrated with the first entry, which is told.

        Args:
            session: the session.
            lane: the lane, by default the main one.
            scratch: write on a new scratch lane at that leaf instead.
            hold: hold the lock; a command does without while a program writes a summary.
        """
        from sessiontree.library.one import open_to_write  # what only reads does without it

        self.scope.check_write()
        self.check()
        file, registry = self.file_to_write(session), self.scope.registry
        opened, is_old = open_to_write(file, lane or MAIN, registry=registry)
        log = opened.reader.log
        with opened, opened.writer.at_tip():
            if lane not in (None, MAIN) and opened.leaf.lane != lane:
                self.warn(f"{lane} is a new lane, and begins at the leaf; branch.lanes lists all")
            try:
                with opened.scratch() if scratch else contextlib.nullcontext(opened) as used:
                    yield used
            finally:
                if is_old and (opened.reader.log is not log or log.was_replaced()):
                    self.migrated(file)
