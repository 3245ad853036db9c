"""A home with sessions of all agents and of sessiontree, the same bytes in a folder of one name.

Nothing of sessiontree is imported, so that a home is the same whatever the product does. Agents
edit the files of a git repository that is there too. `scale` gives more and longer sessions.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from fixtures.source.case import blob, sealed, spelled
from tests.history.agents import AGENTS, Agent, ClaudeCode, Codex, environment, stamp
from tests.history.edits import Edit, Outcome, Pair

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
BEGAN: Final = datetime(2029, 10, 1, 8, tzinfo=UTC)
SAMPLES: Final = {
    "claude_code/2.1.330": "claude/projects/-home-user-project",
    "codex/0.169.0": "codex",
    "pi/1.5.2": "pi/sessions/--project--",
    "gemini/0.61.0": "gemini/.gemini",
}
"""What the agents themselves wrote, and where they keep it below `homes`."""

STORE: Final = "homes/user/data/sessiontree"
PROJECTS: Final = ("-elsewhere", "-work-app", "-work-app")
_TEXT: Final = (
    "retry the request when the server is busy and wait longer each time so that a queue of "
    "callers does not fill again 文書 naïve → `code` **bold** <b>tag</b> parser index tree leaf"
)
WORDS: Final = tuple(_TEXT.split())
PNG: Final = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
)
OUTCOMES: Final[tuple[Outcome, ...]] = ("done", "done", "failed", "done", "refused", "open")

Keys = dict[str, Any]


def make_home(folder: Path, scale: int = 1) -> dict[str, str]:
    """Make the home; the variables by which sessiontree finds it."""
    homes, work = folder / "homes", folder / "work/app"
    environ = environment(homes)
    for variable in environ.values():
        Path(variable).mkdir(parents=True, exist_ok=True)
    for sample, target in SAMPLES.items():
        shutil.copytree(FIXTURES / "agents" / sample, homes / target, dirs_exist_ok=True)
    files = _project(work)
    for number in range(16 * scale):
        _agent_at_work(AGENTS[number % 4], number, homes, work, files)
    _claude_with_files_beside(homes, work)
    for repeat in range(scale):
        for number, (name, make) in enumerate(OWN.items()):
            own = Own(f"{name}-{repeat}" if repeat else name, number + 100 * repeat, work)
            make(own)
            own.save(folder / STORE / PROJECTS[number % 3])
    (folder / STORE / "-elsewhere/version-1.jsonl").write_bytes(_version_1())
    return environ


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


# The agents at work in a repository


def _project(work: Path) -> dict[Path, str]:
    """A repository with a commit of a person; its files."""
    rng = random.Random("project")
    files = {
        work / name: "".join(f"{n}: {_words(rng, 6)}\n" for n in range(12))
        for name in ("app/server.py", "app/store.py", "docs/guide.md")
    }
    _write(files)
    _git(work, "init", "-q", "-b", "main")
    _git(work, "add", "-A")
    _git(work, "commit", "-q", "-m", "Start the project")
    return files


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _git(work: Path, *words: str) -> None:
    who = {"NAME": "Robin", "EMAIL": "robin@example.org", "DATE": "1885000000 +0000"}
    environ = {f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who}
    environ |= {"PATH": os.environ["PATH"], "HOME": str(work), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *words], cwd=work, env=environ, check=True)


def _agent_at_work(
    kind: type[Agent], number: int, homes: Path, work: Path, files: dict[Path, str]
) -> None:
    """A session of some turns, in which an agent reads, edits and writes files."""
    rng = random.Random(f"{kind.name} {number}")
    at = BEGAN + timedelta(hours=7 * number)
    agent = kind(rng, homes, work if number % 5 else work.parent, at)
    for turn in range(2 + number % 3):
        at += timedelta(minutes=rng.randrange(1, 9))
        agent.prompt(at, f"{_words(rng, 5 + 30 * (turn % 2))}?")
        path = sorted(files)[rng.randrange(len(files))]
        agent.read(at, path, files[path])
        outcome = OUTCOMES[(number + turn) % len(OUTCOMES)]
        edit = _an_edit(rng, path, files[path])
        agent.edit(at, agent.call(), [edit], outcome)
        if outcome == "done":
            files[path] = edit.after or ""
        new = work / f"notes/{kind.name} {number}.md"
        agent.write(at, agent.call(), Edit(new, files.get(new), text := _words(rng, 20)), "done")
        files[new] = text
        agent.shell(at, agent.call(), f"grep -n {rng.choice(WORDS[:9])} app/*.py", _words(rng, 9))
        if isinstance(agent, ClaudeCode) and turn == 1:
            agent.begin_subagent(at, f"Find {_words(rng, 4)}")
            agent.read(at, path, files[path])
            agent.end_subagent(at)
        if turn and (number + turn) % 3 == 0:
            agent.go_back(at)
            agent.prompt(at, f"Rather {_words(rng, 3)}")
    _write(files)
    file = agent.save()
    if isinstance(agent, ClaudeCode) and number % 8 == 0:
        agent.copied(at).save()
    if isinstance(agent, Codex) and number % 8 == 1:
        with file.open("a") as opened:
            opened.write('{"timestamp":"2029-10-02T08:00:00.000Z","type":"event_m')


def _an_edit(rng: random.Random, path: Path, text: str) -> Edit:
    """A change of one line."""
    old = rng.choice([line for line in text.splitlines() if line])
    pair = Pair(old, f"{old} {_words(rng, 2)}")
    return Edit(path, text, text.replace(*pair), (pair,))


def _claude_with_files_beside(homes: Path, work: Path) -> None:
    """A session with a stored result, a compaction, a title and a prompt from the queue."""
    agent = ClaudeCode(random.Random("beside"), homes, work, BEGAN)
    agent.prompt(BEGAN, "List all files")
    folder = homes / "claude/projects" / str(work).replace("/", "-") / agent.id / "tool-results"
    stored = folder / "b1.txt"
    said = f"<persisted-output>\nFull output saved to: {stored}\n\nPreview:\n…</persisted-output>"
    agent.shell(BEGAN, agent.call(), "find .", said)
    file = agent.save()
    folder.mkdir(parents=True)
    stored.write_text("a line\n" * 9000)
    last = json.loads(file.read_text().splitlines()[-1])
    about = {key: last[key] for key in ("cwd", "sessionId", "version", "isSidechain")}
    ids = [str(UUID(int=n << 64, version=4)) for n in range(1, 4)]
    at = [stamp(BEGAN + timedelta(minutes=n)) for n in range(3, 9)]
    boundary: Keys = {"type": "system", "subtype": "compact_boundary", "content": "Compacted"}
    boundary |= {"logicalParentUuid": last["uuid"], "compactMetadata": {"trigger": "auto"}}
    summary = {"type": "user", "isCompactSummary": True}
    lines: list[Keys] = [
        {**about, **boundary, "parentUuid": None, "uuid": ids[0], "timestamp": at[0]},
        {**about, **summary, "parentUuid": ids[0], "uuid": ids[1], "timestamp": at[1]},
        {**about, "type": "user", "parentUuid": ids[1], "uuid": ids[2], "timestamp": at[2]},
        {"type": "ai-title", "aiTitle": "Listing files", "sessionId": agent.id},
        {"type": "queue-operation", "operation": "enqueue", "content": "and then?"},
    ]
    lines[1]["message"] = {"role": "user", "content": "The files were listed."}
    lines[2]["message"] = {"role": "user", "content": [{"type": "text", "text": "Go on"}]}
    lines[4] |= {"sessionId": agent.id, "timestamp": at[3]}
    with file.open("a") as opened:
        opened.writelines(json.dumps(line) + "\n" for line in lines)


# Sessions of sessiontree


class Own:
    """Writes a session of sessiontree entry by entry."""

    def __init__(self, name: str, number: int, cwd: Path, **header: Any) -> None:
        self.rng = random.Random(name)
        self.name = name
        self._at = BEGAN + timedelta(hours=5 * number)
        self._blobs: dict[str, bytes] = {}
        self._lines: list[bytes] = []
        self.leaf: str | None = None
        about: Keys = {"version": 2, "format": "sessiontree/2", "id": self._uuid(), "cwd": str(cwd)}
        self.add("session", **about, **header)

    def _uuid(self) -> str:
        return str(UUID(int=self.rng.getrandbits(128), version=4))

    def add(self, type: str, below: str | None = None, lane: str = "", **fields: Any) -> str:
        """An entry below another, by default the one before; its uuid."""
        self._at += timedelta(seconds=self.rng.randrange(1, 90))
        keys: Keys = {"type": type, **({"version": 2} if type == "session" else {})}
        keys |= {"uuid": self._uuid(), "parentUuid": below or self.leaf}
        keys |= {"lane": lane} if lane else {}
        self.raw(sealed(spelled({**keys, "timestamp": stamp(self._at), **fields})))
        self.leaf = keys["uuid"]
        return str(self.leaf)

    def raw(self, line: bytes) -> None:
        self._lines.append(line + b"\n")

    def say(self, role: str = "user", content: Any = None, **where: Any) -> str:
        """A message; by default of some words."""
        more = {key: where.pop(key) for key in ("model", "usage", "toolCallId") if key in where}
        content = content or _words(self.rng, self.rng.randrange(3, 40))
        return self.add("message", message={"role": role, "content": content, **more}, **where)

    def turn(self, **where: Any) -> str:
        """A prompt, a call with its result, and an answer with its usage; the answer."""
        self.say(**where)
        below = {"lane": where["lane"]} if "lane" in where else {}
        id = f"toolu_{self.rng.getrandbits(64):x}"
        call = {"type": "toolCall", "id": id, "name": "read", "arguments": {"path": "app/store.py"}}
        self.say("assistant", [{"type": "text", "text": "I look."}, call], **below)
        self.say("toolResult", [{"type": "text", "text": "0: x"}], toolCallId=id, **below)
        usage = {"input": self.rng.randrange(9999), "output": 40, "cacheRead": 7}
        about = {"model": "claude-opus-4-6", "usage": usage}
        text = {"type": "text", "text": _words(self.rng, 30)}
        return self.say("assistant", [text], **about, **below)

    def store(self, content: bytes, media_type: str) -> str:
        """Store a blob; its handle."""
        self._blobs[hashlib.sha256(content).hexdigest()] = content
        return blob(content, media_type)

    def save(self, folder: Path) -> None:
        file = folder / f"{self.name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(self._lines))
        for name, content in self._blobs.items():
            (folder / f"{file.name}.blobs").mkdir(exist_ok=True)
            (folder / f"{file.name}.blobs" / name).write_bytes(content)


def _plain(own: Own) -> None:
    own.add("session_info", name="A plain talk")
    for _ in range(3):
        own.turn()


def _branches(own: Own) -> None:
    first = own.turn()
    second = own.turn()
    left = own.turn()
    own.add("branch_summary", first, summary=_words(own.rng, 9), fromUuid=left)
    own.turn()
    own.add("branch", second, name="other way")
    own.turn()
    own.add("branch", first)
    own.say()


def _lanes(own: Own) -> None:
    fork = own.turn()
    own.turn(lane="review", below=fork)
    own.turn(below=fork)
    own.say(lane="agent-a1", below=fork)
    own.turn(below=own.say(below=fork))


def _scratch(own: Own) -> None:
    fork = own.turn()
    kept = own.turn(lane="scratch/try", below=fork)
    own.say(lane="scratch/lost", below=fork)
    own.add("branch", kept)
    own.turn()


def _merges(own: Own) -> None:
    base = own.turn()
    side = own.turn()
    own.add("branch", base)
    own.turn()
    own.add("merge", mergedUuid=side, baseUuid=base)
    own.add("merge", mergedUuid=side, baseUuid=base, summary="both ways")
    own.say("assistant", "Merged.")


def _compactions(own: Own) -> None:
    own.add("model_change", provider="anthropic", modelId="claude-opus-4-6")
    for number in range(3):
        own.turn()
        kept = own.turn()
        state = {"model": None, "thinkingLevel": None, "system": None, "name": None}
        summary = f"In short {number}: {_words(own.rng, 12)}"
        own.add(
            "compaction", summary=summary, firstKeptEntryUuid=kept, tokensBefore=900, state=state
        )
    own.turn()


def _edits(own: Own) -> None:
    dropped, replaced = own.say(), own.say()
    own.turn()
    own.add("context_edit", targetUuid=dropped, replacement=None)
    own.add("context_edit", targetUuid=replaced, replacement={"content": "shorter"})
    own.add("label", targetUuid=replaced, label="shorter")
    own.add("label", targetUuid=dropped, label="gone")
    own.add("label", targetUuid=dropped, label=None)
    own.turn()


def _handles(own: Own) -> None:
    first = own.turn()
    image = own.store(PNG, "image/png")
    own.add("handle", handle=image, kind="binary", role="user", preview="a picture")
    own.add("handle", handle="file@1.0.0::path:app/store.py", kind="document")
    own.add("handle", handle=f"session@2.0.0::entry:nowhere:{first}", kind="message")
    own.add("handle", handle="unknown@3.1.0::item:x%3Ay", kind="output")
    own.say("assistant", "I see.")


def _spilled(own: Own) -> None:
    text = _words(own.rng, 9000)
    handle = own.store(text.encode(), "text/plain")
    spilled = [[["message", "content"], handle]]
    own.add("message", message={"role": "user", "content": handle}, spilled=spilled)
    data = base64.b64encode(PNG).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    own.say("user", [{"type": "image", "source": source}, {"type": "text", "text": "What is it?"}])
    own.say("assistant", "A pixel.")


def _streamed(own: Own) -> None:
    own.say()
    for index, last in enumerate(("whole", "partial")):
        message = f"{index + 1:08x}-0000-4000-8000-000000000000"
        for part in range(3):
            block = {"type": "text", "text": f"{last} {part}"}
            own.add("block", messageUuid=message, index=part, block=block)
        if last == "whole":
            own.add("message_end", messageUuid=message, role="assistant", model="gpt-5")
            own.say()


def _asides(own: Own) -> None:
    fork = own.turn()
    pushed = own.add("stack_push", note="a question aside")
    inner = own.turn()
    own.add("stack_summary", pushed, summary="answered", fromUuid=inner)
    own.add("usage", kind="summary", provider="openai", model="gpt-5", usage={"input": 9})
    own.add("thinking_level_change", thinkingLevel="high")
    own.add("custom", customType="note", data={"k": [1, None]})
    own.add("custom_message", customType="hint", content="mind this", display=False)
    own.add("x-invented", fork, what="kept")
    own.say("bashExecution", "ls")


def _secrets(own: Own) -> None:
    token = "ghp_" + hashlib.sha256(b"a").hexdigest()[:36]
    own.say("user", f"export GITHUB_TOKEN={token}\npassword: hunter2secret9 in {own.name}")
    own.say("assistant", f"curl -H 'Authorization: Bearer {token}' https://user:pw1234@example.org")


def _damaged(own: Own) -> None:
    first = own.turn()
    own.raw(b"not a line of JSON")
    own.raw(sealed(b'{"type":"message","uuid":"bad","parentUuid":"nobody"}'))
    own.raw(b"\0\0\0\0")
    own.raw(b'{"type":"message","uuid":"%s","message":{},"crc":"00000000"}' % first.encode())
    own.raw(b"")
    own.turn(below=first)
    own.raw(b'{"type":"message","uuid":"torn","mess')
    own._lines[-1] = own._lines[-1].rstrip(b"\n")


def _mixed(own: Own) -> None:
    """Much of all, at random."""
    own.add("session_info", name="Mixed work")
    answers = [own.turn()]
    for _ in range(24):
        what = own.rng.randrange(8)
        if what < 3:
            answers.append(own.turn())
        elif what == 3:
            own.add("branch", own.rng.choice(answers))
            answers.append(own.turn())
        elif what == 4:
            own.add("label", targetUuid=own.rng.choice(answers), label=f"mark-{len(answers)}")
        elif what == 5:
            own.add("compaction", summary="short", firstKeptEntryUuid=answers[-1], tokensBefore=9)
        elif what == 6:
            own.add("context_edit", targetUuid=answers[-1], replacement=None)
        else:
            own.add("merge", mergedUuid=own.rng.choice(answers), baseUuid=answers[0])


OWN: Final[dict[str, Callable[[Own], None]]] = {
    "plain": _plain,
    "branches": _branches,
    "lanes": _lanes,
    "scratch": _scratch,
    "merges": _merges,
    "compactions": _compactions,
    "edits": _edits,
    "handles": _handles,
    "spilled": _spilled,
    "streamed": _streamed,
    "asides": _asides,
    "secrets": _secrets,
    "damaged": _damaged,
    "mixed": _mixed,
}


def _version_1() -> bytes:
    rng = random.Random("version 1")
    lines: list[Keys] = [
        {"type": "session", "id": "old-1", "timestamp": stamp(BEGAN), "cwd": "/old"}
    ]
    for number in range(8):
        role = "assistant" if number % 2 else "user"
        message = {"role": role, "content": _words(rng, 8)}
        lines.append({"type": "message", "timestamp": stamp(BEGAN), "message": message})
    lines.append({"type": "compaction", "summary": "old", "firstKeptEntryIndex": 5})
    return b"".join(spelled(line) + b"\n" for line in lines)


def file_of(name: str) -> str:
    """The path of a session of the store in the home."""
    return f"{STORE}/{PROJECTS[[*OWN].index(name) % 3]}/{name}.jsonl"
