"""Resume: the command by which an agent goes on with a session.

An agent goes on with its own sessions where it keeps them. Any other session is converted, and put
where the agent looks. A file that is there is never replaced.
"""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from sessiontree.catalog import lookup
from sessiontree.catalog.destination import AGENTS, path_for
from sessiontree.catalog.homes import folders_of
from sessiontree.catalog.listing import SessionInfo, facts_of, moment
from sessiontree.catalog.places import Selection, sessions_in
from sessiontree.errors import (
    SessionExistsError,
    SessionNotFoundError,
    UsageError,
    with_step,
)
from sessiontree.formats import FORMATS
from sessiontree.formats.writing import Loss
from sessiontree.operations.convert import convert_to
from sessiontree.operations.export import Original
from sessiontree.session import Session
from sessiontree.storage.files import Report
from sessiontree.storage.oserrors import real_path
from sessiontree.storage.place import is_address
from sessiontree.storage.rollouts import rollout_of

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PROGRAMS: Final = {format.name: format.program for format in FORMATS}
_MOST_NAMED: Final = 5
_JUST_NOW: Final = 60.0
"""Seconds since the last change of a file in which its agent may still run."""


class Resumption(msgspec.Struct, frozen=True):
    """How an agent goes on with a session.

    Attributes:
        agent: the agent.
        command: the words of the command.
        cwd: the folder in which the command runs.
        file: the session file that the agent goes on with.
        is_converted: whether the file was made for the agent.
        losses: the parts of the session that the agent cannot hold.
        warnings: texts about content that could not be read, and about what may go wrong.
    """

    agent: str
    command: list[str]
    cwd: str
    file: str
    is_converted: bool = False
    losses: Sequence[Loss] = ()
    warnings: Sequence[str] = ()

    @property
    def line(self) -> str:
        """The command for a shell."""
        return f"cd {shlex.quote(self.cwd)} && {shlex.join(self.command)}"

    def as_dict(self) -> dict[str, Any]:
        """The shape that `resume --json` prints."""
        return {
            "agent": self.agent,
            "command": self.command,
            "cwd": self.cwd,
            "file": self.file,
            "converted": self.is_converted,
            "notExpressed": [msgspec.structs.asdict(loss) for loss in self.losses],
            "warnings": list(self.warnings),
        }


def session_to_resume(
    ref: str | None, cwd: str, places: Sequence[str], report: Report
) -> SessionInfo:
    """The session to go on with: the one that a ref names, or the newest of a directory.

    Of several files of one session, such as the agent's own and an import, it is the newest.

    Raises:
        RefError: the ref names no session, or more than one.
        SessionNotFoundError: the directory has no session.
    """
    if ref is not None and (is_address(ref) or os.path.lexists(ref)):
        return facts_of(ref)
    found = sorted(sessions_in(places, Selection(), report), key=_age, reverse=True)
    if ref is not None and ref != lookup.LATEST:
        newest: dict[str, SessionInfo] = {}
        for one in found:
            newest.setdefault(one.id, one)
        where = "of the store or of an agent"
        return lookup.find(ref, list(newest.values()), where, "sessiontree ls")
    here = os.path.realpath(cwd)
    own = [one for one in found if ref is not None or _is_in(one, here)]
    if own:
        return own[0]
    likely = [f"{one.id} ({one.cwd or 'no directory'})" for one in found[:_MOST_NAMED]]
    hint = f"; the newest of others are {', '.join(likely)}: give an id" if likely else ""
    raise SessionNotFoundError(f"there is no session of {cwd}{hint}", cwd)


def _age(one: SessionInfo) -> tuple[float, str]:
    return moment(one.modified), one.file


def _is_in(one: SessionInfo, directory: str) -> bool:
    with suppress(SessionNotFoundError):  # no directory can have the path
        return one.cwd is not None and real_path(one.cwd) == directory
    return False


def plan(
    one: SessionInfo,
    agent: str | None = None,
    cwd: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    before: Callable[[str], object] = lambda program: None,
    converts: Callable[[str], object] = lambda home: None,
) -> Resumption:
    """How an agent goes on with a session; converts the session where that is needed.

    Args:
        one: the session.
        agent: the agent; by default the session's own.
        cwd: the working directory; by default the session's own.
        before: called with the program's name before anything is written; may raise.
        converts: called with the agent's folder of sessions before a copy is made there; may raise.

    Raises:
        UsageError: the session is of no agent, and none is given.
        SessionNotFoundError: the working directory is gone.
        SessionExistsError: the agent has the session already.
    """
    own = one.made_by if one.made_by in AGENTS else None
    target = agent or own
    if target is None:
        error = UsageError(f"{one.file} is of no agent; name the agent that goes on with it")
        raise with_step(error, "name agent")
    before(_PROGRAM[target])
    folder = _folder(one, cwd)
    is_its_own = one.agent is not None and own == target
    is_its_own = is_its_own and _is_kept_by(target, one.file, environ)
    moves = cwd is not None and not _is_in(one, os.path.realpath(folder))
    if is_its_own and not (moves and target in ("claude-code", "gemini", "pi")):
        return _with_own(one, target, folder, moves=moves)
    converts(folders_of(target, environ)[0])
    return _converted(one, target, folder, environ)


def _folder(one: SessionInfo, cwd: str | None) -> str:
    given = cwd if cwd is not None else one.cwd or os.getcwd()
    folder = os.path.abspath(given)
    if os.path.isdir(folder):
        return folder
    about = "" if cwd is not None else f", the working directory of session {one.id},"
    error = SessionNotFoundError(
        f"the folder {folder}{about} is not there; name the folder to go on in, or the agent that "
        "goes on",
        folder,
    )
    raise with_step(error, "name folder")


def _is_kept_by(agent: str, file: str, environ: Mapping[str, str]) -> bool:
    real = os.path.realpath(file)
    tops = (os.path.join(os.path.realpath(folder), "") for folder in folders_of(agent, environ))
    return any(real.startswith(top) for top in tops)


def _with_own(one: SessionInfo, agent: str, folder: str, *, moves: bool) -> Resumption:
    command = _command(agent, _id_of(one, agent), os.path.abspath(one.file))
    if moves and agent == "codex":
        command += ["--cd", folder]
    warnings: list[str] = []
    if "archived_sessions" in one.file.split(os.sep):
        warnings.append(
            f"the session is archived; run 'codex unarchive {_id_of(one, agent)}' first"
        )
    if _is_fresh(one.file):
        program = PROGRAMS[agent]
        warnings.append(
            f"{one.file} changed within the last minute; if {program} still runs there, end it "
            "first: two programs must not write one session"
        )
    return Resumption(agent, command, folder, one.file, warnings=warnings)


def _is_fresh(file: str) -> bool:
    try:
        return time.time() - os.stat(file).st_mtime < _JUST_NOW
    except OSError:
        return False


def _id_of(one: SessionInfo, agent: str) -> str:
    """The id by which an agent knows a session of its own."""
    if agent == "codex" and (rollout := rollout_of(one.file)) is not None:
        return rollout.thread
    stem = os.path.basename(one.file).removesuffix(".jsonl")
    return stem if agent == "claude-code" and _UUID.fullmatch(stem) else one.id


def _converted(one: SessionInfo, agent: str, folder: str, environ: Mapping[str, str]) -> Resumption:
    path = ""

    def path_of(name: str) -> str:
        nonlocal path
        for other in folders_of(agent, environ)[1:]:  # where Codex archives
            path = os.path.join(other, name)
            if os.path.lexists(path):
                raise SessionExistsError(path, path)
        path = path_for(agent, folder, name, session.disk, environ)
        return path

    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with Session.open(one.file, readonly=True) as session:
        original = Original(session.cursor, session.handles, session.file, session.disk)
        try:
            made = convert_to(original, agent, path_of, os.path.realpath(folder), at)
        except SessionExistsError as error:
            if not os.path.isfile(path):
                raise
            known = shlex.join(_command(agent, _id_of(facts_of(path), agent), path))
            raise SessionExistsError(
                f"{path} is there already, and is not replaced; '{known}' goes on with it; to go "
                f"on with a copy of {one.file}, fork it first, and resume the fork",
                path,
            ) from error
        warnings = [*made.warnings, *(str(found) for found in session.damage)]
    if one.writer is not None:
        warnings.append(f"{one.writer} writes {one.file}; what it writes from now on is left out")
    command = _command(agent, _id_of(facts_of(made.file), agent), made.file)
    return Resumption(agent, command, folder, made.file, True, made.losses, warnings)


_PROGRAM: Final = {"claude-code": "claude", "codex": "codex", "pi": "pi", "gemini": "gemini"}


def _command(agent: str, id: str, file: str) -> list[str]:
    words = {
        "claude-code": ["--resume", id],
        "codex": ["resume", id],
        "pi": ["--session", file],
        "gemini": ["--resume", id],
    }
    return [_PROGRAM[agent], *words[agent]]
