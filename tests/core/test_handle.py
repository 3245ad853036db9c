from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.core.handle import LONGEST, Handle, check_metadata
from sessiontree.errors import HandleError, UsageError
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.terminal import driving

CHAT = Handle("cone", "1.0.0", "chat", ("msg-550e8400", "user", "bob"))
SHA = "0" * 63 + "a"
OLDER = {"source": "cone", "source_version": "1.0.0"}

anything = st.text(st.characters(), min_size=1, max_size=12)
"""Any characters, lone surrogates too."""
numbers = st.integers(0, 10**9).map(str)
versions = st.tuples(numbers, numbers, numbers).map(".".join)
handles = st.builds(Handle, anything, versions, anything, st.lists(anything, max_size=4).map(tuple))


def test_the_text_form_is_that_of_the_source() -> None:
    assert str(CHAT) == "cone@1.0.0::chat:msg-550e8400:user:bob"
    assert Handle.parse("cone@1.0.0::chat:msg-550e8400:user:bob") == CHAT
    assert str(Handle("echo", "1.0.0", "once")) == "echo@1.0.0::once"


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(400))
@given(handles)
def test_the_text_and_the_json_forms_of_a_handle_are_read_back(handle: Handle) -> None:
    text = str(handle)
    assert Handle.parse(text) == handle
    assert str(Handle.parse(text)) == text
    by_name = json.loads(json.dumps(handle.as_dict()))
    assert Handle.from_json(by_name) == Handle.from_json(text) == (handle, None)
    assert not driving(text)
    assert "\n" not in text
    text.encode()


@settings(deadline=None)
@given(handles, handles)
def test_different_handles_have_different_texts(one: Handle, other: Handle) -> None:
    assert (str(one) == str(other)) == (one == other)


@settings(deadline=None, max_examples=amount(400))
@given(st.text(st.sampled_from("ab1.:@%-+0AF\n")) | st.text())
def test_any_text_is_a_handle_or_refused_as_none(text: str) -> None:
    try:
        handle = Handle.parse(text)
    except HandleError:
        return
    assert Handle.parse(str(handle)) == handle


def test_separators_inside_a_part_are_percent_encoded() -> None:
    handle = Handle("p%@:", "1.0.0", "m:@", ("a:b", "100%", "x@2", "line\nbreak", "\x9b\u202e"))
    assert str(handle) == (
        "p%25%40%3A@1.0.0::m%3A%40:a%3Ab:100%25:x%402:line%0Abreak:%C2%9B%E2%80%AE"
    )


def test_what_other_programs_encode_more_than_needed_is_read() -> None:
    handle = Handle.parse("file@1.0.0::path:b%c3%bc%63her%2Fa b@2x.png")
    assert handle.meta == ("bücher/a b@2x.png",)
    assert str(handle) == "file@1.0.0::path:bücher/a b%402x.png"


def test_a_handle_is_a_value() -> None:
    same = Handle.parse(str(CHAT))
    assert {CHAT: 1}[same] == 1
    assert pickle.loads(pickle.dumps(CHAT)) == CHAT
    assert Handle("cone", "1.0.0", "chat", ["a"]).meta == ("a",)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        CHAT.plugin = "other"  # type: ignore[misc]


MISSPELLED = {
    "handle": ("", "cone", "cone@1.0.0", "cone@1.0.0:chat", "cone::chat", "c%4::chat@1.0.0"),
    "plugin": ("@1.0.0::chat", "co\x1bne@1.0.0::chat"),
    "version": (
        *("cone@::chat", "cone@1::chat", "cone@1.0::chat", "cone@v1.0.0::chat"),
        *("cone@01.0.0::chat", "cone@1.0.0 ::chat", "cone@1.0.0\n::chat"),
        *("cone@1.0.0-::chat", "cone@1.0.0-01::chat", "cone@1.0.٣::chat"),
    ),
    "method": ("cone@1.0.0::", "cone@1.0.0:::a"),
    "meta[0]": (
        *("cone@1.0.0::chat:", "cone@1.0.0::chat:100%", "cone@1.0.0::chat:%zz"),
        "cone@1.0.0::chat:a\nb",
    ),
    "meta[1]": ("cone@1.0.0::chat:a::b", "cone@1.0.0::chat:a:%FF"),
}
"""Texts that are no handle, by the part that is wrong."""


@for_each(
    "make, arguments, part",
    [
        *((Handle.parse, (text,), part) for part, texts in MISSPELLED.items() for text in texts),
        (Handle, ("", "1.0.0", "m", ()), "plugin"),
        (Handle, ("p", "", "m", ()), "version"),
        (Handle, ("p", "1.0.0", "", ()), "method"),
        (Handle, ("p", "1.0.0", "m", ("a", "")), "meta[1]"),
        (Handle, ("p", "1.0.0", "m", (5,)), "meta[0]"),
        *((Handle, ("p", "1.0.0", "m", meta), "meta") for meta in ("abc", None)),
        (Handle, (None, "1.0.0", "m", ()), "plugin"),
        (Handle, ("p", 1, "m", ()), "version"),
        (Handle, ("p", "1.0.0", "m", ("x" * LONGEST,)), "meta"),
        (Handle, ("p", "1.0.0", "m", ("%" * (LONGEST // 2),)), "meta"),
        *((Handle.from_json, (value,), "handle") for value in (5, None)),
        (Handle.from_json, ({},), "identifier"),
        (Handle.from_json, (OLDER,), "identifier"),
        (Handle.from_json, ({**OLDER, "identifier": ""},), "meta[0]"),
        (Handle.from_json, ({**OLDER, "source_version": "1", "identifier": "i"},), "version"),
        (Handle.from_json, ({"source_version": "1.0.0", "identifier": "i"},), "plugin"),
        (Handle.from_json, ({"plugin": "p", "version": "1.0.0"},), "method"),
        (Handle.from_json, ({**CHAT.as_dict(), "meta": 5},), "meta"),
        *((Handle.blob, (sha, 1, "a/b"), "meta[0]") for sha in (SHA.upper(), SHA[1:], SHA + "\n")),
        *((Handle.blob, (SHA, size, "image/png"), "meta[1]") for size in (-1, True)),
        *((Handle.blob, (SHA, 1, type), "meta[2]") for type in ("png", "image/png\n", "")),
    ],
)
def test_what_is_no_handle_is_refused_by_its_part_however_it_is_made(
    make: Callable[..., object], arguments: tuple[Any, ...], part: str
) -> None:
    with pytest.raises(HandleError) as refused:
        make(*arguments)
    assert refused.value.part == part
    assert isinstance(refused.value, UsageError)
    assert not driving(str(refused.value))
    assert len(str(refused.value)) < 300


def test_any_semantic_version_is_taken() -> None:
    for version in ("0.0.0", "1.0.0-rc.1", "1.0.0-0a.b-c", "2.10.3+build.5"):
        assert Handle.parse(f"p@{version}::m").version == version


def test_the_older_form_is_normalized() -> None:
    cases: list[tuple[str, str, tuple[str, ...]]] = [
        ("msg-550e8400:user:bob", "message", ("550e8400", "user", "bob")),
        ("msg-1:user:a:b", "message", ("1", "user", "a:b")),
        ("msg-1:user", "message", ("1", "user")),
        *((other, "item", (other,)) for other in ("msg-1", "msg-:user:bob", "msg-1::bob")),
        *((other, "item", (other,)) for other in ("item-7", "s3://bucket/key")),
    ]
    for identifier, method, meta in cases:
        normalized = Handle("cone", "1.0.0", method, meta)
        assert Handle.from_json({**OLDER, "identifier": identifier}) == (normalized, None)


def test_the_metadata_of_the_older_form_is_given_beside_the_handle() -> None:
    older = {**OLDER, "identifier": "k"}
    hints = {"content_type": "text/markdown"}
    assert Handle.from_json({**older, "metadata": hints})[1] == hints
    assert Handle.from_json({**older, "metadata": None})[1] is None
    assert Handle.from_json({**older, "metadata": [1]})[1] == {"metadata": [1]}


def test_factories_make_exactly_the_built_in_forms() -> None:
    made = [
        Handle.blob(SHA, 0, "image/png"),
        Handle.blob(SHA, 5, "text/plain; charset=utf-8"),
        Handle.file("./docs//a b.md"),
        Handle.entry("id", "u"),
        Handle.block("a:b", "u", 0),
        Handle.path("id", "u"),
        Handle.branch("id", "a b"),
    ]
    assert [str(handle) for handle in made] == [
        f"blob@1.0.0::sha256:{SHA}:0:image/png",
        f"blob@1.0.0::sha256:{SHA}:5:text/plain; charset=utf-8",
        "file@1.0.0::path:docs/a b.md",
        "session@2.0.0::entry:id:u",
        "session@2.0.0::block:a%3Ab:u:0",
        "session@2.0.0::path:id:u",
        "session@2.0.0::branch:id:a b",
    ]


@for_each("path", ["", ".", "/etc/passwd", "../a", "a/../b", "a/..", "a\0b", "//a"])
def test_no_handle_is_made_of_a_path_that_is_not_below_a_root(path: str) -> None:
    with pytest.raises(HandleError, match="not a path below a root"):
        Handle.file(path)


@for_each("path", [None, 5, b"a", ["a"]])
def test_no_handle_is_made_of_a_path_that_is_not_a_string(path: Any) -> None:
    with pytest.raises(HandleError, match="a path must be a string") as raised:
        Handle.file(path)
    assert raised.value.part == "meta[0]"


def test_metadata_of_a_handle_is_hints_of_a_kilobyte() -> None:
    check_metadata(None)
    check_metadata({"k": "x" * (1024 - 8)})
    for metadata in ({"k": "x" * (1024 - 7)}, {"k": b"bytes"}, {"k": float("nan")}, ["k"]):
        with pytest.raises(HandleError) as refused:
            check_metadata(metadata)  # type: ignore[arg-type]
        assert refused.value.part == "metadata"
