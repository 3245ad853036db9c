"""sessiontree: a coding agent's conversations as trees in append-only files.

Names are imported when they are first used, so that a program pays only for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sessiontree import errors

if TYPE_CHECKING:  # `as` marks a name as public for type checkers
    from sessiontree.aio.session import AsyncSession as AsyncSession
    from sessiontree.aio.store import AsyncStore as AsyncStore
    from sessiontree.aio.store import AsyncStreamAccumulator as AsyncStreamAccumulator
    from sessiontree.context.compaction import Summarized as Summarized
    from sessiontree.context.compaction import estimate_tokens as estimate_tokens
    from sessiontree.context.compaction import summarize as summarize
    from sessiontree.context.context import Context as Context
    from sessiontree.context.resolved import ResolvedHandle as ResolvedHandle
    from sessiontree.core.damage import Damage as Damage
    from sessiontree.core.damage import Note as Note
    from sessiontree.core.entry import Entry as Entry
    from sessiontree.core.handle import Handle as Handle
    from sessiontree.core.index import Branch as Branch
    from sessiontree.core.message import ToolCall as ToolCall
    from sessiontree.core.usage import Usage as Usage
    from sessiontree.engine.hooks import Hook as Hook
    from sessiontree.engine.repair import RepairResult as RepairResult
    from sessiontree.errors import *  # noqa: F403
    from sessiontree.handles.registry import HandleSchema as HandleSchema
    from sessiontree.handles.registry import MetaField as MetaField
    from sessiontree.handles.registry import Registry as Registry
    from sessiontree.handles.registry import Resolver as Resolver
    from sessiontree.handles.registry import ResolverScope as ResolverScope
    from sessiontree.importing.backup import BackupResult as BackupResult
    from sessiontree.importing.importer import ImportResult as ImportResult
    from sessiontree.importing.importer import import_session as import_session
    from sessiontree.library.copies import CopyResult as CopyResult
    from sessiontree.library.copies import SyncResult as SyncResult
    from sessiontree.library.copies import copy as copy
    from sessiontree.library.copies import sync as sync
    from sessiontree.library.counts import SessionCounts as SessionCounts
    from sessiontree.library.listing import SessionInfo as SessionInfo
    from sessiontree.library.search_file import SearchHit as SearchHit
    from sessiontree.operations.compact import CompactionPlan as CompactionPlan
    from sessiontree.operations.copy import CopiedSession as CopiedSession
    from sessiontree.operations.moves import MovePlan as MovePlan
    from sessiontree.operations.moves import SummaryPlan as SummaryPlan
    from sessiontree.operations.sync import SyncedSession as SyncedSession
    from sessiontree.recording.recorder import StreamAccumulator as StreamAccumulator
    from sessiontree.recording.stream import MessageStream as MessageStream
    from sessiontree.redact.redaction import Redaction as Redaction
    from sessiontree.session import Session as Session
    from sessiontree.session import repair_file as repair_file
    from sessiontree.store import Store as Store
    from sessiontree.views.compare import Comparison as Comparison
    from sessiontree.views.compare import Side as Side
    from sessiontree.views.costs import CostSum as CostSum
    from sessiontree.views.costs import Stats as Stats
    from sessiontree.views.rows import TreeRow as TreeRow
    from sessiontree.views.tree import Label as Label
    from sessiontree.views.turns import SessionOutline as SessionOutline
    from sessiontree.views.turns import Subagent as Subagent
    from sessiontree.views.turns import Turn as Turn
    from sessiontree.views.work import TurnEvent as TurnEvent
    from sessiontree.views.work import Work as Work

__version__ = "0.2.0"

_HOMES = {
    "AsyncSession": "aio.session",
    "AsyncStreamAccumulator": "aio.store",
    "AsyncStore": "aio.store",
    "CopyResult": "library.copies",
    "copy": "library.copies",
    "SessionCounts": "library.counts",
    "SessionInfo": "library.listing",
    "SearchHit": "library.search_file",
    "SyncResult": "library.copies",
    "sync": "library.copies",
    "estimate_tokens": "context.compaction",
    "Context": "context.context",
    "ResolvedHandle": "context.resolved",
    "Summarized": "context.compaction",
    "ToolCall": "core.message",
    "summarize": "context.compaction",
    "Damage": "core.damage",
    "Entry": "core.entry",
    "Handle": "core.handle",
    "Branch": "core.index",
    "Note": "core.damage",
    "Usage": "core.usage",
    "Hook": "engine.hooks",
    "RepairResult": "engine.repair",
    "Registry": "handles.registry",
    "Resolver": "handles.registry",
    "ResolverScope": "handles.registry",
    "HandleSchema": "handles.registry",
    "MetaField": "handles.registry",
    "BackupResult": "importing.backup",
    "ImportResult": "importing",
    "import_session": "importing",
    "CompactionPlan": "operations.compact",
    "Comparison": "views.compare",
    "Side": "views.compare",
    "CopiedSession": "operations.copy",
    "MovePlan": "operations.moves",
    "SummaryPlan": "operations.moves",
    "Label": "views.tree",
    "TreeRow": "views.rows",
    "CostSum": "views.costs",
    "Stats": "views.costs",
    "SyncedSession": "operations.sync",
    "SessionOutline": "views.turns",
    "Subagent": "views.turns",
    "Turn": "views.turns",
    "TurnEvent": "views.turns",
    "Work": "views.turns",
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
