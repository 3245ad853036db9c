"""Messages of pydantic-ai become what they were before; versions and files of SDKs are known."""

from __future__ import annotations

import json
import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from sessiontree import Store
from sessiontree.adapters import base as sdks
from sessiontree.adapters.base import Sdk, SessionFiles, UnknownSdkError
from sessiontree.adapters.pydantic_ai import restored, translated
from tests.adapters.pydantic_translated import EXPECTED, MESSAGES, made
from tests.support.table import for_each

ROOT = Path(__file__).parents[2]
SDK = Sdk("package", "extra", oldest=(2, 68), before=4)


def test_messages_of_each_kind_become_what_is_expected() -> None:
    """`python -m tests.adapters.pydantic_translated` writes the expectations again."""
    assert made() == json.loads(EXPECTED.read_bytes())


def test_a_message_comes_back() -> None:
    for number in range(len(MESSAGES)):
        given = MESSAGES[number]
        assert restored(translated(given)) == given, number


@for_each(
    "version, is_known",
    [
        ("2.67.9", False),
        ("2.68", True),
        ("2.68.0rc1", True),
        ("2.100.1", True),
        ("3.0", True),
        ("3.99", True),
        ("4.0", False),
        ("4", False),
        ("1.99", False),
        ("2", False),
        ("unknown", False),
    ],
)
def test_versions_are_known_from_the_oldest_to_a_major_one(
    version: str, is_known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "version", lambda package: version)
    if is_known:
        SDK.check()
        return
    with pytest.raises(UnknownSdkError) as refused:
        SDK.check()
    assert str(refused.value) == (
        f"package {version} is not known to work with sessiontree, versions 2.68 to 3.x are; "
        "run: pip install 'sessiontree[extra]'"
    )


SDKS = [sdk for sdk in vars(sdks).values() if isinstance(sdk, Sdk)]


def test_an_extra_installs_only_versions_that_are_known() -> None:
    for sdk in SDKS:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        needed = "|".join(project["optional-dependencies"][sdk.extra])
        major, minor = sdk.oldest
        range = rf"{sdk.package}>={major}\.{minor}(\.\d+)?,<{sdk.before}(\||$)"
        assert re.search(rf"(^|\|){range}", needed), sdk


def test_a_package_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(UnknownSdkError) as refused:
        Sdk("no-such-package", "extra", (1, 0), 2).check()
    told = "no-such-package is not installed; run: pip install 'sessiontree[extra]'"
    assert str(refused.value) == told


@for_each(
    "id, words",
    [
        ("one", "one"),
        ("One Two/../three", "one-two-..-three"),
        ("..-a.b_c-..", "a.b_c"),
        ("", "session"),
        ("///", "session"),
        ("\ud800é", "session"),
        ("x" * 61, "x" * 60),
    ],
)
def test_an_id_names_a_file_by_its_words_and_a_hash(tmp_path: Path, id: str, words: str) -> None:
    place = SessionFiles(tmp_path, "folder")
    folder, name = os.path.split(place.file_of(id))
    assert folder == str(tmp_path / "folder")
    assert name.startswith(f"{words}-")
    assert len(name) == len(f"{words}-{'0' * 20}.jsonl")
    inside = place.inside(id)
    assert f"{inside.folder}.jsonl" == place.file_of(id)
    assert inside.store is place.store


def test_the_files_of_a_place_are_its_sessions_by_name(tmp_path: Path) -> None:
    place = SessionFiles(Store(tmp_path), "folder")
    assert list(place.files()) == []
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("b.jsonl", "a.jsonl", "a.jsonl.lock", "c.txt"):
        (folder / name).touch()
    assert list(place.files()) == [str(folder / "a.jsonl"), str(folder / "b.jsonl")]
