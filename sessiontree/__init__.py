"""sessiontree: a coding agent's conversations as trees in append-only files.

Names are imported when they are first used, so that a program pays only for
what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sessiontree.catalog.listing import SessionInfo
    from sessiontree.catalog.search_file import SearchHit
    from sessiontree.context.compaction import estimate_tokens
    from sessiontree.context.context import Context
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.context.summary import summarize
    from sessiontree.core.damage import Damage
    from sessiontree.core.entry import Entry
    from sessiontree.core.handle import Handle
    from sessiontree.core.index import Branch
    from sessiontree.core.usage import Usage
    from sessiontree.engine.repair import RepairResult
    from sessiontree.errors import (
        BlobDamagedError,
        BlobError,
        BlobMissingError,
        BlobUnreadableError,
        ContentLostWarning,
        CorruptionError,
        DecoderMissingError,
        EntryError,
        FileError,
        FileReplacedError,
        ForeignFormatError,
        HandleCycleError,
        HandleDataError,
        HandleError,
        HandleSchemaError,
        HookDepthError,
        HookRejectedError,
        InvalidNameError,
        MigrationRefusedError,
        MissingHeaderError,
        NewerFormatError,
        NotASessionError,
        NothingToDoError,
        ReadOnlyError,
        RefError,
        ResolveError,
        ResolverFailedError,
        SessionBusyError,
        SessionExistsError,
        SessionNotFoundError,
        SessionTreeError,
        SessionTreeWarning,
        SpilledError,
        StorageError,
        TargetMissingError,
        TargetRefusedError,
        UnknownHandleError,
        UsageError,
        WriteFailedError,
    )
    from sessiontree.handles.registry import Registry
    from sessiontree.handles.schema import HandleSchema, MetaField
    from sessiontree.importing import ImportResult, import_session
    from sessiontree.operations.outline import TreeRow
    from sessiontree.operations.stats import Stats
    from sessiontree.redact.redaction import Redaction
    from sessiontree.session import Session, repair_file
    from sessiontree.store import Store

__version__ = "0.2.0"

__all__ = [
    "BlobDamagedError",
    "BlobError",
    "BlobMissingError",
    "BlobUnreadableError",
    "Branch",
    "ContentLostWarning",
    "Context",
    "CorruptionError",
    "Damage",
    "DecoderMissingError",
    "Entry",
    "EntryError",
    "FileError",
    "FileReplacedError",
    "ForeignFormatError",
    "Handle",
    "HandleCycleError",
    "HandleDataError",
    "HandleError",
    "HandleSchema",
    "HandleSchemaError",
    "HookDepthError",
    "HookRejectedError",
    "ImportResult",
    "InvalidNameError",
    "MetaField",
    "MigrationRefusedError",
    "MissingHeaderError",
    "NewerFormatError",
    "NotASessionError",
    "NothingToDoError",
    "ReadOnlyError",
    "Redaction",
    "RefError",
    "Registry",
    "RepairResult",
    "ResolveError",
    "ResolvedHandle",
    "ResolverFailedError",
    "SearchHit",
    "Session",
    "SessionBusyError",
    "SessionExistsError",
    "SessionInfo",
    "SessionNotFoundError",
    "SessionTreeError",
    "SessionTreeWarning",
    "SpilledError",
    "Stats",
    "StorageError",
    "Store",
    "TargetMissingError",
    "TargetRefusedError",
    "TreeRow",
    "UnknownHandleError",
    "Usage",
    "UsageError",
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
    "SearchHit": "catalog.search_file",
    "ImportResult": "importing",
    "SessionInfo": "catalog.listing",
    "MetaField": "handles.schema",
    "Redaction": "redact.redaction",
    "Registry": "handles.registry",
    "RepairResult": "engine.repair",
    "ResolvedHandle": "context.resolved",
    "Session": "session",
    "Stats": "operations.stats",
    "Store": "store",
    "TreeRow": "operations.outline",
    "Usage": "core.usage",
    "estimate_tokens": "context.compaction",
    "import_session": "importing",
    "repair_file": "session",
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
