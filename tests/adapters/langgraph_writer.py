"""Puts checkpoints in one thread, as one of several processes."""

from pathlib import Path

from langchain_core.messages import HumanMessage

from sessiontree.adapters.langgraph import SessionTreeSaver
from tests.adapters.langgraph_thread import Thread


def main(root: Path, name: str, writer: str, count: int) -> None:
    thread = Thread(SessionTreeSaver(root), name)
    for number in range(count):
        messages = [HumanMessage(f"{writer} {step}") for step in range(number + 1)]
        thread.put({"messages": messages})
        thread.write([("messages", f"{writer} {number}")], task=f"{writer} {number}")
