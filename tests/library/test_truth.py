"""Lists, sums, hits and resume commands say what is true, before and after all that copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import permutations
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from sessiontree.library.counts import BY
from tests.library.truth import LINES, MODELS, Answer, Conversation, MadeHome
from tests.support.homes import empty_home, settle
from tests.support.soak import in_soak
from tests.support.terminal import done, run


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return empty_home(tmp_path, monkeypatch)


class Check:
    """Compares what commands say with the truth."""

    def __init__(self, made: MadeHome) -> None:
        self.made = made

    def all(self) -> None:
        self.rows()
        self.sums()
        self.hits()
        self.resumes()

    def rows(self) -> None:
        while True:  # a list counts some of the files at a time
            rows = {row["id"]: row for row in json.loads(done("ls", "--json"))}
            if all(row["turns"] is not None for row in rows.values()):
                break
        assert len(rows) == len(json.loads(done("ls", "--json")))
        assert sorted(rows) == sorted(one.id for one in self.made.all)
        for one in self.made.all:
            row = rows[one.id]
            assert (row["agent"], row["turns"]) == (one.agent, len(one.prompts)), one
            assert row["file"] in one.files, (row["file"], one)
            assert datetime.fromisoformat(row["modified"]) == one.at, one
            assert tokens(row["usage"]) == sum_of(one.answers), one
            assert row["estimated"], one
            assert not row["cost"], one
        for one in self.made.all[:: max(1, len(self.made.all) // 4)]:
            of_one = json.loads(done("stats", one.id, "--json"))
            assert tokens(of_one["usage"]) == sum_of(one.answers), one

    def sums(self) -> None:
        answers = self.made.answers()
        agents = {each.agent for each in answers}
        of_agents = {name: [each for each in answers if each.agent == name] for name in agents}
        sums = json.loads(done("stats", "--json"))
        assert sums["sessions"] == len(self.made.all)
        assert sums["turns"] == sum(len(one.prompts) for one in self.made.all)
        for by in ("model", "day"):
            by_name = json.loads(done("stats", "--by", by, "--json"))
            assert by_name["answers"] == len(answers)
            for usage in (sums["usage"], by_name["usage"]):
                assert tokens(usage) == sum_of(answers), by
        rows = json.loads(done("stats", "--by", "agent", "--json"))["rows"]
        by_agent = {row["agent"]: tokens(row["usage"]) for row in rows}
        assert by_agent == {name: sum_of(found) for name, found in of_agents.items()}

        middle = sorted(one.at for one in self.made.all)[len(self.made.all) // 2]
        for since in (middle - timedelta(seconds=30), middle - timedelta(minutes=7)):
            words = "--since", since.isoformat(), "--json"
            usages = [json.loads(done("stats", *words))["usage"]]
            usages += [json.loads(done("stats", "--by", by, *words))["usage"] for by in BY]
            assert usages == [usages[0]] * len(usages)

    def hits(self) -> None:
        for one in self.made.all[:: max(1, len(self.made.all) // 8)]:
            found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
            alike = [other for other in self.made.all if other.word == one.word]
            assert len(found) == sum(len(other.prompts) for other in alike), one
            assert {hit["session"] for hit in found} == {other.id for other in alike}

    def resumes(self) -> None:
        for one in self.made.all[:: max(1, len(self.made.all) // 8)]:
            made = json.loads(done("resume", one.id, "--json"))
            assert made["agent"] == one.agent
            assert made["converted"] is False
            assert made["file"] in one.files
            assert {one.id, one.own_id, str(one.file)} & {*made["command"]}, made
            assert json.loads(done("show", one.id[:13], "--json"))["id"] == one.id


def tokens(usage: dict[str, int]) -> tuple[int, ...]:
    return usage["input"], usage["output"], usage["cacheRead"]


def sum_of(answers: list[Answer]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*((one.new, one.out, one.read) for one in answers), strict=True)))


def take_over(made: MadeHome, one: Conversation, agent: str) -> None:
    """An agent goes on with a session of another one."""
    resumed = json.loads(done("resume", one.id, "--in", agent, "--json"))
    one.file, one.own_id, one.agent = Path(resumed["file"]), resumed["command"][-1], agent
    made.go_on(one, one.at + timedelta(days=300))


@in_soak("count", 16, 300)
def test_all_commands_agree_with_the_truth_whatever_is_copied(top: Path, count: int) -> None:
    made = MadeHome(top, count)
    check = Check(made)
    check.all()

    done("backup")
    check.all()
    done("backup")
    check.all()

    for agent, target in zip(MODELS, [*MODELS][1:] + [*MODELS][:1], strict=True):
        one = made.of(agent)[-1]
        done("resume", one.id, "--in", target)
    check.all()
    done("backup")
    check.all()

    one = made.of("claude-code")[0]
    done("label", one.id, "@", "mark")
    done("rename", one.id, "A name of mine")
    check.all()
    assert json.loads(done("show", "A name of mine", "--json"))["id"] == one.id
    assert "A name of mine" in done("ls")
    for text in ("mark", "a name of mine"):
        (hit,) = json.loads(done("search", f'"{text}"', "--json"))
        assert hit["session"] == one.id

    hidden = made.of("codex")[0].id
    done("hide", hidden)
    assert hidden not in {row["id"] for row in json.loads(done("ls", "--json"))}
    assert [row["id"] for row in json.loads(done("ls", "--hidden", "--json"))] == [hidden]
    check.sums()
    check.hits()
    check.resumes()
    done("hide", "--undo", hidden)
    check.rows()

    for agent in MODELS:
        made.go_on(made.of(agent)[0])
    check.all()
    done("backup")
    check.all()

    done("import", made.of("pi")[1].file)
    done("copy", top / "store", top / "other")
    made.go_on(made.of("claude-code")[1])
    done("backup")
    done("sync", top / "store", top / "other")
    check.all()
    done("sync", top / "other", top / "store")
    check.all()


def test_a_session_that_another_agent_took_over_is_one_and_its_own(top: Path) -> None:
    made = MadeHome(top, 12)
    check = Check(made)
    begun = {agent: made.of(agent) for agent in MODELS}
    taken: list[Conversation] = []

    def take_all_over(place: int) -> None:
        """Each agent goes on with a session of another one."""
        agents = [*MODELS]
        for number, agent in enumerate(agents):
            one, target = begun[agent][place], agents[(number + place + 1) % 4]
            take_over(made, one, target)
            taken.append(one)

    take_all_over(0)
    check.all()
    done("backup")
    check.all()
    for one in taken:
        made.go_on(one)
        done("label", one.id, "@", "mark")
    check.all()
    take_all_over(1)  # of what is in the store already
    check.all()
    done("backup")
    check.all()
    take_all_over(2)
    done("backup")
    done("backup")
    check.all()
    for one in taken:
        assert one.word in done("export", one.id)


@in_soak("chains", 1, 6)
def test_a_session_that_changed_its_agent_twice_is_one(top: Path, chains: int) -> None:
    made = MadeHome(top, 4 * chains)
    check = Check(made)
    begun = {agent: made.of(agent) for agent in MODELS}
    for number, chain in enumerate(_chains(chains)):
        one = begun[chain[0]].pop()
        for agent in chain[1:]:
            take_over(made, one, agent)
            if number % 2:
                done("backup")
    check.all()
    done("backup")
    check.all()
    done("backup")
    check.all()


@pytest.mark.parametrize("begun", MODELS)
def test_a_session_that_comes_back_to_an_agent_gets_another_file_of_it(
    top: Path, begun: str
) -> None:
    made = MadeHome(top, 8)
    check = Check(made)
    first, second = [*MODELS, *MODELS][(at := [*MODELS].index(begun)) + 1 : at + 3]
    for one, chain in zip(made.of(begun), ((first,), (first, second)), strict=True):
        files = [one.file]
        for agent in (*chain, begun, *chain, begun):
            take_over(made, one, agent)
            assert one.file not in files
            files.append(one.file)
        before = [file.read_bytes() for file in files]
        resumed = json.loads(done("resume", one.id, "--in", begun, "--json"))
        assert (resumed["converted"], resumed["file"]) == (False, str(one.file))
        assert [file.read_bytes() for file in files] == before
        for id in {one.id, one.own_id} - {str(one.file)}:
            assert json.loads(done("show", id, "--json"))["file"] == str(one.file)
    check.all()
    done("backup")
    check.all()
    for one in made.of(begun):
        made.go_on(one)
    check.all()
    done("backup")
    done("backup")
    check.all()
    for one in made.of(begun):
        assert f"question {len(one.prompts) - 1}" in done("export", one.id)


def _chains(count: int) -> Iterator[tuple[str, ...]]:
    """So many ways for each agent on which a session comes from it to two others."""
    every = [*permutations(MODELS, 3)]
    for agent in MODELS:
        yield from [chain for chain in every if chain[0] == agent][-count:]


def test_what_an_agent_adds_after_the_next_one_took_over_is_a_branch(top: Path) -> None:
    made = MadeHome(top, 4)
    one = made.of("gemini")[0]
    take_over(made, one, "pi")
    between = one.file
    take_over(made, one, "codex")
    one.file, one.agent = between, "pi"
    made.go_on(one, one.at + timedelta(days=300))
    made.go_on(one, one.at + timedelta(days=300))
    done("backup")
    found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
    assert len(found) == len(one.prompts)


def with_turns(made: MadeHome, agent: str) -> Conversation:
    """A conversation of an agent that no other file has, with three turns or more."""
    one = made.of(agent)[1]
    while len(one.prompts) < 3:
        made.go_on(one)
    return one


def test_what_only_the_backup_has_of_a_file_that_was_cut_and_went_on_counts(top: Path) -> None:
    made = MadeHome(top, 8)
    check = Check(made)
    cut = [with_turns(made, agent) for agent in MODELS]
    done("backup")
    for one in cut:
        made.cut(one)
    for _ in range(2):
        for one in cut:
            made.go_on(one, one.at + timedelta(days=1))
        done("backup")
        check.rows()
        check.sums()
        for one in cut:
            found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
            assert len(found) == len(one.prompts), one
            assert f"{len(one.prompts)} prompts" in done("tree", one.id)


def test_resume_goes_on_with_all_of_a_session_whose_file_was_cut(top: Path) -> None:
    made = MadeHome(top, 8)
    check = Check(made)
    cut = [with_turns(made, agent) for agent in MODELS]
    done("backup")
    for one in cut:
        made.cut(one)
        told = run("resume", one.id, "--json")
        resumed = json.loads(told.stdout)
        assert f"{one.file} has less than " in told.stderr
        assert resumed["converted"], one
        again = json.loads(done("resume", one.id, "--json"))
        assert (again["converted"], again["file"]) == (False, resumed["file"])
        shorter, one.file = one.file, Path(resumed["file"])
        one.own_id = resumed["command"][-1]
        assert one.prompts[-1] in one.file.read_text()
        one.also.add(shorter)
    check.sums()
    check.hits()
    for one in cut:
        made.go_on(one, one.at + timedelta(days=1))
    check.all()
    done("backup")
    check.all()


@pytest.mark.parametrize("agent", MODELS)
def test_resume_names_the_backup_that_has_what_the_file_lost(top: Path, agent: str) -> None:
    made = MadeHome(top, 8)
    one = with_turns(made, agent)
    done("backup")
    assert "has content that" not in run("resume", one.id).stderr
    made.cut(one)
    made.go_on(one, one.at + timedelta(days=1))
    done("backup")
    row = _row(one)
    (kept,) = [copy["file"] for copy in row["copies"]]
    told = run("resume", one.id, "--json")
    assert json.loads(told.stdout)["file"] == str(one.file)
    assert f"{kept} has content that {one.file} lacks, such as" in told.stderr
    assert f"{len(one.prompts)} prompts" in done("tree", kept)
    lost = json.loads(done("search", f'"{one.prompts[2]}"', "--json"))[0]["ref"]
    fork = top / "fork.jsonl"
    done("fork", kept, lost, fork)
    resumed = json.loads(done("resume", fork, "--json"))
    assert one.prompts[2] in done("export", resumed["file"])


@pytest.mark.parametrize("begun", MODELS)
def test_two_agents_that_went_on_with_one_session_both_count_and_are_named(
    top: Path, begun: str
) -> None:
    made = MadeHome(top, 8)
    one = made.of(begun)[1]
    own, agents = one.file, [agent for agent in MODELS if agent != begun]
    others = {}
    for agent in agents:
        one.file, one.agent = own, begun
        made.go_on(one, one.at + timedelta(days=300))  # so a conversion has all there is
        take_over(made, one, agent)
        others[agent] = one.file
    one.file, one.agent = own, begun
    made.go_on(one, one.at + timedelta(days=300))

    def check() -> None:
        row = _row(one)
        assert (row["file"], row["turns"]) == (str(own), len(one.prompts))
        sums = json.loads(done("stats", "--json"))
        assert sums["turns"] == sum(len(each.prompts) for each in made.all)
        assert tokens(sums["usage"]) == sum_of(made.answers())
        found = json.loads(done("search", one.word, "--role", "prompt", "--json"))
        assert len(found) == len(one.prompts)

    check()
    assert f"{', '.join(sorted(agents))} went on" in done("ls")
    for agent, file in others.items():
        for words in (("tree", one.id), ("show", one.id), ("resume", one.id)):
            told = run(*words).stderr
            assert f"went on with the session, too, in {file}; {own} lacks that" in told
        resumed = run("resume", one.id, "--in", agent, "--json")
        assert json.loads(resumed.stdout)["converted"]
        assert f"went on with the session, too, in {file}; " in resumed.stderr
    done("backup")
    check()
    (kept,) = [copy["file"] for copy in _row(one)["copies"] if copy["program"] is None]
    assert f"{len(one.prompts)} prompts" in done("tree", kept)


def test_a_session_that_another_agent_took_over_keeps_what_it_cost(top: Path) -> None:
    made = MadeHome(top, 4)
    one = made.of("pi")[0]
    before = _row(one)["estimated"]
    take_over(made, one, "codex")
    row = _row(one)
    assert row["estimated"] > before
    cost = f"~${row['estimated']:.2f} at list prices\n"
    for command in ("show", "stats"):
        words = done(command, one.id)
        assert f"{sum_of(one.answers)[0]:,} in" in words, command
        assert cost in words, command
        assert cost in done(command, one.file), command


def test_a_session_converted_again_for_an_agent_it_was_in_keeps_its_answers(top: Path) -> None:
    made = MadeHome(top, 4)
    one = made.of("pi")[0]
    for agent in ("gemini", "claude-code"):
        take_over(made, one, agent)
    Check(made).sums()
    done("resume", one.id, "--in", "gemini")
    Check(made).all()
    done("backup")
    Check(made).all()


def test_the_answers_in_a_fork_of_a_session_that_changed_its_agent_count_once(top: Path) -> None:
    made = MadeHome(top, 4)
    for agent, target in zip(MODELS, [*MODELS][1:] + [*MODELS][:1], strict=True):
        one = made.of(agent)[-1]
        take_over(made, one, target)
    before = json.loads(done("stats", "--json"))["usage"]
    for one in made.all:
        if not one.is_fork:
            done("fork", one.id)
    assert json.loads(done("stats", "--json"))["usage"] == before
    done("backup")
    assert json.loads(done("stats", "--json"))["usage"] == before


def test_what_replays_repeat_of_a_session_that_is_gone_counts_once(top: Path) -> None:
    made = MadeHome(top, 8)
    one = made.of("codex")[1]
    before = json.loads(done("stats", "--json"))["copies"]
    replays = [made.replayed(one) for _ in range(2)]
    made.go_on(one, one.at + timedelta(hours=1))
    check = Check(made)
    check.rows()
    check.sums()
    sums = json.loads(done("stats", "--json"))
    assert sums["copies"] == before + sum(len(each.answers) - 1 for each in replays)
    file = one.file.rename(top / "away")
    made.all.remove(one)
    check.rows()
    check.sums()
    done("backup")
    check.sums()
    file.rename(one.file)
    made.all.append(one)
    check.rows()
    check.sums()
    rows = json.loads(done("stats", "--by", "block", "--json"))["rows"]
    assert sum(row["answers"] for row in rows) == len(made.answers())


def test_the_turns_of_a_replay_count_when_only_its_backup_is_left(top: Path) -> None:
    made = MadeHome(top, 8)
    made.go_on(one := made.of("codex")[0])
    made.go_on(one)
    child = made.replayed(one)
    check = Check(made)
    done("backup")
    for gone in (child, one):
        gone.file.unlink()
        (file,) = (top / "store").rglob(f"*{gone.id}.jsonl")
        gone.file = file
        check.rows()
        check.sums()


@pytest.mark.parametrize("between", [b"\n", b""])
@pytest.mark.parametrize("agent", MODELS)
def test_an_answer_whose_line_was_torn_counts_before_and_after_the_next_backup(
    top: Path, agent: str, between: bytes
) -> None:
    made = MadeHome(top, 4)
    one = made.of(agent)[0]
    check = Check(made)
    done("backup")
    end = {"gemini": -1}.get(agent)  # its last line has only the time
    *before, last = one.file.read_bytes().splitlines(keepends=True)[:end]
    made.go_on(one)
    after = one.file.read_bytes().splitlines(keepends=True)[-LINES[agent] :]
    torn = last[: len(last) // 2] + between
    one.file.write_bytes(b"".join([*before, torn, *after]))
    check.rows()
    check.sums()
    run("backup")
    check.rows()
    check.sums()
    (kept,) = (top / "store").rglob(f"*{one.id}.jsonl")
    one.file.unlink()
    one.file = kept
    check.rows()
    check.sums()


@pytest.mark.parametrize("agent", MODELS)
def test_an_answer_that_was_damaged_above_the_end_counts_before_and_after_a_backup(
    top: Path, agent: str
) -> None:
    """The file has the time of its backup, and begins and ends as before."""
    made = MadeHome(top, 4)
    made.go_on(one := made.of(agent)[0])
    made.go_on(one)
    check = Check(made)
    done("backup")
    lines = one.file.read_bytes().splitlines(keepends=True)
    place = -LINES[agent] - {"gemini": 2}.get(agent, 1)  # its last line has only the time
    lines[place] = lines[place][: len(lines[place]) // 2] + b"\n"
    one.file.write_bytes(b"".join(lines))
    for _ in range(2):
        check.rows()
        check.sums()
        run("backup")


def test_labels_of_an_import_that_lacks_the_last_turn_are_named_with_what_brings_them_back(
    top: Path,
) -> None:
    made = MadeHome(top, 4)
    one = made.of("gemini")[0]
    done("label", one.id, "@", "mark")
    assert "mark" in done("labels", one.id)
    made.go_on(one)
    found = run("labels", one.id)
    assert "mark" not in found.stdout
    assert "labels or names in its import are left out; 'sessiontree backup'" in found.stderr
    done("backup")
    assert "mark" in done("labels", one.id)


@pytest.mark.parametrize("begun", MODELS)
def test_a_session_that_is_put_back_after_both_agents_deleted_it_has_its_time(
    top: Path, begun: str
) -> None:
    made = MadeHome(top, 4)
    one = made.of(begun)[0]
    files = [one.file]
    take_over(made, one, next(agent for agent in MODELS if agent != begun))
    done("backup")
    for file in (*files, one.file):
        file.unlink()
    done("resume", one.id)
    one.agent = begun
    row = _row(one)
    assert datetime.fromisoformat(row["modified"]) == one.at
    assert {datetime.fromisoformat(copy["modified"]) for copy in row["copies"]} == {one.at}
    (put_back,) = {copy["file"] for copy in row["copies"]}
    (alone,) = json.loads(done("ls", put_back, "--json"))
    assert datetime.fromisoformat(alone["modified"]) == one.at


@pytest.mark.parametrize("agent", MODELS)
def test_a_label_of_the_leaf_is_on_the_last_answer_and_show_names_the_models(
    top: Path, agent: str
) -> None:
    one = MadeHome(top, 4).of(agent)[0]
    done("label", one.id, "@", "mark")
    (label,) = json.loads(done("labels", one.id, "--json"))
    assert json.loads(done("show", one.id, "mark", "--json"))["message"]["role"] == "assistant"
    assert label["label"] == "mark"
    assert f"models         {MODELS[agent]}\n" in done("show", one.id)


@pytest.mark.parametrize("agent", ["codex", "pi"])
def test_answers_without_an_id_are_one_only_in_copies(top: Path, agent: str) -> None:
    """Another session has answers of the same milliseconds and tokens as a forked one."""
    made = MadeHome(top, 4)
    one = made.of(agent)[0]
    other, lines = one.file.read_text(), {each.key: str(uuid4()) for each in one.answers}
    for old, new in ((one.id, id := str(uuid4())), (one.word, "other")):
        other = other.replace(old, new)
    for old, new in lines.items():  # pi has the ends of these as the ids of its lines
        other = other.replace(old[:8], new[:8]).replace(old[-8:], new[-8:])
    one.file.with_name(one.file.name.replace(one.id, id)).write_text(other)
    twice = tuple(2 * count for count in sum_of(one.answers))
    forks = {each.key: each for fork in made.all for each in fork.answers if fork.agent == agent}
    forks = {key: each for key, each in forks.items() if each not in one.answers}
    extra = sum_of([*forks.values()]) if forks else (0, 0, 0)

    def counted() -> tuple[int, ...]:
        rows = json.loads(done("stats", "--by", "agent", "--json"))["rows"]
        return next(tokens(row["usage"]) for row in rows if row["agent"] == agent)

    expected = tuple(map(sum, zip(twice, extra, strict=True)))
    assert counted() == expected
    done("backup")
    assert counted() == expected
    for file in one.file.parent.glob("*.jsonl"):
        file.unlink()
    assert counted() == expected


def test_the_step_after_a_lost_line_is_one_that_applies_to_an_agent_s_file(top: Path) -> None:
    one = MadeHome(top, 4).of("pi")[0]
    lines = one.file.read_text().splitlines(keepends=True)
    one.file.write_text("".join([lines[0], *lines[2:]]))
    told = run("verify", one.file)
    assert "--relink" not in told.output
    assert "lost parent" in told.stdout
    assert "'repair FILE -o NEW'" in told.stdout
    sound = top / "sound.jsonl"
    done("repair", one.file, "-o", sound)
    assert run("verify", sound).exit_code == 0


@pytest.mark.parametrize("agent", MODELS)
def test_a_search_of_one_session_finds_long_texts_before_and_after_a_backup(
    top: Path, agent: str
) -> None:
    one = MadeHome(top, 4).of(agent)[0]
    prompt = json.dumps(one.prompts[0])
    long = json.dumps(f"{one.prompts[0]} {'before ' * 20_000} deep-word {'after ' * 20_000}")
    one.file.write_text(one.file.read_text().replace(prompt, long))
    counts = []
    for command in ("backup", "ls", "backup"):
        words = "search", "deep-word", one.id, "--json"
        counts.append(len(json.loads(done(*words))))
        done(command)
    assert counts == [1, 1, 1]


def test_a_compressed_session_has_the_time_of_its_last_line(top: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    made = MadeHome(top, 4)
    (one,) = made.of("codex")
    packed = one.file.with_name(f"{one.file.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(one.file.read_bytes()))
    one.file.unlink()
    one.file = settle(packed)
    Check(made).all()
    assert _row(one)["file"] == str(packed)
    (cached,) = (top / ".cache").rglob("facts-*")
    assert str(packed).encode() in cached.read_bytes()
    one.at += timedelta(minutes=1)
    line = orjson.dumps({"timestamp": one.at.isoformat(), "type": "world_state", "payload": {}})
    packed.write_bytes(packed.read_bytes() + zstandard.ZstdCompressor().compress(line + b"\n"))
    Check(made).rows()


def test_a_search_finds_the_label_and_the_name_that_a_session_has_now(top: Path) -> None:
    made = MadeHome(top, 4)
    for one in map(made.of, MODELS):
        for word in ("cleared", "replaced", "present"):
            done("label", one[0].id, "@", f"{word}-mark")
            if word == "cleared":
                done("label", one[0].id, "@", "--clear")
        for name in ("A first name", "A second name"):
            done("rename", one[0].id, name)
    for text, count in (("cleared-mark", 0), ("replaced-mark", 0), ("present-mark", 4)):
        assert len(_found(text)) == count, text
    for text, count in ("A first name", 0), ("A second name", 4):
        assert len(_found(f'"{text}"')) == count, text


def _found(text: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = json.loads(run("search", text, "--json").stdout)
    return hits


def _row(one: Conversation) -> dict[str, Any]:
    rows = json.loads(done("ls", "--json"))
    return next(row for row in rows if row["id"] == one.id)


def test_a_session_converted_for_pi_costs_what_it_cost(top: Path) -> None:
    one = MadeHome(top, 4).of("claude-code")[0]

    def row() -> dict[str, float]:
        return {key: _row(one)[key] for key in ("cost", "estimated")}

    before = row()
    assert before["estimated"]
    done("resume", one.id, "--in", "pi")
    one.file.unlink()
    assert row() == before


@pytest.mark.parametrize(
    ("begun", "target"),
    [pair for pair in permutations(MODELS, 2) if pair[0] != "codex" or pair[1] == "pi"],
)
def test_what_only_a_conversion_has_costs_what_it_cost(top: Path, begun: str, target: str) -> None:
    """The agent's own file is deleted, then the conversion that went on, but for its backup."""
    made = MadeHome(top, 8)
    one = made.of(begun)[1]
    if begun == "claude-code":
        key = '"cache_creation_input_tokens":'
        for file in one.file.parents[1].rglob("*.jsonl"):
            file.write_text(file.read_text().replace(f"{key}0", f"{key}700"))
    own, written = one.file, len(one.answers)
    take_over(made, one, target)

    def costs() -> list[Any]:
        row = _row(one)
        words = done("stats", one.id)
        counted = [line for line in words.splitlines() if line.startswith(("tokens", "cost"))]
        total = json.loads(done("stats", "--json"))
        shown = [line for line in done("show", one.id).splitlines() if line.startswith("cost")]
        return [
            row["usage"],
            round(row["estimated"], 9),
            row["cost"],
            counted,
            total["cost"],
            shown,
        ]

    before = costs()
    assert before[0]["cacheWrite"] == (700 * written if begun == "claude-code" else 0)
    for gone in (own, one.file):
        gone.unlink()
        assert costs() == before
        done("backup")
        assert costs() == before


def test_a_session_that_a_command_began_has_one_title(top: Path) -> None:
    one = MadeHome(top, 1).all[0]
    lines = [json.loads(line) for line in one.file.read_text().splitlines()]
    command = "<command-message>plan</command-message>\n<command-name>/plan</command-name>"
    lines[0]["message"]["content"] = f"{command}\n<command-args>the release</command-args>"
    one.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = json.loads(done("resume", one.id, "--in", "pi", "--json"))
    for file in (str(one.file), made["file"]):
        (row,) = json.loads(done("ls", file, "--json"))
        assert row["firstMessage"] == "/plan the release"
        assert done("export", file).startswith("# /plan the release\n")


_OF_PROGRAM = (
    "<local-command-caveat>Caveat: the messages below were generated.</local-command-caveat>",
    "<command-name>/mcp</command-name>\n<command-message>mcp</command-message>",
    "<local-command-stdout>Reconnected.</local-command-stdout>",
    "[Request interrupted by user]",
)
"""What Claude Code writes in the user's name; the second the user typed as a command."""


@pytest.mark.parametrize("target", [*MODELS, "qwen"])
def test_a_conversion_keeps_the_turns_and_the_title(top: Path, target: str) -> None:
    made = MadeHome(top, 1)
    one, *others = made.all
    for other in others:
        other.file.unlink()
    lines = [json.loads(line) for line in one.file.read_text().splitlines()]
    above, at = lines[-1], one.at.isoformat()
    for text in _OF_PROGRAM:
        said = {"role": "user", "content": text}
        line = {**lines[0], "uuid": str(uuid4()), "parentUuid": above["uuid"], "timestamp": at}
        above = {**line, "message": said}
        lines.append(above)
    command = "<command-message>plan</command-message>\n<command-name>/plan</command-name>"
    lines[0]["message"]["content"] = f"{command}\n<command-args>the release</command-args>"
    one.file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    turns = len(one.prompts) + 1
    resumed = json.loads(done("resume", one.id, "--in", target, "--cwd", top, "--json"))
    for file in (str(one.file), resumed["file"]):
        (row,) = json.loads(done("ls", file, "--json"))
        assert (row["turns"], row["firstMessage"]) == (turns, "/plan the release"), file
        assert f"{turns} prompts" in done("tree", file)
        shown = {line[:15].strip(): line[15:] for line in done("show", file).splitlines()}
        assert (shown["turns"], shown["title"]) == (str(turns), "/plan the release"), file
    one.file.unlink()
    assert json.loads(done("stats", "--json"))["turns"] == turns
    done("backup")
    Path(resumed["file"]).unlink()
    (row,) = json.loads(done("ls", "--json"))
    assert (row["turns"], row["firstMessage"]) == (turns, "/plan the release")


def test_an_import_of_a_fork_is_a_fork_when_the_agent_s_files_are_gone(top: Path) -> None:
    made = MadeHome(top, 12)

    def forks() -> dict[str, str]:
        rows = json.loads(done("ls", "--json"))
        return {row["id"]: row["copyOf"] for row in rows if row["copyOf"]}

    before = forks()
    assert sorted(before) == sorted(one.id for one in made.all if one.is_fork)
    done("backup")
    for one in made.all:
        for file in (one.file, *one.also):
            file.unlink()
    assert forks() == before


def test_show_says_of_a_backup_of_a_damaged_file_that_it_is_an_import(top: Path) -> None:
    one = MadeHome(top, 1).all[0]
    first, *rest = one.file.read_text().splitlines(keepends=True)
    one.file.write_text("".join([first, '{"broken\n', *rest]))
    settle(one.file)
    assert "damage         1 found\n" in done("show", one.id)
    run("backup")
    said = "none found in this import, which leaves out what could not be read"
    assert f"damage         {said}\n" in done("show", one.id)


def test_a_backup_has_no_note_about_a_session_that_another_agent_took_over(top: Path) -> None:
    made = MadeHome(top, 1)
    one = made.all[0]
    one.file = Path(json.loads(done("resume", one.id, "--in", "pi", "--json"))["file"])
    one.agent = "pi"
    made.go_on(one)
    told = run("backup")
    assert told.exit_code == 0
    assert "Note" not in told.stdout + told.stderr
