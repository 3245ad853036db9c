"""Writing a converted session: its file, and before it those that lie beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from sessiontree.errors import FileTakenError
from sessiontree.storage.atomic import check_free, create_file
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.oserrors import speaking_of

Beside = tuple[str, Callable[[], Iterator[bytes]]]
"""The path of a file and what gives its bytes."""


def write(
    fs: FileSystem, path: str, blocks: Iterator[bytes], beside: Sequence[Beside] = ()
) -> None:
    """Make the files, the main one last; where one cannot be made, none is left.

    Raises:
        FileTakenError: one of them is there already.
        DiskError: one cannot be made.
    """
    for name in (path, *(name for name, _ in beside)):
        check_free(fs, name)
    made: list[str] = []
    try:
        for name, content in beside:
            _make_folder(fs, os.path.dirname(name), os.path.dirname(path))
            create_file(fs, name, content())
            made.append(name)
        create_file(fs, path, blocks)
    except BaseException:
        for name in made:
            with contextlib.suppress(OSError):
                fs.unlink(name)
        raise


def _make_folder(fs: FileSystem, folder: str, above: str) -> None:
    """Make a folder, and those between it and one that is there."""
    if folder == above or not folder:
        return
    _make_folder(fs, os.path.dirname(folder), above)
    try:
        with speaking_of(folder, "make"):
            fs.make_folder(folder)
    except FileTakenError:
        if not fs.stat(folder).is_folder:
            raise
    with speaking_of(folder, "sync the folder of"):
        fs.sync_folder(os.path.dirname(folder) or os.curdir)
