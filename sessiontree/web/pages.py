"""Pages and answers: templates with their scripts and styles, each with its policy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from sessiontree.page.data import as_json
from sessiontree.page.document import asset as page_asset
from sessiontree.page.document import policy

_NOT_FRAMED: Final = "; frame-ancestors 'none'"


def asset(name: str) -> str:
    """A script or a style of the view."""
    return resources.files("sessiontree.web").joinpath("assets", name).read_text("utf-8")


class Pages:
    """The pages of the view but that of a session. All values are text, and are escaped."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=PackageLoader("sessiontree.web"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def answer(
        self, template: str, /, script: str = "", *, root: str = "./", **values: Any
    ) -> Response:
        """Render a template; `root` is the relative URL of the list."""
        style = _style()
        page = self._text(template, script, {"root": root, **values})
        return html(page, policy(script, style, is_served=True))

    def streamed(
        self, template: str, values: AsyncIterator[dict[str, Any]], /, **first: Any
    ) -> Response:
        """A page whose template says `<!-- rest -->` where what takes long stands.

        The part before is sent at once, with the values `first`; the rest with those that come.
        """
        first = {"root": "./", **first}
        before, mark = self._text(template, "", {**first, "rest": None}), "<!-- rest -->"

        async def parts() -> AsyncIterator[bytes]:
            yield before.partition(mark)[0].encode("utf-8", "replace")
            async for each in values:
                whole = self._text(template, "", {**first, "rest": each})
                yield whole.partition(mark)[2].encode("utf-8", "replace")

        return StreamingResponse(parts(), media_type="text/html", headers=_headers(_own_policy()))

    def _text(self, template: str, script: str, values: dict[str, Any]) -> str:
        found = self._environment.get_template(template)
        return found.render(style=Markup(_style()), script=Markup(script), **values)


def _style() -> str:
    return page_asset("page.css") + asset("list.css")


def _own_policy() -> str:
    return policy("", _style(), is_served=True)


def _headers(allowed: str) -> dict[str, str]:
    return {"content-security-policy": allowed + _NOT_FRAMED}


def html(page: str, allowed: str) -> Response:
    """A page with its policy."""
    data = page.encode("utf-8", "replace")
    return Response(data, media_type="text/html", headers=_headers(allowed))


def json(value: Any) -> Response:
    """A value as JSON."""
    return Response(as_json(value), media_type="application/json")


def deflated(data: bytes) -> Response:
    """JSON that is compressed already."""
    return Response(data, media_type="application/json", headers={"content-encoding": "deflate"})
