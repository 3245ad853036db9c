"""Appending: what is kept as given, and what is refused with nothing written."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from sessiontree import (
    EntryError,
    ReadOnlyError,
    RefError,
    Session,
    Store,
    StreamAccumulator,
    UsageError,
)
from sessiontree.errors import InvalidNameError, SessionNotFoundError, SessionTreeError
from tests.support.conversation import assistant, in_memory, said, talk, user
from tests.support.terminal import contents


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with Session.create(file, cwd="/p") as session:
        talk(session, "p1", "a1")
        yield session


def _refused(session: Session, append: Callable[[], object], error: type[Exception]) -> str:
    """The message of a refusal that left the file, the leaf and the session as they were."""
    assert session.file is not None
    before, leaf = Path(session.file).read_bytes(), session.leaf
    with pytest.raises(error) as caught:
        append()
    assert Path(session.file).read_bytes() == before
    assert session.leaf is leaf
    assert isinstance(caught.value, SessionTreeError)
    assert session.append_message(user("still here")).parent_uuid == leaf.uuid
    return str(caught.value)


def test_own_types_and_unknown_keys_are_kept_as_given(session: Session, file: Path) -> None:
    odd = {"nested": [1, 2.5, None, {"ключ": "\u2028\x00"}], "big": 2**80}
    entry = session.append("x-todo", items=odd, firstKeptEntryUuid="whatever")
    message = session.append(
        "message", message={**user("p2"), "vendor": odd}, extra=True, metadata={"cost": 1}
    )
    assert session.context().warnings == [
        "entries of the unknown type 'x-todo' are kept, but are not in the context"
    ]
    with Session.open(file, readonly=True) as reader:
        again = reader.entry(entry.uuid)
        assert (again["items"], again["firstKeptEntryUuid"]) == (odd, "whatever")
        assert reader.leaf["message"]["vendor"] == odd
        assert (reader.leaf["extra"], reader.leaf["metadata"]) == (True, {"cost": 1})
        assert reader.leaf == message


def test_a_parent_may_be_any_entry(session: Session) -> None:
    entry = session.append_message(user("p2"), parent="@~1", metadata={"why": "retry"})
    assert entry.parent_uuid == session.path()[-2].uuid
    assert said(session.context()) == ["p1", "p2"]
    assert entry["metadata"] == {"why": "retry"}


def test_a_parent_that_does_not_exist_is_refused(session: Session) -> None:
    text = _refused(session, lambda: session.append_message(user("x"), parent="gone"), RefError)
    assert "gone" in text


@pytest.mark.parametrize("uuid", ["mine", "HEADER", "", 5])
def test_a_uuid_that_is_taken_or_is_none_is_refused(session: Session, uuid: Any) -> None:
    assert session.append("custom", customType="x", uuid="mine").uuid == "mine"
    uuid = session.header.uuid if uuid == "HEADER" else uuid
    _refused(session, lambda: session.append("custom", customType="x", uuid=uuid), EntryError)


def test_a_uuid_that_another_writer_took_is_refused(session: Session, file: Path) -> None:
    with Session.open(file) as other:
        other.append("custom", customType="x", uuid="theirs")
    with pytest.raises(EntryError, match="taken"):
        session.append("custom", customType="x", uuid="theirs")


@pytest.mark.parametrize(
    "key", ["version", "format", "parentUuid", "lane", "timestamp", "spilled", "crc"]
)
def test_a_reserved_key_is_refused(session: Session, key: str) -> None:
    fields: dict[str, Any] = {"customType": "x", key: 1}
    assert key in _refused(session, lambda: session.append("custom", **fields), EntryError)


def test_the_callers_dict_is_not_kept(session: Session, file: Path) -> None:
    message = assistant("as it was")
    metadata: dict[str, Any] = {"n": [1]}
    entry = session.append_message(message, metadata=metadata)
    message["content"][0]["text"] = "changed"
    message["role"] = "user"
    metadata["n"].append(2)
    assert said(session.context())[-1] == "as it was"
    assert (entry["message"]["role"], entry["metadata"]) == ("assistant", {"n": [1]})
    with Session.open(file, readonly=True) as reader:
        assert said(reader.context())[-1] == "as it was"


def test_the_dict_is_not_kept_in_a_batch_either(session: Session) -> None:
    message = user("as it was")
    with session.batch():
        session.append_message(message)
        message["content"] = "changed"
    assert said(session.context())[-1] == "as it was"


@pytest.mark.parametrize(
    "message", [{}, {"content": "x"}, {"role": ""}, {"role": 5}, None, "x", []]
)
def test_a_message_without_a_role_is_refused(session: Session, message: Any) -> None:
    text = _refused(session, lambda: session.append_message(message), EntryError)
    assert "role" in text or "dict" in text


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, "\ud800", b"bytes", {"a set"}, NotImplemented, 1 + 2j),
        *({1: "key"}, {("a", "b"): 1}, {"\udfff": 1}, [2**80, math.nan], [2**80, b"x"]),
        *([2**80, {"a"}], Path("/p"), CIRCLE),
    ],
    ids=repr,
)
@pytest.mark.parametrize("where", ["message", "field", "metadata"])
def test_what_json_cannot_carry_is_refused(session: Session, where: str, value: Any) -> None:
    wanted: dict[str, Callable[[], object]] = {
        "message": lambda: session.append_message(user(value)),
        "field": lambda: session.append("custom", customType="x", data=[value]),
        "metadata": lambda: session.append_message(user("x"), metadata={"k": value}),
    }
    _refused(session, wanted[where], EntryError)


@pytest.mark.parametrize("depth", [300, 5_000, 1_000_000])
def test_a_nesting_too_deep_for_other_readers_is_refused(session: Session, depth: int) -> None:
    message = user(_nested(depth))
    _refused(session, lambda: session.append_message(message), EntryError)


@pytest.mark.parametrize("metadata", ["text", 5, ["x"]])
def test_metadata_is_a_dict(session: Session, metadata: Any) -> None:
    _refused(session, lambda: session.append_message(user("x"), metadata=metadata), EntryError)


REQUIRED: dict[str, dict[str, Any]] = {
    "message": {"message": user("x")},
    "handle": {"handle": "blob@1.0.0::sha256:aa:1:text/plain", "kind": "document"},
    "compaction": {"summary": "s", "firstKeptEntryUuid": "LEAF", "tokensBefore": 0},
    "branch_summary": {"summary": "s", "fromUuid": "LEAF"},
    "stack_summary": {"summary": "s", "fromUuid": "LEAF"},
    "merge": {"mergedUuid": "LEAF", "baseUuid": "LEAF"},
    "context_edit": {"targetUuid": "LEAF", "replacement": None},
    "model_change": {"provider": "anthropic", "modelId": "m"},
    "thinking_level_change": {"thinkingLevel": "high"},
    "custom": {"customType": "x"},
    "custom_message": {"customType": "x", "content": "c", "display": True},
    "label": {"targetUuid": "LEAF", "label": "name"},
    "usage": {"kind": "chat", "provider": "p", "model": "m", "usage": {}},
    "block": {"messageUuid": "m", "index": 0, "block": {"type": "text", "text": "x"}},
    "message_end": {"messageUuid": "m", "role": "assistant"},
}
OPTIONAL: dict[str, dict[str, Any]] = {
    "branch": {"name": "n"},
    "stack_push": {"note": "n"},
    "session_info": {"name": "n", "metadata": {"a": 1}},
}


def _fields(session: Session, type: str) -> dict[str, Any]:
    fields = {**REQUIRED, **OPTIONAL}[type]
    return {key: session.leaf.uuid if value == "LEAF" else value for key, value in fields.items()}


@pytest.mark.parametrize("type", [*REQUIRED, *OPTIONAL])
def test_every_type_is_written_with_its_fields(session: Session, file: Path, type: str) -> None:
    fields = _fields(session, type)
    entry = session.append(type, **fields)
    assert entry.type == type
    with Session.open(file, readonly=True) as reader:
        assert {key: reader.leaf[key] for key in fields} == fields
        reader.context()
        list(reader.tree())
        list(reader.render())


@pytest.mark.parametrize(
    ("type", "key"), [(t, k) for t, fields in REQUIRED.items() for k in fields]
)
def test_a_missing_or_wrong_field_is_refused_by_name(session: Session, type: str, key: str) -> None:
    fields = _fields(session, type)
    without = {k: v for k, v in fields.items() if k != key}
    if key != "fromUuid":  # it may be missing
        assert repr(key) in _refused(session, lambda: session.append(type, **without), EntryError)
    wrong = {**fields, key: object if key == "message" else b"wrong"}
    _refused(session, lambda: session.append(type, **wrong), EntryError)


@pytest.mark.parametrize(
    ("type", "key"),
    [
        *(("compaction", "firstKeptEntryUuid"), ("branch_summary", "fromUuid")),
        *(("stack_summary", "fromUuid"), ("merge", "mergedUuid"), ("merge", "baseUuid")),
        *(("context_edit", "targetUuid"), ("label", "targetUuid")),
    ],
)
def test_a_reference_to_no_entry_is_refused(session: Session, type: str, key: str) -> None:
    fields = {**_fields(session, type), key: "gone"}
    assert "gone" in _refused(session, lambda: session.append(type, **fields), RefError)


def test_a_compaction_may_name_itself_and_keeps_nothing_then(session: Session) -> None:
    session.append("compaction", uuid="c", summary="s", firstKeptEntryUuid="c", tokensBefore=9)
    assert said(session.context()) == ["s"]


WRITES: dict[str, Callable[[Session], object]] = {
    "append": lambda s: s.append("custom", customType="x"),
    "append_message": lambda s: s.append_message(user("x")),
    "label": lambda s: s.label("@", "x"),
    "rename": lambda s: s.rename("x"),
    "update_metadata": lambda s: s.update_metadata(a=1),
    "set_model": lambda s: s.set_model("p", "m"),
    "branch": lambda s: s.branch(s.header),
    "branch with a summary": lambda s: s.branch(s.header, summary="s"),
    "switch": lambda s: s.switch(s.header),
    "rewind": lambda s: s.rewind(),
    "push": lambda s: s.push(),
    "pop": lambda s: s.pop(s.header, summary="s"),
    "compact": lambda s: s.compact("s", keep=0),
    "edit_context": lambda s: s.edit_context("@", None),
    "cherry_pick": lambda s: s.cherry_pick("@"),
    "batch": lambda s: s.batch().__enter__(),
    "locked": lambda s: s.locked().__enter__(),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_session_opened_to_read_refuses_to_write(
    session: Session, file: Path, tmp_path: Path, write: str
) -> None:
    before = contents(tmp_path), os.listdir(tmp_path)
    with Session.open(file, readonly=True) as reader:
        with pytest.raises(ReadOnlyError, match="to read"):
            WRITES[write](reader)
        assert said(reader.context()) == ["p1", "a1"]
    assert (contents(tmp_path), os.listdir(tmp_path)) == before


@pytest.mark.parametrize("write", WRITES)
def test_a_closed_session_refuses_to_write(session: Session, file: Path, write: str) -> None:
    session.close()
    session.close()
    before = file.read_bytes()
    acts: list[Callable[[], object]] = [lambda: WRITES[write](session), session.branches]
    for act in (*acts, session.refresh):
        with pytest.raises(ReadOnlyError, match=r"s\.jsonl is closed; open the session again"):
            act()
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    "metadata", [{"a": math.nan}, {"a": b"x"}, "text", {"a": "\ud800"}, {1: 2}], ids=repr
)
def test_a_session_with_metadata_that_is_no_json_is_not_made(file: Path, metadata: Any) -> None:
    with pytest.raises(EntryError):
        Session.create(file, cwd="/p", metadata=metadata)
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("path", ["", "half\0", "\ud800"], ids=repr)
def test_what_can_be_no_path_is_refused(session: Session, path: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: Session.create(path),
        lambda: Session.open(path),
        lambda: session.fork(path),
        lambda: session.export_branch("@", path),
        lambda: session.convert("pi", path),
        lambda: session.attach(path),
    ]
    for use in uses:
        assert "is not the name of a file" in _refused(session, use, SessionNotFoundError)


def test_contradicting_options_are_refused(session: Session, file: Path) -> None:
    with pytest.raises(UsageError, match="durability"):
        Session.open(file, durability="none")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="readonly or exclusive"):
        Session.open(file, readonly=True, exclusive=True)
    made = file.with_name("made.jsonl")
    with pytest.raises(InvalidNameError):
        Session.create(made, lane="no@name")
    assert not made.exists()


def test_find_needs_something_to_find() -> None:
    with in_memory() as session, pytest.raises(UsageError, match="find needs"):
        session.find()


def test_a_session_shows_where_it_is(tmp_path: Path) -> None:
    file = str(tmp_path / "chat.jsonl")
    with Session.create(file, lane="reviewer") as session:
        assert repr(session) == f"<Session {file!r}, lane reviewer>"
    assert repr(session) == f"<Session {file!r}, lane reviewer>"  # closed, too
    assert repr(Session.create()) == "<Session in memory, lane main>"


WRONG: dict[str, Callable[[Session], object]] = {
    "give 'first_kept' or 'keep', not both": lambda s: s.compact("s", first_kept="@", keep=5),
    "find needs a criterion; give type=… or tool_call_id=…": lambda s: s.find(),
    "update_metadata needs a fact; give key=value": lambda s: s.update_metadata(),
    "give 'at' or 'empty', not both": lambda s: s.lane("x", at="@", empty=True),
    "durability is 'fsync', 'os' or 'group', not 'no'": lambda s: Session.open(
        str(s.file), durability=cast(Any, "no")
    ),
    "spill_over is a number of bytes or None, not -1": lambda s: Session.open(
        str(s.file), spill_over=-1
    ),
    "granularity is 'message' or 'block', not 'x'": lambda s: s.stream_message(
        granularity=cast(Any, "x")
    ),
    "the recording is closed; make another StreamAccumulator to continue": lambda s: closed(s),
    "older_than is a duration of zero or more, not -1 day, 0:00:00": lambda s: Store(
        Path(str(s.file)).parent
    ).empty_trash(older_than=timedelta(-1)),
}


def closed(session: Session) -> None:
    recorder = StreamAccumulator(session)
    recorder.close()
    recorder.feed('{"type": "system"}')


@pytest.mark.parametrize("told", WRONG)
def test_a_wrong_argument_is_refused_in_these_words(session: Session, told: str) -> None:
    assert _refused(session, lambda: WRONG[told](session), UsageError) == told
