"""The command `resume`: go on with a session in the agent that made it, or in another."""

from __future__ import annotations

import os
import shutil
from typing import Final

import click

from sessiontree.catalog.find import tell_left_out
from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.resume import PROGRAMS, plan, session_to_resume
from sessiontree.catalog.root import environment
from sessiontree.cli import arguments
from sessiontree.cli.lookup import places_at
from sessiontree.cli.output import out_json
from sessiontree.cli.terminal import finish, out, tell
from sessiontree.errors import SessionTreeError, UsageError

_AGENTS: Final = ("claude-code", "codex", "pi", "gemini")


@arguments.command("resume", json="the command, its folder, and what the agent cannot keep")
@click.argument("session", metavar="[ID]", required=False, type=arguments.PLACE)
@click.option(
    "--in",
    "agent",
    type=click.Choice(_AGENTS),
    help="The agent that continues the session [default: the agent of the session].",
)
@arguments.path_option(
    "--cwd", metavar="DIR", help="Continue in DIR [default: the working directory of the session]."
)
@click.option("--exec", "runs", is_flag=True, help="Run the command instead of printing it.")
def resume(
    session: str | None, agent: str | None, cwd: str | None, runs: bool, as_json: bool
) -> None:
    """Print the command by which an agent continues a session. With --exec, run the command.

    ID is the path of a session file, the id of a session, the first four or more characters of an
    id, a name, or 'latest'. 'resume' finds the sessions in the store, and the sessions of Claude
    Code, Codex, the pi coding agent and Gemini CLI, where these agents keep them. Without ID,
    'resume' takes the newest session whose working directory is the current directory.

    An agent continues its own session as it is. For a session of another agent, or of sessiontree,
    'resume' writes a converted copy where the agent looks for its sessions. 'resume' reports what
    the agent cannot keep. It never replaces a file and never changes the session itself.
    """
    if runs and as_json:
        raise click.UsageError("--exec runs the command, and --json prints it; give one of them")
    problems: list[str] = []
    try:
        one = session_to_resume(session, os.getcwd(), places_at(), problems.append)
    except SessionTreeError:
        tell_left_out(problems, tell)
        raise
    resume_session(one, agent, cwd, runs=runs, as_json=as_json)


def resume_session(
    one: SessionInfo,
    agent: str | None,
    cwd: str | None = None,
    *,
    runs: bool,
    as_json: bool = False,
) -> None:
    """Print the command by which an agent continues a session, or run it."""
    found = plan(one, agent, cwd, before=_check_installed if runs else lambda program: None)
    if found.is_converted:
        tell(f"Converted {one.file} for {PROGRAMS[found.agent]}: {found.file}")
    for loss in found.losses:
        tell(f"Not kept in {found.agent}: {loss}")
    for warning in found.warnings:
        tell(f"Warning: {warning}")
    if runs:
        finish()
        with_store = environment()  # before the directory changes
        os.chdir(found.cwd)
        os.execvpe(found.command[0], found.command, with_store)
    if shutil.which(found.command[0]) is None:
        tell(f"{_not_installed(found.command[0])}; the command works once it is installed")
    out_json(found) if as_json else out(found.line)


def _check_installed(program: str) -> None:
    if shutil.which(program) is None:
        raise UsageError(f"{_not_installed(program)}; install it, or leave out --exec")


def _not_installed(program: str) -> str:
    return f"{program!r} is not on the PATH"
