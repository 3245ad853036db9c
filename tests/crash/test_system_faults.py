"""Each call of the system that a command makes for its files fails once, and from then on.

`strace` injects the errors into real commands, so this holds below the seam, where `test_faults.py`
ends: in Python's own calls, the lock and the output. After each: no traceback, and one error that
says what to do, or exit code 0 and the thing is done; what was acknowledged is there; the same
command, run again on a sound disk, ends what was begun.

Install it with `apt-get install strace`; without it these tests are skipped, and say so.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sessiontree import Session, SessionTreeError, Store
from sessiontree.storage.names import session_files
from tests.support.children import PATIENCE
from tests.support.conversation import user
from tests.support.files import VERSION_1, Record, uuids_at
from tests.support.kept import check_kept, check_says
from tests.support.table import for_each
from tests.support.transcripts import assistant, written
from tests.support.transcripts import user as prompt

CALLS = (
    *("openat", "write", "fsync", "fdatasync", "flock"),
    *("rename", "link", "unlink", "mkdir", "rmdir"),
)
ERRORS = ("EIO", "ENOSPC", "EINTR", "EACCES")
LARGE = "a text too large for a line " * 2000
PROBE = ("-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=1")
UUID = re.compile(r"^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.MULTILINE)


@pytest.fixture(scope="session")
def strace() -> str:
    """The path of `strace`, which may trace here."""
    found = shutil.which("strace")
    why = "there is no 'strace' here; 'apt-get install strace' brings it"
    if found is not None:
        words = [found, "-qq", *PROBE, sys.executable, "-c", "import os; os.fsync(1)"]
        probe = subprocess.run(words, capture_output=True, text=True, check=False)
        if "INJECTED" in probe.stderr:
            return found
        why = f"strace cannot trace here: {probe.stderr.strip()[-200:]}"
    pytest.skip(f"NOT TESTED with calls of the system that fail: {why}")


class Case(NamedTuple):
    """A command, and what it is run on.

    Attributes:
        make: makes the folder that it is run on, and returns its words.
        check: raises if what was acknowledged, by standard output, is not there.
        done: raises if the command did not do all it should.
    """

    make: Callable[[Path], list[str]]
    check: Callable[[Path, str], None]
    done: Callable[[Path], None]


class Fault(NamedTuple):
    """The error of call number `nth`, or of all calls from there on, of a system call."""

    call: str
    nth: int
    error: str
    stays: bool

    def words(self) -> list[str]:
        when = f"{self.nth}+" if self.stays else str(self.nth)
        return ["-e", f"inject={self.call}:error={self.error}:when={when}"]


class Outcome(NamedTuple):
    """How a command ended; `fired` are the calls that failed, as strace wrote them."""

    status: int
    out: str
    err: str
    fired: list[str]


def session_of(folder: Path) -> Path:
    return folder / "store" / "+p" / "chat.jsonl"


def made(folder: Path) -> Path:
    """A session with an entry of each kind that a command here touches."""
    file = session_of(folder)
    file.parent.mkdir(parents=True)
    with Session.create(file, cwd="/p", id="the-one", durability="os") as session:
        session.append_message(user(LARGE))
        session.append_message({"role": "assistant", "content": "answer"})
        with session.scratch() as trial:
            trial.append_message(user("tried"))
        session.append_message(user("last"))
    return file


def lasting(file: Path | str) -> list[str]:
    """The uuids of a session's entries but the scratch ones."""
    with Session.open(file, readonly=True) as session:
        return [entry.uuid for entry in session.entries() if entry.lane is None]


def wholes(folder: Path) -> Iterator[str]:
    """The sessions of the store and its trash from which nothing of the original is missing."""
    before = (folder / "before").read_text().split()
    store = folder / "store"
    for top in (store, store / ".trash"):
        for file in session_files(str(top), print) if top.is_dir() else ():
            with Session.open(file, readonly=True) as session:
                first = next((e for e in session.entries() if e.type == "message"), None)
                if session.id == "the-one" and first and first["message"]["content"] == LARGE:
                    check_kept([e.uuid for e in session.entries() if e.lane is None], before, [])
                    yield file


def is_kept(folder: Path, out: str) -> None:
    """The session is whole, in one place or in two, and has what was printed."""
    files = list(wholes(folder))
    assert files
    printed = UUID.findall(out)
    for file in files:
        check_kept(uuids_at(file), (), printed)


def writing(*words: str) -> Case:
    """A command that prints the uuid of the entry that it wrote."""

    def make(folder: Path) -> list[str]:
        return [words[0], str(made(folder)), *words[1:]]

    def done(folder: Path) -> None:
        assert len(lasting(session_of(folder))) > len((folder / "before").read_text().split())

    return Case(make, is_kept, done)


def repair(folder: Path) -> list[str]:
    file = made(folder)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:2], b"\n", b"\0\0" + lines[2], *lines[3:], b'{"type":"m']))
    return ["repair", str(file)]


def is_repaired(folder: Path) -> None:
    with Session.open(session_of(folder), readonly=True) as session:
        assert session.verify() == []
    assert list(session_of(folder).parent.glob("*.damaged-*"))


def collect(folder: Path) -> list[str]:
    return ["gc", str(made(folder)), "--as-of", "2999-01-01"]


def is_collected(folder: Path, out: str) -> None:
    is_kept(folder, "")
    archives = session_of(folder).parent.glob("*.archive-*")
    texts = [session_of(folder).read_bytes(), *(path.read_bytes() for path in archives)]
    assert any(b'"tried"' in text for text in texts)


def has_no_garbage(folder: Path) -> None:
    assert b'"tried"' not in session_of(folder).read_bytes()


def trash(folder: Path) -> list[str]:
    made(folder)
    return ["trash", "the-one"]


def is_in_trash(folder: Path) -> None:
    (file,) = wholes(folder)
    assert ".trash" in file


def restore(folder: Path) -> list[str]:
    store = Store(folder / "store")
    store.trash(str(made(folder)))
    return ["restore", "the-one"]


def is_restored(folder: Path) -> None:
    assert list(wholes(folder)) == [str(session_of(folder))]


def empty(folder: Path) -> list[str]:
    restore(folder)
    return ["trash", "--empty", "--older-than", "0m"]


def is_whole_or_named(folder: Path, out: str) -> None:
    hidden = list((folder / "store" / ".trash").glob(".deleting-*"))
    if list(wholes(folder)):
        assert out == ""
    else:
        assert hidden or not list((folder / "store" / ".trash").rglob("*.jsonl"))


def is_emptied(folder: Path) -> None:
    assert os.listdir(folder / "store" / ".trash") == []


def fork(folder: Path) -> list[str]:
    return ["fork", str(made(folder))]


def has_fork(folder: Path, out: str) -> None:
    is_kept(folder, "")
    for path in out.split():
        assert lasting(path)[1:] == lasting(session_of(folder))[1:]


def is_forked(folder: Path) -> None:
    assert len(Store(folder / "store").list()) > 1


def migrate(folder: Path) -> list[str]:
    file = session_of(folder)
    file.parent.mkdir(parents=True)
    file.write_bytes(VERSION_1)
    return ["migrate", str(file)]


def has_both_messages(folder: Path, out: str) -> None:
    with Session.open(session_of(folder), readonly=True) as session:
        texts = [message["content"] for message in session.context().messages]
    assert texts == ["one", "two"]


def is_migrated(folder: Path) -> None:
    assert Path(f"{session_of(folder)}.v1").read_bytes() == VERSION_1


def import_(folder: Path) -> list[str]:
    source = folder / "claude" / "chat.jsonl"
    source.parent.mkdir()
    written(source, [prompt("u1", None, LARGE), assistant("a1", "u1")])
    (folder / "source").write_bytes(source.read_bytes())
    return ["import", str(source)]


def source_is_left(folder: Path, out: str) -> None:
    assert (folder / "claude" / "chat.jsonl").read_bytes() == (folder / "source").read_bytes()
    assert os.listdir(folder / "claude") == ["chat.jsonl"]
    for one in Store(folder / "store").list():
        uuids_at(one.file)


def is_imported(folder: Path) -> None:
    (one,) = Store(folder / "store").list()
    with (
        Session.open(one.file, readonly=True) as session,
        Session.open(folder / "claude" / "chat.jsonl", readonly=True) as source,
    ):
        assert session.context().messages == source.context().messages
        assert session.verify() == []


CASES = {
    "append": writing("append", "--text", "next"),
    "append a large text": writing("append", "--text", LARGE + "twice"),
    "label": writing("label", "@", "here"),
    "compact": writing("compact", "--summary", "in short", "--keep", "0"),
    "repair": Case(repair, is_kept, is_repaired),
    "gc": Case(collect, is_collected, has_no_garbage),
    "trash": Case(trash, is_kept, is_in_trash),
    "restore": Case(restore, is_kept, is_restored),
    "empty": Case(empty, is_whole_or_named, is_emptied),
    "fork": Case(fork, has_fork, is_forked),
    "migrate": Case(migrate, has_both_messages, is_migrated),
    "import": Case(import_, source_is_left, is_imported),
}


def prepare(case: Case, folder: Path) -> list[str]:
    """Make what the command is run on, and note what it has; the words of the command."""
    folder.mkdir()
    words = case.make(folder)
    files = [file for file in session_files(str(folder), print) if "claude" not in file]
    (folder / "before").write_text("\n".join(lasting(files[0]) if files else []))
    return words


def play(strace: str, folder: Path, words: list[str], options: list[str]) -> Outcome:
    """Run a command on a folder, with some of its calls failing."""
    logs = folder.with_suffix(".calls")
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    traced = ["-ff", "-qq", "-y", "-s", "1", "-o", str(logs / "log"), "-e"]
    command = [strace, *traced, f"trace={','.join(CALLS)}", *options, sys.executable]
    environment = {**os.environ, "SESSIONTREE_HOME": str(folder / "store"), "HOME": str(folder)}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    done = subprocess.run(
        [*command, "-m", "sessiontree", *words],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=PATIENCE,
        stdin=subprocess.DEVNULL,
    )
    lines = [line for log in logs.iterdir() for line in log.read_text("utf-8").splitlines()]
    fired = [line for line in lines if "(INJECTED)" in line]
    return Outcome(done.returncode, done.stdout, done.stderr, fired)


def is_about(line: str, folder: Path) -> bool:
    """Whether a call is for the files of a folder, or for the output of the command."""
    return f"{folder}/" in line or line.startswith(("write(1<", "write(2<"))


def calls_of(folder: Path) -> Iterator[tuple[str, int]]:
    """Each call of the last run that is about its folder: its name, and its number there."""
    for log in folder.with_suffix(".calls").iterdir():
        counts: Counter[str] = Counter()
        for line in log.read_text("utf-8").splitlines():
            name = line.partition("(")[0]
            counts[name] += 1
            if is_about(line, folder):
                yield name, counts[name]


def check_told(outcome: Outcome, folder: Path) -> None:
    """Check that a command ended well, or with one error; what it printed it may not have said."""
    assert "Traceback" not in outcome.err
    assert "a fault in sessiontree" not in outcome.err
    if any(line.startswith("write(2<") for line in outcome.fired):
        return
    errors = [line for line in outcome.err.splitlines() if line.startswith("Error: ")]
    # A blob that cannot be read is no error of a restore or a repair, which say so.
    is_warned = "Warning: " in outcome.err or "finding remains" in outcome.err
    assert (outcome.status, len(errors)) in ((0, 0), (1, 1), (1, 0 if is_warned else 1)), outcome
    if any(line.startswith("write(1<") for line in outcome.fired):
        assert not errors or errors[0].startswith("Error: standard output: "), outcome
    elif errors:
        check_says(errors[0], folder.name)


def sweep(
    strace: str, case: Case, tmp_path: Path, names: tuple[str, ...], errors: tuple[str, ...]
) -> int:
    """Run a command with each of its calls failing; how many failed."""
    sound = tmp_path / "sound"
    words = prepare(case, sound)
    shutil.copytree(sound, tmp_path / "kept")
    outcome = play(strace, sound, words, [])
    assert (outcome.status, outcome.fired) == (0, []), outcome
    case.check(sound, outcome.out)
    case.done(sound)
    calls = sorted({call for call in calls_of(sound) if call[0] in names})
    tried = strayed = 0
    for call, nth in calls:
        for error in errors:
            for stays in (False, True) if error == "EIO" else (False,):
                fault = Fault(call, nth, error, stays)
                shutil.rmtree(sound)
                shutil.copytree(tmp_path / "kept", sound)
                outcome = play(strace, sound, words, fault.words())
                if not outcome.fired or not is_about(outcome.fired[0], sound):
                    strayed += 1  # the interpreter made another number of calls this time
                    continue
                tried += 1
                try:
                    check_one(strace, case, sound, words, outcome)
                except (AssertionError, OSError, SessionTreeError) as wrong:
                    raise AssertionError(f"{fault}: {wrong!r}: {outcome}") from wrong
    assert strayed * 10 <= tried, f"{strayed} of {tried} faults hit other calls"
    return tried


def check_one(strace: str, case: Case, folder: Path, words: list[str], outcome: Outcome) -> None:
    """Check what must hold after a fault, and that the command then ends what was begun."""
    check_told(outcome, folder)
    case.check(folder, outcome.out)
    if outcome.status == 0:
        case.done(folder)
        return
    again = play(strace, folder, words, [])
    assert "Traceback" not in again.err
    case.check(folder, again.out)
    case.done(folder)


@pytest.mark.slow
def test_a_failing_call_of_the_system_costs_no_acknowledged_entry(
    strace: str, tmp_path: Path, record_property: Record
) -> None:
    tried = sweep(strace, CASES["append"], tmp_path, ("write", "fdatasync"), ("EIO",))
    record_property("faults", tried)
    assert tried > 4


@pytest.mark.soak
@for_each("call", CALLS)
@for_each("name", list(CASES))
def test_no_failing_call_of_the_system_costs_an_acknowledged_entry(
    strace: str, tmp_path: Path, name: str, call: str, record_property: Record
) -> None:
    record_property("faults", sweep(strace, CASES[name], tmp_path, (call,), ERRORS))
