"""Fields: the keys of an entry of each type, and the types of their values.

`check_fields` (in `entry`) refuses an entry that does not fit its type here, and
`docs/make_schema.py` makes the JSON schema and the TypeScript types of the format from these types.
An entry may have other keys too.

Keys are in the order of a line: `LeadingKeys`, the fields of the type, `ClosingKeys`.
"""

from __future__ import annotations

from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from sessiontree.core.handle import Kind
from sessiontree.core.message import CALL_BLOCKS

_WANTED: Final = "wanted"  # the key of a type's `extra`: the type in words, for errors

_NAME: Final = r"[^@~:\s\u0000-\u001f\u007f-\u009f]+"
"""`check_name` (in `engine.names`) refuses some more control characters."""

_NOT_ITEMS: Final = sorted(CALL_BLOCKS | {"message"})
_SPILLED: Final = [
    {"type": "array", "items": {"type": ["string", "integer"]}, "minItems": 1},
    {"type": "string", "minLength": 1},
    {"type": "string", "maxLength": 200},
]

Text = Annotated[str, Meta(min_length=1, extra={_WANTED: "a non-empty string"})]
NullableText = Annotated[Text | None, Meta(extra={_WANTED: "a non-empty string, or None"})]
Count = Annotated[int, Meta(ge=0, extra={_WANTED: "a whole number"})]
Object = Annotated[dict[str, Any], Meta(extra={_WANTED: "a dict"})]
Timestamp = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
CallerFacts = Annotated[Any, Meta(description="Facts of the caller.")]
SummaryUsage = Annotated[Object, Meta(description="The tokens and the cost of making the summary.")]
Name = Annotated[Text, Meta(extra_json_schema={"pattern": f"^{_NAME}$"})]
LabelText = Annotated[Text, Meta(extra_json_schema={"pattern": f"^{_NAME}( {_NAME})*$"})]


class RoleMessage(TypedDict):
    """A message with a role. Its other keys are those of the caller."""

    role: Annotated[
        Text,
        Meta(
            description="The role: `system`, `user`, `assistant`, `toolResult`, `bashExecution`, "
            "`custom`, or another role of a provider."
        ),
    ]


class ResponsesItem(TypedDict):
    """An item of OpenAI Responses, which has no role."""

    type: Annotated[
        Text,
        Meta(
            description="The type of the item.",
            extra_json_schema={"not": {"enum": _NOT_ITEMS}},
        ),
    ]
    role: NotRequired[Annotated[None, Meta(description="An item has no role.")]]


MESSAGES: Final = (RoleMessage, ResponsesItem)
"""The types of a message; `check_new_message` (in `message`) checks one."""

_MESSAGES: Final = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in MESSAGES]


class MessageFields(TypedDict):
    """A message of the conversation, as the caller gave it."""

    message: Annotated[
        Object, Meta(description="The message.", extra_json_schema={"anyOf": _MESSAGES})
    ]


class HandleFields(TypedDict):
    """A pointer to content that is stored elsewhere."""

    handle: Annotated[
        Text, Meta(description="The text form of the handle: `plugin@version::method:meta0:meta1`.")
    ]
    kind: Annotated[
        Kind,
        Meta(
            description="The kind of the content.",
            extra={_WANTED: "'message', 'output', 'document' or 'binary'"},
        ),
    ]
    role: NotRequired[Annotated[Text, Meta(description="The role of the message.")]]
    preview: NotRequired[Annotated[Text, Meta(description="A short text for people.")]]


class ModelSetting(TypedDict):
    """The model in force."""

    provider: Annotated[NullableText, Meta(description="The provider; `null` if not known.")]
    modelId: Annotated[Text, Meta(description="The id of the model.")]


class CompactionState(TypedDict, total=False):
    """The settings at a compaction; `null` for one that was never set."""

    model: Annotated[ModelSetting | None, Meta(description="The model.")]
    thinkingLevel: Annotated[str | None, Meta(description="The thinking level.")]
    system: Annotated[str | None, Meta(description="The system text.")]
    name: Annotated[str | None, Meta(description="The name of the session.")]
    push: Annotated[str | None, Meta(description="The uuid of the open `stack_push`.")]


class CompactionFields(TypedDict):
    """A summary in place of the entries above the first kept one."""

    summary: Annotated[Text, Meta(description="The summary.")]
    firstKeptEntryUuid: Annotated[
        Text,
        Meta(
            description="The uuid of the first entry that is kept; the compaction's own keeps none."
        ),
    ]
    tokensBefore: Annotated[Count, Meta(description="The tokens of the context before.")]
    details: NotRequired[CallerFacts]
    usage: NotRequired[SummaryUsage]
    state: NotRequired[
        Annotated[
            CompactionState,
            Meta(
                description="The settings at the compaction.",
                extra={_WANTED: "a dict with the settings"},
            ),
        ]
    ]


class SummaryFields(TypedDict):
    """A summary of a branch that was left."""

    summary: Annotated[Text, Meta(description="The summary.")]
    fromUuid: NotRequired[Annotated[Text, Meta(description="The uuid of the leaf that was left.")]]
    details: NotRequired[CallerFacts]
    usage: NotRequired[SummaryUsage]


class StackPushFields(TypedDict):
    """A mark that a `stack_summary` returns to."""

    note: NotRequired[Annotated[Text, Meta(description="What the work after it is about.")]]


class BranchFields(TypedDict):
    """A move of the leaf: the parent is the entry to continue from."""

    name: NotRequired[
        Annotated[
            Name | None,
            Meta(
                description="The name of the branch.",
                extra={_WANTED: "a non-empty string, or None"},
            ),
        ]
    ]
    fromUuid: NotRequired[Annotated[Text, Meta(description="The uuid of the leaf that was left.")]]


class MergeFields(TypedDict):
    """What another path adds to the context here."""

    mergedUuid: Annotated[Text, Meta(description="The uuid of the last entry of the other path.")]
    baseUuid: Annotated[Text, Meta(description="The uuid of the common ancestor.")]
    summary: NotRequired[
        Annotated[
            NullableText, Meta(description="A summary of the other path, instead of its messages.")
        ]
    ]


class EditReplacement(TypedDict):
    """The new content of an entry in a context."""

    content: Annotated[Any, Meta(description="The content of the message, or the summary.")]


class ContextEditFields(TypedDict):
    """A change of what another entry adds to the context."""

    targetUuid: Annotated[Text, Meta(description="The uuid of the entry that is edited.")]
    replacement: Annotated[
        EditReplacement | None,
        Meta(
            description="The new content; `null` removes what the target adds.",
            extra={_WANTED: "None, or a dict with 'content'"},
        ),
    ]


class ThinkingLevelChangeFields(TypedDict):
    """A change of the thinking level."""

    thinkingLevel: Annotated[Text, Meta(description="The thinking level.")]


class CustomFields(TypedDict):
    """Data of the caller, which the context does not have."""

    customType: Annotated[Text, Meta(description="The caller's name for the type.")]
    data: NotRequired[Annotated[Any, Meta(description="Any JSON value.")]]


class CustomMessageFields(TypedDict):
    """A message of the caller."""

    customType: Annotated[Text, Meta(description="The caller's name for the type.")]
    content: Annotated[
        str | list[Any],
        Meta(
            description="The text, or the content blocks.",
            extra={_WANTED: "a string or a list of blocks"},
        ),
    ]
    display: Annotated[
        bool, Meta(description="True if people see it.", extra={_WANTED: "True or False"})
    ]
    details: NotRequired[CallerFacts]


class LabelFields(TypedDict):
    """A name for an entry."""

    targetUuid: Annotated[Text, Meta(description="The uuid of the entry that is named.")]
    label: Annotated[
        LabelText | None,
        Meta(
            description="The label; `null` removes the label.",
            extra={_WANTED: "a non-empty string, or None"},
        ),
    ]


class SessionInfoFields(TypedDict):
    """Facts of the session that replace older ones."""

    name: NotRequired[
        Annotated[
            Text | None,
            Meta(
                description="The name of the session.",
                extra={_WANTED: "a non-empty string, or None"},
            ),
        ]
    ]


class UsageFields(TypedDict):
    """Tokens that no message of the session reports."""

    kind: Annotated[Text, Meta(description="What the tokens were used for.")]
    provider: Annotated[NullableText, Meta(description="The provider; `null` if not known.")]
    model: Annotated[NullableText, Meta(description="The id of the model; `null` if not known.")]
    usage: Annotated[Object, Meta(description="The tokens and the cost.")]
    sumOf: NotRequired[
        Annotated[Text, Meta(description="The id of the session whose sum so far this is.")]
    ]


class BlockFields(TypedDict):
    """A content block of a message that is written as it arrives."""

    messageUuid: Annotated[Text, Meta(description="The id that the parts of the message share.")]
    index: Annotated[Count, Meta(description="The position of the block in the message.")]
    block: Annotated[Object, Meta(description="The content block.")]


class MessageEndFields(TypedDict):
    """The end of a message in blocks. Its other keys are keys of the message."""

    messageUuid: Annotated[Text, Meta(description="The id that the parts of the message share.")]
    role: Annotated[Text, Meta(description="The role of the message.")]


FIELDS: Final[dict[str, type]] = {
    "message": MessageFields,
    "compaction": CompactionFields,
    "branch_summary": SummaryFields,
    "stack_summary": SummaryFields,
    "stack_push": StackPushFields,
    "branch": BranchFields,
    "model_change": ModelSetting,
    "thinking_level_change": ThinkingLevelChangeFields,
    "custom": CustomFields,
    "custom_message": CustomMessageFields,
    "label": LabelFields,
    "session_info": SessionInfoFields,
    "usage": UsageFields,
    "handle": HandleFields,
    "merge": MergeFields,
    "context_edit": ContextEditFields,
    "block": BlockFields,
    "message_end": MessageEndFields,
}
"""The fields of each type of entry but the header."""


class LeadingKeys(TypedDict):
    """The keys of every entry but the header."""

    uuid: Annotated[Text, Meta(description="The uuid of the entry, unique in the file.")]
    parentUuid: Annotated[Text, Meta(description="The uuid of the parent.")]
    lane: NotRequired[Annotated[Name, Meta(description="The lane; absent on the lane `main`.")]]
    timestamp: Annotated[Timestamp, Meta(description="The time: RFC 3339, UTC, with milliseconds.")]


class ClosingKeys(TypedDict):
    """The last keys of every entry."""

    rewritten: NotRequired[
        Annotated[
            list[Literal["masked", "pruned"]],
            Meta(
                description="How the content was changed later.",
                min_length=1,
                extra_json_schema={"uniqueItems": True},
            ),
        ]
    ]
    metadata: NotRequired[Annotated[Object, Meta(description="Facts of the caller.")]]
    spilled: NotRequired[
        Annotated[
            list[
                Annotated[
                    list[Any],
                    Meta(min_length=2, max_length=3, extra_json_schema={"prefixItems": _SPILLED}),
                ]
            ],
            Meta(
                description="The strings that are in blobs: the path of each, its handle, and "
                "perhaps its beginning.",
                min_length=1,
            ),
        ]
    ]
    crc: Annotated[
        str,
        Meta(description="The checksum of the line, its last key.", pattern="^[0-9a-f]{8}$"),
    ]


class ParentSession(TypedDict):
    """The source of a copy."""

    id: Annotated[Text, Meta(description="The id of the source.")]
    file: NotRequired[Annotated[Text, Meta(description="The file of the source.")]]
    uuid: Annotated[Text, Meta(description="The uuid of the entry that the copy was made at.")]
    cutAbove: NotRequired[
        Annotated[bool, Meta(description="True if the ancestors of the first entry are left out.")]
    ]


class HeaderFields(TypedDict):
    """The header, the first line of a file and the root of the tree."""

    version: Annotated[Literal[2], Meta(description="The version of the format.")]
    format: Annotated[Literal["sessiontree/2"], Meta(description="The name of the format.")]
    uuid: Annotated[Text, Meta(description="The uuid of the entry, unique in the file.")]
    parentUuid: Annotated[None, Meta(description="The header has no parent.")]
    timestamp: Annotated[Timestamp, Meta(description="The time: RFC 3339, UTC, with milliseconds.")]
    id: Annotated[Text, Meta(description="The id of the session.")]
    cwd: Annotated[str, Meta(description="The working directory.")]
    name: NotRequired[Annotated[Text, Meta(description="A name for people.")]]
    parentSession: NotRequired[Annotated[ParentSession, Meta(description="In a copy: its source.")]]


class Field(NamedTuple):
    """A key of an entry."""

    key: str
    type: Any
    is_required: bool

    @property
    def wanted(self) -> str:
        """The type in words; empty if any value is of it."""
        metas = get_args(self.type)[1:] if get_origin(self.type) is Annotated else ()
        words = [meta.extra[_WANTED] for meta in metas if meta.extra and _WANTED in meta.extra]
        return str(words[-1]) if words else ""


@cache
def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields that a type of this module declares, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    optional = {key for key, hint in hints.items() if get_origin(hint) is NotRequired}
    return tuple(
        Field(key, get_args(hint)[0] if key in optional else hint, key not in optional)
        for key, hint in hints.items()
    )


def fits(value: Any, kind: Any) -> bool:
    """True if a value is of a type."""
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True
