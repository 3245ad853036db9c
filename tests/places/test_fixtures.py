"""Each session of `fixtures/` is the same at an address as in a file, damaged ones too."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from sessiontree import Session
from sessiontree.errors import SessionTreeError, hearing
from sessiontree.session import repair_file
from sessiontree.storage.log import Log
from sessiontree.storage.place import Place
from tests.places.kinds import opened
from tests.support.soak import in_soak

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
SESSIONS: Final = sorted(FIXTURES.glob("*/session.jsonl"))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with opened("postgres", tmp_path_factory.mktemp("place")) as (made, _):
        yield made


def _seen(file: str) -> object:
    """All that a reader sees of a session, but for the blobs, which stay with the file."""
    try:
        with hearing(lambda warning, _: None), Session.open(file, readonly=True) as session:
            return (
                [entry.line for entry in session.entries()],
                [entry.offset for entry in session.path()],
                [[entry.offset for entry in session.path(b.leaf)] for b in session.branches()],
                [(d.kind, d.offset) for d in session.verify() if not d.kind.startswith("blob")],
            )
    except SessionTreeError as error:
        return type(error)


def _content(log: Log) -> bytes:
    with contextlib.closing(log):
        return log.read(0, log.size())


@pytest.mark.slow
@in_soak("every", 12, 1)
def test_a_session_reads_and_is_repaired_at_an_address_as_in_a_file(
    every: int, place: Place, tmp_path: Path
) -> None:
    for file in SESSIONS[::every]:
        folder = tmp_path / file.parent.name
        folder.mkdir()
        _check(file, place, folder)


def _check(file: Path, place: Place, tmp_path: Path) -> None:
    copy = tmp_path / "s.jsonl"
    shutil.copy(file, copy)
    name = f"{file.parent.name}/s.jsonl"
    place.create(name, [file.read_bytes()])
    assert _seen(place.address(name)) == _seen(str(copy))
    errors = []
    for each in (str(copy), place.address(name)):
        try:
            with hearing(lambda warning, _: None):
                repair_file(each)
        except SessionTreeError as error:
            errors.append(type(error))
    assert len(errors) in (0, 2)
    assert _content(place.log(name)) == copy.read_bytes()
    assert _seen(place.address(name)) == _seen(str(copy))
