"""Files that were damaged anywhere: a command does its work or says why not, and no more."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from tests.support.soak import amount
from tests.support.terminal import driving, run

STRAY = [b"\x00", b"\xff", b"\n", b"\r", b'"', b"{", b"}", b"\\u001b", b"\xc2\x9b", b"\xef\xbb\xbf"]

COMMANDS = [
    ("show",),
    ("show", "@~1"),
    ("tree",),
    ("tree", "--json"),
    ("branches", "--json"),
    ("path", "--json"),
    ("context",),
    ("context", "--json"),
    ("rewind",),
    ("pop",),
    ("compact", "--keep", "0"),
    ("merge", "label"),
    ("append", "--text", "x"),
    ("migrate",),
]


def sound() -> bytes:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sound.jsonl"
        with Session.create(file, name="A name", durability="os") as session:
            prompt = session.append_message({"role": "user", "content": "hé\x1b[1m"})
            call = {"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "x"}}
            called = session.append_message({"role": "assistant", "content": [call]})
            session.label(called, "label")
            session.branch(prompt, "went elsewhere", name="branch")
            session.append_message({"role": "user", "content": "on"})
        return file.read_bytes()


SOUND = sound()

strokes = st.tuples(st.integers(0, len(SOUND)), st.integers(0, 30), st.sampled_from([b"", *STRAY]))


@pytest.mark.slow
@given(damage=st.lists(strokes, min_size=1, max_size=4), words=st.sampled_from(COMMANDS))
@settings(deadline=None, max_examples=amount(150))
def test_no_damage_breaks_a_command(
    damage: list[tuple[int, int, bytes]], words: tuple[str, ...]
) -> None:
    content = SOUND
    for at, lost, stray in damage:
        content = content[:at] + stray + content[at + lost :]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "damaged.jsonl"
        file.write_bytes(content)
        result = run(words[0], file, *words[1:])
        kept = file.with_name("damaged.jsonl.v1")
        assert (kept if kept.exists() else file).read_bytes().startswith(content)
        if result.exit_code:
            assert file.read_bytes() == content or kept.exists()
    assert result.exit_code in (0, 1)
    assert "fault in sessiontree" not in result.stderr
    assert not driving(result.stdout + result.stderr)
    if "--json" in words and not result.exit_code:
        json.loads(result.stdout)
