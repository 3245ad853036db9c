"""A system message is a setting, however it was written."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Entry, Handle, Registry, ResolveError, Session
from sessiontree.handles.builtin import built_in
from tests.support.conversation import HEADER, assistant, line, said, talk, user, write
from tests.support.plugins import Plugin, handle
from tests.support.terminal import done, printed_json

Write = Callable[[Session, str], object]


def plain(session: Session, text: str) -> None:
    session.append_message({"role": "system", "content": text})


def attached(session: Session, text: str) -> None:
    session.attach(io.BytesIO(text.encode()), "text/markdown", role="system")


def given_as_a_role(session: Session, text: str) -> None:
    session.append_handle(handle(text, method="b"), role="system")


def resolved_to_one(session: Session, text: str) -> None:
    session.append_handle(handle(text))


def streamed(session: Session, text: str) -> None:
    with session.stream_message("system") as message:
        message.add({"type": "text", "text": text})


def streamed_in_blocks(session: Session, text: str) -> None:
    with session.stream_message("system", granularity="block") as message:
        message.add({"type": "text", "text": text})
        session.set_thinking_level("high")  # between the block and the end


WAYS = (plain, attached, given_as_a_role, resolved_to_one, streamed, streamed_in_blocks)
each_way = pytest.mark.parametrize("way", WAYS)


@pytest.fixture
def plugin() -> Plugin:
    def resolve(handle: Handle, scope: object) -> dict[str, str]:
        if handle.meta[0] == "broken":
            raise RuntimeError("no such prompt")
        return {"role": "system" if handle.method == "a" else "user", "content": handle.meta[0]}

    return Plugin("p", resolve=resolve)


@pytest.fixture
def session(tmp_path: Path, plugin: Plugin) -> Iterator[Session]:
    registry = Registry([plugin, *built_in()])
    with Session.create(tmp_path / "s.jsonl", cwd="/project", registry=registry) as session:
        yield session


def opened_again(session: Session, plugin: Plugin) -> Session:
    registry = Registry([plugin, *built_in()])
    assert session.file is not None
    return Session.open(session.file, readonly=True, registry=registry)


@each_way
def test_it_is_the_system_text_and_no_message(session: Session, plugin: Plugin, way: Write) -> None:
    talk(session, "one")
    way(session, "Be brief.")
    talk(session, "two")
    context = session.context()
    assert (context.system, said(context), context.warnings) == ("Be brief.", ["one", "two"], [])
    assert context.to_anthropic().params["system"] == "Be brief."
    assert context.to_openai().params["instructions"] == "Be brief."
    assert context.to_openai("chat").params["messages"][0]["role"] == "system"
    roles = [message["role"] for message in session.context(verbatim=True).messages]
    assert roles == ["user", "system", "user"]
    with opened_again(session, plugin) as again:
        assert again.context().system == "Be brief."


@each_way
def test_the_latest_counts_and_a_branch_without_it_has_none(session: Session, way: Write) -> None:
    first = talk(session, "one")[0]
    plain(session, "Be loud.")
    assert session.context().system == "Be loud."  # the context is extended from here
    way(session, "Be brief.")
    assert session.context().system == "Be brief."
    plain(session, "Be kind.")
    assert session.context().system == "Be kind."
    session.branch(first)
    assert session.context().system is None


@each_way
def test_a_compaction_keeps_it(session: Session, plugin: Plugin, way: Write) -> None:
    way(session, "Be brief.")
    talk(session, "one", "two")
    cut = session.compact("S", keep=0)
    assert cut["state"]["system"] == "Be brief."
    assert session.context().system == "Be brief."
    asked = len(plugin.asked)
    with opened_again(session, plugin) as again:
        assert again.context().system == "Be brief."
    assert len(plugin.asked) == asked  # the state has it


@pytest.mark.parametrize("kept", [True, False])
@each_way
def test_it_counts_from_above_a_compaction_without_state(
    session: Session, plugin: Plugin, way: Write, kept: bool
) -> None:
    plain(session, "Be loud.")
    way(session, "Be brief.")
    (last,) = talk(session, "one")
    fields: Any = {"summary": "S", "tokensBefore": 9}
    session.append("compaction", firstKeptEntryUuid=last.uuid, **fields)
    if not kept:
        session.append("compaction", firstKeptEntryUuid=session.leaf.uuid, **fields)
    with opened_again(session, plugin) as again:
        assert again.context().system == "Be brief."


@each_way
def test_it_counts_where_the_first_kept_entry_is_lost(
    session: Session, plugin: Plugin, way: Write
) -> None:
    way(session, "Be brief.")
    lost = line("compaction", "c", session.leaf.uuid, summary="S", tokensBefore=9)
    lost["firstKeptEntryUuid"] = "nowhere"
    assert session.file is not None
    with open(session.file, "a") as file:
        file.write(json.dumps(lost) + "\n")
    with opened_again(session, plugin) as again:
        assert again.context().system == "Be brief."


@each_way
def test_a_merge_does_not_bring_it(session: Session, way: Write) -> None:
    fork = talk(session, "one")[0]
    way(session, "Be brief.")
    other = talk(session, "two")[0]
    session.branch(fork)
    session.merge(other)
    assert (session.context().system, said(session.context())) == (None, ["one", "two"])


@each_way
def test_exports_keep_it(session: Session, tmp_path: Path, way: Write) -> None:
    way(session, "Be brief.")
    (below,) = talk(session, "one")
    session.export_branch(below, tmp_path / "below.jsonl")
    session.export_branch(session.header, tmp_path / "inline.jsonl", inline=True)
    for name in ("below", "inline"):
        with Session.open(tmp_path / f"{name}.jsonl", readonly=True) as copy:
            assert copy.context().system == "Be brief."


@each_way
def test_a_conversion_to_pi_keeps_it(session: Session, tmp_path: Path, way: Write) -> None:
    way(session, "Be brief.")
    talk(session, "one")
    session.convert("pi", tmp_path / "pi.jsonl")
    with Session.open(tmp_path / "pi.jsonl", readonly=True) as copy:
        assert copy.context().system == "Be brief."


@each_way
def test_a_conversion_to_claude_code_says_that_it_is_left_out(
    session: Session, tmp_path: Path, way: Write
) -> None:
    way(session, "Be brief.")
    talk(session, "one", "two")
    losses = session.convert("claude-code", tmp_path / "cc.jsonl").losses
    assert any("a system message is left out" in str(loss) for loss in losses)


def test_one_that_cannot_be_resolved_is_a_placeholder_and_told_once(session: Session) -> None:
    session.append_handle(handle("broken"), role="system")
    talk(session, "one")
    context = session.context()
    assert context.system == "[p@1.0.0::a:broken cannot be resolved: its resolver failed]"
    assert said(context) == ["one"]
    assert [warning.partition(":")[0] for warning in context.warnings] == [
        f"handle {session.path()[1].uuid} cannot be resolved"
    ]
    with pytest.raises(ResolveError):
        session.context(strict=True)


def test_without_resolving_the_handle_is_the_system_text(session: Session, plugin: Plugin) -> None:
    given_as_a_role(session, "Be brief.")
    assert session.context(resolve=False).system == "p@1.0.0::b:Be brief."
    assert not plugin.asked


def test_no_handle_is_resolved_for_a_system_text_that_is_known(
    session: Session, plugin: Plugin
) -> None:
    session.append_handle(handle("Be loud."))
    plain(session, "Be brief.")
    cut: Any = {"summary": "S", "tokensBefore": 9}
    session.append("compaction", firstKeptEntryUuid=talk(session, "one")[0].uuid, **cut)
    asked = len(plugin.asked)
    with opened_again(session, plugin) as again:
        assert again.context().system == "Be brief."
    assert len(plugin.asked) == asked


PNG = b"\x89PNG\r\n\x1a\n"
PDF = b"%PDF-1.7\n"


@pytest.mark.parametrize(("content", "type"), [(PNG, "image/png"), (PDF, "application/pdf")])
def test_an_attachment_that_is_not_text_is_named_and_told(
    session: Session, tmp_path: Path, content: bytes, type: str
) -> None:
    entry: Entry = session.attach(io.BytesIO(content), role="system")
    context = session.context()
    assert context.system == f"[{type}, {len(content)} bytes: {entry['handle']}]"
    (warning,) = context.warnings
    assert "a system message holds only text" in warning
    session.export_branch(session.header, tmp_path / "inline.jsonl", inline=True)
    with Session.open(tmp_path / "inline.jsonl", readonly=True) as copy:
        assert copy.context().system == context.system
        assert json.dumps(copy.leaf["message"]).count('"data"') == 1


def test_blocks_of_one_on_a_path_without_its_end_are_an_answer_that_broke_off(
    tmp_path: Path,
) -> None:
    block = {"type": "text", "text": "Be"}
    lines = [HEADER, line("block", "b", "root", messageUuid="m", index=0, block=block)]
    with Session.open(write(tmp_path / "s.jsonl", lines), readonly=True) as session:
        assert session.context().system is None
        assert session.context().messages == [
            {"role": "assistant", "content": [block], "partial": True}
        ]


def test_the_command_line_attaches_one(tmp_path: Path) -> None:
    file, prompt = tmp_path / "s.jsonl", tmp_path / "prompt.md"
    prompt.write_text("Be brief.\n")
    done("new", file)
    done("append", file, "--attach", prompt, "--role", "system")
    done("append", file, "--text", "hello")
    printed = printed_json("context", file)
    assert printed["system"] == "Be brief.\n"
    assert printed["messages"] == [user("hello")]
    done("append", file, "--role", "system", "--handle", f"file@1.0.0::path:{prompt.name}")
    printed = printed_json("context", file, "--root", tmp_path)
    assert (printed["system"], printed["messages"]) == ("Be brief.\n", [user("hello")])


def test_an_answer_in_blocks_is_no_system_message(session: Session) -> None:
    plain(session, "Be brief.")
    with session.stream_message(model="m", granularity="block") as answer:
        answer.add({"type": "text", "text": "yes"})
    context = session.context()
    assert context.system == "Be brief."
    assert context.messages == [{**assistant("yes"), "model": "m"}]
