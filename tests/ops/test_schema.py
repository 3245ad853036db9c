"""`schema`: a client learns by calls which methods there are, and what they take and give."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.calls import Calls


@pytest.fixture
def calls(tmp_path: Path) -> Calls:
    return Calls(tmp_path)


def test_the_list_has_every_method_on_a_line(calls: Calls) -> None:
    found = calls.pages("schema.list", budget=1000)
    assert [one["name"] for one in found] == list(calls.dispatcher.methods)
    assert len(found) >= 60
    lines = {one["name"]: one for one in found}
    assert lines["branch.switch"]["params"].startswith("ref, session, ")
    assert lines["branch.switch"]["effect"] == "write"
    assert lines["health.gc"]["effect"] == "destroy"
    assert "effect" not in lines["tree.render"]
    own = calls.value("schema.list", namespace="schema")["items"]
    assert [one["name"] for one in own] == ["schema.list", "schema.get", "schema.hash"]


def test_each_method_is_described_whole_within_the_budget(calls: Calls) -> None:
    for name, method in calls.dispatcher.methods.items():
        answer = calls("schema.get", method=name)
        assert answer.tokens <= 4000
        assert answer.value["params"] == method.params_schema, name
        assert answer.value["description"] == method.description


def test_the_hash_is_that_of_every_event(calls: Calls) -> None:
    answer = calls("schema.hash")
    assert answer.value["hash"] == answer.events[0].schema
    assert answer.value["methods"] == len(calls.dispatcher.methods)


def test_unknown_names_are_refused_with_the_nearest(calls: Calls) -> None:
    answer = calls("schema.get", method="branch.swich")
    assert (answer.kind, "branch.switch" in (answer.error or "")) == ("unknown_method", True)
    answer = calls("schema.list", namespace="brunch")
    assert (answer.kind, "'branch'" in (answer.error or "")) == ("unknown_namespace", True)
