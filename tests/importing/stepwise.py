"""What is read of small sessions of other agents, and what imports of their growing files write.

Each sample is read in place, then imported in three steps: its first half, its whole, and its whole
after a user went on with the imported session and the last line was told again with other words.
`python -m tests.importing.stepwise` writes the expectation again, after a change on purpose.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from sessiontree import Session, SessionTreeError
from sessiontree.importing.importer import import_session
from tests.agents import test_codex, test_gemini, test_gemini_today, test_pi
from tests.agents.test_claude_code_threads import CHAINS
from tests.cli.printing import steady
from tests.support.transcripts import Line, assistant, line, result, user, written

EXPECTED: Final = Path(__file__).parent / "stepwise.txt"


def samples() -> Iterator[tuple[str, list[Line]]]:
    """The lines of each sample."""
    yield from ((f"claude-code: {name}", lines) for name, lines in CHAINS.items())
    silent = [line("p", "q", "progress"), line("q", "p", "progress"), line("t", "p", "progress")]
    yield "claude-code: a loop of lines that say nothing", [user("a", None), *silent]
    odd = {"isMeta": 0, "teamName": [], "agentId": 5}
    called = [assistant("b", "a", "m", ["t"], **odd), result("r", "b", "t", **odd)]
    yield "claude-code: values of other types", [user("a", None), *called, user("z", "r", **odd)]
    yield "pi: everything", test_pi.EVERYTHING
    for name, (lines, _) in test_pi.PROMPTS.items():
        yield f"pi: {name}", [test_pi.HEADER, *lines]
    turns = [test_codex.said("user", "one"), test_codex.call("c"), test_codex.output("c")]
    more = [test_codex.said("assistant", "done"), test_codex.said("user", "last")]
    yield "codex", in_lines(test_codex.written, *turns, *more)
    yield "gemini", in_lines(test_gemini.log, *test_gemini.MESSAGES, test_gemini.user("u9", "last"))
    yield "gemini today", in_lines(test_gemini.log, *test_gemini_today.TURN)
    yield "gemini compressed", in_lines(test_gemini.log, *test_gemini_today.COMPRESSED)


def in_lines(write: Callable[..., Path], *given: Any) -> list[Line]:
    """The lines that a builder writes."""
    with tempfile.TemporaryDirectory() as folder:
        return [json.loads(line) for line in write(Path(folder, "s.jsonl"), *given).open()]


def told() -> str:
    """What comes of all samples."""
    return "\n".join(f"=== {name}\n{_steps(lines)}" for name, lines in samples())


def _steps(lines: list[Line]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, "t", "s.jsonl"), Path(folder, "out")
        changed = json.loads(json.dumps(lines[-1]).replace("say", "tell").replace("said", "told"))
        text = [_read(written(file, lines)), ""]
        text.append(_imported(written(file, lines[: len(lines) // 2 + 1]), out))
        text.append(_imported(written(file, lines), out))
        for target in out.glob("*.jsonl"):
            with Session.open(target) as session:
                session.append_message({"role": "user", "content": "mine"})
        text.append(_imported(written(file, [*lines, changed]), out))
        text += [target.read_text("utf-8") for target in sorted(out.glob("*.jsonl"))]
        return steady("\n".join(text).replace(folder, "HERE"), file.parent)


def _read(file: Path) -> str:
    try:
        with Session.open(file, readonly=True) as session:
            said = [entry.line.decode() for entry in session.entries()]
            return "\n".join([*said, *map(str, session.damage), f"leaf {session.leaf.uuid}"])
    except SessionTreeError as error:
        return str(error)


def _imported(file: Path, out: Path) -> str:
    try:
        done = import_session(file, out)
    except SessionTreeError as error:
        return str(error)
    damage = [f"  {found}" for found in (*done.damage, *done.notes)]
    return "\n".join([f"{done.entries} entries, {done.new} new, made: {done.made}", *damage])


def main() -> None:
    EXPECTED.write_text(told(), encoding="utf-8")


if __name__ == "__main__":
    main()
