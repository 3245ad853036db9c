from __future__ import annotations

from pathlib import Path

from sessiontree import Session
from tests.support.terminal import done, printed_json, run

FAR = "2999-01-01T00:00:00Z"


def tried(tmp_path: Path) -> Path:
    file = tmp_path / "s.jsonl"
    with Session.create(file) as main, main.scratch() as trial:
        trial.append_message({"role": "user", "content": "tried"})
    return file


def test_gc_says_what_would_go_and_then_what_went(tmp_path: Path) -> None:
    file = tried(tmp_path)
    assert printed_json("gc", file)["entries"] == []
    assert run("gc", file).stderr == f"{file}: nothing to remove\n"
    told = printed_json("gc", file, "--dry-run", "--as-of", FAR)
    (entry,) = told["entries"]
    assert set(entry) == {"uuid", "type", "lane", "timestamp"}
    assert entry["lane"].startswith("scratch/")
    keys = {"entries", "archive", "archives", "blobs", "unfinished", "aside", "freed"}
    assert set(told) == keys
    assert not list(tmp_path.glob("*.archive-*"))
    result = run("gc", file, "--as-of", FAR)
    assert "of scratch/" in result.stdout
    assert "1 entry moved into" in result.stderr
    assert list(tmp_path.glob("*.archive-2999-01-01"))
    assert done("verify", file) == ""


def test_a_blob_that_nothing_names_is_listed_by_its_hash(tmp_path: Path) -> None:
    file = tried(tmp_path)
    with Session.open(file) as session:
        sha256, size = session.blobs.put(b"stray")
    (blob,) = printed_json("gc", file, "--dry-run", "--as-of", FAR)["blobs"]
    assert blob == {"sha256": sha256, "size": size} == {"sha256": sha256, "size": 5}


def test_of_many_entries_some_are_listed_and_the_json_has_all(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    with Session.create(file) as main:
        for _ in range(30):
            with main.scratch() as trial:
                trial.append_message({"role": "user", "content": "tried"})
    told = done("gc", file, "--dry-run", "--as-of", FAR).splitlines()
    assert len(told) == 21
    assert told[-1] == "and 10 more entries; --json lists all"
    assert len(printed_json("gc", file, "--dry-run", "--as-of", FAR)["entries"]) == 30
    assert "lanes          31 (main 1, 30 scratch lanes 30)\n" in done("stats", file)
    assert "lanes          main, 30 scratch lanes\n" in done("show", file)
    assert len(printed_json("stats", file)["lanes"]) == 31
