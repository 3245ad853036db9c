"""A prompt and its attachments are one entry."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import EntryError, Session, StorageError, UsageError
from tests.support.conversation import assistant, user
from tests.support.terminal import done, last, printed_json, refused, run

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
PDF = b"%PDF-1.7\n" + bytes(20)
NOTES = "# Notes\nUse clap.\n"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with Session.create(tmp_path / "s.jsonl", cwd="/project") as session:
        yield session


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.md"
    path.write_text(NOTES)
    return path


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def image(content: bytes) -> dict[str, Any]:
    return {"type": "image", "data": encoded(content), "mimeType": "image/png"}


def document(data: str, *, media_type: str = "text/plain", **more: Any) -> dict[str, Any]:
    kind = "text" if media_type == "text/plain" else "base64"
    source = {"type": kind, "media_type": media_type, "data": data}
    return {"type": "document", "source": source, **more}


def test_a_path_a_stream_and_bytes_are_blocks_of_the_prompt(session: Session, notes: Path) -> None:
    given = user("look")
    entry = session.append_message(given, attachments=[PNG, notes, io.BytesIO(PDF), str(notes)])
    said = document(NOTES, title="notes.md")
    pdf = document(encoded(PDF), media_type="application/pdf")
    text = {"type": "text", "text": "look"}
    assert entry["message"] == user([text, image(PNG), said, pdf, said])
    assert given == user("look")
    assert session.context().messages == [entry["message"]]
    assert session.context().warnings == []


def test_the_prompt_and_its_attachments_are_taken_back_together(
    session: Session, notes: Path
) -> None:
    session.append_message(user("hi"))
    session.append_message(assistant("hello"))
    prompt = session.append_message(user("look"), attachments=[PNG, notes])
    answer = session.append_message(assistant("I see"))
    assert session.turns()[-1] == [prompt, answer]
    assert session.rewind() == "look"
    assert session.context().messages == [user("hi"), assistant("hello")]


def test_every_request_has_the_prompt_with_its_attachments(session: Session, notes: Path) -> None:
    session.append_message(user("look"), attachments=[PNG, notes, PDF])
    context = session.context()
    for request, whole in (
        (context.to_anthropic(), encoded(PNG)),
        (context.to_openai(), encoded(PNG)),
        (context.to_openai("chat"), encoded(PNG)),
    ):
        sent = str(request.params)
        assert request.warnings == []
        assert all(part in sent for part in ("look", whole, "Use clap.", encoded(PDF)))


def test_large_attachments_are_blobs_and_copies_have_them(session: Session, tmp_path: Path) -> None:
    large = PNG + bytes(200_000)
    entry = session.append_message(user("look"), attachments=[large])
    assert len(entry.line) < 2000
    with Session.open(session.fork(tmp_path / "copy.jsonl"), readonly=True) as copy:
        assert copy.context().messages[0]["content"][1] == image(large)
    assert session.verify() == []


@pytest.mark.parametrize(
    ("content", "type"),
    [
        (b"PK\3\4" + bytes(9), "application/octet-stream"),
        (b"word " * 60_000, "text/plain; base64"),
        (b"caf\xe9 " + b"word " * 30, "text/plain; base64"),
    ],
    ids=["no text", "long text", "one wrong byte"],
)
def test_no_byte_of_any_other_content_is_lost(session: Session, content: bytes, type: str) -> None:
    entry = session.append_message(user("look"), attachments=[content])
    source = entry["message"]["content"][1]["source"]
    assert (source["media_type"], source["type"]) == (type.partition(";")[0], "base64")
    assert base64.b64decode(source["data"]) == content
    assert len(session.context().to_anthropic().warnings) == 1


def test_the_text_of_an_attachment_counts_as_tokens(session: Session, notes: Path) -> None:
    session.append_message(user("look"), attachments=[b"word " * 4000])
    assert session.context().tokens == pytest.approx(5000, rel=0.01)


def test_a_prompt_may_be_its_attachments_alone_or_blocks(session: Session) -> None:
    text = {"type": "text", "text": "look"}
    for content, before in ((None, []), ("", []), ([text], [text])):
        entry = session.append_message(user(content), attachments=[PNG])
        assert entry["message"]["content"] == [*before, image(PNG)]
    alone = session.append_message({"role": "user"}, attachments=[PNG])
    assert alone["message"]["content"] == [image(PNG)]


def test_what_cannot_be_attached_is_refused_and_nothing_is_written(
    session: Session, tmp_path: Path, notes: Path
) -> None:
    def told(error: type[Exception], message: Any, attachments: Any) -> str:
        with pytest.raises(error) as refusal:
            session.append_message(message, attachments=attachments)
        return str(refusal.value)

    big = tmp_path / "big.bin"
    with big.open("wb") as file:
        file.truncate((20 << 20) + 1)
    assert "at most 20 MiB; attach it as an entry" in told(UsageError, user("x"), [big])
    assert "cannot attach" in told(StorageError, user("x"), [notes, tmp_path / "none"])
    assert "not a int" in told(UsageError, user("x"), [5])
    assert "open the file with 'rb'" in told(UsageError, user("x"), [io.StringIO("x")])
    for one in (str(notes), notes, PNG, io.BytesIO(PNG)):
        assert "is a list of paths" in told(UsageError, user("x"), one)
    for role in ("assistant", "system", "toolResult"):
        assert "belong to a prompt" in told(UsageError, {"role": role, "content": "x"}, [PNG])
    assert "a list of blocks" in told(EntryError, user(5), [PNG])
    assert session.leaf == session.header


def test_the_command_line_takes_a_text_with_files(tmp_path: Path, notes: Path) -> None:
    file, picture = tmp_path / "s.jsonl", tmp_path / "p.png"
    picture.write_bytes(PNG)
    done("new", file)
    done("append", file, "--text", "look", "--attach", picture, "--attach", notes)
    kinds = [block["type"] for block in last(file)["message"]["content"]]
    assert kinds == ["text", "image", "document"]
    assert done("rewind", file) == "look\n"
    assert printed_json("context", file)["messages"] == []
    done("append", file, "--attach", picture, "--attach", notes)
    assert len(last(file)["message"]["content"]) == 2
    done("append", file, "--attach", picture)
    assert (last(file)["type"], last(file)["preview"]) == ("handle", "p.png")
    before = file.read_bytes()
    told = refused("append", file, "--text", "x", "--attach", picture, "--role", "system")
    assert "belong to a prompt" in told
    assert run("append", file, "--text", "x", "--attach", tmp_path / "none").exit_code == 1
    preview = ("--preview", "p", "--attach", picture, "--text", "x")
    assert "--preview needs" in refused("append", file, *preview, status=2)
    assert file.read_bytes() == before
