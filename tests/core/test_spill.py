"""Spilling is exact: whatever is taken out of an entry is put back as it was."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree.core.codec import encode
from sessiontree.core.entry import RESERVED
from sessiontree.core.handle import Blob, Handle, blob_of, blobs_needed, hashes_named
from sessiontree.core.spill import (
    BEGINNING,
    OPAQUE,
    STRUCTURE,
    beginnings,
    check_spilled,
    out_of_reach,
    restore,
    spill,
)
from sessiontree.errors import BlobMissingError, EntryError, SpilledError
from tests.support.soak import amount
from tests.support.table import for_each

PNG = "iVBORw0KGgoAAAANSUhEUg" * 4
HASH = "0123456789abcdef" * 4
HANDLE = f"blob@1.0.0::sha256:{HASH}:5:text/plain"


class Shelf:
    """Blobs in a dict, by their handles."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.fetched: list[str] = []

    def store(self, content: bytes, media_type: str) -> str:
        sha256 = hashlib.sha256(content).hexdigest()
        handle = str(Handle.blob(sha256, len(content), media_type))
        self.contents[handle] = content
        return handle

    def fetch(self, handle: str) -> bytes:
        self.fetched.append(handle)
        return self.contents[handle]


def spilled(fields: Mapping[str, Any], over: int | None = 0) -> tuple[Any, Shelf]:
    shelf = Shelf()
    return spill(fields, over, shelf.store), shelf


def media_types(shelf: Shelf) -> list[str]:
    return [Handle.parse(handle).meta[2] for handle in shelf.contents]


KEYS = st.one_of(
    st.sampled_from(sorted(STRUCTURE | OPAQUE | {"content", "text", "toolCallId", "source"})),
    st.text(max_size=4),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["image/png", "blob@1.0.0::sha256:x", f"blob@1.0.0::sha256:{HASH}:5:a/b"]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=15,
)
FIELDS = st.dictionaries(KEYS.filter(lambda key: key not in RESERVED), JSON, max_size=4)


@pytest.mark.slow
@given(FIELDS, st.one_of(st.none(), st.integers(0, 20)))
@settings(deadline=None, max_examples=amount(150))
@example({"a": [{"data": "\x00é💥", "mimeType": "image/png"}] * 2}, 0)
def test_what_was_spilled_is_put_back(fields: dict[str, Any], over: int | None) -> None:
    before = copy.deepcopy(fields)
    stored, shelf = spilled(fields, over)
    assert fields == before
    as_read = json.loads(json.dumps(stored))
    kept = copy.deepcopy(as_read)
    assert restore(as_read, shelf.fetch) == fields
    assert as_read == kept
    assert len(shelf.fetched) == len(set(shelf.fetched))


@pytest.mark.slow
@given(FIELDS, st.integers(0, 20))
@settings(deadline=None)
def test_the_same_entry_spills_the_same(fields: dict[str, Any], over: int) -> None:
    one, _ = spilled(fields, over)
    other, _ = spilled(copy.deepcopy(fields), over)
    assert repr(one) == repr(other)


@pytest.mark.slow
@given(FIELDS, st.integers(0, 20))
@settings(deadline=None)
def test_nothing_longer_stays_and_nothing_shorter_goes(fields: dict[str, Any], over: int) -> None:
    stored, shelf = spilled(fields, over)
    assert all(len(content) > over for content in shelf.contents.values())
    for path, handle, *begins in stored.get("spilled", []):
        assert all(len(text.encode()) <= over for text in begins)
        assert path[-1] not in STRUCTURE or OPAQUE.intersection(path[:-1])
        assert blob_of(handle) is not None


def test_what_is_small_is_given_back_itself() -> None:
    fields = {"message": {"role": "user", "content": "short"}}
    for over in (None, 5, 10_000):
        stored, shelf = spilled(fields, over)
        assert stored is fields
        assert shelf.contents == {}
        assert restore(stored, shelf.fetch) is fields


def test_what_was_spilled_before_is_taken_as_it_is() -> None:
    stored, shelf = spilled({"content": PNG, "text": "short"}, 10)
    assert spill(stored, 0, shelf.store) is stored


def test_the_threshold_counts_utf_8_bytes() -> None:
    for text, size in (("abcd", 4), ("éé", 4), ("€x", 4), ("💥", 4)):
        fields = {"content": text}
        assert spilled(fields, size)[0] is fields
        assert spilled(fields, size - 1)[1].contents != {}


PI: dict[str, Any] = {
    "message": {
        "role": "toolResult",
        "toolCallId": "call_1",
        "toolName": "shot",
        "isError": False,
        "content": [
            {"type": "text", "text": "done"},
            {"type": "image", "data": PNG, "mimeType": "image/png"},
        ],
        "details": {"id": "theirs", "name": "theirs", "n": 1},
        "timestamp": 5,
    },
    "metadata": {"source": "a caller's own"},
}
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": PNG}}
BLOCKS = [
    {"type": "tool_result", "tool_use_id": "toolu_1", "content": [SHOT]},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
    {"type": "tool_use", "id": "toolu_2", "name": "write", "input": {"id": "x", "path": "y"}},
]
ANTHROPIC = {"message": {"role": "user", "model": "m", "content": BLOCKS}}
CALLED = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
CHAT = {"message": {"role": "assistant", "content": None, "tool_calls": [CALLED]}}
OUTPUT = {"type": "function_call_output", "call_id": "c", "id": "i", "output": "said"}


def places(stored: Mapping[str, Any]) -> list[Any]:
    """Where the strings stood that were taken out of a message."""
    return [place[1:] for place, *_ in stored["spilled"]]


def test_what_readers_pairing_and_searches_need_stays_in_the_line() -> None:
    stored, shelf = spilled(PI)
    message = stored["message"]
    assert {k: message[k] for k in ("role", "toolCallId", "toolName", "isError", "timestamp")} == {
        k: v for k, v in PI["message"].items() if k not in ("content", "details")
    }
    assert message["content"][1]["mimeType"] == "image/png"
    assert [block["type"] for block in message["content"]] == ["text", "image"]
    assert stored["metadata"] is PI["metadata"]
    assert places(stored) == [
        *(["content", 0, "text"], ["content", 1, "data"], ["details", "id"], ["details", "name"])
    ]
    assert restore(stored, shelf.fetch) == PI


def test_the_shapes_of_all_providers_keep_their_ids_and_names() -> None:
    stored, shelf = spilled(ANTHROPIC)
    assert places(stored) == [
        *(["content", 0, "content", 0, "source", "data"], ["content", 1, "source", "data"]),
        *(["content", 2, "input", "id"], ["content", 2, "input", "path"]),
    ]
    assert media_types(shelf) == ["image/jpeg;base64", "text/plain", "text/plain", "text/plain"]
    assert places(spilled(CHAT)[0]) == [["tool_calls", 0, "function", "arguments"]]
    assert places(spilled({"message": OUTPUT})[0]) == [["output"]]


def test_entries_that_are_all_structure_never_spill() -> None:
    cases: list[dict[str, Any]] = [
        *({"targetUuid": "u", "label": "a label"}, {"provider": "p", "modelId": "m"}),
        *({"thinkingLevel": "high"}, {"note": "a note"}, {"name": "a name"}),
        {"handle": f"blob@1.0.0::sha256:{HASH}:5:image/png", "kind": "binary", "preview": "p"},
        {"messageUuid": "u", "role": "assistant", "stopReason": "stop", "usage": {"tier": "x"}},
        {"mergedUuid": "m", "baseUuid": "b", "fromUuid": "f", "firstKeptEntryUuid": "k"},
    ]
    for fields in cases:
        assert spilled(fields)[0] is fields


def test_a_blob_says_what_it_is() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"data": "x", "mimeType": "image/png"}, "image/png;base64"),
        ({"data": "x", "media_type": "application/pdf"}, "application/pdf;base64"),
        ({"data": "x", "media_type": "text/csv"}, "text/csv"),
        *(
            ({"data": "x", "mimeType": odd}, "text/plain")
            for odd in ("no type: at all", "a" * 500 + "/b", 5)
        ),
        *(({"data": "x"}, "text/plain"), ({"text": "x", "mimeType": "image/png"}, "text/plain")),
    ]
    for block, media_type in cases:
        _, shelf = spilled({"content": [block]})
        assert media_types(shelf) == [media_type]
        assert list(shelf.contents.values()) == [b"x"], block


def test_what_json_cannot_carry_is_left_for_the_codec_to_refuse() -> None:
    circle: list[Any] = ["text"]
    circle.append(circle)
    for value in ("\ud83d" * 9, {"a": "\udc00" * 9}, circle):
        stored, _ = spilled({"content": value})
        with pytest.raises(EntryError):
            encode(stored)


def test_raw_json_and_tuples_are_taken_as_the_codec_takes_them() -> None:
    raw = orjson.Fragment(b'"as it was written"')
    stored, shelf = spilled({"content": ("one", raw), "n": 1})
    assert stored["content"][1] is raw
    restored = restore(orjson.loads(orjson.dumps(stored)), shelf.fetch)
    assert restored == {"content": ["one", "as it was written"], "n": 1}


def test_a_string_that_looks_like_a_handle_is_a_string() -> None:
    fields = {"content": [HANDLE, "long enough to be spilled, as this " * 9]}
    stored, shelf = spilled(fields, 200)
    assert stored["content"][0] == HANDLE
    assert restore(stored, shelf.fetch) == fields
    assert len(shelf.fetched) == 1


def test_the_same_string_twice_is_one_blob_fetched_once() -> None:
    stored, shelf = spilled({"content": [PNG, PNG]})
    assert len(shelf.contents) == 1
    assert restore(stored, shelf.fetch) == {"content": [PNG, PNG]}
    assert len(shelf.fetched) == 1


@for_each(
    "wrong",
    [
        *(None, 5, "text", {}, [5], [[]], [["content", HANDLE]], [[["content"]]]),
        *([[["content", 0], handle]] for handle in (5, None, HANDLE + "x")),
        *([[["content", 0], HANDLE, *more]] for more in ([1], ["text", "more"])),
        *([[path, HANDLE]] for path in ([], [0], [None], ["nowhere"], ["content"], ["spilled", 0])),
        *([[["content", at], HANDLE]] for at in (5, -2, "0", False, 1, [0], dict[str, int](), 0.0)),
        *([[["content", 0, at], HANDLE]] for at in (0, "x")),
        [[["content", 0], HANDLE], [["content", 0], HANDLE]],
    ],
)
def test_a_list_that_does_not_fit_the_entry_is_an_error(wrong: Any) -> None:
    body = {"content": [HANDLE, "text"], "spilled": wrong}
    before = copy.deepcopy(body)
    with pytest.raises(SpilledError, match="spilled"):
        restore(body, lambda handle: b"never given")
    with pytest.raises(SpilledError, match="spilled"):
        check_spilled(body)
    assert body == before


def test_an_entry_can_be_checked_without_its_blobs() -> None:
    check_spilled({"content": "text"})
    check_spilled({"content": HANDLE, "spilled": [[["content"], HANDLE]]})
    file = "file@1.0.0::path:x"
    with pytest.raises(SpilledError, match="not a blob's handle"):
        check_spilled({"content": file, "spilled": [[["content"], file]]})


def test_a_blob_that_is_no_text_is_an_error() -> None:
    with pytest.raises(SpilledError, match="not text"):
        restore({"content": HANDLE, "spilled": [[["content"], HANDLE]]}, lambda handle: b"\xff")


def test_a_text_says_how_it_begins_and_bytes_do_not() -> None:
    image = {"data": "x" * 5000, "mimeType": "image/png"}
    stored, shelf = spilled({"content": ["\n " + "words " * 500, image, " " * 5000]}, 900)
    assert [place[2:] for place in stored["spilled"]] == [[("words " * 500)[:BEGINNING]], [], []]
    assert list(beginnings(stored).values()) == [("words " * 500)[:BEGINNING], "", ""]
    assert list(blobs_needed(stored)) == [blob_of(handle) for handle in shelf.contents]


def test_a_line_without_beginnings_is_read_as_one_with_them() -> None:
    fields = {"content": ["words " * 500], "summary": "s" * 999}
    stored, shelf = spilled(fields, 10)
    older = {**stored, "spilled": [place[:2] for place in stored["spilled"]]}
    assert restore(older, shelf.fetch) == restore(stored, shelf.fetch) == fields
    assert list(beginnings(older).values()) == ["", ""]
    check_spilled(older)
    check_spilled(stored)


def test_what_begins_wrong_in_the_line_is_right_when_it_is_read() -> None:
    stored, shelf = spilled({"content": "words " * 500}, 100)
    stored["spilled"][0][2] = "never said"
    assert restore(stored, shelf.fetch)["content"] == "words " * 500


def test_beginnings_are_asked_for_in_vain_where_spilled_is_wrong() -> None:
    for wrong in (None, 5, "x", [5], [[["content"], HANDLE, 1]], [[[], HANDLE]]):
        assert beginnings({"content": HANDLE, "spilled": wrong}) == {}


def test_what_cannot_be_fetched_is_the_error_of_who_fetches() -> None:
    def fetch(handle: str) -> bytes:
        raise BlobMissingError("gone", "chat.jsonl")

    with pytest.raises(BlobMissingError):
        restore({"content": HANDLE, "spilled": [[["content"], HANDLE]]}, fetch)


def test_what_is_read_apart_from_its_file_says_why_it_cannot_be_fetched() -> None:
    with pytest.raises(BlobMissingError, match="decoded apart from its session's file"):
        restore({"content": HANDLE, "spilled": [[["content"], HANDLE]]}, out_of_reach)


def test_the_blobs_an_entry_needs_and_those_a_line_names() -> None:
    other = "f" * 64
    said = {"type": "message", "content": HANDLE, "spilled": [[["content"], HANDLE]]}
    assert list(blobs_needed(said)) == [Blob(HASH, 5)]
    assert list(blobs_needed({"type": "handle", "handle": HANDLE})) == [Blob(HASH, 5)]
    assert list(blobs_needed({"type": "message", "handle": HANDLE, "content": HANDLE})) == []
    damaged: Any
    for damaged in (5, [5], [[]], [["x", 5]], [["x", "file@1.0.0::path:x"]], {"a": 1}):
        assert list(blobs_needed({"type": "x", "spilled": damaged})) == []
    quoted = orjson.dumps({"text": f"he said: {HANDLE} and sha256:{other}"})
    assert hashes_named(quoted) == {HASH, other}
    assert hashes_named(b"sha256:abc") == set()


def test_what_is_no_handle_of_a_blob_is_none() -> None:
    cases: list[Any] = [
        *(None, 5, "", "text", f"file@1.0.0::sha256:{HASH}:5", f"blob@1.0.0::md5:{HASH}:5"),
        *(f"blob@1.0.0::sha256:{HASH}", f"blob@1.0.0::sha256:{HASH}:-1:a/b"),
        *(f"blob@1.0.0::sha256:{HASH}:05:a/b", f"blob@1.0.0::sha256:{HASH.upper()}:5:a/b"),
        *(f"blob@1.0.0::sha256:..%2F{HASH}:5:a/b", f"blob@1.0.0::sha256:{HASH}:{'9' * 30}:a/b"),
        *(f"blob@1.0.0::sha256:{HASH}%0A:5:a/b", f"blob@1.0.0::sha256:{HASH}:5%0A:a/b"),
        f"blob@1.0.0::sha256:{HASH}:٥:a/b",
    ]
    for handle in cases:
        assert blob_of(handle) is None
