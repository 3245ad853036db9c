"""Whatever lanes do below it, main's branch is listed, and each lane where it stands."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sessiontree import NothingToDoError, Session
from tests.support.conversation import in_memory, user

ACTS = st.tuples(
    st.sampled_from(["say", "say", "lane", "scratch", "keep", "label"]), st.integers(0, 9)
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(st.lists(ACTS, max_size=25))
@example([("lane", 0), ("lane", 0), ("say", 8), ("keep", 2), ("say", 0), ("say", 1), ("keep", 1)])
@example([("say", 0), ("lane", 0), ("say", 0), ("label", 1), ("keep", 1)])
def test_a_session_at_the_end_of_its_lane_stands_on_a_branch_that_is_listed(
    acts: list[tuple[str, int]],
) -> None:
    with in_memory() as main, contextlib.ExitStack() as opened:
        lanes: list[Session] = [main]
        for step, (act, pick) in enumerate(acts):
            lane = lanes[pick % len(lanes)]
            if act == "say":
                lane.append_message(user(f"{step}"))
            elif act == "label":
                lane.label("@", f"label-{step}")
            elif act == "keep" and lane is not main:
                with contextlib.suppress(NothingToDoError):
                    lane.keep() if lane._origin is main else main.keep(lane.lane_name)
                if lane.reader.log.ended:
                    lanes.remove(lane)
            elif act == "lane":
                lanes.append(opened.enter_context(lane.lane(f"lane-{step}", at="@")))
            elif act == "scratch":
                lanes.append(opened.enter_context(lane.scratch()))
        branches = main.branches()
        assert len({branch.leaf for branch in branches}) == len(branches)
        content = [entry.uuid for entry in main.path() if entry.is_content]
        current = [branch.leaf for branch in branches if branch.current]
        assert current == content[-1:] or (not current and main.leaf.type == "branch")
        for lane in lanes:
            said = [entry for entry in lane.path() if entry.is_content]
            if said and said[-1].lane == lane.lane_name and lane is not main:
                leaves = {branch.leaf for branch in branches}
                kept = any(below.lane is None for below in main.children(said[-1]))  # by main
                assert said[-1].uuid in leaves or kept or said[-1] in main.path()
        assert sum(branch.length for branch in branches) <= len(main.find(type="message"))
