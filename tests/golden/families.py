"""The rows of the goldens, in families: each row has a key and gives texts, one for each variant.

A family runs in one process and one folder. `chosen` takes rows for a quick check that together
meet each command and each session: the core lines for all sessions, each other line for a few.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.cli.cases import CASES, FIXTURES, lines_of
from tests.golden import doors, lines, seam
from tests.golden.home import OWN, STORE, file_of, make_home
from tests.golden.places import Copy, Home, Place

Texts = dict[str, str | None]
"""The text of each variant; None for one that a quick check leaves out."""

Play = Callable[[bool], Texts]
"""Plays a row, `True` for a quick check."""

DRAWN: Final = ("tree", "diff", "ls", "search", "stats", "labels", "history", "blame", "show")
"""The commands that ask for the width and the colours of the screen."""

_FEW: Final = 2


class Row(NamedTuple):
    """One row: `line` is what it shares with rows of other sessions."""

    key: str
    line: str
    play: Play
    is_core: bool = False


Rows = Iterator[Row]


def chosen(rows: Sequence[Row]) -> list[Row]:
    """The rows of a quick check: the core, and for each other line a few."""
    taken: dict[str, int] = {}
    found = []
    for row in sorted(rows, key=lambda row: zlib.crc32(row.key.encode())):
        if not row.is_core:
            taken[row.line] = taken.get(row.line, 0) + 1
        if row.is_core or taken[row.line] <= _FEW:
            found.append(row)
    return found


# Sessions, one by one


def fixtures(folder: Path) -> Rows:
    """Each line on each session of the conformance set."""
    for file in sorted(FIXTURES.glob("*/session.jsonl")):
        place = Copy(folder / "work", file.parent)
        yield from _of_session(place, file.parent.name, file.name)


def cases(folder: Path) -> Rows:
    """The lines of `tests.cli.cases`, which are kept there as texts without what varies."""
    for name, source in CASES.items():
        place = Copy(folder / "work", source)
        for line in dict.fromkeys(lines_of(name)):
            words = line.replace("FILE", "session.jsonl")
            yield Row(f"{name}: {line}", line, partial(_steps, place, words))


def sessions(folder: Path, scale: int = 1) -> Rows:
    """Each line on each session of a made home."""
    _home(folder, scale)
    homes = folder / "homes"
    for file in sorted([*homes.rglob("*.jsonl"), *homes.rglob("chats/*.json")]):
        place = Copy(folder / "copy", file.parent, file.stem)
        agent = file.relative_to(homes).parts[0]
        yield from _of_session(place, f"{agent} {file.stem[-14:]}", file.name)


def corpus(folder: Path, source: Path) -> Rows:
    """Each line on each session of a folder, with what is beside it."""
    for file in sorted([*source.rglob("*.jsonl"), *source.rglob("*.json")]):
        place = Copy(folder / "copy", file.parent, file.stem)
        yield from _of_session(place, str(file.relative_to(source)), file.name)


def _of_session(place: Place, name: str, file: str) -> Rows:
    for line in lines.READING:
        play = partial(_variants, place, line.replace("FILE", file))
        yield Row(f"{name}: {line.replace(' FILE', '')}", line, play, line in lines.CORE)
    for title, line in lines.WRITING.items():
        play = partial(_steps, place, line.replace("FILE", file))
        yield Row(f"{name}: {title}", line, play)


# All sessions of a user


def home(folder: Path, scale: int = 1) -> Rows:
    """Lines about all sessions of a user."""
    place = _home(folder, scale)
    for line in lines.HOME_READING:
        yield Row(line, line, partial(_variants, place, _named(line)), is_core=True)
    for line in lines.HOME_WRITING:
        yield Row(line, line, partial(_steps, place, _named(line)), is_core=True)


def calls(folder: Path) -> Rows:
    """Calls of methods by their names."""
    place = _home(folder)
    for line in lines.CALLS:
        words = "; ".join(f"call {each} --json" for each in _named(line).split("; "))
        yield Row(line, line, partial(_steps, place, words), is_core=True)
    yield Row("--schema", "", partial(_steps, place, "call --schema"), is_core=True)


def usage(folder: Path) -> Rows:
    """The help of each command, and what it says of wrong usage."""
    place = _home(folder)
    small = Copy(folder / "copy", folder / "work/app/docs")
    for words, params in seam.commands().items():
        help = f"{words} --help".strip()
        yield Row(help, "--help", partial(_variants, small, help), is_core=True)
        if words in ("", "browse", "view", "mcp"):
            continue
        is_core = not words.startswith("call ")
        for wrong in ("", "nobody", "--nope") if params else ("--nope",):
            line = f"{words} {wrong}".strip()
            yield Row(line, wrong, partial(_steps, small, line), is_core)
    for line in lines.REFUSED:
        yield Row(f"refused: {line}", line, partial(_steps, place, _named(line)), is_core=True)


def library(folder: Path) -> Rows:
    """What the public package gives."""
    place = _home(folder)
    package = seam.library()
    yield Row("names", "", lambda _: {"": "\n".join(package.__all__)}, is_core=True)
    for file in sorted((folder / STORE).rglob("*.jsonl")):
        for asked in lines.LIBRARY:
            play = partial(_asked, place, f"Session.open({str(file)!r}, readonly=True)", asked)
            yield Row(f"{file.stem}: {asked}", asked, play, is_core=file.stem == "mixed")
    for asked in lines.STORE_LIBRARY:
        play = partial(_asked, place, f"Store({str(folder / STORE)!r})", asked)
        yield Row(f"store: {asked}", asked, play, is_core=True)


def screens(folder: Path) -> Rows:
    """What is on terminals, and what servers answer."""
    place = _home(folder)
    for line in lines.TERMINAL:
        play = partial(_on_terminal, place, _named(line))
        yield Row(f"terminal: {line}", line, play, is_core=True)
    for width in (80, 120):
        play = partial(_served, place, partial(doors.browsed, width, lines.SCREENS))
        yield Row(f"browse {width}", "browse", play)
    for options in ((), ("--tools", "all", "--write"), ("--agents", "--redact")):
        play = partial(_served, place, partial(doors.offered, options))
        yield Row(" ".join(("mcp", *options)), "", play, is_core=bool(options))
    play = partial(_served, place, partial(doors.viewed, lines.PAGES))
    yield Row("view", "", play, is_core=True)


FAMILIES: Final[dict[str, Callable[..., Rows]]] = {
    each.__name__: each
    for each in (fixtures, cases, sessions, home, calls, usage, library, screens)
}


def _home(folder: Path, scale: int = 1) -> Place:
    seam.set_environment(make_home(folder, scale))
    return Home(folder, seam.kept_beside(folder))


def _named(line: str) -> str:
    """A line with the paths that its words stand for; a name alone is a session of the store."""
    paths = {"WORK": "work/app", "STORE": STORE}
    paths |= {name: file_of(name) for name in OWN}
    words = line.split(" ")
    return " ".join(
        paths.get(word) or word.replace("WORK", paths["WORK"]).replace("STORE", STORE)
        for word in words
    )


def _play(words: str, **options: Any) -> str:
    found = [name for word in words.split() for name in (sorted(glob(word)) or [word])]
    return seam.run(found, **options)


def _variants(place: Place, line: str, is_quick: bool) -> Texts:
    """A command that reads, at two widths, with and without colour, and as JSON."""
    place.clean()
    words = line.split()
    variants = (
        ["120 colour", "80", "120", "80 colour"] if words[0] in DRAWN else ["80", "120 colour"]
    )
    made: Texts = {}
    for number, name in enumerate(variants):
        width, *colour = name.split()
        is_left_out = is_quick and number
        made[name] = None if is_left_out else _play(line, width=int(width), colour=bool(colour))
    if "--json" in seam.options(words):
        made["json"] = _play(f"{line} --json")
    seam.pass_time(place.folder)
    if changes := "".join(place.changes()):
        made["changes"] = changes
    return made


def _steps(place: Place, line: str, is_quick: bool) -> Texts:
    """Commands one after another, and the files that differ afterwards, as one text."""
    place.clean()
    made = []
    for each in line.split("; "):
        words, _, stdin = each.partition(" < ")
        said = _play(words, stdin=Path(stdin).read_bytes() if stdin else b"")
        made.append(f"$ {each}\n{said}")
        seam.pass_time(place.folder)
    return {"": "".join([*made, *place.changes()])}


def _asked(place: Place, opened: str, asked: str, is_quick: bool) -> Texts:
    place.clean()
    return {"": seam.asked(opened, asked)}


def _on_terminal(place: Place, line: str, is_quick: bool) -> Texts:
    place.clean()
    made: Texts = {"120": seam.run_on_terminal(line.split(), width=120)}
    made["80"] = None if is_quick else seam.run_on_terminal(line.split())
    made["80 plain"] = None if is_quick else seam.run_on_terminal(line.split(), colour=False)
    return made


def _served(place: Place, serve: Callable[[], Texts], is_quick: bool) -> Texts:
    place.clean()
    return serve()
