"""What adapters share: the file of an id, its opening, whole reads, and known versions of SDKs.

An SDK's sessions are files in a folder of a store, one for each id. A store at an address has no
folders: there, the names of sessions begin with the name of a folder.

`run_again`: in a bucket, what reads and then writes is done again if another program was faster.

Invariants: a file that its SDK did not store is a `NotASessionError`, never an empty session.
Damage that a read meets, or a path that does not lead to the header, is a `CorruptionError`; a
write that was cut short leaves no damage, because it was never acknowledged.
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import wraps
from hashlib import blake2b
from importlib import metadata
from itertools import chain
from random import random
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from sessiontree.core.codec import is_sealed
from sessiontree.core.entry import Entry
from sessiontree.errors import (
    CorruptionError,
    NotASessionError,
    OvertakenError,
    SessionExistsError,
    SessionNotFoundError,
    UsageError,
    warn,
)
from sessiontree.library import catalogs
from sessiontree.session import Session
from sessiontree.storage.fs import DISK
from sessiontree.storage.lines import rest_of_line
from sessiontree.storage.places import create_log, located, open_log
from sessiontree.storage.sidecars import moving
from sessiontree.store import PathLike, Store

ENDING: Final = ".jsonl"
_LOCK: Final = ".lock"
"""The name of the log that is held where a folder has a lock; no list has it."""

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")

P = ParamSpec("P")
K = TypeVar("K")
T = TypeVar("T")

_ATTEMPTS: Final = 100
_LONGEST_PAUSE: Final = 0.2


def run_again(write: Callable[P, T]) -> Callable[P, T]:
    """Run a function again while other programs write between what it reads and what it writes.

    That happens in a bucket, where no lock keeps them out of the function's locked block.
    """

    @wraps(write)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(_ATTEMPTS):
            with suppress(OvertakenError):
                return write(*args, **kwargs)
            time.sleep(random() * min(0.01 * 2**attempt, _LONGEST_PAUSE))
        return write(*args, **kwargs)

    return run


def remember(known: OrderedDict[K, T], key: K, value: T, most: int) -> None:
    """Put a value into a cache, as the one used last of at most so many."""
    known[key] = value
    known.move_to_end(key)
    while len(known) > most:
        known.popitem(last=False)


class SessionFiles:
    """A folder of a store.

    Args:
        root: the folder or the address of a store, or a `Store`; None for the store of the user.
        name: the name of the folder, which begins with the name of the SDK.
    """

    def __init__(self, root: PathLike | Store | None, name: str) -> None:
        self._sdk = name.partition("/")[0]
        self.store = root if isinstance(root, Store) else Store(root)
        self._name = name
        self._catalog = catalogs.catalog_at(self.store.root, DISK)
        self.folder = self._catalog.file(name)  # the path or the address of the folder

    def file_of(self, id: str) -> str:
        """Return the file of the session of an id; ids that differ have other files."""
        return self._catalog.file(f"{self._name}/{_name_of(id)}{ENDING}")

    def inside(self, id: str) -> SessionFiles:
        """Return the folder of an id in this folder; ids that differ have other folders."""
        return SessionFiles(self.store, f"{self._name}/{_name_of(id)}")

    def files(self) -> Iterator[str]:
        """Yield the files of the sessions in the folder, by name; none if it is not there."""
        files, _ = self._names()
        yield from (self._catalog.file(f"{self._name}/{name}") for name in sorted(files))

    def folders(self) -> Iterator[SessionFiles]:
        """Yield the folders in the folder, by name; none if it is not there."""
        _, folders = self._names()
        yield from (SessionFiles(self.store, f"{self._name}/{name}") for name in sorted(folders))

    def _names(self) -> tuple[set[str], set[str]]:
        files: set[str] = set()
        folders: set[str] = set()
        if self._catalog.place is not None:
            below = catalogs.catalog_at(self.folder, DISK)
            for name, _ in below.states(lambda problem: None):
                first, slash, _ = name.partition("/")
                (folders if slash else files).add(first)
            return files, folders
        with suppress(FileNotFoundError), os.scandir(self.folder) as listed:
            for each in listed:
                if each.name.endswith(ENDING):
                    files.add(each.name)
                elif each.is_dir(follow_symlinks=False) and ENDING not in each.name:
                    folders.add(each.name)
        return files, folders

    @contextmanager
    def opened(self, file: str, *, readonly: bool = False) -> Iterator[Session]:
        """Open a session.

        Raises:
            SessionNotFoundError: it has no file.
            NotASessionError: the SDK did not store the file.
        """
        with Session.open(file, readonly=readonly) as session:
            if (session.header.get("metadata") or {}).get("agent") != self._sdk:
                raise foreign(file, self._sdk)
            yield session

    @contextmanager
    def made(self, file: str, facts: Mapping[str, Any]) -> Iterator[Session]:
        """Open a session for writing; one without a file is made, with some facts as metadata."""
        with ExitStack() as stack:
            try:
                session = stack.enter_context(self.opened(file))
            except SessionNotFoundError:
                self.make_room(file)
                with suppress(SessionExistsError):
                    Session.create(file, metadata={"agent": self._sdk, **facts}).close()
                session = stack.enter_context(self.opened(file))
            yield session

    def sessions(self, *, readonly: bool = True) -> Iterator[Session]:
        """Open each session in the folder; a warning names each file of another program."""
        for file in self.files():
            with ExitStack() as stack:
                try:
                    session = stack.enter_context(self.opened(file, readonly=readonly))
                except SessionNotFoundError:
                    continue
                except NotASessionError as error:
                    warn(str(error))
                    continue
                yield session

    def trashed(self, file: str) -> Iterator[str]:
        """Yield the files in the trash of the store that had this path."""
        ending = f"/{self._name}/{os.path.basename(file)}"
        for trashed in self._catalog.trashed().files(None, lambda problem: None):
            if trashed.replace(os.sep, "/").endswith(ending):
                yield trashed

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep out all other programs that call this for the folder, which is made."""
        if self._catalog.place is None:
            self.make_room(self._catalog.file(f"{self._name}/{_LOCK}"))
            with moving(DISK, self.folder):
                yield
            return
        lock = self._catalog.file(f"{self._name}/{_LOCK}")
        with suppress(SessionExistsError):
            create_log(DISK, lock, iter([b"{}\n"]))
        with closing(open_log(DISK, lock)) as log, log.hold():
            yield

    @staticmethod
    def has(file: str) -> bool:
        """True if there is a session with this file."""
        place, name = located(file)
        return os.path.exists(name) if place is None else place.find(name) is not None

    @staticmethod
    def make_room(file: str) -> None:
        """Make the folder of a file."""
        catalogs.make_room(DISK, file)


def _name_of(id: str) -> str:
    if not isinstance(id, str):
        raise UsageError(f"an id is a text, not {id!r:.60} of type {type(id).__name__}")
    digest = blake2b(id.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()
    words = _UNSAFE.sub("-", id[:60]).strip("-.").lower()
    return f"{words or 'session'}-{digest}"


def without(keys: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if key != name}


def foreign(file: str, sdk: str) -> NotASessionError:
    """Make the error for a file that an SDK's adapter did not store."""
    return NotASessionError(
        f"{file} is not a session that {sdk} stored, or its header is lost; move it elsewhere", file
    )


class UnknownSdkError(UsageError, ImportError):
    """An SDK is not installed, or has a version that its adapter does not know."""


class Sdk(NamedTuple):
    """An SDK, and its versions that are known to work."""

    package: str  # the name of its distribution
    extra: str  # the extra of sessiontree that installs it
    oldest: tuple[int, int]  # the major and the minor number of the oldest known version
    before: int  # the major number from which on no version is known

    def check(self) -> None:
        """Check the version that is installed.

        Raises:
            UnknownSdkError: none is, or one that is not known to work.
        """
        if not self._is_known(self._version() or ""):
            raise self.unknown()

    def _is_known(self, version: str) -> bool:
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        return self.oldest <= numbers < (self.before,)

    def unknown(self, cause: ImportError | None = None) -> UnknownSdkError:
        """The error for the version that is installed, or for none; `cause` is what failed."""
        version = self._version()
        install = f"run: pip install 'sessiontree[{self.extra}]'"
        if version is None:
            return UnknownSdkError(f"{self.package} is not installed; {install}")
        if cause is not None and self._is_known(version):
            return UnknownSdkError(
                f"{self.package} {version} is installed, but not whole: {cause}; {install}"
            )
        first, last = ".".join(map(str, self.oldest)), self.before - 1
        return UnknownSdkError(
            f"{self.package} {version} is not known to work with sessiontree, versions {first} to "
            f"{last}.x are; {install}"
        )

    def _version(self) -> str | None:
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None


PYDANTIC_AI: Final = Sdk("pydantic-ai-slim", "pydantic-ai", oldest=(2, 68), before=3)
OPENAI_AGENTS: Final = Sdk("openai-agents", "openai-agents", oldest=(0, 24), before=1)
CLAUDE_AGENT_SDK: Final = Sdk("claude-agent-sdk", "claude-agent-sdk", oldest=(0, 2), before=1)
LANGGRAPH: Final = Sdk("langgraph-checkpoint", "langgraph", oldest=(4, 3), before=5)
GOOGLE_ADK: Final = Sdk("google-adk", "google-adk", oldest=(2, 13), before=3)


_LOSES: Final = frozenset({"json", "object", "no uuid", "nul", "utf-8", "crc"})
"""The kinds of damage by which a line may not be what was given."""

_ENTRY: Final = b'{"type":'


def up(session: Session, entry: Entry) -> Iterator[Entry]:
    """Yield an entry and the entries above it.

    Raises:
        CorruptionError: the path does not lead to the header; or a line on it is damaged, which
            is seen when the last entry that is wanted was read (`check_sound`).
    """
    last = entry
    for last in chain([entry], session.reader.up(entry)):
        yield last
    check_sound(session)
    top = session.header.uuid
    if top not in (last.uuid, last.parent_uuid) and "parentSession" not in session.header:
        cause = f"the parent {last.parent_uuid} of its entry is not in the file"
        raise damaged(session, last.offset, cause)


def check_sound(session: Session, known: Sequence[tuple[int, str]] = ()) -> None:
    """Check that what was read so far met no damage.

    Args:
        known: the offset and the cause of damage that is known otherwise.

    Raises:
        CorruptionError: a line is damaged.
    """
    met = [
        (one.offset, one.cause)
        for one in session.damage
        if loses_content(session, one.offset, one.kind)
    ]
    for offset, cause in sorted([*met, *known])[:1]:
        raise damaged(session, offset, cause)


def loses_content(session: Session, offset: int, kind: str) -> bool:
    """True if damage may have changed a line; a write that was cut short has not."""
    if kind not in _LOSES:
        return False
    line = rest_of_line(session.reader.log.read, offset)
    return line[: len(_ENTRY)] != _ENTRY[: len(line)] or is_sealed(line)


def damaged(session: Session, offset: int, cause: str) -> CorruptionError:
    """Make the error for a session of which a part is lost."""
    file = str(session.file)
    return CorruptionError(
        f"{file} is damaged at byte {offset:,}: {cause}; `sessiontree repair {file}` mends what "
        f"can be mended, and `sessiontree context {file}` shows what is left",
        file,
        offset,
    )
