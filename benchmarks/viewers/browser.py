"""What opening a session costs in Chromium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

_FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--enable-precise-memory-info", "--js-flags=--expose-gc"),
]
_LIMIT: Final = 60.0
_SETTLES: Final = 3.0
"""Seconds after all is loaded when the memory and the elements are counted."""

_SEES: Final = """words => {
  if (!document.body) return false;
  for (let y = 10; y < innerHeight; y += 12) {
    for (let x = 40; x < innerWidth; x += 120) {
      const at = document.caretRangeFromPoint(x, y);
      const text = at && at.startContainer;
      if (!text || text.nodeType !== 3 || !words.some(word => text.data.includes(word))) continue;
      const range = document.createRange();
      range.selectNode(text);
      const boxes = [...range.getClientRects()];
      if (boxes.some(box => box.height && box.bottom > 0 && box.top < innerHeight)) return true;
    }
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let count = 0; count < 5000 && walker.nextNode(); count++) {
    const text = walker.currentNode;
    if (!words.some(word => text.data.includes(word))) continue;
    const range = document.createRange();
    range.selectNode(text);
    if ([...range.getClientRects()].some(box => box.height && box.width)) return true;
  }
  return false;
}"""


class Look(NamedTuple):
    """A session on the screen.

    Attributes:
        seconds: until its text has a box on the page, from the navigation or from the click.
        loaded: until the page has loaded; for the live view, until the whole session is there.
        heap: the memory of the scripts, in MB, after a collection of garbage.
        renderer: the memory of the process that draws the page, in MB.
        nodes: the elements of the page.
        told: what went wrong; empty if nothing did.
    """

    seconds: float
    loaded: float
    heap: float
    renderer: float
    nodes: int
    told: str = ""


def look(url: str, click: str, words: Sequence[str], whole: str = "") -> Look:
    """Open an address, click what is to be clicked, and wait until one of the words is seen.

    `whole` selects what is there when all of the session is; without it, the page must be loaded.
    """
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        try:
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            page.set_default_timeout(_LIMIT * 1000)
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(url, wait_until="commit")
            if click and url.startswith("http"):
                page.wait_for_selector(click)
                page.wait_for_timeout(500)
                began = time.perf_counter()
            if click:
                page.click(click)
            took = _seen(page, began, list(words))
            if took is None:
                return Look(0, 0, 0, 0, 0, f"nothing to read in {_LIMIT:.0f} s")
            with suppress(Error):
                page.wait_for_load_state("load")
                if whole:
                    page.wait_for_selector(whole)
            loaded = time.perf_counter() - began
            page.wait_for_timeout(_SETTLES * 1000)
            with suppress(Error):
                page.evaluate("gc()")
            heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
            nodes: int = page.evaluate("document.querySelectorAll('*').length")
            return Look(took, loaded, heap, _renderer(browser), nodes)
        except Error as error:
            return Look(0, 0, 0, 0, 0, str(error).splitlines()[0][:100])
        finally:
            browser.close()


def _seen(page: Any, began: float, words: list[str]) -> float | None:
    from playwright.sync_api import Error

    while time.perf_counter() - began < _LIMIT:
        with suppress(Error):  # the page is replaced by another this moment
            if page.evaluate(_SEES, words):
                return time.perf_counter() - began
        page.wait_for_timeout(5)
    return None


def _renderer(browser: Any) -> float:
    """The memory of the largest process that draws pages, in MB."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    drawing = [each["id"] for each in found if each["type"] == "renderer"]
    return max((memory_of(process) for process in drawing), default=0.0)


def memory_of(process: int, key: str = "VmRSS") -> float:
    """The memory of a process in MB; 0 if it is gone."""
    try:
        told = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in told.splitlines() if line.startswith(f"{key}:")]
    return int(found[0]) / 1024 if found else 0.0
