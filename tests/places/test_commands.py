"""Commands work on sessions at addresses, in one process: the place here is in memory."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from sessiontree import Session, Store
from sessiontree.cli import arguments, main
from sessiontree.cli import copy as unite
from sessiontree.errors import UsageError
from sessiontree.importing.importer import import_session
from sessiontree.library.root import default_root
from sessiontree.web.sessions import Sessions
from tests.agents.conftest import SESSION
from tests.support import transcripts as agents
from tests.support.conversation import assistant, user
from tests.support.table import for_each

NUMBERS = itertools.count()


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("HOME", "SESSIONTREE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("PI_CODING_AGENT_DIR", "GEMINI_CLI_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.delenv("SESSIONTREE_STORE", raising=False)
    url = f"memory://commands-{next(NUMBERS)}/team"
    with Store(url).create(cwd="/p", id="aaaa1111", name="The first") as session:
        session.append_message(user("hello"))
        session.append_message(assistant("good day"))
    return url


def run(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == status, done.output
    return done.output


def test_a_list_and_a_search_take_an_address(url: str) -> None:
    for words in (["ls", url], ["ls", "--store", url]):
        listed = json.loads(run(*words, "--json"))
        assert [one["id"] for one in listed] == ["aaaa1111"]
        assert listed[0]["file"] == Store(url).find("aaaa").file
    assert json.loads(run("ls", url, "--cwd", "/q", "--json")) == []
    hits = json.loads(run("search", "good", url, "--json"))
    assert [hit["session"] for hit in hits] == ["aaaa1111"]
    assert [hit["title"] for hit in hits] == ["The first"]
    assert [hit["turn"] for hit in hits] == [1]


def test_a_session_that_is_in_two_of_the_addresses_is_listed_once(url: str) -> None:
    [file] = {one["file"] for one in json.loads(run("ls", url, "--json"))}
    listed = json.loads(run("ls", url, file, os.path.dirname(file), url, "--json"))
    assert [one["file"] for one in listed] == [file]


def test_the_sessions_of_a_store_are_counted_and_counted_again_when_they_grow(url: str) -> None:
    for turns in (1, 2):
        summed = json.loads(run("stats", url, "--json"))
        assert (summed["sessions"], summed["turns"]) == (1, turns)
        with Store(url).open("aaaa") as session:
            session.append_message(user("again"))


def test_a_session_is_named_by_its_address_or_its_id(url: str) -> None:
    file = Store(url).find("aaaa").file
    for words in ([file], ["aaaa", "--store", url], ["The first", "--store", url]):
        assert "good day" in run("context", *words)
    run("label", "aaaa", "@", "here", "--store", url)
    run("append", file, "--text", "more")
    with Store(url).open("aaaa", readonly=True) as session:
        assert [one["content"] for one in session.context().messages][-1] == "more"


def test_the_variable_names_the_store(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    assert "good day" in run("context", "aaaa")
    assert "Moved" in run("trash", "aaaa")
    assert "aaaa1111" in run("restore", "--json")
    run("restore", "aaaa")
    assert Store(url).latest() is not None


def test_an_option_names_the_store_of_its_command_alone(url: str) -> None:
    run("context", "aaaa", "--store", url)
    assert "aaaa" in run("context", "aaaa", status=1)


def test_no_command_leaves_its_store_behind_also_if_its_arguments_are_refused(url: str) -> None:
    before = default_root()
    for words, status in (
        (("context", "aaaa", "--store", url), 0),
        (("context", "zzzz", "--store", url), 1),
        (("context", "--store", url), 2),
        (("context", "aaaa", "--store", url, "--no-such-option"), 2),
        (("context", "--store", url, "--help"), 0),
        (("context", "aaaa", "--store", ""), 1),
        (("call", "--store", url, "session.list", "--no-such-option"), 2),
        (("call", "--store", url, "session.list", "--store", f"{url}/other"), 0),
    ):
        run(*words, status=status)
        assert default_root() == before, words
        assert "SESSIONTREE_STORE" not in os.environ, words


def test_threads_and_programs_of_a_command_have_its_store(url: str) -> None:
    roots = []

    @click.command()
    @arguments.default_store
    def probe() -> None:
        with ThreadPoolExecutor(1) as threads:
            roots.append(threads.submit(default_root).result())
        roots.append(asyncio.run(asyncio.to_thread(default_root)))
        run("context", "aaaa", "--store", f"{url}/other", status=1)  # a command within a command
        roots.append(default_root())

    done = CliRunner().invoke(click.Group(commands=[probe]), ("probe", "--store", url))
    assert (done.exit_code, roots) == (0, [url] * 3), done.output
    print_store = "sh -c 'cat > /dev/null; echo $SESSIONTREE_STORE'"
    run("branch", "aaaa", "@~1", "--summarizer", print_store, "--store", url)
    assert url in run("context", "aaaa", "--store", url)


SECRET = "?secret_access_key=hunter2"
PLACE = "memory://me:hunter2@secret"


@pytest.fixture
def guarded(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """The address of a session, and of its store, both with a password and a secret option."""
    monkeypatch.chdir(tmp_path)
    store = f"{PLACE}-{next(NUMBERS)}/team"
    with Session.create(f"{store}/a.jsonl{SECRET}", cwd="/p", id="aaaa1111") as session:
        session.append_message(user("hello"))
    yield f"{store}/a.jsonl{SECRET}", f"{store}{SECRET}"
    for folder, _, names in os.walk(tmp_path):
        for name in names:
            assert b"hunter2" not in Path(folder, name).read_bytes(), name


def test_what_commands_print_has_no_secret_of_an_address(guarded: tuple[str, str]) -> None:
    file, store = guarded
    new = file.replace("a.jsonl", "{}.jsonl")
    for number, words in enumerate(
        (
            ("new", new),
            ("new", new, "--json"),
            ("record", new),
            ("fork", file, new),
            ("fork", file, "@", new, "--json"),
            ("fork", file, "--store", store),
            ("fork", file, file),
            ("export-branch", file, "@", new),
            ("export-branch", file, "@", new, "--json", "--redact"),
            ("copy", file, new),
            ("copy", store, new.removesuffix(f".jsonl{SECRET}") + SECRET),
            ("import", "nosuch", "-o", store),
            ("mcp", "--root", store, "--install", "claude-code"),
            ("mcp", "--store", store, "--install", "codex"),
            # wrong uses
            ("branch", file, "@", new),
            ("export", file, new),
            ("context", file, new),
            ("handle", file),
            ("resume", file),
            ("trash", file),
            ("restore", file),
            ("ls", f"--stroe={store}"),
            # the last, which move it
            ("trash", file, "--store", store),
            ("restore", "latest", "--store", store),
            ("trash", file, "--store", store, "--json"),
        )
    ):
        given = [word.format(number) if "{}" in word else word for word in words]
        done = CliRunner().invoke(main, given, input="{}\n")
        assert "hunter2" not in done.output, words
        assert isinstance(done.exception, SystemExit | None), words


def test_a_fork_and_an_export_are_named_without_a_secret(guarded: tuple[str, str]) -> None:
    file, store = guarded
    with Session.open(file, readonly=True) as session:
        copies = [
            session.fork(file.replace("/a.", "/b.")),
            session.export_branch("@", file.replace("/a.", "/c.")),
            Store(store).fork(file),
        ]
    for copy in copies:
        assert "hunter2" not in copy
        Session.open(copy, readonly=True).close()
    with pytest.raises(UsageError, match="name the store at its address") as raised:
        Store("here").trash(file)
    assert "hunter2" not in str(raised.value)


def test_a_folder_is_named_by_its_url_too(url: str, tmp_path: Path) -> None:
    store = tmp_path / "a b"
    Store(store).create(cwd="/p", id="bbbb2222", name="There").close()
    for words in (["ls", store.as_uri()], ["ls", "--store", store.as_uri()]):
        assert [one["id"] for one in json.loads(run(*words, "--json"))] == ["bbbb2222"]
    assert "Moved" in run("trash", "bbbb", "--store", store.as_uri())


def test_a_session_at_an_address_is_trashed_with_the_store_named(url: str) -> None:
    assert "--store ADDRESS" in run("trash", Store(url).find("aaaa").file, status=1)


@pytest.mark.parametrize("how", ["--root", "--store", "SESSIONTREE_STORE"])
@pytest.mark.parametrize(
    "store", ["{}", "file://{}", "s3://team/p?access_key_id=X&secret_access_key=X"]
)
def test_the_server_is_entered_with_an_agent_with_its_store(
    how: str, store: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    store = store.format(folder)
    if how == "SESSIONTREE_STORE":
        monkeypatch.setenv(how, store)
    words = () if how == "SESSIONTREE_STORE" else (how, store)
    told = run("mcp", *words, "--install", "claude-code")
    entered = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["sessiontree"]
    meant = "s3://team/p" if store.startswith("s3") else str(folder)
    assert entered["args"][-2:] == ["--root", meant]
    assert ("the password is left out" in told) == store.startswith("s3")


def test_a_fork_finds_its_session_in_the_store_that_is_named(url: str, tmp_path: Path) -> None:
    made = run("fork", "aaaa", "--store", url).splitlines()[-1]
    assert made.startswith(url)
    run("fork", "aaaa", "@", str(tmp_path / "copy.jsonl"), "--store", url)
    assert "good day" in run("context", str(tmp_path / "copy.jsonl"))
    folder = tmp_path / "other"
    Store(folder).create(cwd="/p", id="bbbb2222", name="There").close()
    with Store(folder).open("bbbb") as session:
        session.append_message(user("hello"))
    assert str(folder) in run("fork", "bbbb", "--store", str(folder))


def test_the_garbage_of_a_session_is_removed_in_the_store_that_is_named(url: str) -> None:
    file = Store(url).find("aaaa").file
    assert "nothing to remove" in run("gc", "aaaa", "--store", url)
    assert "garbage in 0 of 1 session" in run("gc", "--store", url)
    assert "give FILE, or --store without it" in run("gc", "--store", "--", file, status=2)


def test_a_new_session_without_a_file_is_made_in_the_store(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "sessions"
    folder.mkdir()
    for store in (url, str(folder)):
        made = run("new", "--store", store, "--name", "Own", "--cwd", "/q", "--id", "bbbb2222")
        assert f"Created {store}/+q/" in made
        assert Store(store).find("Own").cwd == "/q"
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    run("new", "--id", "cccc3333")
    assert Store(url).find("cccc").id == "cccc3333"
    assert "there is no folder nosuch" in run("new", "--store", "nosuch", status=1)


def test_a_name_for_a_new_session_is_not_taken_for_a_file_beside_the_store(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("Chat", "chat.jsonl", f"{url}/p/b.jsonl"):
        told = run("new", file, "--store", url, status=2)
        assert f"--store names a store, which chooses the file: leave out '{file}'" in told
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    assert "leave out 'Chat'" in run("new", "Chat", status=2)
    assert not os.listdir(tmp_path)
    for file in ("./Chat", "chat.jsonl"):
        run("new", file)
        assert os.path.isfile(file)


def test_an_address_that_no_list_would_have_is_refused_for_a_new_session(url: str) -> None:
    file = Store(url).find("aaaa").file
    for words in (
        ("new", f"{url}/p/z"),
        ("new", url),
        ("new", url.removesuffix("/team")),
        ("record", f"{url}/p/z"),
        ("fork", file, f"{url}/p/z"),
        ("export-branch", file, "@", f"{url}/p/z"),
    ):
        done = CliRunner().invoke(main, words, input="{}\n")
        assert (done.exit_code, "ends in /PROJECT/NAME.jsonl" in done.output) == (1, True), words
    assert [one.id for one in Store(url).list()] == ["aaaa1111"]


def test_no_session_is_made_in_the_trash_of_a_place(url: str, tmp_path: Path) -> None:
    file = Store(url).find("aaaa").file
    chat, theirs = tmp_path / "chat.jsonl", tmp_path / f"{SESSION}.jsonl"
    Session.create(chat, cwd="/p").close()
    agents.written(theirs, [agents.user("u1", None), agents.assistant("a1", "u1", "m1")])
    new = f"{url}/.trash/new.jsonl"
    for words in (
        ("new", new),
        ("record", new),
        ("fork", file, new),
        ("export-branch", file, "@", new),
        ("copy", str(chat), new),
        ("import", str(theirs), "-o", f"{url}/.trash"),
    ):
        done = CliRunner().invoke(main, words, input="{}\n")
        assert (done.exit_code, "is in the trash" in done.output) == (1, True), (words, done.output)
    trashed = Store(url).trash(file)
    assert [one.file for one in Store(url).trashed()] == [trashed]
    run("trash", "--empty", "--older-than", "0d", "--store", url)


def test_a_file_with_another_ending_is_not_copied_where_no_list_would_have_it(
    url: str, tmp_path: Path
) -> None:
    Session.create(tmp_path / "chat", cwd="/p").close()
    assert "ends in /PROJECT/NAME.jsonl" in run("copy", str(tmp_path / "chat"), url, status=1)
    run("copy", str(tmp_path / "chat"), f"{url}/p/chat.jsonl")


def test_every_command_of_a_session_takes_a_store(url: str) -> None:
    assert "0 blobs" in run("blob", "ls", "aaaa", "--store", url)
    assert "damage" in run("blob", "verify", "aaaa", "--store", url)
    handle = "session@2.0.0::entry:aaaa1111:@"
    assert "no file aaaa" in run("handle", "resolve", handle, "--session", "aaaa", status=1)
    told = CliRunner().invoke(
        main, ("handle", "resolve", handle, "--session", "aaaa", "--store", url)
    )
    assert "no file aaaa" not in told.output
    for words in (
        ("call", "session.list", "--store", url, "--json"),
        ("call", "session.list", "--json", "--store", url),
        ("call", "--store", url, "session.list", "--json"),
    ):
        assert "aaaa1111" in run(*words), words
    assert not os.environ.get("SESSIONTREE_STORE")
    assert "aaaa1111" not in run("call", "session.list", "--json")


def test_a_command_that_is_named_in_a_message_is_quoted_once(url: str) -> None:
    Store(f"{url}~").create(cwd="/p", id="aaaa2222").close()
    for named, store in ((url, url), (f"{url}~", f"'{url}~'")):
        outer = "'" if named == store else ""
        for words in (("trash", "nosuch"), ("restore", "nosuch"), ("trash", "aaaa")):
            done = CliRunner().invoke(main, (*words, "--store", named))
            command = "ls" if done.exit_code and words[0] == "trash" else "restore --store"
            assert f"{outer}sessiontree {command} {store}{outer} lists" in done.output
        run("restore", "latest", "--store", named)


def test_a_sync_with_nothing_names_the_command_that_makes_a_copy(url: str) -> None:
    file = Store(url).find("aaaa").file
    for words in ((file, f"{url}-none/p/a.jsonl"), (file, f"{url}-none")):
        assert "'sessiontree copy' makes the first copy" in run("sync", *words, status=1)


def test_a_sync_of_a_store_takes_an_address_that_has_nothing_as_an_empty_store(url: str) -> None:
    run("sync", url, f"{url}-none")
    assert [one.id for one in Store(f"{url}-none").list()] == ["aaaa1111"]


@for_each("command", ["copy", "sync"])
def test_an_interrupted_copy_says_how_it_is_continued(
    command: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copies"
    target.mkdir()

    def interrupt(done: object) -> None:
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(unite, "_tell_copied", interrupt)
        patched.setattr(unite, "_tell_synced", interrupt)
        assert "run the same command again" in run(command, url, str(target), status=130)
    run(command, url, str(target))
    assert [one.id for one in Store(target).list()] == ["aaaa1111"]


def test_no_command_shows_the_password_of_an_address(tmp_path: Path) -> None:
    url = "postgresql://me:hunter2@127.0.0.1:1/db"
    for words in (
        ("ls", url),
        ("ls", "--store", url),
        ("trash", "aaaa", "--store", url),
        ("context", f"{url}/p/a.jsonl"),
        ("search", "x", url),
        ("copy", f"{url}/p/a.jsonl", str(tmp_path)),
        ("append", f"{url}/p/a.jsonl", "--text", "x"),
    ):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 1 or "me@127.0.0.1" in done.output, words
        assert "hunter2" not in done.output, words
        assert "me@127.0.0.1:1/db" in done.output, words


UNREACHABLE = "postgresql://me@127.0.0.1:1/db"


@for_each(
    "command",
    [
        *("ls", "ls --json", "search x", "search x --json", "stats", "stats --by model"),
        *("history x.py", "call session.list", "call session.search --pattern x"),
    ],
)
def test_a_store_that_cannot_be_reached_is_an_error_and_no_empty_list(
    command: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = command.split()
    is_call = words[0] == "call"
    for more in ([], [url]):  # another place that can be read makes no difference
        if not is_call:
            _fails([*words, UNREACHABLE, *more])
    monkeypatch.setenv("SESSIONTREE_STORE", UNREACHABLE)
    _fails(words)


@for_each("command", ["ls", "search x", "stats"])
def test_a_session_that_is_not_at_its_address_is_an_error(command: str, url: str) -> None:
    done = CliRunner().invoke(main, [*command.split(), f"{url}/p/none.jsonl"])
    assert done.exit_code == 1
    assert "there is no session" in done.output
    _fails([*command.split(), f"{UNREACHABLE}/p/a.jsonl"])


def test_the_page_of_sessions_shows_what_can_be_read_beside_a_store_that_cannot_be_reached(
    tmp_path: Path,
) -> None:
    with Session.create(tmp_path / "a.jsonl", id="a", cwd="/p"):
        pass
    sessions = Sessions([UNREACHABLE, str(tmp_path)])
    assert [one.id for one in sessions.read()] == ["a"]
    assert sessions.problems[0].startswith("cannot connect to postgresql://me@127.0.0.1:1/db")


def _fails(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1, (words, done.output)
    assert done.stdout == "", words
    assert done.stderr.startswith("Error: cannot connect to postgresql://me@127.0.0.1:1/db"), words


def test_an_agent_goes_on_with_the_session_at_an_address(url: str, tmp_path: Path) -> None:
    file = Store(url).find("aaaa").file
    words = ("--in", "pi", "--cwd", str(tmp_path), "--json")
    made = json.loads(CliRunner().invoke(main, ["resume", file, *words]).stdout)
    with Session.open(made["file"], readonly=True) as session:
        assert [message["role"] for message in session.context().messages] == ["user", "assistant"]
    gone = file.replace("aaaa1111", "bbbb2222")
    assert "there is no session team/" in run("resume", gone, *words, status=1)


def test_a_search_that_finds_nothing_says_that_blobs_were_left_out(url: str) -> None:
    hint = "--blobs searches large texts too"
    assert hint not in run("search", "nowhere", url)
    file = Store(url).find("aaaa").file
    with Session.open(file, spill_over=100) as session:
        session.append_message(assistant("x" * 200))
    assert hint in run("search", "nowhere", url)
    assert hint not in run("search", "nowhere", file)  # a named session is searched whole
    assert hint not in run("search", "nowhere", url, "--blobs")


@for_each(
    "words",
    [
        ("ls", "--store"),
        ("gc", "--store"),
        ("backup", "--store"),
        ("trash", "aaaa", "--store"),
        ("move-project", "/p", "/q", "--store"),
    ],
)
def test_the_address_of_a_session_is_not_taken_for_a_store(
    words: tuple[str, ...], url: str
) -> None:
    before = json.loads(run("ls", url, "--json"))
    file = before[0]["file"]
    told = run(*words, file, status=1)
    what = "is the address of a session, not of a store; leave out its name"
    assert told == f"Error: {file} {what}\n"
    assert json.loads(run("ls", url, "--json")) == before


def test_a_session_at_an_address_is_no_source_of_an_import(url: str, tmp_path: Path) -> None:
    file = Store(url).find("aaaa").file
    with pytest.raises(UsageError, match="is an address; give the path of a file"):
        import_session(file, tmp_path)


def test_an_import_at_an_address_whose_agent_went_on_says_so(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESSIONTREE_STORE", url)
    file = tmp_path / "projects" / "-p" / f"{SESSION}.jsonl"
    lines = [agents.user("u1", None), agents.assistant("a1", "u1", "m1")]
    agents.written(file, lines)
    imported = import_session(file)
    assert "changed later" not in run("label", imported.id, "@", "mark")
    later = agents.user("u2", "a1", timestamp="2030-01-01T00:00:00.000Z")
    agents.written(file, [*lines, later])
    os.utime(file, (4_000_000_000, 4_000_000_000))
    told = f"{file} of Claude Code changed later; 'sessiontree backup' adds what is new"
    assert told in run("label", imported.id, "@", "other")
    assert "say u2" in run("tree", imported.id)  # which reads the file that has more
