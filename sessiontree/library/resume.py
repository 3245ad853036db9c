"""Resume: the command that continues a session in an agent.

An agent continues its own sessions where it keeps them, also when it is asked for a recording of
one. Any other session is converted, and put where the agent looks. A file that is there is never
replaced.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from typing import Any

import msgspec

from sessiontree.agents import named
from sessiontree.agents.agent import Agent, Destination, own_id
from sessiontree.agents.writing import Loss
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.core.paths import is_of_windows
from sessiontree.engine.opening import sniff_file
from sessiontree.errors import (
    MissingHeaderError,
    NothingToDoError,
    SessionNotFoundError,
    UsageError,
    with_step,
)
from sessiontree.library import lookup
from sessiontree.library.cache import stamp_of
from sessiontree.library.conversations import are_copies, continuations
from sessiontree.library.hidden import without_hidden
from sessiontree.library.homes import agent_at, choosing_home, folders_of
from sessiontree.library.listing import (
    Reaches,
    SessionInfo,
    by_time,
    every,
    facts_of,
    id_in_lines,
    moment,
    recorded_cwd,
    session_infos,
)
from sessiontree.library.path_rules import path_rules
from sessiontree.library.places import Selection, conversations_in, files_in
from sessiontree.operations.convert import convert_to
from sessiontree.operations.export import Original
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK, FileSystem, real_path
from sessiontree.storage.names import AgentFiles, Report, is_there
from sessiontree.storage.place import is_address
from sessiontree.storage.places import open_log
from sessiontree.storage.sidecars import make_folders


class Resumption(msgspec.Struct, frozen=True):
    """How an agent goes on with a session."""

    agent: str
    command: list[str]  # its words
    cwd: str  # the folder in which the command runs
    file: str  # the session file that the agent continues
    is_converted: bool = False  # whether the file was made for the agent
    losses: Sequence[Loss] = ()  # the parts of the session that the agent cannot hold
    warnings: Sequence[str] = ()  # of content that could not be read, and of what may go wrong
    setup: Sequence[str] = ()  # the words of a command to run first, there, or none

    @property
    def program(self) -> str:
        """The agent's name for people."""
        agent = named(self.agent)
        return self.agent if agent is None else agent.program

    @property
    def line(self) -> str:
        """The command for a shell."""
        commands = map(shlex.join, filter(None, (self.setup, self.command)))
        return " && ".join((f"cd {shlex.quote(self.cwd)}", *commands))

    def as_dict(self) -> dict[str, Any]:
        """The shape that `resume --json` prints."""
        return {
            "agent": self.agent,
            "command": self.command,
            **({"setup": list(self.setup)} if self.setup else {}),
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

    Of several files of one session it is the newest; an import, or a copy converted
    for another agent, only if it has something later than its original.

    Raises:
        RefError: the ref names no session, or more than one.
        SessionNotFoundError: the directory has no session.
    """
    if ref is not None and (is_address(ref) or is_there(ref)):
        return facts_of(ref)
    found = sorted(conversations_in(places, Selection(), report), key=_age, reverse=True)
    if ref is not None and ref != lookup.LATEST:
        where = "of the store or of an agent"
        return lookup.find(ref, found, where, "sessiontree ls")
    here = os.path.realpath(cwd)
    own = without_hidden(one for one in found if ref is not None or _is_in(one, here))
    if own:
        return own[0]
    likely = [f"{one.id} ({one.cwd or 'no directory'})" for one in found[:5]]
    hint = f"; the newest of others are {', '.join(likely)}: give an id" if likely else ""
    raise SessionNotFoundError(f"there is no session of {cwd}{hint}", cwd)


def _age(one: SessionInfo) -> tuple[float, str]:
    return moment(one.modified), one.file


def _is_in(one: SessionInfo, directory: str) -> bool:
    with suppress(SessionNotFoundError):  # no directory can have the path
        return one.cwd is not None and real_path(one.cwd) == directory
    return False


def _moves(one: SessionInfo, folder: str, cwd: str | None) -> bool:
    """True if an agent's own session continues in a folder that its file does not name."""
    recorded = recorded_cwd(one.file)
    if recorded is None:
        return cwd is not None
    with suppress(SessionNotFoundError):  # no directory can have the path
        return real_path(recorded) != os.path.realpath(folder)
    return True


def plan(
    one: SessionInfo,
    agent: str | None = None,
    cwd: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    before: Callable[[str], object] = lambda program: None,
    converts: Callable[[str], object] = lambda home: None,
    reaches: Reaches = every,
) -> Resumption:
    """How an agent goes on with a session; converts the session where that is needed.

    Args:
        one: the session.
        agent: the agent; by default the session's own.
        cwd: the working directory; by default the session's own.
        before: called with the program's name before anything is written; may raise.
        converts: called with the agent's folder of sessions before a copy is made there; may raise.
        reaches: returns True if the agent's own file of a recording may be read.

    Raises:
        UsageError: the session is of no agent, and none is given.
        NothingToDoError: the session has no messages.
        SessionNotFoundError: the working directory is gone.
        SessionExistsError: the agent has the session already.
        MissingHeaderError: the session is the agent's own, and its header is lost.
    """
    own, id = maker_of(one)
    target = own if agent is None else named(agent)
    if target is None:
        error = UsageError(f"{one.file} is of no agent; name the agent that goes on with it")
        raise with_step(error, "name agent")
    before(target.command)
    given = one
    file = _file_of(target, id, environ) if own is target and id is not None else None
    if file is not None and reaches(file):
        one = facts_of(file)
    _check_messages(one)
    folder = _folder(one, target, cwd)
    is_its_own = one.agent is not None and own is target and target.opens(one.file)
    is_its_own = is_its_own and agent_at(one.file, environ) is target
    if is_its_own:
        _check_header(one, target)
    if is_its_own and _finds(target, one, folder, cwd, environ):
        found = _with_own(one, target, folder, cwd, environ)
        more = [*_later_in(given, one), *_more_in_copies(given, found)]
        return msgspec.structs.replace(found, warnings=[*found.warnings, *more])
    if not target.is_target:
        error = UsageError(
            f"{one.file} cannot be converted for {target.program}, which goes on only with its own "
            "sessions, each in its own folder"
        )
        raise with_step(error, "name agent")
    converts(folders_of(target, environ)[0])
    found = _converted(one, target, folder, cwd, environ)
    warnings = [*found.warnings, *_more_in_copies(given, found)]
    return msgspec.structs.replace(found, warnings=warnings)


def _finds(
    agent: Agent, one: SessionInfo, folder: str, cwd: str | None, environ: Mapping[str, str]
) -> bool:
    """True if an agent's resume command, run in a folder, opens a file of its own."""
    if not agent.opens(one.file):
        return False
    if not agent.looks_in_folder:
        return bool(agent.cd_option) or not _moves(one, folder, cwd)
    name, lies_in = os.path.basename(one.file), os.path.realpath(os.path.dirname(one.file))
    return any(
        os.path.realpath(_place(agent, home, folder, name, DISK, environ).folder) == lies_in
        for home in folders_of(agent, environ)
    )


def _check_messages(one: SessionInfo) -> None:
    """Refuse a session in which nothing was said: agents do not open such a file."""
    if one.first_message is not None:
        return
    with Session.open(one.file, readonly=True) as session:
        if not any(session.reader.index().content_rows()):
            raise NothingToDoError(f"{one.file} has no messages, so there is nothing to resume")


def _check_header(one: SessionInfo, agent: Agent) -> None:
    """Refuse an agent's own file whose header is lost: the agent does not open such a file."""
    with closing(open_log(DISK, one.file, readonly=True)) as log:
        start = sniff_file(log)
    if start.agent is None or not start.agent.reader.lacks_header(start.head):
        return
    error = MissingHeaderError(
        f"the header of {one.file} is lost, and {agent.program} does not open a file without one; "
        "replace the file with a sound copy",
        one.file,
        0,
    )
    raise with_step(error, "repair copy")


def maker_of(one: SessionInfo) -> tuple[Agent | None, str | None]:
    """The agent of a session, and its own id of a session that was recorded while it ran."""
    if one.agent is not None or one.imported_from is not None:
        return named(one.made_by), None
    with Session.open(one.file, readonly=True) as session:
        metadata = session.metadata
    id = metadata.get(AGENT_SESSION_KEY)
    return named(metadata.get("agent")), id if isinstance(id, str) else None


def _file_of(agent: Agent, id: str, environ: Mapping[str, str]) -> str | None:
    """The file in which an agent keeps the session of an id, if it is still there."""
    files = files_in(folders_of(agent, environ), lambda problem: None)
    return next((file for file in files if agent.own_id(file) == id), None)


def _later_in(recording: SessionInfo, own: SessionInfo) -> Iterator[str]:
    """A warning if a recording has something that the agent's own session does not have."""
    if moment(recording.modified) - moment(own.modified) > 60.0:
        yield (
            f"{recording.file} changed after {own.file}; if it has more, fork it and resume the "
            "fork"
        )


def _more_in_copies(row: SessionInfo, found: Resumption) -> Iterator[str]:
    """A warning for each copy of a session that has what the one to go on with lacks."""
    for copy in continuations(row):
        if copy.file != found.file:
            how = ": resume that file to go on with it"
            if copy.agent is None:
                how = "; fork it where you want to go on, and resume the fork"
            yield lookup.beyond(copy, found.file) + how


def _is_import_with_more(one: SessionInfo) -> bool:
    return one.imported_from is not None and one.went_on


def _folder(one: SessionInfo, agent: Agent, cwd: str | None) -> str:
    given = path_rules().here(cwd) if cwd is not None else one.cwd or os.getcwd()
    folder = given if is_of_windows(given) else os.path.abspath(given)
    if os.path.isdir(folder):
        return folder
    about = "" if cwd is not None else f", the working directory of session {one.id},"
    missing = f"the folder {folder}{about} is not there"
    if not agent.is_target:
        error = f"{missing}, and {agent.program} continues a session only in its own folder"
        raise with_step(
            SessionNotFoundError(f"{error}; let another agent continue it in a folder", folder),
            "name both",
        )
    error = f"{missing}; name the folder to continue in"
    raise with_step(SessionNotFoundError(error, folder), "name folder")


def _with_own(
    one: SessionInfo, agent: Agent, folder: str, cwd: str | None, environ: Mapping[str, str]
) -> Resumption:
    id = _own_id(agent, one.file)
    command = _command(agent, id, os.path.abspath(one.file), environ)
    if agent.cd_option and _moves(one, folder, cwd):
        command += [agent.cd_option, folder]
    warnings: list[str] = []
    if unarchive := agent.unarchive(id, one.file):
        warnings.append(f"the session is archived; run '{unarchive}' first")
    if _is_fresh(one.file):
        warnings.append(
            f"{one.file} changed within the last minute; if {agent.program} still runs there, end "
            "it first: two programs must not write one session"
        )
    return Resumption(agent.name, command, folder, one.file, warnings=warnings)


def _is_fresh(file: str) -> bool:
    try:
        return time.time() - DISK.stat(file).modified < 60.0
    except OSError:
        return False


def _converted(
    one: SessionInfo, agent: Agent, folder: str, cwd: str | None, environ: Mapping[str, str]
) -> Resumption:
    copies = _files_of(one, agent, environ)
    there = [copy for copy in copies if _finds(agent, copy, folder, cwd, environ)]
    latest = next((copy for copy in there if _has_all_of(copy, one)), None)
    if latest is not None:
        return _with_own(latest, agent, folder, cwd, environ)

    def path_of(name: str) -> str:
        return path_for(agent, folder, name, session.disk, environ)

    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with Session.open(one.file, readonly=True) as session:
        original = Original(session.cursor, session.handles, session.file, session.disk)
        real = os.path.realpath(folder)
        provider = agent.provider(folders_of(agent, environ)[0], AgentFiles(session.disk))
        made = convert_to(
            *(original, agent.name, path_of, real, at), provider=provider, is_again=bool(there)
        )
        warnings = [*made.warnings, *(str(found) for found in session.damage)]
    warnings += [
        f"{copy.file} has less than {one.file}, so {agent.program} goes on in a new file"
        for copy in there
        if not copy.is_converted and one.imported_from is not None
    ]
    if one.writer is not None:
        warnings.append(f"{one.writer} writes {one.file}; what it writes from now on is left out")
    program = [*choosing_home(agent, made.file, environ), agent.command]
    setup = [*program, *words] if (words := agent.take_in(made.file)) else []
    command = [*program, *agent.resume(_own_id(agent, made.file), made.file)]
    return Resumption(agent.name, command, folder, made.file, True, made.losses, warnings, setup)


def _files_of(one: SessionInfo, agent: Agent, environ: Mapping[str, str]) -> list[SessionInfo]:
    """The files that an agent has of a conversation, the one with the latest activity first."""
    found = session_infos(files_in(folders_of(agent, environ), _ignore), _ignore)
    own = (each for each in found if each.file != one.file and are_copies(each, one))
    return sorted(own, key=by_time, reverse=True)


def _ignore(problem: str) -> None:
    """Report nothing: the lists of sessions do."""


def _has_all_of(copy: SessionInfo, one: SessionInfo) -> bool:
    """True if the agent's own file, or a converted copy, lacks nothing of a session.

    A converted copy has all of a session that did not change since.
    """
    is_as_late = moment(copy.modified) >= moment(one.modified)
    if not copy.is_converted:
        return is_as_late and not _is_import_with_more(one)
    return is_as_late or _is_as_converted(copy, one)


def _is_as_converted(copy: SessionInfo, one: SessionInfo) -> bool:
    """True if neither file changed since; what is said last may be left out of a copy."""
    if copy.went_on or is_address(one.file):
        return False
    changed, original = stamp_of([copy.file])[1], stamp_of([one.file])[1]
    return 0 <= original <= changed


def path_for(agent: Agent, cwd: str, name: str, fs: FileSystem, environ: Mapping[str, str]) -> str:
    """The path of a new session of a working directory; makes the folder."""
    place = _place(agent, folders_of(agent, environ)[0], cwd, name, fs, environ)
    file = os.path.join(place.folder, name)
    make_folders(fs, os.path.dirname(file))
    if place.side_file is not None:
        path, content = place.side_file
        create_file(fs, path, iter([content]))
    return file


def _place(
    agent: Agent, home: str, cwd: str, name: str, fs: FileSystem, environ: Mapping[str, str]
) -> Destination:
    """Where an agent looks for a session of a working directory, in one of its homes."""
    return agent.destination(home, os.path.realpath(cwd), name, environ, AgentFiles(fs))


def _own_id(agent: Agent, file: str) -> str:
    """The id by which an agent knows the session in a file."""
    return own_id(agent, file, agent.own_id(file) or id_in_lines(file))


def _command(agent: Agent, id: str, file: str, environ: Mapping[str, str]) -> list[str]:
    return [*choosing_home(agent, file, environ), agent.command, *agent.resume(id, file)]
