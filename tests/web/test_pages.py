"""The search, the costs, the comparison and the contexts are those of the commands."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from sessiontree import Session
from sessiontree.text.amounts import counted
from tests.page.hostile import hostile_session
from tests.page.payloads import PAYLOADS
from tests.page.reading import plain
from tests.page.test_hostile import Checked
from tests.support.conversation import assistant, user
from tests.support.table import for_each
from tests.web.serving import Server, serving, talk

OURS: Final = (
    *(
        "section",
        "details",
        "summary",
        "a href=../../s/",
        "svg",
        "rect",
        "g",
        "title",
        "a href=?by=",
    ),
    *("a aria-current=page", "th scope=row", "tr class=total", "p id=reading"),
)
"""What the pages have beside rows."""

USAGE: Final = {"input": 1000, "output": 100, "cacheRead": 0, "cacheWrite": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    with talk(folder / "one.jsonl", name="One") as session:
        reported = {**USAGE, "cost": {"total": 1.25}}
        session.append_message({**assistant("paid"), "model": "m-1", "usage": reported})
        session.append_message({**assistant("not paid"), "model": "m-unknown", "usage": USAGE})
    hostile_session(folder / "hostile.jsonl", PAYLOADS[::20])
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder) as found:
        yield found


def id_of(server: Server, title: str) -> str:
    rows = server.json("/sessions")["sessions"]
    return str(next(one["id"] for one in rows if one["title"] == title))


def lines(server: Server, path: str) -> list[dict[str, Any]]:
    answer, body = server.ask(path)
    assert answer.status == 200
    return [json.loads(line) for line in body.splitlines()]


def page(server: Server, path: str) -> str:
    answer, body = server.ask(path)
    assert answer.status == 200
    assert "script-src 'sha256-" in str(answer.getheader("content-security-policy"))
    return body.decode()


def test_hits_come_with_their_sessions_and_entries(server: Server, folder: Path) -> None:
    *hits, end = lines(server, "/search?q=prompt+1")
    assert [hit["title"] for hit in hits] == ["One"]
    with Session.open(folder / "one.jsonl", readonly=True) as session:
        assert session.entry(hits[0]["uuid"])["message"]["content"] == "prompt 1"
    assert end == {"problems": [], "all": True}


@for_each("query", ["q=", "q=%22zzzz", "", "q=x&agent=nobody", "q=x&project=/nowhere"])
def test_a_search_for_nothing_or_of_nobody_finds_nothing(server: Server, query: str) -> None:
    *hits, end = lines(server, f"/search?{query}")
    assert hits == []
    assert end["problems"] or end["all"]


def test_costs_say_how_each_sum_was_made(server: Server) -> None:
    for by in ("day", "project", "model", "agent"):
        text = plain(page(server, f"/costs?by={by}&days=0").partition("<!-- rest")[0])
        assert "$1.25" in text
        assert "Reported: the cost that the agent wrote into the session." in text
    text = plain(page(server, "/costs?by=model&days=0"))
    assert "m-1" in text
    assert "m-unknown" in text
    assert "Total" in text


@for_each("query", ["by=nothing", "days=-1", "days=x&by=", "by=day&days=7"])
def test_wrong_choices_of_costs_are_the_usual_ones(server: Server, query: str) -> None:
    assert "aria-current" in page(server, f"/costs?{query}")


def test_a_context_is_that_of_the_session_at_any_entry(server: Server, folder: Path) -> None:
    id = id_of(server, "One")
    with Session.open(folder / "one.jsonl", readonly=True) as session:
        for entry in session.entries():
            text = plain(page(server, f"/s/{id}/seen?at={entry.uuid}"))
            context = session.context(entry)
            count = counted(len(context.messages), "message")
            assert f"{count} · about {context.tokens:,} tokens" in text
            for message in context.messages:
                assert str(message["content"]) in text or isinstance(message["content"], list)


def test_an_entry_that_is_not_there_is_told(server: Server) -> None:
    id = id_of(server, "One")
    for path in (f"/s/{id}/seen?at=nothing", f"/s/{id}/seen", f"/s/{id}/compare?one=a&other=b"):
        assert "Not shown" in page(server, path)


def test_commands_quote_the_file_and_never_write_the_file_of_another_agent(
    tmp_path: Path,
) -> None:
    talk(tmp_path / "it's; rm -rf $HOME.jsonl").close()
    line: dict[str, Any] = {
        "type": "user",
        "uuid": "a",
        "parentUuid": None,
        "sessionId": "s",
        "version": "2",
    }
    line |= {"cwd": "/p", "message": {"role": "user", "content": "hello"}}
    (tmp_path / "claude.jsonl").write_text(json.dumps(line) + "\n")
    with serving(tmp_path) as server:
        for one in server.json("/sessions")["sessions"]:
            commands = server.json(f"/s/{one['id']}/about")["commands"]
            words = [each["command"].split()[1] for each in commands]
            if one["agent"] == "claude-code":
                assert {"label", "branch"}.isdisjoint(words)
            else:
                assert "label" in words
                assert all("'\"'\"'s; rm -rf $HOME" in each["command"] for each in commands)


def test_nothing_of_a_hostile_session_is_markup_in_any_page(server: Server, folder: Path) -> None:
    rows = server.json("/sessions")["sessions"]
    id = max(rows, key=lambda one: int(one["bytes"]))["id"]
    with Session.open(folder / "hostile.jsonl", readonly=True) as session:
        tips = [branch.leaf for branch in session.branches()][:2]
        ends = [entry.uuid for entry in session.entries()][-3:]
    paths = [f"/s/{id}/seen?at={quote(uuid)}" for uuid in [*tips, *ends]]
    paths += [f"/s/{id}/compare?one={quote(tips[0])}&other={quote(tips[-1])}"]
    paths += [f"/costs?by={by}&days=0" for by in ("project", "model", "agent")]
    for path in paths:
        body = page(server, path)
        main = body.partition("<main")[2].partition(">")[2].partition("</main>")[0]
        checked = Checked()
        checked.feed(main)
        left = [each for each in checked.wrong if not each.startswith(OURS)]
        assert left == [], path


def test_a_user_may_ask_again_while_a_page_is_made(server: Server) -> None:
    id = id_of(server, "One")
    index = server.json(f"/s/{id}/index")
    with server.events(id, index["number"]), server.events(id, index["number"]):
        assert server.ask("/costs?by=day")[0].status == 200


def test_what_a_user_message_has_is_in_the_search_only_if_the_list_has_it(
    tmp_path: Path, folder: Path
) -> None:
    with Session.create(tmp_path / "a.jsonl") as session:
        session.append_message(user("only here"))
    with serving(tmp_path) as server:
        assert len(lines(server, "/search?q=only+here")) == 2
        assert len(lines(server, "/search?q=paid")) == 1
