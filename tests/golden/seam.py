"""sessiontree as the goldens reach it: its doors, behind a fixed clock, random source and home.

All that the goldens know of sessiontree is imported here, so modules may move. The process is given
up to it: `start` must run before sessiontree is imported, and nothing is put back. A family of rows
always runs in the same folder, as paths are in files, checksums and cut lines; other processes
wait for the folder.
"""

from __future__ import annotations

import datetime as datetimes
import fcntl
import io
import json
import os
import pty
import random
import shutil
import struct
import sys
import tempfile
import termios
import threading
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from datetime import datetime as Datetime  # noqa: N812
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

CHECKOUT: Final = Path(__file__).parents[2]
TOP: Final = Path("/tmp/sessiontree-golden")
NOW: Final = datetimes.datetime(2029, 11, 23, 12, tzinfo=datetimes.UTC)
"""Later than the clock of the machine, so each file that a row writes has settled."""

OLD: Final = datetimes.datetime(2029, 11, 2, 10, tzinfo=datetimes.UTC).timestamp()
"""When the files that rows read have changed."""

_STEP: Final = datetimes.timedelta(minutes=1)
_ENVIRONMENT: Final = {
    "PATH": "/usr/bin:/bin",  # no agent is installed
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "PAGER": "cat",
    "TERM": "xterm-256color",
}


class _Now:
    moment = NOW
    source = random.Random()
    product = CHECKOUT


class _IsDatetime(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Datetime)


class _Datetime(Datetime, metaclass=_IsDatetime):
    @classmethod
    def now(cls, tz: datetimes.tzinfo | None = None) -> Any:
        local = _Now.moment if tz else _Now.moment.replace(tzinfo=None)
        return local.astimezone(tz) if tz else local


class _Price:
    """A price of the stand-in for `genai-prices`: it depends on no installed version."""

    output_mtok = 10


def _priced(usage: Any, model_ref: str, **about: Any) -> Any:
    if "unknown" in model_ref:
        raise LookupError(model_ref)
    made = ModuleType("price")
    tokens = usage.given.get("input_tokens") or 0, usage.given.get("output_tokens") or 0
    total = (tokens[0] + 5 * tokens[1]) / 1_000_000
    vars(made).update(total_price=total, model_price=_Price())
    return made


class _Usage:
    def __init__(self, **given: Any) -> None:
        self.given = given


def _prices() -> ModuleType:
    made = ModuleType("genai_prices")
    vars(made).update(__version__="golden", calc_price=_priced, Usage=_Usage)
    return made


def start(product: Path = CHECKOUT) -> None:
    """Take sessiontree from a checkout, and let time and random numbers be the same each time."""
    if "sessiontree" in sys.modules:
        raise RuntimeError("sessiontree is imported already; start a process for the goldens")
    _Now.product = product
    sys.path.insert(0, str(product))
    sys.modules["genai_prices"] = _prices()
    datetimes.datetime = _Datetime  # type: ignore[misc]
    time.time = lambda: _Now.moment.timestamp()
    time.time_ns = lambda: int(_Now.moment.timestamp() * 1000) * 1_000_000
    os.urandom = lambda size: _Now.source.randbytes(size)
    os.fsync = os.fdatasync = lambda fd: None  # which no row can see
    vars(random)["_urandom"] = os.urandom  # for `secrets`


@contextmanager
def place(family: str) -> Iterator[Path]:
    """The folder of a family, empty, with a home in it, for this process alone."""
    TOP.mkdir(mode=0o1777, exist_ok=True)
    folder, temporary = TOP / family, TOP / f"{family}.tmp"
    with open(TOP / f"{family}.lock", "a") as lock, ExitStack() as stack:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for each in (folder, temporary, kept_beside(folder)):
            shutil.rmtree(each, ignore_errors=True)
            stack.callback(shutil.rmtree, each, ignore_errors=True)
        folder.mkdir()
        temporary.mkdir()
        stack.callback(os.chdir, "/")
        _ENVIRONMENT["TMPDIR"] = str(temporary)
        set_environment({"HOME": str(folder)})
        os.chdir(folder)
        yield folder


def kept_beside(folder: Path) -> Path:
    """Where the folder of a family may be kept as it was at first."""
    return folder.with_name(f"{folder.name}.kept")


def set_environment(variables: Mapping[str, str]) -> None:
    """Let the product see these variables, and no others of this process."""
    os.environ.clear()
    os.environ |= {**_ENVIRONMENT, **variables}
    time.tzset()


def product() -> str:
    """The checkout that sessiontree is taken from."""
    return str(_Now.product)


def begin(key: str) -> None:
    """Begin a row: its clock and its random numbers do not depend on the rows before."""
    _Now.moment = NOW
    _Now.source = random.Random(key)
    vars(tempfile).update(_Random=lambda: random.Random(key), _name_sequence=None)


def pass_time(folder: Path) -> None:
    """Let a minute pass; what was written in it is as old as its end."""
    _Now.moment += _STEP
    settle(folder, _Now.moment.timestamp())


def settle(folder: Path, moment: float | None = None) -> None:
    """Let the files whose times the system set have changed at a moment, by default long ago."""
    for top, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(top, name)
            with suppress(FileNotFoundError):  # a lock
                if os.lstat(path).st_mtime_ns % 1_000_000_000:
                    when = OLD + zlib.crc32(name.encode()) % 9000 if moment is None else moment
                    os.utime(path, (when, when), follow_symlinks=False)


def run(words: Sequence[str], *, width: int = 80, colour: bool = False, stdin: bytes = b"") -> str:
    """What a command prints in a pipe, and its exit code if it is not 0."""
    from click.testing import CliRunner

    from sessiontree.cli import main

    _screen(width, colour)
    result = CliRunner().invoke(main, list(words), stdin, color=colour, prog_name="sessiontree")
    said = result.stdout_bytes.decode("utf-8", "backslashreplace")
    if result.stderr:
        said += f"--- standard error\n{result.stderr}"
    if result.exit_code:
        said += f"--- exit {result.exit_code}\n"
    if result.exception and not isinstance(result.exception, SystemExit):
        said += f"--- {result.exception!r}\n"
    return said


def _screen(width: int, colour: bool) -> None:
    os.environ |= {"COLUMNS": str(width), "LINES": "24"}
    for name in ("FORCE_COLOR", "NO_COLOR"):
        os.environ.pop(name, None)
    os.environ["FORCE_COLOR" if colour else "NO_COLOR"] = "1"


def run_on_terminal(words: Sequence[str], *, width: int = 80, colour: bool = True) -> str:
    """What a command writes to a terminal."""
    from sessiontree.cli import main

    _screen(width, colour)
    os.environ.pop("FORCE_COLOR", None)
    taken: list[bytes] = []
    told = io.StringIO()
    code: object = 0
    with (
        _terminal(width, taken),
        open(0, closefd=False) as typed,
        open(1, "w", closefd=False) as out,
        patch.object(sys, "stdin", typed),
        redirect_stdout(out),
        redirect_stderr(told),
    ):
        try:
            main(list(words), prog_name="sessiontree")
        except SystemExit as ended:
            code = ended.code
    said = b"".join(taken).decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    if told.getvalue():
        said += f"--- standard error\n{told.getvalue()}"
    return f"{said}--- exit {code}\n" if code else said


@contextmanager
def _terminal(width: int, taken: list[bytes]) -> Iterator[None]:
    """Let standard input and output be a terminal; what is written to it is taken."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    before = os.dup(0), os.dup(1)
    reader = threading.Thread(target=_drain, args=(ours, taken))
    reader.start()
    try:
        os.dup2(theirs, 0)
        os.dup2(theirs, 1)
        os.close(theirs)
        yield
    finally:
        for target, fd in enumerate(before):
            os.dup2(fd, target)
            os.close(fd)
        reader.join()
        os.close(ours)


def _drain(terminal: int, taken: list[bytes]) -> None:
    with suppress(OSError):  # EIO: nobody writes to it any more
        while block := os.read(terminal, 1 << 16):
            taken.append(block)


def browse(width: int, views: Sequence[Sequence[str]]) -> list[str]:
    """The screens of the browser after each list of keys."""
    import asyncio

    from textual.app import App

    screens: list[str] = []

    async def settled(app: App[Any], pilot: Any) -> None:
        for _ in range(2):
            await app.workers.wait_for_complete()
            await pilot.pause()

    async def drive(app: App[Any]) -> None:
        async with app.run_test(size=(width, 24)) as pilot:
            await settled(app, pilot)
            for keys in views:
                for key in keys:
                    await pilot.press(key)
                    await settled(app, pilot)
                strips = app.screen._compositor.render_strips()
                screens.append("".join(f"{strip.text.rstrip()}\n" for strip in strips))

    with patch.object(App, "run", lambda app: asyncio.run(drive(app))):
        run_on_terminal(["browse"], width=width, colour=False)
    return screens


def library() -> Any:
    """The public package."""
    import sessiontree

    return sessiontree


def asked(opened: str, question: str) -> str:
    """What an expression gives, asked of another that opens something; or its error."""
    names = vars(library()) | {name: getattr(library(), name) for name in ("Session", "Store")}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with ExitStack() as stack:
                source = eval(opened, names)
                if hasattr(source, "__exit__"):
                    stack.enter_context(source)
                made = _plain(eval(f"source.{question}", names, {"source": source}))
        except Exception as error:
            made = f"{type(error).__name__}: {error}"
    said = [f"{type(each.message).__name__}: {each.message}" for each in caught]
    return json.dumps([made, *said], indent=1, ensure_ascii=False) + "\n"


def _plain(value: Any) -> Any:
    """A value of any type as values of JSON, by its public fields."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    for fields in ("_fields", "__struct_fields__", "__dataclass_fields__"):
        if names := getattr(value, fields, None):
            return {name: _plain(getattr(value, name)) for name in names if name[0] != "_"}
    if hasattr(value, "__iter__"):
        found = [_plain(each) for each in value]
        return sorted(map(str, found)) if isinstance(value, set | frozenset) else found
    if " object at 0x" not in repr(value):
        return str(value)
    public = {name: getattr(value, name) for name in dir(value) if name[0] != "_"}
    return {name: _plain(each) for name, each in public.items() if not callable(each)}


def commands() -> dict[str, list[str]]:
    """The parameters that must be given, by the words of each command."""
    found: dict[str, list[str]] = {}

    def walk(command: Any, words: list[str]) -> None:
        found[" ".join(words)] = [param.name for param in command.params if param.required]
        for name in _names_below(command):
            walk(_below(command, name), [*words, name])

    walk(_main(), [])
    return found


def options(words: Sequence[str]) -> set[str]:
    """The options of the command that a line begins with."""
    command = _main()
    for word in words:
        if word not in _names_below(command):
            break
        command = _below(command, word)
    return {option for param in command.params for option in param.opts}


def _main() -> Any:
    from sessiontree.cli import main

    return main


def _names_below(command: Any) -> list[str]:
    import click

    is_group = isinstance(command, click.Group)
    return command.list_commands(click.Context(command)) if is_group else []


def _below(command: Any, name: str) -> Any:
    import click

    return command.get_command(click.Context(command), name)


if __name__ == "__main__":  # a command as a process of its own, for `doors`
    start(Path(os.environ.pop("GOLDEN_PRODUCT")))
    begin(sys.argv[1])
    from sessiontree.cli import main

    main(prog_name="sessiontree")
