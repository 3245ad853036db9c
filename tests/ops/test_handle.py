"""`handle`: the forms of handles, and what they point to."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Handle, Session
from sessiontree.handles.registry import HandleSchema, MetaField, Registry, ResolverScope
from tests.support.calls import Calls
from tests.support.saying import PIXEL
from tests.support.sessions import chat
from tests.support.table import for_each

NOTES = "# Notes\n" * 40_000


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A session with a prompt, a picture and a text of 320 KB."""
    (tmp_path / "pixel.gif").write_bytes(base64.b64decode(PIXEL))
    (tmp_path / "notes.md").write_text(NOTES)
    file = chat(tmp_path / "s.jsonl", "hello")
    with Session.open(file) as session:
        session.attach(tmp_path / "pixel.gif")
        session.attach(tmp_path / "notes.md")
    return str(file)


def handles(file: str) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [str(entry["handle"]) for entry in session.find(type="handle")]


def test_schemas_are_those_of_the_registry(calls: Calls) -> None:
    found = calls.pages("handle.schemas", budget=300)
    assert len(found) == len(Registry.default().schemas())
    forms = {form["form"].partition("::")[2]: form["kind"] for form in found}
    assert forms["path:<path>"] == "binary"
    assert forms["entry:<session id>:<uuid>"] == "message"


def test_a_message_is_resolved(calls: Calls, file: str) -> None:
    with Session.open(file, readonly=True) as session:
        pointer = str(Handle.entry(session.id, session.path()[1].uuid))
    found = calls.value("handle.resolve", session=file, handle=pointer)
    assert found["kind"] == "message"
    assert found["data"] == {"role": "user", "content": "hello"}


class Notes:
    """Resolves the messages of an older store, which names them `msg-<id>:<role>`."""

    schemas = (HandleSchema("notes", "message", "1.x", [MetaField("id"), MetaField("role")]),)

    def resolve(self, handle: Handle, scope: ResolverScope) -> dict[str, str]:
        id, role = handle.meta
        return {"role": role, "content": f"note {id}"}


def test_a_handle_is_resolved_and_written_in_its_json_forms_too(calls: Calls, file: str) -> None:
    assert calls.scope.registry is not None
    calls.scope.registry.register(Notes())
    older = {"source": "notes", "source_version": "1.0.0", "identifier": "msg-7:assistant"}
    note = {"role": "assistant", "content": "note 7"}
    text = "notes@1.0.0::message:7:assistant"
    for form in (older, text, Handle.parse(text).as_dict()):
        found = calls.value("handle.resolve", session=file, handle=form)
        assert (found["handle"], found["data"]) == (text, note)
        calls.value("node.create_handle", session=file, handle=form)
    assert handles(file)[-3:] == [text] * 3
    answer = calls("handle.resolve", session=file, handle={"source": "notes"})
    assert "identifier" in str(answer.error)


def test_a_handle_that_names_its_session_needs_no_other(calls: Calls) -> None:
    with calls.scope.store.create(id="named") as session:
        session.append_message({"role": "user", "content": "hello"})
        pointer = str(Handle.entry(session.id, session.path()[1].uuid))
    assert calls.value("handle.resolve", handle=pointer)["data"]["content"] == "hello"
    gone = calls("handle.resolve", handle=pointer.replace("named", "gone"))
    assert gone.kind == "unresolved_handle"


def test_a_named_session_outside_the_places_stays_closed(calls: Calls, tmp_path: Path) -> None:
    outside = chat(tmp_path.parent / f"{tmp_path.name}-outside.jsonl", "secret")
    link = Path(calls.scope.store.root) / "p" / "link.jsonl"
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside)
    with Session.open(outside, readonly=True) as session:
        pointer = str(Handle.entry(session.id, session.path()[1].uuid))
    answer = calls("handle.resolve", handle=pointer)
    assert answer.kind == "unresolved_handle"
    assert "secret" not in str(answer.events)


def test_bytes_are_base64_and_a_text_is_text(calls: Calls, file: str) -> None:
    picture, notes = (calls("handle.resolve", session=file, handle=one) for one in handles(file))
    assert (picture.value["data"], picture.value["base64"]) == (PIXEL, True)
    assert picture.value["media_type"] == "image/gif"
    assert notes.tokens <= 4000
    ((cut,), shown) = notes.value["cut"], notes.value["data"]
    assert (cut["length"], notes.value["bytes"]) == (len(NOTES), len(NOTES))
    assert shown[: cut["shown"]] == NOTES[: cut["shown"]]
    given = {"session": file, "handle": notes.value["handle"], "part": "", "budget": 0}
    rest = calls.value("handle.resolve", offset=cut["shown"], **given)
    assert shown[: cut["shown"]] + rest["text"] == NOTES


def test_a_file_is_read_below_a_root_in_the_scope(calls: Calls, tmp_path: Path) -> None:
    (tmp_path / "pixel.txt").write_text("a dot")
    pointer = "file@1.0.0::path:pixel.txt"
    assert calls("handle.resolve", handle=pointer).kind == "unresolved_handle"
    assert calls.value("handle.resolve", handle=pointer, root=str(tmp_path))["data"] == "a dot"


@for_each(
    ("pointer", "kind"),
    [
        ("nothing", "bad_handle"),
        ("file@1.0.0::path:../up", "bad_handle"),
        ("unknown@1.0.0::a:b", "unresolved_handle"),
        ("session@2.0.0::entry:elsewhere:u1", "unresolved_handle"),
        (f"blob@1.0.0::sha256:{'0' * 64}:1:text/plain", "blob"),
        ("file@1.0.0::path:notes.md", "unresolved_handle"),
    ],
)
def test_what_cannot_be_resolved_is_refused(
    calls: Calls, file: str, pointer: str, kind: str
) -> None:
    assert calls("handle.resolve", session=file, handle=pointer).kind == kind


def test_a_blob_needs_its_session(calls: Calls, file: str) -> None:
    answer = calls("handle.resolve", handle=handles(file)[0])
    assert answer.kind == "unresolved_handle"
    assert "session" in str(answer.error)


def test_a_cut_text_gives_no_half_of_a_secret_away(tmp_path: Path) -> None:
    """Each passage is made of the masked text, wherever it begins."""
    secret = "sk-ant-api03-" + "Ab3" * 28 + "-AAAA"
    (tmp_path / "keys.txt").write_text(f"key: {secret} end")
    calls = Calls(tmp_path, redact=True)
    given: dict[str, Any] = {"handle": "file@1.0.0::path:keys.txt", "root": str(tmp_path)}
    whole = calls.value("handle.resolve", **given)["data"]
    assert secret[20:40] not in whole
    for offset in range(0, len(whole), 7):
        text = calls.value("handle.resolve", part="", offset=offset, **given)["text"]
        assert text == whole[offset:]
