"""Nothing that a session holds runs in its page, or makes the page ask anybody for anything."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final

import pytest

from tests.page.browser import View, chromium, needs_chromium
from tests.page.hostile import hostile_session
from tests.page.payloads import PAYLOADS
from tests.page.reading import Page, page_of

_TAGS: Final = {
    *("p", "b", "strong", "em", "s", "code", "pre", "span", "div", "a", "img", "ul", "ol", "li"),
    *("table", "thead", "tbody", "tr", "th", "td", "blockquote", "hr", "br", "button"),
    *("h1", "h2", "h3", "h4", "h5", "h6", "figure", "figcaption", "svg", "polyline", "line"),
}
_ATTRIBUTES: Final = {
    *("class", "href", "rel", "target", "title", "src", "alt", "type", "data-do", "start"),
    *("viewbox", "role", "aria-label", "preserveaspectratio", "points", "x1", "x2", "y1", "y2"),
}
_CLASS: Final = re.compile(r"[\w -]*")
_SOURCE: Final = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")


class Checked(HTMLParser):
    """Collects what is in HTML that may not be there."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _TAGS:
            self.wrong.append(tag)
        for name, value in attrs:
            is_right = name in _ATTRIBUTES
            if name == "class":
                is_right = bool(_CLASS.fullmatch(value or ""))
            elif name == "src":
                is_right = bool(_SOURCE.fullmatch(value or ""))
            elif name == "href":
                is_right = (value or "").startswith(("https://", "http://", "mailto:", "#"))
            if not is_right:
                self.wrong.append(f"{tag} {name}={value}")

    def handle_comment(self, data: str) -> None:
        self.wrong.append(f"comment {data}")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile_session(tmp_path_factory.mktemp("hostile") / "all.jsonl", PAYLOADS)


@pytest.fixture(scope="module")
def page(file: Path) -> Page:
    return page_of(file)


def test_there_are_payloads_enough_and_each_is_in_the_page(page: Page) -> None:
    assert len(PAYLOADS) >= 200
    assert len(page.rows) > 20 * len(PAYLOADS)


def test_rows_have_only_elements_and_attributes_that_do_nothing(page: Page) -> None:
    for row in page.rows:
        for part in row:
            checked = Checked()
            checked.feed(part)
            assert not checked.wrong, part[:500]


def test_the_page_itself_has_one_script_and_no_text_of_the_session_in_it(page: Page) -> None:
    assert len(re.findall(r"<script(?! type=\"text/plain\")", page.text)) == 1
    assert not re.search(r"<(?:img|iframe|svg|link|base|object)\b", page.text)


@needs_chromium
def test_no_row_runs_or_fetches_even_without_the_policy(page: Page) -> None:
    with chromium() as browser:
        view = View(browser)
        view.page.set_content("<div id=list></div>")
        for start in range(0, len(page.rows), 500):
            parts = ["".join(row) for row in page.rows[start : start + 500]]
            view.page.evaluate(
                "parts => { const list = document.getElementById('list'); list.replaceChildren();"
                " for (const part of parts) { const one = document.createElement('div');"
                " one.innerHTML = part; list.append(one); } }",
                parts,
            )
            view.page.wait_for_timeout(50)
        assert view.page.evaluate("window.ran") is None
        assert view.asked == []
        assert view.errors == []


@needs_chromium
def test_a_hostile_page_is_read_to_its_end_and_nothing_runs(tmp_path: Path) -> None:
    file = hostile_session(tmp_path / "some.jsonl", PAYLOADS[::50])
    made = tmp_path / "page.html"
    made.write_text(page_of(file).text, "utf-8")
    with chromium() as browser:
        view = View(browser).open(made)
        page = view.page
        for preset in ("Default", "All", "Labelled", "Prompts"):
            page.get_by_role("button", name=preset, exact=True).click()
        for _ in range(20):
            view.press("o")
            page.mouse.move(800, 400)
            page.mouse.wheel(0, 1500)
        view.press("d", "o", "Escape", "G", "m", "Escape", "?", "Escape")
        page.fill("#query", "window.ran")
        view.wait_for("document.getElementById('hits').textContent.includes(' of ')")
        view.press("Enter", "Enter")
        assert page.evaluate("window.ran") is None
        assert view.asked == []
        assert view.errors == []
        assert page.evaluate("Object.prototype.ran") is None
