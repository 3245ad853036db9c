"""Checks of the matches of rules, and searches, by the names that `rules.toml` has for them.

Formats are checked by their look: random, not filler or an identifier. Secrets that only their
context gives away (headers, addresses, assignments, arguments of commands) are checked against it,
which keeps code that only handles a secret (`password = get_password()`) readable.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sessiontree.redact.rule import any_of, compiled, is_varied, looks_random, words
from sessiontree.redact.values import (
    DOTTED,
    PLACEHOLDER,
    SNAKE,
    TOKENS,
    VENDOR,
    is_foreign,
    is_generated,
    is_no_identifier,
    is_password,
    is_plain_key,
    is_scrambled,
    is_secret_value,
    is_telling,
    keyword_of,
)

_PUBLIC_PREFIXES: Final = frozenset(words("IDS"))


def is_key(match: re.Match[str]) -> bool:
    return is_varied(match[0])


def has_digit(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and any(c.isdigit() for c in match[0])


def is_random(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and looks_random(match[0])


_TELLING: Final = re.compile(
    r"(?i)(?:^|[_-])(?:api|apikey|token|tok|tkn|secret|sec|sk|pat|live|test|prod|oauth|auth|access"
    r"|refresh|priv|private|pass|pwd|cred|bearer|key|svc|sat|rt|at|pk|pub|sandbox)(?:$|[_-])"
)
_UUIDS: Final = compiled("<UUID>")
_DIGIT: Final = re.compile("[0-9]")
_HASH: Final = re.compile("[0-9a-f]{7,}|[0-9A-F]{7,}|[0-9_-]+")


_OF_JWK: Final = re.compile(r"""\\?["'](?:x|y|n|kid|x5t)\\?["'][ ]?:[ ]?\\?["']$""")  # public parts


def is_prefixed(match: re.Match[str]) -> bool:
    """True if a word is a short prefix and a random value, not an identifier or hash."""
    prefix, tail = match["prefix"], match["tail"]
    if _OF_JWK.search(match.string[max(match.start() - 12, 0) : match.start()]) is not None:
        return False
    is_telling = _TELLING.search(prefix) is not None
    parts = re.split(r"[_-]", prefix.lower())
    if parts[0] in _PUBLIC_PREFIXES and not (is_telling and len(parts) > 1):
        return False
    if re.match(r"(?i)(?:sha|md|base|utf|cp|py|v)[0-9]", prefix) or not is_varied(tail, 6):
        return False
    if _UUIDS.fullmatch(tail) or tail.isdigit():
        return is_telling and not tail.isdigit()
    if _HASH.fullmatch(tail):
        return len(tail) >= (24 if is_telling else 30) and (is_telling or len(parts[-1]) <= 4)
    longest = max(map(len, re.split(r"[_-]", tail)))
    digits = len(_DIGIT.findall(tail))
    if longest < 16 or digits < (1 if longest == len(tail) else 2):
        return False
    if tail != tail.lower() and tail != tail.upper():
        is_id = tail.startswith("01") and len(tail) <= 28  # begins with its time
        return not is_id and looks_random(tail, least=0.35)
    return (is_telling or longest >= 24) and looks_random(tail)


_KEY_MARK: Final = re.compile("-----(?:BEGIN|END)[^-]{0,60}-----")
_KEY_BODY: Final = re.compile("[A-Za-z0-9+/]{16}")


def has_key_lines(match: re.Match[str]) -> bool:
    return _KEY_BODY.search(_KEY_MARK.sub("", match[0])) is not None


_KEY_END: Final = re.compile(r"-{5}END [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_REST: Final = re.compile(r"[A-Za-z0-9+/=\s\\\"'`,>|#→]*+")  # read backwards
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/]{40}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{16,}={0,2}\s*$")


def keys_without_start(text: str) -> Iterator[tuple[int, int]]:
    """Private keys whose first lines are cut off: what is before their last line."""
    at = 0
    for mark in _KEY_END.finditer(text):
        start = max(at, mark.start() - 16_000)
        at = mark.end()
        rest = _KEY_REST.match(text[start : mark.start()][::-1])
        if rest is None:
            continue
        line = _KEY_LINE.search(text, mark.start() - rest.end(), mark.start())
        if line is not None:
            yield line.start(), mark.start()


_BASE64_LINE: Final = re.compile("[A-Za-z0-9+/]{40}")


_PUBLIC: Final = (
    "AAAAB3NzaC1",
    "AAAAC3NzaC1",
    "AAAAE2VjZHNh",
    "AAAAGnNr",
    "AAAAInNr",
    "MII",
    "MHYw",
    "MFkw",
)
"""How public keys and certificates begin in base64."""

_NAMED_ID: Final = re.compile(  # names of random values that are public
    r"(?i)(?:nonce|kid|etag|(?:public|pub|publishable|site|verify|verifying|cache)[ _-]?key"
    r"|-----BEGIN PUBLIC KEY-----)[\"'=:\s\\n]{0,6}$"
)


def is_alone(match: re.Match[str]) -> bool:
    """True if a word of letters and digits is random, not part of base64 or an address."""
    value = match[0]
    if value.startswith(("Qm", "bafy", "eyJ", *_PUBLIC)) or sum(c.isdigit() for c in value) < 3:
        return False
    if not any(c.isupper() for c in value) or not any(c.islower() for c in value):
        return False
    around = match.string[max(match.start() - 90, 0) : match.start()]
    around += " " + match.string[match.end() : match.end() + 90]
    if _NAMED_ID.search(match.string[max(match.start() - 40, 0) : match.start()]) is not None:
        return False
    return looks_random(value, least=0.48) and _BASE64_LINE.search(around) is None


def _before(match: re.Match[str], count: int) -> str:
    return match.string[max(match.start() - count, 0) : match.start()]


def _behind(match: re.Match[str], count: int) -> str:
    return match.string[match.end() : match.end() + count]


def _secret_of(match: re.Match[str]) -> tuple[str, str]:
    groups = match.groupdict().items()
    return next((n, text) for n, text in groups if text is not None and n.startswith("secret"))


def is_given(match: re.Match[str]) -> bool:
    """True if a command has a secret, and not only its description: `--password TEXT`."""
    name, value = _secret_of(match)
    groups = match.groupdict()
    flag, user = groups.get("flag"), groups.get("user")
    if name.startswith("secret_quoted"):
        return is_secret_value(flag or "password", value)
    if name in ("secret_of_mysql", "secret_of_sshpass", "secret_sshpass", "secret_archive"):
        return value[0] not in "$*.…%-<" and is_no_identifier(value)
    if PLACEHOLDER.fullmatch(value) or value.startswith(_NO_SECRETS) or DOTTED.fullmatch(value):
        return False
    if user is not None:
        return _is_of_user(match, value)
    if flag is None:
        return not _is_described(match, value) and not value.replace(":", "").isdecimal()
    if value.replace(":", "").isdecimal():
        return flag.startswith(("pass", "otp")) and len(value) >= 6
    is_telling = any(c.isdigit() for c in value) or any(c in "!#%^*+?" for c in value[:-1])
    return is_telling or (flag.startswith("pass") and not _is_described(match, value))


def _is_of_user(match: re.Match[str], value: str) -> bool:
    """True if `-u A:B` is a user and a password, and not a user and a group."""
    command = _command_of(match)
    if _RUNS_AS.search(command):
        return False
    if "curl" in command or "http" in command:
        return True
    if value.replace(":", "").isdecimal():
        return False
    return any(c.isdigit() for c in value) or any(c in "!#%^*+?" for c in value[:-1])


_RUNS_AS: Final = re.compile(
    r"(?:docker|podman|nerdctl)\b.{0,200}\b(?:run|exec|create|compose)\b|\bps\b|\bchown\b"
)
_ENGLISH: Final = re.compile(
    r"(?i)options?|arguments?|flags?|parameters?|instead|values?|when|which|that|before|after"
    r"|without|because|unless|while|since|until|then|into|also|each|every|both|either|neither"
    r"|requires?|required|needs?|takes?|gives?|sets?|using|used|uses|does|doesn|don|isn|cannot"
    r"|interactively|securely|directly|here|there|this|these|those|they|have|been|being|were"
)


def _is_described(match: re.Match[str], value: str) -> bool:
    """True if a value of letters alone is a word of a text about the command."""
    if value.isupper() or SNAKE.fullmatch(value) or _ENGLISH.fullmatch(value.rstrip(".,:!?")):
        return True
    if not value.isalpha():
        return False
    if len(value) < 6:
        return not _is_end(match)
    return not _is_end(match) and _PROSE.match(_behind(match, 80)) is not None


_PROSE: Final = re.compile(r"[ \t]{2,}|[ \t][A-Za-z]+[ \t][A-Za-z]+[ \t.,]")


def _is_end(match: re.Match[str]) -> bool:
    behind = _behind(match, 3)
    return not behind.strip(" \t\r\n\"'`") or behind.lstrip(" ")[:1] in ("-", "&", "|", ";", ">")


def _command_of(match: re.Match[str]) -> str:
    before = _before(match, 200)
    return re.split(r"[\r\n;|&]", before)[-1]


# How a value begins that names the place of a secret.
_NO_SECRETS: Final = (
    "-",
    "/",
    "./",
    "../",
    "~",
    "@",
    "$",
    "<",
    "*",
    "id=",
    "type=",
    "file:",
    "env:",
    "stdin",
)

_HEAD: Final = compiled("<SETTER>")
_HEAD_NEAR: Final = re.compile(any_of(words("SETTER_WORDS")))  # to search for these first is faster
_ARGUMENT: Final = compiled(
    r"(?:<QUOTE>)?(?:(?:[ \t]|\\\r?\n){1,64}|,\s{0,20}(?=<QUOTE>))"
    r"(?:(?P<name>-{0,2}[\w.:/-]{1,64}=|-[bvw](?=[\"']))?(?P<quote>\\{0,8}[\"'])"
    r"(?P<quoted>(?:(?!(?P=quote))[^\r\n]){0,512}+)(?P=quote)"
    r"|(?P<bare_name>-{0,2}[\w.:/-]{1,64}=)?(?P<bare>[^\s\"'`|;&<>()]{1,512}+))"
)
_PAIR: Final = re.compile(r"[\w.-]{1,64}=")
_NAME_OF_PAIR: Final = re.compile(r"(?=.*[A-Z_:./-])[A-Za-z_/][\w:./-]*")
_VALUE_OPTIONS: Final = frozenset(
    {
        *("body", "b", "value", "v", "secret-string", "plaintext", "w", "data", "payload"),
        *("from-literal", "set", "set-env-vars", "secret-binary"),
    }
)
_PIPED: Final = compiled(
    r"(?:echo|printf)[ \t]{1,8}(?:-[neE]{1,2}[ \t]{1,8})?"
    r"(?:<QUOTE>%s(?:\\n)?<QUOTE>[ \t]{1,8})?"
    r"(?:(?P<quote><QUOTE>)(?P<quoted>(?:(?!(?P=quote))[^\r\n]){4,256})(?P=quote)"
    r"|(?P<bare>[^\s\"'`|$]{4,256}))[ \t]{0,8}\|[^|\r\n;]{0,60}$"
)
_FED: Final = compiled(
    r"(?:<QUOTE>)?[ \t]{0,8}(?:<<<|<[ \t]?<\((?:echo|printf))[ \t]{0,8}(?:<QUOTE>)?"
    r"(?P<bare>[^\s\"'`$()]{4,256})"
)


class _CommandArgument(NamedTuple):
    start: int
    end: int
    text: str
    option: str  # the option that it is the value of; "" for none
    name: str  # what it is set to: `NAME=` of the argument itself, or the word before it


def _arguments(text: str, start: int) -> Iterator[_CommandArgument]:
    """The arguments of a command from a place on, without the names of options and settings."""
    option = before = ""
    for _ in range(24):
        found = _ARGUMENT.match(text, start)
        if found is None:
            return
        start = found.end()
        group = "bare" if found["quoted"] is None else "quoted"
        name, (at, end) = found["bare_name"] or found["name"] or "", found.span(group)
        if not name and found[group].startswith("-"):
            option, before = found[group].strip("-"), ""
            continue
        if name.startswith("-"):
            option, name = name.strip("-="), ""
        pair = None if name else _PAIR.match(text, at, end)
        if pair is not None:
            at, name = pair.end(), pair[0]
        if group == "bare":
            end = at + len(text[at:end].rstrip(",.:"))
        yield _CommandArgument(at, end, text[at:end], option, name or before)
        before = "" if option or name else text[at:end]
        option = ""


def set_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Find what commands set secrets to, and the tokens of logins."""
    for near in _HEAD_NEAR.finditer(text):
        head = _HEAD.match(text, near.start())
        if head is None:
            continue
        yield from _piped(text, head)
        end = head.end()
        for argument in _arguments(text, end):
            end = argument.end
            if _is_argument_secret(head, argument):
                yield argument.start, argument.end
        fed = _FED.match(text, end)
        if fed is not None and _is_piped(head, fed["bare"]):
            yield fed.span("bare")


def _is_argument_secret(head: re.Match[str], argument: _CommandArgument) -> bool:
    value, name = argument.text, argument.name
    if head["secret"] is None:
        if name.endswith("=") and keyword_of(name[:-1]) is not None:
            return _is_set(value) and is_secret_value(name[:-1], value)
        is_login = head["login"] is not None and not argument.option
        return is_generated(value, may_be_uuid=is_login)
    if argument.option:
        return argument.option in _VALUE_OPTIONS and _is_set(value)
    if name.endswith("=") or head["put"] is not None or head["alone"] is not None:
        return (name != "" or head["alone"] is not None) and _is_set(value)
    is_second = head["pair"] is not None and _NAME_OF_PAIR.fullmatch(name) is not None
    return (is_second and _is_set(value)) or is_generated(value)


def _piped(text: str, head: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Find what `echo X |` gives a command."""
    start = max(head.start() - 400, 0)
    found = _PIPED.search(text, start, head.start())
    if found is None:
        return
    group = "bare" if found["quoted"] is None else "quoted"
    if _is_piped(head, found[group]):
        yield found.span(group)


def _is_piped(head: re.Match[str], value: str) -> bool:
    is_secret = head["secret"] is not None or is_generated(value) or is_password(value)
    return is_secret and _is_set(value.removeprefix("@"))


def _is_set(value: str) -> bool:
    """True if a command sets a secret to a value, and not to that of a variable or file."""
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    return not value.startswith(_NO_SECRETS) and not any(
        sign in value for sign in ("$(", "${", "=$")
    )


_IS_SAID: Final = compiled(r"[ \t]{1,4}<IS>(?![\w-])")


_COOKIE_NAMED: Final = re.compile("(?i:session|sid)")


def is_of_other(match: re.Match[str]) -> bool:
    """True if the value of a name that may also be of something else is a secret."""
    if _COOKIE_NAMED.fullmatch(match["name"] or match["named"]):
        before = _before(match, 80).lower()
        if "cookie" not in before and not before.endswith("connect."):
            return False
    if match["named"] is None:
        return is_assigned(match)
    name = match["named"]
    if match["secret_pair"] is not None:
        return _is_call(match) and is_secret_value(name, match["secret_pair"])
    value = match["secret_said"].rstrip(".,;:!?")
    if is_foreign(name):
        return is_password(value)
    is_said = _IS_SAID.match(match.string, match.end("named")) is not None
    return is_said and is_secret_value(name, value)


_NAME_BEFORE: Final = re.compile(r"(?:(?<=\\[nrt])|(?<![\w.\\-]))[\w.-]*[ ]?$")
_NEAR_KEY: Final = 160  # characters around a plain `key` in which a service is looked for
_OF_URN: Final = re.compile(r"(?<!\w)(?:arn|urn):[^\s\"']*$")
_TEST: Final = re.compile(r"(?i:test)\w*|[A-Za-z]\w*[.:/_-][\w.:/-]*")  # the name of one


def _name_of(match: re.Match[str]) -> str:
    """The name that a match gives its value: for `key`, with what is before it in the name."""
    name: str = match["name"]
    if name[:3].lower() != "key":
        return name
    start = match.start("name")
    before = _NAME_BEFORE.search(match.string[max(start - 48, 0) : start])
    return name if before is None else before[0] + name


def _opens(name: str, match: re.Match[str]) -> bool:
    """True unless a name is just `key` and nothing near it says what it opens."""
    if not is_plain_key(name):
        return True
    start, end = match.span()
    if match.string[max(start - 1, 0) : start] in ("?", "&"):
        return True
    near = match.string[max(start - _NEAR_KEY, 0) : start] + match.string[end : end + 80]
    return VENDOR.search(near) is not None


def is_assigned(match: re.Match[str]) -> bool:
    name = _name_of(match)
    return _is_secret_of(name, match) and _opens(name, match)


def _is_secret_of(name: str, match: re.Match[str]) -> bool:
    value = match["secret"]
    if value is not None:
        is_sure = match["call"] is None and match["fallback"] is None
        return is_secret_value(name, value) and (is_sure or is_generated(value))
    value = match["secret_bare"].rstrip(".")
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    if _behind(match, 1) in ("(", "[", "{"):
        return False
    if value.startswith(("/", "./", "../", "~", "@", "$", "http://", "https://", "arn:")):
        return False
    if not is_telling(name):
        return is_secret_value(name, value)
    sign = match.string[match.end("name") : match.start("secret_bare")]
    before = _before(match, 100)
    if name == "PASS" and ":" in sign and before[-1:] not in ("_", "-", "."):
        return is_password(value) and not _TEST.fullmatch(value)
    if sign == ":" and _OF_URN.search(before):
        return False
    if sign == ": " and not is_no_identifier(value) and not _BEFORE_SETTING.search(before):
        return False  # the title of a test
    digits = any(c.isdigit() for c in value)
    letters = any(c.isalpha() for c in value)
    if name.lower().endswith(TOKENS) and not (digits or len(value) >= 20):
        return False
    if _is_argument(match) or (name.isupper() and " " not in match[0]):
        return is_no_identifier(value) and (len(value) >= 6 or not value.isdecimal())
    if digits and letters:
        return len(value) >= 6
    if len(value) >= 16 and looks_random(value):
        return True
    return letters and len(value) >= 6 and is_no_identifier(value) and _is_a_setting(match)


_BEFORE_SETTING: Final = re.compile(
    r"(?:^|[\n;]|\\n)[ \t]{0,64}(?:-[ \t]+|export[ \t]+)?[\w.-]{0,64}$"
)
_BEFORE_PAIR: Final = re.compile(r"(?:^|[\s\"'])\w{1,40}=[^\s=,;()]{1,80}[ \t]{1,4}\w{0,40}$")
_AFTER_SETTING: Final = re.compile(r"[ \t]{0,8}(?:$|[\r\n;]|\\[nr]|#)")
_SECTION: Final = re.compile(r"(?:^|\n)\[[\w .:-]{1,64}\][ \t]{0,8}\r?\n")
_CODE: Final = re.compile(r"[a-z]+(?:[A-Z][a-z]*)+|(?i:.*(?:pass|secret|token|cred|hash|key).*)")


def _is_a_setting(match: re.Match[str]) -> bool:
    """True if a value of letters alone is one of a configuration file, and not of code or prose.

    `password=value` and `password: value` are when they fill their line; with blanks around the
    equals sign, only below a section of such a file.
    """
    string, value = match.string, match["secret_bare"]
    before = string[max(match.start() - 80, 0) : match.start()]
    sign = string[match.end("name") : match.start("secret_bare")]
    if sign == "=" and _BEFORE_PAIR.search(before) and not _CODE.fullmatch(value):
        return True
    if not _BEFORE_SETTING.search(before) or not _AFTER_SETTING.match(string, match.end()):
        return False
    if _CODE.fullmatch(value):
        return False
    if " = " in sign:
        near = string[max(match.start() - 600, 0) : match.start()]
        return _SECTION.search(near) is not None
    return True


_BEFORE_ARGUMENT: Final = re.compile(
    r"(?:(?<![\w-])--[\w.=-]{0,40}|[ \t]--?(?:set|env|build-arg|from-literal|e"
    r"|D)[ \t=]?[\w.=-]{0,40}"
    r"|(?:[?&;'\"]|amp;|u0026)[\w-]{0,40})$"
)


def _is_argument(match: re.Match[str]) -> bool:
    before = _before(match, 40)
    return _BEFORE_ARGUMENT.search(before) is not None


def is_authorization(match: re.Match[str]) -> bool:
    value = match["secret"]
    scheme = (match["scheme"] or match["alone"] or "").lower()
    if scheme == "basic":
        return _is_basic(value)
    if PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    telling = any(c.isdigit() for c in value)
    if match["alone"] is not None:
        return telling and len(value) >= 16 and is_varied(value)
    return telling or (match["scheme"] is not None and len(value) >= 24)


def _is_basic(value: str) -> bool:
    """True if a value is `user:password` in base64."""
    bare = value.rstrip("=")
    try:
        return b":" in base64.b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        return False


_COOKIE_VALUE: Final = re.compile(r"=([^;]{6,})")


def is_cookie(match: re.Match[str]) -> bool:
    """True if some value of a cookie looks like a session, not like a preference."""
    for value in _COOKIE_VALUE.findall(match["secret"][:8192]):
        is_long = len(value) >= 16 or any(c.isdigit() for c in value)
        if is_long and is_varied(value) and not PLACEHOLDER.fullmatch(value):
            return True
    return False


def is_signature(match: re.Match[str]) -> bool:
    value = match["secret"]
    before = _before(match, 1)
    is_part = before in ("?", "&", ";", ",", " ", "6") and before != ""
    return is_part and is_varied(value) and any(c.isdigit() for c in value)


def is_url_password(match: re.Match[str]) -> bool:
    if match["secret_alone"] is not None:
        return any(c.isdigit() for c in match["secret_alone"])
    return not PLACEHOLDER.fullmatch(match["password"] or match["wide"])


def is_of_dsn(match: re.Match[str]) -> bool:
    value = _secret_of(match)[1]
    return not PLACEHOLDER.fullmatch(value) and not value.startswith("//")


def is_marked(match: re.Match[str]) -> bool:
    """True if the text around a value marks it as a secret, as the state of Terraform does."""
    before = _before(match, 1500)
    behind = _behind(match, 200)
    if match["name"] == "result":
        return "random_password" in before or "random_password" in behind
    return _SENSITIVE.search(before.rpartition("{")[2] + behind.partition("}")[0]) is not None


_SENSITIVE: Final = compiled(r"sensitive(?:<QUOTE>)?\s{0,8}[:=]\s{0,8}true")


def is_of_netrc(match: re.Match[str]) -> bool:
    return not PLACEHOLDER.fullmatch(_secret_of(match)[1])


def is_markup(match: re.Match[str]) -> bool:
    name = match["element"] or match["named"] or match["plist"]
    value = _secret_of(match)[1]
    if PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value) or "{" in value:
        return False
    if match["element"] is not None:
        if "tokens" in match["element"].lower() and value.isdigit():  # a count, in each prompt
            return False
        return is_no_identifier(value) and (not value.istitle() or not value.isalpha())
    keyword = keyword_of(name)
    return keyword is not None and is_secret_value(keyword, value)


def is_in_manifest(match: re.Match[str]) -> bool:
    """True if a line is below `data:` of a Kubernetes secret."""
    near = _before(match, 3000)
    document = re.split(r"(?m)^---", near)[-1]
    at = document.rfind("\ndata:")
    if at < 0 or re.search(r"\n\w", document[at + 1 :]) is not None:
        return False
    behind = _behind(match, 1000)
    about = document + re.split(r"(?m)^---", behind)[0]
    return re.search(r"(?m)^kind:[ \t]*[\"']?Secret\b", about) is not None


def is_container_auth(match: re.Match[str]) -> bool:
    value = _secret_of(match)[1]
    return is_varied(value) and (_is_basic(value) or len(value) >= 40)


def is_connection(match: re.Match[str]) -> bool:
    around = match.string[max(match.start() - 200, 0) : match.end() + 200]
    value = match["secret"]
    return (
        ";" in around
        and not PLACEHOLDER.fullmatch(value)
        and not value.startswith("os.")
        and not value.endswith("()")
    )


def is_given_as(match: re.Match[str]) -> bool:
    """True if `use X as the password` gives a password, and not the name of one."""
    value = match["secret"]
    return is_password(value)


def is_of_account(match: re.Match[str]) -> bool:
    """True if `admin / X` is an account and its password."""
    value = match["secret"].rstrip(".:")
    if match["cue"] is None:
        is_sure = is_scrambled(value) or any(c in "!#$%&*?@^~" for c in value[1:])
        return is_sure and is_password(value)
    return is_password(value)


_SETS: Final = re.compile(
    r"(?:(?:^|[\r\n;&\"'`]|\\n)[ \t]{0,16}(?:ENV|ARG|setenv|setx"
    r"|set(?:[ \t]-{1,2}[\w-]{1,10}){1,3})"
    r"|configure[ \t]set|config[ \t]set|secrets?[ \t]set|secrets:set)[ \t]{1,4}[\w.:/-]{0,64}$"
)


_PASS: Final = ("pass", "pw", "psw", "kennwort")


def is_named(match: re.Match[str]) -> bool:
    kind, value = _secret_of(match)
    if match["name"] is None:
        return is_secret_value("password", value)
    name = _name_of(match)
    if is_plain_key(name) and kind != "secret_said":
        return False
    if kind == "secret_set":
        before = _before(match, 100)
        if _SETS.search(before) is not None:
            return is_secret_value(name, value)
        return name.lower().startswith(_PASS) and _is_spoken(match, value)
    if kind == "secret_said":
        is_secret = _is_said(match, name, value.rstrip(".,;:!?") or value)
        return is_secret and _opens(name, match)
    if kind == "secret_said_quoted":
        if not is_telling(name):
            return is_secret_value(name, value)
        is_phrase = not value.rstrip(".,!?").isalpha() and name.lower().startswith(_PASS)
        return is_phrase and not match["words"] and is_secret_value(name, value)
    if kind == "secret_quoted":
        digits = any(c.isdigit() for c in value)
        is_line = _AFTER_SETTING.match(match.string, match.end()) is not None
        return (digits or is_line) and " " not in value and is_secret_value(name, value)
    return _is_call(match) and " " not in value and is_secret_value(name, value)


def is_pgpass(match: re.Match[str]) -> bool:
    return not match["secret"].isdigit() and is_varied(match["secret"], 3)


def _is_spoken(match: re.Match[str], value: str) -> bool:
    """True if `passwd X` ends a clause, and X is a password."""
    is_end = re.match(r"[ \t]{0,4}(?:$|[\r\n,;)\"'`]|\\[nr])", _behind(match, 8))
    value = value.rstrip(".,;:")
    return is_end is not None and (is_password(value) or _is_word_and_digit(value))


def _is_word_and_digit(value: str) -> bool:
    """True for `hunter2`, which many people choose, and false for `field2`."""
    word = value.rstrip("0123456789")
    return word != value and len(word) >= 5 and word.isalpha() and not PLACEHOLDER.fullmatch(word)


def _is_said(match: re.Match[str], name: str, value: str) -> bool:
    """True if `the password is X` gives a password, and does not describe one."""
    if value.isdigit() or PLACEHOLDER.fullmatch(value.rstrip("0123456789")):
        return value.isdigit() and not is_telling(name) and is_secret_value(name, value)
    if not is_telling(name):
        return is_secret_value(name, value)
    if not (any(c.isdigit() for c in value) and len(value) >= 6):
        return False
    is_direct = match["words"] == "" and "to" not in match[0][: match.start("secret_said")].split()
    if is_direct or is_generated(value):
        return is_secret_value(name, value)
    return not name.lower().endswith(TOKENS) and is_password(value)


def _is_call(match: re.Match[str]) -> bool:
    """True if the name and the value are the two arguments of a call, and not words of a list."""
    before = _before(match, 80)
    behind = _behind(match, 8).lstrip()
    return (
        compiled(r"\w\([ \t]{0,8}<QUOTE>[\w.:-]{0,64}$").search(before) is not None
        and behind[:1] == ")"
    )
