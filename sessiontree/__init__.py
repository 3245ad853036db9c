"""sessiontree: a coding agent's conversations as trees in append-only files.

Names are imported when they are first used, so that a program pays only for
what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiontree.core.compaction import estimate_tokens
    from sessiontree.core.context import Context
    from sessiontree.core.damage import Damage
    from sessiontree.core.entry import Entry
    from sessiontree.core.handle import Handle
    from sessiontree.core.redaction import Redaction
    from sessiontree.core.resolved import ResolvedHandle
    from sessiontree.core.schema import HandleSchema, MetaField
    from sessiontree.core.summary import summarize
    from sessiontree.core.tree import Branch
    from sessiontree.core.usage import Usage
    from sessiontree.errors import (
        BlobDamagedError,
        BlobError,
        BlobMissingError,
        BlobUnreadableError,
        CallerError,
        ContentLostWarning,
        DamageError,
        DecoderMissingError,
        DiskError,
        EntryError,
        FileError,
        FileMissingError,
        FileReplacedError,
        FileTakenError,
        ForeignFormatError,
        HandleCycleError,
        HandleDataError,
        HandleError,
        HandleSchemaError,
        HeaderLostError,
        HookDepthError,
        IllegalNameError,
        MigrationRefusedError,
        NewerFormatError,
        NotASessionError,
        NothingToDoError,
        ReadOnlyError,
        RefError,
        ResolveError,
        ResolverFailedError,
        SessionBusyError,
        SessionTreeError,
        SessionTreeWarning,
        SpilledError,
        TargetMissingError,
        TargetRefusedError,
        UnknownHandleError,
        Veto,
        WriteFailedError,
    )
    from sessiontree.handles import Registry
    from sessiontree.hit import Hit
    from sessiontree.importing import Imported, import_session
    from sessiontree.listing import Listed
    from sessiontree.outline import TreeRow
    from sessiontree.session import Session
    from sessiontree.stats import Stats
    from sessiontree.storage.recovery import Repair, repair_file
    from sessiontree.store import Store

__version__ = "0.1.0"

__all__ = [
    "BlobDamagedError",
    "BlobError",
    "BlobMissingError",
    "BlobUnreadableError",
    "Branch",
    "CallerError",
    "ContentLostWarning",
    "Context",
    "Damage",
    "DamageError",
    "DecoderMissingError",
    "DiskError",
    "Entry",
    "EntryError",
    "FileError",
    "FileMissingError",
    "FileReplacedError",
    "FileTakenError",
    "ForeignFormatError",
    "Handle",
    "HandleCycleError",
    "HandleDataError",
    "HandleError",
    "HandleSchema",
    "HandleSchemaError",
    "HeaderLostError",
    "Hit",
    "HookDepthError",
    "IllegalNameError",
    "Imported",
    "Listed",
    "MetaField",
    "MigrationRefusedError",
    "NewerFormatError",
    "NotASessionError",
    "NothingToDoError",
    "ReadOnlyError",
    "Redaction",
    "RefError",
    "Registry",
    "Repair",
    "ResolveError",
    "ResolvedHandle",
    "ResolverFailedError",
    "Session",
    "SessionBusyError",
    "SessionTreeError",
    "SessionTreeWarning",
    "SpilledError",
    "Stats",
    "Store",
    "TargetMissingError",
    "TargetRefusedError",
    "TreeRow",
    "UnknownHandleError",
    "Usage",
    "Veto",
    "WriteFailedError",
    "estimate_tokens",
    "import_session",
    "repair_file",
    "summarize",
]

_HOMES = {
    "Branch": "core.tree",
    "Context": "core.context",
    "Damage": "core.damage",
    "Entry": "core.entry",
    "Handle": "core.handle",
    "HandleSchema": "core.schema",
    "Hit": "hit",
    "Imported": "importing",
    "Listed": "listing",
    "MetaField": "core.schema",
    "Redaction": "core.redaction",
    "Registry": "handles",
    "Repair": "storage.recovery",
    "ResolvedHandle": "core.resolved",
    "Session": "session",
    "Stats": "stats",
    "Store": "store",
    "TreeRow": "outline",
    "Usage": "core.usage",
    "estimate_tokens": "core.compaction",
    "import_session": "importing",
    "repair_file": "storage.recovery",
    "summarize": "core.summary",
}
"""Where each name that is no error is defined."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
