"""A file compressed by Zstandard (RFC 8878), read as its decompressed content.

Reading continues where the last read ended; a read further back starts over. Only the
bytes of one read are kept, so a file of any size costs the memory of one read. A file that
ends early, or is damaged, gives the content before the damage.

Invariants: a file unpacks to at most `LARGEST_RATIO` times its size, or `ALWAYS_UNPACKED` bytes
if that is more; beyond it is an error, for a few kilobytes can hold gigabytes. One step unpacks
at most 16 MiB: 512 bytes of blocks that repeat one byte, each 4 bytes for 128 KiB (RFC 8878,
3.1.1.2).
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final, Protocol

from sessiontree.errors import DecoderMissingError, NotASessionError, StorageError

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""How a Zstandard frame starts."""

LARGEST_RATIO: Final = 100
ALWAYS_UNPACKED: Final = 16 * 1024 * 1024

_FED: Final = 512
"""Compressed bytes that are unpacked in one step."""

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
        self._new_decoder = _decoder(file.name)
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
        parts: list[bytes] = []
        try:
            for start in range(0, len(block), _FED):
                fed = block[start : start + _FED]
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


def _decoder(path: str) -> Any:
    """A function that makes decoders, of Python 3.14 or else of the package `zstandard`."""
    try:
        if sys.version_info >= (3, 14):
            return importlib.import_module("compression.zstd").ZstdDecompressor
        package = importlib.import_module("zstandard")
    except ImportError as error:
        message = (
            f"{path} is compressed by Zstandard, and there is no decoder for it; "
            "install it with pip install 'sessiontree[zstd]'"
        )
        raise DecoderMissingError(message, path) from error
    return lambda: package.ZstdDecompressor().decompressobj()
