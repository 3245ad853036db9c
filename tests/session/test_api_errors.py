"""Appending: what is kept as given, and what is refused with nothing written."""

from __future__ import annotations

import dataclasses
import enum
import math
import os
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

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
from sessiontree.core.entry import KNOWN, REFERENCES, RESERVED
from sessiontree.errors import InvalidNameError, SessionNotFoundError, SessionTreeError
from tests.support.conversation import assistant, in_memory, said, talk, user
from tests.support.table import for_each
from tests.support.terminal import contents


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with Session.create(file, cwd="/p") as session:
        talk(session, "p1", "a1")
        yield session


def _refused(session: Session, error: type[Exception], *call: Any, **fields: Any) -> str:
    """The message of a refusal that left the file, the leaf and the session as they were."""
    assert session.file is not None
    before, leaf = Path(session.file).read_bytes(), session.leaf
    with pytest.raises(error) as caught:
        call[0](*call[1:], **fields)
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
    assert "gone" in _refused(session, RefError, session.append_message, user("x"), parent="gone")


def test_a_uuid_that_is_taken_or_is_none_is_refused(session: Session) -> None:
    assert session.append("custom", customType="x", uuid="mine").uuid == "mine"
    for uuid in ("mine", session.header.uuid, "", 5):
        _refused(session, EntryError, session.append, "custom", customType="x", uuid=uuid)


def test_a_uuid_that_another_writer_took_is_refused(session: Session, file: Path) -> None:
    with Session.open(file) as other:
        other.append("custom", customType="x", uuid="theirs")
    with pytest.raises(EntryError, match="taken"):
        session.append("custom", customType="x", uuid="theirs")


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


def test_a_message_without_a_role_is_refused(session: Session) -> None:
    messages: list[Any] = [{}, {"content": "x"}, {"role": ""}, {"role": 5}, None, "x", []]
    for message in messages:
        told = _refused(session, EntryError, session.append_message, message)
        assert "role" in told or "dict" in told, message


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


@dataclasses.dataclass
class Point:
    x: int = 1


class Odd(enum.Enum):
    NAN = math.nan


def test_what_json_cannot_carry_is_refused(session: Session) -> None:
    values: list[Any] = [
        *(math.nan, math.inf, {"deep": [None, {"a": -math.inf}]}, Odd.NAN, "\ud800", 10**5000),
        *({"\udfff": 1}, {1: "key"}, {None: 1}, {("a", "b"): 1}, b"bytes", {"a set"}, 1 + 2j),
        *(datetime(2025, 1, 1), date(2025, 1, 1), Point(), object(), NotImplemented, Path("/p")),
        *(_nested(300), CIRCLE),
    ]
    for plain in values:
        for value in (plain, [2**80, plain]):  # a large number takes another encoder
            _refused(session, EntryError, session.append_message, user(value))
            _refused(session, EntryError, session.append, "custom", customType="x", data=[value])
            metadata = {"k": value}
            _refused(session, EntryError, session.append_message, user("x"), metadata=metadata)


@for_each("depth", [300, 5_000, 1_000_000])
def test_a_nesting_too_deep_for_other_readers_is_refused(session: Session, depth: int) -> None:
    _refused(session, EntryError, session.append_message, user(_nested(depth)))


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


def test_every_type_is_written_with_its_fields(session: Session, file: Path) -> None:
    assert {*REQUIRED, *OPTIONAL} == KNOWN - {"session"}
    for type in (*REQUIRED, *OPTIONAL):
        fields = {**_fields(session, type), "own": [1], "metadata": {"a": 1}}
        assert session.append(type, **fields).type == type
        with Session.open(file, readonly=True) as reader:
            assert {key: reader.leaf[key] for key in fields} == fields
            reader.context()
            list(reader.tree())
            list(reader.render())


NULLABLE: Final = {"replacement", "provider", "model", "label"}


def test_a_missing_or_wrong_field_is_refused_by_name(session: Session) -> None:
    for type, given in REQUIRED.items():
        for key in given:
            fields = _fields(session, type)
            kept = fields.pop(key)
            if key == "fromUuid":  # it may be missing
                session.append(type, **fields)
            else:
                assert repr(key) in _refused(session, EntryError, session.append, type, **fields)
            for wrong in (b"wrong", 3.5, object(), *([] if key in NULLABLE else [None])):
                told = _refused(session, EntryError, session.append, type, **{**fields, key: wrong})
                assert key in told, (type, key, kept, wrong)


def test_a_value_of_no_use_is_refused_by_name(session: Session) -> None:
    cases: list[tuple[str, str, list[Any]]] = [
        ("compaction", "tokensBefore", [True, -1]),
        ("compaction", "summary", [""]),
        ("context_edit", "replacement", [{"text": "x"}, "x"]),
        ("label", "label", [""]),
        ("block", "index", [False]),
        ("custom_message", "display", [1]),
        ("branch", "metadata", ["text", [], 5]),
        ("session_info", "name", ["", "  ", "a\nb", "\x1b[2J", 5]),
        *(("custom", key, [1]) for key in sorted(RESERVED - {"type", "uuid"})),
    ]
    for type, key, values in cases:
        for value in values:
            fields = {**_fields(session, type), key: value}
            assert key in _refused(session, EntryError, session.append, type, **fields), value


def test_a_type_is_a_name_and_not_the_header(session: Session) -> None:
    for type in (None, "", 5, "session"):
        _refused(session, EntryError, session.append, type)


def test_a_name_may_be_in_any_script_or_be_taken_away(session: Session) -> None:
    for name in ("Ein CLI bauen", "建立", None):
        assert session.append("session_info", name=name)["name"] == name


def test_a_reference_to_no_entry_is_refused(session: Session) -> None:
    for type, keys in REFERENCES.items():
        for key in keys:
            fields = {**_fields(session, type), key: "gone"}
            assert "gone" in _refused(session, RefError, session.append, type, **fields), type


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


def test_a_session_opened_to_read_refuses_to_write(
    session: Session, file: Path, tmp_path: Path
) -> None:
    before = contents(tmp_path), os.listdir(tmp_path)
    with Session.open(file, readonly=True) as reader:
        for name, write in WRITES.items():
            with pytest.raises(ReadOnlyError, match="to read"):
                write(reader)
            assert said(reader.context()) == ["p1", "a1"], name
    assert (contents(tmp_path), os.listdir(tmp_path)) == before


def test_a_closed_session_refuses_to_write(session: Session, file: Path) -> None:
    session.close()
    session.close()
    before = file.read_bytes()
    acts: list[Callable[[], object]] = [partial(write, session) for write in WRITES.values()]
    acts += [session.branches, session.refresh]
    for act in acts:
        with pytest.raises(ReadOnlyError, match=r"s\.jsonl is closed; open the session again"):
            act()
    assert file.read_bytes() == before


def test_a_session_with_metadata_that_is_no_json_is_not_made(file: Path) -> None:
    wrong: list[Any] = [{"a": math.nan}, {"a": b"x"}, "text", {"a": "\ud800"}, {1: 2}]
    for metadata in wrong:
        with pytest.raises(EntryError):
            Session.create(file, cwd="/p", metadata=metadata)
        assert list(file.parent.iterdir()) == [], metadata


def test_what_can_be_no_path_is_refused(session: Session) -> None:
    for path in ("", "half\0", "\ud800"):
        uses: list[tuple[Any, ...]] = [
            *((use, path) for use in (Session.create, Session.open, session.fork, session.attach)),
            *((session.export_branch, "@", path), (session.convert, "pi", path)),
        ]
        for use in uses:
            told = _refused(session, SessionNotFoundError, *use)
            assert "is not the name of a file" in told, use


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
    "durability must be 'fsync' or 'os', not 'no'": lambda s: Session.open(
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


def test_a_wrong_argument_is_refused_in_these_words(session: Session) -> None:
    for told, call in WRONG.items():
        assert _refused(session, UsageError, call, session) == told
