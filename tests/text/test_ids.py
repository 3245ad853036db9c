"""Of which session one is a fork or a subagent, in words."""

from __future__ import annotations

from sessiontree.text.ids import kin_in_words
from tests.support.table import for_each


@for_each(
    ("id", "above", "expected"),
    [
        ("session_16cb.agent-0", "session_16cb", "subagent of session_"),
        ("1795982145456_s9wff__agent_1795_nl", "1795982145456_s9wff", "subagent of 17959821"),
        ("0c0ffee0-01$$call_9", "5e551015-0000", "subagent of 5e551015"),
        ("session_16cb2", "session_16cb", "fork of session_"),
        ("0c0ffee0-0000", "5e551015-0000", "fork of 5e551015"),
        ("0c0ffee0-0000", "0c0ffee0-0000", ""),
        ("0c0ffee0-0000", None, ""),
    ],
)
def test_a_session_says_whose_subagent_or_fork_it_is(
    id: str, above: str | None, expected: str
) -> None:
    assert kin_in_words(id, above) == expected
