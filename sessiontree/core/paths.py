"""Paths of other machines, and the rules that map them to folders here.

Invariants: of several rules the one with the longest path counts, and only whole names of a path
match. No path is mapped twice.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from sessiontree.errors import NothingToDoError, UsageError

_WINDOWS: Final = re.compile(r"[A-Za-z]:[\\/]|\\\\")


class PathRule(msgspec.Struct, frozen=True):
    """A folder of another machine, and the folder here that it is."""

    old: str
    new: str


class PathRules:
    """Some rules, to map paths by."""

    def __init__(self, rules: Sequence[PathRule] = ()) -> None:
        self.rules = tuple(rules)
        self._names = sorted(
            ((_names(rule.old), rule.new) for rule in rules),
            key=lambda each: len(each[0].compared),
            reverse=True,
        )

    def here(self, path: str) -> str:
        """The path on this machine; the same path if no rule maps it."""
        if not self._names or not is_whole(path):
            return path
        names = _names(path)
        for old, new in self._names:
            if names.starts_with(old):
                return os.path.join(new, *names.written[len(old.written) :])
        return path

    def there(self, path: str) -> list[str]:
        """The paths of other machines that are a path here."""
        names = _names(path)
        return [
            _joined(rule.old, names.written[len(new.written) :])
            for rule in self.rules
            if names.starts_with(new := _names(rule.new))
        ]

    def with_rule(self, old: str, new: str) -> PathRules:
        """The rules with one more, which replaces the one for the same path.

        Raises:
            UsageError: the old path is not a folder's whole path, or a path would be mapped twice.
        """
        added = PathRule(old, new)
        if not is_whole(old) or not _names(old).compared:
            raise UsageError(
                f"{old!r:.200} is not the whole path of a folder; give one such as "
                r"/Users/me/work or C:\Users\me\work"
            )
        others = self._without(old)
        for one in (*others, added):
            for other in (*others, added):
                if _names(one.new).starts_with(_names(other.old)):
                    raise UsageError(_twice(one, other, added))
        return PathRules([*others, added])

    def without_rule(self, old: str) -> PathRules:
        """The rules without the one for a path.

        Raises:
            NothingToDoError: there is none.
        """
        kept = self._without(old)
        if len(kept) == len(self.rules):
            raise NothingToDoError(f"no rule maps {old:.200}; 'sessiontree map-path' lists them")
        return PathRules(kept)

    def with_folder_moved(self, old: str, new: str) -> PathRules:
        """The rules after a folder here got another path.

        Raises:
            UsageError: see `with_rule`.
        """
        move = PathRules([PathRule(old, new)])
        moved = [PathRule(rule.old, move.here(rule.new)) for rule in self.rules]
        kept = [rule for rule in moved if _names(rule.old).compared != _names(rule.new).compared]
        return PathRules(kept).with_rule(old, new)

    def _without(self, old: str) -> list[PathRule]:
        compared = _names(old).compared
        return [rule for rule in self.rules if _names(rule.old).compared != compared]


def is_whole(path: str) -> bool:
    """True if a path starts at a root, here or on Windows."""
    return path.startswith("/") or is_of_windows(path)


def is_of_windows(path: str) -> bool:
    """True if a path starts with a drive or a share of Windows."""
    return _WINDOWS.match(path) is not None


class _Names(NamedTuple):
    """The names in a path, as they are written and as they are compared."""

    written: tuple[str, ...]
    compared: tuple[str, ...]

    def starts_with(self, other: _Names) -> bool:
        return self.compared[: len(other.compared)] == other.compared


def _names(path: str) -> _Names:
    """The names in a path; Windows does not tell capitals from small letters."""
    windows = is_of_windows(path)
    parts = (path.replace("\\", "/") if windows else path).split("/")
    written = tuple(part for part in parts if part not in ("", "."))
    compared = tuple(part.casefold() for part in written) if windows else written
    return _Names(written, compared)


def _joined(folder: str, names: Sequence[str]) -> str:
    separator = "\\" if is_of_windows(folder) and "/" not in folder else "/"
    return separator.join([folder.rstrip("\\/"), *names])


def _twice(one: PathRule, other: PathRule, added: PathRule) -> str:
    if one is other:
        return f"{one.new} is {one.old} or below it; a path would be mapped again and again"
    known = other if one is added else one
    return (
        f"{one.new} is mapped again by the rule for {other.old}; remove the rule for {known.old} "
        "first, or name the last folder"
    )
