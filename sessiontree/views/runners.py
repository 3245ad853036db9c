"""What a test runner, a checker or a package manager says at the end of its output, in short.

Read are pytest, unittest, jest, vitest, mocha, `go test`, `cargo test`, npm and its like, ruff,
mypy, tsc, eslint and git.

Invariants: only the end of an output is read, so that the time does not grow with it; an output
without such an end has none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from sessiontree.core.display import mask_then_cut
from sessiontree.text.amounts import counted
from sessiontree.text.terminal import as_shown

_END: Final = 8_000
"""Characters at the end of an output that are read."""

_WORDS: Final = r"(?:failed|passed|skipped|errors?|xfailed|xpassed|deselected|warnings?|rerun)"
_PYTEST: Final = re.compile(
    rf"^=* ?((?:\d+ {_WORDS}(?:, )?)+|no tests ran) in \d[\d.:]*m?s[^\n]*$", re.MULTILINE
)
_JEST: Final = re.compile(r"^Tests: +(.{3,120}?)(?:, \d+ total)?$", re.MULTILINE)
_VITEST: Final = re.compile(r"^ +Tests +(\d+ .{3,80}?)(?: \(\d+\))?$", re.MULTILINE)
_MOCHA: Final = re.compile(r"^ +(\d+) (passing|failing|pending)\b", re.MULTILINE)
_UNITTEST: Final = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\n\n(OK|FAILED)(?: \(([^)\n]{1,80})\))?$", re.MULTILINE
)
_GO: Final = re.compile(r"^(ok|FAIL|---? FAIL:)[ \t]+(\S{1,200})", re.MULTILINE)
_CARGO: Final = re.compile(
    r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", re.MULTILINE
)
_NPM: Final = re.compile(
    r"^(added|removed|changed|up to date)\b[^\n]{0,200}?(?: in \d[\w.]*)?$", re.MULTILINE
)
_NPM_COUNT: Final = re.compile(r"(added|removed|changed) (\d+) packages?")
_FORMATTED: Final = (
    r"\d+ files? (?:would be )?(?:reformatted|left unchanged|already formatted)"  # by ruff
)
_RUFF: Final = re.compile(
    r"^(All checks passed!|Found \d+ errors?)[^\n]*$"
    rf"|^((?:{_FORMATTED}, )*{_FORMATTED})$",
    re.MULTILINE,
)
_MYPY: Final = re.compile(
    r"^(?:Found (\d+ errors?) in (\d+ files?)|Success: (no issues) found)", re.MULTILINE
)
_TSC: Final = re.compile(r"^[^\n]{1,300}?[(:]\d+[,:]\d+\)?(?::| -) error TS\d+:", re.MULTILINE)
_ESLINT: Final = re.compile(r"^\u2716 (\d+ problems?) \((\d+ errors?), (\d+ warnings?)\)", re.M)
_COMMIT: Final = re.compile(
    r"^\[[^\[\]\n]{1,250} (?:\(root-commit\) )?([0-9a-f]{7,40})\] ", re.MULTILINE
)
_TOTAL: Final = re.compile(r"(\d+) (passed|failed|skipped|todo|pending)")


def sum_of(output: str) -> str:
    """What the program says at the end of its output, such as `2 failed, 31 passed`; or empty."""
    end = mask_then_cut(output, max(0, len(output) - _END), len(output))[-_END:]
    shown = as_shown(end)
    return next(filter(None, (read(shown) for read in _READERS)), "")


def _pytest(end: str) -> str:
    found = _last(_PYTEST, end)
    if found is None:
        return ""
    words = re.split(", ", found[1])
    return ", ".join(word for word in words if not word.endswith(("warnings", "warning")))


def _unittest(end: str) -> str:
    if (found := _last(_UNITTEST, end)) is None:
        return ""
    failed = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", found[3] or ""))
    parts = [f"{failed} failed"] if failed else []
    return ", ".join([*parts, f"{max(0, int(found[1]) - failed)} passed"])


def _jest(end: str) -> str:
    found = _last(_JEST, end) or _last(_VITEST, end)
    return "" if found is None else ", ".join(map(" ".join, _TOTAL.findall(found[1])))


def _mocha(end: str) -> str:
    return ", ".join(f"{found[1]} {found[2]}" for found in _MOCHA.finditer(end))


def _go(end: str) -> str:
    ended: dict[str, bool] = {}
    tests = 0
    for found in _GO.finditer(end):
        if found[1].startswith("-"):
            tests += 1
        else:
            ended[found[2]] = found[1] == "ok"
    if not ended:
        return ""
    well = sum(ended.values())
    parts = [counted(tests, "test") + " failed"] if tests else []
    parts += [counted(len(ended) - well, "package") + " failed"] if well < len(ended) else []
    return ", ".join([*parts, *([counted(well, "package") + " ok"] if well else [])])


def _cargo(end: str) -> str:
    sums = [[int(count) for count in found] for found in _CARGO.findall(end)]
    if not sums:
        return ""
    passed, failed, ignored = map(sum, zip(*sums, strict=True))
    words = {"failed": failed, "passed": passed, "ignored": ignored}
    return ", ".join(f"{n:,} {word}" for word, n in words.items() if n) or "0 passed"


def _npm(end: str) -> str:
    found = _last(_NPM, end)
    if found is None:
        return ""
    counts = _NPM_COUNT.findall(found[0])
    told = ", ".join(f"{word} {counted(int(n), 'package')}" for word, n in counts)
    return told or ("up to date" if found[1] == "up to date" else "")


def _mypy(end: str) -> str:
    if (found := _last(_MYPY, end)) is None:
        return ""
    return "no issues" if found[3] else f"{found[1]} in {found[2]}"


def _ruff(end: str) -> str:
    if (found := _last(_RUFF, end)) is None:
        return ""
    if found[1] is None:
        return str(found[2])
    return "no errors" if found[1].startswith("All") else str(found[1]).removeprefix("Found ")


def _tsc(end: str) -> str:
    count = sum(1 for _ in _TSC.finditer(end))
    return counted(count, "error") if count else ""


def _eslint(end: str) -> str:
    found = _last(_ESLINT, end)
    return "" if found is None else f"{found[2]}, {found[3]}"


def _commit(end: str) -> str:
    found = _last(_COMMIT, end)
    return "" if found is None else f"commit {found[1][:7]}"


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found: Iterator[re.Match[str]] = pattern.finditer(text)
    last = None
    for last in found:  # noqa: B007
        pass
    return last


_READERS: Final[tuple[Callable[[str], str], ...]] = (
    *(_pytest, _unittest, _jest, _mocha, _go, _cargo, _mypy, _eslint, _tsc, _ruff, _npm, _commit),
)
