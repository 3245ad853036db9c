"""Whatever copies of a conversation went on: one row, all turns, one title."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from sessiontree import Session
from sessiontree.agents.pi.names import id_in
from sessiontree.text.ids import short_id
from tests.library.test_truth import Check, sum_of, take_over, tokens, with_turns
from tests.library.truth import HEADS, LINES, MODELS, Conversation, MadeHome
from tests.support.homes import empty_home, settle
from tests.support.terminal import done, run


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return empty_home(tmp_path, monkeypatch)


def row_of(one: Conversation) -> dict[str, Any]:
    rows: list[dict[str, Any]] = json.loads(done("ls", "--json"))
    (row,) = (row for row in rows if row["id"] == one.id)
    return row


CONFLICTS = (
    "{stem} (conflicted copy 2026-09-01).jsonl",
    "{stem}.sync-conflict-20260901-101010-ABCDEFG.jsonl",
)


def diverged(made: MadeHome, one: Conversation, name: str, *, copy_is_newer: bool) -> Path:
    """A session and a conflict copy of it both go on; the newer one is `one.file`.

    Returns the older one.
    """
    own = one.file
    copy = own.with_name(name.format(stem=own.stem))
    shutil.copy(own, copy)
    older, newer = (own, copy) if copy_is_newer else (copy, own)
    one.file = older
    made.go_on(one, one.at + timedelta(days=1))
    one.file = newer
    made.go_on(one, one.at + timedelta(days=1))
    made.go_on(one)
    return older


@pytest.mark.parametrize("copy_is_newer", [False, True])
@pytest.mark.parametrize("name", CONFLICTS)
@pytest.mark.parametrize("agent", MODELS)
def test_a_conflict_copy_that_went_on_is_a_branch_of_its_session(
    top: Path, agent: str, name: str, copy_is_newer: bool
) -> None:
    made = MadeHome(top, 4)
    one = made.of(agent)[0]
    diverged(made, one, name, copy_is_newer=copy_is_newer)

    def check() -> None:
        row = row_of(one)
        assert (row["turns"], row["lane"]) == (len(one.prompts), "main")
        assert datetime.fromisoformat(row["modified"]) == one.at
        assert row["file"] == str(one.file)
        sums = json.loads(done("stats", "--json"))
        assert sums["turns"] == sum(len(each.prompts) for each in made.all)
        assert tokens(sums["usage"]) == sum_of(made.answers())
        found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
        alike = [each for each in made.all if each.word == one.word]
        assert len(found) == sum(len(each.prompts) for each in alike)

    check()
    resumed = json.loads(done("resume", one.id, "--json"))
    last = one.prompts[-1]
    assert last in Path(resumed["file"]).read_text()
    if resumed["converted"]:
        Path(resumed["file"]).unlink()
    done("backup")
    check()
    again = json.loads(done("resume", one.id, "--json"))
    assert again["command"] == resumed["command"]
    assert last in Path(again["file"]).read_text()
    if again["converted"]:
        Path(again["file"]).unlink()
    shown = done("tree", one.id)
    assert f"{len(one.prompts)} prompts" in shown
    assert "lane" not in shown
    assert "subagent" not in shown
    assert last in done("export", one.id)
    one.also |= {one.file}
    done("backup")
    check()


def without_head(made: MadeHome, one: Conversation) -> None:
    """The file of a conversation loses its first turn."""
    start, end = HEADS[one.agent], HEADS[one.agent] + LINES[one.agent]
    lines = one.file.read_text().splitlines(keepends=True)
    one.file.write_text("".join([*lines[:start], *lines[end:]]))
    one.also.clear()


@pytest.mark.parametrize("lose", [MadeHome.cut, without_head])
def test_what_a_file_lost_counts_before_the_next_backup(
    top: Path, lose: Callable[[MadeHome, Conversation], None]
) -> None:
    made = MadeHome(top, 8)
    check = Check(made)
    cut = [with_turns(made, agent) for agent in MODELS]
    done("backup")
    for goes_on in (False, True):
        for one in cut:
            if goes_on:
                made.go_on(one, one.at + timedelta(days=1))
            else:
                lose(made, one)
                one.also |= {Path(row_of(one)["file"])}
        check.rows()
        check.sums()
        for one in cut:
            found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
            assert len(found) == len(one.prompts), one
    for one in cut:
        numbers = json.loads(done("stats", one.id, "--json"))
        assert tokens(numbers["usage"]) == sum_of(one.answers), one
    done("backup")
    check.rows()
    check.sums()


@pytest.mark.parametrize("begun", MODELS)
def test_the_other_continuation_is_named_whatever_the_newest_file_is(top: Path, begun: str) -> None:
    made = MadeHome(top, 8)
    one = made.of(begun)[1]
    first, second, third = [*MODELS, *MODELS][(at := [*MODELS].index(begun)) + 1 : at + 4]
    own = one.file
    take_over(made, one, first)  # has what `begun` wrote
    taken = one.file
    take_over(made, one, second)  # has all of that

    def named() -> str:
        return run("tree", one.id).stderr

    assert "went on with" not in named()
    assert "went on" not in done("ls")
    newest, one.file, one.agent = one.file, own, begun
    made.go_on(one, one.at - timedelta(days=1))
    assert f"went on with the session, too, in {own}; {newest} lacks that" in named()
    assert f"{begun} went on" in done("ls")
    one.file, one.agent = taken, first
    made.go_on(one, one.at + timedelta(hours=1))
    for command in ("tree", "show", "resume"):
        said = run(command, one.id).stderr
        for file in (own, taken):
            assert f"went on with the session, too, in {file}; {newest} lacks that" in said, command
    whole, part = len(one.prompts), len(one.prompts) - 2
    assert f"{part} in this file, {whole} with its other copies" in done("show", one.id)
    heading = run("tree", one.id).stdout.splitlines()[1]
    assert heading.startswith(f"{part} prompts in this file, {whole} with its other copies")
    refused = run("tree", one.id, "--turn", str(whole))
    assert (refused.exit_code, refused.stdout) == (1, "")
    error = f"turns are 1 to {part} in this file, {whole} with its other copies: "
    assert all(str(file) in refused.stderr.partition(error)[2] for file in (own, taken))
    assert row_of(one)["turns"] == whole
    done("backup")
    shown = run("tree", one.id)
    assert f"{whole} prompts" in shown.stdout
    assert "went on" not in shown.stderr
    assert f"turns          {whole}\n" in done("show", one.id)
    assert third not in shown.stdout


@pytest.mark.parametrize("agent", MODELS)
def test_a_conflict_copy_that_went_on_is_named_until_a_backup_has_both(
    top: Path, agent: str
) -> None:
    made = MadeHome(top, 4)
    one = made.of(agent)[0]
    older = diverged(made, one, CONFLICTS[0], copy_is_newer=False)
    own = str(one.file)
    for command in ("tree", "show"):
        assert (
            f"went on with the session, too, in {older}; {own} lacks" in run(command, one.id).stderr
        )
    assert "1 copy that went on" in done("ls")
    done("backup")
    for command in ("tree", "show"):
        assert "went on" not in run(command, one.id).stderr
    assert f"turns          {len(one.prompts)}\n" in done("show", one.id)


@pytest.mark.parametrize("agent", MODELS)
def test_what_only_the_backup_has_is_named_as_soon_as_the_file_went_on(
    top: Path, agent: str
) -> None:
    made = MadeHome(top, 8)
    one = with_turns(made, agent)
    done("backup")
    made.cut(one)
    made.go_on(one, one.at + timedelta(days=1))
    (kept,) = (copy["file"] for copy in row_of(one)["copies"] if copy["importedFrom"])
    for command in ("tree", "show", "resume"):
        told = run(command, one.id).stderr
        assert f"{kept} has content that {one.file} lacks, such as" in told, command
    assert "backed up, with more" in done("ls")
    assert f"2 in this file, {len(one.prompts)} with its other copies" in done("show", one.id)


def test_a_title_is_the_same_wherever_it_is(top: Path) -> None:
    """Of a session that begins with a command, has a long prompt, or spells roles with escapes."""
    made = MadeHome(top, 8)
    for one in made.of("claude-code"):
        lines = [json.loads(line) for line in one.file.read_text().splitlines()]
        cleared = {**lines[0], "uuid": str(uuid4()), "parentUuid": None}
        command = "<command-name>/clear</command-name>\n<command-message>clear</command-message>"
        cleared["message"] = {"role": "user", "content": command}
        lines[0]["message"]["content"] = f"{one.word} is a title " + 60 * "with words "
        one.file.write_text("".join(json.dumps(line) + "\n" for line in (cleared, *lines)))
    for one in made.of("pi"):
        one.file.write_text(one.file.read_text().replace('"user"', '"\\u0075ser"'))
    for agent in MODELS:
        one = made.of(agent)[0]
        for _ in range(2):
            title = row_of(one)["firstMessage"]
            assert one.word in title, agent
            for file in (row_of(one)["file"], *(copy["file"] for copy in row_of(one)["copies"])):
                (alone,) = json.loads(done("ls", file, "--json"))
                assert alone["firstMessage"] == title, agent
                shown = {line[:15].strip(): line[15:] for line in done("show", file).splitlines()}
                assert shown["title"] == title, agent
                assert done("export", file).startswith(f"# {title[:70]}"), agent
                page = top / f"{uuid4()}.html"
                done("export", file, "-o", page)
                assert f"<title>{title[:70]}" in page.read_text(), agent
            done("backup")


def test_the_export_of_a_branch_has_the_title_of_the_session(top: Path) -> None:
    file = top / "s.jsonl"
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "the first"})
        session.switch(session.header.uuid)
        session.append_message({"role": "user", "content": "another"})
    assert done("export", file).startswith("# the first\n")


def test_a_name_and_a_prompt_spelled_with_escapes_are_in_lists(top: Path) -> None:
    file = top / "s.jsonl"
    with Session.create(file) as session:
        session.append_message({"role": "user", "content": "ask"})
        session.rename("Mine")
    text = file.read_text()
    text = text.replace('"session_info"', '"session\\u005finfo"')
    file.write_text(text.replace('"user"', '"\\u0075ser"'))
    (row,) = json.loads(done("ls", file, "--json"))
    assert (row["name"], row["firstMessage"]) == ("Mine", "ask")


def test_a_fork_is_called_one_in_the_same_words_everywhere(top: Path) -> None:
    made = MadeHome(top, 12)
    ours = top / "ours.jsonl"
    done("fork", made.of("pi")[0].file, ours)
    forks = {str(one.file): row_of(one) for one in made.all if one.is_fork}
    forks[str(ours)] = json.loads(done("ls", ours, "--json"))[0]
    assert len(forks) > 3
    for file, row in forks.items():
        words = f"fork of {short_id(row['copyOf'])}"
        assert words in done("ls", file)
        assert f"origin         {words}\n" in done("show", file)
        assert f" · {words} · " in done("tree", file).splitlines()[0]
        assert f"- {words}\n" in done("export", file)
        page = top / f"{uuid4()}.html"
        done("export", file, "-o", page)
        assert words in page.read_text()
    one = made.of("gemini")[0]
    for command in ("show", "tree", "export"):
        assert "fork of" not in done(command, one.id)


@pytest.mark.parametrize(("agent", "lost"), [("pi", 1), ("pi", 2), ("gemini", 1), ("gemini", 2)])
def test_a_file_without_its_head_is_still_the_conversation_of_its_import(
    top: Path, agent: str, lost: int
) -> None:
    id = "6c18d982-d1dc-4c53-a12a-8d9bc17a9262"
    file = _written(top, agent, id)
    done("backup", "--quiet")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[lost:]))
    for is_again in (False, True):
        if is_again:
            assert run("backup", "--quiet").exit_code == 1  # a header is not kept
            kept = min((top / "store").rglob(f"*{id}*.jsonl"))
            assert kept.read_text().count('"type":"message"') == 2
        (row,) = json.loads(done("ls", "--json"))
        assert (row["id"], row["file"]) == (id, str(file))
        assert json.loads(done("stats", "--json"))["sessions"] == 1
        hits = json.loads(done("search", "rare", "--role", "prompt", "--json"))
        assert {hit["session"] for hit in hits} == {id}
        for name in (id, id[:8]):
            assert json.loads(done("show", name, "--json"))["id"]
            assert (
                " 2 with its other copies" in (said := done("show", name))
                or "turns          2\n" in said
            )
        assert len(hits) == 2


def test_a_file_of_pi_that_lost_its_header_has_the_id_in_its_name() -> None:
    id = "8216858f-73cc-4f03-86f5-a1b4b156d1ad"
    for time in ("2026-03-06T21-00-00", "2026-03-06T21-00-00-000Z"):
        assert id_in(f"{time}_{id}") == id


def _written(home: Path, agent: str, id: str) -> Path:
    """A file of pi or Gemini CLI with two prompts."""
    words = ("rare zebra", "rare quagga")
    times = ("2026-03-07T18:07:00.000Z", "2026-03-07T18:09:20.000Z")
    if agent == "pi":
        folder, name = home / ".pi/agent/sessions/--p--", f"2026-03-07T18-00-00_{id}.jsonl"
        lines: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": id, "timestamp": times[0], "cwd": "/p"}
        ]
        for number, (word, time) in enumerate(zip(words, times, strict=True)):
            message = {"role": "user", "content": word}
            above = f"feedbee{number - 1}" if number else None
            entry = {"type": "message", "id": f"feedbee{number}", "parentId": above}
            lines.append({**entry, "timestamp": time, "message": message})
    else:
        folder, name = home / ".gemini/tmp/p/chats", f"session-2026-03-07T18-00-00-{id[:8]}.jsonl"
        lines = [{"sessionId": id, "projectHash": "0" * 64, "startTime": times[0], "kind": "main"}]
        for number, (word, time) in enumerate(zip(words, times, strict=True)):
            uuid = f"83c8cb28-eb4e-42e3-895e-8b6b263cfa5{number}"
            lines.append(
                {"id": uuid, "timestamp": time, "type": "user", "content": [{"text": word}]}
            )
    folder.mkdir(parents=True)
    file = folder / name
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return settle(file)
