"""Converting: a session as a file that another program opens.

The source is any session that can be opened, and is not changed. Every entry is either
said in the target's own way, or named among the losses, with how often and where first;
what had to be replaced by a placeholder is among the warnings. The same session always
gives the same bytes. New files are made whole or not at all, and never over another;
those beside the main one come first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final, Protocol

import msgspec

from sessiontree.engine.surveyor import Surveyor
from sessiontree.errors import CallerError, NothingToDoError
from sessiontree.formats.writing import Loss
from sessiontree.operations.source import Source
from sessiontree.operations.written import Beside, write

TARGETS: Final = ("pi", "claude-code", "atif")


class Target(Protocol):
    """A session put in another program's words.

    Attributes:
        default_name: the name that its program would give to the file.
    """

    @property
    def default_name(self) -> str: ...

    def beside(self, stem: str) -> list[Beside]:
        """The files that belong beside it; `stem` is its path without the suffix."""
        ...

    def blocks(self) -> Iterator[bytes]:
        """The bytes of the file, taken once, after `beside`."""
        ...


class Conversion(msgspec.Struct, frozen=True):
    """A session that was converted.

    Attributes:
        file: the file made.
        to: the target.
        beside: the other files that were made, those that it needs beside it.
        losses: what the target does not say, or says in another way.
        warnings: what could not be had as it was, such as a missing blob.
    """

    file: str
    to: str
    beside: list[str]
    losses: list[Loss]
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """The shape that `convert --json` prints."""
        return {
            "file": self.file,
            "to": self.to,
            "beside": self.beside,
            "notExpressed": [msgspec.structs.asdict(loss) for loss in self.losses],
            "warnings": self.warnings,
        }


def convert(session: Surveyor, to: str, file: os.PathLike[str] | str | None = None) -> Conversion:
    """See `Session.convert`."""
    given = None if file is None else _path(file)
    source = _checked(session, to)
    target = _target(source, to)
    path = target.default_name if given is None else given
    stem = os.path.splitext(path)[0]
    beside = target.beside(stem)
    if stem == path and beside and to == "claude-code":
        raise CallerError(
            f"{path} needs a folder of its name beside it; give a name that ends in .jsonl"
        )
    write(session._disk, path, target.blocks(), beside)
    made = [name for name, _ in beside]
    return Conversion(path, to, made, source.losses.found(), source.warnings)


def _path(file: object) -> str:
    if isinstance(file, os.PathLike):
        file = os.fspath(file)
    if isinstance(file, str):
        return file
    raise CallerError(f"the file to make is named by a string or a Path, not by {file!r:.60}")


def converted(session: Surveyor, to: str) -> tuple[Iterator[bytes], Source]:
    """The bytes of the file alone, for a pipe.

    Returns:
        Its blocks, and the source, which knows the losses when they have been taken.

    Raises:
        CallerError: it needs files beside it.
    """
    source = _checked(session, to)
    target = _target(source, to)
    if target.beside(""):
        raise CallerError(
            f"{session.file or 'the session'} takes more than one file as {to}; give a file to make"
        )
    return target.blocks(), source


def _checked(session: Surveyor, to: str) -> Source:
    if to not in TARGETS:
        raise CallerError(f"there is no target {to!r}; give one of {', '.join(TARGETS)}")
    if len(session._index()) < 2:
        raise NothingToDoError(
            f"{session.file or 'the session'} holds nothing to convert yet; append to it first"
        )
    return Source(session)


def _target(source: Source, to: str) -> Target:
    """A converter, imported when it is asked for."""
    if to == "pi":
        from sessiontree.formats.pi.writer import PiTree

        return PiTree(source)
    if to == "claude-code":
        from sessiontree.formats.claude_code.writer import ClaudeCodeFiles

        return ClaudeCodeFiles(source)
    from sessiontree.formats.atif import AtifDocument

    return AtifDocument(source)
