"""A scope whose store is at an address: its sessions are reached, and no other server is."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Store
from tests.places.kinds import in_store, opened
from tests.support.calls import Answer, Calls
from tests.support.sessions import said
from tests.support.table import for_each

OUT: Final = ("..", "%2e%2e", ".", "", "%2F", "a%2F..", "%00")
"""Parts of a path that lead out of a folder, or that no name has."""


@pytest.fixture
def elsewhere() -> Iterator[socket.socket]:
    """A server that nothing may connect to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        yield listening
        with pytest.raises(BlockingIOError):
            listening.accept()


def port(listening: socket.socket) -> int:
    return int(listening.getsockname()[1])


def refused(calls: Calls, given: str, kind: str = "outside") -> None:
    """No method takes an address."""
    answers: list[Answer] = [
        calls(name, session=given) for name in ("tree.render", "tree.fork", "context.get")
    ]
    answers += [calls("session.restore", session=given), calls("session.import", sources=[given])]
    assert [each.kind for each in answers] == [kind] * len(answers), given


def test_no_option_leads_to_another_server(elsewhere: socket.socket) -> None:
    root = f"postgresql://u@127.0.0.1:{port(elsewhere)}/e"
    calls = Calls(root)
    for given in (
        f"{root}/x.jsonl?host=127.0.0.1&port={port(elsewhere)}",
        f"{root}/x.jsonl?hostaddr=127.0.0.1",
        f"{root}/x.jsonl?schema=b",
        f"{root}x/x.jsonl",
        f"postgresql://127.0.0.1:{port(elsewhere)}/e/x.jsonl",
        f"postgresql://other@127.0.0.1:{port(elsewhere)}/e/x.jsonl",
        f"postgres://u@localhost:{port(elsewhere)}/e/x.jsonl",
        f"postgresql://u@127.0.0.1:{port(elsewhere)}/E/x.jsonl",
        f"postgresql://u@127.0.0.1:{port(elsewhere)}/x.jsonl",
        f"s3://b/x.jsonl?endpoint=http://127.0.0.1:{port(elsewhere)}",
    ):
        refused(calls, given)


def test_no_option_leads_to_another_bucket(elsewhere: socket.socket) -> None:
    calls = Calls("s3://buck?region=eu")
    to = f"endpoint=http://127.0.0.1:{port(elsewhere)}"
    for options in (to, f"region=eu&{to}", "region=us"):
        refused(calls, f"s3://buck/c/x.jsonl?{options}")


def test_an_address_is_in_no_folder(
    tmp_path: Path, elsewhere: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said(Store(tmp_path), "hello")
    calls = Calls(".")
    here = f"127.0.0.1:{port(elsewhere)}"
    for given in (
        f"postgresql://u@{here}/e/x.jsonl",
        f"s3://b/x.jsonl?endpoint=http://{here}",
        "memory://x/x.jsonl",
        f"postgresql://u@{here}:a/e/x.jsonl",
    ):
        refused(calls, given)
        for name in ("tree.export_branch", "tree.export_file", "tree.convert"):
            more = {"tree.export_branch": {"entry": "@"}, "tree.convert": {"to": "pi"}}
            answer = calls(name, session="latest", out=given, **more.get(name, {}))
            assert answer.kind in ("outside", "bad_value"), (name, given)


def test_the_url_of_a_file_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its text alone, taken for a relative path, would be below the current directory."""
    outside = said(Store(tmp_path / "outside"), "secret")
    inside = said(Store(tmp_path / "store"), "hello")
    monkeypatch.chdir(tmp_path / "store")
    calls = Calls(".")
    refused(calls, Path(outside).as_uri())
    out = Path(outside).as_uri() + "2"
    assert calls("tree.export_file", session=inside, out=out).kind == "outside"
    for name in ("node.attach", "node.create_text"):
        given = (
            {"path": Path(outside).as_uri()}
            if name == "node.attach"
            else {
                "text": "see",
                "attachments": [Path(outside).as_uri()],
            }
        )
        assert calls(name, session=inside, **given).kind == "outside"
    assert "hello" in calls.value("tree.render", session=Path(inside).as_uri())["text"]


@for_each("name", OUT)
def test_no_name_leads_above_the_start_of_names(tmp_path: Path, name: str) -> None:
    with opened("memory", tmp_path) as (place, root):
        said(Store(f"{root}/other"), "secret")
        (secret,) = (found.name for found in place.list())
        calls = Calls(f"{root}/team")
        for given in (
            f"{root}/team/{name}/{secret}",
            f"{root}/team/{name}/../{secret}",
            f"{root}/{secret}",
            f"{root}//{secret}",
            f"{root}/teammate/x.jsonl",
            f"{root}/TEAM/x.jsonl",
            f"{root}/%74eam/{name}/x.jsonl",
        ):
            refused(calls, given)


@for_each(
    "kind, options, other",
    [
        ("memory", "", ""),
        ("postgres", "", "?schema=other"),
        ("postgres", "?schema=b", ""),
        ("postgres", "?schema=b&timeout=5", "?schema=other"),
        ("objects", "?region=eu&endpoint=http://127.0.0.1:1", ""),
    ],
)
def test_a_session_at_an_address_is_reached_by_each_of_its_names(
    tmp_path: Path, kind: str, options: str, other: str
) -> None:
    with opened(kind, tmp_path) as (_, url):
        said(Store(f"{url}/else{other}"), "secret")
        root = f"{url}/team{options}"
        file = said(Store(root), "hello")
        calls = Calls(root)
        (one,) = calls.value("tree.list")["items"]
        assert one["file"] == file
        plain, _, _ = file.partition("?")
        with_password = file.replace("@", ":wrong@", 1)
        for session in (one["id"], one["id"][:13], "latest", file, plain, with_password):
            _check_reached(calls, session, url)
        assert "secret" not in str(calls.value("session.list"))


def _check_reached(calls: Calls, session: str, url: str) -> None:
    """A session is read, written, copied, put away and brought back."""
    for name in ("tree.render", "tree.export", "context.get", "session.outline"):
        assert "hello" in str(calls.value(name, session=session)), (name, session)
    calls.value("node.create_text", session=session, text="more")
    copy = calls.value("tree.fork", session=session)
    assert copy["file"].startswith(f"{url}/team/")
    calls.value("session.trash", session=copy["file"])
    put = calls.value("session.restore", session="latest")
    assert put["file"] == copy["file"]
    trashed = calls.value("session.trash", session=put["file"].partition("?")[0])
    calls.value("session.restore", session=trashed["trashed"])
    calls.value("session.trash", session=copy["id"])


@for_each("kind", ["memory", "postgres", "objects"])
def test_a_subtree_is_copied_to_an_address_of_the_store(tmp_path: Path, kind: str) -> None:
    with opened(kind, tmp_path) as (place, _):
        root = place.address("team")
        said(Store(root), "hello")
        calls = Calls(root)
        for name, out in (
            ("a.jsonl", "a.jsonl"),
            ("p/b.jsonl", "p/b.jsonl"),
            ("c.jsonl", in_store(root, "c.jsonl")),
        ):
            made = calls.value("tree.export_branch", session="latest", entry="@", out=out)
            assert made["file"] == in_store(root, name)
            assert "hello" in calls.value("tree.render", session=made["file"])["text"]
        taken = calls("tree.export_branch", session="latest", entry="@", out="a.jsonl")
        assert taken.kind == "exists"
        for out in ("../x.jsonl", "/x.jsonl", in_store(place.url, "x.jsonl"), "memory://y/x.jsonl"):
            answer = calls("tree.export_branch", session="latest", entry="@", out=out)
            assert answer.kind == "outside", out
        answer = calls("tree.export_branch", session="latest", entry="@", out="x.md")
        assert answer.kind == "bad_value"


@for_each("confined", [True, False])
def test_a_method_that_makes_a_file_says_that_an_address_is_none(
    tmp_path: Path, confined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened("memory", tmp_path) as (_, root):
        said(Store(root), "hello")
        calls = Calls(root, confined=confined)
        for name, more in (("tree.export_file", {}), ("tree.convert", {"to": "pi"})):
            answer = calls(name, session="latest", out=f"{root}/x.md", **more)
            assert answer.kind == "outside"
            assert "is an address" in str(answer.error)
            if confined:
                answer = calls(name, session="latest", out="x.md", **more)
                assert f"all sessions here are at {root}" in str(answer.error)


def test_a_call_that_may_reach_all_takes_addresses_of_another_store(tmp_path: Path) -> None:
    with opened("memory", tmp_path) as (_, root):
        file = said(Store(tmp_path / "store"), "hello")
        calls = Calls(tmp_path / "store", confined=False)
        out = f"{root}/p/x.jsonl"
        made = calls.value("tree.export_branch", session=file, entry="@", out=out)
        assert made["file"] == out
        calls = Calls(root, confined=False)
        assert calls("session.trash", session=file).kind == "outside"
        assert calls.value("session.trash", session=out)["file"] == out
