"""The commands below `blob` and `handle`: what is stored beside a session or elsewhere."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from typing import Final

import click

from sessiontree import errors
from sessiontree.cli import arguments, terminal
from sessiontree.cli.opening import reading
from sessiontree.cli.output import for_people, out_json, out_json_list, out_message
from sessiontree.cli.terminal import as_line, counted, end, out, tell, tell_each
from sessiontree.context.resolved import output_text
from sessiontree.core.blob import Blob, blobs_needed
from sessiontree.core.handle import Handle
from sessiontree.core.message import indented_text
from sessiontree.handles.registry import Registry, Scope
from sessiontree.handles.schema import HandleSchema
from sessiontree.operations.blobs import FAULTS, may_need_blobs, verify_blobs
from sessiontree.session import Session

_PREFIX: Final = re.compile("[0-9a-f]{4,64}")


@click.group()
def blob() -> None:
    """List, print and verify the blobs of a session.

    A blob is a file in the folder FILE.blobs. A blob contains one text of more than 32 KiB, or one
    attached file. The name of a blob is the SHA-256 of its bytes.

    \b
    Example:
      sessiontree blob ls chat.jsonl --json
      sessiontree blob cat chat.jsonl 2cf24dba > screenshot.base64
      sessiontree blob verify chat.jsonl
    """


@blob.command(short_help="List the blobs and the number of references to each blob.")
@arguments.file
@arguments.default_store
@arguments.json_option("a list of the blobs")
def ls(file: str, as_json: bool) -> None:
    """List the blobs, the size of each blob, and the number of references to each blob.

    The list also has the blobs that entries use but that are missing or have the wrong size. Only
    'blob verify' reads the content of the blobs.
    """
    with reading(file) as session:
        references = Counter(
            blob for keys in may_need_blobs(session.reader) for blob in blobs_needed(keys)
        )
        stored = list(session.blobs.blobs())
        faults = {one: session.blobs.fault(one) for one in references}
        aside = len(session.blobs.aside())
    named = {one.sha256 for one in references}
    found = sorted([*references, *(one for one in stored if one.sha256 not in named)])
    if as_json:
        out_json_list(
            {
                "sha256": one.sha256,
                "size": one.size,
                "references": references[one],
                "referenced": one in references,
                "stored": faults.get(one) is None,
                "fault": FAULTS[type(fault)] if (fault := faults.get(one)) else None,
            }
            for one in found
        )
        return
    for one in found:
        out(f"{one.sha256}  {one.size:>13,}  {_state(references[one], faults.get(one))}")
    total = sum(one.size for one in stored)
    kept = f"; {aside:,} damaged as well, kept until gc removes them" if aside else ""
    tell(f"{file}: {counted(len(stored), 'blob')}, {total:,} bytes{kept}")


def _state(references: int, fault: errors.BlobError | None) -> str:
    count = counted(references, "reference") if references else "not referenced"
    if fault is None:
        return count
    sizes = fault.sizes if isinstance(fault, errors.BlobDamagedError) else None
    exactly = f": {sizes[0]:,} of {sizes[1]:,} bytes" if sizes else ""
    return f"{count}, {FAULTS[type(fault)]}{exactly}"


@blob.command()
@arguments.file
@arguments.default_store
@click.argument("sha")
def cat(file: str, sha: str) -> None:
    """Write the bytes of a blob to standard output.

    SHA is the SHA-256 of the blob, or the first four or more digits of the SHA-256. The hash is
    checked while the bytes are written. If the hash is wrong, the command fails, and the output is
    incomplete. A screenshot is stored as base64 text; 'base64 -d' turns the text into the picture.
    """
    with reading(file) as session:
        found = _named(session, sha)
        if terminal.is_terminal():
            raise errors.UsageError(
                f"{found.size:,} bytes are not written to a terminal; "
                "send them to a file, with '> NAME', or to another program"
            )
        terminal.out_bytes(session.blobs.blocks(*found))


def _named(session: Session, sha: str) -> Blob:
    if not _PREFIX.fullmatch(sha):
        raise errors.UsageError(
            f"{sha:.80} is not a SHA-256 or its first four or more digits; 'blob ls' lists them"
        )
    found = [one for one in session.blobs.blobs() if one.sha256.startswith(sha)]
    if len(found) > 1:
        raise errors.UsageError(f"{len(found)} blobs begin with {sha}; give more of its digits")
    if not found:
        raise errors.BlobMissingError(
            f"{session.file} has no blob {sha}; 'blob ls' lists those it has", session.blobs.file
        )
    return found[0]


@blob.command()
@arguments.file
@arguments.default_store
@arguments.json_option("a list of the findings")
def verify(file: str, as_json: bool) -> None:
    """Read every blob and report the missing and the damaged blobs.

    The command changes nothing. The exit code is 1 if a blob is missing or damaged.
    """
    with reading(file) as session:
        found, checked = verify_blobs(session.reader)
    if as_json:
        out_json_list(
            {"file": e.file, "sha256": e.sha256, "kind": FAULTS[type(e)], "cause": str(e)}
            for e in found
        )
    else:
        for fault in found:
            out(str(fault))
    outcome = counted(len(found), "finding") if found else "no damage found"
    tell(f"{file}: {counted(checked, 'blob')}, {outcome}")
    end(found)


@click.group()
def handle() -> None:
    """Resolve handles and list the supported forms.

    A handle points to content that is stored elsewhere. The general form of a handle is
    PLUGIN@VERSION::METHOD:META.

    \b
    Example:
      sessiontree handle schemas --json
      sessiontree handle resolve file@1.0.0::path:notes.md --root .
    """


@handle.command(short_help="List the forms of handles that each plugin supports.")
@arguments.json_option("a list of the schemas")
def schemas(as_json: bool) -> None:
    """List the forms of handles that each plugin supports, and what each form resolves to.

    A schema describes one form. A plugin is a class with the members 'schemas' and
    'resolve'. A package provides a plugin by an entry point in its pyproject.toml:

    \b
      [project.entry-points."sessiontree.handles"]
      notes = "my_package:Notes"
    """
    registry = Registry.default()
    found = registry.schemas()
    if as_json:
        out_json_list(found)
    else:
        for schema in found:
            _out_schema(schema)
    tell_each("Warning", [str(error) for error in registry.broken])


def _out_schema(schema: HandleSchema) -> None:
    out(f"{schema.name} → {schema.kind}")
    if target := schema.resolves_to:
        out(f"  {target if isinstance(target, str) else for_people(target)}")
    for index, field in enumerate(schema.meta):
        facts = [
            f"meta[{index}]  {field.name}",
            f"prefix {field.prefix}" if field.prefix else "",
            field.form or (f"matches {field.pattern}" if field.pattern else ""),
            "" if field.required else "optional",
        ]
        out("  " + "  ".join(fact for fact in facts if fact))


@handle.command()
@click.argument("words", nargs=-1, required=True, metavar="HANDLE")
@arguments.path_option(
    "--session",
    metavar="FILE",
    type=arguments.SESSION_FILE,
    help="The session that contains the handle. 'blob' and 'session' handles need this option.",
)
@arguments.default_store
@arguments.root
@arguments.json_option("the handle, the kind of its data, and the data (bytes as base64)")
def resolve(words: tuple[str, ...], session: str | None, root: str | None, as_json: bool) -> None:
    """Print what a handle points to.

    If the content is bytes, the command prints the bytes unchanged, but never to a terminal. Put a
    HANDLE that contains a space or a semicolon in quotation marks.
    """
    if len(words) > 1:
        raise click.UsageError(f"give one HANDLE, in quotation marks: '{as_line(' '.join(words))}'")
    wanted = Handle.parse(words[0])
    with contextlib.ExitStack() as opened:
        owner = None if session is None else opened.enter_context(reading(session))
        scope = opened.enter_context(Scope(Registry.default(), owner, root))
        found = scope.resolve(wanted)
    if as_json:
        out_json(found)
    elif found.kind == "message":
        out_message(found.data)
    elif found.kind == "output":
        out(output_text(found.data))
    elif found.kind == "document":
        out(indented_text(found.data))
    elif terminal.is_terminal():  # which would obey the bytes
        tell(f"{len(found.data):,} bytes of {found.media_type}, not printed to a terminal")
    else:
        terminal.out_bytes([found.data])
