"""What is known of an agent stands in its folder: no other module has its name in a string."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import sessiontree
from sessiontree.agents import AGENTS

PACKAGE: Final = Path(sessiontree.__file__).parent

NAMES: Final = frozenset(
    name
    for agent in AGENTS
    for name in (
        *(agent.name, agent.program, agent.command, agent.home.variable, agent.mcp.variable),
        *(agent.home.default, agent.home.own_variable, agent.mcp.file),
    )
    if name and not name.startswith("XDG_")  # of the system
)

ELSEWHERE: Final = {
    ("recording/recorder.py", "claude-code"): "the program of a stream, by its first event",
    ("recording/recorder.py", "codex"): "the program of a stream, by its first event",
    ("context/providers/reading.py", "claude"): "a family of models",
    ("core/usage.py", "claude"): "a family of models",
    ("cli/__init__.py", "continue"): "a command that users look for",
    ("edits/shell.py", "continue"): "a word of the shell",
    ("core/usage.py", "gemini"): "a family of models",
    **{("core/header.py", each.program): "the core refuses its file by name" for each in AGENTS},
}
"""The strings that are not a fact about an agent, or that a lower room needs, with the reason."""


def strings(path: Path) -> Iterator[str]:
    """The strings of a module without its docstrings."""
    tree = ast.parse(path.read_bytes())
    texts = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            yield node.value


def test_no_agent_is_named_outside_its_folder() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), text)
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] != "agents"
        for text in strings(path)
        if text in NAMES
    }
    assert found <= set(ELSEWHERE)
