"""Random growing logs of Gemini CLI, Codex and pi: each state imported as it reads in place."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.formats import test_codex, test_gemini, test_pi
from tests.importing.test_growing import assert_grows
from tests.support.transcripts import encoded

Line = dict[str, Any]

few = settings(deadline=None, max_examples=10)
ids = st.sampled_from(["m1", "m2", "m3", "m4"])
texts = st.sampled_from(["one", "two", "three", ""])


@st.composite
def chat_messages(draw: st.DrawFn) -> Line:
    if draw(st.booleans()):
        return test_gemini.user(draw(ids), draw(texts))
    more = {"toolCalls": [test_gemini.CALL]} if draw(st.booleans()) else {}
    return test_gemini.gemini(draw(ids), draw(texts), **more)


chat_lines = st.one_of(
    chat_messages(),
    chat_messages(),
    st.builds(lambda id: {"$rewindTo": id}, ids),
    st.builds(lambda found: {"$set": {"messages": found}}, st.lists(chat_messages(), max_size=3)),
    st.just({"$set": {"summary": "A title"}}),
)

rollout_lines = st.one_of(
    st.builds(test_codex.said, st.sampled_from(["user", "assistant", "developer"]), texts),
    st.builds(test_codex.call, ids),
    st.builds(test_codex.output, ids),
    st.builds(
        lambda turns: test_codex.line("event_msg", type="thread_rolled_back", num_turns=turns),
        st.integers(0, 3),
    ),
    st.builds(lambda text: test_codex.line("compacted", message=text), texts),
    st.builds(
        lambda text, kept: test_codex.line(
            "compacted",
            message=text,
            replacement_history=[found["payload"] for found in kept],
        ),
        texts,
        st.lists(st.builds(test_codex.said, st.just("user"), texts), max_size=2),
    ),
    st.builds(lambda model: test_codex.line("turn_context", model=model, effort=model), texts),
)


@st.composite
def pi_logs(draw: st.DrawFn) -> list[Line]:
    lines: list[Line] = [test_pi.HEADER]
    for number in range(draw(st.integers(1, 8))):
        near = [f"e{n}" for n in range(max(0, number - 3), number)] + ["e7", "gone"]
        parent = draw(st.sampled_from([*near, None]) if number else st.none())
        target = draw(st.sampled_from([*near, "root"]))
        lines.append(draw(st.sampled_from(_entries(f"e{number}", parent, target))))
    return lines


def _entries(id: str, parent: str | None, target: str) -> list[Line]:
    entry, text = test_pi.entry, test_pi.text
    return [
        test_pi.message(id, parent, "user", f"say {id}"),
        test_pi.message(id, parent, "assistant", text(f"said {id}"), provider="p", model="m"),
        entry(id, parent, "compaction", summary="sum", firstKeptEntryId=target, tokensBefore=1),
        entry(id, parent, "branch_summary", fromId=target, summary="left"),
        entry(id, parent, "context_edit", targetId=target, replacement=None),
        entry(id, parent, "label", targetId=target, label=f"name-{id}"),
        entry(id, parent, "session_info", name=f"name {id}"),
        entry(id, parent, "usage", kind="turn", provider="p", model="m", usage={}),
        entry(id, parent, "next-year"),
    ]


def assert_any_grows(lines: list[Line]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        assert_grows(encoded(lines), Path(folder) / "t", Path(folder) / "out")


@few
@given(st.lists(chat_lines, max_size=7))
def test_an_import_follows_any_growing_chat(lines: list[Line]) -> None:
    assert_any_grows([test_gemini.META, *lines])


@few
@given(st.lists(rollout_lines, max_size=7))
def test_an_import_follows_any_growing_rollout(lines: list[Line]) -> None:
    assert_any_grows([test_codex.line("session_meta", **test_codex.META), *lines])


@few
@given(pi_logs())
def test_an_import_follows_any_growing_session_of_pi(lines: list[Line]) -> None:
    assert_any_grows(lines)
