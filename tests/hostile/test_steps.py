"""Costs that once grew with the square, or were paid once a line, counted in steps."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from click.testing import CliRunner

from sessiontree import HandleError, Session, Store, TooMuchError
from sessiontree.agents import writing
from sessiontree.agents.base import Values
from sessiontree.cli import _seldom_collected, main
from sessiontree.core import entry as entries
from sessiontree.core.handle import Handle
from sessiontree.engine import cursor as cursors
from sessiontree.engine.cursor import Cursor
from sessiontree.engine.walk import gc_paused
from sessiontree.handles import resolve as resolving
from sessiontree.handles.resolve import HandleScope
from sessiontree.library import search_file
from sessiontree.redact import redaction, values
from sessiontree.redact import redaction as views
from sessiontree.views.costs import spending
from tests.hostile import corpus
from tests.support.table import for_each

_GROWTH = 5


def opened(name: str, folder: Path, size: int) -> Session:
    folder = folder / f"{size}"
    folder.mkdir(exist_ok=True)
    file = {**corpus.STRUCTURES, **corpus.FOREIGN}[name](folder, size)
    return Session.open(file, readonly=True)


def steps_of(work: Callable[[], object]) -> int:
    """How many calls some work makes, of functions, generators and built-in functions."""
    steps: Counter[str] = Counter()

    def count(_: FrameType, event: str, __: Any) -> None:
        steps[event] += 1

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return steps.total()


@for_each(
    "name, to",
    [
        *product(
            ["star_below_usage", "star_at_the_end", "one_uuid_below_itself"], ["codex", "gemini"]
        ),
        ("response_in_pieces", "gemini"),
    ],
)
def test_a_conversion_takes_steps_that_follow_the_size(name: str, to: Any, tmp_path: Path) -> None:
    steps = []
    for size in (15_000, 60_000):
        with opened(name, tmp_path, size) as session:
            steps.append(steps_of(lambda: session.convert(to, tmp_path / f"{size}.converted")))  # noqa: B023
    assert steps[1] < _GROWTH * steps[0]


def test_the_results_in_one_message_are_digested_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, encoded = writing.json_of, Counter[str]()

    def counted(value: Any) -> bytes:
        made: bytes = encode(value)
        encoded["bytes"] += len(made)
        return made

    monkeypatch.setattr(writing, "json_of", counted)
    with opened("results_in_one_message", tmp_path, 100_000) as session:
        session.convert("gemini", tmp_path / "converted")
    assert encoded["bytes"] < 500_000


def test_the_handles_of_a_log_are_resolved_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve, asked = HandleScope.messages, Counter[str]()

    def counted(*given: Any, **named: Any) -> Any:
        asked["calls"] += 1
        return resolve(*given, **named)

    monkeypatch.setattr(HandleScope, "messages", counted)
    with opened("handles_of_one", tmp_path, 100_000) as session:
        session.convert("codex", tmp_path / "converted")
        handles = session.stats().types["handle"]
    assert asked["calls"] < handles / 20


def test_costs_behind_handles_read_the_log_a_few_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("handles_of_each", tmp_path, 2_000_000) as session:
        log, read = session.reader.log, Counter[str]()
        original = type(log).read

        def counted(self: Any, offset: int, size: int) -> bytes:
            found: bytes = original(self, offset, size)
            read["bytes"] += len(found)
            return found

        monkeypatch.setattr(type(log), "read", counted)
        spending(session.cursor)
        assert read["bytes"] < 40 * log.size()


def test_an_entry_with_spilled_strings_is_decoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, decoded = entries.decode_object, Counter[str]()

    def counted(line: bytes) -> Any:
        decoded["lines"] += 1
        return decode(line)

    with opened("spilled_paths_that_are_none", tmp_path, 2_000) as session:
        entry = session.entry("@")
        monkeypatch.setattr(entries, "decode_object", counted)
        for _ in range(3):
            assert entry.as_stored["type"] == entry.body["type"] == "message"
    assert decoded["lines"] <= 1


def test_a_line_that_says_nothing_of_the_session_is_not_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, asked = Values.text, Counter[str]()

    def counted(self: Values, key: str) -> str | None:
        asked["keys"] += 1
        return text(self, key)

    monkeypatch.setattr(Values, "text", counted)
    with opened("claude_unknown_lines", tmp_path, 10_000) as session:
        lines = sum(note.count for note in session.notes)
    assert lines > 100
    assert asked["keys"] < 3 * lines


@for_each("name", ["gemini_calls_in_one_message", "version_1"])
def test_nothing_is_collected_while_a_file_is_translated_or_outlined(
    name: str, tmp_path: Path
) -> None:
    collected: list[int] = []

    def count(phase: str, info: dict[str, int]) -> None:
        collected.extend([info["generation"]] * (phase == "start"))

    gc.callbacks.append(count)
    try:
        with opened(name, tmp_path, 300_000) as session:
            session.outline()
    finally:
        gc.callbacks.remove(count)
    assert len(collected) < 60  # the file is made in it too


_PARTS = {"plugin": "p", "version": "1.0.0", "method": "m"}


@for_each(
    "form",
    [lambda n: "p@1.0.0::m" + ":%25" * (2 * n), lambda n: {**_PARTS, "meta": ["x"] * n}],
)
def test_a_handle_is_refused_for_its_size_before_its_parts_are_read(
    form: Callable[[int], Any],
) -> None:
    def refused(value: Any) -> None:
        with pytest.raises(HandleError, match="more than 8,192 characters"):
            Handle.from_json(value)

    refused(form(50_000))  # what is made once is made now
    small, large = (steps_of(partial(refused, form(count))) for count in (50_000, 200_000))
    assert large < 1.2 * small


def test_each_handle_of_a_long_row_is_looked_up_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_uuid, asked = Cursor.by_uuid, Counter[str]()

    def counted(self: Cursor, uuid: str) -> Any:
        asked["uuids"] += 1
        return by_uuid(self, uuid)

    with opened("handles_in_a_circle", tmp_path, 100_000) as session:
        handles = len(list(session.entries()))
        monkeypatch.setattr(Cursor, "by_uuid", counted)
        session.convert("codex", tmp_path / "converted")
    assert asked["uuids"] < 1.2 * handles


def test_a_search_decodes_no_line_that_cannot_be_an_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decode, decoded = search_file.decode, Counter[str]()

    def counted(*given: Any) -> Any:
        decoded["lines"] += 1
        return decode(*given)

    monkeypatch.setattr(search_file, "decode", counted)
    corpus.STRUCTURES["number_lines"](tmp_path, 20_000)
    list(Store(tmp_path).search("x"))
    assert decoded["lines"] < 10


@for_each("name, most", [("star", 1_150), ("deep_chain", 1_030)])
def test_a_message_in_a_rollout_takes_few_steps(name: str, most: int, tmp_path: Path) -> None:
    with opened(name, tmp_path, 60_000) as session:
        count = session.stats().types["message"]
        steps = steps_of(lambda: session.convert("codex", tmp_path / "converted"))
    assert steps < most * count


def test_a_key_is_asked_once_whether_it_marks_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()

    def counted(key: str) -> str | None:
        asked[key] += 1
        return values.keyword_of(key)

    monkeypatch.setattr(redaction, "keyword_of", counted)
    with opened("deep_chain", tmp_path, 20_000) as session:
        list(session.to_markdown(redact=redaction.Redaction()))
    assert asked
    assert max(asked.values()) == 1


def test_entries_without_a_prompt_are_masked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask, masked = redaction.Redaction.value, Counter[str]()

    def counted(self: redaction.Redaction, *given: Any) -> Any:
        masked["values"] += 1
        return mask(self, *given)

    monkeypatch.setattr(redaction.Redaction, "value", counted)
    with opened("one_call_id", tmp_path, 20_000) as session:
        list(session.to_markdown(redact=redaction.Redaction()))
        assert masked["values"] < 1.2 * session.stats().entries


@for_each("name, most", [("one_call_id", 1_700), ("roles", 1_350)])
def test_an_entry_of_short_strings_is_masked_in_few_steps(
    name: str, most: int, tmp_path: Path
) -> None:
    with opened(name, tmp_path, 60_000) as session:
        redaction.Redaction().text("a text that makes the search for hints")
        steps = steps_of(lambda: list(session.to_markdown(redact=redaction.Redaction())))
        assert steps < most * session.stats().entries


@for_each("name", ["merges_of_what_is_gone", "handles_of_nothing"])
def test_an_entry_of_the_path_is_found_without_a_look_at_the_whole_path(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up, seen = cursors.Path.up, Counter[str]()

    def counted(self: cursors.Path) -> Iterator[entries.Entry]:
        seen["paths"] += 1
        return up(self)

    monkeypatch.setattr(cursors.Path, "up", counted)
    with opened(name, tmp_path, 60_000) as session:
        list(session.path())
        session.context()
    assert seen["paths"] < 10


def test_a_command_seldom_looks_for_cycles_of_garbage(tmp_path: Path) -> None:
    file, looks = corpus.STRUCTURES["calls_without_results"](tmp_path, 300_000), Counter[str]()

    def counted(phase: str, _: dict[str, int]) -> None:
        looks[phase] += 1

    before = gc.get_threshold()
    gc.callbacks.append(counted)
    try:
        ended = CliRunner().invoke(main, ["context", str(file), "--to", "anthropic", "--json"])
    finally:
        gc.callbacks.remove(counted)
    assert ended.exit_code == 0
    assert looks["start"] < 10
    assert gc.get_threshold() == before


def test_cycles_of_garbage_are_looked_for_as_before_when_a_command_ended_or_failed() -> None:
    before = gc.get_threshold()
    seen: list[object] = []

    def fails() -> None:
        with _seldom_collected():
            seen.append(gc.get_threshold())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert seen == [(50_000, 20, 100)]
    assert gc.get_threshold() == before


def test_a_search_for_parents_that_many_lines_name_gives_way_to_the_index(tmp_path: Path) -> None:
    with opened("merges_from_the_side", tmp_path, 120_000) as session:
        count = session.stats().entries
    with opened("merges_from_the_side", tmp_path, 120_000) as session:
        steps = steps_of(lambda: session.fork(tmp_path / "fork.jsonl"))
    assert steps < 1_100 * count


@for_each("name, most", [("deep_chain", 1_220), ("handles_of_each", 1_570)])
def test_a_message_in_a_page_takes_few_steps(name: str, most: int, tmp_path: Path) -> None:
    with opened(name, tmp_path, 60_000) as session:
        count = session.stats().entries
        list(session.to_html())  # what is made once, such as the templates
        assert steps_of(lambda: list(session.to_html())) < most * count


def test_a_page_makes_no_cycle_of_garbage_for_a_turn(tmp_path: Path) -> None:
    with opened("deep_chain", tmp_path, 60_000) as session:
        list(session.to_html())
        gc.collect()
        with gc_paused():
            list(session.to_html())
            found = gc.collect()
        assert found < session.stats().entries / 2


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each handle is resolved."""
    asked, resolve = Counter[str](), resolving.messages  # type: ignore[attr-defined]

    def counted(handles: Sequence[entries.Entry], scope: Any) -> Any:
        asked.update(entry.uuid for entry in handles)
        return resolve(handles, scope)

    monkeypatch.setattr(resolving, "messages", counted)
    return asked


def test_a_compaction_resolves_a_handle_to_nothing_once(
    tmp_path: Path, asked: Counter[str]
) -> None:
    with Session.open(corpus.STRUCTURES["handles_of_nothing"](tmp_path, 5_000)) as session:
        session.compact("what was said", keep=0)
    assert set(asked.values()) == {1}


@pytest.mark.parametrize(("how", "times"), [(["--json"], set()), (["--turn", "@"], {1})])
def test_a_tree_resolves_no_handle_in_a_circle_and_a_turn_each_once(
    how: list[str], times: set[int], tmp_path: Path, asked: Counter[str]
) -> None:
    file = corpus.STRUCTURES["handles_in_a_circle"](tmp_path, 5_000)
    assert CliRunner().invoke(main, ["tree", str(file), *how]).exit_code == 0
    assert set(asked.values()) == times


def test_a_copy_passes_an_entry_that_merges_take_in_a_few_times(tmp_path: Path) -> None:
    steps = []
    for size in (20_000, 80_000):
        with opened("merges_of_each_other", tmp_path, size) as session:
            new = tmp_path / f"{size}.copy"
            steps.append(steps_of(lambda: session.export_branch("h", new)))  # noqa: B023
    assert steps[1] < _GROWTH * steps[0]


@pytest.mark.parametrize(
    "name",
    ["merges_of_what_is_gone", pytest.param("merges_of_compactions", marks=pytest.mark.soak)],
)
def test_a_conversion_counts_what_it_looks_for_and_does_not_find(name: str, tmp_path: Path) -> None:
    def convert(session: Session) -> None:
        with pytest.raises(TooMuchError, match="fork the path that you need"):
            session.convert("pi", tmp_path / "converted")

    with opened(name, tmp_path, 600_000) as session:
        assert steps_of(lambda: convert(session)) < 9_000_000


def test_a_long_text_is_searched_once_for_the_title_and_the_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looked = views.plain, Counter[str]()

    def counted(text: str) -> Any:
        looked[text] += len(text) > 10_000
        return look(text)

    monkeypatch.setattr(redaction, "plain", counted)
    with opened("one_huge_handle", tmp_path, 100_000) as session:
        list(session.to_markdown(redact=redaction.Redaction()))
    assert max(looked.values()) == 1


def test_a_transcript_gives_a_limited_number_of_warnings(tmp_path: Path) -> None:
    with opened("handles_of_nothing", tmp_path, 200_000) as session:
        more = sum(entry.type == "handle" for entry in session.path()) - 1_000
        *_, last = text = list(session.to_markdown())
    assert len([part for part in text if part.strip().startswith("*Warning: ")]) == 1_001
    assert last.strip() == f"*Warning: {more:,} more warnings of this transcript.*"
