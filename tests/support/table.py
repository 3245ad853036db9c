"""A table of small cases as one test: every case runs, and a failure names each that failed."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest

Test = Callable[..., None]

_FAILURES: Final = (Exception, BaseExceptionGroup, pytest.fail.Exception)


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Run a test for each case, like `pytest.mark.parametrize`, but as one test.

    A case has its own `tmp_path` and `monkeypatch`; it shares all other fixtures with the cases
    before it.
    """
    wanted = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    rows = [case if len(wanted) > 1 else (case,) for case in cases]
    titles = [_title(row) for row in rows] if ids is None else [str(id) for id in ids]
    assert rows
    assert len(rows) == len(titles)

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)
        left = [value for name, value in signature.parameters.items() if name not in wanted]

        @functools.wraps(test)
        def every(**fixtures: Any) -> None:
            failures: list[BaseException] = []
            failed: list[str] = []
            for number, (title, row) in enumerate(zip(titles, rows, strict=True)):
                with ExitStack() as stack:
                    own = _own(fixtures, number, stack)
                    try:
                        test(**own, **dict(zip(wanted, row, strict=True)))
                    except _FAILURES as failure:
                        failures.append(failure)
                        failed.append(title)
            if failures:
                found = f"{len(failed)} of {len(rows)} cases failed: {', '.join(failed)}"
                raise BaseExceptionGroup(found, failures)

        every.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return every

    return decorated


def _own(fixtures: dict[str, Any], number: int, stack: ExitStack) -> dict[str, Any]:
    own = dict(fixtures)
    if "tmp_path" in own:
        folder: Path = own["tmp_path"] / str(number)
        folder.mkdir()
        own["tmp_path"] = folder
    if "monkeypatch" in own:
        own["monkeypatch"] = stack.enter_context(pytest.MonkeyPatch.context())
    return own


def _title(row: Iterable[object]) -> str:
    shown = (getattr(value, "__name__", None) or value for value in row)
    return "-".join((str(v) if isinstance(v, Path) else repr(v))[:60] for v in shown)
