"""The limits against hostile files have the figures of the source, wherever they are written."""

from __future__ import annotations

import re

from sessiontree.agents import base, writing
from sessiontree.agents.codex import reader as codex
from sessiontree.context import fold
from sessiontree.context.providers import alternate
from sessiontree.core import damage, message
from sessiontree.engine import translated
from sessiontree.operations import export, own_rules, requests
from sessiontree.redact import redaction
from sessiontree.storage import lines, names
from sessiontree.views import markdown
from tests.docs.examples import ROOT

MIB = 1024 * 1024

LIMITS = {
    "entries of merges in a context": f"{fold.MOST_MERGED_AGAIN:,}",
    "entries of merges in a copy": f"{export._MOST_STEPS:,} entries",
    "entries of a conversion": f"{writing._READ_AGAIN:,}",
    "lanes": f"{writing._MOST_LANES:,} lanes",
    "lines of lanes": f"{writing._LINES_AGAIN:,}",
    "bytes of a session for each line": f"each {writing._SIZE_OF_EACH_LINE} bytes",
    "repeated bytes": f"{writing._BYTES_AGAIN // MIB} MiB of repeated lines",
    "request": f"{requests._MOST_BYTES // MIB} MiB of messages",
    "times": f"{writing._TIMES} times the size of the session",
    "bytes of a session for each": str(writing._SIZE_OF_EACH),
    "prompts of Codex": f"{codex.MOST_REPEATED:,} repeated prompts",
    "blocks": f"{message.MOST_BLOCKS:,} content blocks|{message.MOST_BLOCKS:,} blocks",
    "bytes for each block": f"one for each {message.BYTES_FOR_EACH_BLOCK} bytes",
    "blocks of a request": f"{alternate.MOST_BLOCKS:,}",
    "short lines": f"{base.MOST_SHORT:,}",
    "short": f"lines, messages or calls of less than {base.SHORT} bytes",
    "bytes for each short line": f"one for each {base._BYTES_FOR_EACH_SHORT} bytes",
    "unpacked": f"{lines.LARGEST_RATIO} times",
    "always unpacked": f"{lines.ALWAYS_UNPACKED // MIB} MiB",
    "a result": f"{names.LARGEST_RESULT // MIB} MiB",
    "facts": f"{translated._SIDECAR_LIMIT // MIB} MiB",
    "findings": f"{damage.MOST_FINDINGS:,}",
    "warnings": f"{markdown._MOST_WARNINGS:,}",
    "nested": f"deeper than {message._DEEPEST_INDENTED} levels",
    "own rule": f"{own_rules.LIMIT_SECONDS:.0f} seconds for a text",
    "command": f"{redaction._LONGEST_COMMAND:,} characters",
}


def test_each_limit_is_named_with_its_figure() -> None:
    for page in ("CHANGELOG.md", "docs/durability.md"):
        text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
        assert [
            what for what, figure in LIMITS.items() if not re.search(rf"\b{figure}\b", text)
        ] == [], page
