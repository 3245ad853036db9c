"""What is found out about a session of Claude Code on the way through its lines."""

from __future__ import annotations

import re
from typing import Final

from sessiontree.core.message import slash_command
from sessiontree.formats.base import Facts
from sessiontree.formats.values import Values, prompt_text

TITLES: Final = ("customTitle", "aiTitle", "summary")
"""Keys of a line by which a session is named, the first of them before the others."""

_NO_PROMPT: Final = re.compile(
    r"<(local-command|command-|session-start-hook|tick|goal|ide_|bash-)"
    r"|\[Request interrupted|Caveat:"
)


def is_of_program(text: str) -> bool:
    """Whether a user's message is one that Claude Code wrote in their name."""
    return _NO_PROMPT.match(text) is not None


class Found:
    """The facts of a session, as they turn up."""

    def __init__(self) -> None:
        self._id: str | None = None
        self._cwd: str | None = None
        self._created: str | None = None
        self._prompt: str | None = None
        self._command: str | None = None
        self._titles: dict[str, str] = {}
        self.version: str | None = None
        self.branch: str | None = None
        self.model: str | None = None

    @property
    def has_prompt(self) -> bool:
        """Whether the first prompt is known."""
        return self._prompt is not None

    def note(self, line: Values) -> None:
        """Take from a line what is not known yet."""
        self._id = self._id or line.text("sessionId")
        self._cwd = self._cwd or line.text("cwd")
        self._created = self._created or line.text("timestamp")
        self.version = self.version or line.text("version")
        self.branch = self.branch or line.text("gitBranch")
        self.note_title(line)
        if self._prompt is None and line.text("type") == "user":
            self._note_prompt(line)

    @property
    def is_complete(self) -> bool:
        """Whether all is known but for titles, of which a later one counts."""
        return None not in (self._id, self._cwd, self._created, self._prompt)

    def note_title(self, line: Values) -> None:
        """Take a title from a side line; a later one counts."""
        for key in TITLES:
            title = line.text(key)
            if title:
                self._titles[key] = title

    def _note_prompt(self, line: Values) -> None:
        hidden = ("isMeta", "isCompactSummary", "isSidechain", "teamName")
        message = line.value("message")
        if any(line.value(key) for key in hidden) or not isinstance(message, dict):
            return
        text = prompt_text(message)
        if text is None:
            return
        if not is_of_program(text):
            self._prompt = text
        elif self._command is None:
            self._command = slash_command(text)

    def facts(self) -> Facts:
        names = (self._titles.get(key) for key in TITLES)
        return Facts(
            self._id,
            self._cwd,
            next((name for name in names if name), None),
            self._prompt or self._command,
            self._created,
        )
