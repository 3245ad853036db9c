"""Cline's sessions: what is Cline's own, and holds for no other agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.agents import named
from sessiontree.importing.importer import import_session
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.places import sessions_in
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.table import for_each
from tests.support.terminal import run

(FIXTURE,) = (Path(__file__).parents[2] / "fixtures/agents/cline").glob("*/*")
ID: Final = FIXTURE.name
MAIN: Final = FIXTURE / f"{ID}.messages.json"
(CHILD,) = FIXTURE.glob("agent_*.messages.json")
AT: Final = 1_795_290_767_800


def said(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"msg_{len(str(content))}", "role": role, "content": content, "ts": AT, **more}


def written(folder: Path, *messages: Any, about: dict[str, Any] | None = None) -> Path:
    """A session as Cline writes it, with the file about it beside."""
    origin = {"source": "cli", "sessionId": "s1", "version": "3.0.65"}
    opening = {"version": 1, "updated_at": "2026-11-21T19:52:49.612Z", "agent": "lead"}
    whole = {**opening, "sessionId": "s1", "origin": origin, "messages": [*messages]}
    (folder / "s1").mkdir(exist_ok=True)
    file = folder / "s1" / "s1.messages.json"
    file.write_text(json.dumps(whole, indent=2))
    if about is not None:
        file.with_name("s1.json").write_text(json.dumps({"session_id": "s1", **about}))
    return file


def messages_of(file: Path) -> list[dict[str, Any]]:
    with Session.open(file, readonly=True) as session:
        assert (session.damage, session.verify()) == ([], [])
        found = [entry.as_stored for entry in session.entries()]
    return [each["message"] for each in found if each["type"] == "message"]


def test_the_facts_are_in_the_document_and_in_the_file_beside_it() -> None:
    facts = facts_of(str(MAIN))
    assert (facts.agent, facts.id, facts.cwd) == ("Cline", ID, "/home/user/project")
    assert facts.first_message == "Why do our retries hammer the API? Fix the notes."
    assert (facts.name, facts.copy_of) == (None, None)  # its title is the prompt
    about = json.loads(MAIN.with_name(f"{ID}.json").read_text())
    assert facts.created == about["started_at"]
    assert facts.modified == json.loads(MAIN.read_text())["updated_at"]


def test_a_title_that_the_user_gave_is_the_name_and_a_fork_names_its_origin(tmp_path: Path) -> None:
    more = {"title": "Notes", "fork": {"forkedFromSessionId": "s0"}}
    about = {"prompt": "Fix the notes", "cwd": "/p", "started_at": "t", "metadata": more}
    facts = facts_of(str(written(tmp_path, said("user", "Fix the notes"), about=about)))
    assert (facts.name, facts.copy_of) == ("Notes", "s0")
    more["title"] = "Fix the…"
    facts = facts_of(str(written(tmp_path, said("user", "Fix the notes"), about=about)))
    assert facts.name is None


def test_a_subagent_is_a_session_that_the_other_one_started() -> None:
    found = {one.file: one for one in sessions_in([str(FIXTURE)], pytest.fail)}
    assert found.keys() == {str(MAIN), str(CHILD)}
    child = found[str(CHILD)]
    assert (child.copy_of, child.cwd, child.name) == (ID, "/home/user/project", None)
    assert child.created is not None
    assert child.created > (found[str(MAIN)].created or "")


def test_a_prompt_has_no_tag_around_it_and_results_are_what_cline_shows() -> None:
    prompt, *rest = messages_of(MAIN)
    assert prompt["content"] == [
        {"type": "text", "text": "Why do our retries hammer the API? Fix the notes."}
    ]
    results = [block for each in rest for block in each["content"] if "tool_use_id" in block]
    told = [
        (block["name"], block.get("is_error"), block["content"][0]["text"]) for block in results
    ]
    assert told[0] == ("read_files", False, "1 | # Notes\n2 | Retries hammer the API.")
    assert results[0]["content"][1]["text"].startswith("Error reading file: ENOENT")
    assert told[1] == ("run_commands", False, "two calls at once\n")
    assert told[2][2].startswith("Edited /home/user/project/notes.md\n```diff\n-2: Retries hammer")
    assert told[3][1:] == (
        True,
        "Editor operation failed: No replacement performed: text not found in "
        "/home/user/project/notes.md.",
    )
    assert told[5][:2] == ("spawn_agent", None)


def test_edits_are_known_by_their_files() -> None:
    told = run("files", MAIN).stdout
    assert "+1 −1  /home/user/project/notes.md  1 edit, 1 failed" in told
    assert "/home/user/project/new.md" in told


def test_tokens_of_the_cache_are_part_of_the_input_and_cost_is_kept(tmp_path: Path) -> None:
    numbers = {"inputTokens": 1200, "outputTokens": 34, "cacheReadTokens": 1000}
    model = {"id": "glm", "provider": "zai"}
    metrics = {**numbers, "cacheWriteTokens": 50, "cost": 0.25}
    thought = {"type": "thinking", "thinking": "Hm"}
    answer = said("assistant", [thought], modelInfo=model, metrics=metrics)
    (message,) = messages_of(written(tmp_path, answer))
    assert message["usage"] == {
        "input": 150,
        "output": 34,
        "cacheRead": 1000,
        "cacheWrite": 50,
        "cost": {"total": 0.25},
    }
    assert (message["model"], message["provider"], message["content"]) == ("glm", "zai", [thought])


def test_what_a_model_reports_adds_up_to_what_cline_says() -> None:
    ((_, counted),) = CountCache(None).counted([facts_of(str(MAIN))], None)
    assert counted is not None
    about = json.loads(MAIN.with_name(f"{ID}.json").read_text())["metadata"]["usage"]
    usage = counted.usage
    assert usage.input + usage.cache_read + usage.cache_write == about["inputTokens"]
    assert (usage.output, usage.cache_read) == (about["outputTokens"], about["cacheReadTokens"])
    assert (counted.turns, counted.model) == (1, "fake-1")


def test_images_and_files_that_the_user_attached(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aaaa", "mediaType": "image/png"}
    attached = {"type": "file", "path": "/p/a.md", "content": "# A"}
    (message,) = messages_of(written(tmp_path, said("user", [image, attached])))
    assert message["content"] == [
        {"type": "image", "data": "aaaa", "mimeType": "image/png"},
        {"type": "text", "text": "# A"},
    ]


@for_each("cut", [0.3, 0.5, 0.8, 0.99])
def test_a_document_that_is_half_written_gives_its_whole_messages(
    tmp_path: Path, cut: float
) -> None:
    content = MAIN.read_bytes()
    file = tmp_path / "s.messages.json"
    file.write_bytes(content[: int(len(content) * cut)])
    with Session.open(file, readonly=True) as session:
        assert [found.kind for found in session.damage] == ["cut short"]
        kept = [entry.uuid for entry in session.entries()][1:]
    with Session.open(MAIN, readonly=True) as session:
        assert kept == [entry.uuid for entry in session.entries()][1 : len(kept) + 1]


@for_each(
    "messages", [[True, 1, "x", [], {}], [{"role": 1}], [{"role": "user", "content": {"a": 1}}]]
)
def test_messages_of_wrong_types_are_entries_without_a_traceback(
    tmp_path: Path, messages: list[Any]
) -> None:
    file = written(tmp_path, said("user", "Hi"), *messages)
    with Session.open(file, readonly=True) as session:
        assert len(list(session.entries())) == 2 + len(messages)
    assert import_session(file, tmp_path / "store").entries == 1 + len(messages)


def test_the_file_about_a_session_is_named_as_such() -> None:
    with pytest.raises(SessionTreeError, match="is what Cline keeps about a session"):
        Session.open(MAIN.with_name(f"{ID}.json"), readonly=True)


def test_a_changed_title_is_imported_again(tmp_path: Path) -> None:
    about: dict[str, Any] = {"prompt": "Hi", "cwd": "/p", "metadata": {"title": "One"}}
    file = written(tmp_path, said("user", "Hi"), about=about)
    imported = import_session(file, tmp_path / "store")
    assert facts_of(imported.file).name == "One"
    about["metadata"]["title"] = "Another"
    written(tmp_path, said("user", "Hi"), about=about)
    assert facts_of(import_session(file, tmp_path / "store").file).name == "Another"


def test_a_session_is_resumed_by_its_id_and_a_subagents_is_not() -> None:
    cline = named("cline")
    assert cline is not None
    assert cline.resume(ID, str(MAIN)) == ["--id", ID]
    assert (cline.own_id(str(MAIN)), cline.opens(str(CHILD))) == (ID, False)


@pytest.mark.skipif(not (CORPUS / "agents/cline").is_dir(), reason=NO_CORPUS)
def test_a_real_session_says_all_that_its_document_has() -> None:
    (file,) = (CORPUS / "agents/cline").glob("*/*.messages.json")
    own = json.loads(file.read_text())["messages"]
    made = messages_of(file)
    assert [each["role"] for each in made] == [each["role"] for each in own]
    kinds = [[block["type"] for block in each["content"]] for each in own]
    assert [[block["type"] for block in each["content"]] for each in made] == kinds
