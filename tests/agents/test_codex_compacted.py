"""A compaction of Codex lists items again for the model; people read each where it was said."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from sessiontree import Session, import_session
from sessiontree.agents.codex import repeats
from sessiontree.core.message import repeated_by, text_of
from sessiontree.core.migrate import name_of_line
from sessiontree.core.usage import FileCounts
from sessiontree.history.edits import file_events
from sessiontree.library.counts import CountCache
from sessiontree.library.listing import facts_of
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.text.pattern import Pattern
from sessiontree.views.rows import read_turn
from tests.agents.test_codex import Line, line, opened, rolled_back, said, written
from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.support.transcripts import encoded


def compacted(summary: str, *items: Line) -> Line:
    listed = [item["payload"] for item in items]
    return line("compacted", message=summary, replacement_history=listed)


def at(number: int, made: Line) -> Line:
    return {**made, "timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000Z"}


def grown(compactions: int, prompts: int, size: int) -> Iterator[Line]:
    """A rollout whose compactions list all that was said before."""
    history: list[Line] = []
    for number in range(compactions):
        for prompt in range(number * prompts, (number + 1) * prompts):
            pair = [said("user", f"Prompt {prompt:05}"), said("assistant", f"Reply {prompt:05}")]
            for item in pair:
                item["payload"]["content"][0]["text"] += " word" * (size // 5)
            history += pair
            yield from pair
        yield compacted(f"Summary {number}", *history)
    yield from (said("user", "Last"), said("assistant", "Last reply"))


def hits(file: Path, words: str) -> list[str]:
    return [hit.snippet for hit in search(Pattern(words), [str(file)], SearchFilter(), pytest.fail)]


def counts_of(file: Path) -> FileCounts:
    ((_, counted),) = CountCache(None).counted([facts_of(str(file))], None)
    assert counted is not None
    return counted


def repeated_texts(session: Session) -> dict[str, str | None]:
    """By the text of each item of a compaction: the text of the entry that it repeats."""
    items = [e for e in session.find(type="message") if "repeats" in (e.get("metadata") or {})]
    uuids = {text_of(item["message"]): repeated_by(item.body) for item in items}
    entries = {uuid: session.entry(uuid) for uuid in uuids.values() if uuid is not None}
    texts = {u: e.get("summary") or text_of(e["message"]) for u, e in entries.items()}
    return {text: None if uuid is None else texts[uuid] for text, uuid in uuids.items()}


SHORT = [at(number, made) for number, made in enumerate(grown(3, 1, 0))]


def check_said_once(file: Path) -> None:
    with Session.open(file, readonly=True) as session:
        outline = session.outline()
        prompts = [turn.prompt for turn in outline.turns]
        assert prompts == ["Prompt 00000", "Prompt 00001", "Prompt 00002", "Last"]
        shown = "".join(session.to_markdown())
        assert shown.count("Prompt 00000") == 2  # the title, and the prompt
        assert shown.count("Reply 00001") == 1
        assert "12 repeated for the model" in shown
        read = [entry for turn in outline.turns for entry in read_turn(session.cursor, turn)]
        texts = Counter(part.text for entry in read for part in entry.parts)
        assert texts["Prompt 00000"] == texts["Reply 00001"] == 1
        context = [text_of(message) for message in session.context().messages]
        assert context[:2] == ["Prompt 00000", "Reply 00000"]
        assert len(context) == 8
    assert hits(file, "Prompt 00000") == ["Prompt 00000"]
    assert hits(file, "Summary 1") == ["Summary 1"]
    assert counts_of(file).turns == 4


def test_what_compactions_repeat_is_read_once(tmp_path: Path) -> None:
    check_said_once(written(tmp_path / "r.jsonl", *SHORT))


def test_an_import_of_what_compactions_repeat_is_read_once(tmp_path: Path) -> None:
    result = import_session(written(tmp_path / "r.jsonl", *SHORT), tmp_path)
    check_said_once(tmp_path / result.file)


def test_an_import_of_an_older_version_has_each_prompt_as_one_turn(tmp_path: Path) -> None:
    """Its entries do not say that they repeat others."""
    made = tmp_path / import_session(written(tmp_path / "r.jsonl", *SHORT), tmp_path).file
    old = tmp_path / "old.jsonl"
    mark = rb',"metadata":\{"repeats":[^}]*\}|,"crc":"[^"]*"'
    old.write_bytes(re.sub(mark, b"", made.read_bytes()))
    assert b"repeats" not in old.read_bytes()
    with Session.open(old, readonly=True) as session:
        prompts = [turn.prompt for turn in session.outline().turns if turn.prompt]
        assert prompts == ["Prompt 00000", "Prompt 00001", "Prompt 00002", "Last"]


def test_a_rollout_that_grows_repeats_what_the_whole_one_does(tmp_path: Path) -> None:
    def marks(session: Session) -> list[tuple[str, str | None]]:
        return [(entry.uuid, repeated_by(entry.body)) for entry in session.entries()]

    file = written(tmp_path / "r.jsonl", *SHORT[:1])
    with Session.open(file, readonly=True) as session:
        for more in SHORT[1:]:
            with file.open("ab") as growing:
                growing.write(encoded([more])[0])
            session.refresh()
        with Session.open(file, readonly=True) as whole:
            assert marks(session) == marks(whole)
        assert sum(repeated is not None for _, repeated in marks(session)) == 12


@for_each("target", ["claude-code", "codex", "gemini"])
def test_a_conversion_says_once_what_compactions_repeat(tmp_path: Path, target: Any) -> None:
    source = written(tmp_path / "r.jsonl", *SHORT)
    made = tmp_path / f"{target}.jsonl"
    with Session.open(source, readonly=True) as session:
        session.convert(target, made)
    with Session.open(made, readonly=True) as session:
        prompts = [turn.prompt for turn in session.outline().turns if turn.prompt]
        assert prompts == ["Prompt 00000", "Prompt 00001", "Prompt 00002", "Last"]


def test_an_item_that_only_a_compaction_has_is_read_there_once(tmp_path: Path) -> None:
    """The start of a rollout may be lost, and a compaction is what is left of it."""
    lost = said("user", "lost"), said("assistant", "the answer")
    new = said("user", "new")
    file = written(
        tmp_path / "r.jsonl",
        *(
            at(n, made)
            for n, made in enumerate([compacted("1", *lost), new, compacted("2", *lost, new)])
        ),
    )
    with Session.open(file, readonly=True) as session:
        assert [turn.prompt for turn in session.outline().turns][1:] == ["lost", "new"]
        shown = "".join(session.to_markdown())
        assert [shown.count(text) for text in ("> lost", "the answer", "> new")] == [1, 1, 1]
    assert counts_of(file).turns == 2
    assert hits(file, "answer") == ["the answer"]
    assert hits(file, "lost") == ["lost"]


LONG = said("user", "the start of a long prompt and the end")
PICTURE: dict[str, Any] = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}


def _with(made: Line, **more: Any) -> Line:
    return {**made, "payload": {**made["payload"], **more}}


def _with_picture(text: str) -> Line:
    made = said("user", text)
    return _with(made, content=[*made["payload"]["content"], PICTURE])


@for_each(
    ("before", "listed", "repeated"),
    [
        ([_with(said("user", "a"), id="msg_1")], said("user", "a"), "a"),
        ([_with_picture("look")], said("user", "look"), "look"),
        ([LONG], said("user", "the start…12 tokens truncated…and the end"), LONG),
        ([LONG], said("user", "the start…12 tokens truncated…and an end"), None),
        ([said("user", "a")], said("assistant", "a"), None),
        ([said("user", "look")], _with_picture("look"), None),
        ([said("user", "a"), rolled_back(1)], said("user", "a"), None),
        ([said("user", "a"), said("user", "a"), rolled_back(1)], said("user", "a"), "a"),
        ([said("user", "\ud83d")], said("user", "\ud83d"), "\ud83d"),
        ([said("user", "a")], said("user", "Summary"), "Summary"),
    ],
)
def test_an_item_repeats_what_says_the_same_on_the_path(
    tmp_path: Path, before: list[Line], listed: Line, repeated: Any
) -> None:
    with opened(tmp_path, *before, compacted("Summary", listed)) as session:
        (found,) = repeated_texts(session).values()
        wanted = repeated if isinstance(repeated, str | None) else text_of(repeated["payload"])
        assert found == wanted


def test_an_old_compaction_repeats_the_prompts_and_its_summary(tmp_path: Path) -> None:
    lines = said("user", "one"), said("assistant", "1"), line("compacted", message="It was so.")
    with opened(tmp_path, *lines) as session:
        assert repeated_texts(session) == {"one": "one", "It was so.": "It was so."}


@pytest.mark.slow
@in_soak(("compactions, prompts, size"), (10, 5, 230), (20, 50, 2300))
def test_the_export_of_a_rollout_grows_with_what_was_said(
    tmp_path: Path, compactions: int, prompts: int, size: int
) -> None:
    file = written(tmp_path / "r.jsonl", *grown(compactions, prompts, size))
    spoken = compactions * prompts * 2 * (size + 100)
    assert file.stat().st_size > 5 * spoken
    with Session.open(file, readonly=True) as session:
        shown = "".join(session.to_markdown())
    assert len(shown) < 2 * spoken
    assert shown.count("Prompt 00003 word") == 1
    assert hits(file, "Reply 00003") == ["Reply 00003" + " word" * 16 + "…"]


def test_a_line_is_hashed_once_and_so_is_each_item_however_long_the_line_is(
    tmp_path: Path,
) -> None:
    """Reading a compaction takes the same work an item, and so the same time a byte."""
    for prompts in (50, 100, 200):
        file = written(tmp_path / f"{prompts}.jsonl", *grown(1, prompts, 100))
        named = digests = 0

        def note(frame: FrameType, event: str, _: Any) -> None:
            nonlocal named, digests
            if event == "call" and frame.f_code is name_of_line.__code__:
                named += len(frame.f_locals["line"])
            elif event == "call" and frame.f_code.co_filename == repeats.__file__:
                digests += frame.f_code.co_name == "_digest"

        sys.setprofile(note)
        try:
            with Session.open(file, readonly=True) as session:
                entries = len(list(session.entries()))
        finally:
            sys.setprofile(None)
        assert prompts * 4 < entries
        assert named <= file.stat().st_size
        assert digests <= entries


def test_edits_that_a_compaction_repeats_were_made_once(tmp_path: Path) -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+hello\n*** End Patch"
    call = {"type": "custom_tool_call", "name": "apply_patch", "input": patch, "call_id": "c"}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "Success"}
    said_first = said("user", "go"), line("response_item", **call), line("response_item", **result)
    with opened(tmp_path, *said_first, compacted("Summary", *said_first)) as session:
        events = file_events(session.cursor, lambda entry: entry.line)
        assert [event.call for event in events] == ["c"]
