"""A table of cases in one test.

A test of its own for each of some hundred cases costs more than what most cases check: its
collection, its fixtures and its report. `for_each` stands where `pytest.mark.parametrize` would.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

Test = Callable[..., None]

_FAILURES: Final = (Exception, BaseExceptionGroup, pytest.fail.Exception)
_COPIED: Final = {"tmp_path", "file", "path"}
_FOLDER: Final = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY, annotation=Path)


def for_each(
    names: str | Sequence[str], cases: Iterable[Any], ids: Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Run a test for each case, like `pytest.mark.parametrize`, but as one test.

    All cases run, and a failure names each that failed, by `ids` or by its values. A case gets a
    `monkeypatch` of its own, and as `tmp_path`, `file` or `path` a copy of what the fixtures left.
    It shares all other fixtures with the cases before it.
    """
    wanted = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    rows = [case if len(wanted) > 1 else (case,) for case in cases]
    titles = list(map(_title, rows)) if ids is None else list(map(str, ids))
    assert rows, "a table without cases checks nothing"
    assert len(rows) == len(titles)

    def decorate(test: Test) -> Test:
        taken = inspect.signature(test).parameters
        fixtures = {name: each for name, each in taken.items() if name not in wanted}
        if fixtures.keys() & _COPIED:
            fixtures.setdefault("tmp_path", _FOLDER)

        @wraps(test)
        def every(**given: Any) -> None:
            folder = given.get("tmp_path")
            left = list(folder.iterdir()) if folder else []
            failed: dict[str, BaseException] = {}
            for number, (title, row) in enumerate(zip(titles, rows, strict=True)):
                own = given if folder is None else _copied(given, folder, left, str(number))
                used = {name: each for name, each in own.items() if name in taken}
                with pytest.MonkeyPatch.context() as patch:
                    if "monkeypatch" in used:
                        used["monkeypatch"] = patch
                    try:
                        test(**used, **dict(zip(wanted, row, strict=True)))
                    except _FAILURES as failure:
                        failed[f"{title} ({number})" if title in failed else title] = failure
            if failed:
                found = f"{len(failed)} of {len(rows)} cases failed: {', '.join(failed)}"
                raise BaseExceptionGroup(found, list(failed.values()))

        kept = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixtures.values()]
        every.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return every

    return decorate


def _copied(given: dict[str, Any], folder: Path, left: list[Path], name: str) -> dict[str, Any]:
    """The fixtures with their paths in a copy of the folder."""
    copy = folder / name
    copy.mkdir()
    for path in left:
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, copy / path.name, symlinks=True)
        else:
            shutil.copy2(path, copy / path.name, follow_symlinks=False)
    return {
        name: copy / value.relative_to(folder) if _is_copied(name, value, folder) else value
        for name, value in given.items()
    }


def _is_copied(name: str, value: object, folder: Path) -> bool:
    return name in _COPIED and isinstance(value, Path) and value.is_relative_to(folder)


def _title(row: Iterable[object]) -> str:
    shown = (getattr(value, "__name__", None) or value for value in row)
    return "-".join((str(v) if isinstance(v, Path) else repr(v))[:60] for v in shown)
