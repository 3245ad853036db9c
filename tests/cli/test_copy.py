from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.table import for_each
from tests.support.terminal import contents, done, lines, printed_json, refused, run, said, texts


def test_fork_copies_the_path_and_leaves_the_source_alone(forked: Path) -> None:
    before = contents(forked.parent)
    copy = forked.with_name("copy.jsonl")
    assert done("fork", forked, copy) == f"{copy}\n"
    assert texts(copy) == texts(forked)
    assert len(printed_json("tree", copy)) < len(printed_json("tree", forked))
    assert printed_json("show", copy)["parentSession"]["id"] == "chat-id"
    after = contents(forked.parent)
    assert after.pop("copy.jsonl")
    assert after == before


@pytest.mark.parametrize("words", [["COPY", "--at", "@~2"], ["@~2", "COPY"]])
def test_fork_at_a_ref_ends_there(forked: Path, words: list[str]) -> None:
    copy = forked.with_name("copy.jsonl")
    header = printed_json("fork", forked, *(copy if word == "COPY" else word for word in words))
    assert texts(copy) == ["hello", "hi"]
    assert header == json.loads(lines(copy)[0])


def test_fork_names_the_message_it_ends_at_where_a_mark_is_the_leaf(forked: Path) -> None:
    done("branch", forked, "@~2", "--name", "again")
    result = run("fork", forked, forked.with_name("copy.jsonl"))
    assert re.match(r"Forked at \w{8} \(assistant: hi\) into ", result.stderr)
    assert re.match(r"Branched at \w{8} \(branch: again\)", run("branch", forked, "@").stderr)
    assert re.match(r"Branched at \w{8} \(branch\)\n", run("branch", forked, "@").stderr)


@for_each(
    "line",
    [
        *("fork copy.jsonl @", "fork @", "fork @~1 @", "fork copy.jsonl named"),
        *("export-branch copy.jsonl @~1", "export-branch copy.jsonl named"),
    ],
)
def test_a_ref_in_the_place_of_the_new_file_is_wrong_usage(
    forked: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    done("label", forked, "@~1", "named")
    monkeypatch.chdir(forked.parent)
    before = contents(forked.parent)
    command, *words = line.split()
    error = refused(command, forked.name, *words, status=2)
    assert f"Error: '{words[-1]}' is a REF; NEWFILE comes last: FILE REF NEWFILE" in error
    assert contents(forked.parent) == before


def test_a_version_1_file_is_forked_without_being_migrated(version_1: Path) -> None:
    before = version_1.read_bytes()
    copy = version_1.with_name("copy.jsonl")
    done("fork", version_1, copy)
    assert version_1.read_bytes() == before
    assert texts(copy) == ["first", "second"]


def test_export_branch_copies_a_subtree(forked: Path, left: str) -> None:
    copy, whole = forked.with_name("sub.jsonl"), forked.with_name("whole.jsonl")
    assert done("export-branch", forked, left, copy) == f"{copy}\n"
    assert texts(copy) == ["sure"]
    header = printed_json("export-branch", forked, left, whole, "--with-path")
    assert texts(whole) == ["hello", "hi", "more", "sure"]
    assert header["type"] == "session"


def test_export_branch_says_what_of_scratch_lanes_stayed_behind(forked: Path) -> None:
    done("append", forked, "--scratch", "--text", "tried")
    copy = forked.with_name("copy.jsonl")
    result = run("export-branch", forked, "@", copy)
    assert result.exit_code == 0
    assert "Warning: 1 entry of scratch lanes that were never kept were not copied" in result.stderr
    assert "tried" not in copy.read_text()


@pytest.mark.parametrize("named", [False, True])
def test_cherry_pick_copies_an_entry_of_another_branch(
    forked: Path, left: str, named: bool
) -> None:
    source = ("--from", str(forked)) if named else ()
    entry = printed_json("cherry-pick", forked, left, *source)
    assert entry["metadata"] == {"cherryPickedFrom": left}
    assert texts(forked)[-1] == "sure"


def test_cherry_pick_from_another_file_leaves_that_alone(chat: Path, version_1: Path) -> None:
    before = version_1.read_bytes()
    done("cherry-pick", chat, "@~1", "--from", version_1)
    assert texts(chat)[-1] == "first"
    assert version_1.read_bytes() == before


def test_cherry_pick_takes_a_streamed_message_whole(chat: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.jsonl"
    with Session.create(other) as session:
        with session.stream_message(granularity="block") as message:
            for text in ("one", "two"):
                message.add({"type": "text", "text": text})
        part = message.entries[0].uuid
    entry = printed_json("cherry-pick", chat, part, "--from", other)
    assert [block["text"] for block in entry["message"]["content"]] == ["one", "two"]


@pytest.mark.parametrize(
    ("summary", "taken"), [([], ["more", "sure"]), (["--summary", "they agreed"], ["they agreed"])]
)
def test_merge_takes_another_branch_or_its_summary_in(
    forked: Path, left: str, summary: list[str], taken: list[str]
) -> None:
    entry = printed_json("merge", forked, left, *summary)
    assert entry["mergedUuid"] == left
    assert texts(forked) == ["hello", "hi", "went elsewhere", "instead", *taken]


def test_a_copy_is_never_made_over_a_file(forked: Path) -> None:
    taken = forked.with_name("taken.jsonl")
    taken.write_text("precious")
    before = contents(forked.parent)
    for words in (("fork", forked, taken), ("export-branch", forked, "@", taken)):
        assert "is there already and was left as it is" in refused(*words)
    assert contents(forked.parent) == before


@pytest.mark.parametrize(
    "words",
    [("fork",), ("fork", "--json"), ("export-branch", "@~1"), ("export-branch", "@", "--redact")],
)
def test_a_copy_without_what_its_original_lost_is_made_and_fails(
    chat: Path, words: tuple[str, ...]
) -> None:
    command, *rest = words
    said(chat, "user", "a long line\n" * 9000)
    done(command, chat, *rest, chat.with_name("whole.jsonl"))
    (blob,) = Path(f"{chat}.blobs").iterdir()
    blob.unlink()
    copy = chat.with_name("copy.jsonl")
    made = run(command, chat, *rest, copy)
    assert made.exit_code == 1
    assert "is missing" in made.stderr
    assert str(copy) in made.stderr
    assert done("tree", copy)


def test_a_dash_is_no_name_for_an_exported_file(
    forked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(forked.parent)
    before = contents(forked.parent)
    assert "without -o, the command prints" in refused("export", forked, "-o", "-", status=2)
    assert contents(forked.parent) == before
