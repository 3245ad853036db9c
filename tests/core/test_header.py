from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.core.header import check_header, is_version_1
from sessiontree.errors import (
    ForeignFormatError,
    NewerFormatError,
    NotASessionError,
    SessionTreeError,
)
from tests.support.lines import values
from tests.support.table import for_each


def check(**keys: Any) -> dict[str, Any]:
    return check_header(json.dumps(keys).encode(), "s.jsonl", "line 1 (byte 0)")


def test_our_own_header_is_taken() -> None:
    keys = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "u"}
    assert check(**keys) == keys
    assert not is_version_1(keys)


def test_the_format_decides_whatever_another_program_made_of_the_version() -> None:
    for version in (1, 3, 99, "x", None):
        keys = check(type="session", version=version, format="sessiontree/2", uuid="u")
        assert not is_version_1(keys)


def test_a_header_without_version_or_format_is_version_1() -> None:
    for keys in ({}, {"version": 1}):
        assert is_version_1(check(type="session", id="i", **keys))


def test_version_2_with_a_uuid_and_without_a_format_is_the_source_format() -> None:
    assert not is_version_1(check(type="session", version=2, uuid="u"))


def test_bytes_around_a_header_do_not_hide_it() -> None:
    for around in (b"\xef\xbb\xbf%b", b"\0%b\0", b"%b\r", b" %b "):
        keys = check_header(around % b'{"type":"session"}', "f", "line 1 (byte 0)")
        assert keys == {"type": "session"}, around


@for_each(
    "keys, program",
    [
        ({"type": "session", "version": 2, "id": "i"}, "pi coding agent (version 2)"),
        ({"type": "session", "version": 3, "id": "i"}, "pi coding agent (version 3)"),
        ({"kind": "header", "version": 4}, "pi coding agent (version 4)"),
        ({"type": "session", "format": "other/1"}, "other/1"),
        ({"type": "session", "format": 5}, "format 5"),
        *(({"type": kind, "payload": {}}, "Codex") for kind in ("session_meta", "response_item")),
        ({"sessionId": "s", "projectHash": "h"}, "Gemini CLI"),
        ({"type": "user", "sessionId": "s", "isSidechain": False}, "Claude Code"),
        ({"type": "summary", "leafUuid": "l"}, "Claude Code"),
    ],
)
def test_another_programs_file_is_named(keys: dict[str, Any], program: str) -> None:
    with pytest.raises(ForeignFormatError) as caught:
        check(**keys)
    assert program in str(caught.value)
    assert caught.value.file == "s.jsonl"


@for_each(
    "keys",
    [
        *({"format": "sessiontree/3", "uuid": "u"}, {"version": 3, "uuid": "u"}),
        *({"version": "2", "uuid": "u"}, {"version": 0}, {"version": None}),
    ],
)
def test_a_newer_format_is_refused_by_name(keys: dict[str, Any]) -> None:
    with pytest.raises(NewerFormatError, match="the file is unchanged"):
        check(type="session", **keys)


@for_each(
    "line, told",
    [
        *((line, "is not a session") for line in (b"", b"[]", b"hello", b"{}", b"\x7fELF\0\0")),
        (b'{"type":"message"}', "is not a session"),
        (b'{"type":["session"]}', "is not a session"),
        (b'{"sessionId":"x","messages":[]}', "is not a header"),
        (b"SQLite format 3\0\1", "is a SQLite database"),
        (b'{"a": 1,', "begins an object over many lines"),
        (b'{"a": [', "begins an object over many lines"),
        (b"[", "is a list"),
        (b'[{"a": 1},', "is a list"),
        ('{"type":"x"}'.encode("utf-16-le"), "is UTF-16"),
        (b"\x28\xb5\x2f\xfdgarbage", "is compressed"),
        (b"plain text", "of sessiontree, or one of another agent"),
    ],
)
def test_what_is_no_header_is_no_session_and_told_by_what_it_is(line: bytes, told: str) -> None:
    with pytest.raises(NotASessionError, match=told):
        check_header(line, "s.jsonl", "line 1 (byte 0)")


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["type", "kind", "version", "format", "uuid"]), values))
def test_any_first_line_is_a_header_or_refused_with_an_error_of_ours(keys: dict[str, Any]) -> None:
    with contextlib.suppress(SessionTreeError):
        assert check(**keys)["type"] == "session"
