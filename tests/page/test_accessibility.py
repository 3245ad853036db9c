"""A page can be used without a mouse, with a screen reader and with any eyes, as axe-core tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import Session
from tests.cli.cases import CASES
from tests.page.axe import needs_axe, violations
from tests.page.browser import View, chromium, needs_chromium
from tests.support.soak import in_soak
from tests.web.serving import serving, talk

pytestmark = [needs_chromium, needs_axe]


LOOKS: Final[dict[str, dict[str, Any]]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 800}, "has_touch": True},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize(
    "name", ["odd-claude-code", pytest.param("damaged", marks=pytest.mark.soak)]
)
def test_no_rule_is_broken_folded_or_open(
    name: str, look: str, browser: Any, tmp_path: Path
) -> None:
    file = tmp_path / "page.html"
    with Session.open(CASES[name] / "session.jsonl", readonly=True) as session:
        file.write_text("".join(session.to_html()), "utf-8")
    view = View(browser, **LOOKS[look]).open(file)
    assert violations(view) == []
    for keys in (["o"], ["a"], ["?"]):
        view.press(*keys)
        assert violations(view) == [], keys


@in_soak("looks", ["light"], [*LOOKS])
def test_no_rule_is_broken_in_the_live_view(looks: list[str], browser: Any, tmp_path: Path) -> None:
    talk(tmp_path / "talk.jsonl", name="A talk").close()
    for look in looks:
        check_live_view(View(browser, **LOOKS[look]), tmp_path)


def check_live_view(view: View, folder: Path) -> None:
    with serving(folder) as server:
        view.page.goto(server.address)
        view.page.wait_for_selector("body[data-ready]")
        assert violations(view) == []
        address = view.page.get_attribute(".session", "href")
        for path in (address, "costs"):
            view.page.goto(server.url(f"/{path}"))
            view.page.wait_for_selector("body[data-ready], section")
            assert violations(view) == [], path
