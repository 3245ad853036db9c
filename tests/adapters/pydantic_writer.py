"""Saves turns of conversations, as one of several processes: `ROOT ID,… NAME COUNT`."""

import sys
from pathlib import Path

import anyio
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

from sessiontree.adapters.pydantic_ai import SessionTreeConversationStore


async def main(root: str | Path, id: str, name: str, count: int) -> None:
    store = SessionTreeConversationStore(root)
    number = 0
    while number < count:
        conversation = await store.load(id) or Conversation(conversation_id=id)
        prompt = ModelRequest(parts=[UserPromptPart(f"{name} {number}")])
        conversation.messages.append(prompt)
        try:
            await store.save(conversation)
        except ConversationConflict:
            continue
        number += 1


if __name__ == "__main__":
    for id in sys.argv[2].split(","):
        anyio.run(main, sys.argv[1], id, sys.argv[3], int(sys.argv[4]))
