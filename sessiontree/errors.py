"""Every error that the library raises, split by who can mend it.

`UsageError` is a wrong argument: nothing was written, call again corrected.
`FileError` speaks of a file's content, `StorageError` of the system below it.
Each message says what is wrong, where, and what to do next, and stands alone:
a command line prints it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence


class SessionTreeError(Exception):
    """The base of all errors of this package."""


class SessionTreeWarning(UserWarning):
    """Something that was done as asked, and may not be what was meant."""


class ContentLostWarning(SessionTreeWarning):
    """A copy was made without content that its original had lost before."""


class UsageError(SessionTreeError, ValueError):
    """What was asked cannot be done; nothing of it was written."""


class RefError(UsageError):
    """A ref that names no entry, or more than one.

    `ref` is the text given, `candidates` the uuids or names that come near.
    """

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
    """Hooks that append from within hooks, deeper than the bound.

    What the hooks wrote before stays, and so does the entry an after-hook is told of.
    """


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
    """A resolver broke, with an error that is none of this package's; that one is the cause."""


class HandleCycleError(ResolveError):
    """Handles that lead back to themselves, or from one to the next without end."""


class HandleDataError(ResolveError):
    """What a resolver gave is not of the kind that it said."""


class TargetMissingError(ResolveError):
    """What the handle points to is not there."""


class TargetRefusedError(ResolveError):
    """What the handle points to may not be read: outside the root, a device, too large."""


class FileError(SessionTreeError):
    """The content of a file is not what was asked for. `file` is its path."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class NotASessionError(FileError):
    """The file is no session: empty, binary, or without a header."""


class ForeignFormatError(FileError):
    """The file belongs to another agent's program, named by `agent`."""

    def __init__(self, message: str, file: str, agent: str) -> None:
        super().__init__(message, file)
        self.agent = agent


class DecoderMissingError(FileError):
    """The file is compressed, and nothing is installed that decompresses it."""


class NewerFormatError(FileError):
    """The file was written by a newer sessiontree; it is left untouched."""


class MigrationRefusedError(FileError):
    """A version 1 file was opened for writing with `migrate=False`."""


class CorruptionError(FileError):
    """What was asked for lies in a damaged part. `offset` is its first byte."""

    def __init__(self, message: str, file: str, offset: int) -> None:
        super().__init__(message, file)
        self.offset = offset


class MissingHeaderError(CorruptionError):
    """A session without its header, opened to write; one that reads it may."""


class BlobError(FileError):
    """Content that was kept beside the session cannot be had back as it was.

    `sha256` is the blob's hash, where it is known, `cause` the message without what to do.
    """

    def __init__(self, message: str, file: str, sha256: str = "", cause: str = "") -> None:
        super().__init__(message, file)
        self.sha256 = sha256
        self.cause = cause or message


class BlobMissingError(BlobError):
    """The blob is not in the sidecar folder."""


class BlobDamagedError(BlobError):
    """What stands in the blob's place is not what was put there.

    `sizes` are the bytes that are there and those that should be, where that is what is wrong.
    """

    sizes: tuple[int, int] | None = None


class BlobUnreadableError(BlobError):
    """The system will not let the blob be read."""


class SpilledError(BlobError):
    """What an entry's `spilled` says does not fit the entry."""


class StorageError(SessionTreeError, OSError):
    """The system refused: permissions, space, a vanished path. `file` is its path."""

    def __init__(self, message: str, file: str) -> None:
        super().__init__(message)
        self.file = file


class SessionExistsError(StorageError, FileExistsError):
    """The file to be made is there already, and is not overwritten."""


class SessionNotFoundError(StorageError, FileNotFoundError):
    """There is no such file, or it vanished while open."""


class FileReplacedError(StorageError):
    """Another file took this one's place, and the entry last seen is not in it."""


class SessionBusyError(StorageError):
    """Another writer holds the session with `exclusive=True`, or will not let go."""


class WriteFailedError(StorageError):
    """A write or sync failed. The outcome of that write is unknown until reopened."""
