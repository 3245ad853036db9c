"""Secrets known by what is around them: headers, addresses, assignments, arguments of commands.

Further checks keep code that only handles a secret (`password = get_password()`) readable. The
options of commands are from their manuals.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sessiontree.redact.rule import QUOTE, Rule, any_of, is_varied, looks_random
from sessiontree.redact.tables import TABLES
from sessiontree.redact.values import (
    CODE_HINTS,
    CODE_KEYWORD,
    CODE_NEAR,
    COOKIE_KEYWORD,
    DOTTED,
    FOREIGN_HINTS,
    FOREIGN_KEYWORD,
    KEYWORD,
    KEYWORD_NEAR,
    KINDS_OF_KEY,
    OTHER_HINTS,
    OTHER_KEYWORD,
    OTHER_NEAR,
    PLACEHOLDER,
    SNAKE,
    TOKENS,
    VALUE,
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


def _before(match: re.Match[str], count: int) -> str:
    """The text before a match."""
    return match.string[max(match.start() - count, 0) : match.start()]


def _behind(match: re.Match[str], count: int) -> str:
    """The text behind a match."""
    return match.string[match.end() : match.end() + count]


def _secret_of(match: re.Match[str]) -> tuple[str, str]:
    """The group of a match that is the secret, and its text."""
    groups = match.groupdict().items()
    return next((n, text) for n, text in groups if text is not None and n.startswith("secret"))


COMMAND: Final = "command-secret"
LOGIN: Final = "login-secret"

_GAP: Final = rf"(?:[ \t]{{1,8}}|{QUOTE}[ \t]{{0,4}},\s{{0,40}}(?={QUOTE}))"
_QUOTED: Final = (
    r"""(?P<quoteN>\\{0,8}["'`])"""
    r"""(?P<secret_N>(?:(?!(?P=quoteN))(?:\\.|[^\r\n\\])){0,256})(?P=quoteN)"""
)


def _given(name: str, value: str = VALUE) -> str:
    """The expression for a value in quotes or bare, in groups that end in the name."""
    quoted = _QUOTED.replace("secret_N", f"secret_quoted_{name}").replace("quoteN", f"quote_{name}")
    return rf"(?:{quoted}|(?:{QUOTE})?(?P<secret_{name}>{value}))"


_LOGIN_TABLE: Final = r"""
(?:docker|podman|buildah|nerdctl|skopeo|helm registry|oras|crane auth|az|oc|cf|npm|yarn|glab|cqlsh
    |sqlplus|flyctl|snyk|balena|ibmcloud)(?: [\w-]{1,20}){0,2} login<-p|t|a>
(?:redis-cli|redis-benchmark|valkey-cli|keydb-cli)<-a>
(?:sqlcmd|bcp|isql|tsql|mosquitto_pub|mosquitto_sub|ipmitool|zip|unzip|osql|smbpasswd)<-P>
(?:ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd|dsmod)<-w>
(?:mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|mongotop|cqlsh|sshpass|rdesktop
    |evil-winrm|crackmapexec|netexec|nxc|snowsql|rabbitmqadmin|freerdp|arangosh|cypher-shell
    |clickhouse-client|influx|useradd|usermod|winrs|psexec|hydra|mysqlsh)<-p>
(?:http|https|httpie|xh)<-a>
(?:doctl auth init|heroku auth|railway login|vault login|op signin|tailscale up|ngrok config)<-t>
openssl…-pass(?:in|out)?<gap><quote>pass:<value>
(?:7z|7za|7zr|rar|unrar)…-h?p<name>
(?:keytool|jarsigner|apksigner)…-(?:store|key|(?:dest|src)(?:store|key))pass<gap><value>
rabbitmqctl (?:add_user|change_password) [\w.@-]{1,64} <value>
htpasswd -[a-zA-Z]*b[a-zA-Z]* (?:-[\w]{1,8} ){0,4}[^\s-]\S{0,200} [\w.@-]{1,64} <value>
echo (?:-[ne]{1,2} )?<quote>(?P<secret_piped>[^\s\"'`|$]{4,256})<quote>[ \t]{0,8}\|[ \t]{0,8}
    (?:sudo -S|(?:sudo )?(?:passwd|chpasswd|docker login|podman login|gh auth|kinit|cryptsetup))
(?:smbclient|smbget|rpcclient|net rpc)…-U<gap><quote>[^\s%\"'`]{1,64}%<bare>
(?:freerdp|xfreerdp)\w{0,4}…/p:<value>
lftp…-u<gap><quote>[\w.@-]{1,64},<bare>
(?:requirepass|masterauth|snyk auth) <value>
ssh-keygen…-[NP] <value>
wpa_passphrase \S{1,32} <value>
snmp\w{3,10}…-[AXc] <value>
(?i:net) user [\w.-]{1,64} (?P<secret_net>[^\s\"'`/*<$]{4,128})(?= /)
vault login (?!-)(?P<secret_vault>[^\s\"'`=$<]{8,256})
(?:cryptsetup|passwd|kinit|sudo|docker|podman|gh)[ \t][^\r\n;|]{0,200}?<<<[ \t]{0,4}<value>
ngrok (?:config add-authtoken|authtoken) <value>
mc alias set (?:\S{1,200} ){3}<value>
(?:composer|bundle) config[ \t][^\r\n;|]{0,200}?
    (?:http-basic\.\S{1,200} \S{1,64} |[\w.@-]{1,64}:(?!//))<value>
(?:sqlplus|impdp|expdp|rman|sqlldr|conn)[ \t][^\r\n;|]{0,100}?
    (?<![\w/])[\w$#]{1,40}/(?P<secret_oracle>[^\s/@\"'`$<]{3,64})@
"""
"""Commands that a password or token is given, from their manuals: an expression a row.

A blank is one or more, `…` is other arguments, `<-p>` is an option and its value, and `<name>` is a
value that no name is like. A line that begins with blanks continues the one above."""

_LOGIN_ROWS: Final = re.sub(r"\n +", "", _LOGIN_TABLE.strip()).split("\n")
_FIRST_WORDS: Final = re.compile(r"\(\?i?:([^()]+)\)|([\w-]+)")


def _login_expression(row: str, number: int) -> str:
    """Return the regular expression of a row."""
    row = re.sub(r" (?!\\t)", r"[ \\t]{1,8}", row)
    row = re.sub("<-([^<>]+)>", r"…-(?:\1)(?:<gap>|=|(?=<q>))<user><value>", row)
    for sign, expression in (
        ("…", r"[ \t][^\r\n;|]{0,200}?(?<=[ \t])"),
        ("<gap>", _GAP),
        ("<q>", QUOTE),
        ("<user>", r"(?:[^\s:/\"'`\\=,-]{1,64}:)?"),
        ("<quote>", f"(?:{QUOTE})?"),
        ("<value>", _given(f"login{number}")),
        ("<name>", _given("archive")),
        ("<bare>", f"(?P<secret_login{number}>{VALUE})"),
    ):
        row = row.replace(sign, expression)
    return row


_LOGINS: Final = "|".join(_login_expression(row, i) for i, row in enumerate(_LOGIN_ROWS))
_SQL: Final = (
    r"(?i:identified[ \t]{1,8}(?:with[ \t]{1,8}[\w'`\"]{1,64}[ \t]{1,8})?(?:by|as)[ \t]{1,8}"
    r"(?:password[ \t]{1,8})?"
    r"|(?:user|role|login)[ \t]{1,8}[^\r\n;]{1,200}?[ \t(]password[ \t]{0,8}=?[ \t]{0,8}"
    r"|password[ \t]{0,4}\()(?P<quote_sql>\\{0,8}['\"])(?P<secret_quoted_sql>(?:(?!"
    r"(?P=quote_sql))[^\r\n]){1,256})(?P=quote_sql)"
)
_COMMAND: Final = (
    r"-{1,2}(?:[a-z0-9]{1,20}-){0,4}(?P<flag>pass(?:word|wd|phrase|code)?|pwd|token|secret"
    r"|auth-token|otp"
    rf"|authtoken|pat|credentials?|(?:(?:{'|'.join(KINDS_OF_KEY)})-?)key){_GAP}{_given('flag')}"
    rf"|-(?:u|-user|-proxy-user)(?:{_GAP}|=)(?:{QUOTE})?"
    rf"""(?P<user>[^\s:/"'`\\=,]{{1,64}}):(?P<secret_of_user>{VALUE})"""
    r"|(?:mysql\w{0,12}|mariadb(?:-\w{1,12})?)[ \t][^\r\n;|&]{0,120}?(?<=[ \t])-p(?:\\{0,8}[\"'])?"
    rf"(?P<secret_of_mysql>{VALUE})"
    rf"|sshpass[ \t]{{1,8}}-p[ \t]{{0,8}}{_given('sshpass')}"
)
_COMMAND_NEAR: Final = "|".join(  # the literal first: its search is faster
    rf"{word}(?:(?<![\w-]{word})|(?<=\\[nrt]{word})){behind}"
    for word, behind in (
        *(("--", "(?=[a-z])"), ("-", "(?=pass|pwd|token|secret|api-?key)")),
        ("-u", r"(?![\w-])"),
        *((word, "") for word in ("mysql", "mariadb", "sshpass")),
    )
)
_AT_START: Final = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
_LOGIN: Final = rf"(?:{_AT_START}|(?<=\\)[nrt])(?:{_LOGINS}|{_SQL})"
_OF_SQL: Final = {"identified", "user", "role", "login", "password"}
_NAMES: Final = _OF_SQL | {
    words.split()[0]
    for row in _LOGIN_ROWS
    if (found := _FIRST_WORDS.match(row))
    for words in (found[1] or found[2]).split("|")
}
_NAME: Final = (
    rf"(?:{any_of(sorted(_NAMES), longest=True)}|xfreerdp\w{{0,4}}|snmp\w{{3,10}})(?=[ \t(])"
)


def _is_given(match: re.Match[str]) -> bool:
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
    """Return the part of a command before one of its options."""
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

# Commands that set a secret, and logins with a token as their argument

_S: Final = rf"(?:[ \t:]{{1,2}}|{QUOTE},\s{{0,8}}{QUOTE})"  # between words, also of a list
_HEAD: Final = re.compile(
    r"(?<![\w.-])(?:(?P<secret>"
    rf"(?P<pair>(?:user-)?secrets?{_S}(?:set|put|write)|kv{_S}put)"
    rf"|(?P<put>credstash{_S}put|chamber{_S}write|config{_S}set{_S}--secret)"
    rf"|secrets?{_S}(?:create(?:{_S}generic)?|add|update|new|versions?{_S}(?:add|create))"
    rf"|create{_S}secret{_S}generic|create-secret|put-secret-value|update-secret|store-secret|pass{_S}insert"
    rf"|put-parameter(?=[^\r\n]{{1,300}}SecureString)|add-(?:generic|internet)-password"
    rf"|(?P<alone>encrypt_string))"
    rf"|env{_S}(?:set|add|put|create)|config{_S}set|set-env|setenv|variables?{_S}(?:--)?(?:set|create)"
    rf"|vars?{_S}set|vault{_S}write"
    rf"|(?<=[ \t\"'])(?:(?P<login>login|auth|authenticate|authtoken|setapikey)"
    rf"|setup|configure|config))"
    r"(?![\w-])"
)
_HEADS: Final = """
    secret user-secret kv create put- update-secret store-secret pass add-generic add-internet
    encrypt_string credstash chamber config env set-env setenv variable var vault login auth setup
    setapikey
"""
_HEAD_NEAR: Final = re.compile(any_of(_HEADS.split()))  # to search for these first is faster
_ARGUMENT: Final = re.compile(
    rf"(?:{QUOTE})?(?:(?:[ \t]|\\\r?\n){{1,64}}|,\s{{0,20}}(?={QUOTE}))"
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
_PIPED: Final = re.compile(
    rf"(?:echo|printf)[ \t]{{1,8}}(?:-[neE]{{1,2}}[ \t]{{1,8}})?"
    rf"(?:{QUOTE}%s(?:\\n)?{QUOTE}[ \t]{{1,8}})?"
    rf"(?:(?P<quote>{QUOTE})(?P<quoted>(?:(?!(?P=quote))[^\r\n]){{4,256}})(?P=quote)"
    r"|(?P<bare>[^\s\"'`|$]{4,256}))[ \t]{0,8}\|[^|\r\n;]{0,60}$"
)
_FED: Final = re.compile(
    rf"(?:{QUOTE})?[ \t]{{0,8}}(?:<<<|<[ \t]?<\((?:echo|printf))[ \t]{{0,8}}(?:{QUOTE})?"
    r"(?P<bare>[^\s\"'`$()]{4,256})"
)
_MOST_ARGUMENTS: Final = 24


class _CommandArgument(NamedTuple):
    """An argument of a command."""

    start: int
    end: int
    text: str
    option: str  # the option that it is the value of; "" for none
    name: str  # what it is set to: `NAME=` of the argument itself, or the word before it


def _arguments(text: str, start: int) -> Iterator[_CommandArgument]:
    """The arguments of a command from a place on, without the names of options and settings."""
    option = before = ""
    for _ in range(_MOST_ARGUMENTS):
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


def _set_secrets(text: str) -> Iterator[tuple[int, int]]:
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
    """True if what a command reads is a secret."""
    is_secret = head["secret"] is not None or is_generated(value) or is_password(value)
    return is_secret and _is_set(value.removeprefix("@"))


def _is_set(value: str) -> bool:
    """True if a command sets a secret to a value, and not to that of a variable or file."""
    if len(value) < 4 or PLACEHOLDER.fullmatch(value) or DOTTED.fullmatch(value):
        return False
    return not value.startswith(_NO_SECRETS) and not any(
        sign in value for sign in ("$(", "${", "=$")
    )


COMMANDS: Final = (
    Rule(
        COMMAND,
        "what a command is given: --password X, --token X, curl -u USER:X, mysql -pX",
        re.compile(_COMMAND),
        ("--", "-u", "-p", "-t", "-s", "-a", "mysql", "mariadb", "sshpass"),
        accepts=_is_given,
        finder=re.compile(_COMMAND_NEAR),
    ),
    Rule(
        LOGIN,
        "what a login or a program is given: docker login -p X, redis-cli -a X, IDENTIFIED BY 'X'",
        re.compile(_LOGIN),
        (
            *(" -p", " -a", " -w", " -t ", " -u", " -b ", "pass ", "pass'", 'pass"', "identified"),
            *("password '", "password('", "password = '", "sudo", "chpasswd", "kinit", "/p:"),
            *("vault login", " -hp", "net user", "rabbitmqctl", "authtoken", "cryptsetup"),
            *("gh auth", "<<<", "mc alias", "composer", "bundle config", "sqlplus", "pdp "),
            *("rman target", "sqlldr", "conn ", "login", "passwd", "htpasswd", "wpa_pass", "snmp"),
            *("requirepass", "masterauth", "snyk auth", "ssh-keygen"),
        ),
        accepts=_is_given,
        finder=re.compile(rf"\b(?:(?<=\\)[nrt])?{_NAME}"),  # `\b` first, as it takes least time
    ),
    Rule(
        LOGIN,
        "what a command sets a secret to, or a login is given: gh secret set, wandb login X",
        _HEAD,
        (
            *("secret", "login", "auth", "configure ", "config set", "config:set", "config --"),
            *("env add", "env set", "env:set", "set env", "setenv", "set-env", "variable"),
            *("vars set", "kv put", "vault write", "setapikey", "put-parameter", "-password"),
            *("encrypt_string", "credstash", "chamber", "pass insert", "circleci"),
        ),
        search=_set_secrets,
    ),
)


ASSIGNED: Final = "assigned-secret"

_ANNOTATION: Final = (  # a type, or the second of two variables
    r"(?>(?::[ \t]{0,8}&?[A-Za-z][A-Za-z_.|<>\[\]]{0,40}(?=[ \t]{0,8}=[^=])"
    r"|,[ ](?:_|err|ok)(?=[ ]:=))?)"
)
_BARE_VALUE: Final = r"[^\s\"'`\\,;&<>(){}\[\]|]+"
_QUALIFIED: Final = (  # the password (temporary): X; the password for joe: X
    r"(?>(?:[ \t]{0,2}\([^()\r\n]{1,30}\)"
    r"|[ \t](?:for|of|on|to|für|fuer|von|de|para|pour)[ \t][\w@.-]{1,40}(?=[ \t]{0,4}[:=]))?)"
)
_SAID_VALUE: Final = rf"(?:{QUOTE})?[vV]alue(?:{QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}}"
_BLANK: Final = r"(?:\s|\\{1,4}[nrt])"
_WITHIN: Final = (  # "password": {"type": "string", "value": X}
    rf"(?>(?:\{{{_BLANK}{{0,40}}(?:(?:{QUOTE})?(?![vV]alue|default)\w{{1,24}}(?:{QUOTE})?"
    rf"[ \t]{{0,4}}[:=][ \t]{{0,4}}[^{{}}\r\n,\\]{{1,60}}(?:{QUOTE})?(?:,|{_BLANK})"
    rf"{_BLANK}{{0,40}}){{0,4}}"
    rf"(?:{QUOTE})?(?:[vV]alue|default)(?:{QUOTE})?[ \t]{{0,4}}[:=][ \t]{{0,4}})?)"
)
_CALL: Final = (  # []byte("X"), SecretStr("X"), Buffer.from('X')
    rf"(?>(?P<call>(?:\[\]byte|(?:new[ ])?[A-Za-z_][\w.:]{{0,40}})\((?={QUOTE}))?)"
)
_SIGN: Final = (
    rf"(?:{_ANNOTATION}[ \t]{{0,8}}+(?:=>|:=|->|→|=(?!=)|:(?!:))[ \t]{{0,8}}{_WITHIN}"
    rf"|(?:[ \t]{{0,4}}(?:\\?\n|\r\n|\\{{1,4}}n|,)[ \t]{{0,40}})(?>{_SAID_VALUE})"
    rf"|(?P<fallback>\)?[ \t]{{0,4}}(?:\|\||\?\?|or(?=[ \t]))[ \t]{{0,4}}(?={QUOTE}))"
    rf"|(?=[ \t]\{{{_BLANK})[ \t]{_WITHIN})"
)


def _assigned(keyword: str) -> str:
    """The expression for a name and its value."""
    return (
        rf"(?P<name>(?>{keyword}))(?:{QUOTE})?\]?{_QUALIFIED}{_SIGN}{_CALL}(?:(?:[bru]{{1,2}}|@)(?={QUOTE}))?"
        r"""(?:(?P<quote>\\{0,8}["'`])(?P<secret>(?:(?!(?P=quote))(?:\\.|[^\r\n\\]))*+)"""
        rf"|(?P<secret_bare>{_BARE_VALUE}))"
    )


_IS: Final = r"(?:is|was|are|equals|=>|ist|est|es|lautet|lautete|è|é|to)"


_IS_SAID: Final = re.compile(rf"[ \t]{{1,4}}{_IS}(?![\w-])")


def _assigned_or_said(keyword: str) -> str:
    """The expression for a name, and what is said of it or set: `the PIN is X`, `pin: X`."""
    return (
        rf"{_assigned(keyword)}|(?P<named>(?>{keyword}))(?:{QUOTE}[ \t]{{0,4}},[ \t]{{0,4}}"
        rf"(?P<quote_pair>{QUOTE})(?P<secret_pair>[^\r\n\"'`]{{4,256}})(?P=quote_pair)"
        rf"|(?:[ \t]{{0,4}}(?:是|は)|[ \t]{{1,4}}(?:(?:{_IS}|[a-zä]{{1,4}}):?[ \t]{{1,4}})?)"
        rf"(?:{QUOTE})?"
        r"(?P<secret_said>[!#-&(-_a-~]{4,128}))"
    )


_COOKIE_NAMED: Final = re.compile("(?i:session|sid)")
_NEAR_COOKIE: Final = 80  # characters before a name in which it is said to be a cookie's


def _is_of_other(match: re.Match[str]) -> bool:
    """True if the value of a name that may also be of something else is a secret."""
    if _COOKIE_NAMED.fullmatch(match["name"] or match["named"]):
        before = _before(match, _NEAR_COOKIE).lower()
        if "cookie" not in before and not before.endswith("connect."):
            return False
    if match["named"] is None:
        return _is_assigned(match)
    name = match["named"]
    if match["secret_pair"] is not None:
        return _is_call(match) and is_secret_value(name, match["secret_pair"])
    value = match["secret_said"].rstrip(".,;:!?")
    if is_foreign(name):
        return is_password(value)
    is_said = _IS_SAID.match(match.string, match.end("named")) is not None
    return is_said and is_secret_value(name, value)


_NAME_BEFORE: Final = re.compile(r"(?:(?<=\\[nrt])|(?<![\w.\\-]))[\w.-]*[ ]?$")
_LONGEST_NAME: Final = 48  # characters of a name before its last word
_NEAR_KEY: Final = 160  # characters around a plain `key` in which a service is looked for
_OF_URN: Final = re.compile(r"(?<!\w)(?:arn|urn):[^\s\"']*$")
_TEST: Final = re.compile(r"(?i:test)\w*|[A-Za-z]\w*[.:/_-][\w.:/-]*")  # the name of one


def _name_of(match: re.Match[str]) -> str:
    """The name that a match gives its value: for `key`, with what is before it in the name."""
    name: str = match["name"]
    if name[:3].lower() != "key":
        return name
    start = match.start("name")
    before = _NAME_BEFORE.search(match.string[max(start - _LONGEST_NAME, 0) : start])
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


def _is_assigned(match: re.Match[str]) -> bool:
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
_NEAR: Final = 600  # characters before a setting in which its section is looked for
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
        near = string[max(match.start() - _NEAR, 0) : match.start()]
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
    """True if a value is `user:password` in base64."""
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
    """True if some value of a cookie looks like a session, not like a preference."""
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
    before = _before(match, 1)
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


# `user:password@tcp(host)` of Go, `user/password@//host` of Oracle
_BARE_DSN: Final = (
    r"(?<![\w$])[\w.+$-]{1,64}(?::(?P<secret>[^\s\"'`<>\\]{1,128})@(?:(?:tcp|udp|unix)\(|/\w)"
    r"|/(?P<secret_oracle>[^\s/@\"'`<>\\]{3,64})@(?://|[\w.-]{1,100}:15[0-9]{2}(?![0-9])))"
    r"|(?i:dsn)"
    rf"[\"'\s]{{0,4}}(?::=|[:=])[ \t]{{0,4}}(?:{QUOTE})?"
    r"[\w.+-]{1,64}:(?P<secret_named>[^\s@\"'`<>\\]{3,128})@[\w.-]"
)


def _is_of_dsn(match: re.Match[str]) -> bool:
    value = _secret_of(match)[1]
    return not PLACEHOLDER.fullmatch(value) and not value.startswith("//")


# Documents

_MARKED: Final = (
    rf"(?:{QUOTE})?(?P<name>result|value)(?:{QUOTE})?\s{{0,8}}[:=]\s{{0,8}}(?P<quote>{QUOTE})"
    r"(?P<secret>(?:(?!(?P=quote))[^\r\n]){1,512})(?P=quote)"
)


def _is_marked(match: re.Match[str]) -> bool:
    """True if the text around a value marks it as a secret, as the state of Terraform does."""
    before = _before(match, 1500)
    behind = _behind(match, 200)
    if match["name"] == "result":
        return "random_password" in before or "random_password" in behind
    return _SENSITIVE.search(before.rpartition("{")[2] + behind.partition("}")[0]) is not None


_SENSITIVE: Final = re.compile(rf"sensitive(?:{QUOTE})?\s{{0,8}}[:=]\s{{0,8}}true")

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
    return not PLACEHOLDER.fullmatch(_secret_of(match)[1])


def _is_markup(match: re.Match[str]) -> bool:
    name = match["element"] or match["named"] or match["plist"]
    value = _secret_of(match)[1]
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
    """True if a line is below `data:` of a Kubernetes secret."""
    near = _before(match, 3000)
    document = re.split(r"(?m)^---", near)[-1]
    at = document.rfind("\ndata:")
    if at < 0 or re.search(r"\n\w", document[at + 1 :]) is not None:
        return False
    behind = _behind(match, 1000)
    about = document + re.split(r"(?m)^---", behind)[0]
    return re.search(r"(?m)^kind:[ \t]*[\"']?Secret\b", about) is not None


_CONTAINER_AUTH: Final = (
    rf"(?:{QUOTE})(?:auth|identitytoken|registrytoken)(?:{QUOTE})[ \t]{{0,8}}:\s{{0,8}}(?:{QUOTE})"
    rf"(?P<secret>[A-Za-z0-9+/=_.-]{{8,}}+)"
    r"|_auth[ \t]{0,4}=[ \t]{0,4}[\"']?(?P<secret_npm>[A-Za-z0-9+/=]{8,}+)"
)


def _is_container_auth(match: re.Match[str]) -> bool:
    value = _secret_of(match)[1]
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
    # ENV NAME X, set -x NAME X, setenv NAME X, aws configure set NAME X, passwd X
    rf"[ \t]{{1,8}}(?!{_IS}(?![^\s:]))(?P<secret_set>{VALUE})"
    # define('NAME', 'X'), setProperty("NAME", "X"), password 'X'
    rf"|{QUOTE}[ \t]{{0,4}},[ \t]{{0,4}}(?P<quote>{QUOTE})(?P<secret_pair>[^\r\n\"'`]{{4,256}})"
    rf"(?P=quote)"
    rf"|[ \t]{{1,4}}(?P<quoted>[\"'])(?P<secret_quoted>[^\r\n\"'`]{{4,256}})(?P=quoted)"
    # the password is X, the password for the box is X, my key is X
    rf"|(?P<words>(?:[ \t]{{1,4}}(?!{_IS}[ \t])[\w@.'-]{{1,24}}){{0,6}})"
    rf"(?:[ \t]{{1,4}}{_IS}|['’]s):?[ \t]{{1,4}}"
    rf"(?:(?P<said>{QUOTE})(?P<secret_said_quoted>[^\r\n\"'`\\]{{4,256}})(?P=said)"
    rf"|(?:{QUOTE})?(?P<secret_said>{VALUE}))"
    r")"
    rf"|(?i:convertto-?securestring)[ \t]{{1,4}}(?:-String[ \t]{{1,4}})?[\"']"
    rf"(?P<secret_secure>[^\r\n\"'`$]{{4,256}})[\"']"
    r"|(?i:auth[ \t]{0,2}=[ \t]{0,2}"
    r"|basicauth)\([ \t]{0,4}[\"'][^\"'\r\n]{1,100}[\"'][ \t]{0,2},[ \t]{0,4}"
    r"[\"'](?P<secret_tuple>[^\"'\r\n]{4,256})[\"']"
)
_AS: Final = (
    rf"(?:{QUOTE})?(?P<secret>{VALUE})(?:{QUOTE})?[ ]as[ \t](?:[a-z]{{1,12}}[ \t]){{0,3}}"
    r"(?:pass(?:word|wd|phrase|code)?|secret|token|api[ _-]?key)(?![A-Za-z_-])"
    r"(?![ \t](?:hash|field|name|key|column|param|manager|type|polic|algorithm|provider|store))"
)
_ACCOUNT: Final = (
    r"(?i:(?P<cue>log(?:ged)?[ -]?in|sign(?:ed)?[ -]?in|credentials?|creds|zugangsdaten"
    r"|user(?:name)?)[ \t:]{1,3}(?:(?:are|is|as|with|data)[ \t:]{1,3}){0,3}[\w.@+-]{1,40}"
    r"(?:[ ]?/[ ]?|[ ]with[ ]|:)"
    r"|(?<![\w./-])(?:admin|root|administrator|superuser)(?:[ ]?/[ ]?|:))"
    rf"(?:{QUOTE})?(?P<secret>(?!\$)[^\s\"'`\\,;<>(){{}}\[\]/:]{{6,64}})(?![\w/(]|:\w)"
)


def _is_given_as(match: re.Match[str]) -> bool:
    """True if `use X as the password` gives a password, and not the name of one."""
    value = match["secret"]
    return is_password(value)


def _is_of_account(match: re.Match[str]) -> bool:
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


def _is_named(match: re.Match[str]) -> bool:
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
        re.search(rf"\w\([ \t]{{0,8}}{QUOTE}[\w.:-]{{0,64}}$", before) is not None
        and behind[:1] == ")"
    )


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
        ("sig=", "sig%3d", "signature", "hmac", "hdn", "security-token"),
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
        "url-password",
        "passwords of addresses without a scheme: user:password@tcp(host), user/password@//host",
        re.compile(_BARE_DSN),
        ("@tcp(", "@udp(", "@unix(", "@/", ":15", "dsn"),
        accepts=_is_of_dsn,
        finder=re.compile(
            r"@(?:(?:tcp|udp|unix)\(|/|[\w.-]{1,100}:15[0-9]{2}(?![0-9]))"
            r"|dsn(?=[\"'\s]{0,4}:?[:=])"
        ),
        reach=200,
        within=re.compile(r"[^\s\"'`<>\\(=]*+"),
    ),
    Rule(
        "registry-auth",
        "credentials of registries: docker's auth, npm's _auth",
        re.compile(_CONTAINER_AUTH),
        ('auth"', "auth'", "auth\\", "_auth", "identitytoken", "registrytoken"),
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
        ("key=", "key =", "pwd", "secretvalue"),
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
        "what a password, token or secret is set to, and a key to a value that looks random",
        re.compile(_assigned(KEYWORD)),
        (
            *("pass", "pwd", "secret", "token", "credential", "key", "kennwort", "senha", "pw"),
            *("contrase", "motdepasse", "connection", "pat", "cred", "auth", "psw", "psk", "jwt"),
        ),
        accepts=_is_assigned,
        finder=re.compile(KEYWORD_NEAR),
    ),
    Rule(
        ASSIGNED,
        "what a session, refresh token, PIN, salt or the like is said to be or set to",
        re.compile(_assigned_or_said(f"(?:{OTHER_KEYWORD}|{COOKIE_KEYWORD})")),
        OTHER_HINTS,
        accepts=_is_of_other,
        finder=re.compile(OTHER_NEAR),
    ),
    Rule(
        ASSIGNED,
        "what a one-time code is said to be or set to",
        re.compile(_assigned_or_said(CODE_KEYWORD)),
        CODE_HINTS,
        accepts=_is_of_other,
        finder=re.compile(CODE_NEAR),
    ),
    Rule(
        ASSIGNED,
        "what a password is set to, by its name in other languages",
        re.compile(_assigned_or_said(rf"(?i:{FOREIGN_KEYWORD})")),
        FOREIGN_HINTS,
        accepts=_is_of_other,
        finder=re.compile(FOREIGN_KEYWORD),
    ),
    Rule(
        ASSIGNED,
        "values that Terraform marks as secret",
        re.compile(_MARKED),
        ('sensitive"', "sensitive\\", "sensitive =", "random_password"),
        accepts=_is_marked,
        finder=re.compile(rf"(?:result|value)(?=(?:{QUOTE})?\s{{0,8}}[:=])"),
    ),
    *COMMANDS,
    *TABLES,
    Rule(
        "named-secret",
        "what a statement sets a password or key to: ENV NAME X, define('NAME', 'X'), auth="
        "(USER, X)",
        re.compile(_NAMED),
        (
            *("pass", "secret", "token", "key", "pwd", "auth", "credential", "securestring", "pw"),
            *("kennwort", "senha", "contrase"),
        ),
        accepts=_is_named,
        finder=re.compile(
            rf"(?:{KEYWORD_NEAR}|converttosecurestring|convertto-securestring|basicauth)"
        ),
    ),
    Rule(
        "named-secret",
        "a password before its name: use X as the password",
        re.compile(_AS),
        ("pass", "secret", "token", "key"),
        accepts=_is_given_as,
        finder=re.compile(
            r" as[ \t](?=(?:[a-z]{1,12}[ \t]){0,3}(?:pass|secret|token|api[ _-]?key))"
        ),
        reach=130,
        within=re.compile(r"\S*+"),
    ),
    Rule(
        "named-secret",
        "a password beside its account: admin / X",
        re.compile(_ACCOUNT),
        (
            *(" / ", "admin/", "admin:", "login", "log in", "logged in", "sign in", "signed in"),
            *("creds", "credential", "zugangsdaten"),
        ),
        accepts=_is_of_account,
        finder=re.compile(
            r"(?:log(?:ged)?[ -]?in|sign(?:ed)?[ -]?in|credentials?|creds|zugangsdaten"
            r"|user(?:name)?|admin(?:istrator)?|root|superuser)(?=[ :/])"
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
