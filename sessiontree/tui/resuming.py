"""Resume: the browser ends, and the agent goes on with the session."""

from __future__ import annotations

from typing import NamedTuple

from sessiontree.agents import NAMES
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import facts_of
from sessiontree.storage.place import whole_path
from sessiontree.tui.lines import Ask
from sessiontree.tui.view import View


class Resume(NamedTuple):
    """What to do when the browser has ended.

    Attributes:
        file: the session.
        agent: the agent that goes on with it.
        runs: whether to run the command, and not only to print it.
    """

    file: str
    agent: str
    runs: bool


def ask_to_resume(view: View, file: str, *, runs: bool) -> None:
    """Ask in which agent to go on, its own first; then end the browser."""

    def answered(agent: str | None) -> None:
        if not agent:
            return
        if agent not in NAMES:
            view.tell(f"there is no agent {agent}; the agents are {', '.join(NAMES)}", "failure")
            return
        view.app.exit(Resume(whole_path(file), agent, runs))

    verb = "Resume" if runs else "Print the command to resume"
    question = f"{verb} in ({', '.join(NAMES)})"
    view.app.push_screen(Ask(question, _own_agent(file)), answered)


def _own_agent(file: str) -> str:
    try:
        made_by = facts_of(file).made_by
    except (SessionTreeError, OSError):  # gone, or no session; resume says so
        return ""
    return made_by if made_by in NAMES else ""
