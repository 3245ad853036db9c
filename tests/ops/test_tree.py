"""`tree`: sessions as trees: made, listed, drawn, copied and converted by calls."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from tests.support.calls import Calls
from tests.support.sessions import by_hand, chat, said
from tests.support.table import for_each

SECRET = "sk-ant-api03-" + "Ab3" * 28 + "-AAAA"


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A session with two branches and a label."""
    file = chat(tmp_path / "s.jsonl", "one", {"role": "assistant", "content": "two"}, "three")
    with Session.open(file) as session:
        session.label("@", "third")
        session.branch("@~1", name="other")
        session.append_message({"role": "user", "content": f"my key is {SECRET}"})
    return str(file)


def test_create_makes_a_session_with_its_settings(calls: Calls) -> None:
    given = {"name": "mine", "id": "my-id", "cwd": "/project", "metadata": {"owner": "me"}}
    settings = {"model": "m-1", "provider": "p", "system": "Be brief."}
    made = calls.value("tree.create", **given, **settings)
    assert made["id"] == "my-id"
    with Session.open(made["file"], readonly=True) as session:
        context = session.context()
        assert (session.name, session.header["cwd"]) == ("mine", "/project")
        assert session.metadata["owner"] == "me"
        assert context.model == {"provider": "p", "modelId": "m-1"}
        assert context.system == "Be brief."


def test_list_tells_each_tree_in_short(calls: Calls, file: str, tmp_path: Path) -> None:
    said(Store(tmp_path), "hello", cwd="/project", name="second")
    os.utime(by_hand(tmp_path / "old.jsonl", "long ago"), (0, 0))
    (tmp_path / "no.jsonl").write_text("not a session\n")
    answer = calls("tree.list")
    second, first, old = answer.value["items"]
    with Session.open(file, readonly=True) as session:
        assert first["leaf"] == session.leaf.uuid
        assert first["entries"] == len(list(session.entries()))
    assert (first["branches"], first["labels"], first["file"]) == (2, 1, file)
    assert (second["name"], second["cwd"]) == ("second", "/project")
    assert old["entries"] == 2
    assert any("no.jsonl" in text for _, text in answer.guidance)
    (mine,) = calls.pages("tree.list", project="project")
    assert mine == second


def test_list_opens_only_the_sessions_of_its_page(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(30):
        said(Store(tmp_path), str(n))
    first = calls("tree.list", budget=500)
    opened: list[str] = []
    inside = calls.scope.inside

    def noted(path: str) -> str:
        opened.append(path)
        return inside(path)

    monkeypatch.setattr(calls.scope, "inside", noted)
    second = calls("tree.list", budget=500, cursor=first.value["cursor"])
    assert len(opened) == len(second.value["items"]) + 1
    assert len({one["id"] for one in calls.pages("tree.list", budget=500)}) == 30


def test_get_and_render_draw_the_whole_tree(calls: Calls, file: str) -> None:
    rows = calls.pages("tree.get", session=file)
    with Session.open(file, readonly=True) as session:
        assert [row["uuid"] for row in rows] == [entry.uuid for entry in session.entries()]
        drawn = list(session.render(all=True))
    assert calls.value("tree.render", session=file, all=True)["text"] == "\n".join(drawn)


def test_fork_copies_a_path_into_the_store(calls: Calls, file: str) -> None:
    made = calls.value("tree.fork", session=file, at="third", name="copy", cwd="/elsewhere")
    with Session.open(made["file"], readonly=True) as copy:
        assert (copy.name, copy.header["cwd"], copy.id) == ("copy", "/elsewhere", made["id"])
        assert [m["content"] for m in copy.context().messages] == ["one", "two", "three"]


def test_export_reads_a_transcript_in_parts(calls: Calls, tmp_path: Path) -> None:
    file = str(chat(tmp_path / "l.jsonl", *(f"prompt {n} é\n" * 40 for n in range(60))))
    with Session.open(file, readonly=True) as session:
        whole, leaf = "".join(session.to_markdown()), session.leaf.uuid
    found, given = "", {"session": file, "budget": 1000}
    while True:
        answer = calls("tree.export", offset=len(found), **given)
        assert answer.tokens <= 1000
        assert answer.value["at"] == leaf
        found += answer.value["text"]
        if "next" not in answer.value:
            break
        assert answer.value["next"] == len(found)
    assert found == whole
    assert calls.value("tree.export", session=file, budget=0)["text"] == whole


@pytest.mark.parametrize("by_scope", [True, False])
def test_what_leaves_is_masked_if_asked(file: str, tmp_path: Path, by_scope: bool) -> None:
    calls = Calls(tmp_path, redact=by_scope)
    given = {"session": file, **({} if by_scope else {"redact": True})}
    text = calls.value("tree.export", **given)["text"]
    written = calls.value("tree.export_file", out="t.md", **given)
    copied = calls.value("tree.export_branch", entry="@~1", out="b.jsonl", **given)
    assert (tmp_path / "t.md").read_text().splitlines()[1:] == text.splitlines()[1:]
    for made in (written, copied):
        assert made["masked"]["masked"]
        assert SECRET not in Path(made["file"]).read_text()
    assert SECRET not in text


def test_export_file_writes_below_the_store(calls: Calls, file: str, tmp_path: Path) -> None:
    assert calls.value("tree.export_file", session=file, out="t.md")["file"] == f"{tmp_path}/t.md"
    with Session.open(file, readonly=True) as session:
        assert (tmp_path / "t.md").read_text() == "".join(session.to_markdown())


def test_export_branch_copies_a_subtree(calls: Calls, file: str, tmp_path: Path) -> None:
    whole = calls.value(
        "tree.export_branch", session=file, entry="third", out="w.jsonl", with_path=True
    )
    below = calls.value("tree.export_branch", session=file, entry="third", out="b.jsonl")
    for made, texts in ((whole, ["one", "two", "three"]), (below, ["three"])):
        with Session.open(made["file"], readonly=True) as copy:
            assert copy.id == made["id"]
            assert [m["content"] for m in copy.context().messages] == texts
    assert below["file"] == str(tmp_path / "b.jsonl")


@pytest.mark.parametrize("to", ["pi", "claude-code", "codex", "gemini", "atif"])
def test_convert_says_what_is_not_kept(calls: Calls, file: str, tmp_path: Path, to: str) -> None:
    out = "c.json" if to in ("gemini", "atif") else "c.jsonl"
    found = calls.value("tree.convert", session=file, to=to, out=out)
    with Session.open(file, readonly=True) as session:
        made = session.convert(to, tmp_path / f"other-{out}")
    assert Path(found["file"]).read_bytes()
    assert found.get("not_kept", []) == [str(loss) for loss in made.losses]
    assert len(found.get("beside", [])) == len(made.beside)


@for_each(
    ("name", "params", "kind"),
    [
        ("create", {"name": ""}, "bad_value"),
        ("create", {"name": "two\nlines"}, "bad_value"),
        ("create", {"cwd": "\ud800"}, "bad_value"),
        ("create", {"id": "\ud800"}, "bad_value"),
        ("create", {"metadata": "\ud800"}, "bad_parameter"),
        ("create", {"metadata": {"a": "\ud800"}}, "bad_value"),
        ("fork", {"session": "FILE", "at": "nowhere"}, "no_such_ref"),
        ("fork", {"session": "FILE", "name": ""}, "bad_value"),
        ("export", {"session": "FILE", "at": "nowhere"}, "no_such_ref"),
        ("export_file", {"session": "FILE", "out": "s.jsonl"}, "bad_value"),
        ("export_file", {"session": "FILE", "out": "no/folder/t.md"}, "storage"),
        ("export_branch", {"session": "FILE", "entry": "@", "out": "s.jsonl"}, "exists"),
        ("export_branch", {"session": "FILE", "entry": "no", "out": "n.jsonl"}, "no_such_ref"),
        ("convert", {"session": "FILE", "to": "pi", "out": "s.jsonl"}, "exists"),
        ("convert", {"session": "FILE", "to": "word", "out": "n.doc"}, "bad_parameter"),
        ("list", {"cursor": "x"}, "bad_cursor"),
    ],
)
def test_what_cannot_be_done_is_refused_and_makes_no_file(
    calls: Calls, file: str, tmp_path: Path, name: str, params: dict[str, Any], kind: str
) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    given = {**params, "session": file} if "session" in params else params
    assert calls(f"tree.{name}", **given).kind == kind
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert after == before


@for_each(
    ("name", "params"),
    [
        ("create", {}),
        ("fork", {"session": "FILE"}),
        ("export_file", {"session": "FILE", "out": "t.md"}),
        ("export_branch", {"session": "FILE", "entry": "@", "out": "b.jsonl"}),
        ("convert", {"session": "FILE", "to": "pi", "out": "c.jsonl"}),
    ],
)
def test_nothing_is_made_where_calls_only_read(
    tmp_path: Path, file: str, name: str, params: dict[str, Any]
) -> None:
    given = {**params, "session": file} if params else params
    before = sorted(tmp_path.rglob("*"))
    assert Calls(tmp_path, write=False)(f"tree.{name}", **given).kind == "read_only"
    assert sorted(tmp_path.rglob("*")) == before


def test_a_drawing_of_a_session_without_branches_has_its_recent_entries(
    calls: Calls, tmp_path: Path
) -> None:
    file = chat(tmp_path / "line.jsonl", *(f"prompt {number}" for number in range(200)))
    text = calls.value("tree.render", session=str(file))["text"]
    shown = [
        number for number in range(200) if f"prompt {number} " in f"{text} ".replace("\n", " ")
    ]
    assert shown[-40:] == [*range(160, 200)]
    assert len(shown) <= 42
    assert "⋮" in text
