"""What `for_each` makes of a table of cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.table import for_each


def test_each_case_runs_and_a_failure_names_each_that_failed() -> None:
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


def test_a_case_that_does_not_raise_fails() -> None:
    @for_each("text", ["1", "one"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 cases failed: '1'"):
        check()


@for_each("first", "ab")
@for_each("second", "cd")
def test_each_case_has_a_folder_of_its_own(first: str, second: str, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    tmp_path.joinpath(first + second).touch()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("as the fixture left it")
    return file


@for_each("first", "ab")
@for_each("second", "cd")
def test_each_case_has_files_of_its_own(first: str, second: str, file: Path) -> None:
    assert file.read_text() == "as the fixture left it"
    file.write_text(first + second)


@for_each("number", range(3))
def test_what_a_case_sets_is_undone_before_the_next(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hasattr(Path, "row")
    monkeypatch.setattr(Path, "row", number, raising=False)


def test_a_table_without_cases_is_refused() -> None:
    with pytest.raises(AssertionError, match="without cases"):
        for_each("number", [])
