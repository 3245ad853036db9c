"""The sessions that many tests here start from."""

from tests.support.started import file, session

__all__ = ["file", "session"]
