r"""Credentials that are known by their context, not by their look.

The value of a password, an argument of a command, the text after `Bearer`. Further checks keep
code that only handles a secret (`password = get_password()`) readable.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from sessiontree.redact.commands import COMMANDS
from sessiontree.redact.rule import QUOTE, Rule, is_varied, looks_random
from sessiontree.redact.values import (
    DOTTED,
    KEYWORD,
    KEYWORD_NEAR,
    PLACEHOLDER,
    TOKENS,
    VALUE,
    is_no_identifier,
    is_secret_value,
    keyword_of,
)

ASSIGNED: Final = "assigned-secret"

_ANNOTATION: Final = r"(?>(?::[ \t]{0,8}[A-Za-z][A-Za-z_.|<>\[\]]{0,40}(?=[ \t]{0,8}=[^=]))?)"
_BARE_VALUE: Final = r"[^\s\"'`\\,;&<>(){}\[\]|]+"
_ASSIGNED: Final = (
    rf"(?P<name>{KEYWORD})(?:{QUOTE})?\]?{_ANNOTATION}[ \t]{{0,8}}"
    r"(?:=>|:=|=(?!=)|:(?!:))[ \t]{0,8}(?:(?:[bru]{1,2}|@)(?=[\"']))?"
    r"""(?:(?P<quote>\\{0,8}["'`])(?P<secret>(?:(?!(?P=quote))(?:\\.|[^\r\n\\]))*+)"""
    rf"|(?P<secret_bare>{_BARE_VALUE}))"
)


def _is_assigned(match: re.Match[str]) -> bool:
    name, value = match["name"], match["secret"]
    if value is not None:
        return is_secret_value(name, value)
    value = match["secret_bare"].rstrip(".")
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    if match.string[match.end() : match.end() + 1] in ("(", "[", "{"):
        return False
    if value.startswith(("/", "./", "../", "~", "@", "$", "http://", "https://", "arn:")):
        return False
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
_NEAR: Final = 600  # characters before a setting in which its section is looked for
_CODE: Final = re.compile(r"[a-z]+(?:[A-Z][a-z]*)+|(?i:.*(?:pass|secret|token|cred|hash|key).*)")


def _is_a_setting(match: re.Match[str]) -> bool:
    """Whether a value of letters alone is one of a configuration file, and not of code or prose.

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
        near = string[max(match.start() - _NEAR, 0) : match.start()]
        return _SECTION.search(near) is not None
    return True


_BEFORE_ARGUMENT: Final = re.compile(
    r"(?:(?<![\w-])--[\w.=-]{0,40}|[ \t]--?(?:set|env|build-arg|from-literal|e"
    r"|D)[ \t=]?[\w.=-]{0,40}"
    r"|(?:[?&;'\"]|amp;|u0026)[\w-]{0,40})$"
)


def _is_argument(match: re.Match[str]) -> bool:
    before = match.string[max(match.start() - 40, 0) : match.start()]
    return _BEFORE_ARGUMENT.search(before) is not None


# Headers

_AUTHORIZATION: Final = (
    rf"(?i:(?:authorization(?:{QUOTE})?[ \t]*+(?:[:=]|,)[ \t]*+(?:{QUOTE})?"
    r"(?:(?P<scheme>bearer|basic|token|digest|apikey|api-key|bot|ssws|geniekey|negotiate|key"
    r"|aws4-hmac-sha256|splunk|sso-key|zoho-oauthtoken)[ \t:]++)?"
    r"|(?P<alone>bearer|basic)[ \t]++))"
    r"""(?P<secret>[^\s"'`\\,;<>{}()\[\]$]{8,}+)"""
)


def _is_authorization(match: re.Match[str]) -> bool:
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
    """Whether a value is `user:password` in base64."""
    bare = value.rstrip("=")
    try:
        return b":" in base64.b64decode(bare + "=" * (-len(bare) % 4))
    except ValueError:
        return False


_COOKIE: Final = (
    rf"(?i:(?:set-)?cookie2?(?:{QUOTE})?[ \t]{{0,8}}(?:[:=]|,)[ \t]{{0,8}}(?:{QUOTE})?"
    rf"|(?<![\w-])(?:-b|--cookie)(?:[ \t]{{1,8}}|=)(?:{QUOTE})?)"
    r"(?P<secret>[\w.$!%*+^|~-]{1,64}=[^\s;\"'`\\<>]{1,8192}+(?:;[ \t]?[\w.$!%*+^|~-]{1,64}"
    r"(?:=[^\s;\"'`\\<>]{0,4096})?){0,64})"
)
_COOKIE_VALUE: Final = re.compile(r"=([^;]{6,})")


def _is_cookie(match: re.Match[str]) -> bool:
    """Whether some value of a cookie looks like a session, not like a preference."""
    for value in _COOKIE_VALUE.findall(match["secret"][:8192]):
        is_long = len(value) >= 16 or any(c.isdigit() for c in value)
        if is_long and is_varied(value) and not PLACEHOLDER.fullmatch(value):
            return True
    return False


_SIGNED: Final = (
    r"(?:(?<![A-Za-z0-9])|(?<=u0026)|(?<=%26)|(?<=\\n))"
    r"(?:X-Amz-(?:Signature|Security-Token)|X-Goog-Signature|X-Oss-Signature|x-cos-security-token"
    r"|Signature|sig(?:nature)?|hmac|hdnea|hdnts|q-signature|oauth_signature|SharedAccessSignature)"
    r"(?:=|%3[Dd])(?P<secret>[A-Za-z0-9%+/=._~*-]{16,}+)"
)


def _is_signature(match: re.Match[str]) -> bool:
    value = match["secret"]
    before = match.string[max(match.start() - 1, 0) : match.start()]
    is_part = before in ("?", "&", ";", ",", " ", "6") and before != ""
    return is_part and is_varied(value) and any(c.isdigit() for c in value)


# Addresses

_HOST: Final = (
    r"(?=(?:[\w-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![\w@])|localhost\b|\d{1,3}(?:\.\d{1,3}){3}|\["
    r"|[\w.-]{1,253}:\d{1,5}(?![\w@]))"
)
# A password may hold `/`, `?`, `#` and `@`: then it ends where a whole host follows. What begins
# as a port does not count.
_URL_PASSWORD: Final = (
    r"""://(?:(?P<secret_wide>[^\s/:@"'`<>\\${\[]{0,100}:(?!\d{1,5}[/?#])"""
    rf"""(?P<wide>[^\s"'`<>\\]{{1,256}}?))@{_HOST}"""
    r"""|(?P<secret>[^\s/:@"'`<>\\${]{0,100}:(?P<password>[^\s/?#"'`<>\\]{1,256}))@"""
    r"|(?P<secret_alone>[\w-]{20,}+)(?=@))"
)


def _is_url_password(match: re.Match[str]) -> bool:
    if match["secret_alone"] is not None:
        return any(c.isdigit() for c in match["secret_alone"])
    return not PLACEHOLDER.fullmatch(match["password"] or match["wide"])


# Documents

_NETRC: Final = (
    r"(?:(?<!\w)|(?<=\\n))(?:machine\s{1,40}[^\s\"']{1,255}|default)\s{1,40}(?:"
    r"(?:(?:login|account)\s{1,40}\S{1,255}\s{1,40}){1,2}password\s{1,40}"
    r"(?P<secret>[^\s\"'\\]{3,256})"
    r"|password\s{1,40}(?P<secret_first>[^\s\"'\\]{3,256})\s{1,40}(?:login|account)\s)"
)
_MARKUP: Final = (
    r"<(?:[\w-]{1,40}:)?(?P<element>[\w.-]{0,60}(?:[Pp]ass(?:word|wd|phrase|code)?|PASSWORD|PASS"
    r"|[Pp]wd|[Ss]ecret"
    r"|[Tt]oken|[Aa]pi[_-]?[Kk]ey|[Aa]ccess[_-]?[Kk]ey|[Pp]rivate[_-]?[Kk]ey"
    r"|[Cc]redentials?)[\w]{0,12})(?:\s[^<>]{0,200})?>"
    r"(?:\s{0,40}<(?:value|string)>)?\s{0,40}(?:<!\[CDATA\[)?(?P<secret>[^<>\s]{4,512})"
    r"|<[\w.:-]{1,60}\s[^<>]{0,200}?(?:key|name|id|property)=[\"'](?P<named>[^\"'<>]{1,100})[\"']"
    r"(?:"
    r"[^<>]{0,100}?\svalue=[\"'](?P<secret_attribute>[^\"'<>]{4,512})[\"']"
    r"|[^<>]{0,100}>(?:\s{0,40}<value>)?\s{0,40}(?P<secret_text>[^<>\s]{4,512}))"
    r"|<key>(?P<plist>[^<>]{1,100})</key>\s{0,40}<string>(?P<secret_plist>[^<>]{4,512})"
)


def _is_of_netrc(match: re.Match[str]) -> bool:
    return not PLACEHOLDER.fullmatch(match["secret"] or match["secret_first"])


def _is_markup(match: re.Match[str]) -> bool:
    name = match["element"] or match["named"] or match["plist"]
    value = next(
        text for key, text in match.groupdict().items() if key.startswith("secret") and text
    )
    if PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value) or "{" in value:
        return False
    if match["element"] is not None:
        return is_no_identifier(value) and (not value.istitle() or not value.isalpha())
    keyword = keyword_of(name)
    return keyword is not None and is_secret_value(keyword, value)


_MANIFEST: Final = (
    r"(?m:^[ \t]{1,16}[\w.-]{1,253}:[ \t]{1,8}(?:[\"'])?"
    r"(?P<secret>[A-Za-z0-9+/]{8,}+={0,2})(?:[\"'])?[ \t]{0,8}$)"
)


def _is_in_manifest(match: re.Match[str]) -> bool:
    """Whether a line is below `data:` of a Kubernetes secret."""
    near = match.string[max(match.start() - 3000, 0) : match.start()]
    document = re.split(r"(?m)^---", near)[-1]
    at = document.rfind("\ndata:")
    if at < 0 or re.search(r"\n\w", document[at + 1 :]) is not None:
        return False
    behind = match.string[match.end() : match.end() + 1000]
    about = document + re.split(r"(?m)^---", behind)[0]
    return re.search(r"(?m)^kind:[ \t]*[\"']?Secret\b", about) is not None


_CONTAINER_AUTH: Final = (
    rf"(?:{QUOTE})(?:auth|identitytoken|registrytoken)(?:{QUOTE})[ \t]{{0,8}}:\s{{0,8}}(?:{QUOTE})"
    rf"(?P<secret>[A-Za-z0-9+/=_.-]{{8,}}+)"
    r"|_auth[ \t]{0,4}=[ \t]{0,4}[\"']?(?P<secret_npm>[A-Za-z0-9+/=]{8,}+)"
)


def _is_container_auth(match: re.Match[str]) -> bool:
    value = match["secret"] or match["secret_npm"]
    return is_varied(value) and (_is_basic(value) or len(value) >= 40)


_CONNECTION: Final = (
    r"(?:(?<![A-Za-z])|(?<=\\n))(?:AccountKey|SharedAccessKey|SharedSecretValue|AccessKey"
    r"|InstrumentationKey|Pwd|pwd|PWD)"
    r"[ ]?=[ ]?(?P<secret>[^\s;\"'`\\<>{}$]{4,512})"
)


def _is_connection(match: re.Match[str]) -> bool:
    around = match.string[max(match.start() - 200, 0) : match.end() + 200]
    value = match["secret"]
    return ";" in around and not PLACEHOLDER.fullmatch(value) and not value.startswith("os.")


_PHRASE: Final = (
    r"(?i:mnemonic|seed[ _-]?phrase|recovery[ _-]?phrase|seed[ _-]?words)(?:[\"'`])?[ \t]{0,8}"
    r"(?:is[ \t]{1,4})?[:=]?[ \t]{0,8}(?:[\"'`])?"
    r"(?P<secret>[a-z]{3,8}(?:[ ,][ ]?[a-z]{3,8}){11,23})(?![ ]?[a-z])"
)

_WIREGUARD: Final = (
    r"(?:PrivateKey|PresharedKey)[ \t]{0,8}=[ \t]{0,8}(?P<secret>[A-Za-z0-9+/]{42,43}=)"
)

_NAMED: Final = (
    rf"(?P<name>{KEYWORD})(?:"
    # ENV NAME X, set -x NAME X, setenv NAME X, aws configure set NAME X
    rf"[ \t]{{1,8}}(?!(?:is|was|equals|ist|est|es)\b)(?P<secret_set>{VALUE})"
    # define('NAME', 'X'), setProperty("NAME", "X"), password 'X'
    rf"|{QUOTE}[ \t]{{0,4}},[ \t]{{0,4}}(?P<quote>{QUOTE})(?P<secret_pair>[^\r\n\"'`]{{4,256}})"
    rf"(?P=quote)"
    rf"|[ \t]{{1,4}}(?P<quoted>[\"'])(?P<secret_quoted>[^\r\n\"'`]{{4,256}})(?P=quoted)"
    # the password is X, my key is X
    rf"|[ \t]{{1,4}}(?:is|was|equals|=>|ist|est|es)[ \t]{{1,4}}(?:{QUOTE})?"
    rf"(?P<secret_said>{VALUE})"
    r")"
    rf"|(?i:convertto-?securestring)[ \t]{{1,4}}(?:-String[ \t]{{1,4}})?[\"']"
    rf"(?P<secret_secure>[^\r\n\"'`$]{{4,256}})[\"']"
    r"|(?i:auth[ \t]{0,2}=[ \t]{0,2}"
    r"|basicauth)\([ \t]{0,4}[\"'][^\"'\r\n]{1,100}[\"'][ \t]{0,2},[ \t]{0,4}"
    r"[\"'](?P<secret_tuple>[^\"'\r\n]{4,256})[\"']"
)
_SETS: Final = re.compile(
    r"(?:(?:^|[\r\n;&])[ \t]{0,16}(?:ENV|ARG|setenv|set(?:[ \t]-{1,2}[\w-]{1,10}){1,3}|setx)"
    r"|configure[ \t]set|config[ \t]set|secrets?[ \t]set|secrets:set)[ \t]{1,4}[\w.:/-]{0,64}$"
)


def _is_named(match: re.Match[str]) -> bool:
    groups = {name: text for name, text in match.groupdict().items() if text}
    kind, value = next((n, text) for n, text in groups.items() if n.startswith("secret"))
    name = match["name"]
    if name is None:
        return is_secret_value("password", value)
    if kind == "secret_set":
        before = match.string[max(match.start() - 100, 0) : match.start()]
        return _SETS.search(before) is not None and is_secret_value(name, value)
    if kind == "secret_said":
        value = value.rstrip(".,;:!?")
        digits = any(c.isdigit() for c in value) and len(value) >= 6
        return digits and not value.isdigit() and is_secret_value(name, value)
    if kind == "secret_quoted":
        digits = any(c.isdigit() for c in value)
        is_line = _AFTER_SETTING.match(match.string, match.end()) is not None
        return (digits or is_line) and " " not in value and is_secret_value(name, value)
    return _is_call(match) and " " not in value and is_secret_value(name, value)


def _is_call(match: re.Match[str]) -> bool:
    """Whether the name and the value are the two arguments of a call, and not words of a list."""
    before = match.string[max(match.start() - 80, 0) : match.start()]
    behind = match.string[match.end() : match.end() + 8].lstrip()
    return re.search(r"\w\([ \t]{0,8}[\"'][\w.:-]{0,64}$", before) is not None and behind[:1] == ")"


CREDENTIALS: Final = (
    Rule(
        "authorization",
        "Authorization headers, and the text after 'Bearer'",
        re.compile(_AUTHORIZATION),
        ("authorization", "bearer", "basic"),
        accepts=_is_authorization,
        finder=re.compile("authorization|bearer|basic"),
    ),
    Rule(
        "cookie",
        "Cookie and Set-Cookie headers",
        re.compile(_COOKIE),
        ("cookie", "-b"),
        accepts=_is_cookie,
        finder=re.compile(r"cookie|-(?:b(?=[ \t])|-cookie)"),
    ),
    Rule(
        "signed-address",
        "signatures of addresses that give access: presigned, SAS",
        re.compile(_SIGNED),
        ("sig", "security-token", "hmac", "hdn"),
        accepts=_is_signature,
        finder=re.compile(
            r"x-(?:amz|goog|oss)-s|x-cos-s|q-sig|oauth_sig|sig(?:nature)?(?:=|%3d)|hmac(?:=|%3d)"
            r"|hdn(?:ea|ts)="
            r"|sharedaccesssignature"
        ),
    ),
    Rule(
        "url-password",
        "user:password@ in addresses",
        re.compile(_URL_PASSWORD),
        ("://",),
        accepts=_is_url_password,
    ),
    Rule(
        "registry-auth",
        "credentials of registries: docker's auth, npm's _auth",
        re.compile(_CONTAINER_AUTH),
        ("auth", "identitytoken", "registrytoken"),
        accepts=_is_container_auth,
        finder=re.compile(rf"auth(?:(?={QUOTE})|(?<=_auth))|(?:identity|registry)token(?={QUOTE})"),
        reach=9,
        within=re.compile(r"[\\\"'`_]*+"),
    ),
    Rule(
        "netrc",
        "passwords of .netrc",
        re.compile(_NETRC),
        ("machine", "default"),
        finder=re.compile(r"machine(?=\s)|default(?=\s)"),
        accepts=_is_of_netrc,
    ),
    Rule(
        "connection-key",
        "keys and passwords of connection strings",
        re.compile(_CONNECTION),
        ("key", "pwd", "secretvalue"),
        accepts=_is_connection,
        finder=re.compile(
            "accountkey|sharedaccesskey|sharedsecretvalue|accesskey|instrumentationkey|pwd"
        ),
    ),
    Rule(
        "markup-secret",
        "values of XML elements and attributes that are named as secrets",
        re.compile(_MARKUP),
        ("pass", "pwd", "secret", "token", "key", "credential"),
        accepts=_is_markup,
        finder=re.compile(r"<(?=[a-z])"),
    ),
    Rule(
        "kubernetes-secret",
        "values of Kubernetes secrets",
        re.compile(_MANIFEST),
        ("kind: secret", 'kind: "secret'),
        accepts=_is_in_manifest,
        finder=re.compile(r"(?m)^[ \t]{1,16}[\w.-]{1,253}:[ \t]{1,8}(?=[\"']?[a-z0-9+/]{8})"),
    ),
    Rule(
        "wireguard-key",
        "WireGuard keys",
        re.compile(_WIREGUARD),
        ("privatekey", "presharedkey"),
    ),
    Rule(
        "seed-phrase",
        "seed phrases of wallets",
        re.compile(_PHRASE),
        ("mnemonic", "seed", "recovery"),
        finder=re.compile("mnemonic|seed[ _-]?phrase|recovery[ _-]?phrase|seed[ _-]?words"),
    ),
    Rule(
        ASSIGNED,
        'what a password, token, secret or key is set to: NAME=value, "name": "value"',
        re.compile(_ASSIGNED),
        (
            *("pass", "pwd", "secret", "token", "credential", "key", "kennwort", "senha", "pw"),
            *("contrase", "motdepasse", "connection", "pat", "cred", "auth", "psw", "psk", "jwt"),
        ),
        accepts=_is_assigned,
        finder=re.compile(KEYWORD_NEAR),
    ),
    *COMMANDS,
    Rule(
        "named-secret",
        "what a statement sets a password or key to: ENV NAME X, define('NAME', 'X'), auth="
        "(USER, X)",
        re.compile(_NAMED),
        ("pass", "secret", "token", "key", "pwd", "auth", "credential", "securestring"),
        accepts=_is_named,
        finder=re.compile(
            rf"(?:{KEYWORD_NEAR}|converttosecurestring|convertto-securestring|basicauth)"
        ),
    ),
    Rule(
        "pgpass",
        "lines of .pgpass",
        re.compile(
            r"(?m:^[\w.*-]{1,253}:(?:[0-9]{1,5}|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:"
            r"(?P<secret>[^\s:/\"'`]{4,256})$)"
        ),
        (":",),
        accepts=lambda match: not match["secret"].isdigit() and is_varied(match["secret"], 3),
        finder=re.compile(r"(?m)^[\w.*-]{1,253}:(?:[0-9]{1,5}|\*):[\w.*-]{1,64}:[\w.*-]{1,64}:"),
    ),
    Rule(
        "ethereum-key",
        "private keys as 64 hexadecimal digits that are named so",
        re.compile(
            r"(?i:priv(?:ate)?[_ -]?key|secret[_ -]?key|pk)[\"'\s:=]{1,6}"
            r"(?P<secret>0x[0-9a-fA-F]{64})"
        ),
        ("0x",),
        finder=re.compile(r"(?:priv(?:ate)?[_ -]?key|secret[_ -]?key|pk)(?=[\"'\s:=]{1,6}0x)"),
    ),
)
