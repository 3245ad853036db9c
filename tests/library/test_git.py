"""What is asked of git: names of every kind, and a repository that wants to run programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from sessiontree.library.git import LineCommit, Repository, project_above, repository_of

NAMES = ("a.py", "[id].tsx", ":a", "-n", "a b.py", 'q"t\t.py', "new\nline.py", "é.py", "*.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository."""
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "Ada")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "ada@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    made = tmp_path / "app"
    made.mkdir()
    git(made, "init", "-q")
    return made


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, subject: str = "a commit") -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "--allow-empty", "-m", subject)


def repository(folder: Path) -> Repository:
    found = repository_of(str(folder / "a.py"))
    assert found is not None
    return found


def authors(folder: Path, name: str, lines: tuple[int, int] | None = None) -> list[str | None]:
    text = (folder / name).read_bytes().decode()
    return [each.author for each in repository(folder).blame(name, text, lines)]


def test_a_file_of_any_name_has_its_versions_and_the_commits_of_its_lines(folder: Path) -> None:
    for name in NAMES:
        (folder / name).write_text(f"{name}\nshared\n")
    commit(folder)
    (folder / "other.py").write_text("no file of the names\n")
    commit(folder)
    for name in NAMES:
        found = repository(folder)
        (version,) = found.with_texts(found.versions(name))
        assert (version.path, version.text) == (name, f"{name}\nshared\n")
        count = len(f"{name}\nshared\n".splitlines())
        assert authors(folder, name) == ["Ada"] * count


def test_a_file_that_was_renamed_twice_has_the_versions_of_all_its_names(folder: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(9))
    (folder / "a.py").write_text(text)
    commit(folder, "first")
    for old, new in (("a.py", "b\nb.py"), ("b\nb.py", "c c.py")):
        git(folder, "mv", "--", old, new)
        commit(folder, new)
    found = repository(folder).versions("c c.py")
    assert [each.path for each in found] == ["a.py", "b\nb.py", "c c.py"]
    assert [each.author for each in found] == ["Ada"] * 3
    git(folder, "mv", "--", "c c.py", "d.py")  # not committed
    assert [each.path for each in repository(folder).versions("d.py")][-1] == "c c.py"
    assert authors(folder, "d.py") == ["Ada"] * 9


def test_lines_that_are_not_committed_have_no_commit(folder: Path) -> None:
    (folder / "a.py").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    commit(folder)
    (folder / "a.py").write_text("new\none\ntwo changed\nthree\n")
    assert authors(folder, "a.py") == [None, "Ada", None, "Ada"]
    assert authors(folder, "a.py", (2, 3)) == ["Ada", None]
    (folder / "b.py").write_text("\nnot added\n")
    assert authors(folder, "b.py") == [None, None]


def test_a_subject_and_an_author_of_any_text_break_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada\x01 :100644 \t author-time 1")
    (folder / "a.py").write_text("one\n")
    commit(folder, "\x01:100644 100644 a b M")
    (version,) = repository(folder).versions("a.py")
    assert (version.author, version.subject[:3]) == (
        "Ada\x01 :100644 \t author-time 1",
        "\x01:1",
    )
    assert authors(folder, "a.py") == ["Ada\x01 :100644 \t author-time 1"]


def test_a_shallow_clone_has_the_versions_that_were_fetched(folder: Path, tmp_path: Path) -> None:
    for number in range(3):
        (folder / "a.py").write_text("".join(f"{line}\n" for line in range(number + 1)))
        commit(folder)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--depth", "1", folder.as_uri(), str(clone))
    found = repository(clone)
    assert found.is_shallow
    assert [each.text for each in found.with_texts(found.versions("a.py"))] == ["0\n1\n2\n"]
    assert authors(clone, "a.py") == ["Ada"] * 3


def test_a_version_whose_content_is_no_file_has_no_text(folder: Path) -> None:
    """Git says of an object that it is missing, or it gives a folder, or a commit."""
    for text in ("one\n", "two\n"):
        (folder / "a.py").write_text(text)
        commit(folder)
    found = repository(folder)
    first, second = found.versions("a.py")
    tree = hash_of(folder, "HEAD^{tree}")
    blobs = ("0" * 40, first.blob, tree, first.commit, second.blob, "0" * 40)
    asked = [msgspec.structs.replace(first, blob=blob) for blob in blobs]
    texts = [each.text for each in found.with_texts(asked)]
    assert texts == [None, "one\n", None, None, "two\n", None]
    assert found.with_texts([]) == []


def test_a_commit_that_claims_to_be_older_than_its_parent_has_the_time_of_that(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for time in (2_000, 1_000, 3_000):
        monkeypatch.setenv("GIT_COMMITTER_DATE", f"{time + 1_700_000_000} +0000")
        (folder / "a.py").write_text(f"{time}\n")
        commit(folder, f"at {time}")
    found = repository(folder).versions("a.py")
    assert [each.time - 1_700_000_000 for each in found] == [2_000, 2_000, 3_000]
    assert [each.subject for each in found] == ["at 2000", "at 1000", "at 3000"]


def test_each_line_has_the_facts_of_its_commit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, text in enumerate(("one\n", "one\ntwo\n")):
        monkeypatch.setenv("GIT_AUTHOR_DATE", f"{1_700_000_000 + number} +0000")
        monkeypatch.setenv("GIT_AUTHOR_NAME", f"Author {number}")
        (folder / "a.py").write_text(text)
        commit(folder, f"subject {number}\n\nand a body")
    first, second = (hash_of(folder, name) for name in ("HEAD^", "HEAD"))
    assert repository(folder).blame("a.py", "new\none\ntwo\n") == [
        LineCommit(None, None, None),
        LineCommit(first, "Author 0", 1_700_000_000, "subject 0"),
        LineCommit(second, "Author 1", 1_700_000_001, "subject 1"),
    ]


def hash_of(folder: Path, name: str) -> str:
    done = subprocess.run(["git", "rev-parse", name], cwd=folder, capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_a_repository_without_a_commit_knows_no_file(folder: Path) -> None:
    (folder / "a.py").write_text("one\n")
    assert repository(folder).versions("a.py") == []
    assert authors(folder, "a.py") == [None]


def test_without_git_no_file_is_in_a_repository(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert repository_of(str(folder / "a.py")) is None


def test_the_project_above_a_folder_is_never_the_home(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a" / "b").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder.parent / "home"))
    assert project_above(str(folder / "a" / "b")) == str(folder)
    assert project_above("/") is None
    for home in (folder, folder / "a"):
        monkeypatch.setenv("HOME", str(home))
        assert project_above(str(folder / "a" / "b")) is None


def test_nothing_that_a_repository_names_is_run(folder: Path, tmp_path: Path) -> None:
    """Not to read the file in the working tree is what keeps filters from running."""
    (folder / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (folder / "a.py").write_text("one\n")
    commit(folder)
    ran = tmp_path / "ran"
    ran.mkdir()
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.sshCommand", "core.askPass"),
        *("diff.external", "diff.evil.command", "diff.evil.textconv", "pager.log", "pager.blame"),
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "gpg.program"),
        *("merge.evil.driver", "credential.helper", "core.alternateRefsCommand"),
        *("interactive.diffFilter", "trailer.evil.cmd"),
    ):
        git(folder, "config", key, f"touch {ran}/{key}; cat")
    for word in ("log", "blame", "cat-file", "rev-parse", "ls-tree"):
        git(folder, "config", f"alias.{word}", f"!touch {ran}/alias-{word}")
    git(folder, "config", "log.showSignature", "true")
    git(folder, "config", "core.hooksPath", str(folder / "hooks"))
    (folder / "hooks").mkdir()
    for hook in (
        "post-index-change",
        "fsmonitor-watchman",
        "post-checkout",
        "reference-transaction",
    ):
        (folder / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}/{hook}\n")
        (folder / "hooks" / hook).chmod(0o755)
    (folder / "a.py").write_text("one\nnew\n")
    before = {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")}
    found = repository(folder)
    assert [each.text for each in found.with_texts(found.versions("a.py"))] == ["one\n"]
    assert authors(folder, "a.py") == ["Ada", None]
    assert os.listdir(ran) == []
    assert {path: path.stat().st_mtime_ns for path in (folder / ".git").rglob("*")} == before
