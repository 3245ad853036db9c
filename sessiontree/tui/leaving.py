"""Ways out of the browser: a resume in an agent, and the web view.

A resume ends the browser; its caller runs the agent. The web view is a process of its own,
`sessiontree view`, which reads only and runs as long as the browser, so that nothing waits for it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from typing import Final, NamedTuple
from urllib.parse import quote

from sessiontree.agents import NAMES, command_of
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import facts_of
from sessiontree.library.root import environment
from sessiontree.storage.place import whole_path
from sessiontree.tui.frame import opened_in_browser
from sessiontree.tui.lines import Ask
from sessiontree.tui.view import View


class Resume(NamedTuple):
    """A session to resume in an agent when the browser has ended."""

    file: str
    agent: str
    runs: bool
    """Whether to run the command, and not only to print it."""


def ask_to_resume(view: View, file: str, *, runs: bool) -> None:
    """Ask in which agent to go on, its own first; then end the browser."""

    def answered(agent: str | None) -> None:
        if not agent:
            return
        if agent not in NAMES:
            view.tell(f"there is no agent {agent}; the agents are {', '.join(NAMES)}", "failure")
            return
        program = command_of(agent)
        if runs and shutil.which(program) is None:
            view.tell(
                f"{program!r} is not on the PATH; install it, and press the key again", "failure"
            )
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


_INSTALL: Final = "pip install '.[web]'"
_NEEDED: Final = ("starlette", "uvicorn")


class ViewServers:
    """The servers that were started, by the files that they show."""

    def __init__(self) -> None:
        self._servers: dict[str, tuple[subprocess.Popen[str], str]] = {}

    def open(self, file: str, uuid: str) -> str:
        """Open a session at an entry; returns what to tell.

        Raises:
            SessionTreeError: the packages of the view are not installed, or it does not start.
        """
        if any(find_spec(name) is None for name in _NEEDED):
            raise SessionTreeError(
                "the view needs the packages starlette and uvicorn; in the checkout of "
                f"sessiontree, run: {_INSTALL}"
            )
        address = f"{self._address(file)}#{quote(uuid, safe='')}"
        return f"opened {address}" if opened_in_browser(address) else f"open {address}"

    def _address(self, file: str) -> str:
        started, address = self._servers.get(file, (None, ""))
        if started is not None:
            if started.poll() is None:
                return address
            started.communicate()  # it ended by itself; close its pipe
        server = subprocess.Popen(
            [sys.executable, "-m", "sessiontree", "view", "--no-browser", file],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            text=True,
        )
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        if not address:
            server.kill()
            server.communicate()
            raise SessionTreeError("the view does not start; 'sessiontree view' tells why")
        self._servers[file] = server, address
        return address

    def close(self) -> None:
        """End the servers."""
        for server, _ in self._servers.values():
            server.terminate()
        for server, _ in self._servers.values():
            server.communicate()
        self._servers.clear()
