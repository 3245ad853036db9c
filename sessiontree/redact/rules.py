"""The rules: the built-in ones in order of precedence where they overlap, and a user's own."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.redact.credentials import CREDENTIALS
from sessiontree.redact.formats import ALONE, CUT_KEY, FORMATS, PREFIXED, PRIVATE_KEY
from sessiontree.redact.homes import ANY_HOME
from sessiontree.redact.rule import QUOTE, Rule

_AWS_SECRET: Final = Rule(
    "aws-secret-key",
    "AWS secret keys, where they are named so",
    re.compile(
        rf"(?i:secret[_-]?access[_-]?key|aws[_-]?secret[_-]?key)(?:{QUOTE})?\]?[ \t]{{0,8}}"
        rf"(?:=>|[:=])[ \t]{{0,8}}(?:{QUOTE})?(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])"
    ),
    ("secret",),
    finder=re.compile("secret[_-]?(?:access[_-]?)?key"),
    reach=4,
)

_EMAIL: Final = (
    r"(?<![\w+])(?>(?:(?<=\\)(?:u[0-9a-fA-F]{4}|[nrtbf]))?)"
    r"(?P<secret>(?!git(?:@|%40))[\w+][\w.+-]*+(?:@|%40)(?!\d{1,4}x\.)(?!v?\d{1,9}\.\d)(?!openssh\.com|libssh\.org)"
    r"(?>(?:[\w-]++\.(?=[^\W_]))+)[^\W\d_]{2,24}+)(?!\()"
)

RULES: Final = (
    PRIVATE_KEY,
    *FORMATS,
    CUT_KEY,
    _AWS_SECRET,
    *CREDENTIALS,
    PREFIXED,
    ALONE,
    Rule(
        "email",
        "e-mail addresses",
        re.compile(_EMAIL),
        ("@", "%40"),
        finder=re.compile(
            r"(?:@(?<=[\w.+-]@)|%40(?<=[\w.+-]%40))(?!\d{1,9}\.\d)(?=[\w-]{1,63}\.\w)"
        ),
        reach=254,
        within=re.compile(r"[\w.+-]*+"),
    ),
    ANY_HOME,
)


def parse_rules(text: str, file: str) -> tuple[Rule, ...]:
    """A user's own rules, without the built-in ones.

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
    """A user's own rules, followed by the built-in ones whose names they do not take."""
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
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{file}: rule {name!r} is not a regular expression: {error}") from error
    return Rule(name, f"from {file}", compiled)
