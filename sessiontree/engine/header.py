"""Where the header of a file is: its first line that is not blank, or the start of that line."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from sessiontree.core.header import check_header, is_version_1
from sessiontree.errors import NotASessionError
from sessiontree.storage.lines import rest_of_line
from sessiontree.storage.zstd import Positioned

BLANK: Final = b"\0\r\t \xef\xbb\xbf"
"""The bytes of a blank line."""

_START: Final = 4096
_BLOCK: Final = 64 * 1024
_LONGEST: Final = 64 * 1024 * 1024


class HeaderLine(NamedTuple):
    """The header of a file; it `shares_line` if its line goes on behind it."""

    line: bytes
    offset: int
    keys: dict[str, Any]
    shares_line: bool


def find_header(file: Positioned, head: bytes = b"") -> HeaderLine:
    """Find the header of a file, of which `head` is the start.

    Raises:
        NotASessionError, ForeignFormatError, NewerFormatError: there is none.
    """
    offset, number = 0, 1
    while offset < len(head) or offset < file.size():
        if offset >= len(head):
            blank, lines = _blank_lines(file, offset)
            offset, number = offset + blank, number + lines
            if offset >= file.size():
                break
        end = head.find(b"\n", offset)
        line = head[offset:end] if end >= 0 else _long_line(file, offset)
        if line.strip(BLANK):
            place = f"line {number} (byte {offset})"
            try:
                return HeaderLine(line, offset, check_header(line, file.name, place), False)
            except NotASessionError as error:
                return _first_of_line(line, offset, file.name, place, error)
        offset += len(line) + 1
        number += 1
    if not offset:
        raise NotASessionError(
            f"{file.name} is not a session: it is empty; a program may not have written to it yet",
            file.name,
        )
    raise NotASessionError(
        f"{file.name} is not a session: it holds no entry; make one with 'new'", file.name
    )


def _blank_lines(file: Positioned, offset: int) -> tuple[int, int]:
    """The bytes of the blank lines that start at an offset, and how many they are."""
    block = file.read(offset, _BLOCK)
    end = len(block) - len(block.lstrip(BLANK + b"\n"))
    end = block.rfind(b"\n", 0, end) + 1
    return end, block.count(b"\n", 0, end)


def _long_line(file: Positioned, offset: int) -> bytes:
    start = file.read(offset, _START)
    if start.strip(BLANK + b"\n")[:1] not in (b"{", b""):  # binary, maybe without any newline
        return start.partition(b"\n")[0]
    return rest_of_line(file.read, offset, _LONGEST)


def _first_of_line(
    line: bytes, offset: int, file: str, place: str, error: NotASessionError
) -> HeaderLine:
    """The header that shares its line with something else; raises `error` if there is none."""
    if not line.strip(BLANK).startswith(b"{"):
        raise error
    from sessiontree.core.salvage import take_apart  # few headers share their line

    first = next(iter(take_apart(line).pieces), line)
    keys = check_header(first, file, place)
    if not is_version_1(keys):
        return HeaderLine(first, offset, keys, True)
    raise NotASessionError(
        f"{file}: {place} holds a header of version 1 and more behind it; "
        "put the header on a line of its own and open it again",
        file,
    ) from error
