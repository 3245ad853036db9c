"""Messages of more content blocks than are read: refused by reading, writing and importing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import EntryError, Session, TooMuchError, import_session
from sessiontree.core import codec, message
from sessiontree.importing import source
from tests.support.conversation import assistant, user
from tests.support.transcripts import written

SAID = r"{} content blocks and calls; at most 3 are read"


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (codec, source):
        monkeypatch.setattr(module, "MAX_BLOCKS", 3)
        monkeypatch.setattr(module, "BYTES_OF_MANY_BLOCKS", 6)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def blocks(count: int) -> list[dict[str, str]]:
    return [{"type": "text", "text": "x"}] * count


def test_a_message_of_too_many_blocks_is_not_written(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(assistant(blocks(3)))
        before = file.read_bytes()
        with pytest.raises(EntryError, match="the message has 4 content blocks and calls"):
            session.append_message(assistant(blocks(4)))
        calls = [{"id": f"c{number}", "type": "function"} for number in range(4)]
        with pytest.raises(EntryError, match="append it as several"):
            session.append_message({"role": "assistant", "content": None, "tool_calls": calls})
        assert file.read_bytes() == before


def test_a_session_with_a_message_of_too_many_blocks_is_refused_until_its_line_is_removed(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Session.create(file) as session:
        session.append_message(user("go on"))
        with monkeypatch.context() as before:
            before.setattr(codec, "MAX_BLOCKS", message.MAX_BLOCKS)
            below = session.append_message(assistant(blocks(4)))
    content = file.read_bytes()
    with pytest.raises(TooMuchError, match=f"entry {below.uuid}, at byte .* {SAID.format(4)}"):
        Session.open(file)
    assert file.read_bytes() == content
    file.write_bytes(content[: below.offset])
    with Session.open(file) as session:
        assert session.context().messages[-1]["content"] == "go on"


def test_a_message_of_too_many_blocks_is_not_imported(tmp_path: Path) -> None:
    line = {
        "type": "assistant",
        "uuid": "a",
        "parentUuid": None,
        "sessionId": "5e551015-0000-4000-8000-000000000001",
        "message": assistant([{"type": "text", "text": "x" * 40_000}, *blocks(4)]),
    }
    file = written(tmp_path / "5e551015-0000-4000-8000-000000000001.jsonl", [line])
    with pytest.raises(TooMuchError, match=SAID.format(5)):
        import_session(file, tmp_path / "made")
    assert not list((tmp_path / "made").glob("**/*.jsonl"))
