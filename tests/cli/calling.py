"""What commands and the library ask of the disk, and what comes of each call that fails.

Each case is a line of commands on a copy of a folder of `printed/`. Its expectation lists the
calls that change the disk, in order. Then each call fails alone, in a copy of its own: what the
last command says, the changes that still come, the names that are left, and the files left
open. Calls whose failures have the same outcome share an entry. `python -m tests.cli.calling`
writes all expectations again; a change then shows as a difference of these files.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from sessiontree import Handle, Session, SessionTreeError
from sessiontree.storage.fs import Disk
from tests.cli.cases import CASES
from tests.cli.printing import UUID, copied, run_line, steady
from tests.support.terminal import utc

EXPECTED: Final = Path(__file__).parent / "called"

COMMANDS: Final = {
    "new": "stream: new a.jsonl --name title",
    "append": "own: append FILE --text hello",
    "append-to-lane": "own: append FILE --text hello --lane new",
    "attach": "own: append FILE --attach notes.md --text hello",
    "label": "own: label FILE @~1 mark",
    "branch": "own: branch FILE @~2 --summary left",
    "pop": "own: push FILE; pop FILE --summary done",
    "keep": "own: append FILE --text hello --lane scratch/a; keep FILE scratch/a",
    "gc": "own: append FILE --text hello --scratch; gc FILE --as-of 2030-01-01",
    "gc-archives": "own: append FILE --text hello --scratch; gc FILE --as-of 2030-01-01; "
    "gc FILE --as-of 2031-01-01",
    "fork": "own: fork FILE new.jsonl",
    "export-branch": "own: export-branch FILE @~1 new.jsonl --redact",
    "export-inline": "own: export-branch FILE @~1 new.jsonl --inline --with-path",
    "export": "own: export FILE -o new.md",
    "to-pi": "own: convert FILE --to pi -o new.jsonl",
    "to-claude-code": "own: convert FILE --to claude-code -o new.jsonl",
    "to-atif": "own: convert FILE --to atif -o new.json",
    "import": "own: convert FILE --to claude-code -o new.jsonl; import new.jsonl -o made",
    "import-again": "own: convert FILE --to claude-code -o new.jsonl; append FILE --text more; "
    "import new.jsonl -o .",
    "backup": "own: convert FILE --to pi -o pi.jsonl; import pi.jsonl -o made; "
    "convert FILE --to claude-code -o new.jsonl; backup new.jsonl --store made",
    "backup-again": "own: convert FILE --to pi -o pi.jsonl; import pi.jsonl -o made; "
    "backup pi.jsonl --store made",
    "page": "own: export FILE --html -o new.html",
    "page-redacted": "own: export FILE --html --redact -o new.html",
    "repair": "damaged: repair FILE",
    "repair-v1": "version-1: repair FILE",
    "migrate": "version-1: migrate FILE",
    "append-v1": "version-1: append FILE --text hello",
    "record": "stream: record FILE < events.jsonl",
    "trash": "own: trash FILE --store .",
    "restore": "own: trash FILE --store .; restore latest --store .",
    "empty-trash": "own: trash FILE --store .; trash --empty --older-than 0m --store .",
    "move-project": "own: move-project /project /moved --store .",
    "show": "own: show FILE",
    "tree": "own: tree FILE",
    "context": "own: context FILE",
    "stats": "own: stats FILE",
    "verify": "own: verify FILE",
    "search": "own: search e .",
    "ls": "own: ls . --branches",
    "blobs": "own: blob ls FILE",
    "blob": "own: blob cat FILE 0bb6",
}

FILE: Final = "session.jsonl"
HELLO: Final[dict[str, Any]] = {"role": "user", "content": "hello"}
LARGE: Final[dict[str, Any]] = {"role": "user", "content": "w" * 40_000}


def exclusive() -> None:
    with Session.open(FILE, exclusive=True) as session:
        session.append_message(HELLO)
        os.unlink(f"{FILE}.lock")
        session.append_message(HELLO)


def batch() -> None:
    with Session.open(FILE) as session, session.batch():
        session.append_message(HELLO)
        session.label("@", "here")
        session.append_message(LARGE)


def spill() -> None:
    with Session.open(FILE, durability="os") as session:
        session.append_message(LARGE)
        session.append_message(LARGE)


def two_writers() -> None:
    with Session.open(FILE) as one, Session.open(FILE) as other:
        one.append_message(HELLO)
        other.append_message(HELLO)
        one.append_message(HELLO)


def replaced() -> None:
    with Session.open(FILE) as session:
        shutil.copy(FILE, "copy")
        os.replace("copy", FILE)
        session.append_message(HELLO)
        session.append_message(HELLO)


def torn() -> None:
    with open(FILE, "ab") as file:
        file.write(b'{"type":"mess')
    with Session.open(FILE) as session:
        session.append_message(HELLO)
        session.repair()
        session.append_message(HELLO)


def lanes() -> None:
    with Session.open(FILE) as session, session.scratch() as trial:
        trial.append_message(HELLO)
        session.append_message(HELLO)
        trial.keep()


def created() -> None:
    with Session.create("a.jsonl", cwd="/project", exclusive=True) as session:
        session.append_message(LARGE)
        session.fork("b.jsonl")
        session.gc()


def attached() -> None:
    with Session.open(FILE) as session:
        stored = session.blobs.put(b"content")
        session.blobs.put(b"content")
        session.append_handle(Handle.blob(*stored, "text/plain"))
        session.gc()


LIBRARY: Final[dict[str, Callable[[], None]]] = {
    work.__name__: work
    for work in (*(exclusive, batch, spill, two_writers, replaced, torn, lanes, created, attached),)
}
"""What is done without a command, on a copy of `own`."""

CASE: Final = {name: f"own: ={name}" for name in LIBRARY} | COMMANDS

CHANGING: Final = (
    *("write", "sync", "sync_folder", "replace", "link", "unlink"),
    *("make_folder", "remove_folder", "lock", "unlock"),
)
READING: Final = ("read", "size", "stat", "list", "close")
ERRORS: Final = {"EIO": errno.EIO, "ENOENT": errno.ENOENT}

VARYING: Final = {
    re.compile(r"\.\d+-[0-9a-f]{8}(?=\.)"): ".TEMPORARY",
    re.compile(r"(?<=/)\d+-[0-9a-f]{16}(?=\.)"): "TEMPORARY",
    re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z(_[0-9a-f]{8})?"): "STAMP",
    re.compile(r"\d{8}T\d{6}\.\d+Z"): "STAMP",
    re.compile(r"(?<=trashed )[-0-9]+ [0-9:]+"): "STAMP",
    re.compile(UUID): "UUID",
}
"""What differs in each run in the names of files."""

SHORT: Final = re.compile(r"\b[0-9a-f]{8}\b")
"""The first characters of a uuid."""

_OF_ANY_SIZE: Final = (".lock", ".md", ".html")
"""Parts of the names of files that have the names of folders in them."""

MOST: Final = 12
"""So many calls and lines of an outcome are kept."""


class Call(NamedTuple):
    """A call of the disk, and which of those with this kind and path it is."""

    kind: str
    path: str
    more: str
    nth: int

    def __str__(self) -> str:
        nth = f" ({self.nth})" if self.nth > 1 else ""
        return f"{self.kind} {self.path}{self.more}{nth}"

    @property
    def changes(self) -> bool:
        return self.kind in CHANGING or self.more in (" new", " to lock", " to empty")


class Watch:
    """The calls of all disks while it watches; the one to fail is known by its kind and path."""

    def __init__(self, here: str, failing: tuple[Call, int] | None = None) -> None:
        self._here = here
        self._failing = failing
        self.calls: list[Call] = []
        self.failed = -1  # the number of the call that failed
        self.descriptors: dict[int, str] = {}

    def made(self, kind: str, *arguments: Any) -> bool:
        """Note a call; whether it is to fail."""
        path, more = self._name(arguments[0]), ""
        if kind in ("replace", "link"):
            more = f" → {self._name(arguments[1])}"
        elif kind == "open":
            flags = arguments[1]
            more = " new" if flags & os.O_EXCL else " to lock" if flags & os.O_CREAT else ""
            more = " to empty" if flags & os.O_TRUNC else more
        elif kind == "write" and not any(part in path for part in _OF_ANY_SIZE):
            more = f" {len(arguments[1])}"
        nth = 1 + sum(call[:2] == (kind, path) for call in self.calls)
        call = Call(kind, path, more, nth)
        self.calls.append(call)
        if self._failing is None or self._failing[0] != call:
            return False
        self.failed = len(self.calls)
        return True

    def fail(self) -> OSError:
        assert self._failing
        return OSError(self._failing[1], os.strerror(self._failing[1]))

    def _name(self, file: int | str) -> str:
        path = self.descriptors.get(file, "a stream") if isinstance(file, int) else file
        if path in ("", ".") or not path.startswith(("/", ".")):
            path = os.path.join(self._here, path)
        name = os.path.relpath(path, self._here)
        return _plain("outside" if name.startswith("..") else name)


def _watched(watch: Watch, kind: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(disk: Disk, *arguments: Any) -> Any:
        if watch.made(kind, *arguments):
            if kind == "close":
                real(disk, *arguments)
                watch.descriptors.pop(arguments[0], None)
            raise watch.fail()
        if kind in ("sync", "sync_folder"):
            return None
        done = real(disk, *arguments)
        if kind == "open":
            watch.descriptors[done] = arguments[0]
        elif kind == "close":
            watch.descriptors.pop(arguments[0], None)
        return sorted(done) if kind == "list" else done

    return call


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Note all calls of the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sessiontree.storage.lock.SETTLED_SECONDS", 1e9)  # however long it takes
        # The caches lie in a folder of the user, and are there or not.
        patch.setattr("sessiontree.library.cache.Cache.save", lambda cache: None)
        for kind in ("open", *CHANGING, *READING):
            patch.setattr(Disk, kind, _watched(watch, kind, getattr(Disk, kind)))
        yield


def called(name: str) -> str:
    """What a case asks of the disk, and what comes of each call that fails."""
    with utc():
        sound, watch = _played(name, None)
        calls = [f"  {call}" for call in watch.calls if call.changes]
        text = [f"$ {CASE[name]}", *calls, *_after(watch), sound]
        outcomes: dict[str, list[str]] = {}
        for call, error in _faults(watch.calls):
            said, failed = _played(name, (call, ERRORS[error]))
            assert failed.failed >= 0, f"{call} did not come again"
            later = [f"  {call}" for call in failed.calls[failed.failed :] if call.changes]
            outcome = "\n".join([*_short(later), *_after(failed), said])
            outcomes.setdefault(outcome, []).append(f"! {error} {call}")
        for faults, outcome in sorted((sorted(found), said) for said, found in outcomes.items()):
            text += ["", *faults, outcome]
    return "\n".join([*text, ""])


def _faults(calls: list[Call]) -> Iterator[tuple[Call, str]]:
    """The first two and the last of the calls that change a file, the first of the others."""
    last = {call[:2]: call.nth for call in calls}
    for call in calls:
        if call.nth > (2 if call.changes else 1) and not (
            call.changes and call.nth == last[call[:2]]
        ):
            continue
        yield call, "EIO"
        if call.kind in ("open", "stat", "list", "unlink", "replace", "link"):
            yield call, "ENOENT"


def _short(lines: list[str]) -> list[str]:
    left_out = len(lines) - MOST
    return [*lines[:MOST], f"  … {left_out} more"] if left_out > 0 else lines


def _played(name: str, failing: tuple[Call, int] | None) -> tuple[str, Watch]:
    """What the last command prints, with the names it leaves, and its calls."""
    case, _, line = CASE[name].partition(": ")
    *before, last = line.replace("FILE", "session.jsonl").split("; ")
    with copied(CASES[case]) as here:
        for each in before:
            run_line(each)
        names = _names()
        watch = Watch(os.path.realpath(here), failing)
        with watching(watch):
            said = done(last[1:]) if last.startswith("=") else run_line(last).split("\n", 1)[1]
        after = _names()
        left = [f"+ {name}" for name in sorted(after - names)]
        left += [f"- {name}" for name in sorted(names - after)]
        if failing is None:
            said = ""
        said = said.replace(here, "HERE").replace(os.path.dirname(here), "ABOVE")
        said = SHORT.sub(partial(_known, CASES[case]), steady(_plain(said), CASES[case]))
        lines = [f"  | {line}" for line in said.splitlines()]
        return "\n".join([*(f"  {each}" for each in left), *_short(lines)]), watch


def done(name: str) -> str:
    """The error of what is done without a command, or nothing."""
    try:
        LIBRARY[name]()
    except SessionTreeError as error:
        return f"{type(error).__name__}: {error}\n"
    except OSError as error:
        return f"{error!r}\n"
    return ""


def _known(case: Path, short: re.Match[str]) -> str:
    """The start of a uuid as it is, if the case has it from the beginning."""
    given = (path.read_bytes() for path in case.glob("*.jsonl"))
    return short[0] if any(short[0].encode() in content for content in given) else "SHORT"


def _plain(text: str) -> str:
    for varying, name in VARYING.items():
        text = varying.sub(name, text)
    return text


def _names() -> set[str]:
    return {_plain(str(path)) for path in Path().rglob("*")}


def _after(watch: Watch) -> list[str]:
    """The files that are left open."""
    return [
        f"  left open: {path}" for path in sorted(map(os.path.basename, watch.descriptors.values()))
    ]


def main() -> None:
    EXPECTED.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CASE:
        (EXPECTED / f"{name}.txt").write_text(called(name), encoding="utf-8")


if __name__ == "__main__":
    main()
