"""Secrets: the rules that tell what a redaction masks, and the reading of a user's own.

The rules, in the order in which they go before one another where they overlap, are
`RULES`. A rule is a regular expression over text as it is meant, not as a file spells
it; where a group's name starts with `secret`, that group is what is masked, else all
of the match.

Text within text is allowed for: a line break spelled `\\n`, quotes with backslashes
before them, `%40` for `@`.

Invariants: each rule costs time in proportion to the text, whatever it says. What
repeats without bound is a single set of characters, possessive or with nothing
after it that could fail; and where a search might start within such a run, it is
tied to the run's beginning, or the run is bounded.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

from sessiontree.errors import CallerError
from sessiontree.redact.credentials import CREDENTIALS
from sessiontree.redact.homes import ANY_HOME
from sessiontree.redact.rule import QUOTE, Rule

_PEM: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_GAP: Final = (
    r"""(?:\s|\\{1,8}[nrt]|["'`,>#|→]|\d{1,6}[→|:\t]"""
    r"""|(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,100})"""
)
_PRIVATE_KEY: Final = (
    rf"{_PEM}(?:(?>[^-]*+(?:-(?!----)[^-]*+)*)-{{5,6}}END [A-Z0-9 ]{{0,40}}PRIVATE KEY"
    rf"(?: BLOCK)?-----|(?>(?:{_PEM_GAP}{{0,64}}[A-Za-z0-9+/=]{{16,}}+)+)"
    rf"(?:{_PEM_GAP}{{0,8}}[A-Za-z0-9+/=]++)?)"
)
_KEY_MARK: Final = re.compile("-----(?:BEGIN|END)[^-]{0,60}-----")
_KEY_BODY: Final = re.compile("[A-Za-z0-9+/]{16}")


def _has_key(match: re.Match[str]) -> bool:
    """Whether there is a key between the lines that begin and end one."""
    return _KEY_BODY.search(_KEY_MARK.sub("", match[0])) is not None


_JWT: Final = (
    r"(?<![\w-])(?>[\w-]*?(?=eyJ))"
    r"(?P<secret>eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]++){0,3})"
)

_EMAIL: Final = (
    r"(?<![\w+])(?>(?:(?<=\\)(?:u[0-9a-fA-F]{4}|[nrtbf]))?)"
    r"(?P<secret>(?!git(?:@|%40))[\w+][\w.+-]*+(?:@|%40)(?!\d{1,4}x\.)(?!v?\d{1,9}\.\d)"
    r"(?>(?:[\w-]++\.(?=[^\W_]))+)[^\W\d_]{2,24}+)(?!\()"
)

RULES: Final = (
    Rule.of(
        "private-key",
        "PEM and PGP private keys, cut short or spelled with \\n too",
        _PRIVATE_KEY,
        "private key",
        accepts=_has_key,
    ),
    Rule.of("anthropic-key", "Anthropic API keys", r"sk-ant-[\w-]{16,}+", "sk-ant-"),
    Rule.of(
        "openai-key",
        "OpenAI API keys, and those of others in their style",
        r"sk-(?:proj|svcacct|admin|or-v1|lf)-[\w-]{16,}+|sk-[A-Za-z0-9]{32,}+",
        "sk-",
    ),
    Rule.of(
        "github-token",
        "GitHub tokens",
        r"gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_\w{22,}+",
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    Rule.of("gitlab-token", "GitLab tokens", r"glpat-[\w-]{20,}+", "glpat-"),
    Rule.of(
        "aws-access-key",
        "AWS access key ids",
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}+",
        *("akia", "asia", "abia", "acca"),
    ),
    Rule.of(
        "aws-secret-key",
        "AWS secret keys, where they are named so",
        rf"(?i:secret[_-]?access[_-]?key|aws[_-]?secret[_-]?key)(?:{QUOTE})?\]?[ \t]{{0,8}}"
        rf"(?:=>|[:=])[ \t]{{0,8}}(?:{QUOTE})?(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])",
        "secret",
        finder="secret[_-]?(?:access[_-]?)?key",
        reach=4,
    ),
    Rule.of(
        "google-key",
        "Google API keys, OAuth secrets and tokens",
        r"AIza[\w-]{35,}+|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,}+",
        *("aiza", "gocspx-", "ya29."),
    ),
    Rule.of(
        "slack-token",
        "Slack tokens and webhooks",
        r"xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+"
        r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}+",
        *("xox", "xapp-", "hooks.slack.com"),
    ),
    Rule.of(
        "stripe-key",
        "Stripe secret keys",
        r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{24,}+",
        *("k_live_", "k_test_", "whsec_"),
    ),
    Rule.of("npm-token", "npm tokens", r"npm_[A-Za-z0-9]{36,}+", "npm_"),
    Rule.of("pypi-token", "PyPI tokens", r"pypi-AgE[\w-]{32,}+", "pypi-age"),
    Rule.of("huggingface-token", "Hugging Face tokens", r"hf_[A-Za-z0-9]{30,}+", "hf_"),
    Rule.of("jwt", "JSON web tokens", _JWT, "eyj"),
    *CREDENTIALS,
    Rule.of(
        "email",
        "e-mail addresses",
        _EMAIL,
        *("@", "%40"),
        finder=r"(?:@(?<=[\w.+-]@)|%40(?<=[\w.+-]%40))(?=[\w-]{1,63}\.\w)",
        reach=254,
        within=r"[\w.+-]",
    ),
    ANY_HOME,
)
"""The built-in rules."""


def read_rules(text: str, file: str) -> tuple[Rule, ...]:
    """The built-in rules and a user's own, which go first.

    Args:
        text: TOML, a line a rule: `name = 'regular expression'`. A rule with the name of
            a built-in one takes its place.
        file: where the text is from, for the message.

    Raises:
        CallerError: it is no TOML, or a rule is none.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CallerError(
            f"{file} is no TOML: {error}; give a line a rule, such as staff-id = 'S-[0-9]{{6}}'"
        ) from error
    own = tuple(_own_rule(name, pattern, file) for name, pattern in given.items())
    return own + tuple(rule for rule in RULES if rule.name not in given)


_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def _own_rule(name: str, pattern: Any, file: str) -> Rule:
    if not _NAME.fullmatch(name):
        raise CallerError(f"{file}: a rule's name is made of a-z, 0-9 and '-', not {name!r:.60}")
    if not isinstance(pattern, str):
        raise CallerError(
            f"{file}: rule {name!r} is no regular expression, but {pattern!r:.60}; "
            f"write {name} = 'expression'"
        )
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise CallerError(f"{file}: rule {name!r} is no regular expression: {error}") from error
    if compiled.fullmatch(""):
        raise CallerError(
            f"{file}: rule {name!r} matches where there is nothing; make it find text"
        )
    return Rule(name, f"from {file}", compiled)
