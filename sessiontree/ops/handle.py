"""The namespace `handle`: pointers to content that is kept elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sessiontree.context.resolved import ResolvedHandle
from sessiontree.core.handle import Handle, Kind
from sessiontree.core.media import base_type, is_text
from sessiontree.errors import SessionNotFoundError
from sessiontree.handles.registry import HandleSchema, ResolverScope
from sessiontree.ops.budget import Page, Paged, Reading, ValuePart, page
from sessiontree.ops.field import arg, opt
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Namespace
from sessiontree.ops.params import Call, Root, SessionName

HANDLE: Final = Namespace(
    "handle", "Handles: pointers to content that is kept elsewhere, and what they point to."
)


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
        str,
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
def resolve(call: Call, given: HandleResolve) -> ResolvedHandle:
    """Read the content that a handle points to: a message, an output, a document, a text or bytes.

    Long texts are cut, and named in `cut`: read on with `part` and `offset`. Refuses a handle that
    is not well formed, and one whose content is missing or outside the folders that can be reached.
    \f
    If the content is bytes, the command prints the bytes unchanged, but never to a terminal. Put a
    HANDLE that contains a space or a semicolon in quotation marks.
    """
    wanted = Handle.parse(given.handle)
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
