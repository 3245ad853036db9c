"""Sessions of the OpenAI Agents SDK as sessions of a store.

An item is one entry, exactly as the SDK gives it. What the SDK takes away, by `pop_item`,
`clear_session`, a compaction or a branch, stays in the file: only the leaf moves. The branches are
a fact in the session's metadata, which is written when a branch is made, left or deleted.

Invariants: items come back equal to those that were given; a call is one write under the lock of
the file, at its newest leaf, so that several processes lose nothing; nothing is removed.

Source: `agents.memory.Session` and `agents.extensions.memory.AdvancedSQLiteSession` of
openai-agents 0.24.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import chain, islice
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec
from anyio.to_thread import run_sync

from sessiontree.adapters.base import OPENAI_AGENTS, SessionFiles, check_sound, run_again, up
from sessiontree.core.entry import Entry, check_fields
from sessiontree.core.message import block_text, blocks_of
from sessiontree.engine.writer import now
from sessiontree.errors import (
    EntryError,
    InvalidNameError,
    SessionNotFoundError,
    UsageError,
)
from sessiontree.session import Session
from sessiontree.store import PathLike, Store

try:
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import (
        SessionSettings,
        coerce_session_settings,
        resolve_session_limit,
    )
    from agents.result import RunResult
except ImportError as error:
    raise OPENAI_AGENTS.unknown(error) from error

FOLDER: Final = "openai-agents"
"""The folder of a store that has the sessions."""

MAIN: Final = "main"
"""The branch that a session begins with."""

_KEY: Final = "openaiAgents"
_BRANCHES: Final = "openaiAgentsBranches"
_ITEM: Final = "openai-agents:item"
_UNNAMED: Final = frozenset(
    {
        *("computer_call", "file_search_call", "web_search_call", "code_interpreter_call"),
        *("shell_call", "apply_patch_call"),
    }
)
_CALLS: Final = _UNNAMED | {
    *("function_call", "custom_tool_call", "tool_call", "tool_search_call"),
    *("mcp_call", "mcp_approval_request"),
}

_MAX_CONTENT: Final = 100
"""The characters of a prompt in a list of turns."""

T = TypeVar("T")


class _AgentsItem(NamedTuple):
    entry: Entry
    value: dict[str, Any]

    @property
    def is_prompt(self) -> bool:
        return self.value.get("role") == "user"


class _Branches(msgspec.Struct):
    current: str = MAIN  # the branch that items are added to
    # for each other branch its last entry; an empty uuid for one without items
    tips: dict[str, str] = {}
    made: dict[str, str] = {}  # when each branch was made; only `main` may lack
    # the names that branches had, which are not given again
    used: list[str] = msgspec.field(default_factory=lambda: [MAIN])


class SessionTreeSession:
    """Keeps the items of an agent's conversation in a session file.

    It has the methods of `agents.memory.Session`, and those of `AdvancedSQLiteSession` for
    branches, turns and usage. Unlike there, the current branch is that of the file, so that it is
    the same in all processes and after a restart; and branches share the entries before the point
    where they part, with the usage of those turns.

    Args:
        session_id: the id; any text.
        root: the folder or the address of a store, or a `Store`; by default the store of the user.
        session_settings: the settings, or their dict; `limit` is the default of `get_items`.

    Raises:
        TypeError: the settings have a key that the SDK does not know.
        UnknownSdkError: the version of openai-agents is not known to work.
    """

    def __init__(
        self,
        session_id: str,
        root: PathLike | Store | None = None,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        OPENAI_AGENTS.check()
        self.session_id = session_id
        self.session_settings: SessionSettings | None = coerce_session_settings(
            session_settings or {}
        )
        self._place = SessionFiles(root, FOLDER)
        # the path of the session file, which the first item makes
        self.file = self._place.file_of(session_id)

    # The methods of a session

    async def get_items(
        self, limit: int | None = None, branch_id: str | None = None
    ) -> list[TResponseInputItem]:
        """Return the items of a branch, or the last ones, the oldest first.

        Args:
            limit: how many; by default the limit of the settings, or all.
            branch_id: the branch, by default the current one.
        """
        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and (not isinstance(most, int) or most < 0):
            raise UsageError(f"a limit is a number of items from 0, not {most!r:.60}")

        def values(session: Session) -> list[TResponseInputItem]:
            return [cast(TResponseInputItem, i.value) for i in _items(session, branch_id, most)]

        return await self._read(values, [])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items, which are durable when the call returns.

        Raises:
            EntryError: an item is not an object, or has a value that JSON cannot carry.
        """
        if items:
            await run_sync(self._add, list(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Go back by one item, and return it; None without one. It stays in the file."""

        def pop(session: Session) -> dict[str, Any] | None:
            last = next(_up(session, _tip(session)), None)
            if last is None:
                return None
            above = next(session.reader.up(last.entry), session.header)
            session.switch(above.uuid)
            return last.value

        return cast(TResponseInputItem | None, await self._write(pop, None))

    async def clear_session(self) -> None:
        """Begin again without items and branches. What was there stays in the file."""

        def clear(session: Session) -> None:
            branches = _branches(session)
            _go(session, session.header.uuid, _Branches(used=branches.used))

        await self._write(clear, None)

    def close(self) -> None:
        """Do nothing: no file stays open between two calls."""

    # Branches

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """Make a branch that has what is before a turn, and go there.

        Args:
            turn_number: the number of the turn on the current branch, from 1.
            branch_name: the name, by default one with the number and the time.

        Returns:
            The name of the branch.

        Raises:
            UsageError: there is no such turn, or the name is blank or was used.
        """
        if branch_name is not None and not branch_name.strip():
            raise UsageError("the name of a branch is not blank; give another one")

        def create(session: Session) -> str:
            prompts = [item for item in _items(session) if item.is_prompt]
            if not 1 <= turn_number <= len(prompts):
                raise _no_turn(turn_number, len(prompts))
            branches = _branches(session)
            name = branch_name or _free_name(turn_number, branches.used)
            if name in branches.used:
                raise UsageError(f"the name {name!r} was used for a branch; give another one")
            above = next(session.reader.up(prompts[turn_number - 1].entry), session.header)
            _leave(session, branches)
            branches.current = name
            branches.used.append(name)
            branches.made[name] = now()
            _go(session, above.uuid, branches, name)
            return name

        name = await self._write(create, None)
        if name is None:
            raise _no_turn(turn_number, 0)
        return name

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Make a branch before the first prompt with a text; see `create_branch_from_turn`.

        Raises:
            UsageError: no prompt has the text, or the name is blank or was used.
        """
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise UsageError(f"no prompt has the text {search_term!r}")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go to a branch.

        Raises:
            UsageError: there is no such branch.
        """

        def switch(session: Session) -> bool:
            _switch(session, _branches(session), branch_id)
            return True

        if not await self._write(switch, False):
            raise _no_branch(branch_id)

    async def delete_branch(self, branch_id: str, force: bool = False) -> None:
        """Take a branch off the list. Its items stay in the file, and its name is not given again.

        Args:
            branch_id: the branch.
            force: if it is the current branch, go to `main` first.

        Raises:
            UsageError: there is no such branch, it is `main`, or the current one without `force`.
        """
        if branch_id == MAIN:
            raise UsageError("the branch 'main' stays; name another one")

        def delete(session: Session) -> bool:
            branches = _branches(session)
            if branch_id == branches.current:
                if not force:
                    message = f"the branch {branch_id!r} is the current one; switch, or give force"
                    raise UsageError(message)
                _switch(session, branches, MAIN)
            if branch_id not in branches.tips:
                raise _no_branch(branch_id)
            del branches.tips[branch_id]
            branches.made.pop(branch_id, None)
            _save(session, branches)
            return True

        if not await self._write(delete, False):
            raise _no_branch(branch_id)

    async def list_branches(self) -> list[dict[str, Any]]:
        """List the branches, in the order in which they were made.

        Each has `branch_id`, `message_count`, `user_turns`, `is_current` and `created_at`.
        """
        return await self._read(lambda session: list(_listed(session)), [])

    # Turns

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """List the prompts of a branch.

        Each has `turn`, `content` (its start), `full_content`, `timestamp` and `can_branch`.
        """
        return await self._read(lambda session: _turns(session, branch_id, _MAX_CONTENT), [])

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """List the prompts with a text, in any case of its ASCII letters; `content` is whole."""
        pattern = re.compile(re.escape(search_term), re.IGNORECASE | re.ASCII)
        none: list[dict[str, Any]] = []
        turns = await self._read(lambda session: _turns(session, branch_id, None), none)
        return [turn for turn in turns if any(map(pattern.search, _texts(turn["full_content"])))]

    async def get_conversation_by_turns(
        self, branch_id: str | None = None
    ) -> dict[int, list[dict[str, str | None]]]:
        """Return the `type` and the `tool_name` of the items of each turn, by its number.

        Items before the first prompt are in turn 0.
        """

        def group(session: Session) -> dict[int, list[dict[str, str | None]]]:
            found: dict[int, list[dict[str, str | None]]] = {}
            for turn, item in _numbered(_items(session, branch_id)):
                told = {"type": _type(item.value), "tool_name": _tool(item.value)}
                found.setdefault(turn, []).append(told)
            return found

        return await self._read(group, {})

    async def get_tool_usage(self, branch_id: str | None = None) -> list[tuple[str, int, int]]:
        """Return the name of each tool, how often it was called, and the number of the turn.

        The output of a tool search counts as a call in a turn that has no call of one.
        """

        def count(session: Session) -> list[tuple[str, int, int]]:
            kinds = [(turn, _type(i.value), i) for turn, i in _numbered(_items(session, branch_id))]
            searched = {turn for turn, kind, _ in kinds if kind == "tool_search_call"}
            calls = Counter(
                (turn, _tool(item.value) or "")
                for turn, kind, item in kinds
                if kind in _CALLS or (kind == "tool_search_output" and turn not in searched)
            )
            return [(tool, times, turn) for (turn, tool), times in sorted(calls.items())]

        return await self._read(count, [])

    # Usage

    async def store_run_usage(self, result: RunResult) -> None:
        """Store the usage of a run for the last turn of the current branch."""
        usage = result.context_wrapper.usage
        told = {
            "requests": usage.requests or 0,
            "input_tokens": usage.input_tokens or 0,
            "output_tokens": usage.output_tokens or 0,
            "total_tokens": usage.total_tokens or 0,
            "input_tokens_details": _details(usage.input_tokens_details),
            "output_tokens_details": _details(usage.output_tokens_details),
        }

        def store(session: Session) -> None:
            prompt = next((item for item in _up(session, _tip(session)) if item.is_prompt), None)
            if prompt is not None:
                session.append_usage(told, metadata={_KEY: {"turn": prompt.entry.uuid}})

        await self._write(store, None)

    async def get_session_usage(self, branch_id: str | None = None) -> dict[str, int] | None:
        """Return the sums of usage of a branch, or of the session; None if nothing was stored."""

        def total(session: Session) -> dict[str, int] | None:
            stored = _usage(session)
            if branch_id is not None:
                prompts = {item.entry.uuid for item in _items(session, branch_id)}
                stored = {turn: usage for turn, usage in stored.items() if turn in prompts}
            if not stored:
                return None
            keys = ("requests", "input_tokens", "output_tokens", "total_tokens")
            sums = {key: sum(usage[key] for usage in stored.values()) for key in keys}
            return {**sums, "total_turns": len(stored)}

        return await self._read(total, None)

    async def get_turn_usage(
        self, user_turn_number: int | None = None, branch_id: str | None = None
    ) -> list[dict[str, Any]] | dict[str, Any]:
        """Return the usage of a turn, empty if none was stored; without a number that of all."""

        def tell(session: Session) -> list[dict[str, Any]]:
            stored = _usage(session)
            prompts = (item for item in _items(session, branch_id) if item.is_prompt)
            return [
                {"user_turn_number": number, **stored[item.entry.uuid]}
                for number, item in enumerate(prompts, 1)
                if item.entry.uuid in stored
            ]

        found: list[dict[str, Any]] = await self._read(tell, [])
        if user_turn_number is None:
            return found
        one = next((each for each in found if each["user_turn_number"] == user_turn_number), {})
        return {key: value for key, value in one.items() if key != "user_turn_number"}

    # Below, in a thread

    async def _read(self, ask: Callable[[Session], T], without: T) -> T:
        """What the session says; `without` if it has no file yet."""

        def read() -> T:
            try:
                with self._place.opened(self.file, readonly=True) as session:
                    return ask(session)
            except SessionNotFoundError:
                return without

        return await run_sync(read)

    async def _write(self, write: Callable[[Session], T], without: T) -> T:
        """Write to the session under its lock; `without` if it has no file yet."""

        @run_again
        def call() -> T:
            with ExitStack() as stack:
                try:
                    session = stack.enter_context(self._place.opened(self.file))
                except SessionNotFoundError:
                    return without
                stack.enter_context(session.locked())
                return write(session)

        return await run_sync(call)

    @run_again
    def _add(self, items: Sequence[TResponseInputItem]) -> None:
        entries = _entries(items)
        facts = {"sessionId": self.session_id}
        with self._place.made(self.file, facts) as session, session.locked():
            session.writer.append_all(entries, _parent(session))


def _entries(items: Sequence[object]) -> list[tuple[str, dict[str, Any]]]:
    """The entries of the items of a call; each says how many of the call come after it."""
    entries = [_entry(item) for item in items]
    for left, (_, fields) in enumerate(reversed(entries)):
        if left:
            fields["metadata"] = {_KEY: {"left": left}}
    return entries


def _entry(item: object) -> tuple[str, dict[str, Any]]:
    """The type and the fields of an item; of one that is no message, those of the adapter's own."""
    dump = getattr(item, "model_dump", None)
    value = dump(mode="json", exclude_unset=True) if callable(dump) else item
    if not isinstance(value, dict):
        raise EntryError(f"an item is an object, not {type(item).__name__}")
    try:
        check_fields("message", {"message": value})
    except EntryError:
        return "custom", {"customType": _ITEM, "data": value}
    return "message", {"message": value}


def _left(entry: Entry) -> int:
    about = (entry.get("metadata") or {}).get(_KEY)
    left = about.get("left", 0) if isinstance(about, dict) and _is_item(entry) else 0
    return left if isinstance(left, int) else 0


def _is_item(entry: Entry) -> bool:
    return entry.type == "message" or entry.get("customType") == _ITEM


def _tip(session: Session) -> Entry:
    """The last entry, or the one above a call of which a crash left only a part."""
    entry = session.leaf
    if not _left(entry):
        return entry
    part = [entry]
    for above in session.reader.up(entry):
        if _left(above) != _left(part[-1]) + 1:
            return above
        part.append(above)
    return session.header


def _parent(session: Session) -> Entry | None:
    tip = _tip(session)
    return None if tip.uuid == session.leaf.uuid else tip


def _up(session: Session, entry: Entry) -> Iterator[_AgentsItem]:
    """The items at and above an entry, the last first."""
    for each in up(session, entry):
        if each.type == "message":
            yield _AgentsItem(each, each["message"])
        elif each.type == "custom" and each.get("customType") == _ITEM:
            yield _AgentsItem(each, each["data"])


def _items(
    session: Session, branch_id: str | None = None, most: int | None = None
) -> list[_AgentsItem]:
    """The items of a branch, or the last ones; none if there is no such branch."""
    tip = _tip(session)
    branches = _branches(session) if branch_id is not None else None
    if branches is not None and branch_id != branches.current:
        uuid = branches.tips.get(branch_id or "")
        found = session.reader.by_uuid(uuid) if uuid else None
        if found is None:
            return []
        tip = found
    items = list(islice(_up(session, tip), most))
    check_sound(session)
    items.reverse()
    return items


def _branches(session: Session) -> _Branches:
    def noted(entry: Entry) -> object:
        return (entry.get("metadata") or {}).get(_BRANCHES)

    found = session.reader.last_with(_BRANCHES, lambda entry: isinstance(noted(entry), dict))
    return _Branches() if found is None else msgspec.convert(noted(found), _Branches)


def _save(session: Session, branches: _Branches) -> None:
    session.update_metadata(**{_BRANCHES: msgspec.to_builtins(branches)})


def _leave(session: Session, branches: _Branches) -> None:
    branches.tips[branches.current] = _tip(session).uuid


def _switch(session: Session, branches: _Branches, name: str) -> None:
    if name == branches.current:
        return
    if name not in branches.tips:
        raise _no_branch(name)
    _leave(session, branches)
    tip = branches.tips.pop(name)
    branches.current = name
    _go(session, tip, branches)


def _go(session: Session, above: str, branches: _Branches, name: str | None = None) -> None:
    """Go on below an entry, and note the branches, with one entry.

    The entry has the name of a new branch if the field allows it.
    """
    noted = {_BRANCHES: msgspec.to_builtins(branches)}
    if name is not None:
        with suppress(InvalidNameError):
            session.append("branch", parent=above, name=name, metadata=noted)
            return
    session.append("branch", parent=above, metadata=noted)


def _free_name(turn: int, used: Sequence[str]) -> str:
    base = f"branch_from_turn_{turn}_{int(time.time())}"
    names = chain([base], (f"{base}_{number}" for number in range(2, len(used) + 3)))
    return next(name for name in names if name not in used)


def _listed(session: Session) -> Iterator[dict[str, Any]]:
    branches = _branches(session)
    names = [name for name in branches.used if name in (branches.current, *branches.tips)]
    for name in names:
        items = _items(session, name)
        if not items and name == MAIN:
            continue
        made = items[0].entry.timestamp if name == MAIN else branches.made.get(name)
        yield {
            "branch_id": name,
            "message_count": len(items),
            "user_turns": sum(item.is_prompt for item in items),
            "is_current": name == branches.current,
            "created_at": made,
        }


def _turns(session: Session, branch_id: str | None, most: int | None) -> list[dict[str, Any]]:
    """The prompts of a branch, with at most so many characters of each."""
    prompts = (item for item in _items(session, branch_id) if item.is_prompt)
    return [
        {
            "turn": number,
            "content": _content(item.value.get("content", ""), most),
            "full_content": item.value.get("content", ""),
            "timestamp": item.entry.timestamp,
            "can_branch": True,
        }
        for number, item in enumerate(prompts, 1)
    ]


def _content(content: object, most: int | None) -> str:
    """A content as the SDK shows it, which writes parts as JSON."""
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text if most is None or len(text) <= most else f"{text[:most]}..."


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [block_text(block) for block in blocks_of({"content": content})]


def _numbered(items: Sequence[_AgentsItem]) -> Iterator[tuple[int, _AgentsItem]]:
    turn = 0
    for item in items:
        turn += item.is_prompt
        yield turn, item


def _type(item: Mapping[str, Any]) -> str:
    role = item.get("role")
    return str(role) if role in ("user", "assistant") else str(item.get("type") or "other")


def _tool(item: Mapping[str, Any]) -> str | None:
    kind, name = item.get("type"), item.get("name")
    if kind in _UNNAMED:
        return str(kind)
    if kind in ("tool_search_call", "tool_search_output"):
        return "tool_search"
    if kind in ("mcp_call", "mcp_approval_request"):
        return ".".join(str(each) for each in (item.get("server_label"), name) if each) or None
    if name is None:
        return None
    space = item.get("namespace")
    return f"{space}.{name}" if space and space != name else str(name)


def _usage(session: Session) -> dict[str, dict[str, Any]]:
    """By the entry of each prompt the usage that was stored last."""
    found: dict[str, dict[str, Any]] = {}
    for entry in session.find(type="usage"):
        about = (entry.get("metadata") or {}).get(_KEY)
        if isinstance(about, dict) and isinstance(about.get("turn"), str):
            found[about["turn"]] = dict(entry["usage"])
    return found


def _details(details: object) -> dict[str, Any] | None:
    return None if details is None else dict(vars(details))


def _no_turn(turn: int, count: int) -> UsageError:
    return UsageError(f"there is no turn {turn} on this branch, which has {count}")


def _no_branch(name: str) -> UsageError:
    return UsageError(f"there is no branch {name!r}; see list_branches")
