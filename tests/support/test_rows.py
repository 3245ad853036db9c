"""What `every_row` makes of a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.rows import every_row


def test_all_rows_that_fail_are_reported_by_name() -> None:
    @every_row("number, square", {"two": (2, 4), "three": (3, 8), "four": (4, 15)})
    def check(number: int, square: int) -> None:
        assert number**2 == square

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows fail") as caught:
        check()
    notes = [failure.__notes__[0] for failure in caught.value.exceptions]
    assert notes == [
        "in the row 'three': {'number': 3, 'square': 8}",
        "in the row 'four': {'number': 4, 'square': 15}",
    ]


def test_a_row_that_does_not_raise_fails() -> None:
    @every_row("text", ["1", "one"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(BaseExceptionGroup, match="1 of 2 rows fail"):
        check()


@every_row("first", "ab")
@every_row("second", "cd")
def test_each_row_has_a_folder_of_its_own(first: str, second: str, tmp_path: Path) -> None:
    assert list(tmp_path.iterdir()) == []
    tmp_path.joinpath(first + second).touch()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "folder" / "file"
    file.parent.mkdir()
    file.write_text("as the fixture left it")
    return file


@every_row("first", "ab")
@every_row("second", "cd")
def test_each_row_has_files_of_its_own(first: str, second: str, file: Path) -> None:
    assert file.read_text() == "as the fixture left it"
    file.write_text(first + second)


@every_row("number", range(3))
def test_what_a_row_sets_is_undone_before_the_next(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hasattr(Path, "row")
    monkeypatch.setattr(Path, "row", number, raising=False)


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(AssertionError, match="without rows"):
        every_row("number", [])
