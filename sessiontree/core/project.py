"""The name of a project's folder, and the id in the name of a session's file.

The name of a folder is the working directory of the project, encoded.

`/home/me/my-app` is `+home+me+my-app`. A `+`, `%` or `~` in a path, and each character that is not
printable, is percent-encoded by its bytes. A name that some file systems could confuse with another
(capitals, letters beyond ASCII) ends in `~` and eight hex digits of the path's SHA-256. A name that
would be too long is its end, `~` and all 64 digits.

Invariants: two directories never share a name; a name is at most 200 bytes and starts with `+` or,
on systems with drives, a letter; a name that is not cut gives its directory back.
"""

from __future__ import annotations

import os
import re
from typing import Final

LONGEST: Final = 200  # bytes; file systems allow 255, and some that encrypt names 143 characters
_SEPARATOR: Final = "+"
_MARK: Final = "~"
_ESCAPED: Final = frozenset('+%~<>:"|?*\\')  # a meaning in a name, or refused by a file system
_ESCAPE: Final = re.compile(rb"%([0-9a-f]{2})")
_WITH_MARK: Final = re.compile(r"(.*)~[0-9a-f]{8}", re.DOTALL)


def folder_name(directory: str) -> str:
    """The name of the folder with the sessions of a directory, given as an absolute plain path."""
    name = encoded(directory)
    if len(name.encode()) + 9 > LONGEST:
        digest = _sha256(directory)
        return _end_of(name, LONGEST - 1 - len(digest)) + _MARK + digest
    if name != name.lower() or not name.isascii():
        return name + _MARK + _sha256(directory)[:8]
    return name


_CUT: Final = re.compile(r"\+.*~[0-9a-f]{64}", re.DOTALL)


def is_folder_name(name: str) -> bool:
    """Whether a name is that of the folder of some directory, cut or not."""
    return directory_of(name) is not None or bool(_CUT.fullmatch(name))


_LONGEST_ID: Final = 150  # bytes
_OWN_NAME: Final = re.compile(r"\d{4}(?:-\d\d){2}T\d\d(?:-\d\d){2}-\d{3}Z_([^/\n]+)\.jsonl")
"""The name of a file that a store made for a session."""


def id_in_name(id: str) -> str:
    """An id as the name of its session's file has it."""
    name = encoded(id)
    if len(name.encode()) <= _LONGEST_ID:
        return name
    return folder_name(os.sep + id)[-_LONGEST_ID:]


def id_of_name(file: str) -> str | None:
    """The id in the name of a file that a store made; None for a file of another name."""
    found = _OWN_NAME.fullmatch(os.path.basename(file))
    return found[1] if found else None


def _sha256(directory: str) -> str:
    import hashlib  # slow to load, and few commands need it

    return hashlib.sha256(os.fsencode(directory)).hexdigest()


def directory_of(name: str) -> str | None:
    """The directory of a folder's name; None where the name does not give all of it."""
    found = _WITH_MARK.fullmatch(name)
    directory = _decoded(found[1] if found else name)
    return directory if os.path.isabs(directory) and folder_name(directory) == name else None


def encoded(text: str) -> str:
    """Text as a part of a file name: readable, and never the same for two texts."""
    return "".join(map(_encoded, text))


def _encoded(character: str) -> str:
    if character == os.sep:
        return _SEPARATOR
    if character.isprintable() and character not in _ESCAPED:
        return character
    return "".join(f"%{byte:02x}" for byte in os.fsencode(character))


def _decoded(name: str) -> str:
    path = name.replace(_SEPARATOR, os.sep).encode("utf-8", "surrogateescape")
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), path))


def _end_of(name: str, size: int) -> str:
    end = name.encode()[1 - size :].decode("utf-8", "ignore")
    return _SEPARATOR + end.lstrip(_SEPARATOR)
