from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.context.resolved import (
    LARGEST_PDF,
    LONGEST_TEXT,
    ResolvedHandle,
    carried_of,
    fenced,
    message_of,
)
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Handle, Kind
from sessiontree.errors import HandleDataError
from tests.support.conversation import user
from tests.support.lines import entry
from tests.support.table import for_each

HANDLE = Handle("p", "1.0.0", "m", ("x",))
OUTPUT = {"stdout": "hello\n", "stderr": "", "exitCode": 0}


def made(kind: Kind, **fields: Any) -> Entry:
    return entry("handle", handle=str(HANDLE), kind=kind, **fields)


def said(kind: Kind, data: Any, media_type: str | None = None, **fields: Any) -> Any:
    return message_of(ResolvedHandle(HANDLE, kind, data, media_type), made(kind, **fields)).message


def test_data_of_its_kind_is_taken() -> None:
    cases: list[tuple[Kind, Any]] = [
        ("message", user("hi")),
        ("message", {"id": "1", "role": "assistant", "content": [], "model": None}),
        ("message", {"role": "bashExecution", "output": "x"}),
        ("message", {"role": "assistant", "tool_calls": []}),
        ("message", {"type": "function_call", "call_id": "c", "name": "n"}),
        *(("output", {**OUTPUT, "exitCode": code}) for code in (0, None)),
        *(("document", None), ("document", [1, {"a": "b"}]), ("binary", b"")),
    ]
    for kind, data in cases:
        assert ResolvedHandle(HANDLE, kind, data).data is data


@for_each(
    "kind, data",
    [
        *(("message", odd) for odd in ("hi", {}, {**user("hi"), "role": ""}, {"role": "user"})),
        ("message", user(5)),
        *(("output", odd) for odd in ("hello", {"stdout": "a", "stderr": "b"})),
        ("output", {**OUTPUT, "stdout": None}),
        *(("output", {**OUTPUT, "exitCode": odd}) for odd in ("0", True)),
        *(("document", b"bytes"), ("binary", "text"), ("binary", None), ("video", b"")),
    ],
)
def test_data_that_breaks_its_kind_is_a_typed_error(kind: Kind, data: Any) -> None:
    with pytest.raises(HandleDataError, match="resolved to") as refused:
        ResolvedHandle(HANDLE, kind, data)
    assert refused.value.handle == str(HANDLE)


def test_a_message_is_itself() -> None:
    message = {"role": "assistant", "content": "hi", "model": "m"}
    assert said("message", message) is message
    assert said("message", message, role="user") == {**message, "role": "user"}


def test_an_output_is_a_fenced_text() -> None:
    assert said("output", OUTPUT) == user("```\nhello\n```")
    failed = {"stdout": "out", "stderr": "err", "exitCode": 2}
    content = "```\nout\n```\nstderr:\n```\nerr\n```\nexit code 2"
    assert said("output", failed, role="assistant") == {"role": "assistant", "content": content}
    silent = {"stdout": "", "stderr": "", "exitCode": None}
    assert said("output", silent)["content"] == "```\n```"


@settings(deadline=None)
@given(st.text(st.sampled_from("`a\n")))
def test_nothing_inside_a_fence_ends_it(text: str) -> None:
    opened, *inside, closed = fenced(text).split("\n")
    assert opened == closed
    assert re.fullmatch("`{3,}", opened)
    assert "\n".join(inside) == text.removesuffix("\n")
    assert not any(line.strip().startswith(opened) for line in inside)


def test_a_document_is_its_json() -> None:
    data = {"title": "ü", "n": [1, None]}
    assert json.loads(said("document", data)["content"]) == data


def test_an_image_is_an_image_block() -> None:
    for media_type in ("image/png", "IMAGE/PNG; q=1"):
        data = base64.b64encode(b"\x89PNG").decode()
        block = {"type": "image", "data": data, "mimeType": "image/png"}
        assert said("binary", b"\x89PNG", media_type) == user([block])


def test_an_image_that_models_refuse_is_named() -> None:
    content = said("binary", b"II*\0", "image/tiff")["content"]
    assert content == "[image/tiff, 4 bytes: p@1.0.0::m:x]"


def test_a_text_is_shown() -> None:
    for media_type in ("text/markdown", "application/json", "image/svg+xml"):
        assert said("binary", "ü```".encode(), media_type)["content"] == "````\nü```\n````"


def test_other_bytes_are_named_in_one_line() -> None:
    cases: list[tuple[bytes, str | None]] = [
        *((b"RIFF", "audio/wav"), (b"%PDF" + b" " * LARGEST_PDF, "application/pdf")),
        *((b"\xff", "text/plain"), (b"a" * (LONGEST_TEXT + 1), "text/plain"), (b"text", None)),
    ]
    for data, media_type in cases:
        content = said("binary", data, media_type)["content"]
        named = media_type or "application/octet-stream"
        assert content == f"[{named}, {len(data):,} bytes: p@1.0.0::m:x]"
        assert "is only named to a model" in lack_of(data, media_type)
        assert carried(data, media_type) == (named, data)


def lack_of(data: bytes, media_type: str | None) -> str:
    return message_of(ResolvedHandle(HANDLE, "binary", data, media_type), made("binary")).lack


def carried(data: bytes, media_type: str | None) -> tuple[str, bytes]:
    resolved = ResolvedHandle(HANDLE, "binary", data, media_type)
    (block,) = carried_of(resolved, made("binary"))["content"]
    assert block["type"] == "document"
    return block["source"]["media_type"], base64.b64decode(block["source"]["data"])


def test_a_pdf_is_a_document_block() -> None:
    source = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    block = {"type": "document", "source": source, "title": "the plan"}
    assert said("binary", b"%PDF", "application/pdf", preview="the plan") == user([block])
    assert lack_of(b"%PDF", "application/pdf") == ""


def test_a_text_with_a_few_bad_bytes_is_shown_and_carried_as_it_is() -> None:
    log = b"one line\nanother\xff line\n"
    shown = "```\none line\nanother\ufffd line\n```"
    assert said("binary", log, "text/plain")["content"] == shown
    assert "U+FFFD in one place that is not UTF-8" in lack_of(log, "text/plain")
    assert carried(log, "text/plain") == ("text/plain", log)


def test_what_is_shown_whole_is_carried_as_it_is_shown() -> None:
    for data, media_type in ((b"\x89PNG", "image/png"), (b"text", "text/plain")):
        resolved, found = ResolvedHandle(HANDLE, "binary", data, media_type), made("binary")
        assert message_of(resolved, found) == (carried_of(resolved, found), "")


def test_a_role_that_is_none_counts_for_nothing() -> None:
    assert said("output", OUTPUT, role=5)["role"] == "user"


def test_the_json_form_has_bytes_as_base64() -> None:
    told = ResolvedHandle(HANDLE, "binary", b"\0\xff", "image/png").as_dict()
    assert told == {
        "handle": "p@1.0.0::m:x",
        "kind": "binary",
        "data": "AP8=",
        "mediaType": "image/png",
    }
    assert ResolvedHandle(HANDLE, "output", OUTPUT).as_dict()["data"] == OUTPUT
