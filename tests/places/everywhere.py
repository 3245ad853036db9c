"""A plugin of pytest: each session of a test is in a place, and not in a file.

    python -m pytest -p tests.places.everywhere --place KIND tests/session tests/operations

Each path below the folder of the tests is the address of a session, or of a store, in one place of
the kind; what the test puts there before is put into the place when the library asks for it. With
the kind `file`, sessions stay in files.

A test that is about files is left out, by a rule, see `RULES`; whether one is does not depend on
the kind of place, so as many tests pass in each. `--counted FILE` writes what became of each test.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

import sessiontree.store as store_module
from sessiontree import errors
from sessiontree.formats import recognise
from sessiontree.storage import backends
from sessiontree.storage import place as place_module
from sessiontree.storage.fs import DISK
from sessiontree.storage.log import FileLog
from sessiontree.storage.place import Address, Found, Place
from tests.places import looks
from tests.places.kinds import opened
from tests.places.looks import Looks

_PATIENCE: Final = 60

OWN_DISK: Final = "the test brings a file system of its own"
FOREIGN: Final = "the folder has files of other agents, too"
INSIDE: Final = "the test replaces a part of the log of a file"
RULES: Final = (*looks.RULES, OWN_DISK, FOREIGN, INSIDE)

NAMED: Final = {
    "test_closing_the_generator_lets_go_of_the_file": "the test looks for the file among the open",
    "test_a_copy_into_a_folder_that_is_not_there_names_the_folder": "a place has no folders",
    "test_a_copy_into_a_linked_folder_of_blobs_is_refused": "a place has no links",
    "test_images_are_named_and_attached_ones_are_linked": "a text links to the file of a blob",
    "test_a_migration_never_takes_another_files_place": "the test puts a file beside a session",
    "test_a_hundred_sessions_at_once": "its followers take more connections than a server has",
}
"""Tests about files, or the limits of a server, as no rule sees; each with the reason."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--place", default="memory", help="the kind of place; or `file`")
    parser.addoption("--counted", default="", help="write what became of each test to this file")


@pytest.fixture(scope="session")
def moved_sessions(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Moved]:
    """The place of all tests of this run."""
    kind = request.config.getoption("--place")
    looks.install()
    base = tmp_path_factory.getbasetemp()
    with ExitStack() as stack:
        if kind == "file":
            yield Moved(None, base)
            return
        place, _ = stack.enter_context(opened(kind, tmp_path_factory.mktemp("place")))
        yield Moved(place, base)


@pytest.fixture(autouse=True)
def everywhere(request: pytest.FixtureRequest, moved_sessions: Moved) -> Iterator[None]:
    """Put the sessions of a test into the place."""
    assert isinstance(request.node, pytest.Function)
    moved_sessions.begin()
    if reason := NAMED.get(request.node.originalname):
        pytest.skip(reason)
    with _ended():
        yield
    looks.look_at(None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    reason = MOVED[0].looks.reason if MOVED else ""
    if reason and call.when != "teardown":
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, f"Skipped: {reason}")
    if call.when == "call":
        report.user_properties.append(("in place", bool(MOVED and MOVED[0].has_sessions)))
    return report


@contextmanager
def _ended() -> Iterator[None]:
    """End a test that waits for ever for a change of its file."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"the test took {_PATIENCE} s")

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
        self.looks = Looks(base)
        self.has_sessions = False
        self._agents = set[str]()
        self._known: dict[str, tuple[int, int, int]] = {}
        self._real: dict[str, Any] = {
            "is_address": place_module.is_address,
            "address": place_module.address,
            "address_of": place_module.address_of,
            "place_of": backends.place_of,
            "open_log": backends.open_log,
            "create_log": backends.create_log,
        }
        vars(errors)["_INSIDE"] = (*errors._INSIDE, __name__)
        self._make_store: Any = store_module.Store.__init__
        self._replace()
        if place is not None:
            self._list, self._ends, self._find = place.list, place.ends, place.find
            vars(place).update(list=self._listed, ends=self._ends_of)

    def begin(self) -> None:
        """Begin a test."""
        self._known.clear()
        self._agents.clear()
        self.has_sessions = False
        self.looks = Looks(Path(self.base))
        looks.look_at(self.looks)

    def _replace(self) -> None:
        """Let all modules that took a function by its name have another one."""
        for name, real in self._real.items():
            given = getattr(self, name)
            for module in [*sys.modules.values()]:
                if getattr(module, "__name__", "").startswith("sessiontree"):
                    for key, value in [*vars(module).items()]:
                        if value is real:
                            setattr(module, key, given)

        vars(backends)["_is_address"] = self.is_address
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
        if not self._is_ours(text) or self._stays(os.path.abspath(text)) or self.place is None:
            return False
        self._put(os.path.abspath(text))
        return True

    def _stays(self, path: str) -> bool:
        """Whether a path is that of a file or a folder of another agent, which is in no place."""
        if os.path.isfile(path):
            return _is_foreign(path)
        if not os.path.isdir(path) or path in self.looks.stores:
            return False
        files = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
        if not any(map(_is_foreign, files)):
            return False
        self._agents.add(path)
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
        self.has_sessions = True
        self.looks.used(file)

    def open_log(self, fs: Any, file: str, **options: Any) -> Any:
        self._check(fs, file)
        return self._real["open_log"](fs, file, **options)

    def create_log(self, fs: Any, file: str, blocks: Iterator[bytes]) -> None:
        self._check(fs, file)
        self._real["create_log"](fs, file, blocks)

    def _listed(self, prefix: str = "") -> Iterator[Found]:
        self._put("/" + prefix)
        return self._list(prefix)

    def _ends_of(self, prefix: str, head: int, tail: int) -> Any:
        self._put("/" + prefix)
        return self._ends(prefix, head, tail)

    def _put(self, path: str) -> None:
        """Put the sessions that a test wrote to a path, or below it, into the place."""
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
        if _is_foreign(path):
            self.looks.is_about_files(FOREIGN)
        self._known[path] = state
        name = path.lstrip("/")
        if self._find(name) is not None:
            self.place.remove(name)
        self.place.create(name, iter([Path(path).read_bytes()]))
        blobs = f"{path}.blobs"
        for each in sorted(os.listdir(blobs)) if os.path.isdir(blobs) else ():
            with open(os.path.join(blobs, each), "rb") as file:
                self.place.contents.put(f"{name}.blobs/{each}", file)


def _is_foreign(path: str) -> bool:
    """Whether a file is a session of another agent."""
    if not os.path.isfile(path):  # a pipe would wait for who writes to it
        return False
    with suppress(OSError), open(path, "rb") as file:
        return recognise(file.read(64 * 1024)) is not None
    return False


def pytest_configure(config: pytest.Config) -> None:
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
