from __future__ import annotations

import subprocess
import sys

import click

import sessiontree
from sessiontree.cli import COMMANDS, SYNONYMS, main
from tests.support.table import for_each
from tests.support.terminal import done, refused


def command(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


@for_each("name", COMMANDS)
def test_the_help_of_a_command_names_all_its_options_with_a_text(name: str) -> None:
    shown = done(name, "--help")
    for parameter in command(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help
            assert all(spelling in shown for spelling in parameter.opts)


@for_each("name", sorted(set(COMMANDS) - {"branch-here"}))
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    text = command(name).help
    assert text is not None
    assert text.splitlines()[0] == COMMANDS[name][1]
    assert command(name).name == name


@for_each("name", ["blob", "handle"])
def test_the_help_of_a_group_is_in_whole_sentences(name: str) -> None:
    _, listed = done(name, "--help").split("Commands:\n")
    assert all(line.endswith(".") and not line.endswith("...") for line in listed.splitlines())


@for_each("flag", ["--help", "-h"])
def test_help_lists_every_command_and_shows_an_example(flag: str) -> None:
    shown = done(flag)
    for name, (_, text) in COMMANDS.items():
        assert f"  {name} " in shown
        assert text in shown
    assert "sessiontree append chat.jsonl" in shown


@for_each(
    ("words", "same"),
    [((), ("--help",)), (("stats",), ("stats", "-h")), (("blob", "ls"), ("blob", "ls", "-h"))],
)
def test_help_is_a_command_too(words: tuple[str, ...], same: tuple[str, ...]) -> None:
    assert done("help", *words) == done(*same)


@for_each(
    ("name", "hint"),
    [
        ("grep", "did you mean 'search'?"),
        ("find", "did you mean 'search'?"),
        ("log", "did you mean 'tree'?"),
        ("usage", "did you mean 'stats'?"),
        ("rm", "did you mean 'trash'?"),
        ("cat", "did you mean 'show' or 'context'?"),
        ("continue", "did you mean 'resume'?"),
        ("serach", "did you mean 'search'?"),
        ("qqq", "'sessiontree help' lists the commands"),
    ],
)
def test_a_command_of_another_program_is_answered_with_the_one_here(name: str, hint: str) -> None:
    assert f"there is no command '{name}'; {hint}" in refused(name, "x", status=2)
    assert f"there is no command '{name}'; {hint}" in refused("help", name, status=2)


def test_each_name_of_another_program_leads_to_a_command_and_hides_none() -> None:
    assert not SYNONYMS.keys() & COMMANDS
    assert {name for names in SYNONYMS.values() for name in names} <= COMMANDS.keys()


@for_each("flag", ["--help", "--version"])
def test_help_and_version_import_no_command_and_no_decoder(flag: str) -> None:
    source = (
        "import sys; from sessiontree.cli import main;"
        f"main([{flag!r}], standalone_mode=False); print(*sys.modules, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert ended.returncode == 0
    loaded = set(ended.stderr.split())
    heavy = {"msgspec", "orjson", "stringzilla", "rich", "json", "sessiontree.core.entry"}
    assert heavy.isdisjoint(loaded)
    assert {m for m in loaded if m.startswith("sessiontree.cli.")} <= {"sessiontree.cli.terminal"}


def test_version_is_that_of_the_package() -> None:
    assert done("--version") == f"sessiontree {sessiontree.__version__}\n"


def test_every_command_that_prints_data_takes_json() -> None:
    for name in set(COMMANDS) - {"demo", "mcp", "browse", "view", "completion"}:
        assert "--json" in done(name, "--help")


@for_each("name", COMMANDS)
def test_an_unreadable_file_is_an_error_and_not_wrong_usage(name: str) -> None:
    """It is found out by reading, and told as any other refusal; the next file goes on."""
    commands = [command(name)]
    for group in commands:
        commands += group.commands.values() if isinstance(group, click.Group) else ()
    types = [parameter.type for one in commands for parameter in one.params]
    assert not any(type.readable for type in types if isinstance(type, click.Path))
