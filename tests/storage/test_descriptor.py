"""A descriptor has one owner, which closes it once."""

from __future__ import annotations

import copy
import os
import pickle
from pathlib import Path

import pytest

from sessiontree.storage.fs import CREATE, DISK, LOCK, READ, Descriptor, Disk, LockDescriptor
from tests.support.table import for_each


class Interrupted(Disk):
    """A disk whose `close` is interrupted right after the system closed the descriptor."""

    def close(self, fd: int) -> None:
        super().close(fd)
        raise KeyboardInterrupt


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "file")
    with Descriptor(DISK, DISK.open(path, CREATE)) as fd:
        DISK.write(fd, b"content")
    return path


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_descriptor_that_was_closed_is_never_closed_again(file: str, tmp_path: Path) -> None:
    owner = Descriptor(Interrupted(), DISK.open(file, READ))
    number = owner.number
    with pytest.raises(KeyboardInterrupt):
        owner.close()
    with (tmp_path / "other").open("wb") as other:
        assert other.fileno() == number
        owner.close()
        del owner
        assert is_open(number)


def test_an_owner_that_is_dropped_closes_its_descriptor(file: str) -> None:
    owner = Descriptor(DISK, DISK.open(file, READ))
    number = owner.number
    del owner
    assert not is_open(number)


@for_each("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_owner_cannot_be_copied(take: object, file: str) -> None:
    assert callable(take)
    with Descriptor(DISK, DISK.open(file, READ)) as fd:
        owner = Descriptor(DISK, os.dup(fd))
        with pytest.raises(TypeError, match="one owner"):
            take(owner)
        owner.close()


def test_a_lock_is_free_before_its_descriptor_is_given_up(file: str) -> None:
    class Refuses(Disk):
        def close(self, fd: int) -> None:
            raise KeyboardInterrupt

    owner = LockDescriptor(Refuses(), DISK.open(file, LOCK))
    number = owner.number
    assert owner.lock()
    with pytest.raises(KeyboardInterrupt):
        owner.close()
    try:
        other = LockDescriptor(DISK, DISK.open(file, LOCK))
        with other:
            assert other.lock()
    finally:
        os.close(number)
