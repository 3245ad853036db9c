"""Puts checkpoints in one thread, as one of several processes: `ROOT THREAD NAME COUNT`."""

import sys

from langchain_core.messages import HumanMessage

from sessiontree.adapters.langgraph import SessionTreeSaver
from tests.adapters.langgraph_thread import Thread

if __name__ == "__main__":
    root, name, writer, count = sys.argv[1:]
    thread = Thread(SessionTreeSaver(root), name)
    for number in range(int(count)):
        messages = [HumanMessage(f"{writer} {step}") for step in range(number + 1)]
        thread.put({"messages": messages})
        thread.write([("messages", f"{writer} {number}")], task=f"{writer} {number}")
