"""`audit` finds each secret once, says where, never prints it, and says what takes space."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.redaction import examples
from sessiontree import Session, Store
from sessiontree.library import audit
from sessiontree.library.places import Selection, conversations_in
from sessiontree.redact.redaction import PERSONAL
from tests.support.homes import FOLDERS, empty_home, put_sessions, transcript
from tests.support.sessions import chat
from tests.support.table import for_each
from tests.support.terminal import done, run
from tests.support.transcripts import folder_of_a_user, user

TOKEN: Final = "ghp_" + "q7Rt2LmZ9xWc4VbN8sKd" + "3HjF6gYp1aUe5kBv"
OTHER: Final = "glpat-" + "Zk3vQx9LmT2wRb7NcYd5"
KEY: Final = "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join(["MIIEowIBAAKCAQEAvR9x7Yb2Kq" * 2] * 3)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = empty_home(tmp_path, monkeypatch)
    (made / "store").mkdir()
    return made


def audited(*words: str | Path, status: int = 1) -> list[dict[str, Any]]:
    """The rows of an audit; no piece of a secret is in what it prints, for people or as JSON."""
    shown, found = run("audit", *words), run("audit", *words, "--json")
    assert shown.exit_code == found.exit_code == status, shown.output + found.output
    for secret in (TOKEN, OTHER, *KEY.split("\n")[1:]):
        for start in range(len(secret) - 6):
            assert secret[start : start + 6] not in shown.output + found.output
    rows: list[dict[str, Any]] = json.loads(found.stdout)["secrets"]
    return rows


def in_chat(message: dict[str, Any]) -> Callable[[Path], Path]:
    return lambda home: chat(home / "store" / "chat.jsonl", "first", message)


def _spilled(home: Path) -> Path:
    long = "word " * 20_000
    return chat(home / "store" / "chat.jsonl", "first", f"{long} {TOKEN} {long}")


def _behind_one_long_run(home: Path) -> Path:
    return chat(home / "store" / "chat.jsonl", "first", "x" * 100_000 + f"\n{TOKEN}\n")


def _torn(home: Path) -> Path:
    file = chat(home / "store" / "chat.jsonl", "first")
    with file.open("a") as opened:
        opened.write('{"type":"message","message":{"role":"user","content":"use ' + TOKEN)
    return file


def _archived(home: Path) -> Path:
    file = chat(home / "store" / "chat.jsonl", "first")
    Path(f"{file}.archive-2026-01-01").write_text(json.dumps({"type": "x", "note": TOKEN}) + "\n")
    return file


def _forgotten_blob(home: Path) -> Path:
    file = chat(home / "store" / "chat.jsonl", "first")
    folder = Path(f"{file}.blobs")
    folder.mkdir()
    (folder / ("a" * 64)).write_text(f"token {TOKEN}")
    return file


def _of_claude(home: Path, beside: str, content: str) -> Path:
    file = home / ".claude/projects/-p/5e551015-0000-4000-8000-000000000009.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(user("a", None)) + "\n")
    other = file.with_suffix("") / beside
    other.parent.mkdir(parents=True)
    other.write_text(content)
    return file


def _subagent(home: Path) -> Path:
    return _of_claude(home, "subagents/agent-1.jsonl", json.dumps(user("b", None, TOKEN)) + "\n")


def _long_result(home: Path) -> Path:
    return _of_claude(home, "tool-results/x.txt", f"line\n{TOKEN}\n")


def _compressed(home: Path) -> Path:
    zstandard = pytest.importorskip("zstandard")
    id = "019a2b3c-0000-7000-8000-000000000001"
    file = home / f".codex/sessions/2026/01/02/rollout-2026-01-02T03-04-05-{id}.jsonl.zst"
    file.parent.mkdir(parents=True)
    at = "2026-01-02T03:04:05.000Z"
    lines = [
        {"timestamp": at, "type": "session_meta", "payload": {"id": id, "cwd": "/p"}},
        {
            "timestamp": at,
            "type": "compacted",
            "payload": {"message": "", "replacement_history": [{"text": TOKEN}]},
        },
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    file.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    return file


CALL: Final = {"type": "toolCall", "id": "c", "name": "bash"}
PLACES: Final[dict[str, Callable[[Path], Path]]] = {
    "prompt": in_chat({"role": "user", "content": f"use {TOKEN}"}),
    "arguments": in_chat(
        {"role": "assistant", "content": [{**CALL, "arguments": {"command": f"curl {TOKEN}"}}]}
    ),
    "JSON in arguments": in_chat(
        {"role": "assistant", "content": [{**CALL, "arguments": json.dumps({"a": TOKEN})}]}
    ),
    "result": in_chat({"role": "toolResult", "toolCallId": "c", "content": f"got\n{TOKEN}\n"}),
    "thinking": in_chat(
        {"role": "assistant", "content": [{"type": "thinking", "thinking": f"It is {TOKEN}."}]}
    ),
    "split by a line break": in_chat({"role": "user", "content": TOKEN[:20] + "\n" + TOKEN[20:]}),
    "escaped": in_chat({"role": "user", "content": TOKEN.replace("q7", "q\\u0037")}),
    "key": in_chat({"role": "assistant", "content": [{**CALL, "arguments": {TOKEN: 1}}]}),
    "private key": in_chat({"role": "user", "content": KEY}),
    "directory": lambda home: chat(home / "store" / "chat.jsonl", "x", cwd=f"/p/{TOKEN}"),
    "blob": _spilled,
    "blob behind one long run": _behind_one_long_run,
    "torn line": _torn,
    "archive": _archived,
    "forgotten blob": _forgotten_blob,
    "subagent": _subagent,
    "result in a file": _long_result,
    "compressed snapshot": _compressed,
}


@for_each("place", list(PLACES))
def test_a_secret_is_found_wherever_a_session_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    home = empty_home(tmp_path, monkeypatch)
    (home / "store").mkdir()
    file = PLACES[place](home)
    (row,) = audited()
    assert (row["secrets"], row["file"]) == (1, str(file))
    assert row["kind"] == ("private-key" if place == "private key" else "github-token")
    assert row["files"]


def test_a_secret_is_in_a_turn_and_a_copy_of_a_session_is_not_another_session(home: Path) -> None:
    file = folder_of_a_user(home)
    with file.open("a") as opened:
        opened.write(json.dumps(user("zz", None, f"use {TOKEN}")) + "\n")
    shutil.copy(file, file.with_name(f"{file.stem}.sync-conflict-20260101-000000-ABCDEFG.jsonl"))
    shown = run("audit")
    assert "  In turn  " in shown.stdout.splitlines()[0]
    assert "claude-code  1 " in shown.stdout.partition("Files of")[2]
    masked = run("audit", file, "--mask")
    assert "never changed; import it, change the copy in the store, and delete" in masked.output
    assert "'backup' saves copies in the store, which can be changed" in shown.stderr


def test_a_row_says_turn_agent_time_and_how_often(home: Path) -> None:
    file = home / ".claude/projects/-p/5e551015-0000-4000-8000-000000000009.jsonl"
    file.parent.mkdir(parents=True)
    said = [user("a", None), user("b", "a", TOKEN), user("c", "b"), user("d", "c", [])]
    said[3]["toolUseResult"] = {"stdout": f"{TOKEN} {OTHER}"}
    said[3]["timestamp"] = "2027-01-01T00:00:00.000Z"
    file.write_text("".join(json.dumps(line) + "\n" for line in said))
    found = {row["kind"]: row for row in audited()}
    assert {row["agent"] for row in found.values()} == {"claude-code"}
    assert (found["github-token"]["turns"], found["github-token"]["times"]) == ([2, 3], 2)
    assert found["gitlab-token"]["turns"] == [3]
    assert found["gitlab-token"]["last"].startswith(("2027-01-01", "2026-12-31"))


def test_a_secret_in_copies_is_one_row_that_names_all_files(home: Path) -> None:
    file = folder_of_a_user(home)
    with file.open("a") as opened:
        opened.write(json.dumps(user("zz", None, f"use {TOKEN}, {TOKEN}")) + "\n")
    Store().backup([home / ".claude"])
    shutil.copy(file, file.with_name(f"{file.stem}.sync-conflict-20260101-000000-ABCDEFG.jsonl"))
    (row,) = audited()
    assert (row["secrets"], row["times"], len(row["files"])) == (1, 2, 3)


GEMINI: Final = (
    {"sessionId": "5e551015-0000-4000-8000-00000000000a", "projectHash": "0", "kind": "main"},
    {"id": "u", "type": "user", "content": [{"text": "go"}]},
)


def _of_pi(home: Path, text: str) -> Path:
    said = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1}
    header = {"type": "session", "version": 3, "id": "5e551015-0000-7000-8000-00000000000b"}
    more = {"timestamp": "2026-01-01T00:00:00.000Z", "cwd": "/p"}
    entry = {"type": "message", "id": "aaaa1111", "parentId": None, "message": said}
    file = home / ".pi/agent/sessions/--p--/2026-01-01T00-00-00-000Z_5e551015.jsonl"
    return _of_lines(file, {**header, **more}, {**entry, "timestamp": more["timestamp"]})


def _of_gemini(home: Path, text: str) -> Path:
    response = {"id": "c", "name": "ls", "response": {"output": text}}
    call: dict[str, Any] = {"id": "c", "name": "ls", "args": {}, "status": "success"}
    call["result"] = [{"functionResponse": response}]
    answer = {"id": "a", "type": "gemini", "content": text, "toolCalls": [call]}
    file = home / ".gemini/tmp/p/chats/session-2026-01-01T00-00-5e551015.jsonl"
    lines = [{**line, "timestamp": "2026-01-01T00:00:00.000Z"} for line in (*GEMINI[1:], answer)]
    return _of_lines(file, GEMINI[0], *lines)


def _of_lines(file: Path, *lines: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@for_each("place", ["pi", "gemini", "claude-code"])
@for_each("size", [0, 50_000])
def test_a_secret_counts_the_same_in_an_agents_file_and_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, size: int
) -> None:
    home = empty_home(tmp_path, monkeypatch)
    text = f"{KEY}\n-- then: {'word ' * (size // 5)}\n-- use {TOKEN}\n"
    if place == "claude-code":
        file = _of_claude(home, "tool-results/x.txt", "")
        said = user("b", "a", text)
        said["toolUseResult"] = {"stdout": f"{text} "}
        file.write_text(file.read_text() + json.dumps(said) + "\n")
    else:
        file = (_of_pi if place == "pi" else _of_gemini)(home, text)

    def counts() -> list[tuple[Any, ...]]:
        keys = ("kind", "secrets", "times", "turns")
        return [tuple(map(row.__getitem__, keys)) for row in audited()]

    before = counts()
    assert [row[:2] for row in before] == [("github-token", 1), ("private-key", 1)]
    Store().backup([])
    assert counts() == before
    file.unlink()
    assert [row[:2] for row in counts()] == [row[:2] for row in before]
    assert size or counts() == before  # a blob is searched once, however many entries name it


def test_ids_and_paths_choose_the_sessions(home: Path) -> None:
    one = chat(home / "store" / "one.jsonl", TOKEN)
    other = chat(home / "store" / "other.jsonl", OTHER, cwd="/home/me/app")
    with Session.open(one, readonly=True) as session:
        id = session.id
    assert [row["kind"] for row in audited(id[:8])] == ["github-token"]
    assert [row["kind"] for row in audited(other)] == ["gitlab-token"]
    assert [row["kind"] for row in audited("--project", "app")] == ["gitlab-token"]
    assert audited("--agent", "codex", status=0) == []
    assert "no session" in run("audit", "no-such").output


def test_nothing_found_is_a_success_and_changes_no_file(home: Path) -> None:
    put_sessions(home)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert audited(status=0) == []
    assert {path: path.read_bytes() for path in before} == before
    assert "No secrets found in 6 sessions" in run("audit").stderr


def test_what_cannot_be_searched_is_an_error_and_hides_no_other(home: Path) -> None:
    chat(home / "store" / "chat.jsonl", TOKEN)
    put_sessions(home)
    beside = transcript(home).with_suffix("") / "tool-results"
    beside.mkdir(parents=True, exist_ok=True)
    with (beside / "huge.txt").open("wb") as opened:
        opened.truncate(65 * 1024 * 1024)
    shown = run("audit")
    assert shown.exit_code == 1
    assert "huge.txt is not searched" in shown.stderr
    assert "github-token" in shown.stdout


def test_each_kind_of_secret_is_named_and_not_printed(home: Path) -> None:
    some = {
        example.rule: example
        for example in examples("positive.txt")
        if example.rule not in PERSONAL and len(example.secret) > 12
    }
    assert len(some) >= 26
    chat(home / "store" / "chat.jsonl", *(example.text for example in some.values()))
    shown, found = run("audit"), run("audit", "--json")
    rows = {row["kind"]: row for row in json.loads(found.stdout)["secrets"]}
    assert len(some.keys() & rows.keys()) >= 0.95 * len(some)
    printed = shown.output + found.output
    assert not [each for each in some.values() if each.secret in printed]


def test_agents_sessions_are_searched_where_they_are(home: Path) -> None:
    put_sessions(home)
    for agent, folder in FOLDERS.items():
        for file in sorted((home / folder).rglob("*.jsonl"))[:1]:
            with file.open("a") as opened:
                opened.write(json.dumps({"type": "note", "text": f"{agent} {TOKEN}"}) + "\n")
    assert {row["agent"] for row in audited()} == set(FOLDERS)


IMAGE: Final = {"type": "base64", "media_type": "image/png", "data": "iVBOR" * 2_000}
RESULT: Final = {
    "role": "toolResult",
    "toolCallId": "c",
    "content": [{"type": "text", "text": "line\n" * 1_000}, {"type": "image", "source": IMAGE}],
}
THOUGHT: Final = {"type": "thinking", "thinking": "so " * 1_000, "signature": "abc=" * 100}


def sizes(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("audit", *words, "--json").stdout)["sizes"]
    assert all(sum(one["kinds"].values()) == one["bytes"] for one in found)
    return found


def test_sizes_are_those_of_the_disk_by_kind(home: Path) -> None:
    file = chat(
        home / "store" / "chat.jsonl", "hi", RESULT, {"role": "assistant", "content": [THOUGHT]}
    )
    (one,) = sizes()
    assert one["bytes"] == file.stat().st_size
    assert (one["kinds"]["images"], one["kinds"]["tool output"]) == (10_000, 5_000)
    assert one["kinds"]["reasoning"] == 3_400


def test_a_picture_that_two_messages_share_takes_space_once(home: Path) -> None:
    large = {**IMAGE, "data": "iVBOR" * 20_000}
    shown = {"role": "user", "content": [{"type": "image", "source": large}]}
    file = chat(home / "store" / "chat.jsonl", shown, shown)
    (one,) = sizes()
    (blob,) = Path(f"{file}.blobs").iterdir()
    assert one["kinds"]["images"] == blob.stat().st_size == 100_000
    assert one["bytes"] == file.stat().st_size + 100_000


def test_a_snapshot_of_codex_counts_whole_and_as_small_as_it_is_compressed(home: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    file = _compressed(home)
    text = zstandard.ZstdDecompressor().decompress(file.read_bytes())
    many = text.replace(f'"{TOKEN}"'.encode(), b'"' + b"word " * 20_000 + b'"')
    file.write_bytes(zstandard.ZstdCompressor().compress(many))
    (one,) = sizes()
    assert (one["agent"], one["bytes"]) == ("codex", file.stat().st_size)
    assert one["kinds"]["snapshots"] > 0.9 * one["bytes"]


def test_the_agent_with_most_and_the_largest_sessions_come_first(home: Path) -> None:
    put_sessions(home)
    chat(home / "store" / "chat.jsonl", *[RESULT] * 40)
    lines = run("audit").stdout.splitlines()
    assert lines[0].split() == [
        *("Files", "of", "Sessions", "Size", "Snapshots", "Images", "Tool", "output", "Other")
    ]
    assert lines[1].split()[:2] == ["sessiontree", "1"]
    head = next(n for n, line in enumerate(lines) if line.startswith("Largest"))
    assert lines[head + 1].endswith("images 61%")
    assert [one["bytes"] for one in sizes()] == sorted((o["bytes"] for o in sizes()), reverse=True)


def test_backups_have_a_row_of_their_own_in_sizes(home: Path) -> None:
    put_sessions(home)
    chat(home / "store" / "chat.jsonl", *[RESULT] * 40)
    before = len(json.loads(done("ls", "--json")))
    done("backup")
    lines = run("audit").stdout.partition("Largest")[0].splitlines()[1:]
    counts = {line.split()[0]: int(line.split()[1]) for line in lines if line}
    assert counts.pop("backups") == before - 1
    assert counts["sessiontree"] == 1
    assert sum(counts.values()) == before


def test_several_processes_find_what_one_finds(home: Path) -> None:
    put_sessions(home)
    for number in range(3):
        chat(home / "store" / f"{number}.jsonl", f"use {TOKEN}", RESULT)
    rows = conversations_in([str(home)], Selection(), print)
    one, two = (audit.audited(rows, print, processes=count) for count in (1, 2))
    assert one == two
    assert len(one.secrets) == 3
