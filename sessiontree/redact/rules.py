"""All rules in their order of precedence, credentials of a known format, and a user's own rules.

The formats are from gitleaks (config/gitleaks.toml), detect-secrets (detect_secrets/plugins),
trufflehog (pkg/detectors), kingfisher (data/rules) and the documentation of the services. Lengths
are the published ones, or a little less where a service issues several. `prefixed-token` finds
formats of the same families that no row names: a short prefix, a separator, a random value.

Invariants: an expression starts at one of its hints, which are lower case, or at most `reach`
characters before it. It is tied to the start of a word, and tried only where `near`, or a hint, is.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from typing import Any, Final

from sessiontree.errors import UsageError
from sessiontree.redact.context import CREDENTIALS
from sessiontree.redact.rule import QUOTE, START, Rule, is_varied, looks_random
from sessiontree.redact.values import ANY_HOME

_UUID: Final = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_SETS: Final = {
    "<A>": "[A-Za-z0-9]",
    "<W>": "[A-Za-z0-9_-]",
    "<H>": "[0-9a-fA-F]",
    "<B>": "[A-Za-z0-9+/=]",
    "<uuid>": _UUID,
}
_OF_A_WORD: Final = re.compile(r"[A-Za-z0-9+/_~.-]*+")


def _is_key(match: re.Match[str]) -> bool:
    return is_varied(match[0])


def _has_digit(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and any(c.isdigit() for c in match[0])


def _is_random(match: re.Match[str]) -> bool:
    return is_varied(match[0]) and looks_random(match[0])


_CHECKS: Final = {"": _is_key, "digit": _has_digit, "random": _is_random}


_IDENTIFIERS: Final = """
    toolu srvtoolu mcptoolu call msg req resp chatcmpl cmpl fc rs ws run thread asst file org proj
    user acct cus sub ch evt price prod inv batch step item vs sess cntr ctc mcpr mcp ci gen id uuid
    ref hash commit build chunk index main vendor style module blob tree image img container layer
    digest etag rev snap vol vpc subnet ami eni sg rtb igw nat eipalloc key pod job task test node
    worker version cache tmp temp session conversation message event trace span request response
    block part page bundle asset font icon ft ftjob log nonce ses conv
    """
_IDS: Final = frozenset(_IDENTIFIERS.split())
"""Prefixes of identifiers, which give no access."""

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
    """True if a word is a short prefix and a random value, not an identifier or hash."""
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
)
CUT_KEY: Final = Rule(
    "private-key",
    "private keys whose first lines are cut off",
    _KEY_END,
    ("private key",),
    search=_headless,
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
)

_TABLE: Final = r"""
# Models
anthropic-key  Anthropic API keys  sk-ant-<W>{16,}+  sk-ant-
openai-key  OpenAI API keys, and those of others in their style (sk-…)
    sk-(?:proj|svcacct|service|admin|None|or-v1|lf|let|helicone)-<W>{16,}+|sk-<A>{32,}+  sk-
langfuse-key  Langfuse keys  [ps]k-lf-<uuid>  sk-lf- pk-lf-
groq-key  Groq API keys  gsk_<A>{40,}+  gsk_
xai-key  xAI API keys  xai-<W>{40,}+  xai-
perplexity-key  Perplexity API keys  pplx-<A>{32,}+  pplx-
replicate-token  Replicate tokens  r8_<W>{32,}+  r8_
elevenlabs-key  ElevenLabs API keys, and others that are sk_ and hexadecimal  sk_<H>{32,}+  sk_
langsmith-key  LangSmith keys  lsv2_(?:pt|sk)_<A>{24,}+(?:_<A>{6,}+)?|ls__<A>{24,}+  lsv2_ ls__
cerebras-key  Cerebras API keys  csk-<A>{32,}+  csk-
fireworks-key  Fireworks AI keys  fw_<A>{20,}+  fw_ check=random
together-key  Together AI keys  tgp_v[0-9]_<W>{32,}+  tgp_v
nvidia-key  NVIDIA API keys  nvapi-<W>{32,}+  nvapi-
pinecone-key  Pinecone keys  pcsk_<W>{32,}+  pcsk_
voyage-key  Voyage AI keys  pa-<W>{40,}+  pa- check=random
jina-key  Jina AI keys  jina_<W>{32,}+  jina_
tavily-key  Tavily keys  tvly-<W>{20,}+  tvly- check=digit
firecrawl-key  Firecrawl keys  fc-<H>{32}(?!\w)  fc-
e2b-key  E2B keys  e2b_<H>{32,}+  e2b_
runpod-key  RunPod keys  rpa_<A>{32,}+  rpa_
modal-token  Modal tokens  a[ks]-<A>{22}(?!\w)  ak- as- check=random
cursor-key  Cursor keys  (?:key|crsr)_<H>{64}  key_ crsr_
brave-key  Brave Search keys  BSA<W>{28}(?!\w)  bsa check=random near=bsa[a-z0-9_-]{28}
huggingface-token  Hugging Face tokens  (?:hf|api_org)_<A>{30,}+  hf_ api_org_
braintrust-key  Braintrust keys  bt-st-<W>{32,}+  bt-st-
# Source code and packages
github-token  GitHub tokens  gh[pousr]_[A-Za-z0-9_]{36,}+|github_pat_\w{22,}+|v1\.[0-9a-f]{40}(?!\w)
    ghp_ gho_ ghu_ ghs_ ghr_ github_pat_
gitlab-token  GitLab tokens of all kinds
    gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|agent|soat|oas|ffct|wt|pt)-<W>{20,}+(?:\.<A>{2,}+){0,3}
    |GR1348941<W>{20,}+
    glpat- gldt- glrt- glrtr- glcbt- glptt- glft- glimt- glagent- glsoat- gloas- glffct- glwt- glpt-
    gr1348941
atlassian-token  Atlassian and Bitbucket tokens  AT(?:ATT|CTT|STT)3[\w=+/-]{40,}+|ATBB[\w=.-]{24,}+
    |ATOA[\w=.-]{40,}+|BBDC-[\w+/@-]{40,50}|ATTA[0-9a-f]{64}
    atatt3 atctt3 atstt3 atbb atoa bbdc- atta
npm-token  npm tokens  npm_<A>{36,}+  npm_
pypi-token  PyPI tokens  pypi-AgE<W>{32,}+  pypi-age
rubygems-key  RubyGems keys  rubygems_<A>{40,}+  rubygems_
crates-token  crates.io tokens  cio<A>{32}(?!\w)  cio check=random near=cio[a-z0-9]{32}
nuget-key  NuGet keys  oy2[a-z0-9]{43}(?!\w)  oy2 check=digit near=oy2[a-z0-9]{43}
clojars-token  Clojars tokens  (?i:clojars)_<A>{50,}+  clojars_
packagist-token  Packagist tokens  packagist_[a-z]{3}_<H>{40,}+  packagist_
artifactory-token  Artifactory keys and tokens  AKC[a-z0-9]<A>{60,}+|cmVmd<A>{50,}+
    |AP[0-9A-F]<A>{32,}+(?=[\"'\s]|$)
    akc cmvmd ap check=random near=akc[a-z0-9]{20}|cmvmd[a-z0-9]{20}|ap[0-9a-f][a-z0-9]{32}
docker-token  Docker Hub tokens  dckr_[a-z]{2,4}_<W>{20,}+  dckr_
sourcegraph-token  Sourcegraph tokens  (?:sgp|sgd|slk|sgs)_(?:local_|<H>{16}_)?<H>{40,}+
    sgp_ sgd_ slk_ sgs_
sonar-token  Sonar tokens  sq(?:u|p|a|co)_<A>{40,}+  squ_ sqp_ sqa_ sqco_
snyk-token  Snyk tokens  snyk_[a-z]{2,4}\.<A>{4,}+\.<W>{20,}+  snyk_
# Continuous integration and delivery
circleci-token  CircleCI tokens  CCI(?:PAT|PRJ)_<A>{20,24}_<H>{40}  ccipat_ cciprj_
buildkite-token  Buildkite tokens  bk(?:ua|ct|pt|aj|ar|at)_<A>{32,}+
    bkua_ bkct_ bkpt_ bkaj_ bkar_ bkat_
harness-token  Harness tokens  [ps]at\.<W>{20,24}\.<A>{20,28}\.<A>{16,24}(?!\w)  pat. sat.
octopus-key  Octopus Deploy keys  API-[A-Z0-9]{25,32}(?![\w-])  api- check=digit
terraform-token  Terraform Cloud tokens  <A>{14}\.atlasv1\.[\w=-]{50,}+  .atlasv1. reach=14
pulumi-token  Pulumi tokens  pul-<A>{40}(?!\w)  pul- check=digit
doppler-token  Doppler tokens  dp\.(?:pt|ct|st|sa|scim|audit)\.(?:[\w-]{2,35}\.)?<A>{38,48}(?!\w)
    dp.pt. dp.ct. dp.st. dp.sa. dp.scim. dp.audit.
infisical-token  Infisical tokens  st\.<H>{24}\.<H>{32}\.<H>{32}  st.
vault-token  HashiCorp Vault tokens  hv[sbr]\.<W>{20,}+|[sbr]\.<A>{24}(?![\w.])
    hvs. hvb. hvr. s. b. r. check=random near=hv[sbr]\.|[sbr]\.[a-z0-9]{24}
prefect-key  Prefect keys  pn[ub]_<A>{32,}+  pnu_ pnb_
infracost-key  Infracost keys  ico-<A>{32}(?!\w)  ico- check=random
onepassword-key  1Password keys and tokens
    A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}(?:-[A-Z0-9]{5}){3}|ops_eyJ[\w+/=-]{100,}+  a3- ops_eyj
# Clouds
aws-access-key  AWS access key ids  (?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z0-9]{16,}+
    akia asia abia acca a3t near=(?:akia|asia|abia|acca|a3t[a-z0-9])[a-z0-9]{16}
bedrock-key  Amazon Bedrock keys  ABSK<B>{80,}+|bedrock-api-key-<B>{20,}+  absk bedrock-api-key-
google-key  Google API keys, OAuth secrets and tokens  AIza<W>{35,}+|GOCSPX-<W>{20,}+
    |ya29\.<W>{20,}+|1//0<W>{30,}+|AQ\.<W>{40,}+|GOOG[\w]{30,60}(?!\w)
    aiza gocspx- ya29. 1//0 aq. goog near=aiza|gocspx-|ya29\.|1//0|aq\.(?=[a-z0-9_-]{40})
    |goog[a-z0-9_]{30}
firebase-key  Firebase messaging keys  AAAA<W>{7}:<W>{100,}+  aaaa near=aaaa[a-z0-9_-]{7}:
azure-secret  Azure client secrets and service keys  (?<!sha512-)<W>{86}==(?![\w=])
    |[\w+/]{30,80}(?:JQQJ99|AzSe|\+ACR|\+ASt|AzCa|AzFu|APIM)[\w+/=]{4,50}
    jqqj99 azse +acr +ast azca azfu apim == reach=90 near=jqqj99|azse|\+acr|\+ast|azca|azfu|apim
    |={2}(?<=[a-z0-9_-]{86}==)
digitalocean-token  DigitalOcean tokens  do[oprt]_v1_<H>{40,}+  doo_v1_ dop_v1_ dor_v1_ dot_v1_
databricks-token  Databricks tokens  (?:dapi|dose|dkea|dsapi)<H>{32,}+(?:-[0-9]{1,2})?
    dapi dose dkea dsapi
alibaba-key  Alibaba Cloud key ids  LTAI<A>{12,26}(?!\w)  ltai check=digit
tencent-key  Tencent and Volcengine key ids  AK(?:ID|LT)<A>{32,}+  akid aklt check=random
baidu-key  Baidu Cloud keys  bce-v3/<W>{10,60}/<H>{32,64}  bce-v3/
yandex-token  Yandex keys and tokens  AQVN<W>{30,40}|y[0-9]_A<W>{30,}+
    |t1\.<W>{20,300}={0,2}\.<W>{60,100}={0,2}|YC<W>{38}(?!\w)
    aqvn y0_a y1_a y2_a y3_a t1. yc check=digit near=aqvn|y[0-9]_a|t1\.[a-z0-9_-]{20}
    |yc[a-z0-9_-]{38}
cloudflare-token  Cloudflare keys and tokens  v1\.0-<A>{20,28}-<A>{100,}+|cf(?:k|ut|at|ct)_<A>{40,}+
    v1.0- cfk_ cfut_ cfat_ cfct_
heroku-key  Heroku keys  HRKU-<W>{36,}+  hrku-
fly-token  Fly.io tokens  fo1_[\w-]{40,}+|fm[12][ar]?_[A-Za-z0-9+/=_-]{80,}+
    fo1_ fm1a_ fm1r_ fm2_ fm1_
netlify-token  Netlify tokens  nf[pcou]_<A>{32,}+  nfp_ nfc_ nfo_ nfu_
vercel-token  Vercel tokens  vc[apirk]_<A>{24,}+|vercel_blob_rw_<W>{24,}+
    vca_ vcp_ vci_ vcr_ vck_ vercel_blob_rw_
render-key  Render keys  rnd_<A>{28,}+  rnd_ check=random
scaleway-key  Scaleway key ids  SCW[A-Z0-9]{17}(?!\w)  scw check=digit near=scw[a-z0-9]{17}
openshift-token  OpenShift tokens  sha256~<W>{43}(?!\w)  sha256~
tailscale-key  Tailscale keys  tskey-(?:[a-z]+-)?<A>{6,}+(?:[-_]<A>{8,}+)?  tskey- check=digit
nebula-key  Defined Networking keys  dnkey-[\w=-]{40,}+  dnkey-
netbird-token  NetBird tokens  nbp_<A>{32,}+  nbp_
# Data
supabase-key  Supabase keys and tokens  sbp_(?:oauth_)?<A>{32,}+|sb_(?:secret|publishable)_<W>{20,}+
    sbp_ sb_secret_ sb_publishable_
planetscale-token  PlanetScale passwords and tokens  pscale_[a-z]{2,6}_[\w=.-]{30,}+  pscale_
neon-key  Neon keys  (?:napi|npg)_<A>{12,}+  napi_ npg_ check=digit
mongodb-key  MongoDB Atlas keys  mdb_sa_(?:sk|id)_<W>{20,}+  mdb_sa_
cockroach-key  CockroachDB keys  CCDB1_<A>{20,}_<A>{32,}+  ccdb1_
clickhouse-key  ClickHouse Cloud keys  4b1d<A>{38}(?!\w)  4b1d check=random
airtable-token  Airtable keys and tokens  pat<A>{14}\.<H>{40,}+|key<A>{14}(?!\w)
    |<A>{4,40}\.v1\.<W>{10,200}\.[0-9a-f]{40,}+
    pat key .v1. check=random reach=40 near=pat[a-z0-9]{14}\.|key[a-z0-9]{14}(?![a-z0-9_])
    |\.v1\.[a-z0-9_-]{10}
notion-token  Notion tokens  (?:ntn|secret)_<A>{40,}+  ntn_ secret_
confluent-secret  Confluent secrets  cflt[\w+/=]{50,}+  cflt
dbt-token  dbt tokens  dbt[uscp]_<W>{30,}+  dbtu_ dbts_ dbtc_ dbtp_
elastic-key  Elastic keys  essu_<B>{40,}+  essu_
# Observing
sentry-token  Sentry tokens  sntry[a-z]_[\w+/=-]{40,}+  sntrys_ sntryu_ sntryi_ sntrya_
newrelic-key  New Relic keys  NR(?:AK|II|IQ|JS|BR|RA|SP|AA)-<W>{19,}+
    |(?:eu01xx)?<H>{26,36}(?:FFFF)?NRAL|(?:AA|eu01xx)<H>{36,40}-NRMA
    nrak- nrii- nriq- nrjs- nrbr- nrra- nrsp- nraa- nral -nrma reach=46
grafana-token  Grafana keys and tokens  glsa_<W>{32,}+|gl[cu]_[\w+/=]{32,}+|eyJrIjoi<B>{40,}+
    glsa_ glc_ glu_ eyjrijoi
dynatrace-token  Dynatrace tokens  dt0[a-z][0-9]{2}\.<A>{8,24}\.<A>{40,}+
    dt0 near=dt0[a-z][0-9]{2}\.
honeycomb-key  Honeycomb keys  hc[a-z][ilm]k_[a-z0-9]{40,}+  hc near=hc[a-z][ilm]k_
posthog-key  PostHog keys  ph[xscart]_<W>{32,}+  phx_ phs_ phc_ pha_ phr_ pht_
openweather-key  OpenWeather keys, in addresses  appid=(?P<secret><H>{32})(?!\w)  appid=
rootly-token  Rootly tokens  rootly_<H>{40,}+  rootly_
launchdarkly-key  LaunchDarkly keys  (?:sdk|api|mob|rel)-<uuid>  sdk- api- mob- rel-
statsig-key  Statsig keys  secret-<A>{30,}+  secret- check=random
# Messages
slack-token  Slack tokens and webhooks  xox[a-z](?:\.xox[a-z])?-<W>{10,}+|xapp-<W>{20,}+
    |hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_+-]{20,}+)
    xox xapp- hooks.slack
zoho-token  Zoho tokens  1000\.<H>{32}\.<H>{32}  1000.
close-key  Close keys  api_<A>{20,24}\.<A>{20,24}  api_
fullstory-key  FullStory keys  (?:na|eu)1\.<B>{60,}+  na1. eu1.
tableau-token  Tableau tokens  [A-Za-z0-9+/]{22}==:<A>{32}(?!\w)  ==: reach=22
coinbase-key  names of Coinbase keys  organizations\\*/<uuid>\\*/apiKeys\\*/<uuid>  organizations
entra-secret  client secrets of Microsoft Entra
    [A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}(?![\w~])  q~ reach=3 near=[0-9]q~[a-z0-9_~.-]{31}
convex-key  Convex deploy keys  (?:prod|dev|preview|project):[\w-]{3,60}(?::[\w-]{3,60})?\|<B>{40,}+
    prod: dev: preview: project:
node-key  keys in the addresses of Ethereum nodes
    (?:infura\.io/(?:ws/)?v3|alchemy\.com/(?:nft/)?v[23]|alchemyapi\.io/v2)/(?P<secret>[\w-]{30,}+)
    infura.io alchemy
telegram-token  Telegram bot tokens  (?:bot)?(?P<secret>[0-9]{7,12}:<W>{34,36}(?![\w-]))
    : check=digit reach=15 near=:[a-z0-9_-]{34,36}(?![a-z0-9_-])
discord-token  Discord tokens and webhooks  [MNO]<W>{22,28}\.<W>{6}\.<W>{27,40}(?!\w)|mfa\.<W>{80,}+
    |discord(?:app)?\.com/api/(?:v[0-9]+/)?webhooks/(?P<secret>[0-9]{15,21}/<W>{50,}+)
    m n o mfa. discord near=[mno][a-z0-9_-]{22,28}\.[a-z0-9_-]{6}\.|mfa\.|discord(?:app)?\.com/api/
teams-webhook  webhooks of Teams and of Power Automate
    webhook\.office\.com/webhookb2/(?P<secret>[\w@/-]{40,}+)
    |outlook\.office(?:365)?\.com/webhook/(?P<secret_outlook>[\w@/-]{40,}+)
    webhook.office.com/webhookb2 outlook.office
webhook  webhooks of Zapier, IFTTT, Google Chat, Make, Tines, Pipedream and Lark
    hooks\.zapier\.com/hooks/(?:catch/)?(?P<secret>[A-Za-z0-9/]{12,}+)
    |maker\.ifttt\.com/trigger/[\w-]{1,100}/(?:json/)?with/key/(?P<secret_ifttt>[\w-]{20,}+)
    |hook\.(?:[a-z0-9]+\.)?(?:make|integromat)\.com/(?P<secret_make>[a-z0-9]{20,}+)
    |[\w-]{1,60}\.tines\.com/webhook/(?P<secret_tines>[a-z0-9]{32}/[a-z0-9]{32})
    |[a-z0-9]{10,40}\.m\.pipedream\.net
    |open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/(?P<secret_lark>[\w-]{20,}+)
    hooks.zapier.com maker.ifttt.com hook. .tines.com .m.pipedream.net open.feishu.cn
    open.larksuite.com reach=60 near=hooks\.zapier\.com|maker\.ifttt\.com
    |hook\.(?:[a-z0-9]{1,9}\.)?(?:make|integromat)\.com|\.tines\.com|\.m\.pipedream\.net
    |open\.(?:feishu|larksuite)
sendgrid-key  SendGrid keys  SG\.<W>{16,32}\.<W>{32,64}(?!\w)  sg.
mailgun-key  Mailgun keys  (?:pub)?key-<H>{32}(?!\w)  key- pubkey-
brevo-key  Brevo keys  x(?:keys|smtps)ib-<H>{40,}+(?:-<A>{12,}+)?  xkeysib- xsmtpsib-
resend-key  Resend keys  re_<A>{6,10}_<A>{20,}+  re_ check=random
mailersend-key  MailerSend keys  mlsn\.<H>{60,}+  mlsn.
twilio-key  Twilio keys  (?:SK|AC|AP|CR)<H>{32}(?!\w)
    sk ac ap cr check=digit near=(?:sk|ac|ap|cr)[0-9a-f]{32}
twitch-token  Twitch chat tokens  oauth:[a-z0-9]{28,40}(?!\w)  oauth: check=digit
facebook-token  Facebook and Instagram tokens  EAA[A-Z]<A>{60,}+|IG(?:QV|AA)<W>{60,}+  eaa igqv igaa
twitter-token  X bearer tokens  A{20,22}[A-Za-z0-9%+/=]{60,}+  aaaaaaaaaaaaaaaaaaaa
linkedin-token  LinkedIn secrets and tokens  WPL_AP[01]\.[\w.+/=-]{16,}+|AQ[UVWX][\w-]{80,}+
    wpl_ap aqu aqv aqw aqx check=random
pinterest-token  Pinterest tokens  pin[ar]_<A>{60,}+  pina_ pinr_
# Work
linear-key  Linear keys and tokens  lin_[a-z]{2,6}_<A>{32,}+  lin_
figma-token  Figma tokens  fig[a-z]{1,2}_[\w=-]{32,}+  fig near=fig[a-z]{1,2}_
postman-key  Postman keys  PM(?:AK|AT)-<A>{24,26}(?:-<A>{30,}+)?  pmak- pmat-
asana-token  Asana tokens  [012]/[0-9]{15,17}(?:/[0-9]{15,17})?:<H>{32}(?!\w)
    0/ 1/ 2/ near=[012]/[0-9]{15}
clickup-token  ClickUp tokens  pk_[0-9]{6,9}_[0-9A-Z]{32}(?!\w)  pk_
typeform-token  Typeform tokens  tfp_[\w.=-]{40,}+  tfp_
chutes-key  Chutes keys  cpk_[\w]{16,}(?:\.[\w]{16,}){0,2}  cpk_
dpapi-secret  secrets that Windows encrypted (DPAPI), also as secure strings of PowerShell
    01000000d08c9ddf<H>{40,}+|AQAAANCMnd8BFdER<B>{40,}+|76492d1116743f04<H>{16}<B>{20,}+
    01000000d08c9ddf aqaaancmnd8bfder 76492d1116743f04
contentful-token  Contentful tokens  CFPAT-<W>{40,}+  cfpat-
dropbox-token  Dropbox tokens  sl\.(?:[a-z]\.)?<W>{60,}+|<A>{11}AAAAAAAAAA<W>{40,}+  sl. aaaaaaaaaa
hubspot-token  HubSpot tokens  pat-[a-z]{2}[0-9]-<uuid>  pat-
salesforce-token  Salesforce tokens  00D<A>{12,15}![\w.]{80,}+|5Aep861[\w.=]{60,}+|3MVG9[\w.]{60,}+
    00d 5aep861 3mvg9
frameio-token  Frame.io tokens  fio-u-[\w=-]{50,}+  fio-u-
readme-key  ReadMe keys  rdme_<A>{50,}+  rdme_
hawk-key  StackHawk keys  hawk\.<W>{20}\.<W>{20}(?!\w)  hawk.
voiceflow-key  Voiceflow keys  VF\.(?:[A-Z]{2}\.)?<H>{24}\.<A>{16}  vf.
adobe-secret  Adobe secrets  p8e-<W>{30,}+  p8e-
mapbox-token  Mapbox tokens  [sp]k\.eyJ<W>{20,}\.<W>{18,}+|[sp]k\.<A>{32}(?!\w)  sk. pk. check=digit
maxmind-key  MaxMind keys  <A>{6}_<A>{29}_mmk  _mmk reach=36
authress-key  Authress keys
    (?:sc|ext|scauth|authress)_<A>{5,30}\.<A>{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,}+
    sc_ ext_ scauth_ authress_
flexport-token  Flexport tokens  shltm_<W>{36,}+  shltm_
# Money
stripe-key  Stripe secret keys  [sr]k_(?:live|test|prod|org)_<A>{10,}+|whsec_<B>{24,}+
    |pi_<A>{20,30}_secret_<A>{20,}+
    sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_ rk_prod_ sk_org_ rk_org_ whsec_ pi_
square-token  Square tokens  EAAA<W>{40,}+|(?:sandbox-)?sq0[a-z]{3}-<W>{20,}+
    eaaa sq0 sandbox-sq0 near=eaaa|(?:sandbox-)?sq0
shopify-token  Shopify tokens  shp[a-z]{2,3}_<A>{30,}+  shp near=shp[a-z]{2,3}_
paypal-token  PayPal and Braintree tokens  access_token\$(?:production|sandbox)\$<A>{12,20}\$<H>{32}
    access_token$
plaid-token  Plaid tokens  (?:access|public|link)-(?:sandbox|development|production)-<uuid>
    access- public- link-
razorpay-key  Razorpay keys  rzp_(?:live|test)_<A>{10,}+  rzp_ check=digit
flutterwave-key  Flutterwave keys  FLW(?:SECK|PUBK)(?:_TEST)?-<A>{12,}+(?:-X)?
    flwseck flwpubk near=flw(?:seck|pubk)
mollie-key  Mollie, Lob and GoCardless keys  (?:live|test)_<W>{30,}+  live_ test_ check=random
shippo-token  Shippo tokens  shippo_(?:live|test)_<H>{32,}+  shippo_
easypost-key  EasyPost keys  EZ[AT]K<A>{40,}+  ezak eztk
duffel-token  Duffel tokens  duffel_(?:test|live)_[\w=-]{32,}+  duffel_
woocommerce-key  WooCommerce keys  c[ks]_<H>{40}(?!\w)  ck_ cs_
paddle-key  Paddle keys  pdl_(?:live|sdbx)_[a-z]+_[\w]{20,}+  pdl_
# Keys of people and machines
age-key  age keys  AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{40,}+  age-secret-key-
wallet-key  keys of wallets: extended keys and Nostr keys  [xyztuv]prv<A>{80,}+|nsec1[a-z0-9]{50,}+
    xprv yprv zprv tprv uprv vprv nsec1
ansible-vault  Ansible Vault blocks
    \$ANSIBLE_VAULT;1\.[0-9];AES(?:256)?(?:;[\w-]{1,64})?(?P<secret>(?:\s{1,64}<H>{20,}+){1,4096})
    $ansible_vault;
password-hash  hashes of passwords  \$2[abxy]\$[0-9]{2}\$[./A-Za-z0-9]{53}
    |\$[156y]\$[./A-Za-z0-9$=,]{20,}+|\$argon2(?:id|i|d)\$[\w=,$+/]{30,}+
    |\{S?SHA(?:256|512)?\}<B>{20,}+  $2 $1$ $5$ $6$ $y$ $argon2 {sha {ssha check=digit
"""
"""One format a row: its name, its kind, the expression and the hints, two blanks apart.

`<A>` and the like are sets of characters. A line that begins with `|` continues the one above."""

_OPTION: Final = re.compile("(check|near|reach)=(.+)")


def _formats() -> Iterator[Rule]:
    """The rules of the table."""
    table = re.sub(r"\n +(?=\|)", "", re.sub("(?m)^#.*\n", "", _TABLE.strip()))
    for sign, chars in _SETS.items():
        table = table.replace(sign, chars)
    for row in re.split(r"\n(?! )", table):
        name, what, expression, *others = re.split(r" {2,}|\n +", row)
        words = " ".join(others).split()
        options = {found[1]: found[2] for word in words if (found := _OPTION.fullmatch(word))}
        hints = tuple(word for word in words if not _OPTION.fullmatch(word))
        reach = int(options.get("reach", 0))
        yield Rule(
            name,
            what,
            re.compile(rf"{START}(?:{expression})", re.ASCII),
            hints,
            accepts=_CHECKS[options.get("check", "")],
            finder=re.compile(options.get("near") or "|".join(map(re.escape, hints)), re.ASCII),
            reach=reach,
            within=_OF_A_WORD if reach else None,
            is_format=True,
        )


FORMATS: Final = (
    *_formats(),
    Rule(
        "jwt",
        "JSON web tokens",
        re.compile(_JWT),
        ("eyj",),
        finder=re.compile(r"eyj[\w-]*+"),  # the first in a word, so that each is gone over once
        is_format=True,
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
