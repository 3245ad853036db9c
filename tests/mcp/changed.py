"""What the configurations of agents are when the server is entered, entered anew, and taken out.

`python -m tests.mcp.changed` writes the expectations again. Spaces at the ends of lines, tabs and
CR are written as signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.mcp import json_text, toml_text

EXPECTED: Final = Path(__file__).parent / "changed.txt"
ENTRY: Final = {"command": "/bin/sé", "args": ["mcp", "--\x7f"]}
_OLD: Final = '{"command": "old", "trust": true}'

JSON: Final = (
    "",
    " \n",
    "{}",
    '{"a": {"b": 1}}',
    '{\n    "a": 1\n}\n',
    '{\n\t"a": 1,\n\t"b": {}\n}',
    '\ufeff{\r\n  "a": 1\r\n}\r\n',
    '{"mcpServers": {}}',
    '{\n  "mcpServers": {}\n}',
    '{\n  "mcpServers": {\n  }\n}',
    '{\n  "mcpServers": {\n    // none yet\n  }\n}',
    '{\n   "mcpServers": {\n      "x": {"a": 1}\n   },\n   "z": 1\n}',
    '{\n  "mcpServers": {\n    "x": {"a": 1}, // mine\n  },\n}',
    '{\n  "mcpServers": {"x": {}, "y": {}}\n}',
    f'{{\n  "mcpServers": {{\n    "sessiontree": {_OLD},\n    "x": {{}}\n  }}\n}}',
    f'{{\n  "mcpServers": {{\n    "x": {{}}, // about x\n    "sessiontree": {_OLD}\n  }}\n}}',
    f'{{"mcpServers": {{"x": {{}}, "sessiontree": {_OLD}, "y": {{}}}}}}',
    f'{{"mcpServers": {{"sessiontree": {_OLD},}}}}',
    '{"mcpServers": {"sessiontree": 5}}',
    '{"mcpServers": {"sessiontree": {}, "sessiontree": {}}}',
    '{"mcpServers": [1]}',
    '{\n  "a": 1,\n  "b" 2\n}',
    "[" * 100_000,
)
TOML: Final = (
    "",
    "\n",
    "a = 1",
    "a = 1\n\n",
    "a = 1\r\n[b]\r\nc = 2",
    "[mcp_servers.x]\na = 1\n\n# about y\n[mcp_servers.y]\nb = [\n  [1],\n]\n",
    "[mcp_servers.sessiontree]\n",
    "[mcp_servers.sessiontree]\ncommand = 'old'\ntimeout = 5 # mine\n\n[b]\nc = 2\n",
    "a = 1\n\n[mcp_servers.'sessiontree']\n'args' = [\n 'old',\n]\nenv = {A = 'b'}\n# the end\n",
    "[ mcp_servers . sessiontree ]\n[mcp_servers.sessiontree.env]\nA = 'b'\n[mcp_servers.x]\n",
    "text = '''\n[mcp_servers.sessiontree]\n'''\n[mcp_servers.sessiontree]\ncommand = 'old'\n",
    "[mcp_servers.sessiontree-two]\ncommand = 'other'\n",
    "[mcp_servers]\nsessiontree = {command = 'old'}\n",
    "mcp_servers.sessiontree.command = 'old'\n",
    "[mcp_servers]\nsessiontree = 5\n",
    "mcp_servers = 5\n",
    "a = \n",
)


def changed() -> str:
    """All texts, each with what becomes of it."""
    json_way = json_text.with_entry, json_text.without_entry, "mcpServers"
    toml_way = toml_text.with_table, toml_text.without_table, "mcp_servers"
    lines = [line for text in JSON for line in _of(text, *json_way)]
    return "\n".join([*lines, *(line for text in TOML for line in _of(text, *toml_way))]) + "\n"


def _of(
    text: str,
    put: Callable[[str, str, str, Mapping[str, Any]], str],
    take: Callable[[str, str, str], str],
    group: str,
) -> Iterator[str]:
    yield "=== given"
    yield _shown(text[:200])
    yield "--- entered"
    yield _tried(lambda: put(text, group, "sessiontree", ENTRY))
    yield "--- taken out"
    yield _tried(lambda: take(text, group, "sessiontree"))


def _tried(make: Callable[[], str]) -> str:
    try:
        return _shown(make())
    except UsageError as error:
        return f"refused: {error}"


def _shown(text: str) -> str:
    signs = text.replace("\t", "␉").replace("\r", "␍").replace("\ufeff", "␀").replace("\x7f", "␡")
    return "\n".join(
        line.removesuffix(" ") + "␠" * line.endswith(" ") for line in signs.split("\n")
    )


if __name__ == "__main__":
    EXPECTED.write_text(changed(), encoding="utf-8")
