"""Sessions converted to Codex and to Gemini CLI: our reader of those files reads the same again.

`tests.agents.test_resume` asks the real programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import Session, import_session
from sessiontree.core.usage import Usage
from tests.support.conversation import assistant, call, result, said, talk, user
from tests.support.grown import flat, grown
from tests.support.pi_trees import PiShaped
from tests.support.saying import IMAGE
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.trees import Tree, words_in

TARGETS = ("codex", "gemini")
SEEDS = st.integers(0, 2**64)
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("converted")


def converted(session: Session, to: str, folder: Path) -> Session:
    """The session as its new file is read."""
    made = folder / f"{len(list(folder.iterdir()))}.jsonl"
    session.convert(cast(Any, to), made)
    return Session.open(made, readonly=True)


def in_memory(**more: Any) -> Session:
    return Session.create(cwd="/project", **more)


def messages_of(session: Session) -> Iterable[Any]:
    return session.context().messages


@for_each("to", TARGETS)
@given(seed=SEEDS)
@example(1414497354)  # a branch leaves behind a merge that brings back what was compacted
@settings(max_examples=amount(40), deadline=None)
def test_any_session_says_the_same_when_it_is_read_again(to: str, folder: Path, seed: int) -> None:
    file = folder / f"{seed}-{to}.jsonl"
    file.unlink(missing_ok=True)
    with Session.open(grown(file, Random(seed), answered=False), readonly=True) as session:
        again = converted(session, to, folder)
        assert (again.verify(), again.notes) == ([], [])
        assert flat(messages_of(again)) == flat(messages_of(session))


@for_each("to", TARGETS)
@for_each("kind", [PiShaped, Tree])
@given(seed=SEEDS)
@settings(max_examples=amount(25), deadline=None)
def test_no_word_of_the_current_path_is_lost(
    to: str, kind: type[PiShaped | Tree], folder: Path, seed: int
) -> None:
    session = kind(Random(seed)).grow(24).session
    if not list(session.context().messages):
        return
    again = converted(session, to, folder)
    assert (again.verify(), again.notes) == ([], [])
    context = session.context()
    prompts = [m for m in context.messages if m.get("role") == "user"]
    assert words_of(prompts) <= words_of(messages_of(again))


def words_of(messages: Iterable[Any]) -> set[str]:
    return {word for message in messages for word in words_in(message)}


@for_each("to", TARGETS)
def test_the_same_session_gives_the_same_bytes(to: str, tmp_path: Path) -> None:
    file = grown(tmp_path / "s.jsonl", Random(4), answered=False)
    with Session.open(file, readonly=True) as session:
        made = [session.convert(cast(Any, to), tmp_path / f"{n}.jsonl").file for n in range(2)]
    assert Path(made[0]).read_bytes() == Path(made[1]).read_bytes()


@for_each("to", TARGETS)
def test_branches_stay_branches(to: str, folder: Path) -> None:
    session = in_memory()
    first = talk(session, "one", "1", "two", "2")[1]
    session.branch(first)
    inside = talk(session, "three", "3", "four", "4")[0]
    session.branch(inside)
    talk(session, "3 again", "five", "5")
    again = converted(session, to, folder)
    ways = [said(again.context(branch.leaf)) for branch in again.branches()]
    expected = [["one", "1", "two", "2"], ["one", "1", "three", "3", "four", "4"]]
    assert sorted(ways) == sorted([*expected, ["one", "1", "three", "3 again", "five", "5"]])
    assert said(again.context()) == ["one", "1", "three", "3 again", "five", "5"]


@for_each("to", TARGETS)
def test_a_merge_elsewhere_answers_no_call_of_the_current_branch(to: str, folder: Path) -> None:
    session = in_memory()
    talk(session, "one")
    calls = session.append_message(call("c1"))
    session.append_message(result("c1", "found"))
    source = talk(session, "done")[-1]
    session.branch(calls)
    (above,) = talk(session, "two")
    session.merge(source)
    talk(session, "aside")
    session.branch(above)
    talk(session, "three", "four")
    again = converted(session, to, folder)
    assert flat(messages_of(again)) == flat(messages_of(session))


@for_each("to", TARGETS)
def test_a_branch_above_a_compaction_is_gone_on_with(to: str, folder: Path) -> None:
    session = in_memory()
    entries = talk(session, "one", "1", "two", "2")
    session.compact("They counted.", first_kept=entries[2])
    talk(session, "three", "3")
    session.branch(entries[1])
    talk(session, "four", "4")
    again = converted(session, to, folder)
    assert said(again.context()) == ["one", "1", "four", "4"]
    assert "three" in " ".join(str(entry.get("message")) for entry in again.find(type="message"))


@for_each("to", TARGETS)
def test_a_compaction_stays_one_and_the_messages_above_it_stay(to: str, folder: Path) -> None:
    session = in_memory()
    entries = talk(session, "one", "1", "two", "2")
    session.compact("They counted.", first_kept=entries[2])
    talk(session, "three", "3")
    again = converted(session, to, folder)
    summary, *rest = said(again.context())
    assert "They counted." in summary
    assert rest == ["two", "2", "three", "3"]
    (compaction,) = again.find(type="compaction")
    assert "They counted." in compaction["summary"]
    assert "one" in said(again.context(compaction.parent_uuid))


@for_each("to", TARGETS)
def test_images_usage_and_the_facts_of_the_session_stay(to: str, folder: Path) -> None:
    usage = {"input": 7, "output": 3, "cacheRead": 2, "cacheWrite": 0}
    model = {"codex": ("openai", "gpt-5"), "gemini": ("google", "gemini-2.5-pro")}[to]
    session = in_memory(metadata={"gitBranch": "main"})
    session.append_message(user([{"type": "text", "text": "look"}, IMAGE]))
    answer = {**assistant("seen"), "usage": usage, "provider": model[0], "model": model[1]}
    session.append_message(answer)
    again = converted(session, to, folder)
    assert flat(messages_of(again)) == flat(messages_of(session))
    assert again.stats().usage == Usage(7, 3, 2)
    found = again.context().model
    assert found is not None
    assert found["modelId"] == model[1]
    assert (again.id, again.header["timestamp"]) == (session.id, session.header["timestamp"])
    if to == "codex":
        assert again.metadata["git"] == {"branch": "main"}


@for_each("to", TARGETS)
def test_thinking_goes_only_where_it_can(to: str, tmp_path: Path) -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "c2VhbGVk"}
    session = in_memory()
    session.append_message(user("why"))
    thought = {"type": "thinking", "thinking": "I wonder", "signature": "c2ln"}
    session.append_message(assistant([thought, {"type": "text", "text": "because"}]))
    session.append_message(user("and now"))
    session.append_message(reasoning)
    session.append_message(assistant("so"))
    made = session.convert(cast(Any, to), tmp_path / "made.jsonl")
    lost = " ".join(loss.what for loss in made.losses)
    text = Path(made.file).read_text()
    assert "c2ln" not in text
    if to == "codex":
        assert '"encrypted_content":"c2VhbGVk"' in text
        assert "thinking that OpenAI did not seal is shown, but not sent" in lost
        assert '{"type":"agent_reasoning","text":"I wonder"}' in text
    else:
        assert "c2VhbGVk" not in text
        assert "the signature of thinking is left out" in lost
        assert '"description":"I wonder"' in text


def test_codex_gets_a_model_of_openai_alone(tmp_path: Path) -> None:
    session = in_memory()
    session.append_message(user("hi"))
    session.append_message({**assistant("ho"), "provider": "anthropic", "model": "claude-opus-4"})
    made = session.convert("codex", tmp_path / "made.jsonl")
    assert "the model claude-opus-4 is left out" in " ".join(loss.what for loss in made.losses)
    assert "turn_context" not in Path(made.file).read_text()


@for_each("text", ["/home is here", "? or not", " <session_context> x"])
def test_a_text_that_gemini_would_ignore_is_said_all_the_same(text: str, tmp_path: Path) -> None:
    session = in_memory()
    talk(session, text, "yes")
    made = session.convert("gemini", tmp_path / "made.jsonl")
    with Session.open(made.file, readonly=True) as again:
        assert text.strip() in said(again.context())[0]
    assert "has words before it" in made.losses[0].what


def test_gemini_gets_a_result_for_each_call(tmp_path: Path) -> None:
    session = in_memory()
    session.append_message(user("look"))
    session.append_message(call("c1", "c2"))
    session.append_message(result("c2", "found"))
    session.append_message(user("stop"))
    file = session.convert("gemini", tmp_path / "made.jsonl").file
    lines = [json.loads(line) for line in Path(file).read_text().splitlines()]
    (calls,) = [line["toolCalls"] for line in lines if "toolCalls" in line]
    outcomes = {each["id"]: each["result"][0]["functionResponse"]["response"] for each in calls}
    assert outcomes["c2"] == {"output": "found"}
    assert "Interrupted" in outcomes["c1"]["error"]


@for_each("to", TARGETS)
def test_what_the_agent_adds_to_a_converted_session_comes_back_to_it(
    to: str, tmp_path: Path
) -> None:
    (tmp_path / "store").mkdir()
    with Session.create(tmp_path / "store" / "s.jsonl", cwd="/project") as session:
        talk(session, "one", "1", "two", "2")
        file = Path(session.convert(cast(Any, to), tmp_path / "made.jsonl").file)
        before = len(session.find(type="message"))
    at = "2030-01-01T00:00:00.000Z"
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "more"}]}
    more = {
        "codex": {"timestamp": at, "type": "response_item", "payload": item},
        "gemini": {"id": "m", "timestamp": at, "type": "user", "content": [{"text": "more"}]},
    }[to]
    file.write_text(f"{file.read_text()}{json.dumps(more)}\n")
    made = import_session(file, tmp_path / "store")
    with Session.open(made.file, readonly=True) as session:
        assert said(session.context()) == ["one", "1", "two", "2", "more"]
        assert made.file == str(tmp_path / "store" / "s.jsonl")
        assert len(session.find(type="message")) == before + 1
