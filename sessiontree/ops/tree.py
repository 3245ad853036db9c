"""The namespace `tree`: a session as a tree of entries."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from sessiontree.agents import TARGETS, TargetName
from sessiontree.core.entry import Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.engine.names import LEAF
from sessiontree.errors import SessionTreeError
from sessiontree.library.listing import SessionInfo, by_time
from sessiontree.library.places import Selection
from sessiontree.ops.budget import Offset, Page, Paged, TextSlice, page, page_of, passage
from sessiontree.ops.field import arg, only_for_people, opt, optional_for_people
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import TREE
from sessiontree.ops.params import Call, EntryRef, OfSession, PagedOfSession, Root
from sessiontree.page import is_page_name
from sessiontree.session import Session
from sessiontree.storage.atomic import create_file
from sessiontree.storage.fs import DISK
from sessiontree.views.rows import TreeRow
from sessiontree.views.tree import count_branches

if TYPE_CHECKING:
    from sessiontree.operations.convert import ConvertedSession
    from sessiontree.redact.redaction import Redaction


class Create(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    cwd: Annotated[
        str | None,
        opt(
            "--cwd",
            metavar="DIR",
            kind="path",
            help="The working directory of the session; by default the current directory.",
        ),
    ] = None
    name: Annotated[str | None, opt("--name", metavar="NAME", help="The name of the session.")] = (
        None
    )
    id: Annotated[str | None, opt("--id", metavar="ID", help="Its id; by default a new UUID.")] = (
        None
    )
    model: Annotated[str | None, Meta(description="The id of the model that it starts with.")] = (
        None
    )
    provider: Annotated[str | None, Meta(description="The provider of that model.")] = None
    system: Annotated[str | None, Meta(description="The system text that it starts with.")] = None
    metadata: Annotated[
        dict[str, Any] | None, opt("--metadata", help="Small facts of your own about the session.")
    ] = None
    file: Annotated[
        str | None,
        arg("[FILE]", kind="place", help="The path or the address of the new session."),
        only_for_people,
    ] = None


class CreatedSession(msgspec.Struct, omit_defaults=True):
    """A new session."""

    id: Annotated[str, Meta(description="The id of the session.")]
    file: Annotated[str, Meta(description="The path of its file.")]
    masked: Annotated[
        dict[str, Any] | None, Meta(description="What was masked in it, if secrets are masked.")
    ] = None


@TREE.method("Create a session", "write", core=True)
def create(call: Call, given: Create) -> CreatedSession:
    """Create an empty session in the store. Refuses an id that another session has.
    \f
    An address ends in /PROJECT/NAME.jsonl. Without FILE, the session is made in the store, and 'ls'
    lists it.
    """
    call.check_write()
    model = {"provider": given.provider, "modelId": given.model} if given.model else None
    facts = {"model": model, "system": given.system}
    metadata = {**(given.metadata or {}), **{key: v for key, v in facts.items() if v is not None}}
    options: Any = {"id": given.id, "name": given.name, "metadata": metadata or None}
    if given.file is None:
        made = call.store.create(cwd=given.cwd, **options)
    else:
        cwd = None if given.cwd is None else os.path.abspath(given.cwd)
        made = Session.create(call.new_session(given.file), cwd=cwd, **options)
    with made as session:
        assert session.file is not None
        call.wrote(session.header, "Created {}, session {}", session.file, session.id)
        return CreatedSession(session.id, session.file)


class TreeList(Paged):
    project: Annotated[
        str | None,
        Meta(description="Only sessions of this working directory: its path or its last part."),
    ] = None


class Tree(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A session as a tree, in short."""

    id: Annotated[str, Meta(description="The id of the session.")]
    file: Annotated[str, Meta(description="The path of its file.")]
    name: Annotated[str | None, Meta(description="Its name.")] = None
    cwd: Annotated[str | None, Meta(description="Its working directory.")] = None
    modified: Annotated[str, Meta(description="When it last changed.")]
    agent: Annotated[str | None, Meta(description="The agent that wrote it.")] = None
    entries: Annotated[int, Meta(description="The number of its entries.")] = 0
    branches: Annotated[int, Meta(description="The number of its branches.")] = 0
    lanes: Annotated[
        list[str], Meta(description="Its lanes beside the main one, without scratch lanes.")
    ] = msgspec.field(default_factory=list)
    labels: Annotated[int, Meta(description="The number of its labels.")] = 0
    leaf: Annotated[str | None, Meta(description="The uuid of the current leaf.")] = None
    problem: Annotated[str | None, Meta(description="Why it cannot be read.")] = None


@TREE.method("List the trees")
def list_(call: Call, given: TreeList) -> Page[Tree]:
    """Count the entries, branches and lanes of each session, the one that changed last first.

    Each listed file is read whole. To find a session, use session.list or session.search.
    """
    selection = Selection(project=given.project)
    every = call.scope.sessions(selection, call.warn)
    found = sorted(call.each(every), key=by_time, reverse=True)
    if not found:
        call.tell_none(selection)

    def make(one: SessionInfo) -> Tree:
        call.progress(f"Reading {one.file}")
        tree = Tree(
            id=one.id,
            file=one.file,
            name=one.name,
            cwd=one.cwd,
            modified=one.modified,
            agent=one.made_by,
        )
        try:
            with call.reading(one.file) as session:
                _count(tree, session)
        except SessionTreeError as error:
            tree.problem = str(error)
        return tree

    return page_of(found, given, lambda one: one.file, make)


def _count(tree: Tree, session: Session) -> None:
    index = session.reader.index()
    tree.entries = len(index)
    tree.branches = count_branches(session.reader)
    tree.lanes = [lane for lane in index.lanes if lane is not None and not is_scratch(lane)]
    tree.labels = len(session.reader.names().labels)
    tree.leaf = session.leaf.uuid


class TreeGet(PagedOfSession):
    """Parameters of `tree.get`."""


def _page_of_tree(call: Call, given: TreeGet, rows: Iterator[TreeRow]) -> Page[TreeRow]:
    return page(rows, given, lambda row: row.uuid)


@TREE.method("Read the rows of a tree", answer=_page_of_tree)
def get(call: Call, given: TreeGet) -> Iterator[TreeRow]:
    """Read every entry of a session in the order of its file, each as a row with a preview.

    Handles are named, not resolved; see handle.resolve.

    To read a conversation, use session.outline and then session.turn.
    """
    return call.open(given.session).tree()


class Fork(OfSession):
    words: Annotated[
        list[str],
        arg(
            "[[REF] NEWFILE]",
            help="The last entry to copy, and the new file; by default a new session in the store.",
        ),
        only_for_people,
    ] = msgspec.field(default_factory=list)
    at: Annotated[
        EntryRef | None,
        opt("--at", metavar="REF", help="The last entry to copy; by default the current leaf."),
    ] = None
    name: Annotated[
        str | None,
        opt("--name", metavar="NAME", help="The name of the copy; by default that of the session."),
    ] = None
    cwd: Annotated[
        str | None,
        opt(
            "--cwd",
            metavar="DIR",
            kind="path",
            help="The working directory of the copy; by default that of the session.",
        ),
    ] = None


class NewCopy(NamedTuple):
    """A session file that was made of another."""

    file: str
    redaction: Redaction | None = None

    def header(self) -> Entry:
        with Session.open(self.file, readonly=True) as made:
            return made.header


def _made(call: Call, given: OfSession, copy: NewCopy) -> CreatedSession:
    masked = None if copy.redaction is None else copy.redaction.report()
    return CreatedSession(copy.header()["id"], copy.file, masked)


@TREE.method(
    "Copy a path into a new session",
    "write",
    core=True,
    json="the header of the new file",
    answer=_made,
)
def fork(call: Call, given: Fork) -> NewCopy:
    """Copy an entry and all entries above it into a new session of the store.
    \f
    Without NEWFILE, the copy becomes a new session in the store, and 'ls' lists it. In this case,
    give REF with --at. The store is also where the id or the name of FILE is looked up. FILE does
    not change. If a blob of FILE is missing or damaged, the copy is made without the blob, and the
    exit code is 1.
    """
    call.check_write()
    refs, newfile = given.words[:-1], given.words[-1] if given.words else None
    refs += [] if given.at is None else [given.at]
    if len(refs) > 1:
        next = "Give one REF and one NEWFILE: sessiontree fork FILE REF NEWFILE"
        raise Refusal("there is more than one REF", "bad_value", next)
    with call.reading(given.session) as session:
        file = newfile and call.new_session(newfile, session, or_store=True)
        leaf = session.entry(refs[0] if refs else LEAF)
        last = session.reader.skip_markers(leaf)
        if file is None:
            assert session.file is not None
            file = call.store.fork(session.file, leaf, cwd=given.cwd, name=given.name)
        else:
            cwd = None if given.cwd is None else os.path.abspath(given.cwd)
            file = session.fork(file, leaf, cwd=cwd, name=given.name)
    call.wrote(last, "Forked at {} into {}", last, file)
    return NewCopy(file)


Out = Annotated[
    str,
    opt(
        "-o",
        "--output",
        metavar="OUT",
        kind="path",
        help="The path of the new file.",
        examples=["copy.jsonl"],
    ),
]

Redact = Annotated[bool, opt("--redact", help="Mask secrets.")]
Rules = Annotated[
    str | None,
    opt(
        "--rules",
        metavar="TOML",
        kind="path",
        help="With --redact: a file with more rules, one per line: name = 'regular expression'. "
        "A rule with the name of a built-in rule replaces the built-in rule.",
    ),
    only_for_people,
]
ListRules = Annotated[
    bool,
    opt("--list-rules", kind="rules", help="List the built-in rules and exit."),
    only_for_people,
]


class Transcribing(OfSession, kw_only=True):
    """Parameters of a method that makes a transcript."""

    at: Annotated[
        EntryRef | None,
        arg("[REF]", help="The last entry of the transcript; by default the leaf."),
    ] = None
    redact: Redact = False
    remote_images: Annotated[
        bool,
        opt(
            "--remote-images",
            help="Keep images that messages refer to by address, instead of links.",
        ),
    ] = False
    format: Annotated[
        Literal["markdown", "html"] | None,
        opt(
            "--format",
            choices=("markdown", "html"),
            help="The format; by default html if OUT ends in .html, else markdown.",
        ),
        only_for_people,
    ] = None
    markdown: Annotated[
        bool, opt("--markdown", help="The same as --format markdown."), only_for_people
    ] = False
    html: Annotated[bool, opt("--html", help="The same as --format html."), only_for_people] = False
    rules: Rules = None
    list_rules: ListRules = False
    root: Annotated[Root, only_for_people] = None

    def is_page(self, file: str | None = None) -> bool:
        """True if it is a page, as is asked for, or else by the name of the file.

        Raises:
            Refusal: nothing is asked for, and no transcript has such a name.
        """
        if self.html or self.markdown:
            return self.html
        if self.format is not None or file is None:
            return self.format == "html"
        if file.casefold().endswith((".json", ".jsonl")):
            next = (
                f"`out` {file} is the name of another format; end it in .md or .html, or give "
                "`format`"
            )
            raise Refusal("a transcript is Markdown or a page", "bad_value", next)
        return is_page_name(file)

    def parts(
        self, session: Session, redaction: Redaction | None, file: str | None = None
    ) -> Iterator[str]:
        """The parts of the transcript, for a file if it has one.

        Raises:
            Refusal: a page is to keep the addresses of images.
        """
        end = None if self.at is None else session.entry(self.at)
        if self.is_page(file):
            if self.remote_images:
                next = "`remote_images` is for `format` markdown: a page loads no images"
                raise Refusal("a page loads no images", "bad_value", next)
            images = None if file is None else images_of(file)
            return session.to_html(end, redact=redaction, images=images)
        beside = None if file is None else os.path.dirname(os.path.abspath(file))
        return session.to_markdown(
            end, redact=redaction, beside=beside, remote_images=self.remote_images
        )


def images_of(file: str) -> str:
    """The folder for the images of a page."""
    return f"{os.path.splitext(file)[0]}-images"


class Export(Transcribing):
    offset: Offset = 0


class Transcript(TextSlice, kw_only=True, omit_defaults=True):
    """A transcript, or a part of one; `next` is there if it goes on."""

    at: Annotated[
        str, Meta(description="The last entry: give it as `at` to go on with this transcript.")
    ]


class TranscriptParts(NamedTuple):
    """The parts of a transcript, whose session is open until the call ends."""

    session: Session
    parts: Iterator[str]
    redaction: Redaction | None


def _transcript(call: Call, given: Export, made: TranscriptParts) -> Transcript:
    end = made.session.entry(given.at or LEAF)
    found = passage(call.each(made.parts), given.offset, given.budget)
    return Transcript(at=end.uuid, text=found.text, offset=found.offset, next=found.next)


@TREE.method(
    "Read a transcript",
    json="the path of the new file, and what --redact masked; needs -o",
    answer=_transcript,
)
def export(call: Call, given: Export) -> TranscriptParts:
    """Read the path to an entry as Markdown, from its first message on; go on with `offset`.

    It has all messages, also those that a compaction replaced in the context.
    \f
    With --format html, the file is a page with the whole session: all branches and every entry. It
    opens at REF [default: the beginning]. The page loads nothing from elsewhere: open it from disk,
    or send it to somebody. Its key ? lists the keys. With -o, images after the first 3 MB are files
    in a folder beside it, named like OUT with '-images'.

    With --format markdown, the transcript has every message on the path to REF, also the messages
    that a compaction replaced in the context. To share the session file with masked secrets, use
    'export-branch --redact'.

    If a message refers to an image by its address, the transcript has a link instead of the
    image. With --remote-images, the image stays: a viewer loads it, which tells the image's server
    who reads the transcript, and when.
    """
    redaction = call.redaction(given.redact, given.rules)
    session = call.open(given.session, given.root)
    return TranscriptParts(session, given.parts(session, redaction), redaction)


class ExportFile(Transcribing, kw_only=True):
    out: Out


class Exported(msgspec.Struct, omit_defaults=True):
    """A new file with a transcript."""

    file: Annotated[str, Meta(description="The path of the new file.")]
    masked: Annotated[
        dict[str, Any] | None, Meta(description="What was masked, if secrets are masked.")
    ] = None


class NewTranscript(NamedTuple):
    """A new file with a transcript."""

    file: str
    redaction: Redaction | None


def _exported(call: Call, given: ExportFile, made: NewTranscript) -> Exported:
    return Exported(made.file, None if made.redaction is None else made.redaction.report())


@TREE.method("Write a transcript to a file", "write", answer=_exported)
def export_file(call: Call, given: ExportFile) -> NewTranscript:
    """Write the path to an entry as Markdown to a new file; a file is never replaced.

    If the name ends in .html, the file is a page with the whole session.

    A relative path begins in the folder of the store.
    """
    file = call.new_file(given.out)
    redaction = call.redaction(given.redact, given.rules)
    with call.reading(given.session, given.root) as session:
        parts = call.each(given.parts(session, redaction, file))
        with session.handles.failing_once():  # a page asks for a handle twice
            create_file(DISK, file, (part.encode("utf-8", "replace") for part in parts))
    return NewTranscript(file, redaction)


class ExportBranch(OfSession, kw_only=True):
    entry: Annotated[EntryRef, arg("REF", help="The top entry of the subtree.")]
    out: Annotated[
        str,
        arg(
            "NEWFILE",
            kind="place",
            help="The path of the new file, or the address of the new session.",
            examples=["copy.jsonl"],
        ),
    ]
    with_path: Annotated[
        bool, opt("--with-path", help="Copy the path from the header to the entry, too.")
    ] = False
    inline: Annotated[
        bool,
        opt("--inline", help="Put the content of blobs and handles into the new file itself."),
    ] = False
    redact: Redact = False
    rules: Rules = None
    list_rules: ListRules = False
    root: Root = None


@TREE.method(
    "Copy a subtree into a new session",
    "write",
    json="the header of the new file, and what --redact masked",
    answer=_made,
)
def export_branch(call: Call, given: ExportBranch) -> NewCopy:
    """Copy an entry and all entries below it into a new session; nothing is ever replaced.

    Scratch lanes that were never kept are left out. A relative path begins in the store.
    \f
    A scratch lane below REF is copied only if the lane was kept. If REF itself is on a scratch
    lane, the entries of that lane below REF are copied even if the lane was not kept. FILE does not
    change. If a blob of FILE is missing or damaged, the copy is made without the blob, and the exit
    code is 1.
    """
    call.check_write()
    redaction = call.redaction(given.redact, given.rules)
    with call.reading(given.session, given.root) as session:
        file = call.new_session(given.out, session)
        top = session.entry(given.entry)
        file = session.export_branch(
            top, file, given.with_path, inline=given.inline, redact=redaction
        )
    with Session.open(file, readonly=True) as made:
        copied = made.reader.by_uuid(top.uuid) or made.header  # whose secrets may be masked
        call.wrote(copied, "Exported {} and all below it into {}", copied, file)
    return NewCopy(file, redaction)


class Convert(OfSession, kw_only=True):
    to: Annotated[
        TargetName,
        opt(
            "--to",
            choices=TARGETS,
            help="The program, or a format of exchange: 'atif' (Agent Trajectory Interchange "
            "Format) or 'otel' (OpenTelemetry spans).",
        ),
    ]
    out: Annotated[Out, optional_for_people]
    root: Root = None


class Converted(msgspec.Struct, omit_defaults=True):
    """The new files, and what they leave out."""

    file: Annotated[str, Meta(description="The path of the new file.")]
    beside: Annotated[list[str], Meta(description="The other new files, which belong to it.")] = (
        msgspec.field(default_factory=list)
    )
    not_kept: Annotated[list[str], Meta(description="What the new files leave out or change.")] = (
        msgspec.field(default_factory=list)
    )
    warnings: Annotated[list[str], Meta(description="Content that could not be read.")] = (
        msgspec.field(default_factory=list)
    )


class PipedConversion(NamedTuple):
    """A conversion for a pipe, whose session is open until the call ends."""

    blocks: Iterator[bytes]
    source: ConvertedSession


def _converted(call: Call, given: Convert, made: Any) -> Converted:
    return Converted(made.file, made.beside, [str(loss) for loss in made.losses], made.warnings)


@TREE.method(
    "Convert a session for another program",
    "write",
    json="the new files and what the other format cannot keep",
    answer=_converted,
)
def convert(call: Call, given: Convert) -> Any:  # a ConversionResult, whose module is heavy
    """Make a file that another program opens, and say what its format cannot keep.

    The session does not change; a file is never replaced. A relative path begins in the folder of
    the store. To go on with a session in an agent, use session.resume_command.
    \f
    FILE is any session, also a session of another agent. FILE does not change. Without -o, the new
    file has the name that the other program would give it; '-o -' writes to standard output.

    \b
    The new file contains:
      pi           the whole tree
      claude-code  the conversation of each branch; lanes become subagents
      codex        the conversation of each branch, one after another
      gemini       the conversation of each branch, one after another
      qwen         the conversation of each branch
      copilot      the current path
      opencode     the current path, for 'opencode import'
      kilo         the current path, for 'kilo import'
      atif         the current path, also the messages that were compacted away
                   (ATIF is a format for training)
      otel         all turns as spans: responses with tokens, model and provider; calls; subagents
                   (OTLP in JSON lines, for Langfuse, Phoenix, or a collector)

    The spans of otel have the texts of prompts, answers and calls. To send numbers only, delete
    these attributes in your collector. To mask secrets, convert what 'export-branch --redact'
    makes.

    To go on with a session in an agent, use 'resume', which puts the new file where the agent
    looks for its sessions.
    """
    if call.is_command and given.out == "-":
        from sessiontree.operations.convert import converted  # heavy, and only for this
        from sessiontree.operations.export import Original

        session = call.open(given.session, given.root)
        original = Original(session.cursor, session.handles, session.file, session.disk)
        return PipedConversion(*converted(original, given.to))
    file = call.new_file(given.out)
    with call.reading(given.session, given.root) as session:
        return session.convert(given.to, file)
