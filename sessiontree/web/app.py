"""The application: the list, sessions, and their news. Each route takes ids, and no paths."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sessiontree.catalog.listing import SessionInfo
from sessiontree.catalog.titles import title_of
from sessiontree.core.display import one_line
from sessiontree.page.data import as_json
from sessiontree.page.document import asset as page_asset
from sessiontree.page.document import policy, shell
from sessiontree.page.templates import Templates
from sessiontree.web.sessions import Sessions, described
from sessiontree.web.viewed import AllViewed, News, Viewed

_ALIVE_SECONDS: Final = 10.0
_TITLE: Final = 120

Handler = Callable[[Request], Awaitable[Response]]


class App:
    """Answers requests that came in.

    Args:
        sessions: the list.
    """

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._viewed = AllViewed()
        self._templates = Templates()
        self._environment = Environment(
            loader=PackageLoader("sessiontree.web"), autoescape=True, undefined=StrictUndefined
        )
        self._closing = asyncio.Event()
        self.starlette = Starlette(
            routes=[
                Route("/", self._list),
                Route("/sessions", self._rows),
                Route("/s/{id}", self._of_session(self._page)),
                Route("/s/{id}/index", self._of_session(self._index)),
                Route("/s/{id}/events", self._of_session(self._events)),
                Route("/s/{id}/{part}", self._of_session(self._part)),
            ]
        )

    def close(self) -> None:
        """End the streams of events, and the threads."""
        self._closing.set()
        self._viewed.close()

    # The list

    async def _list(self, request: Request) -> Response:
        script, style = _asset("list.js"), page_asset("page.css") + _asset("list.css")
        page = self._environment.get_template("list.html").render(
            style=Markup(style), script=Markup(script)
        )
        return _html(page, policy(script, style, is_served=True))

    async def _rows(self, request: Request) -> Response:
        is_counted = "counted" in request.query_params
        found = await asyncio.to_thread(self._sessions.read, counted=is_counted)
        problems = [one_line(each, 400) for each in self._sessions.problems[:20]]
        return _json({"sessions": described(found), "problems": problems})

    # A session

    def _of_session(
        self, handler: Callable[[Request, SessionInfo], Awaitable[Response]]
    ) -> Handler:
        async def handle(request: Request) -> Response:
            one = await asyncio.to_thread(self._sessions.named, request.path_params["id"])
            if one is None:
                return PlainTextResponse("There is no such session in the list.", 404)
            return await handler(request, one)

        return handle

    async def _page(self, request: Request, one: SessionInfo) -> Response:
        self._viewed.of(one.file)  # which begins to read
        script = _asset("live.js")
        page = shell(
            self._templates,
            title_of(one, _TITLE),
            [one_line(one.cwd or "", 200), "reading …"],
            source=f"/s/{request.path_params['id']}",
            scripts=[script],
        )
        served = policy(page_asset("page.js") + script, page_asset("page.css"), is_served=True)
        return _html(page, served)

    async def _index(self, request: Request, one: SessionInfo) -> Response:
        return _deflated(await self._viewed.of(one.file).index())

    async def _part(self, request: Request, one: SessionInfo) -> Response:
        found = self._viewed.of(one.file).part(request.path_params["part"])
        if found is None:
            return PlainTextResponse("The session has changed since.", 410)
        return _deflated(found)

    async def _events(self, request: Request, one: SessionInfo) -> Response:
        given = request.query_params.get("from", "0")
        number = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
        stream = self._stream(self._viewed.of(one.file), number)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _stream(self, viewed: Viewed, number: int) -> AsyncIterator[bytes]:
        viewed.watchers += 1
        closing = asyncio.ensure_future(self._closing.wait())
        problem = ""
        try:
            yield b": here\n\n"
            waiting = asyncio.ensure_future(viewed.news(number, problem))
            while not closing.done():
                await asyncio.wait(
                    {closing, waiting}, timeout=_ALIVE_SECONDS, return_when="FIRST_COMPLETED"
                )
                if not waiting.done():
                    yield b": here\n\n"  # which fails once the page is gone
                    continue
                news = waiting.result()
                number = news.number
                problem = news.data if news.kind == "problem" else problem
                yield _event(news)
                waiting = asyncio.ensure_future(viewed.news(number, problem))
        finally:
            viewed.watchers -= 1
            closing.cancel()
            waiting.cancel()


def _event(news: News) -> bytes:
    lines = "".join(f"data: {line}\n" for line in news.data.split("\n"))
    return f"event: {news.kind}\n{lines}\n".encode()


def _asset(name: str) -> str:
    return resources.files("sessiontree.web").joinpath("assets", name).read_text("utf-8")


def _html(page: str, policy: str) -> Response:
    headers = {"content-security-policy": policy + "; frame-ancestors 'none'"}
    return Response(page.encode("utf-8", "replace"), media_type="text/html", headers=headers)


def _json(value: Any) -> Response:
    return Response(as_json(value), media_type="application/json")


def _deflated(data: bytes) -> Response:
    return Response(data, media_type="application/json", headers={"content-encoding": "deflate"})
