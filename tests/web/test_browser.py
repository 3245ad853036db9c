"""A reader finds a session in the list, reads it, and sees it grow, with the place kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from sessiontree import Session
from sessiontree.core.display import one_line
from tests.page.browser import View, chromium, needs_chromium
from tests.page.hostile import hostile_session
from tests.page.payloads import PAYLOADS
from tests.support.conversation import assistant, user
from tests.web.serving import Server, serving, talk

pytestmark = needs_chromium

_TOP = "Math.round(document.querySelector('.aim').getBoundingClientRect().top)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def opened(browser: Any, server: Server, path: str = "", **options: Any) -> View:
    """A page of the server, once it can be read."""
    view = View(browser, **options)
    view.page.goto(server.address)
    if path:
        view.page.goto(server.url(path))
    view.page.wait_for_selector("body[data-ready]")
    return view


def outside(view: View, server: Server) -> list[str]:
    """What a page asked of others."""
    return [url for url in view.asked if not url.startswith(f"http://127.0.0.1:{server.port}/")]


def live(view: View) -> None:
    view.wait_for("document.body?.dataset.live === 'yes'")


def call(id: str) -> dict[str, Any]:
    made = {"type": "toolCall", "id": id, "name": "bash", "arguments": {"command": "ls"}}
    return assistant([{"type": "text", "text": f"calling {id}"}, made])


@contextmanager
def another_server() -> Iterator[tuple[str, list[str]]]:
    """A server on another port, and the heads of the requests that it gets."""
    heads: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heads.append(f"{self.requestline}\n{self.headers}".lower())
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>other</title><p>other</p>")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as other:
        thread = Thread(target=other.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{other.server_port}", heads
        finally:
            other.shutdown()
            thread.join()


_FETCH = """async url => {
  try { return await (await fetch(url, {credentials: 'include'})).text(); } catch { return ''; }
}"""


def test_another_server_of_this_machine_gets_no_token_and_no_session(
    browser: Any, file: Path
) -> None:
    with another_server() as (other, heads), talk(file) as session, serving(file) as server:
        session.append_message(assistant(f"see [the app](http://{other}/linked)"))
        view = opened(browser, server)
        live(view)
        with view.page.expect_popup() as popup:
            view.page.click("#list a[href*=linked]")
        popup.value.wait_for_selector("text=other")
        assert popup.value.evaluate("document.referrer") == ""
        view.page.evaluate("url => { location.href = url; }", f"http://{other}/followed")
        view.page.wait_for_selector("text=other")
        assert view.page.evaluate("document.referrer") == ""
        for path in ("/", "/sessions", f"/s/{server.ids[0]}/index"):
            url = f"http://127.0.0.1:{server.port}{path}"
            assert view.page.evaluate(_FETCH, url) == ""
            answer = view.page.context.request.get(url)
            assert (answer.status, "prompt" in answer.text()) == (403, False)
        view.page.goto(f"http://{other.replace('127.0.0.1', 'localhost')}/typed")
        assert view.page.context.cookies() == []
    asked = [head.split()[1] for head in heads]
    assert {"/linked", "/followed", "/typed"} <= set(asked)
    for head in heads:
        assert "cookie:" not in head
        assert f":{server.port}" not in head
        assert server.token.lower() not in head


def test_a_reader_reloads_goes_back_and_opens_links_in_new_tabs(
    browser: Any, tmp_path: Path
) -> None:
    talk(tmp_path / "one.jsonl", name="One").close()
    with talk(tmp_path / "two.jsonl", 100, name="Two") as session, serving(tmp_path) as server:
        view = opened(browser, server)
        view.page.reload()
        view.page.wait_for_selector(".session")
        with view.page.context.expect_page() as opening:
            view.page.click(".session:has-text('Two')", modifiers=["Control"])
        tab = opening.value
        tab.wait_for_selector("body[data-live=yes]")
        assert "/s/" in tab.url
        view.page.click(".session:has-text('One')")
        live(view)
        view.page.reload()
        live(view)
        view.page.click("[aria-label=Sessions]")
        view.page.wait_for_selector(".session")
        view.page.go_back()
        live(view)
        assert view.page.title() == "One"
        view.page.click("[aria-label=Sessions]")
        view.page.click("text=Costs")
        view.page.click("text=by model")
        view.page.wait_for_selector("section")
        view.page.click("nav >> text=Sessions")
        view.page.wait_for_selector(".session")
        entry = session.path()[3].uuid
        (id,) = {one["id"] for one in server.json("/sessions")["sessions"] if one["title"] == "Two"}
        linked = opened(browser, server, f"/s/{id}#{entry}")
        assert linked.sees("prompt 1")
        live(linked)
        linked.page.reload()
        assert linked.sees("prompt 1")
        live(linked)
        session.append_message(user("late"))
        tab.keyboard.press("G")
        tab.wait_for_selector("#list >> text=late")
        assert view.errors == linked.errors == []


def test_the_list_is_filtered_by_words_and_opens_a_session(browser: Any, tmp_path: Path) -> None:
    for name in ("Build a tool", "Mend a test", "Tell a story"):
        talk(tmp_path / f"{name[:5]}.jsonl", name=name).close()
    with serving(tmp_path) as server:
        view = opened(browser, server)
        assert view.page.locator(".session").count() == 3
        view.press("/")
        view.page.keyboard.type("a TEST")
        view.wait_for("document.querySelectorAll('.session').length === 1")
        assert view.text("#count") == "1 of 3"
        view.page.click(".session")
        assert view.sees("answer 1")
        assert view.page.title() == "Mend a test"
        view.page.click("[aria-label=Sessions]")
        view.wait_for("document.querySelectorAll('.session').length === 3")
        assert outside(view, server) == []
        assert view.errors == []


def test_a_home_without_sessions_has_an_empty_list_that_fills(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SESSIONTREE_STORE", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "codex" / "sessions").mkdir(parents=True)
    with serving() as server:
        assert server.address == server.url("/")
        view = opened(browser, server)
        view.wait_for("!document.getElementById('note').hidden")
        note = view.text("#note")
        assert note.startswith("There is no session in ")
        assert str(tmp_path / "sessiontree") in note
        assert str(tmp_path / "codex" / "sessions") in note
        (tmp_path / "sessiontree").mkdir()
        talk(tmp_path / "sessiontree" / "first.jsonl", name="The first").close()
        view.page.click(".session:has-text('The first')")
        assert view.sees("answer 1")
        assert view.errors == []


def test_a_new_entry_comes_onto_the_page_and_a_result_into_its_call(
    browser: Any, file: Path
) -> None:
    with talk(file) as session, serving(file) as server:
        view = opened(browser, server)
        live(view)
        session.append_message(user("a new prompt"))
        assert view.sees("a new prompt")
        session.append_message(call("c1"))
        assert view.sees("calling c1")
        assert "no result" in view.text("#list")
        result = {"role": "toolResult", "toolCallId": "c1", "content": "the files"}
        session.append_message(result)
        view.wait_for("!document.getElementById('list').innerText.includes('no result')")
        view.press("o")
        assert view.sees("the files")
        assert view.errors == []


def test_the_place_is_kept_while_the_session_grows(browser: Any, file: Path) -> None:
    with talk(file, 200) as session, serving(file) as server:
        view = opened(browser, server)
        live(view)
        for _ in range(60):
            view.press("j")
        assert view.sees("prompt 59")
        view.page.wait_for_timeout(500)
        before = view.page.evaluate(_TOP)
        for n in range(3):
            session.append_message(user(f"late {n}"))
        view.page.fill("#filter", "late 2")
        view.wait_for("document.getElementById('tree').innerText.includes('late 2')")
        assert view.page.evaluate(_TOP) == before
        assert view.sees("prompt 59")


def test_a_reader_at_the_end_stays_at_the_end(browser: Any, file: Path) -> None:
    with talk(file, 200) as session, serving(file) as server:
        view = opened(browser, server)
        live(view)
        view.press("G")
        assert view.sees("answer 199")
        for n in range(5):
            session.append_message(assistant(f"late {n}\n\n" * 30))
        assert view.sees("late 4")
        main = "document.getElementById('main')"
        view.wait_for(f"{main}.scrollTop + {main}.clientHeight > {main}.scrollHeight - 60")


def test_what_is_open_stays_open_when_the_rows_get_other_numbers(browser: Any, file: Path) -> None:
    with talk(file, 3) as session, serving(file) as server:
        session.append_message(call("c1"))
        session.append_message({"role": "toolResult", "toolCallId": "c1", "content": "the files"})
        view = opened(browser, server)
        live(view)
        view.page.click("summary:has-text('bash')")
        assert view.sees("the files")
        session.branch(session.path()[2])
        session.append_message(user("another way"))
        assert view.sees("another way")
        view.page.click("#tree >> text=prompt 2")
        assert view.sees("the files")


def test_a_session_that_is_gone_is_told_and_goes_on_when_it_is_back(
    browser: Any, file: Path
) -> None:
    session = talk(file)
    session.close()
    with serving(file) as server:
        view = opened(browser, server)
        live(view)
        content = file.read_bytes()
        file.unlink()
        view.wait_for("document.body?.dataset.live === 'problem'")
        assert view.text("#told") == "The session is gone. The page goes on when it is there again."
        assert view.sees("answer 1")
        file.write_bytes(content)
        live(view)
        with Session.open(file) as session:
            session.append_message(user("back again"))
        assert view.sees("back again")
        assert view.errors == []


def test_a_session_that_is_replaced_or_cut_is_shown_as_it_is_now(browser: Any, file: Path) -> None:
    talk(file).close()
    with serving(file) as server:
        view = opened(browser, server)
        live(view)
        other = talk(file.with_name("other.jsonl"), name="Other")
        other.append_message(user("of another session"))
        other.close()
        os.replace(file.with_name("other.jsonl"), file)
        assert view.sees("of another session")
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        view.wait_for("!document.getElementById('list').innerText.includes('of another session')")
        file.write_bytes(b"not a session\n")
        view.wait_for("document.body?.dataset.live === 'problem'")
        assert "cannot be read now" in view.text("#told")
        file.write_bytes(content)
        assert view.sees("of another session")
        live(view)
        assert view.errors == []


def test_a_transcript_of_an_agent_grows_on_the_page(browser: Any, file: Path) -> None:
    def line(uuid: str, parent: str | None, kind: str, text: str) -> str:
        facts = {"uuid": uuid, "parentUuid": parent, "sessionId": "s", "cwd": "/p", "version": "2"}
        message = {"role": kind, "content": text}
        when = {"timestamp": "2026-01-01T00:00:00.000Z"}
        return json.dumps({**facts, "type": kind, "message": message, **when}) + "\n"

    file.write_text(line("a", None, "user", "the question") + line("b", "a", "assistant", "first"))
    with serving(file) as server:
        view = opened(browser, server)
        assert view.sees("the question")
        live(view)
        with file.open("a") as out:
            out.write(line("c", "b", "user", "another question"))
        assert view.sees("another question")


def test_the_start_of_a_large_session_is_there_first_and_then_the_whole(
    browser: Any, file: Path
) -> None:
    with Session.create(file, durability="os") as session, session.batch():
        for n in range(400):
            session.append_message(user(f"prompt {n}"))
            long = "" if n == 399 else "long words " * 900
            last = session.append_message(assistant(f"answer {n} {long}")).uuid
    assert file.stat().st_size > 3_000_000
    with serving(file) as server:
        (id,) = server.ids
        first = server.json(f"/s/{id}/index")
        assert first["part"]
        assert 20 < len(first["kinds"]) < 400
        linked = opened(browser, server, f"/s/{id}#{last}")
        assert linked.sees("answer 399")
        view = opened(browser, server)
        live(view)
        view.press("G")
        assert view.sees("answer 399")
        assert view.page.evaluate("document.querySelectorAll('*').length") <= 1000
        with Session.open(file) as session:
            for n in range(3):
                session.append_message(call(f"c{n}"))
                assert view.sees(f"calling c{n}")
                content = f"the result {n}"
                session.append_message(
                    {"role": "toolResult", "toolCallId": f"c{n}", "content": content}
                )
        live(view)
        view.wait_for("!document.getElementById('list').innerText.includes('no result')")
        assert view.errors == []


def test_a_search_of_the_texts_opens_its_hit_in_place(browser: Any, tmp_path: Path) -> None:
    talk(tmp_path / "one.jsonl", 150, name="One").close()
    with talk(tmp_path / "two.jsonl", 150, name="Two") as session:
        session.append_message(call("c1"))
        result = {"role": "toolResult", "toolCallId": "c1", "content": "the <b>hidden needle"}
        session.append_message(result)
        for n in range(150):
            session.append_message(user(f"later {n}"))
    with serving(tmp_path) as server:
        view = opened(browser, server)
        view.page.fill("#words", "hidden needle")
        view.press("Enter")
        view.wait_for("document.getElementById('foundtext').textContent.startsWith('1 hit for')")
        assert "the <b>hidden needle" in view.text(".session")
        view.page.click(".session")
        assert view.sees("the <b>hidden needle")
        view.page.go_back()
        view.wait_for("document.getElementById('foundtext').textContent.startsWith('1 hit for')")
        view.press("Escape")
        view.page.fill("#words", "")
        view.wait_for("document.querySelectorAll('.session').length === 2")
        assert view.errors == []


def test_an_entry_has_its_context_and_commands_that_can_be_copied(browser: Any, file: Path) -> None:
    with talk(file) as session, serving(file) as server:
        session.compact("the summary", first_kept="@~1")
        uuid = session.append_message(user("after it")).uuid
        view = opened(browser, server)
        live(view)
        assert view.sees("after it")
        view.page.click(f"a.at[href='#{uuid}'] >> nth=-1")
        view.page.wait_for_selector("dialog.asked .command")
        assert f"sessiontree fork {file} --at {uuid}" in view.text("dialog.asked")
        assert f"sessiontree label {file} {uuid} NAME" in view.text("dialog.asked")
        view.page.click("text=As the model saw it here")
        view.page.wait_for_selector("text=4 messages")
        main = view.text("#main")
        assert "the summary" in main
        assert "after it" in main
        assert "prompt 0" not in main
        assert view.errors == []


def test_two_branches_stand_side_by_side(browser: Any, file: Path) -> None:
    with talk(file) as session, serving(file) as server:
        session.branch(session.path()[2])
        session.append_message(user("another way"))
        session.append_message(assistant("which is better"))
        view = opened(browser, server)
        live(view)
        view.page.click("text=Two branches side by side")
        view.page.click("dialog.asked >> button:has-text('Compare')")
        view.page.wait_for_selector(".sides")
        one, other = (side.inner_text() for side in view.page.query_selector_all(".sides section"))
        assert "prompt 1" in one
        assert "another way" in other
        assert "prompt 0" not in one
        view.page.click("text=another way")
        assert view.sees("which is better")
        assert view.errors == []


def test_the_end_of_the_server_is_told(browser: Any, file: Path) -> None:
    talk(file).close()
    with serving(file) as server:
        view = opened(browser, server)
        live(view)
        server.process.terminate()
        view.wait_for("document.body?.dataset.live === 'no'")
        assert "The server has ended" in view.text("#told")
        assert view.sees("answer 1")


def test_nothing_of_a_hostile_session_runs_or_asks_anybody(browser: Any, tmp_path: Path) -> None:
    hostile_session(tmp_path / "hostile.jsonl", PAYLOADS)
    for n, payload in enumerate(PAYLOADS[::10]):
        talk(tmp_path / f"{n}.jsonl", 1, name=one_line(payload) or "x").close()
    with serving(tmp_path) as server:
        view = opened(browser, server)
        for _ in range(4):
            view.page.mouse.move(400, 400)
            view.page.mouse.wheel(0, 600)
            view.page.wait_for_timeout(100)
        rows = server.json("/sessions")["sessions"]
        largest = max(rows, key=lambda one: int(one["bytes"]))
        other = opened(browser, server, f"/s/{largest['id']}")
        for preset in ("Default", "All", "Labelled", "Prompts"):
            other.page.get_by_role("button", name=preset, exact=True).click()
        for _ in range(10):
            other.press("o")
            other.page.mouse.move(800, 400)
            other.page.mouse.wheel(0, 1500)
        for each in (view, other):
            assert each.page.evaluate("window.ran") is None
            assert outside(each, server) == []
            assert each.errors == []
