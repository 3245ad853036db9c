"""Sessions for asyncio and trio: the words of `Session` and `Store`, awaited.

`worker` is the thread that runs the calls of one session, `session` and `store` are what users
hold, `iteration` has the iterators and streams that a session gives them.
"""

from sessiontree.aio.session import AsyncSession
from sessiontree.aio.store import AsyncStore, AsyncStreamAccumulator

__all__ = ["AsyncSession", "AsyncStore", "AsyncStreamAccumulator"]
