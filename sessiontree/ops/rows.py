"""An entry or a turn as one row, short enough for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from sessiontree.core.blocks import handle_text
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.text.preview import speaker

if TYPE_CHECKING:
    from sessiontree.ops.params import Call
    from sessiontree.session import Session
    from sessiontree.views.turns import Turn
    from sessiontree.views.work import Work


WIDTH: Final = 160
"""The characters of a preview, if the caller does not say."""

Width = Annotated[int, Meta(ge=20, le=4000, description="The characters of each preview.")]


class Row(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An entry in short."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    parent: Annotated[str | None, Meta(description="The uuid of its parent.")] = None
    type: Annotated[str, Meta(description="Its type, such as 'message' or 'compaction'.")]
    role: Annotated[
        str | None,
        Meta(description="Who speaks: 'user', 'assistant', 'system', or 'tool' for a result."),
    ] = None
    preview: Annotated[str, Meta(description="The start of its content, on one line.")] = ""
    time: Annotated[str | None, Meta(description="When it was written.")] = None
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    label: Annotated[str | None, Meta(description="Its label.")] = None
    handle: Annotated[str | None, Meta(description="The handle that it has.")] = None


def row_of(entry: Entry, label: str | None = None, width: int = WIDTH) -> Row:
    """An entry as a row."""
    from sessiontree.views.ledger import gist_of  # few methods make rows

    return Row(
        uuid=entry.uuid,
        parent=entry.parent_uuid,
        type=entry.type,
        role=speaker(entry),
        preview=gist_of(entry, width),
        time=entry.timestamp,
        lane=entry.lane,
        label=label,
        handle=handle_text(entry) if entry.type == "handle" else None,
    )


def row_maker(call: Call, session: Session, width: int = WIDTH) -> Callable[[Entry], Row]:
    """A function that makes the rows of a session's entries; it ends a call that was stopped."""
    labels = session.reader.names().labels

    def make(entry: Entry) -> Row:
        call.check()
        return row_of(entry, labels.get(entry.uuid), width)

    return make


MAX_FILES: Final = 12
_TASK: Final = 100
_CENTS: Final = 6  # decimals of a cost


class WorkDone(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What was done in a part of a session."""

    changed: Annotated[list[str], Meta(description="The files that were changed.")] = []
    more_changed: Annotated[int, Meta(description="How many more files were changed.")] = 0
    calls: Annotated[dict[str, int], Meta(description="The calls of each tool.")] = {}
    failed: Annotated[int, Meta(description="How many calls failed.")] = 0
    refused: Annotated[int, Meta(description="How many calls the user did not allow.")] = 0
    tokens: Annotated[
        int, Meta(description="Tokens read and written, without those read from a cache.")
    ] = 0
    cost: Annotated[float | None, Meta(description="The reported cost in US dollars.")] = None
    seconds: Annotated[float | None, Meta(description="From the first entry to the last.")] = None


class TurnRow(WorkDone, kw_only=True, omit_defaults=True):
    """A turn in short: a prompt, and what was done until the next one."""

    turn: Annotated[
        str, Meta(description="Its number, which `session.turn` takes; '3.1' is another try of 3.")
    ]
    uuid: Annotated[str, Meta(description="The uuid of its first entry.")]
    prompt: Annotated[str | None, Meta(description="What the user asked.")] = None
    answer: Annotated[str, Meta(description="What came out of it: the last text that says so.")] = (
        ""
    )
    outcome: Annotated[
        str | None,
        Meta(description="How it ended: 'answered', 'interrupted', 'failed', 'unfinished', …"),
    ] = None
    time: Annotated[str | None, Meta(description="When it began.")] = None
    side: Annotated[bool, Meta(description="Whether it is not on the current path.")] = False
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    labels: Annotated[list[str], Meta(description="The labels and branch names in it.")] = []
    events: Annotated[
        list[str], Meta(description="Compactions, merges, errors, interruptions and replies in it.")
    ] = []
    subagents: Annotated[list[str], Meta(description="The subagents it started: name: task.")] = []


def done(work: Work, cwd: str | None) -> dict[str, object]:
    """The values of `WorkDone`; files below the directory `cwd` are relative to it."""
    changed = [relative(path, cwd) for path in work.changed]
    return {
        "changed": changed[:MAX_FILES],
        "more_changed": max(0, len(changed) - MAX_FILES),
        "calls": work.calls,
        "failed": work.failed,
        "refused": work.refused,
        "tokens": work.tokens,
        "cost": round(work.usage.cost, _CENTS) or None,
        "seconds": work.seconds,
    }


def turn_rows(call: Call, cwd: str | None, width: int) -> Callable[[Turn], TurnRow]:
    """A function that makes the rows of turns; a call that was stopped ends there."""

    def make(turn: Turn) -> TurnRow:
        call.check()
        return TurnRow(
            turn=turn.name,
            uuid=turn.uuid,
            prompt=None if turn.prompt is None else one_line(turn.prompt, width),
            answer=one_line(turn.answer, width),
            outcome=turn.outcome,
            time=turn.work.started,
            side=not turn.current,
            lane=turn.lane,
            labels=[*(label for _, label in turn.labels), *turn.names],
            events=[event.kind for event in turn.events],
            subagents=[one_line(f"{one.name}: {one.task}", _TASK) for one in turn.subagents],
            **done(turn.work, cwd),  # type: ignore[arg-type]
        )

    return make


def relative(path: str, cwd: str | None) -> str:
    """A path; relative to a directory where it is below it."""
    above = f"{cwd.rstrip('/')}/" if cwd else ""
    return path.removeprefix(above) or path
