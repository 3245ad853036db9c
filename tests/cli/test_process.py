"""The command as the shell runs it: streams that close, signals, a terminal."""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sessiontree import Session
from tests.support.terminal import contents, last, lines

COMMAND = [sys.executable, "-m", "sessiontree"]


def spawn(*words: str | Path, **streams: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, *map(str, words)], **streams)  # type: ignore[call-overload,no-any-return]


def ended(*words: str | Path, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*COMMAND, *map(str, words)], input=input, capture_output=True)


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A session whose tree fills any pipe."""
    file = tmp_path / "long.jsonl"
    with Session.create(file, durability="os") as session, session.batch():
        for number in range(3_000):
            session.append_message({"role": "user", "content": f"message {number} " + "x" * 50})
    return file


@pytest.mark.slow
def test_the_module_is_the_command(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    made = ended("new", file)
    assert (made.returncode, made.stdout.decode().strip()) == (0, last(file)["uuid"])
    added = ended("append", file, input='{"role": "user", "content": "é"}'.encode())
    assert added.returncode == 0
    assert "user              é\n" in ended("context", file).stdout.decode()
    assert ended("show", file, "nosuch").returncode == 1
    assert ended("show").returncode == 2


@pytest.mark.parametrize(
    "words", [("tree", "--all"), ("tree", "--json"), ("path", "--json"), ("context",)]
)
def test_a_reader_that_has_enough_ends_the_command_quietly(
    long: Path, words: tuple[str, ...]
) -> None:
    process = spawn(words[0], long, *words[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_a_reader_that_is_gone_ends_an_option_that_prints_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = spawn("export", "--list-rules", stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert process.communicate()[1] == b""
    assert process.returncode == 0


def test_a_follower_on_a_terminal_says_how_to_end_it(long: Path) -> None:
    terminal, stdout = os.openpty()
    process = spawn("follow", long, stdout=stdout, stderr=subprocess.PIPE)
    os.close(stdout)
    assert process.stderr is not None
    assert process.stderr.readline().decode() == f"Following {long}; Ctrl-C ends\n"
    process.send_signal(signal.SIGINT)
    process.stderr.close()
    process.wait()
    os.close(terminal)


def test_a_follower_of_an_old_file_does_not_migrate_it(version_1: Path) -> None:
    before = contents(version_1.parent)
    process = spawn("follow", version_1, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    for _ in range(600):  # it may not follow yet
        with version_1.open("ab") as file:
            file.write(b'{"type":"message","message":{"role":"user","content":"third"}}\n')
        if select.select([process.stdout], [], [], 0.05)[0]:
            break
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate()
    assert b"third" in shown
    assert contents(version_1.parent).keys() == before.keys()
    assert version_1.read_bytes().startswith(before["old.jsonl"])


def test_output_that_cannot_be_written_is_one_clear_line(long: Path) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    with full.open("wb") as stdout:
        process = spawn("show", long, stdout=stdout.fileno(), stderr=subprocess.PIPE)
        _, told = process.communicate()
    assert process.returncode == 1
    assert told == b"Error: standard output: No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_was_closed_before_does_no_harm(tmp_path: Path, closed: int) -> None:
    file = tmp_path / "chat.jsonl"
    assert ended("new", file).returncode == 0
    script = f'exec {closed}>&-; exec "$@"'
    words = ["sh", "-c", script, "sh", *COMMAND, "append", str(file), "--text", "x"]
    done = subprocess.run(words, capture_output=True)
    assert b"Traceback" not in done.stderr
    assert done.returncode == 0
    assert b'"content":"x"' in lines(file)[-1]
    assert len(lines(file)) == 2


@pytest.mark.slow
def test_an_interrupt_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    ended("new", file)
    ended("append", file, "--text", "x")
    ended("append", file, "--text", "y")
    interrupt = "import os, signal; os.kill(os.getppid(), signal.SIGINT); input()"
    summarizer = shlex.join([sys.executable, "-c", interrupt])
    stopped = ended("pop", file, "@~1", "--summarizer", summarizer)
    assert stopped.returncode == 130
    assert stopped.stdout == b""
    assert b"Error" not in stopped.stderr
    assert len(lines(file)) == 3


def test_a_terminal_as_standard_input_is_refused_with_the_way_out(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    ended("new", file)
    terminal, other_end = os.openpty()
    process = spawn("append", file, stdin=other_end, stderr=subprocess.PIPE)
    _, told = process.communicate()
    os.close(terminal)
    os.close(other_end)
    assert process.returncode == 2
    assert b"pipe it in as JSON" in told
    assert len(lines(file)) == 1


@pytest.mark.slow
def test_a_terminal_that_speaks_no_unicode_still_gets_its_tree(long: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    for words in (["tree", str(long)], ["tree", str(long), "--json"]):
        done = subprocess.run([*COMMAND, *words], capture_output=True, env=environment)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_current_directory_that_was_removed_is_reported(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"cd {shlex.quote(str(gone))} && rmdir ../gone && exec {shlex.join(COMMAND)} ls ."
    ended = subprocess.run(["sh", "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "Error: the current directory was removed; change to another\n"


def test_an_interrupt_while_the_command_is_loaded_shows_no_traceback() -> None:
    source = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'click': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from sessiontree.__main__ import run\n"
        "run()\n"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")


@pytest.mark.slow
def test_a_message_cannot_come_from_a_closed_input(tmp_path: Path) -> None:
    Session.create(tmp_path / "s.jsonl").close()
    command = shlex.join([*COMMAND, "append", str(tmp_path / "s.jsonl")])
    done = subprocess.run(f"{command} <&-", shell=True, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: standard input is empty")
