"""A redacted copy is a session like any other, without the secrets."""

from __future__ import annotations

import json
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Handle, Session
from sessiontree.redact.redaction import Redaction
from tests.support.conversation import HEADER, chain, user, write

KEY = "ghp_" + "a1B2" * 9
MAIL = "mary@people.org"
LONG = "line of text\n" * 4000


def everything(folder: Path) -> bytes:
    """All bytes of a session and of what lies beside it."""
    return b"\n".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A session that holds secrets wherever text may stand."""
    file = tmp_path / "here" / "s.jsonl"
    file.parent.mkdir()
    facts: dict[str, Any] = {"name": f"with {MAIL}", "metadata": {"owner": MAIL}}
    with Session.create(file, cwd="/home/mary-ann/project", **facts) as s:
        s.append_message(user(f"Use {KEY}, said {MAIL}"))
        arguments = {"env": {"PASSWORD": "hunter2secret"}, "/home/mary-ann/x": [KEY]}
        call = {"type": "toolCall", "id": "c", "name": "sh", "arguments": arguments}
        thinking = {"type": "thinking", "thinking": f"{KEY}?", "signature": "c2lnbmF0dXJl"}
        asked = s.append_message({"role": "assistant", "content": [thinking, call]})
        s.append_message({"role": "toolResult", "toolCallId": "c", "content": LONG + KEY})
        s.append_message(user("nothing to hide"), metadata={"by": MAIL})
        s.append_message(user(LONG))
        s.label(asked, "asked")
        s.branch(asked, summary=f"{KEY} did not work")
        s.attach(BytesIO(b"\x89PNG secret"), media_type="image/png")
        s.attach(BytesIO(f"notes of {MAIL}".encode()), media_type="text/plain", preview=KEY)
        s.attach(BytesIO(b"PK secret"), media_type="application/zip")
        s.append_handle(Handle("notes", "1.0.0", "line", (MAIL,)), kind="document")
        s.append("x-next-years", field={"deep": [[f"\x1b[1m{KEY[:6]}\x1b[0m{KEY[6:]}"]]})
    return file


SECRETS = [KEY, KEY[6:], MAIL, "mary%40people", "hunter2secret", "mary-ann", "secret\0", "\x89PNG"]


def redacted_copy(made: Path, **options: Any) -> tuple[Path, dict[str, Any]]:
    copy = made.parent.parent / "there" / "copy.jsonl"
    copy.parent.mkdir()
    redaction = Redaction()
    with warnings.catch_warnings(), Session.open(made, readonly=True) as s:
        warnings.simplefilter("ignore")
        s.export_branch(s.header, copy, redact=redaction, **options)
    return copy, redaction.report()


each_way = pytest.mark.parametrize("inline", [False, True], ids=["with blobs", "inline"])


@each_way
def test_no_secret_is_in_any_byte_of_the_copy(made: Path, inline: bool) -> None:
    copy, _ = redacted_copy(made, inline=inline)
    found = everything(copy.parent)
    escaped = json.loads(
        '"' + found.decode().replace("\n", "").replace('"', "").replace("\\", "\\\\") + '"'
    )
    for secret in SECRETS:
        assert secret.encode() not in found
        assert secret not in escaped
    assert b"PK secret" not in found


@each_way
def test_the_copy_is_sound_and_the_same_tree(made: Path, inline: bool) -> None:
    copy, _ = redacted_copy(made, inline=inline)
    with Session.open(made, readonly=True) as old, Session.open(copy, readonly=True) as new:
        assert new.verify() == []
        kept = [e for e in new.entries() if e.uuid != new.leaf.uuid or new.leaf.type != "branch"]
        places = [(e.uuid, e.parent_uuid) for e in old.entries()]
        assert [(e.uuid, e.parent_uuid) for e in kept] == places
        assert all(b'"crc":"' in e.line for e in new.entries())
        assert new.header["cwd"] == "~/project"
        assert new.name == "with [redacted:email:1]"
        thinking = {"type": "thinking", "thinking": "[redacted:github-token:1]?"}
        assert new.entry("asked")["message"]["content"][0] == thinking


def test_what_holds_no_secret_is_copied_byte_for_byte(made: Path) -> None:
    copy, _ = redacted_copy(made)
    with Session.open(made, readonly=True) as old, Session.open(copy, readonly=True) as new:
        lines = {entry.uuid: entry.line for entry in new.entries()}
        same = [e for e in old.entries() if lines[e.uuid] == e.line]
        assert [e.type for e in same] == ["message", "label"]
        assert same[0]["message"]["content"] == LONG
        assert new.entry(same[0].uuid)["message"]["content"] == LONG


def test_the_report_names_rules_entries_and_what_was_left_out(made: Path) -> None:
    copy, report = redacted_copy(made)
    rules = {"email", "github-token", "assigned-secret", "home-directory"}
    assert {each["rule"] for each in report["masked"]} == rules
    left_out = [(each["mediaType"], each["bytes"]) for each in report["leftOut"]]
    assert left_out == [("image/png", 11), ("application/zip", 9)]
    with Session.open(copy, readonly=True) as new:
        uuids = {entry.uuid for entry in new.entries()}
        assert {each["entry"] for each in report["masked"]} <= uuids
        assert report["unsealed"] == [new.entry("asked").uuid]
    assert not any(secret in json.dumps(report) for secret in SECRETS)


def test_attachments_are_messages_of_their_text_or_of_what_was_left_out(made: Path) -> None:
    copy, _ = redacted_copy(made)
    with Session.open(made, readonly=True) as old, Session.open(copy, readonly=True) as new:
        handles = list(old.find(type="handle"))
        attached = [new.entry(entry.uuid) for entry in handles if "blob@" in str(entry["handle"])]
        assert [entry.type for entry in attached] == ["message"] * 3
        said = [str(entry["message"]["content"]) for entry in attached]
        assert {entry["message"]["role"] for entry in attached} == {"user"}
        assert "image/png, 11 bytes, left out" in said[0]
        assert "notes of [redacted:email:1]" in said[1]
        assert "application/zip, 9 bytes, left out" in said[2]
        assert new.context(strict=False).messages[-4:-1] == [entry["message"] for entry in attached]


def test_redacting_a_redacted_copy_changes_no_entry(made: Path) -> None:
    copy, _ = redacted_copy(made)
    again = copy.with_name("again.jsonl")
    redaction = Redaction()
    with Session.open(copy, readonly=True) as session:
        session.export_branch(session.header, again, redact=redaction)
        assert redaction.masked == {}
        with Session.open(again, readonly=True) as new:
            old_lines, new_lines = ([e.line for e in s.entries()][1:] for s in (session, new))
    assert new_lines[: len(old_lines)] == old_lines


def test_a_key_given_twice_hides_nothing(file: Path, copy: Path, main: Session) -> None:
    place = f'"uuid":"u1","parentUuid":"{main.leaf.uuid}"'
    with file.open("a") as stream:
        stream.write(f'{{"type":"custom",{place},"data":"{KEY}","data":"fine"}}\n')
    with Session.open(file, readonly=True) as session:
        session.export_branch(session.header, copy, redact=Redaction())
    assert KEY.encode() not in copy.read_bytes()
    assert b'"data":"fine"' in copy.read_bytes()


def test_a_blob_that_is_gone_is_told_and_named(made: Path) -> None:
    for blob in Path(f"{made}.blobs").iterdir():
        blob.unlink()
    copy = made.with_name("copy.jsonl")
    with pytest.warns(UserWarning, match="missing"), Session.open(made, readonly=True) as session:
        session.export_branch(session.header, copy, redact=Redaction())
    with Session.open(copy, readonly=True) as new:
        assert new.verify() == []
        assert "[missing: blob" in json.dumps([dict(e.body) for e in new.entries()])


def test_a_line_of_another_program_without_a_secret_is_copied_byte_for_byte(
    tmp_path: Path,
) -> None:
    file = write(tmp_path / "s.jsonl", [HEADER, *chain("a", "b")])  # with spaces, without a crc
    with Session.open(file, readonly=True) as session:
        for inline in (False, True):
            copy = tmp_path / f"{inline}.jsonl"
            session.export_branch(session.header, copy, redact=Redaction(), inline=inline)
            assert copy.read_bytes().splitlines()[1:] == file.read_bytes().splitlines()[1:]
