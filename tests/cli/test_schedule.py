"""What `backup --install-help` prints works as it stands, where a scheduler runs it."""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.homes import SESSIONS, empty_home, put_sessions
from tests.support.terminal import done, refused

HEADING = re.compile(r"^# .*\n", re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which nothing has a simple name, and the homes of two agents are elsewhere."""
    top = tmp_path / "100% $HOME o'clock"
    top.mkdir()
    home = empty_home(top, monkeypatch)
    put_sessions(home)
    for variable, old in (("CLAUDE_CONFIG_DIR", ".claude"), ("CODEX_HOME", ".codex")):
        (home / old).rename(home / f"my {old}")
        monkeypatch.setenv(variable, str(home / f"my {old}"))
    return home


def parts(*words: str | Path) -> dict[str, str]:
    """What is printed, by the first word of its heading or the end of its file's name."""
    text = done("backup", "--install-help", *words)
    bodies = HEADING.split(text)[1:]
    headings = [found.group() for found in HEADING.finditer(text)]
    cron, service, timer, _, launchd, _ = bodies
    assert [heading.split()[1].rstrip(":") for heading in headings] == [
        *("cron", "systemd", "and", "then", "launchd", "then"),
    ]
    return {"cron": cron, "service": service, "timer": timer, "launchd": launchd}


def bare(home: Path) -> dict[str, str]:
    """What a scheduler gives a program, and where the tests have this package."""
    found = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return found | {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def kept(store: Path) -> int:
    return len(list(store.rglob("*.jsonl")))


def test_the_line_for_cron_backs_up_and_says_nothing(home: Path) -> None:
    (line,) = parts()["cron"].split("\n\n")[0].splitlines()
    *times, command = line.split(" ", 5)
    assert times == ["17", "*", "*", "*", "*"]
    assert "%" not in command.replace(r"\%", "")
    for _ in range(2):
        shell = ["/bin/sh", "-c", command.replace(r"\%", "%")]
        told = subprocess.run(shell, env=bare(home), capture_output=True, check=True)
        assert (told.stdout, told.stderr) == (b"", b"")
        assert kept(home / "store") == SESSIONS


def test_the_agent_for_launchd_backs_up(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "an & other"
    other.mkdir()
    agent = plistlib.loads(parts("--store", other, home / "my .claude")["launchd"].encode())
    assert agent["StartCalendarInterval"] == {"Minute": 17}
    env = bare(home) | agent["EnvironmentVariables"]
    subprocess.run(agent["ProgramArguments"], env=env, check=True)
    assert kept(other) == 1


def test_the_units_for_systemd_are_valid(home: Path, tmp_path: Path) -> None:
    made = parts()
    folder = tmp_path / "units"
    folder.mkdir()
    for kind in ("service", "timer"):
        (folder / f"sessiontree-backup.{kind}").write_text(made[kind])
    assert "%" not in made["service"].replace("%%", "")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    analyze = ["systemd-analyze", "--user", "verify", *map(str, sorted(folder.iterdir()))]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    checked = subprocess.run(analyze, env=environment, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_the_help_takes_no_option_of_a_run(home: Path) -> None:
    for option in ("--watch", "--json"):
        refused("backup", "--install-help", option, status=2)
    parts()
    assert not (home / "store").exists()
