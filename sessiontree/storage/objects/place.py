"""Sessions on object storage: `s3://bucket/prefix/project/name.jsonl?endpoint=…&region=…`.

The credentials come from the environment (`AWS_…`), or from the options `access_key_id` and
`secret_access_key`, which no message shows. The bucket is the base, so the name of a session is its
whole path.

A session NAME is there if the object `NAME/head` is there and not empty. That object names the
generation in force, whose objects `generation` describes, and has the first bytes of the session.
Blobs and other parts are objects `NAME.…`.

Invariants: to make a session is to create its head, if it is absent or empty. Nothing is written to
a server that overwrites where it was asked to create. A head is never deleted, because no server
deletes on a condition: a second program would delete the head of a new session of the same name.

A removal leaves the head, empty; the object of 512 bytes that ends the log, so that a program that
still has the session open gets an error; and the keys of blocks of the last day, empty, for one
that has not seen the end yet. What a program writes that was away for longer lies in a generation
that no head names, so it never comes up in another session.

A move is a copy, and then a removal. Stopped between them, it leaves both; done again, it finishes.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import IO, Final
from weakref import WeakValueDictionary

from sessiontree.errors import SessionExistsError, SessionNotFoundError, StorageError, warn
from sessiontree.storage.contents import ContentFiles, beside, remove_beside
from sessiontree.storage.fs import Durability
from sessiontree.storage.log import BlobLocation, Moved
from sessiontree.storage.names import BLOBS
from sessiontree.storage.objects import marks
from sessiontree.storage.objects.bucket import (
    PAGE,
    Bucket,
    ObjectInfo,
    OutcomeUnknown,
    PreconditionFailed,
    RequestFailed,
    open_store,
    surely,
)
from sessiontree.storage.objects.generation import Generation, sessions_side_by_side, side_by_side
from sessiontree.storage.objects.head import Heads, HeadVersion, head_key, standing, stored
from sessiontree.storage.objects.log import ObjectLog
from sessiontree.storage.objects.marks import EndMarker
from sessiontree.storage.objects.session import ObjectSession
from sessiontree.storage.place import (
    Address,
    HeadAndTail,
    StoredContent,
    StoredSession,
    address_of,
    check_name,
    name_in,
)

_DAY: Final = 24 * 3600.0

_BLOCK: Final = 1024 * 1024

_AT_ONCE: Final = 256
"""The listed sessions whose heads are read at once."""

_PROBE: Final = ".sessiontree-probe/"
"""The folder, beside a session, of the objects that ask what a server can do."""


def open_place(address: Address) -> ObjectPlace:
    """Open the place of an address.

    Raises:
        UsageError: it names no bucket, has an unknown option, or the library is missing.
    """
    store = open_store(address)
    return ObjectPlace(Bucket(address.shown, store), address.shown_options)


class ObjectContents:
    """Contents as objects, whose keys are theirs; see `Contents`."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket

    def put(self, key: str, source: IO[bytes]) -> None:
        self._bucket.upload(key, source)

    def look(self, key: str) -> StoredContent | None:
        found = self._bucket.head(key)
        return None if found is None else StoredContent(found.size, found.modified)

    def read(self, key: str, offset: int, size: int) -> bytes:
        if size <= 0:
            return b""
        return self._bucket.get(key, offset, offset + size).content

    def keys(self, prefix: str) -> Iterator[str]:
        # The server lists by folders, so what comes before the prefix is skipped by name.
        folder = prefix.rpartition("/")[0]
        for found in self._bucket.list(folder, prefix):
            if not found.key.startswith(prefix):
                return
            if not _session_of(found):
                yield found.key

    def copy(self, source: str, target: str) -> None:
        self._bucket.copy(source, target)

    def remove(self, key: str) -> None:
        self._bucket.remove([key])


class ObjectPlace:
    """Sessions in a bucket; see `Place`."""

    forks: Final = False
    likely: Final = None

    def __init__(self, bucket: Bucket, options: tuple[tuple[str, str], ...] = ()) -> None:
        self.bucket = bucket  # its objects
        self._options = options
        self.url = url = bucket.url
        self.contents = ObjectContents(self.bucket)
        self._files = ContentFiles(self.contents, f"{url}/")
        self._sessions: WeakValueDictionary[str, ObjectSession] = WeakValueDictionary()
        self._lock = threading.Lock()
        self._is_probed = False
        self._refusal = ""
        self._heads = Heads()

    def address(self, name: str) -> str:
        return address_of(self.url, name, self._options)

    def name(self, address: str) -> str:
        return name_in(address)

    def opened(self, name: str) -> ObjectSession:
        """What the logs of a session share in this process."""
        with self._lock:
            found = self._sessions.get(name)
            if found is None:
                found = self._sessions[name] = ObjectSession(self.bucket, name, self.address(name))
            return found

    def log(
        self, name: str, *, readonly: bool = False, durability: Durability = "fsync"
    ) -> ObjectLog:
        log = ObjectLog(self, check_name(name, self.url), readonly=readonly)
        for key in log.foreign:
            warn(f"{self.url}/{key} is not of the session beside it; look what wrote it")
        return log

    def blobs(self, name: str) -> BlobLocation:
        return BlobLocation(self._files, self.address(name), "os", f"{self.url}/{name}{BLOBS}")

    def beside(self, name: str) -> Iterator[tuple[str, int]]:
        return beside(self.contents, name)

    def check_server(self, name: str) -> None:
        """Check, once, that the server keeps writers apart.

        Args:
            name: the session that is to be written. Its folder is where the server is asked, since
                the rights of a program may end at a prefix.

        Raises:
            StorageError: it does not.
        """
        with self._lock:
            if not self._is_probed:
                self._refusal = self._probe(name)
                self._is_probed = True
        if self._refusal:
            raise StorageError(self._refusal, self.url)

    def _probe(self, name: str) -> str:
        """Why nothing may be written here; empty if it may."""
        folder, slash, _ = name.rpartition("/")
        key = f"{folder}{slash}{_PROBE}{secrets.token_hex(8)}"
        why = ""
        try:
            etag = self.bucket.create(key, b"1")
            with contextlib.suppress(PreconditionFailed):
                self.bucket.create(key, b"2")
                why = "overwrites an object that was to be created only if it is absent"
            if not why:
                self.bucket.replace(key, b"3", etag)
                with contextlib.suppress(PreconditionFailed):
                    self.bucket.replace(key, b"4", etag)
                    why = "overwrites an object that is not the version it was asked to replace"
        except PreconditionFailed:
            why = "does not replace an object by its version (If-Match)"
        except OutcomeUnknown as error:
            raise StorageError(
                f"cannot write to {self.url}: {error}; {error.step}", self.url
            ) from error
        finally:
            with contextlib.suppress(StorageError):
                self.bucket.remove([key])
        return why and (
            f"the server of {self.url} {why}, so it cannot keep two writers apart, and nothing "
            "was written; use a server with conditional writes; reading is possible"
        )

    def create(self, name: str, blocks: Iterable[bytes]) -> None:
        check_name(name, self.url)
        self.check_server(name)
        id = secrets.token_hex(8)
        try:
            self._make_head(name, stored(self.bucket, name, id, blocks))
        except SessionExistsError:
            self.bucket.remove(each.key for each in self.bucket.list(f"{name}/{id}"))
            raise

    def _make_head(self, name: str, content: bytes, before: str = "") -> None:
        """Make the head of a session, unless there is another one than this version.

        Raises:
            SessionExistsError: there is one.
        """
        key = head_key(name)

        def make() -> str:
            if before:
                return self.bucket.replace(key, content, before)
            return self.bucket.create(key, content)

        while True:
            try:
                surely(make)
                return
            except PreconditionFailed:
                got = self.bucket.get(key)
            if got.content == content:  # the answer was lost
                return
            if got.content or before == got.etag:
                path = self.address(name)
                raise SessionExistsError(f"{path} is there already; choose another name", path)
            before = got.etag

    def find(self, name: str) -> StoredSession | None:
        try:
            generation, head = self.opened(name).current()
        except SessionNotFoundError:
            return None
        return StoredSession(name, generation.end, max(generation.modified, head.modified))

    def list(self, prefix: str = "") -> Iterator[StoredSession]:
        for found, _ in self._list(prefix):
            yield found

    def ends(self, prefix: str, head: int, tail: int) -> Iterator[HeadAndTail]:
        def read(one: tuple[StoredSession, Generation | StorageError]) -> HeadAndTail:
            found, generation = one
            if isinstance(generation, StorageError):
                return HeadAndTail(found, b"", b"", generation)
            start = max(0, found.size - tail)
            try:
                first = generation.read(0, head)
                return HeadAndTail(found, first, generation.read(start, found.size - start))
            except RequestFailed:
                raise
            except StorageError as error:
                return HeadAndTail(found, b"", b"", error)

        yield from sessions_side_by_side(read, self._list(prefix))

    def _list(self, prefix: str) -> Iterator[tuple[StoredSession, Generation | StorageError]]:
        """The sessions, each with its generation in force, or its damage, from one listing."""
        groups = groupby(self._keys(prefix), _session_of)
        named = ((name, [*keys]) for name, keys in groups if name and name.startswith(prefix))
        while some := [*islice(named, _AT_ONCE)]:  # their heads are read side by side
            for found in side_by_side(self._listed, some):
                if found is not None:
                    yield found

    def _keys(self, prefix: str) -> Iterator[ObjectInfo]:
        """All objects whose keys begin with a text, without long runs of merged blocks."""
        folder = prefix.rpartition("/")[0]
        after = prefix if prefix and not prefix.endswith("/") else ""
        while True:
            skip = ""
            merged: dict[str, int] = {}
            run = 0
            for found in self.bucket.list(folder, after):
                if not found.key.startswith(prefix):
                    if found.key > prefix:
                        return
                    continue
                place, _, name = found.key.rpartition("/")
                within, _, kind = place.rpartition("/")
                if kind == "merged":
                    end = name.removesuffix(".jsonl").partition("-")[2]
                    merged[within] = max(merged.get(within, 0), int(end) if end.isdigit() else 0)
                is_covered = kind == "log" and name < f"{merged.get(within, 0):020}"
                run = run + 1 if is_covered else 0
                if run > PAGE:
                    skip = f"{place}/{merged[within] - 1:020}.jsonl"
                    break
                if not is_covered:
                    yield found
            if not skip:
                return
            after = skip

    def _listed(
        self, listed: tuple[str, Sequence[ObjectInfo]]
    ) -> tuple[StoredSession, Generation | StorageError] | None:
        """A session as a listing has it; None if it is not there.

        Raises:
            Failed: the server cannot be asked, which is no damage of one session.
        """
        try:
            return self._in_force(*listed)
        except RequestFailed:
            raise
        except StorageError as error:
            name, keys = listed
            return StoredSession(name, 0, max(each.modified for each in keys)), error

    def _in_force(
        self, name: str, keys: Sequence[ObjectInfo]
    ) -> tuple[StoredSession, Generation] | None:
        """A session with its generation in force, as a listing has it; None if it is not there."""
        head = next((each for each in keys if each.key == head_key(name)), None)
        if head is None or not head.size:
            self._heads.drop(name)
            return None
        found = self._heads.get(name, head.etag)
        if found is None:
            found = standing(self.bucket, head.key)
            if found is not None:
                self._heads.keep(name, found)
        if found is None or found.head.arriving:
            return None
        session = self.opened(name)
        generation = session.generation(found.head.generation, found)
        generation.fill(keys)
        if generation.ending is not None:
            try:
                generation, _ = session.current()
            except SessionNotFoundError:
                return None
        return StoredSession(
            name, generation.end, max(generation.modified, head.modified)
        ), generation

    def move(self, source: str, target: str) -> None:
        path = self.address(check_name(target, self.url))
        session = self.opened(source)
        self.check_server(target)
        with session.threads.lock:
            head, there = (standing(self.bucket, head_key(name)) for name in (source, target))
            try:
                generation, _ = session.current(even_moved=True)
            except SessionNotFoundError:
                if head is None or there is None or there.head.copy_of != head.head.generation:
                    raise
                self._clear_away(source, head)  # which an earlier move did not come to
                return
            generation.check_whole(session.path)
            if there is None or _is_arriving(there, generation, target):
                end = self._copy(generation, source, target, "" if there is None else there.etag)
            elif there.head.copy_of == generation.id:  # an earlier move was stopped
                end = _common(generation, self.opened(target).current()[0])
            else:
                raise SessionExistsError(f"{path} is there already; choose another name", path)
            while generation.ending is None:
                end = self._carry_on(generation, end, source, target)
                self._end(session, generation)
            if generation.ending.kind == "barrier":
                raise StorageError(
                    f"{session.path} was rewritten while it was copied to {path}; both are there: "
                    "remove one of them",
                    session.path,
                )
            assert head is not None
            self._clear_away(source, head)

    def _copy(self, generation: Generation, source: str, target: str, etag: str) -> int:
        """Copy a session, in place of a head of this version; return the end of the copy."""
        end = generation.end
        self._copy_parts(source, target)
        id = secrets.token_hex(8)
        content = stored(self.bucket, target, id, _blocks(generation, end), copy_of=generation.id)
        self._make_head(target, content, etag)
        return end

    def _copy_parts(self, source: str, target: str) -> None:
        keys = [*self.contents.keys(f"{source}.")]
        side_by_side(lambda key: self.contents.copy(key, target + key[len(source) :]), keys)

    def _carry_on(self, generation: Generation, end: int, source: str, target: str) -> int:
        """Append to a copy what was appended to its source since; return the end of that."""
        if generation.end == end:
            return end
        self._copy_parts(source, target)
        rest = generation.read(end, generation.end - end)
        log = self.log(target)
        while True:
            with contextlib.suppress(Moved), log.alone():
                if log.was_replaced():
                    log.reopen()
                log.append(rest, log.size())
                return end + len(rest)

    def remove(self, name: str) -> None:
        session = self.opened(name)
        self.check_server(name)
        with session.threads.lock:
            head = standing(self.bucket, head_key(name))
            if head is None or head.head.arriving:
                raise session.missing()
            with contextlib.suppress(SessionNotFoundError):  # an earlier removal was stopped
                while True:
                    generation, _ = session.current(even_moved=True)
                    if generation.ending is not None or self._end(session, generation):
                        break
            self._clear_away(name, head)

    def _end(self, session: ObjectSession, generation: Generation) -> bool:
        """End the log of a session, unless another program was faster; return whether it did."""
        mark = EndMarker("removed")
        try:
            session.put(generation, generation.end, mark.encoded())
        except Moved:
            generation.refresh()
            return False
        generation.ending = mark
        return True

    def _clear_away(self, name: str, head: HeadVersion) -> None:
        """Remove the content of a session whose log has ended, then its head."""
        self.clear(name, set(), is_over=True)
        remove_beside(self.contents, name)
        with contextlib.suppress(PreconditionFailed):
            surely(lambda: self.bucket.replace(head_key(name), b"", head.etag))

    def clear(self, name: str, kept: set[str], *, is_over: bool = False) -> None:
        """Remove the content of generations that were replaced for more than a day.

        What ends a log stays. The blocks go last, from the first one on, so that what is left is
        never taken for a whole log.

        Args:
            name: the session.
            kept: the generations that are left as they are.
            is_over: whether its log has ended, so that all content goes at once. Keys of the last
                day then stay, empty.
        """
        everything = [each for each in self.bucket.list(name) if each.key != head_key(name)]
        now = max((each.modified for each in everything), default=0.0)
        for id, found in groupby(everything, lambda each: each.key[len(name) + 1 :].split("/")[0]):
            keys = [*found]
            newest = max(each.modified for each in keys)
            if id in kept or not (is_over or now - newest > _DAY):
                continue
            self.bucket.remove(each.key for each in keys if "/log/" not in each.key)
            blocks = [each for each in keys if "/log/" in each.key]
            if blocks and blocks[-1].size == marks.SIZE:
                del blocks[-1]  # which ends the log
            for each in blocks:
                if not is_over or now - each.modified > _DAY:
                    self.bucket.remove([each.key])
                elif each.size:
                    self._empty(each.key)

    def _empty(self, key: str) -> None:
        surely(lambda: self.bucket.write(key, b""))

    def close(self) -> None:
        """Do nothing: the library closes connections that are idle."""


def _is_arriving(there: HeadVersion, generation: Generation, target: str) -> bool:
    """Whether a program up to 0.2.0 began to move a generation here."""
    id = hashlib.sha256(f"{generation.id} {target}".encode()).hexdigest()[:16]
    return there.head.arriving and there.head.generation == id


def _blocks(generation: Generation, end: int) -> Iterator[bytes]:
    return (generation.read(at, min(_BLOCK, end - at)) for at in range(0, end, _BLOCK))


def _common(one: Generation, other: Generation) -> int:
    """Where the lines end that two generations have in common."""
    at = ended = 0
    while True:
        mine, theirs = one.read(at, _BLOCK), other.read(at, _BLOCK)
        if mine != theirs:
            pairs = enumerate(zip(mine, theirs, strict=False))
            shorter = min(len(mine), len(theirs))
            mine = mine[: next((number for number, (a, b) in pairs if a != b), shorter)]
        ended = max(ended, at + mine.rfind(b"\n") + 1) if b"\n" in mine else ended
        at += len(mine)
        if mine != theirs or not mine:
            return ended


def _session_of(found: ObjectInfo) -> str:
    """The name of the session of a key; empty if it is not of a log."""
    folder, _, name = found.key.rpartition("/")
    if name == "head":
        return folder
    if name != "start":
        folder = folder.rpartition("/")[0]
    above, _, id = folder.rpartition("/")
    return above if _is_id(id) else ""


def _is_id(text: str) -> bool:
    return len(text) == 16 and all(digit in "0123456789abcdef" for digit in text)
