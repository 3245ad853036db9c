"""The images of a page: the first ones inside it, those above a limit as files beside it.

Invariants: a file is named after its content, so that none is replaced by another; an image is
written before the page that shows it is complete; only markup of this package is looked at, where
an image is a `data:` address with nothing but base64 in it.
"""

from __future__ import annotations

import base64
import os
import re
from contextlib import suppress
from hashlib import sha256
from typing import Final
from urllib.parse import quote

from sessiontree.errors import SessionExistsError
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.move import make_folders

INSIDE: Final = 3_000_000
"""The characters of images, as base64, that a page has inside."""

_IMAGE: Final = re.compile(
    r'(<img alt="image/([\w.+-]{1,40})" src=")data:[\w/.+-]+;base64,([^"]*)(">)'
)


class Images:
    """Puts images beside a page.

    Args:
        folder: the folder for them, beside the page; made if need be.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._inside = 0
        self.count = 0

    def placed(self, markup: str) -> str:
        """Markup of a row whose images are inside, or files that it names.

        Raises:
            StorageError: a file cannot be written.
        """
        return _IMAGE.sub(self._place, markup) if "<img " in markup else markup

    def _place(self, found: re.Match[str]) -> str:
        before, kind, data, after = found.groups()
        if self._inside + len(data) <= INSIDE:
            self._inside += len(data)
            return found[0]
        content = base64.b64decode(data + "=" * (-len(data) % 4))
        name = f"{sha256(content).hexdigest()[:32]}.{kind.partition('+')[0]}"
        make_folders(DISK, self._folder)
        with suppress(SessionExistsError):  # an image that the page has twice
            create_file(DISK, os.path.join(self._folder, name), iter([content]))
            self.count += 1
        return f"{before}{quote(os.path.basename(self._folder))}/{name}{after}"
