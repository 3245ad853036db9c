"""What a task asks for comes back to it: the text for its model, and warnings of its own line."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

from sessiontree import AsyncSession, Session, SessionTreeWarning, Summarized
from tests.support.conversation import user
from tests.support.loops import in_each_loop


def fill(session: Session) -> None:
    session.append_message(user("Build a CLI"))
    session.push()
    session.append_message(user("Try Rust"))
    session.append_message({"role": "assistant", "content": "Done."})


async def ask(entries: Summarized) -> str:
    assert isinstance(entries, Summarized)
    assert "Done." in entries.text
    return f"{len(entries)} entries, the last a {entries[-1].type}"


@in_each_loop
async def test_a_coroutine_summarizer_gets_the_text_for_a_model() -> None:
    for move in (AsyncSession.pop, partial(AsyncSession.branch, ref="@~1")):
        session = await AsyncSession.create()
        await session.run(fill)
        assert (await move(session, summary=ask))["summary"].endswith("the last a message")
    session = await AsyncSession.create()
    await session.run(fill)
    assert (await session.compact(ask, keep=0))["summary"].endswith("the last a message")
    session = await AsyncSession.create()
    await session.run(fill)
    side = session.leaf
    await session.switch(session.header)
    assert (await session.merge(side, summary=ask))["summary"].endswith("the last a message")


@in_each_loop
async def test_a_warning_names_the_line_of_the_task_that_made_the_call(path: Path) -> None:
    async with AsyncSession.create(path.with_name("warned.jsonl")) as session:
        entry = await session.append_message(user("Build a CLI"))
        await session.compact("Built", keep=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            await session.switch(entry)  # this line
        (one,) = caught
        assert one.category is SessionTreeWarning
        assert one.filename == __file__
        line = Path(__file__).read_text().splitlines()[one.lineno - 1]
        assert line.endswith("# this line")
