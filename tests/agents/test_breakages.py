"""Randomly broken transcripts: no message that stands in the file is missing."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sessiontree import Session, Store, repair_file
from sessiontree.agents import base, recognise
from sessiontree.core.message import text_of
from tests.agents import test_codex, test_gemini, test_pi
from tests.agents.conftest import CLAUDE_CODE
from tests.support.breakages import broken
from tests.support.soak import in_soak
from tests.support.transcripts import assistant, result, user, written

FIXTURES = Path(__file__).parents[2] / "fixtures"
REAL = [*FIXTURES.glob("agents/*/**/*.jsonl"), *CLAUDE_CODE]


def claude_code(path: Path) -> Path:
    lines = [user("u0", None)]
    for turn in range(1, 5):
        names = [f"{kind}{turn}" for kind in "abrcu"]
        before = lines[-1]["uuid"]
        a, b, r, c, u = names
        lines += [assistant(a, before, f"m{turn}"), assistant(b, a, f"m{turn}", [f"t{turn}"])]
        lines += [result(r, b, f"t{turn}"), assistant(c, r, f"n{turn}"), user(u, c)]
    return written(path, lines)


def pi(path: Path) -> Path:
    lines = [test_pi.HEADER, test_pi.message("e0", None, "user", "say e0")]
    for number in range(1, 16):
        role = ("user", "assistant")[number % 2]
        content: Any = [{"type": "text", "text": f"say e{number}"}]
        lines.append(test_pi.message(f"e{number}", f"e{number - 1}", role, content))
    return test_pi.written(path, lines)


def codex(path: Path) -> Path:
    turns = [test_codex.said(("user", "assistant")[n % 2], f"say {n}") for n in range(16)]
    return test_codex.written(path, *turns)


def gemini(path: Path) -> Path:
    lines = []
    for number in range(8):
        lines.append(test_gemini.user(f"u{number}", f"say u{number}"))
        lines.append(test_gemini.gemini(f"g{number}", f"said g{number}"))
    return test_gemini.log(path, *lines)


MADE = (claude_code, pi, codex, gemini)


def messages_of(content: bytes, *, exported: bool = False) -> list[tuple[bytes, str]]:
    """Each line with a message, and the message; or those that an export has, without lanes."""
    agent = recognise(content)
    assert agent is not None
    offset, lines = 0, []
    for line in content.splitlines(keepends=True):
        lines.append((offset, line.rstrip(b"\n")))
        offset += len(line)
    source = base.PartOfSource("session.jsonl", lines)
    drafts = agent.reader.translate(source, base.unreported)
    found = ((draft.line.text, json.loads(draft.encoded())) for draft in drafts)
    return [
        (text, json.dumps(keys["message"]))
        for text, keys in found
        if "message" in keys and not (exported and "lane" in keys)
    ]


def check(file: Path, whole: bytes, damaged: bytes) -> Counter[str]:
    """Check that each message whose line stands is in the tree; those that are on the path."""
    file.write_bytes(damaged)
    standing = Counter(said for line, said in set(messages_of(whole)) if line in damaged)
    with Session.open(file, readonly=True) as session:
        entries = [json.dumps(e["message"]) for e in session.entries() if e.type == "message"]
        path = [json.dumps(e["message"]) for e in session.path() if e.type == "message"]
        assert not standing - Counter(entries)
        assert all(str(one) for one in session.damage)
    return standing - Counter(path)


def words_of(said: str) -> set[str]:
    return set(re.findall(r"sa(?:y|id) \w+", said))


@in_soak("seeds", range(6), range(100))
@pytest.mark.parametrize("made", MADE)
def test_no_message_is_missing_from_tree_search_and_export(
    made: Any, seeds: range, tmp_path: Path
) -> None:
    file = made(tmp_path / "session.jsonl")
    whole = file.read_bytes()
    for seed in seeds:
        rng = Random(seed)
        damaged = broken(whole.splitlines(), rng, 1 + seed % 3)
        assert not check(file, whole, damaged), seed
        standing = [said for line, said in messages_of(whole) if line in damaged]
        words = set().union(*map(words_of, standing))
        with Session.open(file, readonly=True) as session:
            markdown = "".join(session.to_markdown())
        for each in words:
            assert re.search(rf"\b{each}\b", markdown), (seed, each)
        for each in rng.sample(sorted(words), 3):
            assert list(Store(tmp_path).search(f'"{each}"')), (seed, each)


@in_soak("seeds", range(6), range(100))
@pytest.mark.parametrize("made", MADE)
def test_a_repaired_copy_has_every_message_and_no_damage(
    made: Any, seeds: range, tmp_path: Path
) -> None:
    file, copy = made(tmp_path / "session.jsonl"), tmp_path / "copy.jsonl"
    whole = file.read_bytes()
    for seed in seeds:
        damaged = broken(whole.splitlines(), Random(seed), 1 + seed % 3)
        file.write_bytes(damaged)
        done = repair_file(file, copy)
        assert file.read_bytes() == damaged
        assert [one for one in done.remaining if one.kind not in ("late parent", "repeated")] == []
        content = copy.read_bytes()
        for line in content.splitlines():
            assert json.loads(line)
        standing = Counter(said for line, said in set(messages_of(whole)) if line in damaged)
        with Session.open(copy, readonly=True) as session:
            path = Counter(json.dumps(e["message"]) for e in session.path() if e.type == "message")
            results = sum("toolResult" in said or "tool_result" in said for said in standing)
            assert len(list((standing - path).elements())) <= results, seed
        copy.unlink()
        file.write_bytes(content)
        assert repair_file(file, copy).mended == []
        assert copy.read_bytes() == content
        copy.unlink()


def phrases_of(said: str) -> set[str]:
    """Runs of words in a message, long enough to be found by no other."""
    runs = re.findall(r"\w+(?: \w+){2,5}", text_of(json.loads(said)))
    return {run for run in runs if len(run) > 14}


def exported(file: Path, content: bytes) -> str:
    file.write_bytes(content)
    with Session.open(file, readonly=True) as session:
        return "".join(session.to_markdown())


@in_soak("count", 12, 100)
def test_no_message_of_a_real_transcript_is_missing_from_tree_search_and_export(
    count: int, tmp_path: Path
) -> None:
    rng, file = Random(count), tmp_path / "session.jsonl"
    contents = [path.read_bytes() for path in REAL]
    real = [each for each in contents if recognise(each) and len(each.splitlines()) > 4]
    for turn in range(count):
        whole = rng.choice(real)
        before = exported(file, whole)
        damaged = broken(whole.splitlines(), rng, 3)
        check(file, whole, damaged)
        standing = [said for line, said in messages_of(whole, exported=True) if line in damaged]
        phrases = set().union(*map(phrases_of, standing))
        phrases = {phrase for phrase in phrases if phrase in before}
        after = exported(file, damaged)
        assert [phrase for phrase in phrases if phrase not in after] == [], turn
        for phrase in rng.sample(sorted(phrases), min(2, len(phrases))):
            assert list(Store(tmp_path).search(f'"{phrase}"')), (turn, phrase)
