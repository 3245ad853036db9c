from __future__ import annotations

from typing import Any

import pytest

from sessiontree.core.entry import KNOWN, REFERENCES, RESERVED, check_fields
from sessiontree.errors import EntryError

SOUND: dict[str, dict[str, Any]] = {
    "message": {"message": {"role": "user", "content": "x"}},
    "handle": {"handle": "a@1.0.0::m", "kind": "output"},
    "compaction": {"summary": "s", "firstKeptEntryUuid": "u", "tokensBefore": 0},
    "branch_summary": {"summary": "s", "fromUuid": "u"},
    "stack_summary": {"summary": "s", "fromUuid": "u"},
    "merge": {"mergedUuid": "u", "baseUuid": "b"},
    "context_edit": {"targetUuid": "u", "replacement": None},
    "model_change": {"provider": None, "modelId": "m"},
    "thinking_level_change": {"thinkingLevel": "high"},
    "custom": {"customType": "mine"},
    "custom_message": {"customType": "mine", "content": [], "display": False},
    "label": {"targetUuid": "u", "label": None},
    "usage": {"kind": "k", "provider": None, "model": None, "usage": {}},
    "block": {"messageUuid": "u", "index": 0, "block": {}},
    "message_end": {"messageUuid": "u", "role": "assistant"},
    "stack_push": {},
    "branch": {},
    "session_info": {},
}
NULLABLE = {"replacement", "provider", "model", "label"}
OPTIONAL = [(kind, "fromUuid") for kind in ("branch_summary", "stack_summary")]
EACH = [(kind, key) for kind, fields in SOUND.items() for key in fields]


def test_every_known_type_has_a_sound_example_here() -> None:
    assert SOUND.keys() == KNOWN - {"session"}


def test_what_is_sound_may_be_written_and_more_keys_with_it() -> None:
    for kind in SOUND:
        check_fields(kind, SOUND[kind])
        check_fields(kind, {**SOUND[kind], "own": object(), "metadata": {}})
        check_fields(kind, {**SOUND[kind], "metadata": None})


@pytest.mark.parametrize(("kind", "key"), EACH)
def test_a_field_that_is_missing_or_of_a_wrong_kind_is_named(kind: str, key: str) -> None:
    fields = {name: value for name, value in SOUND[kind].items() if name != key}
    if (kind, key) in OPTIONAL:
        check_fields(kind, fields)
    else:
        with pytest.raises(EntryError, match=key):
            check_fields(kind, fields)
    wrong = [3.5, object()] if key in NULLABLE else [3.5, None, object()]
    for value in wrong:
        with pytest.raises(EntryError, match=key):
            check_fields(kind, {**fields, key: value})


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        *(("compaction", {"tokensBefore": odd}, "tokensBefore") for odd in (True, -1)),
        ("compaction", {"summary": ""}, "summary"),
        *(("context_edit", {"replacement": odd}, "replacement") for odd in ({"text": "x"}, "x")),
        ("label", {"label": ""}, "label"),
        ("block", {"index": False}, "index"),
        ("custom_message", {"display": 1}, "display"),
        ("message", {"message": {"content": "no role"}}, "role"),
        *(("branch", {"metadata": odd}, "metadata") for odd in ("text", list[str](), 5)),
        *(("session_info", {"name": odd}, "name") for odd in ("", "  ", "a\nb", "\x1b[2J", 5)),
        *(("custom", {key: "v"}, key) for key in sorted(RESERVED)),
    ],
)
def test_a_value_of_no_use_or_a_reserved_key_is_refused(kind: str, given: Any, named: str) -> None:
    with pytest.raises(EntryError, match=named):
        check_fields(kind, {**SOUND[kind], **given})


@pytest.mark.parametrize("kind", [None, "", 5, "session"])
def test_a_type_is_a_name_and_not_the_header(kind: Any) -> None:
    with pytest.raises(EntryError):
        check_fields(kind, {})


def test_an_unknown_type_is_written_as_given() -> None:
    check_fields("of the future", {"anything": 1})


def test_a_name_may_be_in_any_script_or_be_taken_away() -> None:
    for name in ("Ein CLI bauen", "建立", None):
        check_fields("session_info", {"name": name})


def test_every_reference_is_a_field_that_must_be_there() -> None:
    for kind, keys in REFERENCES.items():
        assert set(keys) <= SOUND[kind].keys()
