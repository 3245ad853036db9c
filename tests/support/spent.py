"""Sessions of agents in which each rule of counting tokens and costs matters.

They are written as the agents write them, without spaces, so that other programs find the lines.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from tests.support.transcripts import Line, assistant, user

THOUSAND = 1000
OPUS = "claude-opus-4-6"


def used(new: int = 0, out: int = 0, read: int = 0, written: int = 0, **more: Any) -> Line:
    """The usage of an answer, as Anthropic reports it."""
    cached = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"input_tokens": new, "output_tokens": out, **cached, **more}


def said(uuid: str, id: str, usage: Line, model: str = OPUS, **more: Any) -> Line:
    """A line of an answer in a transcript of Claude Code."""
    line = assistant(uuid, "p", id, requestId=f"req_{id}", **more)
    line["message"] |= {"usage": usage, "model": model}
    return {**line, "version": "2.1.330"}


def progress(uuid: str, id: str, usage: Line, model: str) -> Line:
    """A line about the progress of a subagent, which repeats its answer."""
    answer = said(uuid, id, usage, model)
    repeated = {key: answer[key] for key in ("type", "message", "requestId", "timestamp", "uuid")}
    data = {"type": "agent_progress", "agentId": "a1", "prompt": "", "message": repeated}
    kept = {key: value for key, value in answer.items() if key not in ("message", "requestId")}
    return {**kept, "type": "progress", "data": data, "parentToolUseID": "t1"}


_NEW, _ONE = 10 * THOUSAND, used(10 * THOUSAND, 10 * THOUSAND)
_KEPT = {"ephemeral_5m_input_tokens": 40 * THOUSAND, "ephemeral_1h_input_tokens": 60 * THOUSAND}
_ASKED = [
    {"type": "message", **used(_NEW, 10)},
    {"type": "advisor_message", "model": "claude-opus-4-8", **used(20 * THOUSAND, 1000, 500)},
]

CLAUDE_CODE: dict[str, list[Line]] = {
    "an answer in several lines": [
        said("a", "m", used(_NEW, 1)),
        said("b", "m", used(_NEW, 500)),
        said("c", "n", used(5, 7, 11, 13)),
    ],
    "a last line with fewer tokens": [said("a", "m", used(_NEW, 500)), said("b", "m", used(_NEW))],
    "a cache for an hour": [
        said("a", "m", used(10, 10, 20, 100 * THOUSAND, cache_creation=_KEPT)),
        said("b", "n", used(10, 10, 20, 100 * THOUSAND)),
    ],
    "fast mode": [
        said("a", "m", {**_ONE, "speed": "fast"}, "claude-opus-5"),
        said("b", "n", {**_ONE, "speed": "standard"}, "claude-opus-5"),
        said("c", "o", {**_ONE, "speed": "fast"}),
        said("d", "q", {**_ONE, "speed": "fast"}, "claude-opus-4-8"),
    ],
    "a message of the program itself": [
        said("a", "m", used(), "<synthetic>", isApiErrorMessage=True),
        said("b", "n", _ONE),
    ],
    "an advisor": [said(uuid, "m", used(_NEW, 10, iterations=_ASKED)) for uuid in "ab"],
    "a cost beside the answer": [
        said("a", "m", _ONE, costUSD=0.25),
        said("b", "m", _ONE, costUSD=0.25),
        said("c", "n", _ONE, costUSD=0.5),
    ],
    "the names of Amazon": [said("a", "m", _ONE, "us.anthropic.claude-opus-4-6-v1:0")],
    "the progress of a subagent": [
        said("a", "m", _ONE),
        progress("b", "n", used(_NEW, 3), "claude-haiku-4-5-20251001"),
        progress("c", "n", used(_NEW, 3), "claude-haiku-4-5-20251001"),
        progress("d", "o", used(5, 7, 11, 13), "claude-haiku-4-5-20251001"),
    ],
    "several models": [
        said("a", "m", _ONE, "claude-haiku-4-5-20251001"),
        said("b", "n", _ONE, "claude-sonnet-5"),
        said("c", "o", _ONE, "claude-opus-4-6[1m]"),
    ],
}
"""Sessions of Claude Code, by what matters in them."""


def _event(second: int, kind: str, **payload: Any) -> Line:
    at = f"2026-11-02T19:58:{second:02}.000Z"
    return {"timestamp": at, "type": kind, "payload": payload}


def _turn(second: int, model: str = "gpt-5.4") -> Line:
    return _event(second, "turn_context", cwd="/p", model=model, effort="high")


def _tokens(second: int, times: int, tokens: int = 10 * THOUSAND) -> Line:
    """What Codex counted at a request, which is the so manieth of its kind."""
    last = {"input_tokens": tokens, "cached_input_tokens": 4000, "output_tokens": 1000}
    last |= {"reasoning_output_tokens": 600, "total_tokens": tokens + 1000}
    total = {name: times * count for name, count in last.items()}
    info = {"total_token_usage": total, "last_token_usage": last}
    return _event(second, "event_msg", type="token_count", info=info)


def _tier(second: int, tier: str) -> Line:
    settings = {"model": "gpt-5.4", "service_tier": tier}
    return _event(second, "event_msg", type="thread_settings_applied", thread_settings=settings)


CODEX: dict[str, list[Line]] = {
    "requests": [_turn(1), _tokens(2, 1), _turn(3), _tokens(4, 2)],
    "a count told twice": [_turn(1), _tokens(2, 1), _tokens(3, 1)],
    "another model": [_turn(1), _tokens(2, 1), _turn(3, "gpt-5.3-codex"), _tokens(4, 2)],
    "a tier of service": [
        *(_turn(1), _tokens(2, 1), _tier(3, "priority"), _turn(3), _tokens(4, 2)),
        *(_tier(5, "default"), _turn(5), _tokens(6, 3)),
    ],
}
"""Sessions of Codex, by what matters in them."""

_ID = "01a204d6-b844-7b00-8691-55d64313dd2a"


def claude_code_home(home: Path, lines: Iterable[Line]) -> Path:
    """A session of Claude Code in a user's home folder: its file."""
    file = home / ".claude" / "projects" / "-p" / "5f0c8a52-1d8e-4a53-9c06-2f6f3f5b7d10.jsonl"
    return _written(file, [user("p", None), *lines])


def codex_home(home: Path, lines: Iterable[Line]) -> Path:
    """A session of Codex in a user's home folder: its file."""
    folder = home / ".codex" / "sessions" / "2026" / "11" / "02"
    about = {"cwd": "/p", "originator": "codex_cli_rs", "cli_version": "0.169.0", "source": "cli"}
    meta = _event(0, "session_meta", id=_ID, model_provider="openai", **about)
    return _written(folder / f"rollout-2026-11-02T19-58-00-{_ID}.jsonl", [meta, *lines])


def _written(file: Path, lines: Iterable[Line]) -> Path:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file
