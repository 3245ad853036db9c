"""Sessions converted for another agent, continued there, and imported again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessiontree import Session
from sessiontree.core.message import text_of
from sessiontree.errors import NothingToDoError
from sessiontree.importing.importer import import_session
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.importing.conftest import damage_in, messages
from tests.support.homes import SAMPLES
from tests.support.pi_trees import PiShaped
from tests.support.soak import amount
from tests.support.table import for_each
from tests.support.transcripts import user, written

_SAMPLES = {
    "claude-code": "claude_code/2.1.330",
    "codex": "codex/0.169.0",
    "pi": "pi/1.5.2",
    "gemini": "gemini/0.61.0",
}

TARGETS = ("pi", "claude-code", "codex", "gemini")

pytestmark = pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")


@pytest.fixture(params=TARGETS)
def to(request: pytest.FixtureRequest) -> str:
    """The agent that a session is converted for."""
    return str(request.param)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return chat(tmp_path / "in")


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def converted(session: Path, to: str, folder: Path) -> Path:
    folder.mkdir()
    with Session.open(session, readonly=True) as found:
        name = found.convert(cast(Any, to), folder / "x.jsonl").file
    if to != "claude-code":
        return Path(name)
    id = next(line["sessionId"] for line in lines_of(Path(name)))
    if (folder / "x").exists():
        (folder / "x").rename(folder / id)
    return Path(name).rename(folder / f"{id}.jsonl")


def continued(file: Path, count: int) -> list[str]:
    """Append messages to a file as its program does; their texts."""
    lines = lines_of(file)
    told = [f"said since {number}" for number in range(count)]
    with file.open("a") as opened:
        at = "2030-01-01T00:00:00.000Z"
        if "sessionId" in lines[0] and "projectHash" in lines[0]:
            for number, text in enumerate(told):
                sent = {"id": f"m{number}", "timestamp": at, "type": "user", "content": text}
                opened.write(json.dumps(sent) + "\n")
            return told
        if lines[0]["type"] == "session_meta":
            for text in told:
                content = [{"type": "input_text", "text": text}]
                item = {"type": "message", "role": "user", "content": content}
                made = {"timestamp": at, "type": "response_item", "payload": item}
                opened.write(json.dumps(made) + "\n")
            return told
        if lines[0]["type"] == "session":
            parent = lines[-1]["id"] if len(lines) > 1 else None
            for number, text in enumerate(told):
                message = {"role": "user", "content": text}
                line: dict[str, Any] = {"type": "message", "id": f"ab{number:06}"}
                line["parentId"] = parent
                parent = line["id"]
                opened.write(json.dumps({**line, "message": message}) + "\n")
            return told
        said = [
            line
            for line in lines
            if line["type"] in ("user", "assistant") or line.get("subtype") == "local_command"
        ]
        parent, id = said[-1]["uuid"], said[-1]["sessionId"]
        for number, text in enumerate(told):
            uuid = f"00000000-0000-4000-8000-{number:012}"
            at = f"2027-01-01T00:00:{number:02}.000Z"
            line = user(uuid, parent, text, sessionId=id, timestamp=at)
            opened.write(json.dumps(line) + "\n")
            parent = uuid
    return told


@pytest.fixture
def file(session: Path, to: str, tmp_path: Path) -> Path:
    """The session, converted."""
    return converted(session, to, tmp_path / "for")


def context_and_end(file: str | Path, count: int) -> tuple[list[Any], list[Any]]:
    """The messages of a context but the last few, and the texts of those."""
    found = messages(file)[1]
    before = found[: len(found) - count]
    return before, [text_of(message) for message in found[len(found) - count :]]


def check(session: Path, to: str, tmp_path: Path) -> None:
    """Import a conversion, which adds nothing, and a continued one, which adds its messages."""
    before, content = messages(session)[1], session.read_bytes()
    file = converted(session, to, tmp_path / f"for-{to}")
    done = import_session(file, session.parent)
    assert (Path(done.file).name, done.new) == (session.name, 0)
    assert session.read_bytes() == content
    told = continued(file, 3)
    done = import_session(file, session.parent)
    assert (Path(done.file).name, done.new) == (session.name, 3)
    assert session.read_bytes().startswith(content)
    assert context_and_end(session, 3) == (before, told)
    content = session.read_bytes()
    assert import_session(file, session.parent).new == 0
    assert session.read_bytes() == content
    assert damage_in(session) == []


@pytest.mark.slow
@settings(deadline=None, max_examples=amount(25))
@given(seed=st.integers(0, 1 << 30), to=st.sampled_from(TARGETS))
def test_importing_any_converted_session_adds_only_new_messages(
    seed: int, to: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with PiShaped(Random(seed)).grow(30).session as made:
        lines = [entry.line for entry in made.entries()]
    (folder / "in").mkdir()
    session = folder / "in" / "ours.jsonl"
    session.write_bytes(b"\n".join([*lines, b""]))
    try:
        check(session, to, folder)
    except NothingToDoError:  # there is no message on the path to the leaf
        return


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.is_dir(), reason=NO_CORPUS)
@pytest.mark.parametrize("source", sorted(CORPUS.glob("*/*.jsonl")), ids=lambda path: path.stem)
def test_a_real_conversion_adds_only_new_messages(source: Path, to: str, tmp_path: Path) -> None:
    done = import_session(source, tmp_path / "in")
    check(Path(done.file), to, tmp_path)


def chat(folder: Path) -> Path:
    folder.mkdir()
    with Session.create(folder / "ours.jsonl", cwd="/project") as ours:
        for number in range(2):
            ours.append_message({"role": "user", "content": f"question {number}"})
            text = [{"type": "text", "text": f"answer {number}"}]
            ours.append_message({"role": "assistant", "content": text})
        ours.compact("so far", first_kept="@~1")
    return folder / "ours.jsonl"


def test_importing_a_conversion_leaves_the_users_leaf(file: Path, session: Path, to: str) -> None:
    with Session.open(session) as ours:
        ours.append_message({"role": "user", "content": "here"})
    before = messages(session)
    told = continued(file, 2)
    assert import_session(file, session.parent).new == 2
    assert messages(session) == before
    lane = messages(session, to)[1]
    assert [text_of(message) for message in lane[-2:]] == told
    assert lane[:-2] == before[1][:-1]
    assert import_session(file, session.parent).new == 0


def test_a_changed_converted_line_becomes_a_sibling_of_its_entry(file: Path, session: Path) -> None:
    content = session.read_bytes()
    file.write_text(file.read_text().replace("answer 0", "another answer"))
    done = import_session(file, session.parent)
    assert done.new
    assert session.read_bytes().startswith(content)
    assert b"another answer" in session.read_bytes()[len(content) :]
    assert import_session(file, session.parent).new == 0


def test_a_converted_line_of_other_facts_keeps_its_origin(file: Path, session: Path) -> None:
    content = session.read_bytes()
    lines = lines_of(file)
    for line in lines:
        line.update(timestamp="2027-01-01T00:00:00.000Z", gitBranch="main", slug="x")
    lines = [dict(reversed(line.items())) for line in lines[1:]]
    first = file.read_bytes().splitlines()[0]
    file.write_bytes(b"\n".join([first, *(json.dumps(line).encode() for line in lines), b""]))
    assert import_session(file, session.parent).new == 0
    assert session.read_bytes() == content


def test_a_copy_imported_from_a_conversion_gets_new_messages(file: Path, tmp_path: Path) -> None:
    copy = import_session(file, tmp_path / "elsewhere").file
    before = messages(copy)[1]
    told = continued(file, 2)
    assert import_session(file, tmp_path / "elsewhere").new == 2
    assert context_and_end(copy, 2) == (before, told)


def test_the_original_keys_that_a_conversion_leaves_out_are_losses(to: str, tmp_path: Path) -> None:
    uuids = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"]
    lines = [user(uuids[0], None, slug="kept"), user(uuids[1], uuids[0], slug="kept")]
    source = written(tmp_path / "from" / "s.jsonl", lines)
    done = import_session(source, tmp_path / "in")
    with Session.open(done.file, readonly=True) as session:
        losses = session.convert(cast(Any, to), tmp_path / "x.jsonl").losses
    assert [(loss.count, loss.entry) for loss in losses if "'slug'" in loss.what] == [(2, uuids[0])]


@for_each("sample", sorted(_SAMPLES))
def test_no_key_that_a_conversion_writes_is_a_loss(sample: str, tmp_path: Path) -> None:
    folder = SAMPLES / _SAMPLES[sample]
    files = [file for file in sorted(folder.rglob("*.jsonl")) if "agent-" not in file.name]
    for file in files[-2:]:
        done = import_session(file, tmp_path / "in" / file.stem)
        new = tmp_path / file.name
        with Session.open(done.file, readonly=True) as session:
            if not session.context().messages:
                continue
            losses = session.convert(cast(Any, sample), new).losses
        keys = {match[1] for loss in losses if (match := re.match("the key '(.+)' of", loss.what))}
        assert not keys & {key for line in lines_of(new) for key in line}
        if sample == "gemini":
            assert "resultDisplay" in keys  # of a call


def test_new_messages_of_a_converted_subagent_go_to_its_lane(session: Path, tmp_path: Path) -> None:
    with Session.open(session) as ours, ours.lane("reviewer") as lane:
        lane.append_message({"role": "user", "content": "look"})
    before, on_lane = messages(session), messages(session, "reviewer")[1]
    file = converted(session, "claude-code", tmp_path / "for")
    beside = next((tmp_path / "for").rglob("agent-*.jsonl"))
    last = lines_of(beside)[-1]
    more = {"isSidechain": True, "sessionId": last["sessionId"], "agentId": "reviewer"}
    line = user("00000000-0000-4000-8000-00000000000a", last["uuid"], "more", **more)
    with beside.open("a") as opened:
        opened.write(json.dumps(line))
    assert import_session(file, session.parent).new == 1
    assert messages(session) == before
    assert messages(session, "reviewer")[1] == [*on_lane, line["message"]]
    assert import_session(file, session.parent).new == 0


def test_a_line_that_is_told_again_adds_nothing_to_a_copy(session: Path, tmp_path: Path) -> None:
    file = converted(session, "claude-code", tmp_path / "for")
    copy = import_session(file, tmp_path / "elsewhere").file
    before = messages(copy)
    last = [line for line in lines_of(file) if line.get("uuid")][-1]
    again = {"uuid": "00000000-0000-4000-8000-0000000000ff", "parentUuid": last["uuid"]}
    with file.open("a") as opened:
        opened.write(json.dumps({**last, **again}) + "\n")
    assert import_session(file, tmp_path / "elsewhere").new == 0
    assert messages(copy) == before
