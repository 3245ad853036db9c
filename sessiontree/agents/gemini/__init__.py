"""Gemini CLI: chats `~/.gemini/tmp/<project>/chats/session-<time>-<id>.json` or `.jsonl`.

Gemini CLI gives each working directory a short name, which it keeps in `projects.json` and in a
file `.project_root` in the folder. A folder with such a file is enough for it, so `projects.json`
is never changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import orjson

from sessiontree.agents import agent
from sessiontree.core.header import is_file_name

if TYPE_CHECKING:
    from sessiontree.agents.base import Reader
    from sessiontree.agents.gemini.writer import GeminiWriter

_LARGEST: Final = 1024 * 1024
_ROOT: Final = ".project_root"


class Gemini(agent.Agent):
    name = "gemini"
    program = "Gemini CLI"
    command = "gemini"
    home = agent.AgentHome("GEMINI_CLI_HOME", "", (".gemini/tmp",))
    mcp = agent.McpEntry("GEMINI_CLI_HOME", "", ".gemini/settings.json", "mcpServers")
    is_in_files = True

    @property
    def reader(self) -> Reader:
        from sessiontree.agents.gemini.reader import GeminiReader

        return GeminiReader(self.name)

    def writer(self, source: Any) -> GeminiWriter:
        from sessiontree.agents.gemini.writer import GeminiWriter

        return GeminiWriter(source)

    def id_in_name(self, stem: str, given: str) -> str | None:
        """The name, which has the start of the id, counts for a log whose header is lost."""
        from sessiontree.agents.gemini.names import id_in

        return None if given else id_in(stem)

    def resume(self, id: str, file: str) -> list[str]:
        return ["--resume", id]

    def destination(
        self, home: str, cwd: str, name: str, environ: Mapping[str, str], files: agent.Files
    ) -> agent.Destination:
        projects = _Projects(home, files)
        folder = projects.folder_of(cwd)
        chats = os.path.join(folder, "chats")
        if folder == projects.hashed(cwd) or projects.owner(folder) is not None:
            return agent.Destination(chats)
        return agent.Destination(chats, (os.path.join(folder, _ROOT), cwd.encode()))


class _Projects:
    """The folders of projects in the folder `tmp` of Gemini CLI."""

    def __init__(self, home: str, files: agent.Files) -> None:
        self._home = home
        self._runtime = os.path.dirname(home)
        self._files = files

    def folder_of(self, cwd: str) -> str:
        """The folder of a working directory; a new project gets a free name."""
        names = self._registered()
        name = names.get(cwd)
        if name is None or not self._may_own(name, cwd):
            name = self._claimed(cwd)
        if name is None:
            hashed = self.hashed(cwd)
            if self._files.is_folder(hashed):  # Gemini CLI moves it to a short name
                return hashed
            name = self._free(cwd, set(names.values()))
        return os.path.join(self._home, name)

    def hashed(self, cwd: str) -> str:
        """The folder that older versions gave a working directory."""
        import hashlib  # slow to load, and only for this

        return os.path.join(self._home, hashlib.sha256(cwd.encode()).hexdigest())

    def owner(self, folder: str) -> str | None:
        """The directory whose project has a folder, or None."""
        content = self._files.content(os.path.join(folder, _ROOT), _LARGEST)
        return content.decode("utf-8", "replace").strip() if content is not None else None

    def _registered(self) -> dict[str, str]:
        content = self._files.content(os.path.join(self._runtime, "projects.json"), _LARGEST)
        with suppress(orjson.JSONDecodeError, AttributeError):
            projects = orjson.loads(content or b"{}").get("projects", {})
            return {path: name for path, name in projects.items() if is_file_name(name)}
        return {}

    def _may_own(self, name: str, cwd: str) -> bool:
        folders = (os.path.join(self._runtime, kind, name) for kind in ("tmp", "history"))
        return all(self.owner(folder) in (None, cwd) for folder in folders)

    def _claimed(self, cwd: str) -> str | None:
        """The short name whose folder says that it is the directory's, or None."""
        names = self._files.names(self._home)
        owned = (name for name in names if self.owner(os.path.join(self._home, name)) == cwd)
        return next(owned, None)

    def _free(self, cwd: str, used: set[str]) -> str:
        """A short name, made of the directory's name, that no other directory has."""
        bare = re.sub(r"[^a-z0-9]+", "-", os.path.basename(cwd).lower()).strip("-") or "project"
        name, number = bare, 0
        while name in used or not self._may_own(name, cwd):
            number += 1
            name = f"{bare}-{number}"
        return name
