"""Continue's sessions: what is Continue's own, and holds for no other agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from sessiontree.agents import named
from sessiontree.importing.importer import import_session
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.places import sessions_in
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.agents.continue_samples import ID, PROMPT, document, said
from tests.support.table import for_each
from tests.support.terminal import run

FIXTURE: Final = Path(__file__).parents[2] / f"fixtures/agents/continue/1.5.47/{ID}.json"


def written(folder: Path, *items: Any, **more: Any) -> Path:
    file = folder / f"{ID}.json"
    file.write_text(json.dumps(document([*items], **more), indent=2))
    return file


def messages_of(file: Path) -> list[dict[str, Any]]:
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify()) == ([], [])
        found = [entry.as_stored for entry in session.entries()]
    return [each["message"] for each in found if each["type"] == "message"]


def test_the_facts_are_in_the_document_and_in_the_list(tmp_path: Path) -> None:
    (one,) = sessions_in([str(FIXTURE.parent)], pytest.fail)
    assert (one.agent, one.id, one.cwd) == ("Continue", ID, "/home/user/project")
    assert (one.name, one.first_message) == ("Notes about retries", PROMPT)
    assert one.created == "2026-11-21T09:00:00.000Z"
    assert facts_of(str(written(tmp_path, title="Untitled Session"))).name is None


def test_answers_have_reasoning_calls_and_results() -> None:
    messages = messages_of(FIXTURE)
    assert [each["role"] for each in messages] == [
        *("user", "assistant", "assistant", "toolResult", "toolResult", "assistant"),
        *("toolResult", "assistant", "user", "assistant"),
    ]
    assert messages[1]["content"] == [
        {"type": "thinking", "thinking": "I should look at the notes first."}
    ]
    results = [(each["toolName"], each["isError"]) for each in messages if "toolName" in each]
    assert results == [("Read", False), ("Bash", True), ("Edit", False)]
    assert "+1 −1  /home/user/project/notes.md  1 edit, 1 read" in run("files", FIXTURE).stdout


def test_a_summary_keeps_nothing() -> None:
    with Session.open(FIXTURE, readonly=True) as session:
        context = session.context().messages
        assert len(session.turns()) == 2
    assert context[0]["summary"] == "We fixed the notes."
    assert context[1]["content"][0]["text"] == "How would you test it?"


def test_the_tally_has_tokens_and_cost() -> None:
    ((_, counted),) = CountCache(None).counted([facts_of(str(FIXTURE))], None)
    assert counted is not None
    usage = counted.usage
    assert (usage.input, usage.cache_read, usage.output) == (800, 4000, 136)
    assert (usage.cost, counted.turns, counted.model) == (0.1, 2, "fake-1")


def test_an_import_costs_nothing_more(tmp_path: Path) -> None:
    files = [str(FIXTURE), str(import_session(FIXTURE, tmp_path).file)]
    counted = [each for _, each in CountCache(None).counted(map(facts_of, files), None)]
    keys = [{spent.copy_key for spent in each.spent()} for each in counted if each is not None]
    assert keys[0] == keys[1]
    assert len(keys[0]) == 4


@for_each("cut", [0.3, 0.6, 0.9])
def test_a_document_that_is_half_written_gives_its_whole_messages(
    tmp_path: Path, cut: float
) -> None:
    content = FIXTURE.read_bytes()
    file = tmp_path / f"{ID}.json"
    file.write_bytes(content[: int(len(content) * cut)])
    with Session.open(file, readonly=True) as session:
        assert [found.kind for found in session.damage] == ["cut short"]


@for_each(
    "item",
    [
        *(7, {}, {"message": 1}, {"message": {"role": {}}}),
        {"message": {"role": "assistant", "toolCalls": [1, {"function": 2}], "usage": {}}},
        {"message": {"role": "assistant", "usage": {"cost_cents": "x", "model": []}}},
        {"message": {"role": "user", "content": {"a": 1}}, "toolCallStates": [{"status": []}]},
    ],
)
def test_items_of_wrong_types_are_entries_without_a_traceback(tmp_path: Path, item: Any) -> None:
    file = written(tmp_path, said("user", "Hi"), item)
    with Session.open(file, readonly=True) as session:
        assert session.verify() == ([] if isinstance(item, dict) else session.damage)
        assert len(list(session.entries())) == 3
    assert import_session(file, tmp_path / "store").entries == 2


def test_a_session_is_continued_in_a_copy() -> None:
    agent = named("continue")
    assert agent is not None
    assert (agent.resume(ID, ""), agent.own_id(str(FIXTURE))) == (["--fork", ID], ID)


@pytest.mark.skipif(not (CORPUS / "agents/continue").is_dir(), reason=NO_CORPUS)
def test_a_real_session_says_all_that_its_document_has() -> None:
    (file,) = (CORPUS / "agents/continue/sessions").glob("*-*.json")
    own = json.loads(file.read_text())["history"]
    made = messages_of(file)
    roles = [each["message"]["role"] for each in own]
    assert [each["role"] for each in made if each["role"] != "toolResult"] == roles
    calls = [state["toolCallId"] for each in own for state in each.get("toolCallStates", [])]
    assert [each["toolCallId"] for each in made if each["role"] == "toolResult"] == calls
