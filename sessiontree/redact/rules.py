"""All rules in their order, and the table of credentials with a known format.

The rules: the built-in ones in order of precedence where they overlap, and a user's own.

Credentials that are known by their own look: a table, one row a kind. A row is the name, the kind
in words, the expression, where the format is published, and the hints. The expression starts at one
of the hints, which are lower case; `_row` ties it to the start of a word and tries it only where a
hint stands. Lengths are the published ones, or a little less where a service issues several.

`prefixed-token` finds the formats of the same families that no row names: a short prefix, a
separator, a random value.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.redact.context import CREDENTIALS
from sessiontree.redact.rule import QUOTE, START, Rule, is_varied, looks_random
from sessiontree.redact.values import ANY_HOME

GITLEAKS: Final = "gitleaks: config/gitleaks.toml"
DETECT_SECRETS: Final = "detect-secrets: detect_secrets/plugins"
TRUFFLEHOG: Final = "trufflehog: pkg/detectors"
KINGFISHER: Final = "kingfisher: data/rules"
VENDOR: Final = "the service's documentation"

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_A: Final = "[A-Za-z0-9]"
_W: Final = "[A-Za-z0-9_-]"
_HEX: Final = "[0-9a-fA-F]"
_B64: Final = "[A-Za-z0-9+/=]"
_OF_A_WORD: Final = re.compile(r"[A-Za-z0-9+/_~.-]*+")


def _row(
    name: str,
    what: str,
    expression: str,
    source: str,
    hints: str,
    *,
    accepts: Callable[[re.Match[str]], bool] | None = None,
    near: str | None = None,
    reach: int = 0,
) -> Rule:
    """A row of the table.

    `near` finds where to try, in lower-case text, where a hint alone is too common; `reach` is how
    many characters of a word stand before it.
    """
    return Rule(
        name,
        what,
        re.compile(rf"{START}(?:{expression})", re.ASCII),
        tuple(hints.split()),
        accepts=accepts or _is_key,
        finder=re.compile(near or "|".join(map(re.escape, hints.split())), re.ASCII),
        reach=reach,
        within=_OF_A_WORD if reach else None,
        is_format=True,
        source=source,
    )


def _is_key(match: re.Match[str]) -> bool:
    return is_varied(match[0])


def _has_digit(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and any(c.isdigit() for c in match[0])


def _is_random(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and looks_random(match[0])


_IDENTIFIERS: Final = """
    toolu srvtoolu mcptoolu call msg req resp chatcmpl cmpl fc rs ws run thread asst file org proj
    user acct cus sub ch evt price prod inv batch step item vs sess cntr ctc mcpr mcp ci gen id uuid
    ref hash commit build chunk index main vendor style module blob tree image img container layer
    digest etag rev snap vol vpc subnet ami eni sg rtb igw nat eipalloc key pod job task test node
    worker version cache tmp temp session conversation message event trace span request response
    block part page bundle asset font icon ft ftjob log nonce ses conv
    """
_IDS: Final = frozenset(_IDENTIFIERS.split())
"""What identifiers begin with, which give no access."""

_TELLING: Final = re.compile(
    r"(?i)(?:^|[_-])(?:api|apikey|token|tok|tkn|secret|sec|sk|pat|live|test|prod|oauth|auth|access"
    r"|refresh|priv|private|pass|pwd|cred|bearer|key|svc|sat|rt|at|pk|pub|sandbox)(?:$|[_-])"
)
_UUIDS: Final = re.compile(_UUID)
_DIGIT: Final = re.compile("[0-9]")
_HASH: Final = re.compile("[0-9a-f]{7,}|[0-9A-F]{7,}|[0-9_-]+")
_PREFIXED: Final = (
    r"(?<![\w.~-])(?P<prefix>[A-Za-z][A-Za-z0-9]{0,11}(?:[_-](?:[a-z]{2,10}|v?[0-9]))"
    r"{0,2})[_-](?P<tail>[A-Za-z0-9](?:[A-Za-z0-9_-]{19,}+))(?![./]\w)"
)


_OF_JWK: Final = re.compile(r"""\\?["'](?:x|y|n|kid|x5t)\\?["'][ ]?:[ ]?\\?["']$""")  # public parts


def _is_prefixed(match: re.Match[str]) -> bool:
    """Whether a word is a short prefix and a random value, and no identifier or hash."""
    prefix, tail = match["prefix"], match["tail"]
    if _OF_JWK.search(match.string[max(match.start() - 12, 0) : match.start()]) is not None:
        return False
    is_telling = _TELLING.search(prefix) is not None
    parts = re.split(r"[_-]", prefix.lower())
    if parts[0] in _IDS and not (is_telling and len(parts) > 1):
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


_JWT: Final = r"eyJ[\w-]{8,}+\.[\w-]{8,}+(?:\.[\w-]++){0,3}"

_PEM: Final = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PEM_GAP: Final = (
    r"""(?:\s|\\{1,8}(?:[nrt]|(?=\s))|["'`,>#|→]|\d{1,6}[→|:\t]"""
    r"""|(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,100})"""
)
_PUTTY: Final = (
    r"Private-Lines:[ ]?[0-9]{1,4}(?P<secret_putty>(?:(?:\s|\\{1,8}[nr]){1,4}[A-Za-z0-9+/=]{8,}+)"
    r"{1,400}(?:(?:\s|\\{1,8}[nr]){1,4}Private-(?:MAC|Hash):[ ]?[0-9a-f]{16,}+)?)"
)
_DER: Final = (  # how PKCS #1, PKCS #8, EC and OpenSSH keys begin in base64
    r"(?:MII[A-Za-z0-9+/]{3}IBA(?:AK[BC]|DAN)|MI[GH][A-Za-z0-9+/]{1,2}AgE(?:AMB[MA]|BB[CDE])"
    r"|MHcCAQEEI|MC4CAQAwBQYDK2Vw|MII[A-Za-z0-9+/]{2}[TDj][BA][OA]BgkqhkiG9w0BBQ|b3BlbnNzaC1rZXktdjE)"
)
_PRIVATE_KEY: Final = (
    rf"{_PEM}(?:(?>[^-]*+(?:-(?!----)[^-]*+)*)-{{5,6}}END [A-Z0-9 ]{{0,40}}PRIVATE KEY"
    rf"(?: BLOCK)?-----|(?>(?:{_PEM_GAP}{{0,64}}[A-Za-z0-9+/=]{{16,}}+)+)"
    rf"(?:{_PEM_GAP}{{0,8}}[A-Za-z0-9+/=]++)?)"
    rf"|{_PUTTY}"
    rf"|(?:(?<![A-Za-z0-9+/])|(?<=\\n)){_DER}[A-Za-z0-9+/=]*+(?>(?:{_PEM_GAP}{{0,64}}[A-Za-z0-9+/=]{{16,}}+)*)"
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/]{1,40}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)"
    r"[A-Za-z0-9+/=]{40,}+"
)
_KEY_MARK: Final = re.compile("-----(?:BEGIN|END)[^-]{0,60}-----")
_KEY_BODY: Final = re.compile("[A-Za-z0-9+/]{16}")


def _has_key(match: re.Match[str]) -> bool:
    return _KEY_BODY.search(_KEY_MARK.sub("", match[0])) is not None


_KEY_END: Final = re.compile(r"-{5}END [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_REST: Final = re.compile(r"[A-Za-z0-9+/=\s\\\"'`,>|#→]*+")  # read backwards
_KEY_LINE: Final = re.compile(r"[A-Za-z0-9+/]{40}|(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{16,}={0,2}\s*$")
_LONGEST_KEY: Final = 16_000  # characters before the end of a key in which its lines are looked for


def _headless(text: str) -> Iterator[tuple[int, int]]:
    """Private keys whose first lines are cut off: what is before their last line."""
    at = 0
    for mark in _KEY_END.finditer(text):
        start = max(at, mark.start() - _LONGEST_KEY)
        at = mark.end()
        rest = _KEY_REST.match(text[start : mark.start()][::-1])
        if rest is None:
            continue
        line = _KEY_LINE.search(text, mark.start() - rest.end(), mark.start())
        if line is not None:
            yield line.start(), mark.start()


PRIVATE_KEY: Final = Rule(
    "private-key",
    "PEM, PGP and PuTTY private keys, also incomplete ones and ones with \\n instead of line ends",
    re.compile(_PRIVATE_KEY),
    (
        *("private key", "private-lines:", "ls0tls1crudjti", "ibaakc", "ibaakb", "ibadan"),
        *("agebbc", "agebbd", "agebbe", "ageamb", "mhccaqeei", "mc4caqawbqydk2vw", "9w0bbq"),
        "b3blbnnzac1rzxktdje",
    ),
    accepts=_has_key,
    finder=re.compile(
        r"-----begin|private-lines:|ls0tls1crudjti|mii[a-z0-9+/]{2}(?:[a-z0-9+/]iba(?:ak[bc]|dan)"
        r"|[tdj][ba][oa]bgkqh)|mi[gh][a-z0-9+/]{1,2}age(?:amb|bb)|mhccaqeei|mc4caqawbqydk2vw"
        r"|b3blbnnzac1rzxktdje"
    ),
    source=GITLEAKS,
)
CUT_KEY: Final = Rule(
    "private-key",
    "private keys whose first lines are cut off",
    _KEY_END,
    ("private key",),
    search=_headless,
    source=GITLEAKS,
)

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


def _is_alone(match: re.Match[str]) -> bool:
    """Whether a word of letters and digits is random, and no line of base64 or an address."""
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


ALONE: Final = Rule(
    "random-token",
    "words of 32 and more letters and digits that look random",
    re.compile(
        r"(?<![\w./+:,=#~%@-])[A-Za-z0-9]{32,100}+(?![\w+/=.:~-])|(?<=[A-Za-z_][=:])"
        r"[A-Za-z0-9]{32,100}+(?![\w+/=.:~-])"
    ),
    accepts=_is_alone,
    finder=re.compile("(?<![a-z0-9])[a-z0-9]{32}"),
    is_format=True,
    source=GITLEAKS,
)

PREFIXED: Final = Rule(
    "prefixed-token",
    "random values behind a short prefix, as most services issue them",
    re.compile(_PREFIXED, re.ASCII),
    ("_", "-"),
    accepts=_is_prefixed,
    finder=re.compile("[_-](?=[a-z0-9][a-z0-9_-]{19})", re.ASCII),
    reach=36,
    within=re.compile("[A-Za-z0-9_-]*+"),
    is_format=True,
    source=GITLEAKS,
)

FORMATS: Final = (
    # Models
    _row("anthropic-key", "Anthropic API keys", rf"sk-ant-{_W}{{16,}}+", GITLEAKS, "sk-ant-"),
    _row(
        "openai-key",
        "OpenAI API keys, and those of others in their style (sk-…)",
        rf"sk-(?:proj|svcacct|service|admin|None|or-v1|lf|let|helicone)-{_W}{{16,}}+"
        rf"|sk-{_A}{{32,}}+",
        GITLEAKS,
        "sk-",
    ),
    _row("langfuse-key", "Langfuse keys", rf"[ps]k-lf-{_UUID}", VENDOR, "sk-lf- pk-lf-"),
    _row("groq-key", "Groq API keys", rf"gsk_{_A}{{40,}}+", KINGFISHER, "gsk_"),
    _row("xai-key", "xAI API keys", rf"xai-{_W}{{40,}}+", KINGFISHER, "xai-"),
    _row("perplexity-key", "Perplexity API keys", rf"pplx-{_A}{{32,}}+", GITLEAKS, "pplx-"),
    _row("replicate-token", "Replicate tokens", rf"r8_{_W}{{32,}}+", KINGFISHER, "r8_"),
    _row(
        "elevenlabs-key",
        "ElevenLabs API keys, and others that are sk_ and hexadecimal",
        rf"sk_{_HEX}{{32,}}+",
        KINGFISHER,
        "sk_",
    ),
    _row(
        "langsmith-key",
        "LangSmith keys",
        rf"lsv2_(?:pt|sk)_{_A}{{24,}}+(?:_{_A}{{6,}}+)?|ls__{_A}{{24,}}+",
        TRUFFLEHOG,
        "lsv2_ ls__",
    ),
    _row("cerebras-key", "Cerebras API keys", rf"csk-{_A}{{32,}}+", VENDOR, "csk-"),
    _row(
        "fireworks-key", "Fireworks AI keys", rf"fw_{_A}{{20,}}+", VENDOR, "fw_", accepts=_is_random
    ),
    _row("together-key", "Together AI keys", rf"tgp_v[0-9]_{_W}{{32,}}+", VENDOR, "tgp_v"),
    _row("nvidia-key", "NVIDIA API keys", rf"nvapi-{_W}{{32,}}+", KINGFISHER, "nvapi-"),
    _row("pinecone-key", "Pinecone keys", rf"pcsk_{_W}{{32,}}+", TRUFFLEHOG, "pcsk_"),
    _row("voyage-key", "Voyage AI keys", rf"pa-{_W}{{40,}}+", VENDOR, "pa-", accepts=_is_random),
    _row("jina-key", "Jina AI keys", rf"jina_{_W}{{32,}}+", VENDOR, "jina_"),
    _row("tavily-key", "Tavily keys", rf"tvly-{_W}{{20,}}+", VENDOR, "tvly-", accepts=_has_digit),
    _row("firecrawl-key", "Firecrawl keys", rf"fc-{_HEX}{{32}}(?!\w)", VENDOR, "fc-"),
    _row("e2b-key", "E2B keys", rf"e2b_{_HEX}{{32,}}+", VENDOR, "e2b_"),
    _row("runpod-key", "RunPod keys", rf"rpa_{_A}{{32,}}+", VENDOR, "rpa_"),
    _row(
        "modal-token",
        "Modal tokens",
        rf"a[ks]-{_A}{{22}}(?!\w)",
        VENDOR,
        "ak- as-",
        accepts=_is_random,
    ),
    _row("cursor-key", "Cursor keys", rf"(?:key|crsr)_{_HEX}{{64}}", VENDOR, "key_ crsr_"),
    _row(
        "brave-key",
        "Brave Search keys",
        rf"BSA{_W}{{28}}(?!\w)",
        VENDOR,
        "bsa",
        accepts=_is_random,
        near="bsa[a-z0-9_-]{28}",
    ),
    _row(
        "huggingface-token",
        "Hugging Face tokens",
        rf"(?:hf|api_org)_{_A}{{30,}}+",
        GITLEAKS,
        "hf_ api_org_",
    ),
    _row("braintrust-key", "Braintrust keys", rf"bt-st-{_W}{{32,}}+", TRUFFLEHOG, "bt-st-"),
    # Source code and packages
    _row(
        "github-token",
        "GitHub tokens",
        r"gh[pousr]_[A-Za-z0-9_]{36,}+|github_pat_\w{22,}+|v1\.[0-9a-f]{40}(?!\w)",
        GITLEAKS,
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
    ),
    _row(
        "gitlab-token",
        "GitLab tokens of all kinds",
        rf"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt|pt)-{_W}{{20,}}+"
        rf"(?:\.{_A}{{2,}}+){{0,3}}"
        rf"|GR1348941{_W}{{20,}}+",
        GITLEAKS,
        "glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct- "
        "glwt- glpt- gr1348941",
    ),
    _row(
        "atlassian-token",
        "Atlassian and Bitbucket tokens",
        r"AT(?:ATT|CTT|STT)3[\w=+/-]{40,}+|ATBB[\w=.-]{24,}+|ATOA[\w=.-]{40,}+"
        r"|BBDC-[\w+/@-]{40,50}|ATTA[0-9a-f]{64}",
        TRUFFLEHOG,
        "atatt3 atctt3 atstt3 atbb atoa bbdc- atta",
    ),
    _row("npm-token", "npm tokens", rf"npm_{_A}{{36,}}+", GITLEAKS, "npm_"),
    _row("pypi-token", "PyPI tokens", rf"pypi-AgE{_W}{{32,}}+", GITLEAKS, "pypi-age"),
    _row("rubygems-key", "RubyGems keys", rf"rubygems_{_A}{{40,}}+", GITLEAKS, "rubygems_"),
    _row(
        "crates-token",
        "crates.io tokens",
        rf"cio{_A}{{32}}(?!\w)",
        KINGFISHER,
        "cio",
        accepts=_is_random,
        near="cio[a-z0-9]{32}",
    ),
    _row(
        "nuget-key",
        "NuGet keys",
        r"oy2[a-z0-9]{43}(?!\w)",
        KINGFISHER,
        "oy2",
        accepts=_has_digit,
        near="oy2[a-z0-9]{43}",
    ),
    _row("clojars-token", "Clojars tokens", rf"(?i:clojars)_{_A}{{50,}}+", GITLEAKS, "clojars_"),
    _row(
        "packagist-token",
        "Packagist tokens",
        rf"packagist_[a-z]{{3}}_{_HEX}{{40,}}+",
        VENDOR,
        "packagist_",
    ),
    _row(
        "artifactory-token",
        "Artifactory keys and tokens",
        rf"AKC[a-z0-9]{_A}{{60,}}+|cmVmd{_A}{{50,}}+|AP[0-9A-F]{_A}{{32,}}+(?=[\"'\s]|$)",
        GITLEAKS,
        "akc cmvmd ap",
        accepts=_is_random,
        near=r"akc[a-z0-9]{20}|cmvmd[a-z0-9]{20}|ap[0-9a-f][a-z0-9]{32}",
    ),
    _row(
        "docker-token", "Docker Hub tokens", rf"dckr_[a-z]{{2,4}}_{_W}{{20,}}+", KINGFISHER, "dckr_"
    ),
    _row(
        "sourcegraph-token",
        "Sourcegraph tokens",
        rf"(?:sgp|sgd|slk|sgs)_(?:local_|{_HEX}{{16}}_)?{_HEX}{{40,}}+",
        GITLEAKS,
        "sgp_ sgd_ slk_ sgs_",
    ),
    _row(
        "sonar-token",
        "Sonar tokens",
        rf"sq(?:u|p|a|co)_{_A}{{40,}}+",
        GITLEAKS,
        "squ_ sqp_ sqa_ sqco_",
    ),
    _row(
        "snyk-token",
        "Snyk tokens",
        rf"snyk_[a-z]{{2,4}}\.{_A}{{4,}}+\.{_W}{{20,}}+",
        VENDOR,
        "snyk_",
    ),
    # Continuous integration and delivery
    _row(
        "circleci-token",
        "CircleCI tokens",
        rf"CCI(?:PAT|PRJ)_{_A}{{20,24}}_{_HEX}{{40}}",
        KINGFISHER,
        "ccipat_ cciprj_",
    ),
    _row(
        "buildkite-token",
        "Buildkite tokens",
        rf"bk(?:ua|ct|pt|aj|ar|at)_{_A}{{32,}}+",
        KINGFISHER,
        "bkua_ bkct_ bkpt_ bkaj_ bkar_ bkat_",
    ),
    _row(
        "harness-token",
        "Harness tokens",
        rf"[ps]at\.{_W}{{20,24}}\.{_A}{{20,28}}\.{_A}{{16,24}}(?!\w)",
        GITLEAKS,
        "pat. sat.",
    ),
    _row(
        "octopus-key",
        "Octopus Deploy keys",
        r"API-[A-Z0-9]{25,32}(?![\w-])",
        GITLEAKS,
        "api-",
        accepts=_has_digit,
    ),
    _row(
        "terraform-token",
        "Terraform Cloud tokens",
        rf"{_A}{{14}}\.atlasv1\.[\w=-]{{50,}}+",
        GITLEAKS,
        ".atlasv1.",
        reach=14,
    ),
    _row(
        "pulumi-token",
        "Pulumi tokens",
        rf"pul-{_A}{{40}}(?!\w)",
        GITLEAKS,
        "pul-",
        accepts=_has_digit,
    ),
    _row(
        "doppler-token",
        "Doppler tokens",
        rf"dp\.(?:pt|ct|st|sa|scim|audit)\.(?:[\w-]{{2,35}}\.)?{_A}{{38,48}}(?!\w)",
        GITLEAKS,
        "dp.pt. dp.ct. dp.st. dp.sa. dp.scim. dp.audit.",
    ),
    _row(
        "infisical-token",
        "Infisical tokens",
        rf"st\.{_HEX}{{24}}\.{_HEX}{{32}}\.{_HEX}{{32}}",
        VENDOR,
        "st.",
    ),
    _row(
        "vault-token",
        "HashiCorp Vault tokens",
        rf"hv[sbr]\.{_W}{{20,}}+|[sbr]\.{_A}{{24}}(?![\w.])",
        GITLEAKS,
        "hvs. hvb. hvr. s. b. r.",
        accepts=_is_random,
        near=r"hv[sbr]\.|[sbr]\.[a-z0-9]{24}",
    ),
    _row("prefect-key", "Prefect keys", rf"pn[ub]_{_A}{{32,}}+", GITLEAKS, "pnu_ pnb_"),
    _row(
        "infracost-key",
        "Infracost keys",
        rf"ico-{_A}{{32}}(?!\w)",
        GITLEAKS,
        "ico-",
        accepts=_is_random,
    ),
    _row(
        "onepassword-key",
        "1Password keys and tokens",
        r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}|ops_eyJ[\w+/=-]{100,}+",
        GITLEAKS,
        "a3- ops_eyj",
    ),
    # Clouds
    _row(
        "aws-access-key",
        "AWS access key ids",
        r"(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16,}+",
        GITLEAKS,
        "akia asia abia acca a3t",
        near="(?:akia|asia|abia|acca|a3t[a-z0-9])[a-z0-9]{16}",
    ),
    _row(
        "bedrock-key",
        "Amazon Bedrock keys",
        rf"ABSK{_B64}{{80,}}+|bedrock-api-key-{_B64}{{20,}}+",
        GITLEAKS,
        "absk bedrock-api-key-",
    ),
    _row(
        "google-key",
        "Google API keys, OAuth secrets and tokens",
        rf"AIza{_W}{{35,}}+|GOCSPX-{_W}{{20,}}+|ya29\.{_W}{{20,}}+|1//0{_W}{{30,}}+"
        rf"|AQ\.{_W}{{40,}}+|GOOG[\w]{{30,60}}(?!\w)",
        GITLEAKS,
        "aiza gocspx- ya29. 1//0 aq. goog",
        near=r"aiza|gocspx-|ya29\.|1//0|aq\.(?=[a-z0-9_-]{40})|goog[a-z0-9_]{30}",
    ),
    _row(
        "firebase-key",
        "Firebase messaging keys",
        rf"AAAA{_W}{{7}}:{_W}{{100,}}+",
        VENDOR,
        "aaaa",
        near="aaaa[a-z0-9_-]{7}:",
    ),
    _row(
        "azure-secret",
        "Azure client secrets and service keys",
        rf"(?<!sha512-){_W}{{86}}==(?![\w=])|[\w+/]{{30,80}}(?:JQQJ99|AzSe|\+ACR|\+ASt|AzCa|AzFu"
        rf"|APIM)[\w+/=]{{4,50}}",
        TRUFFLEHOG,
        "jqqj99 azse +acr +ast azca azfu apim ==",
        near=r"jqqj99|azse|\+acr|\+ast|azca|azfu|apim|={2}(?<=[a-z0-9_-]{86}==)",
        reach=90,
    ),
    _row(
        "digitalocean-token",
        "DigitalOcean tokens",
        rf"do[oprt]_v1_{_HEX}{{40,}}+",
        GITLEAKS,
        "doo_v1_ dop_v1_ dor_v1_ dot_v1_",
    ),
    _row(
        "databricks-token",
        "Databricks tokens",
        rf"(?:dapi|dose|dkea|dsapi){_HEX}{{32,}}+(?:-[0-9]{{1,2}})?",
        GITLEAKS,
        "dapi dose dkea dsapi",
    ),
    _row(
        "alibaba-key",
        "Alibaba Cloud key ids",
        rf"LTAI{_A}{{12,26}}(?!\w)",
        GITLEAKS,
        "ltai",
        accepts=_has_digit,
    ),
    _row(
        "tencent-key",
        "Tencent and Volcengine key ids",
        rf"AK(?:ID|LT){_A}{{32,}}+",
        VENDOR,
        "akid aklt",
        accepts=_is_random,
    ),
    _row(
        "baidu-key", "Baidu Cloud keys", rf"bce-v3/{_W}{{10,60}}/{_HEX}{{32,64}}", VENDOR, "bce-v3/"
    ),
    _row(
        "yandex-token",
        "Yandex keys and tokens",
        rf"AQVN{_W}{{30,40}}|y[0-9]_A{_W}{{30,}}+"
        rf"|t1\.{_W}{{20,300}}={{0,2}}\.{_W}{{60,100}}={{0,2}}|YC{_W}{{38}}(?!\w)",
        GITLEAKS,
        "aqvn y0_a y1_a y2_a y3_a t1. yc",
        accepts=_has_digit,
        near=r"aqvn|y[0-9]_a|t1\.[a-z0-9_-]{20}|yc[a-z0-9_-]{38}",
    ),
    _row(
        "cloudflare-token",
        "Cloudflare keys and tokens",
        rf"v1\.0-{_A}{{20,28}}-{_A}{{100,}}+|cf(?:k|ut|at|ct)_{_A}{{40,}}+",
        GITLEAKS,
        "v1.0- cfk_ cfut_ cfat_ cfct_",
    ),
    _row("heroku-key", "Heroku keys", rf"HRKU-{_W}{{36,}}+", GITLEAKS, "hrku-"),
    _row(
        "fly-token",
        "Fly.io tokens",
        r"fo1_[\w-]{40,}+|fm[12][ar]?_[A-Za-z0-9+/=_-]{80,}+",
        GITLEAKS,
        "fo1_ fm1a_ fm1r_ fm2_ fm1_",
    ),
    _row(
        "netlify-token", "Netlify tokens", rf"nf[pcou]_{_A}{{32,}}+", VENDOR, "nfp_ nfc_ nfo_ nfu_"
    ),
    _row(
        "vercel-token",
        "Vercel tokens",
        rf"vc[apirk]_{_A}{{24,}}+|vercel_blob_rw_{_W}{{24,}}+",
        VENDOR,
        "vca_ vcp_ vci_ vcr_ vck_ vercel_blob_rw_",
    ),
    _row("render-key", "Render keys", rf"rnd_{_A}{{28,}}+", VENDOR, "rnd_", accepts=_is_random),
    _row(
        "scaleway-key",
        "Scaleway key ids",
        r"SCW[A-Z0-9]{17}(?!\w)",
        VENDOR,
        "scw",
        accepts=_has_digit,
        near="scw[a-z0-9]{17}",
    ),
    _row("openshift-token", "OpenShift tokens", rf"sha256~{_W}{{43}}(?!\w)", GITLEAKS, "sha256~"),
    _row(
        "tailscale-key",
        "Tailscale keys",
        rf"tskey-(?:[a-z]+-)?{_A}{{6,}}+(?:[-_]{_A}{{8,}}+)?",
        KINGFISHER,
        "tskey-",
        accepts=_has_digit,
    ),
    _row("nebula-key", "Defined Networking keys", r"dnkey-[\w=-]{40,}+", GITLEAKS, "dnkey-"),
    _row("netbird-token", "NetBird tokens", rf"nbp_{_A}{{32,}}+", VENDOR, "nbp_"),
    # Data
    _row(
        "supabase-key",
        "Supabase keys and tokens",
        rf"sbp_(?:oauth_)?{_A}{{32,}}+|sb_(?:secret|publishable)_{_W}{{20,}}+",
        KINGFISHER,
        "sbp_ sb_secret_ sb_publishable_",
    ),
    _row(
        "planetscale-token",
        "PlanetScale passwords and tokens",
        r"pscale_[a-z]{2,6}_[\w=.-]{30,}+",
        GITLEAKS,
        "pscale_",
    ),
    _row(
        "neon-key",
        "Neon keys",
        rf"(?:napi|npg)_{_A}{{12,}}+",
        VENDOR,
        "napi_ npg_",
        accepts=_has_digit,
    ),
    _row(
        "mongodb-key",
        "MongoDB Atlas keys",
        rf"mdb_sa_(?:sk|id)_{_W}{{20,}}+",
        KINGFISHER,
        "mdb_sa_",
    ),
    _row("cockroach-key", "CockroachDB keys", rf"CCDB1_{_A}{{20,}}_{_A}{{32,}}+", VENDOR, "ccdb1_"),
    _row(
        "clickhouse-key",
        "ClickHouse Cloud keys",
        rf"4b1d{_A}{{38}}(?!\w)",
        GITLEAKS,
        "4b1d",
        accepts=_is_random,
    ),
    _row(
        "airtable-token",
        "Airtable keys and tokens",
        rf"pat{_A}{{14}}\.{_HEX}{{40,}}+|key{_A}{{14}}(?!\w)"
        rf"|{_A}{{4,40}}\.v1\.{_W}{{10,200}}\.[0-9a-f]{{40,}}+",
        GITLEAKS,
        "pat key .v1.",
        accepts=_is_random,
        near=r"pat[a-z0-9]{14}\.|key[a-z0-9]{14}(?![a-z0-9_])|\.v1\.[a-z0-9_-]{10}",
        reach=40,
    ),
    _row(
        "notion-token", "Notion tokens", rf"(?:ntn|secret)_{_A}{{40,}}+", GITLEAKS, "ntn_ secret_"
    ),
    _row("confluent-secret", "Confluent secrets", r"cflt[\w+/=]{50,}+", VENDOR, "cflt"),
    _row("dbt-token", "dbt tokens", rf"dbt[uscp]_{_W}{{30,}}+", VENDOR, "dbtu_ dbts_ dbtc_ dbtp_"),
    _row("elastic-key", "Elastic keys", rf"essu_{_B64}{{40,}}+", VENDOR, "essu_"),
    # Observing
    _row(
        "sentry-token",
        "Sentry tokens",
        r"sntry[a-z]_[\w+/=-]{40,}+",
        GITLEAKS,
        "sntrys_ sntryu_ sntryi_ sntrya_",
    ),
    _row(
        "newrelic-key",
        "New Relic keys",
        rf"NR(?:AK|II|IQ|JS|BR|RA|SP|AA)-{_W}{{19,}}+|(?:eu01xx)?{_HEX}{{26,36}}(?:FFFF)?NRAL|"
        rf"(?:AA|eu01xx){_HEX}{{36,40}}-NRMA",
        GITLEAKS,
        "nrak- nrii- nriq- nrjs- nrbr- nrra- nrsp- nraa- nral -nrma",
        reach=46,
    ),
    _row(
        "grafana-token",
        "Grafana keys and tokens",
        rf"glsa_{_W}{{32,}}+|gl[cu]_[\w+/=]{{32,}}+|eyJrIjoi{_B64}{{40,}}+",
        GITLEAKS,
        "glsa_ glc_ glu_ eyjrijoi",
    ),
    _row(
        "dynatrace-token",
        "Dynatrace tokens",
        rf"dt0[a-z][0-9]{{2}}\.{_A}{{8,24}}\.{_A}{{40,}}+",
        GITLEAKS,
        "dt0",
        near=r"dt0[a-z][0-9]{2}\.",
    ),
    _row(
        "honeycomb-key",
        "Honeycomb keys",
        r"hc[a-z][ilm]k_[a-z0-9]{40,}+",
        VENDOR,
        "hc",
        near="hc[a-z][ilm]k_",
    ),
    _row(
        "posthog-key",
        "PostHog keys",
        rf"ph[xscart]_{_W}{{32,}}+",
        TRUFFLEHOG,
        "phx_ phs_ phc_ pha_ phr_ pht_",
    ),
    _row(
        "openweather-key",
        "OpenWeather keys, in addresses",
        rf"appid=(?P<secret>{_HEX}{{32}})(?!\w)",
        VENDOR,
        "appid=",
    ),
    _row("rootly-token", "Rootly tokens", rf"rootly_{_HEX}{{40,}}+", TRUFFLEHOG, "rootly_"),
    _row(
        "launchdarkly-key",
        "LaunchDarkly keys",
        rf"(?:sdk|api|mob|rel)-{_UUID}",
        TRUFFLEHOG,
        "sdk- api- mob- rel-",
    ),
    _row(
        "statsig-key",
        "Statsig keys",
        rf"secret-{_A}{{30,}}+",
        VENDOR,
        "secret-",
        accepts=_is_random,
    ),
    # Messages
    _row(
        "slack-token",
        "Slack tokens and webhooks",
        rf"xox[a-z](?:\.xox[a-z])?-{_W}{{10,}}+|xapp-{_W}{{20,}}+"
        r"|hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/"
        r"(?P<secret>[A-Za-z0-9/_+-]{20,}+)",
        GITLEAKS,
        "xox xapp- hooks.slack",
    ),
    _row("zoho-token", "Zoho tokens", rf"1000\.{_HEX}{{32}}\.{_HEX}{{32}}", TRUFFLEHOG, "1000."),
    _row("close-key", "Close keys", rf"api_{_A}{{20,24}}\.{_A}{{20,24}}", TRUFFLEHOG, "api_"),
    _row(
        "fullstory-key", "FullStory keys", rf"(?:na|eu)1\.{_B64}{{60,}}+", TRUFFLEHOG, "na1. eu1."
    ),
    _row(
        "tableau-token",
        "Tableau tokens",
        rf"[A-Za-z0-9+/]{{22}}==:{_A}{{32}}(?!\w)",
        TRUFFLEHOG,
        "==:",
        reach=22,
    ),
    _row(
        "coinbase-key",
        "names of Coinbase keys",
        rf"organizations\\*/{_UUID}\\*/apiKeys\\*/{_UUID}",
        TRUFFLEHOG,
        "organizations",
    ),
    _row(
        "entra-secret",
        "client secrets of Microsoft Entra",
        r"[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~])",
        GITLEAKS,
        "q~",
        near=r"[0-9]q~[a-z0-9_~.-]{31}",
        reach=3,
    ),
    _row(
        "convex-key",
        "Convex deploy keys",
        rf"(?:prod|dev|preview|project):[\w-]{{3,60}}(?::[\w-]{{3,60}})?\|{_B64}{{40,}}+",
        VENDOR,
        "prod: dev: preview: project:",
    ),
    _row(
        "node-key",
        "keys in the addresses of Ethereum nodes",
        r"(?:infura\.io/(?:ws/)?v3|alchemy\.com/(?:nft/)?v[23]|alchemyapi\.io/v2)/"
        r"(?P<secret>[\w-]{30,}+)",
        VENDOR,
        "infura.io alchemy",
    ),
    _row(
        "telegram-token",
        "Telegram bot tokens",
        rf"(?:bot)?(?P<secret>[0-9]{{7,12}}:{_W}{{34,36}}(?![\w-]))",
        DETECT_SECRETS,
        ":",
        near=r":[a-z0-9_-]{34,36}(?![a-z0-9_-])",
        reach=15,
        accepts=_has_digit,
    ),
    _row(
        "discord-token",
        "Discord tokens and webhooks",
        rf"[MNO]{_W}{{22,28}}\.{_W}{{6}}\.{_W}{{27,40}}(?!\w)|mfa\.{_W}{{80,}}+"
        rf"|discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/(?P<secret>[0-9]{{15,21}}/{_W}{{50,}}+)",
        DETECT_SECRETS,
        "m n o mfa. discord",
        near=r"[mno][a-z0-9_-]{22,28}\.[a-z0-9_-]{6}\.|mfa\.|discord(?:app)?\.com/api/",
    ),
    _row(
        "teams-webhook",
        "webhooks of Teams and of Power Automate",
        r"(?:webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/"
        r"(?P<secret>[\w@/-]{40,}+)",
        GITLEAKS,
        "webhook.office.com/webhookb2 outlook.office",
    ),
    _row(
        "webhook",
        "webhooks of Zapier, IFTTT, Google Chat, Make, Tines, Pipedream and Lark",
        r"hooks\.zapier\.com/hooks/(?:catch/)?(?P<secret>[A-Za-z0-9/]{12,}+)"
        r"|maker\.ifttt\.com/trigger/[\w-]{1,100}/(?:json/)?with/key/(?P<secret_ifttt>[\w-]{20,}+)"
        r"|hook\.(?:[a-z0-9]+\.)?(?:make|integromat)\.com/(?P<secret_make>[a-z0-9]{20,}+)"
        r"|[\w-]{1,60}\.tines\.com/webhook/(?P<secret_tines>[a-z0-9]{32}/[a-z0-9]{32})"
        r"|[a-z0-9]{10,40}\.m\.pipedream\.net|open\.(?:feishu\.cn"
        r"|larksuite\.com)/open-apis/bot/v2/hook/(?P<secret_lark>[\w-]{20,}+)",
        TRUFFLEHOG,
        "hooks.zapier.com maker.ifttt.com hook. .tines.com .m.pipedream.net open.feishu.cn "
        "open.larksuite.com",
        near=r"hooks\.zapier\.com|maker\.ifttt\.com|hook\.(?:[a-z0-9]{1,9}\.)?(?:make|integromat)\.com|\.tines\.com|\.m\.pipedream\.net|open\.(?:feishu|larksuite)",
        reach=60,
    ),
    _row(
        "sendgrid-key", "SendGrid keys", rf"SG\.{_W}{{16,32}}\.{_W}{{32,64}}(?!\w)", GITLEAKS, "sg."
    ),
    _row(
        "mailgun-key", "Mailgun keys", rf"(?:pub)?key-{_HEX}{{32}}(?!\w)", GITLEAKS, "key- pubkey-"
    ),
    _row(
        "brevo-key",
        "Brevo keys",
        rf"x(?:keys|smtps)ib-{_HEX}{{40,}}+(?:-{_A}{{12,}}+)?",
        GITLEAKS,
        "xkeysib- xsmtpsib-",
    ),
    _row(
        "resend-key",
        "Resend keys",
        rf"re_{_A}{{6,10}}_{_A}{{20,}}+",
        VENDOR,
        "re_",
        accepts=_is_random,
    ),
    _row("mailersend-key", "MailerSend keys", rf"mlsn\.{_HEX}{{60,}}+", VENDOR, "mlsn."),
    _row(
        "twilio-key",
        "Twilio keys",
        rf"(?:SK|AC|AP|CR){_HEX}{{32}}(?!\w)",
        GITLEAKS,
        "sk ac ap cr",
        accepts=_has_digit,
        near=r"(?:sk|ac|ap|cr)[0-9a-f]{32}",
    ),
    _row(
        "twitch-token",
        "Twitch chat tokens",
        r"oauth:[a-z0-9]{28,40}(?!\w)",
        GITLEAKS,
        "oauth:",
        accepts=_has_digit,
    ),
    _row(
        "facebook-token",
        "Facebook and Instagram tokens",
        rf"EAA[A-Z]{_A}{{60,}}+|IG(?:QV|AA){_W}{{60,}}+",
        GITLEAKS,
        "eaa igqv igaa",
    ),
    _row(
        "twitter-token",
        "X bearer tokens",
        r"A{20,22}[A-Za-z0-9%+/=]{60,}+",
        GITLEAKS,
        "aaaaaaaaaaaaaaaaaaaa",
    ),
    _row(
        "linkedin-token",
        "LinkedIn secrets and tokens",
        r"WPL_AP[01]\.[\w.+/=-]{16,}+|AQ[UVWX][\w-]{80,}+",
        VENDOR,
        "wpl_ap aqu aqv aqw aqx",
        accepts=_is_random,
    ),
    _row("pinterest-token", "Pinterest tokens", rf"pin[ar]_{_A}{{60,}}+", VENDOR, "pina_ pinr_"),
    # Work
    _row(
        "linear-key", "Linear keys and tokens", rf"lin_[a-z]{{2,6}}_{_A}{{32,}}+", GITLEAKS, "lin_"
    ),
    _row(
        "figma-token",
        "Figma tokens",
        r"fig[a-z]{1,2}_[\w=-]{32,}+",
        TRUFFLEHOG,
        "fig",
        near="fig[a-z]{1,2}_",
    ),
    _row(
        "postman-key",
        "Postman keys",
        rf"PM(?:AK|AT)-{_A}{{24,26}}(?:-{_A}{{30,}}+)?",
        GITLEAKS,
        "pmak- pmat-",
    ),
    _row(
        "asana-token",
        "Asana tokens",
        rf"[012]/[0-9]{{15,17}}(?:/[0-9]{{15,17}})?:{_HEX}{{32}}(?!\w)",
        VENDOR,
        "0/ 1/ 2/",
        near=r"[012]/[0-9]{15}",
    ),
    _row("clickup-token", "ClickUp tokens", r"pk_[0-9]{6,9}_[0-9A-Z]{32}(?!\w)", KINGFISHER, "pk_"),
    _row("typeform-token", "Typeform tokens", r"tfp_[\w.=-]{40,}+", GITLEAKS, "tfp_"),
    _row("chutes-key", "Chutes keys", r"cpk_[\w]{16,}(?:\.[\w]{16,}){0,2}", VENDOR, "cpk_"),
    _row(
        "dpapi-secret",
        "secrets that Windows encrypted (DPAPI), also as secure strings of PowerShell",
        rf"01000000d08c9ddf{_HEX}{{40,}}+|AQAAANCMnd8BFdER{_B64}{{40,}}+|76492d1116743f04{_HEX}{{16}}"
        rf"{_B64}{{20,}}+",
        VENDOR,
        "01000000d08c9ddf aqaaancmnd8bfder 76492d1116743f04",
    ),
    _row("contentful-token", "Contentful tokens", rf"CFPAT-{_W}{{40,}}+", KINGFISHER, "cfpat-"),
    _row(
        "dropbox-token",
        "Dropbox tokens",
        rf"sl\.(?:[a-z]\.)?{_W}{{60,}}+|{_A}{{11}}AAAAAAAAAA{_W}{{40,}}+",
        GITLEAKS,
        "sl. aaaaaaaaaa",
    ),
    _row("hubspot-token", "HubSpot tokens", rf"pat-[a-z]{{2}}[0-9]-{_UUID}", KINGFISHER, "pat-"),
    _row(
        "salesforce-token",
        "Salesforce tokens",
        rf"00D{_A}{{12,15}}![\w.]{{80,}}+|5Aep861[\w.=]{{60,}}+|3MVG9[\w.]{{60,}}+",
        TRUFFLEHOG,
        "00d 5aep861 3mvg9",
    ),
    _row("frameio-token", "Frame.io tokens", r"fio-u-[\w=-]{50,}+", GITLEAKS, "fio-u-"),
    _row("readme-key", "ReadMe keys", rf"rdme_{_A}{{50,}}+", GITLEAKS, "rdme_"),
    _row("hawk-key", "StackHawk keys", rf"hawk\.{_W}{{20}}\.{_W}{{20}}(?!\w)", KINGFISHER, "hawk."),
    _row(
        "voiceflow-key",
        "Voiceflow keys",
        rf"VF\.(?:[A-Z]{{2}}\.)?{_HEX}{{24}}\.{_A}{{16}}",
        KINGFISHER,
        "vf.",
    ),
    _row("adobe-secret", "Adobe secrets", rf"p8e-{_W}{{30,}}+", GITLEAKS, "p8e-"),
    _row(
        "mapbox-token",
        "Mapbox tokens",
        rf"[sp]k\.eyJ{_W}{{20,}}\.{_W}{{18,}}+|[sp]k\.{_A}{{32}}(?!\w)",
        GITLEAKS,
        "sk. pk.",
        accepts=_has_digit,
    ),
    _row("maxmind-key", "MaxMind keys", rf"{_A}{{6}}_{_A}{{29}}_mmk", GITLEAKS, "_mmk", reach=36),
    _row(
        "authress-key",
        "Authress keys",
        rf"(?:sc|ext|scauth|authress)_{_A}{{5,30}}\.{_A}{{4,6}}\.acc[_-][a-z0-9-]{{10,32}}\.[\w+/=-]{{30,}}+",
        GITLEAKS,
        "sc_ ext_ scauth_ authress_",
    ),
    _row("flexport-token", "Flexport tokens", rf"shltm_{_W}{{36,}}+", TRUFFLEHOG, "shltm_"),
    # Money
    _row(
        "stripe-key",
        "Stripe secret keys",
        rf"[sr]k_(?:live|test|prod|org)_{_A}{{10,}}+|whsec_{_B64}{{24,}}+"
        rf"|pi_{_A}{{20,30}}_secret_{_A}{{20,}}+",
        GITLEAKS,
        "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_ sk_org_ rk_org_ whsec_ pi_",
    ),
    _row(
        "square-token",
        "Square tokens",
        rf"EAAA{_W}{{40,}}+|(?:sandbox-)?sq0[a-z]{{3}}-{_W}{{20,}}+",
        GITLEAKS,
        "eaaa sq0 sandbox-sq0",
        near="eaaa|(?:sandbox-)?sq0",
    ),
    _row(
        "shopify-token",
        "Shopify tokens",
        rf"shp[a-z]{{2,3}}_{_A}{{30,}}+",
        GITLEAKS,
        "shp",
        near="shp[a-z]{2,3}_",
    ),
    _row(
        "paypal-token",
        "PayPal and Braintree tokens",
        rf"access_token\$(?:production|sandbox)\${_A}{{12,20}}\${_HEX}{{32}}",
        VENDOR,
        "access_token$",
    ),
    _row(
        "plaid-token",
        "Plaid tokens",
        rf"(?:access|public|link)-(?:sandbox|development|production)-{_UUID}",
        GITLEAKS,
        "access- public- link-",
    ),
    _row(
        "razorpay-key",
        "Razorpay keys",
        rf"rzp_(?:live|test)_{_A}{{10,}}+",
        TRUFFLEHOG,
        "rzp_",
        accepts=_has_digit,
    ),
    _row(
        "flutterwave-key",
        "Flutterwave keys",
        rf"FLW(?:SECK|PUBK)(?:_TEST)?-{_A}{{12,}}+(?:-X)?",
        GITLEAKS,
        "flwseck flwpubk",
        near="flw(?:seck|pubk)",
    ),
    _row(
        "mollie-key",
        "Mollie, Lob and GoCardless keys",
        rf"(?:live|test)_{_W}{{30,}}+",
        GITLEAKS,
        "live_ test_",
        accepts=_is_random,
    ),
    _row(
        "shippo-token",
        "Shippo tokens",
        rf"shippo_(?:live|test)_{_HEX}{{32,}}+",
        GITLEAKS,
        "shippo_",
    ),
    _row("easypost-key", "EasyPost keys", rf"EZ[AT]K{_A}{{40,}}+", GITLEAKS, "ezak eztk"),
    _row(
        "duffel-token", "Duffel tokens", r"duffel_(?:test|live)_[\w=-]{32,}+", GITLEAKS, "duffel_"
    ),
    _row("woocommerce-key", "WooCommerce keys", rf"c[ks]_{_HEX}{{40}}(?!\w)", VENDOR, "ck_ cs_"),
    _row("paddle-key", "Paddle keys", r"pdl_(?:live|sdbx)_[a-z]+_[\w]{20,}+", VENDOR, "pdl_"),
    # Keys of people and machines
    _row(
        "age-key",
        "age keys",
        r"AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{40,}+",
        GITLEAKS,
        "age-secret-key-",
    ),
    _row(
        "wallet-key",
        "keys of wallets: extended keys and Nostr keys",
        rf"[xyztuv]prv{_A}{{80,}}+|nsec1[a-z0-9]{{50,}}+",
        VENDOR,
        "xprv yprv zprv tprv uprv vprv nsec1",
    ),
    _row(
        "ansible-vault",
        "Ansible Vault blocks",
        r"\$ANSIBLE_VAULT;[0-9.]{1,5};AES(?:256)?(?:;[\w-]{1,64})?(?P<secret>"
        r"(?:\s{1,64}[0-9a-f]{20,}+){1,4096})",
        VENDOR,
        "$ansible_vault;",
    ),
    _row(
        "password-hash",
        "hashes of passwords",
        r"\$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}|\$[156y]\$[./A-Za-z0-9$=,]{20,}+|\$argon2(?:id|i"
        r"|d)\$[\w=,$+/]{30,}+|\{S?SHA(?:256|512)?\}[A-Za-z0-9+/=]{20,}+",
        KINGFISHER,
        "$2 $1$ $5$ $6$ $y$ $argon2 {sha {ssha",
        accepts=_has_digit,
    ),
    Rule(
        "jwt",
        "JSON web tokens",
        re.compile(_JWT),
        ("eyj",),
        finder=re.compile(r"eyj[\w-]*+"),  # the first in a word, so that each is gone over once
        is_format=True,
        source=GITLEAKS,
    ),
)


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
