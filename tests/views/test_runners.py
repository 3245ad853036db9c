"""The sums of test runners, checkers and package managers, as they print them."""

from __future__ import annotations

import pytest

from sessiontree.views.runners import sum_of

SUMS = {
    "....\n===== 1 failed, 22 passed, 3 warnings in 3.41s =====": "1 failed, 22 passed",
    "..\n231 passed in 19.20s\n": "231 passed",
    "= 10 passed in 125.03s (0:02:05) =": "10 passed",
    "no tests ran in 0.01s": "no tests ran",
    "...\n----\nRan 12 tests in 0.003s\n\nOK\n": "12 passed",
    "...\n----\nRan 12 tests in 0.003s\n\nFAILED (failures=1, errors=2)\n": "3 failed, 9 passed",
    "Tests:       2 failed, 31 passed, 33 total\nSnapshots:   0 total\n": "2 failed, 31 passed",
    " Test Files  1 failed | 3 passed (4)\n      Tests  2 failed | 31 passed (33)\n": (
        "2 failed, 31 passed"
    ),
    "  12 passing (34ms)\n  1 failing\n\n  1) x": "12 passing, 1 failing",
    "--- FAIL: TestX (0.00s)\nFAIL\nFAIL\ta\t0.01s\nok  \tb\t0.2s\n?   \tx\t[no]\nFAIL\n": (
        "1 test failed, 1 package failed, 1 package ok"
    ),
    "ok  \texample.com/b\t(cached)\nok  \texample.com/c\t0.2s\n": "2 packages ok",
    "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured\n"
    "test result: FAILED. 2 passed; 1 failed; 0 ignored;": "1 failed, 14 passed, 1 ignored",
    "\nadded 120 packages, and audited 121 packages in 3s\n": "added 120 packages",
    "up to date, audited 1 package in 301ms": "up to date",
    "a.py:1:1: F401\nFound 3 errors.\n[*] 1 fixable": "3 errors",
    "All checks passed!\n": "no errors",
    "1 file reformatted, 2 files left unchanged\n": "1 file reformatted, 2 files left unchanged",
    "a.py:1: error: x\nFound 3 errors in 2 files (checked 10 source files)": "3 errors in 2 files",
    "Success: no issues found in 10 source files\n": "no issues",
    "src/a.ts(1,2): error TS2304: x.\nsrc/b.ts(3,4): error TS1005: y.\n": "2 errors",
    "\x1b[96ma.ts\x1b[0m:\x1b[93m1\x1b[0m:\x1b[93m2\x1b[0m - \x1b[91merror\x1b[0m TS2304: x\n": (
        "1 error"
    ),
    "✖ 3 problems (2 errors, 1 warning)\n": "2 errors, 1 warning",
    "[main 1a2b3c4d5] Mend it\n 1 file changed, 2 insertions(+)\n": "commit 1a2b3c4",
    "10%\r50%\r3 passed in 0.1s\n": "3 passed",
}


@pytest.mark.parametrize(("output", "shown"), SUMS.items(), ids=range(len(SUMS)))
def test_the_sum_at_the_end_of_an_output_is_read(output: str, shown: str) -> None:
    assert sum_of("x\n" * 9_000 + output) == shown


@pytest.mark.parametrize("output", ["", "hello", "I added 3 packages", "a\nb\n2 files\n", "passed"])
def test_an_output_without_a_sum_has_none(output: str) -> None:
    assert sum_of(output) == ""
