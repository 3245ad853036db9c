from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.context.context import Context
from sessiontree.context.fold import ContextBuilder
from sessiontree.context.settings import header_settings, settings_of
from sessiontree.core.entry import Entry
from tests.support.conversation import user
from tests.support.histories import call, result, said
from tests.support.lines import Path, entry, message, path, segments
from tests.support.paired import pair
from tests.support.soak import amount

ROOT = entry("session", "root")


def fold(
    *entries: Entry, verbatim: bool = False, merged: Any = None, cut_above: bool = False
) -> ContextBuilder:
    found = path(ROOT, *entries, cut_above=cut_above)
    return ContextBuilder(found, segments(merged or {}), verbatim=verbatim)


def texts(*entries: Entry, **options: Any) -> list[Any]:
    """What the context of a path says, content by content."""
    return [found.get("content") for found in fold(*entries, **options).result()[0]]


def warnings(*entries: Entry, **options: Any) -> list[str]:
    return fold(*entries, **options).result()[2]


def edit(target: str, content: Any = None, uuid: str = "edit") -> Entry:
    replacement = None if content is None else {"content": content}
    return entry("context_edit", uuid, targetUuid=target, replacement=replacement)


def compaction(first_kept: str, uuid: str = "c", **fields: Any) -> Entry:
    return entry("compaction", uuid, summary=f"S{uuid}", firstKeptEntryUuid=first_kept, **fields)


def merge(merged: str, base: str = "root", uuid: str = "m", **fields: Any) -> Entry:
    return entry("merge", uuid, mergedUuid=merged, baseUuid=base, **fields)


FROM: dict[str, Any] = {"summary": "s", "fromUuid": "f"}
SUMMARY = {"role": "branchSummary", "content": "s"}
ASSISTANT: dict[str, Any] = {"role": "assistant"}
A, B, C, D = (message(name.lower(), name) for name in "ABCD")


def test_each_type_contributes_what_the_format_says() -> None:
    cases: list[tuple[Entry, dict[str, Any]]] = [
        (A, user("A")),
        *((entry(f"{kind}_summary", **FROM), {**SUMMARY, **FROM}) for kind in ("branch", "stack")),
        (
            compaction("c", tokensBefore=9),
            {"role": "compactionSummary", "content": "Sc", "summary": "Sc", "tokensBefore": 9},
        ),
        (merge("x", summary="s"), {**SUMMARY, "summary": "s", "mergedUuid": "x"}),
        (
            entry("custom_message", customType="t", content="c", display=True, details=1),
            {"role": "custom", "customType": "t", "content": "c", "display": True, "details": 1},
        ),
        (entry("handle", handle="b@1.0.0::sha256:x", kind="output"), user("b@1.0.0::sha256:x")),
        (
            entry("handle", handle={"source": "s", "source_version": "1", "identifier": "i"}),
            user("s@1::i"),
        ),
        (entry("handle", handle="h@1::m", role="assistant"), {**user("h@1::m"), **ASSISTANT}),
        (entry("handle", handle="h@1::m", role=["user"]), user("h@1::m")),
        (
            entry("message_end", messageUuid="x", model="m", **ASSISTANT),
            {"content": [], "model": "m", **ASSISTANT},
        ),
    ]
    for found, expected in cases:
        messages, sources, told = fold(found).result()
        assert messages == [expected]
        assert sources == [found]
        assert told == [], found


def test_the_other_known_types_contribute_nothing_and_warn_of_nothing() -> None:
    cases: list[str] = [
        *("session", "stack_push", "branch", "model_change", "thinking_level_change"),
        *("custom", "label", "session_info", "usage"),
    ]
    for kind in cases:
        assert fold(entry(kind), A).result() == ([A["message"]], [A], [])


def test_an_edit_that_is_not_valid_has_no_effect_and_gives_a_warning() -> None:
    odd: Any
    for odd in ({}, {"replacement": None}, {"targetUuid": "A"}):
        assert texts(A, entry("context_edit", "e", **odd)) == ["A"]
    for odd in ("text", [], 5, {}):
        edit = entry("context_edit", "e", targetUuid="A", replacement=odd)
        assert texts(A, edit) == ["A"], odd
        assert warnings(A, edit) == [
            "edit e has no effect: it needs a target, and a replacement that is null or has a "
            "content"
        ]


def test_unknown_types_say_nothing_and_give_one_warning_a_type() -> None:
    entries = [entry("new", "1"), entry("new", "2"), entry("newer", "3"), A]
    assert texts(*entries) == ["A"]
    told = [re.findall("'new(.*?)'", told) for told in warnings(*entries)]
    assert told == [[""], ["er"]]


def test_a_message_entry_without_a_message_is_left_out_and_told() -> None:
    odd: Any
    for odd in (None, "text", [], 5):
        broken = entry("message", "broken", message=odd)
        assert texts(A, broken) == ["A"], odd
        assert warnings(broken) == ["message broken holds no message and was left out"], odd
        assert warnings(entry("message", "broken")) == warnings(broken), odd


def test_messages_are_the_stored_objects_themselves() -> None:
    assert fold(A).result()[0][0] is A["message"]


def test_calls_and_results_are_paired_unless_verbatim() -> None:
    stored = [user("x"), call("pi", "a"), result("pi", "b")]
    entries = [entry("message", f"u{i}", message=found) for i, found in enumerate(stored)]
    messages, sources, told = fold(*entries).result()
    assert (messages, told) == pair(stored)
    assert sources == [entries[0], entries[1], entries[1]]
    assert fold(*entries, verbatim=True).result() == (stored, entries, [])


def assistant(uuid: str, model: Any, provider: Any = "p") -> Entry:
    return message(uuid, "hi", "assistant", model=model, provider=provider)


def in_force(*entries: Entry) -> dict[str, Any]:
    return fold(*entries).settings


def model(name: str, provider: str | None = "p") -> dict[str, Any]:
    return {"provider": provider, "modelId": name}


def test_the_latest_model_is_in_force_whoever_named_it() -> None:
    change = entry("model_change", provider="p", modelId="changed")
    assert in_force(assistant("1", "one")) == {"model": model("one")}
    assert in_force(assistant("1", "one"), change)["model"] == model("changed")
    assert in_force(change, assistant("1", "one"))["model"] == model("one")
    assert in_force(change, message("1", "x", "assistant"))["model"] == model("changed")
    assert in_force(change, assistant("1", None), assistant("2", ""))["model"] == model("changed")
    for role in ("user", "toolResult"):
        assert in_force(message("1", "x", role, model="mine", provider="p")) == {}
    end = entry("message_end", messageUuid="x", role="assistant", model="ended", provider="p")
    assert in_force(change, end)["model"] == model("ended")


def test_the_latest_thinking_level_is_in_force() -> None:
    low = entry("thinking_level_change", thinkingLevel="low")
    high = entry("thinking_level_change", thinkingLevel="high")
    assert in_force(low, high, A) == {"thinkingLevel": "high"}


def test_a_system_message_is_a_setting_and_no_message() -> None:
    first, second = message("1", "Be brief", "system"), message("2", [said("Be kind")], "system")
    assert texts(first, A, second) == ["A"]
    assert in_force(first, A, second) == {"system": "Be kind"}
    assert texts(first, A, verbatim=True) == ["Be brief", "A"]
    assert texts(first, A, edit("a", "Z"), verbatim=True) == ["Be brief", "Z"]
    assert texts(first, A, edit("a", "Z")) == ["Z"]
    assert texts(entry("handle", handle="h@1::m", role="system"), A) == ["A"]


def test_a_compaction_carries_the_settings_at_its_point() -> None:
    state = {"model": model("m"), "thinkingLevel": None, "system": "S", "name": "N"}
    cut = compaction("c", state={**state, "own": 1})
    assert in_force(cut) == state
    assert in_force(cut, assistant("1", "later"))["model"] == model("later")
    assert settings_of(compaction("c", state="odd")) == {}
    assert settings_of(compaction("c", state={"system": None})) == {"system": None}
    assert settings_of(compaction("c", state={"system": ["S"], "model": "m", "name": 5})) == {}


def test_what_a_compaction_kept_is_older_than_its_state() -> None:
    state = {"model": model("new"), "thinkingLevel": "high", "system": None, "name": None}
    cut = compaction("1", state=state)
    entries = [assistant("1", "old"), message("2", "S", "system"), cut]
    assert in_force(*entries) == state
    assert in_force(*entries, A) == state


def test_the_header_names_the_settings_that_a_session_starts_with() -> None:
    assert header_settings({}) == {}
    named = {"model": model("m"), "thinkingLevel": "high"}
    assert header_settings({**model("m"), "thinkingLevel": "high"}) == named
    facts = {"model": model("n", "q"), "system": "S"}
    assert header_settings({"modelId": "m", "metadata": facts}) == facts
    assert header_settings({"metadata": 5, "model": 7, "system": []}) == {}


def test_a_summary_stands_in_place_of_all_before_the_first_kept_entry() -> None:
    assert texts(A, B, C, compaction("b"), D) == ["Sc", "B", "C", "D"]
    assert texts(A, B, compaction("root"), D) == ["Sc", "A", "B", "D"]
    assert texts(A, B, compaction("c"), D) == ["Sc", "D"]  # it names itself and keeps nothing


def test_earlier_compactions_contribute_nothing() -> None:
    path = [A, B, compaction("b", "c1"), C, compaction("b", "c2"), D]
    assert texts(*path) == ["Sc2", "B", "C", "D"]
    assert texts(A, B, compaction("b", "c1"), C, compaction("a", "c2")) == ["Sc2", "A", "B", "C"]
    assert texts(A, compaction("a", "c1"), B, compaction("c1", "c2"), C) == ["Sc2", "B", "C"]


def test_a_first_kept_entry_that_is_not_on_the_path_keeps_what_follows_and_warns() -> None:
    entries = [A, B, compaction("elsewhere"), D]
    assert texts(*entries) == ["Sc", "D"]
    [told] = warnings(*entries)
    assert "elsewhere" in told
    assert "not on the path" in told
    assert texts(A, compaction("d"), D) == ["Sc", "D"]  # below it is not before it


def test_where_the_file_was_cut_above_the_first_kept_entry_all_there_is_is_kept() -> None:
    entries = [A, B, compaction("elsewhere"), D]
    assert texts(*entries, cut_above=True) == ["Sc", "A", "B", "D"]
    assert warnings(*entries, cut_above=True) == []
    path = [A, compaction("a", "c1"), B, compaction("z", "c2")]
    assert texts(*path, cut_above=True) == ["Sc2", "A", "B"]


def test_an_edit_drops_or_replaces_and_the_latest_wins() -> None:
    assert texts(A, B, edit("a")) == ["B"]
    assert texts(A, B, edit("a", "Z")) == ["Z", "B"]
    assert texts(A, edit("a", "Y", "1"), edit("a", "Z", "2")) == ["Z"]
    assert texts(A, edit("a", None, "1"), edit("a", "Z", "2")) == ["Z"]
    assert texts(A, edit("a", "Z", "1"), edit("a", None, "2")) == []
    assert texts(A, edit("elsewhere", "Z")) == ["A"]
    odd = [entry("context_edit", "1"), entry("context_edit", "2", targetUuid=["a"])]
    assert texts(A, *odd) == ["A"]


def test_an_edit_changes_the_content_alone_and_never_what_is_stored() -> None:
    before = assistant("1", "m")
    [edited], _, _ = fold(before, edit("1", [said("Z")])).result()
    assert edited == {**before["message"], "content": [said("Z")]}
    assert before["message"]["content"] == "hi"


def test_summaries_are_edited_in_every_name_they_have() -> None:
    summary = entry("branch_summary", "s", summary="old")
    [edited], _, _ = fold(summary, edit("s", "new")).result()
    assert (edited["content"], edited["summary"]) == ("new", "new")
    assert texts(A, compaction("c"), edit("c", "new")) == ["new"]
    assert texts(A, compaction("c"), B, edit("c")) == ["B"]


def test_an_edited_item_that_has_no_place_for_text_becomes_a_message() -> None:
    thought = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "sealed"}
    asked = {"type": "function_call", "call_id": "c", "name": "ls", "arguments": "{}"}
    answer = {"type": "function_call_output", "call_id": "c", "output": "a b"}
    said = {"t": thought, "a": asked, "o": answer}
    items = [entry("message", uuid, message=item) for uuid, item in said.items()]
    told = {"role": "assistant", "content": "shorter"}
    assert fold(*items, edit("t", "shorter")).result()[0] == [told, asked, answer]
    assert fold(*items, edit("o", "-")).result()[0] == [thought, asked, {**answer, "output": "-"}]
    messages, _, warned = fold(*items, edit("a", "shorter")).result()
    assert messages == [thought, told]
    assert warned == ["a result for call c was left out: no such call is open before it"]


def test_an_edit_leaves_nothing_of_an_output_behind() -> None:
    ran = {"role": "bashExecution", "command": "env", "output": "KEY"}
    [edited], _, _ = fold(entry("message", "r", message=ran), edit("r", "gone")).result()
    assert edited == {**ran, "output": "gone"}


def test_a_merge_with_a_summary_is_that_summary() -> None:
    assert texts(A, merge("b", "a", summary="S"), merged={("a", "b"): [B]}) == ["A", "S"]


def test_a_merge_contributes_what_lies_between_base_and_merged() -> None:
    fields: Any
    for fields in ({}, {"summary": None}):
        found = fold(A, merge("c", "a", **fields), D, merged={("a", "c"): [B, C]})
        entries = [A, B, C, D]
        assert found.result() == ([entry["message"] for entry in entries], entries, []), fields


def test_a_merge_of_merges_contributes_each_entry_once_the_first_time() -> None:
    known = {
        ("root", "x"): [B, merge("d", "root", "inner"), C],
        ("root", "d"): [D, A],
        ("root", "inner"): [B, merge("d", "root", "inner")],
    }
    for again in ("d", "inner"):
        path = [A, merge("x"), merge(again, uuid="m2")]
        assert texts(*path, merged=known) == ["A", "B", "D", "C"]


def test_what_was_merged_counts_under_its_own_compaction_and_edits() -> None:
    known = {("root", "x"): [A, B, edit("b", "Z"), compaction("b", "k"), C]}
    assert texts(merge("x"), merged=known) == ["Sk", "Z", "C"]
    known = {("a", "x"): [B, compaction("a", "k"), C]}
    assert texts(A, merge("x", "a"), merged=known) == ["A", "Sk", "B", "C"]
    known = {("a", "x"): [B, compaction("k", "k"), C]}
    assert texts(A, merge("x", "a"), merged=known) == ["A", "Sk", "C"]


def test_an_edit_on_a_merged_branch_counts_for_what_it_merged_itself() -> None:
    known = {("root", "x"): [B, merge("d", "b", "inner"), edit("d", "Z")], ("b", "d"): [D]}
    assert texts(B, merge("d", "b", "inner"), edit("d", "Z"), merged=known) == ["B", "Z"]
    assert texts(A, merge("x"), merged=known) == ["A", "B", "Z"]


def test_an_edit_on_the_path_counts_for_merged_entries_and_comes_last() -> None:
    known = {("root", "x"): [B, edit("b", "Y", "e1"), C]}
    assert texts(merge("x"), edit("b", "Z"), merged=known) == ["Z", "C"]
    assert texts(merge("x"), edit("c"), merged=known) == ["Y"]
    assert texts(merge("x"), edit("m", "Z"), merged=known) == ["Z"]
    assert texts(A, merge("x"), edit("m"), merged=known) == ["A"]


def test_the_settings_of_what_was_merged_do_not_count() -> None:
    known = {("root", "x"): [assistant("1", "theirs"), message("2", "S", "system")]}
    found = fold(assistant("0", "ours"), merge("x"), merged=known)
    assert found.settings == {"model": model("ours")}
    assert len(found.result()[0]) == 2
    assert len(fold(merge("x"), merged=known, verbatim=True).result()[0]) == 2


def test_a_merge_of_what_is_not_there_says_nothing_and_warns() -> None:
    cases: list[Entry] = [
        *(merge("gone"), entry("merge"), entry("merge", mergedUuid=5, baseUuid="a")),
        entry("merge", mergedUuid="x", baseUuid=["a"]),
    ]
    for odd in cases:
        assert texts(A, odd, B) == ["A", "B"]
        assert len(warnings(A, odd, B)) == 1


def test_merges_in_a_circle_come_to_an_end() -> None:
    known = {
        ("root", "x"): [A, merge("y", uuid="to y")],
        ("root", "y"): [B, merge("x", uuid="to x"), merge("y", uuid="to y")],
    }
    assert texts(merge("x"), C, merged=known) == ["A", "B", "C"]


def test_merges_nested_two_thousand_deep_are_followed_without_recursion() -> None:
    known = {
        ("root", f"x{n}"): [message(f"u{n}", n), merge(f"x{n + 1}", uuid=f"m{n}")]
        for n in range(2_000)
    }
    known["root", "x2000"] = [D]
    assert texts(merge("x0"), merged=known) == [*range(2_000), "D"]


def test_the_same_branch_merged_by_every_branch_is_not_followed_twice() -> None:
    known = {}
    for n in range(60):
        twice = [merge(f"x{n + 1}", uuid=f"m{n}.{i}") for i in "ab"]
        known["root", f"x{n}"] = [message(f"u{n}", n), *twice]
    assert texts(merge("x0"), merged=known) == [*range(60)]


def block(uuid: str, index: Any, text: str, of: Any = "x") -> Entry:
    return entry("block", uuid, messageUuid=of, index=index, block=said(text))


def end(uuid: str = "end", of: str = "x", **fields: Any) -> Entry:
    return entry("message_end", uuid, messageUuid=of, role="assistant", **fields)


def test_blocks_are_folded_into_one_message_where_the_first_stands() -> None:
    first, second = block("1", 0, "a"), block("2", 1, "b")
    messages, sources, told = fold(first, A, second, end(stopReason="stop"), B).result()
    assert messages == [
        {"role": "assistant", "content": [said("a"), said("b")], "stopReason": "stop"},
        *(A["message"], B["message"]),
    ]
    assert sources == [first, A, B]
    assert told == []


def test_blocks_stand_by_index_and_a_later_one_replaces_an_earlier() -> None:
    blocks = [block("1", 7, "c"), block("2", 0, "a"), block("3", 2, "b"), block("4", 7, "z")]
    assert texts(*blocks, end()) == [[said("a"), said("b"), said("z")]]


def test_without_its_end_a_message_is_partial_and_says_so() -> None:
    [partial], _, told = fold(block("1", 0, "a")).result()
    assert partial == {"role": "assistant", "content": [said("a")], "partial": True}
    assert told == ["message x is partial: it has no end"]
    assert warnings(merge("y"), merged={("root", "y"): [block("1", 0, "a")]}) == told


def test_blocks_of_several_messages_do_not_mix() -> None:
    entries = [block("1", 0, "a", "x"), block("2", 0, "b", "y"), end("3", "y"), end("4", "x")]
    assert texts(*entries) == [[said("a")], [said("b")]]


def test_blocks_that_are_odd_cost_nothing_but_themselves() -> None:
    odd: Any
    for odd in (None, [], {}, "text", True):
        assert texts(block("1", odd, "a"), A, end())[-1] == "A"
        assert texts(block("1", 0, "a", odd), A)[-1] == "A"
        nothing = entry("block", "1", messageUuid="x", index=0, block=None)
        assert texts(nothing, block("2", 1, "b"), end()) == [[said("b")]], odd


def test_a_path_whose_top_was_lost_may_start_with_any_type() -> None:
    known = segments({("b", "a"): [A]})
    for top, said_first in [(block("1", 0, "x"), [said("x")]), (merge("a", "b"), "A")]:
        messages, _, _ = ContextBuilder(Path([top, B]), known).result()
        assert [found["content"] for found in messages] == [said_first, "B"]


def test_an_edit_of_a_block_or_of_the_end_speaks_of_the_whole_message() -> None:
    entries = [block("1", 0, "a"), block("2", 1, "b"), end()]
    for target in ("1", "2", "end"):
        assert texts(*entries, edit(target, "Z")) == ["Z"]
        assert texts(*entries, edit(target), A) == ["A"]


def test_pieces_say_what_each_entry_of_the_path_stands_for() -> None:
    known = {("root", "x"): [B, C]}
    found = path(ROOT, A, merge("x"), entry("label", "l"), edit("a", "Z"), D)
    pieces = ContextBuilder(found, segments(known)).pieces(found)
    assert [(p.uuid, [m["content"] for m in p.messages]) for p in pieces] == [
        *(("root", []), ("a", ["Z"]), ("m", ["B", "C"]), ("l", []), ("edit", []), ("d", ["D"]))
    ]
    assert [list(p.sources) for p in pieces if p.messages] == [[A], [B, C], [D]]


@st.composite
def entries(draw: st.DrawFn) -> list[Entry]:
    """A path of any types, some of them naming each other."""
    made: list[Entry] = []
    for place in range(draw(st.integers(0, 10))):
        uuid = f"u{place}"
        target = draw(st.sampled_from(["root", *(e.uuid for e in made), uuid, "elsewhere"]))
        text = user(f"{place}")
        system = {"role": "system", "content": f"{place}"}
        ids = draw(st.sampled_from(["a", "b"]))
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("message", {"message": text}),
            ("message", {"message": call("pi", ids)}),
            ("message", {"message": result("pi", ids, text=f"{place}")}),
            ("message", {"message": system}),
            ("message", {"message": {**text, "role": "assistant", "model": f"m{place}"}}),
            ("compaction", {"summary": f"S{place}", "firstKeptEntryUuid": target}),
            ("context_edit", {"targetUuid": target, "replacement": {"content": "edited"}}),
            ("context_edit", {"targetUuid": target, "replacement": None}),
            ("merge", {"mergedUuid": target, "baseUuid": "root"}),
            ("block", {"messageUuid": ids, "index": place, "block": said(f"{place}")}),
            ("message_end", {"messageUuid": ids, "role": "assistant"}),
            ("model_change", {"provider": "p", "modelId": f"{place}"}),
            ("handle", {"handle": "h@1::m", "role": "system"}),
            ("handle", {"handle": f"h@1::m:{place}"}),
            ("branch_summary", {"summary": f"{place}"}),
            ("label", {}),
            ("of the future", {}),
        ]
        kind, fields = draw(st.sampled_from(kinds))
        made.append(entry(kind, uuid, **fields))
    return made


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(300))
@given(entries(), st.booleans())
def test_entries_taken_one_by_one_give_what_all_give(rest: list[Entry], verbatim: bool) -> None:
    lookup = segments({("root", found.uuid): [found] for found in rest})

    def whole(length: int) -> ContextBuilder:
        return ContextBuilder(path(ROOT, *rest[:length]), lookup, verbatim=verbatim)

    kept = whole(0)
    for length, found in enumerate(rest, 1):
        anew = whole(length)
        if not kept.take(found):
            kept = whole(length)
        assert kept.result() == anew.result()
        assert kept.settings == anew.settings
        messages, sources, _ = anew.result()
        assert len(messages) == len(sources)
        assert verbatim or all(m.get("role") != "system" for m in messages)
        assert verbatim or pair(messages) == (messages, [])


def test_a_context_counts_and_looks_up_only_when_asked() -> None:
    asked: list[str] = []
    settings: dict[str, Any] = {"model": model("m"), "thinkingLevel": "high", "system": "S"}

    def look_up(key: str) -> Any:
        asked.append(key)
        return settings[key]

    def count(found: Any) -> int:
        asked.append("tokens")
        return 7

    messages = [A["message"]]
    context = Context(A, messages, [A], ["w"], look_up, count)
    assert asked == []
    assert (context.tokens, context.tokens) == (7, 7)
    assert asked == ["tokens"]
    told = {"leaf": "a", "messages": messages, **settings, "tokens": 7, "warnings": ["w"]}
    assert context.as_dict() == told


def test_results_are_fresh_lists_each_time() -> None:
    for verbatim in (True, False):
        found = fold(A, verbatim=verbatim)
        found.result()[0].clear()
        assert len(found.result()[0]) == 1
