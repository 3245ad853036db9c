"""Texts that several threads show, and locks that they take, at the first use in a process."""

from __future__ import annotations

from tests.support.paused import in_fresh_process
from tests.support.table import for_each

RULER = "from markdown_it.ruler import Ruler"
IS_EMPTY = "frame.f_locals['self'].__cache__ == {}"


@for_each(
    ("module", "act", "shown"),
    [
        ("page import markup", "markup.prose('# A', markup.Colours())", "<h1>A</h1>\n"),
        ("views import markdown", "markdown.prose('<b>\\n\\n    <b>')", "\\<b>\n\n    <b>"),
    ],
)
def test_markdown_is_whole_while_another_thread_compiles_its_rules(
    module: str, act: str, shown: str
) -> None:
    imports = f"from sessiontree.{module}\n{RULER}"
    assert in_fresh_process(imports, act, "Ruler.__compile__", IS_EMPTY)[:3] == [shown] * 3
