"""Lines that know who wrote them, and the generator of their texts.

Invariant: a text that is not marked as common is in one line of a play only, so its writer is
known from it. Common lines (`else:`) are in many.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

_VERBS: Final = re.findall(
    r"\w+",
    "load save read write parse open close send fetch merge split build check count find keep "
    "move name order pack query reset scan test trim unlock verify watch wrap yield zip",
)
_NOUNS: Final = re.findall(
    r"\w+",
    "user order cart item price stock route token cookie page menu label badge panel table row "
    "cell chart graph node edge leaf queue task timer clock cache disk file folder path link image "
    "frame sound video map zone city street house door window key lock note letter word sentence",
)
_KINDS: Final = ("soon", "late", "fast", "slow", "wide", "deep", "main", "side", "cold", "warm")
_NAME: Final = re.compile(r"\b[a-z]+_[a-z]+(?:_[a-z0-9]+)?\b")
_PLAIN: Final = {
    "py": ("{i}{n} = {m}({k})", "{i}if {n} > {k}:", "{i}# The {n} of {m} is {k}.",
           "{i}return {n}({m})", "{i}{n}.append({m})"),
    "js": ("{i}const {n} = {m}({k});", "{i}if ({n} > {k}) {{", "{i}// The {n} of {m} is {k}.",
           "{i}return {n}({m});", "{i}{n}.push({m});"),
    "md": ("The `{n}` takes {k} seconds for each `{m}`.", "- Set `{n}` to {k} before `{m}`.",
           "Call `{n}` to see `{m}`.", "- `{n}` is {k} by default.", "### How `{n}` works"),
}  # fmt: skip
_TIGHT: Final = {
    "py": (("{i}{n}={m}+{k}", "{i}{n} = {m} + {k}"),
           ("{i}log.info('{n} has {m}')", '{i}log.info("{n} has {m}")')),
    "js": (("{i}let {n}={m}*{k};", "{i}let {n} = {m} * {k};"),
           ("{i}console.log('{n}', {m});", '{i}console.log("{n}", {m});')),
}  # fmt: skip
_COMMON: Final = {
    "py": ("else:", "try:", "return None", "continue", "except ValueError:"),
    "js": ("} else {", "return null;", "break;", "try {"),
    "md": ("For example:", "See below."),
}


@dataclass(frozen=True, slots=True, eq=False)
class Writer:
    """The call of an agent that wrote a line; `how` says by what kind of edit."""

    agent: str
    session: str
    call: str
    prompts: tuple[str, ...]
    how: str


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Lines that a formatter joins to one text."""

    text: str
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of a file and its true writer; None is the person. Equal only to itself.

    Attributes:
        tidy: the lines that a formatter makes of it; empty if it leaves the line alone.
        group: the lines that a formatter joins with this one.
        is_common: whether other lines have the same text.
        fate: what happened to it later.
    """

    text: str
    writer: Writer | None = None
    eol: str = "\n"
    tidy: tuple[str, ...] = ()
    group: Group | None = None
    is_common: bool = False
    fate: str = ""

    @property
    def counts(self) -> bool:
        """Whether it has a letter or a digit."""
        return any(character.isalnum() for character in self.text)


Lines = list[Line]


def text_of(lines: Iterable[Line]) -> str:
    """The text with LF at the end of each line, as agents see it."""
    return "".join(f"{line.text}\n" for line in lines)


def bytes_of(lines: Iterable[Line]) -> bytes:
    """The content of the file."""
    return "".join(f"{line.text}{line.eol}" for line in lines).encode()


def with_eol(lines: Iterable[Line], eol: str) -> Lines:
    """The same lines with another end; a line that has it already stays the same object."""
    return [line if line.eol == eol else replace(line, eol=eol) for line in lines]


def names_in(lines: Iterable[Line]) -> list[str]:
    return [name for line in lines for name in _NAME.findall(line.text)]


class Wording:
    """Texts of lines from a random generator; each has a name that no other has."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def name(self) -> str:
        """A name that was not used before."""
        while True:
            name = f"{self._rng.choice(_VERBS)}_{self._rng.choice(_NOUNS)}"
            if name in self._used:
                name += f"_{self._rng.choice(_KINDS)}"
            if name in self._used:
                name += f"{self._rng.randrange(1000)}"
            if name not in self._used:
                self._used.add(name)
                return name

    def prompt(self) -> str:
        what = self._rng.choice(("Add", "Change", "Clean up", "Explain and improve", "Speed up"))
        return f"{what} the {self.name().replace('_', ' ')} part, number {self.number()}."

    def number(self) -> int:
        return self._rng.randrange(2, 990)

    def block(self, kind: str, writer: Writer | None, known: Sequence[str]) -> Lines:
        """A new function, or a new section."""
        size = self._rng.randrange(2, 7)
        name = self.name()
        if kind == "md":
            head = [Line("", writer), Line(f"## About {name.replace('_', ' ')}", writer),
                    Line("", writer)]  # fmt: skip
            return head + self.lines(kind, size, writer, known, "")
        start = f"def {name}({self.name()}):" if kind == "py" else f"function {name}({{}}) {{"
        indent = "    " if kind == "py" else "  "
        body = self.lines(kind, size, writer, [*known, name], indent)
        end = [Line("}", writer)] if kind == "js" else []
        return [Line("", writer), Line(start, writer), *body, *end]

    def lines(
        self, kind: str, count: int, writer: Writer | None, known: Sequence[str], indent: str
    ) -> Lines:
        made: Lines = []
        while len(made) < count:
            made += self._some(kind, writer, known, indent)
        return made

    def _some(self, kind: str, writer: Writer | None, known: Sequence[str], indent: str) -> Lines:
        chance = self._rng.random()
        if chance < 0.07:
            return [Line(indent + self._rng.choice(_COMMON[kind]), writer, is_common=True)]
        if kind == "md" or chance < 0.6:
            return [Line(self._filled(self._rng.choice(_PLAIN[kind]), known, indent), writer)]
        if chance < 0.85:
            loose, tidy = self._rng.choice(_TIGHT[kind])
            parts = self._parts(known, indent)
            return [Line(loose.format(**parts), writer, tidy=(tidy.format(**parts),))]
        return self._call(kind, writer, indent)

    def _call(self, kind: str, writer: Writer | None, indent: str) -> Lines:
        """A call with many arguments, in one line or in one line for each."""
        given = [f"{self.name()}={self.number()}" for _ in range(2)] if kind == "py" else []
        given = [self.name(), self.name(), *given]
        start = f"{indent}{self.name()}("
        end = ")" if kind == "py" else ");"
        whole = f"{start}{', '.join(given)}{end}"
        apart = [start, *(f"{indent}    {each}," for each in given), f"{indent}{end}"]
        if self._rng.random() < 0.6:
            return [Line(whole, writer, tidy=tuple(apart))]
        group = Group(whole, len(apart))
        return [Line(text, writer, group=group) for text in apart]

    def _filled(self, shape: str, known: Sequence[str], indent: str) -> str:
        return shape.format(**self._parts(known, indent))

    def _parts(self, known: Sequence[str], indent: str) -> dict[str, str]:
        other = self._rng.choice(known) if known and self._rng.random() < 0.3 else self.name()
        return {"i": indent, "n": self.name(), "m": other, "k": str(self.number())}

    def changed(self, line: Line, writer: Writer | None) -> Line:
        """A line with one name changed, which makes it the writer's."""
        names = _NAME.findall(line.text)
        if not names:
            indent = line.text[: len(line.text) - len(line.text.lstrip())]
            return Line(f"{indent}{self.name()}", writer, line.eol)
        old, new = self._rng.choice(names), self.name()
        return renamed(line, old, new, writer)


def renamed(line: Line, old: str, new: str, writer: Writer | None) -> Line:
    """A line with a name replaced, which makes it the writer's."""
    pattern = re.compile(rf"\b{old}\b")
    tidy = tuple(pattern.sub(new, text) for text in line.tidy)
    return Line(pattern.sub(new, line.text), writer, line.eol, tidy)


def tidied(lines: Lines, *, is_join: bool) -> Lines:
    """The lines after a formatter: operators, quotes and long calls, or calls joined."""
    made: Lines = []
    at = 0
    while at < len(lines):
        line = lines[at]
        group = line.group
        if is_join and group is not None and _is_whole(lines[at : at + group.size], group):
            joined = replace(line, text=group.text, group=None, fate=line.fate + " joined")
            made.append(joined)
            at += group.size
            continue
        if not is_join and line.tidy:
            fate = line.fate + (" split" if len(line.tidy) > 1 else " tidied")
            made += [replace(line, text=text, tidy=(), fate=fate) for text in line.tidy]
        else:
            made.append(line)
        at += 1
    return made


def _is_whole(lines: Lines, group: Group) -> bool:
    return len(lines) == group.size and all(line.group is group for line in lines)


def reindented(lines: Lines, old: int, new: int) -> Lines:
    """The lines with each step of the indent as wide as given."""
    made = []
    for line in lines:
        width = len(line.text) - len(line.text.lstrip(" "))
        text = " " * (width // old * new + width % old) + line.text.lstrip(" ")
        is_same = text == line.text
        made.append(
            line
            if is_same
            else replace(line, text=text, tidy=(), group=None, fate=line.fate + " reindented")
        )
    return made
