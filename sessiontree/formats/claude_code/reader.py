"""Claude Code's transcripts: `~/.claude/projects/<folder>/<session id>.jsonl`.

A line with a `uuid` is part of a tree by `parentUuid`: messages (`user`, `assistant`,
one for each content block), and between them hooks, progress and system notes. Lines
without one are side lines: titles, snapshots, queues. Subagents write files of their
own, `<session id>/subagents/**/agent-<id>.jsonl`, each here a lane `agent-<id>`;
older versions wrote them between the others, marked `isSidechain`.

A message keeps its uuid and is the API's message as stored. The main lane's context is
the conversation that `formats.claude_code.threads` finds: entries on it that parallel tool
calls left aside are hung where they belong, and only those. What does not speak in it
(hooks, side lines, what is marked as meta or as another agent's) is a `custom` entry
with the whole line in it, below its parent or else the line before.

The summary of a compaction is a `compaction` that keeps nothing, and the mark before
it hangs below the last entry that was compacted. A result that was taken out to
`<session id>/tool-results/` stays as its preview, as the model saw it;
`metadata.toolResults` names the files, relative to the transcript's folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sessiontree.core.entry import decode_leniently
from sessiontree.formats.base import START, Facts, Lines, Place, Report, Source, Translated
from sessiontree.formats.claude_code.found import Found
from sessiontree.formats.claude_code.transcript import SIDE, Transcript, lane_name
from sessiontree.formats.values import first_values, values
from sessiontree.text.pattern import lines_with

_OPENING_LINES: Final = 20
"""How many lines are looked at to recognise a transcript."""


class ClaudeCode:
    """See the module."""

    name = "claude-code"
    program = "Claude Code"

    def recognises(self, head: bytes) -> bool:
        """Lines with a `sessionId`, or side lines of Claude Code, and no header of a session."""
        for number, line in enumerate(first_values(head)):
            kind = line.text("type")
            if number == _OPENING_LINES or (kind == "session" and not number):
                return False
            if "payload" in line or "projectHash" in line:
                return False
            if kind in SIDE or ("sessionId" in line and kind is not None):
                return True
        return False

    def facts(self, head: bytes, tail: bytes) -> Facts:
        found = Found()
        for line in first_values(head):
            found.note(line)
            if found.is_complete:
                break
        for window in (head, tail):
            for needle in (b"itle", b'"summary"'):
                for start, end in lines_with(needle, window, len(window)):
                    if (title := values(window[start:end])) is not None:
                        found.note_title(title)
        return found.facts()

    def translate(self, source: Source, report: Report) -> Iterator[Translated]:
        found = Found()
        main = Transcript(source, 0, found)
        facts = found.facts()
        lines = Lines(self, report, facts.id or "")
        yield lines.header(
            START, facts, agentVersion=found.version, gitBranch=found.branch, model=found.model
        )
        yield from main.translated(lines, report)
        for number, beside in enumerate(source.beside(), 1):
            yield from _subagent(beside, number, main, lines, report)
        if main.leaf is not None and lines.leaf != main.leaf:
            uuid = lines.uuid(None, main.last, b"leaf " + main.leaf.encode("utf-8", "replace"))
            yield lines.entry("branch", main.last, uuid, parent=main.leaf)
        lines.report_unknown()


def _subagent(
    source: Source, number: int, main: Transcript, lines: Lines, report: Report
) -> Iterator[Translated]:
    """The lane of a subagent: what is known about it, and then what it wrote."""
    agent = source.name.removeprefix("agent-").removesuffix(".jsonl")
    lane = lane_name(agent)
    transcript = Transcript(source, number, Found(), lane)
    transcript.folder = main.folder
    place = Place(number, 1, 0)
    known = decode_leniently(source.sidecar) if source.sidecar is not None else None
    told = known if isinstance(known, dict) else {}
    caller = main.callers.get(told.get("toolUseId", ""), main.agents.get(agent))
    uuid = lines.uuid(None, place, b"lane " + lane.encode())
    data = {"agentId": agent, **told, **({"calledBy": caller} if caller else {})}
    yield lines.custom("subagent", place, uuid, data, parent=lines.root, lane=lane)
    yield from transcript.translated(lines, report)
    yield from transcript.finished(lines)
