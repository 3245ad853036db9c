"""Where rows run: folders that are as they were at first when a row begins."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.golden import seam

_UNSEEN: Final = (".lock", "/cache")
"""Ends and parts of the names of files that do not count: locks hold nothing, caches are reused."""


class Place(ABC):
    """The working folder of rows."""

    folder: Path

    @abstractmethod
    def clean(self) -> None:
        """Go to the folder, as it was at first."""

    @abstractmethod
    def first(self) -> dict[str, Path]:
        """The files that may have changed, at first, by their paths in the folder."""

    @abstractmethod
    def now(self) -> dict[str, Path]:
        """The same of the folder now."""

    def changes(self) -> Iterator[str]:
        """The files that are not as at first: what was added at the end, or all."""
        first, now = self.first(), self.now()
        for name in sorted(first.keys() | now.keys()):
            if any(part in name for part in _UNSEEN):
                continue
            if name not in now:
                yield f"--- {name} is gone\n"
                continue
            before = first[name].read_bytes() if name in first else None
            content = now[name].read_bytes()
            if content != before:
                start = len(before) if before and content.startswith(before) else 0
                added = content[start:].decode("utf-8", "backslashreplace")
                yield f"--- {name} from {start}\n{added}\n"


class Copy(Place):
    """A folder that is copied anew for each row.

    Args:
        folder: where the rows run.
        source: what is copied.
        start: takes only what has a name that starts so.
    """

    def __init__(self, folder: Path, source: Path, start: str = "") -> None:
        self.folder, self._source, self._start = folder, source, start

    def clean(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        for path in self._source.iterdir():
            if not self._is(path.name):
                continue
            if path.is_dir():
                shutil.copytree(path, self.folder / path.name, symlinks=True)
            else:
                shutil.copy(path, self.folder)
        seam.settle(self.folder)
        os.chdir(self.folder)

    def first(self) -> dict[str, Path]:
        return {name: path for name, path in files(self._source).items() if self._is(name)}

    def now(self) -> dict[str, Path]:
        return files(self.folder)

    def _is(self, name: str) -> bool:
        return name.startswith(self._start) and name.partition("/")[0] != "expected"


class Home(Place):
    """A large folder, in which what a row changed is put back."""

    def __init__(self, folder: Path, kept: Path) -> None:
        self.folder, self._kept = folder, kept
        seam.settle(folder)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept, symlinks=True)

    def clean(self) -> None:
        os.chdir(self.folder)
        first, now = self.first(), self.now()
        for name in now.keys() - first.keys():
            now[name].unlink()
        for name, path in first.items():
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        for top, folders, _ in os.walk(self.folder, topdown=False):
            for path in (Path(top, each) for each in folders):
                kept = self._kept / path.relative_to(self.folder)
                shutil.copystat(kept, path) if kept.exists() else path.rmdir()

    def first(self) -> dict[str, Path]:
        return self._changed(self._kept, self.folder)

    def now(self) -> dict[str, Path]:
        return self._changed(self.folder, self._kept)

    def _changed(self, here: Path, there: Path) -> dict[str, Path]:
        return {
            name: path for name, path in files(here).items() if _stat(path) != _stat(there / name)
        }


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def files(folder: Path) -> dict[str, Path]:
    """All files below a folder, by their paths in it."""
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = Path(top, name)
            found[str(path.relative_to(folder))] = path
    return found
