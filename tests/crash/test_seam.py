"""Nothing outside the seam touches the disk to change it.

What the crash tests prove, they prove of calls that go through `storage/fs.py`.
A write that goes past it would be outside of every proof, so there is none: all
modules are parsed, and each call that could write, rename, sync, remove or make
something is found. Some exceptions: `cli/demo.py` plays in a temporary folder that
it makes and removes with `tempfile.mkdtemp` and `shutil.rmtree`; `cli/agents.py` goes over to an
agent's program; `cli/screen.py` asks for the terminal's size and for a pager;
`ops/intake.py` asks if an agent's program is installed; `mcp/setup.py`
makes the folder of an agent's configuration, and keeps the permissions of that file; `testing.py`
cuts a file as a crash does, and copies it to a temporary folder; anybody may open the null device;
and anybody may open a file with flags that only read.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest

import sessiontree
from sessiontree.storage.fs import DISK
from tests.support.table import for_each

PACKAGE = Path(sessiontree.__file__).parent
SEAM = "storage/fs.py"
ALLOWED = {
    "cli/demo.py": {"tempfile.mkdtemp", "shutil.rmtree"},
    "cli/agents.py": {"os.chdir", "os.execvpe", "shutil.which"},
    "cli/screen.py": {"shutil.get_terminal_size", "shutil.which"},
    "ops/intake.py": {"shutil.which"},
    "tui/leaving.py": {"shutil.which"},
    "importing/acp.py": {"tempfile.TemporaryDirectory", "open to 'wb'"},  # what the import reads
    "importing/acp_client.py": {"os.killpg"},
    "mcp/setup.py": {"os.makedirs", "os.chmod"},
    "storage/contents.py": {"tempfile.SpooledTemporaryFile"},
    # of agents, opened to read alone; what SQLite would have to mend, it mends in a copy
    "storage/databases.py": {
        *("sqlite3.Connection", "sqlite3.Error", "sqlite3.OperationalError", "sqlite3.Row"),
        *("sqlite3.connect", "tempfile.TemporaryDirectory", "shutil.copyfile"),
    },
    "testing.py": {".write_bytes", "tempfile.TemporaryDirectory"},
}

WRITING_MODULES = {"shutil", "tempfile", "mmap", "fileinput", "sqlite3", "shelve", "dbm"}
"""Modules of which any use is a violation."""

READING_OS = {
    *("fspath", "getcwd", "getpid", "urandom", "path", "PathLike", "environ", "cpu_count"),
    *("listdir", "scandir", "walk", "stat", "lstat", "fstat", "access", "strerror", "sep"),
    *("getppid", "kill", "isatty", "get_terminal_size", "fsencode", "fsdecode", "devnull"),
    *("register_at_fork", "fork", "waitpid", "sched_getaffinity", "uname"),
    *("O_RDONLY", "O_RDWR", "O_WRONLY", "O_APPEND", "O_CREAT", "O_EXCL", "O_TRUNC", "SEEK_END"),
    *("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "stat_result"),
    *("DirEntry", "name", "linesep", "curdir", "pardir", "readlink", "get_blocking"),
    *("dup", "dup2", "_exit", "close"),  # of the standard streams, when a reader hung up
    "X_OK",
}
"""What of `os` may be used anywhere: what is not named here changes something, or may."""

READING_FLAGS = {"O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"}
"""With these alone `os.open` changes nothing."""

WRITING_METHODS = {
    *("write_text", "write_bytes", "touch", "unlink", "rename", "mkdir", "rmdir", "symlink_to"),
    *("hardlink_to", "link_to", "chmod", "lchmod", "truncate", "ftruncate", "makedirs"),
    *("removedirs", "fsync", "fdatasync", "pwrite", "writev"),
}
"""Methods of paths and files that change the disk, whatever they are called on."""

SEAM_NAMES = {"fs", "_fs", "_disk", "DISK", "_FILES"}
"""What holds a file system of the seam; its methods are the way that is allowed."""


def violations(source: str, module: str) -> Iterator[str]:
    """The places where a module could change the disk past the seam."""
    tree = ast.parse(source, module)
    names = _imported(tree)
    harmless = {node.func for node in ast.walk(tree) if _opens_harmlessly(node, names)}
    for node in ast.walk(tree):
        if node in harmless:
            continue
        if isinstance(node, ast.Attribute):
            found = _attribute(node, names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found = _name(node, names)
        elif isinstance(node, ast.Call):
            found = _opened_to_write(node, names) or _replaced(node, names)
        else:
            continue
        if found is not None and found not in ALLOWED.get(module, set()):
            yield f"{module}:{node.lineno}: {found}"


def _opens_harmlessly(node: ast.AST, names: dict[str, str]) -> TypeGuard[ast.Call]:
    """Whether a call opens the null device, or opens a file with flags that only read."""
    if not isinstance(node, ast.Call) or _dotted(node.func, names) != "os.open":
        return False
    is_null = bool(node.args) and _dotted(node.args[0], names) == "os.devnull"
    return is_null or (len(node.args) == 2 and _only_reads(node.args[1], names))


def _only_reads(flags: ast.expr, names: dict[str, str]) -> bool:
    """Whether flags are spelled out where the file is opened, and none of them writes."""
    if isinstance(flags, ast.BinOp) and isinstance(flags.op, ast.BitOr):
        return _only_reads(flags.left, names) and _only_reads(flags.right, names)
    return (_dotted(flags, names) or "").removeprefix("os.") in READING_FLAGS


def _imported(tree: ast.AST) -> dict[str, str]:
    """The names that imports bind, and what they stand for."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = alias.name
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, names: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        above = _dotted(node.value, names)
        return None if above is None else f"{above}.{node.attr}"
    return None


def _is_writing(dotted: str) -> bool:
    module, _, rest = dotted.partition(".")
    if module in WRITING_MODULES:
        return bool(rest)
    return module in ("os", "posix") and bool(rest) and rest.split(".")[0] not in READING_OS


def _attribute(node: ast.Attribute, names: dict[str, str]) -> str | None:
    dotted = _dotted(node, names)
    if dotted is not None and dotted.partition(".")[0] in ("os", "posix", *WRITING_MODULES):
        return dotted if _is_writing(dotted) else None
    if node.attr not in WRITING_METHODS or _is_seam(node.value):
        return None
    if node.attr == "rename" and ast.unparse(node.value) in ("session", "Session"):
        return None  # gives a session a name, not a file
    return f".{node.attr}"


def _is_seam(node: ast.expr) -> bool:
    return ast.unparse(node).rpartition(".")[2] in SEAM_NAMES


def _replaced(node: ast.Call, names: dict[str, str]) -> str | None:
    """A call of `replace` with one argument: a path's, for a string's takes two."""
    func = node.func
    if not isinstance(func, ast.Attribute) or func.attr != "replace" or _is_seam(func.value):
        return None
    return ".replace" if len(node.args) == 1 and not node.keywords else None


def _name(node: ast.Name, names: dict[str, str]) -> str | None:
    dotted = names.get(node.id, "")
    return dotted if "." in dotted and _is_writing(dotted) else None


def _opened_to_write(node: ast.Call, names: dict[str, str]) -> str | None:
    """A call of `open`, `io.open` or `Path.open` with a mode that is not surely for reading."""
    if isinstance(node.func, ast.Name):
        if names.get(node.func.id, node.func.id) not in ("open", "io.open", "os.fdopen"):
            return None
        at = 1
    elif isinstance(node.func, ast.Attribute) and node.func.attr in ("open", "fdopen"):
        if _is_seam(node.func.value):
            return None
        is_module = _dotted(node.func.value, names) in ("io", "codecs", "builtins", "gzip")
        at = 1 if is_module else 0
        if not is_module and not _has_text_mode(node):
            return None  # the seam's own, a session's, or a path opened to read
    else:
        return None
    modes = [word.value for word in node.keywords if word.arg == "mode"] or node.args[at : at + 1]
    if not modes:
        return None
    mode = modes[0]
    if isinstance(mode, ast.Constant) and isinstance(mode.value, str):
        return f"open to {mode.value!r}" if set(mode.value) & set("wax+") else None
    return "open to what a variable says"


def _has_text_mode(node: ast.Call) -> bool:
    """Whether a method `open` is called as a path's is: with a mode like 'w' or 'rb'."""
    modes = [word.value for word in node.keywords if word.arg == "mode"] or node.args[:1]
    return (
        bool(modes)
        and isinstance(modes[0], ast.Constant)
        and isinstance(modes[0].value, str)
        and set(modes[0].value) <= set("rwaxbt+U")
    )


def _modules() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


@for_each("module", _modules())
def test_only_the_seam_changes_the_disk(module: str) -> None:
    found = list(violations((PACKAGE / module).read_text(), module))
    assert found == [] or module == SEAM


def test_the_seam_itself_is_seen_to_write() -> None:
    found = {what.rpartition(" ")[2] for what in violations((PACKAGE / SEAM).read_text(), SEAM)}
    assert {
        *("os.open", "os.write", "os.fdatasync", "os.fsync", "os.replace", "os.link"),
        "os.unlink",
    } <= found


OS_CALLS = (
    *("open('x', os.O_WRONLY)", "open('notes', os.O_RDONLY | os.O_CREAT)", "sync"),
    *("open('notes', os.O_RDONLY | 512)", "open('notes', flags=os.O_RDWR)", "write(1, b'')"),
    *("open('notes', os.O_RDONLY & os.O_CLOEXEC)", "unlink('x')", "remove('x')", "fsync(1)"),
    *("fdatasync(1)", "truncate('x', 0)", "ftruncate(1, 0)", "mkdir('x')", "makedirs('x')"),
    *("rmdir('x')", "chmod('x', 0o600)", "utime('x')", "symlink('a', 'b')", "fdopen(1, 'w')"),
    "pwrite(1, b'', 0)",
)
PATH_CALLS = (
    *("write_text('')", "write_bytes(b'')", "open('w')", "open(mode='a')", "unlink()"),
    *("rename('y')", "mkdir()", "replace('y')", "touch()"),
)
PLANTED = [
    *(f"import os\nos.{call}" for call in OS_CALLS),
    *(f"from pathlib import Path\nPath('x').{call}" for call in PATH_CALLS),
    *(f"open('x', {mode})" for mode in ("'w'", "'ab'", "mode='x'", "'r+b'")),
    "import os\ndef f(flags):\n    os.open('notes', flags)",
    "import os as system\nsystem.replace('a', 'b')",
    "from os import rename\nrename('a', 'b')",
    "from os import link as give_a_name\nawkward = give_a_name",
    "import posix\nposix.unlink('x')",
    "import shutil\nshutil.copy('a', 'b')",
    "from shutil import move\nmove('a', 'b')",
    "import tempfile\ntempfile.mkdtemp()",
    "from tempfile import NamedTemporaryFile\nNamedTemporaryFile()",
    "import mmap\nmmap.mmap(1, 0)",
    "def f(mode):\n    open('x', mode)",
    "import io\nio.open('x', 'w')",
    "import codecs\ncodecs.open('x', 'w')",
    "def f(file):\n    file.truncate(0)",
    "def f(path):\n    remove = path.unlink\n    remove()",
]


@for_each("source", PLANTED)
def test_a_planted_write_is_found(source: str) -> None:
    assert list(violations(source, "planted.py"))


HARMLESS = [
    "import os\nos.path.realpath('x')",
    "open('x')",
    "open('x', 'rb')",
    "from pathlib import Path\nPath('x').read_text()",
    "from pathlib import Path\nPath('x').open('rb')",
    "'a'.replace('a', 'b')",
    "from msgspec.structs import replace\nreplace(1)",
    "def f(fs):\n    fs.unlink('x')\n    fs.open('x', 0)",
    "def f(out):\n    out.write('on the terminal')",
    "import os\nos.open(os.devnull, os.O_WRONLY)",
    "import os\nos.open('notes', os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=3)",
    "def f(session):\n    session.rename('a name')",
    "Session.open('chat.jsonl')",
]


@for_each("source", HARMLESS)
def test_reading_is_no_violation(source: str) -> None:
    assert list(violations(source, "harmless.py")) == []


def test_the_demo_may_only_make_and_remove_its_folder() -> None:
    source = (
        "import tempfile, shutil\ntempfile.mkdtemp()\nshutil.rmtree('x')\nshutil.move('a', 'b')"
    )
    assert list(violations(source, "cli/demo.py")) == ["cli/demo.py:4: shutil.move"]
    assert len(list(violations(source, "cli/writing.py"))) == 3


@pytest.mark.skipif(sys.platform == "darwin", reason="there it is a call of fcntl")
def test_the_disk_asks_the_system_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("fdatasync", "fsync"):
        monkeypatch.setattr(os, name, lambda fd, name=name: asked.append(name))
    fd = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    DISK.sync(fd)
    DISK.sync_folder(str(tmp_path))
    os.close(fd)
    assert asked == ["fdatasync", "fsync"]
