"""A value of any type in any place of a file: no command ends with a fault of this project."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from click.testing import CliRunner

from sessiontree.cli import main
from sessiontree.core.header import DATABASES
from sessiontree.storage.databases import content_at, sessions_in
from tests.docs.examples import ROOT
from tests.hostile.commands import FOREIGN, OWN
from tests.support.soak import in_soak

ODD: Final = (
    *("null", "1", '""', '"x"', "[]", "{}", "[[]]", '[1, {"a": null}]', '{"a": [1]}', "true"),
    *("1180591620717411303424", "-1", "1.5", '"\\ud800"', '{"type": ["x"]}', '[{"type": []}]'),
)
SOURCES: Final = sorted(
    file
    for file in [*ROOT.glob("fixtures/*/session.jsonl"), *ROOT.glob("fixtures/agents/**/*.jsonl")]
    if file.stat().st_size < 100_000
)
DOCUMENTS: Final = sorted(
    file
    for pattern in ("**/*.messages.json", "continue/*/*-*.json", "gemini/**/session-*.json")
    for file in ROOT.glob(f"fixtures/agents/{pattern}")
)
IN_DATABASES: Final = sorted(
    Path(file)
    for ending in DATABASES
    for database in ROOT.glob(f"fixtures/agents/**/*{ending}")
    for file in sessions_in(str(database))
)
"""Sessions in databases, whose lines are read in a file, too."""

NOT_HERE: Final = ("backup", "stats of all", "ls of all", "search in all")
"""Commands that read the sessions of this machine."""

Place = tuple[str | int, ...]
LIST: Final = [1, {"a": None}]


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """The places of all values in a value, down to some depth."""
    if len(above) > 20 or not isinstance(value, dict | list):
        return
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield (*above, key)
        yield from places(value[key], (*above, key))


def put(value: Any, place: Place, odd: Any) -> None:
    for key in place[:-1]:
        value = value[key]
    value[place[-1]] = odd


def with_odd_values(source: Path, dice: Random) -> str | None:
    """The text of a file with one to four odd values; None if its lines are not JSON."""
    found = content_at(str(source))
    text = source.read_text(errors="replace") if found is None else found[0].decode()
    indent = 2 if text.startswith("{\n") else None
    try:
        lines = [json.loads(each) for each in ([text] if indent else text.splitlines())]
    except ValueError:
        return None
    for _ in range(dice.choice((1, 1, 2, 4)) if lines else 0):
        line = dice.choice(lines)
        if choices := list(places(line)):
            put(line, dice.choice(choices), json.loads(dice.choice(ODD)))
    return "".join(json.dumps(line, indent=indent) + "\n" for line in lines)


def faults(
    folder: Path, name: str, text: str, commands: Mapping[str, tuple[str, ...]]
) -> list[str]:
    """What the commands say that end with a fault of this project, each on a fresh file."""
    found = []
    for words in commands.values():
        (folder / name).write_text(text)
        made = CliRunner().invoke(main, [word.replace("FILE", name) for word in words])
        if made.exit_code not in (0, 1, 2) or "a fault in" in made.stderr:
            found.append(f"{' '.join(words)}: {made.stderr[-300:]}")
    return found


def check_many(folder: Path, seed: int, count: int) -> None:
    dice = Random(seed)
    for _ in range(count):
        source = dice.choice(dice.choice((SOURCES, SOURCES, DOCUMENTS, IN_DATABASES)))
        text = with_odd_values(source, dice)
        if text is None:
            continue
        own = OWN if "foreign" not in str(source) and "agents" not in str(source) else FOREIGN
        names = dice.sample([name for name in own if name not in NOT_HERE], 8)
        assert faults(folder, source.name, text, {name: own[name] for name in names}) == []


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "SESSIONTREE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.slow
@in_soak("files", 40, 8_000)
def test_any_command_takes_any_value_in_any_place(folder: Path, files: int) -> None:
    check_many(folder, 0, files)


def own(*entries: dict[str, Any]) -> list[dict[str, Any]]:
    header = {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "h"}
    lines = [{**header, "parentUuid": None, "id": "odd", "cwd": "/w"}]
    for number, entry in enumerate(entries):
        above = f"a{number - 1}" if number else "h"
        lines.append({"uuid": f"a{number}", "parentUuid": above, **entry})
    return lines


def said(role: Any, **more: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": "x", **more}}


def claude(kind: Any, uuid: Any = "u", **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": "x"}
    ids = {"uuid": uuid, "parentUuid": None, "sessionId": "5e551015-0000-4000-8000-000000000001"}
    return {"type": kind, **ids, "timestamp": "2026-01-01T00:00:00Z", "message": message, **more}


CALL = {"type": "toolCall", "id": "c", "name": "t"}
CODEX = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}}
COMPACTED = {"message": "x", "replacement_history": [{"type": LIST}]}
KNOWN: Final[dict[str, list[dict[str, Any]]]] = {
    "a thinking level": own(said("user"), {"type": "thinking_level_change", "thinkingLevel": LIST}),
    "a role": own(said("user"), said(LIST, partial=True)),
    "the id of an answer": own(said("user"), said("assistant", id=LIST), said("user")),
    "the kind of usage": own(said("user"), {"type": "usage", "kind": LIST, "usage": {"input": 1}}),
    "the path of an image": own(
        said("user", content=[{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]),
        said("assistant", content=[{**CALL, "arguments": {"path": LIST, "media_type": "x"}}]),
    ),
    "the type of a line of Claude Code": [claude("user"), claude(LIST, "v")],
    "a uuid of Claude Code": [claude("user"), claude("user", LIST)],
    "an attachment of Claude Code": [claude("attachment", attachment="x", isMeta="x")],
    "the parts of an attachment": [
        claude("attachment", attachment={"type": 1, "isMeta": "x", "origin": "x"}, isMeta="x")
    ],
    "an item of a history of Codex": [CODEX, {**CODEX, "type": "compacted", "payload": COMPACTED}],
    "the id of a message of Gemini CLI": [
        {"sessionId": "s", "projectHash": "p", "startTime": "2026-01-01T00:00:00Z"},
        {"id": LIST, "type": "user", "content": "x"},
    ],
}
"""Places where a value that is no text once ended some command with a fault."""


@pytest.mark.slow
@in_soak("every", 3, 1)
def test_no_command_fails_on_a_list_in_place_of_a_text(folder: Path, every: int) -> None:
    found = []
    for number, (name, lines) in enumerate(KNOWN.items()):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        commands = OWN if "version" in lines[0] else FOREIGN
        wanted = {key: words for key, words in commands.items() if key not in NOT_HERE}
        wanted["ls as JSON"] = ("ls", ".", "--json")
        wanted = dict(list(wanted.items())[number % every :: every])
        found += [f"{name}: {fault}" for fault in faults(folder, "s.jsonl", text, wanted)]
    assert found == []
