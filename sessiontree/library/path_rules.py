"""The user's rules for paths of other machines, in a file of the user.

A session that was synced or copied from another machine names that machine's folders. A rule says
which folder here each one is, with everything below it.

Invariant: a session file is never touched.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Final

import msgspec

from sessiontree.core.paths import PathRule, PathRules
from sessiontree.errors import StorageError
from sessiontree.library.root import data_folder
from sessiontree.storage.atomic import swap_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import make_folders


def path_rules() -> PathRules:
    """The rules of this user; none if their file cannot be read."""
    file = _file()
    try:
        changed = os.stat(file).st_mtime_ns
        if _read.get(file, (-1, _NONE))[0] != changed:
            _read[file] = changed, _stored(file)
    except (OSError, StorageError):
        return _NONE
    return _read[file][1]


def change_path_rules(old: str, new: str | None) -> PathRules:
    """Add a rule, or remove the one for a path if `new` is None; return the rules.

    Raises:
        UsageError, NothingToDoError: see `PathRules`.
        StorageError: the file of the rules cannot be read or written.
    """
    if new is None:
        return _changed(lambda rules: rules.without_rule(old))
    return _changed(lambda rules: rules.with_rule(old, new))


def move_folder(old: str, new: str) -> PathRules:
    """Add a rule for a folder here that got another path; return the rules.

    Raises as `change_path_rules` does.
    """
    return _changed(lambda rules: rules.with_folder_moved(old, new))


def _changed(change: Callable[[PathRules], PathRules]) -> PathRules:
    file = _file()
    rules = change(_stored(file) if os.path.lexists(file) else _NONE)
    make_folders(DISK, os.path.dirname(file))
    lines = (msgspec.json.encode(rule) + b"\n" for rule in rules.rules)
    swap_file(DISK, file, lines)
    _read.pop(file, None)
    return rules


def _stored(file: str) -> PathRules:
    try:
        with open(file, "rb") as opened:
            lines = opened.read().splitlines()
        return PathRules([_decode(line) for line in lines if line])
    except OSError as error:
        raise StorageError(f"{file} cannot be read: {error.strerror}", file) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StorageError(f"{file} is not a list of rules: {error}; remove it", file) from error


def _file() -> str:
    return _file_of(os.environ.get("XDG_DATA_HOME"), os.environ.get("HOME"))


@cache
def _file_of(*named: str | None) -> str:
    """The file in the folder that some variables name; a list asks for it at each session."""
    return os.path.join(data_folder(), ".paths")


_decode: Final = msgspec.json.Decoder(PathRule).decode
_NONE: Final = PathRules()
_read: Final[dict[str, tuple[int, PathRules]]] = {}
"""By the path of the file its time and the rules."""
