"""Commands for blobs: which a session has, what is in one, and whether all are sound."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import click

from sessiontree.cli.arguments import file_argument, json_option
from sessiontree.cli.opening import reading
from sessiontree.cli.output import out_json_list
from sessiontree.cli.terminal import finish, out, tell
from sessiontree.core.blob import MARK, Blob, blobs_needed
from sessiontree.core.entry import decode_object
from sessiontree.core.spill import check_spilled
from sessiontree.errors import (
    BlobDamagedError,
    BlobError,
    BlobMissingError,
    BlobUnreadableError,
    SpilledError,
    UsageError,
)
from sessiontree.session import Session


@click.group()
def blob() -> None:
    """Look after the large contents beside a session.

    Strings of more than 32 KiB, and what was attached, lie in the folder
    FILE.blobs, each named by the SHA-256 of its bytes.

    \b
    Example:
      sessiontree blob ls chat.jsonl --json
      sessiontree blob cat chat.jsonl 2cf24dba > screenshot.base64
      sessiontree blob verify chat.jsonl
    """


@blob.command(short_help="List the blobs, and how often each is named.")
@file_argument
@json_option("a list of the blobs")
def ls(file: str, as_json: bool) -> None:
    """List the blobs, with their bytes and how often entries refer to each.

    Those that entries refer to and that are not there, or not of their size, are listed
    too; what is in a blob is not looked at: 'blob verify' does that.
    """
    with reading(file) as session:
        references = Counter(wanted for keys in _lines(session) for wanted in blobs_needed(keys))
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
                "fault": _KINDS[type(fault)] if (fault := faults.get(one)) else None,
            }
            for one in found
        )
        return
    for one in found:
        out(f"{one.sha256}  {one.size:>13,}  {_told(references[one], faults.get(one))}")
    total = sum(one.size for one in stored)
    kept = f"; beside them {aside:,} damaged, kept aside until gc takes them" if aside else ""
    tell(f"{file}: {_blobs(len(stored))} of {total:,} bytes{kept}")


def _told(references: int, fault: BlobError | None) -> str:
    count = {0: "not referenced", 1: "1 reference"}.get(references, f"{references:,} references")
    if fault is None:
        return count
    sizes = fault.sizes if isinstance(fault, BlobDamagedError) else None
    exactly = f": {sizes[0]:,} of {sizes[1]:,} bytes" if sizes else ""
    return f"{count}, {_KINDS[type(fault)]}{exactly}"


def _lines(session: Session) -> Iterator[Mapping[str, Any]]:
    """The keys as stored of each line that may name a blob."""
    for _, line in session.reader.ready().lines():
        if MARK in line:
            yield decode_object(line)


@blob.command()
@file_argument
@click.argument("sha")
def cat(file: str, sha: str) -> None:
    """Write the bytes of a blob to standard output.

    SHA is its SHA-256, or a unique prefix of four digits or more. The bytes are
    checked: where they are wrong, the last of them are not written, and the command
    fails. A screenshot is stored as the base64 text that it was; 'base64 -d' makes
    the picture of it.
    """
    with reading(file) as session:
        found = _named(session, sha)
        if sys.stdout is None:  # closed by the caller
            return
        if sys.stdout.isatty():
            raise UsageError(
                f"{found.size:,} bytes of whatever kind are nothing for a terminal; "
                "send them to a file, with '> NAME', or to another program"
            )
        finish()
        for block in session.blobs.blocks(*found):
            sys.stdout.buffer.write(block)
        finish()


def _named(session: Session, sha: str) -> Blob:
    """The blob whose hash is given, or begins so."""
    if not _PREFIX.fullmatch(sha):
        raise UsageError(
            f"{sha:.80} is no SHA-256, and no beginning of one with four digits or more; "
            "'blob ls' lists them"
        )
    found = [one for one in session.blobs.blobs() if one.sha256.startswith(sha)]
    if len(found) > 1:
        raise UsageError(f"{len(found)} blobs begin with {sha}; give more of its digits")
    if not found:
        raise BlobMissingError(
            f"{session.file} has no blob {sha}; 'blob ls' lists those it has", session.blobs.file
        )
    return found[0]


_PREFIX: Final = re.compile("[0-9a-f]{4,64}")


@blob.command()
@file_argument
@json_option("a list of the findings")
@click.pass_context
def verify(context: click.Context, file: str, as_json: bool) -> None:
    """Read every blob, and say which are missing or not what was stored.

    Exits with 1 if anything is wrong. Changes nothing.
    """
    with reading(file) as session:
        needed: set[Blob] = set()
        found: list[BlobError] = []
        for keys in _lines(session):
            needed.update(blobs_needed(keys))
            found += _misfit(keys, session)
        found += session.blobs.verify(needed)
        checked = len({one.sha256 for one in [*needed, *session.blobs.blobs()]})
    if as_json:
        out_json_list(_as_dict(error) for error in found)
    else:
        for error in found:
            out(str(error))
    tell(f"{file}: {_blobs(checked)}, {_counted(len(found))}")
    finish()
    context.exit(1 if found else 0)


def _blobs(count: int) -> str:
    return "1 blob" if count == 1 else f"{count:,} blobs"


def _counted(findings: int) -> str:
    return {0: "all sound", 1: "1 finding"}.get(findings, f"{findings:,} findings")


def _misfit(keys: Mapping[str, Any], session: Session) -> Iterator[BlobError]:
    """What is wrong with an entry's `spilled`, whatever the blobs are."""
    try:
        check_spilled(keys)
    except SpilledError as error:
        yield SpilledError(f"{session.file}, entry {keys.get('uuid')}: {error}", session.blobs.file)


def _as_dict(error: BlobError) -> dict[str, str]:
    return {
        "file": error.file,
        "sha256": error.sha256,
        "kind": _KINDS[type(error)],
        "cause": str(error),
    }


_KINDS: Final[dict[type[BlobError], str]] = {
    BlobMissingError: "missing",
    BlobDamagedError: "damaged",
    BlobUnreadableError: "unreadable",
    SpilledError: "spilled",
}
