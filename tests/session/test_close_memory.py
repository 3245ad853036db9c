"""A closed session holds neither its context nor its tree, and says that it is closed."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from sessiontree import ReadOnlyError, Session
from sessiontree.core.index import TreeIndex
from sessiontree.engine.cursor import Path as TreePath
from tests.support.conversation import user


def held() -> int:
    gc.collect()
    return sum(isinstance(one, TreeIndex | TreePath) for one in gc.get_objects())


def test_close_lets_the_memory_of_the_context_and_of_the_tree_go(tmp_path: Path) -> None:
    before = held()
    session = Session.create(tmp_path / "chat.jsonl")
    leaf = session.append_message(user("Build a CLI"))
    context = session.context()
    assert len(list(session.tree())) == 2
    assert held() > before
    session.close()
    del context
    assert held() == before
    assert (session.leaf, session.damage, session.header.type) == (leaf, [], "session")
    for read in (session.context, session.path, session.branches, session.compaction_plan):
        with pytest.raises(ReadOnlyError, match="is closed; open the session again"):
            read()


def test_a_context_outlives_its_session(tmp_path: Path) -> None:
    with Session.create(tmp_path / "chat.jsonl") as session:
        session.append_message({"role": "system", "content": "Be brief."})
        session.append_message(user("Build a CLI"))
        context = session.context()
    assert context.system == "Be brief."
    assert context.to_anthropic().params["system"] == "Be brief."
