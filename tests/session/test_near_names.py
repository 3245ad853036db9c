"""A name that a session or an entry does not have is answered with the right one."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sessiontree import AsyncSession, RefError, Session
from tests.support.conversation import user
from tests.support.table import for_each

NEAR = {
    "messages": "context().messages",
    "add_message": "append_message",
    "head": "leaf",
    "current": "leaf",
    "title": "name, which rename sets",
}


@for_each("name, word", NEAR.items())
@pytest.mark.parametrize("kind", [Session, AsyncSession])
def test_a_near_miss_on_a_session_names_the_right_word(kind: Any, name: str, word: str) -> None:
    owner: Any = Session.create() if kind is Session else AsyncSession.__new__(AsyncSession)
    with pytest.raises(AttributeError, match=re.escape(f"has no attribute '{name}'; use {word}")):
        getattr(owner, name)


def test_a_near_miss_on_the_class_names_the_right_word() -> None:
    kinds: tuple[Any, ...] = (Session, AsyncSession)
    for kind in kinds:
        with pytest.raises(AttributeError, match="has no attribute 'load'; use open"):
            kind.load  # noqa: B018


def test_a_near_miss_on_an_entry_names_the_right_word() -> None:
    entry: Any = Session.create().append_message(user("Hi"))
    for name, word in {"id": "uuid", "parent": "parent_uuid", "role": "entry['message']"}.items():
        with pytest.raises(AttributeError, match=re.escape(f"'{name}'; use {word}")):
            getattr(entry, name)


def test_any_other_name_is_an_ordinary_attribute_error() -> None:
    session = Session.create()
    owners: tuple[Any, ...] = (session, session.header, Session)
    for owner in owners:
        with pytest.raises(AttributeError, match=r"has no attribute 'brunch'$"):
            owner.brunch  # noqa: B018
        assert not hasattr(owner, "model_dump")


def test_a_ref_without_a_near_name_says_how_to_list_names() -> None:
    with pytest.raises(RefError, match="no entry is named 'nope'") as raised:
        Session.create().entry("nope")
    assert raised.value.__notes__ == ["tree(), labels() and branches() list what can be named"]


def test_the_help_of_a_session_begins_with_its_methods_in_groups() -> None:
    listed = (Session.__doc__ or "").split("in six groups:")[1].split("\n\n", 2)[1]
    groups = re.findall(r"^ *- ([\w ]+):", listed, re.MULTILINE)
    assert groups == ["Open and close", "Read", "Write", "Move", "Copy", "Lanes"]
    public = {name for name in vars(Session) if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", listed)) == public


def test_a_context_shows_its_counts_and_its_place() -> None:
    session = Session.create()
    leaf = session.append_message(user("Hi"))
    context = session.context()
    assert repr(context) == f"<Context at message {leaf.uuid}: 1 message>"
    assert context.tokens > 0
    session.append_message({"role": "toolResult", "toolCallId": "t", "content": "x"})
    assert "warnings: ['" in repr(session.context())
    assert f"1 message, {context.tokens} tokens>" in repr(context)


def test_a_rewound_prompt_has_its_image() -> None:
    session = Session.create()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x"}}
    asked = session.append_message(user([{"type": "text", "text": "What is this?"}, image]))
    prompt = session.rewind()
    assert prompt == "What is this?"
    assert (prompt.attachments, prompt.entry) == ([image], asked)
    assert prompt.message is not None
    assert session.append_message(prompt.message)["message"] == asked["message"]
