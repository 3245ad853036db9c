"""Adds items to one session, as one of several processes."""

from pathlib import Path

from sessiontree.adapters.openai_agents import SessionTreeSession


async def main(root: Path, id: str, name: str, count: int) -> None:
    session = SessionTreeSession(id, root)
    for number in range(count):
        await session.add_items([{"role": "user", "content": f"{name} {number}"}])
