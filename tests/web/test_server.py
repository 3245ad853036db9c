"""Only this machine, with the token, reaches the server; it only reads, and ends cleanly."""

from __future__ import annotations

import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from sessiontree.web.sessions import id_of
from tests.page.reading import Page, page_of
from tests.support.children import commanded
from tests.support.conversation import user
from tests.support.foreign import AGENTS, BAD_IDS, foreign_session
from tests.web.serving import PATIENCE, Server, serving, talk

FIXTURES = Path(__file__).parents[2] / "fixtures"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sessions")
    talk(folder / "one.jsonl", name="One").close()
    talk(folder / "two.jsonl", name="Two").close()
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    with serving(folder) as found:
        yield found


def statuses(server: Server, token: str | None = None, **headers: str) -> set[int]:
    """The statuses of every kind of address."""
    id = server.ids[0]
    paths = ["/", "/sessions", f"/s/{id}", f"/s/{id}/index", f"/s/{id}/events", "/costs", "/x"]
    return {server.ask(path, token=token, **headers)[0].status for path in paths}


def test_a_request_without_the_token_gets_nothing(server: Server) -> None:
    assert server.ask("/")[0].status == 200
    for token in ("", "wrong", server.token[:-1], f"{server.token}x", "%c3%a9", "%00", "..", "."):
        assert statuses(server, token=token) == {403}
    for path in ("/", "/sessions", f"/s/{server.ids[0]}", f"//{server.token}/", "/favicon.ico"):
        assert server.send(path)[0].status == 403


def test_every_address_is_guarded_by_the_name_and_the_origin(server: Server) -> None:
    """The cases are in `test_door`; here is one of each kind over a real connection."""
    assert statuses(server, Host=f"evil.invalid:{server.port}") == {403}
    assert statuses(server, Origin=f"https://127.0.0.1:{server.port}") == {403}
    for name in ("127.0.0.1", "localhost"):
        host = f"{name}:{server.port}"
        assert server.ask("/", Host=host, Origin=f"http://{host}")[0].status == 200


def test_no_answer_has_the_token_or_a_cookie(server: Server) -> None:
    id = server.ids[0]
    for path in ("/", "/sessions", "/costs", f"/s/{id}", f"/s/{id}/about", f"/s/{id}/seen", "/x"):
        answer, body = server.ask(path)
        assert server.token not in str(answer.headers) + body.decode()
        assert answer.getheader("set-cookie") is None
        assert answer.getheader("referrer-policy") == "no-referrer"
        assert answer.getheader("cache-control") == "no-store"


def test_an_address_without_its_last_slash_leads_to_the_list(server: Server) -> None:
    answer, _ = server.ask("")
    assert (answer.status, answer.getheader("location")) == (307, server.url("/"))


def test_an_address_does_not_lead_to_another_server(server: Server) -> None:
    answer, _ = server.send(f"//evil.invalid/{server.token}/")
    assert (answer.status, answer.getheader("location")) == (403, None)
    answer, _ = server.ask("//evil.invalid/s/")
    assert (answer.status, answer.getheader("location")) == (404, None)


def test_the_server_only_reads(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert server.ask("/", method)[0].status == 405


def test_no_path_comes_from_a_request(server: Server, folder: Path) -> None:
    id = server.ids[0]
    for name in (str(folder / "one.jsonl"), "../../etc/passwd", "%2e%2e%2fone.jsonl", "one.jsonl"):
        assert server.ask(f"/s/{name}")[0].status in (404, 403)
        assert server.ask(f"/s/{id}/{name}")[0].status in (404, 410)


def test_pages_have_a_policy_and_are_kept_nowhere(server: Server) -> None:
    for path in ("/", f"/s/{server.ids[0]}"):
        answer, body = server.ask(path)
        policy = str(answer.getheader("content-security-policy"))
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.getheader("cache-control") == "no-store"
        assert answer.getheader("x-frame-options") == "DENY"
        assert answer.getheader("referrer-policy") == "no-referrer"
        assert b"://" not in body.partition(b"<script>")[0]


def test_the_list_has_the_sessions_and_their_facts(server: Server) -> None:
    found = server.json("/sessions?counted=1")
    assert {one["title"] for one in found["sessions"]} == {"One", "Two"}
    assert {one["turns"] for one in found["sessions"]} == {2}
    assert found["problems"] == []


def test_a_session_has_the_rows_of_its_export(server: Server, folder: Path) -> None:
    id = next(one["id"] for one in server.json("/sessions")["sessions"] if one["title"] == "Two")
    index = server.json(f"/s/{id}/index")
    rows = [row for name in index["names"] for row in server.json(f"/s/{id}/{name}")]
    exported: Page = page_of(folder / "two.jsonl")
    assert rows == exported.rows
    assert index["kinds"] == exported.index["kinds"]
    assert index["uuids"].split("\n") == exported.index["uuids"]


def test_a_taken_port_is_one_line_with_what_to_do(folder: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = commanded("view", "--no-browser", "--port", port, folder)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "Address already in use; give another --port" in line


def test_a_file_that_is_not_a_session_is_one_line_and_no_server(tmp_path: Path) -> None:
    for name, content in (("notes.txt", "hello\n"), ("s.jsonl", '{"a": 1}\n'), ("e.jsonl", "")):
        (tmp_path / name).write_text(content)
        ended = commanded("view", "--no-browser", tmp_path / name)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith(f"Error: {tmp_path / name} is not a session: ")
        assert ended.stderr.count("\n") == 1


def test_without_the_packages_one_line_says_what_to_install(folder: Path) -> None:
    source = (
        "import importlib.util as u; find = u.find_spec;"
        "u.find_spec = lambda name, *more: None if name == 'uvicorn' else find(name, *more);"
        "from sessiontree.__main__ import run; run()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source, "view", folder],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.endswith("run: pip install '.[web]'")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_cleanly_while_pages_listen(folder: Path, number: int) -> None:
    with serving(folder) as server:
        index = server.json(f"/s/{server.ids[0]}/index")
        with server.events(server.ids[0], index["number"]) as events:
            server.process.send_signal(number)
            assert list(events) == []
        assert server.process.wait(PATIENCE) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == b"Ctrl-C ends the view\n"


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(3))
def test_the_server_ends_however_often_it_is_told(folder: Path, turn: int) -> None:
    with serving(folder) as server:
        for id in server.ids:
            server.json(f"/s/{id}/index")
        for _ in range(100):
            with suppress(ProcessLookupError):
                server.process.send_signal(signal.SIGINT)
        server.process.wait(PATIENCE)  # a signal to Python as it ends may give any status


def test_one_file_is_opened_at_once(folder: Path) -> None:
    with serving(folder / "one.jsonl") as server:
        assert server.address == server.url(f"/s/{server.ids[0]}")


def test_nothing_of_a_session_is_written(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    with serving(folder) as server:
        for id in server.ids:
            server.json(f"/s/{id}/index")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_state_that_the_server_has_no_more_is_read_anew(folder: Path) -> None:
    file = folder / "grows.jsonl"
    with talk(file, name="Grows") as session, serving(file) as server:
        (id,) = server.ids
        first = server.json(f"/s/{id}/index")
        with server.events(id, first["number"]) as events:
            session.append_message(user("more"))
            assert next(events)[0] == "change"
        with server.events(id, 10_000) as events:
            assert next(events)[0] == "again"
        assert server.ask(f"/s/{id}/0123456789abcdef01234567")[0].status == 410


def test_a_client_that_reads_nothing_holds_up_nobody(folder: Path) -> None:
    file = folder / "slow.jsonl"
    with talk(file, name="Slow") as session, serving(file) as server:
        (id,) = server.ids
        number = server.json(f"/s/{id}/index")["number"]
        with server.events(id, number), server.events(id, number) as events:
            for n in range(80):
                session.append_message(user(f"line {n} " + "long " * 5000))
            for _, data in events:
                if "line 79" in data:
                    break
            assert server.ask("/sessions")[0].status == 200


def half_request(server: Server, text: str = "GET / HTTP/1.1\r\nHost: ") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    connection.sendall(text.encode())
    return connection


def test_a_connection_that_sends_no_whole_request_is_closed(folder: Path) -> None:
    file = folder / "open.jsonl"
    with talk(file, name="Open") as session, serving(file) as server:
        (id,) = server.ids
        host = f"Host: 127.0.0.1:{server.port}\r\n"
        refused = f"GET / HTTP/1.1\r\n{host}\r\n"
        with server.events(id, server.json(f"/s/{id}/index")["number"]) as events:
            texts = [
                "",
                "G",
                f"GET / HTTP/1.1\r\n{host}",
                f"{refused}GET",
                f"POST / HTTP/1.1\r\n{host}Content-Length: 9\r\n\r\nhalf",
            ]
            for connection in [half_request(server, text) for text in texts]:
                with connection:
                    while connection.recv(65536):
                        pass
            session.append_message(user("still heard"))
            assert next(events)[0] == "change"


def test_bytes_that_trickle_in_do_not_keep_a_connection_open(server: Server) -> None:
    with half_request(server) as connection:
        connection.settimeout(0.1)
        for _ in range(10 * PATIENCE):
            try:
                connection.sendall(b"x")
                if not connection.recv(1):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("the connection is still open")


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit")
def test_more_half_requests_than_the_process_has_descriptors_block_nobody(folder: Path) -> None:
    with serving(folder) as server, ExitStack() as stack:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (256, 256))
        for _ in range(600):
            stack.enter_context(half_request(server))
        assert {server.ask("/sessions")[0].status for _ in range(20)} == {200}


def test_a_session_that_is_newer_than_the_list_is_found(tmp_path: Path) -> None:
    talk(tmp_path / "old.jsonl").close()
    with serving(tmp_path) as server:
        assert len(server.ids) == 1
        file = tmp_path / "new.jsonl"
        talk(file, name="New").close()
        for _ in range(100):
            answer, _ = server.ask(f"/s/{id_of(str(file))}")
            if answer.status == 200:
                break
            time.sleep(0.1)
        assert answer.status == 200


@pytest.mark.parametrize(
    "name", ["damage-blank", "damage-bom", "damage-blob-folder", "handle-blob-missing"]
)
def test_a_damaged_session_has_a_page(name: str) -> None:
    file = FIXTURES / name / "session.jsonl"
    with serving(file) as server:
        (id,) = server.ids
        assert server.json(f"/s/{id}/index")["kinds"]


def test_a_huge_line_and_very_many_entries_have_a_page(tmp_path: Path) -> None:
    with talk(tmp_path / "huge.jsonl", name="Huge") as session:
        session.append_message(user("long " * 2_000_000))
    with talk(tmp_path / "many.jsonl", name="Many") as session, session.batch():
        for n in range(20_000):
            session.append("custom", customType="x", data=n)
    with serving(tmp_path) as server:
        for id in server.ids:
            index = server.json(f"/s/{id}/index")
            assert server.json(f"/s/{id}/{index['names'][0]}")


def test_ids_that_cannot_be_names_are_listed_counted_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = [(agent, id) for agent in AGENTS for id in BAD_IDS.values()]
    for number, (agent, id) in enumerate(made):
        foreign_session(tmp_path / "home", agent, id, "/project", number)
    with serving(tmp_path / "home") as server:
        for path in ("/sessions", "/sessions?counted"):
            found = server.json(path)
            assert len(found["sessions"]) == len(made)
            assert found["problems"] == []
        assert {one["turns"] for one in found["sessions"]} == {1}
        for id in server.ids:
            assert server.ask(f"/s/{id}")[0].status == 200
