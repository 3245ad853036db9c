"""Which paths of sessions are the file that is asked about, and which files have lines."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sessiontree.errors import StorageError, UsageError
from sessiontree.library.file_edits import MAX_NAMES, Target, known_file, read_text
from tests.support.table import for_each


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """The folder of a project that is there; `linked` is another name of it."""
    made = tmp_path / "app"
    (made / "src").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(made)
    (tmp_path / "there" / "app").mkdir(parents=True)
    return made


@for_each(
    ("path", "is_it"),
    [
        ("src/a.py", True),
        ("old/b.py", True),
        ("{}/app/src/a.py", True),
        ("{}/app/old/b.py", True),
        ("{}/linked/src/a.py", True),  # a link to the folder
        ("/gone/app/src/a.py", True),  # where the project was before
        ("/gone/app//src/a.py", True),
        ("{}/there/app/src/a.py", False),  # another project of the name is there
        ("/gone/other/src/a.py", False),
        ("/gone/app/lib/src/a.py", False),
        ("/src/a.py", False),
        ("{}/app/xsrc/a.py", False),
        ("xsrc/a.py", False),
        ("{}/app/src/a.pyc", False),
        ("a.py", False),
        ("", False),
    ],
)
def test_a_path_is_the_file_below_a_root_that_is_there_or_was(
    app: Path, path: str, is_it: bool
) -> None:
    asked = Target((str(app),), ["src/a.py", "old/b.py"])
    assert asked.has(path.format(app.parent)) is is_it


def test_the_names_of_a_file_are_so_many_and_each_once() -> None:
    paths = ["src/a.py", "lib/a.py", *(f"src/{number}.py" for number in range(30))]
    names = Target(("/p",), paths).names
    assert names[:2] == ["a.py", "0.py"]
    assert len(names) == MAX_NAMES


def test_a_file_outside_of_a_repository_is_known_by_its_folder(app: Path) -> None:
    found = known_file(os.path.relpath(app / "src" / "a.py"))
    assert (found.path, found.below) == (str(app / "src" / "a.py"), "a.py")
    assert found.target == Target((str(app / "src"),), ["a.py"])
    assert (found.repository, found.versions, found.versions_since(0)) == (None, [], [])
    with pytest.raises(UsageError, match="app is a folder"):
        known_file(str(app))


def test_a_file_of_text_is_read_whatever_its_bytes(app: Path) -> None:
    file = app / "a.py"
    file.write_bytes(b"a\xff\r\n" + b"x" * 7996 + b"\0")
    assert read_text(str(file)) == "a\ufffd\r\n" + "x" * 7996 + "\0"


def test_a_file_that_has_no_lines_is_refused(app: Path) -> None:
    file = app / "a.py"
    with pytest.raises(StorageError, match="there is no file") as missing:
        read_text(str(file))
    assert missing.value.step == "see history"
    with pytest.raises(UsageError, match="is not a file"):
        read_text(str(app))
    file.write_bytes(b"x" * 7999 + b"\0")
    with pytest.raises(UsageError, match="is binary"):
        read_text(str(file))
    os.truncate(file, 64 << 20)
    with pytest.raises(UsageError, match="is binary"):
        read_text(str(file))
    os.truncate(file, (64 << 20) + 1)
    with pytest.raises(UsageError, match="has over 64 MiB"):
        read_text(str(file))
