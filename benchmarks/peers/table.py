"""The figures as tables, for people: a short one a job, the goals, and all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.peers import targets
from benchmarks.peers.jobs import FORMATS, JOBS, Contender, Job
from benchmarks.peers.record import Record

BEGIN: Final = "<!-- peers: made by `python -m benchmarks.peers` -->"
END: Final = "<!-- end of peers -->"


def write(record: Record, folder: Path) -> Iterator[Path]:
    """Put the tables between the marks in the README, and all figures beside it."""
    readme = folder / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    section = "\n".join([BEGIN, "", *_section(record), END])
    readme.write_text(before + section + after)
    yield readme
    complete = folder / "peers.md"
    complete.write_text("\n".join(_complete(record)) + "\n")
    yield complete


def _section(record: Record) -> Iterator[str]:
    yield from _about(record)
    yield "![How the cost grows with the size of a session](peers.png)"
    yield ""
    yield "### Goals"
    yield ""
    yield from heading("job", "goal", "measured", "met")
    for cells in targets.rows(record):
        yield row(*cells)
    yield ""
    for job in JOBS:
        yield f"### {job.title}"
        yield ""
        yield from _job(record, job)
        yield ""
    yield "### Size on disk"
    yield ""
    yield from _sizes(record)
    yield ""


def _about(record: Record) -> Iterator[str]:
    about = record.about
    yield f"{about['date']}; {about['machine']}; {about['python']}."
    yield ""
    loads = [run["load"] for runs in record.runs.values() for run in runs if "load" in run]
    if loads:
        yield f"Load average while measuring: median {median(loads):.1f}, most {max(loads):.1f}."
        yield ""
    for key, (title, missing) in about["programs"].items():
        if missing:
            yield f"- **{title} could not be had:** {missing}"
        elif key not in ("bare", "plot"):
            named = title.split()[0] == key or key.startswith("pi")
            yield f"- {title}" if named else f"- {key}: {title}"
    yield ""


def _title(record: Record, contender: Contender) -> str:
    title = str(record.about["programs"][contender.program][0])
    if contender.program not in ("pi", "pi-new"):
        return contender.name
    return title.split(" (")[0]


def _missing(record: Record, contender: Contender) -> bool:
    return bool(record.about["programs"][contender.program][1])


def _job(record: Record, job: Job) -> Iterator[str]:
    labels = [label(corpus) for corpus in job.corpora]
    largest = "" if len(labels) == 1 else ", largest"
    yield from heading("", *labels, f"peak memory{largest}")
    notes: list[str] = []
    for contender in job.contenders:
        cells = [_cell(record, job, corpus, contender, notes) for corpus in job.corpora]
        memory = [record.median(job.key, c, contender.name, "peak") for c in job.corpora]
        peak = next((megabytes(value) for value in reversed(memory) if value), "")
        yield row(_title(record, contender), *cells, peak)
    yield ""
    yield from notes
    for program, reason in job.cannot:
        title = record.about["programs"][program][0]
        yield f"- {title.split(' (')[0]}: {reason}"


def _cell(record: Record, job: Job, corpus: str, contender: Contender, notes: list[str]) -> str:
    if _missing(record, contender):
        return "**could not be had**"
    if contender.only and corpus not in contender.only:
        return "–"
    if failure := record.failure(job.key, corpus, contender.name):
        notes.append(f"- {_title(record, contender)} at {label(corpus)} **fails**: {failure}")
        return "**fails**"
    own = _time(record, job, corpus, contender.name)
    if own is None:
        return "not run"
    ours = _time(record, job, corpus, job.contenders[0].name)
    if contender is job.contenders[0] or ours is None:
        return duration(own)
    return f"{duration(own)} · {own / ours:.3g}×"


def _time(record: Record, job: Job, corpus: str, name: str) -> float | None:
    if job.each:
        return record.each(job.key, corpus, name)
    return record.median(job.key, corpus, name)


def _sizes(record: Record) -> Iterator[str]:
    formats = list(dict.fromkeys(FORMATS.values()))
    yield from heading("sessions", *formats)
    for corpus, sizes in sorted(record.sizes.items(), key=lambda item: _order(item[0])):
        shown = [megabytes(sizes[format]) if sizes.get(format) else "–" for format in formats]
        yield row(f"{corpus.split('-')[0]}, {label(corpus)}", *shown)
    yield ""
    yield (
        "langgraph: only the state at the leaf; at 2 MB uncompacted, all checkpoints, "
        "one for each message, and their size grows with the square of the session."
    )


def _order(corpus: str) -> tuple[str, int]:
    shape, size, *_ = corpus.split("-")
    return shape, int(size)


def _complete(record: Record) -> Iterator[str]:
    yield "# All figures"
    yield ""
    yield (
        "Medians. *Operation* is the time inside the process, by the clock, from before the "
        "session is opened to the result, without the start of the interpreter; *process* is "
        "the whole process by the clock and by the processor (user and system). Both in "
        "milliseconds, memory is the peak of the process in MB; *runs* how often it was done."
    )
    yield ""
    yield from _about(record)
    yield from heading(
        "job",
        "with",
        "contender",
        "operation",
        "operations",
        "process",
        "processor",
        "memory",
        "runs",
    )
    for job in JOBS:
        for corpus in job.corpora:
            for contender in job.contenders:
                yield from _row(record, job, corpus, contender)


def _row(record: Record, job: Job, corpus: str, contender: Contender) -> Iterator[str]:
    runs = record.runs.get((job.key, corpus, contender.name), [])
    if not runs:
        return
    start = job.key, label(corpus), _title(record, contender)
    if failure := record.failure(job.key, corpus, contender.name):
        yield row(*start, f"**fails**: {failure}", "", "", "", "", str(len(runs)))
        return

    def figure(name: str, scale: float) -> str:
        value = record.median(job.key, corpus, contender.name, name)
        return "" if value is None else f"{value * scale:.5g}"

    times = [figure(name, 1e3) for name in ("process_wall", "process_cpu")]
    done = str(runs[0]["count"]) if job.each else "1"
    yield row(*start, figure("wall", 1e3), done, *times, figure("peak", 1e-6), str(len(runs)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def heading(*cells: str) -> Iterator[str]:
    yield row(*cells)
    yield row(*["---"] * len(cells))


def label(corpus: str) -> str:
    """How large a corpus is, for people."""
    shape, size, *times = corpus.split("-")
    if shape == "sessions":
        each = "" if times == ["1"] else " of 1 MB"
        return f"{int(size):,} sessions{each}"
    if shape == "chain":
        return f"{int(size):,} entries"
    return f"{int(size) // 1000} GB" if int(size) >= 1000 else f"{size} MB"


def duration(seconds: float) -> str:
    units: tuple[tuple[float, Callable[[float], str]], ...] = (
        (1, lambda s: f"{s:.3g} s"),
        (1e-3, lambda s: f"{s * 1e3:.3g} ms"),
    )
    for bound, shown in units:
        if seconds >= bound:
            return shown(seconds)
    return f"{seconds * 1e6:.3g} µs"


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"
