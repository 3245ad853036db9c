"""The providers' own Python types, as checks of a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

pydantic = pytest.importorskip("pydantic")
pytest.importorskip("anthropic", reason="the dev extra is not installed")
pytest.importorskip("openai", reason="the dev extra is not installed")

from anthropic.types import MessageParam  # noqa: E402
from openai.types.chat import ChatCompletionMessageParam  # noqa: E402
from openai.types.responses import ResponseInputItemParam  # noqa: E402

_ADAPTERS = {
    "anthropic": ("messages", pydantic.TypeAdapter(list[MessageParam])),
    "chat": ("messages", pydantic.TypeAdapter(list[ChatCompletionMessageParam])),
    "responses": ("input", pydantic.TypeAdapter(list[ResponseInputItemParam])),
}


def check_types(api: str, params: dict[str, Any]) -> None:
    """Raise where a request is not of the types that the provider's package declares."""
    key, adapter = _ADAPTERS[api]
    _read_whole(adapter.validate_python(params[key]))


def _read_whole(value: Any) -> None:
    """Read what pydantic checks only when it is read."""
    if isinstance(value, str | bytes | pydantic.BaseModel):
        return
    if isinstance(value, dict):
        for inner in value.values():
            _read_whole(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            _read_whole(inner)
