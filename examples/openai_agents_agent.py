"""An agent of the OpenAI Agents SDK. It keeps its items in a session, and goes on from there.

    pip install 'sessiontree[openai-agents]'
    python examples/openai_agents_agent.py FOLDER

Each line of the standard input is a prompt. The line `back` goes on before the last prompt; that
prompt and its answers stay in the session as a branch.
"""

import subprocess
import sys
from pathlib import Path

import anyio
from agents import Agent, Runner, function_tool, set_tracing_disabled

from sessiontree.adapters.openai_agents import SessionTreeSession

set_tracing_disabled(True)


@function_tool
def read(path: str) -> str:
    """Read a text file."""
    return Path(path).read_text()


@function_tool
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600)
    return f"{done.stdout}{done.stderr}(exit code {done.returncode})"


async def main(folder: str) -> None:
    agent = Agent("coder", instructions="Use the tools to answer.", tools=[read, bash])
    session = SessionTreeSession("chat", folder)
    for line in sys.stdin:
        if line.strip() == "back":
            turns = await session.get_conversation_turns()
            await session.create_branch_from_turn(len(turns))
            continue
        result = await Runner.run(agent, line.strip(), session=session)
        await session.store_run_usage(result)
        print(result.final_output)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
