"""sessiontree: a coding agent's conversations as trees in append-only files.

Names are imported when they are first used, so that a program pays only for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sessiontree import errors

if TYPE_CHECKING:  # `as` marks a name as public for type checkers
    from sessiontree.aio.recorder import AsyncStreamAccumulator as AsyncStreamAccumulator
    from sessiontree.aio.session import AsyncSession as AsyncSession
    from sessiontree.aio.store import AsyncStore as AsyncStore
    from sessiontree.catalog.copies import CopyResult as CopyResult
    from sessiontree.catalog.copies import copy as copy
    from sessiontree.catalog.listing import SessionInfo as SessionInfo
    from sessiontree.catalog.search_file import SearchHit as SearchHit
    from sessiontree.catalog.union import SyncResult as SyncResult
    from sessiontree.catalog.union import sync as sync
    from sessiontree.context.compaction import estimate_tokens as estimate_tokens
    from sessiontree.context.context import Context as Context
    from sessiontree.context.resolved import ResolvedHandle as ResolvedHandle
    from sessiontree.context.summary import Summarized as Summarized
    from sessiontree.context.summary import summarize as summarize
    from sessiontree.core.damage import Damage as Damage
    from sessiontree.core.entry import Entry as Entry
    from sessiontree.core.handle import Handle as Handle
    from sessiontree.core.index import Branch as Branch
    from sessiontree.core.notes import Note as Note
    from sessiontree.core.usage import Usage as Usage
    from sessiontree.engine.hooks import Hook as Hook
    from sessiontree.engine.repair import RepairResult as RepairResult
    from sessiontree.errors import *  # noqa: F403
    from sessiontree.handles.registry import Registry as Registry
    from sessiontree.handles.registry import Resolver as Resolver
    from sessiontree.handles.schema import HandleSchema as HandleSchema
    from sessiontree.handles.schema import MetaField as MetaField
    from sessiontree.importing import ImportResult as ImportResult
    from sessiontree.importing import import_session as import_session
    from sessiontree.importing.backup import BackupResult as BackupResult
    from sessiontree.operations.compact import CompactionPlan as CompactionPlan
    from sessiontree.operations.compare import Comparison as Comparison
    from sessiontree.operations.compare import Side as Side
    from sessiontree.operations.copy import CopiedSession as CopiedSession
    from sessiontree.operations.labels import Label as Label
    from sessiontree.operations.rows import TreeRow as TreeRow
    from sessiontree.operations.stats import Stats as Stats
    from sessiontree.operations.sync import SyncedSession as SyncedSession
    from sessiontree.operations.turns import SessionOutline as SessionOutline
    from sessiontree.operations.turns import Subagent as Subagent
    from sessiontree.operations.turns import Turn as Turn
    from sessiontree.operations.work import TurnEvent as TurnEvent
    from sessiontree.operations.work import Work as Work
    from sessiontree.recording.recorder import StreamAccumulator as StreamAccumulator
    from sessiontree.recording.stream import MessageStream as MessageStream
    from sessiontree.redact.redaction import Redaction as Redaction
    from sessiontree.session import Session as Session
    from sessiontree.session import repair_file as repair_file
    from sessiontree.store import Store as Store

__version__ = "0.2.0"

_HOMES = {
    "AsyncSession": "aio.session",
    "AsyncStreamAccumulator": "aio.recorder",
    "AsyncStore": "aio.store",
    "CopyResult": "catalog.copies",
    "copy": "catalog.copies",
    "SessionInfo": "catalog.listing",
    "SearchHit": "catalog.search_file",
    "SyncResult": "catalog.union",
    "sync": "catalog.union",
    "estimate_tokens": "context.compaction",
    "Context": "context.context",
    "ResolvedHandle": "context.resolved",
    "Summarized": "context.summary",
    "summarize": "context.summary",
    "Damage": "core.damage",
    "Entry": "core.entry",
    "Handle": "core.handle",
    "Branch": "core.index",
    "Note": "core.notes",
    "Usage": "core.usage",
    "Hook": "engine.hooks",
    "RepairResult": "engine.repair",
    "Registry": "handles.registry",
    "Resolver": "handles.registry",
    "HandleSchema": "handles.schema",
    "MetaField": "handles.schema",
    "BackupResult": "importing.backup",
    "ImportResult": "importing",
    "import_session": "importing",
    "CompactionPlan": "operations.compact",
    "Comparison": "operations.compare",
    "Side": "operations.compare",
    "CopiedSession": "operations.copy",
    "Label": "operations.labels",
    "TreeRow": "operations.rows",
    "Stats": "operations.stats",
    "SyncedSession": "operations.sync",
    "SessionOutline": "operations.turns",
    "Subagent": "operations.turns",
    "Turn": "operations.turns",
    "TurnEvent": "operations.turns",
    "Work": "operations.turns",
    "StreamAccumulator": "recording.recorder",
    "MessageStream": "recording.stream",
    "Redaction": "redact.redaction",
    "Session": "session",
    "repair_file": "session",
    "Store": "store",
} | {name: "errors" for name in vars(errors) if name.endswith(("Error", "Warning"))}
"""The module that defines each public name."""

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
