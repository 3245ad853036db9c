"""Credentials that a command is given: as the value of an option, or at a place of their own.

Which options of which commands take a credential is from the commands' manuals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from sessiontree.redact.hints import any_of
from sessiontree.redact.rule import QUOTE, Rule
from sessiontree.redact.values import (
    DOTTED,
    KINDS_OF_KEY,
    PLACEHOLDER,
    SNAKE,
    VALUE,
    is_generated,
    is_no_identifier,
    is_password,
    is_secret_value,
    keyword_of,
)

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


_TO_OPTION: Final = r"[ \t][^\r\n;|]{0,200}?(?<=[ \t])"
_LOGINS: Final = (
    # Commands, and their options that a password or token follows; from the commands' manuals
    (
        r"(?:docker|podman|buildah|nerdctl|skopeo|helm registry|oras|crane auth|az|oc|cf|npm|yarn"
        r"|glab|cqlsh|sqlplus|az acr|flyctl|snyk|balena|ibmcloud)"
        r"(?:[ \t]{1,8}[\w-]{1,20}){0,2}[ \t]{1,8}login",
        "p|t|a",
    ),
    (r"(?:redis-cli|redis-benchmark|valkey-cli|keydb-cli)", "a"),
    (
        r"(?:sqlcmd|bcp|isql|tsql|mosquitto_pub|mosquitto_sub|ipmitool|zip|unzip|osql|smbpasswd)",
        "P",
    ),
    (r"(?:ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd|dsmod)", "w"),
    (
        r"(?:mongo|mongosh|mongodump|mongorestore|mongoexport|mongoimport|mongotop|cqlsh|sshpass"
        r"|rdesktop|evil-winrm|crackmapexec|netexec|nxc|snowsql|rabbitmqadmin|freerdp|arangosh"
        r"|cypher-shell|clickhouse-client|influx|useradd|usermod|winrs|psexec|hydra|mysqlsh)",
        "p",
    ),
    (r"(?:http|https|httpie|xh)", "a"),
    (
        r"(?:doctl auth init|heroku auth|railway login|vault login|op signin|tailscale up"
        r"|ngrok config)",
        "t",
    ),
)
_SINGLES: Final = "|".join(
    rf"(?:{commands}){_TO_OPTION}-(?:{options})(?:{_GAP}|=|(?={QUOTE}))"
    rf"(?:[^\s:/\"'`\\=,-]{{1,64}}:)?{_given(f'login{i}')}"
    for i, (commands, options) in enumerate(_LOGINS)
)
_POSITIONED: Final = "|".join(
    (
        rf"openssl[ \t][^\r\n;|]{{0,200}}?(?<=[ \t])-pass(?:in|out)?{_GAP}"
        rf"(?:{QUOTE})?pass:{_given('openssl')}",
        rf"(?:7za?|7zr|rar|unrar)[ \t][^\r\n;|]{{0,200}}?(?<=[ \t])-h?p{_given('archive')}",
        rf"(?:keytool|jarsigner|apksigner)[ \t][^\r\n;|]{{0,400}}?(?<=[ \t])-(?:store|key|dest"
        rf"(?:store|key)|src(?:store|key))pass{_GAP}{_given('store')}",
        rf"rabbitmqctl[ \t]{{1,8}}(?:add_user"
        rf"|change_password)[ \t]{{1,8}}[\w.@-]{{1,64}}[ \t]{{1,8}}{_given('rabbit')}",
        rf"htpasswd[ \t]{{1,8}}-[a-zA-Z]*b[a-zA-Z]*[ \t]{{1,8}}"
        rf"(?:-[\w]{{1,8}}[ \t]{{1,8}}){{0,4}}[^\s-]\S{{0,200}}"
        rf"[ \t]{{1,8}}[\w.@-]{{1,64}}[ \t]{{1,8}}{_given('htpasswd')}",
        rf"echo[ \t]{{1,8}}(?:-[ne]{{1,2}}[ \t]{{1,8}})?(?:{QUOTE})?"
        rf"(?P<secret_piped>[^\s\"'`|$]{{4,256}})(?:{QUOTE})?[ \t]{{0,8}}\|[ \t]{{0,8}}"
        rf"(?:sudo[ \t]{{1,8}}-S|(?:sudo[ \t]{{1,8}})?(?:passwd|chpasswd|docker[ \t]{{1,8}}login"
        rf"|podman[ \t]{{1,8}}login|gh[ \t]{{1,8}}auth|kinit|cryptsetup))",
        rf"(?:smbclient|smbget|rpcclient|net[ \t]{{1,8}}rpc)[ \t][^\r\n;|]{{0,200}}?"
        rf"(?<=[ \t])-U{_GAP}(?:{QUOTE})?[^\s%\"'`]{{1,64}}%(?P<secret_smb>{VALUE})",
        rf"(?:x?freerdp\w{{0,4}})[ \t][^\r\n;|]{{0,200}}?(?<=[ \t])/p:{_given('rdp')}",
        rf"lftp[ \t][^\r\n;|]{{0,100}}?-u{_GAP}(?:{QUOTE})?[\w.@-]{{1,64}},"
        rf"(?P<secret_lftp>{VALUE})",
        rf"(?:requirepass|masterauth|snyk[ \t]{{1,8}}auth)[ \t]{{1,8}}{_given('direct')}",
        rf"ssh-keygen[ \t][^\r\n;|]{{0,200}}?(?<=[ \t])-[NP][ \t]{{1,8}}{_given('keygen')}",
        rf"wpa_passphrase[ \t]{{1,8}}\S{{1,32}}[ \t]{{1,8}}{_given('wpa')}",
        rf"snmp\w{{3,10}}[ \t][^\r\n;|]{{0,200}}?(?<=[ \t])-[AXc][ \t]{{1,8}}{_given('snmp')}",
        r"(?:net|NET)[ \t]{1,8}user[ \t]{1,8}[\w.-]{1,64}[ \t]{1,8}"
        r"(?P<secret_net>[^\s\"'`/*<$]{4,128})(?=[ \t]{1,8}/)",
        r"vault[ \t]{1,8}login[ \t]{1,8}(?!-)(?P<secret_vault>[^\s\"'`=$<]{8,256})",
        rf"(?:cryptsetup|passwd|kinit|sudo|docker|podman|gh)[ \t][^\r\n;|]{{0,200}}?<<<[ \t]{{0,4}}"
        rf"{_given('fed')}",
        rf"ngrok[ \t]{{1,8}}(?:config[ \t]{{1,8}}add-authtoken|authtoken)[ \t]{{1,8}}"
        rf"{_given('ngrok')}",
        rf"mc[ \t]{{1,8}}alias[ \t]{{1,8}}set[ \t]{{1,8}}(?:\S{{1,200}}[ \t]{{1,8}}){{3}}"
        rf"{_given('mc')}",
        rf"(?:composer|bundle)[ \t]{{1,8}}config[ \t][^\r\n;|]{{0,200}}?"
        rf"(?:http-basic\.\S{{1,200}}[ \t]{{1,8}}\S{{1,64}}[ \t]{{1,8}}|[\w.@-]{{1,64}}:(?!//))"
        rf"{_given('config')}",
        r"(?:sqlplus|impdp|expdp|rman|sqlldr|conn)[ \t][^\r\n;|]{0,100}?"
        r"(?<![\w/])[\w$#]{1,40}/(?P<secret_oracle>[^\s/@\"'`$<]{3,64})@",
    )
)
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
_LOGIN: Final = rf"(?:{_AT_START}|(?<=\\)[nrt])(?:{_SINGLES}|{_POSITIONED}|{_SQL})"
_LISTED: Final = """
    docker podman buildah nerdctl skopeo helm oras crane az oc cf npm yarn glab cqlsh sqlplus
    flyctl snyk balena ibmcloud redis-cli redis-benchmark valkey-cli keydb-cli sqlcmd bcp isql
    tsql mosquitto_pub mosquitto_sub ipmitool zip unzip osql smbpasswd ldapsearch ldapmodify
    ldapadd ldapdelete ldapwhoami ldappasswd dsmod mongo mongosh mongodump mongorestore
    mongoexport mongoimport mongotop rdesktop evil-winrm crackmapexec netexec nxc snowsql
    rabbitmqadmin freerdp arangosh cypher-shell clickhouse-client influx useradd usermod winrs
    psexec hydra mysqlsh sshpass http https httpie xh doctl heroku railway vault op tailscale
    ngrok 7z 7za 7zr rar unrar keytool jarsigner apksigner htpasswd echo smbclient smbget
    rpcclient net lftp gh openssl rabbitmqctl identified user role login password wpa_passphrase
    requirepass masterauth ssh-keygen cryptsetup passwd kinit sudo mc composer bundle impdp expdp
    rman sqlldr conn
    """
_NAMES: Final = any_of(_LISTED.split(), longest=True)
_NAME: Final = rf"(?:{_NAMES}|xfreerdp\w{{0,4}}|snmp\w{{3,10}})(?=[ \t(])"


def _is_given(match: re.Match[str]) -> bool:
    """Whether a command has a secret, and not only its description: `--password TEXT`."""
    groups = {name: text for name, text in match.groupdict().items() if text is not None}
    name, value = next((n, text) for n, text in groups.items() if n.startswith("secret"))
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
    """Whether `-u A:B` is a user and a password, and not a user and a group."""
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
    """Whether a value of letters alone is a word of a text about the command."""
    if value.isupper() or SNAKE.fullmatch(value) or _ENGLISH.fullmatch(value.rstrip(".,:!?")):
        return True
    if not value.isalpha():
        return False
    if len(value) < 6:
        return not _is_end(match)
    return (
        not _is_end(match)
        and re.match(
            r"[ \t]{2,}|[ \t][A-Za-z]+[ \t][A-Za-z]+[ \t.,]",
            match.string[match.end() : match.end() + 80],
        )
        is not None
    )


def _is_end(match: re.Match[str]) -> bool:
    behind = match.string[match.end() : match.end() + 3]
    return not behind.strip(" \t\r\n\"'`") or behind.lstrip(" ")[:1] in ("-", "&", "|", ";", ">")


def _command_of(match: re.Match[str]) -> str:
    """The command that an option belongs to, as far as it stands before the option."""
    before = match.string[max(match.start() - 200, 0) : match.start()]
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


class _Argument(NamedTuple):
    """An argument of a command."""

    start: int
    end: int
    text: str
    option: str  # the option that it is the value of; "" for none
    name: str  # what it is set to: `NAME=` of the argument itself, or the word before it


def _arguments(text: str, start: int) -> Iterator[_Argument]:
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
        yield _Argument(at, end, text[at:end], option, name or before)
        before = "" if option or name else text[at:end]
        option = ""


def _set_secrets(text: str) -> Iterator[tuple[int, int]]:
    """What commands set secrets to, and the tokens that logins are given."""
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


def _is_argument_secret(head: re.Match[str], argument: _Argument) -> bool:
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
    """What a command is given by `echo X |`."""
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
            *(
                "vault login",
                " -hp",
                "net user",
                "rabbitmqctl",
                "authtoken",
                "cryptsetup",
                "gh auth",
                "<<<",
            ),
            *(
                "mc alias",
                "composer",
                "bundle config",
                "sqlplus",
                "pdp ",
                "rman target",
                "sqlldr",
                "conn ",
            ),
            *("login", "passwd", "htpasswd", "wpa_pass", "snmp", "requirepass", "masterauth"),
            *("snyk auth", "ssh-keygen"),
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
            *(
                "env add",
                "env set",
                "env:set",
                "set env",
                "setenv",
                "set-env",
                "variable",
                "vars set",
            ),
            *("kv put", "vault write", "setapikey", "put-parameter", "-password", "encrypt_string"),
            *("credstash", "chamber", "pass insert", "circleci"),
        ),
        search=_set_secrets,
    ),
)
