from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.page.reading import Page
from tests.support.terminal import contents, done, last, lines, printed_json, refused, run, said

KEY = "ghp_" + "a1B2" * 9


@pytest.fixture
def secret(chat: Path) -> Path:
    """The same session with a secret in its last message."""
    said(chat, "user", f"use {KEY} for ann@people.org")
    return chat


def test_export_prints_a_transcript_and_leaves_the_file_alone(chat: Path) -> None:
    before = contents(chat.parent)
    text = done("export", chat)
    assert text.startswith("# Chat\n\n- session: `chat-id`\n")
    assert [line for line in text.splitlines() if line.startswith(("## ", "> "))] == [
        *("## User", "> hello", "## Assistant", "## User", "> more", "## Assistant")
    ]
    assert done("export", chat, "--markdown") == text
    assert contents(chat.parent) == before


def test_export_ends_at_a_ref(chat: Path) -> None:
    assert "more" not in done("export", chat, "@~2")


def test_export_makes_a_file_and_never_over_another(chat: Path) -> None:
    target = chat.with_name("chat.md")
    assert done("export", chat, "-o", target) == f"{target}\n"
    assert target.read_text() == done("export", chat)
    target.write_text("mine")
    assert "there already" in refused("export", chat, "-o", target)
    assert target.read_text() == "mine"


def test_export_redacts_and_reports_the_places_without_the_secrets(secret: Path) -> None:
    result = run("export", secret, "--redact")
    assert "> use [redacted:github-token:1] for [redacted:email:1]" in result.stdout
    assert f"Masked github-token: 1, in {last(secret)['uuid'][:8]}\n" in result.stderr
    assert "Check the result before you share it" in result.stderr
    assert KEY not in result.output


def test_no_line_on_standard_error_has_a_secret_beside_redact(secret: Path) -> None:
    top = json.loads(lines(secret)[-1])["uuid"]
    for words in (["export-branch", secret, top, secret.with_name("x.jsonl")], ["export", secret]):
        result = run(*words, "--redact")
        assert result.exit_code == 0
        assert KEY not in result.stderr
        assert KEY[:12] not in result.stderr
        assert "ann@people.org" not in result.stderr
    assert (
        "use [redacted:"
        in run("export-branch", secret, top, secret.with_name("y.jsonl"), "--redact").stderr
    )


def test_a_warning_beside_redact_is_masked(chat: Path) -> None:
    said(chat, "user", "hello")
    with chat.open("a") as file:
        entry = {"type": KEY, "uuid": "odd", "parentUuid": json.loads(lines(chat)[-1])["uuid"]}
        file.write(json.dumps(entry) + "\n")
        file.write(json.dumps({"type": "x", "uuid": "odd2", "parentUuid": KEY}) + "\n")
    plain = run("export-branch", chat, "odd", chat.with_name("a.jsonl"))
    assert KEY in plain.stderr
    result = run("export-branch", chat, "odd", chat.with_name("b.jsonl"), "--redact")
    assert KEY not in result.stderr


def test_an_error_beside_redact_is_masked(secret: Path) -> None:
    target = secret.with_name(f"{KEY}.jsonl")
    target.write_text("mine")
    assert KEY in refused("export-branch", secret, "@", target)
    assert KEY not in refused("export-branch", secret, "@", target, "--redact")


def test_a_rule_that_takes_too_long_is_one_clear_error(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sessiontree.operations.own_rules.LIMIT_SECONDS", 0.5)
    said(chat, "user", "a" * 60 + "!")
    rules = chat.with_name("r.toml")
    rules.write_text("evil = '(a+)+$'")
    result = run("export", chat, "--redact", "--rules", rules)
    assert result.exit_code == 1
    assert "rule 'evil' takes longer than 0.5 seconds" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_export_json_has_the_new_file_and_what_was_masked(secret: Path) -> None:
    target = secret.with_name("chat.md")
    found = printed_json("export", secret, "-o", target, "--redact")
    entry = {"entry": last(secret)["uuid"], "count": 1}
    masked = [{"rule": rule, **entry} for rule in ("github-token", "email")]
    secrets = {"github-token": 1, "email": 1}
    report = {"masked": masked, "secrets": secrets, "leftOut": [], "unsealed": []}
    assert found == {"file": str(target), "redaction": report}
    assert printed_json("export", secret, "-o", target.with_name("b.md"))["redaction"] is None


def test_export_branch_makes_a_sound_session_without_the_secrets(secret: Path) -> None:
    copy = secret.with_name("copy.jsonl")
    made = printed_json("export-branch", secret, "@", copy, "--with-path", "--redact")
    assert made["header"]["type"] == "session"
    assert [each["rule"] for each in made["redaction"]["masked"]] == ["github-token", "email"]
    assert KEY.encode() not in copy.read_bytes()
    assert run("verify", copy).stdout == ""
    kept = {line for line in lines(secret) if b"people" not in line} - {lines(secret)[0]}
    assert kept <= set(lines(copy))


def test_a_users_rules_are_read_from_a_file(secret: Path) -> None:
    rules = secret.with_name("rules.toml")
    rules.write_text("greeting = 'hel+o'\nemail = 'nobody@nowhere'\n")
    text = done("export", secret, "--redact", "--rules", rules)
    assert "> [redacted:greeting:1]" in text
    assert "ann@people.org" in text


@pytest.mark.parametrize("text", ["a = (", "a = '('", "a = 1"])
def test_wrong_rules_fail_before_anything_is_made(secret: Path, text: str) -> None:
    rules, target = secret.with_name("rules.toml"), secret.with_name("chat.md")
    rules.write_text(text)
    error = refused("export", secret, "--redact", "--rules", rules, "-o", target)
    assert str(rules) in error
    assert error.count("\n") == 1
    assert not target.exists()


@pytest.mark.parametrize("words", [["--json"], ["--rules", "r.toml"]])
def test_options_that_need_another_are_wrong_usage_without_it(chat: Path, words: list[str]) -> None:
    assert run("export", chat, *words).exit_code == 2


def test_rules_that_are_not_there_are_named(chat: Path) -> None:
    assert "nowhere.toml" in refused("export", chat, "--redact", "--rules", "nowhere.toml")


def test_the_built_in_rules_are_listed() -> None:
    text = done("export", "--list-rules")
    assert "github-token       GitHub tokens\n" in text
    assert done("export-branch", "--list-rules") == text


def test_the_home_directory_of_who_exports_is_masked(
    chat: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/srv/accounts/ann")
    said(chat, "user", "see /srv/accounts/ann/notes")
    assert "> see ~/notes" in done("export", chat, "--redact")


def test_a_version_1_file_is_exported_without_being_migrated(version_1: Path) -> None:
    before = version_1.read_bytes()
    assert "> first" in done("export", version_1, "--redact")
    assert version_1.read_bytes() == before


def test_remote_images_stay_images_only_when_asked(chat: Path) -> None:
    image = "![plan](https://example.org/i.png)"
    said(chat, "assistant", image)
    out = chat.with_name("out.md")
    for words in ([], ["-o", str(out)]):
        for how, is_there in (([], False), (["--remote-images"], True)):
            shown = done("export", chat, *words, *how)
            assert (image in (out.read_text() if words else shown)) == is_there
            out.unlink(missing_ok=True)


def test_export_writes_a_page_that_opens_at_a_ref(chat: Path) -> None:
    target = chat.with_name("chat.html")
    assert done("export", chat, "@~2", "--format", "html", "-o", target) == f"{target}\n"
    page = Page(target.read_text())
    assert page.index["at"] in page.index["uuids"]
    assert page.said("u") == ["User hello", "User more"]
    assert Page(done("export", chat, "--html")).index["at"] == ""


def test_the_name_of_the_file_decides_the_format_if_none_is_given(chat: Path) -> None:
    for name, options, is_page in (
        ("a.html", [], True),
        ("b.HTM", [], True),
        ("c.md", [], False),
        ("d.txt", [], False),
        ("e.html", ["--format", "markdown"], False),
        ("f.html", ["--markdown"], False),
        ("g.md", ["--html"], True),
    ):
        target = chat.with_name(name)
        done("export", chat, "-o", target, *options)
        assert target.read_text().startswith("<!") == is_page, name
    target = chat.with_name("chat.json")
    assert "end it in .md or .html" in refused("export", chat, "-o", target, status=2)
    assert not target.exists()
    done("export", chat, "-o", target, "--format", "markdown")
    assert target.read_text().startswith("# ")


def test_an_exported_page_is_redacted(secret: Path) -> None:
    result = run("export", secret, "--html", "--redact")
    page = Page(result.stdout)
    assert KEY not in repr(page.rows)
    assert page.said("u")[-1] == "User use [redacted:github-token:1] for [redacted:email:1]"
    assert f"Masked github-token: 1, in {last(secret)['uuid'][:8]}\n" in result.stderr


def test_a_page_refuses_the_option_that_loads_images(chat: Path) -> None:
    assert "--format markdown" in refused("export", chat, "--html", "--remote-images", status=2)
