"""The SDKs that adapters are made for, and which of their versions are known to work."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Final, NamedTuple

from sessiontree.errors import UsageError


class UnknownSdkError(UsageError, ImportError):
    """An SDK is not installed, or has a version that its adapter does not know."""


class Sdk(NamedTuple):
    """An SDK.

    Attributes:
        package: the name of its distribution.
        extra: the extra of sessiontree that installs it.
        oldest: the major and the minor number of the oldest version that is known to work.
        before: the major number from which on no version is known.
    """

    package: str
    extra: str
    oldest: tuple[int, int]
    before: int

    def check(self) -> None:
        """Check the version that is installed.

        Raises:
            UnknownSdkError: none is, or one that is not known to work.
        """
        if not self._is_known(self._version() or ""):
            raise self.unknown()

    def _is_known(self, version: str) -> bool:
        numbers = tuple(map(int, re.findall(r"\d+", version)))
        return self.oldest <= numbers < (self.before,)

    def unknown(self, cause: ImportError | None = None) -> UnknownSdkError:
        """The error for the version that is installed, or for none; `cause` is what failed."""
        version = self._version()
        install = f"run: pip install 'sessiontree[{self.extra}]'"
        if version is None:
            return UnknownSdkError(f"{self.package} is not installed; {install}")
        if cause is not None and self._is_known(version):
            return UnknownSdkError(
                f"{self.package} {version} is installed, but not whole: {cause}; {install}"
            )
        first, last = ".".join(map(str, self.oldest)), self.before - 1
        return UnknownSdkError(
            f"{self.package} {version} is not known to work with sessiontree, versions {first} to "
            f"{last}.x are; {install}"
        )

    def _version(self) -> str | None:
        try:
            return metadata.version(self.package)
        except metadata.PackageNotFoundError:
            return None


PYDANTIC_AI: Final = Sdk("pydantic-ai-slim", "pydantic-ai", oldest=(2, 68), before=3)
OPENAI_AGENTS: Final = Sdk("openai-agents", "openai-agents", oldest=(0, 24), before=1)
CLAUDE_AGENT_SDK: Final = Sdk("claude-agent-sdk", "claude-agent-sdk", oldest=(0, 2), before=1)
LANGGRAPH: Final = Sdk("langgraph-checkpoint", "langgraph", oldest=(4, 3), before=5)
GOOGLE_ADK: Final = Sdk("google-adk", "google-adk", oldest=(2, 13), before=3)
