"""A reader of the page gets to every part of a session, by links, keys and search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session
from tests.page.browser import View, chromium, needs_chromium
from tests.support.conversation import assistant, user

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


def written(session: Session) -> Path:
    file = Path(str(session.file)).with_suffix(".html")
    file.write_text("".join(session.to_html()), "utf-8")
    return file


def long_session(file: Path, turns: int = 300) -> Session:
    session = Session.create(file, cwd="/project", name="Long", durability="os")
    with session.batch():
        for n in range(turns):
            session.append_message(user(f"prompt {n}"))
            command = {
                "type": "toolCall",
                "id": f"c{n}",
                "name": "bash",
                "arguments": {"command": "ls"},
            }
            session.append_message(assistant([{"type": "text", "text": f"answer {n}"}, command]))
            output = {"role": "toolResult", "toolCallId": f"c{n}", "content": f"inside {n}\n" * 30}
            session.append_message(output)
    return session


def answers(view: View) -> list[str]:
    found = view.page.query_selector_all(".k-a .text")
    return [one.inner_text().strip() for one in found]


def test_a_window_of_a_long_session_is_in_the_page_and_keys_go_through_it(
    browser: Any, file: Path
) -> None:
    with long_session(file) as session:
        view = View(browser).open(written(session))
    view.press("j", "j", "j")
    assert view.sees("prompt 2")
    view.press("k")
    assert view.sees("prompt 1")
    view.press("G")
    assert view.sees("answer 299")
    view.press("o", "G")
    assert view.sees("inside 299")
    assert view.page.evaluate("document.querySelectorAll('*').length") <= 1500
    view.press("g")
    view.page.wait_for_timeout(300)
    assert view.page.evaluate("document.getElementById('main').scrollTop") < 60
    assert view.errors == []


def test_a_link_opens_what_is_folded(browser: Any, file: Path) -> None:
    with long_session(file) as session:
        made = written(session)
        wanted = [entry for entry in session.entries() if b"inside 150" in entry.line]
    view = View(browser).open(made, f"#{wanted[0].uuid}")
    assert view.sees("inside 150")


def test_search_counts_its_hits_and_opens_them(browser: Any, file: Path) -> None:
    with long_session(file) as session:
        view = View(browser).open(written(session))
    view.press("/")
    view.page.keyboard.type("inside 27")
    view.wait_for("document.getElementById('hits').textContent === '1 of 11'")
    assert view.sees("inside 27")
    view.press("Enter")
    view.wait_for("document.getElementById('hits').textContent === '2 of 11'")
    assert view.sees("inside 270")


def test_the_other_branch_is_reached_from_the_tree_and_from_the_place_where_it_leaves(
    browser: Any, file: Path
) -> None:
    with Session.create(file) as session:
        session.append_message(user("the start"))
        fork = session.append_message(assistant("an answer"))
        session.append_message(user("the first way"))
        session.append_message(assistant("done first"))
        session.branch(fork)
        session.append_message(user("the second way"))
        session.append_message(assistant("done second"))
        view = View(browser).open(written(session))
    assert answers(view) == ["an answer", "done second"]
    view.page.click("#list >> text=○ 2 the first way")
    assert view.sees("done first")
    assert answers(view) == ["an answer", "done first"]
    view.page.click("#tree >> text=the second way")
    assert view.sees("done second")
    view.page.fill("#filter", "first")
    assert "the second way" not in view.text("#tree")


def test_the_page_shows_what_the_model_had_and_what_fell_out(browser: Any, file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(user("forgotten"))
        session.append_message(assistant("old"))
        session.append_message(user("kept"))
        session.append_message(assistant("new"))
        session.compact("the summary", first_kept="@~1")
        view = View(browser).open(written(session))
    view.press("G", "m")
    view.wait_for("!document.getElementById('state').hidden")
    assert "3 messages" in view.text("#state")
    pale = view.page.eval_on_selector_all(".row.gone", "found => found.map(one => one.innerText)")
    assert any("forgotten" in text for text in pale)
    assert not any("kept" in text for text in pale)
    view.press("Escape")
    assert view.page.query_selector(".row.gone") is None


def test_what_changed_is_shown_file_by_file(browser: Any, file: Path) -> None:
    edit = {"path": "/project/a.py", "oldText": "x = 1\n", "newText": "x = 2\n"}
    block = {"type": "toolCall", "id": "c1", "name": "edit", "arguments": edit}
    with Session.create(file, cwd="/project") as session:
        session.append_message(user("mend"))
        session.append_message(assistant([block]))
        session.append_message({"role": "toolResult", "toolCallId": "c1", "content": "edited"})
        view = View(browser).open(written(session))
    view.press("d")
    view.page.click("summary >> text=a.py")
    view.page.click(".k-c summary")
    assert view.sees("+x = 2")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_system(browser: Any, file: Path, scheme: str) -> None:
    with long_session(file, 1) as session:
        view = View(browser, color_scheme=scheme).open(written(session))
    back = view.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 25, 28)")


def test_on_a_phone_the_tree_is_behind_a_button_and_nothing_is_cut_off(
    browser: Any, file: Path
) -> None:
    with long_session(file, 20) as session:
        view = View(browser, viewport={"width": 360, "height": 740}).open(written(session))
    assert not view.page.is_visible("#tree")
    assert view.page.evaluate("document.documentElement.scrollWidth") <= 360
    view.page.click("#menu")
    view.page.click("#tree >> text=prompt 3")
    assert view.sees("prompt 3")


def test_a_page_asks_nobody_for_anything(browser: Any, file: Path) -> None:
    with Session.create(file) as session:
        session.append_message(user("![a](https://away.invalid/a.png)"))
        session.append_message(assistant("![a](https://away.invalid/a.png)"))
        view = View(browser).open(written(session))
    assert view.sees("at away.invalid")
    assert view.asked == []


def test_what_a_subagent_did_is_inside_the_call_that_started_it(
    browser: Any, tmp_path: Path
) -> None:
    fixture = Path(__file__).parents[2] / "fixtures" / "foreign-claude-code" / "session.jsonl"
    with Session.open(fixture, readonly=True) as session:
        made = tmp_path / "agent.html"
        made.write_text("".join(session.to_html()), "utf-8")
        wanted = next(e for e in session.entries() if e.lane and e.type == "message")
    view = View(browser).open(made)
    assert view.page.query_selector("#list .d1") is None
    view.page.click(".k-A summary")
    view.wait_for("document.querySelectorAll('#list .d1').length > 1")
    assert "Prompt of the agent" in view.text("#list")
    again = View(browser).open(made, f"#{wanted.uuid}")
    assert again.page.query_selector("#list .d1.aim") is not None
