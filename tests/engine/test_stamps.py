"""What tells one entry from another: its uuid, and the moment it was written."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from operator import and_, or_
from pathlib import Path
from uuid import RFC_4122, UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import Entry, Session
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import ReadOnlyError
from tests.support.files import HELLO

FREE = ~(0xF << 76 | 0x3 << 62) & (1 << 128) - 1
"""The bits of a UUID that its version and its variant leave to chance."""


def test_a_fresh_uuid_is_of_version_4_and_spelled_as_the_library_spells_it() -> None:
    for text in (fresh_uuid() for _ in range(300)):
        uuid = UUID(text)
        assert (uuid.version, uuid.variant, str(uuid)) == (4, RFC_4122, text)


def test_every_other_bit_of_a_fresh_uuid_is_left_to_chance() -> None:
    drawn = [UUID(fresh_uuid()).int for _ in range(300)]
    assert reduce(or_, drawn) & FREE == FREE
    assert reduce(and_, drawn) & FREE == 0


@settings(deadline=None)
@given(st.lists(st.integers(0, 4_102_444_800_000_000_000), min_size=1, max_size=4))
@example([999_999_999, 1_000_000_000, 1_000_999_999, 1_001_000_000])
def test_a_moment_is_spelled_to_the_millisecond_below_it(moments: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for nanoseconds in [*moments, *moments]:
            patch.setattr("sessiontree.engine.writer.time_ns", lambda ns=nanoseconds: ns)
            seconds, rest = divmod(nanoseconds, 1_000_000_000)
            moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)
            assert now() == moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Telling:
    """A hook that must not be told."""

    def before_append(self, session: Session, entry: Entry) -> None:
        pytest.fail("told of an entry that may not be written")


def test_no_hook_is_told_of_a_message_that_may_not_be_written(path: Path) -> None:
    reader = Session.open(path, readonly=True, hooks=[Telling()])
    with reader, pytest.raises(ReadOnlyError, match="opened to read"):
        reader.append_message(HELLO)
    with pytest.raises(ReadOnlyError, match="closed"):
        reader.append_message(HELLO)
