"""Patches: a hunk that was made of two texts makes the second of the first, in each form."""

from __future__ import annotations

from difflib import SequenceMatcher, unified_diff
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from sessiontree.edits.patch import (
    FilePatch,
    Hunk,
    added_content,
    applied,
    are_applied,
    hunks_of,
    parse_numbered,
    parse_patch,
    parse_unified,
    structured_hunks,
)
from tests.support.enough import ENOUGH

Text = list[str]

texts = st.lists(st.sampled_from(["", " ", "a", "b", "- c", "+d", "@@ -1 +1 @@", "\\ e", "f "]))


def unified(before: Text, after: Text, context: int) -> str:
    lines = unified_diff(before, after, "a/file", "b/file", lineterm="", n=context)
    return "".join(f"{line}\n" for line in lines)


def structured(before: Text, after: Text, context: int) -> list[dict[str, Any]]:
    """What Claude Code keeps, in the numbers of a unified diff."""
    found: list[dict[str, Any]] = []
    for hunk in parse_unified(unified(before, after, context)):
        changes = SequenceMatcher(None, hunk.before, hunk.after, autojunk=False).get_opcodes()
        lines: list[str] = []
        for kind, one, two, three, four in changes:
            if kind == "equal":
                lines += (f" {line}" for line in hunk.before[one:two])
            else:
                lines += (f"-{line}" for line in hunk.before[one:two])
                lines += (f"+{line}" for line in hunk.after[three:four])
        start = (hunk.start or 0) - (not hunk.before)
        found.append({"oldStart": start, "lines": lines})
    return found


@given(texts, texts, st.integers(0, 3))
@example(["a"], ["a", "b"], 0)
@example([], ["a"], 0)
@example(["a"], [], 0)
def test_a_unified_diff_makes_the_second_text_of_the_first(
    before: Text, after: Text, context: int
) -> None:
    hunks = parse_unified(unified(before, after, context))
    assert applied(hunks, before, ENOUGH) == after
    backwards = parse_unified(unified(after, before, context))
    assert applied(backwards, after, ENOUGH) == before


@given(texts, texts, st.integers(0, 3))
def test_the_hunks_that_claude_code_keeps_make_the_second_text_of_the_first(
    before: Text, after: Text, context: int
) -> None:
    assert applied(structured_hunks(structured(before, after, context)), before, ENOUGH) == after


@given(texts, texts, texts, texts)
def test_a_hunk_with_numbers_fits_where_they_say(
    before: Text, after: Text, above: Text, below: Text
) -> None:
    whole = ["a", "b", *above, "only", *before, "here", *below]
    made = ["a", "b", *above, "only", *after, "here", *below]
    hunk = Hunk(("only", *before, "here"), ("only", *after, "here"), len(above) + 3)
    assert applied([hunk], whole, ENOUGH) == made
    moved = ["new line", *whole]  # numbers that are a little wrong
    assert applied([hunk], moved, ENOUGH) == ["new line", *made]


names = st.text("ab c.é", min_size=1).map(str.strip).filter(bool)
marked = st.lists(
    st.tuples(st.sampled_from(" -+"), st.sampled_from(["", "x", " y", "@@", "*** z"]))
)


@given(names, marked.filter(lambda lines: any(mark != " " for mark, _ in lines)))
def test_a_patch_of_codex_is_applied_to_the_lines_that_it_is_made_of(
    name: str, lines: list[tuple[str, str]]
) -> None:
    body = [f"{mark}{text}" for mark, text in lines]
    patch = "\n".join(
        [
            "*** Begin Patch",
            f"*** Update File: {name}",
            "@@",
            *body,
            "@@ end",
            "-z",
            "*** End Patch",
        ]
    )
    (found,) = parse_patch(patch)
    assert (found.path, found.kind, found.moved_to) == (name, "update", None)
    before = [text for mark, text in lines if mark != "+"]
    after = [text for mark, text in lines if mark != "-"]
    if before:
        assert applied(found.hunks, [*before, "end", "z"], ENOUGH) == [*after, "end"]


def test_a_patch_of_codex_adds_deletes_moves_and_updates_files() -> None:
    text = """apply_patch
*** Begin Patch
*** Add File: new file.py
+one
+
+two
*** Delete File: old.py
*** Update File: a.py
*** Move to: b.py
@@ class A
@@ def f(self):
-        return 1
+        return 2
*** Update File: c.py
 last
+line
*** End of File
*** End Patch
not of the patch
"""
    added, deleted, moved, last = parse_patch(text.replace("\n", "\r\n"))
    assert added == FilePatch("new file.py", "add", "one\n\ntwo\n")
    assert deleted == FilePatch("old.py", "delete")
    assert (moved.path, moved.moved_to) == ("a.py", "b.py")
    (hunk,) = moved.hunks
    assert hunk.above == ("class A", "def f(self):")
    lines = ["class B", "def f(self):", "        return 1", "class A", "def f(self):"]
    assert applied([hunk], [*lines, "        return 1"], ENOUGH) == [*lines, "        return 2"]
    assert applied(last.hunks, ["last", "x", "last", ""], ENOUGH) == [
        "last",
        "x",
        "last",
        "line",
        "",
    ]
    assert parse_patch("no patch") == []
    assert added_content(["+a", "no mark", "+"]) == "a\n\n"


def test_a_hunk_is_found_without_regard_to_spaces_and_keeps_those_of_the_file() -> None:
    hunks = list(hunks_of([" \tdef f():", "-\treturn 1", "+\treturn 2"]))
    assert applied(hunks, ["\tdef f():  ", "\treturn 1 "], ENOUGH) == ["\tdef f():  ", "\treturn 2"]
    assert applied(hunks, ["    def f():", "    return 1"], ENOUGH) == [
        "    def f():",
        "\treturn 2",
    ]


def test_a_hunk_that_does_not_fit_makes_nothing() -> None:
    fits, fails = Hunk(("a",), ("b",)), Hunk(("x",), ("y",))
    assert applied([fits, fails], ["a"], ENOUGH) is None
    assert applied([Hunk(("a",), ("b",), 1), Hunk(("a",), ("c",), 2)], ["a"], ENOUGH) is None
    assert applied([Hunk(("a",), ("b",), above=("class A",))], ["a"], ENOUGH) is None


def test_a_diff_that_is_cut_has_no_hunks() -> None:
    cases: list[str] = [
        "no diff",
        "@@ -1,3 +1,3 @@\n a\n-b\n+c\n",  # a line is missing
        "@@ -1,1 +1,1 @@\n a\n@@ -9,2 +9,1 @@\n-b\n",
    ]
    for text in cases:
        assert parse_unified(text) == ()


def test_a_diff_ends_where_its_numbers_say() -> None:
    text = (
        "--- a\n+++ b\n@@ -1,2 +1,2 @@\n\n-old\n+new\n\\ No newline at end of file\n--- c\n+++ d\n"
    )
    assert parse_unified(text) == (Hunk(("", "old"), ("", "new"), 1),)


def test_what_is_no_list_of_hunks_has_none() -> None:
    for value in (None, "x", [None], [{"lines": "x"}], [{"lines": ["-a"]}]):
        assert structured_hunks(value) == ()


def test_a_diff_with_numbers_is_read_as_pi_shows_it() -> None:
    shown = "   1 one\n-  2 two\n+  2 2\n+  3 2.5\n   3 three\n     ...\n  10 ten\n- 11 eleven\n"
    assert parse_numbered(shown) == (
        Hunk(("one", "two", "three"), ("one", "2", "2.5", "three"), 1),
        Hunk(("ten", "eleven"), ("ten",), 10),
    )
    assert parse_numbered("no diff at all") == parse_numbered("") == ()


def test_hunks_are_applied_if_their_new_lines_stand_and_the_old_ones_do_not() -> None:
    change = (Hunk(("a", "b"), ("a", "c"), 1),)
    assert are_applied(change, ["a", "c"])
    assert not are_applied(change, ["a", "b"])
    assert not are_applied((Hunk(("a", "b"), ("a",), 1),), ["a", "b"])  # a is there before, too
    assert not are_applied((Hunk(("a",), ("b",)),), ["b"])  # without a number
