"""Sees what a test itself does with the files of its sessions, and which processes it starts.

A test that does not name a file gives a path to the library, and leaves the file to it. What a
test puts there before the library opens it is its input. Everything else that it does with the
file, with what lies beside it, or with the folder of a store says that the test is about files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

from _pytest.outcomes import Skipped

LOOKS: Final = "the test looks at the file of a session, or changes it"
BESIDE: Final = "the test looks at what lies beside a session"
FOLDER: Final = "the test looks into a folder of sessions"
PROCESS: Final = "another process is given the path"
RULES: Final = (LOOKS, BESIDE, FOLDER, PROCESS)

_TESTS: Final = str(Path(__file__).parents[1]) + os.sep
_PRODUCT: Final = str(Path(__file__).parents[2] / "sessiontree") + os.sep
_PLUGIN: Final = str(Path(__file__).parent) + os.sep

_PROCESSES: Final = frozenset(
    ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.forkpty", "os.exec", "os.system")
)
_LISTS: Final = frozenset(("os.listdir", "os.scandir"))
_PATHS: Final = {
    "open": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.link": (0, 1),
    "os.symlink": (0, 1),
    "os.truncate": (0,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.utime": (0,),
    "os.rmdir": (0,),
    "os.mkdir": (0,),
    "os.setxattr": (0,),
}
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


class AboutFiles(Skipped):
    """The test is about files; the text is the rule by which it is left out."""


class Looks:
    """What one test does with its files.

    Attributes:
        reason: why the test is about files; empty if nothing says so.
        stores: the folders that are stores.
    """

    def __init__(self, base: Path) -> None:
        self.reason = ""
        self.stores: set[str] = set()
        self._base = str(base) + os.sep
        self._sessions: set[str] = set()
        self._made: set[str] = set()

    def used(self, file: str) -> None:
        """Note that the library opened or made a session."""
        self._sessions.add(os.path.abspath(file))

    def is_about_files(self, reason: str) -> None:
        """Note a reason, and end the test."""
        self.reason = self.reason or reason
        raise AboutFiles(reason)

    def seen(self, path: object, *, lists: bool = False, writes: bool = False) -> None:
        """A test does something with a path."""
        if not isinstance(path, str | bytes | os.PathLike):
            return
        file = os.path.abspath(os.fsdecode(path))
        if not (file + os.sep).startswith(self._base):
            return
        for session in self._sessions:
            if file == session:
                self.is_about_files(LOOKS)
            if file.startswith(f"{session}."):
                self.is_about_files(BESIDE)
            if lists and session.startswith(file + os.sep):
                self.is_about_files(FOLDER)
        if writes:
            self._made.add(file)
        if any(file.startswith(store + os.sep) for store in self.stores) and not (
            writes or file in self._made
        ):
            self.is_about_files(FOLDER)


_current: Looks | None = None
_is_inside = False


def _by_test() -> bool:
    """Whether a test asks, and not the library or this plugin."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith((_PRODUCT, _PLUGIN)):
            return False
        if file.startswith(_TESTS):
            return not file.endswith("conftest.py") or frame.f_code.co_name != "<module>"
        if f"{os.sep}_pytest{os.sep}" in file:
            return False
        frame = frame.f_back
    return False


def _asked(event: str, args: tuple[Any, ...]) -> None:
    global _is_inside
    looks = _current
    if looks is None or _is_inside:
        return
    is_process, lists = event in _PROCESSES, event in _LISTS
    if not (is_process or lists or event in _PATHS) or not _by_test():
        return
    _is_inside = True
    try:
        if is_process:
            looks.is_about_files(PROCESS)
        elif lists:
            looks.seen(args[0], lists=True)
        else:
            writes = event in ("os.mkdir", "os.rename", "os.link", "os.symlink")
            if event == "open":
                mode, flags = args[1], args[2]
                is_mode = isinstance(mode, str) and bool(set(mode) & set("wax+"))
                writes = is_mode or bool(flags & _WRITES)
            for number in _PATHS[event]:
                looks.seen(args[number], writes=writes)
    finally:
        _is_inside = False


def _noticed(do: Callable[..., Any]) -> Callable[..., Any]:
    """A call of `os` that no audit event tells of."""

    def noticed(path: Any, *args: Any, **options: Any) -> Any:
        global _is_inside
        if _current is not None and not _is_inside and _by_test():
            _is_inside = True
            try:
                _current.seen(path)
            finally:
                _is_inside = False
        return do(path, *args, **options)

    return noticed


def install() -> None:
    """Begin to look; this process cannot stop it."""
    sys.addaudithook(_asked)
    for name in ("stat", "lstat", "access", "readlink"):
        setattr(os, name, _noticed(getattr(os, name)))
    import multiprocessing.util as util

    spawn = util.spawnv_passfds

    def spawned(*args: Any) -> Any:
        if _current is not None and _by_test():
            _current.is_about_files(PROCESS)
        return spawn(*args)

    vars(util)["spawnv_passfds"] = spawned


def look_at(looks: Looks | None) -> None:
    """Say which test runs now."""
    global _current
    _current = looks
