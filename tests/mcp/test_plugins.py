"""Plugins of handles, first used by several calls at once."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult

from tests.mcp.clients import client, run, talk, text_of
from tests.support.plugins import install_plugins


def test_calls_at_once_that_use_plugins_first_resolve_all_handles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "installed"
    installed.mkdir()
    module = "import time\ntime.sleep(0.05)\nfrom tests.support.plugins import Plugin\n"
    for name in ("deep", "dusty"):
        (installed / f"{name}_plugin.py").write_text(f"{module}plugin = Plugin({name!r})\n")
        monkeypatch.delitem(sys.modules, f"{name}_plugin", raising=False)
    install_plugins(installed, "deep = deep_plugin:plugin", "dusty = dusty_plugin:plugin")
    monkeypatch.syspath_prepend(str(installed))
    talk(tmp_path / "store")
    results: dict[str, CallToolResult] = {}

    async def test() -> None:
        async with client(tmp_path / "store") as at, anyio.create_task_group() as tasks:

            async def ask(handle: str) -> None:
                results[handle] = await at.call_tool("handle_resolve", {"handle": handle})

            for number in range(8):
                tasks.start_soon(ask, f"{('deep', 'dusty')[number % 2]}@1.0.0::a:{number}")

    run(test)
    assert len(results) == 8
    for handle, result in results.items():
        assert not result.is_error, text_of(result)
        assert handle in text_of(result)
