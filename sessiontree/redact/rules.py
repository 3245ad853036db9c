"""All rules in their order of precedence, as `rules.toml` has them, and a user's own rules."""

from __future__ import annotations

import re
import signal
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.redact import checks, tables
from sessiontree.redact.rule import ROWS, Rule, expression, secret_groups, secret_span


def _rule(row: dict[str, Any]) -> Rule:
    is_format = "format" in row
    pattern = expression(row["format" if is_format else "pattern"])
    hints = tuple(row.get("hints", ()))
    near = expression(row["near"]) if "near" in row else None
    within = row.get("within")
    if is_format:
        pattern = f"(?a){expression('<START>')}(?:{pattern})"
        hints = hints or (row["format"].partition("<")[0].lower(),)
        near = f"(?a){near or '|'.join(map(re.escape, hints))}"
        within = "[A-Za-z0-9+/_~.-]*+" if "reach" in row else None
    return Rule(
        row["name"],
        row["what"],
        pattern,
        hints,
        accepts=_function(row.get("accepts", "is_key" if is_format else None)),
        stand_in=row.get("stand_in"),
        near=near,
        reach=row.get("reach", 0),
        within=within,
        is_format=is_format or row.get("in_words", False),
        search=_function(row.get("search")),
    )


def _function(name: str | None) -> Any:
    if name is None:
        return None
    return next(getattr(room, name) for room in (checks, tables) if hasattr(room, name))


RULES: Final = tuple(map(_rule, ROWS))


def parse_rules(text: str, file: str) -> tuple[Rule, ...]:
    """Return a user's own rules, without the built-in ones.

    The text is TOML, one rule a line: `name = 'regular expression'`. What is not valid is a
    UsageError that names the file.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{file} is not TOML: {error}; write one rule a line, such as staff-id = 'S-[0-9]{{6}}'"
        ) from error
    return tuple(_own_rule(name, pattern, file) for name, pattern in given.items())


LIMIT_SECONDS: Final = 5.0
"""How long a user's own rule may take for one text; `(a+)+$` would double its time each letter."""


def own_rules(text: str, file: str) -> tuple[Rule, ...]:
    """Return a user's own rules, followed by the built-in ones whose names they do not take.

    Outside the main thread, and on Windows, no timer ends a rule that takes too long.

    Raises:
        UsageError: the text is not valid, or a rule matches empty text; also later, from a
            redaction, where a rule takes longer than `LIMIT_SECONDS`.
    """
    own = parse_rules(text, file)
    for rule in own:
        if rule.pattern.search(""):
            raise UsageError(
                f"{file}: rule {rule.name!r} matches empty text; make it match some text"
            )
    names = {rule.name for rule in own}
    timed = tuple(replace(rule, search=partial(_search, rule, file)) for rule in own)
    return timed + tuple(rule for rule in RULES if rule.name not in names)


def _search(rule: Rule, file: str, text: str) -> list[tuple[int, int]]:
    groups = secret_groups(rule.pattern)
    try:
        with _ended_after(LIMIT_SECONDS):
            found = [secret_span(match, groups) for match in rule.pattern.finditer(text)]
    except TimeoutError:
        raise UsageError(
            f"{file}: rule {rule.name!r} takes longer than {LIMIT_SECONDS:g} seconds for a text of "
            f"{len(text):,} characters; write it without a repetition within a repetition, such as "
            "(a+)+, and with limits, such as {1,100}"
        ) from None
    return [(start, end) for start, end in found if start < end]


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the block by a TimeoutError where a signal can: `re` looks for signals as it searches."""
    try:
        before = signal.signal(signal.SIGALRM, _too_late)
    except (AttributeError, ValueError):  # Windows, or not the main thread
        yield
        return
    timer = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


def _too_late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError


def _own_rule(name: str, pattern: Any, file: str) -> Rule:
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name):
        raise UsageError(f"{file}: a rule's name must be of a-z, 0-9 and '-', not {name!r:.60}")
    if not isinstance(pattern, str):
        raise UsageError(
            f"{file}: rule {name!r} is not a regular expression, but {pattern!r:.60}; "
            f"write {name} = 'expression'"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{file}: rule {name!r} is not a regular expression: {error}") from error
    return Rule(name, f"from {file}", pattern)
