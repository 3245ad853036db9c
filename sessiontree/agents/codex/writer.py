"""A session as a rollout of Codex: one file, the branches one after another, the current last.

The file has the older `legacy` history, in which `thread_rolled_back` takes back the last turns.
All versions of Codex read it. Where a branch leaves in the middle of a turn, the start of the turn
is repeated. Where turns cannot be taken back, such as above a compaction, the history is set anew
by a `compacted` line.

A model, an effort and an approval policy are in one line, `turn_context`, which Codex obeys when it
resumes. It is written only for a model of OpenAI, or of a session of Codex.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from sessiontree.agents import writing
from sessiontree.agents.codex.items import ABOUT, CodexMessages, Item, Line, events, is_turn
from sessiontree.agents.writing import (
    Step,
    WrittenBranch,
    WrittenCompaction,
    WrittenMessage,
    WrittenNote,
    paired,
)
from sessiontree.context.settings import header_settings, model_of
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry, moment_of
from sessiontree.core.header import KEY
from sessiontree.core.message import Message, begins_turn, is_generated, is_prompt
from sessiontree.core.usage import Usage, spent_mark, usage_of

VERSION: Final = "0.169.0"
"""The version of Codex whose files these are like."""

_OPENAI_MODEL: Final = re.compile(r"(gpt|codex|o\d)\b", re.IGNORECASE)


_EFFORTS: Final = frozenset({"none", "minimal", "low", "medium", "high", "xhigh"})
_PROVIDER: Final = "openai"  # which Codex asks if its user set no other

Settings = tuple[str | None, str | None]
"""The id of the model and the effort, each None where Codex uses its own."""


class _Unit(NamedTuple):
    """What is written for one step."""

    depth: int  # the number of entries above it
    key: bytes  # a digest of what it says; empty where nothing follows to compare it with
    place: str  # the uuid of the entry below which the next line belongs
    time: str
    items: list[Item]  # what it adds to the history, or what a compaction leaves of it
    shown: list[Line]  # the lines of the items, and those that show them
    counted: list[Line]  # the lines that are not repeated with it
    settings: Settings  # those in force after it
    is_compaction: bool
    turn: int | None  # the place in the log of the unit, not below it, that begins the last turn
    last: Item | None  # the last item, not below it
    shown_above: int | None  # the place of the unit above it, the nearest, that has lines

    @property
    def turns(self) -> int:
        return sum(map(is_turn, self.items))


class CodexWriter(writing.LogWriter[_Unit]):
    program = "Codex"
    document = "rollout"

    def __init__(self, source: writing.SessionSource) -> None:
        super().__init__(source)
        metadata = source.header.get("metadata")
        self._facts: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
        self._is_codex = self._facts.get("agent") == "codex"
        self._messages = CodexMessages(self.losses)
        self._fixed = 0  # how many of the log cannot be taken back by turns
        self._settings: Settings = (None, None)
        self._has_merges = bool(source.tree.rows_of_type("merge"))
        self._turn: str | None = None
        self._turns = 0
        self._total = Usage()
        at, header = source.header.uuid, source.header
        if "system" in header_settings(header.body) and not self._is_codex:
            self.losses.at(at, writing.LOSS_OF_SYSTEM.format(self.program))
        if source.name is not None:
            self.losses.at(at, "the name is left out: Codex keeps names in a file of its own")

    @property
    def default_name(self) -> str:
        at = moment_of(self.source.header.timestamp) or datetime.fromtimestamp(0, UTC)
        return f"rollout-{at.astimezone(UTC):%Y-%m-%dT%H-%M-%S}-{self.session_id}.jsonl"

    def opening(self) -> Iterator[bytes]:
        header = self.source.header
        yield self._line(("session_meta", self._meta()), header.uuid, self.time)
        settings = header_settings(header.body)
        self._take_model(settings.get("model"))
        self._take_effort(settings.get("thinkingLevel"))
        for line in self._context((None, None)):
            yield self._line(line, header.uuid, self.time)

    def ending(self) -> Iterator[bytes]:
        leaf = self.source.tree.uuids[self.source.leaf]
        if self._turn is None and self.place != leaf:
            begun = {"type": "task_started", "turn_id": self._next_turn()}
            yield self._line(
                ("event_msg", {**begun, "model_context_window": None}), leaf, self.time
            )
        yield from self._ended(leaf)

    def _meta(self) -> dict[str, Any]:
        facts = self._facts
        meta: dict[str, Any] = {
            "id": self.session_id,
            "timestamp": self.time,
            "cwd": writing.text_in(self.source.header.get("cwd")),
            "originator": "sessiontree",
            "cli_version": VERSION,
            "source": "cli",
            "model_provider": self._provider(),
        }
        if self._is_codex:
            if isinstance(above := facts.get("forkedFrom"), str):
                meta["forked_from_id"] = above
            if isinstance(system := facts.get("system"), str):
                meta["base_instructions"] = {"text": system}
        if isinstance(git := facts.get("git"), dict):
            meta["git"] = git
        elif branch := writing.text_in(facts.get("gitBranch")):
            meta["git"] = {"branch": branch}
        return meta

    def _provider(self) -> str:
        known = self._facts.get("provider") if self._is_codex else None
        return known if isinstance(known, str) else self.source.provider or _PROVIDER

    def units_of(self, branch: WrittenBranch) -> tuple[int, Iterator[_Unit]]:
        steps = branch.steps
        common = self.log.up_to(branch.above)
        if branch.is_whole or common is None:
            steps = branch.steps if branch.is_whole else branch.whole()
            if common is None or self._has_merges:
                steps = paired(list(steps))
            common, steps = self.log.common(iter(steps), self._again)
        return common, (self._unit(step, b"" if branch.is_last else _key(step)) for step in steps)

    def lines_of(self, unit: _Unit) -> Iterator[bytes]:
        return self._written((*unit.shown, *unit.counted), unit.place, unit.time)

    def _again(self, unit: _Unit, step: Step) -> _Unit | None:
        """A unit of the log as it is where a step is the same; None where the step is another."""
        if unit.key != _key(step):
            return None
        depth = self.branches.depths[step.row]
        if depth == unit.depth:
            return unit
        return unit._replace(depth=depth, place=self.source.tree.uuids[step.row])

    def go_back(self, count: int) -> Iterator[bytes]:
        units = self.log.units
        last = units[count - 1] if count else None
        place = self.source.header.uuid if last is None else last.place
        time = self.time if last is None else last.time
        start = self._start_of_turn(count)
        shown = self._shown_between(start or 0, count)
        removed = self.log.cut(count)
        if start is None:
            line = _compacted("", _in_force(shown))
            yield from self._written([line], place, time)
            self._fixed = count
        else:
            turns = sum(unit.turns for unit in (*shown, *removed))
            yield from self._ended(place)
            back = {"type": "thread_rolled_back", "num_turns": turns}
            yield self._line(("event_msg", back), place, time)
            for unit in shown:
                yield from self._written(unit.shown, unit.place, unit.time)
        before, self._settings = self._settings, (None, None) if last is None else last.settings
        for line in self._context(before):
            yield self._line(line, place, time)

    def _start_of_turn(self, count: int) -> int | None:
        """The last unit, not after `count`, that begins with a turn; None if there is none."""
        units = self.log.units
        if any(unit.is_compaction for unit in units[count:]):
            return None
        start = units[count].turn
        return None if start is None or start < self._fixed else start

    def _shown_between(self, start: int, count: int) -> list[_Unit]:
        """The units of a range of the log that have lines; the others cost no step."""
        units = self.log.units
        found: list[_Unit] = []
        at = units[count].shown_above
        while at is not None and at >= start:
            found.append(units[at])
            at = units[at].shown_above
        return found[::-1]

    def _shown_above(self) -> int | None:
        """The place of the last unit of the log that has lines."""
        units = self.log.units
        if not units:
            return None
        return len(units) - 1 if units[-1].shown else units[-1].shown_above

    def _turn_at(self, items: list[Item], above: _Unit | None) -> int | None:
        """The value of `_Unit.turn` for the next unit of the log, which is no compaction.

        Codex also takes back its own texts that stand before a turn, so none may stand there.
        """
        if items and is_turn(items[0]):
            last = None if above is None else above.last
            if last is None or is_turn(last) or last.get("role") not in ("user", "developer"):
                return len(self.log.units)
        return None if above is None else above.turn

    def _unit(self, step: Step, key: bytes) -> _Unit:
        self.losses.uuid = step.entry.uuid
        self.time = step.entry.timestamp or self.time
        before = self._settings
        items: list[Item] = []
        shown: list[Line] = []
        counted: list[Line] = []
        if isinstance(step, WrittenNote):
            counted = [*self._noted(step.entry), *self._context(before)]
        elif isinstance(step, WrittenCompaction):
            items = [item for said in step.kept for item in self._items(said)[0]]
            shown = [_compacted(writing.text_in(step.entry.get("summary")), items)]
        else:
            items, is_users = self._items(step)
            shown = [line for item in items for line in _lines(item, is_users=is_users)]
            thoughts = self._messages.last_thoughts(step.message)
            shown = [
                ("event_msg", {"type": "agent_reasoning", "text": t}) for t in thoughts
            ] + shown
            self._take_model(model_of(step.message))
            shown = [*self._context(before), *shown]
            counted = self._usage_of_answer(step.message)
        place = self.source.tree.uuids[step.row]
        depth = self.branches.depths[step.row]
        made = depth, key, place, self.time, items, shown, counted, self._settings
        above = self.log.units[-1] if self.log.units else None
        is_compaction = isinstance(step, WrittenCompaction)
        turn = None if is_compaction else self._turn_at(items, above)
        last = items[-1] if items else above and above.last
        return _Unit(*made, is_compaction, turn, last, self._shown_above())

    def _items(self, said: WrittenMessage) -> tuple[list[Item], bool]:
        """The items of a message, and whether those of the user's side are by the user."""
        found = self._messages.items(said.message, said.entry.uuid)
        is_users = any(item.get("role") == "user" for item in found) and _is_users(said)
        for item in found:
            if item.get("role") == "user" and ABOUT not in item:
                kind = "user.text" if is_users else "sessiontree.context"
                if said.message.get("role") == "compactionSummary":
                    kind = "compaction.summary"
                item[ABOUT] = {"content_item_kinds": [kind] * len(item["content"])}
        return found, is_users

    def _noted(self, entry: Entry) -> list[Line]:
        if entry.type == "model_change":
            self._take_model(entry.body)
        elif entry.type == "thinking_level_change":
            self._take_effort(entry.get("thinkingLevel"))
        else:
            return self._usage(entry.get("usage"), entry.body)
        return []

    def _take_model(self, model: Any) -> None:
        """Note the model in force, if Codex can go on with it."""
        id = model.get("modelId") if isinstance(model, Mapping) else None
        if not isinstance(id, str) or id == self._settings[0]:
            return
        provider = writing.text_in(model.get("provider"))
        is_openai = provider.startswith("openai") or (
            not provider and _OPENAI_MODEL.match(id) is not None
        )
        if self._is_codex or is_openai:
            self._settings = (id, self._settings[1])
        else:
            self.losses.add(f"the model {one_line(id, 60)} is left out: Codex uses its own")

    def _take_effort(self, level: Any) -> None:
        if not isinstance(level, str):
            return
        if level in _EFFORTS:
            self._settings = (self._settings[0], level)
        else:
            self.losses.add(f"the thinking level {one_line(level, 20)!r} is left out")

    def _context(self, before: Settings) -> list[Line]:
        """The line of the settings in force, if they are not those before."""
        model, effort = self._settings
        if model is None or self._settings == before:
            return []
        cwd = writing.text_in(self.source.header.get("cwd"))
        safe = {"approval_policy": "on-request", "sandbox_policy": {"type": "read-only"}}
        more = {} if effort is None else {"effort": effort}
        return [("turn_context", {"cwd": cwd, **safe, "model": model, **more, "summary": "auto"})]

    def _usage_of_answer(self, message: Message) -> list[Line]:
        """The usage of a response, once for all messages with its id."""
        reported, id = message.get("usage"), message.get("id")
        if not isinstance(reported, Mapping) or message.get("role") != "assistant":
            return []
        if isinstance(id, str):
            if id in self.counted:
                return []
            self.counted.add(id)
        return self._usage(reported, message)

    def _usage(self, reported: Any, fields: Mapping[str, Any]) -> list[Line]:
        """The line of what a response used, with what Codex does not say of it in its origin."""
        used = usage_of(reported)
        if used.cost:
            self.losses.add("a reported cost is left out")
        self._total += used
        info = {"total_token_usage": _tokens(self._total), "last_token_usage": _tokens(used)}
        told = {"type": "token_count", "info": info, "rate_limits": None}
        return [("event_msg", told if self._is_codex else {**told, KEY: spent_mark(fields)})]

    def _written(self, lines: Iterable[Line], place: str, time: str) -> Iterator[bytes]:
        """Lines, with the marks of the turns that begin with them: Codex takes back whole turns."""
        for line in lines:
            kind, payload = line
            if kind == "compacted" or (kind == "response_item" and is_turn(payload)):
                yield from self._ended(place)
                begun = {"type": "task_started", "turn_id": self._next_turn()}
                yield self._line(
                    ("event_msg", {**begun, "model_context_window": None}), place, time
                )
            yield self._line(line, place, time)
            if kind == "compacted":
                yield from self._ended(place)

    def _next_turn(self) -> str:
        self._turns += 1
        self._turn = self.source.derived_uuid(self.session_id, self._turns)
        return self._turn

    def _ended(self, place: str) -> Iterator[bytes]:
        """The mark of the end of the turn, if one has begun."""
        if self._turn is not None:
            ended = {"type": "task_complete", "turn_id": self._turn, "last_agent_message": None}
            self._turn = None
            yield self._line(("event_msg", ended), place, self.time)

    def _line(self, line: Line, place: str, time: str) -> bytes:
        """A line; `place` is the entry below which its continuation belongs."""
        kind, payload = line
        mark = payload.get(KEY, {})
        payload = {key: value for key, value in payload.items() if key != KEY}
        self.place = place
        try:
            origin = self.source.origin_at(place, {"type": kind, "payload": payload})
            if KEY in origin:
                origin = {KEY: {**origin[KEY], **mark}}
            fields = {"timestamp": time, "type": kind, "payload": payload, **origin}
            return writing.json_of(fields) + b"\n"
        except RecursionError:
            self.losses.add("an entry that is nested too deeply for JSON is left out")
            return b""


def _is_users(said: WrittenMessage) -> bool:
    if said.entry.type == "message":
        return begins_turn(said.entry.body) and not is_generated(said.entry.body)
    return said.entry.type == "handle" and is_prompt(said.message)


def _lines(item: Item, *, is_users: bool) -> Iterator[Line]:
    yield "response_item", item
    yield from events(item, is_prompt=is_users and item.get("role") == "user")


def _compacted(summary: str, items: list[Item]) -> Line:
    return "compacted", {"message": summary, "replacement_history": items}


def _in_force(log: list[_Unit]) -> list[Item]:
    """The items of the history at the end of a log."""
    last = next((n for n in reversed(range(len(log))) if log[n].is_compaction), 0)
    return [item for unit in log[last:] for item in unit.items]


def _key(step: Step) -> bytes:
    """A digest of what a step says."""
    digest = blake2b(step.entry.uuid.encode("utf-8", "surrogatepass"), digest_size=16)
    if isinstance(step, WrittenCompaction):
        for said in step.kept:
            digest.update(_key(said))
    elif isinstance(step, WrittenMessage):
        try:
            digest.update(writing.json_of(step.message))
        except RecursionError:
            digest.update(step.entry.line)
    return digest.digest()


def _tokens(used: Usage) -> dict[str, int]:
    read = used.input + used.cache_read + used.cache_write
    return {
        "input_tokens": read,
        "cached_input_tokens": used.cache_read,
        **({"cache_write_input_tokens": used.cache_write} if used.cache_write else {}),
        "output_tokens": used.output,
        "reasoning_output_tokens": 0,
        "total_tokens": read + used.output,
    }
