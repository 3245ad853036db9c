from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import contents, done, last, lines, printed_json, run, said, texts


def test_new_makes_a_session_with_what_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "new.jsonl"
    words = ("--name", "N", "--cwd", "/c", "--id", "I", "--metadata", '{"system": "S"}')
    result = run("new", file, *words)
    header = last(file)
    assert result.stdout == header["uuid"] + "\n"
    assert result.stderr == f"Created {file}, session I\n"
    assert (header["name"], header["cwd"], header["id"]) == ("N", "/c", "I")
    assert header["metadata"] == {"system": "S"}
    assert printed_json("context", file)["system"] == "S"


def test_new_is_about_the_same_folder_wherever_it_is_asked_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done("new", "new.jsonl", "--cwd", "app")
    assert last(tmp_path / "new.jsonl")["cwd"] == str(tmp_path / "app")
    assert "new.jsonl" in done("ls", ".", "--cwd", "app", "--json")


def test_a_write_prints_the_uuid_or_the_entry_as_stored(chat: Path) -> None:
    assert done("append", chat, "--text", "x") == last(chat)["uuid"] + "\n"
    assert done("append", chat, "--text", "y", "--json").encode() == lines(chat)[-1] + b"\n"


def test_append_takes_any_message_from_standard_input(chat: Path) -> None:
    message = {"role": "assistant", "content": [{"type": "text", "text": "é"}], "n": 2**70}
    done("append", chat, input=json.dumps(message))
    assert last(chat)["message"] == message


def test_append_below_what_a_script_saw_last_tells_where_the_leaf_was(chat: Path) -> None:
    seen = done("append", chat, "--text", "mine").strip()
    done("push", chat)
    assert "side branch" not in run("append", chat, "--text", "on", "--parent", "@").stderr
    told = run("append", chat, "--text", "mine again", "--parent", seen).stderr
    assert told.endswith("(user: on); it is on a side branch now\n")
    done("branch", chat, seen)
    assert "side branch" not in run("append", chat, "--text", "more", "--parent", seen).stderr


def test_append_does_not_read_standard_input_where_text_is_given(chat: Path) -> None:
    done("append", chat, "--text", "x\ny", input="no json")
    assert last(chat)["message"] == {"role": "user", "content": "x\ny"}


def test_append_writes_below_the_given_parent_on_the_given_lane(chat: Path) -> None:
    parent = printed_json("path", chat)[1]["uuid"]
    where = ("--parent", parent[:8], "--lane", "side", "--metadata", '{"cost": 1.5}')
    done("append", chat, "--text", "x", *where)
    assert (last(chat)["parentUuid"], last(chat)["lane"]) == (parent, "side")
    assert last(chat)["metadata"] == {"cost": 1.5}
    on_side = last(chat)["uuid"]
    done("append", chat, "--text", "y", "--lane", "side")
    assert last(chat)["parentUuid"] == on_side


def test_append_attaches_a_file(chat: Path, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text("remember")
    done("append", chat, "--attach", note, "--metadata", '{"cost": 1.5}', "--lane", "side")
    assert (last(chat)["preview"], last(chat)["lane"]) == ("note.txt", "side")
    assert last(chat)["metadata"] == {"cost": 1.5}
    uuid = done("append", chat, "--attach", note, "--role", "assistant", "--preview", "a b").strip()
    note.unlink()
    assert (last(chat)["uuid"], last(chat)["preview"]) == (uuid, "a b")
    attached = printed_json("context", chat)["messages"][-1]
    assert attached == {"role": "assistant", "content": "```\nremember\n```"}


def test_append_takes_a_handle(chat: Path) -> None:
    uuid = said(chat, "user", "said once")
    again = f"session@2.0.0::entry:chat-id:{uuid}"
    done("append", chat, "--handle", again)
    assert printed_json("context", chat)["messages"][-1]["content"] == "said once"
    before = chat.read_bytes()
    for wrong in (again[:-1], "no handle", "nobody@1.0.0::x"):
        assert run("append", chat, "--handle", wrong).exit_code == 1
    assert run("append", chat, "--attach", chat.with_name("none")).exit_code == 1
    assert chat.read_bytes() == before


def test_an_annotation_does_not_become_the_parent_of_the_next_message(chat: Path) -> None:
    leaf = last(chat)["uuid"]
    done("label", chat, "@", "here")
    done("rename", chat, "Another name")
    said(chat, "user", "on")
    path = [entry["uuid"] for entry in printed_json("path", chat)]
    assert leaf in path


def test_label_names_an_entry_and_clear_takes_the_name_away(chat: Path) -> None:
    target = printed_json("path", chat)[2]["uuid"]
    done("label", chat, target, "answer")
    assert printed_json("show", chat, "answer")["uuid"] == target
    done("label", chat, "answer", "--clear")
    assert run("show", chat, "answer").exit_code == 1


def test_rename_names_the_session(chat: Path) -> None:
    done("rename", chat, "Better name")
    assert printed_json("show", chat)["name"] == "Better name"


def test_edit_context_drops_an_entry(chat: Path) -> None:
    done("edit-context", chat, "@~1", "--drop")
    assert texts(chat) == ["hello", "hi", "sure"]


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (("--text", "less"), "less"),
        (("--text", ""), ""),
        (("--content", '"less"'), "less"),
        (("--content", '[{"type":"text","text":"less"}]'), [{"type": "text", "text": "less"}]),
    ],
)
def test_edit_context_replaces_content(chat: Path, words: tuple[str, str], content: Any) -> None:
    done("edit-context", chat, "@~1", *words)
    assert texts(chat) == ["hello", "hi", content, "sure"]


def test_migrate_keeps_the_original_and_says_where(version_1: Path) -> None:
    before = version_1.read_bytes()
    reading = printed_json("path", version_1)
    result = run("migrate", version_1)
    kept = version_1.with_name("old.jsonl.v1")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert f"the original is kept as {kept}" in result.stderr
    assert "3 entries" in result.stderr
    assert kept.read_bytes() == before
    assert [e["uuid"] for e in printed_json("path", version_1)] == [e["uuid"] for e in reading]


def test_migrate_does_it_once(version_1: Path) -> None:
    done_once = {"file": str(version_1), "migrated": True, "original": f"{version_1}.v1"}
    assert printed_json("migrate", version_1) == {**done_once, "entries": 3}
    after = contents(version_1.parent)
    result = run("migrate", version_1)
    assert result.exit_code == 0
    assert "nothing was done" in result.stderr
    assert printed_json("migrate", version_1)["migrated"] is False
    assert contents(version_1.parent) == after


def test_migrate_of_a_link_says_where_the_original_really_is(
    version_1: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link.jsonl"
    link.symlink_to(version_1)
    assert printed_json("migrate", link)["original"] == f"{version_1}.v1"
    assert version_1.with_name("old.jsonl.v1").exists()


def test_a_write_migrates_an_old_file_on_the_way_and_says_so(version_1: Path) -> None:
    result = run("append", version_1, "--text", "third")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"Migrated {version_1} to version 2; the original is kept as ")
    assert texts(version_1) == ["first", "second", "third"]


@pytest.mark.parametrize("option", [("--scratch",), ("--lane", "side"), ("--attach", "{}")])
def test_a_write_migrates_an_old_file_whatever_it_writes(
    version_1: Path, option: tuple[str, ...]
) -> None:
    words = [word.format(version_1) for word in option]
    result = run("append", version_1, "--text", "x" * 40_000, *words)
    assert result.stderr.startswith(f"Migrated {version_1} to version 2")
    assert run("verify", version_1).exit_code == 0
    assert len(lines(version_1)) == 4


def test_append_says_on_which_lane_it_wrote(chat: Path) -> None:
    assert " on lane" not in run("append", chat, "--text", "x").stderr
    assert " on lane" not in run("append", chat, "--text", "x", "--lane", "main").stderr
    side = run("append", chat, "--text", "x", "--lane", "side")
    assert side.stderr.endswith(" on lane side\n")
    scratch = run("append", chat, "--text", "x", "--scratch")
    lane = last(chat)["lane"]
    told = f" on lane {lane}; to keep it: sessiontree keep {chat} {lane}\n"
    assert scratch.stderr.endswith(told)
    assert run("append", chat, "--text", "x", "--lane", lane).stderr.endswith(told)


def test_a_scratch_lane_starts_at_the_given_parent(chat: Path) -> None:
    first = printed_json("path", chat)[1]["uuid"]
    leaf = last(chat)["uuid"]
    done("append", chat, "--scratch", "--text", "x")
    assert last(chat)["parentUuid"] == leaf
    done("append", chat, "--scratch", "--text", "x", "--parent", "@~3")
    assert last(chat)["parentUuid"] == first


def test_a_scratch_lane_is_written_in_steps_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    done("new", file)
    first = said(file, "user", "Do it")
    done("append", file, "--scratch", "--role", "assistant", "--text", "Tried")
    lane = last(file)["lane"]
    assert printed_json("context", file)["leaf"] == first
    assert f"lane {lane}" in done("tree", file)
    tip = done("append", file, "--lane", lane, "--role", "user", "--text", "More").strip()
    kept = run("keep", file, lane)
    assert kept.stdout == last(file)["uuid"] + "\n"
    below = f"the next entry on main goes below {tip[:8]} (user: More)\n"
    assert kept.stderr == f"Joined {lane} to main; {below}"
    assert texts(file) == ["Do it", "Tried", "More"]


def test_keep_names_what_main_had_gone_on_to_and_how_to_have_it_back(tmp_path: Path) -> None:
    file = tmp_path / "a b.jsonl"
    done("new", file)
    said(file, "user", "Do it")
    done("append", file, "--scratch", "--text", "Tried")
    lane = last(file)["lane"]
    left = said(file, "user", "Meanwhile")
    kept = run("keep", file, lane)
    _, *told = kept.stderr.splitlines()
    assert told == [
        f"The last entry of main was {left[:8]} (user: Meanwhile); it is on a side branch now",
        f"to merge it: sessiontree merge '{file}' {left}",
        f"to go back to it: sessiontree switch '{file}' {left}",
    ]
    for words, expected in zip(
        (shlex.split(line.split(": ", 1)[1])[1:] for line in told[1:]),
        (["Do it", "Tried", "Meanwhile"], ["Do it", "Meanwhile"]),
        strict=True,
    ):
        done(*words)
        assert texts(file) == expected


def test_a_label_of_the_leaf_is_on_the_last_message(chat: Path) -> None:
    last = printed_json("path", chat)[-1]["uuid"]
    for name in ("one", "two"):
        told = run("label", chat, "@", name).stderr
        assert told.startswith(f"Labelled {last[:8]} (assistant: sure) '{name}'")
        assert printed_json("show", chat, name)["uuid"] == last


def test_an_edit_of_the_leaf_is_of_the_last_message(chat: Path) -> None:
    done("rename", chat, "Renamed")
    assert "(assistant: sure)" in run("edit-context", chat, "@", "--drop").stderr
    assert "sure" not in done("context", chat)


def test_a_new_label_says_which_one_it_replaces(chat: Path) -> None:
    assert "was" not in run("label", chat, "@", "good state").stderr
    assert run("label", chat, "@", "good state").stderr.endswith("'good state'\n")
    assert run("label", chat, "@", "best").stderr.endswith("'best'; the label was 'good state'\n")
    assert run("label", chat, "@", "--clear").stderr.endswith("; the label was 'best'\n")
