"""Gives batches of one session to a store, as one of several processes: `ROOT NAME COUNT`.

Each batch is given twice. A line `NUMBER` on the standard output says that a batch is stored.
"""

import sys
from typing import Any

import anyio

from sessiontree.adapters.claude_agent_sdk import SessionTreeStore

KEY: Any = {"project_key": "p", "session_id": "s"}


def batch(name: str, number: int) -> list[Any]:
    """Two lines of the user, and one without a uuid between them."""
    first, last = (
        {"type": "user", "uuid": f"{name}-{number}-{part}", "message": {"role": "user"}}
        for part in (1, 2)
    )
    return [first, {"type": "mode", "mode": f"{name} {number}"}, last]


async def main(root: str, name: str, count: int) -> None:
    store = SessionTreeStore(root)
    for number in range(count):
        await store.append(KEY, batch(name, number))
        print(number, flush=True)
        await store.append(KEY, batch(name, number))


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], int(sys.argv[3]))
