"""Every command of the command line that takes a session, with its arguments."""

from __future__ import annotations

from typing import Final

OWN: Final[dict[str, tuple[str, ...]]] = {
    "append": ("append", "FILE", "--text", "x"),
    "append to a lane": ("append", "FILE", "--text", "x", "--lane", "new"),
    "append to scratch": ("append", "FILE", "--text", "x", "--scratch"),
    "append below": ("append", "FILE", "--text", "x", "--parent", "@~2"),
    "keep": ("keep", "FILE", "l1"),
    "label": ("label", "FILE", "@", "mark"),
    "rename": ("rename", "FILE", "title"),
    "edit-context": ("edit-context", "FILE", "@~1", "--drop"),
    "show": ("show", "FILE"),
    "show an entry": ("show", "FILE", "@~1"),
    "tree": ("tree", "FILE"),
    "tree in full": ("tree", "FILE", "--all"),
    "tree as JSON": ("tree", "FILE", "--json"),
    "branches": ("branches", "FILE"),
    "branches below": ("branches", "FILE", "@~2", "--json"),
    "path": ("path", "FILE"),
    "path as JSON": ("path", "FILE", "--json"),
    "context": ("context", "FILE"),
    "context as JSON": ("context", "FILE", "--json"),
    "context verbatim": ("context", "FILE", "--verbatim", "--json"),
    "context for anthropic": ("context", "FILE", "--to", "anthropic", "--json"),
    "context for responses": ("context", "FILE", "--to", "openai-responses", "--json"),
    "context for chat": ("context", "FILE", "--to", "openai-chat", "--json"),
    "handle resolve": ("handle", "resolve", "FILE"),
    "stats": ("stats", "FILE"),
    "blob ls": ("blob", "ls", "FILE"),
    "blob verify": ("blob", "verify", "FILE"),
    "ls": ("ls", ".", "--branches"),
    "search": ("search", "x", "FILE"),
    "search by pattern": ("search", "--regex", "(a|b)+x", "FILE", "--current", "-i"),
    "search for nothing": ("search", "nowhere", "FILE", "--role", "user", "--blobs"),
    "branch": ("branch", "FILE", "@~1", "--summarize"),
    "branch at the header": ("branch", "FILE", "h"),
    "switch": ("switch", "FILE", "@~2"),
    "rewind": ("rewind", "FILE"),
    "push": ("push", "FILE"),
    "pop": ("pop", "FILE"),
    "pop to the header": ("pop", "FILE", "h"),
    "compact": ("compact", "FILE", "--keep", "0"),
    "compact a half": ("compact", "FILE", "--keep", "1000"),
    "cherry-pick": ("cherry-pick", "FILE", "@~2"),
    "merge": ("merge", "FILE", "b1"),
    "fork": ("fork", "FILE", "new.jsonl"),
    "export-branch": ("export-branch", "FILE", "h", "new.jsonl"),
    "export-branch redacted": ("export-branch", "FILE", "@~2", "new.jsonl", "--redact"),
    "export-branch inline": ("export-branch", "FILE", "@", "new.jsonl", "--inline", "--with-path"),
    "export": ("export", "FILE"),
    "export redacted": ("export", "FILE", "--redact"),
    "convert to pi": ("convert", "FILE", "--to", "pi", "-o", "new.jsonl"),
    "convert to claude-code": ("convert", "FILE", "--to", "claude-code", "-o", "new.jsonl"),
    "convert to atif": ("convert", "FILE", "--to", "atif", "-o", "new.json"),
    "trash": ("trash", "FILE", "--store", "."),
    "verify": ("verify", "FILE"),
    "repair": ("repair", "FILE"),
    "repair dry": ("repair", "FILE", "--dry-run", "--json"),
    "gc": ("gc", "FILE", "--as-of", "2030-01-01"),
    "migrate": ("migrate", "FILE"),
}

FOREIGN: Final[dict[str, tuple[str, ...]]] = {
    name: OWN[name]
    for name in (
        *("show", "tree", "tree as JSON", "branches", "path", "context", "context for anthropic"),
        *("stats", "search", "search by pattern", "ls", "verify", "export", "fork"),
        *("convert to pi", "convert to claude-code", "convert to atif", "export-branch"),
    )
} | {
    "import": ("import", "FILE", "-o", "imported"),
    "import dry": ("import", "FILE", "--dry-run"),
}
