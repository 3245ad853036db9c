"""When `follow` warns that an entry leaves the branch that its lane was on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessiontree.cli.look import _Leaves
from tests.support.conversation import line, message, opened
from tests.support.table import for_each

ON = {"lane": "review"}


@for_each(
    ("lines", "told"),
    [
        ([message("b", "a", "on")], []),
        ([message("b", "root", "aside")], ["b is not below the leaf of main, which was a "]),
        (
            [message("b", "root", "aside"), message("c", "a", "back")],
            ["b is not below the leaf of main, which was a ", "c is not below the leaf of main"],
        ),
        ([line("branch", "b", "root"), message("c", "b", "on")], []),
        ([line("branch_summary", "b", "root", summary="s"), message("c", "b", "on")], []),
        ([line("stack_summary", "b", "root", summary="s"), message("c", "b", "on")], []),
        ([line("branch", "b", "root"), message("c", "a", "on")], ["c is not below the leaf"]),
        ([line("label", "b", "a", targetUuid="a", label="x"), message("c", "b", "on")], []),
        ([line("label", "b", "a", targetUuid="a", label="x"), message("c", "a", "on")], []),
        (
            [
                line("usage", "b", "a", kind="x"),
                message("c", "b", "on"),
                message("d", "b", "aside"),
            ],
            ["d is not below the leaf of main, which was c "],
        ),
        ([line("label", "b", "root", targetUuid="a", label="x")], []),
        ([{**message("b", "a", "on"), **ON}, message("c", "a", "on")], []),
        (
            [{**message("b", "root", "on"), **ON}, {**message("c", "a", "aside"), **ON}],
            ["c is not below the leaf of review, which was b "],
        ),
        ([{**message("b", "a", "on"), "parentUuid": None}], []),
    ],
)
def test_an_entry_on_a_side_branch_is_told(
    tmp_path: Path, lines: list[dict[str, Any]], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with opened(tmp_path / "s.jsonl", message("a", "root", "hello"), *lines) as session:
        header, *entries = session.entries()
        leaves = _Leaves(header)
        for entry in entries:
            leaves.take(entry)
    warned = capsys.readouterr().err.splitlines()
    assert len(warned) == len(told)
    for said, start in zip(warned, told, strict=True):
        assert said.startswith(f"Warning: {start}")
        assert said.endswith("; that entry is on a side branch now")
