"""The documents say what the code does: their commands and code are run here.

The README is played as a reader would play it, from its first line to its last, in one
folder; each section of the guide stands by itself, in a folder that has the session which
the guide begins with.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sessiontree
from sessiontree import Registry
from sessiontree.cli import COMMANDS, SECTIONS
from tests.support.transcripts import folder_of_a_user

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "GUIDE.md").read_text(encoding="utf-8")
PREAMBLE = GUIDE.partition("\n## ")[0]
DOCUMENTS = ("README.md", "GUIDE.md", "MIGRATION.md", "CHANGELOG.md", "benchmarks/README.md")
INSTALLED = Path(sys.executable).parent


def sections(text: str) -> dict[str, str]:
    """The sections of a document, by their headings."""
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


PLAYED = {"README": README, **sections(GUIDE)}
"""What is played in a folder of its own."""


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def having(language: str) -> list[str]:
    return [name for name, text in PLAYED.items() if blocks(language, text)]


def transcript(text: str) -> list[tuple[str, str]]:
    """The commands of a terminal transcript, each with what it printed."""
    parts = re.split(r"^\$ (.*)\n", text, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def without_uuids_and_times(text: str) -> str:
    whole = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    short = re.sub(r"\b[0-9a-f]{8}\b", "<short>", whole)
    return re.sub(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\.\d{3}Z)?", "<time>", short)


def play(shown: str, folder: Path) -> None:
    """Type the commands that are shown, and see that they print what is shown."""
    environment = {**os.environ, "HOME": str(folder)}
    environment["PATH"] = f"{INSTALLED}{os.pathsep}{os.environ['PATH']}"
    for kept_elsewhere in ("SESSIONTREE_HOME", "XDG_DATA_HOME"):
        environment.pop(kept_elsewhere, None)
    for command, printed in transcript(shown):
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stdout
        assert without_uuids_and_times(done.stdout) == without_uuids_and_times(printed), command


@pytest.fixture(scope="module")
def beginning(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the session that the guide begins with."""
    folder = tmp_path_factory.mktemp("beginning")
    play("".join(blocks("console", PREAMBLE)), folder)
    return folder


@pytest.mark.parametrize("name", having("console"))
def test_the_terminal_shows_what_is_shown(name: str, tmp_path: Path, beginning: Path) -> None:
    if name != "README":
        shutil.copytree(beginning, tmp_path, dirs_exist_ok=True)
    shown = "".join(blocks("console", PLAYED[name]))
    if "~/.claude" in shown:
        folder_of_a_user(tmp_path)
    play(shown, tmp_path)


@pytest.mark.parametrize("name", having("python"))
def test_the_code_runs_in_order_and_prints_what_it_says(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Registry, "_default", None)  # what is registered stays in here
    code = "\n".join(blocks("python", PLAYED[name]))
    exec(compile(code, name, "exec"), {"__name__": "__main__"})
    told = re.findall(r"^ *print\(.*\)  # (.+)$", code, re.MULTILINE)
    printed = iter(capsys.readouterr().out.splitlines())
    assert told
    assert [line for line in told if line not in printed] == []  # all, and in this order


def test_the_readme_names_every_command_as_the_help_does() -> None:
    table = README[README.index("| to | commands |") :].split("\n\n")[0]
    rows = re.findall(r"^\| ([a-z ]+) \| (`.*`) \|$", table, re.MULTILINE)
    named = {title: re.findall(r"`([a-z-]+)`", commands) for title, commands in rows}
    listed = {title.lower(): list(commands) for title, commands in SECTIONS.items()}
    assert listed.pop("more") == ["demo"]  # which the README begins with
    assert named == listed


def test_every_command_is_shown_at_work() -> None:
    typed = set(re.findall(r"\bsessiontree ([a-z-]+)", README + GUIDE))
    assert set(COMMANDS) - typed == set()


def test_the_readme_has_the_two_commands_that_the_checks_run() -> None:
    commands = re.findall(r"<!-- command: (\w+) -->\n```sh\n(.*?)\n```", README)
    assert dict(commands).keys() == {"demo", "tests"}
    run = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert all(f"readme_command {name}" in run for name, _ in commands)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    file = ROOT / document
    text = file.read_text(encoding="utf-8")
    for target, name in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", text):
        other = file.parent / target if target else file
        assert other.exists(), target
        assert not name or name in anchors(other), f"{target}#{name}"
    for path in re.findall(r"`((?:sessiontree|tests|benchmarks)/[\w./]+\.\w+)`", text):
        assert (ROOT / path).exists(), path


def anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return set(map(anchor, headings))


def anchor(heading: str) -> str:
    """The name by which a link leads to a heading."""
    return re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")


def test_the_guide_lists_its_sections_in_their_order() -> None:
    listed = re.findall(r"^- \[(.*)\]\(#(.*)\)$", PREAMBLE, re.MULTILINE)
    assert listed == [(name, anchor(name)) for name in sections(GUIDE)]


def test_every_public_name_is_documented() -> None:
    for name in sessiontree.__all__:
        assert (getattr(sessiontree, name).__doc__ or "").strip(), name
    for name, member in vars(sessiontree.Session).items():
        if not name.startswith("_") and callable(member):
            assert member.__doc__ or _inherited_doc(name), name


def _inherited_doc(name: str) -> str | None:
    bases = sessiontree.Session.__mro__[1:]
    return next((vars(base)[name].__doc__ for base in bases if name in vars(base)), None)
