"""A plugin whose handles are made of handles of any other plugin.

    pip install sessiontree
    python examples/composite_plugin.py chat.jsonl HANDLE…

The program appends one handle to the session, that of a brief with all given HANDLEs in it, and
prints the messages that a model gets. A HANDLE may be of any plugin: a file below the working
directory, an entry of another session, or a brief of `chat.jsonl.briefs`, too.

The plugin knows no other plugin: the scope routes each handle to the plugin that owns it. The scope
also finds briefs that contain themselves.
"""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from sessiontree import (
    Handle,
    HandleSchema,
    MetaField,
    Registry,
    ResolvedHandle,
    ResolverScope,
    Session,
)


class Briefs:
    """Lists of handles, each a JSON file of a folder, and the plugin that resolves them."""

    schemas = (
        HandleSchema("brief", "of", "1.x", [MetaField("id", pattern="[0-9a-f]+")], "message"),
    )

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, *handles: str) -> Handle:
        """Store a brief; returns a handle to it."""
        text = json.dumps([str(Handle.parse(handle)) for handle in handles])
        id = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._folder.mkdir(exist_ok=True)
        (self._folder / id).write_text(text)
        return Handle("brief", "1.0.0", "of", (id,))

    def resolve(self, handle: Handle, scope: ResolverScope) -> dict[str, Any]:
        """Make one message of what all handles of a brief point to, in their order."""
        handles = json.loads((self._folder / handle.meta[0]).read_text())
        parts = scope.resolve_many([Handle.parse(each) for each in handles])
        texts = [
            text_of(part) if isinstance(part, ResolvedHandle) else f"[{part}]" for part in parts
        ]
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def text_of(found: ResolvedHandle) -> str:
    """Return the content of a handle as text, by its kind."""
    if found.kind == "message":
        content = found.data["content"]
        if isinstance(content, str):
            return content
        return "\n".join(block.get("text", f"[{block['type']}]") for block in content)
    if found.kind == "output":
        return str(found.data["stdout"])
    if found.kind == "binary":
        return bytes(found.data).decode(errors="replace")
    return json.dumps(found.data)


def main(file: str, *handles: str) -> None:
    briefs = Briefs(Path(f"{file}.briefs"))
    Registry.default().register(briefs)
    with Session.open_or_create(file, root=".") as session:
        session.append_handle(briefs.add(*handles), role="user", preview="a brief")
        context = session.context()
        for message in context.messages:
            print(f"{message['role']}: {message['content']}")
        for warning in context.warnings:
            print(warning, file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
