"""Blocks and items as their own provider takes them back.

What a provider wrote goes back to it as it was stored. A key is left out only where the type that
the API declares for its input has no place for it; a type that is not listed goes whole. The lists
are those of the packages `anthropic` 2.14 and `openai` 3.57.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from sessiontree.context.providers.values import RequestNotes, clean_value
from sessiontree.core.message import kind_of

_FREE: Final = frozenset(
    {
        *("input", "arguments", "parameters", "input_schema", "output_schema", "input_examples"),
        *("schema", "attributes", "env", "headers"),
    }
)
"""The keys whose values are any JSON, which is never changed."""


class Accepted(NamedTuple):
    """What an API takes back of its own blocks and items."""

    provider: str  # the provider's name for people
    keys: Mapping[str, frozenset[str]]  # the keys of each type
    refused: Mapping[str, frozenset[str]]  # the keys that only answers have, by inner type
    nulls: frozenset[str]  # the keys whose value may be null; elsewhere null is left out

    def fit(self, stored: Mapping[str, Any], notes: RequestNotes) -> dict[str, Any]:
        """A stored block or item without what the API refuses."""
        kind = kind_of(stored)
        known = self.keys.get(kind)
        if known is None:
            return dict(clean_value(stored))
        for key in stored.keys() - known:
            if stored[key] is not None and key not in self.refused[""]:
                notes.add(f"the key {key!r} of a {kind} was left out: {self.provider} refuses it")
        return dict(clean_value(self._inner({k: stored[k] for k in stored if k in known})))

    def _inner(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            refused = self.refused.get(kind_of(value), self.refused[""])
            return {
                key: inner if key in _FREE else self._inner(inner)
                for key, inner in value.items()
                if key not in refused and (inner is not None or key in self.nulls)
            }
        return [self._inner(inner) for inner in value] if isinstance(value, list) else value


def _table(rows: Iterable[str]) -> dict[str, frozenset[str]]:
    split = (row.split() for row in rows)
    return {kind: frozenset({"type", *keys}) for kind, *keys in split}


_FILE_ID: Final = frozenset({"file_id"})

ANTHROPIC: Final = Accepted(
    "Anthropic",
    _table(
        (
            "advisor_tool_result cache_control content tool_use_id",
            "bash_code_execution_tool_result cache_control content tool_use_id",
            "browser_state cache_control state_changes tabs",
            "code_execution_tool_result cache_control content tool_use_id",
            "compaction cache_control content encrypted_content signature tool_changes",
            "container_upload cache_control file_id",
            "document cache_control citations context source title",
            "fallback from to trigger",
            "image cache_control source transformations",
            "mcp_tool_listing mcp_server_name tools",
            "mcp_tool_result cache_control content is_error tool_use_id",
            "mcp_tool_use cache_control id input name server_name",
            "redacted_thinking data",
            "search_result cache_control citations content source title",
            "server_tool_use cache_control caller id input name",
            "text cache_control citations text",
            "text_editor_code_execution_tool_result cache_control content tool_use_id",
            "thinking signature thinking",
            "tool_addition cache_control tool",
            "tool_reference cache_control tool_name",
            "tool_removal cache_control tool",
            "tool_result cache_control content is_error tool_use_id toolset_name",
            "tool_search_tool_result cache_control content tool_use_id",
            "tool_use cache_control caller id input name toolset_name",
            "web_fetch_tool_result cache_control caller content tool_use_id",
            "web_search_tool_result cache_control caller content tool_use_id",
        )
    ),
    {
        "": frozenset(),
        "char_location": _FILE_ID,
        "page_location": _FILE_ID,
        "content_block_location": _FILE_ID,
    },
    frozenset({"content", "document_title", "page_age", "retrieved_at", "title"}),
)
"""Blocks of Anthropic's Messages API, in messages and in results of tools."""

RESPONSES: Final = Accepted(
    "OpenAI",
    _table(
        (
            "additional_tools id role tools",
            "apply_patch_call call_id caller id operation status",
            "apply_patch_call_output call_id caller id output status",
            "code_interpreter_call code container_id id outputs status",
            "compaction encrypted_content id",
            "compaction_trigger id",
            "computer_call action actions call_id id pending_safety_checks status",
            "computer_call_output acknowledged_safety_checks call_id id output status",
            "configuration_update id reasoning text",
            "custom_tool_call async call_id caller id input name namespace",
            "custom_tool_call_output call_id caller id output",
            "file_search_call id queries results status",
            "function_call arguments async call_id caller id name namespace status",
            "function_call_output call_id caller id name namespace output status",
            "image_generation_call action background error id output_format quality result"
            " revised_prompt size status svg_usage",
            "input_file detail file_data file_id file_url filename prompt_cache_breakpoint",
            "input_image detail file_id image_url prompt_cache_breakpoint",
            "input_text prompt_cache_breakpoint text",
            "item_reference id",
            "local_shell_call action call_id id status",
            "local_shell_call_output id output status",
            "mcp_approval_request arguments id name server_label",
            "mcp_approval_response approval_request_id approve id reason",
            "mcp_call approval_request_id arguments error id name output server_label status",
            "mcp_list_tools error id server_label tools",
            "message content id phase role status",
            "output_text annotations logprobs text",
            "program call_id code fingerprint id",
            "program_output call_id id result status",
            # not `content`: the API refuses reasoning with its text
            "reasoning encrypted_content id status summary",
            "refusal refusal",
            "shell_call action call_id caller environment id status",
            "shell_call_output call_id caller id max_output_length output status",
            "tool_search_call arguments call_id execution id status",
            "tool_search_output call_id execution id status tools",
            "web_search_call action id status",
        )
    ),
    {"": frozenset({"created_by"})},
    frozenset({"code", "keys", "outputs", "param", "parameters", "result", "strict"}),
)
"""Items of OpenAI's Responses API, and the parts of their content."""

_CHAT: Final = frozenset({"image_url", "file", "input_audio", "audio"})


def is_of_openai(block: Mapping[str, Any]) -> bool:
    """True if only OpenAI has blocks or items of this type."""
    kind = kind_of(block)
    return kind in _CHAT or (kind in RESPONSES.keys and kind not in ANTHROPIC.keys)


def is_of_anthropic(block: Mapping[str, Any]) -> bool:
    """True if only Anthropic has blocks of this type."""
    kind = kind_of(block)
    return kind in ANTHROPIC.keys and kind not in RESPONSES.keys


def note_unknown(block: Mapping[str, Any], maker: str | None, notes: RequestNotes) -> None:
    """Note a block that goes whole though nothing says that the provider knows it."""
    if maker is None and not is_known(block):
        notes.add(f"a block of the unknown kind {kind_of(block)!r} was sent as it was stored")


def is_known(block: Mapping[str, Any]) -> bool:
    """True if a provider is known to have blocks or items of this type."""
    return is_of_openai(block) or kind_of(block) in ANTHROPIC.keys
