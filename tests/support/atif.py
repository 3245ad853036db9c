"""A strict validator of trajectories, from the published rules of ATIF 1.7.

https://harborframework.com/docs/trajectory-format: an object of each kind has no other
fields than these; steps are numbered from 1; what only an agent does is in steps of
the agent; a result names a call of its own step; subagents are named by unique ids.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Final

AGENT_ONLY: Final = {"model_name", "reasoning_effort", "reasoning_content", "tool_calls", "metrics"}
_FIELDS: Final = {
    "trajectory": (
        "schema_version agent steps",
        "session_id trajectory_id notes final_metrics extra "
        "continued_trajectory_ref subagent_trajectories",
    ),
    "agent": ("name version", "model_name tool_definitions extra"),
    "step": (
        "step_id source message",
        "timestamp observation is_copied_context llm_call_count extra " + " ".join(AGENT_ONLY),
    ),
    "call": ("tool_call_id function_name arguments", "extra"),
    "observation": ("results", ""),
    "result": ("", "source_call_id content subagent_trajectory_ref extra"),
    "reference": ("", "trajectory_id session_id trajectory_path extra"),
    "metrics": (
        "",
        "prompt_tokens completion_tokens cached_tokens cost_usd extra "
        "prompt_token_ids completion_token_ids logprobs",
    ),
    "totals": (
        "",
        "total_prompt_tokens total_completion_tokens total_cached_tokens "
        "total_cost_usd total_steps extra",
    ),
    "part": ("type", "text source"),
    "image": ("media_type path", ""),
}
"""The fields that an object of a kind must have, and those that it may have."""
_IMAGES: Final = {"image/jpeg", "image/png", "image/gif", "image/webp"}


def check_trajectory(found: Any, folder: Path) -> None:
    """Refuse a trajectory that breaks a rule; images by path are looked for in a folder."""
    _has_fields(found, "trajectory")
    assert found["schema_version"] == "ATIF-v1.7"
    _has_fields(found["agent"], "agent")
    assert isinstance(found["agent"]["name"], str)
    assert isinstance(found["agent"]["version"], str)
    assert found["steps"]
    for number, step in enumerate(found["steps"], 1):
        assert step["step_id"] == number
        _check_step(step, folder)
    if "final_metrics" in found:
        _has_fields(found["final_metrics"], "totals")
    below = found.get("subagent_trajectories", [])
    assert len({each["trajectory_id"] for each in below}) == len(below)
    for each in below:
        check_trajectory(each, folder)


def _check_step(step: Any, folder: Path) -> None:
    _has_fields(step, "step")
    assert step["source"] in ("system", "user", "agent")
    if step["source"] != "agent":
        assert AGENT_ONLY.isdisjoint(step)
    if "timestamp" in step:
        datetime.fromisoformat(step["timestamp"])
    _check_content(step["message"], folder)
    calls = step.get("tool_calls", [])
    for call in calls:
        _has_fields(call, "call")
        assert isinstance(call["arguments"], dict)
        assert isinstance(call["tool_call_id"], str)
        assert isinstance(call["function_name"], str)
    if "metrics" in step:
        _has_fields(step["metrics"], "metrics")
    if "observation" in step:
        _has_fields(step["observation"], "observation")
        for result in step["observation"]["results"]:
            _check_result(result, {call["tool_call_id"] for call in calls}, folder)


def _check_result(result: Any, calls: set[str], folder: Path) -> None:
    _has_fields(result, "result")
    if "source_call_id" in result:
        assert result["source_call_id"] in calls
    if "content" in result:
        _check_content(result["content"], folder)
    for reference in result.get("subagent_trajectory_ref", []):
        _has_fields(reference, "reference")
        assert "trajectory_id" in reference


def _check_content(content: Any, folder: Path) -> None:
    if isinstance(content, str):
        return
    for part in content:
        _has_fields(part, "part")
        if part["type"] == "text":
            assert isinstance(part["text"], str)
            assert "source" not in part
        else:
            assert part["type"] == "image"
            assert "text" not in part
            _has_fields(part["source"], "image")
            assert part["source"]["media_type"] in _IMAGES
            path = part["source"]["path"]
            assert "://" in path or (folder / path).is_file()


def _has_fields(found: Any, kind: str) -> None:
    needed, allowed = (set(names.split()) for names in _FIELDS[kind])
    assert isinstance(found, dict)
    assert needed <= set(found) <= needed | allowed, (kind, sorted(found))
    assert all(value is not None for value in found.values())
