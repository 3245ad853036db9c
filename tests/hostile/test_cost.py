"""What a hostile file costs: processor time and memory, for each structure and command.

The bar holds for any file of up to 5 MB: each command ends within five seconds and 400 MB, and at
four times the size takes at most five times as much, or as much more as a decoder alone takes for
the lines. Time is processor time, so that a busy machine changes little.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from tests.hostile import commands, corpus
from tests.hostile.runner import Cost, Runner, bare_growth, commands_for
from tests.support.soak import in_soak
from tests.support.table import for_each

SMALL: Final = 100_000
LARGE: Final = 5_000_000

MOST_SECONDS: Final = 5.0
MOST_MEGABYTES: Final = 400.0
GROWTH: Final = 5.0
_START: Final = 0.1
"""Seconds that a command of the least work may take, and so does not grow from."""

_START_MEGABYTES: Final = 40.0

QUICK: Final = (
    *("convert to claude-code", "context for anthropic", "convert to pi", "verify"),
    *("export", "convert to atif", "show"),
)
"""The commands for a small file, each for every seventh structure."""

MEDIUM: Final = 2_000_000
SQUARE: Final = (
    ("lanes", "branches", MEDIUM),
    ("calls_in_one_message", "context for anthropic", MEDIUM),
    ("gemini_calls_in_one_message", "context", MEDIUM),
    ("gemini_calls_in_one_message", "files", MEDIUM),
    ("claude_sidechains", "convert to atif", MEDIUM),
    ("pi_compactions", "import", MEDIUM),
    ("merges_of_what_is_gone", "diff as JSON", LARGE),
    ("gemini_calls_in_one_message", "history", MEDIUM),
    ("star_below_usage", "page", MEDIUM // 2),
    ("merges_from_the_side", "page", MEDIUM // 2),
    ("text_of_command_names", "tree", MEDIUM // 2),
    ("code_fences", "page", MEDIUM // 2),
)
"""Costs that once grew with the square of the size, too slowly for a small file to show."""

STRUCTURES: Final = [*corpus.STRUCTURES, *corpus.FOREIGN]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with Runner(tmp_path_factory.mktemp("hostile")) as started:
        yield started


@pytest.mark.slow
@in_soak("every", 12, 1)
def test_a_small_hostile_file_costs_no_more_than_its_size(runner: Runner, every: int) -> None:
    faults: list[str] = []
    for number, name in list(enumerate(STRUCTURES))[::every]:
        command = QUICK[number % len(QUICK)]
        for cost in runner.costs(name, SMALL, {command: commands_for(name)[command]}).values():
            faults += _faults(name, command, cost, seconds=4.0, megabytes=150.0)
    assert faults == []


@pytest.mark.slow
@in_soak("every", 8, 1)
def test_a_cost_that_grew_with_the_square_stays_low(runner: Runner, every: int) -> None:
    faults: list[str] = []
    for name, command, size in SQUARE[::every]:
        cost = runner.costs(name, size, {command: commands_for(name)[command]})[command]
        faults += _faults(name, command, cost, seconds=3.0, megabytes=200.0)
    assert faults == []


@pytest.mark.soak
@for_each("name", corpus.EDITS)
def test_what_is_told_of_a_file_costs_little(runner: Runner, name: str) -> None:
    of_edits = ("blame of an edited file", "history of an edited file", "recover an edited file")
    wanted = {command: commands_for(name)[command] for command in (*of_edits, "files")}
    faults: list[str] = []
    for command, cost in runner.costs(name, MEDIUM, wanted).items():
        faults += _faults(name, command, cost, MOST_SECONDS, MOST_MEGABYTES)
    assert faults == []


@pytest.mark.soak
@for_each("name", STRUCTURES)
def test_every_command_ends_within_the_bar_on_five_megabytes(runner: Runner, name: str) -> None:
    wanted = commands_for(name)
    quarter = runner.costs(name, LARGE // 4, wanted)
    whole = runner.costs(name, LARGE, wanted)
    faults: list[str] = []
    for command, cost in whole.items():
        faults += _faults(name, command, cost, MOST_SECONDS, MOST_MEGABYTES)
    if any(_grown(name, quarter, whole, GROWTH)):
        most = max(GROWTH, bare_growth(runner, name, LARGE // 4, LARGE))
        faults += _grown(name, quarter, whole, most)
    assert faults == []


def _grown(
    name: str, quarters: Mapping[str, Cost], wholes: Mapping[str, Cost], most: float
) -> Iterator[str]:
    for command, whole in wholes.items():
        yield from _growth(name, command, quarters[command], whole, most)


def test_a_command_is_given_for_all_that_read_or_write_a_session() -> None:
    given = {words[0] for words in (*commands.OWN.values(), *commands.FOREIGN.values())}
    # `follow` does not end, `record` and `new` read no session; `restore` and `move-project` move
    # files of which they read the names; `hide` and `completion` read the list alone, and
    # `map-path` its rules; `branch-here` is `branch`; `call` and `mcp` do what the others do;
    # `browse` needs a terminal, and `view` does not end: both have tests of their own for hostile
    # sessions.
    others = {
        "follow",
        "record",
        "new",
        "restore",
        "move-project",
        "branch-here",
        "call",
        "mcp",
        "browse",
        "view",
        "demo",
        "hide",
        "completion",
        "map-path",
    }
    assert given | others == set(_commands())


def _commands() -> Mapping[str, object]:
    from sessiontree.cli import COMMANDS

    return COMMANDS


def _faults(name: str, command: str, cost: Cost, seconds: float, megabytes: float) -> Iterator[str]:
    if cost.fault:
        yield f"{name}: {command}: {cost.fault}"
    if cost.seconds > seconds or cost.megabytes > megabytes:
        yield f"{name}: {command}: {cost.seconds:.1f} s, {cost.megabytes:.0f} MB"


def _growth(name: str, command: str, quarter: Cost, whole: Cost, most: float) -> Iterator[str]:
    """What grows faster than the file; a limit that is met ends the growth."""
    if whole.seconds > most * max(quarter.seconds, _START):
        yield f"{name}: {command}: {quarter.seconds:.2f} s, then {whole.seconds:.2f} s"
    grown = [max(cost.megabytes - _START_MEGABYTES, _START_MEGABYTES) for cost in (quarter, whole)]
    if grown[1] > GROWTH * grown[0]:
        yield f"{name}: {command}: {quarter.megabytes:.0f} MB, then {whole.megabytes:.0f} MB"
