"""The screens of `ls`, `search` and `stats --by` over a user's sessions, at three sizes.

The user has the sessions of `fixtures/agents` and a few of the store. The escape that starts a
colour is written as `␛`. `python -m tests.cli.printing` writes the expectations again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from sessiontree.cli import stats
from sessiontree.cli.lists import rows, table
from sessiontree.cli.screen import Screen
from sessiontree.library.counts import BY, By, CountCache
from sessiontree.library.listing import by_time
from sessiontree.library.lookup import short_ids
from sessiontree.library.places import Selection, conversations_in
from sessiontree.library.search import SessionsOfHits, search
from sessiontree.library.search_file import SearchFilter
from sessiontree.library.spending import Spending, spending_of
from sessiontree.text.pattern import query
from sessiontree.views.costs import Prices

AGENTS: Final = Path(__file__).parents[2] / "fixtures" / "agents"
SIZES: Final = ((80, 24), (120, 40), (200, 50))
NOW: Final = datetime(2026, 11, 23, 12, tzinfo=UTC)
LAST_CHANGE: Final = datetime(2026, 11, 22, 20, 8, 30, tzinfo=UTC).timestamp()

ASKED: Final = (
    ("2026-11-23T11:57:00.000Z", "/home/user/work/shop", "Fix the parser of the file upload"),
    (
        "2026-11-23T09:20:00.000Z",
        "/home/user/work/shop",
        "Why does the test of the cart hang? " * 9,
    ),
    (
        "2026-11-20T08:00:00.000Z",
        "/home/user/文書/計画",
        "ファイルの一覧を並べて、古いものを消して",
    ),
    ("2026-10-01T08:00:00.000Z", "/home/user/a-project-with-a-long-name", "Write the README file"),
    ("2025-03-01T08:00:00.000Z", "/home/user", "List the files\nthat are larger than 1 MB"),
)
MODELS: Final = ("claude-opus-4-6-20260115", "gpt-5.1-codex", "", "gemini-2.5-pro", "glm-5")


def screens() -> Iterator[tuple[str, str]]:
    """The name and the content of each screen."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        make_home(home)
        problems: list[str] = []
        found = sorted(
            conversations_in([folder], Selection(), problems.append), key=by_time, reverse=True
        )
        counter = CountCache(None)
        counted = [counter.row(*each) for each in counter.counted(found, None)]
        files = [one.file for one in counted]
        ids = short_ids(one.id for one in counted)
        wanted = SearchFilter(conversation=True, facts=True)
        hits = list(search(query("file"), files, wanted, problems.append))
        sums = [*CountCache(None).counted(found, None)]
        spent = {by: spending_of(sums, by, PRICES, problems.append) for by in BY}
        assert not problems
        yield (
            "spending-no-terminal",
            "\n".join(stats.table(spent["model"], "model", None)) + "\n",
        )
        for width, height in SIZES:
            for colour in (False, True):
                screen = Screen(width, colour, NOW)
                lines = [
                    *table(counted, ids, screen),
                    "",
                    *(
                        row
                        for row, _ in rows(
                            hits,
                            SessionsOfHits({}),
                            screen,
                            lambda hit: "sessiontree search file ID",
                        )
                    ),
                ]
                text = "\n".join(lines[: 2 * height]).replace("\x1b", "␛")
                size = f"{width}x{height}{'-colour' if colour else ''}"
                yield f"screen-{size}", f"{text}\n"
                yield f"spending-{size}", _drawn(spent, screen)


def _price(usage: dict[str, int], model: str, **about: Any) -> Any:
    """Half a dollar for each token written, whatever the package says today; one has no price."""
    if model == "gpt-5":
        raise LookupError(model)
    price = SimpleNamespace(output=0.5)
    return SimpleNamespace(total_price=0.5 * usage.get("output_tokens", 0), model_price=price)


PRICES: Final = Prices(_price, dict, "test")


def _drawn(spent: dict[By, Spending], screen: Screen | None) -> str:
    tables = ("\n".join(stats.table(made, by, screen)) for by, made in spent.items())
    return "\n\n".join(tables).replace("\x1b", "␛") + "\n"


def make_home(home: Path) -> None:
    """Put the sessions of a user into a folder."""
    shutil.copytree(AGENTS, home / "agents")
    for number, (at, cwd, text) in enumerate(ASKED):
        _make_session(home / f"{number}.jsonl", number, at, cwd, text)
    for file in home.rglob("*.json*"):
        os.utime(file, (LAST_CHANGE, LAST_CHANGE))


def _make_session(file: Path, number: int, at: str, cwd: str, text: str) -> None:
    ids = [f"{number}{n}aaaaaa-0000-4000-8000-000000000000" for n in range(4)]
    header = {"type": "session", "version": 2, "format": "sessiontree/2", "id": ids[0], "cwd": cwd}
    call = {"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": f"file{number}.txt"}
    usage = {"input_tokens": 900, "output_tokens": 90, "cost": 0.4 * number**4}
    answer = {"role": "assistant", "model": MODELS[number], "usage": usage, "content": [call]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": text},
        answer,
        {"role": "user", "content": [result]},
    ]
    lines = [{**header, "uuid": ids[0], "parentUuid": None, "timestamp": at}]
    for n, message in enumerate(messages, 1):
        entry = {"type": "message", "uuid": ids[n], "parentUuid": ids[n - 1], "timestamp": at}
        lines.append({**entry, "message": message, **({"lane": "review"} if number == 3 else {})})
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
