"""Secrets made by the grammar of each rule, in whatever a session may hold, never come out."""

from __future__ import annotations

import json
import pydoc
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import UsageError
from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rule import lowered
from sessiontree.redact.rules import RULES, parse_rules
from sessiontree.redact.values import keyword_of
from tests.support.conversation import user
from tests.support.soak import amount
from tests.support.table import for_each

LETTERS = "abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
ALNUM = LETTERS + "23456789"


def of(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


def joined(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    made = (st.just(part) if isinstance(part, str) else part for part in parts)
    return st.tuples(*made).map("".join)


def wrapped(body: str, line_break: str) -> str:
    lines = [body[i : i + 64] for i in range(0, len(body), 64)]
    return line_break.join(["-----BEGIN RSA PRIVATE KEY-----", *lines])


PEM_BODY = of(ALNUM + "+/", 40, 200)
VALUE = joined(of(ALNUM, 6, 20), of("23456789", 1, 3), of("ghkm", 1, 3))

# For each rule: a text that holds a secret, and what must not come out of it.
Held = st.SearchStrategy[tuple[str, str]]


def itself(secrets: st.SearchStrategy[str]) -> Held:
    return secrets.map(lambda secret: (secret, secret))


def within(pattern: str, secrets: st.SearchStrategy[str]) -> Held:
    return secrets.map(lambda secret: (pattern.replace("SECRET", secret), secret))


GRAMMAR: dict[str, Held] = {
    "private-key": st.tuples(
        PEM_BODY, st.sampled_from(["\n", "\\n", "\\\\n", "\r\n", "\n     2→"])
    ).flatmap(
        lambda made: st.sampled_from(
            [
                (wrapped(*made) + made[1] + "-----END RSA PRIVATE KEY-----", made[0][:40]),
                (wrapped(*made), made[0][:40]),
            ]
        )
    ),
    "anthropic-key": itself(joined("sk-ant-api03-", of(ALNUM + "_-", 20, 90))),
    "openai-key": itself(
        st.one_of(joined("sk-proj-", of(ALNUM + "_-", 20, 90)), joined("sk-", of(ALNUM, 32, 48)))
    ),
    "github-token": itself(
        st.one_of(
            joined(st.sampled_from(["ghp_", "gho_", "ghs_"]), of(ALNUM, 36, 36)),
            joined("github_pat_", of(ALNUM, 22, 22), "_", of(ALNUM, 59, 59)),
        )
    ),
    "gitlab-token": itself(joined("glpat-", of(ALNUM, 20, 20))),
    "aws-access-key": itself(joined("AKIA", of("ABCDEFGHIJKLMNOP234567", 16, 16))),
    "aws-secret-key": within("aws_secret_access_key = SECRET", of(ALNUM + "/+", 40, 40)),
    "google-key": itself(joined("AIza", of(ALNUM, 35, 35))),
    "slack-token": itself(joined("xoxb-", of("123456789", 11, 11), "-", of(ALNUM, 24, 24))),
    "stripe-key": itself(joined("sk_live_", of(ALNUM, 24, 24))),
    "npm-token": itself(joined("npm_", of(ALNUM, 36, 36))),
    "pypi-token": itself(joined("pypi-AgEIcHlwaS5vcmc", of(ALNUM + "_-", 50, 90))),
    "huggingface-token": itself(joined("hf_", of(ALNUM, 34, 34))),
    "jwt": itself(
        joined("eyJ", of(ALNUM, 20, 30), ".eyJ", of(ALNUM, 20, 60), ".", of(ALNUM + "_-", 30, 43))
    ),
    "authorization": within("Authorization: Bearer SECRET", joined(of(ALNUM, 20, 40), "7")),
    "url-password": within("postgres://app:SECRET@db.example/app", VALUE),
    "assigned-secret": st.sampled_from(
        [
            *("export DB_PASSWORD=SECRET", 'API_KEY="SECRET"', "password: SECRET"),
            *('{"client_secret": "SECRET"}', '{\\"accessToken\\":\\"SECRET\\"}'),
            *("curl --token=SECRET", "https://example.org/?token=SECRET"),
            *('token: str = "SECRET"', "SIGNING_KEY: 'SECRET'"),
        ]
    ).flatmap(lambda pattern: within(pattern, VALUE)),
    "command-secret": st.sampled_from(
        [
            *("mycli --password SECRET", "mycli --db-pass 'SECRET'", "gh --token SECRET -v"),
            *("curl -u joe:SECRET https://x.y", "curl --user 'joe:SECRET' x", "x --api-key SECRET"),
            *("mysql -h db -u root -pSECRET app", "mysqldump -u a -p'SECRET'", "sshpass -p SECRET"),
            *('["curl","-u","joe:SECRET"]', '["x", "--password", "SECRET"]'),
            '{"command":"[\\"x\\",\\"--secret\\",\\"SECRET\\"]"}',
        ]
    ).flatmap(lambda pattern: within(pattern, VALUE)),
    "email": itself(
        joined(of(LETTERS, 3, 10), ".", of(ALNUM, 2, 9), "@", of(LETTERS, 4, 9), ".org")
    ),
    "home-directory": st.sampled_from(
        [
            *("/home/SECRET/x", "/Users/SECRET", "C:\\Users\\SECRET\\x", "/mnt/c/Users/SECRET/"),
            *("-Users-SECRET-project", "C:\\\\Users\\\\SECRET\\\\x", "file:///home/SECRET/y"),
        ]
    ).flatmap(lambda pattern: within(pattern, of(LETTERS, 8, 12))),
}

BEFORE = ["", " ", "see ", "\n", "\\n", '"', "(", "\x1b[32m", "= ", "…", "日本 ", "\\t"]
AFTER = ["", " ", "\n", '"', ")", "\x1b[0m", " end", "\\n", "'"]


def held(rule: str) -> Held:
    return st.tuples(GRAMMAR[rule], st.sampled_from(BEFORE), st.sampled_from(AFTER)).map(
        lambda made: (made[1] + made[0][0] + made[2], made[0][1])
    )


ANY_HELD = st.sampled_from(sorted(GRAMMAR)).flatmap(held)


def test_every_grammar_is_of_a_rule() -> None:
    assert set(GRAMMAR) <= {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", sorted(GRAMMAR))
@settings(deadline=None, max_examples=amount(25))
@given(data=st.data())
def test_no_secret_of_a_rule_comes_out(rule: str, data: st.DataObject) -> None:
    text, secret = data.draw(held(rule))
    redaction = Redaction()
    masked = redaction.text(text, "e")
    assert secret not in masked, (text, masked)
    assert rule in {name for name, _ in redaction.masked}
    assert Redaction().text(masked) == masked


JSON_STRINGS = st.one_of(ANY_HELD.map(lambda made: made[0]), st.text(max_size=20))
TREES = st.recursive(
    JSON_STRINGS | st.integers() | st.booleans() | st.none(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(JSON_STRINGS, below, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(100))
@given(TREES, st.integers(0, 2))
def test_redacting_again_changes_nothing_also_where_text_is_json(value: Any, depth: int) -> None:
    for _ in range(depth):
        value = json.dumps(value)
    masked = Redaction().value({"data": value}, "e")
    assert Redaction().value(masked, "e") is masked


@settings(deadline=None, max_examples=amount(60))
@given(ANY_HELD, st.booleans())
def test_no_escape_in_json_text_hides_a_secret(made: tuple[str, str], escaped: bool) -> None:
    text, secret = made
    inner = json.dumps({"output": text})
    if escaped:
        for plain, spelled in (("@", "\\u0040"), ("_", "\\u005f"), ("/", "\\/")):
            inner = inner.replace(plain, spelled)
    masked = Redaction().text(json.dumps({"arguments": inner}), "e")
    once = json.loads(masked)
    assert secret not in masked
    assert secret not in json.loads(once["arguments"])["output"]


INNOCENT = [
    *(f'password = "Xk29{mark}vQz81mL"' for mark in ("${a}", "{{a}}", "%s", "#{a}", "<%a%>", "%(")),
    "5440873c-2d59-4c8c-88ec-c0a8c38a027d toolu_01A09q90qw90lq917835lq9",
    "sha256:" + "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA",
    "git@github.com:owner/repo.git and https://github.com/owner/repo",
    "react@18.2.0 lodash@npm:4.17.21-beta.dev icon@2x.png checkout@v4 a@b.T x@w.transpose()",
    "@pytest.fixture\n@app.route('/home')\ndef home(): ...",
    "https://example.com/home/settings and ./src/home/index.ts, /Users/Shared, /home/{user}",
    "password = get_password()\ntoken = tokens[0]\nsecret = self.secret\nkey = settings.api_key",
    "def login(password: str, token: Optional[str] = None) -> Token: ...",
    "if token == other.token: max_tokens=4096; MAX_TOKEN=4096",
    'TOKEN: Final = ("a", "b")\nPASSWORD = os.environ["PASSWORD"]\nAPI_KEY=$API_KEY',
    'api_key = "your-api-key-here"; token = "<token>"; password: "********"; key="sk-ant-..."',
    '{"type": "string", "token": {"type": "string"}, "password": "string"}',
    "The secret: keep it short. Your password is required. Bearer authentication is used.",
    "task-management-system-integration-tests-for-everything risk-aaaaaaaaaaaaaaa",
    'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text:',
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhki\n-----END CERTIFICATE-----",
    "nav-home-button --home-dir x -home y; hf_hub_download_with_a_very_long_function_name",
    "uint256 token: uint256; secret = sha256; const token: string;",
    "use --password PASSWORD\n  --token TOKEN  the token (2.1)\n  --password string  the password",
    "x --max-token 4096 --token-file a1 --token $TOKEN1 --secret id=npm1,src=/x --token /run/t1",
    "docker run -u 1000:1000 -u node:node x; git push -u origin main:v2; python -u https://a.b/c1",
    "mysql -P 3306 -p app; mysql -p$PASS2; A -- pass 12 -- token; use --token or set 1x",
    "--password\n  s3t1; ps -u joe:12:30; tar -pxf a1.tar; sort -u file.txt",
    "ssh://git@host.example/repo user:password@ http://localhost:8080/a?b=c@d",
]


@for_each("text", INNOCENT)
def test_ordinary_code_and_prose_stay_as_they_are(text: str) -> None:
    assert Redaction().text(text) == text


@settings(deadline=None)
@given(st.text())
def test_text_without_secrets_is_the_same_object(text: str) -> None:
    value = {"type": "message", "message": user([{"text": text}])}
    redaction = Redaction()
    if not any(True for rule in RULES for _ in rule.spans(text, lowered(text))):
        assert redaction.value(value, "e") is value


def test_the_same_secret_has_the_same_mask_and_another_another() -> None:
    redaction = Redaction()
    first, other = "ghp_" + "a1" * 18, "ghp_" + "b2" * 18
    one, two = (f"[redacted:github-token:{number}]" for number in (1, 2))
    assert redaction.text(f"{first} {other}") == f"{one} {two}"
    assert redaction.text(f"again\x1b[31m {first[:9]}\x1b[0m{first[9:]}") == f"again\x1b[31m {one}"


def test_a_mask_of_an_earlier_redaction_keeps_its_number_unless_that_is_taken() -> None:
    assert Redaction().text("[redacted:email:7]") == "[redacted:email:7]"
    shown = Redaction().text("ann@a.org [redacted:email:1] bob@b.org [redacted:email:1]")
    assert re.findall(r"\d", shown) == ["1", "2", "3", "2"]


def test_what_a_key_says_is_secret_is_masked_whole() -> None:
    value = {"env": {"PASSWORD": "correct horse", "note": "correct horse"}, "token": "gpt-tokens"}
    assert Redaction().value(value, "e") == {
        "env": {"PASSWORD": "[redacted:assigned-secret:1]", "note": "correct horse"},
        "token": "gpt-tokens",
    }


def test_keys_are_looked_at_too_and_none_is_lost() -> None:
    value = {"data": {"/home/ann/a.py": 1, "/home/bob/a.py": 2, "~/a.py": 3, "x": 4}}
    masked = Redaction().value(value, "e")["data"]
    assert masked == {"~/a.py (2)": 1, "~/a.py (3)": 2, "~/a.py": 3, "x": 4}


IMAGES: list[dict[str, Any]] = [
    {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}},
    {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="},
]


@for_each("image", IMAGES)
def test_an_image_is_left_out_and_named(image: dict[str, Any]) -> None:
    redaction = Redaction()
    message = user([{"type": "text", "text": "see"}, image])
    text = "[image/png, 5 bytes, left out: it cannot be searched for secrets]"
    assert redaction.value({"message": message}, "e") == {
        "message": user([message["content"][0], {"type": "text", "text": text}])
    }
    assert redaction.report()["leftOut"] == [{"entry": "e", "mediaType": "image/png", "bytes": 5}]


def test_an_image_that_is_only_linked_stays() -> None:
    linked = {"type": "image", "source": {"type": "url", "url": "https://a.org/x.png"}}
    value = {"content": [linked]}
    assert Redaction().value(value, "e") is value


def test_a_signature_goes_with_the_thinking_it_was_for_and_only_then() -> None:
    kept = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    lost = {"type": "thinking", "thinking": "ask ann@a.org", "signature": "c2ln"}
    redaction = Redaction()
    content = redaction.value({"content": [kept, lost]}, "e")["content"]
    assert content == [kept, {"type": "thinking", "thinking": "ask [redacted:email:1]"}]
    assert redaction.report()["unsealed"] == ["e"]


def test_the_report_says_what_and_where_and_no_secret() -> None:
    redaction = Redaction()
    redaction.value({"text": "ann@a.org /home/ann ann@a.org"}, "e1")
    redaction.value({"text": "ann@a.org"}, "e2")
    report = redaction.report()
    assert report["masked"] == [
        {"rule": "email", "entry": "e1", "count": 2},
        {"rule": "home-directory", "entry": "e1", "count": 1},
        {"rule": "email", "entry": "e2", "count": 1},
    ]
    assert report["secrets"] == {"email": 1}
    assert "ann" not in json.dumps(report)


def test_a_known_home_is_masked_wherever_it_lies() -> None:
    redaction = Redaction(homes=["/srv/people/mary-ann"])
    text = "/srv/people/mary-ann/x projects/-srv-people-mary-ann-x /srv/people/mary-anne"
    assert redaction.text(text) == "~/x projects/~-x /srv/people/mary-anne"


@for_each(
    "text, cause",
    [
        ("a = ", "not TOML"),
        ("a = 1", "not a regular expression, but 1"),
        ("a = '('", "not a regular expression: missing"),
        ("'A b' = 'x'", "must be of a-z, 0-9 and '-'"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_name_and_file(text: str, cause: str) -> None:
    with pytest.raises(UsageError, match=re.escape(cause)) as caught:
        parse_rules(text, "r.toml")
    assert str(caught.value).startswith("r.toml")


def test_a_users_rule_cannot_break_the_structure_of_an_entry() -> None:
    rules = parse_rules("any = '[a-z]+'", "r.toml")
    value = {"type": "message", "message": user("hello")}
    masked = {"type": "message", "message": user("[redacted:any:1]")}
    assert Redaction(rules).value(value, "e") == masked


def test_the_help_begins_with_what_it_does_and_shows_no_expression() -> None:
    told = pydoc.plain(pydoc.render_doc(Redaction))
    assert "masks secrets" in "".join(told.splitlines(keepends=True)[:8])
    assert "re.compile" not in told


def test_an_escape_hides_no_secret_beside_an_integer_of_5000_digits() -> None:
    digits = "1" * 5000
    masked = Redaction().text(f'{{"n":{digits},"k":"\\u0073k-ant-{LETTERS}"}}')
    assert LETTERS not in masked
    assert digits in masked


@for_each(
    "key",
    [
        *("passphrase", "DB_PWD", "pw", "psw", "pswd", "psk", "PAT", "creds", "auth", "jwt"),
        *("Authorization", "cookie", "secret", "TOKEN", "senha", "private_key_id", "apiKey_2"),
        *("credential", "kennwort", "motdepasse", "contraseña", "connectionString"),
        *("pa\u017f\u017fword", "to\u212aen"),
    ],
)
def test_each_kind_of_key_marks_its_value(key: str) -> None:
    assert keyword_of(key) is not None


@for_each("key", ["k1", "name", "Ort", "monkeys", "compass_rose"])
def test_another_key_marks_nothing(key: str) -> None:
    assert keyword_of(key) is None
