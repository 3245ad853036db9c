"""`ls` and `search` as a person uses them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, Store
from sessiontree.cli.lists import flushed, out_hits
from sessiontree.cli.lists import lines as hit_lines
from sessiontree.cli.lists import rows as hit_rows
from sessiontree.cli.screen import Screen
from sessiontree.library.search import SessionsOfHits, described, search
from sessiontree.library.search_file import SearchFilter, SearchHit
from sessiontree.text.pattern import Pattern, query
from tests.cli.screens import NOW
from tests.support.sessions import by_hand, chat, said
from tests.support.table import for_each
from tests.support.terminal import contents, done, driving, printed_json, refused, run

HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202egnp\u2028\x7f"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Where this user's sessions are: three of two projects, the first of them here."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "home"))
    store = Store(tmp_path / "home")
    said(store, "fix the parser", cwd=here, id="11111111-one", name="Parser")
    said(store, "write the docs " + "at length " * 20, cwd=here, id="22222222-two")
    said(store, "deploy it", cwd="/elsewhere", id="33333333-three", name="A rollout")
    return store


def listed_ids(*words: str | Path) -> list[str]:
    return [row["id"][:1] for row in printed_json("ls", *words)]


def test_ls_lists_all_sessions_the_latest_first(store: Store) -> None:
    assert listed_ids() == listed_ids("--all") == ["3", "2", "1"]
    assert listed_ids("--cwd", ".") == listed_ids("--project", "here") == ["2", "1"]
    assert listed_ids("--cwd", "/elsewhere") == listed_ids("--project", "elsewhere") == ["3"]
    assert listed_ids("--limit", "2") == ["3", "2"]


def test_ls_json_has_the_promised_shape(store: Store) -> None:
    (row,) = printed_json("ls", "--cwd", "/elsewhere")
    assert " ".join([*row][:8]) == "file id cwd name firstMessage created modified bytes"
    assert row["file"] == store.list(cwd="/elsewhere")[0].file
    assert (row["id"], row["cwd"], row["name"]) == ("33333333-three", "/elsewhere", "A rollout")
    assert (row["firstMessage"], row["bytes"]) == ("deploy it", os.path.getsize(row["file"]))
    assert (row["lane"], row["writer"], row["branches"]) == ("main", None, None)


def test_ls_in_a_pipe_is_a_plain_line_a_session(store: Store) -> None:
    docs, parser = done("ls", "--project", "here").splitlines()
    assert "  11111111  sessiontree  Parser  " in parser
    assert "  22222222  sessiontree  write the docs at length" in docs
    assert docs.endswith(str(Path.cwd()))
    assert len(docs) < 400


@for_each(
    ("order", "ids"), [("modified", "321"), ("created", "321"), ("size", "213"), ("name", "312")]
)
def test_ls_orders_as_it_is_told(store: Store, order: str, ids: str) -> None:
    assert "".join(listed_ids("--all", "--sort", order)) == ids


def test_ls_counts_branches_when_asked(store: Store) -> None:
    with store.open("Parser") as session:
        session.branch(session.leaf, summary="again")
        session.append_message({"role": "user", "content": "one"})
        session.branch(session.path()[1])
        session.append_message({"role": "user", "content": "two"})
    assert [row["branches"] for row in printed_json("ls", "--branches")] == [2, 1, 1]
    assert "  2 branches  " in done("ls", "--branches")
    assert "  1 branch  " in done("ls", "--branches")


def test_ls_of_a_folder_lists_all_in_it(tmp_path: Path) -> None:
    by_hand(tmp_path / "any" / "a.jsonl", "hello", id="aaaa", cwd="/one")
    by_hand(tmp_path / "any" / "deep" / "b.jsonl", "hello", id="bbbb", cwd="/two")
    assert sorted(listed_ids(tmp_path / "any")) == ["a", "b"]
    assert listed_ids(tmp_path / "any", "--cwd", "/two") == ["b"]


def test_ls_of_files_has_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    by_hand(tmp_path / "one" / "a.jsonl", "hello", id="aaaa", cwd="/p")
    by_hand(tmp_path / "two" / "b.jsonl", "hello", id="bbbb", cwd="/p")
    lines = {
        line.split()[4]: line
        for line in done("ls", tmp_path / "one/a.jsonl", tmp_path / "two").splitlines()
    }
    assert lines["aaaa"].endswith(f"  /p  {tmp_path}/one/a.jsonl")
    assert lines["bbbb"].endswith("  /p")
    monkeypatch.chdir(tmp_path)
    assert done("ls", "one/a.jsonl").endswith("  one/a.jsonl\n")
    head, row = in_a_terminal("ls", "one/a.jsonl").splitlines()
    assert ("File" in head, "one/a.jsonl" in row) == (True, True)


def test_ls_tells_who_holds_a_session_and_its_lane(store: Store) -> None:
    with store.open("Parser", exclusive=True, lane="reviewer") as session:
        session.append_message({"role": "assistant", "content": "Hm"})
        line = next(line for line in done("ls").splitlines() if "Parser" in line)
    assert f"lane reviewer, held by process {os.getpid()} on " in line


def test_ls_tells_what_it_left_out_and_does_not_fail(store: Store) -> None:
    folder = Path(store.project_dir("/elsewhere"))
    for number in range(12):
        (folder / f"bad-{number}.jsonl").touch()
    result = run("ls", "--all")
    assert result.exit_code == 0
    assert len(result.stdout.splitlines()) == 3
    told = result.stderr.splitlines()
    assert len(told) == 11
    assert all(line.startswith("Left out: ") for line in told)
    assert told[-1] == "Left out: and 2 more"


def test_an_empty_ls_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_HOME", str(tmp_path / "none"))
    for words in (("ls",), ("ls", "--all")):
        result = run(*words)
        assert (result.exit_code, result.stdout) == (0, "")
        assert str(tmp_path / "none") in result.stderr
    assert printed_json("ls") == []
    assert not (tmp_path / "none").exists()


def test_a_folder_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    for words in (("ls", tmp_path / "no"), ("search", "x", tmp_path / "no")):
        (shown,) = refused(*words).splitlines()
        assert str(tmp_path / "no") in shown


def test_search_prints_each_hit_below_its_file(store: Store) -> None:
    ref = printed_json("search", "parser", "-s")[0]["ref"]
    file = store.find("Parser").file
    heading, hit = done("search", "parser", "--role", "user").splitlines()
    assert heading.startswith(f"{file}  session 11111111  sessiontree  2")
    assert heading.endswith("  Parser")
    assert hit.startswith(f"  {ref[:8]}  user        2")
    assert hit.endswith("  fix the «parser»")
    assert done("search", "PARSER", "-i").count("«") == 2  # its name as well
    by_hand(Path("near", "chat.jsonl"), "a parser", id="nearby")
    assert done("search", "parser", "near").startswith("near/chat.jsonl  session nearby  ")


def test_search_looks_in_all_sessions_unless_told_otherwise(store: Store) -> None:
    assert len(printed_json("search", "the")) == 2
    assert len(printed_json("search", "t", "--regex", "--role", "user")) == 3
    assert len(printed_json("search", "deploy|parser", "--regex", "--cwd", ".")) == 1
    assert len(printed_json("search", "the", store.find("Parser").file)) == 1
    for cwd, hits in ((str(store.find("Parser").cwd), 1), ("/elsewhere", 0)):
        assert len(printed_json("search", "the", store.find("Parser").file, "--cwd", cwd)) == hits
    assert len(printed_json("search", "the", store.root, "--cwd", "/elsewhere")) == 0
    assert len(printed_json("search", "the", "--limit", f"{10**20}")) > 1


def test_search_json_has_all_of_a_hit(store: Store) -> None:
    (hit,) = printed_json("search", "deploy")
    assert " ".join(hit) == (
        "file session ref type role timestamp lane snippet match matches speaker "
        "prompt turn tools model usage cost title agent cwd"
    )
    assert (hit["title"], hit["agent"], hit["cwd"]) == ("A rollout", None, "/elsewhere")
    with Session.open(hit["file"], readonly=True) as session:
        assert session.entry(hit["ref"])["message"]["content"] == "deploy it"
    assert hit["snippet"][slice(*hit["match"])] == "deploy"


def test_search_that_finds_nothing_says_so_and_has_not_failed(store: Store) -> None:
    result = run("search", "no such words")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("Nothing matches no such words; --everything also searches")
    assert (
        run("search", "no such words", "--everything").stderr == "Nothing matches no such words\n"
    )
    assert printed_json("search", "no such words") == []


@for_each(
    "words",
    [
        ("search", ""),
        ("search", "(", "--regex"),
        ("search", "x", "--since", "someday"),
        ("search", "x", "--limit", "0"),
        ("search",),
        ("ls", "--sort", "colour"),
    ],
)
def test_wrong_usage_is_told(store: Store, words: tuple[str, ...]) -> None:
    assert "Error: " in refused(*words, status=2)


def test_nothing_from_a_session_drives_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / "any"
    by_hand(folder / "a.jsonl", f"needle {HOSTILE}", id=HOSTILE, cwd=HOSTILE, name=HOSTILE)
    by_hand(folder / "b.jsonl", "\ud800 needle", cwd="\ud800", name="\udfff")
    (folder / f"bad{HOSTILE}.jsonl").touch()
    for words in (("ls", folder), ("search", "needle", folder), ("search", "\x1b[31m", folder)):
        for more in ((), ("--json",)):
            result = run(*words, *more)
            assert result.exit_code == 0, result.output
            assert not driving(result.stdout)
            assert not driving(result.stderr)
            assert result.stdout


def test_looking_for_sessions_changes_nothing(store: Store) -> None:
    folder = Path(store.project_dir(Path.cwd()))
    before = contents(folder)
    for words in (("ls", "--branches"), ("search", "the", "--current", "--blobs")):
        done(*words)
    assert contents(folder) == before


def in_a_terminal(*words: str, columns: int = 100) -> str:
    """What a command prints on a terminal of so many columns."""
    script = (
        "import os, pty, sys\n"
        f"os.environ.update(COLUMNS='{columns}', TERM='xterm')\n"
        "sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))"
    )
    command = [sys.executable, "-c", script, sys.executable, "-m", "sessiontree", *words]
    finished = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True)
    return finished.stdout.decode()


@pytest.mark.slow
def test_a_terminal_gets_a_table_and_colours(store: Store) -> None:
    table = in_a_terminal("ls", "--no-pager")
    assert "When" in table
    assert "A rollout" in table
    assert table.index("33333333") < table.index("11111111")
    assert "fix the \x1b[1;31mparser\x1b[0m" in in_a_terminal("search", "parser")


def test_a_narrow_terminal_gets_a_row_a_session(store: Store) -> None:
    _, row = in_a_terminal("ls", "--cwd", "/elsewhere", columns=40).splitlines()
    assert "A rollout" in row


@for_each("words", [("ls",), ("search", "hello"), ("stats",), ("stats", "--by", "day")])
def test_a_list_is_of_all_files_and_folders_that_are_named(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    def usage(tokens: int) -> dict[str, Any]:  # answers of one millisecond may be copies
        return {"role": "assistant", "content": "hello", "usage": {"output": tokens}}

    for folder in ("one", "two/.deep", "two/node_modules"):
        (tmp_path / folder).mkdir(parents=True)
    one = chat(tmp_path / "one/s.jsonl", usage(1))
    chat(tmp_path / "two/.deep/s.jsonl", usage(2))
    below = chat(tmp_path / "two/node_modules/s.jsonl", usage(3))

    def sessions(*places: str | Path) -> int:
        found = printed_json(*words, *places)
        return int(found["sessions"]) if isinstance(found, dict) else len(found)

    link = tmp_path / "link"
    link.symlink_to(tmp_path / "two")
    if words != ("stats",):  # which counts one file entry by entry
        assert sessions(one) == 1
    assert sessions(tmp_path / "two", one) == 2
    assert sessions(tmp_path / "two", below, one, f"{tmp_path}/one/", tmp_path / "one", link) == 3
    assert sessions(one, one, "--agent", "pi") == 0
    for wrong in (tmp_path / "gone", Path("/dev/null")):
        assert str(wrong) in refused(*words, one, wrong)


def test_a_named_file_that_is_no_session_fails(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text("{}\n")
    for words in (("ls",), ("stats",), ("stats", "--by", "day"), ("search", "x", "--agent", "pi")):
        assert "x.jsonl" in refused(*words, tmp_path / "x.jsonl", tmp_path)


def test_hits_come_out_as_they_are_found(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [one.file for one in store.list(cwd=Path.cwd())]
    seen = tmp_path / "seen"

    def one_by_one() -> Iterator[SearchHit]:
        for number, hit in enumerate(search(Pattern("the"), files, SearchFilter(), pytest.fail)):
            assert seen.read_text().count("«the»") == number
            yield hit

    with seen.open("w") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert out_hits(flushed(one_by_one()), SessionsOfHits({}))
        monkeypatch.undo()
    assert seen.read_text().count("«the»") == 2


def test_the_commands_and_the_library_have_one_default_store(store: Store) -> None:
    assert Store().root == store.root
    assert json.loads(done("ls", "--all", "--json"))


def test_search_says_that_it_stopped_where_it_was_told_to(store: Store) -> None:
    result = run("search", "e", "--limit", "2")
    assert len(result.stdout.split("session ")) == 3
    assert result.stderr == "Stopped at 2 as --limit asks; there may be more\n"
    assert run("search", "e", "--limit", "1000").stderr == ""


@pytest.mark.parametrize(("words", "where"), [(("--cwd", "/nowhere"), "in "), (("empty",), "in /")])
def test_search_says_where_there_is_nothing_to_be_searched(
    store: Store, words: tuple[str, ...], where: str
) -> None:
    Path("empty").mkdir()
    result = run("search", "the", *words)
    assert (result.exit_code, result.stdout) == (0, "")
    assert f"Nothing was searched. No session {where}" in result.stderr


def test_a_search_tells_of_the_blobs_that_are_gone_with_their_folder(store: Store) -> None:
    file = said(store, "x" * 50_000 + " needle")
    shutil.rmtree(f"{file}.blobs")
    result = run("search", "needle", "--blobs")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "Nothing matches needle" in result.stderr
    assert "Left out: " in result.stderr
    assert "missing" in result.stderr


def test_a_role_that_is_spelled_wrongly_is_refused_with_the_roles(store: Store) -> None:
    said(store, "hello")
    told = run("search", "hello", "--role", "asistant")
    assert told.exit_code == 2
    assert "did you mean assistant? The roles are user, assistant, tool, prompt," in told.stderr
    unknown = run("search", "hello", "--role", "reviewer")
    assert unknown.exit_code == 0
    assert "'reviewer' is not a known role; the known ones are user, assistant," in unknown.stderr


def test_case_does_not_count_in_the_name_of_a_tool(tmp_path: Path) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "Bash", "arguments": {"command": "make it"}}
    file = tmp_path / "chat.jsonl"
    with Session.create(file) as session:
        session.append_message({"role": "assistant", "content": [call]})
    for tool in ("Bash", "bash"):
        assert len(printed_json("search", "make", file, "--tool", tool)) == 1
    assert not printed_json("search", "make", file, "--tool", "ba")


def test_hits_of_a_session_that_was_removed_meanwhile_are_shown_without_its_facts(
    tmp_path: Path,
) -> None:
    file = chat(tmp_path / "s.jsonl", "needle", id="one", name="A title", cwd="/p")
    hits = list(search(query("needle"), [str(file)], SearchFilter(), pytest.fail))
    (told,) = described(hits, SessionsOfHits({}))
    assert (told["title"], told["agent"], told["cwd"]) == ("A title", None, "/p")
    file.unlink()
    (told,) = described(hits, SessionsOfHits({}))
    assert (told["title"], told["session"]) == (None, "one")
    assert not {"agent", "cwd"} & set(told)
    (heading, _), _ = hit_lines(hits, SessionsOfHits({}))
    assert heading.endswith("session one")
    (heading, is_hit), (row, _), *_ = hit_rows(hits, SessionsOfHits({}), Screen(80, False, NOW))
    assert (is_hit, "A title" in heading, "needle" in row) == (False, False, True)
