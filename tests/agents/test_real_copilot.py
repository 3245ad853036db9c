"""What the real Copilot CLI sends for a session is what sessiontree reads of it.

Set `COPILOT` to the program `copilot` of the npm package `@github/copilot-linux-x64`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session
from tests.agents.copilot_driver import PROGRAM, running
from tests.agents.copilot_samples import said_to
from tests.agents.qwen_driver import call, text
from tests.agents.qwen_samples import read


@pytest.mark.skipif(
    not PROGRAM, reason="Copilot CLI is not installed: set COPILOT to the path of its program"
)
def test_a_session_is_read_as_copilot_cli_sends_it(tmp_path: Path) -> None:
    with running(tmp_path) as copilot:
        notes = copilot.project / "notes.md"
        notes.write_text("# Notes\n")
        calls = [call("view", path="/none"), call("view", path=str(notes))]
        edit = call("edit", path=str(notes), old_str="Notes", new_str="News")
        copilot.run("-p", "Fix the notes", answers=[[text("I read."), *calls], [edit]])
        copilot.run("--continue", "-p", "And now?")
        (file,) = copilot.sessions()
        with Session.open(file, readonly=True) as session:
            assert (session.verify(), session.notes) == ([], [])
            messages = session.context().messages
    *here, _answer = read(message for message in messages if message["role"] != "system")
    assert here == said_to(copilot.requests[-1])
