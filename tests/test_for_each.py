"""A table of cases is one test: each case runs, and a failure names each that failed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.table import for_each


def test_each_combination_runs_in_a_folder_and_an_environment_of_its_own(tmp_path: Path) -> None:
    ran = []

    @for_each("text", ["a", "b"])
    @for_each("number", [1, 2])
    def check(number: int, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert list(tmp_path.iterdir()) == []
        assert "SESSIONTREE_CASE" not in os.environ
        (tmp_path / "made").touch()
        monkeypatch.setenv("SESSIONTREE_CASE", text)
        ran.append((text, number))

    check(tmp_path=tmp_path, monkeypatch=pytest.MonkeyPatch())
    assert ran == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]


def test_a_failure_names_each_case_that_failed() -> None:
    ran = []

    @for_each(("number", "name"), [(1, "one"), (2, "two"), (3, "three")], ids=["a", "b", "c"])
    def check(number: int, name: str) -> None:
        ran.append(name)
        if number == 1:
            pytest.fail("not one")
        assert number == 2

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed: a, c") as failed:
        check()
    assert ran == ["one", "two", "three"]
    assert list(map(type, failed.value.exceptions)) == [pytest.fail.Exception, AssertionError]


def test_a_table_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError):
        for_each("name", [])
