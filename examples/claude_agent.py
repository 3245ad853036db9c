"""An agent of the Claude Agent SDK. It keeps its transcripts in sessions, and goes on from there.

    pip install 'sessiontree[claude-agent-sdk]'
    python examples/claude_agent.py FOLDER

Each line of the standard input is a prompt. The line `fork` goes on in a copy of the session.
"""

import sys

import anyio
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ResultMessage,
    fork_session_via_store,
    list_sessions_from_store,
    query,
)

from sessiontree.adapters.claude_agent_sdk import SessionTreeStore


async def main(folder: str) -> None:
    store = SessionTreeStore(folder)
    listed = await list_sessions_from_store(store)
    session = listed[0].session_id if listed else None
    for line in sys.stdin:
        if line.strip() == "fork" and session is not None:
            session = (await fork_session_via_store(store, session)).session_id
            continue
        options = ClaudeAgentOptions(session_store=store, resume=session, allowed_tools=["Read"])
        async for message in query(prompt=line.strip(), options=options):
            if isinstance(message, ResultMessage):
                session = message.session_id
                print(message.result)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
