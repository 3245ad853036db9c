"""Plugins of installed packages, when several threads or tasks use them first."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from sessiontree import AsyncSession, Session
from sessiontree.errors import SessionTreeError, UnknownHandleError
from sessiontree.handles.registry import Registry, ResolverScope
from tests.support.conversation import said as said_in_context
from tests.support.plugins import Plugin, install_plugins, said

NAMES: Final = ("slow", "tardy")
MODULE: Final = """
import time
time.sleep(0.02)
from tests.support.plugins import Plugin

class Resolver(Plugin):
    made = 0
    def __init__(self):
        time.sleep(0.02)
        type(self).made += 1
        super().__init__({name!r})
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages: two plugins, each slow to import and to make."""
    folder = tmp_path / "installed"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}_plugin.py").write_text(MODULE.format(name=name))
        monkeypatch.delitem(sys.modules, f"{name}_plugin", raising=False)
    install_plugins(folder, *(f"{name} = {name}_plugin:Resolver" for name in NAMES))
    monkeypatch.syspath_prepend(str(folder))
    return folder


def at_once(count: int, ask: Callable[[int], Any]) -> list[Any]:
    """The results, or the errors, of threads that begin together."""
    start = threading.Barrier(count)

    def run(number: int) -> Any:
        start.wait()
        try:
            return ask(number)
        except SessionTreeError as error:
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def content(registry: Registry, handle: str) -> Any:
    with ResolverScope(registry) as scope:
        return scope.resolve(handle).data


def test_threads_that_use_plugins_first_at_once_get_all_of_them(installed: Path) -> None:
    registry = Registry(plugins=True)
    handles = [f"{NAMES[number % 2]}@1.0.0::a:{number}" for number in range(8)]
    found = at_once(len(handles), lambda number: content(registry, handles[number]))
    assert found == [said(handle) for handle in handles]
    assert [content(registry, handle) for handle in handles] == found
    assert registry.plugins == sorted(NAMES)


def test_a_resolver_is_made_once_for_all_threads(installed: Path) -> None:
    registry = Registry(plugins=True)
    at_once(8, lambda number: content(registry, f"slow@1.0.0::a:{number}"))
    assert sys.modules["slow_plugin"].Resolver.made == 1


def test_threads_that_list_schemas_and_plugins_at_once_get_all_of_them(installed: Path) -> None:
    registry = Registry(plugins=True)
    asks = (registry.schemas, lambda: registry.plugins)
    found = at_once(8, lambda number: asks[number % 2]())
    assert all(len(schemas) == 4 for schemas in found[::2])
    assert found[1::2] == [sorted(NAMES)] * 4


def test_sessions_of_one_loop_that_use_plugins_first_get_right_contexts(
    installed: Path, tmp_path: Path
) -> None:
    registry = Registry(plugins=True)
    files = [tmp_path / f"{name}.jsonl" for name in NAMES]
    for file, name in zip(files, NAMES, strict=True):
        with Session.create(file, durability="os") as session:
            session.append_handle(f"{name}@1.0.0::a:1", kind="message", role="user")

    async def texts(file: Path) -> list[str]:
        async with AsyncSession.open(file, readonly=True, registry=registry) as session:
            return said_in_context(await session.context())

    async def together() -> list[list[str]]:
        return await asyncio.gather(*map(texts, files))

    wanted = [[f"{name}@1.0.0::a:1"] for name in NAMES]
    assert asyncio.run(together()) == wanted
    assert asyncio.run(together()) == wanted


def test_a_plugin_that_cannot_be_imported_is_tried_once(installed: Path) -> None:
    counted = "from tests.handles import test_installed\ntest_installed.tried.append(1)\n1 / 0\n"
    (installed / "slow_plugin.py").write_text(counted)
    tried.clear()
    registry = Registry(plugins=True)
    with ResolverScope(registry) as scope:
        found = scope.resolve_many([f"slow@1.0.0::a:{number}" for number in range(100)])
    assert all(isinstance(one, UnknownHandleError) for one in found)
    with pytest.raises(UnknownHandleError, match=r"slow_plugin.*division by zero") as failed:
        content(registry, "slow@1.0.0::a")
    assert [str(error) for error in registry.broken] == [str(failed.value)]
    assert len(tried) == 1
    assert content(registry, "tardy@1.0.0::a") == said("tardy@1.0.0::a")


tried: list[int] = []


def test_names_of_plugins_that_no_package_has_are_not_kept(installed: Path) -> None:
    registry = Registry(plugins=True)
    for number in range(3):
        with pytest.raises(UnknownHandleError, match="registered: slow, tardy"):
            content(registry, f"unknown-{number}@1.0.0::a")
    assert registry.broken == []


def test_resolvers_registered_and_removed_by_threads_at_once_all_count() -> None:
    registry = Registry()
    kept, removed = ([Plugin(f"{name}-{n}") for n in range(1000)] for name in ("kept", "removed"))
    for plugin in removed:
        registry.register(plugin)

    def change(number: int) -> None:
        for plugin in (removed, kept)[number]:
            (registry.unregister, registry.register)[number](plugin)

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        at_once(2, change)
    finally:
        sys.setswitchinterval(switch)
    assert registry.plugins == sorted(schema.plugin for p in kept for schema in p.schemas[:1])


def test_the_default_registry_has_the_built_in_resolvers_while_they_are_being_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTING], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.split() == ["blob", "file", "session"], done.stderr


IMPORTING: Final = """
import sys, threading
from importlib.abc import MetaPathFinder

reached, asked = threading.Event(), threading.Event()

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("sessiontree.") and "sessiontree.handles.registry" in sys.modules:
            if not sys.modules["sessiontree.handles.registry"].__spec__._initializing:
                waits = not reached.is_set()
                reached.set()
                asked.wait(2 * waits)

def ask():
    from sessiontree.handles.registry import Registry
    found.append(Registry.default())
    asked.set()

found = []
sys.meta_path.insert(0, Slow())
first = threading.Thread(target=lambda: __import__("sessiontree.handles"))
first.start()
reached.wait()
second = threading.Thread(target=ask)
second.start()
first.join()
second.join()
print(*found[0].plugins)
"""
