"""Errors of the operating system as errors that name the file and the next step."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Final

from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
)

_STEPS: Final = {
    errno.EACCES: "check the permissions of the file and its folder",
    errno.EPERM: "check the permissions of the file and its folder",
    errno.EROFS: "the medium is read-only; open it with readonly=True, or copy the file",
    errno.ENOSPC: "the disk is full; make space and try again",
    errno.EDQUOT: "the quota is used up; make space and try again",
    errno.ENOTDIR: "a part of the path is a file, not a folder; move it away",
    errno.ENOENT: "the folder it belongs in is gone; put that back",
    errno.ELOOP: "the path is a circle of links",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def real_path(path: str) -> str:
    """The path without links in it.

    Raises:
        SessionNotFoundError: no file can have this name.
    """
    if not path or "\0" in path or not _can_be_encoded(path):
        raise SessionNotFoundError(f"{path!r} is not the name of a file; check the path", path)
    return os.path.realpath(path)


def _can_be_encoded(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # half a character
        return False
    return True


@contextlib.contextmanager
def os_errors(path: str, verb: str) -> Iterator[None]:
    """Raise errors of the system as typed errors; `verb` is what is done with the file."""
    try:
        yield
    except SessionTreeError:
        raise
    except FileNotFoundError as error:
        raise _not_found(path, verb) from error
    except FileExistsError as error:
        message = f"{path} is there already and was left as it is; choose another name"
        raise SessionExistsError(message, path) from error
    except OSError as error:
        raise _storage_error(path, verb, error) from error


@contextlib.contextmanager
def refused(verb: str, path: str) -> Iterator[None]:
    """Raise each error of the system as a plain `StorageError`, as for `os_errors`."""
    try:
        yield
    except SessionTreeError:
        raise
    except OSError as error:
        raise _storage_error(path, verb, error) from error


def _not_found(path: str, verb: str) -> SessionNotFoundError:
    folder = os.path.dirname(path) or "."
    if os.path.isdir(folder):
        return SessionNotFoundError(f"there is no file {path}; check the path", path)
    hint = "make it first" if verb == "make" else "check the path"
    return SessionNotFoundError(f"cannot {verb} {path}: there is no folder {folder}; {hint}", path)


def _storage_error(path: str, verb: str, error: OSError) -> StorageError:
    step = _STEPS.get(error.errno or 0, "check the path and the medium")
    return StorageError(f"cannot {verb} {path}: {error.strerror or error}; {step}", path)
