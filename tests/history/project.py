"""A git project that four agents and a person write, with the true writer of each line.

`play(seed, folder)` makes a project of 40 commits, and the sessions in which the agents wrote it,
each in its agent's format. `score(seed)` compares what `sessiontree blame` says with the truth.
`python -m tests.history.project SEED…` prints the figures, and the lines where they differ.

What decides who wrote a line:

- A call writes the lines that it adds or changes. A line that it keeps stays its writer's.
- A formatter, a rename and another end of the line leave the writer.
- A line that the person changes is the person's. A line that comes back with a revert is its
  first writer's.
- What a call did to a file stays if the user goes back to before it in the conversation.
- A call that failed, that the user refused, or that has no result writes nothing.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import partial
from itertools import pairwise
from operator import is_, itemgetter
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from tests.history.agents import AGENTS, Agent, ClaudeCode, Codex, Gemini, Pi, environment
from tests.history.edits import (
    Edit,
    Outcome,
    Pair,
    Span,
    applied,
    hunks,
    in_patch,
    pairs_of,
    replaced,
)
from tests.history.lines import (
    Line,
    Lines,
    Wording,
    Writer,
    bytes_of,
    names_in,
    reindented,
    renamed,
    text_of,
    tidied,
    with_eol,
)
from tests.support.terminal import printed_json

COMMITS: Final = 40
START: Final = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)
PERSON: Final = "Robin Person"
FIRST_FILES: Final = (
    "app/server.py",
    "app/store.py",
    "app/windows.py",
    "web/client.js",
    "web/menu.js",
    "docs/guide.md",
)
CRLF_FILES: Final = ("app/windows.py",)

Files = dict[str, Lines]


@dataclass(frozen=True, slots=True)
class Commit:
    sha: str
    before: Files
    after: Files


@dataclass(slots=True)
class Project:
    """What a play made.

    Attributes:
        root: the folder of the repository.
        environ: the variables with which sessiontree finds the sessions.
        files: the true lines of each tracked file, as it is on disk.
        sessions: the agent and the calls of each session, by its id.
        paths: the file of each session.
        missed: what was to happen, and could not.
    """

    root: Path
    environ: dict[str, str]
    commits: list[Commit]
    files: Files
    sessions: dict[str, Agent]
    paths: dict[str, Path]
    missed: list[str]


def play(seed: int, folder: Path) -> Project:
    """Play a project in a folder; the same seed gives the same project in a folder of this name."""
    return _Play(seed, folder).run()


class _Play:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.wording = Wording(self.rng)
        self.folder = folder.resolve()
        self.root = self.folder / "work/app"
        self.elsewhere = self.folder / "elsewhere/app"
        self.homes = self.folder / "homes"
        self.clock = START + timedelta(minutes=self.rng.randrange(60))
        self.work: Files = {}
        self.head: Files = {}
        self.commits: list[Commit] = []
        self.sessions: list[Agent] = []
        self.current: dict[type[Agent], Agent] = {}
        self.missed: list[str] = []
        self.is_moved = False  # whether the next commit has all, as a file has a new name

    # The course of the project

    def run(self) -> Project:
        for folder in (self.root, self.elsewhere):
            folder.mkdir(parents=True)
            self._git("init", "-q", "-b", "main", cwd=folder)
        for path in FIRST_FILES:
            eol = "\r\n" if path in CRLF_FILES else "\n"
            lines: Lines = []
            for _ in range(3):
                lines += self.wording.block(_kind(path), None, names_in(lines))
            self._put(path, with_eol(lines, eol))
        self._commit_all("Start the project")
        waiting = self._scenes()
        while len(self.commits) < COMMITS:
            self._work(waiting)
            self._commit()
            if self.rng.random() < 0.25:
                self.clock += timedelta(hours=self.rng.randrange(8, 15))
        self.missed = [str(scene) for scene in waiting]
        for _ in range(5):
            self._some_edit()
        return self._made()

    def _work(self, waiting: list[Callable[[], bool]]) -> None:
        """What happens between two commits."""
        left = COMMITS - len(self.commits)
        share = -(-len(waiting) // max(1, left - 3))
        for scene in waiting[:share]:
            if scene():
                waiting.remove(scene)
        if len(waiting) > share:
            waiting.append(waiting.pop(0))
        for _ in range(self.rng.choice((0, 1, 2, 3))):
            self._some_edit()

    def _scenes(self) -> list[Callable[[], bool]]:
        scenes: list[Callable[[], bool]] = [
            *[self._rename_by_person, self._rename_in_shell, self._rename_in_patch],
            *[self._revert] * 3,
            *[self._restore] * 2,
            *[partial(self._format, style) for style in ("tidy", "join", "tidy", "indent")],
            partial(self._format, "ends"),
            *[self._rewrite] * 3,
            *[self._create] * 3,
            *[self._replace_all] * 2,
            *[self._fragment] * 2,
            *[self._refused] * 3,
            *[self._failed] * 3,
            *[self._subagent] * 2,
            *[self._person_changes_agents] * 4,
            *[self._patch_many] * 2,
            *[self._several_places] * 2,
            *[partial(self._trap, kind) for kind in AGENTS],
            self._fork,
            self._worktree,
            self._delete,
            self._append,
            self._unanswered,
            *[self._two_write_a_block] * 3,
        ]
        self.rng.shuffle(scenes)
        return scenes

    def _made(self) -> Project:
        paths = {session.id: session.save() for session in self.sessions}
        return Project(
            self.root,
            environment(self.homes),
            self.commits,
            dict(self.work),
            {session.id: session for session in self.sessions},
            paths,
            self.missed,
        )

    def _some_edit(self) -> None:
        if self.rng.random() < 0.3:
            self._person_edits()
        elif self.rng.random() < 0.12:
            self._rewrite()
        else:
            self._agent_edits(self._turn(), self._file())

    # Time, files, git

    def _now(self) -> datetime:
        self.clock += timedelta(seconds=self.rng.randrange(4, 300), milliseconds=17)
        return self.clock

    def _file(self, *, is_clean: bool = False) -> str:
        """A file of some length; a clean one is as in the last commit."""
        paths = [
            path
            for path, lines in self.work.items()
            if len(lines) > 6 and (not is_clean or self.head.get(path) is lines)
        ]
        return self.rng.choice(paths or list(self.work))

    def _put(self, path: str, lines: Lines) -> None:
        self.work[path] = lines
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes_of(lines))

    def _remove(self, path: str) -> Lines:
        (self.root / path).unlink()
        return self.work.pop(path)

    def _move(self, path: str, new: str) -> None:
        self._put(new, self._remove(path))
        self.is_moved = True

    def _new_path(self, path: str) -> str:
        """A path with a new name; some of them have a space."""
        parts = Path(path)
        name = self.wording.name().replace("_", " " if self.rng.random() < 0.2 else "_")
        return str(parts.with_name(f"{name}{parts.suffix}"))

    def _git(self, *words: str, input: bytes | None = None, cwd: Path | None = None) -> str:
        zone = self.rng.choice(("+0000", "+0200", "-0700"))
        date = f"{int(self.clock.timestamp())} {zone}"
        who = {"NAME": PERSON, "EMAIL": "robin@example.org", "DATE": date}
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.homes),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{role}_{key}": who[key] for role in ("AUTHOR", "COMMITTER") for key in who},
        }
        command = ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *words]
        done = subprocess.run(
            command, cwd=cwd or self.root, env=environ, input=input, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    def _commit(self) -> None:
        """Commit all, or some files, or some hunks of one file."""
        changed = [path for path in self.work if self.head.get(path) is not self.work[path]]
        chance = self.rng.random()
        if not changed and not self.is_moved:
            self._person_edits()
            self._commit_all("Small things")
        elif self.is_moved or chance < 0.6:
            self._commit_all(f"Work on {len(changed)} files")
        elif chance < 0.8 or changed[0] not in self.head:
            self._commit_files(self.rng.sample(changed, self.rng.randrange(1, len(changed) + 1)))
        else:
            self._commit_hunks(changed[0])

    def _commit_all(self, message: str) -> None:
        self._git("add", "-A")
        self.is_moved = False
        self._committed(message, dict(self.work))

    def _commit_files(self, paths: Sequence[str], message: str = "Work on some files") -> None:
        self._git("add", *paths)
        self._committed(message, self.head | {path: self.work[path] for path in paths})

    def _commit_hunks(self, path: str) -> None:
        old, new = self.head[path], self.work[path]
        lines: Lines = []
        for kind, start, end, new_start, new_end in _opcodes(old, new):
            takes = kind == "equal" or self.rng.random() < 0.5
            lines += new[new_start:new_end] if takes else old[start:end]
        if bytes_of(lines) == bytes_of(old):
            self._commit_files([path])
            return
        blob = self._git("hash-object", "-w", "--stdin", input=bytes_of(lines))
        self._git("update-index", "--cacheinfo", f"100644,{blob},{path}")
        self._committed("Work on a part", self.head | {path: lines})

    def _committed(self, message: str, after: Files) -> None:
        self._now()
        self._git("commit", "-q", "--allow-empty", "-m", message)
        self._note_commit(after)

    def _note_commit(self, after: Files) -> None:
        sha = self._git("rev-parse", "HEAD")
        self.commits.append(Commit(sha, self.head, after))
        self.head = after

    # What the person does

    def _person_edits(self, path: str | None = None) -> bool:
        path = path or self._file()
        lines = self.work[path]
        self._put(path, self._by_person(lines, applied(lines, [self._span(path, None)])))
        self._now()
        return True

    def _by_person(self, before: Lines, after: Lines) -> Lines:
        """Lines as an editor saves them: new lines have the end that most lines have."""
        ends = Counter(line.eol for line in before)
        eol = ends.most_common(1)[0][0] if ends else "\n"
        kept = set(map(id, before))
        return [line if id(line) in kept else with_eol([line], eol)[0] for line in after]

    def _person_changes_agents(self) -> bool:
        """The person changes lines of agents, which then are the person's."""
        found = [
            (path, at)
            for path, lines in self.work.items()
            for at, line in enumerate(lines)
            if line.writer is not None and line.counts and not line.is_common
        ]
        if not found:
            return False
        path, at = self.rng.choice(found)
        lines = list(self.work[path])
        for n in range(at, min(at + self.rng.randrange(1, 4), len(lines))):
            if names_in([lines[n]]):
                lines[n] = self.wording.changed(lines[n], None)
        self._now()
        self._put(path, lines)
        return True

    def _rename_by_person(self) -> bool:
        path = self._file(is_clean=True)
        self._move(path, self._new_path(path))
        self._now()
        return True

    def _revert(self) -> bool:
        """Revert a commit, where no later change is in its way."""
        candidates = self.commits[1:]
        self.rng.shuffle(candidates)
        for commit in candidates[:12]:
            found = self._without(commit)
            if found and not self.is_moved:
                for path, lines in found.items():
                    self._put(path, lines)
                self._commit_files(list(found), f'Revert "{commit.sha[:8]}"')
                return True
        return False

    def _without(self, commit: Commit) -> Files | None:
        """The files as a revert leaves them; None if it is not clear what it would do."""
        if commit.before.keys() != commit.after.keys():
            return None
        made: Files = {}
        for path, after in commit.after.items():
            before = commit.before[path]
            if before is after:
                continue
            now = self.work.get(path)
            if now is None or now is not self.head.get(path):
                return None
            lines = _undone(now, before, after)
            if lines is None or bytes_of(lines) == bytes_of(now):
                return None
            made[path] = lines
        return made

    def _restore(self) -> bool:
        """`git restore` takes back an agent's edit; sometimes an agent makes it again."""
        path = self._file(is_clean=True)
        if self.head.get(path) is not self.work[path]:
            return False
        before = self.work[path]
        session = self._turn()
        done = self._agent_edits(session, path, "lost edit")
        self._now()
        self._put(path, before)
        if done and self.rng.random() < 0.6:
            other = self._turn()
            call = other.call()
            writer = self._writer(other, call, "edit made again")
            spans = [_by(span, writer, before) for span in done]
            self._tell_edit(other, path, call, spans)
        return True

    def _format(self, style: str) -> bool:
        """A formatter runs over a file in which it changes something."""
        for path in self.rng.sample(list(self.work), len(self.work)):
            made = self._formatted(path, style)
            if bytes_of(made) != bytes_of(self.work[path]):
                self._now()
                self._put(path, made)
                return True
        return style == "ends"  # an agent's tool changed all ends already

    def _formatted(self, path: str, style: str) -> Lines:
        lines = self.work[path]
        if style == "indent":
            new = 4 if _kind(path) == "js" else 2
            return reindented(lines, 6 - new, new)
        if style == "ends":
            return with_eol(lines, "\n")
        return tidied(lines, is_join=style == "join")

    # What agents do

    def _turn(self, kind: type[Agent] | None = None) -> Agent:
        """A session of an agent in which the user asked for something."""
        kind = kind or self.rng.choice(AGENTS)
        session = self.current.get(kind)
        if session is None or self.rng.random() < 0.2:
            session = self._begin(kind, self.root)
            self.current[kind] = session
        if not session.asked or self.rng.random() < 0.6:
            if session.asked and self.rng.random() < 0.15:
                session.go_back(self._now())
            session.prompt(self._now(), self.wording.prompt())
        return session

    def _begin(self, kind: type[Agent], root: Path) -> Agent:
        is_below = kind is not ClaudeCode and self.rng.random() < 0.25
        cwd = root / "app" if is_below and (root / "app").is_dir() else root
        session = kind(self.rng, self.homes, cwd, self._now())
        self.sessions.append(session)
        return session

    def _writer(self, session: Agent, call: str, how: str) -> Writer:
        return Writer(session.name, session.id, call, session.asked, how)

    def _agent_edits(
        self, session: Agent, path: str, how: str = "edit", places: int = 1
    ) -> list[Span]:
        """An edit by replaced texts, or by a patch; its spans, none if it could not be made."""
        if self.rng.random() < 0.35:
            session.read(self._now(), self.root / path, text_of(self.work[path]))
        call = session.call()
        writer = self._writer(session, call, how)
        for _ in range(20):
            spans = [self._span(path, writer) for _ in range(places)]
            if self._tell_edit(session, path, call, spans):
                return spans
        return []

    def _tell_edit(
        self,
        session: Agent,
        path: str,
        call: str,
        spans: Sequence[Span],
        outcome: Outcome = "done",
    ) -> bool:
        """Write an edit to its session and to disk; False if its tool could not make it."""
        lines = self.work[path]
        edit = self._edit(path, spans)
        if edit is None or not _is_clear(edit):
            return False
        session.edit(self._now(), call, [edit], outcome)
        if outcome == "done":
            self._put(path, _as_saved(session, lines, applied(lines, spans)))
        self.clock += timedelta(seconds=2)
        return True

    def _edit(self, path: str, spans: Sequence[Span]) -> Edit | None:
        lines = self.work[path]
        apart = sorted(spans, key=itemgetter(0, 1))
        if any(one.end > two.start for one, two in pairwise(apart)):
            return None
        pairs = pairs_of(lines, spans)
        before, after = text_of(lines), text_of(applied(lines, spans))
        if pairs is None or before == after:
            return None
        return Edit(self.root / path, before, after, pairs)

    def _span(self, path: str, writer: Writer | None) -> Span:
        """A change of one place."""
        lines, kind = self.work[path], _kind(path)
        known = names_in(lines)
        at = self.rng.randrange(len(lines))
        chance = self.rng.random()
        if chance < 0.35 or len(lines) < 8:
            starts = [n for n, line in enumerate(lines) if not line.text] or [0]
            at = self.rng.choice([*starts, len(lines)])
            return Span(at, at, self.wording.block(kind, writer, known))
        if chance < 0.55:
            above = lines[at].text
            indent = above[: len(above) - len(above.lstrip())]
            count = self.rng.randrange(1, 4)
            return Span(at + 1, at + 1, self.wording.lines(kind, count, writer, known, indent))
        end = min(at + self.rng.randrange(1, 6), len(lines))
        if chance < 0.65 and len(lines) > 25:
            return Span(at, min(at + 2, end), [])
        return Span(at, end, self._changed(lines[at:end], writer))

    def _changed(self, lines: Lines, writer: Writer | None) -> Lines:
        """Some of the lines changed, the others kept."""
        made = [
            self.wording.changed(line, writer)
            if names_in([line]) and self.rng.random() < 0.5
            else line
            for line in lines
        ]
        if all(map(is_, made, lines)):
            made[0] = self.wording.changed(lines[0], writer)
        return made

    def _rewrite(self) -> bool:
        """An agent writes a whole file again, with most lines unchanged."""
        session, path = self._turn(), self._file()
        call = session.call()
        writer = self._writer(session, call, "rewrite")
        lines = self.work[path]
        for _ in range(20):
            edit = self._edit(path, spans := [self._span(path, writer) for _ in range(3)])
            if edit is not None:
                # It knows the lines that it writes again, as it has read them.
                session.read(self._now(), self.root / path, text_of(lines))
                session.write(self._now(), call, edit, "done")
                self._put(path, _as_written(session, lines, applied(lines, spans)))
                self.clock += timedelta(seconds=2)
                return True
        return False

    def _create(self) -> bool:
        path = self._new_path(self.rng.choice(("app/x.py", "web/x.js", "docs/x.md", "notes.md")))
        session = self._turn()
        call = session.call()
        writer = self._writer(session, call, "create")
        lines = self.wording.block(_kind(path), writer, ())[1:]
        lines += self.wording.block(_kind(path), writer, names_in(lines))
        edit = Edit(self.root / path, None, text_of(lines))
        if isinstance(session, Codex) and self.rng.random() < 0.5:
            session.edit(self._now(), call, [edit], "done")
        elif self.rng.random() < 0.2:
            session.heredoc(self._now(), call, edit)
        else:
            session.write(self._now(), call, edit, "done")
        self._put(path, lines)
        self.is_moved = True  # a new file is committed at once
        return True

    def _replace_all(self) -> bool:
        """A name is replaced wherever it is, which changes parts of lines."""
        return self._replace_name(is_many=True)

    def _fragment(self) -> bool:
        """A part of one line is replaced."""
        return self._replace_name(is_many=False)

    def _replace_name(self, *, is_many: bool) -> bool:
        session = self._turn(self.rng.choice((ClaudeCode, Gemini) if is_many else
                                             (ClaudeCode, Gemini, Pi)))  # fmt: skip
        for path in self.rng.sample(list(self.work), len(self.work)):
            lines = self.work[path]
            text = text_of(lines)
            names = [
                name
                for name in sorted(set(names_in(lines)))
                if (text.count(name) > 1) == is_many and text.count(name) < 6
            ]
            if not names:
                continue
            old, new = self.rng.choice(names), self.wording.name()
            call = session.call()
            writer = self._writer(session, call, "replace all" if is_many else "fragment")
            made = [
                renamed(line, old, new, writer) if old in names_in([line]) else line
                for line in lines
            ]
            after = replaced(text, [Pair(old, new)], every=is_many)
            if after != text_of(made):
                continue
            edit = Edit(self.root / path, text, after, (Pair(old, new),), every=is_many)
            session.edit(self._now(), call, [edit], "done")
            self._put(path, _as_saved(session, lines, made))
            return True
        return False

    def _refused(self) -> bool:
        """The user refuses an edit, and sometimes types the same lines."""
        session, path = self._turn(), self._file()
        call = session.call()
        lines = self.work[path]
        span = self._span(path, None)
        if not span.lines or not self._tell_edit(session, path, call, [span], "refused"):
            return False
        if self.rng.random() < 0.6:
            self._now()
            self._put(path, self._by_person(lines, applied(lines, [span])))
        return True

    def _failed(self) -> bool:
        """An edit fails as its old text is not there; then it is made right, or by the person."""
        session, path = self._turn(), self._file()
        lines = self.work[path]
        call = session.call()
        by_agent = self.rng.random() < 0.5
        again = session.call()
        writer = self._writer(session, again, "second try") if by_agent else None
        span = self._span(path, writer)
        edit = self._edit(path, [span])
        if edit is None or not _is_clear(edit):
            return False
        session.edit(self._now(), call, [self._misread(edit, lines, span)], "failed")
        if by_agent:
            assert self._tell_edit(session, path, again, [span])
        elif self.rng.random() < 0.5:
            self._now()
            self._put(path, self._by_person(lines, applied(lines, [span])))
        return True

    def _misread(self, edit: Edit, lines: Lines, span: Span) -> Edit:
        """The edit as an agent would make it that remembers the file wrongly."""
        wrong = [replace(line, text=f"{line.text} {self.wording.name()}") for line in lines]
        made = applied(wrong, [span])
        pairs = pairs_of(wrong, [span]) or edit.pairs
        return replace(edit, before=text_of(wrong), after=text_of(made), pairs=pairs)

    def _subagent(self) -> bool:
        """A subagent of Claude Code edits."""
        session = self._turn(ClaudeCode)
        assert isinstance(session, ClaudeCode)
        session.begin_subagent(self._now(), self.wording.prompt())
        for _ in range(self.rng.randrange(1, 4)):
            self._agent_edits(session, self._file(), "edit by a subagent")
        session.end_subagent(self._now())
        return True

    def _fork(self) -> bool:
        """The user goes on in a copy of a session, which has the same calls."""
        session = self._turn(ClaudeCode)
        assert isinstance(session, ClaudeCode)
        fork = session.copied(self._now())
        self.sessions.append(fork)
        self.current[ClaudeCode] = fork
        fork.prompt(self._now(), self.wording.prompt())
        return bool(self._agent_edits(fork, self._file(), "edit in a fork"))

    def _several_places(self) -> bool:
        """One call that edits a file at several places."""
        session = self._turn(self.rng.choice((ClaudeCode, Pi, Codex)))
        return bool(self._agent_edits(session, self._file(), "several places", places=3))

    def _patch_many(self) -> bool:
        """One patch of Codex for several files."""
        session = self._turn(Codex)
        call = session.call()
        writer = self._writer(session, call, "patch of many files")
        paths = self.rng.sample([p for p, lines in self.work.items() if len(lines) > 6], 3)
        spans = {path: [self._span(path, writer)] for path in paths}
        edits = [self._edit(path, spans[path]) for path in paths]
        told = [edit for edit in edits if edit is not None and _is_clear(edit)]
        if len(told) < len(paths):
            return False
        session.edit(self._now(), call, told, "done")
        for path in paths:
            lines = self.work[path]
            self._put(path, _as_saved(session, lines, applied(lines, spans[path])))
        return True

    def _rename_in_shell(self) -> bool:
        session, path = self._turn(), self._file(is_clean=True)
        new = self._new_path(path)
        program = self.rng.choice(("mv", "git mv"))
        words = [session.word(self.root / p) for p in (path, new)]
        session.shell(self._now(), session.call(), f"{program} {' '.join(words)}")
        self._move(path, new)
        self._agent_edits(session, new)
        return True

    def _rename_in_patch(self) -> bool:
        session, path = self._turn(Codex), self._file(is_clean=True)
        new = self._new_path(path)
        call = session.call()
        lines = self.work[path]
        span = self._span(path, self._writer(session, call, "patch that moves"))
        edit = self._edit(path, [span])
        if edit is None or not _is_clear(edit):
            return False
        moved = replace(edit, target=self.root / new)
        session.edit(self._now(), call, [moved], "done")
        self._move(path, new)
        self._put(new, _as_saved(session, lines, applied(lines, [span])))
        return True

    def _worktree(self) -> bool:
        """An agent edits in a worktree of the repository, and the person merges its commit."""
        path = self._file(is_clean=True)
        if self.head.get(path) is not self.work[path] or self.is_moved:
            return False
        branch = self.wording.name()
        tree = self.root.with_name(f"app-{branch}")
        session = self._begin(self.rng.choice(AGENTS), tree)
        session.prompt(self._now(), self.wording.prompt())
        call = session.call()
        writer = self._writer(session, call, "edit in a worktree")
        lines = self.work[path]
        span = self._span(path, writer)
        edit = self._edit(path, [span])
        if edit is None or not _is_clear(edit):
            self.sessions.remove(session)
            return False
        self._git("worktree", "add", "-q", "-b", branch, str(tree))
        session.edit(self._now(), call, [replace(edit, file=tree / path)], "done")
        made = _as_saved(session, lines, applied(lines, [span]))
        (tree / path).write_bytes(bytes_of(made))
        self._now()
        self._git("commit", "-q", "-a", "-m", "Work in a worktree", cwd=tree)
        self._now()
        way = self.rng.choice(("--ff-only", "--no-ff", "--squash"))
        self._git("merge", "-q", way, branch)
        self.work[path] = made
        if way == "--squash":
            self._commit_files([path])
        else:
            self._note_commit(self.head | {path: made})
        return True

    def _delete(self) -> bool:
        """An agent deletes a file."""
        paths = [path for path in self.work if path not in FIRST_FILES and path in self.head]
        if not paths:
            return False
        session, path = self._turn(), self.rng.choice(paths)
        if isinstance(session, Codex):
            text = text_of(self.work[path])
            gone = Edit(self.root / path, text, None)
            session.edit(self._now(), session.call(), [gone], "done")
        else:
            name = session.word(self.root / path)
            session.shell(self._now(), session.call(), f"rm {name}")
        self._remove(path)
        self.is_moved = True
        return True

    def _append(self) -> bool:
        """An agent appends to a file in the shell."""
        session, path = self._turn(Codex), self._file()
        call = session.call()
        writer = self._writer(session, call, "append in the shell")
        lines = self.work[path]
        more = self.wording.block(_kind(path), writer, names_in(lines))
        name = session.word(self.root / path)
        command = f"cat >> {name} <<'EOF'\n{text_of(more)}EOF"
        session.shell(self._now(), call, command)
        self._put(path, [*lines, *more])
        return True

    def _unanswered(self) -> bool:
        """The last call of a session has no result, and did nothing."""
        session, path = self._turn(), self._file()
        span = self._span(path, None)
        if not self._tell_edit(session, path, session.call(), [span], "open"):
            return False
        del self.current[type(session)]
        return True

    def _two_write_a_block(self) -> bool:
        """An agent writes lines, and before the next commit others change some of them."""
        path = self._file()
        spans = self._agent_edits(self._turn(), path, "block of two writers")
        if not spans or not any(line.counts for line in spans[0].lines):
            return False
        for is_person in (self.rng.random() < 0.3, self.rng.random() < 0.6):
            session = self._turn()
            call = session.call()
            writer = None if is_person else self._writer(session, call, "change of a new block")
            lines = self.work[path]
            fresh = [n for n, line in enumerate(lines) if line.writer is not None
                     and line.writer.how == "block of two writers"
                     and names_in([line])]  # fmt: skip
            if not fresh:
                return True
            at = self.rng.choice(fresh)
            span = Span(at, at + 1, [self.wording.changed(lines[at], writer)])
            if is_person:
                self._now()
                self._put(path, self._by_person(lines, applied(lines, [span])))
            else:
                self._tell_edit(session, path, call, [span])
        return True

    def _trap(self, kind: type[Agent]) -> bool:
        """An agent writes a file of the same name elsewhere; the person copies its lines here."""
        path = self.rng.choice([path for path in self.work if path in self.head])
        span = self._span(path, None)
        lines = self.work[path]
        if sum(line.counts for line in span.lines) < 2:
            return False
        file = self.elsewhere / path
        is_here = kind is not Codex and self.rng.random() < 0.3
        session = self._turn(kind) if is_here else self._begin(kind, self.elsewhere)
        session.prompt(self._now(), self.wording.prompt())
        made = applied(lines, [span])
        text = text_of([line for line in made if line.writer is None])
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        session.write(self._now(), session.call(), Edit(file, None, text), "done")
        self._now()
        self._put(path, self._by_person(lines, made))
        return True


def _kind(path: str) -> str:
    return Path(path).suffix[1:]


def _is_crlf(lines: Lines) -> bool:
    return any(line.eol == "\r\n" for line in lines)


def _opcodes(old: Lines, new: Lines) -> Iterator[tuple[str, int, int, int, int]]:
    """The differences of two lists of lines, by what lines they are, not by their text."""
    matcher = SequenceMatcher(None, [*map(id, old)], [*map(id, new)], autojunk=False)
    yield from matcher.get_opcodes()


def _undone(now: Lines, before: Lines, after: Lines) -> Lines | None:
    """The lines without the change from before to after; None if a later change is in its way."""
    made = list(now)
    for kind, start, end, new_start, new_end in _opcodes(before, after):
        if kind == "equal":
            continue
        above = after[new_start - 1] if new_start else None
        ids = [*map(id, made)]
        at = 0 if above is None else ids.index(id(above)) + 1 if id(above) in ids else None
        if at is None:
            return None
        found = made[at : at + new_end - new_start]
        below = after[new_end : new_end + 1]
        follows = made[at + len(found) : at + len(found) + 1]
        if [*map(id, found + follows)] != [*map(id, after[new_start:new_end] + below)]:
            return None
        back = [replace(line, fate=f"{line.fate} reverted") for line in before[start:end]]
        made[at : at + len(found)] = back
    return made


def _by(span: Span, writer: Writer, before: Lines) -> Span:
    """The same change by another call."""
    kept = set(map(id, before))
    lines = [
        line if id(line) in kept else replace(line, writer=writer, eol="\n") for line in span.lines
    ]
    return Span(span.start, span.end, lines)


def _is_clear(edit: Edit) -> bool:
    """Whether the first place where each hunk fits is where it belongs, as Codex looks for it."""
    if edit.before is None or edit.after is None:
        return True
    lines = edit.before.splitlines()
    at = 0
    for hunk in hunks(edit.before, edit.after):
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        while lines[at : at + len(old)] != old:
            at += 1
        if at != hunk.old_start:
            return False
        at += len(old)
    return True


def _as_saved(session: Agent, before: Lines, after: Lines) -> Lines:
    """Lines with the ends that the agent's tool for edits writes."""
    if isinstance(session, Codex):
        return in_patch(before, after)
    if isinstance(session, Pi):
        return with_eol(after, before[0].eol)
    return _as_written(session, before, after)


def _as_written(session: Agent, before: Lines, after: Lines) -> Lines:
    """Lines with the ends that the agent's tool for whole files writes."""
    if isinstance(session, Gemini):
        return with_eol(after, "\r\n" if _is_crlf(before) else "\n")
    if isinstance(session, ClaudeCode):
        count = sum(line.eol == "\r\n" for line in before)
        return with_eol(after, "\r\n" if 2 * count > len(before) else "\n")
    return with_eol(after, "\n")


# What blame says of it


@dataclass(slots=True)
class Score:
    """How blame compares with the truth.

    Attributes:
        counts: the number of lines by what is told of them.
        told: for each agent the lines by certainty, or by what is wrong.
        wrong: a row for each line where it differs.
        forbidden: the rows of what must never be: a person's line that is given to an agent, and a
            line marked as exact that names a wrong session.
    """

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    told: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    forbidden: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of agents' lines that are told right, as exact or normalized."""
        return self.counts["right"] / max(1, self.counts["agents"])

    def __str__(self) -> str:
        first = f"seed {self.seed}: {self.share:.2%} of {self.counts['agents']} lines of agents, "
        first += f"{self.counts['given']} of {self.counts['persons']} of the person's given, "
        first += f"{self.counts['wrong exact']} exact with a wrong session, "
        first += f"{self.counts['other prompt']} with another prompt; of common lines "
        first += f"{self.counts['common right']} of {self.counts['common']} right"
        rows = [f"  {agent}: {dict(found)}" for agent, found in sorted(self.told.items())]
        return "\n".join([first, *rows, *self.wrong])


def score(seed: int, blame: Callable[[Project, Path], list[dict[str, Any]]] | None = None) -> Score:
    """Play a project and compare what blame says of each file with the truth.

    Lines without a letter or a digit are left out, as a diff cannot tell twins apart. Common lines,
    which others have too, are counted apart.
    """
    with tempfile.TemporaryDirectory(prefix="blame-") as folder:
        project = play(seed, Path(folder))
        made = Score(seed)
        for path, lines in sorted(project.files.items()):
            rows = (blame or blamed)(project, project.root / path)
            assert [row["text"] for row in rows] == [line.text for line in lines], path
            assert [row["line"] for row in rows] == [*range(1, len(lines) + 1)], path
            for line, row in zip(lines, rows, strict=True):
                if line.counts:
                    _judge(made, project, path, line, row)
        return made


def blamed(project: Project, file: Path) -> list[dict[str, Any]]:
    """What the command prints, run in this process."""
    with patch.dict(os.environ, project.environ):
        rows: list[dict[str, Any]] = printed_json("blame", file)
    return rows


def _judge(made: Score, project: Project, path: str, line: Line, row: Mapping[str, Any]) -> None:
    verdict = _verdict(project, line, row)
    told = f"{row['certainty']} {row['agent']} {row['session']} {row['call']}"
    writer = line.writer
    truth = "the person"
    if writer is not None:
        truth = f"{writer.agent} {writer.session} {writer.call} ({writer.how})"
    shown = f"{path}:{row['line']}: {line.text!r}{line.fate}\n    truth {truth}\n    told  {told}"
    if line.is_common:
        made.counts["common"] += 1
        made.counts["common right"] += verdict in ("exact", "normalized", "person")
        return
    if verdict == "given" or (row["certainty"] == "exact" and verdict == "wrong session"):
        made.counts["given" if verdict == "given" else "wrong exact"] += 1
        made.forbidden.append(shown)
    if writer is None:
        made.counts["persons"] += 1
    else:
        made.counts["agents"] += 1
        made.counts["right"] += verdict in ("exact", "normalized")
        made.told.setdefault(writer.agent, Counter())[verdict] += 1
        is_right = verdict in ("exact", "normalized")
        made.counts["other prompt"] += is_right and row["prompt"] not in writer.prompts
    if verdict not in ("exact", "normalized", "person"):
        made.wrong.append(f"{verdict}: {shown}")


def _verdict(project: Project, line: Line, row: Mapping[str, Any]) -> str:
    """What is right or wrong in a row; a fork has the calls of its session, and may be named."""
    certainty = str(row["certainty"])
    if line.writer is None:
        return "person" if certainty == "none" else "given"
    if certainty == "none":
        return certainty
    session, call = line.writer.session, line.writer.call
    named = project.sessions.get(row["session"])
    is_right = row["session"] == session or (named is not None and call in named.calls)
    if not is_right or row["agent"] != line.writer.agent:
        return "wrong session"
    return certainty if row["call"] == call else "wrong call"


if __name__ == "__main__":
    for word in sys.argv[1:]:
        print(score(int(word)))
