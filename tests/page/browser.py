"""A real Chromium, and what it asked for. Where it is not installed, the tests are skipped."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_CHROMIUM: Final = shutil.which("chromium")
_FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    "--enable-precise-memory-info",
]
_SEES: Final = """text => [...document.querySelectorAll('#list *')].some(one => {
  const box = one.getBoundingClientRect();
  const isShown = box.height && box.bottom > 0 && box.top < innerHeight && box.height < innerHeight;
  return isShown && one.textContent.includes(text);
})"""
_HAS_PLAYWRIGHT: Final = importlib.util.find_spec("playwright") is not None

needs_chromium = pytest.mark.skipif(
    _CHROMIUM is None or not _HAS_PLAYWRIGHT,
    reason="needs the program 'chromium' and the package 'playwright'",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=_CHROMIUM, args=_FLAGS)
        yield browser
        browser.close()


class View:
    """A page in the browser.

    Attributes:
        page: the page.
        asked: the addresses that it asked for, but its own.
        errors: what it complained about.
    """

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.page: Page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(60_000)
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self._note(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", lambda dialog: self.errors.append(dialog.message))

    def _note(self, url: str) -> None:
        if not url.startswith(("data:", "file:")):
            self.asked.append(url)

    def open(self, file: Path, target: str = "") -> View:
        """Open the page of a file, and wait until it can be read."""
        self.page.goto(file.as_uri() + target)
        self.page.wait_for_selector("body[data-ready]")
        return self

    def press(self, *keys: str) -> None:
        """Press keys, one after another."""
        for key in keys:
            self.page.keyboard.press(key)
            self.page.wait_for_timeout(30)

    def wait_for(self, condition: str) -> None:
        """Wait until a condition holds; the policy of the page allows no other way."""
        for _ in range(1000):
            if self.page.evaluate(condition):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(condition)

    def text(self, selector: str) -> str:
        """The text of an element, as it is seen."""
        return self.page.inner_text(selector)

    def sees(self, text: str) -> bool:
        """Whether a text gets on the screen, in the list."""
        for _ in range(500):
            if self.page.evaluate(_SEES, text):
                return True
            self.page.wait_for_timeout(20)
        return False
