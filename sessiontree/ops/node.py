"""The namespace `node`: single entries of a tree: write, read, find and label them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sessiontree.core.blocks import folded_message, handle_text
from sessiontree.core.display import one_line, short
from sessiontree.core.entry import PIECES, Entry
from sessiontree.core.handle import Kind
from sessiontree.core.message import check_new_message
from sessiontree.engine.names import LEAF
from sessiontree.errors import BlobError
from sessiontree.ops.budget import Page, Paged, Reading, ValuePart, page, page_of
from sessiontree.ops.field import arg, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import (
    ABOUT_REF,
    Call,
    EntryRef,
    HandleForm,
    LaneName,
    NoPager,
    OfSession,
    PagedOfSession,
    SessionName,
)
from sessiontree.ops.rows import WIDTH, Row, Width, row_maker
from sessiontree.session import Session
from sessiontree.text.preview import speaker
from sessiontree.views.messages import pieces_of
from sessiontree.views.tree import Label

if TYPE_CHECKING:
    from sessiontree.library.search_file import SearchHit
    from sessiontree.text.pattern import AllOf, Pattern

NODE: Final = Namespace(
    "node", "The entries of a session, which are the nodes of its tree: write, read and find them."
)

_ANY_TEXT: Final = "(?s)."
_MAX_NAMED: Final = 20

Metadata = Annotated[
    dict[str, Any] | None, opt("--metadata", help="Small facts of your own, kept with the entry.")
]
Role = Annotated[
    Literal["user", "assistant", "system", "developer"],
    opt("--role", metavar="ROLE", kind="text", help="Who speaks."),
]
Preview = Annotated[
    str | None,
    opt(
        "--preview",
        metavar="TEXT",
        help="A few words that describe the content to people; by default the name of the file.",
    ),
]


class Writing(OfSession, kw_only=True):
    """Parameters of a method that writes an entry at the leaf, or below a given parent."""

    parent: Annotated[
        EntryRef | None,
        opt(
            "--parent",
            metavar="REF",
            help="The parent of the new entry; by default the leaf of the lane.",
        ),
    ] = None
    lane: Annotated[
        LaneName | None, Meta(description="The lane to write on; by default the main one.")
    ] = None
    scratch: Annotated[
        bool,
        opt("--scratch", help="Write on a new scratch lane, which is dropped unless it is kept."),
    ] = False
    metadata: Metadata = None


class Written(msgspec.Struct, omit_defaults=True):
    """A new entry."""

    uuid: Annotated[str, Meta(description="The uuid of the new entry.")]
    parent: Annotated[str | None, Meta(description="The uuid of its parent.")]
    lane: Annotated[str | None, Meta(description="Its lane; main if there is none.")] = None
    left: Annotated[
        str | None,
        Meta(description="The entry that was the leaf before, and is on a side branch now."),
    ] = None
    handle: Annotated[str | None, Meta(description="The handle that it has.")] = None


class CreateText(Writing):
    text: Annotated[str, opt("--text", metavar="TEXT", help="The text of the message.")]
    role: Role = "user"
    attachments: Annotated[
        list[str],
        opt(
            "--attach",
            metavar="PATH",
            kind="path",
            help="Files, of which copies are stored as parts of the message of a user.",
        ),
    ] = msgspec.field(default_factory=list)


@NODE.method("Write a message", "write", core=True)
def create_text(call: Call, given: CreateText) -> Written:
    """Write a message of one text at the leaf of a lane, or below a given parent.

    Refuses an attachment outside the folders that can be reached, or of more than 20 MiB.
    """
    message = {"role": given.role, "content": given.text}
    return _write_message(call, given, message, given.attachments)


class CreateMessage(Writing):
    message: Annotated[
        dict[str, Any],
        Meta(
            description="The message, in the shape of any provider.",
            examples=[{"role": "user", "content": "…"}],
        ),
    ]


@NODE.method("Write a message as JSON", "write", core=True)
def create_message(call: Call, given: CreateMessage) -> Written:
    """Write a message as given: with tool calls, results, images or thinking in its content.

    Refuses a message without a role or content.
    """
    return _write_message(call, given, given.message)


class CreateHandle(Writing):
    handle: Annotated[
        HandleForm,
        opt(
            "--handle",
            metavar="HANDLE",
            help="The handle: a pointer to content that is kept elsewhere.",
            examples=["file@1.0.0::path:notes.md"],
        ),
    ]
    kind: Annotated[
        Kind | None, Meta(description="The kind of the content; by default that of its form.")
    ] = None
    role: Annotated[Role | None, Meta(description="The role of the message that a model gets.")] = (
        None
    )
    preview: Preview = None


@NODE.method("Write a pointer to content", "write")
def create_handle(call: Call, given: CreateHandle) -> Written:
    """Write an entry with a handle: a pointer to content that is kept elsewhere.

    Refuses a handle that does not fit its form, and one of an entry or a blob that is not there.
    """

    def write(session: Session) -> Entry:
        return session.append_handle(
            given.handle,
            kind=given.kind,
            role=given.role,
            preview=given.preview,
            parent=given.parent,
            metadata=given.metadata,
        )

    return _write(call, given, write)


class Attach(Writing):
    path: Annotated[str, Meta(description="The path of the file.")]
    media_type: Annotated[
        str | None, Meta(description="Its media type; by default guessed from the content.")
    ] = None
    role: Role = "user"
    preview: Preview = None


@NODE.method("Store a file in a session", "write", produces=["blob::sha256"])
def attach(call: Call, given: Attach) -> Written:
    """Store a copy of a file of any size beside the session, and write an entry that points to it.

    A model gets images, PDF and text. Refuses a file outside the folders that can be reached.
    """

    def write(session: Session) -> Entry:
        return session.attach(
            call.local(given.path),
            given.media_type,
            role=given.role,
            preview=given.preview,
            parent=given.parent,
            metadata=given.metadata,
        )

    return _write(call, given, write, hold=False)


def _write_message(
    call: Call, given: Writing, message: dict[str, Any], attachments: Sequence[str] = ()
) -> Written:
    check_new_message(message)  # before the file is touched

    def write(session: Session) -> Entry:
        files = [call.local(path) for path in attachments]
        return session.append_message(
            message, attachments=files, parent=given.parent, metadata=given.metadata
        )

    return _write(call, given, write, hold=not attachments)


def _write(
    call: Call, given: Writing, write: Callable[[Session], Entry], *, hold: bool = True
) -> Written:
    moves = given.parent is not None and not given.scratch
    with call.writing(given.session, given.lane, scratch=given.scratch, hold=hold) as session:
        before = session.leaf
        entry = write(session)
        left = session.reader.skip_markers(before) if moves else None
        if left is not None and session.cursor.is_above(left, entry):
            left = None
        who, parent = one_line(speaker(entry) or entry.type), short(entry.parent_uuid or "")
        call.wrote(entry, "Appended {} {} below {}", who, short(entry.uuid), parent)
        if left is not None:
            call.note("The leaf was {}; it is on a side branch now", left)
    was = None if left is None else left.uuid
    handle = handle_text(entry) if entry.type == "handle" else None
    return Written(entry.uuid, entry.parent_uuid, entry.lane, was, handle)


class OfNode(OfSession, kw_only=True):
    """Parameters of a method about one entry."""

    entry: Annotated[EntryRef, arg("REF", help=ABOUT_REF)]


class NodeGet(ValuePart):
    session: SessionName
    entry: Annotated[EntryRef, arg("[REF]", help=ABOUT_REF)] = "@"


class Node(Reading, kw_only=True, omit_defaults=True):
    """One entry."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    type: Annotated[str, Meta(description="Its type.")]
    label: Annotated[str | None, Meta(description="Its label.")] = None
    current: Annotated[bool, Meta(description="Whether it is on the path to the current leaf.")] = (
        False
    )
    entry: Annotated[
        Any, Meta(description="Its keys and values. A long text ends with how much is left out.")
    ] = None


class EntryRead(NamedTuple):
    """An entry, and the session that it is read from."""

    session: Session
    entry: Entry


def _node(call: Call, given: NodeGet, found: EntryRead) -> Node:
    session, entry = found
    node = Node(
        uuid=entry.uuid,
        type=entry.type,
        label=session.reader.names().labels.get(entry.uuid),
        current=session.cursor.is_above(entry),
    )
    node.entry = node.take(call.mask(_keys_of(call, session, entry)), given)
    return node


@NODE.method("Read an entry", core=True, answer=_node)
def get(call: Call, given: NodeGet) -> EntryRead:
    """Read one entry as it is stored; of a message that was streamed in blocks, the whole message.

    Long texts are cut, and named in `cut`: read on with `part` and `offset`. Content behind a
    handle is not read; see handle.resolve.
    """
    session = call.open(given.session)
    return EntryRead(session, session.entry(given.entry))


def _keys_of(call: Call, session: Session, entry: Entry) -> dict[str, Any]:
    """The keys of an entry, with texts in blobs put back, and with a message in blocks whole."""
    try:
        keys = {key: entry[key] for key in entry if key not in ("spilled", "crc")}
        if entry.type in PIECES:
            keys["message"] = folded_message(pieces_of(session.cursor, entry))
    except BlobError as error:
        call.warn(f"{error}; the texts that are in blobs are shown as handles")
        return dict(entry.as_stored)
    return keys


class Children(PagedOfSession):
    entry: EntryRef = "@"
    width: Width = WIDTH


@NODE.method("List the children of an entry")
def children(call: Call, given: Children) -> Page[Row]:
    """List the entries directly below an entry, in the order of the file. Two or more: a branch."""
    with call.reading(given.session) as session:
        found = session.children(given.entry)
        return _rows(call, session, found, given, given.width)


class LabelNode(OfNode):
    label: Annotated[str, arg("[NAME]", help="The label: a name that stands for the entry.")]


class Labelled(msgspec.Struct, omit_defaults=True):
    """A label that was given or taken away."""

    uuid: Annotated[str, Meta(description="The uuid of the entry.")]
    label: Annotated[str | None, Meta(description="The label that it has now.")] = None
    was: Annotated[str | None, Meta(description="The label that it had before.")] = None


@NODE.method("Label an entry", "write", core=True)
def label(call: Call, given: LabelNode) -> Labelled:
    """Give an entry a label, in place of the one that it has. Any method takes it as an entry.

    Refuses a label that another entry, a branch or a lane has.
    \f
    You can use the label NAME as a REF: 'sessiontree switch FILE NAME'. An entry has one label:
    a new one replaces it.
    """
    return _label(call, given, given.label)


class Unlabel(OfNode):
    """Parameters of `node.unlabel`."""


@NODE.method("Remove a label", "write")
def unlabel(call: Call, given: Unlabel) -> Labelled:
    """Remove the label of an entry. Refuses an entry without a label."""
    return _label(call, given, None)


def _label(call: Call, given: OfNode, text: str | None) -> Labelled:
    with call.annotating(given.session) as session:
        before = dict(session.reader.names().labels)
        target = session.entry(given.entry)
        if given.entry == LEAF:  # the entry that people see, not a mark below it
            target = session.reader.skip_unseen(target)
        if text is None and target.uuid not in before:
            raise Refusal(
                f"entry {given.entry!r:.100} has no label",
                "nothing_to_do",
                "node.labels lists all labels.",
                list(before.values())[:_MAX_NAMED],
            )
        was = before.get(target.uuid)
        done = "Removed the label of {}" if text is None else "Labelled {} '{}'"
        replaced = "" if was in (None, text) else "; the label was '{}'"
        call.wrote(session.label(target, text), done + replaced, target, *filter(None, (text, was)))
    return Labelled(target.uuid, text, was)


class Labels(PagedOfSession):
    no_pager: NoPager = False


def _page_of_labels(call: Call, given: Labels, found: list[Label]) -> Page[Label]:
    return page(found, given, lambda one: one.label)


@NODE.method("List the labels", json="a list of the labels", answer=_page_of_labels)
def labels(call: Call, given: Labels) -> list[Label]:
    """List the labels of a session with the entries that they name, in the order of these.
    \f
    ● marks an entry on the current path.

    You can use a label as a REF. You can put a label with spaces in quotation marks, for example
    '"a good state"~2'.
    """
    with call.reading(given.session) as session:
        return session.labels()


class Find(PagedOfSession):
    text: Annotated[
        str | None, Meta(description='Words that an entry has all; words in "quotes": a phrase.')
    ] = None
    regex: Annotated[bool, Meta(description="`text` is a regular expression of Python.")] = False
    ignore_case: Annotated[
        bool | None,
        Meta(description="Whether a is A; by default if `text` has no capital letter."),
    ] = None
    type: Annotated[str | None, Meta(description="Only entries of this type.")] = None
    tool_call_id: Annotated[
        str | None, Meta(description="The call of a tool with this id, and its results.")
    ] = None
    role: Annotated[
        list[str],
        Meta(
            description="Only these roles: 'user', 'assistant', 'tool'; 'prompt': what was typed."
        ),
    ] = msgspec.field(default_factory=list)
    tool: Annotated[
        str | None, Meta(description="Only calls of the tool with this name, and their results.")
    ] = None
    current: Annotated[bool, Meta(description="Only entries on the path to the leaf.")] = False
    everything: Annotated[
        bool, Meta(description="Search 'custom' entries too, in which programs keep their data.")
    ] = False
    blobs: Annotated[bool, Meta(description="Search large texts too, which are in blobs.")] = False
    width: Width = WIDTH


@NODE.method("Find entries", core=True)
def find(call: Call, given: Find) -> Page[Row]:
    """Find entries of one session by text, type, role, tool or tool call; read them by node.get.

    To search all sessions, use session.search. The newest come first; of a tool call, the call
    comes before its results. All branches are
    searched.
    """
    searches = given.text is not None or given.tool is not None or bool(given.role)
    if given.tool_call_id is not None:
        if searches or given.current:
            raise Refusal(
                "tool_call_id goes with type alone",
                "bad_parameter",
                "Leave out the others: an id names one call.",
            )
        return _of_call(call, given)
    if searches:
        return _by_text(call, given)
    if given.type is None:
        raise Refusal(
            "a search needs a criterion",
            "bad_parameter",
            "Give text, type, role, tool or tool_call_id.",
            ["text", "type", "role", "tool", "tool_call_id"],
            {"session": given.session, "text": "…"},
        )
    return _of_type(call, given, given.type)


def _of_call(call: Call, given: Find) -> Page[Row]:
    with call.reading(given.session) as session:
        found = session.find(type=given.type, tool_call_id=given.tool_call_id)
        return _rows(call, session, found, given, given.width)


def _of_type(call: Call, given: Find, type: str) -> Page[Row]:
    with call.reading(given.session) as session:
        reader = session.reader
        index = reader.index()
        found = index.rows_of_type(type)[::-1]
        if not found:
            _tell_missing(call, "type", [type], _types(session))
        above = set(index.rows_up(reader.row(session.leaf))) if given.current else None
        entries = (reader.entry_at(row) for row in found if above is None or row in above)
        return _rows(call, session, entries, given, given.width)


def _rows(
    call: Call, session: Session, found: Iterable[Entry], given: Paged, width: int
) -> Page[Row]:
    return page_of(found, given, lambda entry: entry.uuid, row_maker(call, session, width))


def _by_text(call: Call, given: Find) -> Page[Row]:
    from sessiontree.library.search import search  # heavy, and only for this
    from sessiontree.library.search_file import SearchFilter

    wanted = SearchFilter(
        frozenset(given.role),
        given.tool,
        current=given.current,
        blobs=given.blobs,
        conversation=not (given.everything or given.type == "custom"),
    )
    pattern = _pattern(given)
    with closing(search(pattern, [call.file(given.session)], wanted, call.warn)) as hits:
        found = [hit for hit in call.each(hits) if given.type in (None, hit.type)]
    if not found:
        _tell_nothing(call, given)
    found.reverse()
    return page_of(found, given, lambda hit: hit.ref, _row_of_hit)


def _tell_nothing(call: Call, given: Find) -> None:
    more = [name for name in ("blobs", "everything") if not getattr(given, name)]
    if more:
        call.warn(f"Nothing was found; {' and '.join(more)} would search more")
    if given.type is not None:
        with call.reading(given.session) as session:
            _tell_missing(call, "type", [given.type], _types(session))
    if given.role:
        _tell_missing(call, "role", given.role, _roles(call, given))


def _types(session: Session) -> set[str]:
    index = session.reader.index()
    return {index.type_of(row) for row in range(len(index))}


def _roles(call: Call, given: Find) -> set[str]:
    """The roles by which entries of a session are found."""
    from sessiontree.library.search import search  # heavy, and only for this
    from sessiontree.library.search_file import SearchFilter
    from sessiontree.text.pattern import Pattern

    everything = Pattern(_ANY_TEXT, regex=True)
    wanted = SearchFilter(facts=True, blobs=given.blobs, conversation=not given.everything)
    found: set[str] = set()
    with closing(search(everything, [call.file(given.session)], wanted, _untold)) as hits:
        for hit in call.each(hits):
            found.update(filter(None, (hit.role, hit.speaker, "prompt" if hit.prompt else None)))
    return found


def _untold(problem: str) -> None:
    """A second search of a file has the problems that the first one told."""


def _tell_missing(call: Call, what: str, given: Iterable[str], there: set[str]) -> None:
    """Name the types or roles that are there, for each given one that no entry has."""
    for name in given:
        if name not in there:
            known = ", ".join(sorted(there)[:_MAX_NAMED])
            call.warn(f"No entry has the {what} {name!r:.100}; those here are {known}")


def _pattern(given: Find) -> Pattern | AllOf:
    from sessiontree.text.pattern import Pattern, query

    if given.text is None:
        return Pattern(_ANY_TEXT, regex=True)
    if given.regex:
        return Pattern(given.text, regex=True, ignore_case=bool(given.ignore_case))
    return query(given.text, ignore_case=given.ignore_case)


def _row_of_hit(hit: SearchHit) -> Row:
    return Row(
        uuid=hit.ref,
        type=hit.type,
        role=hit.speaker or hit.role,
        preview=hit.snippet,
        time=hit.timestamp,
        lane=hit.lane,
    )


class EditContext(OfNode):
    text: Annotated[
        str | None, opt("--text", metavar="TEXT", help="The new content, as a text.")
    ] = None
    content: Annotated[
        list[dict[str, Any]] | None,
        opt("--content", kind="content", help="The new content, as a list of blocks."),
    ] = None
    drop: Annotated[bool, opt("--drop", help="Leave the entry out of the context.")] = False


@NODE.method("Change an entry in the context", "write")
def edit_context(call: Call, given: EditContext) -> Written:
    """Replace or drop what an entry says in the context, from here on. The entry stays as it is.

    Give one of `text`, `content` and `drop`. Refuses an entry that is not in the context.
    \f
    The command appends an entry that records the change. The change applies to every context
    that is built at or below that entry. Contexts on other branches do not change. The entry REF
    itself does not change.
    """
    if (given.text is not None) + (given.content is not None) + given.drop != 1:
        raise Refusal(
            "give one of text, content and drop",
            "bad_parameter",
            "Give one of `text`, `content` and `drop`.",
            ["text", "content", "drop"],
        )
    content = given.content if given.text is None else given.text
    with call.writing(given.session) as session:
        made = session.edit_context(given.entry, None if given.drop else {"content": content})
        done = "Dropped" if given.drop else "Replaced the content of"
        call.wrote(made, f"{done} {{}} in the context", session.entry(made["targetUuid"]))
    return Written(made.uuid, made.parent_uuid, made.lane)
