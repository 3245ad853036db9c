"""Ctrl-C at a chosen moment of the package's code."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any, Final

import sessiontree

PACKAGE: Final = os.path.dirname(sessiontree.__file__) + os.sep
CODE: Final = (PACKAGE, contextlib.__file__)
"""The beginnings of the files that are interrupted."""

Work = Generator[None, None, None]
"""Prepares itself, yields, and then does what is interrupted."""


class Interrupt:
    """Raises `KeyboardInterrupt` in front of a line.

    Args:
        at: the number of the moment, from 0, in the order in which they come; -1: none.

    Attributes:
        moments: the file and the line of each moment so far.
        place: where it was raised; empty: nowhere.
    """

    def __init__(self, at: int) -> None:
        self._at = at
        self.moments: list[tuple[str, int]] = []
        self.place = ""

    def run(self, work: Work) -> None:
        """Do what is interrupted, and catch the interrupt."""
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            next(work, None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)

    def _trace(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(CODE):
            return None
        if event == "line":
            self._pass(frame)
        return self._trace

    def _pass(self, frame: FrameType) -> None:
        file, line = frame.f_code.co_filename, frame.f_lineno
        self.moments.append((file, line))
        if len(self.moments) - 1 == self._at:
            self.place = f"{file.removeprefix(PACKAGE)}:{line}, moment {self._at}"
            raise KeyboardInterrupt


class Signal(Interrupt):
    """Raises `KeyboardInterrupt` where Python does: after a call, and when a function begins."""

    def run(self, work: Work) -> None:
        before = sys.getprofile()
        sys.setprofile(self._profile)
        try:
            next(work, None)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(before)

    def _profile(self, frame: FrameType, event: str, _: object) -> None:
        begins = event == "call" and frame.f_lasti <= 0
        if (begins or event == "c_return") and frame.f_code.co_filename.startswith(CODE):
            self._pass(frame)
