"""Handles and attachments in a session: pointed to, resolved in contexts, and carried along."""

from __future__ import annotations

import base64
import io
import re
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import ReadOnlyError, Session, SessionTreeWarning, StorageError, UsageError
from sessiontree.core.handle import Handle
from sessiontree.errors import (
    BlobDamagedError,
    BlobMissingError,
    HandleError,
    TargetMissingError,
    UnknownHandleError,
)
from sessiontree.handles.builtin import built_in
from sessiontree.handles.registry import HandleSchema, Registry, ResolverScope
from sessiontree.storage.fs import Disk
from tests.support.conversation import user
from tests.support.table import for_each

PNG = bytes(range(256)) * 300


class Notes:
    """A plugin whose notes are numbered; counts how it is asked."""

    schemas = (HandleSchema("notes", "line", "1.x", [], "message"),)

    def __init__(self) -> None:
        self.asked: list[str] = []

    def resolve(self, handle: Handle, scope: ResolverScope) -> Any:
        self.asked.append(str(handle))
        return user("a note")


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def noted(file: Path, notes: Notes) -> Iterator[Session]:
    """A session in the file that knows the plugin of notes, and spills."""
    with Session.create(file, registry=Registry([*built_in(), notes]), spill_over=100) as session:
        yield session


@pytest.fixture
def alone(tmp_path: Path) -> Path:
    """A copy that is to be made in a folder of its own."""
    copy = tmp_path / "alone" / "copy.jsonl"
    copy.parent.mkdir()
    return copy


def test_a_handle_that_says_what_it_is_is_resolved_in_a_context_only(
    notes: Notes, noted: Session
) -> None:
    noted.append_handle("notes@1.0.0::line", role="user", preview="a note of mine")
    list(noted.render())
    noted.path()
    noted.branches()
    noted.stats()
    assert noted.context(resolve=False).messages == [user("notes@1.0.0::line")]
    assert notes.asked == []
    assert noted.context().messages == [user("a note")]
    noted.context()
    assert len(notes.asked) == 1


def test_an_unknown_handle_is_a_placeholder_or_an_error(stored: Session) -> None:
    stored.append_handle("cone@1.0.0::run:7", kind="output", role="user")
    context = stored.context()
    placeholder = "[cone@1.0.0::run:7 cannot be resolved: unknown plugin 'cone']"
    assert context.messages == [user(placeholder)]
    assert "registered: blob, file, session" in context.warnings[0]
    with pytest.raises(UnknownHandleError):
        stored.context(strict=True)
    with pytest.raises(UnknownHandleError):
        stored.resolve("cone@1.0.0::run:7")


def test_what_a_model_was_told_of_a_file_stays_as_the_session_goes_on(
    file: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("as it was")
    pointer = Handle.file("notes.md")
    with Session.create(file, root=tmp_path) as session:
        session.append_handle(pointer)
        prompt = session.append_message(user("Read it"))
        before = session.context().messages
        assert "as it was" in before[0]["content"]
        (tmp_path / "notes.md").write_text("as it is")
        assert b"as it is" in session.resolve(pointer).data
        session.append_message({"role": "assistant", "content": "Read."})
        assert session.context().messages[:2] == before
        session.edit_context(prompt, "Read that")  # folds anew
        assert session.context().messages[0] == before[0]
        assert "as it is" in session.context(strict=True).messages[0]["content"]
        session.append_handle(pointer)
        assert "as it is" in session.context().messages[-1]["content"]
        session.branch(prompt)
        assert session.context().messages == before
    with Session.open(file, root=tmp_path) as session:
        assert "as it is" in session.context().messages[0]["content"]


def test_a_handle_that_failed_is_asked_again_in_the_next_context() -> None:
    empty = Registry()
    with Session.create(registry=empty) as session:
        session.append_handle("notes@1.0.0::line", kind="message")
        assert session.context().warnings
        empty.register(Notes())
        assert session.context().messages == [user("a note")]


@for_each(
    ("handle", "more", "told"),
    [
        ("notes@1.0.0::line", {"role": ""}, "role"),
        ("notes@1.0.0::line", {"preview": 5}, "preview"),
        ("notes@1.0.0::line", {"kind": "document"}, "to a message, not to a document"),
        ("file@1.0.0::path:../secret", {}, "path"),
        ("file@1.0.0::path:docs/..", {}, "path"),
    ],
)
def test_a_wrong_handle_is_refused_and_nothing_is_written(
    handle: str, more: dict[str, Any], told: str, noted: Session
) -> None:
    with pytest.raises(HandleError, match=told):
        noted.append_handle(handle, **more)
    assert len(noted.path()) == 1


def test_a_version_or_a_method_that_nobody_resolves_is_told_with_those_there_are(
    noted: Session,
) -> None:
    for handle, told in (
        ("notes@2.0.0::line", "no resolver for version 2.0.0 of notes; registered: notes@1.x"),
        ("notes@1.0.0::page", "notes has no method 'page'; registered: notes@1.x::line"),
        ("note@1.0.0::line", "unknown plugin 'note'; registered: blob, file, notes, session"),
    ):
        with pytest.raises(HandleError, match=f"{re.escape(told)}.* give the kind"):
            noted.append_handle(handle)
        noted.append_handle(handle, kind="message")


def test_a_handle_of_the_session_itself_names_what_is_there_by_its_whole_uuid(
    session: Session,
) -> None:
    entry = session.append_message(user("Look"))
    with session.stream_message(granularity="block") as streamed:
        streamed.add({"type": "text", "text": "so"})
    for short in (entry.uuid[:8], entry.uuid[:35]):
        with pytest.raises(HandleError, match=f"give its uuid whole: {entry.uuid}"):
            session.append_handle(Handle.entry(session.id, short))
        with pytest.raises(TargetMissingError, match=f"give its uuid whole: {entry.uuid}"):
            session.resolve(Handle.entry(session.id, short))
    with pytest.raises(HandleError, match="names no entry of this session"):
        session.append_handle(Handle.block(session.id, "@", 0))
    session.append_handle(Handle.entry(session.id, entry.uuid))
    whole = session.path()[2]["messageUuid"]
    session.append_handle(Handle.block(session.id, whole, 0))
    session.append_handle(Handle.entry("another", "1234"), kind="message")
    shown = [message["content"] for message in session.context().messages[2:4]]
    assert shown == ["Look", [{"type": "text", "text": "so"}]]


def test_a_handle_of_a_block_that_is_not_there_is_refused(session: Session) -> None:
    text = session.append_message(user("one block"))
    empty = session.append_message(user([]))
    with session.stream_message(granularity="block") as streamed:
        streamed.add({"type": "text", "text": "so"})
        with pytest.raises(HandleError, match="the message has 1, counted from 0"):
            session.append_handle(Handle.block(session.id, streamed.uuid, 1))
    name = session.rename("a name")
    before = session.leaf
    for entry, index, told in (
        (text, 7, "the message has 1, counted from 0"),
        (empty, 0, "the message has none"),
        (streamed.entries[0], 1, "the message has 1"),
        (name, 0, "a block of a session_info, which has none"),
    ):
        pointer = Handle.block(session.id, entry.uuid, index)
        with pytest.raises(HandleError, match=told) as refused:
            session.append_handle(pointer)
        assert refused.value.part == "meta[2]"
        with pytest.raises(TargetMissingError, match=told):
            session.resolve(pointer)
    assert session.leaf == before
    session.append_handle(Handle.block(session.id, text.uuid, 0))


@pytest.mark.parametrize("as_stream", [False, True])
def test_an_attached_image_is_an_image_for_the_model(
    file: Path, tmp_path: Path, as_stream: bool
) -> None:
    image = tmp_path / "shot.png"
    image.write_bytes(PNG)
    with Session.create(file) as session:
        given = (io.BytesIO(PNG), "image/png") if as_stream else (image, None)
        entry = session.attach(*given, preview="a shot")
        assert entry["preview"] == "a shot"
    image.unlink()
    with Session.open(file, readonly=True) as session:
        assert session.resolve(entry["handle"]).data == PNG
        shown = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
        assert session.context().messages == [user([shown])]
        assert len(entry.line) < 500


@pytest.mark.parametrize("name", ["build.log", "app.ts", "main.go", "run.sh", None])
def test_an_attached_text_is_shown_to_the_model_whatever_its_name(
    tmp_path: Path, name: str | None, stored: Session
) -> None:
    content = "no errors, \u00e9\n" * 10
    if name is None:
        stored.attach(io.BytesIO(content.encode()))
    else:
        (tmp_path / name).write_text(content)
        stored.attach(tmp_path / name)
    assert content in stored.context().messages[0]["content"]


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.tar.gz", "application/gzip"),
        ("a.log.xz", "application/x-xz"),
        ("a.tar", "application/x-tar"),
        ("a.what", "application/octet-stream"),
    ],
)
def test_what_is_packed_is_not_called_what_is_in_it(
    tmp_path: Path, name: str, media_type: str, stored: Session
) -> None:
    (tmp_path / name).write_bytes(TARGZ)
    assert Handle.parse(stored.attach(tmp_path / name)["handle"]).meta[2] == media_type


def test_a_file_that_is_stored_already_is_compared_and_not_written_again(
    file: Path, tmp_path: Path
) -> None:
    class Counting(Disk):
        written = 0

        def write(self, fd: int, content: Any) -> int:
            self.written += len(content)
            return super().write(fd, content)

    disk = Counting()
    source, other = tmp_path / "big.bin", tmp_path / "other.bin"
    size = source.write_bytes(PNG * 50)
    other.write_bytes(PNG[::-1] * 50)
    with Session.create(file, fs=disk) as session:
        first = session.attach(source)["handle"]
    assert disk.written > size
    with Session.open(file, fs=disk) as session:
        disk.written = 0
        assert session.attach(source)["handle"] == first
        assert disk.written < 1000
        assert session.attach(other)["handle"] != first
        assert disk.written > size
        blob = Path(f"{session.file}.blobs") / Handle.parse(first).meta[0]
        blob.chmod(0o600)
        blob.write_bytes(bytes(size))
    with Session.open(file, fs=disk) as session:
        assert session.attach(source)["handle"] == first
        assert session.resolve(first).data == PNG * 50


@pytest.mark.slow
def test_an_attachment_is_never_in_memory_whole(file: Path, tmp_path: Path) -> None:
    source = tmp_path / "big.bin"
    with source.open("wb") as big:
        big.truncate(64 << 20)
    with Session.create(file, durability="os") as session:
        tracemalloc.start()
        try:
            sha256, size, _ = Handle.parse(session.attach(source)["handle"]).meta
            read = sum(map(len, session.blobs.blocks(sha256, int(size))))
            session.context()
            with Session.open(file, durability="os") as another:
                another.cherry_pick(another.leaf)
            with Session.create(tmp_path / "other.jsonl", durability="os") as other:
                other.cherry_pick(session.leaf)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert read == 64 << 20
    assert peak < 20 << 20


def test_a_handle_of_a_blob_that_is_not_there_or_not_whole_is_refused(file: Path) -> None:
    with Session.create(file) as session:
        blob = session.blobs.put(PNG)
        whole = Handle.blob(*blob, "image/png")
        other = Handle.blob("ab" * 32, 5, "image/png")
        with pytest.raises(BlobMissingError, match="abab"):
            session.append_handle(other)
        with pytest.raises(BlobMissingError, match="abab"):
            session.append("handle", handle=str(other), kind="binary")
        (Path(f"{file}.blobs") / blob.sha256).write_bytes(b"?" * len(PNG))
    with Session.open(file) as session:
        with pytest.raises(BlobDamagedError):
            session.append_handle(whole)
        assert len(session.path()) == 1
        session.blobs.put(PNG)
        session.append_handle(whole)
        assert session.context(strict=True).warnings == []


def test_what_cannot_be_attached_is_refused_and_leaves_nothing(file: Path, tmp_path: Path) -> None:
    with Session.create(file) as session:
        with pytest.raises(StorageError, match="check the path"):
            session.attach(tmp_path / "none.png")
        with pytest.raises(StorageError, match="a folder"):
            session.attach(tmp_path)
        with pytest.raises(UsageError, match="not a int"):
            session.attach(7)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="rb"):
            session.attach(io.StringIO("text"))  # type: ignore[arg-type]
        with pytest.raises(HandleError):
            session.attach(io.BytesIO(b"x"), "no type")
        assert len(session.path()) == 1
    folder = Path(f"{file}.blobs")
    assert not folder.exists() or list(folder.iterdir()) == []
    with Session.open(file, readonly=True) as session, pytest.raises(ReadOnlyError):
        session.attach(io.BytesIO(b"x"), "text/plain")
    assert not folder.exists() or list(folder.iterdir()) == []


def test_a_fork_takes_attachments_along_and_a_picked_one_too(
    file: Path, copy: Path, tmp_path: Path
) -> None:
    with Session.create(file) as session, Session.create(tmp_path / "o.jsonl") as other:
        entry = session.attach(io.BytesIO(PNG), "image/png")
        session.append_message(user("See?"))
        session.fork(copy)
        other.cherry_pick(entry)
        whole = session.context().messages
        shutil.rmtree(f"{file}.blobs")
        with pytest.raises(BlobMissingError):
            session.context(strict=True)
        assert other.context(strict=True).messages == whole[:1]
    with Session.open(copy, readonly=True) as copied:
        assert copied.context(strict=True).messages == whole


def test_a_resolved_path_and_tree_tell_what_each_handle_points_to(noted: Session) -> None:
    prompt = noted.append_message(user("x"))
    noted.append_handle("notes@1.0.0::line")
    noted.branch(prompt)
    noted.append_handle("notes@2.0.0::line", kind="message")
    assert isinstance(noted.resolved_path()[-1].error, UnknownHandleError)
    found = noted.resolved_tree(prompt).children[0].resolved
    assert found is not None
    assert found.data["content"] == "a note"
    _, unknown = noted.resolve_many(["notes@1.0.0::line", "x@1.0.0::y"])
    assert isinstance(unknown, UnknownHandleError)


def test_an_inline_export_is_whole_in_one_file(alone: Path, noted: Session) -> None:
    top = noted.append_message({"role": "user", "content": "long " * 100, "n": 1.5})
    noted.attach(io.BytesIO(PNG), "image/png")
    pointer = noted.append_handle("notes@1.0.0::line", metadata={"why": "x"})
    last = noted.append("custom", customType="kept", data={"key": 10**30})
    noted.export_branch(top, alone, inline=True)
    assert [path.name for path in alone.parent.iterdir()] == ["copy.jsonl"]
    with Session.open(alone, readonly=True) as copy:
        assert copy.context(strict=True).messages == noted.context().messages
        assert [entry.uuid for entry in copy.path()] == [entry.uuid for entry in noted.path()]
        assert copy.leaf.line == last.line
        inlined = {"why": "x", "inlinedFrom": "notes@1.0.0::line"}
        assert copy.entry(pointer.uuid)["metadata"] == inlined
        assert copy.verify() == []


def test_an_inline_export_shows_attachments_as_the_original_does(
    copy: Path, stored: Session
) -> None:
    top = stored.attach(io.BytesIO(PNG), "image/png", preview="the new dialog")
    stored.attach(io.BytesIO(b"a note"), "text/plain", preview="notes.txt")
    stored.export_branch(top, copy, inline=True)
    shown = [row.preview for row in stored.tree()][1:]
    assert shown == ["the new dialog [image/png 77 KB]", "notes.txt [text/plain 6 B]"]
    with Session.open(copy, readonly=True) as copied:
        shown[1] = "notes.txt ```↵a note↵```"
        assert [row.preview for row in copied.tree()][1:] == shown
        assert [entry["preview"] for entry in copied.path()[1:]] == ["the new dialog", "notes.txt"]


def test_an_inline_export_without_a_blob_is_refused_and_one_without_a_plugin_says_so(
    file: Path, copy: Path, tmp_path: Path, stored: Session
) -> None:
    handles = [stored.append_handle("cone@1.0.0::run", kind="output") for _ in range(2)]
    with pytest.warns(SessionTreeWarning) as told:
        stored.export_branch(handles[0], tmp_path / "with.jsonl", inline=True)
    for entry, warning in zip(handles, told, strict=True):
        assert f"entry {entry.uuid} stays a handle" in str(warning.message)
    stored.append_message(user("long " * 9000))
    shutil.rmtree(f"{file}.blobs")
    with pytest.warns(SessionTreeWarning), pytest.raises(BlobMissingError):
        stored.export_branch(handles[0], copy, inline=True)
    assert not copy.exists()


TARGZ = b"\x1f\x8b\x08\0" + bytes(range(256)) * 9
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 9
LOG = b"started\n" * 40 + b"half a char\xe2\x82 and on\n"


@pytest.mark.parametrize(
    ("preview", "name"),
    [("the plan", "the plan.pdf"), ("the plan.PDF", "the plan.PDF"), (None, "document.pdf")],
)
def test_a_pdf_reaches_the_model_of_every_provider(
    stored: Session, preview: str | None, name: str
) -> None:
    stored.attach(io.BytesIO(PDF), preview=preview)
    context = stored.context()
    spelled = base64.b64encode(PDF).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": spelled}
    file = {"filename": name, "file_data": f"data:application/pdf;base64,{spelled}"}
    anthropic, chat = context.to_anthropic(), context.to_openai("chat")
    responses = context.to_openai()
    title = {} if preview is None else {"title": preview}
    document = {"type": "document", "source": source, **title}
    assert anthropic.params["messages"][0]["content"] == [document]
    assert responses.params["input"][0]["content"] == [{"type": "input_file", **file}]
    assert chat.params["messages"][0]["content"] == [{"type": "file", "file": file}]
    assert context.warnings + anthropic.warnings + responses.warnings + chat.warnings == []
    assert context.tokens >= 1200


def test_what_a_model_is_not_shown_is_named_in_the_warnings(file: Path, stored: Session) -> None:
    packed = stored.attach(io.BytesIO(TARGZ), "application/gzip").uuid
    log = stored.attach(io.BytesIO(LOG)).uuid
    for context in (stored.context(), stored.context(), stored.context(strict=True)):
        named, replaced = context.warnings
        told = f"handle {packed} is only named to a model, as application/gzip of 2,308 bytes"
        assert named.startswith(told)
        told = f"handle {log} is shown with U+FFFD in one place that is not UTF-8"
        assert replaced.startswith(told)
        assert "half a char\ufffd and on" in context.messages[1]["content"]
    stored.append_message(user("Look"))
    assert len(stored.context().warnings) == 2
    with Session.open(file, readonly=True) as session:
        assert len(session.context().warnings) == 2


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (PDF, "application/pdf"),
        (TARGZ, "application/gzip"),
        (LOG, "text/plain"),
        ("\u00e9t\u00e9\n".encode("latin-1") * 9, "text/plain"),
        (b"long\n" * 60_000, "text/plain"),
        (b"", "application/octet-stream"),
    ],
)
def test_an_inline_export_has_the_bytes_of_every_attachment_in_it(
    alone: Path, content: bytes, media_type: str, stored: Session
) -> None:
    top = stored.attach(io.BytesIO(content), media_type, preview="it.bin")
    stored.export_branch(top, alone, inline=True)
    assert [path.name for path in alone.parent.iterdir()] == ["copy.jsonl"]
    with Session.open(alone, readonly=True) as made:
        assert made.verify() == []
        context = made.context(strict=True)
        (block,) = context.messages[0]["content"]
        assert block["source"]["media_type"] == media_type
        assert base64.b64decode(block["source"]["data"]) == content
        assert block["title"] == "it.bin"
        request = context.to_anthropic()
        if content is PDF:
            assert request == stored.context().to_anthropic()
        else:
            assert len(request.warnings) == 1
        if content is LOG:
            assert "half a char\ufffd and on" in request.params["messages"][0]["content"][0]["text"]
        shown = [row.preview for row in made.tree()][1]
        assert shown.startswith(f"it.bin [{media_type if content else 'document'}")


def test_a_plugin_that_breaks_is_told_to_people_and_not_to_the_model() -> None:
    class Broken(Notes):
        def resolve(self, handle: Handle, scope: ResolverScope) -> Any:
            return [][7]

    with Session.create(registry=Registry([Broken()])) as session:
        session.append_handle("notes@1.0.0::line")
        context = session.context()
    placeholder = "[notes@1.0.0::line cannot be resolved: its resolver failed]"
    assert context.messages == [user(placeholder)]
    assert "IndexError: list index out of range" in context.warnings[0]
