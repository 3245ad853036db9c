"""A day of 10,000 agents, against the real code and a real server.

    python -m benchmarks.simulation [postgres | objects | moto | ADDRESS] [--every N] [--seed N]

`benchmarks.day` draws what each agent calls and when. The calls are real, and so are their times;
only the waiting between them is left out. Four parts:

1. *start*: all agents create their sessions.
2. *day*: one agent of `--every` makes all its calls, in the order of the day, as fast as they go.
3. *busiest minute*: the appends of all agents in the minute with most entries, at their own times.
4. *look*: sessions are listed and searched, in PostgreSQL also on a standby server.

At the end, the sessions of the sample are read and compared with what was acknowledged. `postgres`
starts PostgreSQL with `fsync` on, `objects` starts SeaweedFS, `moto` starts moto's server; ADDRESS
is an empty place on a server that runs, whose processor time is not measured. `--idle N` holds N
more connections to it, as to a pooler. Server and clients share the machine, so
all figures are those of the two together.
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import multiprocessing
import os
import random
import tempfile
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.day import APPENDS, Call, Day, Demand, calls_of, demand_of
from sessiontree import Session, Store
from sessiontree.storage.log import Log
from sessiontree.storage.places import place_of

_ENVELOPE: Final = 300
"""Bytes of a line around its text, about."""

_CHECKED: Final = 200
"""The most sessions that are read at the end."""

_TICKS: Final = os.sysconf("SC_CLK_TCK")

Times = dict[str, list[float]]


class Job(NamedTuple):
    """What a worker does.

    Attributes:
        url: the place.
        day, seed: the model.
        agents: the agents that the worker plays.
        sample: those of them that make all their calls.
        threads: how many calls it makes at once.
        peak, seconds: the busiest time.
        standby: the same place on a standby server; empty if there is none.
    """

    url: str
    day: Day
    seed: int
    agents: Sequence[int]
    sample: Sequence[int]
    threads: int
    peak: int
    seconds: int
    standby: str = ""


class Done(NamedTuple):
    """What a part of a worker took.

    Attributes:
        times: the seconds of each call, by its kind.
        requests: the round trips or requests, by their kinds.
        entries: how many entries were acknowledged.
        seconds: how long the part took.
    """

    times: Times
    requests: Counter[str]
    entries: int
    seconds: float


class Agent:
    """The session of an agent, and what the next call needs to know of it.

    Attributes:
        file: where the session is.
        entries: how many entries were acknowledged, the header included.
    """

    def __init__(self, number: int) -> None:
        self.file = ""
        self.entries = 0
        self._number = number
        self._session: Session | None = None
        self._prompts: list[str] = []
        self._chance = random.Random(number)

    def create(self, job: Job) -> None:
        name = str(uuid.UUID(int=self._chance.getrandbits(128)))
        with Store(job.url).create(cwd=self._project(job), id=name) as session:
            self.file = str(session.file)
        self.entries = 1

    def _project(self, job: Job) -> str:
        return f"/projects/{self._number // job.day.team}"

    def open(self) -> Session:
        if self._session is None:
            self._session = Session.open(self.file)
        return self._session

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def make(self, call: Call, job: Job) -> None:
        """Make a call as an agent does."""
        if call.kind in APPENDS:
            self._append(call)
        elif call.kind == "resume":
            self.close()
            assert self.open().context().messages
        elif call.kind == "branch":
            self.open().branch(self._prompts[-1], summary=self._text(call.sizes[0]))
            self.entries += 1
        elif call.kind == "compact":
            self.open().compact(self._text(call.sizes[0]))
            self.entries += 1
        elif call.kind == "list":
            assert Store(job.url).list(cwd=self._project(job))
        elif call.kind == "search":
            list(Store(job.url).search("no such text", cwd=self._project(job)))

    def _append(self, call: Call) -> None:
        session = self.open()
        if call.kind == "prompt":
            prompt = session.append_message(_prompt(self._text(call.sizes[0])))
            self._prompts = [*self._prompts[-9:], prompt.uuid]
        elif call.kind == "answer":
            session.append_message(_answer(self._text(call.sizes[0])))
        elif call.kind == "batch":
            with session.batch():
                for size in call.sizes:
                    session.append_message(_result(self._text(size)))
        elif call.kind == "image":
            session.append_message(_result("", self._chance.randbytes(call.sizes[0] * 3 // 4)))
        else:
            session.append_message(_result(self._text(call.sizes[0])))
        self.entries += len(call.sizes)

    def _text(self, size: int) -> str:
        """A text for a line of this size: a part of the sources, so that it compresses as one."""
        size = max(1, size - _ENVELOPE)
        start = self._chance.randrange(len(_sources()) - size)
        return _sources()[start : start + size]


@cache
def _sources() -> str:
    """The texts of the package."""
    files = sorted((Path(__file__).parents[1] / "sessiontree").rglob("*.py"))
    return "".join(file.read_text(encoding="ascii", errors="ignore") for file in files)


def _prompt(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _answer(text: str) -> dict[str, Any]:
    call = {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": text}}
    return {"role": "assistant", "content": [call], "model": "a-model", "stopReason": "toolUse"}


def _result(text: str, image: bytes = b"") -> dict[str, Any]:
    import base64

    content: list[dict[str, Any]] = [{"type": "text", "text": text}]
    if image:
        data = base64.b64encode(image).decode()
        content = [{"type": "image", "data": data, "mimeType": "image/png"}]
    return {"role": "toolResult", "toolCallId": "call_1", "toolName": "bash", "content": content}


# In a worker


_agents: dict[int, Agent] = {}
_requests: Counter[str] = Counter()


def _play(part: Callable[[Job, Times], None], job: Job) -> Done:
    """Play a part, in a worker."""
    times: Times = defaultdict(list)
    before = _counted(job.url), _acknowledged()
    started = time.perf_counter()
    part(job, times)
    seconds = time.perf_counter() - started
    requests = _counted(job.url) - before[0]
    return Done(dict(times), requests, _acknowledged() - before[1], seconds)


def _acknowledged() -> int:
    return sum(agent.entries for agent in _agents.values())


def _counted(url: str) -> Counter[str]:
    """The round trips or requests of this process until now."""
    if url.startswith("s3://"):
        place: Any = place_of(url)[0]
        return Counter(place.bucket.requests)
    return Counter(_requests)


def _count_round_trips() -> None:
    """Count each wait for PostgreSQL, which is a round trip, or the answer of one."""
    from sessiontree.storage.postgres.connections import ServerConnection

    wait: Callable[..., object] = ServerConnection.wait

    def counting(*args: object, **named: object) -> object:
        _requests["round trips"] += 1
        return wait(*args, **named)

    ServerConnection.wait = counting  # type: ignore[method-assign]


def _prepare(url: str) -> None:
    if url.startswith("postgresql:"):
        _count_round_trips()


def _timed(found: list[float], call: Callable[[], object], since: float = 0.0) -> None:
    """Make a call, and note its seconds, or those since it was due."""
    since = since or time.perf_counter()
    call()
    found.append(time.perf_counter() - since)


def _start(job: Job, times: Times) -> None:
    """All agents create their sessions."""
    for number in job.agents:
        _agents[number] = Agent(number)
    with _threads(job) as threads:
        for agent in _agents.values():
            threads.submit(_timed, times["start"], partial(agent.create, job))


def _threads(job: Job) -> contextlib.AbstractContextManager[Any]:
    return _Threads(job.threads)


class _Threads:
    """Threads whose first error is raised at the end."""

    def __init__(self, count: int) -> None:
        from concurrent.futures import ThreadPoolExecutor

        self._pool = ThreadPoolExecutor(count)
        self._made: list[Any] = []

    def __enter__(self) -> _Threads:
        return self

    def submit(self, call: Callable[..., object], *given: object) -> None:
        self._made.append(self._pool.submit(call, *given))

    def __exit__(self, *error: object) -> None:
        for one in self._made:
            one.result()
        self._pool.shutdown()


class _Queue:
    """The next call of each agent of a sample, the earliest first."""

    def __init__(self, job: Job) -> None:
        self._changed = threading.Condition()
        self._left = {number: calls_of(job.day, job.seed, number) for number in job.sample}
        self._due: list[tuple[float, int, Call]] = []
        self._busy = 0
        for number in job.sample:
            next(self._left[number])  # the start, which was made
            self._add(number)

    def _add(self, number: int) -> None:
        call = next(self._left[number], None)
        if call is not None:
            heapq.heappush(self._due, (call.at, number, call))

    def take(self) -> tuple[int, Call] | None:
        """The next call; None: there is none any more."""
        with self._changed:
            while not self._due and self._busy:
                self._changed.wait()
            if not self._due:
                return None
            self._busy += 1
            return heapq.heappop(self._due)[1:]

    def done(self, number: int) -> None:
        """Let the agent make its next call."""
        with self._changed:
            self._busy -= 1
            self._add(number)
            self._changed.notify_all()


def _make_day(job: Job, times: Times) -> None:
    """The agents of the sample make their calls in the order of the day."""
    queue = _Queue(job)

    def work() -> None:
        while (taken := queue.take()) is not None:
            number, call = taken
            try:
                _timed(times[call.kind], partial(_agents[number].make, call, job))
            finally:
                queue.done(number)

    with _Threads(job.threads) as threads:
        for _ in range(job.threads):
            threads.submit(work)
    for number in job.sample:
        _agents[number].close()


def _make_peak(job: Job, times: Times) -> None:
    """Make the appends of the busiest time, each when it is due."""
    due = sorted(
        (call.at - job.peak, number, call)
        for number in job.agents
        for call in calls_of(job.day, job.seed, number)
        if call.kind in APPENDS and job.peak <= call.at < job.peak + job.seconds
    )
    numbers = {number for _, number, _ in due}
    with _threads(job) as threads:
        for number in numbers:
            threads.submit(_timed, times["open"], _agents[number].open)
    started = time.perf_counter()

    def append(at: float, number: int, call: Call) -> None:
        make = partial(_agents[number].make, call, job)
        _timed(times[call.kind], make, since=started + at)

    with _Threads(4 * job.threads) as threads:
        for at, number, call in due:
            time.sleep(max(0.0, started + at - time.perf_counter()))
            threads.submit(append, at, number, call)
    for number in numbers:
        _agents[number].close()


def _look(job: Job, times: Times) -> None:
    """List and search, in one worker, all agents' sessions."""
    store = Store(job.url)
    cwd = f"/projects/{job.agents[0] // job.day.team}"
    for name, calls in (
        ("list of one project", [partial(store.list, cwd=cwd)] * 20),
        ("list of all sessions", [store.list] * 2),
        ("search of one project", [lambda: list(store.search("no such text", cwd=cwd))] * 20),
        ("search of all sessions", [lambda: list(store.search("no such text"))]),
    ):
        for call in calls:
            _timed(times[name], call)


def _look_at_standby(job: Job, times: Times) -> None:
    """List and search on a standby, and see how soon it has what was appended."""
    _look(job._replace(url=job.standby), times)
    agent = _agents[job.sample[0]]
    place, name = place_of(agent.file)
    behind = place_of(job.standby)[0].log(name, readonly=True)
    for _ in range(200):
        agent.make(Call(0, "prompt", (500,)), job)
        end = place.log(name, readonly=True).size()
        _timed(times["seen on the standby"], partial(_wait_for, behind, end))


def _wait_for(log: Log, end: int) -> None:
    while log.size() < end:
        time.sleep(0.0002)


def _check(job: Job, times: Times) -> None:
    """Read what was stored, and compare it with what was acknowledged.

    Raises:
        AssertionError: an entry is missing, or is there twice.
    """
    for number in job.sample[:_CHECKED]:
        with Session.open(_agents[number].file, readonly=True) as session:
            uuids = [entry.uuid for entry in session.entries()]
        assert len(uuids) == len(set(uuids)) == _agents[number].entries, session.file
        times["sessions read"].append(len(uuids))


# In the first process


class Machine:
    """The processor time of this machine: of servers, of workers, and of all."""

    def __init__(self, workers: set[int]) -> None:
        self._workers = workers
        self._before = self._now()
        self._started = time.perf_counter()

    def _now(self) -> tuple[float, float, float]:
        parents: dict[int, int] = {}
        used: dict[int, float] = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1])
                used[int(folder.name)] = sum(map(int, fields[11:15])) / _TICKS
        servers = sum(used[one] for one in used if self._is_of_a_server(one, parents))
        workers = sum(used[one] for one in used if one in self._workers)
        busy = [int(field) for field in Path("/proc/stat").read_text().split()[1:9]]
        return servers, workers, (sum(busy) - busy[3] - busy[4]) / _TICKS

    def _is_of_a_server(self, process: int, parents: dict[int, int]) -> bool:
        """Whether a process was started by this one, and not as a worker."""
        above = process
        while above in parents and above not in self._workers:
            above = parents[above]
            if above == os.getpid():
                return process != os.getpid()
        return False

    def used(self) -> tuple[float, float, float]:
        """Cores in use since the start: by servers, by workers, by others."""
        seconds = time.perf_counter() - self._started
        servers, workers, busy = (
            (after - before) / seconds
            for after, before in zip(self._now(), self._before, strict=True)
        )
        return servers, workers, max(0.0, busy - servers - workers)


class Workers:
    """Processes that play, each always the same agents."""

    def __init__(self, jobs: list[Job]) -> None:
        self._jobs = jobs
        spawning = multiprocessing.get_context("spawn")
        self._pools: list[Executor] = [
            ProcessPoolExecutor(1, spawning, initializer=_prepare, initargs=(job.url,))
            for job in jobs
        ]
        self._ids = {pool.submit(os.getpid).result() for pool in self._pools}

    def play(
        self, part: Callable[[Job, Times], None], *, only: bool = False, standby: str = ""
    ) -> Part:
        """Play a part in all workers, or only in the first one."""
        machine = Machine(self._ids)
        pairs = list(zip(self._pools, self._jobs, strict=True))[: 1 if only else None]
        waiting = [pool.submit(_play, part, job._replace(standby=standby)) for pool, job in pairs]
        return Part([one.result() for one in waiting], *machine.used())

    def close(self) -> None:
        for pool in self._pools:
            pool.shutdown()


class Part:
    """What a part took in all workers.

    Attributes:
        servers, workers, others: cores in use.
        seconds: how long it took.
    """

    def __init__(self, done: Sequence[Done], servers: float, workers: float, others: float) -> None:
        self.servers, self.workers, self.others = servers, workers, others
        self.seconds = max(one.seconds for one in done)
        self.entries = sum(one.entries for one in done)
        self.requests = sum((one.requests for one in done), Counter[str]())
        self.first = done[0].times
        self.times: Times = defaultdict(list)
        for one in done:
            for kind, found in one.times.items():
                self.times[kind] += found

    def appends(self) -> list[float]:
        """The seconds of all calls that append."""
        return [one for kind in APPENDS for one in self.times.get(kind, ())]

    def show(self) -> None:
        print(f"  cores: server {self.servers:.2f}, clients {self.workers:.2f}, ", end="")
        print(f"other processes {self.others:.2f}; {self.seconds:.0f} s")
        for kind, found in sorted(self.times.items()):
            _row(kind, found)


def _row(label: str, times: Sequence[float]) -> None:
    times = sorted(times)
    middle, high = (times[min(len(times) - 1, int(share * len(times)))] for share in (0.5, 0.99))
    print(f"  {label:24}{len(times):9,}{middle * 1000:11.2f}{high * 1000:11.2f}", flush=True)


def main() -> None:
    """Play a day, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", nargs="?", default="postgres")
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--every", type=int, help="one agent of so many makes all its calls")
    parser.add_argument("--seconds", type=int, default=60, help="of the busiest time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=8, help="of each worker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--idle", type=int, default=0, help="connections held to an ADDRESS")
    given = parser.parse_args()
    every = given.every or (10 if given.place == "postgres" else 50)
    day = Day(agents=given.agents)
    demand = demand_of(day, given.seed)
    _show_demand(day, demand)
    with _target(given.place) as target, _idle(given.idle, target.url):
        jobs = [
            Job(
                *(target.url, day, given.seed, range(number, day.agents, given.workers)),
                range(number, day.agents, given.workers * every),
                *(given.threads, demand.peak, given.seconds),
            )
            for number in range(given.workers)
        ]
        workers = Workers(jobs)
        try:
            _run(workers, jobs, demand, target)
        finally:
            workers.close()


@contextlib.contextmanager
def _idle(count: int, url: str) -> Iterator[None]:
    """Hold connections that do nothing."""
    import psycopg

    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(psycopg.connect(url, autocommit=True))
        yield


def _show_demand(day: Day, demand: Demand) -> None:
    print(f"{day.agents:,} agents in a day, drawn:")
    print(f"  {demand.turns:,} turns, {demand.entries:,} entries, {demand.bytes:,} bytes")
    print(f"  calls: {dict(sorted(demand.calls.items()))}")
    print(f"  at most {demand.at_once:,} agents in a turn at once")
    print(f"  busiest minute: {demand.peak_entries:,} entries, {demand.peak_entries / 60:.1f}/s")


def _run(workers: Workers, jobs: list[Job], demand: Demand, target: Target) -> None:
    heads = f"  {'':24}{'calls':>9}{'p50 ms':>11}{'p99 ms':>11}"
    day = jobs[0].day
    print(f"start of all sessions\n{heads}")
    workers.play(_start).show()
    before = target.sizes()
    sample = sum(len(job.sample) for job in jobs)
    print(f"day of {sample:,} agents, as fast as it goes\n{heads}")
    played = workers.play(_make_day)
    played.show()
    grown = target.sizes() - before
    _row("all appends", played.appends())
    tenth = max(1, len(played.first["answer"]) // 10)
    _row("answers, first tenth", played.first["answer"][:tenth])
    _row("answers, last tenth", played.first["answer"][-tenth:])
    turns = len(played.times["prompt"])
    rate = played.entries / played.seconds
    print(f"  {played.entries:,} entries, {turns:,} turns, {rate:,.0f} entries/s")
    print(f"  a turn: {played.entries / turns:.1f} entries, {_each(played.requests, turns)}")
    print(f"busiest {jobs[0].seconds} s of all agents, at their own times\n{heads}")
    peak = workers.play(_make_peak)
    peak.show()
    _row("all appends", peak.appends())
    print(f"look\n{heads}")
    workers.play(_look, only=True).show()
    if standby := target.standby():
        print(f"look at a standby\n{heads}")
        workers.play(_look_at_standby, only=True, standby=standby).show()
    read = workers.play(_check).times["sessions read"]
    print(f"read again: {sum(read):,.0f} entries of {len(read):,} sessions, none lost, none twice")
    _show_ceiling(day, demand, played, grown)


def _each(requests: Counter[str], turns: int) -> str:
    return ", ".join(f"{count / turns:.1f} {kind}" for kind, count in sorted(requests.items()))


def _show_ceiling(day: Day, demand: Demand, played: Part, grown: Counter[str]) -> None:
    """Print what was measured, divided by what is wanted."""
    wanted = demand.peak_entries / 60
    rate = played.entries / played.seconds

    def holds(each_second: float) -> str:
        share = each_second / wanted
        return (
            f"{share:,.1f} times the busiest minute: {share * day.agents:,.0f} agents, "
            f"{share * demand.at_once:,.0f} of them in a turn at once"
        )

    print(f"this machine, with its clients: {rate:,.0f} entries/s, {holds(rate)}")
    if played.servers:
        cost = played.servers * played.seconds / played.entries
        print(f"the server: {cost * 1e6:,.0f} us of a core an entry, all calls included")
        print(f"one core of it: {1 / cost:,.0f} entries/s, {holds(1 / cost)}")
    for name, more in sorted(grown.items()):
        each = more / played.entries
        if name.endswith(", objects"):
            print(f"{name}: {each:.2f} an entry, {each * demand.entries:,.0f} a day")
        else:
            print(
                f"{name}: {each:,.0f} bytes an entry, {each * demand.entries / 1e9:,.1f} GB a day"
            )


class Target(NamedTuple):
    """An empty place.

    Attributes:
        url: its address.
        sizes: gives the bytes of what is stored; empty if they are unknown.
        standby: starts a standby server, and gives the address there; empty if there is none.
    """

    url: str
    sizes: Callable[[], Counter[str]] = Counter
    standby: Callable[[], str] = str


@contextlib.contextmanager
def _target(kind: str) -> Iterator[Target]:
    if kind == "postgres":
        yield _postgres()
    elif kind in ("objects", "moto"):
        from tests.places import servers

        with tempfile.TemporaryDirectory() as folder:
            running = servers.moto() if kind == "moto" else servers.seaweed(Path(folder))
            with running as endpoint, servers.credentials(endpoint):
                servers.make_bucket(endpoint, "simulation")
                yield Target("s3://simulation", partial(_sizes_in, "s3://simulation"))
    else:
        yield Target(kind)


def _postgres() -> Target:
    """A server that syncs, which ends with this process."""
    from tests.places.server import check_installed, new_server

    check_installed()
    running = new_server({"fsync": "on", "shared_buffers": "128MB"})
    database = running.database()

    def standby() -> str:
        return new_server({"shared_buffers": "128MB"}, running).address(database)

    def sizes() -> Counter[str]:
        return Counter(dict(running.execute(_SIZES, database)))

    return Target(running.address(database), sizes, standby)


_SIZES: Final = """
    SELECT 'table ' || relname || CASE WHEN i.n = 1 THEN ', its indexes' ELSE '' END,
        CASE WHEN i.n = 1 THEN pg_indexes_size(oid) ELSE pg_table_size(oid) END::bigint
    FROM pg_class, generate_series(0, 1) AS i(n)
    WHERE relkind = 'r' AND relnamespace = 'sessiontree'::regnamespace
    UNION ALL SELECT 'database', pg_database_size(current_database())
    UNION ALL SELECT 'log of the server (WAL)',
        pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint
"""


def _sizes_in(url: str) -> Counter[str]:
    """The bytes and the number of the objects in a bucket, by what they are."""
    place: Any = place_of(url)[0]
    kinds = {"/log/": "blocks", "/merged/": "merged blocks", ".blobs/": "blobs"}
    sizes: Counter[str] = Counter()
    for found in place.bucket.list(""):
        kind = next((kinds[part] for part in kinds if part in found.key), "heads")
        sizes[kind] += found.size
        sizes[f"{kind}, objects"] += 1
        sizes["all objects, bytes"] += found.size
    return sizes


if __name__ == "__main__":
    main()
