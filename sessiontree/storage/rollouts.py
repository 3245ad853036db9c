"""Codex's session files by their names, and those near one.

The names that users give to threads are in
`session_index.jsonl`, one line for each time that a name was given.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from sessiontree.agents.codex import FOLDERS
from sessiontree.agents.codex.names import Rollout, rollout_of
from sessiontree.storage.fs import FileSystem, Stat
from sessiontree.storage.names import INDEX, read_side_file

_DATE: Final = re.compile(r"\d{4}|\d\d")
_DEPTH: Final = 4
"""The folders from a file up to `sessions`, the last one included."""


def in_force(paths: Iterable[str]) -> Iterator[str]:
    """The paths, without those of segments that a newer one of the same thread replaces.

    The files of Codex come last, because the newest segment may be in a later folder.
    """
    threads: dict[str, list[Rollout]] = {}
    for path in paths:
        rollout = rollout_of(path)
        if rollout is None:
            yield path
        else:
            threads.setdefault(rollout.thread, []).append(rollout)
    for rollouts in threads.values():
        newest = max(rollout.segment for rollout in rollouts)
        yield from (rollout.path for rollout in rollouts if rollout.segment == newest)


def home_of(path: str) -> str | None:
    """The folder of Codex that has a file in its `sessions` or `archived_sessions`, or None."""
    folder = os.path.dirname(os.path.realpath(path))
    for _ in range(_DEPTH):
        above, name = os.path.split(folder)
        if name in FOLDERS:
            return above
        folder = above
    return None


def index_line(path: str, fs: FileSystem) -> bytes | None:
    """The last line of the index of Codex that names the thread of a file, or None."""
    rollout = rollout_of(path)
    if rollout is None:
        return None
    index = os.path.join(home_of(path) or os.path.dirname(path), INDEX)
    try:
        content = _content_of(index, fs, fs.stat(index))  # type: ignore[arg-type]  # any object
    except OSError:
        content = None
    if content is None:
        return None
    at = content.rfind(b'"id":"%b"' % rollout.thread.encode())
    start = content.rfind(b"\n", 0, max(at, 0)) + 1
    return None if at < 0 else content[start:].partition(b"\n")[0]


@lru_cache(maxsize=1)  # a list asks for each of its files
def _content_of(index: str, fs: FileSystem, found: Stat) -> bytes | None:
    """The bytes of the index, which had these times and this size."""
    return read_side_file(fs, index)


def rollouts_near(path: str) -> dict[str, Rollout]:
    """The files of Codex by segment: those beside a file, and those in its folder of Codex.

    A link, a pipe and a device are left out. Of two files with one segment the nearer counts,
    and the one that is not compressed.
    """
    home = home_of(path)
    folders = [] if home is None else [os.path.join(home, name) for name in FOLDERS]
    folders.insert(0, os.path.dirname(path) or ".")
    found: dict[str, Rollout] = {}
    for folder in folders:
        for rollout in sorted(_rollouts_in(folder, _DEPTH)):
            found.setdefault(rollout.segment, rollout)
    return found


def thread_beside(path: str) -> list[str]:
    """The other files of the thread of a file of Codex; none for any other file."""
    own = rollout_of(path)
    if own is None:
        return []
    thread = (each for each in rollouts_near(path).values() if each.thread == own.thread)
    return sorted(each.path for each in thread if each.segment != own.segment)


def rollout_near(path: str, segment: str) -> Rollout | None:
    """The file of a segment, as `rollouts_near` has it; most are found without a look at all."""
    for folder in _likely_folders(path, segment):
        found = [each for each in _rollouts_in(folder, 1, segment) if each.segment == segment]
        if found:
            return min(found)
    return rollouts_near(path).get(segment)


def _likely_folders(path: str, segment: str) -> Iterator[str]:
    """The folder of a file, and those of the days at which a segment may have begun."""
    yield os.path.dirname(path) or "."
    home = home_of(path)
    if home is None:
        return
    with suppress(ValueError, OverflowError, OSError):  # no id of Codex's kind
        began = datetime.fromtimestamp(int(segment[:8] + segment[9:13], 16) / 1000, UTC)
        for days in (0, -1, 1):  # the folder has the local date
            day = began + timedelta(days=days)
            yield os.path.join(home, FOLDERS[0], f"{day:%Y}", f"{day:%m}", f"{day:%d}")


def _rollouts_in(folder: str, depth: int, part: str = "") -> Iterator[Rollout]:
    """The files with a part in their name, in a folder and the dated ones in it."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if depth > 1 and _DATE.fullmatch(entry.name):
                if entry.is_dir(follow_symlinks=False):
                    yield from _rollouts_in(entry.path, depth - 1, part)
            elif part not in entry.name:
                continue
            elif (rollout := rollout_of(entry.path)) and entry.is_file(follow_symlinks=False):
                yield rollout
