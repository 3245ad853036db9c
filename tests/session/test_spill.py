"""Large strings lie in blobs, and nobody who reads a session can tell."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import orjson
import pytest

from sessiontree import HookRejectedError, Redaction, Session, SessionTreeWarning, UsageError
from sessiontree.errors import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    SessionExistsError,
)
from sessiontree.library.search import search
from sessiontree.library.search_file import SearchFilter
from sessiontree.storage.fs import DISK, Disk, FileSystem
from sessiontree.text.pattern import Pattern
from tests.support.conversation import user
from tests.support.table import for_each

PNG = base64.b64encode(bytes(range(256)) * 400).decode()
LONG = "a long answer, " * 4000


def screenshot(call: str = "c1") -> dict[str, Any]:
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    content = [{"type": "text", "text": "done"}, image]
    return {"role": "toolResult", "toolCallId": call, "toolName": "shot", "content": content}


def calling(call: str = "c1") -> dict[str, Any]:
    block = {"type": "toolCall", "id": call, "name": "shot", "arguments": {"path": "x"}}
    return {"role": "assistant", "content": [block]}


def talk(session: Session) -> None:
    session.append_message(user("Look at it"))
    for call in ("c1", "c2"):
        session.append_message(calling(call))
        session.append_message(screenshot(call))
    session.append_message({"role": "assistant", "content": [{"type": "text", "text": LONG}]})


def blobs_of(file: Path) -> list[Path]:
    folder = Path(f"{file}.blobs")
    return sorted(folder.iterdir()) if folder.exists() else []


@for_each("spill_over", [0, 100, 32768])
def test_a_context_over_spilled_entries_is_the_inline_one_byte_for_byte(
    tmp_path: Path, spill_over: int
) -> None:
    contexts = []
    for name, over in (("inline", None), ("spilled", spill_over)):
        with Session.create(tmp_path / name, spill_over=over) as session:
            talk(session)
            live = orjson.dumps(session.context().messages)
        with Session.open(tmp_path / name, readonly=True) as session:
            assert orjson.dumps(session.context().messages) == live
            contexts.append(live)
            assert session.damage == []
    assert contexts[0] == contexts[1]
    assert (tmp_path / "inline").stat().st_size > 5 * (tmp_path / "spilled").stat().st_size


def test_the_same_screenshot_in_two_messages_is_stored_once(file: Path) -> None:
    with Session.create(file) as session:
        talk(session)
    assert sorted(blob.stat().st_size for blob in blobs_of(file)) == [len(LONG), len(PNG)]


def test_small_entries_make_no_folder(file: Path, tmp_path: Path) -> None:
    with Session.create(file) as session:
        session.append_message(user("x" * 32768))
    assert os.listdir(tmp_path) == ["s.jsonl", "s.jsonl.lock"]


def test_an_entry_gives_what_was_appended_and_tells_its_line(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(calling())
        entry = session.append_message(screenshot())
        assert entry["message"] == screenshot()
        assert session.entry(entry.uuid)["message"] == screenshot()
        assert dict(entry.body)["message"] == screenshot()
        stored = entry.message_as_stored
        assert stored["content"][0]["text"] == "done"
        assert stored["content"][1]["data"].startswith("blob@1.0.0::sha256:")
        assert len(entry.line) < 1000


def test_the_tree_a_path_and_the_branches_read_no_blob(file: Path) -> None:
    with Session.create(file) as session:
        talk(session)
    shutil.rmtree(f"{file}.blobs")
    with Session.open(file) as session:
        assert [row.preview for row in session.tree()][1] == "Look at it"
        assert len(list(session.render())) > 5
        assert len(session.branches()) == 1
        assert [entry.type for entry in session.path()][1:] == ["message"] * 6
        assert len(session.turns()) == 1
        assert len(session.find(tool_call_id="c2")) == 2
        assert session.rewind() == "Look at it"


def test_previews_are_those_of_the_same_session_inline(tmp_path: Path) -> None:
    shown = []
    for name, over in (("inline", None), ("spilled", 32768)):
        with Session.create(tmp_path / f"{name}.jsonl", spill_over=over) as session:
            talk(session)
            session.append_message(user(LONG))
        shutil.rmtree(tmp_path / f"{name}.jsonl.blobs", ignore_errors=True)
        with Session.open(tmp_path / f"{name}.jsonl", readonly=True) as session:
            shown.append([row.preview for row in session.tree()][1:])
    assert shown[0] == shown[1]
    assert shown[0][2] == "done [image/png 102 KB]"
    assert shown[0][-1].startswith("a long answer, a long")


@for_each(
    "pattern, regex, inside, with_blobs",
    [
        ("long answer", False, 0, 1),
        (f"^{LONG[:200]}$", True, 0, 0),  # the beginning is not the text
        ("the short one", False, 1, 1),
    ],
)
def test_a_search_finds_no_beginning_and_each_entry_once(
    tmp_path: Path, pattern: str, regex: bool, inside: int, with_blobs: int
) -> None:
    with Session.create(tmp_path / "s.jsonl") as session:
        session.append_message(user("the short one"))
        session.append_message(user(LONG))
    looked_for = Pattern(pattern, regex=regex)
    for blobs, count in ((False, inside), (True, with_blobs)):
        found = search(
            looked_for, [str(tmp_path / "s.jsonl")], SearchFilter(blobs=blobs), pytest.fail
        )
        assert len(list(found)) == count


@for_each("compact", [False, True])
def test_each_lost_string_of_a_context_is_a_placeholder_and_one_warning(
    file: Path, compact: bool
) -> None:
    with Session.create(file, spill_over=100) as session:
        session.append_message(user("old"))
        edited = session.append_message(user("u" * 500))
        session.append_message({"role": "system", "content": "s" * 500})
        session.edit_context(edited, "e" * 500)
        with session.lane("side", "@") as side:
            side.append_message(user("l" * 500))
        session.merge("side")
        if compact:
            session.compact("short", first_kept=edited)
    shutil.rmtree(f"{file}.blobs")
    with Session.open(file, readonly=True) as session:
        context = session.context()
        contents = [message["content"] for message in context.messages]
        assert all("is missing]" in str(content) for content in contents[1:])
        lost = [warning.partition(" cannot be read")[0] for warning in context.warnings]
        kinds = [warning.split()[-2] for warning in lost]
        rest = ["message", "message", "context_edit", "message"]
        assert kinds == ["compaction"] * compact + rest
        with pytest.raises(BlobMissingError):
            session.context(strict=True)


def test_a_missing_blob_is_a_placeholder_in_a_context_and_an_error_when_asked_for(
    file: Path, tmp_path: Path
) -> None:
    with Session.create(file) as session:
        talk(session)
        whole = session.context().messages
    image = next(blob for blob in blobs_of(file) if blob.stat().st_size == len(PNG))
    kept = image.rename(tmp_path / "kept")
    with Session.open(file) as session:
        context = session.context()
        assert [m["role"] for m in context.messages] == [m["role"] for m in whole]
        placeholder = context.messages[2]
        assert placeholder["toolCallId"] == "c1"
        assert placeholder["content"][0] == {"type": "text", "text": "done"}
        assert placeholder["content"][1]["type"] == "text"
        assert placeholder["content"][1]["text"] == f"[missing: blob {image.name[:12]} is missing]"
        assert len([w for w in context.warnings if "missing" in w]) == 2
        with pytest.raises(BlobMissingError, match=image.name):
            session.context(strict=True)
        with pytest.raises(BlobMissingError):
            context.entries[2]["message"]
        kept.rename(image)
        assert session.context().messages == whole


def _link(blob: Path) -> None:
    blob.rename(blob.parent / "elsewhere")
    blob.symlink_to("elsewhere")


class Refusing(Disk):
    """Will not read blobs."""

    def open(self, path: str, flags: int) -> int:
        if ".blobs/" in path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return super().open(path, flags)


@for_each(
    "damage, fs, error",
    [
        (Path.unlink, DISK, BlobMissingError),
        (lambda blob: blob.write_bytes(blob.read_bytes()[:-1]), DISK, BlobDamagedError),
        (lambda blob: blob.write_bytes(b"?" * blob.stat().st_size), DISK, BlobDamagedError),
        (_link, DISK, BlobDamagedError),
        (Path.exists, Refusing(), BlobUnreadableError),
    ],
)
def test_whatever_is_wrong_with_a_blob_it_is_told_and_hides_nothing_else(
    file: Path, damage: Callable[[Path], object], fs: FileSystem, error: type[BlobError]
) -> None:
    copy = file.with_name("copy.jsonl")
    with Session.create(file) as session:
        spilled = session.append_message(user(LONG))
        attached = session.attach(io.BytesIO(b"a picture"), "image/png")
        session.append_message(user("the rest"))
        shown = [row.preview for row in session.tree()]
    for blob in blobs_of(file):
        damage(blob)
    with Session.open(file, readonly=True, fs=fs) as session:
        context = session.context()
        said = [message["content"] for message in context.messages]
        assert said[2] == "the rest"
        assert all(content.startswith("[") and "blob " in content for content in said[:2])
        assert len(context.warnings) == 2
        uses: list[Callable[[], object]] = [
            lambda: session.context(strict=True),
            lambda: session.entry(spilled.uuid)["message"],
            lambda: session.resolve(attached["handle"]),
            lambda: session.export_branch(spilled.uuid, copy, inline=True),
        ]
        if error is BlobUnreadableError:  # there it is, for who asks again
            uses += [
                lambda: session.export_branch(spilled.uuid, copy),
                lambda: session.export_branch(spilled.uuid, copy, redact=Redaction()),
                lambda: session.fork(copy),
            ]
        for use in uses:
            with pytest.raises(error):
                use()
            assert not copy.exists()
        assert error is not BlobUnreadableError or not Path(f"{copy}.blobs").exists()
        assert [damage.kind for damage in session.verify()] == ["blob", "blob"]
        assert [row.preview for row in session.tree()] == shown


def test_a_veto_writes_no_blob(file: Path) -> None:
    class Refusing:
        def before_append(self, session: Session, entry: Any) -> None:
            assert entry["message"]["content"] == LONG
            raise HookRejectedError("no")

    with Session.create(file, hooks=[Refusing()]) as session, pytest.raises(HookRejectedError):
        session.append_message(user(LONG))
    assert blobs_of(file) == []


def test_a_blob_that_vanished_before_the_line_was_written_is_written_again(file: Path) -> None:
    with Session.create(file) as session:
        held = session.writer.holding

        def held_after_a_sweep() -> AbstractContextManager[None]:
            for blob in blobs_of(file):
                blob.unlink()
            return held()

        session.writer.holding = held_after_a_sweep  # type: ignore[method-assign, assignment]
        entry = session.append_message(user(LONG))
    with Session.open(file) as session:
        assert session.entry(entry.uuid)["message"]["content"] == LONG


def test_a_batch_and_a_compaction_spill_too(file: Path) -> None:
    with Session.create(file, spill_over=50) as session:
        with session.batch():
            for n in range(20):
                session.append_message(user(f"{n} " + "words " * 50))
        session.compact(summary="so far " * 30, keep=100)
        session.append_message(user("on"))
        session.branch(session.path()[-2], summary="left " * 40)
        live = session.context().messages
    with Session.open(file, readonly=True) as session:
        assert session.context().messages == live
        assert live[-1]["content"] == "left " * 40


def test_a_session_in_memory_keeps_its_content_inline() -> None:
    with Session.create() as session:
        entry = session.append_message(user(LONG))
        assert LONG.encode() in entry.line


@for_each("wrong", [-1, 1.5, "many"])
def test_a_wrong_spill_over_is_refused(tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(UsageError, match="spill_over"):
        Session.create(tmp_path / "s.jsonl", spill_over=wrong)


@for_each("copy", ["fork", "export"])
def test_a_copy_shares_the_blobs_and_outlives_its_original(file: Path, copy: str) -> None:
    target = file.with_name("copy.jsonl")
    with Session.create(file) as session:
        talk(session)
        live = session.context().messages
        if copy == "fork":
            session.fork(target)
        else:
            session.export_branch(session.path()[1], target)
        session.append_message(user("not copied " * 9000))
    assert [b.stat().st_ino for b in blobs_of(target)] == [
        b.stat().st_ino for b in blobs_of(file) if b.stat().st_nlink == 2
    ]
    assert len(blobs_of(target)) == 2
    file.unlink()
    shutil.rmtree(f"{file}.blobs")
    with Session.open(target) as session:
        assert session.context(strict=True).messages == live


def test_a_copy_of_a_session_that_lost_a_blob_says_so_and_is_made(file: Path) -> None:
    target = file.with_name("copy.jsonl")
    with Session.create(file) as session:
        talk(session)
        image = next(blob for blob in blobs_of(file) if blob.stat().st_size == len(PNG))
        image.unlink()
        with pytest.warns(SessionTreeWarning, match="lacks a blob, as"):
            session.fork(target)
    assert len(blobs_of(target)) == 1


def test_a_copy_onto_a_taken_name_leaves_no_blobs_behind(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl") as session:
        talk(session)
        (tmp_path / "taken.jsonl").touch()
        with pytest.raises(SessionExistsError):
            session.fork(tmp_path / "taken.jsonl")
    assert blobs_of(tmp_path / "taken.jsonl") == []


def test_a_session_in_memory_that_spills_is_copied_to_the_disk_with_its_blobs(file: Path) -> None:
    with Session.create() as session:
        session.writer.spill_over = 100
        talk(session)
        live = session.context().messages
        session.fork(file)
    with Session.open(file, readonly=True) as session:
        assert session.context(strict=True).messages == live


def test_verify_names_the_line_whose_blob_is_lost_or_wrong(file: Path) -> None:
    with Session.create(file) as session:
        talk(session)
        assert session.verify() == []
        for blob in blobs_of(file):
            if blob.stat().st_size == len(PNG):
                blob.unlink()
            else:
                blob.write_bytes(b"?" * len(LONG))
        found = session.verify()
    assert [(damage.kind, damage.line) for damage in found] == [("blob", 4), ("blob", 7)]
    assert "is missing" in found[0].cause
    assert "not those" in found[1].cause


def test_a_header_whose_blob_is_missing_breaks_no_context(path: Path) -> None:
    handle = f"blob@1.0.0::sha256:{'0123456789abcdef' * 4}:40000:text/plain"
    header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h", "id": "s"}
    given = {"parentUuid": None, "name": handle, "spilled": [[["name"], handle]]}
    message = {"type": "message", "uuid": "m", "parentUuid": "h", "message": user("hello")}
    path.write_text(f"{json.dumps(header | given)}\n{json.dumps(message)}\n")
    with Session.open(path, readonly=True) as session:
        context = session.context()
    assert [one["content"] for one in context.messages] == ["hello"]
    assert any("the spilled strings of session h cannot be read" in w for w in context.warnings)
