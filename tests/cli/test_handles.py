from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Session
from sessiontree.core.handle import Handle
from sessiontree.handles.registry import Registry
from tests.support.plugins import Plugin
from tests.support.table import for_each
from tests.support.terminal import contents, done, driving, printed_json, refused, run

PNG = b"\x89PNG\r\n\x1a\n\x1b[31m"
PLUGIN = """
from sessiontree import HandleSchema, MetaField


class Notes:
    schemas = (HandleSchema("notes", "line", "1.x", [MetaField("number")], "document"),)

    def resolve(self, handle, scope):
        return ["Use Rust", "Be quick"][int(handle.meta[0])]
"""


def test_schemas_lists_what_each_plugin_makes() -> None:
    shown = done("handle", "schemas")
    assert "blob@1.x::sha256 → binary" in shown
    assert "  meta[2]  media type" in shown
    assert "  meta[0]  path  a relative path without '..'" in shown
    assert "\\" not in shown
    assert "session@2.x::block → message" in shown


def test_schemas_as_json_have_all_that_a_program_needs() -> None:
    found = {(each["plugin"], each["method"]): each for each in printed_json("handle", "schemas")}
    assert set(found) == {
        ("blob", "sha256"), ("file", "path"), ("session", "entry"), ("session", "block"),
        ("session", "path"), ("session", "branch"),
    }  # fmt: skip
    block = found["session", "block"]
    assert (block["versions"], block["kind"]) == ("2.x", "message")
    field = {"index": 2, "name": "index", "required": True, "prefix": None}
    form = {"pattern": "0|[1-9][0-9]{0,8}", "form": "a number from 0"}
    assert block["meta"][2] == {**field, **form}
    assert all(each["resolvesTo"] for each in found.values())


def test_a_file_is_resolved_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_bytes(PNG)
    wanted = "file@1.0.0::path:notes.md"
    assert printed_json("handle", "resolve", wanted, "--root", tmp_path) == {
        "handle": wanted,
        "kind": "binary",
        "data": base64.b64encode(PNG).decode(),
        "mediaType": "image/png",
    }
    assert run("handle", "resolve", wanted, "--root", tmp_path).stdout_bytes == PNG


def test_a_handle_is_given_in_its_json_form_too(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("a note")
    wanted = Handle.file("notes.md")
    given = json.dumps(wanted.as_dict())
    assert done("handle", "resolve", given, "--root", tmp_path) == "a note"
    file = tmp_path / "chat.jsonl"
    Session.create(file).close()
    done("append", file, "--handle", given)
    with Session.open(file, readonly=True) as session:
        assert session.leaf["handle"] == str(wanted)


def test_a_context_and_an_inline_export_read_files_below_the_root_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("a note")
    file, copy = tmp_path / "chat.jsonl", tmp_path / "copy.jsonl"
    with Session.create(file) as session:
        uuid = session.append_handle("file@1.0.0::path:notes.md").uuid
    assert "name that folder as the root" in run("context", file).stderr
    assert "a note" in done("context", file, "--root", tmp_path)
    told = run("export-branch", file, uuid, copy, "--inline").stderr
    assert f"entry {uuid} stays a handle" in told
    copy.unlink()
    done("export-branch", file, uuid, copy, "--inline", "--root", tmp_path)
    assert "a note" in done("context", copy)


def test_an_entry_and_a_blob_are_resolved_in_their_session(chat: Path) -> None:
    with Session.open(chat) as session:
        blob = Handle.blob(*session.blobs.put(PNG), "image/png")
        uuid = session.leaf.uuid
    wanted = f"session@2.0.0::entry:chat-id:{uuid}"
    assert printed_json("handle", "resolve", wanted, "--session", chat) == {
        "handle": wanted,
        "kind": "message",
        "data": {"role": "assistant", "content": "sure"},
    }
    assert done("handle", "resolve", wanted, "--session", chat).split() == ["assistant", "sure"]
    assert run("handle", "resolve", str(blob), "--session", chat).stdout_bytes == PNG


def test_text_that_drives_a_terminal_is_not_printed(chat: Path) -> None:
    with Session.open(chat) as session:
        entry = session.append("custom", customType="t", data="\x1b[31mred")
    wanted = f"session@2.0.0::entry:chat-id:{entry.uuid}"
    shown = done("handle", "resolve", wanted, "--session", chat)
    assert not driving(shown)
    assert "red" in shown


@for_each(
    ("words", "told"),
    [
        (("no handle",), "is not a handle; give plugin@version::method:meta"),
        (("cone@1.0.0::chat:a",), "unknown plugin 'cone'; registered: blob, file, session"),
        (("file@1.0.0::path:a",), "name that folder as the root (--root DIR)"),
        (("file@1.0.0::path:../x", "--root", "/"), "it is not a relative path without '..'"),
        (("file@1.0.0::path:a", "--root", "/no/such/folder"), "No such file or directory"),
        (("session@2.0.0::entry:a:b",), "name the session (--session FILE)"),
        (("session@2.0.0::entry:a:b", "--session", "/no/such/file"), "/no/such/file"),
    ],
)
def test_a_handle_that_cannot_be_resolved_fails_in_one_line(
    words: tuple[str, ...], told: str
) -> None:
    error = refused("handle", "resolve", *words)
    assert told in error
    assert error.count("\n") == 1


def test_resolving_writes_nothing(chat: Path) -> None:
    before = contents(chat.parent)
    refused("handle", "resolve", "session@2.0.0::entry:chat-id:none", "--session", chat)
    assert contents(chat.parent) == before


@pytest.mark.slow
def test_an_installed_package_brings_a_plugin_as_the_help_says(tmp_path: Path) -> None:
    shown = done("handle", "schemas", "--help")
    (group,) = re.findall(r'\[project\.entry-points\."(.+)"\]', shown)
    (point,) = re.findall(r'(notes = ".+")', shown)
    (tmp_path / "my_package.py").write_text(PLUGIN)
    installed = tmp_path / "my_package-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{point.replace(chr(34), '')}\n")
    command = [sys.executable, "-m", "sessiontree", "handle", "resolve", "notes@1.0.0::line:1"]
    beside = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, env=beside, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, '"Be quick"\n'), found.stderr
    without = subprocess.run(command, capture_output=True, text=True)
    assert without.returncode == 1
    assert f"an entry point of the group '{group}'" in without.stderr


def test_a_plugin_of_this_process_is_used() -> None:
    plugin = Plugin("p")
    Registry.default().register(plugin)
    try:
        assert printed_json("handle", "resolve", "p@1.0.0::a")["kind"] == "message"
    finally:
        Registry.default().unregister(plugin)


def test_a_handle_with_a_space_is_asked_for_in_quotation_marks(tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("here")
    whole = "file@1.0.0::path:my notes.md"
    error = refused("handle", "resolve", *whole.split(), "--root", tmp_path, status=2)
    assert "unexpected 'notes.md'; give one HANDLE, in quotation marks" in error
    assert done("handle", "resolve", whole, "--root", tmp_path) == "here"
