"""The server as a real process, over standard input and output and over HTTP."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from sessiontree import Session, Store
from tests.mcp.clients import (
    COMMAND,
    HELLO,
    MODES,
    PATIENCE,
    Pipe,
    environment,
    pipe,
    run,
    serving,
    talk,
    text_of,
)
from tests.support import terminal


def test_a_client_starts_the_command_and_calls_a_tool(tmp_path: Path) -> None:
    talk(tmp_path)
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "--root", str(tmp_path)], env=environment()
    )

    async def test() -> None:
        for mode in MODES:
            async with Client(stdio_client(parameters), mode=mode) as at:
                result = await at.call_tool("tree_render", {"session": "latest"})
                assert "In Rust." in text_of(result)

    run(test)


def test_each_line_that_is_no_message_gets_one_error_and_the_server_goes_on(tmp_path: Path) -> None:
    wrong: list[tuple[bytes, int]] = [
        (b"junk{", -32700),
        (b'{"jsonrpc": "2.0", "id": 1', -32700),
        (b"\xff\xfe", -32700),
        (b"[]", -32600),
        (b"5", -32600),
        (b'{"id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
    ]
    with pipe("--root", str(tmp_path)) as at:
        at.hello()
        for line, code in wrong:
            at.send(line)
            found = at.receive()
            assert found["error"]["code"] == code, line
            assert "the line is not" in found["error"]["message"]
        assert "result" in at.ask("ping")
        assert at.end() == (0, b"")


def test_requests_that_do_not_fit_get_errors(tmp_path: Path) -> None:
    talk(tmp_path)
    with pipe("--root", str(tmp_path)) as at:
        for method in ("tools/list", "tools/call", "resources/list"):
            assert "error" in at.ask(method), "before initialize"
        assert "instructions, not" not in json.dumps(at.hello())
        assert at.ask("no/such")["error"]["code"] == -32601
        assert at.ask("tools/call", name=5)["error"]["code"] == -32602
        assert at.ask("tools/call", name="tree_render", arguments=[1])["error"]["code"] == -32602
        assert at.call("no_such")["error"]["code"] == -32602
        big = at.call("tree_render", session="x" * 10_000_000)
        assert big["result"]["isError"]
        assert len(json.dumps(big)) < 4000
        assert "In Rust." in json.dumps(at.call("tree_render", session="latest"))
        assert at.end() == (0, b"")


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """What a new process answers to a call that it is sent at once, and its processor time."""
    root = tmp_path_factory.mktemp("at-once")
    talk(root)
    lines: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "tree_render", "arguments": {"session": "latest"}},
        },
    ]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*COMMAND, "--root", str(root)],
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stderr == ""
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_what_was_asked_before_the_end_of_the_input_is_answered(
    at_once: tuple[str, float],
) -> None:
    told, _ = at_once
    assert "In Rust." in json.dumps(json.loads(told.splitlines()[1]))


def test_the_end_of_a_client_in_mid_call_ends_the_server(tmp_path: Path) -> None:
    talk(tmp_path, "long", *("word " * 1000 for _ in range(300)))
    with pipe("--root", str(tmp_path)) as at:
        at.hello()
        given = {"name": "tree_get", "arguments": {"session": "latest", "budget": 0}}
        for number in range(20):
            at.send({"jsonrpc": "2.0", "id": f"c{number}", "method": "tools/call", "params": given})
        process = at.process
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.close()
        with suppress(BrokenPipeError):
            process.stdin.close()
        assert process.wait(PATIENCE) is not None
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_an_interrupt_ends_the_server_without_a_traceback(tmp_path: Path) -> None:
    with pipe("--root", str(tmp_path)) as at:
        at.hello()
        at.process.send_signal(signal.SIGINT)
        assert at.process.wait(PATIENCE) != 0
        assert at.process.stderr is not None
        assert at.process.stderr.read() == b""


def test_two_servers_on_one_root_write_side_by_side(tmp_path: Path) -> None:
    options = ("--root", str(tmp_path), "--write")
    with pipe(*options) as one, pipe(*options) as other:
        both: list[Pipe] = [one, other]
        for at in both:
            at.hello()
        for number in range(10):
            for at in both:
                made = at.call("tree_create", name=f"n{number}", cwd="/p")
                assert not made["result"]["isError"]
        for at in both:
            assert len(at.ask("resources/list")["result"]["resources"]) == 20
    assert len(Store(tmp_path).list()) == 20


def test_a_session_that_is_damaged_or_removed_between_calls_is_told(tmp_path: Path) -> None:
    file = Path(Store(tmp_path).find(talk(tmp_path)).file)
    with pipe("--root", str(tmp_path)) as at:
        at.hello()
        assert not at.call("tree_render", session="latest")["result"]["isError"]
        whole = file.read_bytes()
        file.write_bytes(whole.replace(b"In Rust.", b"In Dust."))
        told = at.call("tree_render", session="latest")["result"]
        assert not told["isError"]
        assert "Damage: " in told["structuredContent"]["notes"][0]
        file.write_bytes(b"\0" * 100)
        assert at.call("tree_render", session=str(file))["result"]["isError"]
        file.unlink()
        assert at.call("tree_render", session=str(file))["result"]["isError"]
        file.write_bytes(whole)
        assert "In Rust." in json.dumps(at.call("tree_render", session="latest"))
        assert at.end()[0] == 0


def test_links_and_paths_that_lead_outside_are_refused(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    talk(root)
    secret = talk(outside, "secret")
    target = Path(Store(outside).find(secret).file)
    (root / "project").mkdir(exist_ok=True)
    (root / "project" / "link.jsonl").symlink_to(target)
    with pipe("--root", str(root)) as at:
        at.hello()
        names = [str(target), f"{root}/../outside", str(root / "project" / "link.jsonl")]
        for name in (*names, secret, "../" * 9 + str(target)):
            result = at.call("tree_render", session=name)["result"]
            assert result["isError"], name
            assert "In Rust." not in json.dumps(result)


def post(url: str, body: bytes = b"", **headers: str) -> int:
    """The status of a request to initialize."""
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    given = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    request = urllib.request.Request(url, body or json.dumps(hello).encode(), given)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_over_http_both_protocols_work_and_strangers_are_refused(tmp_path: Path) -> None:
    talk(tmp_path)
    with serving(tmp_path, "--http", "0") as (url, _):
        assert url.startswith("http://127.0.0.1:")

        async def test() -> None:
            for mode in MODES:
                async with Client(streamable_http_client(url), mode=mode) as at:
                    result = await at.call_tool("tree_render", {"session": "latest"})
                    assert "In Rust." in text_of(result)

        run(test)
        port = url.split(":")[2].split("/")[0]
        assert post(url) == 200
        assert post(url, Origin=f"http://localhost:{port}") == 200
        assert post(url, Origin="http://evil.example") == 403
        assert post(url, Host="evil.example") == 421
        assert post(url, b"junk{") == 400
        assert _status_of_a_body(int(port), 100_000_000) == 413
        assert post(url.replace("/mcp", "/other")) == 404


def test_a_token_is_asked_for_and_made_where_other_machines_reach_the_address(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--http", "0.0.0.0:0", "--allow-host", "name.example") as (url, lines):
        token = lines[1].split()[1]
        local = url.replace("0.0.0.0", "127.0.0.1")
        assert len(token) > 30
        assert post(local) == 401
        assert post(local, Authorization="Bearer wrong") == 401
        assert post(local, Authorization=f"Bearer {token}") == 200
        assert post(local, Authorization=f"Bearer {token}", Host="name.example") == 200
        assert post(local, Authorization=f"Bearer {token}", Host="evil.example") == 421
    more = {"SESSIONTREE_MCP_TOKEN": "given"}
    with serving(tmp_path, "--http", "127.0.0.1:0", **more) as (url, lines):
        assert "given" not in "".join(lines)
        assert post(url) == 401
        assert post(url, Authorization="Bearer given") == 200


def _status_of_a_body(port: int, length: int) -> int:
    """The status for a request whose body would be so long; none of it is sent."""
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as stream:
        stream.sendall(head.encode())
        return int(stream.recv(100).split()[1])


def refused(*arguments: str, **more: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env=environment(**more),
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_wrong_options_get_one_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rows: list[tuple[list[str], int, str]] = [
            (["--http", "nonsense"], 1, "give HOST:PORT"),
            (["--http", "127.0.0.1:99999"], 1, "give HOST:PORT"),
            (["--http", f"127.0.0.1:{port}"], 1, "cannot listen on"),
            (["--http", "no.such.host.invalid:0"], 1, "cannot listen on"),
            (["--http", "0", "--token", " "], 2, "the token is empty"),
            (["--token", "x"], 2, "--token and --allow-host are for --http"),
            (["--install", "claude-code", "--uninstall", "codex"], 2, "not both"),
            (["--uninstall", "codex", "--http", "0"], 2, "without --http"),
            (["--tools", "tre"], 2, "did you mean 'tree'"),
            (["--tools", "tre", "--install", "codex"], 2, "did you mean 'tree'"),
            (["--install", "vim"], 2, "claude-code"),
            (["--root", str(tmp_path / "none")], 1, "there is no folder"),
        ]
        for arguments, code, said in rows:
            errors = terminal.refused("mcp", *arguments, status=code)
            assert said in errors
            assert "Traceback" not in errors


def test_without_the_package_the_command_names_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError(name='mcp')")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    code, errors = refused("--root", str(tmp_path), PYTHONPATH=path)
    assert (code, errors.count("\n")) == (1, 1)
    assert "pip install '.[mcp]'" in errors


def test_no_other_command_imports_the_package() -> None:
    script = (
        "import sys, importlib\n"
        "from sessiontree.cli import COMMANDS, main\n"
        "for name in COMMANDS:\n"
        "    assert main.get_command(None, name) is not None\n"
        "print([name for name in ('mcp', 'mcp_types', 'starlette') if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_the_server_changes_nothing_by_reading(tmp_path: Path) -> None:
    file = Store(tmp_path).find(talk(tmp_path)).file
    with Session.open(file, readonly=True) as session:
        assert session.damage == []
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with pipe("--root", str(tmp_path)) as at:
        at.hello()
        at.call("tree_render", session="latest")
        at.ask("resources/list")
        at.ask("resources/read", uri=f"session://{Path(file).stem}")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_the_first_answer_takes_little_work(at_once: tuple[str, float]) -> None:
    """The goal is 1.5 s; most of it is the import of the package that speaks the protocol."""
    _, seconds = at_once
    assert seconds < 4
