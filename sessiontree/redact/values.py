"""What the name of a key says of its value, and whether a value is a secret or code.

The names follow detect-secrets (detect_secrets/plugins/keyword.py) and gitleaks
(config/gitleaks.toml). An expression is only tied to its surroundings where it is used.
"""

from __future__ import annotations

import re
from typing import Final

from sessiontree.redact.rule import looks_random

KINDS_OF_KEY: Final = (
    *("api", "access", "private", "secret", "client", "encryption", "signing", "master"),
    *("account", "auth", "shared", "storage", "deploy", "service", "license", "subscription"),
    *("session", "admin", "root", "app", "application", "webhook", "hmac", "aes", "db"),
    *("database", "integration", "ingest", "write", "priv", "ssh", "host", "recovery", "server"),
)
_BEFORE_KEY: Final = "|".join(f"(?<={kind})|(?<={kind}[ _-])" for kind in KINDS_OF_KEY)
_PART: Final = r"(?:(?<![A-Za-z])|(?<=[a-z0-9](?=[A-Z]))|(?<=\\[nrt]))"  # the start of a part
_SHORT_WORDS: Final = "pass|pwd|pw|pat|creds?|auth|psw|pswd|psk|jwt|cookie"
KEYWORD: Final = (
    r"(?:(?i:pass(?:word|wd|wort|phrase|code|key)|secret|token|credentials?|kennwort|senha"
    rf"|contrase(?:n|ñ)a|motdepasse|connection[_-]?string|(?:{_BEFORE_KEY})key"
    rf"(?:[_-]?data)?)(?i:[_-](?:base|value|plain|text|b64|base64|private|prod|production|live|test|dev"
    r"|staging|id(?<=private[_-]key[_-]id)))?"
    rf"|{_PART}(?i:{_SHORT_WORDS})(?![A-Za-z]))"
)
KEYWORD_NEAR: Final = (  # a tree, in which few letters are compared twice
    r"p(?:a(?:ss(?:word|wd|wort|phrase|code|key|(?![a-z]))|t(?![a-z]))|(?:wd?|swd?|sk)(?![a-z]))"
    r"|key(?<=[a-z _-]key)|token|se(?:cret|nha)|auth(?![a-z])"
    r"|c(?:re(?:dential|ds?(?![a-z]))|o(?:okie(?![a-z])|ntrase|nnection[_-]?string))"
    r"|jwt(?![a-z])|kennwort|motdepasse"
)
_SECRET_KEY: Final = re.compile(
    rf"(?:{KEYWORD}|(?i:authorization|cookie|private_key_id))(?:[_-]?[0-9]{{1,2}})?$"
)

_IN_SECRET_KEYS: Final = re.compile(
    "pass|pw|psw|secret|token|cred|key|auth|pat|cookie|jwt|psk|kennwort|senha|contrase|connection"
)
"""One of these, in lower case, is in each ASCII key of a secret: to look for them is faster."""

_WORDS_OF_CODE: Final = (
    r"example|placeholder|dummy|test|none|null|nil|true|false|yes|no|undefined|string|str|number"
    r"|bool|boolean|int|integer|float|any|text|object|bytes|required|optional|hidden|empty"
    r"|default|pass|passwd|password|secret|token|self|this|new|await|async|process|array|list"
    r"|dict|function|invalid|missing|expired|incorrect|wrong|correct|unknown|redacted|masked"
    r"|removed|omitted|encrypted|hashed|plain|basic|bearer|digest|oauth2?|prompt|stdin|value"
    r"|enabled|disabled|always|never|auto|inherit|shared|private|public|void|unset|reset|change"
    r"|char|varchar|binary|buffer|json|yaml|include|omit|same-origin|file|path|name|user|username"
    r"|email|login|input"
    r"|key|auth|type|only|not|and|the|for|with|from|your|must|will|was|has|can|may|should"
)
PLACEHOLDER: Final = re.compile(
    r"(?is)[\w-]{0,12}(?:\.{3}|…)|(?:x{3,}[_-]?)+|\*+|\.{2,}.*|…+|<.*|\$[a-z_{(].*|\{.*|%[a-z({].*"
    r"|\[.*"
    r"|(?:your|my|the|some|insert|enter|replace)[_ -].*|change[_-]?(?:me|it|this)|todo|tbd|n/a"
    rf"|(?:{_WORDS_OF_CODE})"
    r"|(?:u?int|float|bytes|sha|utf-?|base|md|hs|rs|es|aes|[vfiu])-?\d{1,3}"
)
DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
SNAKE: Final = re.compile(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_CAMEL: Final = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_ABOUT: Final = re.compile(r"(?i)pass|secret|token|key|cred|auth|hash|user|param|value|config|env")
TOKENS: Final = ("token", "auth", "cookie", "jwt", "key", "pat")


def is_no_identifier(value: str) -> bool:
    """Whether a value is not the name of something in code."""
    if SNAKE.fullmatch(value) and not looks_random(value):
        return False
    return not (_CAMEL.fullmatch(value) and _ABOUT.search(value))


def is_secret_value(name: str, value: str) -> bool:
    """Whether a quoted value is a secret, given the name it is assigned to."""
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    if any(mark in value for mark in ("${", "{{", "%s", "#{", "<%", "%(")) or "\n" in value:
        return False
    low = name.lower()
    spaces = sum(c.isspace() for c in value)
    is_words = "phrase" in low or "pass" in low
    if spaces and (low in value.lower() or spaces > (12 if is_words else 6)):
        return False
    if value.startswith(("/", "./", "../", "~/", "http://", "https://", "arn:")) and not is_words:
        return False
    if low.endswith(TOKENS):
        telling = any(c.isdigit() for c in value) or len(value) >= 20
        return not spaces and telling and (is_no_identifier(value))
    if low in ("secret", "credential", "credentials", "creds") and _is_plain_word(value):
        return False
    return not (SNAKE.fullmatch(value) and low.strip("_-") in value.lower())


def _is_plain_word(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.istitle()) and len(value) < 8


def keyword_of(key: str) -> str | None:
    """The part of a key that marks its value as a secret, or None."""
    if key.isascii() and _IN_SECRET_KEYS.search(key.lower()) is None:
        return None
    found = _SECRET_KEY.search(key)
    return found[0] if found else None


VALUE: Final = r"""[^\s"'`\\;&|<>(){}\[\]]{4,256}"""
