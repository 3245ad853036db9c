"""Home directories: those that look like one, and those that are known.

Invariants: those of `redact.secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sessiontree.redact.rule import Rule

HOME: Final = "home-directory"

_AT_START: Final = (
    r"(?:(?<![\w.~%-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=-[ILF]))"
)
_FOLDER: Final = r"(?:(?<![\w-])|(?<=\\[nrtbf]))"
_SLASH: Final = r"(?:\\{0,4}/|\\{1,4}|%2[Ff]|%5[Cc])"
_USER: Final = r"(?!(?:Shared|Public|linuxbrew)\b)\w(?:[\w-]|\.(?=\w))*"
_HOME: Final = (
    rf"{_AT_START}(?:{_SLASH}(?:mnt|host_mnt|cygdrive){_SLASH}[a-z]|{_SLASH}(?:var|export|[a-z]))?"
    rf"{_SLASH}(?:home|Users){_SLASH}{_USER}"
    rf"|{_AT_START}[A-Za-z](?::|%3[Aa]){_SLASH}(?:Users|Documents and Settings){_SLASH}"
    rf"""(?:(?!(?:Public|Default)\b)[^\\/:*?"<>|\r\n%]{{1,64}}(?=[\\/])|{_USER})"""
    rf"|{_FOLDER}-(?:home|Users)-[^\W_]++(?=-)"
)

ANY_HOME: Final = Rule.of(
    HOME,
    "home directories: /home/NAME, /Users/NAME, C:\\Users\\NAME, -Users-NAME-",
    _HOME,
    *("home", "users", "documents and settings"),
    stand_in="~",
    finder="home|users|documents and settings",
    reach=30,
)
"""What looks like a home directory."""


def home_rule(homes: Iterable[str]) -> Rule | None:
    """A rule for home directories that are known, as they are and as folder names have them."""
    known = sorted({home for path in homes if len(home := path.rstrip("/\\")) > 1}, reverse=True)
    if not known:
        return None
    folders = [re.sub(r"[^A-Za-z0-9]", "-", home) for home in known if home.count("/") > 1]
    pattern = rf"(?:{_any_of(known)})(?![\w-])"
    if folders:
        pattern += rf"|(?P<folder>{_any_of(folders)})(?![A-Za-z0-9])"
    hints = tuple(text.lower() for text in (*known, *folders))
    return Rule(HOME, "", re.compile(pattern), hints, _starts_well, "~")


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(map(re.escape, texts))


def _starts_well(match: re.Match[str]) -> bool:
    start = _FOLDER_START if match[0].startswith("-") else _PATH_START
    return start.match(match.string, match.start()) is not None


_PATH_START: Final = re.compile(_AT_START)
_FOLDER_START: Final = re.compile(_FOLDER)


def homes_in(path: str) -> list[str]:
    """The home directories that a path is in."""
    found = re.match(rf"/(?:home|Users)/{_USER}", path)
    return [found[0]] if found else []
