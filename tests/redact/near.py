"""What is masked of texts that are nearly those of `fixtures/credentials`.

`near.txt` has a line for each example and each ordinary text, with a letter for each variation:
`-` for a text that stays, else a letter of the checksum of the masked text.
`python -m tests.redact.near` writes it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from string import ascii_letters
from typing import Final
from zlib import crc32

from benchmarks.redaction import examples, ordinary
from sessiontree import Redaction

EXPECTED: Final = Path(__file__).with_name("near.txt")

VARIATIONS: Final[tuple[Callable[[str, str], str], ...]] = (
    lambda text, secret: text,
    lambda text, secret: text.replace(secret, secret[:-1]),
    lambda text, secret: text.replace(secret, secret[: len(secret) // 2]),
    lambda text, secret: text.replace(secret, secret[: max(len(secret) // 4, 3)]),
    lambda text, secret: text.replace(secret, re.sub("[0-9]", "", secret)),
    lambda text, secret: text.replace(secret, re.sub("[A-Za-z]", "7", secret)),
    lambda text, secret: text.replace(secret, "changeme"),
    lambda text, secret: text.replace(secret, "os.environ"),
    lambda text, secret: text.replace(secret, f"{secret}()"),
    lambda text, secret: text.replace(secret, f"x{secret}"),
    lambda text, secret: text.replace(secret, f'"{secret}"'),
    lambda text, secret: text.replace(" ", "\n"),
    lambda text, secret: text.replace("\n", " "),
    lambda text, secret: text.replace("=", ": "),
    lambda text, secret: text.replace(": ", "="),
    lambda text, secret: text.lower(),
    lambda text, secret: text.upper(),
    lambda text, secret: f"see {text}, and on",
    lambda text, secret: f"  {text}\n",
    lambda text, secret: text.replace(secret, "w" * len(secret)),
)


def near(every: int = 1) -> Iterator[str]:
    """The lines of `near.txt`, or some of them."""
    return (line() for line in islice(_lines(), None, None, every))


def _lines() -> Iterator[Callable[[], str]]:
    for name in ("positive.txt", "held-out.txt", "context.txt"):
        for number, example in enumerate(examples(name)[::3]):
            yield partial(_line, f"{name} {number} {example.rule}", example.text, example.secret)
    for number, text in enumerate(
        ordinary("ordinary.txt", "ordinary-made.txt", "ordinary-context.txt")
    ):
        words = re.findall(r"[^\s\"'=:,;()]{6,}", text)
        yield partial(_line, f"ordinary {number}", text, max(words, key=len, default=text))


def _line(start: str, text: str, secret: str) -> str:
    return f"{start} {_masked(text, secret)}"


def _masked(text: str, secret: str) -> str:
    """A letter for each variation of a text."""
    return "".join(_letter(vary(text, secret)) for vary in VARIATIONS)


def _letter(text: str) -> str:
    masked = Redaction().text(text)
    return "-" if masked == text else ascii_letters[crc32(masked.encode()) % len(ascii_letters)]


def main() -> None:
    EXPECTED.write_text("".join(f"{line}\n" for line in near()), encoding="utf-8")


if __name__ == "__main__":
    main()
