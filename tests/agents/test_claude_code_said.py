"""What Claude Code sends of its lines that are no plain prompts and answers.

Each case was tried with the real program, which got a transcript with the line and sent a request.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sessiontree import Session
from sessiontree.importing.importer import import_session
from sessiontree.page.rows import ERROR
from tests.agents.conftest import SESSION
from tests.page.reading import page_of
from tests.support.table import for_each
from tests.support.terminal import done, run
from tests.support.transcripts import Line, assistant, encoded, line, user, written

STDOUT = "<local-command-stdout>Not enough messages to compact.</local-command-stdout>"


def local(content: str, **more: Any) -> Line:
    """A line of a command that the program runs itself."""
    return line("x", "a", "system", **{"subtype": "local_command", "content": content, **more})


def queued(prompt: Any, **more: Any) -> Line:
    """A line with a prompt that the user typed during a turn."""
    about = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **more}
    return line("x", "a", "attachment", attachment=about)


def error(model: str, **more: Any) -> Line:
    made = assistant("x", "a", isApiErrorMessage=True, **more)
    made["message"]["model"] = model
    return made


SENT: dict[str, tuple[Line, Any]] = {
    "the output of a command": (local(STDOUT), STDOUT),
    "its errors": (local("<local-command-stderr>no</local-command-stderr>"), None),
    "without a tag": (local("/model"), None),
    "hidden output": (local(STDOUT, isMeta=True), STDOUT),
    "output that is shown": (local(STDOUT, isDisplayOnly=False), STDOUT),
    "a skill": (user("x", "a", [{"type": "text", "text": "Do it."}], isMeta=True), None),
    "typed in a turn": (queued("And this"), "And this"),
    "blocks typed in a turn": (queued([{"type": "text", "text": "And this"}]), None),
    "typed by a person": (queued("And this", origin={"kind": "human"}), "And this"),
    "an error of another model": (error("claude"), [{"type": "text", "text": "said x"}]),
}
NOT_SENT = {
    "output for display alone": local(STDOUT, isDisplayOnly=True),
    "another note": local(STDOUT, subtype="informational"),
    "a virtual prompt": user("x", "a", isVirtual=True),
    "a virtual answer": assistant("x", "a", isVirtual=True),
    "an error of the API": error("<synthetic>"),
    "a prompt taken back": user("x", "a", retiredByNoPersonsInput=True),
    "a note of a task": queued("done", commandMode="task-notification"),
    "a hidden text in a turn": queued("done", isMeta=True),
    "typed by a program": queued("done", origin={"kind": "task"}),
    "another attachment": line("x", "a", "attachment", attachment={"type": "file"}),
}
LINES = {**{name: made for name, (made, _) in SENT.items()}, **NOT_SENT}


def around(made: Line) -> list[Line]:
    return [user("a", None), made, assistant("z", "x")]


@for_each("name", LINES)
def test_a_line_is_in_the_context_where_it_is_sent(name: str, tmp_path: Path) -> None:
    made = LINES[name]
    content = SENT[name][1] if name in SENT else None
    content = content or made.get("content") or made.get("attachment", {}).get("prompt")
    content = content or made.get("message", {}).get("content")
    with Session.open(written(tmp_path / "s.jsonl", around(made)), readonly=True) as session:
        told = [message["content"] for message in session.context(verbatim=True).messages]
        assert told[1:-1] == ([content] if name in SENT else [])
        assert (session.verify(), session.notes, len(session.branches())) == ([], [], 1)
        prompts = [prompt.uuid for prompt, *_ in session.turns()]
    assert prompts == ["a", *(["x"] if "typed" in name and name in SENT else [])]


@for_each("name", [name for name in SENT if "error of" not in name])
def test_a_conversion_for_claude_code_writes_the_line_again(name: str, tmp_path: Path) -> None:
    made, _ = SENT[name]
    file = written(tmp_path / "s.jsonl", around(made))
    with Session.open(import_session(file, tmp_path / "in").file, readonly=True) as session:
        context = session.context().messages
        done = session.convert("claude-code", tmp_path / f"{SESSION}.jsonl")
    again = json.loads(Path(done.file).read_bytes().splitlines()[1])
    assert says(again) == says(made)
    assert not [loss for loss in done.losses if "metadata" in loss.what]
    with Session.open(done.file, readonly=True) as session:
        assert session.context().messages[:2] == context[:2]
        assert session.notes == []


def test_an_error_of_the_api_is_shown_and_found_below_its_turn(tmp_path: Path) -> None:
    failed = error("<synthetic>")
    failed["message"]["content"] = [{"type": "text", "text": "API Error: 529 overloaded"}]
    file = written(tmp_path / f"{SESSION}.jsonl", [user("a", None), failed, user("z", "x")])
    for path in (file, Path(import_session(file, tmp_path / "in").file)):
        first, last = done("tree", path).split("● 2")
        assert "failed: API Error: 529 overloaded" in first
        assert "failed" not in last
        assert "`API Error: 529 overloaded`" in done("export", path)
        assert any("API Error: 529 overloaded" in row for row in page_of(path).said(ERROR))
        assert "«API» «Error»: 529" in done("search", "API Error", path)
        assert "«overloaded»" in done("search", "overloaded", path, "--role", "assistant")
        assert "Nothing matches" in run("search", "/project", path).stderr
        assert "API Error" not in done("context", path)


def says(made: Line) -> Any:
    """What a line says, and how."""
    if made["type"] == "attachment":
        return made["attachment"]["type"], made["attachment"]["prompt"]
    if made["type"] == "system":
        return made["subtype"], made["content"]
    return made.get("isMeta"), made["message"]["content"]


def test_an_update_keeps_an_entry_that_an_older_version_read_in_another_way(tmp_path: Path) -> None:
    lines = [*around(local(STDOUT, isDisplayOnly=True)), user("n", "z")]
    file = written(tmp_path / "t" / f"{SESSION}.jsonl", lines)
    before = import_session(file, tmp_path / "out")
    lines[1] = local(STDOUT)  # as if it had been a custom entry, and a message since
    file.write_bytes(b"".join(encoded([*lines, user("o", "n")])))
    done = import_session(file, tmp_path / "out")
    assert (before.file, done.new) == (done.file, 1)
    with Session.open(done.file, readonly=True) as session:
        assert len(session.branches()) == 1
