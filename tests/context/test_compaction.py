from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.context.compaction import (
    IMAGE_TOKENS,
    Slice,
    cut_point,
    estimate_tokens,
    summarize,
    text_of_summary,
)
from sessiontree.core.entry import Entry
from sessiontree.core.message import Message
from sessiontree.errors import EntryError
from tests.support.conversation import user
from tests.support.histories import call, fault_of, histories, result, said
from tests.support.lines import entry, message, values
from tests.support.paired import pair
from tests.support.soak import amount
from tests.support.table import for_each

SHOWN = [{"type": "image"}, said("xxxx")]
PDF = "application/pdf"


def tokens(message: Message) -> int:
    """A count that is easy to follow: the number a test gave the message."""
    return int(message.get("tokens", 10))


def pieces(*messages: Message) -> list[Slice]:
    """A piece for each message, named p0, p1, …"""
    return [Slice(f"p{place}", [message]) for place, message in enumerate(messages)]


def prompt(tokens: int = 10) -> dict[str, Any]:
    return {"role": "user", "content": "go", "tokens": tokens}


def answer(tokens: int = 10) -> dict[str, Any]:
    return {"role": "assistant", "content": [said("done")], "tokens": tokens}


@for_each(
    "said, count",
    [
        *((user("x" * length), tokens) for length, tokens in ((0, 0), (1, 1), (4, 1), (5, 2))),
        (user([said("x" * 8), "yyyy"]), 3),
        ({"role": "assistant", "content": [{"type": "thinking", "thinking": "x" * 12}]}, 3),
        (user([{"type": "image", "data": "x" * 10_000}]), IMAGE_TOKENS),
        (user([{"type": "input_image"}, said("xxxx")]), IMAGE_TOKENS + 1),
        (user([{"type": "tool_result", "content": SHOWN}]), IMAGE_TOKENS + 1),
        ({"role": "bashExecution", "command": "ls", "output": "xx"}, 1),
        *((user(odd), 0) for odd in (None, [5, None, {"type": ["list"]}, {"text": 5}])),
        ({"role": "user"}, 0),
    ],
)
def test_four_characters_are_a_token_and_an_image_a_fixed_number(said: Message, count: int) -> None:
    assert estimate_tokens(said) == count


def test_a_pdf_counts_by_its_pages_and_what_is_only_named_not_at_all() -> None:
    cases: list[tuple[str, int, int]] = [
        (PDF, 0, 0),
        (PDF, 9, 1),
        (PDF, 65_537, 2),
        ("audio/wav", 65_537, 0),
    ]
    for media_type, length, images in cases:
        source = {"type": "base64", "media_type": media_type, "data": "x" * length}
        assert (
            estimate_tokens(user([{"type": "document", "source": source}])) == images * IMAGE_TOKENS
        )


def test_the_arguments_of_a_call_count_in_every_shape() -> None:
    for shape in ("pi", "anthropic", "chat", "responses"):
        assert estimate_tokens(call(shape, "a")) == 1  # "ls" and "{}"


def test_arguments_that_cannot_be_written_are_estimated_all_the_same() -> None:
    odd: Any
    for odd in ("\ud83d", 2**70, float("inf"), [[]] * 3):
        block = {"type": "toolCall", "id": "a", "name": "ls", "arguments": {"x": odd}}
        assert estimate_tokens({"role": "assistant", "content": [block]}) > 1, odd


@pytest.mark.slow
@given(values)
def test_any_value_can_be_estimated(value: Any) -> None:
    for key in ("content", "output", "tool_calls", "type", "arguments"):
        assert estimate_tokens({"role": "user", key: value}) >= 0
    assert estimate_tokens(user([value, {"type": value, "id": ""}])) >= 0


def test_what_fits_is_not_cut() -> None:
    assert cut_point(pieces(prompt(), answer()), 20, tokens) is None
    assert cut_point([], 0, tokens) is None


def test_a_cut_falls_before_the_prompt_nearest_to_what_is_to_be_kept() -> None:
    path = pieces(*[prompt(), answer()] * 4)
    for keep, first_kept in ((40, "p4"), (45, "p4"), (59, "p2"), (20, "p6")):
        assert cut_point(path, keep, tokens) == first_kept


def test_a_prompt_within_reach_is_preferred_to_a_nearer_answer() -> None:
    path = pieces(prompt(), answer(50), prompt(), answer(), answer(), answer(), answer())
    assert cut_point(path, 30, tokens) == "p4"  # the prompt would keep 50 of 30
    assert cut_point(path, 34, tokens) == "p2"


def test_without_a_prompt_in_reach_the_cut_falls_before_an_answer() -> None:
    path = pieces(prompt(), *(answer() for _ in range(10)))
    assert cut_point(path, 30, tokens) == "p8"


def test_a_cut_never_falls_between_a_call_and_its_result() -> None:
    made, brought = call("pi", "a"), result("pi", "a")
    path = pieces(prompt(), answer(), made, prompt(), brought, answer())
    assert cut_point(path, 30, tokens) == "p2"
    path = pieces(prompt(100), made, brought)
    assert cut_point(path, 10, tokens) == "p1"


def test_an_interrupted_call_does_not_forbid_cuts_until_its_id_is_used_again() -> None:
    made, brought = call("pi", "call_0"), result("pi", "call_0")
    path = pieces(prompt(50), made, prompt(), answer(), made, brought)
    assert cut_point(path, 40, tokens) == "p2"


def test_a_merge_that_answered_its_own_calls_is_over() -> None:
    inner = Slice("merge", [call("pi", "call_0"), result("pi", "call_0")])
    made, brought = call("pi", "call_0"), result("pi", "call_0")
    path = [Slice("first", [prompt(50)]), inner, *pieces(prompt(), made, brought)]
    assert cut_point(path, 30, tokens) == "p0"


def test_a_merge_is_one_unit() -> None:
    merge = Slice("merge", [prompt(), answer(), prompt(), answer()])
    path = [Slice("p", [prompt(100)]), merge, Slice("last", [answer()])]
    assert cut_point(path, 30, tokens) == "merge"
    assert cut_point(path, 10, tokens) == "last"


def test_entries_that_say_nothing_are_no_place_to_cut() -> None:
    said = {"header": [], "a": [prompt(50)], "label": [], "b": [answer()]}
    assert cut_point([Slice(*piece) for piece in said.items()], 10, tokens) == "b"


def test_where_nothing_could_be_left_out_there_is_nothing_to_cut() -> None:
    assert cut_point([Slice("header", []), Slice("a", [prompt(90)])], 10, tokens) is None
    assert cut_point(pieces(call("pi", "a"), result("pi", "a")), 5, tokens) is None


def test_leaving_out_no_more_than_an_earlier_summary_is_no_compaction() -> None:
    summary = {"role": "compactionSummary", "content": "s", "tokens": 5}
    assert cut_point(pieces(summary, prompt(90)), 10, tokens) is None
    assert cut_point(pieces(summary, prompt(90), answer()), 10, tokens) == "p2"


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(200))
@given(histories(), st.integers(0, 120), st.lists(st.integers(0, 3), max_size=10))
def test_no_cut_separates_a_call_from_its_result_and_something_is_kept(
    history: list[Message], keep: int, sizes: list[int]
) -> None:
    path: list[Slice] = [Slice("header", [])]
    rest = history
    for size in sizes:  # a piece of several messages, as a merge has, or of none
        path.append(Slice(f"p{len(path)}", rest[:size]))
        rest = rest[size:]
    path += [Slice(f"r{place}", [message]) for place, message in enumerate(rest)]
    found = cut_point(path, keep, tokens)
    total = sum(tokens(message) for piece in path for message in piece.messages)
    assert found is None or total > keep
    if found is None:
        return
    at = [piece.uuid for piece in path].index(found)
    left = [message for piece in path[:at] for message in piece.messages]
    kept = [message for piece in path[at:] for message in piece.messages]
    assert left
    assert kept
    whole, apart = pair(history)[0], [*pair(left)[0], *pair(kept)[0]]
    assert fault_of(apart) is None
    assert str(apart).count("Interrupted") == str(whole).count("Interrupted")


def used(name: str, arguments: Any) -> Entry:
    block = {"type": "toolCall", "id": "i", "name": name, "arguments": arguments}
    return message("u", [block], "assistant")


def test_a_summary_tells_requests_files_and_the_last_answer() -> None:
    entries = [
        message("1", "Build\na CLI"),
        used("read", {"path": "a.py"}),
        used("Edit", {"file_path": "b.py"}),
        used("read", {"path": "b.py"}),
        message("2", [said("first answer")], "assistant"),
        entry("branch_summary", summary="Tried Node"),
        message("3", "And tests"),
        message("4", [said("last answer")], "assistant"),
        used("ls", {"path": "c.py"}),
    ]
    assert summarize(entries).split("\n\n") == [
        "Asked:\n- Build↵a CLI\n- And tests",
        "Earlier:\n- Tried Node",
        "Files changed:\n- b.py",
        "Files read:\n- a.py",
        "Last answer: last answer",
    ]


def test_earlier_compactions_are_not_forgotten() -> None:
    assert summarize([entry("compaction", summary="All before")]) == "Earlier:\n- All before"


def test_results_are_no_requests() -> None:
    block = result("anthropic", "a")["content"]
    assert "Asked" not in summarize([message("1", block)])


def test_calls_without_a_path_touch_no_file() -> None:
    arguments: Any
    for arguments in (None, "text", [], {}, {"path": 5}):
        assert "Files" not in summarize([used("read", arguments)])


def test_where_nothing_was_said_the_summary_says_so() -> None:
    entries = [entry("custom"), entry("message", message="none")]
    assert summarize(entries) == "2 entries without a request or an answer."


def test_a_summary_is_text_or_made_by_a_summarizer() -> None:
    entries = [message("1", "x")]
    assert text_of_summary("as it is", entries) == "as it is"
    assert text_of_summary(lambda left: f"{len(left)} left", entries) == "1 left"
    assert text_of_summary(summarize, entries) == "Asked:\n- x"


@for_each("empty", ["", "  \n", None, 5])
def test_an_empty_summary_is_refused(empty: Any) -> None:
    with pytest.raises(EntryError, match="the summary is"):
        text_of_summary(empty, [])
    with pytest.raises(EntryError, match="the summarizer returned"):
        text_of_summary(lambda entries: empty, [])
