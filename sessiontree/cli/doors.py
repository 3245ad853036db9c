"""The commands that open a door: browse, view and mcp; and completion, which is the shell's."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.calls.scope import Scope
from sessiontree.cli import arguments, terminal
from sessiontree.cli.lookup import (
    only_session,
    places_at,
    relative_path,
    store_at,
    tell_without_secret,
)
from sessiontree.cli.terminal import finish, is_terminal, out, tell, tell_each
from sessiontree.errors import (
    SessionExistsError,
    SessionTreeError,
    SessionTreeWarning,
    UsageError,
)
from sessiontree.library.git import project_above
from sessiontree.library.root import default_root
from sessiontree.mcp.offer import CORE, OPTION, ToolSelection
from sessiontree.mcp.setup import AGENTS, ConfigChange, install, uninstall
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.place import path_of, whole_path
from sessiontree.storage.places import shown
from sessiontree.storage.sidecars import make_folders
from sessiontree.tui.frame import first_frame, opened_in_browser

if TYPE_CHECKING:
    from sessiontree.library.listing import SessionInfo
    from sessiontree.tui.leaving import Resume


_INSTALL: Final = "pip install '.[tui]'"


@arguments.command("browse")
@arguments.places
def browse(places: tuple[str, ...]) -> None:
    """The browser lists the sessions that 'sessiontree ls' lists, in the terminal. What you type
    filters the list, and Enter opens a session: its turns and branches, which fold, and each turn
    in full. With one FILE, the browser opens this session. '?' lists the keys of each view.

    Reading changes no session. The browser needs a terminal; 'ls', 'tree' and 'show' print the
    same. 'sessiontree' without a command opens the browser, if it is installed.
    """
    _check_can_run()
    problems: list[str] = []
    with _warnings_kept(), first_frame():
        ended = _run(places, problems)
    tell_each("Left out", problems)
    if ended is not None:
        _resume(ended)


def _run(places: tuple[str, ...], problems: list[str]) -> Resume | None:
    """Draw the list, and then import what is slow to import."""
    from sessiontree.library.hidden import without_hidden
    from sessiontree.library.places import Selection, conversations_in, in_order

    looked_in = places_at(places)
    file = only_session(looked_in)

    def find() -> list[SessionInfo]:
        problems.clear()
        found = conversations_in(looked_in, Selection(), problems.append)
        return in_order(without_hidden(found), "modified")

    sessions = None
    if file is None:
        from sessiontree.tui.drawing import draw_list

        sessions = find()
        draw_list(sessions, "modified")
    else:
        from sessiontree.tui.drawing import draw_last

        draw_last(file)
    from sessiontree.tui.picker import Browser

    return Browser(sessions, find, file).run()


def _resume(ended: Resume) -> None:
    """Run the agent in place of this program; only print its command if it is not installed."""
    from sessiontree.cli.agents import resume_session
    from sessiontree.library.listing import facts_of

    resume_session(facts_of(ended.file), ended.agent, runs=ended.runs)


def _check_can_run() -> None:
    if find_spec("textual") is None:
        raise SessionTreeError(
            f"this command needs the package textual, which is not installed; in the checkout of "
            f"sessiontree, run: {_INSTALL}"
        )
    if not (is_terminal() and is_terminal(sys.stdin)):
        raise UsageError(
            "the browser needs a terminal; 'sessiontree ls' and 'sessiontree tree' print the same"
        )


@contextmanager
def _warnings_kept() -> Iterator[None]:
    """Keep the warnings of the library until the terminal is free again, then print each once."""
    found: dict[str, None] = {}

    def keep(message: Warning | str, *where: Any, **more: Any) -> None:
        found[str(message)] = None

    with warnings.catch_warnings():
        warnings.simplefilter("always", SessionTreeWarning)
        warnings.showwarning = keep
        yield
    tell_each("Warning", list(found))


_VIEW_INSTALL: Final = "pip install '.[web]'"
_NEEDED: Final = ("starlette", "uvicorn")


@arguments.command("view")
@arguments.places
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Listen on this port [default: a free one].",
)
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
def view(places: tuple[str, ...], port: int, no_browser: bool) -> None:
    """The view lists the sessions that 'sessiontree ls' lists, in the browser. A session is shown
    as 'export --format html' shows it, and grows on the page while an agent writes it. With one
    FILE, the view opens this session.

    The server listens on this machine alone. The printed address has a random token, without which
    nobody gets in; do not pass it on. The server only reads, and serves nothing but the sessions of
    the list. Ctrl-C ends it.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SessionTreeError(
            f"this command needs the package {missing[0]}, which is not installed; in the checkout "
            f"of sessiontree, run: {_VIEW_INSTALL}"
        )
    looked_in = places_at(places)
    from sessiontree.web.server import open_door, serve
    from sessiontree.web.sessions import id_of

    file = only_session(looked_in)
    door = open_door(port)
    address = door.url_of("/" if file is None else f"/s/{id_of(file)}")

    def started() -> None:
        out(address)
        finish()
        tell("Ctrl-C ends the view")
        if not no_browser:
            opened_in_browser(address)

    serve(door, looked_in, started)


TOKEN_VARIABLE: Final = "SESSIONTREE_MCP_TOKEN"

_MCP_INSTALL: Final = "pip install '.[mcp]'"
_AGENT: Final = arguments.OneOf([*AGENTS])


@arguments.command("mcp")
@arguments.path_option(
    "--root",
    metavar="DIR|URL",
    help="Serve the sessions in DIR, or at this address [default: the store].",
    type=arguments.STORE,
)
@click.option("--agents", is_flag=True, help="Also serve the sessions of known agents.")
@click.option(
    "--project",
    "projects",
    metavar="DIR",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, readable=False),
    help="Let clients ask who wrote the files in DIR; you can give it more than once [default: the "
    "git repository that the server starts in; over HTTP none].",
)
@click.option("--write", is_flag=True, help="Let clients add to sessions and make new ones.")
@click.option(
    OPTION,
    metavar="NAME,…",
    default=CORE,
    show_default=True,
    help="Offer these tools: names of tools, or of namespaces, such as 'branch'; 'core' or 'all'.",
)
@click.option("--redact", is_flag=True, help="Mask secrets in all answers.")
@click.option(
    "--http",
    metavar="HOST:PORT",
    help="Serve over HTTP at /mcp, not on standard input. Without HOST, only this machine is "
    "served.",
)
@click.option(
    "--token",
    metavar="TEXT",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="Over HTTP, serve only clients that send this bearer token. If other machines can reach "
    "the address and you give no token, the command makes one.",
)
@click.option(
    "--allow-host",
    "hosts",
    metavar="HOST",
    multiple=True,
    help="Over HTTP, a name under which clients reach this machine; you can give it more than "
    "once.",
)
@click.option("--install", "enter", type=_AGENT, help="Enter this server with an agent, and exit.")
@click.option("--uninstall", "remove", type=_AGENT, help="Remove the entry again, and exit.")
def mcp(
    root: str | None,
    agents: bool,
    projects: tuple[str, ...],
    write: bool,
    tools: str,
    redact: bool,
    http: str | None,
    token: str | None,
    hosts: tuple[str, ...],
    enter: str | None,
    remove: str | None,
) -> None:
    """A client of the Model Context Protocol, such as Claude Code, starts this command and calls
    its tools: it searches, reads and compares sessions, and with --write branches and edits them.

    The definitions of the tools cost the model of the client tokens, so only those that agents ask
    most are offered: the core. --tools offers others, or all.

    Nothing outside of the store, DIR, the agents' folders and the projects can be reached. The
    server only reads, unless you give --write. It never writes in a project.

    --install writes an entry into the agent's configuration, with the other options that you give.
    It keeps a copy of the file, and changes nothing else in it.

    \b
    Example:
      sessiontree mcp --agents --redact --install claude-code
    """
    source = click.get_current_context().get_parameter_source("token")
    if http is None and (hosts or source is ParameterSource.COMMANDLINE):
        raise click.UsageError("--token and --allow-host are for --http; give --http HOST:PORT")
    if token is not None and not token.strip():
        raise click.UsageError("the token is empty; give a long random text, or none")
    if remove is None:
        store_at(root)  # which must be there
    given = projects or (_own_project() if http is None else ())
    scope = Scope(root, agents=agents, write=write, redact=redact, projects=given)
    if enter is None and remove is None:
        _serve(scope, tools, http, token, hosts)
        return
    if enter is not None and remove is not None:
        raise click.UsageError("give --install or --uninstall, not both")
    if http is not None:
        raise click.UsageError(
            "an agent starts the server on standard input and output: give --install and "
            "--uninstall without --http"
        )
    if enter is not None:
        with _usage():
            ToolSelection(Dispatcher(scope).methods, tools, write=write)
    flags = {"--agents": agents, "--write": write, "--redact": redact}
    options = [name for name, is_given in flags.items() if is_given]
    if tools != CORE:
        options += [OPTION, tools]
    if root is not None:
        options += ["--root", whole_path(shown(path_of(root)))]
    for project in projects:
        options += ["--project", os.path.abspath(project)]
    _tell(install(enter, options) if enter is not None else uninstall(str(remove)), enter)
    if enter is not None:
        tell_without_secret(default_root() if root is None else root)


def _own_project() -> tuple[str, ...]:
    """The project that an agent is in, which starts this server there."""
    found = project_above(os.getcwd()) if terminal.has_current_directory() else None
    return () if found is None else (found,)


@contextmanager
def _usage() -> Iterator[None]:
    """A wrong name of a tool is a wrong use of this command."""
    try:
        yield
    except UsageError as error:
        raise click.UsageError(str(error)) from error


def _tell(change: ConfigChange, entered: str | None) -> None:
    file = relative_path(change.file)
    verb = "entered in" if entered is not None else "removed from"
    if change.is_changed:
        out(f"sessiontree is {verb} {file}; {change.program} reads it when it starts")
    else:
        held = "has this entry" if entered is not None else "has no entry of sessiontree"
        out(f"Nothing to change: {file} {held}")
    if change.copy is not None:
        tell(f"The file as it was: {relative_path(change.copy)}")
    if change.note:
        tell(f"Note: {change.note}")


def _serve(
    scope: Scope, tools: str, http: str | None, token: str | None, hosts: tuple[str, ...]
) -> None:
    try:
        from sessiontree.mcp import transport
        from sessiontree.mcp.server import make_server
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "sessiontree":
            raise
        raise SessionTreeError(
            f"this command needs the package mcp, which is not installed; in the checkout of "
            f"sessiontree, run: {_MCP_INSTALL}"
        ) from error
    with _usage():
        server, problems = make_server(scope, tools=tools)
    for problem in problems:
        tell(f"Warning: {problem}")
    if http is None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the thread that reads cannot be interrupted
        transport.serve_stdio(server)
        return
    door = transport.open_door(transport.address_of(http), token, hosts)
    tell(f"Serving at {door.url}; Ctrl-C ends")
    if token is None and door.token is not None:
        tell(f"Token: {door.token}")
    with suppress(KeyboardInterrupt):  # which ends it, and is no failure
        transport.serve_http(server, door)


_SCRIPTS: Final = {
    "bash": (
        ("XDG_DATA_HOME", "~/.local/share", "bash-completion/completions/sessiontree"),
        "a new shell completes if it has bash-completion; else add 'source {file}' to ~/.bashrc",
    ),
    "zsh": (
        ("ZDOTDIR", "~", ".zfunc/_sessiontree"),
        "a new shell completes if 'fpath+=({folder})' is before 'compinit' in its .zshrc",
    ),
    "fish": (
        ("XDG_CONFIG_HOME", "~/.config", "fish/completions/sessiontree.fish"),
        "a new shell completes",
    ),
}
"""For each shell the variable and the folder with its file, and what the user does next."""


@arguments.command("completion")
@click.argument("shell", type=arguments.OneOf(list(_SCRIPTS)))
def completion(shell: str) -> None:
    """TAB then completes commands, options, ids and names of sessions, projects, and for a REF
    the labels, branches and lanes of the session.

    On a terminal, the script is installed for you, and the command says what it needs. A file with
    other content is never replaced. In a pipe, the script is printed.

    \b
    The files, below $XDG_DATA_HOME, $ZDOTDIR and $XDG_CONFIG_HOME if these are set:
      bash  ~/.local/share/bash-completion/completions/sessiontree
      zsh   ~/.zfunc/_sessiontree
      fish  ~/.config/fish/completions/sessiontree.fish

    To try it in this shell alone: eval "$(sessiontree completion bash)".
    """
    from click.shell_completion import get_completion_class  # few commands need it

    kind = get_completion_class(shell)
    assert kind is not None
    command = click.get_current_context().find_root().command
    script = kind(command, {}, "sessiontree", "_SESSIONTREE_COMPLETE").source().rstrip()
    if not is_terminal():
        out(script)
        return
    (variable, default, name), next_step = _SCRIPTS[shell]
    file = os.path.join(os.environ.get(variable) or os.path.expanduser(default), name)
    verb = "Installed" if _is_new(file, f"{script}\n".encode()) else "Already installed"
    next_step = next_step.format(file=shlex.quote(file), folder=shlex.quote(os.path.dirname(file)))
    tell(f"{verb}: {file}; {next_step}")


def _is_new(file: str, content: bytes) -> bool:
    """Write a file; False if it is there with this content.

    Raises:
        SessionExistsError: it has other content.
    """
    with suppress(OSError), open(file, "rb") as opened:
        if opened.read() == content:
            return False
    make_folders(DISK, os.path.dirname(file))
    try:
        create_file(DISK, file, iter([content]))
    except SessionExistsError as error:
        raise SessionExistsError(
            f"{file} is there with other content; remove it to install the script", file
        ) from error
    return True
