"""What the page says the model had at an entry is what `Session.context` gives, for every entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import pytest

from sessiontree import Session, SessionTreeError
from tests.page.browser import View, chromium, needs_chromium
from tests.support.conversation import assistant, user
from tests.support.soak import in_soak
from tests.support.trees import Tree

pytestmark = [needs_chromium, pytest.mark.filterwarnings("ignore::sessiontree.SessionTreeWarning")]

FIXTURES: Final = Path(__file__).parents[2] / "fixtures"
_LISTEN: Final = "addEventListener('sessionpage', (event) => { self.inside = event.detail; })"
_HAD: Final = """() => {
  const index = inside.index(), found = {};
  for (let entry = 0; entry < index.rowOf.length; entry++) {
    const had = inside.contextAt(entry);
    found[index.uuids.at(entry)] = [[...had.entries], had.messages, had.tokens];
  }
  const own = [...index.rowOf].map((row, entry) => index.entryOf[row] === entry);
  return [found, index.uuids.all(), own, Object.keys(index.rules.strays)];
}"""


@pytest.fixture(scope="module")
def view() -> Iterator[View]:
    with chromium() as browser:
        view = View(browser)
        view.page.add_init_script(_LISTEN)
        yield view


class Shown:
    """The contexts that a page shows, by the uuid of the entry."""

    def __init__(self, view: View, session: Session, file: Path) -> None:
        file.write_text("".join(session.to_html()), "utf-8")
        view.open(file)
        self.had, self.uuids, has_row, strays = view.page.evaluate(_HAD)
        self.strays = {self.uuids[int(entry)] for entry in strays}
        self.with_row = {uuid for uuid, has in zip(self.uuids, has_row, strict=True) if has}
        assert view.errors == []


def check(view: View, session: Session, file: Path) -> int:
    """Compare all entries; how many contexts were compared.

    What has no row of its own, such as a result in the row of its call, is not compared; nor is a
    result that is apart from its call where results were joined: then it is in another's message.
    Tokens of an edited message are an estimate of its new content alone.
    """
    shown = Shown(view, session, file)
    count = 0
    for uuid, (entries, messages, tokens) in shown.had.items():
        try:
            context = session.context(uuid)
        except SessionTreeError:
            continue
        wanted = {entry.uuid for entry in context.entries}
        had = {shown.uuids[entry] for entry in entries}
        compared = shown.with_row - (shown.strays if context.warnings else set())
        assert had & compared == wanted & compared, uuid
        if not context.warnings:
            assert messages == len(context.messages), uuid
            if not any(entry.type == "context_edit" for entry in session.path(uuid)):
                assert abs(tokens - context.tokens) <= len(context.messages), uuid
        count += 1
    return count


@in_soak("seeds", 8, 40)
def test_the_page_has_the_context_of_every_entry_of_any_tree(
    view: View, tmp_path: Path, seeds: int
) -> None:
    for seed in range(seeds):
        session = Tree(Random(seed)).grow(60).session
        assert check(view, session, tmp_path / "page.html") > 20, seed


@in_soak("of_each_kind", 1, 1_000)
def test_the_page_has_the_context_of_every_entry_of_the_fixtures(
    view: View, tmp_path: Path, of_each_kind: int
) -> None:
    seen: Counter[str] = Counter()
    count = 0
    for file in sorted(FIXTURES.glob("*/session.jsonl")):
        kind = file.parent.name.partition("-")[0]
        seen[kind] += 1
        if kind in ("damage", "refused", "end", "line") or seen[kind] > of_each_kind:
            continue
        with Session.open(file, readonly=True) as session:
            count += check(view, session, tmp_path / "page.html")
    assert count > (50 if of_each_kind == 1 else 400)


def test_a_result_of_an_earlier_turn_counts_where_its_call_was_not_answered(
    view: View, tmp_path: Path
) -> None:
    call = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {}}
    result = {"role": "toolResult", "toolCallId": "c1", "content": "late"}
    with Session.create(tmp_path / "session.jsonl") as session:
        session.append_message(user("go"))
        session.append_message(assistant([call]))
        session.append_message(user("and?"))
        late = session.append_message(result)
        session.append_message(user("once more"))
        again = session.append_message(result)
        assert check(view, session, tmp_path / "page.html") == 6
        shown = Shown(view, session, tmp_path / "page.html")
    had = {shown.uuids[entry] for entry in shown.had[again.uuid][0]}
    assert late.uuid in had
    assert again.uuid not in had
