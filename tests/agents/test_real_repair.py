"""The agents themselves open the copies that `repair FILE -o NEW` writes of broken transcripts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sessiontree import repair_file
from sessiontree.agents.codex.reader import CodexReader
from sessiontree.agents.gemini.reader import GeminiReader
from sessiontree.agents.pi.reader import PiReader
from tests.agents import claude_code, codex_driver
from tests.agents.claude_code import conversation
from tests.agents.codex_driver import running
from tests.agents.conftest import Told
from tests.agents.test_breakages import claude_code as made_for_claude_code
from tests.agents.test_breakages import gemini, messages_of, pi, words_of
from tests.agents.test_pi import PI, has_pi
from tests.agents.test_real_codex import files_of
from tests.agents.test_real_gemini import PROGRAM, said_by
from tests.support.breakages import broken
from tests.support.soak import in_soak


def standing_in(whole: bytes, damaged: bytes) -> set[str]:
    found = [said for line, said in messages_of(whole) if line in damaged]
    return set().union(*map(words_of, found))


def copies(file: Path, seeds: range) -> dict[Path, set[str]]:
    """The repaired copy of each broken form of a file, with the words that it must have."""
    whole = file.read_bytes()
    made: dict[Path, set[str]] = {}
    for seed in seeds:
        damaged = broken(whole.splitlines(), Random(seed), 1 + seed % 3)
        file.write_bytes(damaged)
        copy = file.with_name(f"copy-{seed}.jsonl")
        repair_file(file, copy)
        made[copy] = standing_in(whole, damaged)
    return made


@has_pi
@in_soak("seeds", range(8), range(125))
def test_pi_opens_each_copy_with_its_messages(seeds: range, tmp_path: Path) -> None:
    made = copies(pi(tmp_path / "session.jsonl"), seeds)
    script = str(Path(__file__).with_name("pi_session.mjs"))
    done = subprocess.run(
        ["node", script, PI, *map(str, made)], check=True, capture_output=True, text=True
    )
    for words, line in zip(made.values(), done.stdout.splitlines(), strict=True):
        assert words <= words_of(line)


@pytest.mark.skipif(not PROGRAM, reason="GEMINI_CLI does not name Gemini CLI")
@in_soak("seeds", range(8), range(125))
def test_gemini_opens_each_copy_with_its_messages(seeds: range, tmp_path: Path) -> None:
    made = copies(gemini(tmp_path / "session.jsonl"), seeds)
    for words, told in zip(made.values(), said_by("gemini_history", *made), strict=True):
        assert words <= words_of(json.dumps(told["history"]))


@in_soak("seeds", range(8), range(125))
def test_the_reader_of_claude_code_has_each_message_of_a_copy(
    seeds: range, tmp_path: Path, sdk: Callable[[Path], Told]
) -> None:
    for copy, words in copies(made_for_claude_code(tmp_path / "session.jsonl"), seeds).items():
        assert words <= words_of(json.dumps(sdk(copy))), copy


def replaced(file: Path, damage: Callable[[bytes], bytes]) -> list[str]:
    """Damage a file, and put its repaired copy in its place; what was changed."""
    file.write_bytes(damage(file.read_bytes()))
    copy = file.with_name("copy")
    done = repair_file(file, copy)
    os.replace(copy, file)
    return [one.what for one in done.mended]


@pytest.mark.slow
@pytest.mark.skipif(claude_code.program() is None, reason="Claude Code is not installed")
def test_claude_code_goes_on_with_a_copy(tmp_path: Path) -> None:
    def damage(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        said = [at for at, line in enumerate(lines) if b'"type":"assistant"' in line]
        lines[said[0]] = lines[said[0]][:-200] + lines[said[0]]
        lines[said[1]] = b""
        return b"".join(lines).replace(b"HELLO three", b"HELLO three \\ud83d")

    with conversation(tmp_path) as (talk, served):
        for prompt in ("HELLO one", "HELLO two", "HELLO three"):
            talk.say(prompt)
        changes = "\n".join(replaced(talk.file, damage))
        assert all(each in changes for each in ("removed", "joined", "surrogates"))
        talk.say("HELLO again")
        assert served.faults == []
        request: Any = json.dumps(served.requests[-1]["messages"])
    for said in ("HELLO one", "hello 1", "HELLO two", "HELLO three \\ufffd", "hello 3"):
        assert said in request


@pytest.mark.slow
@pytest.mark.skipif(codex_driver.program() is None, reason="Codex is not installed")
def test_codex_goes_on_with_a_copy(tmp_path: Path) -> None:
    def damage(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        said = [at for at, line in enumerate(lines) if b'"output_text"' in line]
        lines[said[0]] = lines[said[0]][:-200] + lines[said[0]]
        lines[said[1]] = lines[said[1]].rstrip(b"\n")
        lines[said[2] + 1] = b'{"cut": \n' + lines[said[2] + 1]
        return b"".join(lines)

    path = codex_driver.program()
    assert path is not None
    home = tmp_path / ".codex"
    with running(path, home) as codex:
        thread = codex.start()
        for prompt in ("one", "two", "three"):
            codex.turn(thread, f"say {prompt}")
    assert len(replaced(files_of(home)[thread], damage)) >= 3
    with running(path, home) as codex:
        codex.call("thread/resume", threadId=thread)
        codex.turn(thread, "say four")
        sent = json.dumps(codex.model.requests[-1]["input"])
    for said in ("say one", "say two", "say three", "answer 1", "answer 2", "answer 3"):
        assert said in sent


def without_header(lines: list[bytes]) -> list[bytes]:
    return lines[1:]


def with_torn_header(lines: list[bytes]) -> list[bytes]:
    return [lines[0][:60] + lines[1], *lines[2:]]


def with_header_second(lines: list[bytes]) -> list[bytes]:
    return [lines[1], lines[0], *lines[2:]]


@pytest.mark.slow
@pytest.mark.skipif(codex_driver.program() is None, reason="Codex is not installed")
@pytest.mark.parametrize("damage", [without_header, with_torn_header, with_header_second])
def test_codex_goes_on_with_a_copy_of_a_thread_whose_header_was_lost(
    damage: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    path = codex_driver.program()
    assert path is not None
    home = tmp_path / ".codex"
    with running(path, home) as codex:
        thread = codex.start()
        codex.turn(thread, "say one")
    file = files_of(home)[thread]
    lines = file.read_bytes().splitlines(keepends=True)
    assert CodexReader("codex").lacks_header(b"".join(damage(lines)))
    file.write_bytes(b"".join(damage(lines)))
    with running(path, home) as codex, pytest.raises(AssertionError, match="thread/resume"):
        codex.call("thread/resume", threadId=thread)
    replaced(file, lambda content: content)
    with running(path, home) as codex:
        codex.call("thread/resume", threadId=thread)
        codex.turn(thread, "say two")
        sent = json.dumps(codex.model.requests[-1]["input"])
    for said in ("say one", "answer 1", "say two"):
        assert said in sent


@has_pi
@pytest.mark.parametrize("damage", [without_header, with_torn_header, with_header_second])
def test_pi_opens_only_the_copy_of_a_session_whose_header_was_lost(
    damage: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    file = pi(tmp_path / "session.jsonl")
    words = words_of(file.read_text())
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))
    assert PiReader("pi").lacks_header(file.read_bytes())
    command = ["node", str(Path(__file__).with_name("pi_session.mjs")), PI]
    refused = subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
    assert "not a valid pi session" in refused.stderr
    replaced(file, lambda content: content)
    done = subprocess.run([*command, str(file)], check=True, capture_output=True, text=True)
    assert words_of(done.stdout) == words


@pytest.mark.skipif(not PROGRAM, reason="GEMINI_CLI does not name Gemini CLI")
@pytest.mark.parametrize("damage", [without_header, with_torn_header])
def test_gemini_opens_only_the_copy_of_a_chat_whose_header_was_lost(
    damage: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    file = gemini(tmp_path / "session.jsonl")
    words = words_of(file.read_text())
    file.write_bytes(b"".join(damage(file.read_bytes().splitlines(keepends=True))))
    assert GeminiReader("gemini").lacks_header(file.read_bytes())
    with pytest.raises(subprocess.CalledProcessError):
        list(said_by("gemini_history", file))
    replaced(file, lambda content: content)
    (told,) = said_by("gemini_history", file)
    assert words_of(json.dumps(told["history"])) == words
