"""The sessions of a user: where the agents keep them, and what a list of all of them says."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sessiontree import ForeignFormatError, Session, Store, import_session
from sessiontree.agents import AGENTS
from sessiontree.agents.codex import Codex
from sessiontree.calls.scope import Scope
from sessiontree.library import counts
from sessiontree.library.homes import agent_folders, folders_of
from sessiontree.library.places import Selection
from tests.support.homes import VARIABLES
from tests.support.sessions import by_hand, said, version_1
from tests.support.table import for_each
from tests.support.terminal import completed, done, printed_json, refused, run
from tests.support.transcripts import project_folder

SAMPLES = Path(__file__).parents[2] / "fixtures" / "agents"
KEPT = {
    "claude-code": ("claude_code/2.1.330", ".claude/projects/-home-user-project"),
    "codex": ("codex/0.169.0/sessions", ".codex/sessions"),
    "gemini": ("gemini/0.61.0/tmp", ".gemini/tmp"),
}
PI = (
    '{"type":"session","version":3,"id":"pi-1","timestamp":"2026-01-02T00:00:00.000Z","cwd":"/p"}\n'
    '{"type":"message","id":"a1","parentId":null,"timestamp":"2026-01-02T00:00:01.000Z",'
    '"message":{"role":"user","content":"Count the files"}}\n'
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user with sessions of four agents and one of the store."""
    home = tmp_path / "home"
    for source, target in KEPT.values():
        shutil.copytree(SAMPLES / source, home / target)
    (home / ".codex/session_index.jsonl").write_bytes(
        (SAMPLES / "codex/0.169.0/session_index.jsonl").read_bytes()
    )
    (home / ".codex/history.jsonl").write_text('{"session_id":"x","ts":1,"text":"xyzzy"}\n')
    (home / ".claude/history.jsonl").write_text(
        '{"display":"xyzzy","pastedContents":{},"timestamp":1,"project":"/p"}\n'
    )
    pi = home / ".pi/agent/sessions/--p--/2026-01-02T00-00-00-000Z_pi-1.jsonl"
    pi.parent.mkdir(parents=True)
    pi.write_text(PI)
    for name in (*VARIABLES, "SESSIONTREE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / ".local/share"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    said(Store(), "A session of the store", cwd="/own")
    return home


def listed(*words: str | Path) -> list[dict[str, Any]]:
    return list(printed_json("ls", *words))


def agents(*words: str | Path) -> list[str]:
    return sorted(row["agent"] or "sessiontree" for row in listed(*words))


ALL = ["claude-code", "codex", "codex", "gemini", "pi", "sessiontree"]


def test_the_sessions_of_all_agents_and_of_the_store_are_listed(home: Path) -> None:
    assert agents() == ALL
    assert run("ls").stderr == ""


@pytest.fixture
def oldest(home: Path) -> Path:
    """A file of version 1 where pi keeps its sessions: pi wrote this version, too."""
    return version_1(home / ".pi/agent/sessions/--p--/2025-01-01_old.jsonl", "An old prompt")


@for_each(
    "words",
    [
        ("branch", "@~1"),
        ("cherry-pick", "@"),
        ("compact", "--keep", "0"),
        ("append", "--text", "x"),
        ("migrate",),
        ("repair",),
        ("gc",),
    ],
)
def test_no_command_writes_a_file_of_version_1_that_is_pi_s(
    oldest: Path, words: tuple[str, ...]
) -> None:
    before = set(oldest.parent.iterdir()), oldest.read_bytes(), oldest.stat()
    result = run(words[0], oldest, *words[1:])
    assert result.exit_code == 1
    assert f"{oldest} is a session of the pi coding agent" in result.stderr
    assert f"sessiontree import {oldest}" in result.stderr
    assert (set(oldest.parent.iterdir()), oldest.read_bytes(), oldest.stat()) == before


def test_no_copy_of_a_file_of_version_1_is_repaired(oldest: Path, tmp_path: Path) -> None:
    result = run("repair", oldest, "-o", tmp_path / "new.jsonl")
    assert f"{oldest} has version 1" in result.stderr
    assert "import it" in result.stderr
    assert not (tmp_path / "new.jsonl").exists()


@for_each("words", [("label", "@", "name"), ("rename", "name")])
def test_notes_on_a_session_of_version_1_that_is_pi_s_are_in_its_import(
    oldest: Path, words: tuple[str, ...]
) -> None:
    before = set(oldest.parent.iterdir()), oldest.read_bytes(), oldest.stat()
    assert "its import has it" in run(words[0], oldest, *words[1:]).stderr
    assert (set(oldest.parent.iterdir()), oldest.read_bytes(), oldest.stat()) == before


def test_a_store_does_not_write_a_file_of_version_1_that_is_pi_s(oldest: Path) -> None:
    before = oldest.read_bytes()
    store = Store(oldest.parents[1])
    (one,) = [one for one in store.list() if one.file == str(oldest)]
    with pytest.raises(ForeignFormatError, match="is a session of the pi coding agent"):
        store.open(one.id)
    with store.open(one.id, readonly=True) as session:
        assert len(session.context().messages) == 1
    assert oldest.read_bytes() == before


def test_a_file_of_version_1_is_of_the_agent_in_whose_home_it_lies(oldest: Path) -> None:
    assert str(oldest) in {row["file"] for row in listed("--agent", "pi")}
    assert " · pi · " in done("tree", oldest).splitlines()[0]
    assert printed_json("stats")["agents"]["pi"]["sessions"] == 2
    oldest.write_text(oldest.read_text().replace("/old", str(oldest.parent)))
    assert done("resume", oldest) == f"cd {oldest.parent} && pi --session {oldest}\n"


def test_a_home_is_walked_whole_and_lists_of_prompts_are_no_sessions(home: Path) -> None:
    result = run("ls", home)
    assert (len(result.stdout.splitlines()), result.stderr) == (len(ALL), "")
    assert agents(home) == ALL
    assert "the list of prompts of Codex" in run("show", home / ".codex/history.jsonl").stderr
    assert run("search", "xyzzy", home).stderr.startswith("Nothing matches xyzzy;")


@pytest.mark.parametrize(
    ("variable", "moved", "value"),
    [
        ("CLAUDE_CONFIG_DIR", ".claude", "{}/.elsewhere"),
        ("CODEX_HOME", ".codex", "~/.elsewhere"),
        ("PI_CODING_AGENT_DIR", ".pi/agent", "{}/.elsewhere"),
        ("PI_CODING_AGENT_SESSION_DIR", ".pi/agent/sessions", "{}/.elsewhere"),
        ("GEMINI_CLI_HOME", ".gemini", "{}/other"),
    ],
)
def test_the_variables_of_the_agents_are_obeyed(
    home: Path, monkeypatch: pytest.MonkeyPatch, variable: str, moved: str, value: str
) -> None:
    target = home / ("other/.gemini" if variable == "GEMINI_CLI_HOME" else ".elsewhere")
    target.parent.mkdir(exist_ok=True)
    shutil.move(home / moved, target)
    assert len(agents()) < len(ALL)
    monkeypatch.setenv(variable, value.format(home))
    assert agents() == ALL
    monkeypatch.setenv(variable, "")  # as if unset
    assert len(agents()) < len(ALL)


@for_each(
    ("environ", "folders"),
    [
        (
            {"HOME": "/u"},
            {
                "claude-code": ["/u/.claude/projects"],
                "codex": ["/u/.codex/sessions", "/u/.codex/archived_sessions"],
                "gemini": ["/u/.gemini/tmp"],
                "pi": ["/u/.pi/agent/sessions", "/u/.omp/agent/sessions"],
            },
        ),
        (
            {"HOME": "/u", "CLAUDE_CONFIG_DIR": "/c", "GEMINI_CLI_HOME": "/g", "CODEX_HOME": "/x"}
            | {"PI_CODING_AGENT_DIR": "/p"},
            {
                "claude-code": ["/c/projects"],
                "codex": ["/x/sessions", "/x/archived_sessions"],
                "gemini": ["/g/.gemini/tmp"],
                "pi": ["/p/sessions"],
            },
        ),
        (
            {"HOME": "/u", "CLAUDE_CONFIG_DIR": "/a,/b", "CODEX_HOME": " /x, ~/y ,,"}
            | {"GEMINI_CLI_HOME": "/g,/h", "PI_CODING_AGENT_SESSION_DIR": "/s,/t"},
            {
                "claude-code": ["/a/projects", "/b/projects"],
                "codex": [
                    *("/x/sessions", "/x/archived_sessions"),
                    *(
                        os.path.expanduser(f"~/y/{name}")
                        for name in ("sessions", "archived_sessions")
                    ),
                ],
                "gemini": ["/g/.gemini/tmp", "/h/.gemini/tmp"],
                "pi": ["/s", "/t"],
            },
        ),
        (
            {"PI_CODING_AGENT_DIR": "/p", "PI_CODING_AGENT_SESSION_DIR": "/s/../t"},
            {"pi": ["/t"]},
        ),
    ],
)
def test_an_environment_decides_where_each_agent_keeps_its_sessions(
    environ: dict[str, str], folders: dict[str, list[str]]
) -> None:
    assert {
        agent.name: folders_of(agent, environ) for agent in AGENTS if agent.name in folders
    } == folders


def test_without_a_home_in_the_environment_the_user_s_own_is_taken(home: Path) -> None:
    assert folders_of(Codex(), {})[0] == os.path.join(os.path.expanduser("~"), ".codex/sessions")


def test_one_folder_in_another_is_walked_once(home: Path) -> None:
    environ = {"CODEX_HOME": str(home / ".codex"), "PI_CODING_AGENT_SESSION_DIR": str(home)}
    assert agent_folders(environ) == [str(home)]


CWDS = [
    "/u/clients/acme/billing",
    "/u/clients/acme",
    "/u/clients/acme-2",
    "C:\\Users\\me\\zorb-app",
]


@for_each(
    ("project", "expected"),
    [
        ("/u/clients/acme", [0, 1]),
        ("~/clients/acme/", [0, 1]),
        ("~/clients", [0, 1, 2]),
        ("acme", [0, 1]),
        ("acme/billing", [0]),
        ("billing/acme", []),
        ("cme", []),
        ("zorb-app", [3]),
        ("c:\\users", [3]),
        ("C:\\Users", [3]),
        ("me/zorb-app", [3]),
        ("/clients", []),
        ("/", [0, 1, 2, 3]),
    ],
)
def test_a_project_is_a_path_or_names_anywhere_in_a_path(
    project: str, expected: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/u")
    for number, cwd in enumerate(CWDS):
        by_hand(tmp_path / f"{number}.jsonl", "hello", cwd=cwd, id=f"id-{number}")
    found = [Path(row["file"]).stem for row in listed(tmp_path, "--project", project)]
    assert sorted(found) == [str(number) for number in expected]


def test_a_word_that_is_near_to_an_agent_s_name_is_told(home: Path) -> None:
    assert "Did you mean 'claude-code'?" in run("ls", "--agent", "claude").stderr
    assert "Did you mean 'claude-code'?" in run("resume", "pi-1", "--in", "claude").stderr
    assert "Did you mean" not in run("ls", "--agent", "xyzzy").stderr


def test_a_project_is_relative_to_the_current_directory_if_it_has_dots(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "own").mkdir()
    monkeypatch.chdir(home / "own")
    said(Store(), "Here", cwd=str(home / "own" / "below"))
    assert [row["firstMessage"] for row in listed("--project", ".")] == ["Here"]
    assert [row["firstMessage"] for row in listed("--project", "../own/below")] == ["Here"]
    (home / "link").symlink_to(home / "own")
    monkeypatch.chdir(home)
    for link in (home / "link", "~/link", "./link", "link", "link/../link/below"):
        assert [row["firstMessage"] for row in listed("--project", link)] == ["Here"], link


@for_each(
    ("words", "expected"),
    [
        (("--agent", "codex"), ["codex", "codex"]),
        (("--agent", "pi", "--agent", "sessiontree"), ["pi", "sessiontree"]),
        (("--project", "/p"), ["pi"]),
        (("--cwd", "own"), ["sessiontree"]),
        (("--since", "2026-06-01", "--agent", "pi"), []),
        (("--limit", "1"), ["sessiontree"]),
    ],
)
def test_the_list_is_of_the_sessions_that_are_asked_for(
    home: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    assert agents(*words) == expected
    sessions = printed_json("stats", *words)["sessions"] if "--limit" not in words else 1
    assert sessions == len(expected)


def test_the_costs_of_all_homes_are_those_of_their_sessions(home: Path) -> None:
    found = printed_json("stats", "--by", "agent")
    assert {row["agent"]: row["answers"] for row in found["rows"]} == {
        "claude-code": 11,
        "codex": 8,
        "gemini": 5,
    }
    plain = printed_json("stats")
    assert (found["usage"], found["copies"]) == (plain["usage"], plain["copies"])
    only = printed_json("stats", "--by", "model", "--agent", "gemini")
    assert [row["model"] for row in only["rows"]] == ["google/gemini-2.5-pro"]


def test_an_imported_session_keeps_its_agent_and_its_title(home: Path, tmp_path: Path) -> None:
    before = {(row["agent"], row["name"] or row["firstMessage"]) for row in listed()}
    for row in listed():
        if row["agent"] is not None:
            import_session(row["file"], tmp_path / "imported")
    after = {(row["agent"], row["name"] or row["firstMessage"]) for row in listed(tmp_path)}
    assert before == after


def test_the_counts_are_those_of_the_opened_session(home: Path) -> None:
    for row in listed():
        with Session.open(row["file"], readonly=True) as session:
            stats = session.stats()
        assert row["usage"] == stats.usage.as_dict()
        assert row["cost"] == (stats.usage.cost or None)
    turns = {row["id"][:8]: row["turns"] for row in listed("--agent", "claude-code")}
    assert turns == {"5e551015": 5}


def test_counts_are_kept_and_made_anew_where_a_file_changes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle() -> None:
        for file in home.rglob("*.jsonl"):
            os.utime(file, (time.time() - 60, time.time() - 60))

    settle()
    first = listed()
    with monkeypatch.context() as patched:
        patched.setattr(counts, "_counts_of", pytest.fail)
        assert listed() == first
    pi = next(home.rglob("*_pi-1.jsonl"))
    pi.write_text(PI + PI.splitlines()[1].replace("a1", "a2") + "\n")
    rows = {row["id"]: row["turns"] for row in listed()}
    assert rows["pi-1"] == 2
    for damaged in (b"", b"no cache", b"\x81\xa1a\x93"):
        (kept,) = (home / ".cache").rglob("counts-*")
        kept.write_bytes(damaged)
        assert {row["id"]: row["turns"] for row in listed()} == rows
    assert kept.stat().st_mode & 0o77 == 0


def test_a_file_that_changed_just_now_is_not_kept(home: Path) -> None:
    pi = next(home.rglob("*_pi-1.jsonl"))
    os.utime(pi)
    assert [row["turns"] for row in listed("--agent", "pi")] == [1]
    times = pi.stat()
    pi.write_text(PI.replace('"user"', '"xxxx"'))  # the same size, and by its times the same file
    os.utime(pi, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert [row["turns"] for row in listed("--agent", "pi")] == [0]


def test_what_is_too_much_for_one_list_is_unknown_and_counted_later(home: Path) -> None:
    sessions = Store(home / ".claude").list()
    ((_, unknown),) = counts.CountCache(None).counted(sessions, 1000)
    ((_, known),) = counts.CountCache(None).counted(sessions, None)
    assert (unknown, known and known.turns) == (None, 5)


def test_a_list_without_a_place_for_its_cache_is_the_same(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = listed()
    (home / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    assert listed() == expected


def test_half_written_rotating_and_foreign_files_hide_nothing(home: Path) -> None:
    projects = home / ".claude/projects"
    (projects / "empty.jsonl").touch()
    (projects / "torn.jsonl").write_text('{"type":"user","sess')
    (projects / "foreign.jsonl").write_text('{"a":1}\n{"a":2}\n')
    (projects / "binary.jsonl").write_bytes(bytes(range(256)) * 100)
    (projects / "gone.jsonl").symlink_to(projects / "nowhere.jsonl")
    (projects / "circle").symlink_to(projects)
    os.mkfifo(projects / "pipe.jsonl")
    half = next(projects.rglob("5e551015*.jsonl"))
    half.write_bytes(half.read_bytes()[:-20])
    for words in (("ls",), ("ls", home), ("stats",), ("search", "hello")):
        result = run(*words)
        assert result.exit_code == 0
        assert "Traceback" not in result.output
        told = [line for line in result.stderr.splitlines() if "Counted once" not in line]
        assert all(line.startswith("Left out: ") for line in told)
        assert len(told) == 6
    assert agents() == ALL


def test_a_session_that_is_compressed_with_gzip_is_named_by_every_command(home: Path) -> None:
    (file,) = home.glob(".claude/projects/*/*.jsonl")
    packed = file.with_name(f"{file.name}.gz")
    packed.write_bytes(gzip.compress(file.read_bytes()))
    id = file.stem
    file.unlink()
    told = f"{packed} is compressed with gzip, which is not read; unpack it with gunzip\n"
    for words in (["ls"], ["stats"], ["search", "."], ["backup"]):
        assert told in run(*words).stderr, words
    assert "1 file that cannot be read as a session" in run("resume", id).stderr
    assert refused("show", packed) == f"Error: {told}"
    renamed = packed.rename(file)
    assert f"{renamed} is compressed with gzip" in run("ls").stderr
    assert f"{renamed} is compressed with gzip" in refused("tree", renamed)


def test_several_homes_of_an_agent_are_used_by_every_command(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = home / ".claude-work"
    (first,) = home.glob(".claude/projects/*/*.jsonl")
    second = (
        work
        / "projects"
        / project_folder(home, home).name
        / first.name.replace("5e551015", "5e551016")
    )
    second.parent.mkdir(parents=True)
    text = first.read_text().replace("5e551015", "5e551016")
    second.write_text(text.replace("/home/user/project", str(home)))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{home}/.claude,{work}")
    assert agents() == ["claude-code", *ALL]
    assert printed_json("stats")["agents"]["claude-code"]["sessions"] == 2
    assert str(second) in {hit["file"] for hit in printed_json("search", ".", "--regex")}
    assert str(second) in {one["source"] for one in printed_json("backup")["new"]}
    found = printed_json("resume", "5e551016")
    id = second.stem
    assert found["command"] == ["env", f"CLAUDE_CONFIG_DIR={work}", "claude", "--resume", id]
    for command in ("show", "tree", "path", "context", "branches", "stats", "files", "verify"):
        assert run(command, id).exit_code == 0, command
    assert id in {one["id"] for one in printed_json("call", "session.list")["items"]}
    assert "5e551016" in completed("show", "5e55")
    told = run("move-project", home, "/new").stderr
    assert "1 session of an agent stays as it is" in told
    assert f"{second} is kept by Claude Code" in refused("trash", second)
    made = printed_json("resume", "pi-1", "--in", "claude-code", "--cwd", home)
    assert made["file"].startswith(f"{home}/.claude/projects/")
    assert made["command"][:2] == ["env", f"CLAUDE_CONFIG_DIR={home}/.claude"]


def test_a_list_without_a_session_names_the_folders_that_it_looked_at(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def told(*words: str) -> str:
        return run("ls", *words).stderr.strip()

    monkeypatch.setenv("CLAUDE_CONFIG_DIR", f"{home}/.claude,/gone")
    databases = (
        "~/.local/share/opencode/opencode.db (XDG_DATA_HOME), "
        "~/.local/share/kilo/kilo.db (XDG_DATA_HOME)"
    )
    more = (
        "~/.local/share/goose/sessions/sessions.db (XDG_DATA_HOME), "
        "~/.local/share/crush/crush.db (XDG_DATA_HOME)"
    )
    there = "~/.claude/projects, ~/.codex/sessions, ~/.pi/agent/sessions, ~/.gemini/tmp"
    assert told("--project", "/nowhere", "--agent", "pi") == (
        f"No session in ~/.local/share/sessiontree or where agents keep theirs ({there}) matches "
        "--agent pi --project '/nowhere'; not there: /gone/projects (CLAUDE_CONFIG_DIR), "
        f"{databases}, {more}"
    )
    for name in os.listdir(home):
        shutil.rmtree(home / name)
    store = "No session in ~/.local/share/sessiontree or where agents keep theirs"
    others = "~/.codex/sessions, ~/.pi/agent/sessions, ~/.gemini/tmp, ~/.factory/sessions"
    others += ", ~/.qwen/projects, ~/.copilot/session-state"
    others += f", {databases}, ~/.cline/data/sessions, ~/.kimi-code/sessions, ~/.openclaw/agents"
    others += f", {more}, ~/.continue/sessions"
    named = "~/.claude/projects (CLAUDE_CONFIG_DIR), /gone/projects (CLAUDE_CONFIG_DIR)"
    assert told() == f"{store}; not there: {named}, {others}"
    monkeypatch.delenv("CLAUDE_CONFIG_DIR")
    assert told() == f"{store}; not there: ~/.claude/projects, {others}"


def test_a_hidden_session_is_off_the_lists_and_still_found(home: Path) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*.jsonl")}
    newest = listed()[0]["id"]
    id = next(row["id"] for row in listed() if row["agent"] == "claude-code")
    told = run("hide", id[:8], newest)
    assert [line[:20] for line in told.stderr.splitlines()] == ["Took off the lists: "] * 2
    assert not {id, newest} & {row["id"] for row in listed()}
    assert {row["id"] for row in listed("--hidden")} == {id, newest}
    assert printed_json("show", "latest")["id"] == listed()[0]["id"]
    assert printed_json("show", id)["id"] == id
    assert id in {hit["session"] for hit in printed_json("search", ".", "--regex")}
    assert printed_json("stats")["agents"]["claude-code"]["sessions"] == 1
    done("hide", "--undo", id, newest)
    assert listed("--hidden") == []
    assert listed()[0]["id"] == newest
    assert {path: path.read_bytes() for path in home.rglob("*.jsonl")} == before


def test_the_newest_session_of_a_directory_is_not_a_hidden_one(home: Path) -> None:
    ids = [said(Store(), text, cwd=os.getcwd()) for text in ("old", "new")]
    done("hide", Path(ids[1]))
    assert "old" in Path(printed_json("resume", "--in", "codex")["file"]).read_text()


def test_the_trash_refuses_an_agent_s_session_and_offers_to_hide_it(home: Path) -> None:
    (row,) = listed("--agent", "claude-code")
    for name in (row["id"], row["id"][:8], row["file"]):
        told = refused("trash", name)
        assert f"{row['file']} is kept by Claude Code, and is never touched" in told
        assert f"'sessiontree hide {row['file']}' takes it off the lists" in told
    assert "no session in" in refused("trash", "nobody")


@pytest.fixture
def moved(home: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The old and the new path of a project with a session of Claude Code, and one below it."""
    old, new = tmp_path / "old", tmp_path / "new"
    (new / "below").mkdir(parents=True)
    (first,) = home.glob(".claude/projects/*/*.jsonl")
    text = first.read_text()
    for number, cwd in enumerate((old, old / "below", f"{old}-beside")):
        file = first.with_name(first.name.replace("5e551015", f"5e55101{number}"))
        file.write_text(
            text.replace("5e551015", f"5e55101{number}").replace("/home/user/project", str(cwd))
        )
    return old, new


def test_a_moved_project_says_that_agents_sessions_stay_and_how_they_go_on(
    moved: tuple[Path, Path],
) -> None:
    old, new = moved
    told = run("move-project", old, new)
    assert (told.exit_code, told.stdout) == (0, "")
    assert told.stderr == (
        f"Moved 0 sessions of {old} to {new}\n2 sessions of agents stay as they are; they are "
        f"listed and continued in {new} from now on ('sessiontree map-path' has the rule)\n"
    )
    assert {str(new), str(new / "below"), f"{old}-beside"} <= {row["cwd"] for row in listed()}
    shutil.move(new, old)
    run("move-project", new, old)
    assert printed_json("map-path") == [{"old": str(new), "new": str(old)}]
    told = run("move-project", old / "below", new)
    assert "\n1 session of an agent stays as it is: 'sessiontree resume" in told.stderr
    assert "nothing is moved" in refused("move-project", old.with_name("other"), new)


def test_a_rule_that_contradicts_another_is_refused_before_anything_is_moved(
    home: Path, moved: tuple[Path, Path]
) -> None:
    old, new = moved
    file = said(Store(), "ours", cwd=str(old))
    run("map-path", new, home)
    assert "map" in refused("move-project", old, new)
    assert os.path.lexists(file)
    assert printed_json("map-path") == [{"old": str(new), "new": str(home)}]


def test_all_sessions_of_a_moved_project_go_on_at_the_new_path(
    home: Path, moved: tuple[Path, Path]
) -> None:
    old, new = moved
    said(Store(), "ours", cwd=str(old))
    before = {file: file.read_bytes() for file in home.glob(".claude/projects/*/*.jsonl")}
    told = printed_json("move-project", old, new, "--resume")
    assert (told["moved"], told["of_agents"]) == (1, 2)
    id = "5e55101{}-0000-4000-8000-000000000001"
    assert set(told["commands"]) == {
        f"cd {new} && claude --resume {id.format(0)}",
        f"cd {new / 'below'} && claude --resume {id.format(1)}",
    }
    assert (
        before.items()
        <= {f: f.read_bytes() for f in home.glob(".claude/projects/*/*.jsonl")}.items()
    )
    again = run("move-project", old, new, "--resume")
    assert set(again.stdout.splitlines()) == set(told["commands"])


@pytest.fixture
def linked(home: Path, tmp_path: Path) -> Path:
    """The folder of a project, to which a link leads from where Claude Code keeps its projects."""
    link = project_folder(home, home)
    linked = tmp_path / "dotfiles" / link.name
    shutil.move(home / ".claude/projects/-home-user-project", linked)
    link.symlink_to(linked)
    for file in linked.glob("*.jsonl"):
        file.write_text(file.read_text().replace("/home/user/project", str(home)))
    return linked


def test_a_project_s_folder_that_is_a_link_is_followed_by_every_command(
    home: Path, linked: Path
) -> None:
    file = home / ".claude/projects" / linked.name / next(linked.glob("*.jsonl")).name
    (row,) = listed("--agent", "claude-code")
    assert row["file"] == str(file)
    assert str(file) in {hit["file"] for hit in printed_json("search", ".", "--regex")}
    assert printed_json("stats")["agents"]["claude-code"]["sessions"] == 1
    found = printed_json("resume", row["id"])
    assert (found["file"], found["converted"]) == (str(file), False)
    kept = printed_json("backup")
    assert str(file) in {one["source"] for one in kept["new"]}


def test_links_to_folders_are_followed_once_and_never_in_a_circle(home: Path, linked: Path) -> None:
    before = listed()
    projects = home / ".claude/projects"
    (projects / "again").symlink_to(projects / linked.name)
    (projects / "beside").symlink_to(home / ".codex/sessions")
    (linked / "up").symlink_to(linked.parent)
    (projects / "round").symlink_to(home)
    (projects / "nowhere").symlink_to(home / "gone")
    result = run("ls", "--agent", "claude-code")
    assert result.stderr == f"Left out: {projects}/nowhere is a link that leads nowhere\n"
    assert agents() == ALL
    assert {row["id"] for row in listed()} == {row["id"] for row in before}


def test_a_confined_scope_enters_no_link_that_leads_outside(home: Path, linked: Path) -> None:
    problems: list[str] = []
    found = [one.made_by for one in Scope().sessions(Selection(), problems.append)]
    assert "claude-code" not in found
    link = home / ".claude/projects" / linked.name
    assert problems == [f"{link} is a link that leads outside the folders that can be reached"]


@pytest.mark.unprivileged
def test_a_folder_that_may_not_be_read_is_one_line(home: Path) -> None:
    (home / ".codex").chmod(0)
    result = run("ls")
    (home / ".codex").chmod(0o700)
    assert "cannot read" in result.stderr
    assert len(result.stdout.splitlines()) == len(ALL) - 2


def test_an_id_or_a_name_finds_the_session_of_an_agent(home: Path) -> None:
    assert "Count the files" in done("context", "pi-1")
    assert "5e551015" in done("show", "5e55")


@for_each(
    ("words", "roles"),
    [
        (("LIST the", "--role", "prompt"), []),  # a capital: case counts
        (("list the", "--role", "prompt"), ["user"] * 2),
        (("the list", "--role", "prompt"), ["user"] * 2),  # all words, in any order
        (('"the list"', "--role", "prompt"), []),  # a phrase
        (('"list the" files', "--role", "prompt"), ["user"]),
        (("LIST THE", "-i", "--role", "prompt"), ["user"] * 2),
        (("LIST", "-s", "--role", "prompt"), []),
        (("lis. the", "--regex", "--role", "prompt"), ["user"] * 2),
        (("file", "--role", "tool"), ["toolResult"]),
        (("file", "--role", "toolResult"), ["toolResult"]),
        (("file", "--role", "prompt"), ["user"]),
        (("session_context",), []),
        (("session_context", "--everything"), [None] * 4),
    ],
)
def test_a_search_means_what_a_person_means(
    home: Path, words: tuple[str, ...], roles: list[str | None]
) -> None:
    found = printed_json("search", *words, "--agent", "gemini")
    assert [hit["role"] for hit in found] == roles


def test_results_of_claude_code_are_of_the_tool_and_no_prompts(home: Path) -> None:
    every = printed_json("search", ".", "--regex", "--agent", "claude-code")
    results = [hit for hit in every if hit["speaker"] == "tool"]
    assert results
    assert {hit["role"] for hit in results} == {"user"}
    prompts = printed_json("search", ".", "--regex", "--agent", "claude-code", "--role", "prompt")
    assert len(prompts) == 5
    assert all(hit["prompt"] for hit in prompts)
    of_users = printed_json("search", ".", "--regex", "--agent", "claude-code", "--role", "user")
    assert not [hit for hit in of_users if hit["speaker"] == "tool"]
    answers = [hit for hit in every if hit["usage"] is not None]
    assert {hit["model"] for hit in answers} == {"claude-opus-4-6"}
    assert {hit["title"] for hit in every} == {"HELLO"}


def test_the_sessions_are_searched_in_the_order_of_the_list(home: Path) -> None:
    os.utime(next(home.rglob("*_pi-1.jsonl")), (2e9, 2e9))  # a copied file is no newer session
    listed = [one["id"] for one in printed_json("ls")]
    found = [hit["session"] for hit in printed_json("search", "files")]
    assert len({*found}) > 1
    assert list(dict.fromkeys(found)) == [id for id in listed if id in found]


def test_a_hit_names_the_turn_that_it_is_in(home: Path, tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl") as session:
        session.append_message({"role": "system", "content": "zz"})
        first = session.append_message({"role": "user", "content": "zz 1"})
        session.append_message({"role": "assistant", "content": "zz 1"})
        session.append_message({"role": "user", "content": "zz 2"})
        session.branch(first)
        session.append_message({"role": "assistant", "content": "zz 1"})
        session.append_message({"role": "user", "content": "zz 3"})
    found = printed_json("search", "zz", tmp_path / "s.jsonl")
    assert [hit["turn"] for hit in found] == [None, 1, 1, 2, 1, 3]
    of_agent = printed_json("search", ".", "--regex", "--agent", "claude-code")
    prompts = [hit["turn"] for hit in of_agent if hit["prompt"]]
    assert sorted(prompts) == [1, 2, 3, 4, 5]
    assert {hit["turn"] for hit in of_agent if (hit["lane"] or "").startswith("agent-")} <= {None}


WRITER = """
import os, sys
folder, line = sys.argv[1], sys.argv[2].encode() + b"\\n"
print("ready", flush=True)
for number in range(10**6):
    with open(folder + "/live.jsonl", "ab", buffering=0) as file:
        file.write(line[:20])
        file.write(line[20:])
    if number % 50 == 0:  # rotated
        os.replace(folder + "/live.jsonl", folder + "/old.jsonl")
        os.unlink(folder + "/old.jsonl")
"""


def test_an_agent_that_writes_and_rotates_meanwhile_disturbs_no_other(home: Path) -> None:
    folder = next(home.rglob("*_pi-1.jsonl")).parent
    line = PI.splitlines()[0].replace("pi-1", "live")
    command = [sys.executable, "-c", WRITER, str(folder), line]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        try:
            assert writer.stdout is not None
            writer.stdout.readline()
            for words in (("ls",), ("stats",), ("search", "files")) * 3:
                result = run(*words)
                assert result.exit_code == 0
                assert "Traceback" not in result.output
                told = result.stderr.splitlines()
                words_of_it = ("live", "old", "1 session not counted", "Counted once: 2 answers")
                assert all(any(w in line for w in words_of_it) for line in told), told
                if words == ("ls",):
                    assert result.stdout.count("Count the files") == 1
        finally:
            writer.kill()


def test_the_sessions_of_a_fork_of_pi_are_listed_as_those_of_pi(home: Path) -> None:
    fork = home / ".omp/agent/sessions/--p--/2026-01-02T00-00-00-000Z_omp-1.jsonl"
    fork.parent.mkdir(parents=True)
    fork.write_text(PI.replace("pi-1", "omp-1"))
    found = {row["id"]: row["agent"] for row in listed("--agent", "pi")}
    assert found == {"pi-1": "pi", "omp-1": "pi"}
