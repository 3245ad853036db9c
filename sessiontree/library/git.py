"""What a git repository knows of one file: its versions, and the commit of each line.

The command `git` is asked. Invariants: nothing in the repository changes, and nothing that its
configuration names is run: no hook, filter, pager or difference program; nothing is fetched. So git
never reads the file in the working tree, for which it would run filters: it is asked about commits
and the index alone.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from sessiontree.edits.diff import pairs
from sessiontree.errors import StorageError, UsageError

_QUIET: Final = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # what a git that does not know GIT_NO_LAZY_FETCH obeys
    "GIT_LITERAL_PATHSPECS": "1",  # `[id].tsx` and `:a` are names
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
_OPTIONS: Final = (
    *("-c", "core.fsmonitor=false", "-c", "core.quotepath=off", "-c", "core.hooksPath=/dev/null"),
    *("-c", "log.showSignature=false", "-c", "diff.external=", "--no-pager"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
)
_UNCOMMITTED: Final = "0" * 40


class Version(msgspec.Struct, frozen=True):
    """A file as one commit has it."""

    commit: str
    time: int  # in seconds since 1970
    author: str
    subject: str  # the first line of its message
    path: str  # below the top of the repository
    blob: str  # its hash
    text: str | None = None  # None if the commit deletes the file, or it is not there


class LineCommit(msgspec.Struct, frozen=True):
    """The commit that a line is from; None is known of a line that is not committed."""

    commit: str | None
    author: str | None
    time: int | None  # when the author wrote it, in seconds since 1970
    summary: str = ""  # the first line of the message


class Repository:
    """The working tree of a repository that a file is in."""

    def __init__(self, top: str, *, is_shallow: bool) -> None:
        self.top = top  # absolute
        self.is_shallow = is_shallow  # whether older commits were not fetched
        listed = self._run("worktree", "list", "--porcelain").decode("utf-8", "surrogateescape")
        named = (line[9:] for line in listed.split("\n") if line.startswith("worktree "))
        self.worktrees = list(dict.fromkeys([top, *named]))

    def versions(self, path: str) -> list[Version]:
        """The commits that changed a file, the oldest first, across renames, without contents."""
        out = self._run(
            *("log", "--follow", "--no-ext-diff", "--no-textconv", "--raw", "--no-abbrev", "-z"),
            *("--format=%H%n%ct%n%an%n%s", "--", self._in_head(path)),
            may_fail=True,
        )
        found = list(_versions(out.decode("utf-8", "surrogateescape")))
        found.reverse()
        last = 0
        for number, version in enumerate(found):  # a commit may claim to be older than its parent
            last = max(last, version.time)
            found[number] = msgspec.structs.replace(version, time=last)
        return found

    def with_texts(self, versions: Sequence[Version]) -> list[Version]:
        """The same versions with their contents; without for one that deletes the file."""
        asked = "".join(f"{version.blob}\n" for version in versions)
        contents = _contents(self._run("cat-file", "--batch", given=asked.encode()))
        return [
            version
            if (content := next(contents, None)) is None
            else msgspec.structs.replace(version, text=content.decode("utf-8", "replace"))
            for version in versions
        ]

    def blame(self, path: str, text: str, lines: tuple[int, int] | None = None) -> list[LineCommit]:
        """The commit of each line of a file; empty for a file that git does not know.

        Args:
            path: the path of the file, below the top.
            text: its content now.
            lines: the first and the last line, from 1; all lines if None.
        """
        committed = self._in_head(path)
        out = self._run("cat-file", "blob", f"HEAD:{committed}", may_fail=True)
        now = _lines(text)
        first, last = lines if lines is not None else (1, len(now))
        found = [LineCommit(None, None, None)] * (last - first + 1)
        same = [
            (old, new - first + 1)
            for old, new in pairs(_lines(out.decode("utf-8", "replace")), now)
            if first <= new + 1 <= last
        ]
        if not same:
            return found
        part = "-L", f"{same[0][0] + 1},{same[-1][0] + 1}"
        out = self._run(
            *("blame", "--porcelain", "--no-textconv", *part, "HEAD", "--", committed),
            may_fail=True,
        )
        commits = list(_line_commits(out.decode("utf-8", "surrogateescape")))
        for old, new in same if commits else ():
            found[new] = commits[old - same[0][0]]
        return found

    def revision_of(self, path: str, file: str) -> str | None:
        """The current commit if it has a file as it is on the disk; else None.

        Args:
            path: the path of the file, below the top.
            file: its path on the disk.

        Raises:
            StorageError: the file cannot be read.
        """
        committed = _ended(self.top, ("cat-file", "blob", f"HEAD:{path}"))
        if committed.returncode:
            return None
        try:
            with open(file, "rb") as opened:
                is_same = opened.read() == committed.stdout
        except OSError as error:
            raise StorageError(f"{file} cannot be read: {error.strerror}", file) from error
        return self._run("rev-parse", "HEAD").decode().strip() if is_same else None

    def _in_head(self, path: str) -> str:
        """The path of a file in the last commit, from which the index may have moved it."""
        if self._run("ls-tree", "--name-only", "-z", "--full-tree", "HEAD", path, may_fail=True):
            return path
        words = ("diff-index", "--cached", "--raw", "-z", "--find-renames", "--diff-filter=R")
        out = self._run(*words, "--no-ext-diff", "HEAD", may_fail=True)
        tokens = out.decode("utf-8", "surrogateescape").split("\0")
        moved = zip(tokens[2::3], tokens[1::3], strict=False)
        return next((old for new, old in moved if new == path), path)

    def _run(self, *words: str, given: bytes = b"", may_fail: bool = False) -> bytes:
        return _run(self.top, words, given=given, may_fail=may_fail)


def repository_of(file: str) -> Repository | None:
    """The repository that a file is in; None for a file outside of all, or without git.

    Raises:
        UsageError: git refuses the repository, such as one of another user.
    """
    folder = os.path.dirname(file)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    try:
        ended = _ended(folder, ("rev-parse", "--is-shallow-repository", "--show-toplevel"))
    except StorageError:
        return None
    if ended.returncode:
        said = ended.stderr.decode("utf-8", "replace")
        if "dubious ownership" in said:
            raise UsageError(
                f"git does not read the repository at {folder}, which another user owns; "
                "'git config --global --add safe.directory' allows it"
            )
        return None
    shallow, _, top = os.fsdecode(ended.stdout).partition("\n")
    top = top.removesuffix("\n")
    return Repository(top, is_shallow=shallow == "true") if top else None


def project_above(folder: str) -> str | None:
    """The top of the working tree that a folder is in, without a call of git; else None.

    The user's home and what is above it are no project, whatever they have.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    is_above_home = os.path.join(home, "").startswith(os.path.join(folder, ""))
    return None if is_above_home else folder


def _run(folder: str, words: Sequence[str], *, given: bytes, may_fail: bool) -> bytes:
    ended = _ended(folder, words, given)
    if ended.returncode and not may_fail:
        said = ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0]
        raise StorageError(
            f"git {words[0]} fails in {folder}: {said or 'without a message'}", folder
        )
    return b"" if ended.returncode else ended.stdout


def _ended(
    folder: str, words: Sequence[str], given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    environment: Mapping[str, str] = {**os.environ, **_QUIET}
    command = ["git", *_OPTIONS, *words]
    try:
        return subprocess.run(
            command, input=given, capture_output=True, cwd=folder, env=environment, check=False
        )
    except OSError as error:
        raise StorageError(f"git cannot be run: {error.strerror}", folder) from error


def _versions(out: str) -> Iterator[Version]:
    """The commits in a log of one file: the facts, then the state and the paths of the file."""
    tokens = iter(out.split("\0"))
    facts = ""
    for token in tokens:
        state = token.lstrip("\n")
        if not state.startswith(":"):
            facts = token  # of a merge nothing follows
            continue
        _, _, _, blob, change = state.split(" ")
        path = next(tokens, "")
        if change[0] in "RC":  # renamed or copied: two paths
            path = next(tokens, "")
        commit, time, author, subject = facts.split("\n", 3)
        yield Version(commit, int(time), author, subject, path, blob)


def _lines(text: str) -> list[str]:
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _contents(out: bytes) -> Iterator[bytes | None]:
    """The files in what git prints of objects; None for another object, and one that is missing."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        _, *kind, size = out[at:end].split(b" ")
        at = end + 1
        if not size.isdigit():
            yield None
            continue
        content = out[at : at + int(size)]
        yield content if kind == [b"blob"] else None
        at += int(size) + 1


def _line_commits(out: str) -> Iterator[LineCommit]:
    known: dict[str, dict[str, str]] = {}
    commit = ""
    for line in out.split("\n"):
        if line.startswith("\t"):
            facts = known[commit]
            if commit == _UNCOMMITTED:
                yield LineCommit(None, None, None)
            else:
                time = facts.get("author-time", "")
                yield LineCommit(
                    commit,
                    facts.get("author"),
                    int(time) if time.isdigit() else None,
                    facts.get("summary", ""),
                )
            commit = ""
        elif not commit:
            commit = line.partition(" ")[0]
            known.setdefault(commit, {})
        else:
            key, _, value = line.partition(" ")
            known[commit][key] = value
