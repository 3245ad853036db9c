"""How well redaction tells secrets from ordinary text, and what its rules cost.

    python -m benchmarks.redaction

`fixtures/credentials/README.md` describes the texts. Their fields are filled at run time from a
fixed seed, so that no file holds anything like a key.
"""

from __future__ import annotations

import base64
import random
import re
import string
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rule import lowered
from sessiontree.redact.rules import RULES

FOLDER: Final = Path(__file__).parent.parent / "fixtures" / "credentials"
SEED: Final = 20261122
_REPEATS: Final = 3  # of each line, with other values
SECRETS: Final = ("positive.txt", "held-out.txt", "context.txt", "context-held-out.txt")
"""The files of texts with secrets."""

ORDINARY: Final = {
    "ordinary.txt": 1,
    "ordinary-made.txt": 5,
    "ordinary-context.txt": 3,
    "ordinary-held-out.txt": 3,
}
"""The files of texts without secrets, and how many texts a line with fields gives."""

_ALPHABETS: Final = {
    "A": string.ascii_letters + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "L": string.ascii_lowercase,
    "U": string.ascii_uppercase + "234567",
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "W": string.ascii_letters + string.digits + "_-",
    "B": string.ascii_letters + string.digits + "+/",
    "S": string.ascii_letters + string.digits + "!#*?@^",
}
_WORDS: Final = (
    *("swordfish", "hunter", "opensesame", "letmeinnow", "correcthorse", "trustno", "BlueMonday"),
    *("sunflowers", "wintermute", "abracadabra", "rosebudding", "Mississippi", "qwertzuiop"),
)
_CARRIERS: Final = (
    *("{}", "use {} for this", "value is '{}'.", '{{"text": "{}"}}', "x={}&y=1", "- `{}`"),
    *("line\\none {}\nline two", "\x1b[32m{}\x1b[0m", "curl https://api.example/v1/{}", "({})"),
)
_FIELD: Final = re.compile("‹([^›]+)›")
_SECRET: Final = re.compile("⟦(.*?)⟧", re.DOTALL)


class Example(NamedTuple):
    """A text with a secret."""

    rule: str
    text: str
    secret: str


class Score(NamedTuple):
    """How many secrets are masked, and which are not."""

    masked: int
    missed: list[Example]

    @property
    def recall(self) -> float:
        return self.masked / (self.masked + len(self.missed))


def filled(text: str, chance: random.Random) -> str:
    """A text with its fields filled."""
    return (
        _FIELD.sub(lambda field: _value(field[1], chance), text)
        .replace("\\n", "\n")
        .replace("\\t", "\t")
    )


def _value(field: str, chance: random.Random) -> str:
    if field == "uuid":
        return str(uuid.UUID(int=chance.getrandbits(128), version=4))
    if field == "word":
        return chance.choice(_WORDS)
    if field == "pass":
        return f"{chance.choice(_WORDS)[:6]}{chance.randrange(10, 9999)}{chance.choice('!x%k')}z"
    if field == "basic":
        word = f"joe:{chance.choice(_WORDS)}{chance.randrange(1000)}"
        return base64.b64encode(word.encode()).decode()
    return "".join(chance.choices(_ALPHABETS[field[0]], k=int(field[1:])))


def _lines(name: str) -> Iterator[str]:
    for line in (FOLDER / name).read_text("utf-8").split("\n"):
        if line and not line.startswith("# "):
            yield line


def examples(name: str) -> list[Example]:
    """The texts with secrets of a file; a bare secret is put into some of the carriers."""
    chance = random.Random(SEED)
    made = []
    for line in _lines(name):
        rule, _, text = line.partition(" | ")
        is_bare = text.startswith("⟦") and text.endswith("⟧")
        for carrier in chance.sample(_CARRIERS, _REPEATS) if is_bare else ["{}"] * _REPEATS:
            marked = filled(text, chance)
            found = _SECRET.search(marked)
            assert found is not None, line
            plain = marked.replace("⟦", "").replace("⟧", "")
            made.append(Example(rule, carrier.format(plain), found[1]))
    return made


def ordinary(*names: str) -> list[str]:
    """The texts without secrets of some files, by default of all."""
    chance = random.Random(SEED)
    return [
        filled(line, chance)
        for name in names or ORDINARY
        for line in _lines(name)
        for _ in range(ORDINARY[name] if _FIELD.search(line) else 1)
    ]


def score(given: list[Example]) -> Score:
    """How many of the secrets are masked, each text by a redaction of its own."""
    missed = [each for each in given if not _is_masked(each)]
    return Score(len(given) - len(missed), missed)


def _is_masked(example: Example) -> bool:
    return not is_left(example.secret, Redaction().text(example.text))


def is_left(secret: str, text: str) -> bool:
    """True if a text still tells a secret."""
    return any(part in text for part in _telling(secret))


def _telling(secret: str) -> Iterator[str]:
    """What must not be left of a secret: its second half, and each of its lines."""
    yield secret[len(secret) // 2 :]
    yield from (line for line in secret.split("\n") if len(line) > 3)


def marked(texts: list[str]) -> list[tuple[str, str]]:
    """The texts in which something is masked, and the text that comes out."""
    made = ((text, Redaction().text(text)) for text in texts)
    return [(text, masked) for text, masked in made if masked != text]


def costs(size: int = 1_000_000) -> dict[str, float]:
    """Nanoseconds of the processor that each rule takes for a character of ordinary text."""
    text = "\n".join(ordinary("ordinary.txt", "ordinary-made.txt"))
    text = (text * (size // len(text) + 1))[:size]
    low = lowered(text)
    spent: dict[str, float] = {}
    for rule in RULES:
        started = time.process_time()
        for _ in rule.spans(text, low):
            pass
        spent[rule.name] = spent.get(rule.name, 0.0) + time.process_time() - started
    return {name: seconds / size * 1e9 for name, seconds in spent.items()}


def cost_of_all(size: int = 1_000_000) -> float:
    """Nanoseconds of the processor that redaction takes for a character of ordinary text."""
    text = "\n".join(ordinary("ordinary.txt", "ordinary-made.txt"))
    text = (text * (size // len(text) + 1))[:size]
    started = time.process_time()
    Redaction().text(text)
    return (time.process_time() - started) / size * 1e9


def main() -> None:
    scores = {name: score(examples(name)) for name in SECRETS}
    for name, each in scores.items():
        print(f"recall       {each.recall:7.1%}  {each.masked} secrets masked of {name}")
    alarms = {name: (len(texts := ordinary(name)), marked(texts)) for name in ORDINARY}
    for name, (count, wrong) in alarms.items():
        print(f"false alarms {len(wrong) / count:7.1%}  {len(wrong)} of {count} texts of {name}")
    name, cost = max(costs().items(), key=lambda each: each[1])
    print(f"slowest rule {name}: {cost:.0f} ns a character")
    print(f"all rules    {cost_of_all():.0f} ns a character")
    for each in scores.values():
        for missed in each.missed:
            print(f"missed       {missed.rule}: {missed.text!r:.150}")
    for _, wrong in alarms.values():
        for text, shown in wrong:
            print(f"false alarm  {text!r:.150} -> {shown!r:.150}")


if __name__ == "__main__":
    main()
