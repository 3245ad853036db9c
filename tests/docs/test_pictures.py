"""The pictures of the README are made by a script, and show something."""

from __future__ import annotations

import runpy
import struct
from pathlib import Path

from tests.page.browser import needs_chromium

ROOT = Path(__file__).parents[2]


@needs_chromium
def test_the_script_makes_pictures_of_their_size_that_are_not_blank(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "docs" / "pictures.py"))
    for made in script["make"](tmp_path):
        data = made.read_bytes()
        assert struct.unpack(">II", data[16:24]) == script["SIZE"]
        assert 20_000 < len(data) < 150_000  # a blank one has some 4,000 bytes
        assert (ROOT / "docs" / "pictures" / made.name).exists()
