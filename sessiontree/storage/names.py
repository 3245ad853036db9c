"""The session files in a folder and the folders in it, by their names.

A session file is `….jsonl`, also those of most agents; Codex compresses old ones to `….jsonl.zst`,
the older chats of Gemini CLI are `session-….json`, documents of messages `….messages.json`, and
those of Continue any other `….json` in a folder that has the list of them, `sessions.json`.
What Claude Code keeps beside a session, in `<session id>/subagents` and `<session
id>/tool-results`, is part of that session; so are the chats of subagents that Gemini CLI keeps
beside `session-<time>-<start of id>.jsonl`, in `<session id>`, and the transcripts of subagents
that Qwen Code keeps in `subagents/<session id>`, beside `chats`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final, NamedTuple

import orjson

from sessiontree.core.header import DATABASES, is_file_name, is_in_database
from sessiontree.errors import SessionNotFoundError, SessionTreeError, StorageError, fault
from sessiontree.storage.fs import DISK, READ_PLAIN, Descriptor, FileSystem

SUFFIX: Final = ".jsonl"
INDEX: Final = "session_index.jsonl"
"""The file in which Codex keeps the names of its sessions."""

BLOBS: Final = ".blobs"
LOCK: Final = ".lock"

TRASH: Final = ".trash"
"""The name of the folder of the trash, in the root of a store."""

DELETING: Final = ".deleting-"
"""Starts the name of a folder of the trash whose files are removed; the rest is its old name."""

NOT_ENTERED: Final = frozenset(
    {
        *(TRASH, ".git", ".hg", ".svn", "node_modules", "site-packages", "__pycache__", ".venv"),
        *(".cache", ".npm", ".cargo", ".rustup", ".tox", ".mypy_cache", ".ruff_cache"),
    }
)
"""The names of folders that a walk does not enter: they hold many files, and no sessions."""

IN_GZIP: Final = "is compressed with gzip, which is not read; unpack it with gunzip"
"""What is wrong with a file of sessions that somebody compressed; Codex uses zstd."""

SUBAGENTS: Final = "subagents"
TOOL_RESULTS: Final = "tool-results"

_CHAT_START: Final = "session-"
_DOCUMENT: Final = ".json"
_LIST: Final = "sessions.json"
_TRAJECTORY: Final = "trajectory.json"  # of a benchmark
_PART_START: Final = "trajectory."  # of a further file of a run, such as `trajectory.cont-1.json`
_CHATS: Final = "chats"

LARGEST_RESULT: Final = 64 * 1024 * 1024
"""The largest result file that is read, in bytes."""

Report = Callable[[str], None]
"""Called with what is wrong with a file, in one line that names it."""


def is_session_name(name: str) -> bool:
    """Whether a file of this name should be a session."""
    if name == INDEX:
        return False
    return name.endswith((SUFFIX, ".jsonl.zst", ".messages.json", _TRAJECTORY)) or (
        name.endswith(".json") and name.startswith((_CHAT_START, _PART_START))
    )


def is_file(path: str) -> bool:
    """Whether a path leads to a file, or to a session in a database."""
    return os.path.isfile(path) or (is_in_database(path) and _is_in_database(path))


def is_there(path: str) -> bool:
    """Whether a path leads to anything, or is a link, or a session in a database."""
    return os.path.lexists(path) or (is_in_database(path) and _is_in_database(path))


def _is_in_database(path: str) -> bool:
    with suppress(OSError, SessionTreeError):
        return not DISK.stat(path).is_folder
    return False


def is_database(path: str) -> bool:
    """Whether a file is a database with sessions, which counts as a folder of them."""
    if not path.endswith(DATABASES) or not os.path.isfile(path):
        return False
    from sessiontree.storage import databases  # with sqlite3, and few folders have a database

    return databases.is_database(path)


def path_in(folder: str, *names: str) -> str | None:
    """Return a path below a folder, made of names that a file's content gave; never outside it.

    None if one cannot be a file's name: it is empty, `.`, `..`, too long or not encodable, or has a
    separator or a NUL in it.
    """
    return os.path.join(folder, *names) if all(map(is_file_name, names)) else None


def own_folder(file: str) -> str:
    """The folder where Claude Code keeps what belongs to a transcript."""
    real = os.path.realpath(file) if os.path.islink(file) else file
    return os.path.splitext(real.removesuffix(".zst"))[0]


def side_folder(file: str, folder: str) -> str:
    """The folder, there or not, of the side files of a transcript; see `side_files`."""
    own = own_folder(file)
    above, name = os.path.split(own)
    if folder == SUBAGENTS and os.path.basename(above) == _CHATS:
        return os.path.join(os.path.dirname(above), SUBAGENTS, name)
    return os.path.join(own, folder)


def side_files(file: str, folder: str, report: Report) -> Iterator[str]:
    """The regular files that an agent keeps beside a transcript, in one folder, by path.

    A session from somebody else may bring links, pipes and devices there: they are reported,
    and neither followed nor read, for they may lead anywhere, or never end.

    Args:
        file: the transcript.
        folder: `SUBAGENTS` or `TOOL_RESULTS`.
    """
    top = side_folder(file, folder)
    yield from _regular_files(top, (os.path.dirname(top), top), report)


def chats_of_subagents(file: str, report: Report) -> Iterator[str]:
    """The chats of the subagents of a chat of Gemini CLI, by path; none for another file.

    Of several chats of one session, the first has them.
    """
    id = chat_id_in(file)
    if id is None:
        return
    names: list[str] = []
    with suppress(OSError):
        names = sorted(os.listdir(os.path.dirname(file) or os.curdir))
    same = [name for name in names if chat_id_in(name) == id]
    if os.path.basename(file) != min(
        same, key=lambda name: (not name.endswith(SUFFIX), name), default=None
    ):
        return
    for name in names:
        folder = os.path.join(os.path.dirname(file), name)
        if is_of_chat(name, (id,)) and os.path.isdir(folder):
            chats = _regular_files(folder, (folder,), report)
            yield from (chat for chat in chats if chat.endswith(SUFFIX))


def chats_beside(file: str) -> list[str]:
    """The other chats of the session of a chat of Gemini CLI, and those of its subagents."""
    id = chat_id_in(file)
    if id is None:
        return []
    folder = os.path.dirname(file) or os.curdir
    with suppress(OSError):
        names = sorted(os.listdir(folder))
        own = [name for name in names if chat_id_in(name) == id and name != os.path.basename(file)]
        others = [os.path.join(folder, name) for name in own]
        return [*others, *chats_of_subagents(file, lambda problem: None)]
    return []


def chat_id_in(file: str) -> str | None:
    """The start of the session's id in the name of a chat of Gemini CLI; None for another name."""
    if _CHAT_START not in file:  # as most paths, of which many are asked for in a search
        return None
    from sessiontree.agents.gemini.names import id_in  # slow to import, and few files are chats

    stem, suffix = os.path.splitext(os.path.basename(file))
    return id_in(stem) if suffix in (".jsonl", ".json") else None


def project_of_chat(fs: FileSystem, file: str) -> str | None:
    """The project's path for a chat of Gemini CLI, which keeps it in files of its own.

    The chat is in `<home>/tmp/<project>/chats`, and the path is in `<home>/tmp/<project>/
    .project_root`, or in `<home>/projects.json`.
    """
    chats = os.path.dirname(os.path.abspath(file))
    if os.path.basename(chats) != _CHATS:
        chats = os.path.dirname(chats)  # it is a subagent's
    if os.path.basename(chats) != _CHATS:
        return None
    folder = os.path.dirname(chats)
    root = read_side_file(fs, os.path.join(folder, ".project_root"), 64 * 1024)
    if root is not None and root.strip():
        return root.decode("utf-8", "replace").strip()
    home = os.path.dirname(os.path.dirname(folder))
    registry = read_side_file(fs, os.path.join(home, "projects.json"), 1024 * 1024)
    with suppress(orjson.JSONDecodeError, TypeError, AttributeError):
        for path, name in orjson.loads(registry or b"{}").get("projects", {}).items():
            if name == os.path.basename(folder):
                return str(path)
    return None


def _regular_files(top: str, not_links: Iterable[str], report: Report) -> Iterator[str]:
    linked = next(filter(os.path.islink, not_links), None)
    if linked is not None:
        report(f"{linked} is a link, so what is in it is not read")
        return
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            report(str(unreadable(error.filename, error)))
            continue
        for entry in found:
            if entry.is_symlink():
                report(f"{entry.path} is a link, so it is not read")
            elif entry.is_file(follow_symlinks=False):
                yield entry.path
            elif not entry.is_dir(follow_symlinks=False):
                report(f"{entry.path} is a device or a pipe, so it is not read")
        waiting += [e.path for e in reversed(found) if e.is_dir(follow_symlinks=False)]


def read_side_file(fs: FileSystem, path: str, largest: int = LARGEST_RESULT) -> bytes | None:
    """The content of a regular file; None if it is another thing, too large, or not readable."""
    with suppress(OSError), Descriptor(fs, fs.open(path, READ_PLAIN)) as fd:
        found = fs.stat(fd)
        if not (found.is_folder or found.is_stream or found.size > largest):
            return fs.read(fd, found.size, 0)
    return None


class AgentFiles(NamedTuple):
    """The disk, as an agent looks at it; implements `agents.agent.Files`."""

    fs: FileSystem

    def names(self, folder: str) -> list[str]:
        with suppress(OSError):
            return sorted(self.fs.list(folder))
        return []

    def is_folder(self, path: str) -> bool:
        with suppress(OSError):
            return self.fs.stat(path).is_folder
        return False

    def content(self, path: str, largest: int) -> bytes | None:
        return read_side_file(self.fs, path, largest)


def is_own_folder(names: Iterable[str]) -> bool:
    """Whether a folder beside a session, with these names in it, belongs to that session alone."""
    found = set(names)
    return bool(found & {SUBAGENTS, TOOL_RESULTS}) and not any(map(is_session_name, found))


class FolderLinks:
    """Decides which links to folders are followed: each folder once, never in a circle.

    Args:
        walked: the folders that are walked; a link into one of them is not followed.
        follows: True for a link that may be followed; by default none is.
    """

    def __init__(
        self, walked: Iterable[str] = (), follows: Callable[[str], bool] = lambda link: False
    ) -> None:
        self._follows = follows
        self._walked = [os.path.join(os.path.realpath(folder), "") for folder in walked]

    def enters(self, link: str, report: Report) -> bool:
        """True if a walk enters what a link leads to.

        A link that leads nowhere is reported.
        """
        if not self._follows(link):
            return False
        real = os.path.join(os.path.realpath(link), "")
        if not os.path.isdir(real):
            if not os.path.exists(link):
                report(f"{link} is a link that leads nowhere")
            return False
        above = os.path.join(os.path.realpath(os.path.dirname(link)), "")
        if above.startswith(real) or any(map(real.startswith, self._walked)):
            return False  # its files have other paths
        self._walked.append(real)
        return True


NO_LINKS: Final = FolderLinks()


def session_files(folder: str, report: Report, links: FolderLinks = NO_LINKS) -> Iterator[str]:
    """The paths of the session files in a folder and the folders in it, in order.

    Hidden folders are entered, as agents keep sessions in them. The folders that `NOT_ENTERED`
    names, folders of blobs, folders that belong to a session beside them, and links to folders that
    `links` does not enter are not. Anything named as a session that is not a file is reported.

    A database of sessions is a folder of them, alone or in a folder.

    Raises:
        StorageError: the folder itself cannot be read.
    """
    if is_database(folder):
        yield from _sessions_in_database(folder)
        return
    waiting = [(folder, False)]
    while waiting:
        inside, is_of_session = waiting.pop()
        try:
            with os.scandir(inside) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problem = unreadable(inside, error)
            if inside == folder:
                raise problem from error
            report(str(problem))
            continue
        below: list[tuple[str, bool]] = []
        names = {entry.name for entry in found}
        chats = {chat_id_in(name) for name in names if name.startswith(_CHAT_START)}
        for entry in found:
            name = entry.name
            if is_session_name(name) or (
                _LIST in names and name.endswith(_DOCUMENT) and name != _LIST
            ):
                kind = _kind_of(entry)
                if kind is None:
                    yield entry.path
                else:
                    report(f"{entry.path} is not a session file: it is {kind}")
            elif name.endswith(f"{SUFFIX}.gz"):
                report(f"{entry.path} {IN_GZIP}")
            elif is_database(entry.path):
                try:
                    yield from _sessions_in_database(entry.path)
                except StorageError as error:
                    report(str(error))
            elif not is_of_chat(name, chats) and _may_hold_sessions(
                name, is_of_session=is_of_session or _CHATS in names
            ):
                with suppress(OSError):  # gone meanwhile
                    if entry.is_dir(follow_symlinks=False) or (
                        entry.is_symlink() and links.enters(entry.path, report)
                    ):
                        below.append((entry.path, name + SUFFIX in names))
        waiting += reversed(below)


def _sessions_in_database(path: str) -> list[str]:
    from sessiontree.storage import databases  # as above

    return databases.sessions_in(path)


def is_of_chat(folder: str, chats: Collection[str | None]) -> bool:
    """Whether a folder belongs to a chat of Gemini CLI beside it.

    Args:
        folder: its name.
        chats: what `chat_id_in` gives of the files beside it.
    """
    return folder[8:9] == "-" and folder[:8] in chats


def _may_hold_sessions(name: str, *, is_of_session: bool) -> bool:
    is_part = is_of_session and name in (SUBAGENTS, TOOL_RESULTS)
    return not (is_part or is_not_entered(name))


def is_not_entered(name: str) -> bool:
    """Whether no walk enters a folder of this name."""
    return name in NOT_ENTERED or name.startswith(DELETING) or name.endswith(BLOBS)


def _kind_of(entry: os.DirEntry[str]) -> str | None:
    """What has a name, in words; None for a file."""
    try:
        if entry.is_file():
            return None
        if entry.is_dir():
            return "a folder"
    except OSError:
        return "a link that leads nowhere"
    return "a link that leads nowhere" if entry.is_symlink() else "a device or a pipe"


def is_other_than_folder(path: str) -> bool:
    """Whether something that is no folder is at a path, by one look at it.

    Two looks would take a folder that another program makes between them for something else.
    """
    try:
        return not stat.S_ISDIR(os.stat(path).st_mode)
    except NotADirectoryError:
        return is_file(path)
    except (OSError, ValueError):
        return os.path.islink(path)  # it leads nowhere


def owner_in(fs: FileSystem, fd: int) -> str:
    """The exclusive writer that an open lock file names, in words; empty if it names none."""
    try:
        owner = orjson.loads(fs.read(fd, 4096, 0))
        return f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError):
        return ""


def is_owner_record(fs: FileSystem, fd: int) -> bool:
    """Whether an open lock file holds what an exclusive writer writes, or its beginning."""
    start = b'{"pid":'
    return start.startswith(fs.read(fd, len(start), 0))


def problem_of(file: str, error: Exception) -> str:
    """Describe what keeps one file out of a list, on one line that names the file.

    A list reports any error of a file, also one that is a bug, and shows the other files.
    """
    if isinstance(error, SessionTreeError):
        return str(error)
    if isinstance(error, OSError):
        return str(unreadable(file, error))
    return f"{file}: {fault(error)}"


def unreadable(file: str, error: OSError) -> StorageError:
    """The error for a file or folder that the system does not let this process read."""
    if isinstance(error, FileNotFoundError):
        return SessionNotFoundError(f"{file} is not there, or not any more; check the path", file)
    return StorageError(
        f"cannot read {file}: {error.strerror or error}; check its permissions", file
    )
