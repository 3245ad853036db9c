"""Files below a root, and nothing outside of it.

The way down is opened part by part, each below the one before and without
following links; a link is followed by hand, as far as it stays below the root. So
whatever is renamed or replaced meanwhile, what is opened was reached from the root.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import Final, NoReturn

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.core.media import media_type_of
from sessiontree.errors import TargetMissingError, TargetRefusedError
from sessiontree.handles.registry import Scope
from sessiontree.handles.schema import HandleSchema, MetaField

LARGEST: Final = 64 * 1024 * 1024
"""Bytes of a file that is read; the default."""

_MOST_LINKS: Final = 40

SCHEMA: Final = HandleSchema(
    plugin="file",
    method="path",
    versions="1.x",
    meta=[
        MetaField(
            "path",
            pattern=r"(?s:(?!/)(?!(.*/)?\.\.(/|\Z)).+)",
            form="a relative path without '..'",
        )
    ],
    kind="binary",
    resolves_to="the bytes of the file now below the root, with a media type by its content",
)


class FileResolver:
    """Resolves `file@1.0.0::path:<relative path>`, below the root of the scope."""

    schemas = (SCHEMA,)

    def __init__(self, largest: int = LARGEST) -> None:
        """A resolver of files of up to `largest` bytes."""
        self._largest = largest

    def resolve(self, handle: Handle, scope: Scope) -> ResolvedHandle:
        """The content of the file, whole.

        Raises:
            TargetRefusedError: it is outside the root, no regular file, or too large.
            TargetMissingError: it is not there, or may not be read.
        """
        try:
            content = _Below(handle, scope.root, self._largest).read()
        except OSError as error:
            raise TargetMissingError(
                f"cannot read {handle} below {scope.root}: {error.strerror or error}", str(handle)
            ) from error
        return ResolvedHandle(handle, "binary", content, media_type_of(content))


class _Below:
    """One way down from a root, by descriptors."""

    def __init__(self, handle: Handle, root: str, largest: int) -> None:
        self._handle = handle
        self._root = root
        self._largest = largest
        self._links = 0

    def read(self) -> bytes:
        path = self._handle.meta[0]
        if path.startswith("/") or ".." in path.split("/") or "\0" in path:
            self._refuse("is no path below a root")
        with contextlib.ExitStack() as opened:
            return self._content(self._last(_parts(path), opened))

    def _last(self, waiting: list[str], opened: contextlib.ExitStack) -> int:
        """The file at the end of a way, its parts given last first."""
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, root)
        folders = [root]
        while waiting:
            part = waiting.pop()
            if part == "..":  # of a link: up from where the link led, never by name
                folders.pop()
                if not folders:
                    self._refuse("leads out of the root by a link")
                continue
            found = os.stat(part, dir_fd=folders[-1], follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                waiting.extend(self._followed(part, folders))
                continue
            if not waiting:
                self._check(found)
            elif not stat.S_ISDIR(found.st_mode):
                raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            below = _open(part, folders[-1])
            opened.callback(os.close, below)
            folders.append(below)
        return folders[-1]

    def _followed(self, link: str, folders: list[int]) -> list[str]:
        """The parts that a link stands for, last first; one from the top starts over."""
        self._links += 1
        if self._links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        target = os.readlink(link, dir_fd=folders[-1])
        if target.startswith("/"):
            root = os.path.realpath(self._root)
            if not (target + "/").startswith(root.rstrip("/") + "/"):
                self._refuse("leads out of the root by a link")
            target = target[len(root) :]
            del folders[1:]
        return _parts(target)

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            self._refuse("is a folder")
        if not stat.S_ISREG(found.st_mode):
            self._refuse("is a device, a pipe or a socket, not a file")
        if found.st_size > self._largest:
            self._refuse(f"has {found.st_size:,} bytes, and {self._largest:,} are allowed")

    def _content(self, fd: int) -> bytes:
        self._check(os.fstat(fd))  # what was opened may not be what was looked at
        with open(fd, "rb", closefd=False) as file:
            content = file.read(self._largest + 1)
        if len(content) > self._largest:
            self._refuse(f"grew beyond {self._largest:,} bytes while it was read")
        return content

    def _refuse(self, why: str) -> NoReturn:
        raise TargetRefusedError(f"{self._handle} {why}; it was not read", str(self._handle))


def _open(part: str, folder: int) -> int:
    """A descriptor of what stands in a folder, never of what a link there leads to."""
    return os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)


def _parts(path: str) -> list[str]:
    """The parts of a path that lead somewhere, last first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
