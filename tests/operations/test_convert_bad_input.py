"""Damaged, empty and unusual sessions are converted as far as they can be read."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from random import Random
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import (
    Handle,
    NothingToDoError,
    Session,
    SessionExistsError,
    SessionNotFoundError,
    SessionTreeError,
    StorageError,
    UsageError,
)
from sessiontree.agents import TARGETS
from sessiontree.core import limits
from sessiontree.core.limits import Budget
from sessiontree.errors import TooMuchError
from sessiontree.operations.convert import converted
from sessiontree.operations.export import Original
from sessiontree.storage.fs import Disk
from tests.agents.conftest import texts_of
from tests.agents.test_codex import META, call, output, said
from tests.agents.test_codex import written as rollout
from tests.agents.test_gemini import MESSAGES, log
from tests.support.conversation import chain, line, message, opened, talk
from tests.support.pi_trees import PiShaped
from tests.support.saying import IMAGE
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.transcripts import session_of
from tests.support.trees import Tree

Json = Any

TO_IMPORT = ("opencode", "kilo")
"""The targets whose programs import a document; `atif` is one on a line."""

each_target = pytest.mark.parametrize("to", TARGETS)
pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
ODD: list[Any] = [None, 1, "x", [], {}, [1, {"a": None}], True, 2**70]
ODD += [{"role": 3, "content": [None, 3, {"type": None}]}, {"role": "user", "content": {"a": 1}}]


def damaged(lines: list[bytes], random: Random) -> list[bytes]:
    """The lines of a file, damaged as by disks, editors and other programs."""
    lines = lines.copy()
    for _ in range(random.randint(1, 4)):
        at = random.randrange(1, len(lines))
        other = random.randrange(1, len(lines))
        kind = random.randrange(6)
        if kind == 0:
            lines.insert(other, lines[at])
        elif kind == 1:
            lines[at] = lines[at][: random.randrange(len(lines[at]))]
        elif kind == 2:
            lines[at], lines[other] = lines[other], lines[at]
        elif kind == 3:
            del lines[at]
            lines.append(b"not JSON")
        else:
            lines[at] = _odd(lines[at], lines[other], random, hang=kind == 4)
    return lines


def _odd(one: bytes, other: bytes, random: Random, *, hang: bool) -> bytes:
    try:
        found, above = json.loads(one), json.loads(other)
    except ValueError:
        return one
    if hang:
        found["parentUuid"] = above.get("uuid")
    else:
        found[random.choice(list(found))] = random.choice(ODD)
    return json.dumps(found).encode()


def values_in(made: Path, to: str) -> list[Any]:
    """The JSON in a converted file."""
    text = made.read_text()
    return [json.loads(each) for each in ([text] if to in TO_IMPORT else text.splitlines())]


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(40))
@given(st.integers(0, 2**64), st.sampled_from([Tree, PiShaped]))
def test_a_damaged_session_is_converted_as_far_as_it_can_be_read(
    tmp_path_factory: Any, seed: int, shape: type[Tree | PiShaped]
) -> None:
    random = Random(seed)
    lines = [entry.line for entry in shape(random).grow(15).session.entries()]
    folder = tmp_path_factory.mktemp("damaged")
    file = folder / "s.jsonl"
    file.write_bytes(b"\n".join(damaged(lines, random)))
    before = file.read_bytes()
    try:
        session = Session.open(file, readonly=True)
    except SessionTreeError:
        return
    with session:
        for to in TARGETS:
            made = folder / to / "made.jsonl"
            made.parent.mkdir()
            try:
                session.convert(to, made)
            except NothingToDoError:
                assert not list(made.parent.iterdir())
                continue
            if to not in ("atif", "otel", *TO_IMPORT):
                Session.open(made, readonly=True).close()
            values_in(made, to)
    assert file.read_bytes() == before


@each_target
def test_sessions_of_all_agents_are_converted(tmp_path: Path, to: Any) -> None:
    lines = [META, said("user", "look"), call("c"), output("c"), said("assistant", "there")]
    sources = [rollout(tmp_path / "codex.jsonl", *lines), log(tmp_path / "gemini.jsonl", *MESSAGES)]
    for source in sources:
        with Session.open(source, readonly=True) as session:
            made = session.convert(to, tmp_path / f"{source.stem}.{to}.jsonl")
            assert made.warnings == []
            told = Path(made.file).read_text()
            for message in session.context(verbatim=True).messages:
                for text in texts_of(message.get("content")):
                    assert json.dumps(text, ensure_ascii=False)[1:-1] in told


@each_target
@pytest.mark.parametrize("key", ["stopReason", "stop_reason", "finish_reason"])
def test_a_session_with_any_leaf_is_converted(
    tmp_path: Path, to: Any, key: str, session: Session
) -> None:
    session.append_message({"role": "assistant", "content": "said", key: {"not": "a word"}})
    made = session.convert(to, tmp_path / "made")
    assert "said" in Path(made.file).read_text()


@each_target
def test_an_empty_session_is_refused(tmp_path: Path, to: Any, session: Session) -> None:
    with pytest.raises(NothingToDoError, match="nothing to convert"):
        session.convert(to, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


@for_each("to", ["claude-code", "codex", "gemini", "atif"])
def test_a_conversion_without_messages_on_the_path_is_refused(tmp_path: Path, to: Any) -> None:
    session = session_of("left")
    session.branch(session.header)
    with pytest.raises(NothingToDoError, match="go to a branch that has messages"):
        session.convert(to, tmp_path / "made")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_target_is_refused_with_the_list_of_targets(
    tmp_path: Path, session: Session
) -> None:
    with pytest.raises(UsageError, match=", ".join(TARGETS)):
        session.convert("aider", tmp_path / "made")


@each_target
def test_a_conversion_never_overwrites_a_file(tmp_path: Path, to: Any) -> None:
    session = session_of("a")
    file = tmp_path / "made.jsonl"
    file.write_text("mine")
    with pytest.raises(SessionExistsError):
        session.convert(to, file)
    with pytest.raises(SessionNotFoundError, match="no folder"):
        session.convert(to, tmp_path / "none" / "made.jsonl")
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_a_conversion_stopped_by_a_subagents_file_leaves_no_new_file(tmp_path: Path) -> None:
    session = session_of("a")
    for name in ("one", "two"):
        with session.lane(name) as lane:
            talk(lane, "b")
    session.refresh()
    taken = tmp_path / "made" / "subagents" / "agent-two.jsonl"
    taken.parent.mkdir(parents=True)
    taken.write_text("mine")
    with pytest.raises(SessionExistsError):
        session.convert("claude-code", tmp_path / "made.jsonl")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [taken]
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        session.convert("claude-code", tmp_path / "plain")


@each_target
def test_missing_blobs_and_unresolved_handles_are_warnings_of_a_conversion(
    tmp_path: Path, to: Any
) -> None:
    session = session_of("a")
    handle = Handle("nobody", "1.0.0", "item", ("1",))
    session.append_handle(handle, kind="message")
    made = session.convert(to, tmp_path / "made.json")
    assert len(made.warnings) == 1
    assert "cannot be resolved" in made.warnings[0]
    assert str(handle) in (tmp_path / "made.json").read_text()


@each_target
def test_a_partial_message_is_converted(tmp_path: Path, to: Any) -> None:
    session = session_of("a")
    session.append("block", messageUuid="m", index=0, block={"type": "text", "text": "half a"})
    session.convert(to, tmp_path / "made.jsonl")
    assert "half a" in (tmp_path / "made.jsonl").read_text()


@each_target
def test_lone_surrogates_and_deep_nesting_are_converted(
    file: Path, tmp_path: Path, to: Any
) -> None:
    deep: list[Any] = []
    for _ in range(599):
        deep = [deep]
    made = {"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": deep}}
    with opened(
        file,
        message("u1", "root", "\ud800 lone"),
        line("message", "u2", "u1", message={"role": "assistant", "content": [made]}),
        message("u3", "u2", "end"),
        readonly=True,
    ) as session:
        session.convert(to, tmp_path / "made.jsonl")
    told = (tmp_path / "made.jsonl").read_text()
    assert "lone" in told
    assert "end" in told


_LONE = "half a pair \ud83d… and an end"
_SHAPES_OF_LONE: dict[str, list[Any]] = {
    "pi": [
        {"role": "user", "content": _LONE},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": _LONE},
                {"type": "toolCall", "id": "c", "name": "n", "arguments": {"a": [_LONE]}},
            ],
        },
        {"role": "toolResult", "toolCallId": "c", "toolName": "n", "content": _LONE},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": _LONE}]},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {_LONE: _LONE}}],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": _LONE}],
        },
    ],
    "responses": [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": _LONE}],
        },
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": _LONE},
        {"type": "function_call_output", "call_id": "c", "output": _LONE},
    ],
}


@each_target
@pytest.mark.parametrize("shape", _SHAPES_OF_LONE)
def test_lone_surrogates_are_replaced_and_named_for_each_target(
    file: Path, tmp_path: Path, to: Any, shape: str
) -> None:
    """An API refuses a request with half a pair of surrogates, whatever program sends it."""
    lines, above = [], "root"
    for number, stored in enumerate(_SHAPES_OF_LONE[shape]):
        lines.append(line("message", f"u{number}", above, message=stored))
        above = f"u{number}"
    made = tmp_path / "made.jsonl"
    with opened(file, *lines, readonly=True) as session:
        result = session.convert(to, made)
    text = json.dumps(values_in(made, to), ensure_ascii=False)
    text.encode()
    assert "half a pair \ufffd… and an end" in text
    assert "lone surrogates in a text were replaced" in {loss.what for loss in result.losses}


@pytest.mark.slow
def test_a_thousand_compactions_are_converted_without_deep_recursion(
    file: Path, tmp_path: Path
) -> None:
    lines, above = [], "root"
    for number in range(1, 1100):
        uuid = f"u{number}"
        lines.append(message(uuid, above, f"{number}"))
        above = f"c{number}"
        kept = {"summary": "S", "firstKeptEntryUuid": uuid, "tokensBefore": 1}
        lines.append(line("compaction", above, uuid, **kept))
    with opened(file, *lines, readonly=True) as session:
        for to in TARGETS:
            session.convert(to, tmp_path / to)
    assert (tmp_path / "claude-code").read_text().count("compact_boundary") == 1099


@each_target
@pytest.mark.parametrize("odd", [None, 1, [], {}], ids=repr)
def test_a_piece_or_an_edit_without_a_target_is_converted(
    file: Path, tmp_path: Path, to: Any, odd: Json
) -> None:
    block = {"messageUuid": odd, "index": odd, "block": {"type": "text"}}
    with opened(
        file,
        message("said", "root", "Build it"),
        line("context_edit", "odd-0", "said", targetUuid=odd, replacement=None),
        line("block", "odd-1", "odd-0", **block),
        line("message_end", "odd-2", "odd-1", **block),
        readonly=True,
    ) as session:
        session.convert(to, tmp_path / "out")
        assert any("Build it" in str(event) for event in session.conversation())
    assert (tmp_path / "out").exists()


class Full(Disk):
    """A disk without room for the main file of a conversion."""

    def link(self, source: str, target: str) -> None:
        if target.endswith("made.json"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)
        super().link(source, target)


def test_a_conversion_that_fails_at_the_end_leaves_no_side_file(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", fs=Full()) as session:
        session.append_message({"role": "user", "content": [IMAGE]})
        with pytest.raises(StorageError, match="No space"):
            session.convert("atif", tmp_path / "made.json")
    assert not list(tmp_path.glob("made*/*"))
    assert not (tmp_path / "made.json").exists()


def test_a_file_in_the_place_of_a_folder_of_side_files_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "made").write_text("mine")
    with Session.create(tmp_path / "s.jsonl") as session:
        talk(session, "a")
        with session.lane("one") as lane:
            talk(lane, "b")
        session.refresh()
        with pytest.raises(SessionExistsError, match="made is there already"):
            session.convert("claude-code", tmp_path / "made.jsonl")
    assert (tmp_path / "made").read_text() == "mine"
    assert not (tmp_path / "made.jsonl").exists()


class Noting(Disk):
    """A disk that notes which folders were synced."""

    def __init__(self) -> None:
        self.synced: set[str] = set()

    def sync_folder(self, path: str) -> None:
        self.synced.add(path)
        super().sync_folder(path)


def test_each_folder_on_the_way_to_a_side_file_is_synced(tmp_path: Path) -> None:
    disk = Noting()
    with Session.create(tmp_path / "s.jsonl", fs=disk) as session:
        session.append_message({"role": "user", "content": "a"})
        with session.lane("reviewer") as lane:
            lane.append_message({"role": "user", "content": "b"})
        session.refresh()
        disk.synced.clear()
        made = session.convert("claude-code", tmp_path / "x.jsonl")
    folders = {os.path.dirname(file) for file in made.beside}
    assert folders | {os.path.dirname(folder) for folder in folders} <= disk.synced


LANES = [message(f"l{n}", "h", "x") | {"lane": f"l{n}"} for n in "123"]
COMPACTIONS = [line("compaction", f"c{n}", "h", summary="x", firstKeptEntryUuid="b") for n in "123"]


@for_each(
    ("to", "repeating"),
    [("claude-code", LANES), ("atif", LANES), ("codex", COMPACTIONS), ("gemini", COMPACTIONS)],
)
def test_what_repeats_too_much_is_refused_before_a_file_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    to: Literal["claude-code", "atif"],
    repeating: list[dict[str, Any]],
) -> None:
    lines = [*chain(*"abcdefgh"), *repeating]
    with opened(tmp_path / "s.jsonl", *lines) as session:
        session.convert(to, tmp_path / "whole.jsonl")
        for name in ("READ_AGAIN", "LANE_LINES"):
            limit = getattr(limits, name)._replace(most=0, bytes_for_each=10**6)
            monkeypatch.setattr(limits, name, limit)
        monkeypatch.setattr(limits, "BYTES_FOR_EACH_READ", 10**6)
        with pytest.raises(TooMuchError, match="fork the path that you need, and convert"):
            session.convert(to, tmp_path / "refused.jsonl")
    assert not list(tmp_path.glob("refused*"))


def test_three_hundred_lanes_may_share_a_path_of_five_thousand_entries() -> None:
    lanes, path, own = 300, 5000, 20
    entries = path + lanes * own
    size = entries * 2500
    more = entries + size // limits.BYTES_FOR_EACH_READ
    Budget(limits.READ_AGAIN, more=more).take(lanes * path // 2 + entries)
    Budget(limits.LANE_LINES, size).take(lanes * (path + own))


@for_each(("lanes", "error"), [(4000, UsageError), (4001, TooMuchError)])
def test_four_thousand_lanes_become_files_and_no_more(
    tmp_path: Path, lanes: int, error: type[Exception]
) -> None:
    own = (message(f"l{n}", "root", "x") | {"lane": f"l{n}"} for n in range(lanes))
    says = "more than one file|has more than 4,000 lanes, a file each; fork the path"
    with opened(tmp_path / "s.jsonl", message("a", "root", "x"), *own, readonly=True) as session:
        original = Original(session.cursor, session.handles, session.file, session.disk)
        with pytest.raises(error, match=says):
            converted(original, "claude-code")  # a pipe has no place for the files of lanes


def test_lanes_below_one_large_entry_are_refused_before_they_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = [message(f"l{n}", "a", "x") | {"lane": f"l{n}"} for n in range(20)]
    lines = [message("a", "root", "large " * 5000), *lanes]
    few = limits.REPEATED_BYTES._replace(most=0)
    monkeypatch.setattr(limits, "REPEATED_BYTES", few)
    with opened(tmp_path / "s.jsonl", *lines) as session:
        session.switch("a")
        session.convert("claude-code", tmp_path / "whole.jsonl")
        monkeypatch.setattr(limits, "REPEATED_BYTES", few._replace(for_each_byte=5))
        with pytest.raises(TooMuchError, match="repeat each byte more than 5 times; fork"):
            session.convert("claude-code", tmp_path / "refused.jsonl")
    assert not [file for file in tmp_path.rglob("refused*/**/*") if file.is_file()]
    assert not (tmp_path / "refused.jsonl").exists()


def test_a_lane_repeats_what_is_above_it_line_by_line_with_its_own_uuids(tmp_path: Path) -> None:
    own = [message(f"l{n}", "c", "x") | {"lane": f"l{n}"} for n in range(3)]
    with opened(tmp_path / "s.jsonl", *chain(*"abc"), *own) as session:
        session.switch("c")
        made = session.convert("claude-code", tmp_path / "x.jsonl")
    files = [[json.loads(line) for line in Path(f).read_bytes().splitlines()] for f in made.beside]
    for lines in files:
        assert [line["parentUuid"] for line in lines] == [None, *(e["uuid"] for e in lines[:-1])]
        assert [line["sessiontree"]["entry"] for line in lines][:3] == ["a", "b", "c"]
    uuids = [line["uuid"] for lines in files for line in lines]
    assert len(set(uuids)) == len(uuids) == 12
    said = [[{**e, "uuid": "", "parentUuid": "", "agentId": ""} for e in f[:3]] for f in files]
    assert said[0] == said[1] == said[2]
