"""The entry of the server in the configuration of agents."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree.errors import UsageError
from sessiontree.mcp import json_text, setup, toml_text
from tests.mcp.changed import EXPECTED, changed
from tests.mcp.clients import COMMAND, environment

FILES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude.json"),
    "codex": ("CODEX_HOME", "config.toml"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
    "pi": ("PI_CODING_AGENT_DIR", "mcp.json"),
}
ENTRY = {"command": "/bin/s", "args": ["mcp"]}

JSON = (
    '{"a": 1}',
    "{}",
    "{\n}\n",
    '{\n  "a": 1\n}\n',
    '\ufeff{\r\n\t"a": [1, {"mcpServers": 2}],\r\n\t"b": "}{,//"\r\n}',
    '// first\n{\n    "a": 1, // one\n    /* two */ "b": {},\n}\n// last',
    '{\n  "mcpServers": {}\n}',
    '{\n  "mcpServers": {\n    "x": {"command": "c"} // mine\n  },\n  "z": "é\\u00e9"\n}\n',
    '{\n  "mcpServers": {\n    "x": {"command": "c"},\n    // none below\n  }\n}\n',
    '{"mcpServers": {"x": {}}, "theme": "dark"}',
)
TOML = (
    "",
    "a = 1",
    'model = "m"\n\n[tools]\nx = 1 # one\n',
    "# only this\n",
    '[mcp_servers.x]\ncommand = "c"\n\n# about y\n[mcp_servers.y]\nargs = [\n  "[z]",\n]\n',
    'text = """\n[mcp_servers.sessiontree]\n"""\n',
    "a = 1\r\n[b]\r\nc = 2\r\n",
)


@pytest.mark.parametrize("text", JSON)
def test_an_entry_goes_into_json_and_out_again(text: str) -> None:
    made = json_text.with_entry(text, "mcpServers", "sessiontree", ENTRY)
    assert json_text.with_entry(made, "mcpServers", "sessiontree", ENTRY) == made
    lines = set(made.replace(",", "").splitlines())
    assert {line.replace(",", "") for line in text.splitlines() if line.strip(" {}")} - lines <= {
        line.replace(",", "") for line in text.splitlines() if "{}" in line or "}}" in line
    } | ({text.replace(",", "")} if "\n" not in text else set())
    before, after = _plain(text), _plain(made)
    assert after["mcpServers"].pop("sessiontree") == ENTRY
    assert after == {"mcpServers": {}, **before}
    back = json_text.without_entry(made, "mcpServers", "sessiontree")
    if "mcpServers" in before:
        assert back == text.replace("{\n}", "{}")
    assert _plain(back) == {"mcpServers": {}, **before}
    assert json_text.without_entry(back, "mcpServers", "sessiontree") == back


def _plain(text: str) -> Any:
    """The value of JSON with comments, read in another way than by the module."""
    import re

    text = text.removeprefix("\ufeff").replace('"}{,//"', '"."')
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", text))


NAMES = st.text(st.sampled_from('ab"\\/*, {}[]é\n'), max_size=4)
VALUES = st.recursive(
    st.none() | st.integers() | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.sampled_from([None, 2, "\t"]), st.booleans())
def test_any_json_stays_but_for_the_entry(
    value: dict[str, Any], indent: Any, has_servers: bool
) -> None:
    if has_servers:
        value = {"first": 1, "mcpServers": {"x": value, "y": {}}, "last": value}
    text = json.dumps(value, indent=indent)
    made = json_text.with_entry(text, "mcpServers", "sessiontree", ENTRY)
    wanted = {**value, "mcpServers": {**value.get("mcpServers", {}), "sessiontree": ENTRY}}
    assert json.loads(made) == wanted
    back = json_text.without_entry(made, "mcpServers", "sessiontree")
    assert json.loads(back) == {"mcpServers": {}, **value}
    if has_servers:
        assert back == text


def test_an_older_entry_keeps_what_the_user_added() -> None:
    old = '"sessiontree": {"command": "old", "trust": true}'
    text = f'{{\n  "mcpServers": {{\n    {old}, "x": {{}}\n  }}\n}}'
    made = json_text.with_entry(text, "mcpServers", "sessiontree", ENTRY)
    assert json.loads(made)["mcpServers"] == {"sessiontree": {**ENTRY, "trust": True}, "x": {}}
    assert made.endswith(', "x": {}\n  }\n}')
    text = '[mcp_servers.sessiontree]\ntimeout = 5 # mine\nargs = [\n "old",\n]\n[next]\na = 1\n'
    made = toml_text.with_table(text, "mcp_servers", "sessiontree", ENTRY)
    assert tomllib.loads(made)["mcp_servers"]["sessiontree"] == {**ENTRY, "timeout": 5}
    assert "timeout = 5 # mine\n[next]\na = 1\n" in made


@pytest.mark.parametrize("text", TOML)
def test_a_table_goes_into_toml_and_out_again(text: str) -> None:
    made = toml_text.with_table(text, "mcp_servers", "sessiontree", ENTRY)
    assert toml_text.with_table(made, "mcp_servers", "sessiontree", ENTRY) == made
    assert made.startswith(text)
    assert tomllib.loads(made)["mcp_servers"]["sessiontree"] == ENTRY
    ends = text if not text or text.endswith("\n") else text + "\n"
    assert toml_text.without_table(made, "mcp_servers", "sessiontree") == ends
    more = made + "\n[mcp_servers.sessiontree.env]\nA = 'b'\n\n# about c\n[c]\nd = 1\n"
    back = toml_text.without_table(more, "mcp_servers", "sessiontree")
    assert back == f"{ends}\n# about c\n[c]\nd = 1\n"


@pytest.mark.parametrize(
    ("put", "text", "said"),
    [
        (json_text.with_entry, '{"a": 1', "it is not JSON: line 1"),
        (json_text.with_entry, "[1]", "the file is not an object"),
        (json_text.with_entry, '{"s": 5}', "'s' is not an object"),
        (json_text.with_entry, '{"s": {}, "s": {}}', "has the key 's' twice"),
        (json_text.with_entry, "{" * 100_000, "it is not JSON"),
        (toml_text.with_table, "a = ", "it is not TOML"),
        (toml_text.with_table, "s = 5", "not a table of tables"),
        (toml_text.with_table, "s = {x = {}}", "cannot be changed without changing other lines"),
        (toml_text.with_table, "[s]\nn = {a = 1}", "not written as a table with a header"),
    ],
)
def test_what_cannot_be_changed_safely_is_refused(put: Any, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        put(text, "s", "n", ENTRY)


def test_what_becomes_of_configurations_is_what_is_expected() -> None:
    """`python -m tests.mcp.changed` writes the expectations again, after a change on purpose."""
    expected = EXPECTED.read_text(encoding="utf-8")
    assert changed().split("=== given") == expected.split("=== given")


def _run(home: Path, *arguments: str, code: int = 0) -> str:
    variables = {variable: str(home / agent) for agent, (variable, _) in FILES.items()}
    done = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env=environment(HOME=str(home), **variables),
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("agent", FILES)
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
    before = file.read_bytes()
    told = _run(tmp_path, "--uninstall", agent)
    assert not file.exists()
    assert _copy(tmp_path, told).read_bytes() == before
    assert "Nothing to change" in _run(tmp_path, "--uninstall", agent)


@pytest.mark.parametrize("agent", FILES)
@pytest.mark.parametrize("is_made_here", [True, False])
def test_a_configuration_of_the_user_stays(
    tmp_path: Path, agent: str, *, is_made_here: bool
) -> None:
    """One that was there, though empty, and one that the user wrote into."""
    file = tmp_path / agent / FILES[agent][1]
    given = b"" if agent == "codex" else b"{}\n"
    if not is_made_here:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(given)
    _run(tmp_path, "--install", agent)
    if is_made_here:
        own = "\n[own]\na = 1\n" if agent == "codex" else '{"own": 1, '
        text = file.read_text()
        file.write_text(text + own if agent == "codex" else text.replace("{", own, 1))
    file.chmod(0o640)
    before = file.read_bytes()
    told = _run(tmp_path, "--uninstall", agent)
    assert file.stat().st_mode & 0o777 == 0o640
    assert b"sessiontree" not in file.read_bytes()
    assert (b"own" in file.read_bytes()) == is_made_here
    assert _copy(tmp_path, told).read_bytes() == before


def _copy(folder: Path, told: str) -> Path:
    return folder / told.partition("The file as it was: ")[2].splitlines()[0]


def test_a_configuration_that_cannot_be_read_stays_and_is_named(tmp_path: Path) -> None:
    file = tmp_path / "gemini" / FILES["gemini"][1]
    file.parent.mkdir(parents=True)
    for content, why in ((b'{"a": ', "it is not JSON"), (b"\xff", "it is not UTF-8")):
        file.write_bytes(content)
        told = _run(tmp_path, "--install", "gemini", code=1)
        assert str(file) in told
        assert why in told
        assert "nothing was changed" in told
        assert file.read_bytes() == content
    assert os.listdir(file.parent) == [file.name]


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
