"""Messages that a program generates in its user's name begin no turn, imported or not."""

from __future__ import annotations

from pathlib import Path

from sessiontree import Session, import_session
from sessiontree.library.listing import facts_of
from sessiontree.views.rows import TreeRow
from tests.agents import test_codex
from tests.agents.test_bad_input import Make
from tests.support.table import for_each
from tests.support.terminal import printed_json
from tests.support.transcripts import Line, assistant, line, user, written


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


def test_a_command_that_the_user_typed_begins_a_turn_in_every_view(tmp_path: Path) -> None:
    def local(uuid: str, parent: str, content: str) -> Line:
        return line(uuid, parent, "system", subtype="local_command", content=content)

    lines = [
        user("a", None, "<command-message>review</command-message>\n<command-name>/review"
             "</command-name>\n<command-args>the parser</command-args>"),
        user("b", "a", "Read each file.", isMeta=True),
        assistant("c", "b"),
        user("d", "c", "<bash-input>ls</bash-input>"),
        user("e", "d", "<bash-stdout>x.py</bash-stdout>"),
        local("f", "e", "<command-name>/cost</command-name>"),
        local("g", "f", "<local-command-stdout>$1</local-command-stdout>"),
        user("h", "g", "[Request interrupted by user]"),
        user("i", "h", "Mend it"),
    ]  # fmt: skip
    source = written(tmp_path / "s.jsonl", lines)
    done = import_session(source, tmp_path / "out")
    for file in (source, Path(done.file)):
        with Session.open(file, readonly=True) as session:
            asked = [turn[0].uuid for turn in session.turns()]
            outline = session.outline()
            assert [turn.uuid for turn in outline.turns if turn.prompt] == asked
            assert [turn.prompt for turn in outline.turns] == [
                *("/review the parser", "! ls", "/cost", "Mend it"),
            ]
            assert [row.uuid for row in session.tree() if row.prompt] == asked
        assert printed_json("ls", file)[0]["turns"] == 4
        assert facts_of(str(file)).first_message == "/review the parser"
        hits = printed_json("search", ".", file, "--regex", "--role", "prompt")
        assert [(hit["ref"], hit["turn"]) for hit in hits] == [
            *zip(asked, range(1, 5), strict=True)
        ]
        every = {hit["ref"]: hit["turn"] for hit in printed_json("search", ".", file, "--regex")}
        numbers = {row.uuid: row.turn for row in session_tree(file)}
        assert every == {uuid: numbers[uuid] for uuid in every}
    with Session.open(done.file) as session:
        session.rewind()
        assert session.rewind() == "/cost"


def session_tree(file: Path) -> list[TreeRow]:
    with Session.open(file, readonly=True) as session:
        return list(session.tree())


@for_each("make", [codex, claude_code])
def test_a_user_message_that_a_program_generated_begins_no_turn(make: Make, tmp_path: Path) -> None:
    source = make(tmp_path / "s.jsonl")
    done = import_session(source, tmp_path / "out")
    for file in (source, Path(done.file)):
        with Session.open(file, readonly=True) as session:
            prompts = [turn[0].message_as_stored["content"] for turn in session.turns()]
            assert ["parser" in str(prompts[-2]), "lexer" in str(prompts[-1])] == [True, True]
            assert len(prompts) == (2 if make is codex else 3)  # "/clear" is the user's
            assert next(iter(session.to_markdown())) == "# Mend the parser\n"
        assert facts_of(str(file)).first_message == "Mend the parser"
