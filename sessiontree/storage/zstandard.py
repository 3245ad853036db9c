"""Decoders of Zstandard: of Python, or else of the package `zstandard`; a system may have none."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Final

from sessiontree.errors import DecoderMissingError

FED: Final = 512
"""Compressed bytes that are unpacked in one step, which bounds what a step gives."""


def unpacked(block: bytes, most: int, name: str) -> bytes | None:
    """A block that is compressed on its own; None if it is damaged, or has more than `most` bytes.

    Raises:
        DecoderMissingError: there is no decoder.
    """
    decoder, parts, left = decoder_for(name)(), [], most
    try:
        for start in range(0, len(block), FED):
            parts.append(decoder.decompress(block[start : start + FED]))
            left -= len(parts[-1])
            if left < 0:
                return None
    except Exception:  # each decoder raises its own kind
        return None
    return b"".join(parts)


def decoder_for(path: str) -> Any:
    """A function that makes decoders, of Python 3.14 or else of the package `zstandard`."""
    try:
        if sys.version_info >= (3, 14):
            return importlib.import_module("compression.zstd").ZstdDecompressor
        package = importlib.import_module("zstandard")
    except ImportError as error:
        message = (
            f"{path} is compressed by Zstandard, and there is no decoder for it; "
            "install it with pip install 'sessiontree[zstd]'"
        )
        raise DecoderMissingError(message, path) from error
    return lambda: package.ZstdDecompressor().decompressobj()
