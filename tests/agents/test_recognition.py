"""Each file is recognised as its own agent's, or named as what it is, and never as another's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import ForeignFormatError, NotASessionError, Session
from sessiontree.agents import AGENTS, HEAD
from sessiontree.library.listing import facts_of
from sessiontree.storage.databases import is_database, sessions_in
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.table import for_each

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
MADE: Final = sorted(file for file in FIXTURES.rglob("*.json*") if file.is_file())

EVENT: Final = {"id": "e", "timestamp": "2026-11-28T13:11:16", "source": "agent"}
DOCUMENTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("OpenCode or Kilo CLI as JSON", {"info": {"id": "ses_1", "projectID": "p"}, "messages": []}),
    ("OpenHands", {**EVENT, "llm_message": {"role": "user", "content": []}}),
    ("OpenHands", {**EVENT, "tool_name": "terminal", "observation": {}}),
    ("Mistral Vibe", {"generation": "42", "manifest_sha256": "00", "store_format": "v"}),
)


def named(file: Path) -> str | None:
    """The program that a file is recognised as, or named as; None for any other file."""
    try:
        return facts_of(str(file)).agent
    except ForeignFormatError as error:
        refusal = error
    except NotASessionError:
        return None
    said = f"{file} is a session of {refusal.agent}, which sessiontree does not read; "
    assert str(refusal).startswith(said)
    assert refusal.step is None  # no command of sessiontree helps
    return refusal.agent


@for_each("file", MADE)
def test_no_file_is_claimed_by_two_agents(file: Path) -> None:
    with file.open("rb") as opened:
        head = opened.read(HEAD)
    assert len([agent.name for agent in AGENTS if agent.reader.recognises(head)]) <= 1


@for_each(("program", "keys"), DOCUMENTS)
@for_each("indent", [None, 2])
def test_a_session_of_a_known_stranger_is_named(
    tmp_path: Path, program: str, keys: dict[str, Any], indent: int | None
) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(keys, indent=indent) + "\n")
    assert named(file) == program


def test_a_chat_of_aider_is_named(tmp_path: Path) -> None:
    file = tmp_path / ".aider.chat.history.md"
    file.write_text("\n# aider chat started at 2026-05-18 10:00:00\n\n#### add a health endpoint\n")
    assert named(file) == "Aider"


@for_each(
    "keys",
    [
        {"sessionId": "s", "title": "t"},
        {"type": "metadata", "created_at": 1},
        {"type": "user", "sessionId": "s", "message": {"role": "user", "parts": []}},
        EVENT,
    ],
)
def test_a_file_of_a_shape_that_is_not_known_is_not_guessed(
    tmp_path: Path, keys: dict[str, Any]
) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text(json.dumps(keys) + "\n")
    with pytest.raises(NotASessionError, match="is not a session"):
        Session.open(file, readonly=True)


@for_each(
    ("content", "what"),
    [
        (b'{\n  "a": 1\n}\n', "begins an object over many lines"),
        (b'{"a": 1,\n "b": 2}\n', "begins an object over many lines"),
        (b'[\n  {"a": 1}\n]\n', "is a list"),
        (b'[{"a": 1}]\n', "is a list"),
        ('{"a": 1}\n'.encode("utf-16"), "is UTF-16"),
        ('{"a": 1}\n'.encode("utf-16-le"), "is UTF-16"),
        (b"SQLite format 3\0" + bytes(84), "is a SQLite database"),
    ],
)
def test_another_file_is_named_as_what_it_is(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(NotASessionError, match=what):
        Session.open(file, readonly=True)


PROGRAMS: Final = {
    "cline": "Cline",
    "continue": "Continue",
    "copilot-cli": "Copilot CLI",
    "droid": "Droid",
    "kilo": "Kilo CLI",
    "kimi-code": "Kimi Code",
    "mistral-vibe": "Mistral Vibe",
    "openclaw": "OpenClaw",
    "opencode": "OpenCode",
    "openhands": "OpenHands",
    "qwen-code": "Qwen Code",
}
"""By folder of the real sessions, the program of its files."""


def _real() -> Iterator[tuple[str, Path]]:
    for folder in sorted((CORPUS / "agents").glob("*")):
        for file in sorted(folder.rglob("*")):
            if is_database(str(file)):
                yield from ((folder.name, Path(each)) for each in sessions_in(str(file)))
            elif file.is_file() and file.name != "export.json":
                yield folder.name, file


@pytest.mark.skipif(not (CORPUS / "agents").is_dir(), reason=NO_CORPUS)
def test_each_real_file_is_its_own_agents_or_is_named() -> None:
    found: dict[str, set[str | None]] = {}
    for folder, file in _real():
        program = named(file)
        found.setdefault(folder, set()).add(program)
        assert program in (None, PROGRAMS.get(folder)), file
    assert {folder for folder in found if PROGRAMS.get(folder) in found[folder]} >= {*PROGRAMS}
