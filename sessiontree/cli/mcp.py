"""The command that serves the dispatcher's methods to agents, and enters itself with them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import click
from click.core import ParameterSource

from sessiontree.catalog.git import project_above
from sessiontree.catalog.root import default_root
from sessiontree.cli import arguments, terminal
from sessiontree.cli.lookup import relative_path, store_at, tell_without_secret
from sessiontree.cli.terminal import out, tell
from sessiontree.dispatch.dispatcher import Dispatcher
from sessiontree.dispatch.scope import Scope
from sessiontree.errors import SessionTreeError, UsageError
from sessiontree.mcp.offer import CORE, OPTION, Offer
from sessiontree.mcp.setup import AGENTS, Change, install, uninstall
from sessiontree.storage.backends import shown
from sessiontree.storage.place import path_of, whole_path

TOKEN_VARIABLE: Final = "SESSIONTREE_MCP_TOKEN"

_INSTALL: Final = "pip install '.[mcp]'"
_AGENT: Final = click.Choice([*AGENTS])


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
            Offer(Dispatcher(scope).methods, tools, write=write)
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


def _tell(change: Change, entered: str | None) -> None:
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
            f"sessiontree, run: {_INSTALL}"
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
