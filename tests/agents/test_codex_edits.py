"""Edits that the real Codex makes are blamed, told in history and recovered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sessiontree.library.file_history import blame, history, states
from tests.agents import codex_driver
from tests.agents.codex_driver import running

PROGRAM = codex_driver.program()

PATCH = """apply_patch <<'EOF'
*** Begin Patch
*** Update File: app.txt
@@
 one
-two
+2
 three
*** Add File: sub/new.txt
+hello
*** End Patch
EOF"""
MISSED = PATCH.replace("-two", "-nowhere").split("*** Add File")[0] + "*** End Patch\nEOF"


@pytest.mark.skipif(
    PROGRAM is None, reason="Codex is not installed: set CODEX to the path of its program"
)
def test_patches_and_writes_are_blamed_and_recovered(tmp_path: Path) -> None:
    assert PROGRAM is not None
    with running(PROGRAM, tmp_path) as codex:
        file = codex.project / "app.txt"
        file.write_text("one\ntwo\nthree\n")
        thread = codex.start()
        for words, command in (
            ("look", "cat app.txt"),
            ("count", PATCH),
            ("again", MISSED),
            ("note", "cat > notes.txt <<'EOF'\nfirst\nEOF"),
            ("more", "echo second >> notes.txt"),
        ):
            calls = [codex_driver.shell(f"call_{words}", command)]
            codex.turn(thread, words, calls, [codex_driver.text(f"done {words}")])
        rollouts = [str(path) for path in (tmp_path / "sessions").rglob("*.jsonl")]
        assert len(rollouts) == 1

        def blamed(path: Path) -> list[tuple[str, str, str | None]]:
            found = blame(str(path), lambda: rollouts, pytest.fail)
            return [(line.text, line.certainty, line.prompt) for line in found]

        assert file.read_text() == "one\n2\nthree\n"
        assert blamed(file) == [
            ("one", "none", None),
            ("2", "exact", "count"),
            ("three", "none", None),
        ]
        assert blamed(codex.project / "sub/new.txt") == [("hello", "exact", "count")]
        notes = codex.project / "notes.txt"
        assert blamed(notes) == [("first", "exact", "note"), ("second", "exact", "more")]
        for path in (file, notes, codex.project / "sub/new.txt"):
            assert states(str(path), lambda: rollouts, pytest.fail)[-1].text() == path.read_text()
        edits = history(str(file), lambda: rollouts, pytest.fail)
        assert [edit.outcome for edit in edits] == ["kept", "failed"]
