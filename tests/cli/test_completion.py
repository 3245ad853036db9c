"""TAB completes what the user has: by click's own scripts, as the shells call them."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import completed, done, run


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with three sessions of the store, two of them with names in them."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ZDOTDIR", raising=False)
    said(Store(), "Fix", cwd="/u/clients/acme", id="aaaa1111-0000-4000-8000-000000000001")
    file = said(Store(), "Other", cwd="/u/zorb", id="aaaa2222-0000-4000-8000-000000000002")
    with Session.open(file) as session:
        session.label("@", "mark-it")
        session.rename("other-name")
    file = said(Store(), "Third", cwd="/u/zorb", id="bbbb3333-0000-4000-8000-000000000003")
    with Session.open(file) as session:
        session.label("@", "two words")
        session.rename("Name of 'pi'")


@for_each(
    ("words", "expected"),
    [
        (("se",), ["search"]),
        (("tree", "aaaa"), ["aaaa2222", "aaaa1111"]),
        (("tree", "aaaa1111-"), ["aaaa1111-0000-4000-8000-000000000001"]),
        (("tree", "lat"), ["latest"]),
        (("resume", "oth"), ["other-name"]),
        (("resume", "Name o"), ["Name of 'pi'"]),
        (("show", "bbbb3333", "two"), ["two words"]),
        (("trash", "aaaa1"), ["aaaa1111"]),
        (("hide", "aaaa1"), ["aaaa1111"]),
        (("audit", "aaaa1"), ["aaaa1111"]),
        (("call", "tree.render", "--session", "oth"), ["other-name"]),
        (("ls", "--project", "a"), ["acme"]),
        (("ls", "--project", "/u/c"), ["/u/clients/acme"]),
        (("show", "other-name", "m"), ["mark-it"]),
        (("switch", "aaaa2222", "@"), ["@", "@~1"]),
        (("show", "nobody", "m"), []),
    ],
)
def test_tab_completes_commands_sessions_projects_and_refs(
    home: None, words: tuple[str, ...], expected: list[str]
) -> None:
    assert completed(*words) == expected


def test_undo_of_hide_completes_only_hidden_sessions(home: None) -> None:
    assert completed("hide", "--undo", "") == []
    run("hide", "aaaa1111")
    assert completed("hide", "--undo", "") == ["aaaa1111"]
    assert completed("hide", "") == [
        *("latest", "bbbb3333", "Name of 'pi'", "aaaa2222", "other-name")
    ]


@for_each("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    script = done("completion", shell)
    assert "_SESSIONTREE_COMPLETE" in script
    assert f"{shell}_complete" in script


INSTALLED = {
    "bash": ("data/bash-completion/completions/sessiontree", "bash-completion; else add 'source "),
    "zsh": (".zfunc/_sessiontree", "/.zfunc)' is before 'compinit' in its .zshrc"),
    "fish": ("config/fish/completions/sessiontree.fish", "a new shell completes"),
}


def on_terminal(shell: str) -> subprocess.CompletedProcess[str]:
    """What the command says on a terminal, which shows no script."""
    terminal, stdout = os.openpty()
    try:
        return subprocess.run(
            [sys.executable, "-m", "sessiontree", "completion", shell],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(stdout)
        os.close(terminal)


@pytest.mark.slow
@for_each("shell", list(INSTALLED))
def test_on_a_terminal_the_script_is_installed_once_and_never_over_another_file(
    home: None, shell: str
) -> None:
    name, next_step = INSTALLED[shell]
    file = Path.home() / name
    first, again = on_terminal(shell), on_terminal(shell)
    assert first.stderr.startswith(f"Installed: {file}; ")
    assert next_step in first.stderr
    assert again.stderr == f"Already {first.stderr[0].lower()}{first.stderr[1:]}"
    assert file.read_text() == done("completion", shell)
    file.write_text("mine\n")
    refused = on_terminal(shell)
    assert (refused.returncode, file.read_text()) == (1, "mine\n")
    assert f"{file} is there with other content; remove it" in refused.stderr


TAB = {
    "bash": """
        source {script}
        COMP_WORDS=(sessiontree {words}) COMP_CWORD={count}
        _sessiontree_completion sessiontree
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """,
    "fish": "source {script}; complete -C 'sessiontree {words}'",
}
"""What TAB does in a shell, as far as it needs no terminal."""


@pytest.mark.slow
@for_each("shell", [shell for shell in TAB if shutil.which(shell)])
def test_tab_in_a_real_shell_completes_what_the_user_has(
    home: None, tmp_path: Path, shell: str
) -> None:
    script, program = tmp_path / "script", tmp_path / "bin" / "sessiontree"
    script.write_text(done("completion", shell))
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m sessiontree "$@"\n')
    program.chmod(0o755)
    spaced = "Name of 'pi'" if shell == "fish" else r"Name\ of\ \'pi\'"
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    for typed, expected in (
        (("tree", "aaaa"), {"aaaa1111", "aaaa2222"}),
        (("show", "other-name", "mark"), {"mark-it"}),
        (("ls", "--project", "ac"), {"acme"}),
        (("resume", "Na"), {spaced}),
        (("resume", r"Name\ o"), {spaced}),
        (("resume", '"Name o'), {spaced if shell == "fish" else "Name of 'pi'"}),
        (("show", "bbbb3333", "two"), {"two words" if shell == "fish" else r"two\ words"}),
    ):
        words = " ".join(map(shlex.quote, typed) if shell == "bash" else typed)
        line = TAB[shell].format(script=script, words=words, count=len(typed))
        ended = subprocess.run(
            [shell, "-c", line], env=environment, capture_output=True, text=True, check=True
        )
        found = {line.partition("\t")[0] for line in ended.stdout.splitlines()}
        assert found == expected, ended
