"""Credentials: secrets that are known by what stands beside them, not by how they look.

Such as what a password is set to, what a command or an address is given, what stands
behind `Bearer`. The rules ask further, so that code which merely handles a secret
(`password = get_password()`) stays readable.

Invariants: those of `redact.secrets`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from sessiontree.redact.rule import QUOTE, Rule

ASSIGNED: Final = "assigned-secret"

_AUTHORIZATION: Final = (
    rf"(?i:(?:authorization(?:{QUOTE})?[ \t]*+[:=][ \t]*+(?:{QUOTE})?"
    r"(?:(?P<scheme>bearer|basic|token|digest|apikey)[ \t]++)?|(?P<alone>bearer)[ \t]++))"
    r"""(?P<secret>[^\s"'`\\,;<>{}()\[\]$]{8,}+)"""
)


def _is_authorization(match: re.Match[str]) -> bool:
    value = match["secret"]
    if (match["scheme"] or "").lower() == "basic":
        return _is_basic(value)
    if _PLACEHOLDER.fullmatch(value):
        return False
    telling = any(c.isdigit() for c in value)
    if match["alone"] is not None:
        return telling and len(value) >= 16
    return telling or (match["scheme"] is not None and len(value) >= 24)


def _is_basic(value: str) -> bool:
    try:
        return b":" in base64.b64decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4))
    except (binascii.Error, ValueError):
        return False


_URL_PASSWORD: Final = (
    r"""://(?:(?P<secret>[^\s/:@"'`<>\\${]{0,100}:(?P<password>[^\s/?#"'`<>\\]{1,256}))@"""
    r"|(?P<secret_alone>[\w-]{20,}+)(?=@))"
)


def _is_url_password(match: re.Match[str]) -> bool:
    password = match["password"]
    if password is None:
        return any(c.isdigit() for c in match["secret_alone"])
    return not _PLACEHOLDER.fullmatch(password)


_KINDS_OF_KEY: Final = (
    *("api", "access", "private", "secret", "client", "encryption", "signing", "master"),
    *("account", "auth", "shared", "storage", "deploy"),
)
_BEFORE_KEY: Final = "|".join(f"(?<={kind})|(?<={kind}[_-])" for kind in _KINDS_OF_KEY)
_KEYWORD: Final = (
    r"(?:pass(?:word|wd|phrase|code)|(?<=[_;])pwd|secret|token|credentials?"
    rf"|(?:{_BEFORE_KEY})key)"
)
_KEYWORD_NEAR: Final = r"pass(?:word|wd|phrase|code)|pwd|secret|token|credential|(?<=[a-z_-])key"
_ANNOTATION: Final = r"(?>(?::[ \t]{0,8}[A-Za-z][A-Za-z_.|<>\[\]]{0,40}(?=[ \t]{0,8}=[^=]))?)"
_ASSIGNED: Final = (
    rf"(?P<name>(?i:{_KEYWORD}))(?:{QUOTE})?\]?{_ANNOTATION}[ \t]{{0,8}}"
    r"(?:=>|:=|=(?!=)|:(?!:))[ \t]{0,8}"
    r"""(?:(?P<quote>\\{0,8}["'`])(?P<secret>(?:(?!(?P=quote))(?:\\.|[^\r\n]))*)"""
    r"""|(?P<secret_bare>[^\s"'`\\,;&<>(){}\[\]|]+))"""
)
_SECRET_KEY: Final = re.compile(rf"(?i:(?:{_KEYWORD}|authorization|cookie)$)")

_PLACEHOLDER: Final = re.compile(
    r"(?is)[\w-]{0,12}(?:\.{3}|…)|x{3,}|\*+|\.{2,}.*|…+|<.*|\$[a-z_{(].*|\{.*|%[a-z({].*|\[.*"
    r"|(?:your|my)[_ -].*|change[_-]?me|example|placeholder|dummy|test|none|null|nil|true|false"
    r"|yes|no|undefined|string|str|number|bool|boolean|int|integer|float|any|text|object|bytes|required|optional"
    r"|hidden|empty|default|pass|passwd|password|secret|token|self|this|new|await|async|process"
    r"|(?:u?int|float|bytes|sha|utf-?|base|md|hs|rs|es|aes|[vfiu])-?\d{1,3}"
)
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def _is_assigned(match: re.Match[str]) -> bool:
    name, value = match["name"], match["secret"]
    if value is not None:
        return is_secret_value(name, value)
    value = match["secret_bare"]
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or _DOTTED.fullmatch(value):
        return False
    if match.string[match.end() : match.end() + 1] in ("(", "[", "{"):
        return False
    if name.isupper() or _is_argument(match):
        return len(value) >= 6 or not value.isdecimal()
    digits = any(c.isdigit() for c in value)
    return len(value) >= 6 and digits and any(c.isalpha() for c in value)


def _is_argument(match: re.Match[str]) -> bool:
    """Whether it is given on a command line, or in the query of an address."""
    before = match.string[max(match.start() - 40, 0) : match.start()]
    return re.search(r"(?:--|[?&])[\w-]*$", before) is not None


def is_secret_value(name: str, value: str) -> bool:
    """Whether a quoted value that a name of this ending was given is a secret."""
    if len(value) < 4 or _PLACEHOLDER.fullmatch(value):
        return False
    if any(mark in value for mark in ("${", "{{", "%s", "#{")):
        return False
    spaces = sum(c.isspace() for c in value)
    if spaces and (name.lower() in value.lower() or spaces > 6):
        return False
    if name.lower().endswith("token"):
        return not spaces and (len(value) >= 16 or any(c.isdigit() for c in value))
    return True


def keyword_of(key: str) -> str | None:
    """What makes the key of an object that of a secret, or None."""
    found = _SECRET_KEY.search(key)
    return found[0] if found else None


_GAP: Final = rf"(?:[ \t]{{1,8}}|{QUOTE}[ \t]{{0,4}},\s{{0,40}}(?={QUOTE}))"
_VALUE: Final = r"""[^\s"'`\\;&|<>(){}\[\]]{4,256}"""
_COMMAND: Final = (
    r"--(?:[a-z0-9]{1,20}-){0,4}(?P<flag>pass(?:word|wd|phrase|code)?|pwd|token|secret"
    rf"|(?:(?:{'|'.join(_KINDS_OF_KEY)})-?)key){_GAP}(?:"
    r"""(?P<quote>\\{0,8}["'`])(?P<secret_quoted>(?:(?!(?P=quote))(?:\\.|[^\r\n])){0,256})(?P=quote)"""
    rf"|(?P<secret_bare>{_VALUE}))"
    rf"|-(?:u|-user|-proxy-user)(?:{_GAP}|=)(?:{QUOTE})?"
    rf"""(?P<user>[^\s:/"'`\\=,]{{1,64}}):(?P<secret_of_user>{_VALUE})"""
    r"|(?:mysql\w{0,12}|mariadb(?:-\w{1,12})?)[ \t][^\r\n;|&]{0,120}?(?<=[ \t])-p(?:\\{0,8}[\"'])?"
    rf"(?P<secret_of_mysql>{_VALUE})"
    rf"|sshpass[ \t]{{1,8}}-p[ \t]{{0,8}}(?:{QUOTE})?(?P<secret_of_sshpass>{_VALUE})"
)
_COMMAND_NEAR: Final = "|".join(  # the literal goes first: it is looked for faster
    rf"{word}(?:(?<![\w-]{word})|(?<=\\[nrt]{word})){behind}"
    for word, behind in (
        *(("--", "(?=[a-z])"), ("-u", r"(?![\w-])")),
        *(("mysql", ""), ("mariadb", ""), ("sshpass", "")),
    )
)


def _is_given(match: re.Match[str]) -> bool:
    """Whether a command is given a secret, and is not just told of: `--password TEXT`."""
    flag, quoted = match["flag"], match["secret_quoted"]
    if quoted is not None:
        return is_secret_value(flag, quoted)
    value = next(text for name, text in match.groupdict().items() if name in _BARE and text)
    if match["secret_of_mysql"] or match["secret_of_sshpass"]:
        return value[0] not in "$*.…%"
    if _PLACEHOLDER.fullmatch(value) or value.startswith(_NO_SECRETS) or _DOTTED.fullmatch(value):
        return False
    if value.replace(":", "").isdecimal():
        return flag is not None and flag.startswith("pass") and len(value) >= 6
    is_telling = any(c.isdigit() for c in value) or any(c in "!#%^*+?" for c in value[:-1])
    return is_telling or (match["user"] is not None and _is_curls(match))


def _is_curls(match: re.Match[str]) -> bool:
    """Whether the command is curl: others name a user and a group so."""
    before = match.string[max(match.start() - 200, 0) : match.start()]
    return "curl" in re.split(r"[\r\n;|&]", before)[-1]


_BARE: Final = ("secret_bare", "secret_of_user", "secret_of_mysql", "secret_of_sshpass")
_NO_SECRETS: Final = ("-", "/", "./", "../", "~", "@", "id=", "type=", "file:", "env:")
"""How the value of a flag begins that names where a secret is."""

CREDENTIALS: Final = (
    Rule.of(
        "authorization",
        "Authorization headers, and what stands behind 'Bearer'",
        _AUTHORIZATION,
        *("authorization", "bearer"),
        accepts=_is_authorization,
        finder="authorization|bearer",
    ),
    Rule.of(
        "url-password",
        "user:password@ in addresses",
        _URL_PASSWORD,
        "://",
        accepts=_is_url_password,
    ),
    Rule.of(
        ASSIGNED,
        'what a password, token, secret or key is set to: NAME=value, "name": "value"',
        _ASSIGNED,
        *("pass", "pwd", "secret", "token", "credential", "key"),
        accepts=_is_assigned,
        finder=_KEYWORD_NEAR,
    ),
    Rule.of(
        "command-secret",
        "what a command is given: --password X, --token X, curl -u USER:X, mysql -pX",
        _COMMAND,
        *("--", "-u", "mysql", "mariadb", "sshpass"),
        accepts=_is_given,
        finder=_COMMAND_NEAR,
    ),
)
"""The rules, in the order in which they go before one another."""
