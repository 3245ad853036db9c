"""A rule masks each spelling of its secret itself, and leaves none to another rule."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree.redact.redaction import Redaction, joined, plain
from sessiontree.redact.rule import Rule, Rules
from sessiontree.redact.rules import RULES
from tests.support.soak import amount
from tests.support.table import for_each


@for_each(
    "name",
    [
        *("aws_secret_key", "AWS-SECRET-KEY", "awsSecretKey"),
        *("secret_access_key", "SecretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_secret_key_of_aws_is_masked_as_one_whatever_its_name(name: str) -> None:
    text = Redaction().text(f"{name} = {'aB3/' * 10}")
    assert text == f"{name} = [redacted:aws-secret-key:1]"


@for_each(
    "value, is_masked",
    [("Winter7Rain", True), ("winterRain", True), ("Winter", False), ("{winter}", False)],
)
def test_an_element_named_password_hides_all_but_a_word_and_a_placeholder(
    value: str, is_masked: bool
) -> None:
    text = f"<password>{value}</password>"
    assert (Redaction().text(text) != text) is is_masked


@given(st.uuids())
@settings(max_examples=amount(300), deadline=None)
def test_no_built_in_rule_matches_a_uuid_by_itself(uuid: UUID) -> None:
    """So a uuid is passed over without them."""
    text = str(uuid)
    assert not list(Rules(RULES).spans(text))
    assert plain(text) is None
    assert not list(joined(text))


def test_a_rule_of_the_user_masks_a_uuid() -> None:
    own = Rule("own-id", "an id", r"[0-9a-f]{8}-[0-9a-f-]{27}")
    text = Redaction((*RULES, own)).text("1b4e28ba-2fa1-41d2-883f-0016d3cca427")
    assert text == "[redacted:own-id:1]"
