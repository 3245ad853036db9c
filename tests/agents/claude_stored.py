"""Says one prompt to Claude Code through its SDK, with a store of ours: `ROOT PROMPT [ID] [fork]`.

It goes on with the session of the id, or with a copy of it, and prints the id of the session.
"""

import sys

import anyio
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from sessiontree.adapters.claude_agent_sdk import SessionTreeStore
from tests.agents.claude_code import TOOLS


async def main(root: str, prompt: str, *about: str) -> None:
    options = ClaudeAgentOptions(
        session_store=SessionTreeStore(root),
        allowed_tools=TOOLS.split(","),
        resume=about[0] if about else None,
        fork_session="fork" in about,
    )
    async for message in query(prompt=prompt, options=options):
        if isinstance(message, ResultMessage):
            print(message.session_id)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2], *sys.argv[3:])
