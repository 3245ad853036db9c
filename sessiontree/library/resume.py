"""Resume: the command that continues a session in an agent, and where its file goes.

Resume: the command by which an agent goes on with a session. An agent goes on with its own sessions
where it keeps them. Any other session is converted, and put where the agent looks. A file that is
there is never replaced.

Where each agent looks for the sessions of a working directory. Claude Code and pi name a folder by
the directory; Codex by the date. Gemini CLI gives each directory a short name, which it keeps in
`projects.json` and in a file `.project_root` in the folder. A folder with such a file is enough, so
`projects.json` is never changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import time
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import orjson

from sessiontree.agents import FORMATS
from sessiontree.agents.writing import Loss
from sessiontree.errors import SessionExistsError, SessionNotFoundError, UsageError, with_step
from sessiontree.library import lookup
from sessiontree.library.homes import folders_of
from sessiontree.library.listing import SessionInfo, facts_of, moment
from sessiontree.library.places import Selection, sessions_in
from sessiontree.operations.convert import convert_to
from sessiontree.operations.export import Original
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import FileSystem, real_path
from sessiontree.storage.names import Report, path_in, read_side_file
from sessiontree.storage.place import is_address
from sessiontree.storage.rollouts import rollout_of
from sessiontree.storage.sidecars import make_folders

_LONGEST: Final = 200  # characters of a folder's name in Claude Code
_LARGEST: Final = 1024 * 1024
_ROOT: Final = ".project_root"
_DATE: Final = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def path_for(
    agent: str, cwd: str, name: str, fs: FileSystem, environ: Mapping[str, str] = os.environ
) -> str:
    """The path of a new session of a working directory; makes the folder.

    `name` is the name that the agent would give the file.
    """
    place: Callable[..., str] = _PLACES[agent]
    folder = place(folders_of(agent, environ)[0], os.path.realpath(cwd), name, environ, fs)
    make_folders(fs, folder)
    return os.path.join(folder, name)


def _of_claude_code(home: str, cwd: str, *_: Any) -> str:
    path = unicodedata.normalize("NFC", cwd)
    name = re.sub(r"[^a-zA-Z0-9]", "-", path)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{_hash(path)}"
    return os.path.join(home, name)


def _hash(path: str) -> str:
    """The hash that Claude Code adds to a name that it cuts."""
    value = 0
    units = path.encode("utf-16-le")
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def _of_codex(home: str, cwd: str, name: str, *_: Any) -> str:
    found = _DATE.match(name)
    return os.path.join(home, *(found.groups() if found else ()))


def _of_pi(home: str, cwd: str, name: str, environ: Mapping[str, str], fs: FileSystem) -> str:
    if environ.get("PI_CODING_AGENT_SESSION_DIR"):
        return home
    return os.path.join(home, "--" + re.sub(r"[/\\:]", "-", cwd.lstrip("/")) + "--")


def _of_gemini(home: str, cwd: str, name: str, environ: Mapping[str, str], fs: FileSystem) -> str:
    """The folder of the chats of a project; a new project gets a free name."""
    runtime = os.path.dirname(home)
    names = _registered(runtime, fs)
    slug = names.get(cwd)
    if slug is None or not _may_own(runtime, slug, cwd, fs):
        slug = _claimed(home, cwd, fs)
    if slug is None:
        hashed = hashlib.sha256(cwd.encode()).hexdigest()
        if os.path.isdir(os.path.join(home, hashed)):  # Gemini CLI moves it to a short name
            return os.path.join(home, hashed, "chats")
        slug = _free(runtime, cwd, set(names.values()), fs)
    folder = os.path.join(home, slug)
    make_folders(fs, folder)
    if _owner(folder, fs) is None:
        create_file(fs, os.path.join(folder, _ROOT), iter([cwd.encode()]))
    return os.path.join(folder, "chats")


def _registered(runtime: str, fs: FileSystem) -> dict[str, str]:
    content = read_side_file(fs, os.path.join(runtime, "projects.json"), _LARGEST)
    with suppress(orjson.JSONDecodeError, AttributeError):
        projects = orjson.loads(content or b"{}").get("projects", {})
        return {
            path: name
            for path, name in projects.items()
            if isinstance(name, str) and path_in(runtime, name) is not None
        }
    return {}


def _owner(folder: str, fs: FileSystem) -> str | None:
    """The directory whose project has a folder, or None."""
    content = read_side_file(fs, os.path.join(folder, _ROOT), _LARGEST)
    return content.decode("utf-8", "replace").strip() if content is not None else None


def _may_own(runtime: str, slug: str, cwd: str, fs: FileSystem) -> bool:
    folders = (os.path.join(runtime, kind, slug) for kind in ("tmp", "history"))
    return all(_owner(folder, fs) in (None, cwd) for folder in folders)


def _claimed(home: str, cwd: str, fs: FileSystem) -> str | None:
    """The short name whose folder says that it is the directory's, or None."""
    with suppress(OSError):
        for name in sorted(os.listdir(home)):
            if _owner(os.path.join(home, name), fs) == cwd:
                return name
    return None


def _free(runtime: str, cwd: str, used: set[str], fs: FileSystem) -> str:
    """A short name, made of the directory's name, that no other directory has."""
    bare = re.sub(r"[^a-z0-9]+", "-", os.path.basename(cwd).lower()).strip("-") or "project"
    name, number = bare, 0
    while name in used or not _may_own(runtime, name, cwd, fs):
        number += 1
        name = f"{bare}-{number}"
    return name


_PLACES: Final = {
    "claude-code": _of_claude_code,
    "codex": _of_codex,
    "pi": _of_pi,
    "gemini": _of_gemini,
}

AGENTS: Final = tuple(_PLACES)
"""The agents that can be given a session."""


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
