"""An agent of pydantic-ai. It keeps its conversation in a session, and goes on from there.

    pip install 'sessiontree[pydantic-ai]' openai
    python examples/pydantic_ai_agent.py FOLDER

Each line of the standard input is a prompt. The line `back` leaves the last prompt and its answers;
they stay in the session as a branch.
"""

import subprocess
import sys
from pathlib import Path

import anyio
from pydantic_ai import Agent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, UserPromptPart

from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore

agent = Agent(
    "openai-responses:gpt-5", instructions="Use the tools to answer.", defer_model_check=True
)


@agent.tool_plain
def read(path: str) -> str:
    """Read a text file."""
    return Path(path).read_text()


@agent.tool_plain
def bash(command: str) -> str:
    """Run a shell command."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=600)
    return f"{done.stdout}{done.stderr}(exit code {done.returncode})"


def before_last_prompt(messages: list[ModelMessage]) -> int:
    """How many messages come before the last prompt."""
    prompts = [
        number
        for number, message in enumerate(messages)
        if any(isinstance(part, UserPromptPart) for part in message.parts)
    ]
    return prompts[-1] if prompts else 0


async def main(folder: str) -> None:
    store = SessionTreeConversationStore(folder)
    for line in sys.stdin:
        conversation = await store.load("chat") or Conversation(conversation_id="chat")
        if line.strip() == "back" and conversation.revision is not None:
            at = before_last_prompt(conversation.messages)
            await store.branch("chat", at=at, expected_revision=conversation.revision)
            continue
        result = await agent.run(line.strip(), conversation=conversation)
        await store.save(result)
        print(result.output)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
