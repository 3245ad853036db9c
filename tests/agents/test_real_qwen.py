"""What the real Qwen Code sends for a session is what sessiontree reads of it, or wrote.

Set `QWEN_CODE` to the file `cli-entry.js` of the npm package `@qwen-code/qwen-code`.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.agents import named
from sessiontree.storage.fs import DISK
from sessiontree.storage.names import AgentFiles
from tests.agents.conftest import SESSION
from tests.agents.qwen_driver import PROGRAM, QwenCode, call, running, text
from tests.agents.qwen_samples import Told, read, sent
from tests.support.transcripts import assistant, result, user, written

pytestmark = pytest.mark.skipif(
    not (PROGRAM and shutil.which("node")),
    reason="Qwen Code is not installed: set QWEN_CODE to the path of its cli-entry.js",
)

NOTES: Final = "# Notes\nRetries hammer the API.\n"
AFTER: Final = ("assistant", "user", "assistant")


def context_of(file: Path) -> Told:
    with Session.open(file, readonly=True) as session:
        assert (session.verify(), session.notes) == ([], [])
        return read(session.context().messages)


def test_a_session_and_its_fork_are_read_as_qwen_code_sends_them(tmp_path: Path) -> None:
    with running(tmp_path) as qwen:
        notes = qwen.project / "notes.md"
        notes.write_text(NOTES)
        calls = [call("read_file", file_path=str(notes)), call("read_file", file_path="/none")]
        edit = call("edit", file_path=str(notes), old_string="hammer", new_string="wait for")
        qwen.run("-p", "Fix the notes", answers=[[text("I read."), *calls], [edit]])
        qwen.run("-c", "--fork-session", "-p", "And now?")
        first, fork = qwen.chats()
        *here, _answer = context_of(first)
        assert here == sent(qwen.requests[-2])
        *here, _answer = context_of(fork)
        assert here == sent(qwen.requests[-1])


def test_qwen_code_resumes_a_session_of_another_agent(tmp_path: Path) -> None:
    with running(tmp_path) as qwen:
        _resume_converted(qwen, tmp_path)


def _resume_converted(qwen: QwenCode, folder: Path) -> None:
    about = {"cwd": str(qwen.project)}
    source = written(
        folder / "source.jsonl",
        [
            user("u1", None, **about),
            assistant("a1", "u1", calls=["c1", "c2"], **about),
            result("r1", "a1", "c1", **about),
            result("r2", "r1", "c2", **about),
            assistant("a2", "r2", **about),
            user("u2", "a2", **about),
            assistant("a3", "u2", **about),
            user("u3", "a2", **about),
            assistant("a4", "u3", **about),
        ],
    )
    agent = named("qwen")
    assert agent is not None
    home = str(qwen.home / "projects")
    place = agent.destination(home, str(qwen.project), "", {}, AgentFiles(DISK))
    made = Path(place.folder, f"{SESSION}.jsonl")
    made.parent.mkdir(parents=True)
    with Session.open(source, readonly=True) as session:
        session.convert("qwen", made)
    before = context_of(made)
    assert [role for role, _ in before] == ["user", "assistant", "tool", "tool", *AFTER]
    qwen.run("--resume", SESSION, "-p", "And now?")
    assert sent(qwen.requests[-1]) == [*before, ("user", ["And now?"])]
    assert context_of(made) == [*before, ("user", ["And now?"]), ("assistant", ["All done."])]
