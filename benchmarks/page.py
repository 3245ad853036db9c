"""What a page costs: made by sessiontree, and opened in Chromium.

    python -m benchmarks.page FILE …

makes the page of each session file in a process of its own, opens it in Chromium, and prints a row
of a table: the time and the memory to make it, its size, when it can be read, the memory of its
script after a collection of garbage, and the elements that are in the page at its end.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

_FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--enable-precise-memory-info", "--js-flags=--expose-gc"),
]


def make(file: Path, page: Path) -> tuple[float, float, float]:
    """Make a page; the seconds by the clock and of the processor, and the most memory in MB."""
    program = shutil.which("sessiontree") or "sessiontree"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    words = [program, "export", str(file), "--format", "html", "-o", str(page)]
    subprocess.run(words, check=True, capture_output=True)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, used, after.ru_maxrss / 1024


def look(page: Path) -> tuple[float, float, int]:
    """Open a page; the seconds until it can be read, the heap in MB, and the elements."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as made:
        browser = made.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
        view = browser.new_page()
        view.goto("about:blank")
        began = time.perf_counter()
        view.goto(page.as_uri())
        view.wait_for_selector("body[data-ready]")
        took = time.perf_counter() - began
        view.keyboard.press("G")
        view.wait_for_timeout(1000)
        view.evaluate("gc()")
        heap = view.evaluate("performance.memory.usedJSHeapSize") / 1e6
        count: int = view.evaluate("document.querySelectorAll('*').length")
        browser.close()
    return took, heap, count


def main() -> None:
    """Print a row for each file, smallest first: the most memory is that of all rows so far."""
    columns = "session, MB|made, s|processor, s|memory, MB|page, MB|read, s|heap, MB|elements"
    print(f"|{columns}|")
    print("|---|---|---|---|---|---|---|---|")
    for name in sorted(sys.argv[1:], key=lambda name: Path(name).stat().st_size):
        file = Path(name)
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.html"
            took, used, memory = make(file, page)
            read, heap, count = look(page)
            sizes = f"{file.stat().st_size / 1e6:.0f} | {took:.1f} | {used:.1f} | {memory:.0f}"
            print(
                f"| {sizes} | {page.stat().st_size / 1e6:.2f} | {read:.2f} | {heap:.1f} | {count} |"
            )


if __name__ == "__main__":
    main()
