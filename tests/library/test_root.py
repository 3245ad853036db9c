"""The folders of the default store and of the caches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from sessiontree.library.root import HOME_VARIABLE, STORE_VARIABLE, cache_folder, default_root
from tests.support.table import for_each


@for_each(
    ("found", "variable", "usual", "on_mac"),
    [
        (default_root, "XDG_DATA_HOME", ".local/share", "Library/Application Support"),
        (cache_folder, "XDG_CACHE_HOME", ".cache", "Library/Caches"),
    ],
)
def test_the_folders_are_where_the_system_has_those_of_programs(
    found: Callable[[], str],
    variable: str,
    usual: str,
    on_mac: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(STORE_VARIABLE, raising=False)
    monkeypatch.delenv(HOME_VARIABLE, raising=False)
    monkeypatch.setenv("HOME", "/home/ann")
    for platform, folder in (("linux", usual), ("darwin", on_mac)):
        monkeypatch.setattr(sys, "platform", platform)
        for given in (None, "", "relative"):
            if given is None:
                monkeypatch.delenv(variable, raising=False)
            else:
                monkeypatch.setenv(variable, given)
            assert found() == os.path.join("/home/ann", folder, "sessiontree")
        for given in ("/elsewhere", "~"):
            monkeypatch.setenv(variable, given)
            assert found() == os.path.join(os.path.expanduser(given), "sessiontree")
