"""A stretch of a path: entries one behind the other, each read when somebody asks for it.

Half a million entries may be left behind by one move, which a summarizer looks through
once: together in memory they would take thirty times what the whole tree does.

Invariant: of the entries none is kept, but where each lies in the file.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from sessiontree.core.entry import Entry

if TYPE_CHECKING:
    from sessiontree.engine.reader import Reader
    from sessiontree.engine.view import View


class PathSlice(Sequence[Entry]):
    """Some entries of a path, root first.

    Args:
        session: whose they are.
        view: its view of the file that they are in, as it is now.
        offsets: where each lies.

    Raises:
        FileReplacedError: one is not there any more when it is asked for.
        StorageError: another file took that one's place, and the session went on with it.
    """

    def __init__(self, session: Reader, view: View, offsets: array[int]) -> None:
        self._session = session
        self._view = view
        self._offsets = offsets

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> PathSlice: ...
    def __getitem__(self, at: int | slice) -> Entry | PathSlice:
        if isinstance(at, slice):
            return PathSlice(self._session, self._view, self._offsets[at])
        return next(iter(PathSlice(self._session, self._view, array("q", [self._offsets[at]]))))

    def __iter__(self) -> Iterator[Entry]:
        lines = self._view.lines_at(self._offsets)
        for offset, line in zip(self._offsets, lines, strict=True):
            found = self._view.decode(line, offset)
            if found is None:
                raise self._session._changed(offset)
            yield found
