"""Lines of a log backwards and forwards, excerpts of large files, and compressed files.

Bytes come through `read(offset, size)`, a positioned read: the file may grow meanwhile, and what is
before stays. Reading backwards keeps one window of the file, which starts small, so that a short
context costs a small read, and grows while reading goes on.

A file compressed by Zstandard (RFC 8878) is read as its decompressed content. Reading continues
where the last read ended; a read further back starts over. Only the bytes of one read are kept, so
a file of any size costs the memory of one read. A file that ends early, or is damaged, gives the
content before the damage. One step unpacks at most 16 MiB: 512 bytes of blocks that repeat one
byte, each 4 bytes for 128 KiB (RFC 8878, 3.1.1.2).

An excerpt of a large file is a file of its own, which is read at once: what is at an end of another
agent's file can be read before all of the file is translated. Whole lines are left out. A position
in an excerpt is not a position in the file.

Invariants: a file unpacks to at most `LARGEST_RATIO` times its size, or `ALWAYS_UNPACKED` bytes if
that is more; beyond it is an error, for a few kilobytes can hold gigabytes. Nothing is copied or
written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Protocol

import stringzilla  # type: ignore[import-not-found, unused-ignore]
from msgspec.structs import replace

from sessiontree.errors import NotASessionError, StorageError
from sessiontree.storage.fs import Disk, Stat

Read = Callable[[int, int], bytes]
"""Takes an offset and a size, gives the bytes there; fewer only at the end."""

FIRST_BLOCK: Final = 32 * 1024
LARGEST_BLOCK: Final = 64 * 1024
FORWARD_BLOCK: Final = 256 * 1024
"""Bytes that are split into lines and decoded at once: few enough for the processor's cache."""

_COST_OF_A_LINE: Final = 2000
"""The bytes that are searched in the time in which a line found is looked at."""

_FEW_LINES: Final = 100
"""Lines found that cost nothing that counts."""

_SMALL: Final = 4096
"""Bytes read first of a line whose length is not known."""


class Backwards:
    """Reads lines that end at a given place, nearest to the end first."""

    def __init__(self, read: Read, window: bytes = b"", start: int = 0) -> None:
        self._read = read
        self.window = window  # the part of the file that is in memory; it may be given at first
        self.start = start  # the offset of the window
        self._step = FIRST_BLOCK
        self.searched = 0  # what `find` cost so far, in bytes searched
        self._found = 0

    def line_before(self, end: int) -> tuple[int, bytes]:
        """The line whose LF (or the end of the file) is at `end`, and its offset."""
        inside = end - self.start
        if not 0 < inside <= len(self.window):
            self._step = FIRST_BLOCK
            self._load(end - self._step, end)
            inside = end - self.start
        at = self.window.rfind(b"\n", 0, inside)
        while at < 0 and self.start:
            self._step = min(self._step * 2, LARGEST_BLOCK)
            self._load(self.start - max(self._step, inside), end)
            inside = end - self.start
            at = self.window.rfind(b"\n", 0, inside)
        return self.start + at + 1, self.window[at + 1 : inside]

    def lines_before(self, end: int, size: int) -> tuple[int, bytes]:
        """The whole lines of the window that end before `end`, at most so many bytes of them.

        `end` is where a line starts. Returns their offset, and the lines with their LF.
        """
        inside = end - self.start
        if not 0 < inside <= len(self.window):
            return end, b""
        at = max(inside - size, 0)
        if at or self.start:
            at = self.window.find(b"\n", at, inside) + 1
        return self.start + at, self.window[at:inside]

    def before_alike(self, line: bytes, end: int) -> int:
        """The LF at or before `end` above the lines of the window that are all like this one.

        `end` is where a line ends. The first line of the window is not looked at.
        """
        unit = line + b"\n"
        inside = end + 1 - self.start
        if not 0 < inside <= len(self.window):
            return end
        step = len(unit)
        while step and inside >= step:
            block = self.window[inside - step : inside]
            if self.window[inside - step - 1 : inside - step] == b"\n" and block == unit * (
                step // len(unit)
            ):
                inside -= step
                step *= 2
            else:
                step = step // 2 // len(unit) * len(unit)
        return self.start + inside - 1

    def _load(self, start: int, end: int) -> None:
        self.start = max(0, start)
        self.window = self._read(self.start, end - self.start)

    def find(self, needle: bytes, end: int, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """The lines before `end` that hold `needle`, nearest first, and their offsets.

        The search ends with the block that holds the offset `start`.
        """
        lowest = max(start, 0)
        while end > lowest:
            at = self._last(needle, end, lowest)
            if at < 0:
                return
            stop = self._line_end(at + len(needle))
            offset, line = self.line_before(stop)
            self._found += 1
            if self._found > _FEW_LINES:
                self.searched += _COST_OF_A_LINE
            yield offset, line
            end = offset

    def _last(self, needle: bytes, end: int, lowest: int) -> int:
        """The offset of the last `needle` that ends before `end`, or -1.

        The window then has it, and reaches as far towards `end` as it was searched.
        """
        step = FIRST_BLOCK
        overlap = len(needle) - 1
        while end > lowest:
            if not self.start + overlap < end <= self.start + len(self.window):
                self._load(end - step - overlap, end)
                step = min(step * 2, LARGEST_BLOCK)
            at: int = stringzilla.rfind(self.window, needle, 0, end - self.start)
            self.searched += end - self.start - max(at, 0)
            if at >= 0:
                return self.start + at
            if self.start <= lowest:
                return -1
            end = self.start + overlap
        return -1

    def _line_end(self, offset: int) -> int:
        """The offset of the LF at or after `offset`, or of the end of the file."""
        at = self.window.find(b"\n", offset - self.start)
        return self.start + at if at >= 0 else offset + len(rest_of_line(self._read, offset))


def rest_of_line(read: Read, offset: int, limit: int = 1 << 62, *, step: int = _SMALL) -> bytes:
    """The bytes from `offset` to the next LF or the end of the file, or some past `limit`.

    `step` bytes are read first.
    """
    blocks: list[bytes] = []
    while limit > 0 and (block := read(offset, step)):
        limit -= len(block)
        at = block.find(b"\n")
        if at >= 0:
            blocks.append(block[:at])
            break
        blocks.append(block)
        offset += len(block)
        step = min(step * 4, LARGEST_BLOCK)
    return b"".join(blocks)


def lines_at(read: Read, offsets: Iterable[int]) -> Iterator[bytes]:
    """The lines that start at ascending offsets, without their LF.

    Lines near each other are read together.
    """
    window = b""
    start = 0
    step = _SMALL
    for offset in offsets:
        at = offset - start
        end = window.find(b"\n", at) if 0 <= at < len(window) else -1
        if end < 0:
            step = min(4 * step, FORWARD_BLOCK) if at <= 2 * len(window) else _SMALL
            window, start, at = read(offset, step), offset, 0
            end = window.find(b"\n")
        yield window[at:end] if end >= 0 else rest_of_line(read, offset)


def count_newlines(read: Read, start: int, end: int) -> int:
    """The newlines between two offsets."""
    count = 0
    while start < end and (block := read(start, min(LARGEST_BLOCK, end - start))):
        count += stringzilla.count(block, b"\n")
        start += len(block)
    return count


def whole_lines(read: Read, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines, each ended by LF, from `start` to `end`, and their offsets.

    A last line without its LF is left out: a writer may still be writing it.
    """
    rest: list[bytes] = []  # of a line that is longer than a block
    offset = start
    while start < end:
        block = read(start, min(FORWARD_BLOCK, end - start))
        if not block:
            return
        start += len(block)
        cut = block.rfind(b"\n") + 1
        if not cut:
            rest.append(block)
            continue
        yield offset, b"".join([*rest, memoryview(block)[:cut]])
        rest = [block[cut:]]
        offset = start - len(block) + cut


MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""How a Zstandard frame starts."""

LARGEST_RATIO: Final = 100
ALWAYS_UNPACKED: Final = 16 * 1024 * 1024

_FIRST_STEP: Final = 4 * 1024
_STEP: Final = 64 * 1024
"""Compressed bytes read at once: few at first, because often only the start is needed."""


class Positioned(Protocol):
    """A file that is read by position, such as a `FileLog`."""

    @property
    def name(self) -> str: ...

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end."""

    def size(self) -> int: ...


class Decompressed:
    """The content of a compressed file; `cause` says why it ends early, if it does."""

    def __init__(self, file: Positioned) -> None:
        self._file = file
        self.name = file.name
        from sessiontree.storage.zstandard import decoder_for  # few files are compressed

        self._new_decoder = decoder_for(file.name)
        self.cause = ""
        self._size = -1
        self._limit = max(ALWAYS_UNPACKED, LARGEST_RATIO * file.size())
        self._start_over()

    def _start_over(self) -> None:
        self._decoder: Any = self._new_decoder()
        self._in = 0
        self._out = 0
        self._has_failed = False
        self._is_inside = False
        self._start = 0
        self._window = bytearray()

    def size(self) -> int:
        """The size of the content, as far as it can be read."""
        if self._size < 0:
            while block := self.next_block():
                self._start += len(block)
            self._size = self._start
            self._start_over()
        return self._size

    def head(self, size: int) -> bytes:
        """Up to `size` bytes of the start; NotASessionError if nothing can be read."""
        start = self.read(0, size)
        if not start and self.cause:
            raise NotASessionError(
                f"{self.name} cannot be read: {self.cause}, and nothing "
                "is before that; copy it again from its origin",
                self.name,
            )
        return start

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`, fewer only at the end."""
        if offset < self._start:
            self._start_over()
        window = self._window
        while self._start + len(window) < offset + size:
            block = self.next_block()
            if not block:
                break
            window += block
            passed = min(offset - self._start, len(window))
            if passed > 0:
                del window[:passed]
                self._start += passed
        at = offset - self._start
        return bytes(window[at : at + size])

    def next_block(self) -> bytes:
        """The bytes of content that follow those read so far; empty at the end."""
        while True:
            block = self._file.read(self._in, min(max(self._in, _FIRST_STEP), _STEP))
            if not block:
                if self._is_inside:
                    self.cause = "the compressed file ends early"
                return b""
            self._in += len(block)
            out = self._through(block)
            if out or self._has_failed:
                return out

    def _through(self, block: bytes) -> bytes:
        """A block decompressed; a frame may end in it, and the next begin.

        Raises:
            StorageError: the file unpacks to more than the limit.
        """
        from sessiontree.storage.zstandard import FED  # as above

        parts: list[bytes] = []
        try:
            for start in range(0, len(block), FED):
                fed = block[start : start + FED]
                while fed:
                    parts.append(self._decoder.decompress(fed))
                    self._check_limit(len(parts[-1]))
                    self._is_inside = not self._decoder.eof
                    fed = self._decoder.unused_data if self._decoder.eof else b""
                    if self._decoder.eof:
                        self._decoder = self._new_decoder()
        except (MemoryError, StorageError):
            raise
        except Exception as error:  # each decoder raises its own kind
            self.cause = f"the compressed file is damaged near its byte {self._in}: {error}"
            self._in = self._file.size()
            self._has_failed = True
            self._is_inside = False
        return b"".join(parts)

    def _check_limit(self, more: int) -> None:
        self._out += more
        if self._out > self._limit:
            raise StorageError(
                f"{self.name} is not read: it unpacks to more than {self._limit:,} bytes, which is "
                f"the limit for its size ({LARGEST_RATIO} times the size, at least "
                f"{ALWAYS_UNPACKED:,} bytes); if you trust it, unpack it with 'zstd -d' and read "
                "the result, which has no limit",
                self.name,
            )


_LONGEST: Final = 256 * 1024
"""Bytes of a first line; a longer one is not read."""


def ends_of(path: str, most: int) -> Excerpt | None:
    """The first line of a file and at most so many bytes of whole lines at its end.

    There is no other file beside them, and they do not grow. None for a file that has little more,
    that is compressed, or that cannot be read.
    """
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < 2 * most:
                return None
            file.seek(0)
            first = file.read(_LONGEST)
            end = first.find(b"\n") + 1
            file.seek(size - most)
            start = file.tell() + len(file.readline())
    except OSError:  # opening the session reports it
        return None
    if not end or first.startswith(MAGIC) or start >= size:
        return None
    return Excerpt(path, end, start, size, is_alone=True)


class Excerpt(Disk):
    """The disk, on which one file lacks what is between two places.

    Args:
        path: the file.
        end: where its first part ends.
        start: where its last part starts; None: it has none.
        until: where its last part ends; None: where the file ends, also when it grows.
        is_alone: whether there is no other file, such as the transcript of a subagent.
    """

    def __init__(
        self,
        path: str,
        end: int,
        start: int | None = None,
        until: int | None = None,
        *,
        is_alone: bool = False,
    ) -> None:
        self._path = os.path.realpath(path)
        self._end, self._start, self._until = end, start, until
        self._is_alone = is_alone
        self.lacks_lines = start is not None
        self._open: set[int] = set()

    def open(self, path: str, flags: int) -> int:
        is_it = self._is_at(path)
        if self._is_alone and not is_it:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        fd = super().open(path, flags)
        if is_it:
            self._open.add(fd)
        return fd

    def close(self, fd: int) -> None:
        self._open.discard(fd)
        super().close(fd)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        if fd not in self._open:
            return super().read(fd, size, offset)
        first = max(0, min(size, self._end - offset))
        found = super().read(fd, first, offset) if first else b""
        if self._start is None or first == size:
            return found
        at = self._start + offset + first - self._end
        rest = size - first if self._until is None else max(0, min(size - first, self._until - at))
        return found + super().read(fd, rest, at) if rest else found

    def size(self, fd: int) -> int:
        found = super().size(fd)
        return self._sized(found) if fd in self._open else found

    def stat(self, file: int | str) -> Stat:
        found = super().stat(file)
        is_it = file in self._open if isinstance(file, int) else self._is_at(file)
        return replace(found, size=self._sized(found.size)) if is_it else found

    def _sized(self, size: int) -> int:
        whole = size if self._until is None else min(size, self._until)
        rest = 0 if self._start is None else max(0, whole - self._start)
        return min(size, self._end) + rest

    def _is_at(self, path: str) -> bool:
        return os.path.realpath(path) == self._path
