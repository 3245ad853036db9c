"""Other agents' sessions are listed and searched as what they are when they are opened."""

from __future__ import annotations

import json
import os
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks import corpus, mixed
from sessiontree import Session, Store
from sessiontree.agents.gemini import reader
from sessiontree.agents.gemini.messages import messages_of
from sessiontree.errors import NotASessionError
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter, SearchHit
from sessiontree.storage.names import session_files
from sessiontree.text.pattern import Pattern
from sessiontree.text.preview import role, texts
from tests.agents import test_gemini
from tests.agents.conftest import CLAUDE_CODE, NO_CORPUS, SESSION
from tests.support.table import for_each
from tests.support.transcripts import compressed, user, with_subagent

PATTERNS = ("part-3", "await", "toolu_", "edit", "é", "the", "00:0", "needlezz")
KINDS = sorted(mixed.WRITERS)


def written(folder: Path, kind: str, count: int = 1, length: int = 25) -> list[Path]:
    conversations = islice(corpus.sessions(length), count)
    write = mixed.WRITERS[kind]
    return [write(folder, [json.loads(line) for line in lines]) for lines in conversations]


def found_in(file: Path, text: str, **wanted: Any) -> list[SearchHit]:
    return list(search(Pattern(text), [str(file)], SearchFilter(**wanted), pytest.fail))


def as_opened(file: Path, text: str) -> set[tuple[str, str, str | None, str | None, str | None]]:
    """What a search has to find: the entries of the opened file that match."""
    pattern = Pattern(text)
    with Session.open(file, readonly=True) as session:
        return {
            (entry.uuid, entry.type, role(entry), entry.lane, entry.timestamp)
            for entry in session.entries()
            if any(pattern.search(said) for said in texts(entry.as_stored))
        }


def assert_finds_what_is_there(file: Path, text: str) -> None:
    found = found_in(file, text)
    told = [(hit.ref, hit.type, hit.role, hit.lane, hit.timestamp) for hit in found]
    assert len(set(told)) == len(told)
    assert set(told) == as_opened(file, text)
    with Session.open(file, readonly=True) as session:
        assert {hit.session for hit in found} <= {session.id}


@for_each("text", PATTERNS)
@for_each("kind", KINDS)
def test_a_search_finds_what_the_opened_file_has(tmp_path: Path, kind: str, text: str) -> None:
    (file,) = written(tmp_path, kind)
    assert_finds_what_is_there(file, text)


@pytest.mark.skipif(not CLAUDE_CODE, reason=NO_CORPUS)
@for_each("text", ["the", "xterm", "file-history", "progress", "agent", "Read"])
def test_a_search_of_real_transcripts_finds_what_is_there_when_they_are_opened(text: str) -> None:
    for file in CLAUDE_CODE:
        assert_finds_what_is_there(file, text)


@for_each("kind", KINDS)
def test_an_agents_file_is_listed_once_with_facts_it_opens_with(tmp_path: Path, kind: str) -> None:
    (file,) = written(tmp_path, kind)
    (listed,) = Store(tmp_path).list(report=pytest.fail)
    with Session.open(file, readonly=True) as session:
        assert (listed.file, listed.id) == (str(file), session.id)
        prompt = next(e for e in session.entries() if role(e) == "user")
    said = next(text for text in texts(prompt.as_stored) if text.strip())
    assert listed.first_message is not None
    assert said.split()[:3] == listed.first_message.replace("↵", " ").split()[:3]


@for_each("layout", ["document", "log"])
def test_a_search_translates_the_messages_of_a_chat_that_may_match(
    tmp_path: Path, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (file,) = written(tmp_path, "Gemini CLI", length=200)
    chat = json.loads(file.read_bytes())
    chat["messages"][7]["content"] = "a word that is rare"
    if layout == "document":
        file.write_text(json.dumps(chat, indent=2))
    else:
        file = file.with_suffix(".jsonl")
        said = chat.pop("messages")
        file.write_text("".join(json.dumps(line) + "\n" for line in (chat, *said)))
    assert_finds_what_is_there(file, "is rare")
    made = Mock(side_effect=messages_of)
    monkeypatch.setattr(reader, "messages_of", made)
    assert len(found_in(file, "is rare")) == 1
    assert made.call_count <= 3  # the match, and the first messages for the title


@for_each("summary", ["What it was about", 'with "quotes",\nand a line'])
def test_a_summary_at_the_end_of_a_large_document_is_its_name(tmp_path: Path, summary: str) -> None:
    (file,) = written(tmp_path, "Gemini CLI", length=200)
    told = json.loads(file.read_bytes())
    told["messages"][5]["content"] = f'\n  "summary": "said",\n{json.dumps(told["messages"][4])}'
    file.write_text(json.dumps({**told, "summary": summary}, indent=2))
    assert file.stat().st_size > 100_000
    (listed,) = Store(tmp_path).list(report=pytest.fail)
    with Session.open(file, readonly=True) as session:
        assert listed.name == summary
        assert session.header["name"].split() == summary.split()


@pytest.mark.slow
def test_a_folder_of_all_formats_hides_none_of_them(tmp_path: Path) -> None:
    files = {str(file) for kind in KINDS for file in written(tmp_path, kind)}
    assert set(session_files(str(tmp_path), pytest.fail)) == files
    assert {one.file for one in Store(tmp_path).list(report=pytest.fail)} == files
    for file in files:  # by itself, as some have the same session
        hits = search(Pattern("async"), [file], SearchFilter(), pytest.fail)
        assert {hit.file for hit in hits} == {file}


def claude(folder: Path) -> Path:
    """A transcript whose folder has a subagent's transcript and an output that was taken out."""
    (file,) = written(folder, "Claude Code")
    block = {"type": "tool_result", "tool_use_id": "t"}
    block["content"] = f"saved to {file.stem}/tool-results/b7.txt"
    with file.open("a") as out:
        out.write(json.dumps(user("names-it", None, [block], sessionId=file.stem)) + "\n")
    return file


def test_the_text_of_a_subagent_is_found_in_its_session(tmp_path: Path) -> None:
    file = claude(tmp_path)
    aside = file.with_suffix("") / "subagents" / "agent-a1b2c3d4.jsonl"
    text = "a thing that nobody else says"
    line = json.loads(aside.read_text().splitlines()[-1])
    line |= {"uuid": "aside", "message": {"role": "user", "content": text}}
    with aside.open("a") as out:
        out.write(json.dumps(line) + "\n")
    (hit,) = found_in(file, text)
    assert (hit.file, hit.ref, hit.lane) == (str(file), "aside", "agent-a1b2c3d4")
    with Session.open(file, readonly=True) as session:
        assert session.entry(hit.ref).lane == hit.lane


def test_a_search_with_blobs_finds_a_result_kept_beside_a_transcript(tmp_path: Path) -> None:
    file = claude(tmp_path)
    assert found_in(file, mixed.SPILLED) == []
    (hit,) = found_in(file, mixed.SPILLED, blobs=True)
    assert (hit.ref, hit.snippet) == ("names-it", f"{mixed.SPILLED}↵")


def test_a_subagent_whose_session_is_gone_is_listed(tmp_path: Path) -> None:
    file = claude(tmp_path)
    file.unlink()
    (listed,) = Store(tmp_path).list(report=pytest.fail)
    assert listed.file.endswith("agent-a1b2c3d4.jsonl")


def test_a_compressed_file_that_ends_early_is_searched_as_far_as_it_goes(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "Codex, compressed", length=400)
    whole = len(found_in(file, "async"))
    file.write_bytes(file.read_bytes()[:-2000])
    problems: list[str] = []
    found = list(search(Pattern("async"), [str(file)], SearchFilter(), problems.append))
    assert 0 < len(found) <= whole
    (problem,) = problems
    assert str(file) in problem
    assert "early" in problem


@for_each("left", [9, 100])
def test_a_compressed_file_without_readable_content_is_reported(tmp_path: Path, left: int) -> None:
    (file,) = written(tmp_path, "Codex, compressed", length=400)
    file.write_bytes(file.read_bytes()[:left])
    with pytest.raises(NotASessionError, match="ends early, and nothing is before") as refused:
        Session.open(file, readonly=True)
    problems: list[str] = []
    assert list(search(Pattern("async"), [str(file)], SearchFilter(), problems.append)) == []
    assert Store(tmp_path).list(report=problems.append) == []
    assert problems == [str(refused.value)] * 2


def test_other_files_named_alike_are_reported_and_hide_nothing(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "Gemini CLI")
    file.with_name("session-x.json").write_text('{"sessions": 1}')
    file.with_name("settings.json").write_text("{}")
    file.with_name("b.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd no frame")
    problems: list[str] = []
    assert [one.file for one in Store(tmp_path).list(report=problems.append)] == [str(file)]
    assert len(problems) == 2


WORD = "part-3"


@pytest.mark.slow
def test_a_version_1_line_behind_a_torn_one_has_the_uuid_it_is_opened_with(tmp_path: Path) -> None:
    torn = b'{"type":"message","message":{"role":"user","content":"part-3 '
    odd = (b"\n", b"[1]\n", b'{"a":\n1}\n', b'{"a":1}{"b":2}\n', b'{"a":"\xff"}\n')
    for number, between in enumerate((torn, torn + b"\n", *odd)):
        (file,) = written(tmp_path / str(number), "ours, version 1")
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join([*lines[:6], between, *lines[6:]]))
        assert_finds_what_is_there(file, WORD)


def test_what_version_1_has_of_its_own_is_found(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "ours, version 1")
    own = [
        {"type": "message", "uuid": "mine", "message": {"role": "user", "content": WORD}},
        {"type": "message", "uuid": "mine", "message": {"role": "user", "content": WORD}},
        {"type": "stack_push", "note": WORD},
        {"type": "stack_pop", "backToIndex": 3, "summary": WORD},
        {"type": "stack_pop", "backToIndex": WORD, "summary": WORD},
        {"type": "compaction", "firstKeptEntryIndex": 2, "summary": WORD, "tokensBefore": 1},
        {"type": "session", "name": WORD},
        {"name": WORD},
    ]
    for one in own:
        file.write_bytes(file.read_bytes() + json.dumps(one).encode() + b"\n")
        assert_finds_what_is_there(file, WORD)
    assert_finds_what_is_there(file, "project")


def test_a_chat_with_a_hit_is_searched_as_it_is_opened(tmp_path: Path) -> None:
    said = {"type": "user", "content": f"{WORD} \u00e9"}
    call = {**test_gemini.CALL, "args": {"path": WORD}}
    call["result"] = [{"functionResponse": {"response": {"output": f"{WORD}\nmore"}}}]
    answer = {**said, "id": "b", "type": "gemini", "toolCalls": [call, {**call, "id": "c2"}]}
    for messages in (
        ({**said, "id": "a"}, answer, {**said, "id": "c", "type": "unheard of"}),
        ({**said, "id": "a", "content": "other"}, answer, {**said, "id": "a"}, said),
    ):
        document = {**test_gemini.META, "messages": messages, "summary": f"about {WORD}"}
        file = tmp_path / "session-x.json"
        file.write_text(json.dumps(document, indent=2))
        for text in (WORD, "\u00e9", "more", "about", "e"):
            assert_finds_what_is_there(file, text)


def test_a_compressed_file_of_many_small_blocks_is_searched_alike(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "Codex", length=200)
    content = file.read_bytes()
    packed = file.with_name(file.name + ".zst")
    for cut in (len(content), 40_000):
        packed.write_bytes(compressed(content[at : min(at + 50, cut)] for at in range(0, cut, 50)))
        for text in (WORD, "session", "await"):
            assert_finds_what_is_there(packed, text)
    whole = len(found_in(packed, "await"))
    packed.write_bytes(packed.read_bytes()[:-5])
    problems: list[str] = []
    found = list(search(Pattern("await"), [str(packed)], SearchFilter(), problems.append))
    assert (len(found), len(problems)) == (whole, 1)


@for_each("left", [0.3, 0.6, 0.9])
def test_a_document_cut_short_has_the_messages_before(tmp_path: Path, left: float) -> None:
    (file,) = written(tmp_path, "Gemini CLI")
    file.write_bytes(file.read_bytes()[: int(left * file.stat().st_size)])
    assert_finds_what_is_there(file, WORD)


def test_lines_of_a_compressed_file_are_numbered_over_all_blocks(tmp_path: Path) -> None:
    (file,) = written(tmp_path, "Codex, compressed", length=600)
    assert_finds_what_is_there(file, "part-31")


def test_a_line_without_a_uuid_in_a_subagents_file_is_found_by_its_place(tmp_path: Path) -> None:
    aside = {"isSidechain": True, "agentId": "one"}
    title = {"type": "ai-title", "aiTitle": "a needle", "sessionId": "s"}
    said = [user("s1", None, "long " * 900, **aside), title, user("s2", "s1", **aside), title]
    file = with_subagent(tmp_path / f"{SESSION}.jsonl", user("a", None), *said)
    assert_finds_what_is_there(file, "needle")


def test_results_beside_a_transcript_that_have_no_hit_are_named_only_if_need_be(
    tmp_path: Path,
) -> None:
    file = claude(tmp_path)
    folder = next(path.parent for path in tmp_path.rglob("tool-results/*"))
    (folder / "a-other.txt").write_text("nothing of it")
    (folder / "b-unnamed.txt").write_text(mixed.SPILLED)
    os.mkfifo(folder / "c-pipe.txt")
    problems: list[str] = []
    wanted = SearchFilter(blobs=True)
    (hit,) = search(Pattern(mixed.SPILLED), [str(file)], wanted, problems.append)
    assert hit.ref == "names-it"
    assert problems == [
        f"{folder}/b-unnamed.txt contains the pattern; no entry names it",
        f"{folder}/c-pipe.txt is a device or a pipe, so it is not read",
    ]
