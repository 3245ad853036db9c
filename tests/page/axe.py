"""axe-core, which finds what keeps people from using a page. Where it is absent, tests are skipped.

`.ci/run` installs it, and names its script in the variable AXE.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.page.browser import View

_SCRIPT: Final = os.environ.get("AXE", "")
_RUN: Final = """async () => (await axe.run(document)).violations.map(
  found => found.id + ": " + found.nodes.slice(0, 3).map(node => node.html).join(" | "))"""

needs_axe = pytest.mark.skipif(
    not _SCRIPT, reason="needs axe-core, whose script the variable AXE names"
)


def violations(view: View) -> list[str]:
    """The rules that the page breaks as it is shown now, each with the first elements."""
    view.page.evaluate(Path(_SCRIPT).read_text("utf-8"))
    found: list[str] = view.page.evaluate(_RUN)
    return found
