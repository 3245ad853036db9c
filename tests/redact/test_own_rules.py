"""A user's own rules: they go first, and one that takes too long is ended and named."""

from __future__ import annotations

import signal
import threading

import pytest

from sessiontree import UsageError
from sessiontree.redact import rules
from sessiontree.redact.redaction import Redaction
from sessiontree.redact.rules import own_rules

EVIL = "evil = '(a+)+$'\nstaff = 'S-[0-9]{4}'"
TRAP = "a" * 60 + "!"


@pytest.fixture
def evil(monkeypatch: pytest.MonkeyPatch) -> Redaction:
    monkeypatch.setattr(rules, "LIMIT_SECONDS", 0.5)
    return Redaction(own_rules(EVIL, "r.toml"))


def test_a_users_rules_go_first_and_may_take_the_place_of_a_built_in_one() -> None:
    text = "staff = '(?i)S-(?P<secret>[0-9]{4})'\nemail = 'nobody'"
    redaction = Redaction(own_rules(text, "r.toml"))
    assert redaction.text("s-1234 ann@a.org /home/x") == "s-[redacted:staff:1] ann@a.org ~"


def test_a_rule_that_takes_too_long_is_named_and_ends(evil: Redaction) -> None:
    with pytest.raises(UsageError, match=r"r\.toml: rule 'evil' takes longer than 0\.5 seconds"):
        evil.text(TRAP)


def test_other_texts_are_searched_after_one_that_took_too_long(evil: Redaction) -> None:
    with pytest.raises(UsageError):
        evil.text(TRAP)
    assert evil.text("S-1234") == "[redacted:staff:1]"


def test_a_timer_that_the_program_has_set_goes_on(evil: Redaction) -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        signal.setitimer(signal.ITIMER_REAL, 1000.0)
        assert evil.text("S-1234") == "[redacted:staff:1]"
        assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
        assert signal.setitimer(signal.ITIMER_REAL, 0)[0] > 0
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_thread_gets_what_its_rules_find(evil: Redaction) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(evil.text("S-1234")))
    thread.start()
    thread.join()
    assert found == ["[redacted:staff:1]"]


def test_a_rule_that_matches_empty_text_is_refused() -> None:
    with pytest.raises(UsageError, match=r"r\.toml: rule 'a' matches empty text"):
        own_rules("a = 'x*'", "r.toml")


def test_any_text_comes_to_the_rule_as_it_is() -> None:
    found = Redaction(own_rules("odd = '[\\ud800é\\n]+'", "r.toml"))
    assert found.text("a\ud800é\nb") == "a[redacted:odd:1]b"
