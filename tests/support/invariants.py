"""What holds for any bytes whatever, taken for a session file.

Opening them to read either raises a `SessionTreeError` or gives a session, and then
1. every look at it (entries, tree, branches, names, contexts, verify) gives an answer;
2. the walk, which reads backwards, and the index, which reads all, tell the same
   tree, the same leaf and the same path for every entry;
3. a second look, and a second session, see what the first saw;
4. neither the bytes nor the names in the folder have changed.

Opening them to write either raises a `SessionTreeError` and changes nothing, or
gives a session, and then
5. an entry that is appended hangs below the leaf, stands in the file whole, and
   leaves every byte before it as it was, a migration aside;
6. a repair keeps every entry there was, leaves nothing that a second repair would
   mend, and keeps the original beside the file.
"""

from __future__ import annotations

import warnings

from sessiontree import Session, SessionTreeError, SessionTreeWarning
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.storage.memory import MemoryFiles
from tests.support.conversation import user
from tests.support.files import in_memory

PATH = "/fuzz/chat.jsonl"
LARGEST = 32 * 1024
"""Inputs beyond are cut: many small ones find more in the same time than few large ones."""


def check(content: bytes) -> None:
    """Everything that holds for any bytes."""
    check_reading(content[:LARGEST])
    check_writing(content[:LARGEST])


def files(memory: MemoryFiles) -> dict[str, bytes]:
    return {path: bytes(file.content) for path, file in memory._names.items()}


def check_reading(content: bytes) -> None:
    """Points 1 to 4."""
    memory = in_memory(content, PATH)
    try:
        session = Session.open(PATH, readonly=True, fs=memory)
    except SessionTreeError:
        assert files(memory) == {PATH: content}
        return
    with session:
        first = look(session)
        check_walk_against_index(session)
        assert look(session) == first
        session.refresh()
        assert look(session) == first
    with Session.open(PATH, readonly=True, fs=memory) as again:
        assert look(again) == first
    assert files(memory) == {PATH: content}


def look(session: Session) -> object:
    """All that a session has to say about itself."""
    context = session.context()
    found = (
        session.leaf,
        session.path(),
        context.as_dict(),
        session.context(verbatim=True).messages,
        list(session.entries()),
        list(session.tree()),
        session.branches(),
        list(session.render(all=True)),
        session.name,
        session.metadata,
        turns(session),
        [str(damage) for damage in session.verify()],
    )
    # What was met depends on what was looked at, and so is only asked for.
    assert all(str(damage) for damage in session.damage)
    return found


def turns(session: Session) -> object:
    """The turns. A warning names the handles that cannot be resolved."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SessionTreeWarning)
        return session.turns()


def check_walk_against_index(session: Session) -> None:
    view = session.reader.view
    tree = view.tree()
    entries = list(session.entries())
    assert [entry.offset for entry in entries] == list(tree.offsets)
    assert [entry.uuid for entry in entries] == tree.uuids
    last = tree.last_on(None)
    assert session.leaf.offset == (tree.offsets[last] if last != NO_ROW else 0)
    for row, entry in enumerate(entries):
        walked = [entry.offset, *(above.offset for above in view.walk().up(entry))]
        assert walked == offsets_up(tree, row)
        assert session.path(entry)[-1] == entry
        session.context(entry)
        session.children(entry)


def offsets_up(tree: TreeIndex, row: int) -> list[int]:
    """The offsets of a row and its ancestors; nothing is above a header."""
    return [tree.offsets[above] for above in tree.rows_up(row)]


def check_writing(content: bytes) -> None:
    """Points 5 and 6."""
    memory = in_memory(content, PATH)
    try:
        session = Session.open(PATH, fs=memory, durability="os")
    except SessionTreeError:
        assert files(memory)[PATH] == content
        return
    with session:
        before = files(memory)[PATH]
        assert before == content or files(memory)[PATH + ".v1"] == content
        leaf = session.leaf
        try:
            leaf.uuid.encode()
        except UnicodeEncodeError:  # JSON in UTF-8 cannot name it as a parent
            return
        entry = session.append_message(user("after all"))
        after = files(memory)[PATH]
        assert entry.parent_uuid == leaf.uuid
        assert after.startswith(before)
        assert after.endswith(b"\n" + entry.line + b"\n")
        assert session.context().messages[-1]["content"] == "after all"
        there = {found.uuid for found in session.entries()}
        repair = session.repair()
        assert there <= {found.uuid for found in session.entries()}
        if repair.evidence is not None:
            assert files(memory)[repair.evidence] == after
        else:
            assert files(memory)[PATH] == after
        repaired = files(memory)[PATH]
        assert session.repair(dry_run=True).mended == []
        assert session.repair().evidence is None
        assert files(memory)[PATH] == repaired
        assert session.leaf.uuid == entry.uuid
