"""Every error and warning of the library.

`UsageError` is a wrong argument: nothing was written. `FileError` is about a file's
content, `StorageError` about the system below it. Each message says what is wrong,
where, and what to do next; the command line prints it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence


class SessionTreeError(Exception):
    """The base of all errors of this package."""


class SessionTreeWarning(UserWarning):
    """The call did what it was asked, which may not be what the caller meant."""


class ContentLostWarning(SessionTreeWarning):
    """A copy was made without content that its original had lost before."""


class UsageError(SessionTreeError, ValueError):
    """A wrong argument or call; nothing was written."""


class RefError(UsageError):
    """A ref that names no entry, or more than one; `candidates` are uuids or names like it."""

    def __init__(self, message: str, ref: str, candidates: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.ref = ref
        self.candidates = tuple(candidates)


class InvalidNameError(UsageError):
    """A label, branch or lane name that no ref could spell, or one already taken."""


class EntryError(UsageError):
    """An entry that may not be written: a missing field, a wrong value, no JSON."""


class NothingToDoError(UsageError):
    """A move, cut or merge that would change nothing."""


class HookRejectedError(UsageError):
    """Raised by a before-hook to refuse; nothing is written."""


class HookDepthError(UsageError):
    """Hooks that append from within hooks, deeper than the bound; earlier entries stay."""


class ReadOnlyError(UsageError):
    """A write on a session that was opened with `readonly=True`, closed, or kept."""


class HandleError(UsageError):
    """A handle that is not well formed. `part` is the part that is wrong."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(message)
        self.part = part


class HandleSchemaError(HandleError):
    """A handle whose meta is not what its plugin's schema says."""


class ResolveError(SessionTreeError):
    """A handle that could not be resolved. `handle` is its text form."""

    def __init__(self, message: str, handle: str) -> None:
        super().__init__(message)
        self.handle = handle


class UnknownHandleError(ResolveError):
    """No resolver for the handle's plugin, version or method, or one that is broken."""


class ResolverFailedError(ResolveError):
    """A resolver raised an error of its own, which is the cause."""


class HandleCycleError(ResolveError):
    """Handles that lead back to themselves, or from one to the next without end."""


class HandleDataError(ResolveError):
    """A resolver returned data of another kind than it announced."""


class TargetMissingError(ResolveError):
    """What the handle points to is not there."""


class TargetRefusedError(ResolveError):
    """What the handle points to may not be read: outside the root, a device, too large."""


class TooMuchError(SessionTreeError):
    """What is asked for takes more than a stated limit, because the session multiplies it."""


class FileError(SessionTreeError):
    """The content of a file is wrong or of another kind. `file` is its path."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class NotASessionError(FileError):
    """The file is not a session: empty, binary, or without a header."""


class ForeignFormatError(FileError):
    """The file belongs to another agent's program, named by `agent`."""

    def __init__(self, message: str, file: str, agent: str) -> None:
        super().__init__(message, file)
        self.agent = agent


class DecoderMissingError(FileError):
    """The file is compressed, and no decoder is installed."""


class NewerFormatError(FileError):
    """The file was written by a newer sessiontree; it is left untouched."""


class MigrationRefusedError(FileError):
    """A version 1 file was opened for writing with `migrate=False`."""


class CorruptionError(FileError):
    """The entry asked for is damaged. `offset` is its first byte."""

    def __init__(self, message: str, file: str, offset: int) -> None:
        super().__init__(message, file)
        self.offset = offset


class MissingHeaderError(CorruptionError):
    """A session without its header was opened to write; it can be opened to read."""


class BlobError(FileError):
    """A blob cannot be read as it was stored.

    `sha256` is its hash, if known, `cause` the message without the next step.
    """

    def __init__(self, message: str, file: str, sha256: str = "", cause: str = "") -> None:
        super().__init__(message, file)
        self.sha256 = sha256
        self.cause = cause or message


class BlobMissingError(BlobError):
    """The blob is not in the sidecar folder."""


class BlobDamagedError(BlobError):
    """The blob is not what was stored; `sizes`, if they differ, are its size and the right one."""

    sizes: tuple[int, int] | None = None


class BlobUnreadableError(BlobError):
    """The system refuses to read the blob."""


class SpilledError(BlobError):
    """The `spilled` key of an entry does not fit the entry."""


class StorageError(SessionTreeError, OSError):
    """The system refused: permissions, space, a missing path. `file` is the path."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class SessionExistsError(StorageError, FileExistsError):
    """The new file exists already, and is not overwritten."""


class SessionNotFoundError(StorageError, FileNotFoundError):
    """There is no such file, or it vanished while open."""


class FileReplacedError(StorageError):
    """The file was replaced, and the entry last seen is not in the new one."""


class SessionBusyError(StorageError):
    """Another writer holds the session with `exclusive=True`, or for too long."""


class WriteFailedError(StorageError):
    """A write or sync failed. The outcome of that write is unknown until reopened."""
