"""A table of cases in one test.

A test of its own for each of some hundred rows costs more than what most rows check: its
collection, its fixtures and its report. `every_row` stands where `pytest.mark.parametrize` would.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

import pytest

Test = Callable[..., None]

_FOLDER: Final = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY, annotation=Path)


def every_row(names: str, rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test with each row, and fail it with the failures of all rows.

    A row gets a `monkeypatch` of its own, and a copy of the folder `tmp_path` as the fixtures left
    it; paths in it lead to the copy. The other fixtures are shared. The keys of a mapping name its
    rows.
    """
    parameters = [name.strip() for name in names.split(",")]
    labelled = list(rows.items()) if isinstance(rows, Mapping) else list(enumerate(rows))
    assert labelled, "a table without rows checks nothing"

    def decorate(test: Test) -> Test:
        taken = inspect.signature(test).parameters
        fixtures = {name: each for name, each in taken.items() if name not in parameters}
        if any(each.annotation in ("Path", Path) for each in fixtures.values()):
            fixtures.setdefault("tmp_path", _FOLDER)

        @wraps(test)
        def run(**given: Any) -> None:
            folder = given.get("tmp_path")
            left = list(folder.iterdir()) if folder else []
            failures: list[BaseException] = []
            for number, (label, row) in enumerate(labelled):
                own = given if folder is None else _copied(given, folder, left, str(number))
                fields = [row] if len(parameters) == 1 else row
                values = dict(zip(parameters, fields, strict=True))
                with pytest.MonkeyPatch.context() as patch:
                    used = {name: each for name, each in own.items() if name in taken} | values
                    if "monkeypatch" in used:
                        used["monkeypatch"] = patch
                    try:
                        test(**used)
                    except (Exception, pytest.fail.Exception) as error:
                        error.add_note(f"in the row {label!r}: {values!r:.500}")
                        failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(labelled)} rows fail", failures)

        kept = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in fixtures.values()]
        run.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
        return run

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
        name: copy / value.relative_to(folder) if _is_in(value, folder) else value
        for name, value in given.items()
    }


def _is_in(value: object, folder: Path) -> bool:
    return isinstance(value, Path) and value.is_relative_to(folder)
