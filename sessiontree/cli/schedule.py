"""What runs a command every hour: a line for cron, units for systemd, an agent for launchd.

Each starts with an environment of its own, without the user's: the variables that name places are
part of what is printed.
"""

from __future__ import annotations

import os
import plistlib
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from sessiontree.agents import AGENTS
from sessiontree.library.root import HOME_VARIABLE

LABEL: Final = "sessiontree-backup"
_MINUTE: Final = 17
"""The minute of each hour; most programs choose the first."""

_PLACES: Final = (HOME_VARIABLE, "XDG_DATA_HOME", "XDG_CACHE_HOME")


_PLAIN: Final = re.compile(r"[\w./=:,@+-]+")
"""A word that systemd takes as it is."""


def program() -> list[str]:
    """The words that start this program from anywhere."""
    installed = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "sessiontree")
    if os.access(installed, os.X_OK):
        return [installed]
    return [sys.executable, "-m", "sessiontree"]


def places(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that are set and name the places of sessions."""
    homes = [name for each in AGENTS for name in (each.home.variable, each.home.own_variable)]
    names = dict.fromkeys(filter(None, (*_PLACES, *homes)))
    return {name: environ[name] for name in names if environ.get(name)}


def cron(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """The line for `crontab -e`; a % there ends the line unless a backslash is before it."""
    given = [f"{name}={value}" for name, value in variables.items()]
    words = [*(["env", *given] if given else []), *command]
    return f"{_MINUTE} * * * * {shlex.join(words)}".replace("%", r"\%")


def systemd_service(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """The unit that runs the command once."""
    given = (f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items())
    return (
        "[Unit]\nDescription=Back up the sessions of coding agents\n\n[Service]\nType=oneshot\n"
        + "".join(given)
        + f"ExecStart={' '.join(map(_of_exec, command))}\n"
    )


def systemd_timer() -> str:
    """The unit that runs the other one every hour, and after a time without power."""
    return (
        "[Unit]\nDescription=Back up the sessions of coding agents every hour\n\n[Timer]\n"
        f"OnCalendar=*:{_MINUTE}\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
    )


def _quoted(word: str) -> str:
    """A word of a unit: % begins a name of systemd's, a backslash an escape."""
    if _PLAIN.fullmatch(word):
        return word
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{text}"'


def _of_exec(word: str) -> str:
    """The same in a command, in which a $ begins a variable."""
    return _quoted(word.replace("$", "$$"))


def launchd(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """The property list of an agent that runs the command every hour."""
    agent: dict[str, object] = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "StartCalendarInterval": {"Minute": _MINUTE},
    }
    if variables:
        agent["EnvironmentVariables"] = dict(variables)
    return plistlib.dumps(agent, sort_keys=False).decode()


def help_text(words: Sequence[str]) -> str:
    """How to run this program with some words every hour, in each of the three ways."""
    command, variables = [*program(), *words], places()
    units = "~/.config/systemd/user"
    agent = f"~/Library/LaunchAgents/{LABEL}.plist"
    return "\n".join(
        (
            "# cron: run 'crontab -e' and add this line",
            cron(command, variables),
            "",
            f"# systemd: write this to {units}/{LABEL}.service",
            systemd_service(command, variables),
            f"# and this to {units}/{LABEL}.timer",
            systemd_timer(),
            f"# then run: systemctl --user daemon-reload && "
            f"systemctl --user enable --now {LABEL}.timer",
            "",
            f"# launchd (macOS): write this to {agent}",
            launchd(command, variables),
            f"# then run: launchctl bootstrap gui/$(id -u) {agent}",
        )
    )
