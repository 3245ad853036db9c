from __future__ import annotations

import hashlib
import pty
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from sessiontree import Session
from tests.support.conversation import message
from tests.support.table import for_each
from tests.support.terminal import contents, done, driving, last, printed_json, refused, run

LONG = "a long answer, \x1b[31m\n" * 4000
SHA = hashlib.sha256(LONG.encode()).hexdigest()


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    """A session in which one long text was said twice, and another once."""
    file = tmp_path / "chat.jsonl"
    with Session.create(file) as session:
        for text in (LONG, "short", LONG, LONG.upper()):
            session.append_message({"role": "user", "content": text})
        session.append_message({"role": "user", "content": f"mentions sha256:{SHA} only"})
    return file


def in_folder(file: Path) -> Path:
    return Path(f"{file}.blobs")


def test_blobs_are_listed_with_their_references(chat: Path) -> None:
    (in_folder(chat) / hashlib.sha256(b"unused").hexdigest()).write_bytes(b"unused")
    listed = {blob["sha256"]: blob for blob in printed_json("blob", "ls", chat)}
    named = {"sha256": SHA, "size": len(LONG), "references": 2, "referenced": True}
    assert listed.pop(SHA) == {**named, "stored": True, "fault": None}
    others = {(blob["size"], blob["references"], blob["referenced"]) for blob in listed.values()}
    assert others == {(6, 0, False), (len(LONG), 1, True)}
    shown = done("blob", "ls", chat).splitlines()
    assert len(shown) == 3
    assert f"{SHA}         84,000  2 references" in shown
    unused = hashlib.sha256(b"unused").hexdigest()
    assert f"{unused}              6  not referenced" in shown
    assert run("blob", "ls", chat).stderr.endswith("3 blobs, 168,006 bytes\n")


def test_a_damaged_blob_is_listed_once_and_as_what_it_is(chat: Path) -> None:
    other = hashlib.sha256(LONG.upper().encode()).hexdigest()
    (in_folder(chat) / SHA).write_bytes(b"cut off")
    (in_folder(chat) / other).unlink()
    (in_folder(chat) / other).symlink_to(chat)
    cut_off = f"{SHA}         84,000  2 references, damaged: 7 of 84,000 bytes"
    replaced = f"{other}         84,000  1 reference, damaged"
    assert sorted(done("blob", "ls", chat).splitlines()) == sorted([cut_off, replaced])
    listed = printed_json("blob", "ls", chat)
    assert [(one["stored"], one["fault"]) for one in listed] == [(False, "damaged")] * 2
    assert run("blob", "verify", chat).stderr == f"{chat}: 2 blobs, 2 findings\n"


def test_a_search_that_finds_nothing_says_where_it_did_not_look(chat: Path) -> None:
    assert "a long" in done("search", "a long answer", chat)
    hint = "Nothing matches a long answer; --blobs searches large texts too; --everything also"
    assert run("search", "a long answer", chat.parent).stderr.startswith(hint)
    assert "a long" in done("search", "a long answer", chat.parent, "--blobs")
    told = run("search", "nowhere", chat, "--everything").stderr
    assert told == "Nothing matches nowhere\n"


def test_the_numbers_of_a_session_say_that_blobs_are_lost(chat: Path) -> None:
    assert run("stats", chat).stderr == ""
    (in_folder(chat) / SHA).unlink()
    told = run("stats", chat).stderr
    assert told == f"Warning: 1 blob missing or damaged; 'sessiontree blob ls {chat}' lists them\n"
    assert printed_json("stats", chat)["lostBlobs"] == 1


def test_a_damaged_blob_kept_aside_is_reported_and_not_listed(chat: Path) -> None:
    (in_folder(chat) / SHA).write_bytes(b"cut off")
    with Session.open(chat) as session:
        session.append_message({"role": "user", "content": LONG})
    result = run("blob", "ls", chat)
    assert result.stdout.count("\n") == 2
    assert "missing" not in result.stdout
    assert "damaged" not in result.stdout
    assert "1 damaged as well, kept until gc removes them" in result.stderr
    assert run("blob", "verify", chat).exit_code == 0


def test_a_session_without_blobs_has_none(tmp_path: Path) -> None:
    file = tmp_path / "small.jsonl"
    done("new", file)
    assert printed_json("blob", "ls", file) == printed_json("blob", "verify", file) == []
    assert done("blob", "ls", file) == done("blob", "verify", file) == ""
    assert run("blob", "cat", file, "abcd").exit_code == 1


def test_blob_commands_change_nothing(chat: Path) -> None:
    before = contents(chat.parent), contents(in_folder(chat))
    for words in (("ls", chat), ("cat", chat, SHA), ("verify", chat)):
        assert run("blob", *words).exit_code == 0
    assert (contents(chat.parent), contents(in_folder(chat))) == before


@pytest.mark.parametrize("sha", [SHA, SHA[:4]])
def test_the_bytes_of_a_blob_are_written_as_they_are(chat: Path, sha: str) -> None:
    result = run("blob", "cat", chat, sha)
    assert result.stdout_bytes == LONG.encode()
    assert result.stderr == ""


@for_each(
    ("sha", "said"),
    [
        *(("0" * 64, "blob ls"), ("abc", "four or more digits")),
        *(("../../etc/passwd", "not a SHA-256"), ("abab", "2 blobs begin with abab")),
    ],
)
def test_what_names_no_blob_of_the_session_or_several_is_refused(
    chat: Path, sha: str, said: str
) -> None:
    for n in (1, 2):
        (in_folder(chat) / f"{'ab' * 31}{n:02}").write_bytes(b"x")
    error = refused("blob", "cat", chat, sha)
    assert said in error
    assert error.count("\n") == 1


def test_a_blob_is_not_written_to_a_terminal(chat: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sessiontree", "blob", "cat", str(chat), SHA]
    with open(ours, "rb"), open(theirs, "wb") as terminal:
        ended = subprocess.run(command, stdout=terminal, stderr=subprocess.PIPE, text=True)
    assert ended.returncode == 1
    assert "> NAME" in ended.stderr


def test_where_standard_output_is_closed_nothing_fails(chat: Path) -> None:
    command = [sys.executable, "-m", "sessiontree", "blob", "cat", str(chat), SHA]
    closing = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    ended = subprocess.run(closing, stderr=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_sound_blobs_verify(chat: Path) -> None:
    result = run("blob", "verify", chat)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{chat}: 2 blobs, no damage found\n"


def test_each_kind_of_damage_is_found(chat: Path) -> None:
    other = hashlib.sha256(LONG.upper().encode()).hexdigest()
    (in_folder(chat) / other).write_bytes(b"cut off")
    (in_folder(chat) / SHA).unlink()
    needless = "12" * 32
    (in_folder(chat) / needless).symlink_to(chat)
    result = run("blob", "verify", chat, "--json")
    assert result.exit_code == 1
    found = orjson.loads(result.stdout)
    kinds = {one["sha256"]: one["kind"] for one in found}
    assert kinds == {other: "damaged", SHA: "missing", needless: "damaged"}
    assert all(one["file"] == str(chat) and "; " in one["cause"] for one in found)
    text = run("blob", "verify", chat)
    assert text.exit_code == 1
    assert text.stdout.count("\n") == 3
    assert "3 findings" in text.stderr
    assert f"{SHA}         84,000  2 references, missing" in done("blob", "ls", chat).splitlines()


def test_damaged_bytes_are_not_written_to_their_end(chat: Path) -> None:
    (in_folder(chat) / SHA).write_bytes(LONG.encode()[:-1] + b"?")
    assert "not those that were put there" in refused("blob", "cat", chat, SHA)


def test_an_entry_that_misuses_its_list_is_found(chat: Path) -> None:
    spilled = [["message", "content"], f"blob@1.0.0::sha256:{SHA}:{len(LONG)}:text/plain"]
    misfit = message("mis\x1bfit", last(chat)["uuid"], "x") | {"spilled": [spilled]}
    with chat.open("ab") as file:
        file.write(orjson.dumps(misfit) + b"\n")
    result = run("blob", "verify", chat)
    assert result.exit_code == 1
    assert "there is no handle" in result.stdout
    assert driving(result.stdout) == set()
    found = orjson.loads(run("blob", "verify", chat, "--json").stdout)
    assert [one["kind"] for one in found] == ["spilled"]
