"""Adds items to one session, as one of several processes: `ROOT ID NAME COUNT`."""

import sys

import anyio

from sessiontree.adapters.openai_agents import SessionTreeSession


async def main(root: str, id: str, name: str, count: int) -> None:
    session = SessionTreeSession(id, root)
    for number in range(count):
        await session.add_items([{"role": "user", "content": f"{name} {number}"}])


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
