"""The methods of the dispatcher as tools.

Invariants: each tool is made from the method at run time, so a new method is a new tool; a server
neither lists nor calls a method that it does not offer; a call that its client gives up ends.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from sessiontree.calls.dispatcher import Dispatcher, Progress
from sessiontree.calls.scope import ASK_FOR_PROJECT, ASK_TO_WRITE
from sessiontree.mcp import answer as elicitation
from sessiontree.mcp import schemas
from sessiontree.mcp.answer import DATA, MARK, META, ToolAnswer, answer, clean, sendable
from sessiontree.mcp.offer import ToolSelection, tool_name
from sessiontree.ops.budget import TOKENS
from sessiontree.ops.guidance import nearest
from sessiontree.ops.operation import Method

Context = ServerRequestContext[Any, Any]

NOTES: Final = "notes"
"""The key of a result for what was left out, and for what was found wrong."""

_VALUE: Final = "value"
_FRAME: Final = 64
"""Tokens of a budget kept for the marks around an answer and its notes."""

_ASK: Final = "Ask the user to start the server with {}, or go on without this tool."

_STEPS: Final = 100
"""The most notifications for a whole piece of work whose length is known."""


class Tools:
    """The tools of a server, by their names.

    Args:
        dispatcher: has the methods.
        offer: which of them are offered.

    Attributes:
        problems: why a method is not a tool.
    """

    def __init__(self, dispatcher: Dispatcher, offer: ToolSelection) -> None:
        self._dispatcher = dispatcher
        self._offer = offer
        self.problems: list[str] = []
        self._full_names = re.compile(rf"\b(?:{'|'.join(map(re.escape, dispatcher.methods))})\b")
        self._methods: dict[str, Method] = {}
        for full_name, method in dispatcher.methods.items():
            name = tool_name(full_name)
            if self._methods.setdefault(name, method) is not method:
                self.problems.append(f"{full_name} is not a tool: another tool has the name {name}")

    @property
    def names(self) -> list[str]:
        """The names of the tools that can be called."""
        return [name for name, method in self._methods.items() if self._offer.needs(method) is None]

    async def on_list(
        self, ctx: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[self._tool(name) for name in self.names])

    async def on_call(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        method = self._methods.get(params.name)
        if method is None:
            raise self._unknown(params.name)
        if (needed := self._offer.needs(method)) is not None:
            return _refused(self._not_offered(params.name, needed))
        given = _with_room(method, params.arguments or {})
        if (chosen := elicitation.chosen(params)) is not None:
            given = elicitation.replaced(given, chosen)
        steps = _ProgressSteps(ctx)
        found = await answer(self._dispatcher, method.full_name, given, steps.report)
        if elicitation.is_ambiguous(found):
            outcome = await elicitation.ask(ctx, found, self._titles)
            if isinstance(outcome, types.InputRequiredResult):
                return outcome
            if outcome is not None:
                given = elicitation.replaced(given, outcome)
                found = await answer(self._dispatcher, method.full_name, given, steps.report)
        return self._result(method, found)

    async def _titles(self) -> dict[str, str]:
        """What a user reads for sessions: the title, the time, the folder and the name itself."""
        listed = await answer(self._dispatcher, _TITLES, {"limit": _MAX_TITLES, "budget": 0})
        found = {}
        for row in (listed.value or {}).get("items", ()):
            facts = (row.get("title"), row["modified"][:16].replace("T", " "), row.get("cwd"))
            for name in filter(None, (row["id"], row.get("file"))):
                found[name] = " · ".join(filter(None, (*facts, name)))
        return found

    def spelled(self, text: str) -> str:
        """A text with the names of methods written as the names of their tools."""
        return self._full_names.sub(lambda found: tool_name(found[0]), text)

    def _tool(self, name: str) -> types.Tool:
        method = self._methods[name]
        effect = self._offer.effect(method)
        return types.Tool(
            name=name,
            title=method.title,
            description=self.spelled(" ".join(method.description.split())),
            input_schema=self._spelled_in(schemas.of_parameters(method.params_schema)),
            output_schema=_output(method),
            annotations=types.ToolAnnotations(
                read_only_hint=effect == "read",
                destructive_hint=effect == "destroy",
                idempotent_hint=method.idempotent or effect == "read",
                open_world_hint=False,
            ),
        )

    def _spelled_in(self, schema: dict[str, Any]) -> dict[str, Any]:
        for one in schema["properties"].values():
            if "description" in one:
                one["description"] = self.spelled(one["description"])
        return schema

    def _result(self, method: Method, found: ToolAnswer) -> types.CallToolResult:
        if found.error is not None:
            return _refused(self.spelled(_with_option(found.refused)))
        found.notes = [*map(self.spelled, found.notes)]
        value = found.value if _is_object(method) else {_VALUE: found.value}
        if found.notes and NOTES not in value:
            value = {**value, NOTES: found.notes}
        text = types.TextContent(type="text", text=found.text)
        data = {MARK: DATA, **sendable(value)}  # some clients show a model nothing else
        return types.CallToolResult(content=[text], structured_content=data, _meta={**META})

    def _unknown(self, name: str) -> MCPError:
        message = f"there is no tool {name!r:.100}{nearest(name, self._methods)}"
        return MCPError(types.INVALID_PARAMS, clean(message), {"available": self.names})

    def _not_offered(self, name: str, needed: str) -> str:
        why = "this server only reads" if needed == "--write" else f"{name} is not offered here"
        return f"Error: {why}: nothing was done\nNext: {_ASK.format(needed)}"


def _output(method: Method) -> dict[str, Any]:
    """The schema of the result: always of an object, as older clients take no other."""
    schema = schemas.of_result(method.result_schema)
    if _is_object(method):
        return schema
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {"type": "object", "properties": {_VALUE: inner}}
    outer["required"] = [_VALUE]
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def _is_object(method: Method) -> bool:
    return method.result_schema.get("type") == "object"


def _with_room(method: Method, given: dict[str, Any]) -> dict[str, Any]:
    """The parameters with a budget that leaves room for what stands around the answer."""
    budget = given.get("budget", TOKENS)
    if "budget" not in method.params_schema["properties"] or type(budget) is not int or budget <= 0:
        return given
    return {**given, "budget": max(budget - _FRAME, 1)}


def _with_option(refused: str) -> str:
    """A refusal to write, or to read a project, says with which option this server does it."""
    for step, option in ((ASK_TO_WRITE, "--write"), (ASK_FOR_PROJECT, "--project DIR")):
        refused = refused.replace(f"Next: {step}", f"Next: {_ASK.format(option)}")
    return refused


def _refused(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


_TITLES: Final = "session.list"
"""The method that tells the titles of sessions."""

_MAX_TITLES: Final = 1000


class _ProgressSteps:
    """Sends progress, at most once for each hundredth of the work, and ever growing."""

    def __init__(self, ctx: Context) -> None:
        self._session = ctx.session
        self._at = 0.0
        self._count = 0

    async def report(self, event: Progress) -> None:
        self._count += 1
        if event.fraction is not None:
            at, total = math.floor(event.fraction * _STEPS) / _STEPS, 1.0
            if at > self._at:
                self._at = at
                await self._session.report_progress(at, total, clean(event.message))
        elif not self._at and self._count.bit_count() == 1:  # 1, 2, 4, 8, …
            await self._session.report_progress(self._count, None, clean(event.message))
