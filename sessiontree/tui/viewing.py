"""Opens a session in the browser: a server runs as long as this program, and reads only.

The server is a process of its own, `sessiontree view`, so that nothing here waits for it.
"""

from __future__ import annotations

import subprocess
import sys
import webbrowser
from importlib.util import find_spec
from typing import Final
from urllib.parse import quote

from sessiontree.errors import SessionTreeError
from sessiontree.library.root import environment

_INSTALL: Final = "pip install '.[web]'"
_NEEDED: Final = ("starlette", "uvicorn")


class Viewing:
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
        return f"opened {address}" if _shown(address) else f"open {address}"

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


def _shown(address: str) -> bool:
    """Show an address in a browser with windows, if there is one."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    if type(browser) is webbrowser.GenericBrowser:  # it would take over the terminal
        return False
    return browser.open(address)
