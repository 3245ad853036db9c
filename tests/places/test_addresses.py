"""What begins as a URL is the address of a place, or an error, and never a folder on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from sessiontree import Session, Store
from sessiontree.cli import main
from sessiontree.errors import UsageError
from sessiontree.library.copies import Mirror, sync
from sessiontree.storage.place import address, is_address
from sessiontree.storage.places import located, place_of
from tests.support.conversation import user
from tests.support.table import for_each

WRONG_URLS = (
    ("mysql://x/y", "unknown scheme mysql; there are postgresql, s3, memory and file"),
    ("http://x/p/a.jsonl", "unknown scheme http;"),
    ("S3://team/p", "write s3://team/p,"),
    ("s3:/team/p", "write s3://team/p,"),
    ("postgresql:/x", "write postgresql://x,"),
    ("FILE:///x", "write file:///x,"),
    ("file:/x", "write file:///x,"),
)


@for_each("url, message", WRONG_URLS)
def test_a_url_that_is_no_address_is_refused_and_never_a_path(
    url: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "source.jsonl"
    Session.create(source, cwd="/p", id="aaaa1111").close()
    uses: tuple[Callable[[], object], ...] = (
        lambda: Session.open(url),
        lambda: Session.open(url, readonly=True),
        lambda: Session.create(url),
        lambda: Store(url),
        lambda: Mirror(str(source), url).go(),
        lambda: Mirror(url, str(tmp_path / "copies")).go(),
        lambda: sync(str(source), url),
    )
    for use in uses:
        with pytest.raises(UsageError, match=message):
            use()
    assert [file.name for file in tmp_path.iterdir() if "lock" not in file.name] == ["source.jsonl"]


def test_a_wrong_address_shows_no_password() -> None:
    for wrong in (
        "mysql://root:hunter2@h/x?password=hunter2",
        "POSTGRESQL://root:hunter2@h/x?password=hunter2",
        "postgresql:/root:hunter2@h/x?a=b&password=hunter2",
    ):
        with pytest.raises(UsageError, match="root@h/x") as raised:
            is_address(wrong)
        assert "hunter2" not in str(raised.value)


def test_the_password_in_the_options_of_an_address_is_not_shown() -> None:
    found = address("postgresql://me@h/db?password=hunter2&sslpassword=hunter2&schema=x")
    assert found.shown_options == (("schema", "x"),)


def test_a_path_with_a_colon_is_a_path_where_it_cannot_be_meant_as_an_address() -> None:
    for path in ("./s3:/team", "a/mysql://x", "x:/y", "C:/y", "notes:/y", "s3:team", "memory:"):
        assert not is_address(path)


@for_each("url, message", WRONG_URLS)
def test_each_command_refuses_a_url_that_is_no_address(
    url: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Session.create("source.jsonl", cwd="/p", id="aaaa1111") as session:
        session.append_message(user("hello"))
    before = sorted(tmp_path.iterdir())
    for words in (
        ("copy", "source.jsonl", url),
        ("copy", url, "copies"),
        ("sync", "source.jsonl", url),
        ("ls", url),
        ("ls", "--store", url),
        ("trash", "aaaa", "--store", url),
        ("gc", "--store", url),
        ("show", url),
        ("verify", url),
        ("new", url),
        ("record", url),
        ("fork", "source.jsonl", url),
        ("export-branch", "source.jsonl", "@", url),
        ("import", "source.jsonl", "-o", url),
        ("backup", "--store", url),
        ("mcp", "--root", url),
    ):
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, message in done.output) == (1, True), (words, done.output)
    assert sorted(tmp_path.iterdir()) == before


def test_the_variable_of_the_store_is_refused_with_an_unknown_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSIONTREE_STORE", "mysql://root:hunter2@h/x")
    for words in (("ls",), ("show", "aaaa"), ("backup", ".")):
        done = CliRunner().invoke(main, words)
        assert (done.exit_code, "unknown scheme mysql" in done.output) == (1, True), done.output
        assert "hunter2" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_takes_a_path_takes_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Session.create("source.jsonl", cwd="/p", id="aaaa1111").close()
    before = sorted(tmp_path.iterdir())
    for words in (
        ("export", "source.jsonl", "-o", "s3://me:hunter2@team/x.md"),
        ("convert", "source.jsonl", "--to", "pi", "-o", "s3://me:hunter2@team/x.jsonl"),
        ("history", "s3://me:hunter2@team/x.py"),
        ("recover", "s3://me:hunter2@team/x.py"),
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2, done.output
        assert "s3://me@team/x" in done.output
        assert "give a path" in done.output
        assert "hunter2" not in done.output
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_whose_name_begins_as_a_url_is_given_as_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mysql:").mkdir()
    Session.create("./mysql://a.jsonl", cwd="/p", id="aaaa1111").close()
    done = CliRunner().invoke(main, ("show", "./mysql://a.jsonl"))
    assert (done.exit_code, "aaaa1111" in done.output) == (0, True), done.output


def test_a_path_and_an_address_are_taken_apart_once() -> None:
    for text in ("a.jsonl", "/p/a b.jsonl", "s3:x"):
        assert located(text) == (None, text)
        assert located(text).file == text
    assert located("file:///p/a%20b.jsonl") == (None, "/p/a b.jsonl")
    at = located("memory://apart/p/a%20b.jsonl")
    assert at.place is place_of("memory://apart")[0]
    assert at.name == "p/a b.jsonl"
    assert at.file == at.real == "memory://apart/p/a%20b.jsonl"
    assert at.is_session
    assert not located("memory://apart/p").is_session
