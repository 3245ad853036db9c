"""Commands work on sessions at addresses, in one process: the place here is in memory."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessiontree import Store
from sessiontree.cli import main
from tests.support.conversation import assistant, user

NUMBERS = itertools.count()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("HOME", "SESSIONTREE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.delenv("SESSIONTREE_STORE", raising=False)
    url = f"memory://commands-{next(NUMBERS)}/team"
    with Store(url).create(cwd="/p", id="aaaa1111", name="The first") as session:
        session.append_message(user("hello"))
        session.append_message(assistant("good day"))
    return url


def run(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return done.output


def test_a_list_and_a_search_take_an_address(url: str) -> None:
    for words in (["ls", url], ["ls", "--store", url]):
        listed = json.loads(run(*words, "--json"))
        assert [one["id"] for one in listed] == ["aaaa1111"]
        assert listed[0]["file"] == Store(url).find("aaaa").file
    assert json.loads(run("ls", url, "--cwd", "/q", "--json")) == []
    hits = json.loads(run("search", "good", url, "--json"))
    assert [hit["session"] for hit in hits] == ["aaaa1111"]
    assert [hit["title"] for hit in hits] == ["The first"]


def test_the_sessions_of_a_store_are_counted_and_counted_again_when_they_grow(url: str) -> None:
    for turns in (1, 2):
        summed = json.loads(run("stats", url, "--json"))
        assert (summed["sessions"], summed["turns"]) == (1, turns)
        with Store(url).open("aaaa") as session:
            session.append_message(user("again"))


def test_a_session_is_named_by_its_address_or_its_id(url: str) -> None:
    file = Store(url).find("aaaa").file
    for words in ([file], ["aaaa", "--store", url], ["The first", "--store", url]):
        assert "good day" in run("context", *words)
    run("label", "aaaa", "@", "here", "--store", url)
    run("append", file, "--text", "more")
    with Store(url).open("aaaa", readonly=True) as session:
        assert [one["content"] for one in session.context().messages][-1] == "more"


def test_the_variable_names_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    assert "good day" in run("context", "aaaa")
    assert "Moved" in run("trash", "aaaa")
    assert "aaaa1111" in run("restore", "--json")
    run("restore", "aaaa")
    assert Store(url).latest() is not None


def test_an_option_names_the_store_of_its_command_alone(url: str) -> None:
    run("context", "aaaa", "--store", url)
    assert not os.environ.get("SESSIONTREE_STORE")
    assert "aaaa" in run("context", "aaaa", status=1)


def test_no_command_shows_the_password_of_an_address(tmp_path: Path) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    for words in (
        ("ls", url),
        ("ls", "--store", url),
        ("trash", "aaaa", "--store", url),
        ("context", f"{url}/p/a.jsonl"),
        ("search", "x", url),
        ("copy", f"{url}/p/a.jsonl", str(tmp_path)),
        ("append", f"{url}/p/a.jsonl", "--text", "x"),
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 1 or "me@127.0.0.1" in done.output, words
        assert "hunter2" not in done.output, words
        assert "me@127.0.0.1:1/db" in done.output, words


UNREACHABLE = "postgresql://me@127.0.0.1:1/db"


@pytest.mark.parametrize(
    "command",
    [
        *("ls", "ls --json", "search x", "search x --json", "stats", "stats --by model"),
        *("history x.py", "call session.list", "call session.search --pattern x"),
    ],
)
def test_a_store_that_cannot_be_reached_is_an_error_and_no_empty_list(
    command: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command.split()
    is_call = words[0] == "call"
    for more in ([], [url]):  # another place that can be read makes no difference
        if not is_call:
            _fails([*words, UNREACHABLE, *more])
    monkeypatch.setenv("SESSIONTREE_STORE", UNREACHABLE)
    _fails(words)


@pytest.mark.parametrize("command", ["ls", "search x", "stats"])
def test_a_session_that_is_not_at_its_address_is_an_error(command: str, url: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), f"{url}/p/none.jsonl"])
    assert done.exit_code == 1
    assert "there is no session" in done.output
    _fails([*command.split(), f"{UNREACHABLE}/p/a.jsonl"])


def _fails(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, (words, done.output)
    assert done.stdout == "", words
    assert done.stderr.startswith("Error: cannot connect to postgresql://me@127.0.0.1:1/db"), words
