"""The peers, installed into a throwaway folder; what cannot be had is said, not skipped."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

PI: Final = "@earendil-works/pi-coding-agent"
PI_VERSIONS: Final = {"pi": "0.74.2", "pi-new": "0.87.1"}
"""`pi-new` is the newest release that installed on the day of the figures."""

NODE_OF: Final = {"pi-new": "24"}
"""Releases that want a newer Node than systems have: from the package `node-OS-ARCH`."""

PACKAGES: Final = {
    "claude": ("claude-agent-sdk", "0.2.187"),
    "openai": ("openai-agents", "0.24.0"),
    "langgraph": ("langgraph-checkpoint-sqlite", "3.1.2"),
    "plot": ("matplotlib", "3.11.2"),
}


@dataclass(frozen=True, slots=True)
class Program:
    """Something that is measured.

    Attributes:
        title: its name and version.
        command: what starts it, before the name of a driver or its own arguments.
        missing: why it cannot be had; empty where it can.
    """

    title: str
    command: tuple[str, ...] = ()
    missing: str = ""


def programs(folder: Path, say: Callable[[str], None]) -> dict[str, Program]:
    """All programs by key, installed where they are not yet."""
    folder.mkdir(parents=True, exist_ok=True)
    installer = _Installer(folder, say)
    found = {
        "sessiontree": Program(f"sessiontree {version('sessiontree')}", (sys.executable,)),
        "bare": Program("bare", (sys.executable,)),
        "ripgrep": installer.ripgrep(),
    }
    for key in PI_VERSIONS:
        found[key] = installer.pi(key)
    for key in PACKAGES:
        found[key] = installer.package(key)
    for program in found.values():
        if program.missing:
            say(f"CANNOT BE HAD: {program.title}: {program.missing}")
    return found


class _Installer:
    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._say = say

    def _run(self, command: Sequence[str], what: str, cwd: Path | None = None) -> str:
        """Why a step failed; empty where it did not. What it printed is in `install.log`."""
        if shutil.which(command[0]) is None:
            return f"there is no {Path(command[0]).name} on this machine"
        self._say(f"installing {what}")
        with (self._folder / "install.log").open("ab") as log:
            done = subprocess.run(
                command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        return f"{Path(command[0]).name} cannot install {what}" if done.returncode else ""

    def pi(self, key: str) -> Program:
        release = PI_VERSIONS[key]
        title = f"pi {release}"
        folder = self._folder / key
        manager = folder / "node_modules" / PI / "dist" / "core" / "session-manager.js"
        missing = self._npm(folder, f"{PI}@{release}") if not manager.exists() else ""
        node = shutil.which("node") or ""
        if key in NODE_OF and not missing:
            node, missing = self._node(NODE_OF[key])
        if not node and not missing:
            missing = "there is no node on this machine"
        driver = Path(__file__).with_name("drivers") / "pi.mjs"
        if missing:
            return Program(title, missing=missing)
        runs_on = subprocess.run([node, "--version"], capture_output=True, text=True, check=True)
        title += f" (Node {runs_on.stdout.strip().removeprefix('v')})"
        return Program(title, (node, str(driver), str(manager)))

    def _npm(self, folder: Path, package: str) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        quiet = ("--no-audit", "--no-fund", "--ignore-scripts")
        return self._run(("npm", "install", *quiet, package), package, folder)

    def _node(self, release: str) -> tuple[str, str]:
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        package = f"node-{sys.platform}-{machine}"
        folder = self._folder / f"node-{release}"
        node = folder / "node_modules" / package / "bin" / "node"
        missing = self._npm(folder, f"{package}@{release}") if not node.exists() else ""
        return str(node), missing

    def package(self, key: str) -> Program:
        name, release = PACKAGES[key]
        title = f"{name} {release}"
        environment = self._folder / "environment"
        python = environment / "bin" / "python"
        if not python.exists():
            venv.create(environment, with_pip=True)
        if not list(environment.glob(f"lib/*/site-packages/{name.replace('-', '_')}-{release}.*")):
            command = (str(python), "-m", "pip", "install", "--quiet", f"{name}=={release}")
            if missing := self._run(command, f"{name} {release}"):
                return Program(title, missing=missing)
        return Program(title, (str(python),))

    def ripgrep(self) -> Program:
        rg = shutil.which("rg")
        if rg is None:
            folder = self._folder / "ripgrep"
            rg = str(folder / "usr" / "bin" / "rg")
            if not os.path.exists(rg):
                folder.mkdir(exist_ok=True)
                missing = self._run(("apt-get", "download", "ripgrep"), "ripgrep", folder)
                for package in folder.glob("*.deb"):
                    missing = self._run(("dpkg-deb", "-x", str(package), "."), "ripgrep", folder)
                if missing:
                    return Program("ripgrep", missing=missing)
        told = subprocess.run([rg, "--version"], capture_output=True, text=True, check=True)
        return Program(" ".join(told.stdout.split()[:2]), (rg,))
