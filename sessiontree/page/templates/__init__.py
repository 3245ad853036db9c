"""The templates of the page, as functions.

Every value that a template gets is text, and is escaped, unless it is `Markup`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sessiontree.page.markup import marked

_MARK: Final = "\ue000{}\ue001"
"""What stands for an argument while a template is read."""

_MAX_KNOWN: Final = 256
"""Facts kept as markup: many rows have the same."""


class Template:
    """A template that puts each argument in its place, or asks whether it is empty.

    A page may have a hundred thousand rows, so that a template is not run for each: it is run once
    for each set of empty arguments, with a mark in the place of each other argument. Then the
    arguments are put between the texts that it gave.
    """

    def __init__(self, template: Any) -> None:
        self._template = template
        self._forms: dict[tuple[bool, ...], str] = {}

    def __call__(self, *arguments: str) -> Markup:
        given = tuple(map(bool, arguments))
        form = self._forms.get(given)
        if form is None:
            form = self._forms[given] = self._form(given)
        return marked(form.format(*map(escaped, arguments)))

    def _form(self, given: tuple[bool, ...]) -> str:
        marks = [_MARK.format(place) if one else "" for place, one in enumerate(given)]
        text = str(self._template(*marks)).strip().replace("{", "{{").replace("}", "}}")
        for place, mark in enumerate(marks):
            text = text.replace(mark, f"{{{place}}}") if mark else text
        return text


def escaped(text: str) -> str:
    """A text as markup; markup as it is, and what needs no look for it."""
    return text if type(text) is Markup or not text or text.isalnum() else escape(text)


class Templates:
    """The parts of a row and of the page, by the names of the macros in `rows.html`."""

    def __init__(self) -> None:
        rows: Any = _environment().get_template("rows.html").module
        self.said = Template(rows.said)
        self.fold = Template(rows.fold)
        self.note = Template(rows.note)
        self.line = Template(rows.line)
        self.chip = functools.lru_cache(_MAX_KNOWN)(Template(rows.chip))
        self.lines = Template(rows.lines)
        self.edit = Template(rows.edit)
        self.argument = Template(rows.argument)
        self.result = Template(rows.result)
        self.empty = Template(rows.empty)
        self.image = Template(rows.image)
        self.agent = _filled(rows.agent)
        self.file = _filled(rows.file)
        self.overview = _filled(rows.overview)
        self._call = Template(rows.call)
        self._turn = Template(rows.turn)

    def call(self, name: str, target: str, chips: Sequence[Markup]) -> Markup:
        """The row of a call."""
        return self._call(name, target, _spaced(chips))

    def turn(
        self,
        name: str,
        facts: Sequence[str] = (),
        *,
        has_context: bool,
        outcome: str = "",
        names: Sequence[str] = (),
        cost: str = "",
        cost_how: str = "",
    ) -> Markup:
        """The head of a turn."""
        said = marked(" · ".join(map(escape, facts)))
        chips = _spaced([self.chip(one, "name") for one in names])
        has = "yes" if has_context else ""
        return self._turn(name, has, said, outcome, chips, cost, cost_how)

    def page(self, **parts: Any) -> str:
        """The file."""
        return _environment().get_template("page.html").render(**parts)


@functools.cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("sessiontree.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _filled(macro: Any) -> Callable[..., Markup]:
    return lambda **facts: Markup(str(macro(**facts)).strip())


def _spaced(chips: Sequence[Markup]) -> Markup:
    return marked("".join([f" {chip}" for chip in chips]))
