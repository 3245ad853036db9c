"""The sessions that many tests here start from."""

from tests.support.started import copy, file, main, reading, session, stored

__all__ = ["copy", "file", "main", "reading", "session", "stored"]
