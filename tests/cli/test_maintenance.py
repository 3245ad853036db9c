"""verify and repair: what they say, where, and with which status they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.support import transcripts
from tests.support.sessions import said
from tests.support.terminal import contents, done, lines, printed_json, refused, run


def spoil(chat: Path) -> None:
    """A torn end, which can be mended, and a wrong checksum, which cannot."""
    found = lines(chat)
    found[2] = found[2][:-10] + b'00000000"}'
    chat.write_bytes(b"\n".join(found) + b'\n{"type":"mess')


def test_a_sound_file_is_verified_and_left_alone(chat: Path) -> None:
    before = contents(chat.parent)
    assert done("verify", chat) == ""
    result = run("repair", chat)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{chat}: nothing to repair\n"
    assert contents(chat.parent) == before


def test_verify_takes_folders_and_without_one_the_store(
    chat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    bad = Path(said(store, "one"))
    said(store, "two")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    absent = run("verify")
    told = f"{tmp_path}/sessiontree: 0 sessions, no damage found\n"
    assert (absent.exit_code, absent.stderr) == (0, told)
    monkeypatch.setenv("SESSIONTREE_STORE", store.root)
    assert run("verify").stderr == f"{store.root}: 2 sessions, no damage found\n"
    bad.write_bytes(bad.read_bytes() + b'{"type":"mess')
    found = run("verify", "--json")
    assert [(row["file"], row["line"]) for row in json.loads(found.stdout)] == [(str(bad), 3)]
    assert (found.exit_code, found.stderr) == (1, f"{store.root}: 2 sessions, 1 finding\n")
    (chat.parent / "cut.jsonl").write_text('{"type":')
    both = run("verify", chat.parent, store.root)
    assert both.exit_code == 1
    assert both.stderr.splitlines()[:2] == [
        f"{chat.parent}: 4 sessions, 1 finding",
        f"{store.root}: 2 sessions, 1 finding",
    ]
    assert f"Error: {chat.parent / 'cut.jsonl'}" in both.stderr


def test_verify_names_what_an_operation_that_was_killed_left_beside(chat: Path) -> None:
    stray = chat.with_name("chat.jsonl.4321-0123abcd.tmp")
    stray.write_bytes(b"half a file")
    result = run("verify", chat)
    assert (result.exit_code, result.stdout) == (0, "")
    first, second = result.stderr.splitlines()
    assert first == f"{chat}: no damage found"
    assert second.startswith(f"{stray}: ")
    assert "remove it" in second


def test_a_repair_that_mends_everything_succeeds(chat: Path) -> None:
    whole = chat.read_bytes()
    chat.write_bytes(whole + b'{"type":"mess')
    result = run("repair", chat)
    assert result.exit_code == 0
    assert result.stdout == (f"{chat}:6: byte {len(whole)}: removed a torn fragment of 13 bytes\n")
    assert "1 repaired; the original is kept as" in result.stderr
    assert chat.read_bytes() == whole
    assert run("verify", chat).exit_code == 0


def test_a_repair_that_leaves_damage_says_what_remains_and_fails(chat: Path) -> None:
    """It ended with 0, and a script went on as if all were well."""
    spoil(chat)
    result = run("repair", chat)
    assert result.exit_code == 1
    mended, remains = result.stdout.splitlines()
    assert mended.endswith("removed a torn fragment of 13 bytes")
    assert remains.startswith(f"{chat}:3: byte ")
    assert ": crc: wrong crc: " in remains
    assert remains.endswith("compare it with a backup")
    assert result.stderr.splitlines()[-1] == f"{chat}: 1 finding remains; repair does not guess"
    assert result.stdout.splitlines()[1:] == run("verify", chat).stdout.splitlines()

    again = run("repair", chat)
    assert again.exit_code == 1
    assert again.stdout.splitlines() == [remains]
    assert "nothing to repair" in again.stderr


def test_what_remains_is_in_the_json_too(chat: Path) -> None:
    spoil(chat)
    result = run("repair", chat, "--json")
    assert result.exit_code == 1
    printed = json.loads(result.stdout)
    assert [found["line"] for found in printed["mended"]] == [6]
    assert Path(printed["original"]).exists()
    assert [(found["kind"], found["line"]) for found in printed["remaining"]] == [("crc", 3)]


def test_a_dry_run_says_what_it_would_do_and_succeeds(chat: Path) -> None:
    spoil(chat)
    before = contents(chat.parent)
    result = run("repair", "--dry-run", chat)
    assert result.exit_code == 0
    assert result.stdout.endswith("would have removed a torn fragment of 13 bytes\n")
    assert result.stderr == f"{chat}: 1 to repair; nothing was written\n"
    found = printed_json("repair", "--dry-run", chat)
    assert [damage["kind"] for damage in found["remaining"]] == ["crc", "torn"]
    assert contents(chat.parent) == before


def test_the_status_of_a_repair_is_explained() -> None:
    assert "exit code is 1 if damage remains" in " ".join(done("repair", "--help").split())


def test_verify_names_unfinished_blobs_and_gc_removes_them(chat: Path) -> None:
    folder = chat.with_name("chat.jsonl.blobs")
    folder.mkdir()
    for name in ("1-aa.tmp", "2-bb.tmp"):
        (folder / name).write_bytes(b"half a blob")
    result = run("verify", chat)
    assert (result.exit_code, result.stdout) == (0, "")
    sound, left = result.stderr.splitlines()
    assert sound == f"{chat}: no damage found"
    assert left.startswith(
        f"{folder / '1-aa.tmp'}, and 1 more beside it: if no running program writes it"
    )
    assert "gc removes it" in left
    assert "unfinished" in done("gc", "--help")
    assert "unfinished file 1-aa.tmp" in done("gc", chat, "--as-of", "2999-01-01T00:00:00Z")


def test_a_folder_of_blobs_that_cannot_be_listed_is_one_finding(chat: Path) -> None:
    chat.with_name("chat.jsonl.blobs").write_text("no folder")
    result = run("verify", chat)
    assert result.exit_code == 1
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"{chat}:1: byte 0: blob folder: cannot list {chat}.blobs: ")


def test_the_next_step_for_a_missing_blob_is_printed_once(chat: Path) -> None:
    with Session.open(chat) as session:
        session.append_message({"role": "user", "content": "x" * 40_000})
    (blob,) = chat.with_name("chat.jsonl.blobs").iterdir()
    blob.unlink()
    (line,) = run("verify", chat).stdout.splitlines()
    assert f"there is no file {blob}; put the folder of blobs back" in line
    assert line.count("backup") == 1


def test_repair_of_an_agents_file_writes_a_copy_and_lists_each_change(
    chat: Path, tmp_path: Path
) -> None:
    file = transcripts.written(tmp_path / "session.jsonl", transcripts.CALL)
    a, b, r = file.read_bytes().splitlines()
    orphan = r.replace(b'"r"', b'"o"').replace(b'"t"', b'"gone"')
    damaged = [
        a + b,
        r[:50] + r,
        orphan,
        b"[]",
        b"]",
        json.dumps(transcripts.user("d", "o")).encode(),
    ]
    file.write_bytes(b"\n".join(damaged))
    before, new = file.read_bytes(), tmp_path / "new.jsonl"
    assert "'repair FILE -o NEW' writes a sound copy" in refused("repair", file)
    result = run("repair", file, "-o", new)
    assert (result.exit_code, file.read_bytes()) == (0, before)
    assert [line.split(": ", 2)[-1] for line in result.stdout.splitlines()] == [
        "gave the entry a line of its own",
        "gave the entry a line of its own",
        "removed 50 bytes that hold no whole entry",
        "gave the entry a line of its own",
        "removed the result of call gone, which is not in the file",
        "removed 2 bytes that hold no whole entry",
        "removed a line that only separates entries",
        "joined the entry to b: its parent o is not in the copy",
        "ended the last line with a newline",
    ]
    assert result.stderr == f"{file}: 9 repaired; the sound copy is {new}\n"
    kept = new.read_bytes().splitlines()
    assert kept[:3] == [a, b, r]
    assert json.loads(kept[3])["parentUuid"] == "b"
    assert "already" in refused("repair", file, "-o", new)
    assert "is a file of sessiontree" in refused("repair", chat, "-o", tmp_path / "x.jsonl")
