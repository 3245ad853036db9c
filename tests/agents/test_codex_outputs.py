"""Outputs of Codex of 2025, in JSON with the exit code: people see what was printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.terminal import done, printed_json

PRINTED = '{\n  "name": "zorb",\n  "say": "\u001b[31mred\u001b[0m"\n}\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    output = json.dumps({"output": PRINTED, "metadata": {"exit_code": 0, "duration_seconds": 1.2}})
    call = json.dumps({"command": ["bash", "-lc", "cat package.json"], "workdir": str(tmp_path)})
    id = "01c1796a-07e8-4196-8889-0df9547acf05"
    lines = [
        ("session_meta", {"id": id, "timestamp": "2026-03-23T07:22:00Z", "cwd": str(tmp_path)}),
        ("response_item", {"type": "function_call", "name": "shell", "arguments": call}),
        ("response_item", {"type": "function_call_output", "output": output}),
    ]
    for _, payload in lines[1:]:
        payload["call_id"] = "c1"
    file = tmp_path / f"rollout-2026-03-23T07-22-00-{id}.jsonl"
    at = {"timestamp": "2026-03-23T07:22:01.000Z"}
    file.write_text(
        "".join(json.dumps({**at, "type": kind, "payload": body}) + "\n" for kind, body in lines)
    )
    return file


def test_what_a_command_printed_is_shown_without_the_json_around_it(file: Path) -> None:
    shown = done("export", file, "--format", "markdown")
    assert '{\n  "name": "zorb",\n  "say": "red"\n}' in shown
    assert "duration_seconds" not in shown
    assert '{↵  "name": "zorb"' in done("context", file) + done("path", file)


def test_what_a_command_printed_is_found_as_it_was_printed(file: Path) -> None:
    (hit,) = printed_json("search", "zorb", file)
    assert '"name": "zorb",↵' in hit["snippet"].replace("\n", "↵")
    assert printed_json("search", "duration_seconds", file) == []


def test_a_json_file_that_a_command_printed_is_known(file: Path) -> None:
    assert done("recover", file.with_name("package.json"), file, "--at", "latest") == PRINTED


def test_the_file_is_kept_verbatim(file: Path) -> None:
    (_, result) = [row for row in printed_json("path", file) if row["type"] == "message"]
    assert json.loads(result["message"]["output"])["metadata"]["exit_code"] == 0
