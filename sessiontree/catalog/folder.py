"""The sessions in a folder of this machine; see `Catalog`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sessiontree.catalog.base import PathLike, not_restored
from sessiontree.catalog.listing import (
    Reaches,
    SessionInfo,
    every,
    facts_in,
    files_with_ending,
    header_of,
    reached,
    session_infos,
)
from sessiontree.catalog.root import project_folder
from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
    UsageError,
    with_step,
)
from sessiontree.storage.files import TRASH, Report, is_other_than_folder, path_in, session_files
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.place import is_address, without_secret
from sessiontree.storage.rollouts import in_force

if TYPE_CHECKING:
    from sessiontree.catalog.empty import RemovedSession


class Folder:
    """Session files in a folder; there is no index. See `Catalog`."""

    def __init__(self, root: str, fs: FileSystem, reaches: Reaches = every) -> None:
        self.root = root
        self.fs = fs
        self._reaches = reaches

    def _every_file(self, folder: str, report: Report) -> Iterator[str]:
        """The session files in a folder that may be read."""
        return reached(session_files(folder, report), self._reaches, report)

    def project(self, cwd: PathLike) -> str:
        return project_folder(self.root, cwd)

    def new_file(self, cwd: PathLike, name: str) -> str:
        from sessiontree.storage.move import make_folders  # a list needs none of it

        folder = self.project(cwd)
        make_folders(self.fs, folder)
        return os.path.join(folder, name)

    def files(self, cwd: PathLike | None, report: Report) -> Iterator[str]:
        if is_other_than_folder(self.root):
            raise StorageError(f"{self.root} is not a folder; name a folder of sessions", self.root)
        with suppress(SessionNotFoundError):
            folder = self.root if cwd is None else self.project(cwd)
            yield from in_force(self._every_file(folder, report))

    def states(self, report: Report) -> Iterator[tuple[str, object]]:
        for file in self._every_file(self.root, report) if os.path.isdir(self.root) else ():
            with suppress(OSError):  # gone meanwhile
                state = os.stat(file)
                name = os.path.relpath(file, self.root)
                yield name, (state.st_ino, state.st_size, state.st_mtime)

    def headers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        is_there = os.path.isdir(self.root)
        for file in self._every_file(self.root, lambda problem: None) if is_there else ():
            with suppress(SessionTreeError):
                yield file, header_of(file, self.fs)

    def file(self, name: str) -> str:
        path = path_in(self.root, *name.split("/"))
        if path is None:
            raise StorageError(f"no file in {self.root} can have the name {name!r:.200}", name)
        return path

    def holds(self, file: str) -> bool:
        root = os.path.join(os.path.realpath(self.root), "")
        return not is_address(file) and os.path.realpath(file).startswith(root)

    def infos(self, cwd: PathLike | None, report: Report) -> Iterator[SessionInfo]:
        yield from session_infos(self.files(cwd, report), report, self.facts)

    def facts(self, file: str) -> SessionInfo:
        return facts_in(self.root, file, self.fs)

    def with_ending(self, cwd: PathLike | None, ending: str) -> Iterator[SessionInfo]:
        folder = self.root if cwd is None else self.project(cwd)
        is_there = os.path.isdir(folder)
        files = self._every_file(folder, lambda problem: None) if is_there else ()
        likely = files_with_ending({file: file for file in files}, ending)
        yield from session_infos(likely, lambda problem: None, self.facts)

    def move_project(self, old: PathLike, new: PathLike, report: Report) -> int:
        from sessiontree.catalog.move import rename_project  # few programs move projects

        source, target = self.project(old), self.project(new)
        return rename_project(self.fs, self.root, os.path.abspath(old), source, target, report)

    def trash(self, file: str, stamp: str) -> str:
        self._check_path(file)
        from sessiontree.catalog import move  # few programs use the trash

        return move.trash(self.fs, self.root, file, stamp)

    def _check_path(self, file: str) -> None:
        """Refuse the address of a session, which no folder has."""
        if is_address(file):
            message = f"{without_secret(file)} is not in {self.root}; name the store at its address"
            raise with_step(UsageError(message), "name store")

    def trashed(self) -> Folder:
        return Folder(os.path.join(self.root, TRASH), self.fs, self._reaches)

    def restore(self, file: str) -> str:
        self._check_path(file)
        from sessiontree.catalog import move  # few programs use the trash

        try:
            return move.restore(self.fs, self.root, file)
        except SessionExistsError as error:
            raise not_restored(error) from error

    def finish(self) -> None:
        from sessiontree.catalog import move  # few programs use the trash

        move.finish(self.fs, self.root)

    def empty(self, before: datetime, report: Report, *, dry_run: bool) -> Iterator[RemovedSession]:
        from sessiontree.catalog import empty  # few programs remove sessions

        return empty.empty(self.fs, self.root, before, report, dry_run=dry_run)
