"""`sessiontree record`: a stream goes in at standard input, a session comes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sessiontree import Session
from tests.support.conversation import said_in
from tests.support.saying import text
from tests.support.streams import AGENT_SESSION, MODEL, TEXT, Agent, as_bytes, conversation
from tests.support.table import for_each
from tests.support.terminal import done, driving, printed_json, refused, run, texts

STREAM = as_bytes(conversation())
COMMAND = [sys.executable, "-m", "sessiontree", "record", "--json"]


def _head(file: Path) -> str:
    """The last entry of the path that does more than annotate."""
    path = [entry for entry in printed_json("path", file) if entry["type"] != "usage"]
    return str(path[-1]["uuid"])


def test_a_session_is_made_and_shows_what_the_agent_told_of_itself(file: Path) -> None:
    leaf = done("record", file, "--prompt", "Look", input=STREAM).strip()
    facts = printed_json("show", file)
    assert leaf == _head(file)
    assert facts["agentSession"] == AGENT_SESSION
    assert facts["model"] == {"provider": None, "modelId": MODEL}
    assert facts["cwd"] == "/p"
    assert printed_json("ls", file.parent)[0]["agent"] == "claude-code"
    assert AGENT_SESSION in done("show", file)
    assert texts(file)[0] == "Look"
    with Session.open(file, readonly=True) as session:
        assert len(session.turns()) == 1
    assert printed_json("stats", file)["usage"]["cost"] == 0.25


@for_each("exists", [True, False])
def test_a_stream_is_recorded_on_a_lane(file: Path, exists: bool) -> None:
    if exists:
        done("new", file)
    done("record", file, "--lane", "sub", input=as_bytes(conversation()))
    assert said_in(file) == []
    assert said_in(file, "sub")
    lane = json.loads(file.read_bytes().splitlines()[-1])["lane"]
    result = run("record", file, "--scratch", input=as_bytes(conversation()))
    assert "to keep it: sessiontree keep" in result.stderr
    assert (lane, said_in(file)) == ("sub", [])


def test_the_model_is_shown_before_it_has_said_anything(file: Path) -> None:
    done("record", file, input=as_bytes([Agent().init()]))
    assert printed_json("show", file)["model"] == {"provider": None, "modelId": MODEL}


def test_a_stream_without_uuids_is_known_by_its_messages(file: Path) -> None:
    told = [{k: v for k, v in event.items() if k != "uuid"} for event in conversation()]
    done("record", file, "--prompt", "Look", input=as_bytes(told))
    before = printed_json("context", file)["messages"]
    assert before[0]["content"] == "Look"
    done("record", file, "--prompt", "Look", input=as_bytes(told))
    assert printed_json("context", file)["messages"] == before


def test_a_prompt_that_was_never_answered_is_kept_though_the_start_has_no_uuid(file: Path) -> None:
    start = {key: value for key, value in Agent().init().items() if key != "uuid"}
    for prompt in ("Look", "Look again"):
        done("record", file, "--prompt", prompt, input=as_bytes([start]))
    assert texts(file) == ["Look", "Look again"]


def test_no_row_of_a_recorded_message_is_empty(file: Path) -> None:
    done("record", file, "--prompt", "Look", input=STREAM)
    rows = printed_json("tree", file)
    ends = [row for row in rows if row["type"] == "message_end"]
    assert ends
    assert all(row["preview"] for row in rows if row["role"])
    for command in (("tree", "--all"), ("path",)):
        assert ends[-1]["preview"] in done(*command, file)
    (branch,) = printed_json("branches", file)
    assert branch["leaf"] == ends[-1]["uuid"]
    assert branch["preview"] == "Done."


def test_events_are_printed_as_they_come(file: Path) -> None:
    result = run("record", file, "--json", input=STREAM)
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert (told[0]["type"], told[-1]["type"]) == ("start", "complete")
    assert told[0]["agentSessionId"] == AGENT_SESSION
    assert told[-1]["newHead"]["uuid"] == _head(file)
    assert {event["lane"] for event in told} == {"main"}


def test_recording_again_adds_nothing_not_even_the_prompt(file: Path) -> None:
    for stream in (STREAM[:3000], STREAM[3000:], STREAM, STREAM):
        done("record", file, "--prompt", "Look", input=stream)
    with Session.open(file, readonly=True) as session:
        roles = [message["role"] for message in session.context().messages]
        assert roles == ["user", "assistant"] * 2
        assert session.verify() == []
    before = file.read_bytes()
    again = done("record", file, "--prompt", "Look", "--granularity", "message", input=STREAM)
    assert file.read_bytes() == before
    assert again.strip() == _head(file)


def test_a_stray_line_is_told_with_its_number_and_recording_goes_on(file: Path) -> None:
    result = run("record", file, input=b"\x1b[2Joops\n" + STREAM)
    assert result.exit_code == 0
    told = "Warning: line 1 of the stream is not a JSON object; it is kept unchanged"
    assert told in result.stderr
    assert not driving(result.output)


def test_nothing_to_record_is_an_error_and_makes_no_file(file: Path) -> None:
    assert "standard input is empty" in refused("record", file, input=b"")
    assert not (file).exists()


@for_each("exists", [True, False])
@for_each(
    "who, told",
    [
        ("writes between", "now on a side branch, and the leaf is the entry of this command"),
        ("writes last", "now the leaf, and the entries of this command are on a side branch"),
        ("goes on", None),
    ],
)
def test_another_writer_meanwhile_is_told_of(
    file: Path, exists: bool, who: str, told: str | None
) -> None:
    if exists:
        done("new", file)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, str(file)], bufsize=0, **pipes) as child:  # type: ignore[call-overload]
        *before, last = STREAM.splitlines(keepends=True)
        child.stdin.write(before[0])
        assert json.loads(child.stdout.readline())["type"] == "start"
        with Session.open(file) as other:
            if who == "writes between":
                other.append_message({"role": "user", "content": "meanwhile"})
            child.stdin.write(b"".join(before[1:]) + last)
            while json.loads(child.stdout.readline())["type"] != "complete":
                pass
            if who == "goes on":
                with other.locked():
                    other.append_message({"role": "user", "content": "meanwhile"})
            elif who == "writes last":
                other.append_message({"role": "user", "content": "meanwhile"})
            child.stdin.close()
            warned = [line for line in child.stderr.read().decode().splitlines() if "Warn" in line]
    assert child.returncode == 0
    if told is None:
        assert warned == []
        return
    assert len(warned) == 1
    assert "another writer added" in warned[0]
    assert warned[0].endswith(told)


def test_recording_goes_on_where_nobody_reads_the_events_any_more(file: Path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([*COMMAND, str(file)], bufsize=0, **pipes) as child:  # type: ignore[call-overload]
        first, *others = STREAM.splitlines(keepends=True)
        child.stdin.write(first)
        assert json.loads(child.stdout.readline())["type"] == "start"
        child.stdout.close()
        for line in others:
            child.stdin.write(line)
        child.stdin.close()
        told = child.stderr.read()
    assert child.returncode == 0
    assert b"Recorded 2 messages of the model" in told
    with Session.open(file, readonly=True) as session:
        assert len(session.context().messages) == 3
        assert session.stats().usage.cost == 0.25


@for_each(
    "stream",
    [
        b"\x00\xff\x17 noise \x80" * 500,
        b'{"type":"thread.started","thread_id":"t"}\n'
        b'{"type":"item.completed","item":{"type":"agent_message","text":"Hi"}}\n'
        b'{"type":"turn.completed","usage":{"input_tokens":1}}\n',
        b'{"type":"init","session_id":"g","model":"gemini-2.5-pro"}\n'
        b'{"type":"message","role":"assistant","content":"Hi","delta":true}\n'
        b'{"type":"result","status":"success","stats":{"input_tokens":1,"output_tokens":2}}\n',
        b"\n\n",
    ],
)
def test_a_stream_of_another_kind_is_kept_and_said_to_be_one(file: Path, stream: bytes) -> None:
    assert "nothing in the stream was understood" in refused("record", file, input=stream)
    with Session.open(file, readonly=True) as session:
        lines = [line for line in stream.split(b"\n") if line]
        assert len(session.find(type="custom")) == len(lines)
        assert session.verify() == []


@for_each("line", range(len(STREAM.splitlines())))
def test_any_event_of_the_agent_told_alone_or_again_is_no_failure(file: Path, line: int) -> None:
    for _ in range(2):
        done("record", file, input=STREAM.splitlines(keepends=True)[line])


def test_a_message_cut_before_its_first_word_is_not_counted(tmp_path: Path) -> None:
    agent = Agent()
    begun = [agent.init(), agent.begin("msg_1"), next(agent.deltas(0, text("")))]
    result = run("record", tmp_path / "s.jsonl", input=as_bytes(begun))
    assert result.exit_code == 0
    assert "Recorded 0 messages of the model" in result.stderr
    again = run("record", tmp_path / "t.jsonl", input=as_bytes([agent.whole("msg_1", [TEXT])]))
    assert "Recorded 1 message of the model" in again.stderr


def test_the_figures_of_the_only_model_are_those_of_the_session(file: Path) -> None:
    agent = Agent()
    whole = [agent.init(), agent.whole("msg_1", [TEXT]), agent.result()]
    for cut in (1, 2, 3):
        done("record", file, input=as_bytes(whole[:cut]))
    stats = printed_json("stats", file)
    assert stats["models"] == {MODEL: stats["usage"]}
    assert stats["usage"]["output"] == 100
