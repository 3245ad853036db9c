"""A user's own rules of redaction, run so that none can hang.

An expression such as `(a+)+$` takes time that doubles with each character, and Python cannot
interrupt it outside the main thread. So a user's expressions run in a process of their own. That
process ends itself if one text takes longer than the limit: its timer (`faulthandler`) needs no
signal and no turn of the interpreter, and works on every platform. The error names the rule.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final

from sessiontree.errors import UsageError
from sessiontree.redact.rule import Rule, secret_groups
from sessiontree.redact.rules import parse_rules, with_built_in

LIMIT_SECONDS: Final = 5.0
"""How long one rule may take for one text."""

PROGRAM: Final = Path(__file__).with_name("matching.py")


class OwnRules:
    """The rules of a file, followed by the built-in ones, for `Redaction`.

    Use it as a context manager: it starts a process, and ends it.

    Args:
        text: TOML, one rule a line: `name = 'regular expression'`. A rule with the name of a
            built-in one replaces it.
        file: the name of the file, for errors.
        limit: seconds that one rule may take for one text; by default `LIMIT_SECONDS`.

    Raises:
        UsageError: the text is not valid, or a rule matches empty text; also later, from a
            redaction, where a rule takes longer than the limit.
    """

    def __init__(self, text: str, file: str, limit: float | None = None) -> None:
        self._file = file
        self._limit = LIMIT_SECONDS if limit is None else limit
        self._own = parse_rules(text, file)
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self._asked: tuple[str, list[list[tuple[int, int]]]] | None = None
        self.rules: tuple[Rule, ...] = with_built_in(
            tuple(replace(rule, search=_Search(self, i)) for i, rule in enumerate(self._own))
        )

    def __enter__(self) -> OwnRules:
        try:
            self._refuse_empty()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process. A later search starts another."""
        process, self.process = self.process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()

    def spans(self, place: int, text: str) -> list[tuple[int, int]]:
        """Where the rule at a place finds its secrets in a text."""
        with self._lock:
            if self._asked is None or self._asked[0] != text:
                self._asked = (text, self._ask(text))
            return self._asked[1][place]

    def _refuse_empty(self) -> None:
        for rule, spans in zip(self._own, self._ask(""), strict=True):
            if spans:
                raise UsageError(
                    f"{self._file}: rule {rule.name!r} matches empty text; make it match some text"
                )

    def _ask(self, text: str) -> list[list[tuple[int, int]]]:
        if not self._own:
            return []
        process = self.process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        found: list[list[tuple[int, int]]] = []
        try:
            process.stdin.write(json.dumps(text).encode() + b"\n")
            process.stdin.flush()
            for _ in self._own:
                spans = json.loads(process.stdout.readline())
                found.append([(start, end) for start, end in spans])
        except (OSError, ValueError) as error:  # the process ended
            self.close()
            raise self._too_slow(self._own[len(found)].name, text) from error
        except BaseException:  # interrupted: what the process answers next belongs to no question
            self.close()
            raise
        return found

    def _too_slow(self, name: str, text: str) -> UsageError:
        return UsageError(
            f"{self._file}: rule {name!r} takes longer than {self._limit:g} seconds for a text of "
            f"{len(text):,} characters; write it without a repetition within a repetition, such as "
            "(a+)+, and with limits, such as {1,100}"
        )

    def _start(self) -> subprocess.Popen[bytes]:
        if not sys.executable:
            raise UsageError(f"{self._file}: rules of your own need a Python program to run them")
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.process = process
        assert process.stdin is not None
        rules = [[rule.pattern.pattern, secret_groups(rule.pattern)] for rule in self._own]
        process.stdin.write(json.dumps([self._limit, rules]).encode() + b"\n")
        return process


class _Search:
    def __init__(self, rules: OwnRules, place: int) -> None:
        self._rules = rules
        self._place = place

    def __call__(self, text: str) -> Iterator[tuple[int, int]]:
        yield from self._rules.spans(self._place, text)
