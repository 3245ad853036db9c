"""A secret without a look of its own is masked for what is around it, and its likes are left."""

from __future__ import annotations

import json

from sessiontree import Redaction
from tests.support.table import for_each

RANDOM = "6Sd87LCnfO2TzitcLHf5xpNz"
HEX = "0f9a1c7e5b2d8046f1e3a9c5d7b20846"
BASE64 = "Zk3x9QmB2vT7pLw8Rc5Yd1Hf6Jg0NsAe4UiKoX+qbMz/VhStDnCr1GyEaFuWjP5l"


@for_each(
    "text",
    [
        *("OPENAI_KEY=SECRET", "export STRIPE_KEY='SECRET'", "GEMINI_KEY: SECRET"),
        *('"openaiKey": "SECRET"', r"{\"azureKey\": \"SECRET\"}"),
        "config['COOKIE_KEY'] = 'SECRET'",
        *("openai:\n  key: SECRET", '[stripe]\nkey = "SECRET"', "https://x.example/v1?key=SECRET"),
        *("ENV DEEPGRAM_KEY SECRET", "x-typesense-key: SECRET", "my mistral key is SECRET"),
    ],
)
@for_each("secret", [RANDOM, HEX])
def test_any_key_with_a_random_value_is_masked(text: str, secret: str) -> None:
    masked = Redaction().text(text.replace("SECRET", secret))
    masks = [f"[redacted:{rule}-secret:1]" for rule in ("assigned", "named")]
    assert masked in [text.replace("SECRET", mask) for mask in masks]


@for_each(
    "text",
    [
        *("PRIMARY_KEY=SECRET", "foreign_key: SECRET", '"sortKey": "SECRET"'),
        "CACHE_KEY=v2-SECRET",
        *("cache key: SECRET", "PUBLIC_KEY=SECRET", "idempotencyKey: 'SECRET'", "nonce-SECRET"),
        *('<script nonce="SECRET">', '"key": "SECRET", "size": 1', "'nonce-SECRET'"),
        "groupingKey=SECRET",
    ],
)
def test_a_key_that_opens_nothing_is_left(text: str) -> None:
    for value in (RANDOM, HEX):
        filled = text.replace("SECRET", value)
        assert Redaction().text(filled) == filled


@for_each(
    "text",
    [
        *("STRIPE_KEY=changeme", "OPENAI_KEY=$OPENAI", "stripe_key = load_key('stripe')"),
        *("storageKey = 'app:settings:v2'", "messageKey: errors.required_2"),
        "key: str = Field(...)",
        *("const OPENAI_KEY = process.env.OPENAI_KEY", "objectKey: 'a/b/report-2024.csv'"),
    ],
)
def test_a_key_with_a_readable_value_is_left(text: str) -> None:
    assert Redaction().text(text) == text


@for_each(
    "text, secret",
    [
        (f"sessionid={HEX}", HEX),
        (f"refresh: {RANDOM}", RANDOM),
        (f"bearer: {RANDOM}", RANDOM),
        (f'vapidPrivate: "{RANDOM}"', RANDOM),
        (f"JWT_SIGNING={RANDOM}", RANDOM),
        ("otp: 483920", "483920"),
        ("your one-time code is 483920", "483920"),
        ("DSN=app:swordfish@tcp(db:3306)/app", "swordfish"),
        ("scott/t1ger22@//db.example.com/ORCL", "t1ger22"),
        ('"type": "random_password", "attributes": {"result": "q9FD?tOHMBai"}', "q9FD?tOHMBai"),
        (f"wandb login {HEX}", HEX),
        (f"acme auth --force {RANDOM}", RANDOM),
        ('gh secret set DEPLOY --body "swordfish"', "swordfish"),
        ("echo swordfish | wrangler secret put DB", "swordfish"),
        ("fly secrets set DB=swordfish", "swordfish"),
        (f"heroku config:set STRIPE={RANDOM}", RANDOM),
        ("kubectl create secret generic db --from-literal=p=swordfish", "swordfish"),
        ("| user | password |\n|---|---|\n| joe | s3cr3t!x |", "s3cr3t!x"),
        ("user,password\njoe,swordfish", "swordfish"),
        ("USER   PASSWORD\njoe    s3cr3t!x", "s3cr3t!x"),
        (f"{BASE64}\n{BASE64}\n-----END PRIVATE KEY-----", BASE64),
        (f"MIIEpAIBAAKCAQEA{BASE64}", BASE64),
        (f"b3BlbnNzaC1rZXktdjEAAAAA{BASE64}", BASE64),
        ('use "S3cr3t!" as the password', "S3cr3t!"),
        ("admin / S3cr3t!", "S3cr3t!"),
        ("passwd hunter2", "hunter2"),
        (f'signingKey := []byte("{HEX}")', HEX),
        (f"api_key: SecretStr = SecretStr('{RANDOM}')", RANDOM),
        (f"token = Buffer.from('{RANDOM}', 'utf8')", RANDOM),
        (f"process.env.STRIPE_KEY ?? '{RANDOM}'", RANDOM),
        (f"os.getenv('MAPS_KEY') or '{RANDOM}'", RANDOM),
        (f"GET /cart;jsessionid={HEX}?page=2", HEX),
        (f"'connect.sid': 's:{RANDOM}.{BASE64[:43]}'", RANDOM),
        (f"cookies=dict(session='{RANDOM}')", RANDOM),
        (f"cookies.set('sid', '{RANDOM}')", RANDOM),
        (f"/data/2.5/weather?q=Bonn&appid={HEX}", HEX),
        ("Das Passwort lautet Geheim123", "Geheim123"),
        ("le mot de passe est Geheim123x", "Geheim123x"),
    ],
)
def test_a_secret_is_masked_for_what_is_around_it(text: str, secret: str) -> None:
    assert secret not in Redaction().text(text)
    assert secret not in Redaction().text(f"first\n{text}\nlast")
    assert secret not in Redaction().text(f"log: {json.dumps(text)}")


@for_each(
    "text",
    [
        *("PASS: test_foo1", "--- PASS: TestToken2 (0.00s)", "PASS: auth/test-2.js"),
        "PASS: TestA12",
        f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{RANDOM}{RANDOM[:19]} joe",
        *("read / write2", "admin / users", "use sha256 as the password hash", "wandb login"),
        *("gh secret set X < x.txt", "fly secrets set X=$X", "otp: disabled", "pin: 13"),
        "| name | password |\n|---|---|\n| min | twelve |",
        f"{BASE64}\n-----END CERTIFICATE-----",
        f"$ md5sum a\n{HEX}\nAll done\n",
        f"Hash\n{HEX.upper()}\nfile",
        f"build-{HEX}{HEX[:8]}\nRestored",
        f"deploy_key: ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAI{RANDOM}",
        *("SSH_KEY=ssh-ed25519 AAAA", "ok 3 - token: is_refreshed_once2", "urn:x:token:type2x"),
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:app/db-Xy12Ab",
        f"Sec-WebSocket-Key: {BASE64[:22]}==",
        *(f"{start}{'x' * 24}" for start in ("sk_test_", "hf_xxxxxx", "AKIA")),
        *(f"token = hash('{RANDOM[:5]}')", "password = ask('Password 2: ')", "the token or 'id'"),
        *(f"session='{RANDOM}'", f"sid: {HEX}", f"cache_key = digest('{HEX}')"),
    ],
)
def test_text_that_is_only_like_it_is_left(text: str) -> None:
    assert Redaction().text(text) == text


def test_the_integrity_of_a_package_is_left_whatever_its_characters() -> None:
    text = f'"integrity": "sha512-{RANDOM * 3}{RANDOM[:14]}=="'
    assert Redaction().text(text) == text


def test_a_name_around_a_value_decides_on_it() -> None:
    value = {
        "db_password": {"type": "string", "value": "swordfish"},
        "openai": {"key": RANDOM},
        "apiKeys": [RANDOM],
        "output": {"sensitive": True, "value": "swordfish"},
        "plain": {"sensitive": False, "value": "swordfish", "key": RANDOM},
    }
    masked = json.dumps(Redaction().value({"data": value}, "e"))
    assert masked.count("swordfish") == 1
    assert masked.count(RANDOM) == 1


def test_the_cookies_of_a_browser_are_masked() -> None:
    state = {"cookies": [{"name": "sid", "value": RANDOM, "path": "/"}], "session": RANDOM}
    masked = Redaction().value({"state": state, "jar": {"cookies": {"session": RANDOM}}}, "e")
    assert json.dumps(masked).count(RANDOM) == 1
    assert masked["state"]["session"] == RANDOM


def test_a_password_of_terraform_is_masked_in_its_state() -> None:
    state = {"type": "random_password", "instances": [{"attributes": {"result": "q9FD?tOHMBai"}}]}
    masked = Redaction().value({"resources": [state, {"type": "x", "result": "plain"}]}, "e")
    assert "q9FD" not in json.dumps(masked)
    assert masked["resources"][1] == {"type": "x", "result": "plain"}


def test_a_table_ends_where_its_rows_end() -> None:
    text = "user,password\njoe,swordfish\n\nann,bluemonday\n"
    masked = Redaction().text(text)
    assert masked == "user,password\njoe,[redacted:table-secret:1]\n\nann,bluemonday\n"


@for_each(
    "text",
    [
        "<total_tokens>15000000 tokens left</total_tokens>",
        "let x = 1;\nlet pwd = process.cwd();",
    ],
)
def test_a_count_of_tokens_and_a_call_are_no_secrets(text: str) -> None:
    assert Redaction().text(text) == text
