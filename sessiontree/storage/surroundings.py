"""The folder of a file, and whether its names still lead where they led.

A writer asks before each entry whether its file, and its lock, still stand at their
paths. To look at both costs more than the entry does (a file whose times were asked
for writes them anew with the next byte, too). One look at their folder answers for
both: POSIX has a folder's times change with every name that is made, renamed or
removed in it.

Invariant: as long as `look` gives the same number, every name of the folder leads to
the file that it led to. Noticed are: a file removed, renamed, or replaced by a rename,
also where somebody gives the folder its old time of modification back, as programs do
that restore one; the folder itself, or one above it, renamed or replaced. What a look
at the path would show and this does not is a file mounted upon the file.

A file system may count time in steps of up to two seconds (FAT), and within one step
two changes look like one. So a folder counts as unchanged only where it had last
changed some seconds before the look it is compared with; until then, and where it
changes often, cannot be looked at, or tells no times, every look gives a new number.
"""

from __future__ import annotations

import time
from typing import Final

from sessiontree.storage.fs import FileSystem, Stat

SETTLED_SECONDS: Final = 3.0


class Surroundings:
    """What is around the files of one folder.

    Args:
        fs: the seam to the disk.
        folder: its path, empty for the working directory.
    """

    def __init__(self, fs: FileSystem, folder: str) -> None:
        self._fs = fs
        self._folder = folder or "."
        self._settled: Stat | None = None
        self._settles = 0.0
        self._number = 0

    def look(self) -> int:
        """The number of the state that the names are in: another one where any may have changed.

        Whoever gets a new one looks at the path itself, after this.
        """
        try:
            if self._settled is not None and self._fs.stat(self._folder) == self._settled:
                return self._number
        except OSError:
            pass  # a look at the path tells what is wrong
        self._number += 1
        self._settled = None
        now = time.time()
        if now >= self._settles:
            self._settle(now)
        return self._number

    def _settle(self, now: float) -> None:
        """Take the folder for settled, or note when it may be."""
        try:
            found = self._fs.stat(self._folder)
        except OSError:
            self._settles = now + SETTLED_SECONDS
            return
        last = max(found.modified, found.changed)
        self._settles = (last or now) + SETTLED_SECONDS
        if now >= self._settles:
            self._settled = found
