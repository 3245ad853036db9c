"""sessiontree: a coding agent's conversations as trees in append-only files.

Names are imported when they are first used, so that a program pays only for
what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiontree.catalog.listing import Listed
    from sessiontree.catalog.search_file import Hit
    from sessiontree.context.compaction import estimate_tokens
    from sessiontree.context.context import Context
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.context.summary import summarize
    from sessiontree.core.damage import Damage
    from sessiontree.core.entry import Entry
    from sessiontree.core.handle import Handle
    from sessiontree.core.index import Branch
    from sessiontree.core.usage import Usage
    from sessiontree.engine.repair import Repair, repair_file
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
    from sessiontree.handles.registry import Registry
    from sessiontree.handles.schema import HandleSchema, MetaField
    from sessiontree.importing import Imported, import_session
    from sessiontree.operations.outline import TreeRow
    from sessiontree.operations.stats import Stats
    from sessiontree.redact.redaction import Redaction
    from sessiontree.session import Session
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
    "Branch": "core.index",
    "Context": "context.context",
    "Damage": "core.damage",
    "Entry": "core.entry",
    "Handle": "core.handle",
    "HandleSchema": "handles.schema",
    "Hit": "catalog.search_file",
    "Imported": "importing",
    "Listed": "catalog.listing",
    "MetaField": "handles.schema",
    "Redaction": "redact.redaction",
    "Registry": "handles.registry",
    "Repair": "engine.repair",
    "ResolvedHandle": "context.resolved",
    "Session": "session",
    "Stats": "operations.stats",
    "Store": "store",
    "TreeRow": "operations.outline",
    "Usage": "core.usage",
    "estimate_tokens": "context.compaction",
    "import_session": "importing",
    "repair_file": "engine.repair",
    "summarize": "context.summary",
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
