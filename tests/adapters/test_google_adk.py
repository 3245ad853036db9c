"""Sessions of Google's ADK: the answers of its service in memory, and what a file adds to that."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.agents import Agent
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event, EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.sessions import Session as AdkSession
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from sessiontree import EntryError, Session
from sessiontree.adapters.google_adk import SessionTreeSessionService
from tests.adapters import google_writer
from tests.support.children import together
from tests.support.soak import amount, in_soak
from tests.support.table import for_each

TEXTS: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PLAIN: Final = st.none() | st.booleans() | st.integers(-9, 9) | TEXTS | st.lists(TEXTS, max_size=2)
PARTS: Final = st.one_of(
    st.builds(lambda text: types.Part(text=text), TEXTS),
    st.builds(lambda text: types.Part(text=text, thought=True, thought_signature=b"\xff>"), TEXTS),
    st.builds(
        lambda id, value: types.Part(
            function_call=types.FunctionCall(id=id, name="look", args={"q": value})
        ),
        st.sampled_from(["c1", "c2", None]),
        PLAIN,
    ),
    st.builds(
        lambda id, value: types.Part(
            function_response=types.FunctionResponse(id=id, name="look", response={"r": value})
        ),
        st.sampled_from(["c1", "c2", None]),
        PLAIN,
    ),
    st.just(types.Part(function_call=types.FunctionCall(id="c3", name="look"))),
    st.builds(
        lambda data: types.Part(inline_data=types.Blob(data=data, mime_type="image/png")),
        st.binary(max_size=9),
    ),
    st.just(types.Part(file_data=types.FileData(file_uri="gs://a", mime_type="text/plain"))),
    st.just(
        types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON))
    ),
)
KEYS: Final = st.sampled_from(["a", "b", "user:a", "app:a", "temp:a"])
STATES: Final = st.dictionaries(KEYS, PLAIN, max_size=3)
IDS: Final = st.sampled_from(["one", "two", " one "])
USERS: Final = st.sampled_from(["me", "you"])
NAMES: Final = {"app_name": "app", "user_id": "me", "session_id": "one"}


@pytest.fixture
def service(tmp_path: Path) -> SessionTreeSessionService:
    return SessionTreeSessionService(tmp_path)


def said(text: str, author: str = "user", **more: Any) -> Event:
    role = "user" if author == "user" else "model"
    content = types.Content(role=role, parts=[types.Part(text=text)])
    return Event(author=author, content=content, **more)


def texts(session: AdkSession | None) -> list[str]:
    assert session is not None
    return [event.content.parts[0].text or "" for event in session.events]  # type: ignore


async def loaded(service: SessionTreeSessionService, **more: Any) -> AdkSession:
    found = await service.get_session(**NAMES, **more)  # type: ignore[arg-type]
    assert found is not None
    return found


class Services(RuleBasedStateMachine):
    """ADK's service in memory and ours, which get the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.memory = InMemorySessionService()
        self.ours = SessionTreeSessionService(self.folder.name)
        self.held: list[tuple[AdkSession, AdkSession]] = []
        self.events: list[Event] = []
        self.moment = 1.0

    def teardown(self) -> None:
        self.folder.cleanup()

    def both(self, word: str, *given: Any, **asked: Any) -> tuple[Any, Any]:
        """Call both; what they raise is an answer too."""
        return tuple(
            _answer(getattr(service, word), given, asked) for service in (self.memory, self.ours)
        )

    @rule(user=USERS, id=IDS | st.none(), state=STATES)
    def create(self, user: str, id: str | None, state: dict[str, Any]) -> None:
        if id is None and len(self.held) > 2:
            return
        named = id or f"made {len(self.held)}"
        asked = {"app_name": "app", "user_id": user, "session_id": named, "state": state}
        theirs, ours = self.both("create_session", **asked)
        assert _told(ours) == _told(theirs)
        if isinstance(ours, AdkSession) and isinstance(theirs, AdkSession):
            ours.last_update_time = theirs.last_update_time = self.moment
            others = [
                pair for pair in self.held if (pair[1].user_id, pair[1].id) != (user, ours.id)
            ]
            self.held = [*others, (theirs, ours)]  # an older object may be stale

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        author=st.sampled_from(["user", "agent"]),
        parts=st.lists(PARTS, max_size=4) | st.none(),
        delta=STATES,
        id=st.sampled_from(["e1", "e2"]) | st.none(),
        again=st.booleans(),
        partial=st.booleans(),
        more=st.sampled_from([{}, {"long_running_tool_ids": {"c1"}}, {"branch": "a.b"}]),
    )
    def append(self, data: st.DataObject, delta: dict[str, Any], **drawn: Any) -> None:
        theirs, ours = data.draw(st.sampled_from(self.held))
        if drawn["again"] and self.events:
            event = data.draw(st.sampled_from(self.events))
        else:
            self.moment += 1
            content = drawn["parts"] is not None and types.Content(
                role="user" if drawn["author"] == "user" else "model", parts=drawn["parts"]
            )
            event = Event(
                author=drawn["author"],
                content=content or None,
                actions=EventActions(state_delta=delta),
                timestamp=self.moment,
                partial=drawn["partial"] and drawn["again"],
                **drawn["more"],
                **({"id": drawn["id"]} if drawn["id"] else {}),
            )
            if not any(key.startswith("temp:") for key in delta):
                self.events.append(event)
        one, other = (
            _answer(service.append_event, (session, event.model_copy(deep=True)), {})
            for service, session in ((self.memory, theirs), (self.ours, ours))
        )
        assert _told(other) == _told(one)
        assert _told(ours) == _told(theirs)

    @rule(
        user=USERS, id=IDS, most=st.none() | st.integers(0, 3), since=st.none() | st.integers(1, 9)
    )
    def get(self, user: str, id: str, most: int | None, since: int | None) -> None:
        config = GetSessionConfig(num_recent_events=most, after_timestamp=since)
        asked = {"app_name": "app", "user_id": user, "session_id": id, "config": config}
        theirs, ours = self.both("get_session", **asked)
        assert _told(ours) == _told(theirs)

    @rule(user=USERS | st.none())
    def list(self, user: str | None) -> None:
        theirs, ours = self.both("list_sessions", app_name="app", user_id=user)
        assert sorted(map(_told, ours.sessions)) == sorted(map(_told, theirs.sessions))
        theirs, ours = self.both("get_user_state", app_name="app", user_id=user or "me")
        assert ours == theirs

    @rule(user=USERS, id=IDS)
    def delete(self, user: str, id: str) -> None:
        self.both("delete_session", app_name="app", user_id=user, session_id=id)

    @rule()
    def restart(self) -> None:
        self.ours = SessionTreeSessionService(self.folder.name)


def _answer(call: Any, given: Any, asked: Any) -> Any:
    async def ask() -> Any:
        try:
            return await call(*given, **asked)
        except (AlreadyExistsError, SessionNotFoundError) as error:
            return type(error).__name__

    return anyio.run(ask)


def _told(answer: Any) -> str:
    """An answer as a text; the time of a session without events is that of its making."""
    if not isinstance(answer, AdkSession):
        return repr(answer)
    left_out = set() if answer.events else {"last_update_time"}
    return repr(sorted(answer.model_dump(exclude=left_out).items()))


Services.TestCase.settings = settings(
    max_examples=amount(12),
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestSameAnswersAsTheServiceInMemory = pytest.mark.slow(Services.TestCase)


class Scripted(BaseLlm):
    """A model that calls a tool once, and then tells what the tool gave."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]  # type: ignore[index]
        if last.function_response is not None:
            part = types.Part(text=f"It is {last.function_response.response['result']}.")  # type: ignore
        else:
            part = types.Part(function_call=types.FunctionCall(name="look", args={"place": "here"}))
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=5
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=usage,
            model_version="scripted-1",
        )


def look(place: str) -> str:
    """Look at the weather of a place."""
    return "raining"


def test_a_runner_talks_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def talk(prompt: str) -> str:
        service = SessionTreeSessionService(tmp_path)
        if await service.get_session(**NAMES) is None:  # type: ignore[arg-type]
            await service.create_session(**NAMES)  # type: ignore[arg-type]
        agent = Agent(name="weather", model=Scripted(model="scripted"), tools=[look])
        runner = Runner(app_name="app", agent=agent, session_service=service)
        content = types.Content(role="user", parts=[types.Part(text=prompt)])
        answer = ""
        async for event in runner.run_async(user_id="me", session_id="one", new_message=content):
            if event.is_final_response() and event.content and event.content.parts:
                answer = event.content.parts[0].text or ""
        return answer

    for prompt in ("How is the weather?", "And now?"):
        assert anyio.run(talk, prompt, backend="asyncio") == "It is raining."
    file = SessionTreeSessionService(tmp_path).file_of("app", "me", "one")
    with Session.open(file, readonly=True) as session:
        assert [message["role"] for message in session.context().messages] == [
            *("user", "assistant", "toolResult", "assistant"),
            *("user", "assistant", "toolResult", "assistant"),
        ]
        assert session.stats().usage.output == 20
        assert session.verify() == []


def test_long_texts_and_images_are_blobs(service: SessionTreeSessionService) -> None:
    image = types.Part(inline_data=types.Blob(data=b"\xfb\xff" * 30_000, mime_type="image/png"))
    event = Event(author="user", content=types.Content(role="user", parts=[image]))

    async def talk() -> None:
        session = await service.create_session(**NAMES, state={"notes": "long " * 10_000})
        await service.append_event(session, event)
        assert (await loaded(service)).events == [event]

    anyio.run(talk)
    file = Path(service.file_of("app", "me", "one"))
    assert len(list(Path(f"{file}.blobs").iterdir())) == 1


def test_what_is_deleted_is_in_the_trash(service: SessionTreeSessionService) -> None:
    async def talk() -> None:
        await service.create_session(**NAMES, state={"user:a": 1})
        await service.delete_session(**NAMES)
        assert (await service.list_sessions(app_name="app")).sessions == []
        assert await service.get_user_state(app_name="app", user_id="me") == {"a": 1}

    anyio.run(talk)
    assert len(service.store.trashed()) == 1


@for_each("id", ["../../etc/passwd", "a/b\0c\nd", "x" * 10_000, "ä" * 300])
def test_any_text_names_a_session(id: str, service: SessionTreeSessionService) -> None:
    async def talk() -> AdkSession | None:
        session = await service.create_session(app_name=id, user_id=id, session_id=id)
        await service.append_event(session, said("a"))
        return await service.get_session(app_name=id, user_id=id, session_id=id)

    assert texts(anyio.run(talk)) == ["a"]
    assert Path(service.file_of(id, id, id)).parents[2] == Path(service.folder)


def test_what_json_cannot_carry_is_refused_and_nothing_is_added(
    service: SessionTreeSessionService,
) -> None:
    async def talk() -> None:
        session = await service.create_session(**NAMES)  # type: ignore[arg-type]
        await service.append_event(session, said("a"))
        files = {file: file.read_bytes() for file in Path(service.folder).rglob("*.jsonl")}
        for value in (float("nan"), "\ud800"):
            event = said("b", actions=EventActions(state_delta={"app:a": 1, "k": value}))
            with pytest.raises(EntryError):
                await service.append_event(session, event)
            state = {"user:a": 1, "k": value}
            with pytest.raises(EntryError):
                await service.create_session(app_name="app", user_id="me", state=state)
        assert files == {file: file.read_bytes() for file in Path(service.folder).rglob("*.jsonl")}
        assert texts(session) == ["a"]
        assert texts(await loaded(service)) == ["a"]

    anyio.run(talk)


def test_after_a_cut_anywhere_the_first_events_are_there(
    service: SessionTreeSessionService,
) -> None:
    file = Path(service.file_of("app", "me", "one"))

    async def talk() -> None:
        session = await service.create_session(**NAMES)  # type: ignore[arg-type]
        await service.append_event(session, said("a"))
        before = file.stat().st_size
        later = said("b", actions=EventActions(state_delta={"k": 1}))
        await service.append_event(session, later)
        whole = file.read_bytes()
        for size in [*range(before, len(whole), 9), len(whole)]:
            file.write_bytes(whole[:size])
            found = texts(await loaded(service))
            assert found == ["a", "b"][: len(found)]
            assert found
            await service.append_event(session, later)
            again = await loaded(service)
            assert (texts(again), again.state) == (["a", "b"], {"k": 1})

    anyio.run(talk)


@pytest.mark.slow
@in_soak("writers", 3, 8)
def test_processes_on_one_session_lose_nothing(tmp_path: Path, writers: int) -> None:
    service = SessionTreeSessionService(tmp_path)

    async def make() -> None:
        await service.create_session(**NAMES)  # type: ignore[arg-type]

    anyio.run(make)
    together(
        *(
            partial(anyio.run, google_writer.main, tmp_path, str(number), 5)
            for number in range(writers)
        )
    )
    with Session.open(service.file_of(**NAMES), readonly=True) as session:
        said = [entry["message"]["content"][0]["text"] for entry in session.find(type="message")]
        assert sorted(said) == sorted(f"{n} {k}" for n in range(writers) for k in range(5))
        last = [f"{n} 4" for n in range(writers)]
        for tip in session.find(type="message"):
            text = tip["message"]["content"][0]["text"]
            if text in last:
                path = [e["message"]["content"][0]["text"] for e in session.path(tip)[1:]]
                assert path[-5:] == [f"{text[0]} {k}" for k in range(5)]


def test_two_stale_session_objects_begin_two_branches(service: SessionTreeSessionService) -> None:
    async def talk() -> None:
        first = await service.create_session(**NAMES)  # type: ignore[arg-type]
        await service.append_event(first, said("hi"))
        recent = GetSessionConfig(num_recent_events=0)
        second = await service.get_session(**NAMES, config=recent)
        assert second is not None
        for number in range(3):
            for session, name in ((first, "a"), (second, "b")):
                state = EventActions(state_delta={name: number} if number != 1 else {})
                await service.append_event(session, said(f"{name}{number}", actions=state))
        found = await loaded(service)
        assert (texts(found), found.state) == (["hi", "b0", "b1", "b2"], {"b": 2})
        await service.append_event(first, said("a3"))
        found = await loaded(service)
        assert (texts(found), found.state) == (["hi", "a0", "a1", "a2", "a3"], {"a": 2})
        assert texts(first) == texts(found)
        await service.append_event(found, said("a4"))
        assert texts(await loaded(service)) == [*texts(first), "a4"]

    anyio.run(talk)
    with Session.open(service.file_of(**NAMES), readonly=True) as session:
        assert len(session.branches()) == 2
        assert session.verify() == []


def test_an_object_that_was_rebuilt_appends_to_the_current_branch(
    service: SessionTreeSessionService,
) -> None:
    """JSON has not what the object saw last."""

    async def talk() -> None:
        made = await service.create_session(**NAMES)  # type: ignore[arg-type]
        again = AdkSession.model_validate(made.model_dump(mode="json"))
        await service.append_event(made, said("a"))
        await service.append_event(again, said("b"))
        assert texts(await loaded(service)) == ["a", "b"]

    anyio.run(talk)
