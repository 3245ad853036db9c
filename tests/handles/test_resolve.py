"""The handles of a session, resolved along a path, over a tree, and for a context."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Entry, Session
from sessiontree.context.resolved import LONGEST_TEXT, ResolvedHandle
from sessiontree.core.blocks import ShownHandle
from sessiontree.core.handle import Handle
from sessiontree.errors import BlobMissingError, HandleError, SessionTreeError, UnknownHandleError
from sessiontree.handles.registry import Registry
from sessiontree.handles.resolve import HandleScope
from tests.support.conversation import user
from tests.support.lines import entry
from tests.support.plugins import Plugin, handle, said
from tests.support.table import for_each

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session.create(tmp_path / "s.jsonl", id="s", cwd="/")


@pytest.fixture
def plugin() -> Plugin:
    return Plugin("p")


def pointing(session: Session, to: Handle | str, **more: Any) -> Entry:
    return session.append("handle", handle=str(to), kind="message", **more)


def test_the_path_comes_with_its_handles_resolved(session: Session, plugin: Plugin) -> None:
    prompt = session.append_message(user("hi"))
    good = pointing(session, handle(1))
    bad = pointing(session, "x@1.0.0::a")
    wrong = pointing(session, "no handle")
    left = pointing(session, handle(2), parent=prompt)
    again = pointing(session, handle(1), parent=wrong)
    found = HandleScope(session, Registry([plugin])).resolved_path()
    assert [each.entry for each in found] == session.path()
    assert [each.entry for each in found[1:]] == [prompt, good, bad, wrong, again]
    assert (found[1].resolved, found[1].error) == (None, None)
    assert found[2].resolved == ResolvedHandle(handle(1), "message", said(str(handle(1))))
    assert isinstance(found[3].error, UnknownHandleError)
    assert isinstance(found[4].error, HandleError)
    assert found[5].resolved == found[2].resolved
    assert plugin.asked == [handle(1)]
    assert HandleScope(session, Registry([plugin])).resolved_path(left)[-1].resolved is not None


def test_the_tree_comes_with_its_handles_resolved(session: Session, plugin: Plugin) -> None:
    prompt = session.append_message(user("hi"))
    one = pointing(session, handle(1))
    below = session.append_message({"role": "assistant", "content": "below"})
    two = pointing(session, "x@1.0.0::a", parent=prompt)
    top = HandleScope(session, Registry([plugin])).resolved_tree()
    assert top.entry == session.header
    (first,) = top.children
    assert first.entry == prompt
    assert [child.entry for child in first.children] == [one, two]
    assert first.children[0].resolved is not None
    assert [child.entry for child in first.children[0].children] == [below]
    assert isinstance(first.children[1].error, UnknownHandleError)
    part = HandleScope(session, Registry([plugin])).resolved_tree(one)
    assert (part.entry, [child.entry for child in part.children]) == (one, [below])


def test_a_chain_of_any_depth_is_a_tree(session: Session) -> None:
    with session.batch():
        for number in range(3000):
            session.append_message(user(str(number)))
    node, depth = HandleScope(session, Registry()).resolved_tree(), 0
    while node.children:
        (node,), depth = node.children, depth + 1
    assert depth == 3000


def test_one_and_many_are_resolved_in_the_session(session: Session, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    blob = Handle.blob(*session.blobs.put(PNG), "image/png")
    found = HandleScope(session, root=str(tmp_path)).resolve_many(
        [blob, "no handle", Handle.file("a.txt"), blob]
    )
    assert [each.data for each in found if isinstance(each, ResolvedHandle)] == [PNG, b"a", PNG]
    assert isinstance(found[1], HandleError)
    assert HandleScope(session).resolve(str(blob)).data == PNG


def test_a_context_gets_a_message_for_each_handle(session: Session) -> None:
    blob = Handle.blob(*session.blobs.put(PNG), "image/png")
    output = {"stdout": "done", "stderr": "", "exitCode": 0}
    shell = Plugin("sh", kind="output", resolve=lambda handle, scope: output)
    document = Plugin("doc", kind="document", resolve=lambda handle, scope: {"a": 1})
    registry = Registry([*Registry.default()._resolvers, Plugin("p"), shell, document])
    others = (handle(1, "sh"), handle(1, "doc"), blob, handle(1, "none"), "no handle")
    entries = [pointing(session, handle(1), role="assistant")]
    entries += [pointing(session, other) for other in others]
    found = HandleScope(session, registry).messages(entries)
    assert [each.message for each in found[:4] if isinstance(each, ShownHandle)] == [
        {"role": "assistant", "content": str(handle(1))},
        user("```\ndone\n```"),
        user('{"a":1}'),
        user([{"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}]),
    ]
    assert [type(each) for each in found[4:]] == [UnknownHandleError, HandleError]


def test_a_blob_that_is_only_named_is_not_read(session: Session) -> None:
    large, small = session.blobs.put(b"x" * (LONGEST_TEXT + 1)), session.blobs.put(b"short")
    entries = [
        pointing(session, Handle.blob(*large, "video/mp4"), role="assistant"),
        pointing(session, Handle.blob(*large, "text/plain")),
        pointing(session, Handle.blob(*small, "text/plain")),
    ]
    session.blobs.remove(large.sha256)
    session.blobs.remove(small.sha256)
    video, log, note = HandleScope(session).messages(entries)
    named = f"blob@1.0.0::sha256:{large.sha256}:262145:video/mp4"
    assert isinstance(video, ShownHandle)
    assert video.message == {"role": "assistant", "content": f"[video/mp4, 262,145 bytes: {named}]"}
    assert isinstance(log, ShownHandle)
    assert "only named to a model" in video.lack
    assert "only named to a model" in log.lack
    assert log.message["content"].startswith("[text/plain, 262,145 bytes: ")
    assert isinstance(note, BlobMissingError)


@for_each(
    "stored", [None, 5, {}, "blob@1.0.0::sha256:00", "blob@1.0.0::sha256:0:x:video/mp4", ["a"]]
)
def test_whatever_an_entry_has_for_a_handle_is_an_error_of_this_package(
    session: Session, stored: Any
) -> None:
    (found,) = HandleScope(session).messages([entry("handle", handle=stored, kind="binary")])
    assert isinstance(found, SessionTreeError)
    assert isinstance(HandleScope(session).messages([entry("handle")])[0], HandleError)


def test_the_fields_of_an_entry_are_made_of_a_handle_in_any_form(session: Session) -> None:
    blob = Handle.blob("0" * 64, 1, "image/png")
    handles = HandleScope(session)
    assert handles.entry_fields(blob) == {"handle": str(blob), "kind": "binary"}
    older = {"source": "cone", "source_version": "1.0.0", "identifier": "msg-1:user:bob"}
    hints = {"metadata": {"a": 1, "b": 1}}
    shown: dict[str, Any] = {"kind": "message", "role": "user", "preview": "hi"}
    fields = handles.entry_fields({**older, **hints}, metadata={"b": 2}, **shown)
    made = {"handle": "cone@1.0.0::message:1:user:bob", "metadata": {"a": 1, "b": 2}}
    assert fields == {**made, **shown}
    assert session.append("handle", **fields)["metadata"] == {"a": 1, "b": 2}


def test_a_handle_in_a_json_form_is_resolved_as_its_text_form(session: Session) -> None:
    entry = session.append_message({"role": "user", "content": "Hi"})
    handle = Handle.entry(session.id, entry.uuid)
    (one,) = session.resolve_many([handle.as_dict()])
    assert one == session.resolve(str(handle)) == session.resolve(handle.as_dict())
    older = {"source": "cone", "source_version": "1.0.0", "identifier": "msg-1:user"}
    with pytest.raises(SessionTreeError, match="unknown plugin 'cone'"):
        session.resolve(older)


@for_each(
    "wanted, given, part",
    [
        ("no handle", {}, "handle"),
        ("blob@1.0.0::sha256:00:1:text/plain", {}, "meta[0] (sha256)"),
        ("cone@1.0.0::chat", {}, "kind"),
        ("cone@1.0.0::chat", {"kind": "video"}, "kind"),
        ("cone@1.0.0::chat", {"kind": "message", "metadata": {"k": "x" * 1024}}, "metadata"),
    ],
)
def test_no_entry_is_made_of_a_wrong_handle(
    session: Session, wanted: str, given: Any, part: str
) -> None:
    with pytest.raises(HandleError) as refused:
        HandleScope(session).entry_fields(wanted, **given)
    assert refused.value.part == part
