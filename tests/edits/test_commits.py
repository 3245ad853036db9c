"""Commits are told where git was asked for one, and printed it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sessiontree.edits.shell import Commit, commits_told


def test_what_git_prints_is_told(tmp_path: Path) -> None:
    words = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    for number, subject in enumerate(("First [one]", "Second")):
        (tmp_path / "a").write_text(str(number))
        subprocess.run(["git", "add", "a"], cwd=tmp_path, check=True)
        asked = [*words, "commit", "-m", subject]
        done = subprocess.run(asked, cwd=tmp_path, check=True, capture_output=True, text=True)
        ((made),) = commits_told(" ".join(asked), done.stdout)
        listed = ["git", "log", "-1", "--format=%H"]
        hash = subprocess.run(listed, cwd=tmp_path, check=True, capture_output=True, text=True)
        assert hash.stdout.startswith(made.hash)
        assert made.subject == subject


def test_what_git_did_not_say_is_not_told() -> None:
    cases: list[tuple[str, str, list[Commit]]] = [
        ("git commit -qm x", "", []),
        ("cat log", "[main 1a2b3c4] x", []),
        ("git log", "[main 1a2b3c4] x", []),
        ("git -C sub commit", "[a/b-c 1a2b3c4] x", [Commit("1a2b3c4", "x")]),
        ("git revert HEAD", "[detached HEAD 1a2b3c4] y", [Commit("1a2b3c4", "y")]),
        ("git commit", "[main nothex1] x", []),
        ("git status; echo commit", "[main 1a2b3c4] x", []),
    ]
    for script, output, told in cases:
        assert list(commits_told(script, output)) == told
