"""The file that is asked about: what the disk and its repository know of it, and its names.

A session names a file by its absolute path, by one below its working directory, by one in another
working tree of the same repository, or by the path of a place where the project was before: a
folder of the same name that is not there any more.

Invariant: nothing is changed, and a file of another name is never taken for this one.
"""

from __future__ import annotations

import os
import posixpath
from typing import Final

import msgspec

from sessiontree.catalog.git import Repository, Version, repository_of
from sessiontree.errors import StorageError, UsageError, with_step
from sessiontree.storage.files import unreadable

_LARGEST: Final = 64 * 1024 * 1024
"""The bytes of the largest file whose lines are told."""

MOST_NAMES: Final = 20
"""The names that a file had that are looked for."""

SECOND: Final = 0.999
"""What the time of a commit, in whole seconds, may lack."""

_BINARY_WITHIN: Final = 8000


class Target(msgspec.Struct):
    """A file that is asked about.

    Attributes:
        roots: the folders below which the file is: working trees of one repository, or one folder.
        paths: the paths of the file below them, now and before.
    """

    roots: tuple[str, ...]
    paths: list[str]

    @property
    def names(self) -> list[str]:
        """The last parts of its paths."""
        return list(dict.fromkeys(map(posixpath.basename, self.paths)))[:MOST_NAMES]

    def has(self, path: str) -> bool:
        """Whether a path of an event is one of the file."""
        return any(self._is(path, below) for below in self.paths)

    def _is(self, path: str, below: str) -> bool:
        if not path.endswith(below):
            return False
        if path == below or any(path == posixpath.join(root, below) for root in self.roots):
            return True
        root = path[: -len(below)].rstrip("/")
        if not path.endswith("/" + below) or not root:
            return False
        names = {posixpath.basename(known) for known in self.roots}
        if posixpath.basename(root) in names and not os.path.isdir(root):
            return True
        return os.path.realpath(root) in map(os.path.realpath, self.roots)


class KnownFile(msgspec.Struct):
    """A file, as the disk and its repository know it.

    Attributes:
        path: its absolute path.
        target: what sessions may call it.
        repository: the repository that it is in, or None.
        versions: its versions there, the oldest first, without contents.
    """

    path: str
    target: Target
    repository: Repository | None
    versions: list[Version]

    @property
    def below(self) -> str:
        """Its path below the top of its repository, or below its folder."""
        return self.target.paths[0]

    def versions_since(self, first: float) -> list[Version]:
        """The versions from the last before a time on, with their contents, the oldest first."""
        if self.repository is None:
            return []
        before = [version for version in self.versions if version.time + SECOND < first]
        return self.repository.with_texts([*before[-1:], *self.versions[len(before) :]])


def known_file(path: str) -> KnownFile:
    """What is known of a file, which need not be there.

    Raises:
        UsageError: it is a folder.
        UsageError, StorageError: git does not read the repository, or fails.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path):
        raise UsageError(f"{path} is a folder; name a file of text")
    repository = repository_of(path)
    if repository is None:
        folder, name = os.path.split(path)
        return KnownFile(path, Target((folder,), [name]), None, [])
    top = os.path.realpath(repository.top)
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    below = os.path.relpath(real, top)
    versions = repository.versions(below)
    paths = list(dict.fromkeys([below, *(version.path for version in reversed(versions))]))
    roots = tuple(dict.fromkeys([*repository.worktrees, top, _shown_top(path, below)]))
    return KnownFile(path, Target(roots, [each for each in paths if each]), repository, versions)


def _shown_top(path: str, below: str) -> str:
    """The top as the path spells it, which may have links in it."""
    return path[: -len(below)].rstrip("/") if path.endswith("/" + below) else os.path.dirname(path)


def read_text(path: str) -> str:
    """The content of a file of text.

    Raises:
        UsageError: it is a folder, is binary, or has more than 64 MiB.
        StorageError: it is not there, or cannot be read.
    """
    try:
        if not os.path.isfile(path):
            os.stat(path)
            raise UsageError(f"{path} is not a file; name a file of text")
        if os.path.getsize(path) > _LARGEST:
            raise UsageError(f"{path} has over 64 MiB; its lines are not told")
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        error = StorageError(f"there is no file {path}; check the path", path)
        raise with_step(error, "see history") from None
    except OSError as fault:
        raise unreadable(path, fault) from fault
    if b"\0" in content[:_BINARY_WITHIN]:
        raise UsageError(f"{path} is binary; name a file of text")
    return content.decode("utf-8", "replace")
