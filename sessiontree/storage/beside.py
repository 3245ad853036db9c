"""What is kept beside the logs of a place: contents in the place, and blobs there or elsewhere.

With `?blobs=s3://bucket/prefix` in its address, a place keeps its logs, and another one the blobs.
Each session has a folder of its own there, `<prefix>/blobs/<number>/`. Its **pointer** is a content
of the place beside the session, `NAME.blobs/at-<number>-<mark>`: `mark` stands for the address of
the other place, and the content is that address. Where two writers make a pointer at the same time,
the session has two folders, and what is in either is found.

A pointer moves with its session, in the step in which the place moves that, and its folder stays
where it is. So no blob is moved when a session is moved, put into the trash or brought back.

Order of writing: the pointer, the blob, then the line that names the blob. Order of removing: a
note with the number of the folder, the session with its pointer, the blobs, the note. What a
program that was killed between two of these steps has left is a blob that no session has; `finish`
removes it, by the note.

Invariants: a folder belongs to one session; nothing in a folder is removed while a pointer to it is
in the place, but by a removal of single blobs; a place never says where a program sends its
credentials: the address that a pointer has is only shown, and the caller gives the option.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import secrets
from collections.abc import Callable, Iterator
from typing import IO, Final, NamedTuple

from sessiontree.errors import SessionBusyError, SessionNotFoundError, StorageError, UsageError
from sessiontree.storage.names import BLOBS
from sessiontree.storage.place import (
    Address,
    Content,
    Contents,
    address,
    address_of,
    names_place,
    path_of,
    without_secret,
)

OPTION: Final = "blobs"
_MOST_KNOWN: Final = 10_000

_REMOVED: Final = ".sessiontree-removed/"
"""Begins the keys of the notes about sessions that are being removed."""

_POINTER: Final = re.compile(rf"(.+){re.escape(BLOBS)}/at-([0-9a-f]{{32}})-([0-9a-f]{{8}})")
_BLOB: Final = re.compile(rf"(.+){re.escape(BLOBS)}/([0-9a-f]{{64}}[^/]*)", re.DOTALL)


class Elsewhere(NamedTuple):
    """Another place, in which the blobs of the sessions of a place are kept.

    Attributes:
        shown: its address, without a password.
        mark: tells it from other places, whatever the user and the options of its address.
        prefix: what the keys of all blobs begin with.
        contents: its contents.
    """

    shown: str
    mark: str
    prefix: str
    contents: Contents

    def key(self, number: str, name: str = "") -> str:
        """The key of a blob in a folder, or the start of the keys of all of them."""
        return f"{self.prefix}{OPTION}/{number}/{name}"


def elsewhere(given: Address, open: Callable[[str], Contents]) -> Elsewhere | None:
    """What the address of a place says of its blobs; None if it says nothing.

    Args:
        open: opens the contents at an address, or in the folder of a `file` URL.

    Raises:
        UsageError: the option is not the address of a place without such an option, or that place
            refuses its address.
    """
    url = dict(given.options).get(OPTION)
    if url is None:
        return None
    if url.startswith("file://"):
        shown = "file://" + path_of(url).rstrip("/")
        return Elsewhere(shown, _mark(shown), "", open(url))
    if not names_place(url):
        raise UsageError(
            f"blobs={without_secret(url)} in {given.shown} is not the address of a place; write "
            "blobs=s3://bucket/prefix, with its own options percent-encoded"
        )
    found = address(url)
    if OPTION in dict(found.options):
        raise UsageError(f"the address of the blobs of {given.shown} has an option blobs itself")
    name = found.name.strip("/")
    host = found.shown.partition("://")[2].rpartition("@")[2]
    schema = dict(found.options).get("schema", "")
    return Elsewhere(
        address_of(found.shown, name, found.shown_options),
        _mark(f"{found.scheme}://{host}/{name} {schema}"),
        f"{name}/" if name else "",
        open(url),
    )


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:8]


class Kept(NamedTuple):
    """Where a content is, under which key, and what it is."""

    contents: Contents
    key: str
    content: Content


class _Folder(NamedTuple):
    """The folder of the blobs of a session, as its pointer has it."""

    pointer: str
    name: str
    number: str
    mark: str


class Beside:
    """What is kept beside the logs of a place; see `Contents`.

    Args:
        own: the contents of the place itself.
        elsewhere: where the blobs are kept; None: in the place.
    """

    def __init__(self, own: Contents, elsewhere: Elsewhere | None = None) -> None:
        self.own = own
        self._elsewhere = elsewhere
        self._here: set[str] = set()  # sessions that had no pointer: one request each, not a blob

    @property
    def forks(self) -> bool:
        there = self._elsewhere
        return self.own.forks and (there is None or there.contents.forks)

    def find(self, key: str) -> Kept | None:
        """Where a content is; None if there is none, or its place is not known."""
        name, blob = _taken_apart(key)
        there = self._elsewhere
        if there is not None and name:
            for folder in self._folders(name):
                found = None
                if folder.mark == there.mark:
                    found = there.contents.look(there.key(folder.number, blob))
                if found is not None:
                    return Kept(there.contents, there.key(folder.number, blob), found)
        found = self.own.look(key)
        return None if found is None else Kept(self.own, key, found)

    def why(self, key: str) -> str:
        """Why a blob may be missing: its session has blobs at an address that was not given."""
        name, _ = _taken_apart(key)
        other = [folder for folder in self._folders(name) if not self._reaches(folder)]
        return self._where(other[0]) if other else ""

    def _reaches(self, folder: _Folder) -> bool:
        return self._elsewhere is not None and folder.mark == self._elsewhere.mark

    def _where(self, folder: _Folder) -> str:
        """That a session has blobs at an address that was not given, and what to do."""
        from urllib.parse import quote

        try:
            url = self.own.read(folder.pointer, 0, 10_000).decode(errors="replace")
        except FileNotFoundError:  # moved this moment
            url = "another place"
        given = self._elsewhere
        said = "does not say so" if given is None else f"says blobs={quote(given.shown, safe=':/')}"
        return (
            f"blobs of {folder.name} are kept in {url}, and its address {said}: "
            f"give it the option {OPTION}={quote(url, safe=':/')}"
        )

    def _folders(self, name: str) -> list[_Folder]:
        if not name:
            return []
        found = self.own.keys(f"{name}{BLOBS}/at-")
        return [folder for folder in map(_folder_of, found) if folder is not None]

    def put(self, key: str, source: IO[bytes]) -> None:
        name, blob = _taken_apart(key)
        there = self._elsewhere
        if there is None or not name:
            self._check_here(name)
            self.own.put(key, source)
            return
        number = self._number_for(name, there)
        there.contents.put(there.key(number, blob), source)

    def _check_here(self, name: str) -> None:
        """Check that a session whose address says nothing of its blobs has them in the place.

        Raises:
            StorageError: it has blobs in another place.
        """
        if name in self._here:
            return
        folders = self._folders(name)
        if folders:
            raise StorageError(self._where(folders[0]), name)
        if len(self._here) >= _MOST_KNOWN:
            self._here.clear()
        self._here.add(name)

    def _number_for(self, name: str, there: Elsewhere) -> str:
        """The number of the folder for new blobs of a session, whose pointer is made if need be.

        Raises:
            StorageError: the session has blobs in another place.
        """
        folders = self._folders(name)
        for folder in folders:
            if folder.mark == there.mark:
                return folder.number
        if folders:
            raise StorageError(self._where(folders[0]), name)
        number = secrets.token_hex(16)
        pointer = f"{name}{BLOBS}/at-{number}-{there.mark}"
        self.own.put(pointer, io.BytesIO(there.shown.encode()))
        return number

    def look(self, key: str) -> Content | None:
        found = self.find(key)
        return None if found is None else found.content

    def read(self, key: str, offset: int, size: int) -> bytes:
        found = self.find(key)
        if found is None:
            raise FileNotFoundError(key)
        return found.contents.read(found.key, offset, size)

    def keys(self, prefix: str) -> Iterator[str]:
        """See `Contents.keys`; pointers are left out.

        Raises:
            StorageError: a session has blobs at an address that was not given.
        """
        before, _, rest = prefix.rpartition(f"{BLOBS}/")
        is_in_folder = bool(before) and "/" not in rest
        found: set[str] = set()
        for key in self.own.keys(f"{before}{BLOBS}/" if is_in_folder else prefix):
            folder = _folder_of(key)
            if folder is None:
                found.add(key)
                continue
            there = self._elsewhere
            if there is None or folder.mark != there.mark:
                raise StorageError(self._where(folder), folder.name)
            start = there.key(folder.number)
            for blob in there.contents.keys(start):
                found.add(f"{folder.name}{BLOBS}/{blob[len(start) :]}")
        yield from sorted(key for key in found if key.startswith(prefix))

    def copy(self, source: str, target: str) -> None:
        found = self.find(source)
        if found is None:
            raise FileNotFoundError(source)
        name, blob = _taken_apart(target)
        there = self._elsewhere
        if there is None:
            self._check_here(name)
        if there is None or not name or found.contents is self.own:
            self.own.copy(source, target)
            return
        found.contents.copy(found.key, there.key(self._number_for(name, there), blob))

    def remove(self, key: str) -> None:
        name, blob = _taken_apart(key)
        there = self._elsewhere
        if there is not None:
            for folder in filter(self._reaches, self._folders(name)):
                there.contents.remove(there.key(folder.number, blob))
        self.own.remove(key)

    @contextlib.contextmanager
    def removing(self, name: str) -> Iterator[list[str]]:
        """Remove the blobs of a session that are elsewhere, after the session was removed.

        The session, with all that the place itself keeps beside it, is removed in the block. If it
        was not, the block takes all numbers out of the list that it gets, or raises
        SessionNotFoundError or SessionBusyError.

        Raises:
            StorageError: the blobs are at an address that was not given; nothing was removed.
        """
        folders = self._folders(name)
        for folder in folders:
            if not self._reaches(folder):
                raise StorageError(self._where(folder), name)
        noted = [folder.number for folder in folders]
        for number in noted:
            self.own.put(_REMOVED + number, io.BytesIO(name.encode()))
        left = [*noted]
        try:
            yield left
        except (SessionNotFoundError, SessionBusyError):
            self._forget(noted)
            raise
        for number in left:
            self._clear(number)
        self._forget(noted)

    def _clear(self, number: str) -> None:
        """Remove all blobs of a folder."""
        there = self._elsewhere
        if there is not None:
            for key in [*there.contents.keys(there.key(number))]:
                there.contents.remove(key)

    def _forget(self, numbers: list[str]) -> None:
        for number in numbers:
            self.own.remove(_REMOVED + number)

    def finish(self, remove: Callable[[str], bool]) -> None:
        """Remove what is left of sessions whose removal was cut short.

        Args:
            remove: finishes the removal of the session of a name, if it began; whether the name
                has no session then.
        """
        if self._elsewhere is None:
            return
        notes = [*self.own.keys(_REMOVED)]
        gone = [note for note in notes if self._is_gone(note, remove)]
        if not gone:
            return
        folders = {folder.number for folder in map(_folder_of, self.own.keys("")) if folder}
        for note in gone:
            number = note.removeprefix(_REMOVED)
            if number not in folders:  # else the session was moved, and has its blobs
                self._clear(number)
            self._forget([number])

    def _is_gone(self, note: str, remove: Callable[[str], bool]) -> bool:
        try:
            name = self.own.read(note, 0, 100_000).decode()
        except FileNotFoundError:  # the program that made it goes on
            return False
        return remove(name)


def _taken_apart(key: str) -> tuple[str, str]:
    """The name of the session of a blob, and the blob's; both empty for another content."""
    found = _BLOB.fullmatch(key)
    return (found[1], found[2]) if found else ("", "")


def _folder_of(key: str) -> _Folder | None:
    found = _POINTER.fullmatch(key)
    return None if found is None else _Folder(key, found[1], found[2], found[3])
