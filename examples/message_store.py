"""A chat whose messages are in a database of your own. The session has handles to them.

    pip install sessiontree
    python examples/message_store.py chat.jsonl

Each line of the standard input is a prompt. One that begins with `?` is only tried: neither it nor
its answer is in later contexts. The database is `chat.jsonl.db`. No model is called: call yours in
`answer`.

Drawings and lists show the preview of a handle. Only a context asks the database, once for all of
its messages.
"""

import json
import sqlite3
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from sessiontree import Handle, HandleSchema, MetaField, Registry, ResolverScope, Session

Message = Mapping[str, Any]


class MessageStore:
    """Messages in SQLite, and the plugin that resolves handles to them."""

    schemas = (
        HandleSchema(
            "chat",
            "message",
            "1.x",
            [MetaField("id"), MetaField("role", required=False)],
            "message",
        ),
    )

    def __init__(self, file: str) -> None:
        self._database = sqlite3.connect(file, isolation_level=None)
        self._database.execute(
            "CREATE TABLE IF NOT EXISTS messages (id PRIMARY KEY, role, content)"
        )

    def add(self, role: str, content: str) -> Handle:
        """Store a message; returns a handle to it. The role in the handle is for people."""
        id = str(uuid4())
        self._database.execute("INSERT INTO messages VALUES (?, ?, ?)", (id, role, content))
        return Handle("chat", "1.0.0", "message", (id, role))

    def resolve(self, handle: Handle, scope: ResolverScope) -> Message:
        (found,) = self.resolve_many([handle], scope)
        if isinstance(found, Exception):
            raise found
        return found

    def resolve_many(
        self, handles: Sequence[Handle], scope: ResolverScope
    ) -> list[Message | Exception]:
        """Return the message of each handle, or an error: a message may have been deleted."""
        ids = [handle.meta[0] for handle in handles]
        query = "SELECT * FROM messages WHERE id IN (SELECT value FROM json_each(?))"
        rows = self._database.execute(query, [json.dumps(ids)])
        messages = {id: {"role": role, "content": content} for id, role, content in rows}
        return [messages.get(id) or LookupError(f"there is no message {id}") for id in ids]


def answer(messages: Sequence[Message]) -> str:
    """Stands for a model: it says what it was given."""
    return f"{len(messages)} messages, the last one: {messages[-1]['content']}"


def chat(session: Session, store: MessageStore, prompt: str) -> str:
    """Add a prompt and the answer to it, as messages of the store and handles of the session."""
    session.append_handle(store.add("user", prompt), role="user", preview=prompt[:80])
    context = session.context()
    for warning in context.warnings:
        print(warning, file=sys.stderr)
    said = answer(context.messages)
    session.append_handle(store.add("assistant", said), role="assistant", preview=said[:80])
    return said


def main(file: str) -> None:
    store = MessageStore(f"{file}.db")
    Registry.default().register(store)
    with Session.open_or_create(file) as session:
        for line in sys.stdin:
            prompt = line.strip()
            if not prompt.startswith("?"):
                print(chat(session, store, prompt))
                continue
            with session.scratch() as trial:  # gc removes its entries; see Session.keep
                print(chat(trial, store, prompt.removeprefix("?").strip()))
        print(*session.render(), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
