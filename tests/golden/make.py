"""Goldens: digests of what the doors of sessiontree print, write and answer, byte for byte.

    python -m tests.golden.make                       writes the goldens again
    python -m tests.golden.make --check [--quick] [--every N]
                                                      compares, and names the rows that differ
    python -m tests.golden.make --show 'home: ls'     prints what a row gives now
    python -m tests.golden.make --diff 'home: ls'     compares that with what HEAD gives
    python -m tests.golden.make --out FILE [--corpus DIR] [--scale N] [--product DIR]
                                                      writes digests of these sessions to a file

FAMILY limits each of them to some families of rows. `--product DIR` takes sessiontree from another
checkout, for `--diff` to compare with. Each row is a line of FAMILY.tsv: its key, a tab, and a
digest of each variant: `=` if it is as the first. A change that keeps all that users see leaves
these files as they are; another changes them in a commit that says why.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from tests.golden import seam
from tests.golden.families import FAMILIES, Row, chosen, corpus

HERE: Final = Path(__file__).parent
_DIGITS: Final = 7
_MOST_SHOWN: Final = 40

Digests = dict[str, str]


def file_of(family: str) -> Path:
    return HERE / f"{family}.tsv"


def kept(family: str) -> Digests:
    """The goldens of a family, by key."""
    if not file_of(family).exists():
        return {}
    rows = file_of(family).read_text(encoding="utf-8").splitlines()
    return dict(row.split("\t") for row in rows)


def digest(texts: Mapping[str, str | None]) -> str:
    """The digests of a row's variants, in order: `=` for one that is as the first is, `-` for one
    that was left out."""
    found: list[str] = []
    for text in texts.values():
        whole = (text or "").encode("utf-8", "backslashreplace")
        made = hashlib.sha256(whole).hexdigest()[:_DIGITS]
        found.append("-" if text is None else "=" if found and made == found[0] else made)
    return " ".join(found)


def rows_of(family: str, folder: Path, options: argparse.Namespace) -> list[Row]:
    """The rows of a family, those that were asked for."""
    make = FAMILIES[family]
    if family in ("sessions", "home") and options.scale != 1:
        make = partial(make, scale=options.scale)
    rows = list(make(folder))
    if options.corpus and family == "sessions":
        rows += corpus(folder, options.corpus)
    twice = [key for key, count in Counter(row.key for row in rows).items() if count > 1]
    if twice:
        raise SystemExit(f"{family}: rows share the key {twice[0]!r}")
    return (chosen(rows) if options.quick else rows)[:: options.every]


def run_family(family: str, options: argparse.Namespace) -> None:
    """In a process of its own: play the rows, and print each as a line of JSON."""
    seam.start(options.product)
    with seam.place(family) as folder:
        for row in rows_of(family, folder, options):
            if options.only is None or row.key == options.only:
                seam.begin(row.key)
                texts = row.play(options.quick)
                shown = texts if options.only else [*texts]
                print(json.dumps([row.key, digest(texts), shown]), flush=True)


def played(
    family: str, options: argparse.Namespace, *more: str
) -> Iterator[tuple[str, str, dict[str, str] | list[str]]]:
    """The rows that a process plays: the key, the digests, and the names or texts of variants."""
    words = [sys.executable, "-m", "tests.golden.make", "--play", family, *more]
    words += ["--product", str(options.product), "--scale", str(options.scale)]
    words += ["--every", str(options.every)]
    words += ["--corpus", str(options.corpus)] * bool(options.corpus) + ["--quick"] * options.quick
    environ = {**os.environ, "PYTHONPATH": str(seam.CHECKOUT)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, cwd=seam.CHECKOUT, env=environ) as process:
        assert process.stdout
        for line in process.stdout:
            yield tuple(json.loads(line))
    if process.returncode:
        raise SystemExit(f"the family {family!r} failed; see above")


def check(family: str, options: argparse.Namespace) -> list[str]:
    """What differs from the goldens of a family, a line each."""
    before = kept(family)
    said = []
    seen = set()
    for key, now, names in played(family, options):
        seen.add(key)
        if key not in before:
            said.append(f"{family}: {key}  is new")
        elif found := _differing(before[key], now, names):
            said.append(f"{family}: {key}  differs: {', '.join(found)}")
    if not options.quick and options.every == 1:
        said += [f"{family}: {key}  is gone" for key in before if key not in seen]
    return said


def _differing(before: str, now: str, names: Iterable[str]) -> list[str]:
    """The variants that differ."""
    old, new = before.split(), now.split()
    pairs = zip(names, old, new, strict=False)
    found = [name or "the text" for name, was, made in pairs if made not in ("-", was)]
    if len(old) != len(new):
        found.append(f"{len(old)} variants before, {len(new)} now")
    return found


def texts_of(row: str, options: argparse.Namespace) -> dict[str, str]:
    """What a row gives: the text of each variant."""
    family, _, key = row.partition(": ")
    if family not in FAMILIES:
        raise SystemExit(f"{row!r} begins with no family; give it as --check prints it")
    for _, _, texts in played(family, options, "--only", key):
        assert isinstance(texts, dict)
        return texts
    raise SystemExit(f"no row {key!r} in the family {family!r}")


def diff(row: str, options: argparse.Namespace) -> Iterator[str]:
    """What differs in a row between this checkout and another one, by default the last commit."""
    with tempfile.TemporaryDirectory() as folder:
        if options.product == seam.CHECKOUT:
            words = ["git", "archive", "HEAD", "sessiontree"]
            packed = subprocess.run(words, cwd=seam.CHECKOUT, capture_output=True, check=True)
            with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
                archive.extractall(folder, filter="data")
            options.product = Path(folder)
        theirs = texts_of(row, options)
    options.product = seam.CHECKOUT
    ours = texts_of(row, options)
    for name in {**theirs, **ours}:
        old, new = (each.get(name, "").splitlines() for each in (theirs, ours))
        titles = f"there {name}", f"here {name}"
        lines = list(difflib.unified_diff(old, new, *titles, n=2, lineterm=""))
        yield from (line[:400] for line in lines[:_MOST_SHOWN])
        if len(lines) > _MOST_SHOWN:
            yield f"… {len(lines) - _MOST_SHOWN} more lines"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=", ".join(FAMILIES))
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--quick", action="store_true", help="only some rows of each family")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each Nth row")
    parser.add_argument("--show", metavar="ROW", help="print the texts of a row")
    parser.add_argument("--diff", metavar="ROW", help="compare a row with HEAD")
    parser.add_argument(
        "--product",
        type=Path,
        default=seam.CHECKOUT,
        metavar="DIR",
        help="the checkout that sessiontree is taken from",
    )
    parser.add_argument("--corpus", type=Path, metavar="DIR", help="also the sessions in DIR")
    parser.add_argument("--scale", type=int, default=1, help="make so many times the sessions")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the digests to FILE")
    parser.add_argument("--play", metavar="FAMILY", help=argparse.SUPPRESS)
    parser.add_argument("--only", metavar="KEY", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.product = options.product.resolve()
    options.corpus = options.corpus and options.corpus.resolve()
    if options.play:
        run_family(options.play, options)
    elif options.show:
        for name, text in texts_of(options.show, options).items():
            print(f"=== {name}\n{text}", end="")
    elif options.diff:
        print(*diff(options.diff, options), sep="\n")
    else:
        return _all(options)
    return 0


def _all(options: argparse.Namespace) -> int:
    """Write or compare all families, two at a time."""
    families = options.families or [*FAMILIES]
    work = partial(check if options.check else _written, options=options)
    with ThreadPoolExecutor(2) as pool:
        found = [line for lines in pool.map(work, families) for line in lines]
    if options.check:
        for line in found[:_MOST_SHOWN]:
            print(line)
        if len(found) > _MOST_SHOWN:
            print(f"… {len(found) - _MOST_SHOWN} more rows")
        return 1 if found else 0
    if options.out:
        options.out.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
    return 0


def _written(family: str, options: argparse.Namespace) -> list[str]:
    """Write the goldens of a family, unless another file is asked for; its rows."""
    rows = sorted(f"{key}\t{now}" for key, now, _ in played(family, options))
    if not options.out:
        file_of(family).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return [f"{family}: {row}" for row in rows]


if __name__ == "__main__":
    sys.exit(main())
