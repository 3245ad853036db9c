"""What the model has at an entry: the exact context, as rows of the page."""

from __future__ import annotations

from typing import Any, Final

from sessiontree.core.display import one_line
from sessiontree.core.edits import Told
from sessiontree.core.entry import CONTENT
from sessiontree.page import markup
from sessiontree.page.rows import TurnRows
from sessiontree.page.templates import Templates
from sessiontree.session import Session

_MOST_MESSAGES: Final = 2000
_MOST_WARNINGS: Final = 50


def seen_at(file: str, uuid: str, templates: Templates) -> dict[str, Any]:
    """The values of the page with the context at an entry.

    Raises:
        SessionTreeError: the session cannot be read, or has no such entry.
    """
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
            lambda: Told({}),
            cwd if isinstance(cwd, str) else None,
            markup.Colours(),
            is_subagent=False,
        )
        for message in context.messages[-_MOST_MESSAGES:]:
            rows.take_message(message, {}, None)
        facts = [f"{len(context.messages):,} messages", f"about {context.tokens:,} tokens"]
        facts += [one_line(str(model["modelId"]), 100)] if model.get("modelId") else []
        facts += (
            [f"thinking {one_line(context.thinking_level, 40)}"] if context.thinking_level else []
        )
        return {
            "uuid": entry.uuid,
            "facts": facts,
            "left": sum(each.uuid not in held for each in path),
            "of": len(path),
            "before": max(0, len(context.messages) - _MOST_MESSAGES),
            "system": markup.pre(system) if system else None,
            "warnings": [one_line(text, 300) for text in context.warnings[:_MOST_WARNINGS]],
            "rows": rows.rows,
        }
