"""TAB completes what the user has: by click's own scripts, as the shells call them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sessiontree import Session, Store
from tests.support.sessions import said
from tests.support.table import for_each
from tests.support.terminal import completed, done


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with two sessions of the store, one of them with names in it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    said(Store(), "Fix", cwd="/u/clients/acme", id="aaaa1111-0000-4000-8000-000000000001")
    file = said(Store(), "Other", cwd="/u/zorb", id="aaaa2222-0000-4000-8000-000000000002")
    with Session.open(file) as session:
        session.label("@", "mark-it")
        session.rename("other-name")


@for_each(
    ("words", "expected"),
    [
        (("se",), ["search"]),
        (("tree", "aaaa"), ["aaaa2222", "aaaa1111"]),
        (("tree", "aaaa1111-"), ["aaaa1111-0000-4000-8000-000000000001"]),
        (("tree", "lat"), ["latest"]),
        (("resume", "oth"), ["other-name"]),
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


@for_each("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    script = done("completion", shell)
    assert "_SESSIONTREE_COMPLETE" in script
    assert f"{shell}_complete" in script


def test_bash_takes_the_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = tmp_path / "script"
    script.write_text(done("completion", "bash"))
    ended = subprocess.run(
        [bash, "-c", f"source {script} && complete -p sessiontree"], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "_sessiontree_completion" in ended.stdout
