"""The command line: `sessiontree COMMAND FILE …`.

What every command promises: data on standard output and everything else on
standard error; exit 0 done, 1 failed with one clear line, 2 wrong usage; no
traceback; nothing from a session that drives a terminal. A command is imported
when it is called, so that one does not pay for the others.
"""

from __future__ import annotations

import contextlib
import importlib
import warnings
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import click

from sessiontree.cli import terminal
from sessiontree.errors import SessionTreeError, SessionTreeWarning

SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Write": {
        "new": ("write:new", "Make a new session."),
        "append": ("write:append", "Append a message, a file or a handle."),
        "record": ("record:record", "Record a coding agent's stream from standard input."),
        "import": (
            "import_sessions:import_",
            "Import sessions of other agents, to go on with them.",
        ),
        "keep": ("write:keep", "Join a lane to main, where its last entry is."),
        "label": ("write:label", "Name an entry, or take its name away."),
        "rename": ("write:rename", "Give the session a name."),
        "edit-context": ("write:edit_context", "Drop or replace what an entry contributes."),
    },
    "Find": {
        "ls": ("store:ls", "List sessions."),
        "search": ("search:search", "Search what was said, in all branches of all sessions."),
    },
    "Keep in order": {
        "trash": ("store:trash", "Put sessions away, to be had back."),
        "restore": ("store:restore", "Bring sessions back, or list what was put away."),
        "move-project": (
            "store:move_project",
            "Let a renamed directory keep its sessions.",
        ),
    },
    "Look": {
        "show": ("inspect:show", "Show a session's facts, or one entry."),
        "tree": ("inspect:tree", "Draw the whole tree."),
        "branches": ("inspect:branches", "List the branches by their tips."),
        "path": ("inspect:path", "List the entries from the header to an entry."),
        "context": ("inspect:context", "Print what a model would get."),
        "follow": ("maintenance:follow", "Print each entry that is added, as it comes."),
        "handle": ("handles:handle", "Look up what handles point to."),
        "stats": ("inspect:stats", "Count entries, bytes, tokens and cost."),
        "blob": ("blobs:blob", "Look after the large contents beside a session."),
    },
    "Move": {
        "branch-here": ("navigate:branch_here", "Go on from an entry, in the same file."),
        "switch": ("navigate:switch", "Go to another branch or entry."),
        "rewind": ("navigate:rewind", "Go to before a prompt, and print its text."),
        "push": ("navigate:push", "Mark this place, to pop back to."),
        "pop": ("navigate:pop", "Go back up the path, with a summary of what is left."),
        "compact": ("navigate:compact", "Put a summary in place of the older context."),
    },
    "Combine and copy": {
        "cherry-pick": ("copy:cherry_pick", "Copy one entry below the leaf."),
        "merge": ("copy:merge", "Take another branch into this path."),
        "fork": ("copy:fork", "Copy the path to an entry into a new file."),
        "branch": ("copy:fork", "The same as fork."),
        "export-branch": ("copy:export_branch", "Copy a subtree into a new file."),
        "export": ("copy:export", "Print a transcript for people to read."),
        "convert": ("copy:convert_command", "Make a file that another program opens."),
    },
    "Care": {
        "verify": ("maintenance:verify", "Read everything, and say what is not sound."),
        "repair": ("maintenance:repair", "Mend what can be mended without guessing."),
        "gc": ("maintenance:gc", "Take out what was tried and never kept."),
        "migrate": ("write:migrate", "Bring an old file to the current version."),
    },
    "More": {
        "demo": ("demo:demo", "Play a session from start to end, and explain it."),
    },
}
"""For each command the place it is defined, below this package, and what it does."""

COMMANDS: Final = {name: made for section in SECTIONS.values() for name, made in section.items()}

_INTERRUPTED: Final = 130


class Failure(click.ClickException):
    """A failed command: one line on standard error, exit 1."""

    def __init__(self, message: str) -> None:
        super().__init__(terminal.told(message))


class Commands(click.Group):
    """The commands of the table, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(importlib.import_module(f"sessiontree.cli.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib  # few are misspelt

            near = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "'--help' lists the commands"
            ctx.fail(f"there is no command {terminal.told(name)!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, made[1]) for name, made in commands.items()], col_max=15)

    def invoke(self, ctx: click.Context) -> Any:
        with _warnings_told():
            try:
                result = super().invoke(ctx)
                terminal.finish()
            except BrokenPipeError:  # the reader had enough
                terminal.drop_output()
                ctx.exit(0)
            except KeyboardInterrupt:
                terminal.drop_output()
                ctx.exit(_INTERRUPTED)
            except click.exceptions.Exit:
                raise
            except Exception as error:
                _fail(error)
        return result


def _fail(error: Exception) -> NoReturn:
    """Turn any error into one line, after what was printed before it."""
    try:
        terminal.finish()
    except OSError:
        terminal.drop_output()
    if isinstance(error, click.ClickException):
        raise error
    if isinstance(error, SessionTreeError):
        raise Failure(str(error)) from error
    if isinstance(error, FileNotFoundError) and not terminal.is_somewhere():
        raise Failure("the current directory was removed; change to another") from error
    if isinstance(error, OSError):
        about = f"{error.filename}: " if error.filename else ""
        raise Failure(f"{about}{error.strerror or error}") from error
    if isinstance(error, UnicodeError):
        raise Failure(f"text that is no Unicode: {error}") from error
    if isinstance(error, RecursionError):
        raise Failure("an entry is nested too deep to be shown") from error
    if isinstance(error, MemoryError):
        raise Failure("there is not enough memory for this") from error
    raise Failure(
        f"a fault in sessiontree, please report it: {type(error).__name__}: {error}"
    ) from error


@contextlib.contextmanager
def _warnings_told() -> Iterator[None]:
    """Tell each warning of the library in a line of its own."""

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, SessionTreeWarning):
            terminal.tell(f"Warning: {message}")
        else:
            shown(message, category, *where, **more)

    with warnings.catch_warnings():
        shown = warnings.showwarning
        warnings.simplefilter("always", SessionTreeWarning)
        warnings.showwarning = show
        yield


def _print_version(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        from sessiontree import __version__

        click.echo(f"sessiontree {__version__}")
        ctx.exit()


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND FILE …",
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """A coding agent's conversations, each a tree in one append-only file.

    FILE is the path of a session. Of one that is kept where 'ls' looks, an id, four
    characters or more of it, a name, or 'latest' will do.

    A REF names an entry as git names a commit: a uuid or a unique prefix of four
    characters or more, a label, a branch name, a lane's name, @ for where the session
    stands, @~3 for three messages above it.

    \b
    Example:
      sessiontree new chat.jsonl
      sessiontree append chat.jsonl --role user --text "Build a CLI"
      sessiontree append chat.jsonl --role assistant --text "In which language?"
      sessiontree branch-here chat.jsonl @~1 --summary "Asked back at once"
      sessiontree tree chat.jsonl
      sessiontree context chat.jsonl --json

    'sessiontree demo' shows all of it at work.
    """
