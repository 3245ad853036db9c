"""What must hold after a fault, whether a call of the seam failed or a call of the system."""

from __future__ import annotations

from collections.abc import Sequence


def check_says(message: str, folder: str) -> None:
    """Check that an error is one line that names the place and the next step."""
    assert "\n" not in message
    assert folder in message, f"names no file: {message}"
    assert ";" in message or "." in message, f"says nothing to do: {message}"


def check_kept(found: Sequence[str], before: Sequence[str], acknowledged: Sequence[str]) -> None:
    """Check the uuids of a file: what was there and what was acknowledged, once and in order."""
    assert [uuid for uuid in found if uuid in before] == list(before), "an older entry is lost"
    kept = [uuid for uuid in found if uuid in acknowledged]
    assert kept == list(acknowledged), "an acknowledged entry is lost, moved or doubled"
    assert len(set(found)) == len(found)
