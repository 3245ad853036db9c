"""The answers of the view with their policies: pages, an entry's context, two branches."""

from __future__ import annotations

from collections.abc import AsyncIterator
from importlib import resources
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from sessiontree.core.display import one_line
from sessiontree.core.entry import CONTENT
from sessiontree.core.index import Branch
from sessiontree.edits.tools import SideFacts
from sessiontree.page import markup
from sessiontree.page.document import asset as page_asset
from sessiontree.page.document import policy
from sessiontree.page.index import as_json
from sessiontree.page.rows import TurnRows
from sessiontree.page.templates import Templates
from sessiontree.session import Session
from sessiontree.text.amounts import counted
from sessiontree.views.compare import Side
from sessiontree.views.turns import BranchEnd, Turn, ends_of_branches
from sessiontree.views.words import asked_in, outcome_parts, prompts_in, told_in, work_in

_NOT_FRAMED: Final = "; frame-ancestors 'none'"


def asset(name: str) -> str:
    """A script or a style of the view."""
    return resources.files("sessiontree.web").joinpath("assets", name).read_text("utf-8")


class ViewPages:
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

        return StreamingResponse(
            parts(), media_type="text/html", headers=_headers(policy("", _style(), is_served=True))
        )

    def _text(self, template: str, script: str, values: dict[str, Any]) -> str:
        found = self._environment.get_template(template)
        return found.render(style=Markup(_style()), script=Markup(script), **values)


def _style() -> str:
    return page_asset("page.css") + asset("list.css")


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


_MAX_MESSAGES: Final = 2000


def seen_at(file: str, uuid: str, templates: Templates) -> dict[str, Any]:
    """The values of the page with the exact context at an entry, as rows of a page."""
    with Session.open(file, readonly=True) as session:
        entry = session.reader.by_uuid(uuid) or session.entry(uuid)
        context = session.context(entry)
        held = {each.uuid for each in context.entries}
        path = [each for each in session.path(entry) if each.type in CONTENT]
        model = context.model or {}
        cwd = session.header.get("cwd")
        system = context.system
        rows = TurnRows(
            templates,
            lambda: SideFacts({}),
            cwd if isinstance(cwd, str) else None,
            markup.Colours(),
            is_subagent=False,
        )
        for message in context.messages[-_MAX_MESSAGES:]:
            rows.take_message(message, {}, None)
        facts = [counted(len(context.messages), "message"), f"about {context.tokens:,} tokens"]
        facts += [one_line(str(model["modelId"]), 100)] if model.get("modelId") else []
        facts += (
            [f"thinking {one_line(context.thinking_level, 40)}"] if context.thinking_level else []
        )
        return {
            "uuid": entry.uuid,
            "facts": facts,
            "left": sum(each.uuid not in held for each in path),
            "of": len(path),
            "before": max(0, len(context.messages) - _MAX_MESSAGES),
            "system": markup.pre(system) if system else None,
            "warnings": [one_line(text, 300) for text in context.warnings[:50]],
            "rows": rows.rows,
        }


_WIDTH: Final = 200  # columns of what is said about some work
_MAX_TURNS: Final = 500
_MAX_FILES: Final = 100
_MAX_BRANCHES: Final = 300


def branches_of(file: str) -> list[dict[str, Any]]:
    """The branches of a session as choices, the last ones of very many."""
    with Session.open(file, readonly=True) as session:
        found = session.branches()[-_MAX_BRANCHES:]
        ends = list(ends_of_branches(session.cursor, found))
    return [
        {"leaf": one.leaf, "current": one.current, "words": one_line(_named(one, end), 90)}
        for one, end in zip(found, ends, strict=True)
    ]


def _named(one: Branch, end: BranchEnd) -> str:
    """A branch as a choice: its turn, its name, and what was asked last."""
    turn = f"turn {end.turn}" if end.turn else ""
    return " · ".join(filter(None, [turn, one.name, end.prompt or one.preview])) or one.leaf


def compared(file: str, one: str, other: str) -> dict[str, Any]:
    """The values of the page that compares two entries of a session."""
    with Session.open(file, readonly=True) as session:
        found = session.compare(one, other)
        leaf = session.leaf.uuid
    both = set(found.one.work.changed) & set(found.other.work.changed)
    turn = found.turn
    return {
        "fork": found.fork,
        "fork_turn": None if turn is None else f"turn {turn.name}: {turn.prompt or turn.answer}",
        "sides": [_side(side, leaf, both) for side in (found.one, found.other)],
    }


def _side(side: Side, leaf: str, both: set[str]) -> dict[str, Any]:
    changed = sorted(side.work.changed, key=lambda path: path not in both)
    return {
        "leaf": side.leaf,
        "is_current": side.leaf == leaf,
        "did": [part.text for part in work_in(side.work, _WIDTH, prompts_in(side.turns))],
        "turns": [
            _turn(turn, is_rest=side.is_rest and place == 0)
            for place, turn in enumerate(side.turns[:_MAX_TURNS])
        ],
        "more": max(0, len(side.turns) - _MAX_TURNS),
        "files": [{"path": path, "both": path in both} for path in changed[:_MAX_FILES]],
        "more_files": max(0, len(changed) - _MAX_FILES),
    }


def _turn(turn: Turn, *, is_rest: bool) -> dict[str, Any]:
    return {
        "uuid": turn.uuid,
        "name": turn.name,
        "asked": "the rest of this turn" if is_rest else asked_in(turn),
        "is_rest": is_rest,
        "did": [part.text for part in work_in(turn.work, _WIDTH, outcome_parts(turn))],
        "told": told_in(turn) if turn.answer and (turn.prompt is not None or is_rest) else "",
    }
