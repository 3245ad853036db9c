"""Merging, picking and editing: taking work in, and correcting what the model sees."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Entry, NothingToDoError, RefError, Session, UsageError
from sessiontree.core import limits
from sessiontree.errors import CorruptionError, TooMuchError
from tests.support.conversation import (
    HEADER,
    assistant,
    call,
    chain,
    forked,
    line,
    message,
    opened,
    result,
    said,
    talk,
    text,
    user,
    write,
)
from tests.support.started import Reading
from tests.support.table import for_each


def test_a_merge_brings_what_the_other_branch_says_from_below_the_fork(session: Session) -> None:
    fork, other = forked(session, "x1", "x2")
    talk(session, "y1")
    merge = session.merge(other)
    talk(session, "y2")
    assert (merge["mergedUuid"], merge["baseUuid"]) == (other.uuid, fork.uuid)
    assert said(session.context()) == ["p1", "y1", "x1", "x2", "y2"]
    assert [e.uuid for e in session.context().entries][3] == other.uuid


def test_a_merge_with_a_summary_says_the_summary_alone(session: Session) -> None:
    given: list[Entry] = []

    def summarizer(entries: Sequence[Entry]) -> str:
        given.extend(entries)
        return "what the others found"

    first, *others = talk(session, "p1", "x1", "x2")
    session.branch(first)
    session.merge(others[-1], summary=summarizer)
    assert given == others
    assert said(session.context()) == ["p1", "what the others found"]


@pytest.mark.parametrize("ref", ["@", "@~1", "root"])
def test_what_is_on_the_path_is_not_merged(file: Path, ref: str) -> None:
    with opened(file, *chain("aaaa", "bbbb")) as session:
        before = file.read_bytes()
        with pytest.raises(NothingToDoError, match="on the current path already"):
            session.merge(ref)
        with pytest.raises(RefError):
            session.merge("nowhere")
        assert file.read_bytes() == before


def test_a_merge_of_an_orphan_without_a_common_ancestor_is_refused(file: Path) -> None:
    session = opened(file, *chain("orphan", below="gone"), *chain("aaaa"))
    with session, pytest.raises(UsageError, match="no ancestor in common"):
        session.merge("orphan")


def test_two_branches_that_merged_each_other_end(session: Session) -> None:
    _, x = forked(session, "x")
    y = session.append_message(assistant("y"))
    session.merge(x)
    crossed = session.leaf
    session.switch(x)
    session.merge(y)
    session.merge(crossed)
    assert said(session.context()) == ["p1", "x", "y"]


def test_a_merged_branch_speaks_under_its_own_compaction_and_edits(session: Session) -> None:
    fork = session.append_message(user("p1"))
    _, _, kept, dropped = talk(session, "old1", "old2", "kept", "dropped")
    session.compact("in short", first_kept=kept)
    session.edit_context(dropped, None)
    other = session.append_message(assistant("x"))
    with pytest.warns(UserWarning, match="above compaction"):
        session.branch(fork)
    talk(session, "y")
    session.merge(other)
    assert said(session.context()) == ["p1", "y", "in short", "kept", "x"]


def test_the_settings_of_a_merged_branch_do_not_count(session: Session) -> None:
    session.set_model("anthropic", "mine")
    fork = session.append_message(user("p1"))
    session.set_model("openai", "theirs")
    session.append_message({"role": "system", "content": "theirs"})
    other = session.append_message({**assistant("x"), "model": "theirs", "provider": "openai"})
    session.branch(fork)
    session.merge(other)
    context = session.context()
    assert context.model == {"provider": "anthropic", "modelId": "mine"}
    assert context.system is None
    assert said(context) == ["p1", "x"]


def test_an_edit_reaches_what_a_merge_brought(session: Session) -> None:
    _, other = forked(session, "x")
    session.merge(other)
    session.edit_context(other, "edited")
    assert said(session.context()) == ["p1", "edited"]
    assert said(session.context(other)) == ["p1", "x"]


def test_calls_and_results_on_both_sides_of_a_merge_are_paired(session: Session) -> None:
    session.append_message(user("p1"))
    fork = session.append_message(call("c"))
    other = session.append_message(result("c", "theirs"))
    session.branch(fork)
    talk(session, "y")
    session.merge(other)
    roles = [m["role"] for m in session.context().messages]
    assert roles == ["user", "assistant", "toolResult", "user"]


def test_a_merge_whose_branch_is_not_in_the_file_is_warned_of(reading: Reading) -> None:
    gone = line("merge", "m1", "aaaa", mergedUuid="gone", baseUuid="root")
    below = [line("merge", "m2", "m1"), *chain("bbbb", below="m2")]
    with reading(*chain("aaaa"), gone, *below) as session:
        assert said(session.context()) == ["aaaa", "bbbb"]
        of_gone, _ = session.context().warnings
        assert "gone" in of_gone


def test_an_edit_drops_or_replaces_and_the_latest_wins(session: Session) -> None:
    _, answer = talk(session, "p1", "a1")
    session.edit_context(answer, None)
    assert said(session.context()) == ["p1"]
    session.edit_context(answer, "edited")
    assert said(session.context()) == ["p1", "edited"]
    session.edit_context(answer, {"content": [{"type": "text", "text": "again"}]})
    assert session.context().messages == [user("p1"), assistant("again")]
    assert session.entry(answer)["message"] == assistant("a1")


def test_an_edit_counts_on_its_path_alone_from_there_on(session: Session) -> None:
    target, fork = talk(session, "p1", "a1")
    session.edit_context(target, None)
    edited = session.append_message(user("p2"))
    session.branch(fork)
    assert said(session.context()) == ["p1", "a1"]
    assert said(session.context(edited)) == ["a1", "p2"]


def test_summaries_and_compactions_may_be_edited(session: Session) -> None:
    talk(session, "p1", "a1")
    session.edit_context(session.compact("wrong", keep=0), "right")
    assert session.context().messages[0]["summary"] == "right"
    assert said(session.context()) == ["right"]


def test_an_edit_of_what_says_nothing_here_is_refused(file: Path, stored: Session) -> None:
    fork, off = forked(stored, "a1")
    push = stored.push()
    before = file.read_bytes()
    for ref in (off, push, stored.header, stored.path()[2]):
        with pytest.raises(UsageError, match="nothing to edit"):
            stored.edit_context(ref, None)
    for replacement in ({}, 5, ["x"], {"text": "x"}):
        with pytest.raises(UsageError):
            stored.edit_context(fork, replacement)  # type: ignore[arg-type]
    assert file.read_bytes() == before


def test_a_pick_copies_an_entry_of_another_branch_byte_for_byte(session: Session) -> None:
    fork = session.append_message(user("p1"))
    odd = session.append(
        "message", message={"role": "user", "content": "x", "n": 1.10}, kept=2**70,
        metadata={"a": 1},
    )  # fmt: skip
    session.branch(fork)
    picked = session.cherry_pick(odd)
    assert picked.parent_uuid == session.path()[-2].uuid
    assert picked.uuid != odd.uuid
    assert (picked["message"], picked["kept"]) == (odd["message"], 2**70)
    assert picked["metadata"] == {"a": 1, "cherryPickedFrom": odd.uuid}
    assert said(session.context()) == ["p1", "x"]


def test_a_pick_keeps_the_spelling_of_a_foreign_line(file: Path) -> None:
    spelled = (
        '{"role":"user", "content":"\\u0061\\ud83d\\ude00", "n":1.50E+2, '
        '"big":123456789012345678901234567890}'
    )
    write(file, [HEADER, *chain("aaaa")])
    with file.open("a") as lines:
        lines.write(f'{{"parentUuid":"root","message":{spelled},"uuid":"bbbb","type":"message"}}\n')
        lines.write('{"type":"branch","uuid":"cccc","parentUuid":"aaaa"}\n')
    with Session.open(file) as session:
        assert spelled.encode() in session.cherry_pick("bbbb").line


BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "sig"},
    {"type": "text", "text": "Reading " * 3},
    {"type": "tool_use", "id": "t1", "name": "Read", "input": {"path": "a.rs", "n": 1.10}},
]


def test_a_line_that_cannot_be_copied_byte_for_byte_is_not_picked(file: Path) -> None:
    """Its lone surrogate cannot be told from the private character that would replace it."""
    message = '{"type":"message","uuid":"a","parentUuid":"root","message":{"role":"user","content":'
    write(file, [HEADER])
    with file.open("a") as lines:
        lines.write(message + '"\\ud83d \\ue83d"}}\n')
    with Session.open(file, readonly=True) as source, Session.create() as session:
        with pytest.raises(CorruptionError, match=r"entry a is damaged .* byte for byte") as raised:
            session.cherry_pick("a", source)
        assert (raised.value.file, raised.value.offset) == (str(file), source.entry("a").offset)
        assert len(session.path()) == 1


def streamed(session: Session, *, ended: bool = True) -> list[Entry]:
    """A message streamed in blocks, with a setting between two of them; its entries."""
    message = session.stream_message(model="m", provider="p", granularity="block")
    for index, block in enumerate(BLOCKS):
        message.add(block)
        if index == 1:
            session.set_thinking_level("high")
    if ended:
        message.end(usage={"input": 5}, stopReason="tool_use")
    return message.entries


@pytest.mark.parametrize("of", [0, 1, 3])
def test_a_part_of_a_streamed_message_is_picked_whole(session: Session, of: int) -> None:
    fork = session.append_message(user("p1"))
    part = streamed(session)[of]
    whole = session.context(verbatim=True).messages[-1]
    session.branch(fork)
    picked = session.cherry_pick(part)
    assert (picked.type, picked["message"], picked.lane) == ("message", whole, None)
    assert picked["metadata"] == {"cherryPickedFrom": part.uuid}
    assert session.context(verbatim=True).messages == [user("p1"), whole]
    assert session.verify() == []


def test_a_streamed_message_that_broke_off_is_picked_as_partial(session: Session) -> None:
    fork = session.append_message(user("p1"))
    part = streamed(session, ended=False)[-1]
    whole = session.context(verbatim=True).messages[-1]
    assert whole["partial"] is True
    session.branch(fork)
    assert session.cherry_pick(part)["message"] == whole


def test_of_two_branches_that_continue_a_message_the_last_is_picked(session: Session) -> None:
    def block(index: int, text: str, **more: Any) -> Entry:
        said = {"type": "text", "text": text}
        return session.append("block", messageUuid="m", index=index, block=said, **more)

    first = block(0, "a")
    left = block(1, "left")
    session.append("message_end", messageUuid="m", role="assistant", model="left")
    right = block(1, "right", parent=first)
    end = session.append("message_end", messageUuid="m", role="assistant", model="right")
    block(0, "of another message", parent=session.header)
    for part, said_last in ((first, "right"), (left, "left"), (right, "right"), (end, "right")):
        picked = session.cherry_pick(part)
        assert [block["text"] for block in picked["message"]["content"]] == ["a", said_last]
        assert picked["message"]["model"] == said_last


def test_a_streamed_message_is_picked_from_another_session_with_its_blobs(
    session: Session, tmp_path: Path
) -> None:
    long = "long " * 10_000
    with Session.create(tmp_path / "other.jsonl", cwd="/") as other:
        with other.stream_message(granularity="block") as message:
            message.add({"type": "text", "text": "short"})
            message.add({"type": "text", "text": long})
            message.end(errorMessage=long)
        part = message.entries[0]
        with pytest.raises(UsageError, match="give that session as 'source'"):
            session.cherry_pick(part)
        assert session.leaf == session.header
        for ref in (part, part.uuid):
            assert len(session.cherry_pick(ref, source=other).line) < 2000
    shutil.rmtree(tmp_path / "other.jsonl.blobs")
    picked = session.context().messages
    assert [text(message) for message in picked] == [f"short {long}"] * 2
    assert [message["errorMessage"] for message in picked] == [long] * 2
    assert session.verify() == []


def test_the_parts_of_a_picked_message_keep_their_spelling(file: Path) -> None:
    spelled = '{"type":"text", "text":"\\u0061", "n":1.50E+2, "big":123456789012345678901234567890}'
    write(file, [HEADER, *chain("aaaa")])
    start = '"messageUuid":"m","parentUuid":'
    with file.open("a") as lines:
        lines.write(f'{{"type":"block","uuid":"bbbb","index":0,"block":{spelled},{start}"aaaa"}}\n')
        lines.write(
            f'{{"type":"message_end","uuid":"cccc","role":"assistant","usage":{{"n":1.0}},'
            f'{start}"bbbb"}}\n'
        )
    with Session.open(file) as session:
        line = session.cherry_pick("bbbb").line
        assert f'"message":{{"role":"assistant","content":[{spelled}],"usage":{{"n":1.0}}}}' in (
            line.decode()
        )


@for_each("type", ["session", "branch", "label", "compaction", "merge"])
def test_what_speaks_of_its_place_is_not_picked(file: Path, type: str) -> None:
    with opened(
        file,
        *chain("aaaa"),
        message("side", "root", "side"),
        line("branch", "branch", "aaaa"),
        line("label", "label", "branch", targetUuid="aaaa", label="x"),
        line("merge", "merge", "branch", mergedUuid="side", baseUuid="root"),
        line("compaction", "compaction", "merge", summary="s", firstKeptEntryUuid="aaaa"),
    ) as session:
        before = file.read_bytes()
        with pytest.raises(UsageError, match="cannot be picked"):
            session.cherry_pick("root" if type == "session" else type)
        assert file.read_bytes() == before


def test_text_in_place_of_results_leaves_their_calls_answered(session: Session) -> None:
    session.append_message(user("look"))
    session.append_message(
        assistant([{"type": "tool_use", "id": id, "name": "read", "input": {}} for id in "ab"])
    )
    results = session.append_message(
        user([{"type": "tool_result", "tool_use_id": id, "content": "long"} for id in "ab"])
    )
    session.edit_context(results, "[trimmed]")
    context = session.context()
    assert context.warnings == []
    assert [block["content"] for block in context.messages[-1]["content"]] == ["[trimmed]"] * 2


def test_merges_that_read_entries_again_too_often_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [*chain("a", "b", "c"), line("branch", "m0", "root")]
    for n in range(1, 6):  # each takes in all that the ones before it did
        ends = {"mergedUuid": "c" if n == 1 else f"m{n - 1}", "baseUuid": "root"}
        lines.append(line("merge", f"m{n}", f"m{n - 1}", **ends))
    with opened(file, *lines) as session:
        assert said(session.context()) == ["a", "b", "c"]
        session.fork(file.with_name("whole.jsonl"))
        again = limits.MERGED_AGAIN._replace(most=2)
        monkeypatch.setattr(limits, "MERGED_AGAIN", again)
        copied = limits.MERGED_INTO_COPY._replace(most=1 - 10 * 10)  # the session has ten entries
        monkeypatch.setattr(limits, "MERGED_INTO_COPY", copied)
        with pytest.raises(TooMuchError, match=r"the merges up to m\d .* go on from an entry"):
            session.context(verbatim=True)
        with pytest.raises(TooMuchError, match="copy the path to an entry above them"):
            session.export_branch("root", file.with_name("refused.jsonl"))
        session.fork(file.with_name("again.jsonl"))  # all that they take in is on its path
    assert not file.with_name("refused.jsonl").exists()
