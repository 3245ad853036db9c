"""Session handles: entries and blocks of this session and of those beside it."""

from __future__ import annotations

import gc
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, SessionTreeError
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle
from sessiontree.core.message import numbered_blocks
from sessiontree.errors import BlobError, HandleCycleError, TargetMissingError, TargetRefusedError
from sessiontree.handles import builtin
from sessiontree.handles.registry import DEEPEST, HandleSchema
from sessiontree.handles.resolve import HandleScope
from tests.support.conversation import line, user
from tests.support.sessions import version_1
from tests.support.table import for_each
from tests.support.terminal import contents

PNG = b"\x89PNG\r\n\x1a\n"
BLOCKS = [
    {"type": "text", "text": "see"},
    {"type": "image", "data": "iVBO", "mimeType": "image/png"},
]


@pytest.fixture
def here(tmp_path: Path) -> Session:
    return Session.create(tmp_path / "here.jsonl", id="here", cwd="/")


@pytest.fixture
def beside(tmp_path: Path) -> Session:
    return Session.create(tmp_path / "beside.jsonl", id="beside", cwd="/")


def found(session: Session, handle: Handle, **more: Any) -> ResolvedHandle:
    return HandleScope(session, **more).resolve(handle)


def test_an_entry_of_this_session_is_its_message(here: Session) -> None:
    message = {"role": "assistant", "content": BLOCKS, "usage": {"input": 5}}
    entry = here.append_message(message)
    handle = Handle.entry("here", entry.uuid)
    one = found(here, handle)
    assert (one.handle, one.kind, one.data) == (handle, "message", message)


def test_an_entry_of_a_session_beside_is_found_by_the_id_in_its_header(
    here: Session, beside: Session, tmp_path: Path
) -> None:
    entry = beside.append_message(user("from afar"))
    (tmp_path / "broken.jsonl").write_bytes(b"\0\xff{")
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "a pipe.jsonl")
    (tmp_path / "gone.jsonl").symlink_to("nowhere")
    (tmp_path / "other.jsonl").write_text('{"type":"message","id":"beside","uuid":"u"}\n')
    assert found(here, Handle.entry("beside", entry.uuid)).data["content"] == "from afar"


def test_nothing_is_written_for_it(here: Session, beside: Session, tmp_path: Path) -> None:
    entry = beside.append_message(user("x"))
    beside.close()
    (tmp_path / "beside.jsonl.lock").unlink()
    before = contents(tmp_path), sorted(os.listdir(tmp_path))
    found(here, Handle.entry("beside", entry.uuid))
    assert (contents(tmp_path), sorted(os.listdir(tmp_path))) == before


def test_an_entry_of_a_version_1_session_is_found(here: Session, tmp_path: Path) -> None:
    with Session.open(version_1(tmp_path / "old.jsonl", "first"), readonly=True) as old:
        uuid = old.leaf.uuid
    before = contents(tmp_path), sorted(os.listdir(tmp_path))
    assert found(here, Handle.entry("old", uuid)).data["content"] == "first"
    assert (contents(tmp_path), sorted(os.listdir(tmp_path))) == before, "it is not migrated"


def test_other_entries_resolve_to_what_they_say(here: Session) -> None:
    first = here.append_message(user("hi"))
    summary = here.branch(first, summary="went elsewhere")
    custom = here.append("custom_message", customType="t", content="c", display=True)
    label = here.label(first, "start")

    def of(uuid: str) -> ResolvedHandle:
        return found(here, Handle.entry("here", uuid))

    assert of(summary.uuid).data["role"] == "branchSummary"
    assert of(custom.uuid).data["role"] == "custom"
    assert (of(label.uuid).kind, of(label.uuid).data["label"]) == ("document", "start")
    assert of(here.header.uuid).data["id"] == "here"


def test_a_block_is_a_message_with_it_alone(here: Session) -> None:
    entry = here.append_message({"role": "assistant", "content": BLOCKS})
    text = here.append_message(user("only text"))
    for index, block in enumerate(BLOCKS):
        data = found(here, Handle.block("here", entry.uuid, index)).data
        assert data == {"role": "assistant", "content": [block]}
    data = found(here, Handle.block("here", text.uuid, 0)).data
    assert data == user([{"type": "text", "text": "only text"}])


def test_an_item_of_responses_is_its_own_block(here: Session) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    entry = here.append_message(call)
    assert found(here, Handle.block("here", entry.uuid, 0)).data == call
    with pytest.raises(TargetMissingError, match="the message has 1, counted from 0"):
        found(here, Handle.block("here", entry.uuid, 1))
    here.append_handle(Handle.block("here", entry.uuid, 0))
    here.append_message({"type": "function_call_output", "call_id": "c", "output": "a.py"})
    assert here.context(verbatim=True).messages[1] == call


def test_a_block_has_the_place_it_has_for_whoever_asks_the_session(here: Session) -> None:
    entry = here.append_message(user([None, "a", 5, BLOCKS[1]]))
    for index in range(2):
        data = found(here, Handle.block("here", entry.uuid, index)).data
        assert data["content"] == [here.block(entry, index)]


def test_a_block_of_a_streamed_message_is_found_by_any_of_its_uuids(here: Session) -> None:
    blocks = [{"type": "text", "text": text} for text in "ab"]
    fields: dict[str, Any] = {"messageUuid": "whole"}
    pieces = [here.append("block", index=i, block=blocks[i], **fields) for i in range(2)]
    data = found(here, Handle.block("here", "whole", 1)).data
    assert data == {"role": "assistant", "content": [blocks[1]]}
    end = here.append("message_end", role="assistant", **fields)
    for uuid in ("whole", pieces[0].uuid, pieces[1].uuid, end.uuid):
        for index, block in enumerate(blocks):
            assert found(here, Handle.block("here", uuid, index)).data["content"] == [block]


def test_what_is_not_there_is_told(here: Session) -> None:
    entry = here.append_message(user([BLOCKS[0]]))
    label = here.label(entry, "start")
    here.append("block", messageUuid="whole", index=0, block={"type": "text", "text": "a"})
    for handle in (
        Handle.entry("here", "no-such-entry"),
        Handle.entry("here", "start"),
        Handle.entry("here", entry.uuid[:8]),
        Handle.entry("elsewhere", entry.uuid),
        Handle.block("here", "no-such-entry", 0),
        Handle.block("here", entry.uuid, 1),
        Handle.block("here", label.uuid, 0),
        Handle.block("here", "whole", 1),
    ):
        with pytest.raises(TargetMissingError, match="points to") as refused:
            found(here, handle)
        assert refused.value.handle == str(handle)


def test_a_session_in_memory_stands_beside_none() -> None:
    with Session.create(id="here", cwd="/") as session:
        entry = session.append_message(user("hi"))
        assert found(session, Handle.entry("here", entry.uuid)).data["content"] == "hi"
        with pytest.raises(TargetMissingError, match="in memory"):
            found(session, Handle.entry("beside", entry.uuid))


def test_a_handle_entry_resolves_to_what_its_handle_does(here: Session, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("notes")
    file = here.append("handle", handle=str(Handle.file("notes.md")), kind="binary")
    again = here.append("handle", handle=str(Handle.entry("here", file.uuid)), kind="binary")
    resolved = found(here, Handle.entry("here", again.uuid), root=tmp_path)
    assert resolved.handle == Handle.entry("here", again.uuid)
    assert (resolved.kind, resolved.data) == ("binary", b"notes")
    with pytest.raises(TargetRefusedError, match="below a folder that was not named"):
        found(here, Handle.entry("here", again.uuid))


def test_the_older_form_of_a_handle_is_followed(here: Session, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("notes")
    here.append_message(user("x"))
    older = {"source": "file", "source_version": "1.0.0", "identifier": "notes.md"}
    here.close()
    with open(tmp_path / "here.jsonl", "a") as file:
        file.write(json.dumps(line("handle", "h", here.leaf.uuid, handle=older)) + "\n")
    refused = pytest.raises(SessionTreeError, match="file has no method 'item'")
    with Session.open(tmp_path / "here.jsonl", readonly=True) as session, refused:
        found(session, Handle.entry("here", "h"))


def test_handles_that_lead_back_to_themselves_are_told(here: Session, beside: Session) -> None:
    def pointing(session: Session, to: Handle, uuid: str) -> None:
        session.append("handle", handle=str(to), kind="message", uuid=uuid)

    pointing(here, Handle.entry("here", "one"), "one")
    with pytest.raises(HandleCycleError, match="lead back to themselves"):
        found(here, Handle.entry("here", "one"))
    pointing(here, Handle.entry("beside", "three"), "two")
    pointing(beside, Handle.entry("here", "two"), "three")
    with pytest.raises(HandleCycleError, match=r"beside:three → .*here:two → .*three"):
        found(here, Handle.entry("here", "two"))


def test_a_blob_of_a_session_beside_is_read_from_its_sidecar(
    here: Session, beside: Session
) -> None:
    blob = beside.blobs.put(PNG)
    handle = Handle.blob(*blob, "image/png")
    entry = beside.append("handle", handle=str(handle), kind="binary")
    resolved = found(here, Handle.entry("beside", entry.uuid))
    assert (resolved.data, resolved.media_type) == (PNG, "image/png")
    with pytest.raises(BlobError):
        found(here, handle)


def test_a_fork_resolves_the_entries_it_has_copies_of(here: Session, tmp_path: Path) -> None:
    kept = here.append_message(user("kept"))
    left = here.append_message({"role": "assistant", "content": "left"})
    copy = here.fork(tmp_path / "copy.jsonl", at=kept)
    with Session.open(copy, readonly=True) as fork:
        assert found(fork, Handle.entry("here", kept.uuid)).data["content"] == "kept"
        assert found(fork, Handle.entry("here", left.uuid)).data["content"] == "left"
        here.close()
        (tmp_path / "here.jsonl").unlink()
        assert found(fork, Handle.entry("here", kept.uuid)).data["content"] == "kept"
        with pytest.raises(TargetMissingError, match="session that is not in"):
            found(fork, Handle.entry("here", left.uuid))


def test_of_two_files_with_one_id_the_one_with_the_entry_is_read(
    here: Session, beside: Session, tmp_path: Path
) -> None:
    shutil.copy(tmp_path / "beside.jsonl", tmp_path / "a copy.jsonl")
    entry = beside.append_message(user("later"))
    assert found(here, Handle.entry("beside", entry.uuid)).data["content"] == "later"


@pytest.mark.slow
def test_sessions_beside_are_opened_once_and_closed(here: Session, beside: Session) -> None:
    uuids = [beside.append_message(user(str(i))).uuid for i in range(5)]
    gc.collect()  # sessions that earlier tests let go of close their files when collected
    before = len(os.listdir("/proc/self/fd")) if os.path.exists("/proc/self/fd") else 0
    handles = [Handle.entry("beside", uuid) for uuid in uuids]
    resolved = HandleScope(here).resolve_many(handles)
    said = [each.data["content"] for each in resolved if isinstance(each, ResolvedHandle)]
    assert said == list("01234")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@for_each("rest", ["block:here:{}", "entry:here:{}:first"])
def test_a_handle_of_an_unknown_version_into_this_session_is_stored(
    here: Session, rest: str
) -> None:
    handle = f"session@9.0.0::{rest.format(here.append_message(user('x')).uuid)}"
    assert here.append_handle(handle, kind="message")["handle"] == handle


def test_the_blocks_of_one_message_are_listed_once(
    here: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = here.append_message({"role": "assistant", "content": [BLOCKS[0]] * 9})
    end = here.append("block", messageUuid="whole", index=0, block=BLOCKS[0])
    listed: list[int] = []

    def counted(message: Any) -> Any:
        listed.append(1)
        return numbered_blocks(message)

    monkeypatch.setattr(builtin, "numbered_blocks", counted)
    for number in range(9):
        here.append_handle(Handle.block("here", entry.uuid, number))
    listed.clear()
    for _ in range(2):
        assert all(each.resolved for each in here.resolved_path()[3:])
    assert len(listed) == 1
    here.append("block", messageUuid="whole", index=1, block=BLOCKS[1])
    assert found(here, Handle.block("here", end.uuid, 1)).data["content"] == [BLOCKS[1]]


def test_a_step_that_an_earlier_handle_made_is_not_made_again(
    here: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = here.append_message(user("end")).uuid
    for _ in range(60):
        above = here.append("handle", handle=str(Handle.entry("here", above)), kind="message").uuid
    steps: list[int] = []
    check = HandleSchema.check

    def counted(schema: HandleSchema, handle: Handle) -> None:
        steps.append(1)
        check(schema, handle)

    monkeypatch.setattr(HandleSchema, "check", counted)
    path = here.resolved_path()[2:]
    assert [each.error is None for each in path] == [True] * DEEPEST + [False] * (60 - DEEPEST)
    assert isinstance(path[-1].error, HandleCycleError)
    assert f"more than {DEEPEST} handles" in str(path[-1].error)
    assert len(steps) < 5 * len(path)


def test_a_blob_whose_handle_is_an_object_is_copied_and_named(
    here: Session, tmp_path: Path
) -> None:
    blob = here.blobs.put(b"a text")
    handle = Handle.blob(*blob, "text/plain")
    root = here.append_message(user("hi")).uuid
    here.close()
    written = line("handle", "h", root, handle=handle.as_dict(), kind="binary")
    with (tmp_path / "here.jsonl").open("a") as file:
        file.write(f"{json.dumps(written)}\n")
    fork = Session.open(Session.open(tmp_path / "here.jsonl").fork(tmp_path / "fork.jsonl"))
    assert fork.context().messages[1]["content"] == "```\na text\n```"
    (tmp_path / "fork.jsonl.blobs" / blob.sha256).unlink()
    assert [found.kind for found in fork.verify()] == ["blob"]
    with Session.open(tmp_path / "fork.jsonl", readonly=True) as again:
        assert str(handle) in again.context().messages[1]["content"]


def test_a_block_without_a_number_has_that_of_its_place(here: Session) -> None:
    """As in a context (rule 3.19)."""
    assert here.file is not None
    here.append_message({"role": "user", "content": "hi"})
    lines: list[dict[str, Any]] = [
        {"type": "block", "uuid": "k1", "messageUuid": "m", "index": None, "block": BLOCKS[0]},
        {"type": "message_end", "uuid": "k2", "messageUuid": "m", "role": "user"},
        {"type": "message_end", "uuid": "k3", "messageUuid": "m", "role": 5},
    ]
    with Path(here.file).open("a") as file:
        file.writelines(json.dumps({**line, "parentUuid": "u"}) + "\n" for line in lines)
    with Session.open(here.file, readonly=True) as again:
        data = found(again, Handle.block("here", "m", 0)).data
    assert data == {"role": "assistant", "content": [BLOCKS[0]]}
