"""The folder of sessions that a command is about, and what it could not read there."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta

import click

from sessiontree.cli import printing
from sessiontree.errors import FileMissingError, RefError
from sessiontree.storage.files import unreadable
from sessiontree.store import Store

HOME_VARIABLE = "SESSIONTREE_HOME"
"""The environment variable that names the folder of sessions; empty is unset."""


def store_at(folder: str | None) -> Store:
    """The store in a folder, by default where this user's sessions are.

    Raises:
        FileMissingError: a folder was named that is not there.
    """
    if folder is None:
        home = os.path.expanduser(os.environ.get(HOME_VARIABLE) or "")
        if os.path.isfile(home):
            raise FileMissingError(f"{HOME_VARIABLE} is {home}, a file, and names no folder", home)
        return Store(home or None)
    if os.path.isfile(folder):
        raise FileMissingError(f"{folder} is a file, and no folder of sessions", folder)
    if not os.path.isdir(folder):
        _check_seen(folder)
        raise FileMissingError(f"there is no folder {folder}; check the path", folder)
    return Store(folder)


def _check_seen(folder: str) -> None:
    """Refuse a folder of which the system will not say whether it is there."""
    try:
        os.stat(folder)
    except PermissionError as error:
        raise unreadable(folder, error) from error
    except OSError:
        pass


def file_named(name: str) -> str:
    """The file of the session that a name, an id or `latest` names where sessions are kept.

    Raises:
        FileMissingError: there is none of it.
        RefError: there is more than one.
    """
    problems = Problems()
    try:
        return store_at(None).find(name, report=problems).file
    except RefError as error:
        if error.candidates:
            raise
        problems.tell()
        raise FileMissingError(f"there is no file {name}, and {error}", name) from error


class Problems:
    """What could not be read, told at the end so that it stands below what could."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def __call__(self, problem: str) -> None:
        self._found.append(problem)

    def tell(self) -> None:
        """Tell them, a line each, the first of them where there are many."""
        printing.tell_each("Left out", self._found)


def moment_given(ctx: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """The time that an option names: a date, a date and time, or how long ago."""
    if text is None:
        return None
    ago = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    try:
        if ago:
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise click.BadParameter(
            "no time; give a date such as 2026-01-31, a date and time, or 30m, 12h, 7d, 2w ago",
            ctx,
            option,
        ) from None


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
