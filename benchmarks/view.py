"""What a session in the live view costs: seconds until it can be read, memory, and how live it is.

    python -m benchmarks.view FILE …

copies each session file, serves the copy, opens it in Chromium, and prints a row of a table: the
time until the first rows can be read, and until all of them are there; the memory of the page's
script after a collection of garbage at the end of the session, and the elements that are in the
page; the most memory of the server; and the median of the times from a line in the file to the row
on the page, once it has all rows. Sessions of sessiontree and transcripts of Claude Code grow.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any, Final

from sessiontree import Session
from sessiontree.library.listing import facts_of

_FLAGS: Final = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--enable-precise-memory-info", "--js-flags=--expose-gc"),
]
_ROUNDS: Final = 7
_LIMIT: Final = 120_000  # milliseconds


def peak_of(process: int) -> float:
    """The most memory that a process had, in MB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def grow(file: Path, number: int) -> str:
    """Add an entry to a session; the text to wait for."""
    text = f"line {number} of the benchmark"
    if facts_of(str(file)).agent is None:
        with Session.open(file) as session:
            session.append_message({"role": "user", "content": text})
        return text
    with Session.open(file, readonly=True) as session:
        above = session.leaf.uuid
        cwd = session.header.get("cwd")
    line = {
        "type": "user",
        "uuid": str(uuid.uuid4()),
        "parentUuid": above,
        "cwd": cwd,
        "sessionId": facts_of(str(file)).id,
        "version": "2.1.330",
        "isSidechain": False,
        "message": {"role": "user", "content": text},
        "timestamp": "2026-11-23T12:00:00.000Z",
    }
    with file.open("a") as out:
        out.write(json.dumps(line) + "\n")
    return text


def look(page: Any, file: Path, server: subprocess.Popen[str], address: str) -> str:
    """Open a session, read it and let it grow; the row of the table."""
    page.goto(address.partition("/s/")[0] + "/")  # warms the browser up
    began = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("#list .row", timeout=_LIMIT)
    read = time.perf_counter() - began
    page.wait_for_selector("body[data-live=yes]", timeout=_LIMIT)
    whole = time.perf_counter() - began
    page.keyboard.press("G")
    page.wait_for_timeout(1000)
    page.evaluate("gc()")
    heap = page.evaluate("performance.memory.usedJSHeapSize") / 1e6
    nodes = page.evaluate("document.querySelectorAll('*').length")
    times = [_seen(page, file, number) for number in range(_ROUNDS)]
    page.wait_for_timeout(500)
    size = file.stat().st_size / 1e6
    sizes = f"{size:.0f} | {read:.2f} | {whole:.1f} | {heap:.1f} | {nodes}"
    return f"| {sizes} | {peak_of(server.pid):.0f} | {median(times):.2f} | {max(times):.2f} |"


def _seen(page: Any, file: Path, number: int) -> float:
    """The seconds from a line in the file to its row on the page."""
    page.wait_for_timeout(200)
    text = grow(file, number)
    began = time.perf_counter()
    while not page.evaluate("t => document.getElementById('list').innerText.includes(t)", text):
        if time.perf_counter() - began > _LIMIT / 1000:
            break
        page.wait_for_timeout(5)
    return time.perf_counter() - began


def main() -> None:
    """Print a row for each file."""
    from playwright.sync_api import sync_playwright

    columns = "session, MB|read, s|whole, s|heap, MB|elements|server, MB|live, s|slowest, s"
    print(f"|{columns}|")
    print("|---|---|---|---|---|---|---|---|")
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as folder, sync_playwright() as made:
            file = Path(folder) / Path(name).name
            shutil.copyfile(name, file)
            words = [sys.executable, "-m", "sessiontree", "view", "--no-browser", str(file)]
            server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            browser = made.chromium.launch(executable_path=shutil.which("chromium"), args=_FLAGS)
            print(look(browser.new_page(), file, server, address), flush=True)
            browser.close()
            server.send_signal(signal.SIGINT)
            server.wait()


if __name__ == "__main__":
    main()
