"""The namespaces `context` and `handle`: a path, what a model gets there, and what handles name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from sessiontree.context.compaction import estimate_tokens
from sessiontree.context.context import Context
from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.entry import Entry
from sessiontree.core.handle import Handle, Kind
from sessiontree.core.media import base_type, is_text
from sessiontree.core.message import Message, speaker_of
from sessiontree.engine.names import LEAF
from sessiontree.errors import SessionNotFoundError
from sessiontree.handles.builtin import ResolvedEntry, error_of
from sessiontree.handles.registry import HandleSchema, ResolverScope
from sessiontree.operations.compact import RESERVE_TOKENS, needs_compaction
from sessiontree.ops.budget import (
    Cut,
    Offset,
    Page,
    Paged,
    Reading,
    ValuePart,
    page,
    page_of,
    room,
    shorten,
    size,
)
from sessiontree.ops.field import arg, opt
from sessiontree.ops.guidance import Refusal, refusal_of
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import (
    Call,
    EntryRef,
    HandleForm,
    OfSession,
    PagedOfSession,
    Root,
    SessionName,
)
from sessiontree.ops.rows import WIDTH, Row, Width, row_maker
from sessiontree.session import Session

if TYPE_CHECKING:
    from sessiontree.context.providers.values import Request

CONTEXT: Final = Namespace(
    "context",
    "The path to an entry: its entries, its handles, and the messages that a model gets there.",
)

HANDLE: Final = Namespace(
    "handle", "Handles: pointers to content that is kept elsewhere, and what they point to."
)

T = TypeVar("T")

_SHARE: Final = 4
"""One message, or the content of one handle, takes at most this part of an answer's budget."""

_AT_ONCE: Final = 100
"""The entries of a path whose handles are resolved together."""

_MAX_WARNINGS: Final = 20
_MOST_LARGEST: Final = 5


class OfPath(PagedOfSession, kw_only=True):
    """Parameters of a method about the path to an entry."""

    at: Annotated[
        EntryRef, arg("[REF]", help="The last entry of the path; by default the leaf.")
    ] = "@"


class GetPath(OfPath):
    width: Width = WIDTH


class PathTo(NamedTuple):
    """The path to an entry, which is read as it is needed."""

    session: Session
    entry: Entry


def _page_of_path(call: Call, given: GetPath, path: PathTo) -> Page[Row]:
    make = row_maker(call, path.session, given.width)
    return _root_first(page_of(path.session.cursor.up(path.entry), given, _uuid, make))


def _root_first(found: Page[T]) -> Page[T]:
    """A page that was read up from an entry, in the order of the path."""
    found.items.reverse()
    return found


@CONTEXT.method("List the entries of a path", json="a list of the entries", answer=_page_of_path)
def get_path(call: Call, given: GetPath) -> PathTo:
    """List all entries on the path from the header to an entry, settings too.

    A page has the order of the path. The first page ends at the entry; the cursor goes back to
    earlier entries. Handles stay unresolved. For the messages that a model gets, use context.get.
    \f
    The command prints the header first. Handles are not resolved.
    """
    session = call.open(given.session)
    return PathTo(session, session.entry(given.at))


class GetHandles(OfPath):
    width: Width = WIDTH


@CONTEXT.method("List the handles of a path")
def get_handles(call: Call, given: GetHandles) -> Page[Row]:
    """List the entries of a path that have a handle, unresolved, in pages as context.get_path."""
    with call.reading(given.session) as session:
        path = session.cursor.up(session.entry(given.at))
        found = (entry for entry in call.each(path) if entry.type == "handle")
        rows = page_of(found, given, _uuid, row_maker(call, session, given.width))
        return _root_first(rows)


class ContextResolve(OfPath):
    width: Width = WIDTH
    root: Root = None


class Failure(msgspec.Struct):
    """Why a handle cannot be resolved."""

    kind: Annotated[str, Meta(description="The kind of the error.")]
    message: Annotated[str, Meta(description="What is wrong, and where.")]


class Resolved(msgspec.Struct, omit_defaults=True):
    """An entry of a path, with the content of its handle."""

    entry: Annotated[Row, Meta(description="The entry.")]
    content: Annotated[
        Content | None,
        Meta(description="What its handle points to; handle.resolve reads on where it is cut."),
    ] = None
    error: Annotated[Failure | None, Meta(description="Why that cannot be read.")] = None


@CONTEXT.method("Resolve the handles of a path")
def resolve(call: Call, given: ContextResolve) -> Page[Resolved]:
    """List the entries of a path, each with what its handle points to.

    Use it where context.get_path shows handles; the pages have the same order. A handle that cannot
    be resolved has its error; the others are not affected.
    """
    with call.reading(given.session, given.root) as session:
        path = session.cursor.up(session.entry(given.at))
        found = _resolved(session, call.each(path))
        row_of = row_maker(call, session, given.width)
        allowed = _share(given)

        def make(one: ResolvedEntry) -> Resolved:
            row = row_of(one.entry)
            if one.resolved is not None:
                content = content_of(one.resolved)
                content.data, content.cut = shorten(call.mask(content.data), allowed)
                return Resolved(row, content)
            if one.entry.type != "handle":
                return Resolved(row)
            refusal = refusal_of(error_of(one))
            return Resolved(row, error=Failure(refusal.kind, str(refusal)))

        return _root_first(page_of(found, given, lambda one: one.entry.uuid, make))


def _resolved(session: Session, path: Iterator[Entry]) -> Iterator[ResolvedEntry]:
    while some := list(islice(path, _AT_ONCE)):
        yield from session.handles.resolved(some)


def _uuid(entry: Entry) -> str:
    return entry.uuid


def _share(given: OfPath) -> int | None:
    """The bytes that one item of a page may take; None: no limit."""
    return room(given.budget) // _SHARE if given.budget else None


class OfMessages(OfPath, kw_only=True):
    """Parameters of a method that answers with messages."""

    part: Annotated[
        str | None,
        Meta(description="Read only this part, as text: the `part` of a text that was cut."),
    ] = None
    offset: Offset = 0


class ContextGet(OfMessages):
    to: Annotated[
        Literal["messages", "anthropic", "openai-responses", "openai-chat"],
        opt(
            "--to",
            help="The messages as they are, or the arguments of a request to Anthropic or OpenAI, "
            "without the model; whole with a budget of 0.",
        ),
    ] = "messages"
    verbatim: Annotated[
        bool, opt("--verbatim", help="Exactly as stored: calls and results are not paired.")
    ] = False
    unresolved: Annotated[
        bool, Meta(description="Leave handles unresolved: the messages name them.")
    ] = False
    root: Root = None

    def request(self, found: Context) -> Request | None:
        """The request to the API that was asked for; None for the messages themselves."""
        if self.to == "messages":
            return None
        if self.to == "anthropic":
            return found.to_anthropic()
        return found.to_openai("chat" if self.to == "openai-chat" else "responses")


class Numbered(msgspec.Struct, omit_defaults=True):
    """One message of a context."""

    n: Annotated[int, Meta(description="Its place in the whole list, counted from 0.")]
    message: Annotated[
        Any, Meta(description="The message. A long text ends with how much is left out.")
    ]
    uuid: Annotated[str | None, Meta(description="The entry that it comes from.")] = None
    cut: Annotated[list[Cut], Meta(description="The texts in it that were cut.")] = []


class Messages(Reading, kw_only=True, omit_defaults=True):
    """What a model gets: the last messages, in their order; the cursor gives earlier ones."""

    leaf: Annotated[str | None, Meta(description="The last entry of the path.")] = None
    count: Annotated[int, Meta(description="The number of all messages.")]
    tokens: Annotated[int | None, Meta(description="The estimated tokens of all messages.")] = None
    settings: Annotated[
        dict[str, Any], Meta(description="The model, the thinking level and the system text.")
    ] = msgspec.field(default_factory=dict)
    messages: Annotated[list[Numbered], Meta(description="The messages of this page.")] = (
        msgspec.field(default_factory=list)
    )
    request: Annotated[
        dict[str, Any] | None,
        Meta(description="The arguments of a request, with the messages of this page."),
    ] = None
    warnings: Annotated[list[str], Meta(description="What was corrected or is missing.")] = (
        msgspec.field(default_factory=list)
    )
    more: Annotated[str | None, Meta(description="What is left out, and how to get it.")] = None
    cursor: Annotated[str | None, Meta(description="The cursor of the messages before.")] = None


def _messages(call: Call, given: ContextGet, found: Context) -> Messages:
    answer = Messages(leaf=found.leaf.uuid, count=len(found.messages), tokens=found.tokens)
    made = given.request(found)
    if made is None:
        answer.warnings = _in_short(found.warnings)
        uuids = [entry.uuid for entry in found.entries]
        return _filled(call, given, answer, _settings(found), found.messages, uuids)
    answer.warnings = _in_short([*found.warnings, *made.warnings])
    return _with_request(call, given, answer, made.params)


@CONTEXT.method(
    "Read what a model gets",
    core=True,
    json="the messages, the settings and the warnings",
    answer=_messages,
)
def get(call: Call, given: ContextGet) -> Context:
    """Read the messages that a model gets at an entry: with compactions, edits and merges applied.

    The last messages come first, in their order; the cursor goes back to earlier ones. Long texts
    are cut: read on with `part` and `offset`.
    \f
    The command prints all messages whole.
    """
    session = call.open(given.session, given.root)
    return session.context(given.at, verbatim=given.verbatim, resolve=not given.unresolved)


class ContextRequest(OfMessages):
    """Parameters of `context.request`."""


def _messages_sent(call: Call, given: ContextRequest, sent: Request) -> Messages:
    return _with_request(
        call, given, Messages(count=0, warnings=_in_short(sent.warnings)), sent.params
    )


@CONTEXT.method("Read a request as it was sent", answer=_messages_sent)
def request(call: Call, given: ContextRequest) -> Request:
    """Read the request to which an answer was the response, as Claude Code recorded it.

    It has the system prompt, the tools and the settings, too. `at` is an answer, or the id of a
    request; by default the last answer. Refuses a session without records of requests.
    """
    with call.reading(given.session) as session:
        return session.sent_request(None if given.at == LEAF else given.at)


def _settings(found: Context) -> dict[str, Any]:
    every = {"model": found.model, "thinkingLevel": found.thinking_level, "system": found.system}
    return {key: value for key, value in every.items() if value is not None}


def _in_short(warnings: Sequence[str]) -> list[str]:
    if len(warnings) <= _MAX_WARNINGS:
        return list(warnings)
    return [*warnings[:_MAX_WARNINGS], f"and {len(warnings) - _MAX_WARNINGS:,} more"]


def _with_request(
    call: Call, given: OfMessages, answer: Messages, params: Mapping[str, Any]
) -> Messages:
    """The answer with the arguments of a request, of which the messages are paged."""
    key = "input" if "input" in params else "messages"
    messages = params.get(key)
    if not isinstance(messages, list):  # as another program recorded it
        messages = []
    others = {name: value for name, value in params.items() if name != key}
    answer.count = len(messages)
    _filled(call, given, answer, others, messages, place="", key=key)
    if answer.text is None:
        answer.request = {**answer.settings, key: [one.message for one in answer.messages]}
        answer.cut += [cut for one in answer.messages for cut in one.cut]
        answer.settings, answer.messages = {}, []
    return answer


def _filled(
    call: Call,
    given: OfMessages,
    answer: Messages,
    settings: dict[str, Any],
    messages: Sequence[Message],
    uuids: Sequence[str] | None = None,
    *,
    place: str = "/settings",
    key: str = "messages",
) -> Messages:
    """The answer with its settings and a page of its messages, or with one part of them."""
    if given.part is not None or given.offset:
        whole = {"settings": settings} if place else settings
        answer.read(call.mask({**whole, key: messages}), given)
        return answer
    allowed = _share(given)
    answer.settings, answer.cut = _fairly(call.mask(settings), allowed, place)

    def make(one: tuple[int, Message]) -> Numbered:
        n, message = one
        found, cut = shorten(call.mask(message), allowed, f"/{key}/{n}")
        return Numbered(n, found, None if uuids is None else uuids[n], cut)

    newest = reversed(list(enumerate(messages)))
    found = page_of(newest, given, lambda one: str(one[0]), make, beside=size(answer))
    answer.messages = found.items[::-1]
    answer.more, answer.cursor = found.more, found.cursor
    return answer


def _fairly(
    values: dict[str, Any], allowed: int | None, place: str
) -> tuple[dict[str, Any], list[Cut]]:
    """Values that together have so many bytes; what the small ones leave is for the large ones."""
    if allowed is None:
        return values, []
    found: dict[str, Any] = {}
    cuts: list[Cut] = []
    for key in sorted(values, key=lambda key: size(values[key])):
        each = allowed // (len(values) - len(found))
        found[key], cut = shorten(values[key], each, f"{place}/{key}")
        allowed -= min(size(found[key]), allowed)
        cuts += cut
    return {key: found[key] for key in values}, cuts


class Estimating(OfSession):
    at: Annotated[EntryRef, Meta(description="The last entry of the path.")] = "@"
    window: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="The tokens of the model's window, to compare with."),
    ] = None
    reserve: Annotated[
        int,
        Meta(ge=0, description="The tokens of the window to leave free for tools and an answer."),
    ] = RESERVE_TOKENS


class RoleTokens(msgspec.Struct):
    """The messages of one role."""

    role: Annotated[str, Meta(description="Who speaks, such as 'tool' for results.")]
    messages: Annotated[int, Meta(description="The number of messages.")]
    tokens: Annotated[int, Meta(description="Their tokens.")]


class Large(msgspec.Struct):
    """A large message."""

    entry: Annotated[Row, Meta(description="The entry that it comes from.")]
    tokens: Annotated[int, Meta(description="Its tokens.")]


class Estimate(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The estimated tokens of a context."""

    leaf: Annotated[str, Meta(description="The last entry of the path.")]
    tokens: Annotated[int, Meta(description="All tokens: of the messages and the system text.")]
    messages: Annotated[int, Meta(description="The number of messages.")]
    system: Annotated[int, Meta(description="The tokens of the system text.")] = 0
    kinds: Annotated[list[RoleTokens], Meta(description="The tokens by role, most first.")]
    largest: Annotated[list[Large], Meta(description="The largest messages, largest first.")]
    left: Annotated[
        int | None, Meta(description="The tokens of the window that are left; may be below 0.")
    ] = None
    needs_compaction: Annotated[
        bool | None, Meta(description="Whether less than `reserve` is left.")
    ] = None


@CONTEXT.method("Estimate the tokens of a context", core=True)
def estimate(call: Call, given: Estimating) -> Estimate:
    """Estimate the tokens that a model gets at an entry, by role, and compare them with a window.

    Definitions of tools are not in a session, and not counted.
    """
    with call.reading(given.session) as session:
        found = session.context(given.at)
        costs = [estimate_tokens(message) for message in call.each(found.messages)]
        kinds: dict[str, RoleTokens] = {}
        for message, cost in zip(found.messages, costs, strict=True):
            role = speaker_of(message)
            kind = kinds.setdefault(role, RoleTokens(role, 0, 0))
            kind.messages += 1
            kind.tokens += cost
        row_of = row_maker(call, session)
        heavy = sorted(range(len(costs)), key=lambda n: -costs[n])[:_MOST_LARGEST]
        system = found.system
        tokens = 0 if system is None else estimate_tokens({"role": "system", "content": system})
        answer = Estimate(
            leaf=found.leaf.uuid,
            tokens=sum(costs) + tokens,
            messages=len(costs),
            system=tokens,
            kinds=sorted(kinds.values(), key=lambda kind: -kind.tokens),
            largest=[Large(row_of(found.entries[n]), costs[n]) for n in heavy],
        )
        if given.window is not None:
            answer.left = given.window - answer.tokens
            answer.needs_compaction = needs_compaction(
                session.cursor, given.window, given.reserve, estimate_tokens, given.at
            )
    return answer


class Schemas(Paged):
    """Parameters of `handle.schemas`."""


class Form(msgspec.Struct, kw_only=True):
    """A form of handles."""

    form: Annotated[
        str, Meta(description="How such a handle is written, as 'file@1.x::path:<path>'.")
    ]
    kind: Annotated[Kind, Meta(description="The kind of content that it points to.")]
    meta: Annotated[
        list[dict[str, Any]], Meta(description="The parts after the method, in their order.")
    ]
    resolves_to: Annotated[
        Any, Meta(description="What it resolves to, in words or as a JSON schema.")
    ]


def _forms(call: Call, given: Schemas, found: list[HandleSchema]) -> Page[Form]:
    forms = [
        Form(
            form=f"{one.name}{''.join(f':{field.prefix}<{field.name}>' for field in one.meta)}",
            kind=one.kind,
            meta=one.as_dict()["meta"],
            resolves_to=one.resolves_to,
        )
        for one in found
    ]
    return page(forms, given, lambda one: one.form)


@HANDLE.method("List the forms of handles", json="a list of the schemas", answer=_forms)
def schemas(call: Call, given: Schemas) -> list[HandleSchema]:
    """List the forms of handles that are known: the built-in ones and those of plugins.
    \f
    A schema describes one form. A plugin is a class with the members 'schemas' and
    'resolve'. A package provides a plugin by an entry point in its pyproject.toml:

    \b
      [project.entry-points."sessiontree.handles"]
      notes = "my_package:Notes"
    """
    registry = call.registry
    found = registry.schemas()
    for error in registry.broken:
        call.warn(str(error))
    return found


class HandleResolve(ValuePart):
    handle: Annotated[
        HandleForm,
        arg(
            "HANDLE",
            help="The handle; handle.schemas lists the forms.",
            examples=["file@1.0.0::path:notes.md"],
        ),
    ]
    session: Annotated[
        SessionName | None,
        opt(
            "--session",
            metavar="FILE",
            help="The session that the handle is in; by default the one that the handle names. "
            "A handle of a blob needs it.",
        ),
    ] = None
    root: Root = None


class Content(Reading, kw_only=True, omit_defaults=True):
    """What a handle points to."""

    handle: Annotated[str, Meta(description="The handle.")]
    kind: Annotated[Kind, Meta(description="The kind of the content.")]
    media_type: Annotated[str | None, Meta(description="The media type of a binary.")] = None
    bytes: Annotated[int | None, Meta(description="The size of a binary.")] = None
    base64: Annotated[bool, Meta(description="Whether `data` is base64: bytes, no text.")] = False
    data: Annotated[
        Any, Meta(description="The content. A long text ends with how much is left out.")
    ] = None


def _content(call: Call, given: HandleResolve, found: ResolvedHandle) -> Content:
    content = content_of(found)
    content.data = content.take(call.mask(content.data), given)
    return content


@HANDLE.method(
    "Read what a handle points to",
    core=True,
    json="the handle, the kind of its data, and the data (bytes as base64)",
    answer=_content,
)
def resolve_(call: Call, given: HandleResolve) -> ResolvedHandle:
    """Read the content that a handle points to: a message, an output, a document, a text or bytes.

    Long texts are cut, and named in `cut`: read on with `part` and `offset`. Refuses a handle
    whose content is missing or out of reach.
    \f
    If the content is bytes, the command prints the bytes unchanged, but never to a terminal. Put a
    HANDLE that contains a space or a semicolon in quotation marks.
    """
    wanted, _ = Handle.from_json(given.handle)
    with _scope(call, given, wanted) as scope:
        return scope.resolve(wanted)


def content_of(found: ResolvedHandle) -> Content:
    """Resolved content: text where it is one, else base64 of bytes."""
    if found.kind != "binary":
        return Content(handle=str(found.handle), kind=found.kind, data=found.data)
    text = None
    if is_text(base_type(found.media_type)):
        with contextlib.suppress(UnicodeDecodeError):
            text = found.data.decode()
    return Content(
        handle=str(found.handle),
        kind=found.kind,
        media_type=found.media_type,
        bytes=len(found.data),
        base64=text is None,
        data=found.as_dict()["data"] if text is None else text,
    )


def _file_named(call: Call, handle: Handle) -> str | None:
    """The file of the session that a handle names; None: it names none that is found."""
    if handle.plugin != "session":
        return None
    try:
        return call.file(handle.meta[0])
    except SessionNotFoundError:
        return None
    except Refusal as refusal:
        if refusal.kind == "session_not_found":
            return None
        raise


@contextlib.contextmanager
def _scope(call: Call, given: HandleResolve, wanted: Handle) -> Iterator[ResolverScope]:
    """Where a handle is resolved: with the session that it is in, or else that it names."""
    with contextlib.ExitStack() as opened:
        owner = None
        file = given.session or _file_named(call, wanted)
        if file is not None:
            owner = opened.enter_context(call.reading(file, given.root))
        root = None if given.root is None else call.local(given.root)
        registry = call.registry
        yield opened.enter_context(ResolverScope(registry, owner, root))
