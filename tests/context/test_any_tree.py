from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Context, Session, SessionTreeError
from sessiontree.context.providers.reading import MessageReader
from sessiontree.context.providers.values import Request, RequestNotes
from sessiontree.core.message import Message
from tests.conftest import NO_CORPUS
from tests.support.declared import check_types
from tests.support.rules import JUDGES, fault, strings_in
from tests.support.soak import amount, in_soak
from tests.support.table import for_each
from tests.support.trees import MODEL, Tree

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
SEEDS = st.integers(0, 2**64)
BROKEN_OFF = (780, 50_647, 579_045)
"""An answer at the end that broke off; an empty one behind it; an output that names its call by
`id`."""
APIS: dict[str, Callable[[Context], Request]] = {
    "anthropic": Context.to_anthropic,
    "responses": Context.to_openai,
    "chat": lambda context: context.to_openai("chat"),
}
each_api = for_each("api", list(APIS))
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
WORD = re.compile(r"\bw\d+\b")


def said_in(params: dict[str, Any]) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = params.get("input", params.get("messages", []))
    return said


def check_accepted(api: str, context: Context) -> Request:
    request = APIS[api](context)
    assert fault(JUDGES[api], request.params) is None
    check_types(api, request.params)
    return request


def words_meant(context: Context) -> set[str]:
    """The words that a context says, without thinking and an answer that broke off at its end."""
    messages = context.messages.copy()
    while messages and (messages[-1].get("partial") or not _says(messages[-1])):
        messages.pop()
    told = [
        {**message, "content": _without_thinking(message.get("content"))}
        for message in messages
        if not message.get("excludeFromContext")
    ]
    return {word for text in strings_in(told) for word in WORD.findall(text)}


def _says(message: Message) -> bool:
    return any(MessageReader(RequestNotes(), MODEL).parts_of(message))


def _without_thinking(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [b for b in content if not (isinstance(b, dict) and b.get("type") == "thinking")]


def words_sent(params: dict[str, Any]) -> Counter[str]:
    return Counter(word for text in strings_in(said_in(params)) for word in WORD.findall(text))


def check_tree(seed: int, api: str) -> None:
    tree = Tree(Random(seed)).grow(24)
    places = [None, tree.random.choice(tree.session.path())]
    for place in places:
        context = tree.session.context(place)
        sent = words_sent(check_accepted(api, context).params)
        assert set(sent) == words_meant(context)
        assert max(sent.values(), default=1) == 1
        check_accepted(api, tree.session.context(place, verbatim=True))


@pytest.mark.slow
@in_soak("trees", 20, 10_000)
@each_api
def test_any_tree_gives_what_the_provider_accepts_and_loses_no_word(api: str, trees: int) -> None:
    for seed in (*BROKEN_OFF, *range(trees)):
        check_tree(seed, api)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(20))
@given(seed=SEEDS)
def test_after_a_finished_turn_more_messages_only_extend_what_was_sent(seed: int) -> None:
    for api in APIS:
        check_extends(api, seed)


def check_extends(api: str, seed: int) -> int:
    """Compare what was sent after each finished turn with what is sent in the end."""
    tree = Tree(Random(seed)).talk(24)
    last = tree.session.context()
    whole = said_in(APIS[api](last).params)
    compared = 0
    for entry in tree.session.path():
        context = tree.session.context(entry)
        sent = said_in(APIS[api](context).params)
        is_settled = not any("never answered" in warning for warning in context.warnings)
        if not (sent and _is_assistants(sent[-1]) and is_settled) or _runs_at_provider(sent[-1]):
            continue
        if _is_turn_over(last.messages[len(context.messages) :]):
            compared += 1
            assert whole[: len(sent)] == sent
    return compared


def _is_turn_over(later: list[Message]) -> bool:
    """Whether the user's side speaks next, or nobody."""
    reading = MessageReader(RequestNotes(), MODEL)
    spoken = (side for message in later for side, _ in reading.parts_of(message))
    return next(spoken, "user") == "user"


def _runs_at_provider(said: dict[str, Any]) -> bool:
    """Whether the provider runs a tool next; a prompt in its place takes the call out."""
    content = said.get("content")
    kinds = [block["type"] for block in content] if isinstance(content, list) else []
    calls, results = kinds.count("server_tool_use"), kinds.count("web_search_tool_result")
    return calls > results


def _is_assistants(said: dict[str, Any]) -> bool:
    kind = said.get("type", "")
    return said.get("role") == "assistant" or kind.endswith("_call") or kind == "reasoning"


@pytest.mark.slow
def test_the_turns_compared_are_many() -> None:
    assert sum(check_extends("anthropic", seed) for seed in range(20)) > 15


@each_api
def test_the_same_entries_give_the_same_bytes_and_are_not_changed(api: str) -> None:
    session = Tree(Random(7)).grow(60).session
    context = session.context()
    before = json.dumps(context.messages)
    first, again = APIS[api](context), APIS[api](session.context())
    assert json.dumps(first.params) == json.dumps(again.params)
    assert first.warnings == again.warnings
    assert json.dumps(context.messages) == before


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@each_api
def test_real_sessions_are_accepted(api: str) -> None:
    opened = 0
    for file in sorted(CORPUS.rglob("*.jsonl")):
        try:
            session = Session.open(file, readonly=True)
        except SessionTreeError:
            continue  # an agent's own format, which is imported first
        with session:
            path = session.path()
            for entry in [*path[len(path) // 3 :: max(1, len(path) // 2)], path[-1]]:
                check_accepted(api, session.context(entry))
            check_accepted(api, session.context(verbatim=True))
        opened += 1
    assert opened >= 5


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@each_api
def test_a_real_session_resumed_is_sent_as_before(api: str) -> None:
    with Session.open(CORPUS / "pi-v1" / "large-session.jsonl", readonly=True) as session:
        whole = said_in(APIS[api](session.context()).params)
        answers = [e for e in session.path() if e.get("message", {}).get("stopReason") == "stop"]
        for answer in answers[:: len(answers) // 8]:
            sent = said_in(APIS[api](session.context(answer)).params)
            assert _is_assistants(sent[-1])
            assert whole[: len(sent)] == sent
        assert len(answers) > 50


def test_the_model_of_random_sessions_is_one_whose_thinking_is_kept() -> None:
    talks = (Tree(Random(seed)).talk(24).session.context() for seed in range(20))
    sent = [m for context in talks for m in context.to_anthropic().params["messages"]]
    kinds = Counter(block["type"] for message in sent for block in message["content"])
    assert kinds["thinking"] > 10
    assert kinds["redacted_thinking"] > 5
    assert kinds["image"] > 5
    assert MODEL.startswith("claude")
