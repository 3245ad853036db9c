"""Where each agent looks for the sessions of a working directory.

Claude Code and pi name a folder by the directory; Codex by the date. Gemini CLI gives each
directory a short name, which it keeps in `projects.json` and in a file `.project_root` in the
folder. A folder with such a file is enough, so `projects.json` is never changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from sessiontree.catalog.homes import folders_of
from sessiontree.storage.atomic import create_file
from sessiontree.storage.files import path_in, read_side_file
from sessiontree.storage.fs import FileSystem
from sessiontree.storage.move import make_folders

_LONGEST: Final = 200  # characters of a folder's name in Claude Code
_LARGEST: Final = 1024 * 1024
_ROOT: Final = ".project_root"
_DATE: Final = re.compile(r"rollout-(\d{4})-(\d\d)-(\d\d)T")
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def path_for(
    agent: str, cwd: str, name: str, fs: FileSystem, environ: Mapping[str, str] = os.environ
) -> str:
    """The path of a new session of a working directory; makes the folder.

    `name` is the name that the agent would give the file.
    """
    place: Callable[..., str] = _PLACES[agent]
    folder = place(folders_of(agent, environ)[0], os.path.realpath(cwd), name, environ, fs)
    make_folders(fs, folder)
    return os.path.join(folder, name)


def _of_claude_code(home: str, cwd: str, *_: Any) -> str:
    path = unicodedata.normalize("NFC", cwd)
    name = re.sub(r"[^a-zA-Z0-9]", "-", path)
    if len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{_hash(path)}"
    return os.path.join(home, name)


def _hash(path: str) -> str:
    """The hash that Claude Code adds to a name that it cuts."""
    value = 0
    units = path.encode("utf-16-le")
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits or "0"


def _of_codex(home: str, cwd: str, name: str, *_: Any) -> str:
    found = _DATE.match(name)
    return os.path.join(home, *(found.groups() if found else ()))


def _of_pi(home: str, cwd: str, name: str, environ: Mapping[str, str], fs: FileSystem) -> str:
    if environ.get("PI_CODING_AGENT_SESSION_DIR"):
        return home
    return os.path.join(home, "--" + re.sub(r"[/\\:]", "-", cwd.lstrip("/")) + "--")


def _of_gemini(home: str, cwd: str, name: str, environ: Mapping[str, str], fs: FileSystem) -> str:
    """The folder of the chats of a project; a new project gets a free name."""
    runtime = os.path.dirname(home)
    names = _registered(runtime, fs)
    slug = names.get(cwd)
    if slug is None or not _may_own(runtime, slug, cwd, fs):
        slug = _claimed(home, cwd, fs)
    if slug is None:
        hashed = hashlib.sha256(cwd.encode()).hexdigest()
        if os.path.isdir(os.path.join(home, hashed)):  # Gemini CLI moves it to a short name
            return os.path.join(home, hashed, "chats")
        slug = _free(runtime, cwd, set(names.values()), fs)
    folder = os.path.join(home, slug)
    make_folders(fs, folder)
    if _owner(folder, fs) is None:
        create_file(fs, os.path.join(folder, _ROOT), iter([cwd.encode()]))
    return os.path.join(folder, "chats")


def _registered(runtime: str, fs: FileSystem) -> dict[str, str]:
    content = read_side_file(fs, os.path.join(runtime, "projects.json"), _LARGEST)
    with suppress(orjson.JSONDecodeError, AttributeError):
        projects = orjson.loads(content or b"{}").get("projects", {})
        return {
            path: name
            for path, name in projects.items()
            if isinstance(name, str) and path_in(runtime, name) is not None
        }
    return {}


def _owner(folder: str, fs: FileSystem) -> str | None:
    """The directory whose project has a folder, or None."""
    content = read_side_file(fs, os.path.join(folder, _ROOT), _LARGEST)
    return content.decode("utf-8", "replace").strip() if content is not None else None


def _may_own(runtime: str, slug: str, cwd: str, fs: FileSystem) -> bool:
    folders = (os.path.join(runtime, kind, slug) for kind in ("tmp", "history"))
    return all(_owner(folder, fs) in (None, cwd) for folder in folders)


def _claimed(home: str, cwd: str, fs: FileSystem) -> str | None:
    """The short name whose folder says that it is the directory's, or None."""
    with suppress(OSError):
        for name in sorted(os.listdir(home)):
            if _owner(os.path.join(home, name), fs) == cwd:
                return name
    return None


def _free(runtime: str, cwd: str, used: set[str], fs: FileSystem) -> str:
    """A short name, made of the directory's name, that no other directory has."""
    bare = re.sub(r"[^a-z0-9]+", "-", os.path.basename(cwd).lower()).strip("-") or "project"
    name, number = bare, 0
    while name in used or not _may_own(runtime, name, cwd, fs):
        number += 1
        name = f"{bare}-{number}"
    return name


_PLACES: Final = {
    "claude-code": _of_claude_code,
    "codex": _of_codex,
    "pi": _of_pi,
    "gemini": _of_gemini,
}

AGENTS: Final = tuple(_PLACES)
"""The agents that can be given a session."""
