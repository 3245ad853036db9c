"""Images of a page are inside it up to a limit, and else files beside it."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sessiontree import Session, StorageError
from sessiontree.page.document import INSIDE
from tests.page.browser import View, chromium, needs_chromium
from tests.page.reading import page_of
from tests.support.conversation import user
from tests.support.terminal import run


def png(seed: int, side: int = 600) -> bytes:
    """A picture of noise, of about three bytes a pixel."""
    noise = random.Random(seed).randbytes(side * 3)
    rows = b"".join(b"\0" + noise[n:] + noise[:n] for n in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows, 0))
        + chunk(b"IEND", b"")
    )


PICTURES = [png(seed) for seed in range(4)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "session.jsonl"
    with Session.create(path, name="Pictures", durability="os") as session:
        for picture in [*PICTURES, PICTURES[3]]:
            data = base64.b64encode(picture).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            session.append_message(user([{"type": "image", "source": source}]))
    return path


def test_images_after_the_limit_are_files_named_after_their_content(file: Path) -> None:
    page = file.with_suffix(".html")
    result = run("export", file, "--html", "-o", page)
    assert result.exit_code == 0
    folder = file.with_name("session-images")
    assert str(folder) in result.stderr
    inside = INSIDE // len(base64.b64encode(PICTURES[0]))
    assert 0 < inside < 4
    beside = {f"{sha256(one).hexdigest()[:32]}.png": one for one in PICTURES[inside:]}
    assert {each.name: each.read_bytes() for each in folder.iterdir()} == beside
    assert page.stat().st_size < 2 * INSIDE


def test_a_page_that_is_not_written_to_a_file_has_all_images_inside(file: Path) -> None:
    heads = "".join(part for row in page_of(file).rows for part in map(str, row))
    assert heads.count('src="data:image/png;base64,') == 5


def test_a_page_made_again_keeps_the_images(file: Path) -> None:
    folder = file.with_name("pictures")
    for _ in range(2):
        with Session.open(file, readonly=True) as session:
            made = "".join(session.to_html(images=folder))
    assert "img-src data: &#39;self&#39;" in made
    assert len(list(folder.iterdir())) == 2


def test_a_folder_that_cannot_be_made_is_named(file: Path) -> None:
    file.with_name("pictures").write_text("in the way")
    with (
        Session.open(file, readonly=True) as session,
        pytest.raises(StorageError, match="pictures"),
    ):
        "".join(session.to_html(images=file.with_name("pictures")))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@needs_chromium
def test_the_browser_shows_the_images_beside_a_page(file: Path, browser: Any) -> None:
    page = file.with_suffix(".html")
    run("export", file, "--html", "-o", page)
    view = View(browser).open(page)
    view.press("G")
    view.wait_for(
        "[...document.querySelectorAll('#list img')].some(one => !one.src.startsWith('data:'))"
    )
    view.wait_for(
        "[...document.querySelectorAll('#list img')].every(one => one.naturalWidth === 600)"
    )
    assert not view.errors
    assert not view.asked
