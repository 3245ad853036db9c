"""What a request takes of odd values: base64, data URLs, and who sealed a thinking."""

from __future__ import annotations

from sessiontree.context.providers.reading import maker_of
from sessiontree.context.providers.values import base64_of, data_url_parts, is_same_model


def test_base64_is_padded_or_refused() -> None:
    cases: list[tuple[object, str | None]] = [
        *(("QUJD", "QUJD"), ("QUI=", "QUI="), ("QUI", "QUI="), ("QQ", "QQ=="), ("QQ=", "QQ==")),
        *(("QU\nJD\r\n", "QUJD"), ("QUJDR", None), ("Q", None), ("QU*D", None), (5, None)),
        *((None, None), ("", None)),
    ]
    for given, taken in cases:
        assert base64_of(given) == taken


def test_a_data_url_has_a_type_and_base64() -> None:
    cases: list[tuple[str, tuple[str, str] | None]] = [
        ("data:image/PNG;base64,QUI", ("image/png", "QUI=")),
        ("data:image/png;base64,QUJDR", None),
        ("data:image/png;base64,", None),
        ("data:image/png,QUI", None),
        ("https://a.test/b.png", None),
    ]
    for url, parts in cases:
        assert data_url_parts(url) == parts


def test_who_sealed_a_thinking_is_told_by_api_provider_and_model() -> None:
    cases: list[tuple[str, str, str, str | None]] = [
        ("anthropic-messages", "", "", "anthropic"),
        ("bedrock-converse-stream", "", "us.claude-x", "anthropic"),
        ("bedrock-converse-stream", "anthropic", "nova", ""),
        ("openai-responses", "anthropic", "", "openai"),
        ("openai-completions", "openai", "", ""),
        ("", "OpenAI", "claude-x", "openai"),
        ("", "Anthropic", "gpt", "anthropic"),
        ("", "acme", "claude-x", "anthropic"),
        ("", "acme", "gpt", ""),
        ("", "", "claude-x", "anthropic"),
        ("", "", "gpt", None),
    ]
    for api, provider, model, maker in cases:
        said = {"api": api, "provider": provider, "model": model}
        assert maker_of({"role": "assistant", **said}) == maker


def test_the_names_of_one_model_are_the_same_model_and_others_are_not() -> None:
    names = (
        *("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4.5"),
        *("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5@20250929"),
        *("claude-sonnet-4-5-latest", "claude-sonnet-4-5[1m]"),
    )
    for name in names:
        assert all(is_same_model(name, other) for other in names), name
    assert is_same_model("gpt-5", "gpt-5-2025-08-07")
    for one, other in (
        ("gpt-5", "gpt-5.1"),
        ("gpt-5", "gpt-5-mini"),
        ("claude-sonnet-4-5", "claude-opus-4-5"),
        ("claude-sonnet-4-5", "claude-sonnet-4-20250514"),
        ("claude-3-5-sonnet-20240620", "claude-3-5-sonnet-20241022"),
    ):
        assert not is_same_model(one, other), other
