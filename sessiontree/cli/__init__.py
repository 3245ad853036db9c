"""The command line: `sessiontree COMMAND FILE …`.

Invariants: data goes to standard output and everything else to standard error; the exit
code is 0 for done, 1 for failed with one clear line, 2 for wrong usage; no traceback; no
text of a session controls the terminal. A command's module is imported when the command
is called, so that no command pays for the others.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from sessiontree import __version__
from sessiontree.cli import terminal
from sessiontree.core.display import in_quotes
from sessiontree.errors import ContentLostWarning, SessionTreeError, SessionTreeWarning, Step, fault

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_SELDOM: Final = (50_000, 20, 100)  # new objects, and collections of the newer, before one

SECTIONS: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "Write": {
        "new": ("ops.tree:TREE.create", "Create a session."),
        "append": ("write:append", "Append a message, a file or a handle."),
        "record": ("agents:record", "Record a coding agent's output while it runs."),
        "import": ("copy:import_", "Import the sessions of other agents."),
        "backup": ("agents:backup", "Keep what is new in the sessions of all agents."),
        "keep": ("ops.branch:BRANCH.keep", "Join a lane to the main lane."),
        "label": (
            "ops.node:NODE.label --clear=unlabel",
            "Give an entry a label, or remove the label.",
        ),
        "rename": ("ops.session:SESSION.rename", "Give the session a name."),
        "edit-context": ("ops.node:NODE.edit_context", "Drop or replace an entry in the context."),
    },
    "Look": {
        "browse": ("doors:browse", "Browse all sessions in the terminal."),
        "view": ("doors:view", "View all sessions in the browser, live."),
        "show": (
            "look+ops.look:SESSION.show REF=ops.node:NODE.get "
            "--request=ops.context:CONTEXT.request",
            "Show facts about a session, or one entry.",
        ),
        "tree": (
            "outline+ops.look:SESSION.outline --turn=turn --all=ops.look:TREE.render",
            "Outline the turns of all branches.",
        ),
        "diff": (
            "outline+ops.branch:BRANCH.diff",
            "Compare what two branches did since they separated.",
        ),
        "labels": ("outline+ops.node:NODE.labels", "List the labels."),
        "branches": ("look+ops.branch:BRANCH.list", "List the branches."),
        "path": (
            "look+ops.context:CONTEXT.get_path",
            "List the entries from the header to an entry.",
        ),
        "context": ("look+ops.context:CONTEXT.get", "Print the messages that a model gets."),
        "follow": ("look:follow", "Print new entries while they are written."),
        "handle": ("look:handle", "Resolve handles and list the supported forms."),
        "stats": ("stats+ops.session:SESSION.totals", "Count entries, bytes, tokens and cost."),
        "blob": ("look:blob", "List, print and verify the blobs of a session."),
    },
    "Find": {
        "ls": ("lists+ops.session:SESSION.list", "List sessions."),
        "search": (
            "lists+ops.session:SESSION.search",
            "Search the text of all branches of all sessions.",
        ),
        "blame": ("files:FILE.blame", "Tell which turn of which agent wrote each line of a file."),
        "history": ("files:FILE.history", "List every edit of a file by all agents."),
        "recover": ("files:FILE.recover", "Bring back a file as a session had it."),
        "files": ("files:FILE.list", "List the files that a session read and changed."),
    },
    "Move": {
        "branch": ("ops.branch:BRANCH.start", "Go on from an entry, in the same file."),
        "branch-here": ("ops.branch:BRANCH.start", "Do the same as branch."),
        "switch": ("ops.branch:BRANCH.switch", "Go to another branch or entry."),
        "rewind": ("write:BRANCH.rewind", "Go back to the entry above a prompt."),
        "push": ("ops.branch:BRANCH.push", "Mark the leaf; pop returns to the marked entry."),
        "pop": ("ops.branch:BRANCH.pop", "Go back up the path and add a summary."),
        "compact": ("write:BRANCH.compact --plan", "Replace the older context with a summary."),
    },
    "Combine and copy": {
        "cherry-pick": ("ops.branch:BRANCH.cherry_pick", "Add a copy of one entry below the leaf."),
        "merge": (
            "ops.branch:BRANCH.merge",
            "Add the content of another branch to the current path.",
        ),
        "fork": (
            "copy+ops.tree:TREE.fork",
            "Copy an entry and all entries above it into a new session file.",
        ),
        "export-branch": (
            "copy+ops.tree:TREE.export_branch",
            "Copy a subtree into a new session file.",
        ),
        "export": (
            "copy+ops.tree:TREE.export -o=export_file",
            "Write a session for people to read: Markdown, or a page.",
        ),
        "resume": ("agents:resume", "Continue a session in its agent, or in another agent."),
        "convert": ("copy+ops.tree:TREE.convert", "Write a file that another program can open."),
        "copy": ("copy:copy", "Copy sessions to another place, byte for byte."),
        "sync": ("copy:sync", "Unite two copies of a session that both went on."),
    },
    "Manage sessions": {
        "trash": (
            "lists+ops.session:SESSION.trash --empty=empty_trash",
            "Move sessions to the trash, or empty the trash.",
        ),
        "restore": (
            "lists+ops.session:SESSION.trashed SESSION=restore",
            "Restore sessions from the trash, or list the trash.",
        ),
        "hide": ("lists:hide_sessions", "Take sessions off the lists, or bring them back."),
        "move-project": (
            "lists+ops.session:SESSION.move_project",
            "Move the sessions of a renamed directory.",
        ),
        "map-path": ("lists:map_path", "Say which folder here a folder of another machine is."),
    },
    "Maintenance": {
        "audit": ("audit:audit", "Find secrets, and what takes space, in all sessions."),
        "verify": ("maintenance:verify", "Check the whole file and report damage."),
        "repair": ("maintenance:HEALTH.repair", "Repair the damage that needs no guessing."),
        "gc": ("maintenance:HEALTH.gc", "Remove scratch lanes and blobs that nothing uses."),
        "migrate": ("maintenance:migrate", "Upgrade an old file to the current version."),
    },
    "For agents": {
        "mcp": ("doors:mcp", "Serve sessions to agents over the Model Context Protocol."),
        "call": ("call:call", "Call a method by its name, as agents do."),
    },
    "More": {
        "demo": ("demo:demo", "Run an example session and explain each step."),
        "completion": ("doors:completion", "Install TAB for bash, zsh or fish."),
    },
}
"""For each command its place below this package, and its first line of help.

The place is MODULE:COMMAND, or MODULE:NAMESPACE.METHOD for a command that is made of an operation;
`PRINTER+MODULE` has a module that prints its results before it. Behind it, an option or an argument
chooses another method where it is given: that of its name, or the one behind `=`.
"""

COMMANDS: Final = {name: made for section in SECTIONS.values() for name, made in section.items()}

SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("grep", "find"), ("search",)),
    **dict.fromkeys(("list", "sessions"), ("ls",)),
    **dict.fromkeys(("cost", "costs", "usage"), ("stats",)),
    **dict.fromkeys(("du", "leaks", "scrub", "secrets"), ("audit",)),
    **dict.fromkeys(("rm", "remove", "delete"), ("trash",)),
    **dict.fromkeys(("check", "fsck"), ("verify",)),
    **dict.fromkeys(("title", "name"), ("rename",)),
    "cat": ("show", "context"),
    "checkout": ("switch",),
    "continue": ("resume",),
    "info": ("show",),
    "log": ("tree",),
    "mv": ("move-project",),
    "open": ("show",),
    "tag": ("label",),
    "tui": ("browse",),
    "web": ("view",),
}
"""The commands that people mean by the names that other programs have for them."""

_INTERRUPTED: Final = 130
_WITH_SECRETS: Final = "sessiontree.with_secrets"


def made_of(name: str) -> Any:
    """What a command is made of: itself, or the methods by what chooses them; the first by ''."""
    place, *others = COMMANDS[name][0].split()
    module, _, attribute = place.partition(":")
    space, _, method = attribute.partition(".")
    found = getattr(_module(module), space)
    if not method:
        return found
    methods = {"": found.methods[method]}
    for other in others:
        key, _, value = other.partition("=")
        module, _, attribute = value.rpartition(":")
        space, _, method = attribute.rpartition(".")
        owner = getattr(_module(module), space) if module else found
        methods[key] = owner.methods[method or key.lstrip("-")]
    return methods


def _module(names: str) -> Any:
    """The last of some modules with `+` between them; those before it print the results."""
    *_, last = (
        importlib.import_module(f"sessiontree.{'' if name.startswith('ops.') else 'cli.'}{name}")
        for name in names.split("+")
    )
    return last


class Commands(click.Group):
    """The commands of the table, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        made = made_of(cmd_name)
        if not isinstance(made, click.Command):
            derive = importlib.import_module("sessiontree.cli.derive")
            first = next(each for each, (at, _) in COMMANDS.items() if at == COMMANDS[cmd_name][0])
            made = derive.command(first, COMMANDS[first][1], made.pop(""), made)
        assert isinstance(made, click.Command)
        return made

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands by the table, so that none is imported; and the options."""
        from click.shell_completion import CompletionItem  # only TAB needs it

        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and terminal.is_terminal():
            from sessiontree.tui.frame import can_run  # only the bare command needs it

            args = ["browse"] if can_run() else args
        if args[:1] == ["help"]:
            args = [*args[1:], "--help"]
        ctx.meta[_WITH_SECRETS] = _with_secrets(args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            import difflib  # only a misspelt command needs it

            near = SYNONYMS.get(name) or difflib.get_close_matches(name, COMMANDS, n=1)
            meant = " or ".join(map(repr, near))
            hint = f"did you mean {meant}?" if near else "'sessiontree help' lists the commands"
            ctx.fail(f"there is no command {terminal.as_line(name)!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, made[1]) for name, made in commands.items()], col_max=15)

    def invoke(self, ctx: click.Context) -> Any:
        with terminal.masking_ends(), _warnings_as_lines() as shown, _seldom_collected():
            try:
                try:
                    result = super().invoke(ctx)
                except click.exceptions.Exit:
                    terminal.finish()
                    raise
                terminal.end(ContentLostWarning in shown)
            except (BrokenPipeError, KeyboardInterrupt) as stopped:
                terminal.drop_output()
                ctx.exit(_INTERRUPTED if isinstance(stopped, KeyboardInterrupt) else 0)
            except click.exceptions.Exit:
                raise
            except Exception as error:
                _fail(error, ctx.meta[_WITH_SECRETS])
        return result


def _with_secrets(words: Sequence[str]) -> dict[str, str]:
    """The words that are addresses with secrets, as messages show them."""
    if not any("://" in word for word in words):
        return {}
    from sessiontree.storage.place import is_url, without_secret  # few words are addresses

    values = [word.partition("=")[2] if word.startswith("--") else word for word in words]
    return {value: without_secret(value) for value in values if is_url(value)}


def _fail(error: Exception, with_secrets: Mapping[str, str]) -> NoReturn:
    """Report any error as one line, after the output so far."""
    try:
        terminal.finish()
    except OSError:
        terminal.drop_output()
    message = error.message if isinstance(error, click.ClickException) else _message(error)
    for word, shown in with_secrets.items():
        message = message.replace(word, shown)
    if isinstance(error, click.ClickException):
        vars(error)["message"] = message  # the kind of the error decides how it is shown
        raise error
    with contextlib.suppress(SessionTreeError):  # of a rule that is the fault itself
        message = terminal.masked(message)
    raise click.ClickException(terminal.as_line(message)) from error


_HINTS: Final[Mapping[Step | None, str]] = {
    "see entries": "'tree --all' shows all messages, and 'path' all entries on the path",
    "see context": "'context --json' and 'path' show what is in the context",
    "see states": "'recover FILE' lists the states",
    "allow gaps": "--partial marks these lines",
    "see history": "'history FILE' and 'recover FILE' also take a file that was deleted",
    "import": "{command}",
    "repair": "{command}",
    "repair copy": "{copy} writes it",
    "keep nothing": "--keep 0",
    "name agent": "--in claude-code",
    "name both": "--in claude-code --cwd DIR",
    "name folder": "--cwd DIR, or once for all with 'sessiontree map-path OLD NEW'",
    "name session": "--session FILE",
    "name root": "--root DIR",
    "name store": "--store ADDRESS",
    "copy": "'sessiontree copy' makes the first copy",
    "hide": "{command} takes it off the lists",
}
"""How the command line does what helps."""


def _message(error: Exception) -> str:
    if isinstance(error, SessionTreeError):
        hint = _HINTS.get(error.step)
        file = shlex.quote(str(getattr(error, "file", "FILE")))
        command = in_quotes(f"sessiontree {error.step} {file}")
        copy = in_quotes(f"sessiontree repair {file} -o NEW")
        return f"{error} ({hint.format(command=command, copy=copy)})" if hint else str(error)
    if isinstance(error, FileNotFoundError) and not terminal.has_current_directory():
        return "the current directory was removed; change to another"
    if isinstance(error, OSError):
        about = f"{error.filename}: " if error.filename else ""
        return f"{about}{error.strerror or error}"
    if isinstance(error, UnicodeError):
        return f"the text is not valid Unicode: {error}"
    if isinstance(error, RecursionError):
        return "an entry is nested too deeply to be shown"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this"
    return fault(error)


@contextlib.contextmanager
def _seldom_collected() -> Iterator[None]:
    """Let the interpreter look for cycles of garbage seldom: a command makes many objects.

    The time of its looks grows faster than their number, up to half of a long command.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


@contextlib.contextmanager
def _warnings_as_lines() -> Iterator[set[type[Warning]]]:
    """Print each warning of the library as one line on standard error; gives their types."""
    shown: set[type[Warning]] = set()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        shown.add(category)
        if issubclass(category, SessionTreeWarning):
            terminal.tell(f"Warning: {message}")
        else:
            default(message, category, *where, **more)

    with warnings.catch_warnings():
        default = warnings.showwarning
        warnings.simplefilter("always", SessionTreeWarning)
        warnings.showwarning = show
        yield shown


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="COMMAND FILE …",
)
@click.version_option(
    __version__, message="sessiontree %(version)s", help="Print the version and exit."
)
def main() -> None:
    """Read and write the conversations of coding agents.

    Each session is one append-only file that holds a tree of entries.

    FILE is the path of a session file, or the address of a session, such as
    postgresql://HOST/DB/PROJECT/NAME.jsonl. For a session in the store or in an agent's folder,
    FILE can also be the id of the session, its first four or more characters, the name, or
    'latest'.

    \b
    REF names an entry. These forms are possible:
      @                 the current leaf; the next entry goes below the leaf
      a uuid            the whole uuid, or its first four or more characters
      a label           the entry that has the label
      a branch name     the last entry of the branch
      a lane name       the leaf of the lane; 'main' is the default lane
      @~3               the third entry above the current leaf

    You can also add ~3 to the other forms. ~3 counts only entries with content. For example, it
    skips an entry that sets a label or a name. A lane is a line of entries with a leaf of its own,
    for example for a subagent.

    \b
    Example:
      sessiontree new chat.jsonl
      sessiontree append chat.jsonl --role user --text "Build a CLI"
      sessiontree append chat.jsonl --role assistant --text "In which language?"
      sessiontree branch chat.jsonl @~1 --summary "Asked for the language"
      sessiontree tree chat.jsonl
      sessiontree context chat.jsonl --json

    'sessiontree help COMMAND' describes a command. 'sessiontree demo' runs a longer example.
    """
