"""Each bad input: one clear line, the right status, nothing written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.table import for_each
from tests.support.terminal import contents, done, lines, refused, run

READING = ["show", "tree", "branches", "path", "context"]
READING += ["fork copy.jsonl", "export-branch @ copy.jsonl"]
WRITING = ["append --text x", "branch @", "switch @", "rewind", "push", "pop", "compact"]
WRITING += ["cherry-pick @", "merge @", "edit-context @ --drop", "label @ name", "rename name"]
WRITING += ["migrate"]

OTHER_FILES = {
    "text": (b"hello\n", "does not start with a JSON object"),
    "newer": (b'{"type":"session","format":"sessiontree/9"}\n', "upgrade sessiontree"),
    "another agent's": (b'{"type":"session","version":3,"id":"x"}\n', "the pi coding agent"),
}


ANNOTATING = ("label", "rename")  # write to the import of an agent's session


def fails(folder: Path, *words: str | Path, input: str | bytes | None = None) -> str:
    """The one line that a command fails with, the folder as it was."""
    before = contents(folder)
    error = refused(*words, input=input)
    assert error.startswith("Error: ")
    assert error.endswith("\n")
    assert error.count("\n") == 1
    assert "fault in sessiontree" not in error
    assert contents(folder) == before
    return error


def is_misused(folder: Path, *words: str | Path, input: str | bytes | None = None) -> str:
    """What a command says of wrong usage, the folder as it was."""
    before = contents(folder)
    error = refused(*words, input=input, status=2)
    assert contents(folder) == before
    return error


def command(line: str, file: str) -> list[str]:
    """The words of a command that is written without its file."""
    name, *words = line.split()
    return [name, file, *words]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@for_each(
    ("kind", "line"),
    [
        *((kind, line) for kind in ("text", "newer") for line in READING + WRITING),
        *(("another agent's", line) for line in WRITING if line.split()[0] not in ANNOTATING),
    ],
)
def test_a_file_of_another_kind_is_refused(here: Path, kind: str, line: str) -> None:
    content, error = OTHER_FILES[kind]
    (here / "file.jsonl").write_bytes(content)
    assert error in fails(here, *command(line, "file.jsonl"))
    assert os.listdir(here) == ["file.jsonl"]


@for_each("line", READING + WRITING)
def test_a_missing_file_and_a_folder_are_refused(here: Path, line: str) -> None:
    assert "there is no file missing.jsonl" in fails(here, *command(line, "missing.jsonl"))
    assert "is a folder" in fails(here, *command(line, "."))
    assert os.listdir(here) == []


@for_each(
    "line",
    [
        *("show nosuch", "branches nosuch", "path nosuch", "context nosuch", "branch nosuch"),
        *("switch nosuch", "rewind nosuch", "pop nosuch", "cherry-pick nosuch", "merge nosuch"),
        *("append --parent nosuch --text x", "compact --first-kept nosuch", "label nosuch name"),
        *("fork copy.jsonl --at nosuch", "export-branch nosuch copy.jsonl"),
        "edit-context nosuch --drop",
    ],
)
def test_a_ref_that_names_nothing_is_refused(here: Path, chat: Path, line: str) -> None:
    assert "no entry is named 'nosuch'" in fails(here, *command(line, chat.name))


def test_an_ambiguous_ref_lists_the_candidates(tmp_path: Path) -> None:
    file = tmp_path / "twins.jsonl"
    file.write_text(
        '{"type":"session","version":2,"uuid":"root1","parentUuid":null}\n'
        '{"type":"message","uuid":"twin-a","parentUuid":"root1","message":{"role":"user","content":"a"}}\n'
        '{"type":"message","uuid":"twin-b","parentUuid":"root1","message":{"role":"user","content":"b"}}\n'
    )
    assert "it may be twin-a, twin-b" in fails(tmp_path, "show", file, "twin")


@for_each(
    ("words", "error"),
    [
        (("switch", "@~9"), "goes too far"),
        (("label", "@", "a  b"), "only single spaces"),
        (("label", "@", "a@b"), "no @ ~ :"),
        (("label", "@", ""), "not empty"),
        (("branch", "@", "--name", "a:b"), "no @ ~ :"),
        (("branch", "@", "--summary", "  "), "non-empty text"),
        (("append", "--lane", "a b", "--text", "x"), "no spaces"),
        (("append", "--lane", "", "--text", "x"), "a lane name is a string that is not empty"),
        (("append", "--role", "", "--text", "x"), "role"),
        (("rename", " "), "must be non-empty text"),
        (("rename", "a\x1b[31m"), "has '\\x1b'"),
        (("merge", "@~1"), "on the current path already"),
        (("rewind", "@"), "is not a prompt"),
        (("pop", "@"), "nothing to pop"),
        (("compact",), "20,000 are to be kept: nothing to compact; to replace the whole"),
        (("keep", "scratch/none"), "nothing on the lane scratch/none"),
    ],
)
def test_what_cannot_be_done_is_refused(chat: Path, words: tuple[str, ...], error: str) -> None:
    assert error in fails(chat.parent, words[0], chat, *words[1:])


def test_a_name_that_is_taken_is_refused(chat: Path) -> None:
    done("label", chat, "@", "here")
    assert "is taken by" in fails(chat.parent, "label", chat, "@~1", "here")
    assert "is taken by" in fails(chat.parent, "branch", chat, "@~1", "--name", "here")


def test_a_first_kept_entry_off_the_path_is_refused(forked: Path) -> None:
    left = json.loads(lines(forked)[4])["uuid"]
    error = fails(forked.parent, "compact", forked, "--first-kept", left)
    assert "is not on the current path" in error


@for_each(
    ("message", "error"),
    [
        (b"", "standard input is empty"),
        (b" \n", "standard input is empty"),
        (b"hello", "not JSON"),
        (b'{"role":"user"', "not JSON"),
        (b'{"role":"user"} {"role":"user"}', "not JSON"),
        (b'{"role":"user","content":NaN}', "not JSON"),
        (b'{"role":"user","content":1e999}', "not JSON"),
        (b'{"role":"user","content":"\\ud800"}', "not JSON"),
        (b'{"role":"user","content":"\xff"}', "not JSON"),
        (b'{"role":"user","content":' + b"[" * 2_000_000, "nested too deep"),
        (b'{"role":"user","content":' + b"[" * 400 + b"]" * 400 + b"}", "not JSON"),
        (b"[]", "a message must be a dict with a role"),
        (b'"hello"', "a message must be a dict with a role"),
        (b'{"content":"x"}', "has no role"),
        (b'{"role":7,"content":"x"}', "the role 7"),
        (b'{"type":[],"content":"x"}', "has no role"),
    ],
)
def test_input_that_is_not_a_message_is_refused(chat: Path, message: bytes, error: str) -> None:
    assert error in fails(chat.parent, "append", chat, input=message)


def test_new_refuses_a_path_that_is_taken_or_cannot_be(chat: Path) -> None:
    folder = chat.parent
    assert "is there already" in fails(folder, "new", chat)
    assert "is there already" in fails(folder, "new", folder)
    assert "there is no folder" in fails(folder, "new", folder / "none" / "x.jsonl")
    assert "is a file, not a folder" in fails(folder, "new", chat / "x.jsonl")


@pytest.mark.unprivileged
def test_a_file_without_permission_to_read_or_write_is_refused(chat: Path) -> None:
    chat.chmod(0o400)
    assert "Permission denied" in run("append", chat, "--text", "x").stderr
    chat.chmod(0)
    result = run("tree", chat)
    chat.chmod(0o600)
    assert result.exit_code == 1
    assert "Permission denied" in result.stderr


@for_each(
    ("words", "error"),
    [
        (("append", "--role", "user"), "--role needs --text"),
        (("append", "--text", "x", "--handle", "y"), "give --handle alone"),
        (("append", "--handle", "x", "--attach", "y"), "give --handle alone"),
        (("append", "--preview", "x"), "--preview needs"),
        (("append", "--preview", "x", "--text", "y"), "--preview needs"),
        (("append", "--scratch", "--lane", "x", "--text", "no"), "not both"),
        (("fork", "@", "@~1", "copy.jsonl"), "give one REF and one NEWFILE"),
        (("fork", "@", "copy.jsonl", "--at", "@"), "give one REF and one NEWFILE"),
        (("gc", "--now", "2100-01-01"), "--now"),
        (("gc", "--as-of", "next week"), "not a time"),
        (("append", "--text", "x", "--metadata", "[1]"), "not a JSON object"),
        (("append", "--text", "x", "--metadata", "{"), "not JSON"),
        (("edit-context", "@"), "give one of"),
        (("edit-context", "@", "--drop", "--text", "x"), "give one of"),
        (("edit-context", "@", "--text", "x", "--content", '"x"'), "give one of"),
        (("edit-context", "@", "--content", "{"), "not JSON"),
        (("edit-context", "@", "--content", "null"), "a string or a list of blocks"),
        (("label", "@"), "give NAME or --clear"),
        (("label", "@", "name", "--clear"), "give --clear or NAME, not both"),
        (("label",), "Missing argument"),
        (("switch",), "Missing argument"),
        (("switch", "@", "more"), "unexpected extra argument"),
        (("tree", "--nosuch"), "No such option"),
        (("pop", "--summary", "x", "--summarize"), "give --summary or --summarize, not both"),
        (("branch", "@", "--summarize", "--summarizer", "cat"), "not both"),
        (("compact", "--summary", "x", "--summarizer", "cat"), "not both"),
        (("merge", "@", "--summary", "", "--summarize"), "give --summary or --summarize, not both"),
        (("pop", "--summarizer", "'"), "No closing quotation"),
        (("pop", "--summarizer", " "), "give a command"),
        (("compact", "--keep", "-1"), "not in the range"),
        (("compact", "--keep", "many"), "not a valid integer"),
        (("compact", "--keep", "5", "--first-kept", "@"), "not both"),
        (("compact", "--plan", "--summarize"), "not both"),
        (("compact", "--plan", "--scratch"), "give --plan or --scratch, not both"),
        (("compact", "--instructions", "x", "--summary", "y"), "with --summarizer or --plan"),
        (("export", "--format", "html", "--remote-images"), "a page loads no images"),
        (("export", "other.jsonl"), "'other.jsonl' is a path, not a REF"),
        (("recover", "-o", "state.txt"), "-o needs --at, which says which state to write"),
    ],
)
def test_wrong_usage_exits_with_2(chat: Path, words: tuple[str, ...], error: str) -> None:
    assert error in is_misused(chat.parent, words[0], chat, *words[1:])


@for_each(
    ("line", "error"),
    [
        ("search x --ignore-case --case-sensitive", "give --ignore-case or --case-sensitive"),
        ("search x --role assistent", "did you mean assistant?"),
        ("stats --list-prices", "--list-prices needs --by, for example --by model"),
        ("mcp --install codex --uninstall codex", "give --install or --uninstall, not both"),
    ],
)
def test_wrong_usage_of_what_needs_no_file_exits_with_2(here: Path, line: str, error: str) -> None:
    assert error in is_misused(here, *line.split())


@for_each(
    ("fault", "said"),
    [
        (PermissionError(13, "Permission denied", "x"), "x: Permission denied"),
        (OSError("no words of the system"), "no words of the system"),
        (
            UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
            "the text is not valid Unicode: 'utf-8' codec can't encode character '\\ud800' in "
            "position 0: surrogates not allowed",
        ),
        (RecursionError("deep"), "an entry is nested too deeply to be shown"),
        (MemoryError(), "there is not enough memory for this"),
        (KeyError("x"), "a fault in sessiontree, please report it: KeyError: 'x'"),
    ],
)
def test_an_error_of_any_kind_is_one_line(
    chat: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception, said: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr("sessiontree.session.Session.open", fail)
    assert refused("show", chat) == f"Error: {said}\n"


def test_an_unknown_command_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    assert "did you mean 'switch'?" in is_misused(tmp_path, "swich", "x")
    assert "'sessiontree help' lists the commands" in is_misused(tmp_path, "\x1b[31m", "x")


def test_a_newline_in_a_path_does_not_make_a_second_line(tmp_path: Path) -> None:
    assert "a↵b.jsonl" in fails(tmp_path, "tree", tmp_path / "a\nb.jsonl")


def test_metadata_of_new_that_json_cannot_carry_is_refused(tmp_path: Path) -> None:
    error = is_misused(tmp_path, "new", tmp_path / "x.jsonl", "--metadata", '{"a": NaN}')
    assert "not JSON" in error


@for_each(
    ("words", "error"),
    [
        (("label", "zzzz", "name"), "no entry is named 'zzzz'"),
        (("label", "@", "a~b"), "is not a label"),
        (("branch", "zzzz"), "no entry is named 'zzzz'"),
        (("branch", "zzzz", "--scratch"), "no entry is named 'zzzz'"),
        (("append", "--text", "x", "--parent", "zzzz"), "no entry is named 'zzzz'"),
        (("cherry-pick", "zzzz"), "no entry is named 'zzzz'"),
        (("rename", ""), "name"),
        (("compact",), "nothing"),
        (("pop", "@"), "nothing"),
        (("keep", "nosuch"), "nothing on the lane nosuch"),
    ],
)
def test_a_write_that_is_refused_does_not_migrate_the_file(
    version_1: Path, words: tuple[str, ...], error: str
) -> None:
    before = contents(version_1.parent)
    told = refused(words[0], version_1, *words[1:])
    assert error in told
    assert "Migrated" not in told
    assert contents(version_1.parent) == before


NEW_FILES = [("@~1", "copy.jsonl"), ("named", "copy"), ("copy.jsonl",)]


@for_each(
    ("command", "words", "right"),
    [
        *((command, words, "fork") for command in ("branch", "branch-here") for words in NEW_FILES),
        *(("branch", words, "fork") for words in [("./copy",), ("@", "a", "b")]),
        *(("export", words, "export-branch") for words in NEW_FILES),
    ],
)
def test_branch_and_export_refuse_a_new_file_and_name_the_command_that_makes_one(
    here: Path, chat: Path, command: str, words: tuple[str, ...], right: str
) -> None:
    done("label", chat, "@~1", "named")
    error = is_misused(here, command, "chat.jsonl", *words)
    assert f"'sessiontree {right} FILE REF NEWFILE'" in error


@pytest.mark.parametrize("line", ["fork", "export-branch @"])
def test_a_copy_into_a_file_named_as_an_entry_is_refused_unless_it_is_a_path(
    here: Path, chat: Path, line: str
) -> None:
    done("label", chat, "@~1", "here")
    assert "'here' is a REF" in is_misused(here, *command(line, chat.name), "here")
    assert done(*command(line, chat.name), "./here") == "./here\n"
