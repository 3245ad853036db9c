"""The pi coding agent's sessions: every type of entry, and the context that pi itself builds.

The comparison with pi needs Node 22 and `npm pack @earendil-works/pi-coding-agent`, 1.5.2 or newer,
unpacked: the variable `PI_CODING_AGENT` names that folder.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sessiontree import ForeignFormatError, Session
from sessiontree.agents import recognise
from sessiontree.importing.importer import import_session
from tests.agents.conftest import CORPUS, NO_CORPUS
from tests.support.table import for_each
from tests.support.transcripts import written as written  # for the tests of other folders

PI = os.environ.get("PI_CODING_AGENT", "")
PI_V1 = CORPUS / "pi-v1" / "large-session.jsonl"
NO_PI = "the variable PI_CODING_AGENT does not name the folder of pi's package"
has_pi = pytest.mark.skipif(not (PI and shutil.which("node")), reason=NO_PI)

Line = dict[str, Any]

HEADER: Line = {"type": "session", "version": 3, "id": "s", "timestamp": "t", "cwd": "/project"}


def entry(id: str, parent: str | None, type: str, /, **more: Any) -> Line:
    at = "2026-01-01T00:00:00.000Z"
    return {"type": type, "id": id, "parentId": parent, "timestamp": at, **more}


def message(id: str, parent: str | None, role: str, content: Any, **more: Any) -> Line:
    said = {"role": role, "content": content, **more}
    return entry(id, parent, "message", message=said)


def text(said: str) -> list[Line]:
    return [{"type": "text", "text": said}]


CALL = [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}]
COMPACTED: Line = {"summary": "What was", "firstKeptEntryId": "e05", "tokensBefore": 9}
COMPACTED["systemMessage"] = {"role": "system", "content": "Be brief.", "sections": {"cwd": "/x"}}
EVERYTHING: list[Line] = [
    HEADER,
    message(
        "e00", None, "system", "Be brief.", sections={"skills": "one", "cwd": "/x"}, toolsAdded=[]
    ),
    entry("e01", "e00", "model_change", provider="anthropic", modelId="claude"),
    entry("e02", "e01", "thinking_level_change", thinkingLevel="high"),
    message("e03", "e02", "user", "old"),
    message("e04", "e03", "assistant", text("older"), provider="openai", model="gpt"),
    message("e05", "e04", "user", "kept"),
    message("e06", "e05", "assistant", CALL, provider="openai", model="gpt"),
    message("e07", "e06", "toolResult", text("out"), toolCallId="c1", toolName="read"),
    entry("e08", "e07", "usage", kind="cache_warm", provider="p", model="m", usage={"input": 1}),
    entry("e09", "e08", "compaction", **COMPACTED),
    entry("e10", "e09", "custom", customType="mine", data={"count": 1}),
    entry("e11", "e10", "custom_message", customType="mine", content="injected", display=True),
    message("e12", "e11", "system", "", sections={"skills": "two", "cwd": None}),
    entry("e13", "e12", "label", targetId="e05", label="mark"),
    entry("e14", "e13", "session_info", name="A name"),
    message("e15", "e14", "user", "tried"),
    message("e16", "e15", "assistant", None, provider="openai", model="gpt"),
    entry("e17", "e14", "branch_summary", fromId="e16", summary="It failed"),
    entry("e18", "e17", "branch_summary", fromId="e16", summary=""),
    message("e19", "e18", "bashExecution", None, command="ls", output="x"),
    message("e20", "e19", "assistant", text("wrong"), provider="anthropic", model="claude"),
    entry("e21", "e20", "context_edit", targetId="e20", replacement={"content": "right"}),
    entry("e22", "e21", "context_edit", targetId="e11", replacement=None),
    entry("e23", "e22", "context_edit", targetId="e17", replacement={"content": "no effect"}),
    message("e24", "e23", "user", text("last")),
]


def test_every_type_of_pi_entry_is_kept(tmp_path: Path) -> None:
    file = written(tmp_path / "s.jsonl", EVERYTHING)
    with Session.open(file, readonly=True) as session:
        assert (session.id, session.name) == ("s", "A name")
        assert [e.uuid for e in session.entries()][1:] == [line["id"] for line in EVERYTHING[1:]]
        assert session.leaf.uuid == "e24"
        assert session.entry("mark").uuid == "e05"
        context = session.context()
        said = [m.get("content") for m in context.messages]
        assert said[:2] == ["What was", "kept"]
        assert said[-4:] == ["It failed", None, text("right"), text("last")]
        assert "injected" not in said
        assert context.system == "Be brief.\n\ntwo"
        assert context.model == {"provider": "anthropic", "modelId": "claude"}
        assert context.thinking_level == "high"
        assert session.damage == session.verify() == []
        for line in EVERYTHING[1:]:
            assert json.loads(session.original(line["id"])) == line


def test_a_hook_message_of_pi_version_2_is_a_custom_message(tmp_path: Path) -> None:
    lines = [{**HEADER, "version": 2}, message("e0", None, "hookMessage", "x", customType="h")]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert session.context().messages == [{"role": "custom", "content": "x", "customType": "h"}]


def test_a_retain_none_compaction_keeps_nothing(tmp_path: Path) -> None:
    lines = [
        HEADER,
        message("e0", None, "user", "old"),
        entry("e1", "e0", "compaction", summary="S", firstKeptEntryId="e1", tokensBefore=3),
        message("e2", "e1", "user", "new"),
    ]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert [m["content"] for m in session.context().messages] == ["S", "new"]


def test_a_second_root_hangs_below_the_header(tmp_path: Path) -> None:
    lines = [HEADER, message("e0", None, "user", "old"), message("e1", None, "user", "new")]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert [m["content"] for m in session.context().messages] == ["new"]
        assert len(session.branches()) == 2


def test_only_versions_2_and_3_are_recognised_as_pi(tmp_path: Path) -> None:
    Session.create(tmp_path / "ours.jsonl").close()
    assert recognise((tmp_path / "ours.jsonl").read_bytes()) is None
    assert recognise(b'{"type":"session","id":"x"}\n') is None
    file = tmp_path / "v4.jsonl"
    file.write_text('{"kind":"header","version":4,"id":"x","createdAt":"t"}\n')
    with pytest.raises(ForeignFormatError, match="version 4"):
        Session.open(file, readonly=True)


def built_by_pi(files: list[Path], folder: Path) -> list[Line]:
    """What pi builds from copies of the files; it rewrites the files that it opens."""
    folder.mkdir()
    copies = [shutil.copyfile(file, folder / f"{n}.jsonl") for n, file in enumerate(files)]
    return told_by_pi("pi_context", copies)


def told_by_pi(script: str, files: Iterable[Path]) -> list[Line]:
    """What a script beside this module says of each file, with pi's own package."""
    command = ["node", str(Path(__file__).with_name(f"{script}.mjs")), PI, *map(str, files)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in said.splitlines()]


def built_by_us(session: Session, ref: str | None = None) -> Line:
    context = session.context(ref, verbatim=True)
    return {
        "messages": [_as_pi(m) for m in context.messages if m.get("role") != "system"],
        "thinkingLevel": context.thinking_level or "off",
        "model": context.model,
    }


def built_of(file: Path) -> Line:
    with Session.open(file, readonly=True) as session:
        return built_by_us(session)


def _as_pi(message: Any) -> Line:
    if message["role"] not in ("compactionSummary", "branchSummary"):
        return dict(message)
    kept = {key: value for key, value in message.items() if key != "content"}
    if "fromUuid" in kept:
        kept["fromId"] = kept.pop("fromUuid")
    return kept


def comparable(context: Line) -> Line:
    """Without the times that pi takes from the entries, and the system messages."""
    messages = [dict(m) for m in context["messages"] if m["role"] != "system"]
    for found in messages:
        if found["role"] in ("compactionSummary", "branchSummary", "custom"):
            found.pop("timestamp", None)
    return {**context, "messages": messages}


def _any_session(seed: int) -> list[Line]:
    """Entries of all types with random parents."""
    dice = random.Random(seed)
    lines = [HEADER]
    for number in range(dice.randint(1, 20)):
        id = f"e{number:02}"
        parent = dice.choice([f"e{number - 1:02}" if number else None] * 5 + [None])
        if number and dice.random() < 0.2:
            parent = f"e{dice.randrange(number):02}"
        earlier = f"e{dice.randrange(number + 1):02}"
        kind = dice.randrange(12)
        if kind < 3:
            lines.append(message(id, parent, "user", dice.choice(["x", None, text(id)])))
        elif kind < 5:
            lines.append(message(id, parent, "assistant", text(id), provider="p", model=id))
        elif kind == 5:
            lines.append(message(id, parent, "toolResult", text(id), toolCallId="c"))
        elif kind == 6:
            more: Line = {"summary": f"S{id}", "firstKeptEntryId": earlier, "tokensBefore": number}
            lines.append(entry(id, parent, "compaction", **more))
        elif kind == 7:
            summary = dice.choice(["", f"B{id}"])
            lines.append(entry(id, parent, "branch_summary", fromId=earlier, summary=summary))
        elif kind == 8:
            more = {"customType": "c", "content": id, "display": True}
            lines.append(entry(id, parent, "custom_message", **more))
        elif kind == 9:
            new = dice.choice([None, {"content": "new"}, {"content": text("new")}])
            lines.append(entry(id, parent, "context_edit", targetId=earlier, replacement=new))
        elif kind == 10:
            lines.append(entry(id, parent, "thinking_level_change", thinkingLevel=id))
        else:
            lines.append(message(id, parent, "system", f"P{id}", sections={"a": id}))
    return lines


@has_pi
def test_a_context_is_the_one_that_pi_builds(tmp_path: Path) -> None:
    files = [written(tmp_path / "all.jsonl", EVERYTHING)]
    files += [written(tmp_path / f"{n}.jsonl", _any_session(n)) for n in range(300)]
    built = built_by_pi(files, tmp_path / "pi")
    for file, context in zip(files, built, strict=True):
        assert built_of(file) == comparable(context), file.read_text()


@has_pi
@pytest.mark.skipif(not PI_V1.is_file(), reason=NO_CORPUS)
def test_the_context_of_a_real_version_1_session_is_the_one_that_pi_builds(tmp_path: Path) -> None:
    (context,) = built_by_pi([PI_V1], tmp_path / "pi")
    assert len(context["messages"]) > 10
    assert built_of(PI_V1)["messages"] == comparable(context)["messages"]


def test_a_compaction_brings_the_system_message_at_its_point(tmp_path: Path) -> None:
    kept = {**COMPACTED, "firstKeptEntryId": "e00"}
    lines = [HEADER, message("e00", None, "user", "a"), entry("e01", "e00", "compaction", **kept)]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert str(session.context().system).startswith("Be brief.")


def patch(id: str, parent: str | None, **sections: str | None) -> Line:
    return message(id, parent, "system", "", sections=sections)


COMPACTION = {"summary": "S", "firstKeptEntryId": "c", "tokensBefore": 1}
PROMPTS: dict[str, tuple[list[Line], str]] = {
    "set again": (
        [patch("a", None, a="A1", b="B1"), patch("b", "a", a=None), patch("c", "b", a="A2")],
        "B1\n\nA2",
    ),
    "numbers": (
        [patch("a", None, b="B", **{"10": "ten"}), patch("b", "a", **{"2": "two", "02": "zero"})],
        "two\n\nten\n\nB\n\nzero",
    ),
    "compacted": (
        [patch("a", None, a="A"), entry("c", "a", "compaction", **COMPACTION)],
        "",
    ),
    "patched after a compaction": (
        [
            patch("a", None, a="A"),
            entry("c", "a", "compaction", **COMPACTION),
            patch("d", "c", b="B"),
        ],
        "B",
    ),
}


@for_each(("lines", "prompt"), PROMPTS.values(), ids=PROMPTS)
def test_a_system_prompt_is_the_one_that_pi_renders(
    tmp_path: Path, lines: list[Line], prompt: str
) -> None:
    file = written(tmp_path / "s.jsonl", [HEADER, *lines])
    with Session.open(file, readonly=True) as session:
        assert (session.context().system or "") == prompt


@for_each("role", ["user", "assistant", "toolResult"])
@for_each("more", [{}, {"content": None}])
def test_a_message_without_content_has_an_empty_one(
    tmp_path: Path, role: str, more: dict[str, None]
) -> None:
    message = {"role": role, "toolCallId": "c", **more}
    lines = [HEADER, entry("a", None, "message", message=message)]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert session.leaf["message"] == {**message, "content": []}
        assert session.verify() == []


def test_a_custom_message_without_content_has_an_empty_one(tmp_path: Path) -> None:
    lines = [HEADER, entry("a", None, "custom_message", customType="c", display=True)]
    with Session.open(written(tmp_path / "s.jsonl", lines), readonly=True) as session:
        (found,) = session.context().messages
        assert (found["role"], found["content"]) == ("custom", [])
        assert session.verify() == []


@for_each("left", ["root", "of another file"])
def test_a_summary_may_name_the_top_or_a_branch_left_elsewhere(tmp_path: Path, left: str) -> None:
    lines = [HEADER, entry("a", None, "branch_summary", fromId=left, summary="tried")]
    file = written(tmp_path / "s.jsonl", lines)
    done = import_session(file, tmp_path / "out")
    for each in (str(file), done.file):
        with Session.open(each, readonly=True) as session:
            assert session.context().messages[0]["summary"] == "tried"
            assert session.damage == session.verify() == []
    assert done.damage == []
    assert left in Path(done.file).read_text()
    assert import_session(file, tmp_path / "out").new == 0


def test_a_session_of_pi_converted_for_pi_keeps_its_parent_and_tools(tmp_path: Path) -> None:
    tools = [{"name": "read", "description": "reads", "parameters": {}}]
    compacted = {**COMPACTION, "systemMessage": {"role": "system", "toolsAdded": tools}}
    lines = [{**HEADER, "parentSession": "/sessions/before.jsonl"}]
    lines += [message("m", None, "user", "x"), entry("c", "m", "compaction", **compacted)]
    file = written(tmp_path / "s.jsonl", lines)
    with Session.open(file, readonly=True) as session:
        done = session.convert("pi", tmp_path / "out.jsonl")
    made = [json.loads(line) for line in Path(done.file).read_text().splitlines()]
    assert made[0]["parentSession"] == "/sessions/before.jsonl"
    (found,) = (line["systemMessage"] for line in made if line["type"] == "compaction")
    assert found["toolsAdded"] == tools
