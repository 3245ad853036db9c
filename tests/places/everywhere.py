"""A plugin of pytest: each session of a test is in a place, and not in a file.

    python -m pytest -p tests.places.everywhere --place file --counted FILE tests/session
    python -m pytest -p tests.places.everywhere --place KIND --decided FILE tests/session

Each path below the folder of the tests is the address of a session, or of a store, in one place of
the kind; what the test puts there before is put into the place when the library asks for it. With
the kind `file`, sessions stay in files.

A test that is about files is left out, by a rule, see `RULES`. The rules decide once, while the
sessions are in files, where all that a test does with a file is seen; the run in any other kind
takes what they decided with `--decided`. So every test that they leave in has to pass in each kind.
`--counted FILE` writes what became of each test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, TypeVar

import pytest

import sessiontree.store as store_module
from sessiontree import errors
from sessiontree.storage import place as place_module
from sessiontree.storage import places
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from sessiontree.storage.names import SUFFIX
from sessiontree.storage.place import Address, Place, StoredSession
from tests.places import looks
from tests.places.kinds import opened, put_blob
from tests.places.looks import Looks, is_foreign

T = TypeVar("T")

_PATIENCE: Final = 60
_MILLISECOND: Final = 0.001
"""Seconds that a step on a file takes at least, so that no two sessions are of the same time."""

OWN_DISK: Final = "the test brings a file system of its own"
FOREIGN: Final = "the folder has files of other agents, too"
RELATIVE: Final = "the test gives a path below the current folder"
INSIDE: Final = "the test replaces a part of the log of a file"
RULES: Final = (*looks.RULES, OWN_DISK, FOREIGN, RELATIVE, INSIDE)

_NO_FOLDERS: Final = "a place has no folders"
_NO_FILE: Final = "the message says that there is no file"
_HOLDER: Final = "a list does not ask a place who writes a session"
_SOURCE: Final = "what is imported is a file"
_LOCK: Final = "a place has no lock of a file"
_MOVED: Final = "a server says within 0.1 s that a session was moved, and not at once"
_OPENED: Final = "the test counts the files that are opened, and this plugin opens some"

NAMED: Final = {
    "test_closing_the_generator_lets_go_of_the_file": "the test looks for the file among the open",
    "test_a_copy_into_a_folder_that_is_not_there_names_the_folder": _NO_FOLDERS,
    "test_a_copy_into_a_linked_folder_of_blobs_is_refused": "a place has no links",
    "test_images_are_named_and_attached_ones_are_linked": "a text links to the file of a blob",
    "test_a_migration_never_takes_another_files_place": "the test puts a file beside a session",
    "test_a_hundred_sessions_at_once": "its followers take more connections than a server has",
    "test_the_command_does_not_take_a_file_for_a_store": _NO_FOLDERS,
    "test_a_project_without_sessions_or_the_same_is_nothing_to_move": _NO_FOLDERS,
    "test_a_folder_that_is_not_there_is_named": _NO_FOLDERS,
    "test_beside_a_store_an_address_is_an_empty_store": _NO_FOLDERS,
    "test_a_search_reports_a_file_that_cannot_be_read": _NO_FOLDERS,
    "test_a_file_that_vanishes_while_being_listed_is_reported": _NO_FILE,
    "test_files_and_folders_add_up": _NO_FILE,
    "test_ls_tells_who_holds_a_session_and_its_lane": _HOLDER,
    "test_a_session_that_is_being_written_is_told_of": _HOLDER,
    "test_a_named_file_that_is_no_session_of_an_agent_is_told": _SOURCE,
    "test_a_sessiontree_file_and_an_unknown_file_are_not_imported": _SOURCE,
    "test_a_failed_import_is_reported_and_the_rest_is_imported": _SOURCE,
    "test_what_cannot_be_imported_is_refused": _SOURCE,
    "test_a_backup_that_does_not_end_is_named": _LOCK,
    "test_a_session_that_is_written_is_locked_until_the_end": _LOCK,
    "test_an_open_session_says_that_its_file_was_moved_and_loses_nothing": _MOVED,
    "test_a_page_of_ten_thousand_sessions_counts_only_what_it_shows": _OPENED,
}
"""Tests about files, or the limits of a server, as no rule sees; each with the reason."""


DECIDED: Final = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--place", default="file", help="the kind of place; or `file`")
    parser.addoption(
        "--decided", default="", help="what became of each test with sessions in files"
    )
    parser.addoption("--counted", default="", help="write what became of each test to this file")


@pytest.fixture(scope="session")
def moved_sessions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moved]:
    """The place of all tests of this run."""
    kind = request.config.getoption("--place")
    base = tmp_path_factory.getbasetemp()
    with ExitStack() as stack:
        if kind == "file":
            looks.install()
            yield Moved(None, base)
            return
        place, _ = stack.enter_context(opened(kind, tmp_path_factory.mktemp("place")))
        yield Moved(place, base)


@pytest.fixture(autouse=True)
def everywhere(request: pytest.FixtureRequest, moved_sessions: Moved) -> Iterator[None]:
    """Put the sessions of a test into the place."""
    assert isinstance(request.node, pytest.Function)
    moved_sessions.begin(request.node.nodeid)
    with _ended():
        yield
    moved_sessions.end()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test before its fixtures, which may be about files themselves."""
    assert isinstance(item, pytest.Function)
    reason = NAMED.get(item.originalname) or item.config.stash[DECIDED].get(item.nodeid)
    if reason not in (None, "passed", "failed"):
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_moved = bool(MOVED) and MOVED[0].test == item.nodeid
    reason = MOVED[0].last.reason if is_moved else ""
    if reason and call.when != "teardown":
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {reason}")
    if call.when == "call":
        report.user_properties.append(("in place", is_moved and MOVED[0].has_used))
    return report


@contextmanager
def _ended() -> Iterator[None]:
    """End a test that waits for ever for a change of its file."""

    def end(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"the test took {_PATIENCE} s")  # which no `except` of the library takes

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(_PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


MOVED: Final[list[Moved]] = []


class Moved:
    """The paths of a run, as addresses of one place; None: they stay paths."""

    def __init__(self, place: Place | None, base: Path) -> None:
        MOVED[:] = [self]
        self.place = place
        self.base = str(base) + os.sep
        self._shared = Looks(base)
        self.looks = self.last = self._shared
        self.test = ""
        self.has_sessions = False
        self._agents = set[str]()
        self._known: dict[str, tuple[int, int, int]] = {}
        self._real: dict[str, Any] = {
            "is_address": place_module.is_address,
            "address": place_module.address,
            "address_of": place_module.address_of,
            "place_of": places.place_of,
            "open_log": places.open_log,
            "create_log": places.create_log,
        }
        vars(errors)["_INSIDE"] = (*errors._INSIDE, __name__)
        self._make_store: Any = store_module.Store.__init__
        self._replace()
        if place is not None:
            self._list, self._ends, self._find = place.list, place.ends, place.find
            self._log, self._create = place.log, place.create
            vars(place).update(list=self._listed, ends=self._ends_of)
            self._move = place.move
            vars(place).update(log=self._log_of, create=self._created, move=self._moved)

    def begin(self, test: str) -> None:
        """Begin a test."""
        self.test = test
        self._known.clear()
        self._agents.clear()
        self.has_sessions = False
        self.looks = self.last = Looks(Path(self.base), self._shared)
        if self.place is None:
            looks.look_at(self.looks)

    def end(self) -> None:
        """End a test; what is made from now on is made by a fixture for several ones."""
        self.looks = self._shared
        if self.place is None:
            looks.look_at(self.looks)

    @property
    def has_used(self) -> bool:
        """Whether the library opened or made a session."""
        return self.has_sessions if self.place is not None else self.last.has_opened

    def _replace(self) -> None:
        """Let all modules that took a function by its name have another one."""
        for name, real in self._real.items():
            given = getattr(self, name)
            for module in [*sys.modules.values()]:
                if getattr(module, "__name__", "").startswith("sessiontree"):
                    for key, value in [*vars(module).items()]:
                        if value is real:
                            setattr(module, key, given)

        vars(places)["_is_address"] = self.is_address
        change: Any = pytest.MonkeyPatch.setattr

        def changed(patch: Any, target: Any, *args: Any, **options: Any) -> None:
            if target is FileLog:
                self.looks.is_about_files(INSIDE)
            change(patch, target, *args, **options)

        type.__setattr__(pytest.MonkeyPatch, "setattr", changed)

        def made(store: Any, root: Any = None, *, fs: Any = DISK) -> None:
            if fs is not DISK:
                self.looks.is_about_files(OWN_DISK)
            self._make_store(store, root, fs=fs)
            if self._is_ours(store.root):
                self.looks.stores.add(os.path.abspath(store.root))

        type.__setattr__(store_module.Store, "__init__", made)

    def _is_ours(self, text: str) -> bool:
        if "://" in text or not text:
            return False
        return os.path.abspath(text).startswith(self.base)

    def is_address(self, text: str) -> bool:
        if self._real["is_address"](text):
            return True
        if not self._is_ours(text):
            return False
        path = os.path.abspath(text)
        if not (os.path.isabs(text) or text.endswith(SUFFIX) or self._is_there(path)):
            return False  # a ref, or a part of a path
        if self._stays(path):
            return False
        if not os.path.isabs(text) and text != os.curdir:
            self.looks.is_about_files(RELATIVE)
        if self.place is None:
            self.looks.asked(path)
            return False
        self._put(path)
        return True

    def _is_there(self, path: str) -> bool:
        """Whether something is at a path, or in the place."""
        if os.path.lexists(path):
            return True
        name = path.lstrip("/")
        return self.place is not None and (
            self._find(name) is not None or next(iter(self._list(f"{name}/")), None) is not None
        )

    def _stays(self, path: str) -> bool:
        """Whether a path is that of a file or a folder of another agent, which is in no place."""
        if os.path.isfile(path):
            return is_foreign(path)
        if not os.path.isdir(path) or path in self.looks.stores:
            return False
        files = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
        if not any(map(is_foreign, files)):
            return False
        self._agents.add(path)
        if self.place is None and self.looks.has_session_in(path):
            self.looks.is_about_files(FOREIGN)
        return True

    def address(self, url: str) -> Address:
        if not self._is_ours(url):
            found: Address = self._real["address"](url)
            return found
        assert self.place is not None
        return Address("test", self.place.url, os.path.abspath(url).lstrip("/"), ())

    def address_of(self, base: str, name: str, options: Any = ()) -> str:
        if self.place is not None and base == self.place.url and name.startswith(self.base[1:]):
            return f"/{name}"
        text: str = self._real["address_of"](base, name, options)
        return text

    def place_of(self, url: str) -> tuple[Place, str]:
        if not self._is_ours(url):
            found: tuple[Place, str] = self._real["place_of"](url)
            return found
        assert self.place is not None
        name = os.path.abspath(url)
        self._put(name)
        return self.place, name.lstrip("/")

    def _check(self, fs: Any, file: str) -> None:
        if fs is not DISK:
            self.looks.is_about_files(OWN_DISK)
        if not self._is_ours(file) or self._stays(os.path.abspath(file)):
            return
        if any(os.path.abspath(file).startswith(folder + os.sep) for folder in self._agents):
            self.looks.is_about_files(FOREIGN)
        if self.place is None:
            self.looks.asked(os.path.abspath(file))
            self.looks.used(file)

    def open_log(self, fs: Any, file: str, **options: Any) -> Any:
        self._check(fs, file)
        return self._real["open_log"](fs, file, **options)

    def create_log(self, fs: Any, file: str, blocks: Iterator[bytes]) -> None:
        self._check(fs, file)
        self._real["create_log"](fs, file, blocks)

    def _listed(self, prefix: str = "") -> Iterator[StoredSession]:
        self._put("/" + prefix)
        return self._noted(self._list(prefix))

    def _ends_of(self, prefix: str, head: int, tail: int) -> Any:
        self._put("/" + prefix)
        return self._noted(self._ends(prefix, head, tail))

    def _noted(self, found: Iterator[T]) -> Iterator[T]:
        for each in found:
            self.has_sessions = True
            yield each

    def _log_of(self, name: str, **options: Any) -> Any:
        time.sleep(_MILLISECOND)
        log = self._log(name, **options)
        self.has_sessions = True
        return log

    def _created(self, name: str, blocks: Iterable[bytes]) -> None:
        self.has_sessions = True
        time.sleep(_MILLISECOND)
        self._create(name, blocks)

    def _moved(self, source: str, target: str) -> None:
        self.has_sessions = True
        time.sleep(_MILLISECOND)
        for name in (source, target):
            self._put(f"/{name}")
        self._move(source, target)

    def _put(self, path: str) -> None:
        """Put the sessions that a test wrote to a path, or below it, into the place.

        Those that it put there and has removed since are removed from the place.
        """
        assert self.place is not None
        for known in [each for each in self._known if each.startswith(path)]:
            if not os.path.lexists(known):
                del self._known[known]
                if self._find(known.lstrip("/")) is not None:
                    self.place.remove(known.lstrip("/"))
        if os.path.isfile(path):
            self._put_file(path)
        elif os.path.isdir(path):
            for folder, folders, files in os.walk(path):
                folders.sort()
                for file in sorted(files):
                    if file.endswith(".jsonl") and os.path.isfile(os.path.join(folder, file)):
                        self._put_file(os.path.join(folder, file))

    def _put_file(self, path: str) -> None:
        assert self.place is not None
        found = os.stat(path)
        state = found.st_ino, found.st_size, found.st_mtime_ns
        if self._known.get(path) == state:
            return
        if is_foreign(path):
            self.looks.is_about_files(FOREIGN)
        self._known[path] = state
        name = path.lstrip("/")
        if self._find(name) is not None:
            self.place.remove(name)
        self._create(name, iter([Path(path).read_bytes()]))
        blobs = f"{path}.blobs"
        for each in sorted(os.listdir(blobs)) if os.path.isdir(blobs) else ():
            with open(os.path.join(blobs, each), "rb") as file:
                put_blob(self.place, name, each, file.read())


def pytest_configure(config: pytest.Config) -> None:
    decided = config.getoption("--decided")
    if config.getoption("--place") != "file" and not decided:
        raise pytest.UsageError("--decided names what a run with --place file wrote by --counted")
    config.stash[DECIDED] = json.loads(Path(decided).read_text()) if decided else {}
    if config.getoption("--counted"):
        config.pluginmanager.register(_Counted(config.getoption("--counted")))


class _Counted:
    """Writes what became of each test, for `test_everywhere`."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._became: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            became: str = report.outcome
            if report.skipped:
                assert isinstance(report.longrepr, tuple)
                became = report.longrepr[2].rpartition("AboutFiles: ")[2].removeprefix("Skipped: ")
            elif report.passed and not dict(report.user_properties).get("in place"):
                became = "no session"
            self._became[report.nodeid] = became

    def pytest_sessionfinish(self) -> None:
        Path(self._file).write_text(json.dumps(self._became, indent=1))
