"""Values as lines of JSON that any reader takes."""

from __future__ import annotations

import json
from typing import Any

from sessiontree.context.providers.values import clean_value
from sessiontree.core.jsonbytes import dumps
from sessiontree.errors import EntryError


def json_of(value: Any) -> bytes:
    """A value as JSON on one line, lone surrogates escaped as Node does.

    Numbers that JSON cannot carry become text.

    Raises:
        RecursionError: it is nested too deep.
    """
    try:
        return dumps(value)
    except EntryError:
        pass
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (ValueError, TypeError):
        return json.dumps(clean_value(value), separators=(",", ":")).encode()
