from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from sessiontree import Session
from tests.cli.test_tree import in_terminal
from tests.support.sessions import chat as chat_of
from tests.support.table import for_each
from tests.support.terminal import done, driving, lines, printed_json, run, said

LOOKING = [
    tuple(words.split())
    for words in ("show", "show @", "tree", "tree --all", "branches", "path", "context")
] + [("context", "--verbatim")]


def looking(file: Path, words: tuple[str, ...], *more: str) -> tuple[str | Path, ...]:
    return words[0], file, *words[1:], *more


def test_context_json_has_the_promised_shape(forked: Path) -> None:
    found = printed_json("context", forked)
    assert list(found) == [
        *("leaf", "messages", "model", "thinkingLevel", "system", "tokens", "warnings")
    ]
    said = [message["content"] for message in found["messages"]]
    assert said == ["hello", "hi", "went elsewhere", "instead"]
    assert found["leaf"] == json.loads(lines(forked)[-1])["uuid"]
    assert found["model"] is None
    assert found["tokens"] > 0


def test_context_json_names_the_model_by_provider_and_id(chat: Path) -> None:
    with Session.open(chat) as session:
        session.append("model_change", provider="anthropic", modelId="sonnet")
    assert printed_json("context", chat)["model"] == {"provider": "anthropic", "modelId": "sonnet"}


def test_context_of_a_ref_ends_at_that_entry(chat: Path) -> None:
    found = printed_json("context", chat, "@~2")
    assert [message["content"] for message in found["messages"]] == ["hello", "hi"]


@pytest.mark.parametrize("ref", ["@~0", "@~1", "@~2"])
def test_show_of_a_piece_of_a_streamed_answer_shows_the_whole_answer(chat: Path, ref: str) -> None:
    with Session.open(chat) as session:
        with session.stream_message(granularity="block") as answer:
            answer.add({"type": "text", "text": "It is"})
            session.append_usage({"input": 1})
            answer.add({"type": "text", "text": "a clock."})
        session.append_message({"role": "user", "content": "on another branch"})
        session.switch(answer.entries[-1])
    shown = done("show", chat, ref)
    assert shown.count("It is\na clock.\n") == 1
    assert '"block"' not in shown
    assert f"answer         3 entries from {answer.entries[0].uuid[:8]}\n" in shown
    assert printed_json("show", chat, "@~1")["type"] == "block"


def test_context_pairs_calls_unless_verbatim(chat: Path) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "read", "arguments": {}}
    done("append", chat, input=json.dumps({"role": "assistant", "content": [call]}))
    paired = run("context", chat, "--json")
    assert json.loads(paired.stdout)["messages"][-1]["role"] == "toolResult"
    assert "Warning: " in paired.stderr
    assert printed_json("context", chat, "--verbatim")["messages"][-1]["content"] == [call]


@pytest.mark.parametrize(
    ("api", "key"),
    [("anthropic", "messages"), ("openai-responses", "input"), ("openai-chat", "messages")],
)
def test_context_is_printed_as_a_provider_takes_it(chat: Path, api: str, key: str) -> None:
    done("append", chat, "--parent", "@", input='{"role": "system", "content": "Be brief."}')
    found = json.loads(done("context", chat, "--to", api))
    roles = [said["role"] for said in found[key] if said["role"] != "system"]
    assert roles == ["user", "assistant"] * 2
    assert "Be brief." in json.dumps(found)


def test_what_a_provider_cannot_take_is_named_on_standard_error(chat: Path) -> None:
    thought = '{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}'
    done("append", chat, input=thought)
    result = run("context", chat, "--to", "openai-chat")
    assert "thinking was left out" in result.stderr
    assert json.loads(result.stdout)["messages"][-1]["content"] == "sure"


def test_context_as_text_shows_each_role_and_its_message(forked: Path) -> None:
    told = done("context", forked)
    assert "user              hello\n" in told
    assert "branchSummary     went elsewhere\n" in told
    assert "4 messages, about " in told


def test_tree_json_lists_all_entries_in_file_order(forked: Path) -> None:
    done("label", forked, "@", "here")
    rows = printed_json("tree", forked)
    keys = ("uuid", "parentUuid", "type", "role", "preview", "lane", "label", "depth", "current")
    more = ("time", "turn", "prompt", "tools", "usage", "model", "cost", "agent")
    assert {tuple(row) for row in rows} == {(*keys, *more, "handle", "outcome")}
    stored = [json.loads(line) for line in lines(forked)]
    assert [row["uuid"] for row in rows] == [entry["uuid"] for entry in stored]
    assert [row["parentUuid"] for row in rows] == [entry["parentUuid"] for entry in stored]
    assert [row["depth"] for row in rows] == [0, 1, 2, 3, 4, 3, 4, 5]
    assert [row["current"] for row in rows] == [True] * 3 + [False] * 2 + [True] * 3
    assert [row["label"] for row in rows][-2:] == ["here", None]
    assert rows[1]["role"] == "user"
    assert rows[1]["preview"] == "hello"


def test_tree_draws_every_message_and_marks_the_leaf(forked: Path) -> None:
    drawn = done("tree", forked, "--all").splitlines()
    assert len(drawn) == 1 + 6
    assert "├─○ user  more" in drawn[3]
    assert drawn[-1].endswith("← you are here")


def test_branches_json_lists_the_tips(forked: Path) -> None:
    left, current = printed_json("branches", forked)
    assert list(left) == ["leaf", "fork", "length", "current", "lane", "name", "preview", "updated"]
    assert (left["preview"], left["length"], left["current"]) == ("sure", 2, False)
    assert (current["preview"], current["length"], current["current"]) == ("instead", 2, True)
    assert left["fork"] == current["fork"] == json.loads(lines(forked)[2])["uuid"]


def test_branches_are_named_by_the_prompt_turn_and_time_of_their_last_turn(chat: Path) -> None:
    done("branch", chat, "@~1")
    said(chat, "assistant", "another answer to more")
    done("branch", chat, "@~2", "--name", "elsewhere")
    said(chat, "user", "instead")
    said(chat, "assistant", "sure")
    lines = done("branches", chat).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["○", "○", "●"]
    assert [line.partition("turn ")[2][:3].strip() for line in lines] == ["2", "2.1", "3"]
    assert [line.endswith("  more") for line in lines] == [True, True, False]
    assert lines[2].endswith("  instead  (elsewhere)")
    with Session.open(chat, readonly=True) as session:
        for branch, line in zip(session.branches(), lines, strict=True):
            at = datetime.fromisoformat(branch.updated or "").astimezone()
            assert f"{at:%Y-%m-%d %H:%M}" in line


def test_branches_with_a_ref_lists_only_those_below_it(forked: Path) -> None:
    assert [b["preview"] for b in printed_json("branches", forked, "@")] == ["instead"]
    assert len(done("branches", forked).splitlines()) == 2


def test_branches_reports_that_there_are_none(chat: Path) -> None:
    mark = done("label", chat, "@", "here").strip()
    result = run("branches", chat, mark)
    told = f"There is no branch below {mark[:8]} (label: here)"
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.splitlines() == [told]
    assert printed_json("branches", chat, mark) == []


def test_path_json_gives_the_stored_bytes_themselves(tmp_path: Path) -> None:
    file = tmp_path / "spaced.jsonl"
    stored = [
        '{ "cwd": "/p",  "uuid":"s1", "parentUuid":null, "type":"session", "version":2 }',
        '{"uuid": "m1", "type":"message","parentUuid":"s1", "n": 1.5e3, "b": 12345678901234567890,'
        ' "message": {"content":"\\u0041 \\ud800 é", "role":"user"}}',
    ]
    file.write_text("\n".join(stored) + "\n")
    assert done("path", file, "--json") == "[" + ",\n".join(stored) + "]\n"


def test_path_json_falls_back_to_the_keys_of_a_damaged_line(tmp_path: Path) -> None:
    file = tmp_path / "damaged.jsonl"
    file.write_bytes(
        b'{"type":"session","version":2,"uuid":"s1","parentUuid":null}\n'
        b'{"type":"message","uuid":"m1","parentUuid":"s1","message":{"role":"user","content":"\xff"}}\n'
    )
    result = run("path", file, "--json")
    assert json.loads(result.stdout)[1]["message"]["content"] == "�"
    assert "Damage: " in result.stderr


def test_path_has_a_row_for_each_entry(forked: Path) -> None:
    rows = done("path", forked).splitlines()
    kinds = [row.split()[1] for row in rows]
    assert kinds == ["session", "user", "assistant", "branch_summary", "user"]


def test_show_prints_the_facts_of_a_session(forked: Path) -> None:
    done("append", forked, "--lane", "side", "--text", "aside")
    facts = printed_json("show", forked)
    assert [facts[key] for key in ("id", "name", "cwd")] == ["chat-id", "Chat", "/project"]
    assert (facts["entries"], facts["branches"], facts["lanes"]) == (8, 3, ["main", "side"])
    assert facts["leaf"] == json.loads(lines(forked)[-2])["uuid"]
    assert (facts["model"], facts["parentSession"], facts["damage"]) == (None, None, [])
    told = done("show", forked)
    assert "id             chat-id\n" in told
    assert "lanes          main, side\n" in told


def test_show_of_a_ref_prints_one_entry(chat: Path) -> None:
    assert done("show", chat, "@~1", "--json").encode() == lines(chat)[3] + b"\n"
    told = done("show", chat, "@~1")
    assert "role           user\n" in told
    assert told.endswith("\nmore\n")


@for_each("words", LOOKING)
@for_each("kind", ["chat", "version_1"])
def test_reading_commands_leave_the_folder_unchanged(
    words: tuple[str, ...], kind: str, request: pytest.FixtureRequest
) -> None:
    file: Path = request.getfixturevalue(kind)
    for lock in file.parent.glob("*.lock"):
        lock.unlink()
    before = {path: path.read_bytes() for path in file.parent.iterdir()}
    for more in ((), ("--json",)):
        done(*looking(file, words, *more))
    assert {path: path.read_bytes() for path in file.parent.iterdir()} == before


def test_damage_is_one_line_with_a_count_the_first_finding_and_where_all_are(chat: Path) -> None:
    with chat.open("ab") as file:
        file.write(b"{no json}\n" * 13)
    result = run("tree", chat)
    (told,) = (line for line in result.stderr.splitlines() if line.startswith("Damage: "))
    assert result.exit_code == 0
    assert told.startswith(f"Damage: 13 findings; {chat}, line 6 (byte ")
    assert told.endswith(f": the line is not JSON; see 'sessiontree verify {chat}'")
    assert "Damage" not in result.stdout
    assert len(run("verify", chat).stdout.splitlines()) == 13
    (told,) = (
        row for row in in_terminal("tree", str(chat), COLUMNS="80").splitlines() if "Damage" in row
    )
    assert len(told) <= 80
    assert (
        told == "Damage: 13 findings; line 6: the line is not JSON; see 'sessiontree verify FILE'"
    )


HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202egnp\u2028\x7f\r\x00\u200b"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A session that has characters that drive a terminal wherever it can have text."""
    file = tmp_path / "hostile.jsonl"
    message = {"role": HOSTILE, "content": HOSTILE}
    call = {"type": "tool_use", "id": "c" + HOSTILE, "name": HOSTILE, "input": {HOSTILE: HOSTILE}}
    entries = [
        {"type": "session", "version": 2, "format": "sessiontree/2", "uuid": "u" + HOSTILE}
        | {"parentUuid": None, "id": HOSTILE, "cwd": HOSTILE, "name": HOSTILE, "model": HOSTILE},
        {"type": "message", "uuid": "m1", "parentUuid": "u" + HOSTILE, "message": message},
        {"type": "message", "uuid": "m2", "parentUuid": "m1"}
        | {"message": {"role": "assistant", "content": [call], "model": HOSTILE}},
        {"type": HOSTILE, "uuid": "m3" + HOSTILE, "parentUuid": "m2", HOSTILE: HOSTILE},
        {"type": "branch", "uuid": "m4", "parentUuid": "m1", "name": HOSTILE},
        {"type": "message", "uuid": "m5", "parentUuid": "m4", "lane": HOSTILE, "message": message},
        {"type": "label", "uuid": "m6", "parentUuid": "m5", "targetUuid": "m5", "label": HOSTILE},
        {"type": "message", "uuid": "m7", "parentUuid": "gone" + HOSTILE, "message": message},
        {"type": "message", "uuid": "m8", "parentUuid": "m2", "message": message},
        {"type": "branch_summary", "uuid": "m9", "parentUuid": "m8", "summary": HOSTILE},
    ]
    file.write_text("".join(json.dumps(e, ensure_ascii=False) + "\n" for e in entries))
    return file


@for_each("words", [*LOOKING, ("show", "m5"), ("show", "m6"), ("show", "nosuch"), ("export",)])
@for_each("more", [(), ("--json",)])
def test_control_characters_of_a_session_never_reach_the_terminal(
    hostile: Path, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    result = run(*looking(hostile, words, *more))
    assert not driving(result.stdout)
    assert not driving(result.stderr)
    assert result.stdout or result.exit_code


@pytest.mark.parametrize(
    "line",
    [
        *("label m5 --clear", "switch m8", "rewind", "merge m5", "cherry-pick m5", "pop m1"),
        *("compact --first-kept m8", "edit-context m8 --drop", "switch m3\x1b"),
        "append --parent m3\x1b[1m --text x",
    ],
)
def test_control_characters_never_reach_the_terminal_after_a_write(
    hostile: Path, line: str
) -> None:
    result = run(*looking(hostile, tuple(line.split())))
    assert result.exit_code in (0, 1)
    assert not driving(result.stdout)
    assert not driving(result.stderr)


def test_json_with_control_characters_keeps_its_values(hostile: Path) -> None:
    stored = [json.loads(line) for line in hostile.read_text().split("\n") if line]
    assert printed_json("show", hostile, "m5") == stored[5]
    assert printed_json("path", hostile)[-1] == stored[-1]


def test_an_empty_session_can_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    done("new", file)
    assert printed_json("branches", file) == []
    assert printed_json("context", file)["messages"] == []
    assert len(printed_json("path", file)) == 1
    assert len(done("tree", file).splitlines()) == 1


def test_a_message_of_several_lines_stays_beside_its_role(chat: Path) -> None:
    said(chat, "user", "one\ntwo")
    assert "user              one\n                  two\n" in done("context", chat)


def test_stats_counts_what_a_session_holds_and_cost(tmp_path: Path) -> None:
    usage = {"input": 1200, "output": 34, "cost": {"total": 0.5}}
    answer = {"role": "assistant", "content": "Done", "model": "m", "usage": usage}
    file = chat_of(tmp_path / "s.jsonl", "Do it", answer)
    shown = done("stats", file)
    assert "3 (message 2, session 1)" in shown
    assert "1,200 in, 34 out" in shown
    assert "$0.50 reported\n" in shown
    found = printed_json("stats", file)
    assert found["usage"]["output"] == 34
    assert found["models"] == {"m": found["usage"]}


def test_a_lane_is_looked_at_by_its_name(chat: Path) -> None:
    done("append", chat, "--lane", "reviewer", "--text", "aside")
    assert "aside" in done("context", chat, "reviewer")
    assert printed_json("path", chat, "reviewer")[-1]["lane"] == "reviewer"
    assert "aside" not in done("context", chat, "main")
    done("merge", chat, "reviewer")
    assert "aside" in done("context", chat)


def test_show_answers_what_a_person_asks_of_a_session(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", durability="os") as session:
        session.append_message({"role": "user", "content": "Fix the parser"})
        answer = {"role": "assistant", "content": [{"type": "text", "text": "Done"}]}
        session.append_message({**answer, "model": "m-1", "usage": {"input": 5, "output": 7}})
        paid = {"input": 1_000_000, "output": 7}
        session.append_message({**answer, "model": "claude-opus-4-6", "usage": paid})
        session.branch(session.header)
        session.append_message({"role": "user", "content": "Rewrite the parser"})
    shown = done("show", tmp_path / "s.jsonl")
    facts = {line[:14].strip(): line[15:] for line in shown.splitlines()}
    assert (facts["title"], facts["turns"]) == ("Fix the parser", "2")
    assert facts["models"] == "m-1, claude-opus-4-6"
    assert facts["tokens"].startswith("1,000,005 in, 14 out")
    assert facts["cost"] == "~$5.00 at list prices, 1 answer without a price"
    assert "active for 0 s" in facts["when"]
    *_, first_end, second_end = shown.splitlines()
    assert first_end.endswith("Fix the parser")
    assert first_end.startswith("  ○ ")
    assert second_end.endswith("Rewrite the parser")
    assert second_end.startswith("  ● ")
