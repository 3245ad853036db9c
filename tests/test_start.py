"""A short command imports what it needs: the start of a process is most of its time.

The budget is counted in modules, not in seconds, so that it holds on any machine. A module that
exceeds it is imported inside the function that needs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from sessiontree import Session
from tests.support.table import for_each

RUN: Final = """
import sys
from sessiontree.__main__ import run
sys.argv = ["sessiontree", *sys.argv[1:]]
try:
    run()
except SystemExit as ended:
    assert not ended.code
print("\\n" + " ".join(sys.modules), file=sys.stderr)
"""

SLOW: Final = {
    *("anyio", "asyncio", "concurrent", "jinja2", "jsonschema", "markdown_it", "mcp", "obstore"),
    *("psycopg", "pygments", "starlette", "textual", "uvicorn", "watchfiles"),
}
"""Packages that none of these commands needs."""

BUDGETS: Final = {
    ("--help",): 8,
    ("append", "s.jsonl", "--text", "x"): 88,
    ("show", "s.jsonl"): 98,
    ("context", "s.jsonl"): 93,
    ("label", "s.jsonl", "@", "start"): 89,
    ("tree", "s.jsonl"): 103,
    ("search", "hello", "s.jsonl"): 118,
    ("ls", "."): 120,
    ("stats", "s.jsonl"): 128,
    ("browse", "--help"): 140,
    ("view", "--help"): 140,
    ("mcp", "--help"): 140,
}
"""The most modules of this package that a command may import."""


@for_each("words", BUDGETS)
def test_a_short_command_imports_few_modules(words: tuple[str, ...], tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", cwd="/project") as session:
        session.append_message({"role": "user", "content": "hello"})
    ended = subprocess.run(
        [sys.executable, "-c", RUN, *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    modules = ended.stderr.splitlines()[-1].split()
    assert {module.partition(".")[0] for module in modules} & SLOW == set()
    own = [module for module in modules if module.partition(".")[0] == "sessiontree"]
    assert len(own) <= BUDGETS[words], own
