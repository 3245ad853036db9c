"""sessiontree: a coding agent's conversations as trees in append-only files."""

from sessiontree.core.compaction import estimate_tokens
from sessiontree.core.context import Context
from sessiontree.core.damage import Damage
from sessiontree.core.entry import Entry
from sessiontree.core.summary import summarize
from sessiontree.core.tree import Branch
from sessiontree.errors import (
    CallerError,
    DamageError,
    DiskError,
    EntryError,
    FileError,
    FileMissingError,
    FileReplacedError,
    FileTakenError,
    ForeignFormatError,
    HookDepthError,
    IllegalNameError,
    MigrationRefusedError,
    NewerFormatError,
    NotASessionError,
    NothingToDoError,
    ReadOnlyError,
    RefError,
    SessionBusyError,
    SessionTreeError,
    SessionTreeWarning,
    Veto,
    WriteFailedError,
)
from sessiontree.outline import TreeRow
from sessiontree.session import Session

__version__ = "0.1.0"

__all__ = [
    "Branch",
    "CallerError",
    "Context",
    "Damage",
    "DamageError",
    "DiskError",
    "Entry",
    "EntryError",
    "FileError",
    "FileMissingError",
    "FileReplacedError",
    "FileTakenError",
    "ForeignFormatError",
    "HookDepthError",
    "IllegalNameError",
    "MigrationRefusedError",
    "NewerFormatError",
    "NotASessionError",
    "NothingToDoError",
    "ReadOnlyError",
    "RefError",
    "Session",
    "SessionBusyError",
    "SessionTreeError",
    "SessionTreeWarning",
    "TreeRow",
    "Veto",
    "WriteFailedError",
    "estimate_tokens",
    "summarize",
]
