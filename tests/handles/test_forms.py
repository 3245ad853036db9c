"""A handle is the same in each form that a line may have it in: rules 1.2, 3.9 and 3.10.

Each reader and each writer of copies gives for a session with handles in one form what it gives for
the session with the same handles in the text form.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from sessiontree.core.handle import Handle, blob_of, hashes_named, may_name_blob, text_form
from tests.support.homes import empty_home
from tests.support.soak import in_soak
from tests.support.table import for_each
from tests.support.terminal import run

TOKEN: Final = "ghp_" + "q7Rt2LmZ9xWc4VbN8sKd" + "3HjF6gYp1aUe5kBv"
ID: Final = "11111111-0000-4000-8000-000000000001"
HEADER: Final = "11111111-0000-4000-8000-000000000000"
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LONG: Final = "word " * 20_000 + TOKEN
OUTPUT: Final = "line\n" * 20_000
BLOBS: Final = (f"notes with {TOKEN}".encode(), PNG, LONG.encode(), OUTPUT.encode())
CALL: Final = {"type": "toolCall", "id": "call_9", "name": "read", "arguments": {}}
USAGE: Final = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}
GONE: Final = Handle.blob("0" * 64, 5, "text/plain")


def blob(content: bytes, media_type: str) -> Handle:
    return Handle.blob(hashlib.sha256(content).hexdigest(), len(content), media_type)


def in_text(handle: Handle) -> str:
    return str(handle)


def percent_encoded(handle: Handle) -> str:
    def encoded(part: str) -> str:
        return "".join(f"%{byte:02x}" for byte in part.encode())

    meta = "".join(":" + encoded(part) for part in handle.meta)
    return f"{encoded(handle.plugin)}@{handle.version}::{encoded(handle.method)}{meta}"


def with_escapes(line: str, strings: str = r"handle|spilled|message|[a-z]+@[^\"]+") -> str:
    """A line with escapes of JSON for each character of some of its strings.

    Lists of sessions take titles from lines with `"user"`, so this string stays as it is.
    """

    def escaped(text: re.Match[str]) -> str:
        escapes = "".join(f"\\u{ord(one):04x}" for one in text[0][1:-1])
        return text[0] if text[0] == '"user"' else f'"{escapes}"'

    return re.sub(f'"(?:{strings})"', escaped, line)


Form = tuple[Callable[[Handle], Any], Callable[[Handle], str], Callable[[str], str]]
FORMS: Final[dict[str, Form]] = {
    "text": (in_text, in_text, str),
    "object": (Handle.as_dict, in_text, str),
    "percent-encoded": (percent_encoded, percent_encoded, str),
    "escapes": (in_text, in_text, with_escapes),
    "object, all with escapes": (
        Handle.as_dict,
        in_text,
        lambda line: with_escapes(line, r"[^\"\\]*"),
    ),
}
"""How a form has the handle of a `handle` entry and of `spilled`, and how its lines are spelled."""


def lines_in(form: str, *others: Handle) -> list[str]:
    """The lines of a session with handles in a form, and `others`; they have no checksums."""
    as_entry, as_spilled, spelled = FORMS[form]
    types = ("text/plain", "image/png", "text/plain", "text/plain")
    notes, image, long, output = map(blob, BLOBS, types)
    times = iter(range(10, 60))
    parent = HEADER

    def entry(name: str, type: str, **keys: Any) -> dict[str, Any]:
        nonlocal parent
        uuid = f"22222222-0000-4000-8000-{name:0>12}"
        line = {"type": type, "uuid": uuid, "parentUuid": parent}
        line["timestamp"] = f"2026-01-02T10:00:{next(times)}.000Z"
        if "lane" not in keys:
            parent = uuid
        return {**line, **keys}

    def handle(name: str, pointer: Handle, kind: str, **keys: Any) -> dict[str, Any]:
        return entry(name, "handle", handle=as_entry(pointer), kind=kind, **keys)

    def spilled(name: str, role: str, pointer: Handle, **keys: str) -> dict[str, Any]:
        text = as_spilled(pointer)
        message = {"role": role, "content": text, **keys}
        places = [[["message", "content"], text, "word word"]]
        return entry(name, "message", message=message, spilled=places)

    first = entry("a1", "message", message={"role": "user", "content": "look at these"})
    entries = [
        first,
        handle("b1", notes, "binary", preview="notes.txt", role="user"),
        handle("b2", image, "binary", preview="a picture", role="user"),
        *(handle(f"b3{place}", other, "binary") for place, other in enumerate(others)),
        handle("b4", Handle.file("notes.md"), "binary", role="user"),
        handle("b5", Handle.entry(ID, first["uuid"]), "message"),
        handle("b6", Handle.path(ID, first["uuid"]), "document"),
        handle("b7", Handle("other", "1.0.0", "thing", (f"key {TOKEN}",)), "document"),
        spilled("c1", "user", long),
        spilled("c2", "toolResult", output, toolCallId="call"),
        entry(
            "d1",
            "message",
            lane="scratch/kept",
            message={"role": "assistant", "content": [{"type": "text", "text": "tried"}]},
        ),
        handle("b8", Handle.branch(ID, "scratch/kept"), "document"),
        entry(
            "a2",
            "message",
            message={"role": "assistant", "content": [CALL], "model": "m", "usage": USAGE},
            metadata={"missingParent": "lost"},
        ),
    ]
    header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": HEADER}
    header |= {"parentUuid": None, "timestamp": "2026-01-02T10:00:00.000Z", "id": ID}
    header |= {"cwd": "/project"}
    return [json.dumps(header), *(spelled(json.dumps(one)) for one in entries)]


def put(form: str, file: Path, *others: Handle) -> Path:
    """The session with its blobs, written long ago."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines_in(form, *others)) + "\n")
    folder = Path(f"{file}.blobs")
    folder.mkdir()
    for content in BLOBS:
        (folder / hashlib.sha256(content).hexdigest()).write_bytes(content)
    (folder / hashlib.sha256(b"forgotten").hexdigest()).write_bytes(b"forgotten")
    for path in (*folder.iterdir(), file):
        os.utime(path, (time.time() - 30 * 86_400,) * 2)
    (file.parent / "notes.md").write_text("# Notes\n")
    return file


COMMANDS: Final = {
    "show": "show FILE",
    "tree": "tree FILE --all",
    "tree json": "tree FILE --json",
    "path": "path FILE",
    "context": "context FILE",
    "context json": "context FILE --json --root STORE",
    "stats": "stats FILE",
    "verify": "verify FILE --json",
    "blob ls": "blob ls FILE --json",
    "blob verify": "blob verify FILE --json",
    "search blobs": "search word FILE --blobs --json",
    "search attached": "search with FILE --blobs",
    "audit": "audit FILE",
    "files": "files FILE",
    "stats of a store": "stats STORE",
    "list": "ls --json",
    "calls": "call node.find --session FILE --tool-call-id call_9 --budget 0",
    "outline": "call session.outline --session FILE --budget 0",
    "gc": "gc FILE --json",
    "markdown": "export FILE",
    "markdown masked": "export FILE --redact",
    "markdown file": "export FILE -o OUT.md",
    "page": "export FILE -o OUT.html",
    "page masked": "export FILE -o OUT.html --redact",
    "fork": "fork FILE OUT",
    "subtree": "export-branch FILE @~4 OUT",
    "whole": "export-branch FILE 1111 OUT",
    "inlined": "export-branch FILE 1111 OUT --inline",
    "redacted": "export-branch FILE 1111 OUT --redact",
    "redacted, inlined": "export-branch FILE 1111 OUT --redact --inline",
    "mask": "audit FILE --mask",
    "prune": "audit FILE --prune",
    "copy": "copy FILE OUT",
    "copy of a store": "copy STORE COPIES",
    "sync": "sync FILE SHORTER",
    "cherry-pick": "cherry-pick FILE @~4 --from FILE",
    **{
        f"to {agent}": f"convert FILE --to {agent} -o OUT"
        for agent in ("claude-code", "codex", "pi", "gemini", "atif")
    },
    "methods": "call tree.get --session FILE --budget 0",
    "messages": "call context.get --session FILE --budget 0",
}

LACKING: Final = {
    "context without a blob": "context FILE",
    "tree without a blob": "tree FILE --all",
    "verify without a blob": "verify FILE",
    "blobs without one": "blob verify FILE",
    "fork without a blob": "fork FILE OUT",
    "redacted without a blob": "export-branch FILE 1111 OUT --redact",
    "copy without a blob": "copy FILE OUT",
    "page without a blob": "export FILE -o OUT.html",
    "search without a blob": "search with FILE --blobs",
}
"""Commands for a session that lacks a blob."""

MASKED: Final = {
    "page masked": "out.html",
    "redacted": "out.jsonl",
    "redacted, inlined": "out.jsonl",
    "redacted without a blob": "out.jsonl",
    "mask": "/store/project/",
}
"""Commands after which no secret is in some files, by a part of their paths."""

_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[0-9a-f]{8}\b|\b20[0-9]{2}-[0-9]{2}-[0-9]{2}"
    r'T[0-9:.-]*Z(_\w+)?|byte [0-9,]+|in the file .*|"bytes":[0-9]+'
    r"|[0-9,]+ bytes|\b[0-9.]+ [KM]?B\b"
)
"""Ids and times of copies, offsets and sizes."""


def outcome(form: str, command: str, folder: Path, *others: Handle) -> dict[str, Any]:
    """What a command prints and writes for the session with handles in a form."""
    if folder.exists():
        shutil.rmtree(folder)
    store = folder / "store"
    file = put(form, store / "project" / "chat.jsonl", *others)
    (folder / "shorter.jsonl").write_text("\n".join(lines_in(form, *others)[:3]) + "\n")
    given = {
        "SHORTER": folder / "shorter.jsonl",
        "FILE": file,
        "STORE": store,
        "COPIES": folder / "copies",
    }
    given |= {"OUT" + end: folder / f"out{end or '.jsonl'}" for end in ("", ".md", ".html")}
    words = [given.get(word, word) for word in command.split()]
    done = run(*words, "--store", store)
    found: dict[str, Any] = {"status": done.exit_code, "printed": plain(done.output).split("\n")}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix != ".lock":
            found[plain(str(path))] = contents(path)
    return found


def contents(path: Path) -> Any:
    """A session with its handles in text form, or the text of any other file."""
    data = path.read_bytes()
    if path.suffix == ".jsonl" and b'"sessiontree/2"' in data:
        return [in_text_form(json.loads(line)) for line in data.splitlines()]
    return plain(data.decode("latin-1"))


def in_text_form(line: dict[str, Any]) -> dict[str, Any]:
    """A line as it would be in the text form, and without its checksum."""
    line.pop("crc", None)
    if line.get("type") == "handle":
        line["handle"] = text_form(line["handle"])
    text = json.dumps(line)
    for _, handle, *_ in line.get("spilled", []):
        text = text.replace(handle, text_form(handle))
    made: dict[str, Any] = json.loads(plain(text))
    return made


def plain(text: str) -> str:
    return _RANDOM.sub("…", text)


@for_each("name", [*COMMANDS, *LACKING])
@in_soak("forms", ("percent-encoded", "object, all with escapes"), tuple(FORMS))
def test_a_command_does_the_same_for_each_form(
    forms: tuple[str, ...], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty_home(tmp_path, monkeypatch)
    others = [GONE] if name in LACKING else []
    command = {**COMMANDS, **LACKING}[name]
    wanted = outcome("text", command, tmp_path / "place", *others)
    assert wanted["status"] in (0, 1), wanted
    if name in MASKED:
        files = {path: kept for path, kept in wanted.items() if MASKED[name] in path}
        assert files
        assert TOKEN not in str(files)
    for form in forms:
        assert outcome(form, command, tmp_path / "place", *others) == wanted, form


HASH: Final = hashlib.sha256(PNG).hexdigest()
OLDER: Final = {"source": "notes", "source_version": "1.0.0", "identifier": "msg-7:user"}


@for_each("form", FORMS)
def test_no_form_escapes_the_search_for_names_of_blobs(form: str) -> None:
    named = {hashlib.sha256(content).hexdigest() for content in BLOBS}
    lines = lines_in(form)
    assert named <= hashes_named("\n".join(lines).encode())
    quoted = json.dumps({"text": "\n".join(lines)})
    assert named <= hashes_named(quoted.encode())
    for line in lines:
        is_needed = not named.isdisjoint(hashes_named(line.encode()))
        assert may_name_blob(line.encode()) or not is_needed


@for_each("count", range(1, 18))
def test_a_partly_encoded_name_is_found_too(count: int) -> None:
    text = str(blob(PNG, "image/png"))
    for start in range(len(text)):
        part = "".join(f"%{ord(one):02X}" for one in text[start : start + count])
        whole = text[:start] + part + text[start + count :]
        for line in (json.dumps({"handle": whole}), with_escapes(json.dumps({"handle": whole}))):
            if blob_of(whole) is not None:
                assert may_name_blob(line.encode())
                assert hashes_named(line.encode()) == {HASH}


def test_the_text_form_of_each_form() -> None:
    for handle in (blob(PNG, "image/png"), Handle("p", "1.0.0", "a", ("x:y", "%"))):
        for value in (str(handle), handle.as_dict(), percent_encoded(handle)):
            assert text_form(value) == str(handle)
    assert text_form(OLDER) == "notes@1.0.0::message:7:user"
    assert text_form({**OLDER, "source_version": "1"}) == "notes@1::msg-7:user"
    assert text_form("100% text") == "100% text"
    assert text_form({"source": "\ud83d"}) == '{"source": "\\ud83d"}'
    assert text_form(None) == "null"


@for_each("handle", [OLDER, {**OLDER, "metadata": {"at": TOKEN}}])
def test_the_older_form_is_masked_and_keeps_its_metadata(
    handle: dict[str, Any], tmp_path: Path
) -> None:
    file = put("object", tmp_path / "chat.jsonl")
    more = {"uuid": "o", "parentUuid": HEADER, "kind": "message", "handle": handle}
    with file.open("a") as lines:
        lines.write(json.dumps({"type": "handle", **more}) + "\n")
    done = run("export-branch", file, "1111", tmp_path / "out.jsonl", "--redact")
    assert done.exit_code == 0, done.output
    copied = (tmp_path / "out.jsonl").read_text()
    assert TOKEN not in copied
    entry = json.loads(copied.splitlines()[-1])
    assert text_form(entry["handle"]) == text_form(OLDER)
    assert ("metadata" in entry) == ("metadata" in handle)


def test_gc_keeps_a_blob_whose_handle_is_longer_than_a_block(tmp_path: Path) -> None:
    file = put("object", tmp_path / "chat.jsonl")
    lines = file.read_text().replace('"method"', f'"more": "{"x" * 20_000_000}", "method"', 1)
    file.write_text(lines)
    os.utime(file, (time.time() - 30 * 86_400,) * 2)
    with Session.open(file) as session:
        forgotten = hashlib.sha256(b"forgotten").hexdigest()
        assert [one.sha256 for one in session.gc().blobs] == [forgotten]
