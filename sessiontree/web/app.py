"""The routes of the live view: the list, sessions, and their news. They take ids, never paths."""

from __future__ import annotations

import asyncio
import gc
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeVar

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from sessiontree.core.display import one_line
from sessiontree.errors import SessionTreeError
from sessiontree.library.counts import BY
from sessiontree.library.hidden import without_hidden
from sessiontree.library.listing import SessionInfo
from sessiontree.library.lookup import title_of
from sessiontree.page.document import asset as page_asset
from sessiontree.page.document import policy, shell
from sessiontree.page.templates import Templates
from sessiontree.storage.place import whole_path, without_secret
from sessiontree.web.costs import DAYS, ListCosts
from sessiontree.web.pages import (
    ViewPages,
    asset,
    branches_of,
    compared,
    deflated,
    html,
    json,
    seen_at,
)
from sessiontree.web.session import LiveSession, LiveSessions, PageUpdate
from sessiontree.web.sessions import Sessions, described, hits_in

ENTRY = "{uuid}"
"""What stands for the uuid of the entry; the page puts in only one without special characters."""


def commands_for(one: SessionInfo) -> list[dict[str, str]]:
    """The commands to copy, each with what it does. None writes another agent's file."""
    path = whole_path(one.file)
    if any(not character.isprintable() for character in path):
        return []
    file = shlex.quote(path)
    fork = f"sessiontree fork {file} --at {ENTRY}"
    found = [("Fork: copy the path to this entry into a new session", fork)]
    if one.agent is None:
        found.append(("Label this entry", f"sessiontree label {file} {ENTRY} NAME"))
        branch = f"sessiontree branch {file} {ENTRY} && sessiontree resume {file}"
        found.append(("Resume here, in the same file", branch))
    found.append(("Resume here, in a fork", f'sessiontree resume "$({fork})"'))
    found.append(("Resume at the end of the session", f"sessiontree resume {file}"))
    return [{"does": does, "command": command} for does, command in found]


_ALIVE_SECONDS: Final = 10.0
_TITLE: Final = 120
_ABOVE: Final = "../../"
"""The list, as a page about a session links to it."""

Handler = Callable[[Request], Awaitable[Response]]
Made = TypeVar("Made")


class App:
    """Answers requests that came in."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._viewed = LiveSessions()
        self._templates = Templates()
        self._pages = ViewPages()
        self._costs = ListCosts()
        self._closing = asyncio.Event()
        self.starlette = Starlette(
            routes=[
                Route("/", self._list),
                Route("/sessions", self._rows),
                Route("/search", self._search),
                Route("/costs", self._costs_page),
                Route("/s/{id}", self._of_session(self._page)),
                Route("/s/{id}/index", self._of_session(self._index)),
                Route("/s/{id}/events", self._of_session(self._events)),
                Route("/s/{id}/about", self._of_session(self._about)),
                Route("/s/{id}/branches", self._of_session(self._branches)),
                Route("/s/{id}/compare", self._of_session(self._compare)),
                Route("/s/{id}/seen", self._of_session(self._seen)),
                Route("/s/{id}/{part}", self._of_session(self._part)),
            ]
        )

    def close(self) -> None:
        """End the streams of events, and the threads."""
        self._closing.set()
        self._viewed.close()

    # The list

    async def _list(self, request: Request) -> Response:
        return self._pages.answer("list.html", asset("list.js"))

    async def _rows(self, request: Request) -> Response:
        is_counted = "counted" in request.query_params
        found = await asyncio.to_thread(self._sessions.read, counted=is_counted)
        problems = [one_line(each, 400) for each in self._sessions.problems[:20]]
        places = [one_line(without_secret(each), 400) for each in self._sessions.places]
        return json(
            {"sessions": described(without_hidden(found)), "problems": problems, "places": places}
        )

    async def _search(self, request: Request) -> Response:
        given = request.query_params
        agent, project = given.get("agent", ""), given.get("project", "")
        chosen = [
            one
            for one, row in await asyncio.to_thread(self._sessions.described)
            if agent in ("", row["agent"]) and project in ("", row["cwd"])
        ]
        hits = hits_in(given.get("q", ""), chosen)
        return StreamingResponse(hits, media_type="application/x-ndjson")

    async def _costs_page(self, request: Request) -> Response:
        by = next((each for each in BY if each == request.query_params.get("by")), BY[0])
        days = next((n for n in DAYS if str(n) == request.query_params.get("days")), DAYS[1])
        sessions = await asyncio.to_thread(self._sessions.all)

        async def rest() -> AsyncIterator[dict[str, Any]]:
            try:
                yield await asyncio.to_thread(self._costs.of, sessions, by, days)
            except (SessionTreeError, OSError) as error:
                yield {"problem": one_line(str(error), 400)}

        first = {"by": by, "days": days, "all_by": BY, "all_days": DAYS, "count": len(sessions)}
        return self._pages.streamed("costs.html", rest(), **first)

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
        script = asset("live.js")
        page = shell(
            self._templates,
            title_of(one, _TITLE),
            [one_line(one.cwd or "", 200), "reading …"],
            source=request.path_params["id"],
            scripts=[script],
        )
        served = policy(page_asset("page.js") + script, page_asset("page.css"), is_served=True)
        return html(page, served)

    async def _index(self, request: Request, one: SessionInfo) -> Response:
        return deflated(await self._viewed.of(one.file).index())

    async def _part(self, request: Request, one: SessionInfo) -> Response:
        found = self._viewed.of(one.file).part(request.path_params["part"])
        if found is None:
            return PlainTextResponse("The session has changed since.", 410)
        return deflated(found)

    async def _about(self, request: Request, one: SessionInfo) -> Response:
        return json({"commands": commands_for(one)})

    async def _branches(self, request: Request, one: SessionInfo) -> Response:
        try:
            return json(await asyncio.to_thread(_freed, branches_of, one.file))
        except (SessionTreeError, OSError):  # the events tell it
            return json([])

    async def _compare(self, request: Request, one: SessionInfo) -> Response:
        given = request.query_params
        values = (one.file, given.get("one", ""), given.get("other", ""))
        return await self._made("compare.html", request, one, compared, *values)

    async def _seen(self, request: Request, one: SessionInfo) -> Response:
        values = (one.file, request.query_params.get("at", ""), self._templates)
        return await self._made("seen.html", request, one, seen_at, *values)

    async def _made(
        self,
        name: str,
        request: Request,
        one: SessionInfo,
        make: Callable[..., dict[str, Any]],
        *values: object,
    ) -> Response:
        try:
            found = await asyncio.to_thread(_freed, make, *values)
        except (SessionTreeError, OSError) as error:
            problem = one_line(str(error), 400)
            return self._pages.answer("problem.html", root=_ABOVE, problem=problem)
        about = {"id": request.path_params["id"], "name": title_of(one, _TITLE)}
        return self._pages.answer(name, root=_ABOVE, found=found, **about)

    async def _events(self, request: Request, one: SessionInfo) -> Response:
        given = request.query_params.get("from", "0")
        number = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
        stream = self._stream(self._viewed.of(one.file), number)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _stream(self, viewed: LiveSession, number: int) -> AsyncIterator[bytes]:
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


def _freed(make: Callable[..., Made], *values: object) -> Made:
    try:
        return make(*values)
    finally:
        gc.collect()  # an open session has parts that know each other


def _event(news: PageUpdate) -> bytes:
    lines = "".join(f"data: {line}\n" for line in news.data.split("\n"))
    return f"event: {news.kind}\n{lines}\n".encode()
