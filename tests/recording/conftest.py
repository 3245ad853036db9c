"""The session file that many tests here begin with."""

from tests.support.files import file

__all__ = ["file"]
