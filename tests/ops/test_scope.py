"""Which sessions calls may reach: in a confined scope those of its folders, and none by a link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree import Session, Store
from sessiontree.calls.dispatcher import Data, Dispatcher, Guidance
from sessiontree.calls.scope import Scope
from sessiontree.ops import OWN
from tests.support.events import data, events, refusal
from tests.support.sessions import by_hand, chat, said
from tests.support.table import for_each

READING = sorted(
    method.full_name
    for space in OWN.values()
    for method in space.methods.values()
    if set(method.params_schema["required"]) <= {"session"}
)
"""The methods that need no more than a session, if that."""

WRITING = sorted(
    method.full_name
    for space in OWN.values()
    for method in space.methods.values()
    if method.effect != "read"
)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A session in no folder of the scope."""
    (tmp_path / "outside").mkdir()
    return chat(tmp_path / "outside" / "chat.jsonl", "the secret", id="secret-id")


@pytest.fixture
def linked(store: Store, outside: Path) -> Store:
    """A store in which links lead out: to a file, and to a folder."""
    (Path(store.root) / "linked.jsonl").symlink_to(outside)
    (Path(store.root) / "folder").symlink_to(outside.parent)
    return store


@for_each(
    "name",
    [
        "{outside}",
        "{root}/../outside/chat.jsonl",
        "{root}/linked.jsonl",
        "{root}/folder/chat.jsonl",
        "../outside/chat.jsonl",
        "linked.jsonl",
        "../secret-id",
        "a\x00.jsonl",
        "/proc/self/environ",
        "\ud800.jsonl",
    ],
)
def test_no_path_leads_out_of_a_confined_scope(
    linked: Store, outside: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(linked.root)
    confined = Dispatcher(Scope(linked.root, agents=False, write=True))
    before = outside.read_bytes()
    given = name.format(outside=outside, root=linked.root)
    for method in ("tree.render", "tree.fork"):
        guidance, error = refusal(confined, method, {"session": given})
        assert guidance.kind == "outside"
        assert guidance.available == [linked.root]
        assert "the secret" not in error.message
    assert outside.read_bytes() == before


@for_each("name", ["secret-id", "secr", "../secret-id", "..", ".", "", "~", "*"])
def test_no_name_leads_out_of_a_confined_scope(linked: Store, name: str) -> None:
    confined = Dispatcher(Scope(linked.root, agents=False, write=True))
    guidance, error = refusal(confined, "tree.render", {"session": name})
    assert linked.find("first").id in guidance.available or guidance.kind == "outside"
    told = str((guidance, error))
    assert "secret" not in (told.replace(name, "") if "secr" in name else told)


def test_a_link_that_leads_out_leaves_the_list_of_the_others(linked: Store) -> None:
    found = events(Dispatcher(Scope(linked.root, agents=False)), "tree.list")
    (told,) = (event.next for event in found if isinstance(event, Guidance))
    assert "linked.jsonl is a link that leads outside" in told
    (answer,) = (event.value for event in found if isinstance(event, Data))
    assert [one["name"] for one in answer["items"]] == ["first"]


@pytest.mark.parametrize("agents", [False, True])
def test_the_latest_passes_over_a_link_that_leads_out(
    linked: Store, outside: Path, *, agents: bool
) -> None:
    with Session.open(outside) as session:
        session.append_message({"role": "user", "content": "the newest secret"})
    confined = Dispatcher(Scope(linked.root, agents=agents))
    found = events(confined, "tree.render", {"session": "latest"})
    (answer,) = (event.value for event in found if isinstance(event, Data))
    assert "Build a CLI" in answer["text"]
    Path(linked.find("first").file).unlink()
    guidance, error = refusal(confined, "tree.render", {"session": "latest"})
    assert (guidance.kind, "secret" in error.message) == ("session_not_found", False)


def test_an_ambiguous_name_offers_the_newest_few(store: Store) -> None:
    for number in range(25):
        file = by_hand(Path(store.root, f"{number}.jsonl"), "hello", id=f"same-{number}")
        os.utime(file, (number + 1, number + 1))
    confined = Dispatcher(Scope(store.root, agents=False))
    guidance, _ = refusal(confined, "tree.render", {"session": "same"})
    assert guidance.available == [f"same-{number}" for number in range(24, 4, -1)]
    assert "5 more are left out" in guidance.next
    for number in range(4):
        Path(store.root, f"{number}.jsonl").unlink()
    guidance, _ = refusal(confined, "tree.render", {"session": "same"})
    assert "1 more is left out" in guidance.next


def test_where_several_files_have_one_id_their_paths_are_offered(store: Store) -> None:
    files = [by_hand(Path(store.root, f"{n}.jsonl"), f"hello {n}", id="twice") for n in "ab"]
    confined = Dispatcher(Scope(store.root, agents=False))
    guidance, _ = refusal(confined, "tree.render", {"session": "twice"})
    assert sorted(guidance.available) == list(map(str, files))
    for file in guidance.available:
        assert data(confined, "tree.render", session=file)


@for_each("method", READING)
def test_what_a_link_leads_to_is_in_no_answer(linked: Store, method: str) -> None:
    confined = Dispatcher(Scope(linked.root, agents=False))
    for session in ("latest", "first"):
        given = {"session": session} if "session" in _parameters(confined, method) else {}
        assert "secret" not in str(events(confined, method, given))


def _parameters(dispatcher: Dispatcher, method: str) -> dict[str, object]:
    found: dict[str, object] = dispatcher.methods[method].params_schema["properties"]
    return found


def test_a_scope_that_is_not_confined_reads_any_path(linked: Store, outside: Path) -> None:
    free = Dispatcher(Scope(linked.root, agents=False, confined=False))
    for path in (outside, Path(linked.root) / "linked.jsonl"):
        assert "the secret" in data(free, "tree.render", session=str(path))["text"]


def test_the_root_may_be_a_link_itself(store: Store, tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to(store.root)
    confined = Dispatcher(Scope(str(tmp_path / "root"), agents=False))
    assert data(confined, "tree.render", session="first")
    assert data(confined, "tree.render", session=store.list()[0].file)


def test_the_folders_of_agents_count_if_they_are_asked_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "claude" / "projects" / "-project"
    home.mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    theirs = chat(home / "theirs.jsonl", "by an agent", id="theirs")
    for given in ("theirs", str(theirs)):
        with_agents = Dispatcher(Scope(store.root))
        assert "by an agent" in data(with_agents, "tree.render", session=given)["text"]
        without = Dispatcher(Scope(store.root, agents=False))
        refusal(without, "tree.render", {"session": given})


@for_each("method", WRITING)
def test_nothing_is_written_without_leave(store: Store, method: str) -> None:
    reading = Dispatcher(Scope(store.root, agents=False))
    before = _contents(Path(store.root))
    known = {"session": "first", "message": {"role": "user", "content": "new"}, "drop": True}
    params = {**reading.methods[method].example}
    params.update({name: known[name] for name in known if name in _parameters(reading, method)})
    guidance, error = refusal(reading, method, params)
    assert guidance.kind in ("read_only", "bad_value"), error  # or it had nothing to do in any case
    assert _contents(Path(store.root)) == before


def _contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("ending", [".lock", ".blobs"])
def test_a_link_beside_a_session_makes_nothing_elsewhere(
    store: Store, tmp_path: Path, ending: str
) -> None:
    file = store.list()[0].file
    elsewhere = tmp_path / "elsewhere"
    if ending == ".blobs":
        elsewhere.mkdir()
    Path(file + ending).unlink(missing_ok=True)
    os.symlink(elsewhere, file + ending)
    confined = Dispatcher(Scope(store.root, agents=False, write=True))
    params = {"session": "first", "role": "user", "text": "large " * 20_000}
    events(confined, "node.create_text", params)
    assert not elsewhere.exists() or not list(elsewhere.iterdir())


def test_a_file_that_was_made_is_in_the_store(store: Store) -> None:
    writing = Dispatcher(Scope(store.root, agents=False, write=True))
    made = data(writing, "tree.create", name="new", cwd="/../../x")["file"]
    assert os.path.realpath(made).startswith(os.path.realpath(store.root) + os.sep)
    assert said(store, "more").startswith(store.root)
