"""A coverage-guided fuzzer for the reader and for repair; `invariants` says what must hold.

Atheris is not among the dependencies. To run the fuzzer for five minutes:

    pip install atheris
    python -m tests.fuzz.fuzz_reader -max_total_time=300 -max_len=1500 FOUND tests/fuzz/corpus

New inputs that reach new code go to the first folder. What breaks an invariant is
written to `crash-<hash>`; to see it again, give that file as the only argument:

    python -m tests.fuzz.fuzz_reader crash-<hash>

Once it is mended, the file goes into `corpus/`, cut down as far as it still breaks
what it broke and named for that, where `test_replay.py` replays it for good.
"""

from __future__ import annotations

import sys

import atheris  # type: ignore[import-untyped, unused-ignore]

with atheris.instrument_imports(include=["sessiontree"]):
    # All modules now: one imported when first called would not be instrumented.
    import sessiontree.cli.look  # noqa: F401
    from tests.support.invariants import check


def main() -> None:
    atheris.Setup(sys.argv, check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
