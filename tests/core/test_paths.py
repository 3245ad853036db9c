"""Rules for paths of other machines: which folder here a folder there is."""

from __future__ import annotations

import pytest

from sessiontree import UsageError
from sessiontree.core.paths import PathRule, PathRules
from sessiontree.errors import NothingToDoError
from tests.support.table import for_each

RULES = PathRules(
    [
        PathRule("/Users/me", "/home/me"),
        PathRule("/Users/me/work/", "/data/work"),
        PathRule("C:\\Users\\me\\work", "/home/me/w"),
        PathRule("\\\\server\\share", "/mnt/share"),
    ]
)


@for_each(
    ("path", "here"),
    [
        ("/Users/me", "/home/me"),
        ("/Users/me/x/y.py", "/home/me/x/y.py"),
        ("/Users/me/work/x", "/data/work/x"),
        ("/Users/me/work", "/data/work"),
        ("/Users/me/workshop", "/home/me/workshop"),
        ("/Users/meadow", "/Users/meadow"),
        ("/users/me", "/users/me"),
        ("C:\\Users\\me\\work\\x\\a.py", "/home/me/w/x/a.py"),
        ("c:/users/ME/Work/X", "/home/me/w/X"),
        ("C:\\Users\\me\\workshop", "C:\\Users\\me\\workshop"),
        ("\\\\SERVER\\share\\x", "/mnt/share/x"),
        ("work/x", "work/x"),
        ("Users/me/x", "Users/me/x"),
        ("", ""),
    ],
)
def test_the_longest_rule_maps_whole_names_of_a_path(path: str, here: str) -> None:
    assert RULES.here(path) == here


def test_a_path_here_is_known_by_its_paths_elsewhere() -> None:
    assert RULES.there("/home/me/w/x") == ["/Users/me/w/x", "C:\\Users\\me\\work\\x"]
    assert RULES.there("/data/work") == ["/Users/me/work"]
    assert RULES.there("/elsewhere") == []


@for_each(
    ("old", "new", "said"),
    [
        ("", "/home", "not the whole path"),
        ("/", "/home", "not the whole path"),
        ("work", "/home", "not the whole path"),
        ("/a", "/a", "again and again"),
        ("/a", "/a/b", "again and again"),
        (
            "/b",
            "/Users/me/x",
            "mapped again by the rule for /Users/me; remove the rule for /Users/m",
        ),
        ("/data", "/c", "/data/work is mapped again by the rule for /data"),
    ],
)
def test_a_rule_that_names_nothing_or_leads_in_a_circle_is_refused(
    old: str, new: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        RULES.with_rule(old, new)


def test_a_second_rule_for_a_path_replaces_the_first() -> None:
    rules = RULES.with_rule("c:/Users/me/work", "/other")
    assert rules.here("C:\\Users\\me\\work\\x") == "/other/x"
    assert len(rules.rules) == 4
    with pytest.raises(NothingToDoError, match="no rule maps"):
        rules.without_rule("/nowhere")
    assert rules.without_rule("C:\\users\\me\\work").here("C:\\Users\\me\\work\\x")[0] == "C"
