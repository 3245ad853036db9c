"""Sees what a test itself does with the files of its sessions, and which processes it starts.

A test that does not name a file gives a path to the library, and leaves the file to it. What a
test puts there before the library opens it is its input. Everything else that it does with the
file, with what lies beside it, or with the folder of a store says that the test is about files; so
does what no place has: a link, a pipe, a time that is set.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

from _pytest.outcomes import Skipped

from sessiontree.agents import recognise
from sessiontree.storage.lines import MAGIC
from sessiontree.storage.names import SUFFIX, own_folder

LOOKS: Final = "the test looks at the file of a session, or changes it"
BESIDE: Final = "the test looks at what lies beside a session"
FOLDER: Final = "the test looks into a folder of sessions"
PROCESS: Final = "another process is given the path"
LINKS: Final = "the test makes a link or a pipe"
TIMES: Final = "the test sets the time of the file of a session"
RULES: Final = (LOOKS, BESIDE, FOLDER, PROCESS, LINKS, TIMES)

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
_CHANGES: Final = frozenset(("os.mkdir", "os.rename", "os.link", "os.remove"))
"""What the library does to whole files and folders."""

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND


def is_foreign(path: str) -> bool:
    """Whether a file is a session of another agent; only agents compress theirs."""
    if not os.path.isfile(path):  # a pipe would wait for who writes to it
        return False
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(64 * 1024)
        return head.startswith(MAGIC) or recognise(head) is not None
    return False


def _is_in(file: str, folder: str) -> bool:
    return file == folder or file.startswith(folder + os.sep)


class AboutFiles(Skipped):
    """The test is about files; the text is the rule by which it is left out."""


class Looks:
    """What one test does with its files.

    What a fixture made for several tests is `shared` by them.

    Attributes:
        reason: why the test is about files; empty if nothing says so.
        has_opened: whether the library opened or made a session.
        stores: the folders that are stores.
    """

    def __init__(self, base: Path, shared: Looks | None = None) -> None:
        self.reason = ""
        self.has_opened = False
        self.stores: set[str] = set() if shared is None else set(shared.stores)
        self._base = str(base) + os.sep
        self._sessions: set[str] = set() if shared is None else set(shared._sessions)
        self._made: set[str] = set()
        self._folders: set[str] = set() if shared is None else set(shared._folders)  # not the test
        self._asked: set[str] = set()
        self._timed: set[str] = set()

    def has_session_in(self, folder: str) -> bool:
        """Whether the library opened or made a session in a folder."""
        return any(_is_in(session, folder) for session in tuple(self._sessions))

    def asked(self, path: str) -> None:
        """Note that the library takes a path as that of a session, or of a store."""
        self._asked.add(path)
        if any(_is_in(file, path) for file in tuple(self._timed)):
            self.is_about_files(TIMES)

    def used(self, file: str) -> None:
        """Note that the library opened or made a session."""
        self.has_opened = True
        self._sessions.add(os.path.abspath(file))

    def is_about_files(self, reason: str) -> None:
        """Note a reason, and end the test, unless another thread of it asks."""
        self.reason = self.reason or reason
        if threading.current_thread() is threading.main_thread():
            raise AboutFiles(reason)

    def _ours(self, path: object) -> str | None:
        """A path below the folder of the tests, made absolute; None for any other."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        file = os.path.abspath(os.fsdecode(path))
        return file if (file + os.sep).startswith(self._base) else None

    def changed(self, event: str, paths: list[object]) -> None:
        """The library makes a folder, or gives a session another name, or none."""
        ours = [file for file in map(self._ours, paths) if file is not None]
        if event == "os.mkdir":
            self._folders.update(file for file in ours if not os.path.isdir(file))
        elif not any(map(is_foreign, ours)):
            self._sessions.update(file for file in ours if file.endswith(SUFFIX))

    def opened(self, path: object) -> None:
        """The library opens a file."""
        file = None if self.has_opened else self._ours(path)
        if file is not None and any(_is_in(file, each) for each in tuple(self._asked)):
            is_there = file.endswith(SUFFIX) and os.path.isfile(file)
            self.has_opened = is_there and not is_foreign(file)

    def linked(self, paths: list[object]) -> None:
        """A test makes a link or a pipe."""
        if any(self._ours(path) is not None for path in paths):
            self.is_about_files(LINKS)

    def timed(self, path: object) -> None:
        """A test sets the time of a file."""
        file = self._ours(path)
        if file is not None and file.endswith(SUFFIX) and not is_foreign(file):
            self._timed.add(file)
            if any(_is_in(file, each) for each in tuple(self._asked)):
                self.is_about_files(TIMES)

    def _is_theirs(self, folder: str) -> bool:
        """Whether the library made a folder for a session."""
        return (
            folder in self._folders
            and folder not in self._made
            and any(session.startswith(folder + os.sep) for session in tuple(self._sessions))
        )

    def seen(self, path: object, *, lists: bool = False, writes: bool = False) -> None:
        """A test does something with a path."""
        file = self._ours(path)
        if file is None:
            return
        for session in tuple(self._sessions):
            if file == session:
                self.is_about_files(LOOKS)
            own = own_folder(session)
            if file.startswith((f"{session}.", own + os.sep)) or file == own:
                self.is_about_files(BESIDE)
            if lists and session.startswith(file + os.sep):
                self.is_about_files(FOLDER)
        if writes:
            self._made.add(file)
        if self._is_theirs(file) or (writes and self._is_theirs(os.path.dirname(file))):
            self.is_about_files(FOLDER)
        if any(file.startswith(store + os.sep) for store in tuple(self.stores)) and not (
            writes or file in self._made
        ):
            self.is_about_files(FOLDER)


_current: Looks | None = None
_inside = threading.local()  # whether a thread looks itself


def _looks_itself() -> bool:
    return getattr(_inside, "looks", False)


def _asks() -> str:
    """Who asks: a test, the library, or neither."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PRODUCT):
            return "library"
        if file.startswith(_TESTS) and not file.startswith(_PLUGIN):
            is_test = not file.endswith("conftest.py") or frame.f_code.co_name != "<module>"
            return "test" if is_test else ""
        if file.startswith(_PLUGIN) or f"{os.sep}_pytest{os.sep}" in file:
            return ""
        frame = frame.f_back
    return ""


def _copies() -> bool:
    """Whether a copy of a file is made, which takes its time along."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == shutil.__file__:
            return True
        frame = frame.f_back
    return False


def _asked(event: str, args: tuple[Any, ...]) -> None:
    looks = _current
    if looks is None or _looks_itself():
        return
    is_process, lists = event in _PROCESSES, event in _LISTS
    if not (is_process or lists or event in _PATHS):
        return
    asks = _asks()
    if not asks or (asks == "library" and event != "open" and event not in _CHANGES):
        return
    _inside.looks = True
    try:
        paths = [args[number] for number in _PATHS.get(event, ())]
        if asks == "library" and event == "open":
            looks.opened(paths[0])
        elif asks == "library":
            looks.changed(event, paths)
        elif event in ("os.link", "os.symlink"):
            looks.linked(paths)
        elif event == "os.utime":
            if not _copies():
                looks.timed(paths[0])
        elif is_process:
            looks.is_about_files(PROCESS)
        elif lists:
            looks.seen(args[0], lists=True)
        else:
            writes = event in ("os.mkdir", "os.rename")
            if event == "open":
                mode, flags = args[1], args[2]
                is_mode = isinstance(mode, str) and bool(set(mode) & set("wax+"))
                writes = is_mode or bool(flags & _WRITES)
            for path in paths:
                looks.seen(path, writes=writes)
    finally:
        _inside.looks = False


def _noticed(do: Callable[..., Any]) -> Callable[..., Any]:
    """A call of `os` that no audit event tells of."""

    def noticed(path: Any, *args: Any, **options: Any) -> Any:
        if _current is not None and not _looks_itself() and _asks() == "test":
            _inside.looks = True
            try:
                if do.__name__ == "mkfifo":
                    _current.linked([path])
                _current.seen(path)
            finally:
                _inside.looks = False
        return do(path, *args, **options)

    return noticed


def install() -> None:
    """Begin to look; this process cannot stop it."""
    sys.addaudithook(_asked)
    for name in ("stat", "lstat", "access", "readlink", "mkfifo"):
        setattr(os, name, _noticed(getattr(os, name)))
    import multiprocessing.util as util

    spawn = util.spawnv_passfds

    def spawned(*args: Any) -> Any:
        if _current is not None and _asks() == "test":
            _current.is_about_files(PROCESS)
        return spawn(*args)

    vars(util)["spawnv_passfds"] = spawned


def look_at(looks: Looks | None) -> None:
    """Say which test runs now."""
    global _current
    _current = looks
