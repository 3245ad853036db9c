"""A session driven at random against a plain dict that knows the rules and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from sessiontree import Entry, NothingToDoError, Session
from tests.support.conversation import said
from tests.support.model import Known, context_in, path_in
from tests.support.soak import amount

ROLES = st.sampled_from(["user", "assistant"])
SPEAKS = frozenset({"message", "branch_summary", "stack_summary", "compaction"})
ANNOTATES = frozenset({"label", "session_info"})


class SessionAgainstModel(RuleBasedStateMachine):
    """One writer, sometimes another, on one file."""

    entries: Bundle[str] = Bundle("entries")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.file = self.folder / "s.jsonl"
        self.session = Session.create(self.file, cwd="/p", durability="os")
        self.known: dict[str, Known] = {}
        self.labels: dict[str, str] = {}
        self.leaf = ""
        self.last = ""  # in file order: where annotations hang, and a reader stands
        self.bytes = b""
        self.said = 0
        self.unseen: set[str] = set()  # what others wrote since this writer last looked

    def teardown(self) -> None:
        self.session.close()
        shutil.rmtree(self.folder)

    @initialize(target=entries)
    def header(self) -> str:
        uuid = self.session.header.uuid
        self.known[uuid] = Known("session", None)
        self.leaf = self.last = uuid
        return uuid

    def _see(self, uuid: str) -> None:
        if uuid in self.unseen:
            self.refresh()

    def _words(self) -> str:
        self.said += 1
        return f"words {self.said}"

    def _wrote(self, entry: Entry, parent: str, **facts: Any) -> str:
        """Note an entry, which must hang where the model says."""
        assert entry.parent_uuid == parent
        self.known[entry.uuid] = Known(entry.type, parent, **facts)
        self.last = entry.uuid
        return entry.uuid

    def _moved(self, entry: Entry, parent: str, **facts: Any) -> str:
        self.leaf = self._wrote(entry, parent, **facts)
        self.unseen.clear()
        return self.leaf

    @rule(target=entries, role=ROLES)
    def append(self, role: str) -> str:
        words = self._words()
        entry = self.session.append_message({"role": role, "content": words})
        return self._moved(entry, self.leaf, says=words, role=role)

    @rule(target=entries, role=ROLES, parent=entries)
    def append_below(self, role: str, parent: str) -> str:
        self._see(parent)
        words = self._words()
        entry = self.session.append(
            "message", message={"role": role, "content": words}, parent=parent
        )
        return self._moved(entry, parent, says=words, role=role)

    @rule(target=entries, count=st.integers(0, 4))
    def append_a_batch(self, count: int) -> str:
        with self.session.batch():
            for _ in range(count):
                self.append("user")
        return self.leaf

    @rule(target=entries, to=entries)
    def branch(self, to: str) -> str:
        self._see(to)
        return self._moved(self.session.branch(to), to)

    @rule(target=entries, to=entries)
    def branch_with_a_summary(self, to: str) -> str:
        self._see(to)
        words = self._words()
        entry = self.session.branch(to, summary=words)
        assert entry["fromUuid"] == self.leaf
        return self._moved(entry, to, says=words)

    @rule(to=entries)
    def switch(self, to: str) -> None:
        self._see(to)
        before, size = self.leaf, len(self.file.read_bytes())
        entry = self.session.switch(to)
        if entry.uuid == before:
            assert len(self.file.read_bytes()) == size
            assert context_in(self.known, before) == context_in(self.known, to)
        else:
            self._moved(entry, to)

    @rule(target=entries, to=entries)
    def pop(self, to: str) -> str:
        self._see(to)
        words = self._words()
        if to not in path_in(self.known, self.leaf)[:-1]:
            return to
        return self._moved(self.session.pop(to, summary=words), to, says=words)

    @rule()
    def rewind(self) -> None:
        prompts = [at for at in path_in(self.known, self.leaf) if self.known[at].role == "user"]
        if not prompts:
            return
        prompt = self.known[prompts[-1]]
        assert self.session.rewind() == prompt.says
        assert prompt.parent is not None
        self._moved(self.session.leaf, prompt.parent)

    @rule(target=entries, choice=st.integers(0, 50))
    def compact(self, choice: int) -> str:
        path = path_in(self.known, self.leaf)
        kept = path[choice % len(path)]
        words = self._words()
        try:
            entry = self.session.compact(words, first_kept=kept)
        except NothingToDoError:
            return kept
        return self._moved(entry, self.leaf, says=words, first_kept=kept)

    @rule(target=entries)
    def compact_and_keep_nothing(self) -> str:
        words = self._words()
        if not context_in(self.known, self.leaf):
            return self.leaf
        entry = self.session.compact(words, keep=0)
        return self._moved(entry, self.leaf, says=words, first_kept=entry.uuid)

    @rule(to=entries, name=st.sampled_from(["one", "two", None]))
    def label(self, to: str, name: str | None) -> None:
        self._see(to)
        if self.known[to].type in ANNOTATES or name in self.labels.values():
            return
        self._wrote(self.session.label(to, name), self.last)
        self.unseen.clear()
        self.labels.pop(to, None)
        if name is not None:
            self.labels[to] = name

    @rule(target=entries, role=ROLES)
    def another_writer_appends(self, role: str) -> str:
        words = self._words()
        with Session.open(self.file, durability="os") as other:
            entry = other.append_message({"role": role, "content": words})
        return self._unseen(self._wrote(entry, self.last, says=words, role=role))

    @rule()
    def another_writer_annotates(self) -> None:
        with Session.open(self.file, durability="os") as other:
            self._unseen(self._wrote(other.rename(f"name {self.said}"), self.last))

    def _unseen(self, uuid: str) -> str:
        self.unseen.add(uuid)
        return uuid

    @rule()
    def refresh(self) -> None:
        self.session.refresh()
        self.unseen.clear()

    @rule()
    def reopen(self) -> None:
        self.session.close()
        self.session = Session.open(self.file, durability="os")
        self.leaf = self.last
        self.unseen.clear()

    @rule()
    def look_without_writing(self) -> None:
        names = sorted(path.name for path in self.folder.iterdir())
        with Session.open(self.file, readonly=True) as reader:
            assert reader.leaf.uuid == self.last
            assert said(reader.context()) == context_in(self.known, self.last)
            assert [entry.uuid for entry in reader.entries()] == list(self.known)
            assert [row.uuid for row in reader.tree() if row.current] == path_in(
                self.known, self.last
            )
            assert reader.damage == []
        assert sorted(path.name for path in self.folder.iterdir()) == names

    @rule(at=entries)
    def look_at_an_entry(self, at: str) -> None:
        self.session.refresh()
        assert said(self.session.context(at)) == context_in(self.known, at)
        assert [entry.uuid for entry in self.session.path(at)] == path_in(self.known, at)
        below = [uuid for uuid, known in self.known.items() if known.parent == at]
        assert [entry.uuid for entry in self.session.children(at)] == below

    @rule()
    def look_at_names_and_tips(self) -> None:
        self.session.refresh()
        for uuid, name in self.labels.items():
            assert self.session.entry(name).uuid == uuid
        talk = [uuid for uuid, known in self.known.items() if known.type in SPEAKS]
        above_talk = {above for uuid in talk for above in path_in(self.known, uuid)[:-1]}
        tips = [uuid for uuid in talk if uuid not in above_talk]
        assert [branch.leaf for branch in self.session.branches()] == tips

    @invariant()
    def the_leaf_and_its_context_are_the_models(self) -> None:
        if not self.leaf:
            return
        assert self.session.leaf.uuid == self.leaf
        assert said(self.session.context()) == context_in(self.known, self.leaf)

    @invariant()
    def the_path_is_the_models(self) -> None:
        if self.leaf and self.said % 3 == 0:  # reading it whole changes what is known of it
            assert [entry.uuid for entry in self.session.path()] == path_in(self.known, self.leaf)

    @invariant()
    def the_file_only_grows(self) -> None:
        now = self.file.read_bytes()
        assert now.startswith(self.bytes)
        self.bytes = now


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")
def test_a_session_does_what_the_model_says() -> None:
    run_state_machine_as_test(
        SessionAgainstModel,
        settings=settings(deadline=None, max_examples=amount(40), stateful_step_count=40),
    )
