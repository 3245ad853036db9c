"""Every error and warning of the library.

`UsageError` is a wrong argument: nothing was written. `FileError` is about a file's
content, `StorageError` about the system below it. Each message says what is wrong,
where, and what to do next; the command line prints it as it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal, TypeVar

Step = Literal[
    "see entries",
    "see context",
    "see lanes",
    "see turns",
    "see states",
    "allow gaps",
    "see history",
    "import",
    "repair",
    "repair copy",
    "keep nothing",
    "name agent",
    "name folder",
    "name both",
    "name session",
    "name root",
    "name store",
    "copy",
    "hide",
]
"""What a caller can do about an error."""


class SessionTreeError(Exception):
    """The base of all errors of this package.

    Attributes:
        step: what helps, if it has a name of its own in each place where a user can call: the
            command line and the methods of agents say how it is done there.
    """

    step: Step | None = None


Raised = TypeVar("Raised", bound=SessionTreeError)


def fault(error: Exception) -> str:
    """Describe an error that this package did not expect, and so a bug in it."""
    return f"a fault in sessiontree, please report it: {type(error).__name__}: {error}"


def no_attribute(owner: object, name: str, near: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that an object, or a class, does not have.

    `near` has the right word for names that people try.
    """
    kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
    hint = f"; use {near[name]}" if name in near else ""
    return AttributeError(f"{kind} has no attribute {name!r}{hint}", name=name, obj=owner)


def with_step(error: Raised, step: Step | None) -> Raised:
    """The same error, with what helps."""
    error.step = step
    return error


class SessionTreeWarning(UserWarning):
    """The call did what the caller asked, but the caller may have meant something different."""


class ContentLostWarning(SessionTreeWarning):
    """A copy was made without some content, because the original had already lost the content."""


def warn(text: str, category: type[Warning] = SessionTreeWarning) -> None:
    """Give a warning that names the line of the program which called the library."""
    hear = _hear.get()
    if hear is not None:
        hear(text, category)
        return
    from inspect import currentframe  # a slow import, and few calls warn

    level, frame = 1, currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_INSIDE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


Hear = Callable[[str, type[Warning]], object]

_hear: ContextVar[Hear | None] = ContextVar("hear", default=None)


@contextmanager
def hearing(hear: Hear) -> Iterator[None]:
    """Give the text and the category of each warning in this context to `hear`; warn of nothing.

    `warnings.catch_warnings` is of the whole process; several calls may run in threads at once.
    """
    token = _hear.set(hear)
    try:
        yield
    finally:
        _hear.reset(token)


_INSIDE: Final = ("sessiontree.", "contextlib")
"""How the names of modules begin that stand between a warning and the call that led to it."""


class UsageError(SessionTreeError, ValueError):
    """An argument or a call is wrong. Nothing was written."""


class RefError(UsageError):
    """A ref names no entry or session, or more than one. `candidates` are refs to try instead."""

    def __init__(self, message: str, ref: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.ref = ref
        self.candidates = tuple(candidates)


class InvalidNameError(UsageError):
    """A label, branch name or lane name is not valid as a ref, or is already used."""


class EntryError(UsageError):
    """An entry cannot be written: a field is missing or wrong, or a value is not JSON."""


class NothingToDoError(UsageError):
    """An operation, such as a pop, a compaction or a merge, would change nothing."""


class HookRejectedError(UsageError):
    """A before-hook raises this error to refuse an entry. Nothing is written."""


class HookDepthError(UsageError):
    """Hooks append entries inside hooks, more than eight levels deep. Earlier entries stay."""


class ReadOnlyError(UsageError):
    """The session cannot write: it is read-only or closed, or its scratch lane was kept."""


class HandleError(UsageError):
    """A handle is not well formed. `part` is the wrong part."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


class HandleSchemaError(HandleError):
    """The meta of a handle does not fit the schema of the plugin."""


class ResolveError(SessionTreeError):
    """A handle could not be resolved. `handle` is the text form of the handle."""

    def __init__(self, message: str, handle: str) -> None:
        super().__init__(message)
        self.handle = handle


class UnknownHandleError(ResolveError):
    """No resolver supports the handle's plugin, version or method, or the resolver is broken."""


class ResolverFailedError(ResolveError):
    """A resolver raised another error, which is the `__cause__` of this error."""


class HandleCycleError(ResolveError):
    """A chain of handles leads back to its start, or has more than 16 handles."""


class HandleDataError(ResolveError):
    """A resolver returned data that does not fit the announced kind."""


class TargetMissingError(ResolveError):
    """The content that the handle points to is missing."""


class TargetRefusedError(ResolveError):
    """The content may not be read: it is, for example, outside the root, a device, or too large."""


class TooMuchError(SessionTreeError):
    """What is asked for takes more than a stated limit, because the session multiplies it."""


class AgentProtocolError(SessionTreeError):
    """An agent that was asked by the Agent Client Protocol failed, ended, or did not answer."""


class FileError(SessionTreeError):
    """The content of a file is wrong or of another kind. `file` is the path of the file."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class NotASessionError(FileError):
    """The file is not a session: it is, for example, empty, binary or a folder.

    If only the header of a session is lost, see MissingHeaderError.
    """


class AgentRecordError(NotASessionError):
    """An agent keeps the file beside its sessions, for example a list of prompts."""


class ForeignFormatError(FileError):
    """The file belongs to another agent. `agent` is the name of that agent."""

    step = "import"

    def __init__(self, message: str, file: str, agent: str) -> None:
        super().__init__(message, file)
        self.agent = agent


class DecoderMissingError(FileError):
    """The file is compressed, and no decoder is installed."""


class NewerFormatError(FileError):
    """The file was written by a newer sessiontree. The file is not changed."""


class MigrationRefusedError(FileError):
    """The file has version 1, and the call does not migrate files."""


class CorruptionError(FileError):
    """An entry that the call needs is damaged. `offset` is the byte offset of the entry."""

    def __init__(self, message: str, file: str, offset: int) -> None:
        super().__init__(message, file)
        self.offset = offset


class MissingHeaderError(CorruptionError):
    """The header of the file is lost. The session can be opened read-only, but not for writing."""

    step = "repair"


class BlobError(FileError):
    """A blob cannot be read as it was stored.

    `sha256` is the hash of the blob, if known. `cause` is the message without its advice.
    """

    def __init__(self, message: str, file: str, sha256: str = "", cause: str = "") -> None:
        super().__init__(message, file)
        self.sha256 = sha256
        self.cause = cause or message


class BlobMissingError(BlobError):
    """The blob is not in the folder of blobs."""


class BlobDamagedError(BlobError):
    """The blob is damaged. If the size is wrong, `sizes` is (actual size, expected size)."""

    sizes: tuple[int, int] | None = None


class BlobUnreadableError(BlobError):
    """The operating system refuses to read the blob."""


class SpilledError(BlobError):
    """The key `spilled`, which lists the strings in blobs, does not fit its entry."""


class StorageError(SessionTreeError, OSError):
    """The operating system reported an error, such as a full disk. `file` is the file's path."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class SessionExistsError(StorageError, FileExistsError):
    """The new file already exists, and is not overwritten."""


class SessionNotFoundError(StorageError, FileNotFoundError):
    """The file does not exist, or it was removed while it was open."""


class FileReplacedError(StorageError):
    """The file was replaced or rewritten, and no longer has this session's leaf."""


class SessionBusyError(StorageError):
    """Another writer is exclusive, or holds the lock for too long."""


class OvertakenError(SessionBusyError):
    """Another program wrote to a session in a bucket while a locked block was at work."""


class WriteFailedError(StorageError):
    """A write or a sync failed. To see what was written, open the session again."""
