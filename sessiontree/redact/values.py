"""Names that announce a secret, values that look like one, and known home directories.

The names follow detect-secrets (detect_secrets/plugins/keyword.py) and gitleaks
(config/gitleaks.toml). An expression is only tied to its surroundings where it is used. The names
of home directories are names of people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from sessiontree.redact.rule import Rule, compiled, is_varied, looks_random, words

_KINDS_OF_KEY: Final = words("KINDS_OF_KEY")
_PUBLIC_KINDS: Final = frozenset(words("PUBLIC_KINDS"))
_PUBLIC_SETTINGS: Final = frozenset(words("PUBLIC_SETTINGS"))
_PLAIN_KINDS: Final = frozenset(("", *words("PLAIN_KINDS")))
_PUBLIC: Final = "public"
VENDOR: Final = compiled("(?i)<VENDORS>")


_MAX_NAMES: Final = 4096  # that are kept, as a text has few different ones

_SECRET_KEY: Final = compiled(
    "(?:<KEYWORD>|<OTHER_KEYWORD>|<CODE_KEYWORD>"
    "|(?i:<FOREIGN_KEYWORD>|authorization|cookie|private_key_id))(?:[_-]?[0-9]{1,2})?$"
)

_IN_SECRET_KEYS: Final = re.compile(
    "pass|pw|psw|secret|token|cred|key|auth|pat|cookie|jwt|psk|kennwort|senha|contrase|connection"
    "|private|signing|salt|pepper|refresh|bearer|access|dsn|otp|pin|code|sess|connect|parola|wacht"
    "|heslo|haslo|clave|zugangs|mot"
)
"""One of these, in lower case, is in each ASCII key of a secret: to look for them is faster."""

PLACEHOLDER: Final = compiled(
    r"(?is)[\w-]{0,12}(?:\.{3}|…)|(?:x{3,}[_-]?)+|\*+|\.{2,}.*|…+|<.*|\$[a-z_{(].*|\{.*|%[a-z({].*"
    r"|\[.*"
    r"|(?:your|my|the|some|insert|enter|replace)[_ -].*|change[_-]?(?:me|it|this)|todo|tbd|n/a"
    r"|(?:<WORDS_OF_CODE>)[?!.:]?"
    r"|(?:sk-)?(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-.*)"
    r"|(?:u?int|float|bytes|sha|utf-?|base|md|hs|rs|es|aes|[vfiu])-?\d{1,3}"
)
DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\??\.[A-Za-z_]\w*)+")
SNAKE: Final = re.compile(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_CAMEL: Final = re.compile(r"[a-z]+(?:[A-Z][a-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+")
_ABOUT: Final = re.compile(r"(?i)pass|secret|token|key|cred|auth|hash|user|param|value|config|env")
TOKENS: Final = ("token", "auth", "cookie", "jwt", "key", "pat")


_OF_KEY: Final = compiled(r"(?P<kind>[A-Za-z0-9]*)[ _.-]?(?i:key)(?:[_-]?data)?<TAIL>$")
_LAST_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+$|[A-Z0-9]+$")
_OTHER: Final = compiled("<OTHER_KEYWORD>$")
_FOREIGN_NAME: Final = compiled("(?i:<FOREIGN_KEYWORD>)$")
_CODE: Final = re.compile(r"[0-9]{4,8}|(?=.*[0-9])[A-Za-z0-9]{4,6}(?:-[A-Za-z0-9]{4,6}){1,3}")
_CODE_NAME: Final = re.compile(r"(?i)(?:otp|pin|code)[0-9]?$")


def is_plain_key(name: str) -> bool:
    """True if a name is just `key`, of which only what is near it can say more."""
    return _kind_of_key(name) == ""


def is_foreign(name: str) -> bool:
    """True if a name is the word for a password in a language other than English or German."""
    return _FOREIGN_NAME.search(name) is not None


@lru_cache(maxsize=_MAX_NAMES)
def is_telling(name: str) -> bool:
    """True if a name alone says that its value is a secret: `API_KEY`, not `OPENAI_KEY`."""
    kind = _kind_of_key(name)
    if kind is not None:
        return kind.endswith(_KINDS_OF_KEY)
    if name.lower().startswith(("_session", "session", "sid")):
        return False
    return is_foreign(name) or not (_OTHER.search(name) or _CODE_NAME.search(name))


@lru_cache(maxsize=_MAX_NAMES)
def _kind_of_key(name: str) -> str | None:
    """The word before `key` in a name, in lower case; None for another name.

    "" is just `key`, and `_PUBLIC` is for all kinds of keys that are no secrets.
    """
    found = _OF_KEY.search(name)
    if found is None:
        return None
    word = _LAST_WORD.search(found["kind"])
    last = word[0].lower() if word else ""
    if last in _PLAIN_KINDS:
        return ""
    is_setting = name.isupper() and " " not in name
    if is_setting:
        is_public = last in _PUBLIC_SETTINGS
    else:
        is_public = last in _PUBLIC_KINDS or (last.endswith("ing") and len(last) > 6)
    kind: str = found["kind"].lower()
    return _PUBLIC if is_public and not kind.endswith(_KINDS_OF_KEY) else kind


_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_TIMED: Final = re.compile(r"01[0-9A-HJKMNP-TV-Z]{24}")  # an identifier that begins with its time
_RUN: Final = re.compile("[A-Za-z0-9]{12,}")
_HEX: Final = re.compile("[0-9a-f]{16,}|[0-9A-F]{16,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{20,}={0,2}")
_GROUPS: Final = re.compile(r"[A-Z0-9]{4,8}(?:-[A-Z0-9]{4,8}){2,}")
_SIGNS: Final = frozenset("!#$%&*?@^~+")
_WORDS: Final = re.compile(r"[a-z]*(?:[A-Z]{1,3}[a-z]{2,})*[0-9]{0,2}")
_LONG_RUN: Final = re.compile("[a-z]{4}|[A-Z]{6}")
_VOWELS: Final = frozenset("aeiouAEIOU")
_MIXED: Final = re.compile(r"[A-Za-z][0-9]+[A-Za-z]|[0-9][A-Za-z]+[0-9]|[A-Za-z]{3}[0-9]{2,}$")


def is_generated(value: str, *, may_be_uuid: bool = False) -> bool:
    """True if a value looks random: no word, name, date or path, and no counted identifier."""
    if PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value) or not is_varied(value, 6):
        return False
    if any(c.isspace() for c in value) or value.startswith(("/", "./", "../", "~", "http", "arn:")):
        return False
    if _UUID.search(value) is not None:
        return may_be_uuid
    if _TIMED.fullmatch(value):
        return False
    if _GROUPS.fullmatch(value) or _BASE64.fullmatch(value):
        letters = value.replace("-", "")
        if _is_mixed_case(value) and looks_random(letters, least=0.35):
            return True
        if _GROUPS.fullmatch(value) and looks_random(letters):
            return True
    if is_password(value) and not _SIGNS.isdisjoint(value) and _is_mixed_case(value):
        return True
    return any(_is_random_run(run) for run in _RUN.findall(value))


def _is_random_run(run: str) -> bool:
    if _HEX.fullmatch(run):
        return len(run) >= 20 and any(c.isdigit() for c in run) and any(c.isalpha() for c in run)
    if len(run) < 16:
        return _is_mixed_case(run) and looks_random(run, least=0.4)
    return looks_random(run) or sum(c in _VOWELS for c in run) < 0.22 * len(run)


def _is_mixed_case(value: str) -> bool:
    return not (value.islower() or value.isupper()) and any(c.isdigit() for c in value)


def is_scrambled(value: str) -> bool:
    """True if the cases of a word change as in a generated password, and not as in a name."""
    if len(value) < 8 or value.islower() or value.isupper() or _LONG_RUN.search(value):
        return False
    return _WORDS.fullmatch(value) is None and looks_random(f"{value}0", least=0.4)


def is_password(value: str) -> bool:
    """True if a word looks like a password: letters with digits or signs among them."""
    if len(value) < 6 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    if "/" in value or SNAKE.fullmatch(value) or re.search(r"[0-9]\.[0-9]", value):
        return False
    if is_scrambled(value):
        return True
    if not any(c.isdigit() for c in value) or not any(c.isalpha() for c in value):
        return False
    return not _SIGNS.isdisjoint(value[1:]) or _MIXED.search(value) is not None


def is_no_identifier(value: str) -> bool:
    """True if a value is not the name of something in code."""
    if SNAKE.fullmatch(value) and not looks_random(value):
        return False
    return not (_CAMEL.fullmatch(value) and _ABOUT.search(value))


def is_secret_value(name: str, value: str) -> bool:
    """True if a quoted value is a secret, given the name it is assigned to."""
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    if any(mark in value for mark in ("${", "{{", "%s", "#{", "<%", "%(")) or "\n" in value:
        return False
    if not is_telling(name):
        return _is_of_other_name(name, value)
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


def _is_of_other_name(name: str, value: str) -> bool:
    """True if a value is a secret, where its name may also be of something else."""
    if _CODE_NAME.search(name):
        return _CODE.fullmatch(value) is not None or is_generated(value)
    if _kind_of_key(name) == _PUBLIC:
        return False
    return is_generated(value, may_be_uuid=name.isupper() or VENDOR.search(name) is not None)


def _is_plain_word(value: str) -> bool:
    return value.isalpha() and (value.islower() or value.istitle()) and len(value) < 8


def keyword_of(key: str) -> str | None:
    """The part of a key that marks its value as a secret, or None."""
    if key.isascii() and _IN_SECRET_KEYS.search(key.lower()) is None:
        return None
    found = _SECRET_KEY.search(key)
    if found is None:
        return None
    kind = _kind_of_key(key)
    if kind is None:
        return found[0]
    return None if kind in ("", _PUBLIC) else key


HOME: Final = "home-directory"


def home_rule(homes: Iterable[str]) -> Rule | None:
    """A rule for known home directories, as paths and as in folder names."""
    known = sorted({home for path in homes if len(home := path.rstrip("/\\")) > 1}, reverse=True)
    if not known:
        return None
    folders = [re.sub(r"[^A-Za-z0-9]", "-", home) for home in known if home.count("/") > 1]
    pattern = rf"(?:{_any_of(known)})(?![\w-])"
    if folders:
        pattern += rf"|(?P<folder>{_any_of(folders)})(?![A-Za-z0-9])"
    hints = tuple(text.lower() for text in (*known, *folders))
    return Rule(HOME, "", pattern, hints, _starts_well, "~")


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(map(re.escape, texts))


def _starts_well(match: re.Match[str]) -> bool:
    start = compiled("<FOLDER>" if match[0].startswith("-") else "<HOME_START>")
    return start.match(match.string, match.start()) is not None


def homes_in(path: str) -> list[str]:
    """The home directories that a path is in."""
    found = compiled("/(?:home|Users)/<USER>").match(path)
    return [found[0]] if found else []
