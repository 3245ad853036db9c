"""The templates of the page, as functions.

Every value that a template gets is text, and is escaped, unless it is `Markup`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup


class Templates:
    """The parts of a row and of the page, by the names of the macros in `rows.html`."""

    def __init__(self) -> None:
        environment = Environment(
            loader=PackageLoader("sessiontree.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._rows: Any = environment.get_template("rows.html").module
        self._environment = environment
        self.empty = functools.cache(self._empty)

    def said(self, who: str, text: Markup) -> Markup:
        """What somebody said."""
        return _markup(self._rows.said(who, text))

    def fold(self, title: str, words: str) -> Markup:
        """The title of something that is folded, with its start."""
        return _markup(self._rows.fold(title, words))

    def note(self, title: str, words: str, kind: str) -> Markup:
        """A fact that nobody said."""
        return _markup(self._rows.note(title, words, kind))

    def line(self, title: str, words: str, *, model: bool) -> Markup:
        """A line across the page; `model` offers what the model had from there on."""
        return _markup(self._rows.line(title, words, model))

    def call(self, name: str, target: str, chips: Sequence[Markup]) -> Markup:
        """The row of a call."""
        return _markup(self._rows.call(name, target, chips))

    def chip(self, text: str, kind: str) -> Markup:
        """A fact of a few words."""
        return _markup(self._rows.chip(text, kind))

    def lines(self, added: int, removed: int) -> Markup:
        """How many lines an edit adds and takes away."""
        return _markup(self._rows.lines(added, removed))

    def edit(self, path: str, kind: str, diff: Markup) -> Markup:
        """An edit of a file."""
        return _markup(self._rows.edit(path, kind, diff))

    def argument(self, name: str, value: Markup) -> Markup:
        """A long argument of a call."""
        return _markup(self._rows.argument(name, value))

    def result(self, content: Markup) -> Markup:
        """The result of a call."""
        return _markup(self._rows.result(content))

    def _empty(self) -> Markup:
        return _markup(self._rows.empty())

    def image(self, media_type: str, data: str) -> Markup:
        """An image, with its bytes in base64."""
        return _markup(self._rows.image(media_type, data))

    def turn(self, **facts: Any) -> Markup:
        """The head of a turn."""
        return _markup(self._rows.turn(**facts))

    def agent(self, **facts: Any) -> Markup:
        """The row of a subagent."""
        return _markup(self._rows.agent(**facts))

    def file(self, **facts: Any) -> Markup:
        """The row of a file that the session changed."""
        return _markup(self._rows.file(**facts))

    def change(self, number: str, uuid: str, diff: Markup) -> Markup:
        """One change of a file, with the turn that made it."""
        return _markup(self._rows.change(number, uuid, diff))

    def overview(self, **facts: Any) -> Markup:
        """What the session is, and what came out of it."""
        return _markup(self._rows.overview(**facts))

    def page(self, **parts: Any) -> str:
        """The file."""
        return self._environment.get_template("page.html").render(**parts)


def _markup(text: Any) -> Markup:
    return Markup(str(text).strip())
