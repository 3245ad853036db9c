"""The viewers, installed into a folder; one that cannot be installed is named with its error."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

PYTHON: Final = {
    "claude-code-log": ("claude-code-log", "1.7.0"),
    "claude-code-transcripts": ("claude-code-transcripts", "0.6"),
    "agentsview": ("agentsview", "0.46.1"),
    "cc-session-browser": ("cc-session-browser", "0.1.0"),
    "clau-decode": ("agent-decoder", "0.3.2"),
    "fast-resume": ("fast-resume", "2.14.0"),
}
"""The package and the release from PyPI, by the name of the program."""

NODE: Final = {"claude-replay": "0.9.0", "claude-run": "0.3.0"}
"""The release from npm, by the name of the package and of its program."""

PI: Final = ("@earendil-works/pi-coding-agent", "1.5.2")
NODE_RELEASE: Final = "24"


class Installed(NamedTuple):
    """A viewer on this machine.

    Attributes:
        title: its name and release.
        command: what starts it.
        missing: why it is not there; empty if it is.
    """

    title: str
    command: tuple[str, ...] = ()
    missing: str = ""


def installed(folder: Path, say: Callable[[str], None]) -> dict[str, Installed]:
    """All viewers by name, installed where they are not yet."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Installed] = {}
    for name, (package, release) in PYTHON.items():
        program = folder / "environment" / "bin" / name
        missing = "" if program.exists() else _pip(folder, f"{package}=={release}")
        told = f" (package {package})" if package != name else ""
        found[name] = Installed(f"{name} {release}{told}", (str(program),), missing)
    node = folder / "node" / "node_modules" / _node_package() / "bin" / "node"
    without = "" if node.exists() else _npm(folder, f"{_node_package()}@{NODE_RELEASE}")
    for name, release in NODE.items():
        program = folder / "node" / "node_modules" / ".bin" / name
        missing = without or ("" if program.exists() else _npm(folder, f"{name}@{release}"))
        found[name] = Installed(f"{name} {release}", (str(node), str(program)), missing)
    program = folder / "pi" / "package" / "dist" / "bundle" / "cli.js"
    missing = without or ("" if program.exists() else _unpacked(folder, "@".join(PI)))
    found["pi"] = Installed(f"pi {PI[1]}", (str(node), str(program)), missing)
    for each in found.values():
        if each.missing:
            say(f"NOT MEASURED: {each.title}: {each.missing}")
    return found


def _node_package() -> str:
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"node-{sys.platform}-{machine}"


def _pip(folder: Path, package: str) -> str:
    python = folder / "environment" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "environment", with_pip=True)
    return _failed([str(python), "-m", "pip", "install", "--quiet", package])


def _npm(folder: Path, package: str) -> str:
    place = folder / "node"
    place.mkdir(exist_ok=True)
    (place / "package.json").touch()
    if not (place / "package.json").read_text():
        (place / "package.json").write_text('{"private": true}')
    return _failed(
        ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", package], place
    )


def _unpacked(folder: Path, package: str) -> str:
    """Unpack a package that has all it needs in itself."""
    place = folder / "pi"
    place.mkdir(exist_ok=True)
    if failed := _failed(["npm", "pack", "--silent", package], place):
        return failed
    with tarfile.open(next(place.glob("*.tgz"))) as archive:
        archive.extractall(place, filter="data")
    return ""


def _failed(command: Sequence[str], folder: Path | None = None) -> str:
    """Run an installer; why it failed, or an empty text."""
    if shutil.which(command[0]) is None:
        return f"{command[0]} is not on this machine"
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if done.returncode == 0:
        return ""
    told = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
    return (told or [f"exit {done.returncode}"])[0].strip()
