"""The entry of the server in the configuration of agents."""

from __future__ import annotations

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from sessiontree.errors import UsageError
from sessiontree.mcp import setup
from tests.mcp.clients import environment
from tests.support.children import commanded
from tests.support.table import for_each

FILES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "codex": ("CODEX_HOME", "config.toml"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    "pi": ("PI_CODING_AGENT_DIR", "mcp.json"),
}


def _written(home: Path, agent: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of an agent, with this text."""
    variable, name = FILES[agent]
    monkeypatch.setenv(variable, str(home))
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def _text(file: Path) -> str:
    return file.read_bytes().decode()


def _entered(agent: str, file: Path) -> str:
    """The configuration with the entry; a second time changes nothing."""
    assert setup.install(agent, ["--redact"]).is_changed
    text = _text(file)
    assert not setup.install(agent, ["--redact"]).is_changed
    assert _text(file) == text
    return text


def test_json_stays_but_for_the_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        "",
        "{}",
        '{\n  "mcpServers": {}\n}',
        '{\n    "a": 1,\n    "b": [\n        2\n    ]\n}\n',
        '{\n  "a": "é",\n  "b": 1.5\n}\n',
        '{\n  "a": "\\ud800 \\u00e9"\n}\n',
        '\ufeff{\r\n\t"a": "}{,//",\r\n\t"mcpServers": {\r\n\t\t"x": {}\r\n\t}\r\n}\r\n',
    ):
        file = _written(tmp_path, "gemini", text, monkeypatch)
        before = json.loads(text.removeprefix("\ufeff") or "{}")
        made = json.loads(_entered("gemini", file).removeprefix("\ufeff"))
        entry = made["mcpServers"].pop("sessiontree")
        assert entry["args"][-2:] == ["mcp", "--redact"]
        assert made == {**before, "mcpServers": before.get("mcpServers", {})}
        assert list(made) == list(dict.fromkeys([*before, "mcpServers"]))
        setup.uninstall("gemini")
        if before.get("mcpServers"):
            assert _text(file) == text
        assert "sessiontree" not in _text(file)


def test_toml_stays_but_for_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        "",
        "a = 1",
        'model = "m"\n\n[tools]\nx = 1 # one\n',
        "# only this\n",
        '[mcp_servers.x]\ncommand = "c"\n\n# about y\n[mcp_servers.y]\nargs = [\n  "[z]",\n]\n',
        "a = 1\r\n[b]\r\nc = 2\r\n",
    ):
        file = _written(tmp_path, "codex", text, monkeypatch)
        made = _entered("codex", file)
        assert made.startswith(text)
        table = tomllib.loads(made)["mcp_servers"]["sessiontree"]
        assert table["args"][-2:] == ["mcp", "--redact"]
        more = "\n[mcp_servers.sessiontree.env]\nA = 'b'\n\n# about c\n[c]\nd = 1\n"
        file.write_text(made + more, encoding="utf-8", newline="")
        setup.uninstall("codex")
        ends = text if not text or text.endswith("\n") else text + "\n"
        assert _text(file) == f"{ends}\n# about c\n[c]\nd = 1\n"


def test_an_older_entry_keeps_what_the_user_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '{"mcpServers": {"sessiontree": {"command": "old", "trust": true}, "x": {}}}'
    file = _written(tmp_path, "gemini", text, monkeypatch)
    servers = json.loads(_entered("gemini", file))["mcpServers"]
    assert servers["sessiontree"]["trust"] is True
    assert servers["sessiontree"]["command"] != "old"
    assert list(servers) == ["sessiontree", "x"]
    text = "[mcp_servers.'sessiontree']\ntimeout = 5 # mine\n'args' = ['old']\n\n[next]\na = 1\n"
    file = _written(tmp_path, "codex", text, monkeypatch)
    made = _entered("codex", file)
    assert tomllib.loads(made)["mcp_servers"]["sessiontree"]["timeout"] == 5
    assert made.endswith("timeout = 5 # mine\n\n[next]\na = 1\n")


def test_a_configuration_that_cannot_be_changed_safely_stays_and_the_entry_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "[mcp_servers.sessiontree]\nargs = [\n 'old',\n]\n"
    for agent, text, why in (
        ("gemini", '{\n  // mine\n  "a": 1\n}', "it is not JSON, or has comments: .* line 2"),
        ("gemini", '{"a": 1,}', "it is not JSON, or has comments"),
        ("gemini", '{"a": 1e999}', "not JSON compliant"),
        ("gemini", "[1]", "it is not an object"),
        ("gemini", '{"mcpServers": 5}', "'mcpServers' in it is not a table of servers"),
        ("gemini", '{"a": 1, "a": 2}', "it has the key 'a' twice"),
        ("gemini", "{" * 100_000, "it is not JSON"),
        ("codex", "a = ", "it is not TOML"),
        ("codex", "mcp_servers = 5", "is not a table of servers"),
        ("codex", "[mcp_servers]\nsessiontree = {command = 'old'}\n", "without changing other"),
        ("codex", table, "without changing other lines"),
        ("codex", f'text = """\n{table}"""\n{table}', "without changing other lines"),
    ):
        file = _written(tmp_path, agent, text, monkeypatch)
        with pytest.raises(UsageError, match=why) as raised:
            setup.install(agent, ["--redact"])
        entry = str(raised.value).partition("nothing was changed: add this ")[2]
        if agent == "codex":
            added = tomllib.loads(entry.removeprefix("below [mcp_servers] yourself: "))
        else:
            added = json.loads("{" + entry.removeprefix("below 'mcpServers' yourself: ") + "}")
        assert added["sessiontree"]["args"][-2:] == ["mcp", "--redact"]
        assert _text(file) == text
    file.write_bytes(b"\xff")
    with pytest.raises(UsageError, match=f"cannot change {file}, .* it is not UTF-8"):
        setup.uninstall("codex")


def _run(home: Path, *arguments: str, code: int = 0) -> str:
    variables = {variable: str(home / agent) for agent, (variable, _) in FILES.items()}
    done = commanded("mcp", *arguments, cwd=home, HOME=str(home), **variables)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@for_each("agent", FILES)
def test_the_command_enters_the_server_and_removes_it_again(tmp_path: Path, agent: str) -> None:
    file = tmp_path / agent / FILES[agent][1]
    options = ("--agents", "--redact", "--tools", "core,tree", "--root", str(tmp_path))
    told = _run(tmp_path, *options, "--install", agent)
    assert f"sessiontree is entered in {file.relative_to(tmp_path)}" in told
    assert ("pi-mcp-adapter" in told) == (agent == "pi")
    assert "Nothing to change" in _run(tmp_path, *options, "--install", agent)
    read = tomllib.loads if agent == "codex" else json.loads
    servers = read(file.read_text())["mcp_servers" if agent == "codex" else "mcpServers"]
    entry = servers["sessiontree"]
    wanted = ["mcp", "--agents", "--redact", "--tools", "core,tree", "--root", str(tmp_path)]
    assert entry["args"][-7:] == wanted
    command = [entry["command"], *entry["args"], "--help"]
    assert subprocess.run(command, capture_output=True, check=True, env=environment()).stdout
    file.chmod(0o640)
    before = file.read_bytes()
    told = _run(tmp_path, "--uninstall", agent)
    assert b"sessiontree" not in file.read_bytes()
    assert file.stat().st_mode & 0o777 == 0o640
    copy = told.partition("The file as it was: ")[2].splitlines()[0]
    assert (tmp_path / copy).read_bytes() == before
    assert "Nothing to change" in _run(tmp_path, "--uninstall", agent)


def test_a_link_to_a_configuration_stays_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text("a = 1\n")
    (tmp_path / "config.toml").symlink_to(target)
    monkeypatch.setenv("CODEX_HOME", str(tmp_path))
    assert setup.install("codex", []).is_changed
    assert (tmp_path / "config.toml").is_symlink()
    assert "sessiontree" in tomllib.loads(target.read_text())["mcp_servers"]


def test_the_store_that_a_variable_names_is_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "store"))
    setup.install("pi", [])
    entry = json.loads((tmp_path / "mcp.json").read_text())["mcpServers"]["sessiontree"]
    assert entry["args"][-2:] == ["--root", str(tmp_path / "store")]
