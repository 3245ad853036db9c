"""Rules for home directories, whose names are names of people."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sessiontree.redact.rule import Rule

HOME: Final = "home-directory"

_ACCOUNTS: Final = (
    *("Shared", "Public", "linuxbrew", "runner", "runneradmin", "codespace", "vscode", "gitpod"),
    *("circleci", "vagrant", "jenkins", "ec2-user", "azureuser", "node", "jovyan", "www-data"),
)
"""Accounts of machines and images, which name nobody."""

# No backslash: a slash behind it is the end of `\\/`, whose start decides.
_AT_START: Final = (
    r"(?:(?<![\w.~%\\-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=-[ILF]))"
)
_FOLDER: Final = r"(?:(?<![\w-])|(?<=\\[nrtbf]))"
_SLASH: Final = r"(?:\\{0,16}/|\\{1,16}|%2[Ff]|%5[Cc])"
_USER: Final = rf"(?!(?:{'|'.join(_ACCOUNTS)})(?![\w-]))\w(?:[\w-]|\.(?=\w))*"
_HOME: Final = (
    rf"{_AT_START}(?:{_SLASH}(?:mnt|host_mnt|cygdrive){_SLASH}[a-z]|{_SLASH}(?:var|export|[a-z]))?"
    rf"{_SLASH}(?:home|Users){_SLASH}{_USER}"
    rf"|{_AT_START}[A-Za-z](?::|%3[Aa]){_SLASH}(?:Users|Documents and Settings){_SLASH}"
    rf"""(?:(?!(?:Public|Default|{"|".join(_ACCOUNTS)})(?![\w-]))"""
    rf"""[^\\/:*?"<>|\r\n%]{{1,64}}(?=[\\/])|{_USER})"""
    rf"|{_FOLDER}-(?:home|Users)-(?!(?:{'|'.join(_ACCOUNTS)})-)[^\W_]++(?=-)"
)

ANY_HOME: Final = Rule(
    HOME,
    "home directories: /home/NAME, /Users/NAME, C:\\Users\\NAME, -Users-NAME-",
    re.compile(_HOME),
    ("home", "users", "documents and settings"),
    stand_in="~",
    finder=re.compile("home|users|documents and settings"),
    reach=54,
)


def home_rule(homes: Iterable[str]) -> Rule | None:
    """A rule for known home directories, as paths and as in folder names."""
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
    start = re.compile(_FOLDER if match[0].startswith("-") else _AT_START)
    return start.match(match.string, match.start()) is not None


def homes_in(path: str) -> list[str]:
    """The home directories that a path is in."""
    found = re.match(rf"/(?:home|Users)/{_USER}", path)
    return [found[0]] if found else []
