"""The templates of the page, as functions.

Every value that a template gets is text, and is escaped, unless it is `Markup`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from sessiontree.page.markup import marked

_MARK: Final = "\ue000{}\ue001"
"""What stands for an argument while a template is read."""


_MOST_KNOWN: Final = 256
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
        self._environment = _environment()
        self._rows: Any = self._environment.get_template("rows.html").module
        self._said, self._fold, self._note = self._forms("said", "fold", "note")
        self._line, self._call, self._chip = self._forms("line", "call", "chip")
        self._lines, self._edit, self._argument = self._forms("lines", "edit", "argument")
        self._result, self._image, self._turn = self._forms("result", "image", "turn")
        self.empty = functools.cache(self._empty)
        self._known_chip = functools.lru_cache(_MOST_KNOWN)(self._chip)

    def _forms(self, *names: str) -> Iterator[Template]:
        return (Template(getattr(self._rows, name)) for name in names)

    def said(self, who: str, text: Markup) -> Markup:
        """What somebody said."""
        return self._said(who, text)

    def fold(self, title: str, words: str) -> Markup:
        """The title of something that is folded, with its start."""
        return self._fold(title, words)

    def note(self, title: str, words: str, kind: str) -> Markup:
        """A fact that nobody said."""
        return self._note(title, words, kind)

    def line(self, title: str, words: str, *, model: bool) -> Markup:
        """A line across the page; `model` offers what the model had from there on."""
        return self._line(title, words, _flag(model))

    def call(self, name: str, target: str, chips: Sequence[Markup]) -> Markup:
        """The row of a call."""
        return self._call(name, target, _spaced(chips))

    def chip(self, text: str, kind: str) -> Markup:
        """A fact of a few words."""
        return self._known_chip(text, kind)

    def lines(self, added: int, removed: int) -> Markup:
        """How many lines an edit adds and takes away."""
        return self._lines(str(added), str(removed))

    def edit(self, path: str, kind: str, diff: Markup) -> Markup:
        """An edit of a file."""
        return self._edit(path, kind, diff)

    def argument(self, name: str, value: Markup) -> Markup:
        """A long argument of a call."""
        return self._argument(name, value)

    def result(self, content: Markup) -> Markup:
        """The result of a call."""
        return self._result(content)

    def _empty(self) -> Markup:
        return _markup(self._rows.empty())

    def image(self, media_type: str, data: str) -> Markup:
        """An image, with its bytes in base64."""
        return self._image(media_type, data)

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
        said = marked(" · ".join(map(escape, facts))) if facts else ""
        chips = _spaced([self.chip(one, "name") for one in names]) if names else ""
        return self._turn(name, _flag(has_context), said, outcome, chips, cost, cost_how)

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


@functools.cache
def _environment() -> Environment:
    """What reads the templates, each once."""
    return Environment(
        loader=PackageLoader("sessiontree.page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _markup(text: Any) -> Markup:
    return Markup(str(text).strip())


def _flag(value: bool) -> str:
    """A fact that a template asks for."""
    return "1" if value else ""


def _spaced(chips: Sequence[Markup]) -> Markup:
    """Facts behind something."""
    return marked("".join([f" {chip}" for chip in chips]))
