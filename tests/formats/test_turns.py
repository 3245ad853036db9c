"""Messages that a program generates in its user's name begin no turn, imported or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Session, import_session
from sessiontree.catalog.listing import facts_of
from tests.formats import test_codex
from tests.formats.test_bad_input import Make
from tests.support.transcripts import assistant, user, written


def codex(path: Path) -> Path:
    said = test_codex.said
    turns = [said("user", "<environment_context>\n  <cwd>/x</cwd>\n</environment_context>")]
    turns += [said("user", "Mend the parser"), said("assistant", "done")]
    turns += [said("user", "<turn_aborted>"), said("user", "And the lexer")]
    return test_codex.written(path, *turns)


def claude_code(path: Path) -> Path:
    return written(
        path,
        [
            user("a", None, "<command-name>/clear</command-name>"),
            user("b", "a", "<local-command-stdout>cleared</local-command-stdout>"),
            user("c", "b", "Mend the parser"),
            assistant("d", "c"),
            user("e", "d", [{"type": "text", "text": "[Request interrupted by user]"}]),
            user("f", "e", "And the lexer"),
        ],
    )


@pytest.mark.parametrize("make", [codex, claude_code])
def test_a_user_message_that_a_program_generated_begins_no_turn(make: Make, tmp_path: Path) -> None:
    source = make(tmp_path / "s.jsonl")
    done = import_session(source, tmp_path / "out")
    for file in (source, Path(done.file)):
        with Session.open(file, readonly=True) as session:
            prompts = [turn[0].message_as_stored["content"] for turn in session.turns()]
            assert ["parser" in str(prompts[0]), "lexer" in str(prompts[-1])] == [True, True]
            assert len(prompts) == 2
            assert next(iter(session.to_markdown())) == "# Mend the parser\n"
        assert facts_of(str(file)).first_message == "Mend the parser"
