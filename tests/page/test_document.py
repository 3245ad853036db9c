"""A page has every entry of a session, told as what it is, and nothing that it should not have."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Redaction, Session
from sessiontree.core import limits
from sessiontree.errors import TooMuchError
from sessiontree.page import document, making
from sessiontree.page.markup import MAX_COLOURED
from tests.page.reading import Page, page_of, plain
from tests.support.conversation import assistant, user
from tests.support.soak import in_soak
from tests.support.spent import CLAUDE_CODE, claude_code_home

FIXTURES = Path(__file__).parents[2] / "fixtures"
KEY = "ghp_" + "a1B2" * 9
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def made(file: Path, *messages: dict[str, Any]) -> Page:
    with Session.create(file, cwd="/project", id="the-id", name="A name") as session:
        for message in messages:
            session.append_message(message)
    return page_of(file)


def call(id: str, name: str = "bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": id, "content": text, **more}


def test_a_result_is_in_the_row_of_its_call_wherever_it_comes(file: Path) -> None:
    page = made(
        file,
        user("list"),
        assistant([call("c1", command="ls"), call("c2", command="pwd")]),
        result("c2", "/project"),
        result("c1", "a.py"),
    )
    assert page.said("c") == [
        'bash ls one of 2 { "command": "ls" } a.py',
        'bash pwd one of 2 { "command": "pwd" } /project',
    ]


@pytest.mark.parametrize("before", ["a message", "a piece of a message"])
def test_of_very_many_annotations_in_a_row_one_row_tells_how_many_more_there_are(
    before: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "MAX_ANNOTATIONS", 50)
    many = 250
    with Session.create(file) as session:
        session.append_message(user("go"))
        for kind in ("label", "usage"):
            if before == "a message":
                session.append_message(assistant("said"))
            else:
                block = {"type": "text", "text": "said"}
                session.append("block", messageUuid=kind, index=0, block=block)
            with session.batch():
                for _ in range(many):
                    usage = {"input": 1, "output": 0, "cost": {"total": 0.01}}
                    given: dict[str, Any] = {"kind": "k", "provider": "p", "model": "m"}
                    given |= {"usage": usage}
                    label = {"targetUuid": session.header.uuid, "label": "x"}
                    last = session.append(kind, **(label if kind == "label" else given))
    page = page_of(file)
    annotations = page.said("z")
    assert len(annotations) == 2 * (50 + 1)
    ends = annotations[50], annotations[-1]
    assert ends == ("200 more annotations without rows of their own",) * 2
    assert len(page.index["uuids"]) == 3 + 2 * many
    assert page.index["gists"][page.row_of(last.uuid)] == "200 more annotations"
    assert f"${0.01 * many:.2f}" in page.said("O")[0]


def test_the_tree_of_a_page_is_laid_out_as_tree_lays_it_out(file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(user("start"))
        fork = session.append_message(assistant("an answer"))
        session.append_message(assistant("more"))
        for way in ("first", "second", "third"):
            session.branch(fork)
            session.append_message(user(way))
        session.append_message(user("end"))
        session.branch(session.entry("@~1"))
        session.append_message(user("other end"))
    page = page_of(file)
    names = page.index["gists"]
    rows = [(names[page.index["turns"][turn][4]], level) for turn, level in page.index["layout"]]
    expected = [("start", 0), ("first", 1), ("second", 1), ("third", 0), ("end", 1)]
    assert rows == [*expected, ("other end", 0)]
    ends = {names[first]: fork for _, _, fork, _, first, *_ in page.index["turns"]}
    assert ends == {"start": -1, "first": 3, "second": 3, "third": 3, "end": 13, "other end": 13}


def test_a_session_of_more_turns_than_a_page_shows_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MAX_TURNS", 3)
    made(file, *map(user, "abc"))
    with Session.open(file) as session:
        session.append_message(user("d"))
        said = r"has 4 turns; a page shows at most 3\. Export it as"
        with pytest.raises(TooMuchError, match=said):
            page_of(file)


@pytest.mark.parametrize("at_once", [True, False])
def test_a_session_of_more_rows_than_a_page_shows_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool
) -> None:
    few = limits.SHOWN_BLOCKS._replace(most=7, bytes_for_each=1 << 20)
    monkeypatch.setattr(limits, "SHOWN_BLOCKS", few)
    blocks = [{"type": "text", "text": word} for word in "abcdefgh"]
    said = [assistant(blocks)] if at_once else [user("x"), assistant(blocks[:4])] * 2
    with Session.create(file) as session:
        last = [session.append_message(each) for each in said][-1]
    with pytest.raises(TooMuchError, match=f"more than 7 content blocks .* {last.uuid}"):
        page_of(file)


@in_soak("most", 1_000, 50_000)
def test_a_page_has_fifty_thousand_turns_at_most(
    file: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    assert document.MAX_TURNS == 50_000
    monkeypatch.setattr(document, "MAX_TURNS", most)
    line = '{"type":"message","message":{"role":"user","content":"x"}}\n'
    file.write_text('{"type":"session","id":"old"}\n' + line * (most + 1))
    told = rf"the session has {most + 1:,} turns; .* at most {most:,}"
    with pytest.raises(TooMuchError, match=told):
        page_of(file)


def test_a_call_without_a_result_and_a_result_without_a_call_are_rows(file: Path) -> None:
    page = made(file, user("go"), assistant([call("c1", command="ls")]), result("c9", "lost"))
    assert "no result" in page.said("c")[0]
    assert page.said("r") == ["Result of a call that is not here no call lost"]


def test_what_nobody_said_is_not_told_as_the_user(file: Path) -> None:
    with Session.create(file, cwd="/project") as session:
        session.append_message(user("a<system-reminder>be brief</system-reminder>"))
        session.append_message(assistant("b"))
        session.compact("what was before", keep=0)
        session.append("message", message=user("hook"), metadata={"isMeta": True})
        session.append_message(user("[Request interrupted by user]"))
        session.append("x-own", thing=1)
        page = page_of(file)
    assert page.said("u") == ["User a"]
    assert page.said("m") == [
        "Reminder of the program be brief be brief",
        "Program, in the user's name hook hook",
    ]
    assert page.said("k")[0].endswith("what was before")
    assert page.said("i") == ["Interrupted by the user [Request interrupted by user]"]
    assert page.said("x")[0].startswith("Unknown type x-own")


def test_every_entry_of_every_fixture_leads_to_a_row() -> None:
    checked = 0
    for folder in sorted(FIXTURES.glob("[t-v]*")):
        file = folder / "session.jsonl"
        if not file.exists():
            continue
        with Session.open(file, readonly=True) as session:
            uuids = {entry.uuid for entry in session.entries()} - {session.header.uuid}
        page = page_of(file)
        assert set(page.index["uuids"]) >= uuids, folder.name
        assert all(0 <= page.row_of(uuid) < len(page.rows) for uuid in uuids)
        checked += len(uuids)
    assert checked > 50


def test_an_edit_is_a_diff_and_counted_for_its_file(file: Path) -> None:
    page = made(
        file,
        user("mend"),
        assistant([call("c1", "edit", path="/project/a.py", oldText="x = 1\n", newText="x = 2\n")]),
        result("c1", "edited"),
    )
    (row,) = page.said("c")
    assert row.startswith("edit a.py +1 −1")
    assert "-x = 1" in row
    assert page.said("F") == ["a.py +1 −1 edited"]


def test_markdown_is_shown_and_its_html_is_text(file: Path) -> None:
    page = made(file, user("q"), assistant("**bold** <b onclick=x>no</b>\n\n```python\nx = 1\n```"))
    (head,) = (
        row[0] for kind, row in zip(page.index["kinds"], page.rows, strict=True) if kind == "a"
    )
    assert "<strong>bold</strong> &lt;b onclick=x&gt;no&lt;/b&gt;" in head
    assert 'x = <span class="m">1</span>' in head


def test_images_are_in_place_and_remote_ones_are_links(file: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    svg = {"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}
    page = made(
        file,
        user([{"type": "text", "text": "see"}, image, svg]),
        assistant("![x](https://a.test/b.png)"),
    )
    whole = "".join(row[0] for row in page.rows)
    assert f'<img alt="image/png" src="data:image/png;base64,{PNG}">' in whole
    assert whole.count("<img") == 1
    assert "[image x at a.test]" in plain(whole)


def test_a_redacted_page_has_no_secret_in_any_part(file: Path) -> None:
    with Session.create(file, cwd="/home/ann/x", name=f"for {KEY}") as session:
        prompt = session.append_message(user(f"use {KEY} " + "x" * 480 + " " + KEY))
        session.append_message(assistant([call("c1", "write", path=f"/{KEY}/a", content=KEY)]))
        session.append_message(result("c1", KEY, isError=False))
        session.label(prompt, KEY)
        session.append("x-own", thing=KEY)
        session.append(f"x-{KEY}", thing=1)
    page = page_of(file, Redaction(homes=["/home/ann"]))
    inside = page.text + repr(page.rows) + repr(page.index)
    assert KEY not in inside
    assert KEY[:12] not in inside
    assert "/home/ann" not in inside
    assert "[redacted:github-token:1]" in inside


def test_a_subagent_is_below_the_message_of_its_call_however_that_is_stored(file: Path) -> None:
    """A streamed message is stored block by block, and its caller is the block."""
    tasks = [call("t1", "Task", description="look"), call("t2", "Task", description="ask")]
    with Session.create(file, cwd="/project") as session:
        session.append_message(user("go"))
        with session.stream_message("assistant", granularity="block") as message:
            blocks = [entry.uuid for task in tasks if (entry := message.add(task))]
        started(session, "agent-look", blocks[0])
        session.append_message(assistant("waiting"))
        caller = session.append_message(assistant([call("t3", "Task", description="sum")]))
        session.append_message(assistant("done"))
        started(session, "agent-sum", caller.uuid)
        started(session, "agent-any", None)
        page = page_of(file)
    rows = zip(page.index["kinds"], page.index["gists"], strict=True)
    assert [gist for kind, gist in rows if kind in "caA"] == [
        *("Task look", "Task ask", "look: do it", "waiting"),
        *("Task sum", "sum: do it", "done", "any: do it"),
    ]


def started(session: Session, lane: str, caller: str | None) -> None:
    """A subagent with one prompt, on a lane of its own."""
    with session.lane(lane) as beside:
        beside.append("custom", customType="claude-code:subagent", data={"calledBy": caller})
        beside.append_message(user("do it"))


def test_a_uuid_that_is_a_secret_is_masked_wherever_it_stands(file: Path) -> None:
    header = {"type": "session", "version": 2, "uuid": "root", "parentUuid": None, "id": KEY}
    said = {"type": "message", "uuid": KEY, "parentUuid": "root", "message": user("hello")}
    label = {"type": "label", "uuid": "l", "parentUuid": KEY, "targetUuid": KEY, "label": "here"}
    file.write_text("".join(json.dumps(line) + "\n" for line in (header, said, label)))
    page = page_of(file, Redaction())
    assert KEY not in page.text + repr(page.rows) + repr(page.index)
    assert list(page.index["labels"].values()) == ["here"]


def test_the_policy_allows_only_the_script_and_the_style_of_the_page(file: Path) -> None:
    text = made(file, user("hello")).text
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    rules = plain(policy[1])
    script = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    style = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    hashes = [
        base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in script + style
    ]
    assert len(hashes) == 2
    assert rules == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"\b(?:src|href)=[\"']?(?:https?:)?//", text)


def test_the_same_session_gives_the_same_page(file: Path) -> None:
    assert made(file, user("a"), assistant("b")).text == page_of(file).text


def test_a_text_that_repeats_is_in_the_page_once(file: Path) -> None:
    calls = [
        message
        for n in range(50)
        for message in (
            assistant([call(f"c{n}", command="cat a")]),
            result(f"c{n}", "".join(map(str, range(900)))),
        )
    ]
    few, many = file.with_name("few.jsonl"), file
    assert (
        len(made(many, user("x"), *calls).text) < len(made(few, user("x"), *calls[:2]).text) + 9000
    )


@pytest.mark.parametrize("text", ["x" * 3_000_000, "[" * 5000, "> " * 4000])
def test_texts_that_no_reader_expects_have_a_page(file: Path, text: str) -> None:
    page = made(
        file, user(text), assistant(text), assistant([call("c1", command=text)]), result("c1", text)
    )
    assert len(page.text) < 2_000_000


def test_what_a_session_cost_is_what_stats_says(tmp_path: Path) -> None:
    """A cost that is reported for the session covers its answers; in a turn they have a price."""
    state = {"type": "cost-state", "modelUsage": {"claude-opus-4-6": {"costUSD": 12.5}}}
    state["timestamp"] = "2026-02-10T21:12:00.000Z"
    page = page_of(claude_code_home(tmp_path, [*CLAUDE_CODE["fast mode"], state]))
    assert "$14.00 (as reported, at list prices)" in plain("".join(page.rows[-1]))
    assert "$0.60" in plain("".join(page.rows[page.row_of("p") - 1]))


def test_several_processes_make_the_page_that_one_makes(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"role": "assistant", "content": "half of a pair: HALF", "usage": {"input": 5}}
    with Session.create(file, cwd="/project", id="the-id", durability="os") as session:
        for n in range(1100):
            session.append_message(user(f"prompt {n}"))
            session.append_message(assistant([call(f"c{n}", command=f"ls {n}")]))
            session.append_message(result(f"c{n}", f"a{n}.py"))
            session.append_message(half if n == 500 else assistant("done"))
    file.write_bytes(re.sub(rb'HALF(.*),"crc":.*', rb"\\ud83d\1}", file.read_bytes()))
    text = page_of(file).text
    monkeypatch.setattr("sessiontree.page.making.available", lambda: 1)
    assert page_of(file).text == text
    monkeypatch.setattr("sessiontree.page.making.available", lambda: 3)
    assert page_of(file).text == text


@pytest.mark.slow
def test_the_colours_of_code_have_one_budget_for_the_whole_page(file: Path) -> None:
    with Session.create(file, cwd="/project", id="the-id", durability="os") as session:
        session.append_message(assistant("```js\n// first\n```"))
        for n in range(400):
            session.append_message(assistant(f"```js\n// {n:04d} {'x' * 4000}\n```"))
    page = page_of(file)
    found = re.findall(r'<span class="c">(.*?)</span>', str(page.rows))
    assert found[0] == "// first"
    assert 0.9 * MAX_COLOURED < sum(map(len, found)) <= MAX_COLOURED


def test_commits_are_listed_with_links_to_their_calls(file: Path) -> None:
    script = "git add -A && git commit -m 'Add <retries>'"
    printed = "[main (root-commit) 1a2b3c4] Add <retries>\n 1 file changed\n"
    page = made(
        file,
        user("commit"),
        assistant([call("c1", command=script)]),
        result("c1", printed),
        assistant([call("c2", command="cat log")]),
        result("c2", "[main 9999999] Somebody's"),
        assistant([call("c3", command="git commit -m x")]),
        result("c3", "[main 8888888] x", isError=True),
    )
    (overview,) = page.said("O")
    assert "Commits 1a2b3c4 Add <retries>" in overview
    assert "8888888 x" in overview  # the call failed, and git had said that the commit is made
    assert "9999999" not in overview
    head = page.rows[page.index["kinds"].index("O")][0]
    assert f'href="#{page.index["uuids"][1]}"' in head
