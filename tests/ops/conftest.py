from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree import Store
from sessiontree.calls.dispatcher import Dispatcher
from sessiontree.calls.scope import Scope


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with one session of a prompt and an answer."""
    made = Store(tmp_path / "store")
    with made.create(cwd="/project", durability="os") as session:
        session.rename("first")
        session.append_message({"role": "user", "content": "Build a CLI"})
        session.append_message({"role": "assistant", "content": "In Rust."})
    return made


@pytest.fixture
def writing(store: Store) -> Dispatcher:
    """All methods, on that store alone, which may write."""
    return Dispatcher(Scope(store.root, agents=False, write=True))
