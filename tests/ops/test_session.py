"""`session`: sessions are listed, searched and read in short by calls, within the budget."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.library.listing import SessionInfo
from sessiontree.library.search import SessionsOfHits
from sessiontree.library.search_file import SearchHit
from tests.support.calls import Calls
from tests.support.conversation import assistant, user
from tests.support.sessions import by_hand, chat, said
from tests.support.soak import in_soak
from tests.support.stopping import reports_until_stopped
from tests.support.table import for_each
from tests.support.transcripts import user as question
from tests.support.transcripts import written


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def calls(store: Store) -> Calls:
    return Calls(store.root)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def agents(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """A store with one session, and a folder of Claude Code with another."""
    home = tmp_path / "claude"
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home))
    written(home / "projects" / "-p" / "s.jsonl", [question("a", None, "How do retries work?")])
    said(store, "Add a retry to the client", cwd="/home/me/client", id="own-session")
    return Calls(store.root, agents=True)


def test_a_list_has_the_sessions_of_the_store_and_of_agents(agents: Calls) -> None:
    found = {one["agent"]: one for one in agents.value("session.list")["items"]}
    assert set(found) == {"sessiontree", "claude-code"}
    own = found["sessiontree"]
    assert (own["id"], own["title"]) == ("own-session", "Add a retry to the client")
    assert (own["cwd"], own["turns"]) == ("/home/me/client", 1)
    assert "file" not in own


@for_each(
    ("params", "agent"),
    [
        ({"agents": ["codex"]}, None),
        ({"agents": ["claude-code"]}, "claude-code"),
        ({"project": "client"}, "sessiontree"),
        ({"project": "/home/me/client"}, "sessiontree"),
        ({"since": "2999-01-01"}, None),
        ({"since": "1d", "agents": ["sessiontree"]}, "sessiontree"),
        ({"limit": 1, "order": "name", "agents": ["sessiontree"]}, "sessiontree"),
    ],
)
def test_a_list_takes_the_filters_of_ls(
    agents: Calls, params: dict[str, Any], agent: str | None
) -> None:
    found = agents.value("session.list", **params)["items"]
    assert [one["agent"] for one in found] == ([] if agent is None else [agent])


@for_each(
    ("name", "params", "kind"),
    [
        ("list", {"since": "the other day"}, "bad_parameter"),
        ("list", {"agents": ["vim"]}, "bad_parameter"),
        ("list", {"limit": 0}, "bad_parameter"),
        ("list", {"cursor": "x"}, "bad_cursor"),
        ("search", {"pattern": ""}, "bad_parameter"),
        ("search", {"pattern": "(", "regex": True}, "bad_value"),
        ("search", {"pattern": "a", "roles": ["users"]}, "bad_value"),
        ("search", {"pattern": "a", "session": "none"}, "session_not_found"),
        ("turn", {"session": "latest", "turn": "9"}, "no_such_ref"),
        ("outline", {"session": "../../etc/passwd"}, "outside"),
        ("stats", {"session": "none"}, "session_not_found"),
        ("show", {}, "bad_parameter"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_kind(
    calls: Calls, store: Store, name: str, params: dict[str, Any], kind: str
) -> None:
    said(store, "hello")
    assert calls(f"session.{name}", **params).kind == kind


def test_sessions_of_one_id_are_told_apart_by_their_files(calls: Calls, store: Store) -> None:
    files = [by_hand(Path(store.root, name, "s.jsonl"), name, id="same") for name in ("a", "b")]
    found = calls.value("session.list")["items"]
    assert sorted(one["file"] for one in found) == sorted(map(str, files))
    assert calls.value("session.show", session=found[0]["file"])["id"] == "same"


@in_soak("count", 2_000, 10_000)
def test_a_page_of_a_long_list_counts_only_what_it_shows(
    calls: Calls, store: Store, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    for number in range(count):
        by_hand(
            Path(store.root, f"{number // 100}", f"{number}.jsonl"), f"m{number}", id=f"{number}"
        )
    opened = Counter[str]()
    real = open

    def counting(file: Any, *args: Any, **options: Any) -> Any:
        opened[str(file)] += str(file).endswith(".jsonl")
        return real(file, *args, **options)

    monkeypatch.setattr("builtins.open", counting)
    answer = calls("session.list")
    shown = len(answer.value["items"])
    assert answer.tokens <= 4000
    assert 20 < shown < 500
    assert sum(opened.values()) <= 3 * shown + 3
    second = calls("session.list", cursor=answer.value["cursor"])
    ids = [one["id"] for each in (answer, second) for one in each.value["items"]]
    assert len(set(ids)) == len(ids)


def test_pages_of_a_list_hold_each_session_once(calls: Calls, store: Store) -> None:
    for number in range(60):
        by_hand(Path(store.root, f"{number}.jsonl"), f"message {number}", id=f"s{number}")
    found = calls.pages("session.list", budget=600)
    assert Counter(one["id"] for one in found) == Counter(f"s{number}" for number in range(60))


def test_a_link_out_of_the_folders_is_neither_listed_nor_searched(
    calls: Calls, store: Store, tmp_path: Path
) -> None:
    own = Path(said(store, "hello inside"))
    secret = chat(tmp_path / "secret.jsonl", "hello outside")
    (own.parent / "link.jsonl").symlink_to(secret)
    assert len(calls.value("session.list")["items"]) == 1
    assert len(calls.value("session.search", pattern="hello")["items"]) == 1
    assert calls.value("session.totals")["total"]["sessions"] == 1
    assert len(Calls(store.root, confined=False).value("session.list")["items"]) == 2


def test_a_hit_says_where_it_is_and_what_is_around_it(agents: Calls) -> None:
    (hit,) = agents.value("session.search", pattern="retry client")["items"]
    assert hit["snippet"].startswith("Add a «")
    assert (hit["session"], hit["title"]) == ("own-session", "Add a retry to the client")
    assert (hit["turn"], hit["role"], hit["agent"]) == (1, "user", "sessiontree")
    read = agents.value("node.get", session=hit["session"], entry=hit["entry"])
    assert "retry" in str(read)
    both = agents.value("session.search", pattern="retr(y|ies)", regex=True)["items"]
    assert {one["agent"] for one in both} == {"sessiontree", "claude-code"}
    only = agents.value("session.search", pattern="retr", agents=["claude-code"])["items"]
    assert [one["agent"] for one in only] == ["claude-code"]
    assert agents.value("session.search", pattern="retry client", session="own-session")[
        "items"
    ] == [hit]


def test_a_search_without_a_hit_says_what_else_could_be_searched(agents: Calls) -> None:
    answer = agents("session.search", pattern="xyzzy")
    assert answer.value == {"items": []}
    ((kind, text),) = answer.guidance
    assert kind == "warning"
    assert "2 sessions" in text
    assert "`blobs`" in text


def test_pages_of_a_search_hold_each_hit_once_newest_first(calls: Calls, store: Store) -> None:
    for number in range(30):
        file = Path(store.root, f"{number}.jsonl")
        by_hand(file, *(f"needle {number} {n} " + "x" * 100 for n in range(5)), id=f"s{number}")
        os.utime(file, (number + 1, number + 1))
    found = calls.pages("session.search", pattern="needle", budget=700)
    assert [one["session"] for one in found] == [
        f"s{n}" for n in range(29, -1, -1) for _ in "12345"
    ]
    assert len({(one["session"], one["entry"]) for one in found}) == 150


OTHERS = "there are /home/me/client, /home/me/server."


@for_each(
    ("params", "told"),
    [
        (
            {"project": "cliemt"},
            "No session is in the project 'cliemt'; there are /home/me/client.",
        ),
        ({"project": "/elsewhere/zzz"}, f"No session is in the project '/elsewhere/zzz'; {OTHERS}"),
        ({"agents": ["codex"]}, "No session is of codex: those here are of sessiontree."),
        (
            {"agents": ["sessiontree"], "project": "zzz"},
            f"No session of sessiontree is in the project 'zzz'; {OTHERS}",
        ),
        ({"since": "2999-01-01"}, None),
    ],
)
def test_a_project_or_an_agent_without_sessions_is_told(
    calls: Calls, store: Store, params: dict[str, Any], told: str | None
) -> None:
    for number, project in enumerate(("server", "client")):
        where, cwd = Path(store.root, f"{project}.jsonl"), f"/home/me/{project}"
        file = by_hand(where, "hello", cwd=cwd, id=project)
        os.utime(file, (number + 1, number + 1))
    also = ["tree.list"] if list(params) == ["project"] else []
    for name in ("session.list", "session.totals", *also):
        answer = calls(name, **params)
        assert answer.value["items"] == []
        assert answer.guidance == ([] if told is None else [("warning", told)])
        assert not calls(name, project="client").guidance


def test_a_search_without_hits_names_the_known_roles_where_another_is_given(
    calls: Calls, store: Store
) -> None:
    said(store, "needle")
    (_, (_, told)) = calls("session.search", pattern="needle", roles=["martian"]).guidance
    assert told.startswith("'martian' is not a known role; the known ones are user, assistant,")
    assert len(calls("session.search", pattern="needle", roles=["assistant"]).guidance) == 1


@pytest.mark.parametrize(
    ("name", "params"),
    [("session.search", {"pattern": "nothing of it"}), ("session.totals", {"by": "model"})],
)
def test_a_stopped_call_over_many_sessions_goes_no_further(
    calls: Calls, store: Store, name: str, params: dict[str, Any]
) -> None:
    for number in range(250):
        by_hand(Path(store.root, f"{number}.jsonl"), "m", id=f"s{number}")
    assert reports_until_stopped(calls, name, 3, **params) == 3


@pytest.fixture
def long(tmp_path: Path, store: Store) -> str:
    """A session of 40 turns; the second prompt was asked again."""
    Path(store.root).mkdir()
    with Session.create(Path(store.root, "long.jsonl"), cwd="/project", durability="os") as session:
        for number in range(1, 41):
            session.append_message(user(f"ask {number} " + "p" * 400))
            session.append_message(assistant(f"answer {number} " + "a" * 400))
        session.rename("a long one")
        fork = session.turns()[1][0]
        session.branch(fork.parent_uuid or "")
        session.append_message(user("ask again"))
        return str(session.file)


def test_an_outline_gives_the_last_turns_first_or_a_range_in_order(calls: Calls, long: str) -> None:
    answer = calls("session.outline", session=long)
    found = answer.value
    assert answer.tokens <= 4000
    assert (found["title"], found["turns"], found["here"]) == ("a long one", 41, "41")
    assert [one["turn"] for one in found["items"][:3]] == ["41", "40", "39"]
    assert found["items"][0]["outcome"] == "no answer" or "outcome" not in found["items"][0]
    assert found["items"][1]["side"] is True
    every = calls.pages("session.outline", session=long, budget=1000)
    assert [one["turn"] for one in every] == [str(number) for number in range(41, 0, -1)]
    part = calls.value("session.outline", session=long, first=5, last=7, width=20)["items"]
    assert [one["turn"] for one in part] == ["5", "6", "7"]
    assert all(len(one["prompt"]) <= 20 for one in part)
    now = calls.value("session.outline", session=long, current=True)["items"]
    assert [one["turn"] for one in now] == ["41", "1"]


def test_a_turn_is_read_whole_and_its_long_texts_are_cut_with_a_count(
    calls: Calls, store: Store
) -> None:
    file = said(store, "look at it")
    tool = {"type": "tool_use", "id": "t", "name": "Read", "input": {"file_path": "a.py"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "line\n" * 5000}
    with Session.open(file, durability="os") as session:
        session.append_message(assistant([tool]))
        session.append_message(user([result]))
        session.append_message(assistant("It is fine."))
        session.append_message(user("next"))
    answer = calls("session.turn", session=file, turn="1")
    found = answer.value
    assert answer.tokens <= 4000
    assert [one["role"] for one in found["items"]] == ["user", "assistant", "tool", "assistant"]
    assert found["items"][0]["text"] == "look at it"
    assert found["items"][2]["left_out"] == len("line\n" * 5000) - 1 - len(
        found["items"][2]["text"]
    )
    assert found["items"][3]["text"] == "It is fine."
    assert found["turns"][0]["calls"] == {"Read": 1}
    by_entry = calls.value("session.turn", session=file, turn=found["items"][3]["uuid"])
    assert by_entry == found
    pages = calls.pages("session.turn", session=file, turn="1", longest=0, budget=2000)
    assert [one["uuid"] for one in pages] == [one["uuid"] for one in found["items"]]


def test_stats_and_facts_are_those_of_the_command_line(calls: Calls, long: str) -> None:
    with Session.open(long, readonly=True) as session:
        stats, facts = session.stats(), session
        numbers = calls.value("session.stats", session=long)
        assert (numbers["entries"], numbers["branches"]) == (stats.entries, 2)
        assert (numbers["types"], numbers["bytes"]) == (stats.types, stats.file_bytes)
        shown = calls.value("session.show", session=long)
        assert (shown["id"], shown["leaf"]) == (facts.id, facts.leaf.uuid)
        assert (shown["name"], shown["branches"], shown["lanes"]) == ("a long one", 2, ["main"])


def test_totals_count_each_answer_once(calls: Calls, store: Store) -> None:
    usage = {"input_tokens": 10, "output_tokens": 5}
    answer = {**assistant("hi"), "id": "msg_1", "model": "m", "usage": usage}
    file = said(store, "hello", cwd="/a")
    with Session.open(file, durability="os") as session:
        session.append_message(answer)
    calls.value("tree.fork", session=file)
    by_agent = calls.value("session.totals")
    assert by_agent["total"]["sessions"] == 2
    assert by_agent["total"]["usage"] == {"input": 10, "output": 5}
    assert (by_agent["copies"], by_agent["items"][0]["name"]) == (1, "sessiontree")
    for by, name in (("project", "/a"), ("model", "m")):
        (row,) = calls.value("session.totals", by=by)["items"]
        assert (row["name"], row["usage"]) == (name, {"input": 10, "output": 5})


def test_the_newest_day_of_totals_comes_first(calls: Calls, store: Store) -> None:
    file = Path(said(store, "hello", cwd="/a"))
    answer = {**assistant("hi"), "model": "m", "usage": {"input_tokens": 1, "output_tokens": 1}}
    with Session.open(file, durability="os") as session:
        for _ in range(3):
            session.append_message(answer)
    lines = file.read_text().splitlines()
    for day, at in enumerate((-3, -1, -2), start=1):
        keys = json.loads(lines[at])
        del keys["crc"]
        lines[at] = json.dumps({**keys, "timestamp": f"2026-03-0{day}T09:00:00.000Z"})
    file.write_text("\n".join(lines) + "\n")
    days = [row["name"] for row in calls.value("session.totals", by="day")["items"]]
    assert days == ["2026-03-03", "2026-03-02", "2026-03-01"]


@pytest.mark.soak
def test_the_answers_about_a_session_of_200_megabytes_keep_their_budget(
    calls: Calls, store: Store
) -> None:
    Path(store.root).mkdir()
    file = Path(store.root, "huge.jsonl")
    with Session.create(file, cwd="/p", durability="os", spill_over=None) as session:
        text = "w" * 1_000_000
        for number in range(100):
            with session.batch():
                session.append_message(user(f"ask {number} {text}"))
                session.append_message(assistant(f"answer {number} {text}"))
    assert file.stat().st_size > 200_000_000
    for name, params in (
        ("outline", {}),
        ("turn", {"turn": "50"}),
        ("turn", {"turn": "50", "longest": 0}),
        ("show", {}),
        ("stats", {}),
        ("search", {"pattern": "answer"}),
    ):
        assert calls(f"session.{name}", session=str(file), **params).tokens <= 4000, name
    for name in ("here", "list", "lanes"):
        assert calls(f"branch.{name}", session=str(file)).tokens <= 4000, name
    assert calls("branch.plan", session=str(file)).tokens <= 4000
    assert calls("branch.diff", session=str(file), one="@~50").tokens <= 4000
    assert reports_until_stopped(calls, "health.check", 2, session=str(file)) == 2


SECRET = "sk-ant-api03-" + "Ab1" * 31 + "AA"


def test_no_part_of_a_secret_leaves_where_secrets_are_masked(store: Store) -> None:
    file = said(store, "The key is " + SECRET + " so use it. " + "word " * 100)
    calls = Calls(store.root, redact=True)
    for name, params in (
        ("search", {"pattern": "key"}),
        ("search", {"pattern": SECRET[-20:]}),
        ("turn", {"session": file, "turn": "1", "longest": 60}),
        ("outline", {"session": file, "width": 40}),
        ("list", {}),
    ):
        answer = calls(f"session.{name}", **params)
        assert answer.value["items"], name
        assert "Ab1Ab1" not in str(answer.value["items"]), name
    for offset in range(0, 900, 50):
        planned = calls.value("branch.plan", session=file, keep=0, offset=offset, budget=200)
        assert "Ab1Ab1" not in planned["text"]


def test_a_hit_in_a_session_that_is_removed_meanwhile_has_no_facts_of_it(
    calls: Calls, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = said(store, "needle", cwd="/p")
    look = SessionsOfHits.of

    def removed(sessions: SessionsOfHits, hit: SearchHit) -> SessionInfo | None:
        os.unlink(file)
        return look(sessions, hit)

    (there,) = calls.value("session.search", pattern="needle")["items"]
    assert (there["title"], there["agent"], there["cwd"]) == ("needle", "sessiontree", "/p")
    assert there["role"] == "user"
    monkeypatch.setattr(SessionsOfHits, "of", removed)
    (gone,) = calls.value("session.search", pattern="needle")["items"]
    assert gone == {key: there[key] for key in there if key not in ("title", "agent", "cwd")}
