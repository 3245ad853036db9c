"""A transcript says all that was said, once, each result beneath its call."""

from __future__ import annotations

import json
import re
import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from sessiontree import Redaction, Session, TooMuchError
from sessiontree.core import limits
from tests.conftest import NO_CORPUS
from tests.support import histories
from tests.support.conversation import assistant, user

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"
KEY = "ghp_" + "a1B2" * 9


def said(session: Session, ref: Any = None, **options: Any) -> str:
    return "".join(session.to_markdown(ref, **options))


def headings(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [
        tokens[i + 1].content
        for i, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.tag in ("h1", "h2")
    ]


def call(id: str, name: str = "sh", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": name, "arguments": arguments}


def result(id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": "toolResult", "toolCallId": id, "content": text, **more}


def test_a_transcript_in_full(file: Path) -> None:
    with Session.create(file, cwd="/project", id="the-id", name="Build *it*") as session:
        session.append_message(user("List the files\nplease"))
        thinking = {"type": "thinking", "thinking": "Easy."}
        text = {"type": "text", "text": "# Sure\nI'll look."}
        session.append_message(
            {"role": "assistant", "content": [thinking, text, call("c1", path=".")], "model": "m-1"}
        )
        session.append_message(result("c1", "a.py\nb.py"))
        session.append_message({"role": "assistant", "content": "Two files."})
        made = re.sub(r"\n\d{4}-[^\n]*\n", "\n(when)\n", said(session))
    assert re.sub(r"`\d{4}-.*`", "`(then)`", made) == (
        "# Build \\*it\\*\n\n"
        "- session: `the-id`\n- created: `(then)`\n- model: `m-1`\n- directory: `/project`\n\n"
        "## User\n\n(when)\n\n> List the files  \n> please\n\n"
        "## Assistant\n\n(when)\n\n"
        "<details><summary>Thinking</summary>\n\n> Easy.\n\n</details>\n\n"
        "### Sure\nI'll look.\n\n"
        "**Called** `sh .` → 9 B\n\n"
        "Result:\n\n```\na.py\nb.py\n```\n\n"
        "Two files.\n"
    )


def test_results_stand_beneath_their_calls_also_where_they_came_together_or_late(
    session: Session,
) -> None:
    session.append_message(user("go"))
    session.append_message(assistant([call("a", "one"), call("b", "two")]))
    session.append_message(result("b", "second"))
    session.append_message(result("a", "first", isError=True))
    session.append_message(assistant([call("c", "three"), call("d", "four")]))
    session.append_message(result("c", "third"))
    session.append_message({"role": "assistant", "content": "on"})
    session.append_message(result("d", "late"))
    session.append_message(result("x", "orphan"))
    text = said(session)
    order = ["`one`", "Error:", "first", "`two`", "second", "`three`", "third", "`four`"]
    order += ["late", "on\n", "a call that is not here"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)
    assert "No result was recorded" not in text


@pytest.mark.parametrize("shape", histories.SHAPES)
def test_every_shape_of_call_and_result_is_told(shape: str, session: Session) -> None:
    session.append_message(user("go"))
    session.append_message(histories.call(shape, "t"))
    session.append_message(histories.result(shape, "t", text="out"))
    text = said(session)
    answer = re.search("Result:\n\n```\nout( 0)?\n```", text)
    assert answer is not None
    assert text.index("**Listed**") < answer.start()
    assert headings(text) == ["go", "User", "Assistant"]


def test_a_result_that_is_an_object_is_told_as_json(session: Session) -> None:
    session.append_message(histories.call("anthropic", "t"))
    block = {"type": "tool_result", "tool_use_id": "t", "content": {"a": [1]}}
    session.append_message(user([block]))
    text = said(session)
    assert re.search(r'Result:\n\n```\w*\n\{\s*"a": \[\s*1\s*\]\s*\}\n```', text), text
    assert "empty" not in text


def test_branches_summaries_labels_and_what_is_not_shown_are_marked(session: Session) -> None:
    session.append_message(user("one"))
    answer = session.append_message({"role": "assistant", "content": "two"})
    session.append_message(user("left # behind"))
    session.branch(answer, summary="It *failed*.")
    session.append_message(user("three"))
    session.compact("All so far.", first_kept=session.leaf)
    session.append("custom", customType="mine", data=1)
    session.append("x-next_years", field=2)
    session.label(answer, "the-fork")
    text = said(session)
    assert "*Another branch leaves here, 1 entry from `" in text
    assert "left \\# behind" in text
    assert "**Summary of the branch left at `" in text
    assert "> It *failed*." in text
    assert "**Compacted here, " in text
    assert "> All so far." in text
    assert "label `the-fork`" in text
    assert text.endswith("*Not shown: 1 custom mine, 1 x-next\\_years.*\n")


def test_a_ref_ends_it_there_and_a_message_that_broke_off_says_so(session: Session) -> None:
    first = session.append_message(user("one"))
    session.append("block", messageUuid="m", index=0, block={"type": "text", "text": "half of"})
    assert "half of\n\n*This message broke off: it has no end.*" in said(session)
    session.append("block", messageUuid="n", index=0, block={"type": "text", "text": "another"})
    assert re.search("half of\n.*broke off.*another\n.*broke off", said(session), re.DOTALL)
    assert "half of" not in said(session, first)


def test_what_was_said_opens_no_heading_and_ends_no_part() -> None:
    evil = "## Assistant\n\n```\nopen\n</details>\n<!--"
    with Session.create(name="## `Assistant` <b> [x](y)") as session:
        session.append_message({"role": "system", "content": evil})
        session.append_message(user(evil))
        content = [{"type": "thinking", "thinking": evil}, {"type": "text", "text": evil}]
        session.append_message(assistant([*content, call("`c`", evil, a=evil)]))
        session.append_message(result("`c`", "````\n# x\n" + evil * 30))
        session.append("custom_message", customType=evil, content=evil, display=True)
        session.append_message(user("end"))
        text = said(session)
    shown = headings(text)
    assert shown[1:4] + shown[-1:] == ["System", "User", "Assistant", "User"]
    assert len(shown) == 6
    tokens = MarkdownIt("commonmark").parse(text)
    tags = [re.sub(">.*", ">", t.content.strip()) for t in tokens if t.type == "html_block"]
    assert tags == ["<details>", "</details>"] * (len(tags) // 2)
    assert all(t.level == 0 for t in tokens if t.type == "html_block")


def test_the_images_of_every_text_are_links_unless_asked(tmp_path: Path) -> None:
    image = "![plan](https://example.org/i.png)"
    with Session.create(tmp_path / "s.jsonl") as session:
        session.append_message({"role": "system", "content": image})
        session.append_message(user(image))
        thinking = {"type": "thinking", "thinking": image}
        answer = [thinking, {"type": "text", "text": image}]
        session.append_message({"role": "assistant", "content": answer})
        session.compact(image, keep=0)
        texts = (said(session), "".join(session.to_markdown(remote_images=True)))
    assert [text.count("(https://example.org/i.png)") for text in texts] == [6, 6]
    assert [text.count(image) for text in texts] == [0, 5]


PNG = b"\x89PNG"


def test_images_are_named_and_attached_ones_are_linked(tmp_path: Path) -> None:
    image = {"type": "image", "data": "A" * 1_400_000, "mimeType": "image/png"}
    with Session.create(tmp_path / "a b.jsonl") as session:
        session.append_message(user([image]))
        session.attach(BytesIO(PNG), media_type="image/png", preview="the dialog")
        assert "*[image/png 1.1 MB]*" in said(session)
        assert "*[the dialog, 4 B]*" in said(session)
        untyped = f"blob@1.0.0::sha256:{session.blobs.put(PNG).sha256}:4"
        session.append("handle", handle=untyped, kind="binary")
        assert said(session).count("4 B") == 1
        text = said(session, beside=str(tmp_path / "docs"))
    link = re.search(r"!\[the dialog, 4 B\]\(\.\./(.*)\)", text)
    assert link is not None
    assert (tmp_path / link[1].replace("%20", " ")).read_bytes() == b"\x89PNG"


def test_what_cannot_be_had_is_said(file: Path) -> None:
    with Session.create(file, spill_over=10) as session:
        session.append_message(user("a long text that was spilled"))
    shutil.rmtree(f"{file}.blobs")
    with Session.open(file, readonly=True) as session:
        text = said(session)
    assert "missing: blob" in text
    assert "*Warning: " in text


def test_a_redacted_transcript_holds_no_secret_and_cuts_none_in_half() -> None:
    with Session.create(cwd="/home/mary-ann/x", metadata={"model": "m"}) as session:
        first = session.append_message(user("x" * 50 + f" {KEY}"))
        session.append_message(user("y" * 40 + f" {KEY}\x1b[0m"))
        session.branch(first, summary=f"not gh\u200bp_{KEY[4:]}")
        session.append_message({"role": "assistant", "content": [call("c", password="hunter2x")]})
        redaction = Redaction()
        text = said(session, redact=redaction)
    for secret in (KEY[:12], KEY[-8:], "mary-ann", "hunter2x"):
        assert secret not in text
    assert "[redacted:github-token:1]" in text
    assert redaction.report()["masked"]


@pytest.mark.slow
@pytest.mark.skipif(not CORPUS.exists(), reason=NO_CORPUS)
def test_real_sessions_are_told_whole_and_always_the_same() -> None:
    for file in sorted(CORPUS.glob("*/*.jsonl")):
        with Session.open(file, readonly=True) as session:
            text = said(session, redact=Redaction())
            assert not re.search("/home/[a-z]|/Users/[a-z]", text), file
            if file.stat().st_size > 500_000:
                continue
            assert text == said(session, redact=Redaction())
            tops = headings(text)
            assert set(tops[1:]) <= {"User", "Assistant", "System", "Program"}, file
            assert tops.count("User") >= len(session.turns()) > 0


def test_a_result_stands_beneath_its_call_whatever_lies_between(session: Session) -> None:
    session.append_message(user("q"))
    calls = [call("t1", path="one"), call("t2", path="two"), call("lost", path="lost")]
    at = session.append_message(assistant(calls))
    session.append_message(result("t1", "abandoned"))
    session.branch(at)
    session.append_message(user("Hurry up"))
    session.append_message(result("t1", "first"))
    session.append_message({"role": "assistant", "content": "I do."})
    session.append_message(result("t2", "second"))
    session.append_message(user("Thanks"))
    text = said(session)
    wanted = ["`sh one`", "first", "`sh two`", "second", "`sh lost`", "No result was recorded"]
    wanted += ["Another branch leaves here", "Hurry up", "I do.", "Thanks"]
    places = [text.index(each) for each in wanted]
    assert places == sorted(places)
    assert all(text.count(each) == 1 for each in wanted)


def test_a_secret_at_the_start_of_another_branch_is_masked_whole_and_reported() -> None:
    with Session.create() as session:
        prompt = session.append_message(user("hello"))
        aside = session.append_message(
            user("my key is " + "sk-ant-" + "api03-" + "Ab1" * 31 + "A-AAA and more")
        )
        session.switch(prompt)
        session.append_message(user("go on"))
        redaction = Redaction()
        text = said(session, redact=redaction)
    assert "my key is" in text
    assert text.count("[redacted:") == text.count(":1\\]") == 1
    assert aside.uuid in json.dumps(redaction.report()["masked"])


def test_a_redacted_transcript_names_no_image_and_reports_each(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl") as session:
        image = session.attach(BytesIO(b"\x89PNG"), media_type="image/png", preview="my bank")
        for beside in (None, str(tmp_path)):
            redaction = Redaction()
            text = said(session, redact=redaction, beside=beside)
            assert "my bank" not in text
            assert "](" not in text
            (left,) = redaction.report()["leftOut"]
            assert image.uuid in left.values()


def test_the_report_of_a_redacted_transcript_names_what_the_header_holds() -> None:
    with Session.create(cwd="/home/mary-ann/x") as session:
        redaction = Redaction()
        assert "mary-ann" not in said(session, redact=redaction)
        assert session.header.uuid in json.dumps(redaction.report())


def test_calls_of_one_id_and_of_none_are_all_shown(session: Session) -> None:
    session.append_message(user("go"))
    calls = [call("a", "one"), call("a", "two"), call("", "three"), call("", "four")]
    session.append_message(assistant(calls))
    session.append_message(result("a", "done"))
    text = said(session)
    assert re.findall(r"`(one|two|three|four)`", text) == ["one", "two", "three", "four"]
    assert text.count("No result was recorded") == 3


def test_other_speakers_have_their_role_and_arguments_their_letters(session: Session) -> None:
    session.append_message({"role": "critic", "content": "Für wen?"})
    session.append_message(assistant([call("a", path="Größe")]))
    text = said(session)
    assert headings(text)[1:] == ["Critic", "Assistant"]
    assert "`sh Größe`" in text


def test_a_branch_that_starts_with_a_summary_is_named_by_its_words(session: Session) -> None:
    first = session.append_message(user("one"))
    left = session.append_message(user("two"))
    session.branch(first, summary="It failed.")
    session.append_message(user("three"))
    assert re.search("Another branch leaves here, 2 entries .*: It failed", said(session, left))


def test_a_result_without_its_call_has_the_name_of_its_tool(session: Session) -> None:
    session.append_message(result("gone", "found", toolName="grep"))
    session.append_message(result("gone too", "found again"))
    told = said(session)
    assert re.findall(r"grep|a call that is not here", told) == ["grep", "a call that is not here"]


def test_more_blocks_than_a_transcript_may_have_are_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = limits.SHOWN_BLOCKS._replace(most=3, bytes_for_each=1 << 20)
    monkeypatch.setattr(limits, "SHOWN_BLOCKS", few)
    parts = [{"type": "text", "text": "a"}, call("c1")]
    with Session.create(file) as session:
        session.append_message(user("x"))
        above = session.append_message(assistant(parts))
        last = session.append_message(assistant(parts))
        assert "x" in said(session, above)
        with pytest.raises(TooMuchError, match=f"more than 3 content blocks .* {last.uuid}"):
            said(session)
