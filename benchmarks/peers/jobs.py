"""What is measured: each job, the sessions it is done with, and who does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NEEDLE: Final = "part-317.ts"
"""What is searched for: a file name that some hundred calls of 200 MB name."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Who does a job, and how.

    Attributes:
        name: as the tables have it; the same program may contend in several ways.
        program: key of the program.
        arguments: after the program's command; `{folder}` is the corpus.
        quiet: it prints no figures: the whole process is the operation.
        only: the corpora it can do it with; empty: all.
        expects: key of the count in the corpus's facts, which the job must find.
    """

    name: str
    program: str
    arguments: tuple[str, ...]
    quiet: bool = False
    only: tuple[str, ...] = ()
    expects: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """One thing to do.

    Attributes:
        key: names it on the command line.
        corpora: what it is done with, by growing size.
        writes: it changes its corpus, and gets a copy of its own for each run.
        each: the figure is for one of `count` operations.
        cannot: programs that have no call for it, and why.
    """

    key: str
    title: str
    corpora: tuple[str, ...]
    contenders: tuple[Contender, ...]
    writes: bool = False
    each: bool = False
    cannot: tuple[tuple[str, str], ...] = ()


FORMATS: Final = {
    "sessiontree": "sessiontree",
    "pi": "pi",
    "pi-new": "pi",
    "claude": "claude",
    "openai": "openai",
    "langgraph": "langgraph",
}
"""The folder of a corpus that a program reads."""

_DRIVERS: Final = {
    "sessiontree": "ours",
    "bare": "bare",
    "claude": "claude_code",
    "openai": "openai_agents",
    "langgraph": "langgraph_saver",
}


_CLI: Final = ("-m", "sessiontree")
_STORE: Final = "{folder}/sessiontree"
_SESSION: Final = "{folder}/sessiontree/project/session.jsonl"


def _driver(
    program: str, job: str, variant: str = "", *, name: str = "", only: Sequence[str] = ()
) -> Contender:
    expects = {"resume": "context", "list": "sessions"}.get(job, "")
    if program.startswith("pi"):
        return Contender(name or program, program, (job, "{folder}"), expects=expects)
    module = f"benchmarks.peers.drivers.{_DRIVERS[program]}"
    arguments = ("-m", module, job, "{folder}", *([variant] if variant else []))
    return Contender(name or program, program, arguments, only=tuple(only), expects=expects)


def _all(*programs: str, job: str) -> tuple[Contender, ...]:
    return tuple(_driver(program, job) for program in programs)


def _case(program: str, case: str, *, name: str = "") -> Contender:
    return Contender(name or program, program, ("-m", "benchmarks.cases", case, _SESSION))


def sized(shape: str, *sizes: int) -> tuple[str, ...]:
    return tuple(f"{shape}-{size}" for size in sizes)


_SIZES: Final = sized("branched", 2, 20, 200)
_COMPACTED: Final = sized("compacted", 2, 20, 200)
_WRITES_ITSELF: Final = "the program itself writes; the SDK has no call that appends a message"
_SYNCS_NOTHING: Final = "has no append that syncs"
_EACH_ONE_SYNCED: Final = "syncs every add; see the synced appends"
_NO_LIST: Final = "has no call that lists sessions"

JOBS: Final = (
    Job(
        "resume-compacted",
        "Resume, compacted: the last 500 messages and a summary",
        (*_COMPACTED, "compacted-2000"),
        (
            *_all("sessiontree", "pi", "pi-new", "claude", job="resume"),
            _driver("openai", "resume", "compacted", only=_COMPACTED),
            _driver("langgraph", "resume", only=_COMPACTED),
        ),
        cannot=(
            ("openai", "has no compaction: the driver asks for the last items only"),
            ("langgraph", "only the state at the leaf, without the checkpoints before it"),
        ),
    ),
    Job(
        "resume-uncompacted",
        "Resume, uncompacted: 36% of the messages are on the path",
        _SIZES,
        _all("sessiontree", "pi", "pi-new", "claude", "openai", "langgraph", job="resume"),
    ),
    Job(
        "resume-deep",
        "Resume, 1,000,000 small messages deep",
        ("chain-1000000",),
        _all("sessiontree", "pi", "pi-new", "claude", "openai", "langgraph", job="resume"),
    ),
    Job(
        "append-os",
        "Append one message, not synced",
        _SIZES,
        (
            _driver("sessiontree", "append-os"),
            _driver("sessiontree", "append-os", "exclusive", name="sessiontree, exclusive"),
            *_all("pi", "pi-new", job="append-os"),
            _driver("bare", "sqlite-os", name="bare SQLite (WAL, NORMAL)", only=_SIZES[:1]),
            _driver("bare", "write-os", name="bare write", only=_SIZES[:1]),
        ),
        writes=True,
        each=True,
        cannot=(
            ("claude", _WRITES_ITSELF),
            ("openai", _EACH_ONE_SYNCED),
            ("langgraph", _EACH_ONE_SYNCED),
        ),
    ),
    Job(
        "append-fsync",
        "Append one message, synced",
        _SIZES,
        (
            _driver("sessiontree", "append-fsync"),
            _driver("sessiontree", "append-fsync", "exclusive", name="sessiontree, exclusive"),
            *_all("openai", "langgraph", job="append-fsync"),
            _driver("bare", "sqlite-fsync", name="bare SQLite (WAL, FULL)", only=_SIZES[:1]),
            _driver("bare", "write-fsync", name="bare write and sync", only=_SIZES[:1]),
        ),
        writes=True,
        each=True,
        cannot=(("pi", _SYNCS_NOTHING), ("pi-new", _SYNCS_NOTHING), ("claude", _WRITES_ITSELF)),
    ),
    Job(
        "append-small",
        "Append one short message, not synced if the program has the choice",
        _SIZES[:1],
        (
            _driver("sessiontree", "append-os", "small", name="sessiontree, exclusive"),
            _driver("openai", "append-fsync", "small"),
            _driver("bare", "sqlite-os", "small", name="bare SQLite (WAL, NORMAL)"),
            _driver("bare", "write-os", "small", name="bare write"),
        ),
        writes=True,
        each=True,
    ),
    Job(
        "fork",
        "Fork at the middle of the path, to a session of its own",
        _SIZES,
        (
            *_all("sessiontree", "pi", "pi-new", "claude", "openai", job="fork"),
            _driver("langgraph", "fork", only=_SIZES[:1]),
        ),
        writes=True,
        cannot=(
            ("openai", "a branch in the same database, sharing the messages"),
            ("langgraph", "needs all checkpoints; those of a longer session do not fit on disk"),
        ),
    ),
    Job(
        "branch",
        "Branch in place at the middle of an open session, and build the context again",
        _SIZES,
        _all("sessiontree", "pi", "pi-new", "openai", job="branch"),
        writes=True,
        cannot=(
            ("pi", "branches in memory only: it writes nothing before the next message"),
            ("pi-new", "branches in memory only: it writes nothing before the next message"),
            ("claude", "has no call that goes back in place"),
            ("langgraph", "needs all checkpoints"),
        ),
    ),
    Job(
        "list",
        "List the sessions of a folder, 100 KB each",
        ("sessions-1000-1", "sessions-10000-1"),
        (
            _driver("sessiontree", "list"),
            Contender("sessiontree ls", "sessiontree", (*_CLI, "ls", _STORE), quiet=True),
            *_all("pi", "pi-new", "claude", job="list"),
        ),
        cannot=(("openai", _NO_LIST), ("langgraph", _NO_LIST)),
    ),
    Job(
        "search",
        "Search for a rare file name",
        (*_SIZES, "sessions-1000-1", "sessions-1000-10"),
        (
            Contender("sessiontree", "sessiontree", (*_CLI, "search", NEEDLE, _STORE), quiet=True),
            Contender("ripgrep", "ripgrep", ("--no-config", "-F", NEEDLE, _STORE), quiet=True),
            *_all("pi", "pi-new", job="search"),
            _driver("openai", "search", only=_SIZES),
        ),
        cannot=(
            ("pi", "searches only the text of users and assistants"),
            ("pi-new", "searches only the text of users and assistants"),
            ("openai", "searches only the user's messages"),
            ("claude", "has no call that searches"),
            ("langgraph", "has no call that searches"),
        ),
    ),
    Job(
        "context-again",
        "The context again after one append",
        _SIZES[2:],
        (_case("sessiontree", "next-context"),),
    ),
    Job(
        "index",
        "Index the whole file",
        (_SIZES[2], "chain-1000000"),
        (
            _case("sessiontree", "index"),
            _case("bare", "bare-index", name="bare loop of msgspec"),
        ),
    ),
    Job(
        "tree",
        "Draw the tree of 100,000 entries",
        _SIZES[2:],
        (Contender("sessiontree tree", "sessiontree", (*_CLI, "tree", _SESSION), quiet=True),),
    ),
    Job(
        "help",
        "Ask the command line for help",
        _SIZES[:1],
        (
            Contender("sessiontree --help", "sessiontree", (*_CLI, "--help"), quiet=True),
            Contender("import click", "bare", ("-c", "import click"), quiet=True),
        ),
    ),
)
