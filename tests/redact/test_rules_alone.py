"""A rule masks each spelling of its secret itself, and leaves none to another rule."""

from __future__ import annotations

import pytest

from sessiontree.redact.redaction import Redaction


@pytest.mark.parametrize(
    "name",
    [
        *("aws_secret_key", "AWS-SECRET-KEY", "awsSecretKey"),
        *("secret_access_key", "SecretAccessKey", "AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_secret_key_of_aws_is_masked_as_one_whatever_its_name(name: str) -> None:
    text = Redaction().text(f"{name} = {'aB3/' * 10}")
    assert text == f"{name} = [redacted:aws-secret-key:1]"


@pytest.mark.parametrize(
    ("value", "is_masked"),
    [("Winter7Rain", True), ("winterRain", True), ("Winter", False), ("{winter}", False)],
)
def test_an_element_named_password_hides_all_but_a_word_and_a_placeholder(
    value: str, is_masked: bool
) -> None:
    text = f"<password>{value}</password>"
    assert (Redaction().text(text) != text) is is_masked
