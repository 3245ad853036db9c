"""What a page says of a few sessions: each row as a text, and what the script reads first.

The sessions are those of `tests.cli.printing`. `python -m tests.page.printed` writes all
expectations again; a change of what a page says then shows as a difference of these files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.cli.cases import CASES
from tests.cli.printing import copied, steady
from tests.page.reading import Page, page_of, plain
from tests.support.terminal import utc

EXPECTED: Final = Path(__file__).parent / "expected"
NAMES: Final = [name for name, case in CASES.items() if (case / "session.jsonl").exists()]

_SUMMARY: Final = "<body>", "<script"


def printed(name: str) -> str:
    """What the page of a case says, with times of UTC."""
    case = CASES[name]
    with utc(), copied(case) as here:
        said = "\n".join(_said(page_of(Path("session.jsonl"))))
    return steady(said.replace(here, "HERE"), case) + "\n"


def _said(page: Page) -> Iterator[str]:
    start, end = (page.text.index(mark) for mark in _SUMMARY)
    yield plain(page.text[start:end])
    for row, (kind, parts) in enumerate(zip(page.index["kinds"], page.rows, strict=True)):
        yield f"{row} {kind} {' ┃ '.join(map(plain, parts))}"
    for key, value in page.index.items():
        if key != "chunks":
            yield f"{key}: {json.dumps(value, ensure_ascii=False)}"


def main() -> None:
    EXPECTED.mkdir(exist_ok=True)
    for name in NAMES:
        (EXPECTED / f"{name}.txt").write_text(printed(name), encoding="utf-8")


if __name__ == "__main__":
    main()
