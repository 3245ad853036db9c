"""The parts beside a log: the original of a version 1 file, the archives of `gc`.

A part is a run of bytes with a suffix, which is written in one step and read from its start.
`FileParts` are the files beside a session file, `MemoryParts` those of a log in memory; where a log
stands at an address, they are contents of its place (`storage.contents.ContentParts`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import zip_longest
from typing import Final, Protocol

from sessiontree.errors import SessionExistsError
from sessiontree.storage.atomic import blocks_of, create_file, refuse_link, swap_file
from sessiontree.storage.fs import READ_PLAIN, Descriptor, FileSystem

_BLOCK: Final = 256 * 1024


class Parts(Protocol):
    """What is kept beside a log, by suffix."""

    def list(self) -> list[str]:
        """Return the suffixes, sorted."""

    def name(self, suffix: str) -> str:
        """Return the name of a part, for messages."""

    def size(self, suffix: str) -> int:
        """Return the number of bytes of a part; -1 if it is not a run of bytes.

        Raises:
            FileNotFoundError: there is no such part; also for `read` and `remove`.
        """

    def read(self, suffix: str) -> Iterator[bytes]:
        """Yield the bytes of a part, block by block."""

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        """Make or replace a part in one step."""

    def remove(self, suffix: str) -> None: ...


def keep(
    parts: Parts, suffix: str, of: str, size: int, content: Callable[[], Iterator[bytes]]
) -> bool:
    """Keep a content as a part; whether it was not kept already.

    Args:
        parts: where to keep it.
        suffix: its name there.
        of: the name of what has the content, for messages.
        size: the bytes of the content.
        content: gives the content, block by block, each time it is called.

    Raises:
        SessionExistsError: another content has the suffix.
    """
    try:
        is_same = parts.size(suffix) == size and begin_alike(parts.read(suffix), content(), size)
    except FileNotFoundError:
        parts.write(suffix, content())
        return True
    if is_same:
        return False
    kept = parts.name(suffix)
    raise SessionExistsError(f"{kept} is there already, and is not a copy of {of}", kept)


def begin_alike(one: Iterable[bytes], other: Iterable[bytes], size: int) -> bool:
    """Whether the first `size` bytes of two contents are the same; one that is shorter is not."""
    return all(
        ours == theirs for ours, theirs in zip_longest(_pieces(one, size), _pieces(other, size))
    )


def _pieces(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The first bytes of blocks, in pieces of one length."""
    waiting = bytearray()
    for block in blocks:
        waiting += block
        while size and len(waiting) >= min(_BLOCK, size):
            piece = bytes(waiting[: min(_BLOCK, size)])
            del waiting[: len(piece)]
            size -= len(piece)
            yield piece
        if not size:
            return
    if waiting and size:
        yield bytes(waiting)


class FileParts:
    """The files beside a session file; see `Parts`.

    Args:
        fs: what has them.
        path: the real path of the session file, with which the name of each part begins.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._fs = fs
        self._path = path

    def list(self) -> list[str]:
        folder, name = os.path.split(self._path)
        try:
            names = self._fs.list(folder)
        except FileNotFoundError:
            return []
        return sorted(found[len(name) :] for found in names if found.startswith(f"{name}."))

    def name(self, suffix: str) -> str:
        return self._path + suffix

    def size(self, suffix: str) -> int:
        path = self.name(suffix)
        found = self._fs.stat(path)
        return -1 if found.is_folder or found.is_stream or os.path.islink(path) else found.size

    def read(self, suffix: str) -> Iterator[bytes]:
        refuse_link(self.name(suffix))
        with Descriptor(self._fs, self._fs.open(self.name(suffix), READ_PLAIN)) as fd:
            yield from blocks_of(self._fs, fd)

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        path = self.name(suffix)
        refuse_link(path)
        try:
            self._fs.stat(path)
        except FileNotFoundError:
            create_file(self._fs, path, blocks)
        else:
            swap_file(self._fs, path, blocks)

    def remove(self, suffix: str) -> None:
        self._fs.unlink(self.name(suffix))


def name_beside(log: str, suffix: str) -> str:
    """The name of a part beside a log; in an address, the suffix is before the options."""
    path, mark, options = log.partition("?") if "://" in log else (log, "", "")
    return f"{path}{suffix}{mark}{options}"


class MemoryParts:
    """The parts of a log in memory; see `Parts`.

    Args:
        name: the name of the log.
        contents: the bytes of each part, by suffix; those who share the log share them.
    """

    def __init__(self, name: str, contents: dict[str, bytes]) -> None:
        self._name = name
        self._contents = contents

    def list(self) -> list[str]:
        return sorted(self._contents)

    def name(self, suffix: str) -> str:
        return name_beside(self._name, suffix)

    def size(self, suffix: str) -> int:
        return len(self._content(suffix))

    def read(self, suffix: str) -> Iterator[bytes]:
        yield self._content(suffix)

    def write(self, suffix: str, blocks: Iterator[bytes]) -> None:
        self._contents[suffix] = b"".join(blocks)

    def remove(self, suffix: str) -> None:
        self._content(suffix)
        del self._contents[suffix]

    def _content(self, suffix: str) -> bytes:
        try:
            return self._contents[suffix]
        except KeyError as error:
            raise FileNotFoundError(errno.ENOENT, "no such part", self.name(suffix)) from error
