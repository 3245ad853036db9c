"""`node`: entries are written, read whole, found and labelled by calls."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.support.calls import Calls
from tests.support.saying import PIXEL
from tests.support.sessions import chat, version_1
from tests.support.table import for_each

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"file_path": "a.py"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "the content of a.py"}


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A session with a prompt, a call and its result, and an answer."""
    messages: list[Any] = [
        "look at a.py",
        {"role": "assistant", "content": [{"type": "text", "text": "I read it."}, CALL]},
        {"role": "user", "content": [RESULT]},
        {"role": "assistant", "content": "It is fine."},
    ]
    return str(chat(tmp_path / "s.jsonl", *messages))


def path(file: str) -> list[str]:
    with Session.open(file, readonly=True) as session:
        return [entry.uuid for entry in session.path()]


def test_create_text_writes_below_the_leaf(calls: Calls, file: str) -> None:
    made = calls.value("node.create_text", session=file, text="next", metadata={"by": "me"})
    with Session.open(file, readonly=True) as session:
        assert session.leaf.uuid == made["uuid"]
        assert session.leaf.parent_uuid == made["parent"]
        assert session.leaf["message"] == {"role": "user", "content": "next"}
        assert session.leaf["metadata"] == {"by": "me"}


def test_create_text_below_a_parent_says_which_leaf_it_left(calls: Calls, file: str) -> None:
    *_, prompt, _, _, leaf = path(file)
    made = calls.value("node.create_text", session=file, text="other", parent=prompt)
    assert (made["parent"], made["left"]) == (prompt, leaf)
    assert path(file)[-2:] == [prompt, made["uuid"]]


@pytest.mark.parametrize("where", [{"lane": "aside"}, {"scratch": True}])
def test_create_text_on_another_lane_moves_no_main_leaf(
    calls: Calls, file: str, where: dict[str, Any]
) -> None:
    before = path(file)
    made = calls.value("node.create_text", session=file, text="try", parent="@~1", **where)
    assert made["lane"].startswith(where.get("lane", "scratch/"))
    assert made["parent"] == before[-2]
    assert "left" not in made or where == {"lane": "aside"}
    assert path(file) == before


def test_create_message_keeps_the_message_as_given(calls: Calls, file: str) -> None:
    message = {"role": "assistant", "content": [CALL], "model": "m"}
    made = calls.value("node.create_message", session=file, message=message)
    assert calls.value("node.get", session=file, entry=made["uuid"])["entry"]["message"] == message


def test_create_handle_writes_a_pointer(calls: Calls, file: str) -> None:
    given = {"handle": "file@1.0.0::path:notes.md", "role": "user", "preview": "my notes"}
    calls.value("node.create_handle", session=file, **given)
    entry = calls.value("node.get", session=file)["entry"]
    assert {key: entry[key] for key in ("type", "kind", *given)} == {
        "type": "handle",
        "kind": "binary",
        **given,
    }


def test_attach_stores_a_file_inside_the_scope(calls: Calls, file: str, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes")
    made = calls.value("node.attach", session=file, path=str(tmp_path / "notes.md"))
    assert calls.value("handle.resolve", session=file, handle=made["handle"])["data"] == "# Notes"
    calls.value("node.create_text", session=file, text="see", attachments=[f"{tmp_path}/notes.md"])
    with Session.open(file, readonly=True) as session:
        attached, prompt = session.context().messages[-2:]
    assert "# Notes" in attached["content"]
    assert [block["type"] for block in prompt["content"]] == ["text", "document"]


@for_each("path", ["/etc/hostname", "link"])
@for_each(
    ("name", "params"),
    [("node.attach", {"path": ""}), ("node.create_text", {"text": "", "attachments": []})],
)
def test_no_file_outside_the_scope_is_attached(
    calls: Calls, file: str, tmp_path: Path, path: str, name: str, params: dict[str, Any]
) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    outside = str(tmp_path / path)
    given = {"path": outside} if "path" in params else {**params, "attachments": [outside]}
    before = Path(file).read_bytes()
    assert calls(name, session=file, **given).kind == "outside"
    assert Path(file).read_bytes() == before


@pytest.mark.parametrize("where", [{}, {"scratch": True}, {"lane": "aside"}])
def test_a_file_of_version_1_is_migrated_and_that_is_told(
    calls: Calls, tmp_path: Path, where: dict[str, Any]
) -> None:
    file = version_1(tmp_path / "old.jsonl", "hello")
    before = file.read_bytes()
    assert calls.value("node.get", session=str(file))["entry"]["message"]["content"] == "hello"
    assert file.read_bytes() == before
    answer = calls("node.create_text", session=str(file), text="next", **where)
    assert {kind for kind, _ in answer.guidance} == {"warning"}
    assert Path(f"{file}.v1").read_bytes() == before
    assert calls.value("node.get", session=str(file), entry=answer.value["uuid"])


def test_the_session_of_another_agent_is_read_and_never_written(
    calls: Calls, tmp_path: Path
) -> None:
    file = tmp_path / "codex.jsonl"
    shutil.copy("fixtures/foreign-codex/session.jsonl", file)
    before = file.read_bytes()
    assert calls.pages("node.find", session=str(file), role=["prompt"])
    assert calls("node.create_text", session=str(file), text="a").kind == "wrong_file"
    assert calls.value("node.label", session=str(file), entry="@", label="a")["label"] == "a"
    kept = next(one for one in calls.scope.store.list() if one.imported_from == file.name)
    with Session.open(kept.file, readonly=True) as session:
        assert [one.label for one in session.labels()] == ["a"]
    assert file.read_bytes() == before


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("create_text", {"text": "a", "parent": "nowhere"}, "no_such_ref"),
    ("create_text", {"text": "a", "lane": "a/../b~1"}, "bad_name"),
    ("create_text", {"text": "a", "role": ""}, "bad_parameter"),
    ("create_text", {"text": "a", "role": "martian"}, "bad_parameter"),
    ("attach", {"path": "s.jsonl", "role": "martian"}, "bad_parameter"),
    ("create_text", {"text": "lone \ud800"}, "bad_value"),
    ("create_text", {"text": "a", "role": "assistant", "attachments": ["s.jsonl"]}, "outside"),
    ("create_message", {"message": {"content": "no role"}}, "bad_value"),
    ("create_message", {"message": {"role": "user"}}, "bad_value"),
    ("create_handle", {"handle": "nothing"}, "bad_handle"),
    ("create_handle", {"handle": "unknown@1.0.0::a:b"}, "bad_handle"),
    ("create_handle", {"handle": f"blob@1.0.0::sha256:{'0' * 64}:1:text/plain"}, "blob"),
    ("attach", {"path": "missing.txt"}, "outside"),
    ("get", {"entry": "nowhere"}, "no_such_ref"),
    ("get", {"part": "/message/content/7"}, "no_such_part"),
    ("get", {"part": "message"}, "no_such_part"),
    ("get", {"offset": -1}, "bad_parameter"),
    ("children", {"entry": "nowhere"}, "no_such_ref"),
    ("label", {"entry": "@", "label": "@~1"}, "bad_name"),
    ("unlabel", {"entry": "@"}, "nothing_to_do"),
    ("find", {}, "bad_parameter"),
    ("find", {"text": ""}, "bad_value"),
    ("find", {"text": "(", "regex": True}, "bad_value"),
    ("find", {"text": "a", "tool_call_id": "b"}, "bad_parameter"),
    ("edit_context", {"entry": "@"}, "bad_parameter"),
    ("edit_context", {"entry": "@", "text": "a", "drop": True}, "bad_parameter"),
]


@for_each(("name", "params", "kind"), REFUSED)
def test_what_cannot_be_done_is_refused_and_writes_nothing(
    calls: Calls, file: str, name: str, params: dict[str, Any], kind: str
) -> None:
    before = Path(file).read_bytes()
    answer = calls(f"node.{name}", session=file, **params)
    assert answer.kind == kind
    assert Path(file).read_bytes() == before


@for_each(
    ("name", "params"),
    [
        ("create_text", {"text": "a"}),
        ("create_message", {"message": {"role": "user", "content": "a"}}),
        ("create_handle", {"handle": "file@1.0.0::path:a"}),
        ("attach", {"path": "a"}),
        ("label", {"entry": "@", "label": "a"}),
        ("unlabel", {"entry": "@"}),
        ("edit_context", {"entry": "@", "drop": True}),
    ],
)
def test_nothing_is_written_where_calls_only_read(
    tmp_path: Path, file: str, name: str, params: dict[str, Any]
) -> None:
    before = Path(file).read_bytes()
    assert Calls(tmp_path, write=False)(f"node.{name}", session=file, **params).kind == "read_only"
    assert Path(file).read_bytes() == before


def test_get_gives_an_entry_whole(calls: Calls, file: str) -> None:
    uuid = path(file)[2]
    found = calls.value("node.get", session=file, entry=uuid)
    with Session.open(file, readonly=True) as session:
        stored = dict(session.entry(uuid).body)
    del stored["crc"]
    assert found == {"uuid": uuid, "type": "message", "current": True, "entry": stored}


def test_get_reads_every_character_of_a_long_text(calls: Calls, file: str) -> None:
    """10 MB, with text that JSON spells in escapes, and a lone surrogate as Node writes it."""
    text = 'a "line" of é\n' * 700_000
    uuid = calls.value("node.create_text", session=file, text=text)["uuid"]
    answer = calls("node.get", session=file, budget=1000)
    (cut,) = answer.value["cut"]
    assert answer.tokens <= 1000
    assert (cut["part"], cut["length"]) == ("/message/content", len(text))
    shown = answer.value["entry"]["message"]["content"]
    assert shown[: cut["shown"]] == text[: cut["shown"]]
    middle = calls("node.get", session=file, part=cut["part"], offset=cut["shown"], budget=1000)
    assert middle.tokens <= 1000
    next = middle.value["next"]
    assert middle.value["text"] == text[cut["shown"] : next]
    rest = calls.value("node.get", session=file, part=cut["part"], offset=next, budget=0)
    assert rest["text"] == text[next:]
    assert "next" not in rest
    assert rest["uuid"] == uuid


def test_get_pages_an_entry_of_many_small_values_as_json(calls: Calls, file: str) -> None:
    content = [{"type": "text", "text": str(n)} for n in range(9999)]
    message = {"role": "user", "content": content}
    calls.value("node.create_message", session=file, message=message)
    answer = calls("node.get", session=file)
    (cut,) = answer.value["cut"]
    assert (answer.tokens <= 4000, cut["part"]) == (True, "")
    last = calls.value("node.get", session=file, part="/message/content/9998/text")
    assert last["text"] == "9998"
    rest = calls.value("node.get", session=file, offset=cut["shown"], budget=0)["text"]
    assert rest.endswith('{"type": "text", "text": "9998"}]}}')


def test_get_joins_a_message_that_came_in_blocks(calls: Calls, tmp_path: Path) -> None:
    file = tmp_path / "b.jsonl"
    with Session.create(file) as session:
        with session.stream_message(granularity="block") as stream:
            for word in ("one", "two"):
                stream.start("text")
                stream.delta(word)
                stream.stop()
        first = session.path()[1]
    found = calls.value("node.get", session=str(file), entry=first.uuid)
    assert found["type"] == "block"
    assert [block["text"] for block in found["entry"]["message"]["content"]] == ["one", "two"]


def test_get_names_a_text_whose_blob_is_lost(calls: Calls, file: str, tmp_path: Path) -> None:
    calls.value("node.create_text", session=file, text="long " * 10_000)
    assert calls.value("node.get", session=file)["cut"][0]["length"] == 50_000
    for blob in Path(f"{file}.blobs").iterdir():
        blob.unlink()
    answer = calls("node.get", session=file)
    assert answer.value["entry"]["message"]["content"].startswith("blob@1.0.0::sha256:")
    ((kind, text),) = answer.guidance
    assert kind == "warning"
    assert "is not there" in text or "missing" in text


def test_get_shows_a_lone_surrogate_as_it_is_stored(calls: Calls, tmp_path: Path) -> None:
    file = chat(tmp_path / "l.jsonl", "lone XX here")
    file.write_bytes(file.read_bytes().replace(b"XX", b"\\ud800"))
    answer = calls("node.get", session=str(file), part="/message/content")
    assert answer.value["text"] == "lone \ud800 here"
    assert answer.guidance[0][0] == "damage"


def test_children_are_in_the_order_of_the_file(calls: Calls, file: str) -> None:
    prompt = path(file)[1]
    calls.value("node.create_text", session=file, text="again", parent=prompt)
    found = calls.pages("node.children", session=file, entry=prompt)
    assert [(row["role"], row["preview"]) for row in found] == [
        ("assistant", "I read it. · Read a.py"),
        ("user", "again"),
    ]
    assert {row["parent"] for row in found} == {prompt}


def test_a_label_is_given_listed_replaced_and_removed(calls: Calls, file: str) -> None:
    leaf = path(file)[-1]
    for text, was in (("good", {}), ("better", {"was": "good"})):
        found = calls.value("node.label", session=file, entry="@", label=text)
        assert found == {"uuid": leaf, "label": text, **was}
    (row,) = calls.pages("node.labels", session=file)
    assert (row["label"], row["uuid"], row["current"]) == ("better", leaf, True)
    assert calls.value("node.get", session=file, entry="better")["label"] == "better"
    assert calls.value("node.unlabel", session=file, entry="@") == {"uuid": leaf, "was": "better"}
    assert calls.pages("node.labels", session=file) == []


def test_a_label_in_use_is_refused_with_where_to_look(calls: Calls, file: str) -> None:
    calls.value("node.label", session=file, entry="@~1", label="taken")
    assert calls("node.label", session=file, entry="@~2", label="taken").kind == "bad_name"


FOUND: list[tuple[dict[str, Any], list[int]]] = [
    ({"text": "a.py"}, [3, 2, 1]),
    ({"text": "A.PY", "ignore_case": True}, [3, 2, 1]),
    ({"text": "A.PY"}, []),
    ({"text": "look py"}, [1]),
    ({"text": '"at a"'}, [1]),
    ({"text": r"^I\b", "regex": True}, [2]),
    ({"text": "i", "role": ["assistant"]}, [4, 2]),
    ({"role": ["prompt"]}, [1]),
    ({"tool": "read"}, [3, 2]),
    ({"tool_call_id": "toolu_1"}, [2, 3]),
    ({"type": "message"}, [4, 3, 2, 1]),
    ({"type": "compaction"}, []),
    ({"text": "a.py", "type": "compaction"}, []),
]


@for_each(("params", "places"), FOUND)
def test_find_gives_the_newest_first(
    calls: Calls, file: str, params: dict[str, Any], places: list[int]
) -> None:
    uuids = path(file)
    found = calls.pages("node.find", session=file, **params)
    assert [uuids.index(row["uuid"]) for row in found] == places


def test_find_searches_more_where_it_is_asked_to(calls: Calls, file: str) -> None:
    calls.value("node.create_text", session=file, text="a needle " + "hay " * 10_000)
    with Session.open(file) as session:
        session.append("custom", customType="notes", data={"text": "needle"})
    answer = calls("node.find", session=file, text="needle")
    assert answer.value == {"items": []}
    assert answer.guidance == [
        ("warning", "Nothing was found; blobs and everything would search more")
    ]
    for params, count in (({"blobs": True}, 1), ({"everything": True}, 1), ({"type": "custom"}, 1)):
        assert len(calls.pages("node.find", session=file, text="needle", **params)) == count


@pytest.mark.parametrize(
    ("params", "told"),
    [
        (
            {"role": ["martian"]},
            "No entry has the role 'martian'; those here are assistant, prompt, tool, user",
        ),
        (
            {"type": "mesage"},
            "No entry has the type 'mesage'; those here are message, session",
        ),
        (
            {"type": "mesage", "text": "look"},
            "No entry has the type 'mesage'; those here are message, session",
        ),
    ],
)
def test_find_names_the_roles_and_types_there_are(
    calls: Calls, file: str, params: dict[str, Any], told: str
) -> None:
    answer = calls("node.find", session=file, **params)
    assert (answer.value, answer.guidance[-1]) == ({"items": []}, ("warning", told))
    assert not calls("node.find", session=file, role=["prompt"], type="message").guidance
    only = calls("node.find", session=file, role=["prompt"], text="nowhere", blobs=True).guidance
    assert only == [("warning", "Nothing was found; everything would search more")]


def test_find_looks_at_the_current_path_alone_if_asked(calls: Calls, file: str) -> None:
    calls.value("node.create_text", session=file, text="It is not.", parent="@~1")
    for params in ({"text": "It is"}, {"type": "message", "role": ["user", "assistant"]}):
        every = calls.pages("node.find", session=file, **params)
        current = calls.pages("node.find", session=file, current=True, **params)
        assert len(every) == len(current) + 1


def test_an_entry_is_replaced_and_dropped_in_the_context(calls: Calls, file: str) -> None:
    def last() -> Any:
        with Session.open(file, readonly=True) as session:
            return session.context().messages[-1]["content"]

    leaf = path(file)[-1]
    image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
    for given, content in (
        ({"text": "short"}, "short"),
        ({"content": [image]}, [image]),
        ({"drop": True}, [RESULT]),
    ):
        made = calls.value("node.edit_context", session=file, entry=leaf, **given)
        assert made["parent"] == path(file)[-2]
        assert last() == content


def test_a_lane_that_is_new_is_told(calls: Calls) -> None:
    made = calls.value("tree.create")
    said = {"session": made["id"], "role": "user", "text": "hi", "lane": "oops"}
    told = [calls("node.create_text", **said).guidance for _ in range(2)]
    line = "oops is a new lane, and begins at the leaf; branch.lanes lists all"
    assert told == [[("warning", line)], []]
