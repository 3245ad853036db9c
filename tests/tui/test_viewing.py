"""The view that the browser opens: what it needs, one server for each file, and its end."""

from __future__ import annotations

import subprocess
import webbrowser
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from sessiontree.errors import SessionTreeError
from sessiontree.tui import leaving
from sessiontree.tui.frame import opened_in_browser
from sessiontree.tui.leaving import ViewServers
from tests.support.sessions import chat
from tests.support.table import for_each


class Window(webbrowser.BaseBrowser):
    """A browser that notes what it is to show; it works once."""

    def __init__(self) -> None:
        super().__init__("window")
        self.shown: list[str] = []

    def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
        self.shown.append(url)
        return len(self.shown) == 1


@pytest.fixture
def views() -> Iterator[ViewServers]:
    made = ViewServers()
    yield made
    made.close()


def test_without_its_packages_the_view_names_what_installs_them(
    views: ViewServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaving, "_NEEDED", ("sys", "no_such_package"))
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    with pytest.raises(SessionTreeError, match=r"starlette and uvicorn; .*run: pip install"):
        views.open("s.jsonl", "u")


@pytest.mark.slow
def test_a_view_that_does_not_start_says_what_tells_why(views: ViewServers, tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(SessionTreeError, match="'sessiontree view' tells why"):
            views.open(str(tmp_path / "no-such.jsonl"), "u")


@pytest.mark.slow
def test_a_file_has_one_server_that_ends_with_the_browser(
    views: ViewServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = Window()
    monkeypatch.setattr(webbrowser, "get", lambda: window)
    file = str(chat(tmp_path / "s.jsonl", "hello"))
    told = [views.open(file, uuid) for uuid in ("one", "a/b")]
    first, second = window.shown
    assert told == [f"opened {first}", f"open {second}"]
    assert first.endswith("#one")
    assert second == first.replace("#one", "#a%2Fb")
    with urlopen(first) as answer:
        assert answer.status == 200
    ((server, _),) = views._servers.values()
    views.close()
    assert server.returncode is not None
    assert views._servers == {}
    views.open(file, "one")
    ((another, _),) = views._servers.values()
    another.kill()
    another.wait()
    views.open(file, "one")
    ((third, _),) = views._servers.values()
    assert third.poll() is None


def no_browser() -> webbrowser.BaseBrowser:
    raise webbrowser.Error("there is none")


@for_each("get", [no_browser, lambda: webbrowser.GenericBrowser("vi")])
def test_a_browser_of_the_terminal_is_not_opened(
    get: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "get", get)
    monkeypatch.setattr(subprocess, "Popen", pytest.fail)
    assert not opened_in_browser("http://127.0.0.1/")
