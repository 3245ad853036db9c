"""The session files that many tests here begin with."""

from tests.support.files import file, path

__all__ = ["file", "path"]
