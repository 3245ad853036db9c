"""One turn on the screen: the prompt in full, and each entry on a row."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from sessiontree.cli.outline import reply_in, styled_parts
from sessiontree.cli.output import speaker
from sessiontree.cli.screen import Screen, path_in
from sessiontree.cli.terminal import short
from sessiontree.core.activity import as_typed
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import CONTENT, Entry
from sessiontree.core.message import Message, text_of
from sessiontree.core.moment import moment_of
from sessiontree.operations.messages import is_typed, typed_in, with_messages
from sessiontree.operations.turns import SessionOutline, Turn, turns_named
from sessiontree.operations.words import Part, without_path, work_in, work_parts
from sessiontree.operations.work import TurnEvent
from sessiontree.session import Session
from sessiontree.text.amounts import ago
from sessiontree.text.columns import cut
from sessiontree.text.preview import is_unclear, preview

_PROMPT_LINES: Final = 40
_ROLE_WIDTH: Final = 11
_OUTCOMES: Final = {
    "steered": "the user typed the next prompt while the agent worked",
    "interrupted": "the user interrupted the agent, and typed the next prompt",
    "given up": "the user interrupted the agent, which did nothing more here",
    "no output": "the agent gave neither a text nor a call",
    "no answer": "the agent wrote nothing after its last call",
    "unfinished": "the session ends before the agent answers",
    "broke off": "the answer has no end",
}
_STYLES: Final = {"user": "prompt", "tool": "dim", "assistant": "number"}


def opened_turn(session: Session, name: str, screen: Screen) -> Iterator[str]:
    """The lines that show a turn."""
    outline = session.outline()
    for place, turn in turns_named(session.cursor, outline, name):
        yield from _heading(turn, outline, screen)
        entries = session.turn(turn)
        agents = {agent.caller: agent for agent in turn.subagents if agent.caller}
        labels = dict(turn.labels)
        replies: dict[str, list[TurnEvent]] = {}
        for event in turn.events:
            if event.kind == "reply":
                replies.setdefault(event.uuid, []).append(event)
        for entry, message in with_messages(entries, session.cursor.messages, is_wanted=is_unclear):
            if entry.type not in CONTENT and not is_typed(entry):
                continue
            if entry.uuid == turn.uuid and turn.prompt is not None:
                yield from _prompt(entry, message, turn, labels, screen)
            elif entry.uuid in replies:
                yield from _replies(entry, replies[entry.uuid], screen)
            else:
                yield _row(entry, message, labels, screen)
            if agent := agents.get(entry.uuid):
                parts = [Part(f"↳ {agent.name}: {agent.task}", "agent")]
                did = work_in(agent.work, max(20, screen.width // 2), parts)
                yield f"{'':10}{styled_parts(did, screen.width - 10, screen)}"
        yield from _following(outline, place, screen)


def _heading(turn: Turn, outline: SessionOutline, screen: Screen) -> Iterator[str]:
    last = max((one.number for one in outline.turns), default=0)
    where = f"turn {turn.name} of {last}"
    if turn.subagent:
        where = f"subagent in turn {turn.number}, lane {turn.lane}"
    parts = [where]
    if (moment := moment_of(turn.work.started)) is not None:
        local = moment.astimezone()
        past = ago((screen.now - moment).total_seconds())
        parts.append(f"{local.day} {local.strftime('%B %Y %H:%M')}, {past}")
    parts += turn.work.models[:3]
    parts += [] if turn.current else ["not on the current path"]
    yield screen.styled(cut(" · ".join(parts), screen.width), "title")
    if told := _OUTCOMES.get(turn.outcome or ""):
        yield screen.styled(cut(f"{turn.outcome}: {told}", screen.width), "failure")
    did = work_parts(turn.work, tools=20, files=0, words=True)
    if did:
        said = " · ".join(part.text for part in did)
        yield from (screen.styled(line, "dim") for line in _wrapped(said, screen.width))
    for path in turn.work.changed[:20]:
        shown = path_in(one_line(path, 400), outline.cwd, screen.width - 10)
        yield screen.styled(f"  changed {shown}", "dim")
    if len(turn.work.changed) > 20:
        yield screen.styled(f"  changed {len(turn.work.changed) - 20:,} more", "dim")
    yield ""


def _prompt(
    entry: Entry, message: Message | None, turn: Turn, labels: dict[str, str], screen: Screen
) -> Iterator[str]:
    own = entry.message_as_stored if entry.type == "message" else message
    text = as_typed(text_of(own).strip()) if isinstance(own, dict) else typed_in(entry)
    lines = _wrapped(printable(text or turn.prompt or ""), screen.width - 10)
    label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
    shown = list(islice(lines, _PROMPT_LINES))
    for at, line in enumerate(shown or [""]):
        before = short(entry.uuid) if at == 0 else ""
        body = screen.styled(cut((label if at == 0 else "") + line, screen.width - 10), "prompt")
        yield f"{screen.styled(f'{before:<8}', 'dim')}  {body}".rstrip()
    if next(lines, None) is not None:
        yield screen.styled(f"{'':10}… 'show' with {short(entry.uuid)} prints the rest", "dim")


def _wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of a text, long ones broken at spaces where there are any."""
    for line in text.expandtabs(4).split("\n"):
        while len(line) > width:
            at = line.rfind(" ", width // 2, width)
            at = width if at < 0 else at
            yield line[:at]
            line = line[at:].lstrip()
        yield line


def _row(entry: Entry, message: Message | None, labels: dict[str, str], screen: Screen) -> str:
    who = speaker(entry, message)
    label = f"[{labels[entry.uuid]}] " if entry.uuid in labels else ""
    room = screen.width - 10 - _ROLE_WIDTH - 2
    words = cut(label + preview(entry, message, 2 * screen.width), room)
    role = _STYLES.get(who, "compaction" if entry.type == "compaction" else "")
    spoken = cut(who, _ROLE_WIDTH)
    named = f"{spoken:<{_ROLE_WIDTH}}"
    body = screen.styled(words, "dim") if role == "dim" else words
    uuid = screen.styled(f"{short(entry.uuid):<8}", "dim")
    return f"{uuid}  {screen.styled(named, role) if role else named}  {body}".rstrip()


def _replies(entry: Entry, replies: list[TurnEvent], screen: Screen) -> Iterator[str]:
    """What the user replied to the questions of a tool."""
    for at, event in enumerate(replies):
        before = screen.styled(f"{short(entry.uuid) if at == 0 else '':<8}", "dim")
        who = screen.styled(f"{'user' if at == 0 else '':<{_ROLE_WIDTH}}", "prompt")
        said = reply_in(event, screen.width - 10 - _ROLE_WIDTH - 2, screen)
        yield f"{before}  {who}  {said}".rstrip()


def _following(outline: SessionOutline, place: int, screen: Screen) -> Iterator[str]:
    below = [turn for turn in outline.turns if turn.above == place and not turn.subagent]
    if below:
        yield ""
    for turn in below:
        mark = "●" if turn.current else "○"
        text = f"{mark} {turn.name}  {without_path(turn.prompt or turn.answer)}"
        yield screen.styled(cut(text, screen.width), "dim")
