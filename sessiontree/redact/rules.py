r"""Rules: what each kind of secret looks like, and where it is in a text.

`RULES` has the built-in rules, in order of precedence where they overlap; `read_rules` adds a
user's own. A rule is a regular expression over the text itself, not its JSON spelling. It masks the
group whose name starts with `secret`, else the whole match. Rules allow for text within text: a
line break spelled `\n`, quotes with backslashes before them, `%40` for `@`.

`CREDENTIALS` are known by their context, not by how they look: the value of a password, an argument
of a command, the text after `Bearer`. Further checks keep code that only handles a secret
(`password = get_password()`) readable. Home directories are those that look like one (`ANY_HOME`),
and known ones (`home_rule`).

Invariants: each rule costs time in proportion to the text, whatever it holds. An unbounded
repetition is a single set of characters, possessive or with nothing after it that could fail; where
a search might start within such a run, it is tied to the start of the run, or the run is bounded. A
rule with a finder is tried only where that found something, and a long match is not searched again.
"""

from __future__ import annotations

import base64
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from sessiontree.errors import UsageError

_LONG: Final = 512  # characters of a match that is not searched again
QUOTE: Final = r"""\\{0,8}["'`]"""  # a quote; in text within text it has backslashes before it


class Rule(NamedTuple):
    """One kind of secret."""

    name: str  # of the kind; it is in the mask
    what: str  # the kind in words
    pattern: re.Pattern[str]  # finds it
    hints: tuple[str, ...] = ()  # a text without any of these, in lower case, has no such secret
    accepts: Callable[[re.Match[str]], bool] | None = None  # decides on a match; None accepts all
    stand_in: str | None = None  # the replacement; None for a numbered mask
    # Finds, in lower-case text, where to try the pattern; None tries it everywhere, which is as
    # fast where it starts with fixed characters.
    finder: re.Pattern[str] | None = None
    reach: int = 0  # how many characters before that the match may start
    within: re.Pattern[str] | None = None  # matches each character allowed there; None for any

    def spans(self, text: str, lowered: str) -> Iterable[tuple[int, int]]:
        """The spans of secrets in a text, given with its form from `lowered`."""
        if self.hints and not any(map(lowered.__contains__, self.hints)):
            return
        groups = [name for name in self.pattern.groupindex if name.startswith("secret")]
        matches = self.pattern.finditer(text) if self.finder is None else self._tried(text, lowered)
        for match in matches:
            start, end = next(
                (match.span(name) for name in groups if match[name] is not None), match.span()
            )
            if start < end and (self.accepts is None or self.accepts(match)):
                yield start, end

    def _tried(self, text: str, lowered: str) -> Iterator[re.Match[str]]:
        assert self.finder is not None
        at = 0
        for hit in self.finder.finditer(lowered):
            for start in range(self._first(text, at, hit.start()), hit.start() + 1):
                match = self.pattern.match(text, start)
                if match is not None:
                    yield match
                    is_long = match.end() - start > _LONG  # and is not gone over again
                    if is_long or self.accepts is None or self.accepts(match):
                        at = match.end()
                    break

    def _first(self, text: str, at: int, end: int) -> int:
        """The first place where a match across `end` may start, from `at` on."""
        lowest = max(at, end - self.reach)
        if self.within is None:
            return lowest
        start = end
        while start > lowest and self.within.match(text, start - 1):
            start -= 1
        return start


def lowered(text: str) -> str:
    """Text in lower case, each character in its place."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if c.isascii() else c for c in text)


ASSIGNED: Final = "assigned-secret"

_AUTHORIZATION: Final = (
    rf"(?i:(?:authorization(?:{QUOTE})?[ \t]*+[:=][ \t]*+(?:{QUOTE})?"
    r"(?:(?P<scheme>bearer|basic|token|digest|apikey)[ \t]++)?|(?P<alone>bearer)[ \t]++))"
    r"""(?P<secret>[^\s"'`\\,;<>{}()\[\]$]{8,}+)"""
)


def _is_authorization(match: re.Match[str]) -> bool:
    value = match["secret"]
    if (match["scheme"] or "").lower() == "basic":
        bare = value.rstrip("=")
        try:
            return b":" in base64.b64decode(bare + "=" * (-len(bare) % 4))
        except ValueError:
            return False
    if _PLACEHOLDER.fullmatch(value):
        return False
    telling = any(c.isdigit() for c in value)
    if match["alone"] is not None:
        return telling and len(value) >= 16
    return telling or (match["scheme"] is not None and len(value) >= 24)


_URL_PASSWORD: Final = (
    r"""://(?:(?P<secret>[^\s/:@"'`<>\\${]{0,100}:(?P<password>[^\s/?#"'`<>\\]{1,256}))@"""
    r"|(?P<secret_alone>[\w-]{20,}+)(?=@))"
)


def _is_url_password(match: re.Match[str]) -> bool:
    if match["password"] is None:
        return any(c.isdigit() for c in match["secret_alone"])
    return not _PLACEHOLDER.fullmatch(match["password"])


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
    before = match.string[max(match.start() - 40, 0) : match.start()]
    return re.search(r"(?:--|[?&])[\w-]*$", before) is not None


def is_secret_value(name: str, value: str) -> bool:
    """Whether a quoted value is a secret, given the name it is assigned to."""
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
    """The part of a key that marks its value as a secret, or None."""
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
_COMMAND_NEAR: Final = "|".join(  # the literal first: its search is faster
    rf"{word}(?:(?<![\w-]{word})|(?<=\\[nrt]{word})){behind}"
    for word, behind in (
        *(("--", "(?=[a-z])"), ("-u", r"(?![\w-])")),
        *(("mysql", ""), ("mariadb", ""), ("sshpass", "")),
    )
)


def _is_given(match: re.Match[str]) -> bool:
    """Whether a command has a secret, and not only its description: `--password TEXT`."""
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
    """Whether the command is curl: for others this is a user and a group."""
    before = match.string[max(match.start() - 200, 0) : match.start()]
    return "curl" in re.split(r"[\r\n;|&]", before)[-1]


_BARE: Final = ("secret_bare", "secret_of_user", "secret_of_mysql", "secret_of_sshpass")
# How a value begins that names the place of a secret.
_NO_SECRETS: Final = ("-", "/", "./", "../", "~", "@", "id=", "type=", "file:", "env:")

CREDENTIALS: Final = (
    Rule(
        "authorization",
        "Authorization headers, and the text after 'Bearer'",
        re.compile(_AUTHORIZATION),
        ("authorization", "bearer"),
        accepts=_is_authorization,
        finder=re.compile("authorization|bearer"),
    ),
    Rule(
        "url-password",
        "user:password@ in addresses",
        re.compile(_URL_PASSWORD),
        ("://",),
        accepts=_is_url_password,
    ),
    Rule(
        ASSIGNED,
        'what a password, token, secret or key is set to: NAME=value, "name": "value"',
        re.compile(_ASSIGNED),
        ("pass", "pwd", "secret", "token", "credential", "key"),
        accepts=_is_assigned,
        finder=re.compile(_KEYWORD_NEAR),
    ),
    Rule(
        "command-secret",
        "what a command is given: --password X, --token X, curl -u USER:X, mysql -pX",
        re.compile(_COMMAND),
        ("--", "-u", "mysql", "mariadb", "sshpass"),
        accepts=_is_given,
        finder=re.compile(_COMMAND_NEAR),
    ),
)


HOME: Final = "home-directory"

_AT_START: Final = (
    r"(?:(?<![\w.~%-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-fA-F]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=-[ILF]))"
)
_FOLDER: Final = r"(?:(?<![\w-])|(?<=\\[nrtbf]))"
_SLASH: Final = r"(?:\\{0,4}/|\\{1,4}|%2[Ff]|%5[Cc])"
_USER: Final = r"(?!(?:Shared|Public|linuxbrew)\b)\w(?:[\w-]|\.(?=\w))*"
_HOME: Final = (
    rf"{_AT_START}(?:{_SLASH}(?:mnt|host_mnt|cygdrive){_SLASH}[a-z]|{_SLASH}(?:var|export|[a-z]))?"
    rf"{_SLASH}(?:home|Users){_SLASH}{_USER}"
    rf"|{_AT_START}[A-Za-z](?::|%3[Aa]){_SLASH}(?:Users|Documents and Settings){_SLASH}"
    rf"""(?:(?!(?:Public|Default)\b)[^\\/:*?"<>|\r\n%]{{1,64}}(?=[\\/])|{_USER})"""
    rf"|{_FOLDER}-(?:home|Users)-[^\W_]++(?=-)"
)

ANY_HOME: Final = Rule(
    HOME,
    "home directories: /home/NAME, /Users/NAME, C:\\Users\\NAME, -Users-NAME-",
    re.compile(_HOME),
    ("home", "users", "documents and settings"),
    stand_in="~",
    finder=re.compile("home|users|documents and settings"),
    reach=30,
)


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
    return Rule(HOME, "", re.compile(pattern), hints, _starts_well, "~")


def _any_of(texts: Iterable[str]) -> str:
    return "|".join(map(re.escape, texts))


def _starts_well(match: re.Match[str]) -> bool:
    start = re.compile(_FOLDER if match[0].startswith("-") else _AT_START)
    return start.match(match.string, match.start()) is not None


def homes_in(path: str) -> list[str]:
    """The home directories that a path is in."""
    found = re.match(rf"/(?:home|Users)/{_USER}", path)
    return [found[0]] if found else []


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
    Rule(
        "private-key",
        "PEM and PGP private keys, also incomplete ones and ones with \\n instead of line ends",
        re.compile(_PRIVATE_KEY),
        ("private key",),
        accepts=_has_key,
    ),
    Rule("anthropic-key", "Anthropic API keys", re.compile(r"sk-ant-[\w-]{16,}+"), ("sk-ant-",)),
    Rule(
        "openai-key",
        "OpenAI API keys, and those of others in their style",
        re.compile(r"sk-(?:proj|svcacct|admin|or-v1|lf)-[\w-]{16,}+|sk-[A-Za-z0-9]{32,}+"),
        ("sk-",),
    ),
    Rule(
        "github-token",
        "GitHub tokens",
        re.compile(r"gh[pousr]_[A-Za-z0-9]{36,}+|github_pat_\w{22,}+"),
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    ),
    Rule("gitlab-token", "GitLab tokens", re.compile(r"glpat-[\w-]{20,}+"), ("glpat-",)),
    Rule(
        "aws-access-key",
        "AWS access key ids",
        re.compile(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}+"),
        ("akia", "asia", "abia", "acca"),
    ),
    Rule(
        "aws-secret-key",
        "AWS secret keys, where they are named so",
        re.compile(
            rf"(?i:secret[_-]?access[_-]?key|aws[_-]?secret[_-]?key)(?:{QUOTE})?\]?[ \t]{{0,8}}"
            rf"(?:=>|[:=])[ \t]{{0,8}}(?:{QUOTE})?(?P<secret>[A-Za-z0-9/+]{{40}})(?![A-Za-z0-9/+])"
        ),
        ("secret",),
        finder=re.compile("secret[_-]?(?:access[_-]?)?key"),
        reach=4,
    ),
    Rule(
        "google-key",
        "Google API keys, OAuth secrets and tokens",
        re.compile(r"AIza[\w-]{35,}+|GOCSPX-[\w-]{28}|ya29\.[\w-]{20,}+"),
        ("aiza", "gocspx-", "ya29."),
    ),
    Rule(
        "slack-token",
        "Slack tokens and webhooks",
        re.compile(
            r"xox[a-z]-[A-Za-z0-9-]{10,}+|xapp-[A-Za-z0-9-]{20,}+"
            r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{20,}+"
        ),
        ("xox", "xapp-", "hooks.slack.com"),
    ),
    Rule(
        "stripe-key",
        "Stripe secret keys",
        re.compile(r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+|whsec_[A-Za-z0-9+/=]{24,}+"),
        ("k_live_", "k_test_", "whsec_"),
    ),
    Rule("npm-token", "npm tokens", re.compile(r"npm_[A-Za-z0-9]{36,}+"), ("npm_",)),
    Rule("pypi-token", "PyPI tokens", re.compile(r"pypi-AgE[\w-]{32,}+"), ("pypi-age",)),
    Rule("huggingface-token", "Hugging Face tokens", re.compile(r"hf_[A-Za-z0-9]{30,}+"), ("hf_",)),
    Rule("jwt", "JSON web tokens", re.compile(_JWT), ("eyj",)),
    *CREDENTIALS,
    Rule(
        "email",
        "e-mail addresses",
        re.compile(_EMAIL),
        ("@", "%40"),
        finder=re.compile(r"(?:@(?<=[\w.+-]@)|%40(?<=[\w.+-]%40))(?=[\w-]{1,63}\.\w)"),
        reach=254,
        within=re.compile(r"[\w.+-]"),
    ),
    ANY_HOME,
)


def read_rules(text: str, file: str) -> tuple[Rule, ...]:
    """A user's own rules, followed by the built-in ones.

    The text is TOML, one rule a line: `name = 'regular expression'`. A rule with the name of a
    built-in one replaces it. What is not valid is a UsageError that names the file.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(
            f"{file} is not TOML: {error}; write one rule a line, such as staff-id = 'S-[0-9]{{6}}'"
        ) from error
    own = tuple(_own_rule(name, pattern, file) for name, pattern in given.items())
    return own + tuple(rule for rule in RULES if rule.name not in given)


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
    except re.error as error:
        raise UsageError(f"{file}: rule {name!r} is not a regular expression: {error}") from error
    if compiled.fullmatch(""):
        raise UsageError(f"{file}: rule {name!r} matches empty text; make it match some text")
    return Rule(name, f"from {file}", compiled)
