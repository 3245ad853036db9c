"""A user's own rules run under a limit: none hangs, wherever it runs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from sessiontree import UsageError
from sessiontree.operations.own_rules import OwnRules
from sessiontree.redact.redaction import Redaction
from tests.support.children import PATIENCE

EVIL = "evil = '(a+)+$'\nstaff = 'S-[0-9]{4}'"
TRAP = "a" * 60 + "!"
ENDS = 0.5


@pytest.fixture
def evil() -> Iterator[Redaction]:
    with OwnRules(EVIL, "r.toml", limit=ENDS) as rules:
        yield Redaction(rules.rules)


def test_a_users_rules_go_first_and_may_take_the_place_of_a_built_in_one() -> None:
    text = "staff = '(?i)S-(?P<secret>[0-9]{4})'\nemail = 'nobody'"
    with OwnRules(text, "r.toml") as rules:
        redaction = Redaction(rules.rules)
        assert redaction.text("s-1234 ann@a.org /home/x") == "s-[redacted:staff:1] ann@a.org ~"


def test_a_rule_that_takes_too_long_is_named_and_ends(evil: Redaction) -> None:
    with pytest.raises(UsageError, match=r"r\.toml: rule 'evil' takes longer than 0\.5 seconds"):
        evil.text(TRAP)


def test_other_texts_are_searched_after_one_that_took_too_long(evil: Redaction) -> None:
    with pytest.raises(UsageError):
        evil.text(TRAP)
    assert evil.text("S-1234") == "[redacted:staff:1]"


def test_a_rule_is_stopped_in_a_thread_too(evil: Redaction) -> None:
    found: list[str] = []

    def search() -> None:
        with pytest.raises(UsageError) as caught:
            evil.text(TRAP)
        found.append(str(caught.value))

    thread = threading.Thread(target=search)
    thread.start()
    thread.join()
    assert "'evil'" in found[0]


def test_several_threads_get_their_own_answers() -> None:
    with OwnRules("staff = 'S-[0-9]+'", "r.toml") as rules:
        search = rules.rules[0].search
        assert search is not None
        wrong: list[int] = []

        def ask(number: int) -> None:
            start.wait()
            for turn in range(50):
                text = "x" * (number + 4 * turn) + "S-1"
                if list(search(text)) != [(len(text) - 3, len(text))]:
                    wrong.append(number)

        start = threading.Barrier(4)
        threads = [threading.Thread(target=ask, args=(n,), daemon=True) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert not wrong
        assert not any(thread.is_alive() for thread in threads)


def test_a_rule_that_matches_empty_text_is_refused() -> None:
    with pytest.raises(UsageError, match=r"r\.toml: rule 'a' matches empty text"):
        OwnRules("a = 'x*'", "r.toml").__enter__()


def test_any_text_comes_to_the_rule_as_it_is() -> None:
    with OwnRules("odd = '[\\ud800é\\n]+'", "r.toml") as rules:
        assert Redaction(rules.rules).text("a\ud800é\nb") == "a[redacted:odd:1]b"


def test_no_process_is_left_behind() -> None:
    with OwnRules("staff = 'S-[0-9]+'", "r.toml") as rules:
        assert Redaction(rules.rules).text("S-1") == "[redacted:staff:1]"
        process = rules.process
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


@pytest.mark.slow
def test_the_program_that_runs_rules_needs_the_standard_library_alone() -> None:
    from sessiontree.operations import own_rules

    done = subprocess.run(
        [sys.executable, "-I", "-S", str(own_rules.PROGRAM)],
        input=b'[1, [["a+", []]]]\n"baab"\n',
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"[[1, 3]]\n"
