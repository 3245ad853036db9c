"""The command that opens the live view in the browser."""

from __future__ import annotations

import webbrowser
from importlib.util import find_spec
from typing import Final

import click

from sessiontree.cli import arguments
from sessiontree.cli.lookup import only_session, places_at
from sessiontree.cli.terminal import finish, out, tell
from sessiontree.errors import SessionTreeError

_INSTALL: Final = "pip install '.[web]'"
_NEEDED: Final = ("starlette", "uvicorn")


@arguments.command("view")
@arguments.places
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=0,
    help="Listen on this port [default: a free one].",
)
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
def view(places: tuple[str, ...], port: int, no_browser: bool) -> None:
    """The view lists the sessions that 'sessiontree ls' lists, in the browser. A session is shown
    as 'export --format html' shows it, and grows on the page while an agent writes it. With one
    FILE, the view opens this session.

    The server listens on this machine alone. The printed address has a random token, without which
    nobody gets in; do not pass it on. The server only reads, and serves nothing but the sessions of
    the list. Ctrl-C ends it.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SessionTreeError(
            f"this command needs the package {missing[0]}, which is not installed; in the checkout "
            f"of sessiontree, run: {_INSTALL}"
        )
    looked_in = places_at(places)
    from sessiontree.web.door import open_door
    from sessiontree.web.server import serve
    from sessiontree.web.sessions import id_of

    door = open_door(port)
    file = only_session(looked_in)
    address = door.url_of("/" if file is None else f"/s/{id_of(file)}")

    def started() -> None:
        out(address)
        finish()
        tell("Ctrl-C ends the view")
        if not no_browser:
            _open(address)

    serve(door, looked_in, started)


def _open(address: str) -> None:
    """Open a browser with windows, if there is one; one in the terminal would take it over."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if type(browser) is not webbrowser.GenericBrowser:
        browser.open(address)
