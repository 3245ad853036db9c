"""gc takes out what was tried and never kept, when its time is over, and nothing else."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sessiontree import CorruptionError, Entry, Session, SessionNotFoundError, UsageError
from sessiontree.core.codec import encode
from sessiontree.core.handle import Handle
from sessiontree.engine.gc import GcResult
from sessiontree.storage.blobs import Blobs
from tests.support.conversation import assistant, message, said, user
from tests.support.faultydisk import FaultyDisk
from tests.support.table import for_each

NOW = datetime.now(UTC)
LATER = NOW + timedelta(days=8)
LONG = "a screenshot, " * 4000


def test_gc_leaves_no_file_open(tmp_path: Path) -> None:
    disk = FaultyDisk()
    with Session.create(tmp_path / "s.jsonl", fs=disk) as session:
        session.blobs.put(b"stray")
        (tmp_path / "s.jsonl.v1").write_text("{}\n")
        session.append_message(user("q"))
        before = list(disk.descriptors.values())
        session.gc(now=datetime(2999, 1, 1, tzinfo=UTC))
        assert sorted(disk.descriptors.values()) == sorted(before)


def age(path: Path, days: float) -> None:
    then = time.time() - days * 86400
    os.utime(path, (then, then))


def blobs_of(file: Path) -> list[Path]:
    return list(Path(f"{file}.blobs").iterdir())


def try_out(main: Session, *texts: str, at: Entry | None = None) -> list[Entry]:
    """The entries of a trial that is not kept."""
    with main.scratch(at=at) as trial:
        return [trial.append_message(assistant(text)) for text in texts]


def archives(file: Path) -> list[Path]:
    return sorted(file.parent.glob("*.archive-*"))


def test_damage_is_looked_for_in_the_file_that_gc_put_in_place_of_the_one_opened(
    file: Path,
) -> None:
    with Session.create(file) as main, Session.open(file) as other:
        try_out(main, "a")
        main.append_message(user("p1"))
        main.gc(now=LATER)
        with file.open("ab") as end:
            end.write(b'{"type"')
        other.refresh()
        assert other.repair(dry_run=True).remaining


def test_a_text_for_a_blob_is_refused_where_the_file_was_moved_away(file: Path) -> None:
    with Session.create(file) as main:
        file.rename(file.with_suffix(".moved"))
        with pytest.raises(SessionNotFoundError):
            main.append_message(user(LONG))
    assert not os.path.exists(f"{file}.blobs")


def test_a_trial_that_was_not_kept_goes_into_the_archive_byte_for_byte(file: Path) -> None:
    with Session.create(file) as main:
        main.append_message(user("p1"))
        tried = try_out(main, "a", "b")
        main.append_message(user("p2"))
        done = main.gc(now=LATER)
        assert [entry.uuid for entry in done.entries] == [entry.uuid for entry in tried]
        assert done.archive == str(archives(file)[0])
        assert archives(file)[0].name == f"s.jsonl.archive-{LATER.date()}"
        assert archives(file)[0].read_bytes() == b"".join(e.line + b"\n" for e in tried)
        assert tried[0].line not in file.read_bytes()
        assert main.verify() == []
        main.append_message(user("p3"))
        assert said(main.context()) == ["p1", "p2", "p3"]
        assert main.gc(now=LATER).entries == []


def test_nothing_goes_before_seven_days_after_the_last_of_it(file: Path) -> None:
    with Session.create(file) as main:
        try_out(main, "a")
        for days in (0.0, 6.99):
            assert main.gc(now=NOW + timedelta(days=days)).entries == []
        assert archives(file) == []
        try_out(main, "b")
        assert len(main.gc(now=LATER).entries) == 2


def test_an_old_entry_stays_while_something_young_hangs_below_it(file: Path) -> None:
    with Session.create(file) as main:
        old, top = "2020-01-01T00:00:00.000Z", main.header.uuid
        tried = [("old-1", top, old), ("young", "old-1", NOW.isoformat()), ("old-2", top, old)]
        with file.open("a") as appended:
            for uuid, parent, moment in [*tried, ("none", top, "not a moment")]:
                stamped = message(uuid, parent, "x") | {"lane": "scratch/x", "timestamp": moment}
                appended.write(json.dumps(stamped) + "\n")
        assert [e.uuid for e in main.gc(now=NOW).entries] == ["old-2"]


Reaching = Callable[[Session, Entry], object]


def by_handle(main: Session, tried: Entry) -> None:
    main.append("handle", handle=str(Handle.entry(main.id, tried.uuid)), kind="message")


def by_lane(main: Session, tried: Entry) -> None:
    with main.lane("agent-2", at=tried) as lane:
        lane.append_message(user("go on"))


REACHES: dict[str, Reaching] = {
    "keep": lambda main, tried: main.keep(str(tried.lane)),
    "merge": Session.merge,
    "label": lambda main, tried: main.label(tried, "good-idea"),
    "branch": Session.branch,
    "handle": by_handle,
    "lane": by_lane,
}


@for_each("by", list(REACHES))
def test_what_something_lasting_reaches_stays_with_all_above_it(file: Path, by: str) -> None:
    with Session.create(file) as main:
        main.append_message(user("p1"))
        _, tried, left = try_out(main, "a", "b", "c")
        main.refresh()
        REACHES[by](main, left if by == "keep" else tried)
        main.refresh()
        before = [entry.uuid for entry in main.entries()]
        gone = [entry.uuid for entry in main.gc(now=LATER).entries]
        assert gone == ([] if by == "keep" else [left.uuid])
        assert [entry.uuid for entry in main.entries()] == [u for u in before if u not in gone]
        assert main.verify() == []


@for_each("is_kept", [True, False])
def test_what_annotates_a_trial_stays_or_goes_with_it(file: Path, *, is_kept: bool) -> None:
    with Session.create(file, spill_over=100) as main:
        main.append_message(user("p1"))
        with main.scratch() as trial:
            trial.append("usage", kind="k", provider="p", model="m", usage={"input": 1})
            said = [trial.append_message(user("x" * 200))]
            report = f"sha256:{main.blobs.put(b'a report').sha256}"
            fields: dict[str, Any] = {"usage": {"input": 10}, "reported": report}
            trial.append("usage", kind="k", provider="p", model="m", **fields)
            trial.label(said[0], "before")
            said.append(trial.append_message(assistant("z" * 200)))
            trial.append("usage", kind="k", provider="p", model="m", usage={"input": 100})
            said.append(trial.append_message(user("last")))
        if is_kept:
            main.keep(str(said[0].lane))
        before = [*main.entries()]
        for blob in blobs_of(file):
            age(blob, days=9)
        main.gc(now=LATER)
        main.gc(now=LATER + timedelta(days=40))
        assert [*main.entries()] == (before if is_kept else before[:2])
        assert main.stats().usage.input == 111 * is_kept
        assert [label.label for label in main.labels()] == ["before"] * is_kept
        assert len(blobs_of(file)) == 3 * is_kept
        assert main.verify() == []


def test_what_garbage_refers_to_is_garbage_too(file: Path) -> None:
    with Session.create(file) as main:
        main.append_message(user("p1"))
        (tried,) = try_out(main, "a")
        with main.scratch() as two:
            two.append_message(assistant("b"))
            two.merge(tried)
        assert len(main.gc(now=LATER).entries) == 3


def test_a_dry_run_tells_the_same_and_changes_nothing(file: Path) -> None:
    with Session.create(file, spill_over=100) as main:
        try_out(main, LONG)
        before = {p: p.read_bytes() for p in file.parent.rglob("*") if p.is_file()}
        told = main.gc(now=LATER, dry_run=True)
        assert {p: p.read_bytes() for p in file.parent.rglob("*") if p.is_file()} == before
        assert told.as_dict() == main.gc(now=LATER).as_dict()


@for_each("removed", ["entries", "archives", "blobs", "unfinished", "aside"])
def test_a_collection_is_empty_only_if_nothing_of_any_kind_was_removed(removed: str) -> None:
    kinds: dict[str, Any] = {
        **{key: [] for key in ("entries", "archives", "blobs", "unfinished", "aside")},
        "archive": None,
        "freed": 0,
    }
    assert GcResult(**kinds).is_empty
    assert not GcResult(**kinds | {removed: [object()]}).is_empty


def test_an_archive_goes_after_thirty_days_and_its_blobs_with_it(file: Path) -> None:
    with Session.create(file) as main:
        kept = main.append_message(user("kept " * 9000))
        try_out(main, LONG, at=main.header)
        for blob in blobs_of(file):
            age(blob, 100)
        main.gc(now=LATER)
        assert len(blobs_of(file)) == 2
        assert main.gc(now=LATER + timedelta(days=30)).archives == []
        done = main.gc(now=LATER + timedelta(days=31))
        assert (len(done.archives), len(done.blobs)) == (1, 1)
        assert archives(file) == []
        assert main.entry(kept.uuid)["message"] == user("kept " * 9000)


def test_a_young_blob_and_a_named_one_stay(file: Path) -> None:
    with Session.create(file) as main:
        main.append_message(user(LONG))
        stray = main.blobs.put(b"nobody names me")
        assert main.gc(now=NOW).blobs == []
        for blob in blobs_of(file):
            age(blob, 8)
        assert main.gc(now=NOW).blobs == [stray]
        assert said(main.context(strict=True)) == [LONG]


@for_each("form", [Handle.as_dict, lambda handle: str(handle).replace("256:", "256%3A")])
def test_a_blob_stays_whatever_form_its_handle_has(
    form: Callable[[Handle], Any], file: Path
) -> None:
    with Session.create(file) as main:
        blob = main.blobs.put(b"content")
        handle = form(Handle.blob(*blob, "text/plain"))
        fields = {"handle": handle, "kind": "binary"}
        line = encode({"type": "handle", "uuid": "h", "parentUuid": main.header.uuid, **fields})
    with file.open("ab") as end:
        end.write(line + b"\n")
    age(Path(f"{file}.blobs") / blob.sha256, 8)
    with Session.open(file) as main:
        assert main.gc(now=LATER).blobs == []


def test_blobs_named_by_the_evidence_of_a_repair_stay(file: Path) -> None:
    with Session.create(file) as main:
        stray = main.blobs.put(b"only the evidence names me")
        Path(f"{file}.damaged-20200101").write_text(f"torn sha256:{stray.sha256}")
        age(Path(f"{file}.blobs") / stray.sha256, 100)
        assert main.gc().blobs == []


def test_an_unfinished_blob_goes_when_nobody_can_be_at_it_any_more(file: Path) -> None:
    with Session.create(file) as main:
        main.blobs.put(b"x")
        for name, days in (("1-aa.tmp", 8.0), ("1-bb.tmp", 0.0)):
            path = Path(f"{file}.blobs") / name
            path.write_bytes(b"half")
            age(path, days)
        assert main.gc().unfinished == ["1-aa.tmp"]


def test_what_was_kept_aside_of_a_damaged_blob_goes_thirty_days_later(file: Path) -> None:
    with Session.create(file) as main:
        main.append_message(user(LONG))
        (blob,) = blobs_of(file)
        blob.write_bytes(b"bit rot")
        age(blob, 400)  # as old as the blob: when it was put aside is in its name
    with Session.open(file) as main:
        main.append_message(user(LONG))
        (aside,) = Path(f"{file}.blobs").glob("*.damaged-*")
        assert aside.read_bytes() == b"bit rot"
        assert main.gc(now=NOW + timedelta(days=29)).aside == []
        told = main.gc(now=NOW + timedelta(days=32), dry_run=True)
        assert (told.aside, told.freed) == ([aside.name], len(b"bit rot"))
        assert aside.exists()
        undated = aside.with_name(f"{aside.name.partition('.')[0]}.damaged-2026-02-31-1")
        undated.write_bytes(b"at no date of the calendar")
        assert main.gc().aside == []
        age(undated, 400)
        assert main.gc(now=NOW + timedelta(days=29)).aside == [undated.name]
        assert main.gc(now=NOW + timedelta(days=32)).as_dict()["aside"] == [aside.name]
        assert [path.name for path in blob.parent.iterdir()] == [blob.name]
        assert main.verify() == []


def test_a_file_that_another_writer_finishes_meanwhile_is_no_obstacle(file: Path) -> None:
    with Session.create(file) as main, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Blobs, "unfinished", lambda self: ["1-aa.tmp"])  # was there
        assert main.gc(now=LATER).unfinished == []


def test_a_damaged_file_is_not_collected(file: Path) -> None:
    with Session.create(file) as main, main.scratch() as trial:
        trial.append_message(assistant("a"))
    with file.open("ab") as torn:
        torn.write(b'{"type":"message","uuid":"half\n')
    before = file.read_bytes()
    with Session.open(file) as main, pytest.raises(CorruptionError, match="repair the file first"):
        main.gc(now=LATER)
    assert file.read_bytes() == before


def test_another_writer_goes_on_after_a_collection(file: Path) -> None:
    with Session.create(file) as main, Session.open(file) as other:
        try_out(main, "a")
        other.append_message(user("p1"))
        assert len(main.gc(now=LATER).entries) == 1
        other.append_message(user("p2"))
        assert said(other.context()) == ["p1", "p2"]
        assert other.verify() == []


def test_where_somebody_stands_is_no_garbage(file: Path) -> None:
    with Session.create(file) as main:
        main.append_message(user("p1"))
    with Session.open(file, lane="scratch/mine") as trial:
        trial.append_message(assistant("a"))
        assert trial.gc(now=LATER).entries == []
        assert said(trial.context()) == ["p1", "a"]


def test_a_moment_without_a_time_zone_is_refused(file: Path) -> None:
    with Session.create(file) as main, pytest.raises(UsageError, match="time zone"):
        main.gc(now=datetime(2026, 1, 1))


def test_a_session_in_memory_is_collected_too() -> None:
    with Session.create() as main:
        try_out(main, "a")
        assert len(main.gc(now=LATER).entries) == 1
        assert said(main.context()) == []
