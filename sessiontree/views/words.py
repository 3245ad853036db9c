"""A turn in words: what was asked, what was done, how it ended, and what came out of it.

Invariant: each text is on one line, without control characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from sessiontree.core.display import one_line
from sessiontree.core.entry import moment_of
from sessiontree.text.amounts import counted, dollars, in_short, lasting
from sessiontree.text.columns import Line, Span, beside, columns_of, cut, cut_start, dotted
from sessiontree.views.tools import SIGNS
from sessiontree.views.work import Outcome, TurnEvent, Work

if TYPE_CHECKING:
    from sessiontree.views.acts import Act
    from sessiontree.views.turns import Subagent, Turn


class _Ending(NamedTuple):
    """How turns end without an answer."""

    of_many: str
    meaning: str
    role: str = "failure"
    weight: int = 6


_OUTCOMES: Final[dict[Outcome | None, _Ending]] = {
    "given up": _Ending(
        "given up", "the user interrupted the agent, which did nothing more here", weight=9
    ),
    "no answer": _Ending(
        "without an answer", "the agent did not answer, or wrote nothing after its last call"
    ),
    "unfinished": _Ending("unfinished", "the session ends before the agent answers"),
    "broke off": _Ending("broke off", "the answer has no end"),
    "interrupted": _Ending(
        "interrupted", "the user interrupted the agent, and typed the next prompt"
    ),
    "steered": _Ending("steered", "the user typed the next prompt while the agent worked", role=""),
}

HERE: Final = "← you are here"

EVENTS: Final = {
    "compaction": ("⇣ compacted", "compaction"),
    "summary": ("↩ summary of a branch that was left", "dim"),
    "merge": ("⇠ merged", "branch"),
    "error": ("✗ the answer failed", "failure"),
    "gap": ("⋯ the entry before is missing; joined to the one before it in the file", "failure"),
}

_DETAIL: Final = (
    {"tools": 8, "files": 3, "words": True},
    {"tools": 4, "files": 2, "words": True},
    {"tools": 3, "files": 0, "words": True},
    {"tools": 4, "files": 0, "words": False},
    {"tools": 3, "files": 0, "words": False},
    {"tools": 2, "files": 0, "words": False},
    {"tools": 1, "files": 0, "words": False},
    {"tools": 0, "files": 0, "words": False},
)
"""How much is said about some work, the most first."""

_TOOLS_BEFORE_TOKENS: Final = 3  # from this one on, the tools' names are said rather than tokens

_MARKS: Final = re.compile(r"[ \t]*(?:↵[ \t]*)+(?:#+ )?|\*\*|^#+ ")

_PASTED: Final = re.compile(
    r"""(['"])(/[^'"↵]*/[^'"↵]*)\1|((?:/(?:\\.|[^/\s↵\\])+){3,})(?=\s|↵|$)"""
)

_MAX_LABELS: Final = 4
_NAME: Final = 16  # columns of the name of a pasted path


def work_parts(
    work: Work, *, tools: int = 0, files: int = 0, words: bool = True, cost: bool = True
) -> list[Span]:
    """What was done, in parts.

    At most so many tools and changed files are named; with `words`, units are written out.
    """
    parts: list[Span] = []
    if often := work.interruptions - work.stopped:
        parts.append(Span(_went_on(often, words=words), weight=4))
    if count := sum(work.calls.values()):
        parts.append(Span(counted(count, "call") + _tools(work, tools)))
    if work.failed:
        parts.append(Span(f"{work.failed:,} failed", "failure", 8))
    if work.refused:
        parts.append(Span(f"{work.refused:,} refused", "failure", 7))
    if work.unanswered and words:
        parts.append(Span(f"{work.unanswered:,} without a result", weight=2))
    if work.files:
        parts.append(Span(_files(work, files, words=words), weight=4))
    if work.tokens:
        parts.append(Span(in_short(work.tokens) + (" tokens" if words else " tok"), weight=1))
    if cost and work.usage.cost:
        parts.append(Span(dollars(work.usage.cost), weight=2))
    if (seconds := work.seconds) is not None and seconds >= 1:
        parts.append(Span(lasting(seconds), weight=3))
    return parts


def _went_on(often: int, *, words: bool) -> str:
    """How often the user interrupted an agent that went on in the same turn."""
    times = f" {often:,} times" if often > 1 else " once" if words else ""
    return f"interrupted{times}, went on"


def outcome_parts(turn: Turn) -> list[Span]:
    """How a turn ended, where that is not by an answer; a failed answer has a row of its own."""
    if turn.subagent or turn.outcome is None or turn.outcome not in _OUTCOMES:
        return []
    return [Span(turn.outcome, _OUTCOMES[turn.outcome].role)]


def outcome_in(turn: Turn) -> str:
    """How a turn ended and what that means, where that is not by an answer; else empty."""
    ending = _OUTCOMES.get(turn.outcome)
    return "" if ending is None else f"{turn.outcome}: {ending.meaning}"


def prompts_in(turns: Sequence[Turn]) -> list[Span]:
    """How many prompts turns have, and how many turns ended without an answer."""
    prompts = sum(turn.prompt is not None for turn in turns)
    return [Span(counted(prompts, "prompt")), *outcomes_in(turns)]


def outcomes_in(turns: Iterable[Turn]) -> list[Span]:
    """How many turns ended without an answer, and how."""
    counts = Counter(turn.outcome for turn in turns if not turn.subagent)
    return [
        Span(f"{counts[outcome]:,} {ending.of_many}", ending.role, ending.weight)
        for outcome, ending in _OUTCOMES.items()
        if counts[outcome]
    ]


def _tools(work: Work, most: int) -> str:
    if not most:
        return ""
    named = [f"{name} {count:,}" for name, count in work.calls.items()]
    if len(work.calls) == 1:
        named = list(work.calls)
    return ": " + ", ".join(named[:most]) + (", …" if len(named) > most else "")


def _files(work: Work, most: int, *, words: bool) -> str:
    count = len(work.changed) or len(work.files)
    files = counted(count, "file")
    if not work.changed:
        return f"{files} read" if words else f"{count:,} read"
    if not most:
        return f"{files} changed" if words else f"{count:,} changed"
    names = [one_line(PurePath(path).name, 40) for path in work.changed]
    more = f" +{len(names) - most:,}" if len(names) > most else ""
    return "changed " + ", ".join(names[:most]) + more


def work_in(work: Work, width: int, first: Sequence[Span] = ()) -> list[Span]:
    """What was done, in as many parts as fit in so many columns; the first ones at least."""
    parts: list[Span] = []
    for place, detail in enumerate(_DETAIL):
        parts = [*first, *work_parts(work, **detail)]  # type: ignore[arg-type]
        if columns_of_parts(parts) <= width:
            return parts
        if place >= _TOOLS_BEFORE_TOKENS:
            parts = [part for part in parts if part.weight > 1]
        if columns_of_parts(parts) <= width:
            return parts
    while len(parts) > 1 and columns_of_parts(parts) > width:
        parts.remove(min(reversed(parts), key=lambda part: part.weight))
    return parts


def columns_of_parts(parts: Sequence[Span]) -> int:
    """The columns of parts with dots between them."""
    return sum(columns_of(part.text) for part in parts) + 3 * max(0, len(parts) - 1)


def work_of_subagent(agent: Subagent, width: int) -> list[Span]:
    """What a subagent did, in as many parts as fit in so many columns."""
    if agent.missing:
        return [Span("its transcript is missing", "failure")]
    return work_in(agent.work, width)


_VERB: Final = 11  # columns of the sign and the verb of an act


def act_in(act: Act, width: int, came: Sequence[Span] | None = None) -> Line:
    """An act on one line, what came of it at the right; `came` is instead of its outcome."""
    if came is None:
        came = [Span(act.outcome, "failure" if act.failed else "")] if act.outcome else []
    ends = dotted([*came, *([Span(act.took)] if act.took else [])], width // 2)
    named = f"{SIGNS[act.kind]} {act.verb}"
    gap = "" if act.place.startswith(":") or not act.place else " "
    words = [
        Span(f"{named:<{_VERB}}  ", "agent" if act.kind == "subagent" else "number"),
        Span(act.object),
        Span(f"{gap}{act.place}", "dim"),
    ]
    return beside(words, ends, width)


def event_in(event: TurnEvent) -> Span:
    """What happened in a turn, of the kinds of `EVENTS`."""
    sign, role = EVENTS[event.kind]
    at = f" at {in_short(event.tokens)} tokens" if event.tokens else ""
    return Span(f"{sign}{at}: {event.text}" if event.text else f"{sign}{at}", role)


def reply_in(event: TurnEvent, width: int) -> Line:
    """A question of a tool and what the user replied; a long question leaves room for the reply."""
    question = f"? {event.question} — "
    least = max(width // 2, width - columns_of(event.text))
    question = question if columns_of(question) <= least else cut(question[:-3], least - 3) + " — "
    reply = cut(event.text, max(8, width - columns_of(question)))
    return [Span(question, "dim"), Span(reply, "prompt")]


def local_time(turn: Turn) -> datetime | None:
    """When a turn began, in the time of the user; None if that is not known."""
    moment = moment_of(turn.work.started)
    try:
        return None if moment is None else moment.astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def clock_in(turn: Turn) -> str:
    """The time of day when a turn began, or nothing."""
    moment = local_time(turn)
    return "" if moment is None else moment.strftime("%H:%M")


def asked_in(turn: Turn) -> str:
    """The prompt of a turn; of one without a prompt, what it is."""
    if turn.prompt is not None:
        return without_path(turn.prompt) or "(an empty prompt)"
    if turn.subagent or turn.lane is not None:
        what = ""
    elif turn.part:
        what = "(another try) " if turn.number else "(no prompt) "
    else:
        what = "(before the first prompt) "
    return f"{what}{turn.answer}".rstrip() or "(no prompt)"


def words_of(turn: Turn, agent: str = "") -> list[Span]:
    """The names, the labels and the prompt of a turn; one of a subagent has the `agent`'s name."""
    words: list[Span] = []
    if turn.subagent and agent:
        words.append(Span(f"{agent}: ", "agent"))
    elif not turn.subagent and turn.lane is not None:
        words.append(Span(f"lane {one_line(turn.lane, 40)}: ", "agent"))
    words += [Span(f"({one_line(name, 40)}) ", "branch") for name in turn.names]
    words += [Span(f"[{one_line(label, 40)}] ", "label") for _, label in turn.labels[:_MAX_LABELS]]
    if (more := len(turn.labels) - _MAX_LABELS) > 0:
        words.append(Span(f"[+{more:,}] ", "label"))
    return [*words, Span(asked_in(turn), _role_of(turn))]


def _role_of(turn: Turn) -> str:
    if turn.prompt is None:
        return "dim"
    return "prompt" if turn.current else ""


def told_in(turn: Turn) -> str:
    """The answer of a turn, without the marks of Markdown that a terminal does not draw."""
    return _MARKS.sub(lambda found: " ↵ " if "↵" in found[0] else "", turn.answer).strip(" ↵")


def without_path(prompt: str) -> str:
    """A prompt; of one that begins with a pasted path, the end of the path and what follows."""
    found = _PASTED.match(prompt)
    if found is None:
        return prompt
    rest, path = prompt[found.end() :].lstrip(" ↵"), found[2] or found[3]
    return f"[{cut_start(PurePath(path).name, _NAME)}] {rest}" if rest else cut_start(path, 60)
