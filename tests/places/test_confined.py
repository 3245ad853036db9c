"""A confined scope over a store at an address: its sessions are reached, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import Session, Store
from sessiontree.storage import places
from tests.places.kinds import opened
from tests.support.calls import Calls
from tests.support.conversation import user
from tests.support.sessions import said


@pytest.fixture(params=["memory", "postgres", "objects"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    with opened(request.param, tmp_path) as (place, _):
        yield Store(place.address("team/a b"))


@pytest.fixture
def no_place_is_opened(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening any other place fails the test."""
    known = set(places._places)

    def refused(scheme: str) -> None:
        raise AssertionError(f"a place of {scheme} was opened, beside {known}")

    monkeypatch.setattr(places, "_opener", refused)


def test_each_session_is_reached_by_its_address_its_id_and_as_the_latest(store: Store) -> None:
    file = said(store, "hello")
    with Session.open(file, readonly=True) as session:
        id = session.id
    calls = Calls(store.root)
    for name in (file, id, id[:8], "latest"):
        assert "hello" in str(calls.value("tree.render", session=name))
        assert "hello" in str(calls.value("context.get", session=name))
    calls.value("node.create_text", session=file, role="user", text="more")
    with Session.open(file, readonly=True) as session:
        assert len(session.context().messages) == 2


def test_a_subtree_becomes_a_session_of_the_store(store: Store) -> None:
    file = said(store, "hello")
    calls = Calls(store.root)
    made = calls.value("tree.export_branch", session=file, entry="@", out="p/new.jsonl")["file"]
    assert "hello" in str(calls.value("tree.render", session=made))
    assert made in {one.file for one in Store(store.root).list()}
    assert calls("tree.export_file", session=file, out="p/new.md").kind == "outside"


def test_a_session_of_the_store_is_moved_to_its_trash(store: Store) -> None:
    file = said(store, "hello")
    Calls(store.root, confined=False).value("session.trash", session=file)
    assert store.list() == []


@pytest.mark.usefixtures("no_place_is_opened")
def test_no_other_place_is_reached(store: Store) -> None:
    base, _, options = store.root.partition("?")
    mark = "&" if options else "?"
    inside = f"{base}/x.jsonl" + (f"?{options}" if options else "")
    asked = [
        *(f"{inside}{mark}{each}" for each in ("host=127.0.0.1&port=9", "hostaddr=127.0.0.1")),
        *(f"{inside}{mark}{each}" for each in ("schema=b", "endpoint=http://127.0.0.1:9")),
        *(f"{base}{each}/x.jsonl" for each in ("b", "/..", "/../..", "/%2e%2e", "/./..", "//")),
        base.replace("team/a%20b", "x.jsonl"),
        *(f"{scheme}://u@127.0.0.1:9/d/x.jsonl" for scheme in ("postgresql", "postgres", "s3")),
        "memory://another/x.jsonl",
        f"file://{base}/x.jsonl",
        "POSTGRESQL://u@127.0.0.1:9/d/x.jsonl",
    ]
    for url in asked:
        for name in ("tree.render", "context.get", "session.trash"):
            answer = Calls(store.root)(name, session=url)
            assert answer.kind == "outside", (url, answer.events)
        answer = Calls(store.root)("tree.export_branch", session="latest", entry="@", out=url)
        assert answer.kind in ("outside", "session_not_found", "bad_value"), (url, answer.events)


@pytest.mark.usefixtures("no_place_is_opened")
def test_a_store_in_a_folder_reaches_no_address(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program may run inside the folder, where the text of an address could be a path."""
    folder, outside = tmp_path / "folder", tmp_path / "outside.jsonl"
    said(Store(folder), "hello")
    with Session.create(outside, cwd="/p") as session:
        session.append_message(user("secret"))
    monkeypatch.chdir(folder)
    for root in (".", str(folder)):
        for url in (
            "postgresql://u@127.0.0.1:9/d/x.jsonl",
            "s3://bucket/x.jsonl?endpoint=http://127.0.0.1:9",
            "memory://another/x.jsonl",
            outside.as_uri(),
            f"file://localhost{outside}",
            "file://elsewhere/x.jsonl",
        ):
            answer = Calls(root)("tree.render", session=url)
            assert answer.kind == "outside", (url, answer.events)
