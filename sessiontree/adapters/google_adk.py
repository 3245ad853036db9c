"""Sessions and events of Google's ADK as sessions of a store, and back.

An event with content is messages of the session, any other event an entry of its own. An event has
parts of several roles: texts, thoughts, calls, results, files. Parts of one role that follow each
other become one message; a result is one by itself. What such a message cannot hold is kept beside
it. The state of a session is an entry that follows each change of it; the states of a user and of
an app are sessions of their own, in the same folder.

Sources: `google.adk.sessions.BaseSessionService` and `google.adk.events.Event` of google-adk 2.13,
`google.genai.types` of google-genai 2.34, as pydantic writes them by alias.

Invariants:

- An event comes back equal to the one that was given.
- It goes below the last event that its session object has seen, also if others wrote since.
- It is stored once, also if it is given again.
- A call is one write under the lock of the file.
- Nothing is removed.
- `restored` gives what `translated` got, equal as JSON.
- A text is kept once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import chain, groupby, islice, takewhile
from typing import Any, Final, NamedTuple

from anyio.to_thread import run_sync

from sessiontree.adapters.base import (
    GOOGLE_ADK,
    SessionFiles,
    check_sound,
    foreign,
    run_again,
    up,
    without,
)
from sessiontree.core.entry import Entry
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import (
    EntryError,
    RefError,
    SessionExistsError,
    SessionNotFoundError,
)
from sessiontree.session import Session
from sessiontree.store import PathLike, Store

Json = dict[str, Any]

_URL_SAFE: Final = str.maketrans("-_", "+/")
_STANDARD: Final = str.maketrans("+/", "-_")


class AdkMessage(NamedTuple):
    """A message of a session, and what is kept beside it."""

    message: Json
    kept: Json


class _EventPart(NamedTuple):
    """A part: its role, its block, the key whose value is in the block, and the rest of it."""

    role: str
    block: Json
    moved: str | None
    rest: Json


def translated(event: Json) -> list[AdkMessage]:
    """The messages for an event, none if it has no parts; the last keeps its other keys."""
    content = event.get("content") or {}
    answers = event.get("author") != "user"
    pieces = [_piece(part, answers) for part in content.get("parts") or []]
    groups = [list(group) for _, group in groupby(enumerate(pieces), _of_one_message)]
    found = [_joined([piece for _, piece in group]) for group in groups]
    if found:
        rest = {**event, "content": {k: v for k, v in content.items() if k != "parts"}}
        found[-1].kept["event"] = rest
        if answers:
            found[-1].message.update(_facts(event))
    return found


def restored(pieces: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Json:
    """The event that messages were made of; each with what is kept beside it."""
    parts: list[Json] = []
    event: Json = {}
    for message, kept in pieces:
        parts += (
            _part(block, moved, rest)
            for block, (moved, rest) in zip(message["content"], kept["parts"], strict=True)
        )
        event = kept.get("event", event)
    return {**event, "content": {**event["content"], "parts": parts}}


def _of_one_message(numbered: tuple[int, _EventPart]) -> tuple[str, int]:
    number, piece = numbered
    return piece.role, number if piece.role == "toolResult" else 0


def _joined(group: list[_EventPart]) -> AdkMessage:
    message: Json = {"role": group[0].role, "content": [piece.block for piece in group]}
    if group[0].role == "toolResult":
        answer = group[0].rest["functionResponse"]
        message["toolCallId"], message["toolName"] = answer["id"], answer["name"]
        message["isError"] = False
    return AdkMessage(message, {"parts": [[piece.moved, piece.rest] for piece in group]})


def _piece(part: Json, answers: bool) -> _EventPart:
    role = "assistant" if answers else "user"
    if isinstance(part.get("text"), str):
        kind = "thinking" if part.get("thought") else "text"
        block = {"type": kind, kind: part["text"]}
        return _EventPart(role, block, "text", without(part, "text"))
    call: Any = part.get("functionCall")
    answer: Any = part.get("functionResponse")
    data: Any = part.get("inlineData")
    if _is_named(call):
        named = {"id": call["id"], "name": call["name"], "arguments": call.get("args")}
        rest = {**part, "functionCall": without(call, "args")}
        moved = "args" if "args" in call else None
        return _EventPart("assistant", {"type": "toolCall", **named}, moved, rest)
    if _is_named(answer) and "response" in answer:
        rest = {**part, "functionResponse": without(answer, "response")}
        return _EventPart("toolResult", _json(answer["response"]), "response", rest)
    if isinstance(data, dict) and isinstance(data.get("data"), str):
        type = str(data.get("mimeType"))
        source = {"type": "base64", "media_type": type, "data": data["data"].translate(_URL_SAFE)}
        block = {"type": "image" if type.startswith("image/") else "document", "source": source}
        return _EventPart(role, block, "data", {**part, "inlineData": without(data, "data")})
    return _EventPart(role, _json(part), "part", {})


def _part(block: Mapping[str, Any], moved: str | None, rest: Json) -> Json:
    match moved:
        case "text":
            return {**rest, "text": block[block["type"]]}
        case "args":
            return {**rest, "functionCall": {**rest["functionCall"], "args": block["arguments"]}}
        case "response":
            response = json.loads(block["text"])
            return {**rest, "functionResponse": {**rest["functionResponse"], "response": response}}
        case "data":
            data = block["source"]["data"].translate(_STANDARD)
            return {**rest, "inlineData": {**rest["inlineData"], "data": data}}
        case "part":
            part: Json = json.loads(block["text"])
            return part
    return rest


def _facts(event: Json) -> Json:
    usage = event.get("usageMetadata") or {}
    read = usage.get("cachedContentTokenCount") or 0
    thought = usage.get("thoughtsTokenCount") or 0
    told: Json = {"usage": {}} if usage else {}
    if usage:
        told["usage"] = {
            "input": max(0, (usage.get("promptTokenCount") or 0) - read),
            "output": (usage.get("candidatesTokenCount") or 0) + thought,
            "cacheRead": read,
            "cacheWrite": 0,
        }
    if event.get("modelVersion"):
        told["model"] = event["modelVersion"]
    return told


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(k), str) for k in ("id", "name"))


def _json(value: Any) -> Json:
    return {"type": "text", "text": json.dumps(value, ensure_ascii=False, separators=(",", ":"))}


try:
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import (
        SessionNotFoundError as UnknownSessionError,
    )
    from google.adk.events import Event
    from google.adk.platform import time as platform_time
    from google.adk.platform import uuid as platform_uuid
    from google.adk.sessions import Session as AdkSession
    from google.adk.sessions import State
    from google.adk.sessions.base_session_service import (
        BaseSessionService,
        GetSessionConfig,
        ListSessionsResponse,
    )
    from pydantic_core import PydanticSerializationError, to_jsonable_python
except ImportError as error:
    raise GOOGLE_ADK.unknown(error) from error

FOLDER: Final = "google-adk"
"""The folder of a store that has a folder for each app."""

_KEY: Final = "googleAdk"
_EVENT: Final = "google-adk:event"
_STATE: Final = "googleAdkState"
_MARKER: Final = "_storage_update_marker"
"""ADK's attribute of a session object for what its storage needs to find it stale."""


class _States(NamedTuple):
    app: Json
    user: Json
    session: Json

    @classmethod
    def of(cls, state: Json | None) -> _States:
        """The parts of a state whose keys have prefixes, as JSON; temporary keys are left out."""
        parts = cls({}, {}, {})
        for key, value in _as_json(state or {}).items():
            if key.startswith(State.APP_PREFIX):
                parts.app[key.removeprefix(State.APP_PREFIX)] = value
            elif key.startswith(State.USER_PREFIX):
                parts.user[key.removeprefix(State.USER_PREFIX)] = value
            elif not key.startswith(State.TEMP_PREFIX):
                parts.session[key] = value
        return parts

    def joined(self) -> Json:
        return {
            **self.session,
            **{State.APP_PREFIX + key: value for key, value in self.app.items()},
            **{State.USER_PREFIX + key: value for key, value in self.user.items()},
        }


class SessionTreeSessionService(BaseSessionService):
    """Keeps the sessions of agents of Google's ADK in session files.

    Args:
        root: the folder or the address of a store, or a `Store`; by default the store of the user.

    Raises:
        UnknownSdkError: the version of google-adk is not known to work.
    """

    def __init__(self, root: PathLike | Store | None = None) -> None:
        GOOGLE_ADK.check()
        self._place = SessionFiles(root, FOLDER)
        self.store, self.folder = self._place.store, self._place.folder

    def file_of(self, app_name: str, user_id: str, session_id: str) -> str:
        """Return the path of a session, which need not exist."""
        return self._user(app_name, user_id).file_of(session_id)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AdkSession:
        """See `BaseSessionService.create_session`; the session is durable on return.

        Raises:
            AlreadyExistsError: there is a session of this id.
            EntryError: the state has a value that JSON cannot carry.
        """
        return await run_sync(self._create, app_name, user_id, state, session_id)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> AdkSession | None:
        """See `BaseSessionService.get_session`; recent events cost no more than they are."""

        def get() -> AdkSession | None:
            with suppress(SessionNotFoundError):
                return self._loaded(
                    self.file_of(app_name, user_id, session_id.strip()), config, with_events=True
                )
            return None

        return await run_sync(get)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """See `BaseSessionService.list_sessions`."""

        def find() -> list[AdkSession]:
            app = self._place.inside(app_name)
            users = app.folders() if user_id is None else [self._user(app_name, user_id)]
            found = []
            for file in chain.from_iterable(user.files() for user in users):
                with suppress(SessionNotFoundError):
                    found.append(self._loaded(file, None, with_events=False))
            return sorted(found, key=lambda one: (one.last_update_time, one.user_id, one.id))

        return ListSessionsResponse(sessions=await run_sync(find))

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Move a session to the trash of the store; nothing is done without one."""

        def delete() -> None:
            with suppress(SessionNotFoundError):
                self.store.trash(self.file_of(app_name, user_id, session_id.strip()))

        await run_sync(delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """See `BaseSessionService.get_user_state`."""
        return await run_sync(self._shared, self._file_of_user(app_name, user_id))

    async def append_event(self, session: AdkSession, event: Event) -> Event:
        """See `BaseSessionService.append_event`; the event is durable when the call returns.

        An event that was stored is not stored again. Nothing of a partial event is stored. If
        another session object appended since this one was loaded, the event begins a branch below
        what this one has seen.

        Raises:
            SessionNotFoundError: of ADK: there is no such session.
            EntryError: the event has a value that JSON cannot carry.
        """
        if event.partial or not await run_sync(self._append, session, event):
            return event
        await super().append_event(session=session, event=event)
        session.last_update_time = event.timestamp
        return event

    # Below, in a thread

    def _user(self, app_name: str, user_id: str) -> SessionFiles:
        return self._place.inside(app_name).inside(user_id)

    def _file_of_app(self, app_name: str) -> str:
        return self._place.inside(app_name).file_of("app state")

    def _file_of_user(self, app_name: str, user_id: str) -> str:
        return self._place.inside(app_name).file_of(f"user state {user_id}")

    def _create(
        self, app_name: str, user_id: str, state: Json | None, session_id: str | None
    ) -> AdkSession:
        id = (session_id or "").strip() or platform_uuid.new_uuid()
        about = {
            "app": app_name,
            "user": user_id,
            "id": id,
            "created": platform_time.get_time(),
        }
        parts = _States.of(state)
        file = self.file_of(app_name, user_id, id)
        if self._place.has(file):
            raise AlreadyExistsError(f"Session with id {id} already exists.")
        facts = {"agent": FOLDER, "sessionId": id, _KEY: about, _STATE: parts.session}
        dumps(facts)  # refused before the states of others change
        self._share(app_name, user_id, parts)
        self._place.make_room(file)
        try:
            Session.create(file, metadata=facts).close()
        except SessionExistsError:
            raise AlreadyExistsError(f"Session with id {id} already exists.") from None
        return self._loaded(file, None, with_events=False)

    @run_again
    def _append(self, session: AdkSession, event: Event) -> bool:
        """Store an event; False if it was stored before."""
        told = _told(event)
        parts = _States.of(event.actions.state_delta)
        file = self.file_of(session.app_name, session.user_id, session.id)
        with ExitStack() as stack:
            try:
                stored = stack.enter_context(self._place.opened(file))
            except SessionNotFoundError:
                raise UnknownSessionError(f"Session {session.id} not found.") from None
            stack.enter_context(stored.locked())
            latest = _latest(stored)
            known = _found(stored, told) if told["timestamp"] <= latest else None
            if known is not None:
                setattr(session, _MARKER, known.uuid)
                return False
            seen = _overtaken(stored, getattr(session, _MARKER, None))
            before = _state(stored) if seen is None else _state_at(stored, seen)
            is_state = bool(parts.session) or seen is not None
            state = {**before, **parts.session} if is_state else None
            entries = _entries(told, max(latest, told["timestamp"]), state)
            dumps(entries)  # refused before the states of others change
            self._share(session.app_name, session.user_id, parts)
            last = stored.writer.append_all(entries, _parent(stored) if seen is None else seen)
            setattr(session, _MARKER, last.uuid)
        return True

    @run_again
    def _share(self, app_name: str, user_id: str, parts: _States) -> None:
        for file, delta in (
            (self._file_of_app(app_name), parts.app),
            (self._file_of_user(app_name, user_id), parts.user),
        ):
            if not delta:
                continue
            with self._place.made(file, {}) as shared, shared.locked():
                state = {"customType": "google-adk:state", _STATE: {**_state(shared), **delta}}
                shared.writer.append("custom", state)

    def _shared(self, file: str) -> Json:
        with (
            suppress(SessionNotFoundError),
            self._place.opened(file, readonly=True) as session,
        ):
            return _state(session)
        return {}

    def _loaded(
        self, file: str, config: GetSessionConfig | None, *, with_events: bool
    ) -> AdkSession:
        with self._place.opened(file, readonly=True) as session:
            about = session.header["metadata"].get(_KEY)
            if about is None:  # the state of an app or a user
                raise foreign(file, FOLDER)
            seen = _newest(session)
            last = _event_in(seen)
            events = _recent(session, config) if with_events else []
            own = _state(session)
        app = self._shared(self._file_of_app(about["app"]))
        user = self._shared(self._file_of_user(about["app"], about["user"]))
        loaded = AdkSession(
            id=about["id"],
            app_name=about["app"],
            user_id=about["user"],
            state=_States(app, user, own).joined(),
            events=events,
            last_update_time=about["created"] if last is None else last["timestamp"],
        )
        setattr(loaded, _MARKER, seen.uuid)
        return loaded


def _state(session: Session) -> Json:
    found = session.reader.last_with(_STATE, lambda entry: isinstance(entry.get(_STATE), dict))
    check_sound(session)
    state = session.header["metadata"].get(_STATE) if found is None else found[_STATE]
    return dict(state or {})


def _state_at(session: Session, entry: Entry) -> Json:
    """The state behind an entry that is not the leaf."""
    found = next(
        (above for above in up(session, entry) if isinstance(above.get(_STATE), dict)), None
    )
    state = session.header["metadata"].get(_STATE) if found is None else found[_STATE]
    return dict(state or {})


def _entries(event: Json, latest: float, state: Json | None) -> list[tuple[str, Json]]:
    """The entries of an event, one for each message; the last has the state behind the event.

    The first event of a branch has its state too, so that the last state in the file is that of
    the leaf. The last entry also has the latest time so far: an event that is given again has its
    own time, so that a later one need not be looked for.
    """
    about: Json = {"latest": latest}
    entries: list[tuple[str, Json]] = [
        ("message", {"message": message, "metadata": {_KEY: kept | about}})
        for message, kept in translated(event)
    ]
    if not entries:
        whole = {"customType": _EVENT, "data": event, "metadata": {_KEY: about}}
        entries.append(("custom", whole))
    if state is not None:
        entries[-1][1][_STATE] = state
    return entries


def _parent(session: Session) -> Entry | None:
    """What the next event goes below, if not the leaf: what a write that was cut short left."""
    kept = _kept(session.leaf)
    if kept is None or "event" in kept:
        return None
    pieces = takewhile(
        lambda entry: "event" not in (_kept(entry) or {"event": None}), up(session, session.leaf)
    )
    last = [*pieces][-1]
    return session.reader.parent(last)


def _event_in(entry: Entry) -> Json | None:
    """The keys of the event that an entry ends, without its parts; None for any other entry."""
    if entry.type == "custom" and entry.get("customType") == _EVENT:
        event: Json = entry["data"]
        return event
    return (_kept(entry) or {}).get("event")


def _newest(session: Session) -> Entry:
    """The entry that ends the last event of the session; the header without events."""
    above = up(session, session.leaf)
    return next((entry for entry in above if _event_in(entry) is not None), session.header)


def _overtaken(session: Session, marker: str | None) -> Entry | None:
    """The entry that a session object saw last, if it is not the newest one any more."""
    if marker is None or marker == _newest(session).uuid:
        return None
    try:
        return session.entry(marker)
    except RefError:  # a cut took it
        return None


def _latest(session: Session) -> float:
    for entry in chain([session.leaf], session.reader.up(session.leaf)):
        about = (entry.get("metadata") or {}).get(_KEY)
        if isinstance(about, dict) and "latest" in about:
            return float(about["latest"])
    return -math.inf


def _events(session: Session, last: Entry) -> Iterator[Json]:
    """The events at and above an entry, the last first."""
    pieces: list[tuple[Json, Json]] = []
    for entry in up(session, last):
        if entry.type == "custom" and entry.get("customType") == _EVENT:
            whole, event = None, entry["data"]
        else:
            whole, event = _kept(entry), None
        if pieces and (event is not None or (whole is not None and "event" in whole)):
            yield restored(reversed(pieces))
            pieces = []
        if whole is not None and not pieces and "event" not in whole:
            continue  # what a write that was cut short left
        if event is not None:
            yield event
        elif whole is not None:
            pieces.append((entry["message"], whole))
    if pieces:
        yield restored(reversed(pieces))


def _kept(entry: Entry) -> Json | None:
    kept = (entry.get("metadata") or {}).get(_KEY) if entry.type == "message" else None
    return kept if isinstance(kept, dict) else None


def _recent(session: Session, config: GetSessionConfig | None) -> list[Event]:
    since = None if config is None else config.after_timestamp
    most = None if config is None else config.num_recent_events
    found: Iterator[Json] = islice(_events(session, session.leaf), most)
    if since is not None:
        found = takewhile(lambda event: event["timestamp"] >= since, found)
    events = [Event.model_validate(event) for event in found]
    check_sound(session)
    events.reverse()
    return events


def _found(session: Session, event: Json) -> Entry | None:
    """The entry that ends an event if it was stored; events that only share an id are others."""

    def is_it(entry: Entry) -> bool:
        return next(_events(session, entry), None) == event

    return session.reader.last_with(event["id"], is_it)


def _told(event: Event) -> Json:
    """An event as JSON, without what is temporary."""
    try:
        told = event.model_dump(mode="json", by_alias=True, exclude_none=True)
    except (PydanticSerializationError, ValueError) as error:
        raise EntryError(f"the event {event.id} cannot be stored as JSON: {error}") from error
    delta = _as_json(event.actions.state_delta)
    lasting = {key: delta[key] for key in delta if not key.startswith(State.TEMP_PREFIX)}
    return {**told, "actions": {**told["actions"], "stateDelta": lasting}}


def _as_json(state: Json) -> Json:
    try:
        told: Json = to_jsonable_python(state)
    except (PydanticSerializationError, ValueError) as error:
        raise EntryError(f"the state cannot be stored as JSON: {error}") from error
    return told
