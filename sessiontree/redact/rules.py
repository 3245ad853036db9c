"""All rules in their order of precedence, as `rules.toml` has them, and a user's own rules."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.redact import checks, tables
from sessiontree.redact.rule import ROWS, Rule, expression


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


def with_built_in(own: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Return a user's own rules, followed by the built-in ones whose names they do not take."""
    names = {rule.name for rule in own}
    return own + tuple(rule for rule in RULES if rule.name not in names)


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
