"""What is printed of a session: facts, entries, branches, labels, the path, contexts, handles.

`follow` and `blob` are commands of their own; the others are operations, whose results are printed
here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from sessiontree import errors
from sessiontree.cli import arguments, output, terminal
from sessiontree.cli.derive import CommandCall, command, renders
from sessiontree.cli.opening import reading
from sessiontree.cli.output import (
    cost_in_words,
    describe,
    for_people,
    out_entry_row,
    out_facts,
    out_json,
    out_json_list,
    out_message,
    usage_in_words,
)
from sessiontree.cli.terminal import end, finish, is_terminal, out, short, tell, tell_each
from sessiontree.context.resolved import output_text
from sessiontree.core.blocks import folded_message
from sessiontree.core.damage import in_short
from sessiontree.core.display import one_line
from sessiontree.core.entry import ANNOTATIONS, MAIN, MOVES, PIECES, Entry, moment_of
from sessiontree.core.garbage import is_scratch
from sessiontree.core.handle import Blob, blobs_needed
from sessiontree.core.message import indented_text
from sessiontree.core.usage import Usage
from sessiontree.operations.copy import FAULTS, may_need_blobs, verify_blobs
from sessiontree.session import Session
from sessiontree.text.amounts import counted, lasting
from sessiontree.views.messages import is_typed, pieces_of

if TYPE_CHECKING:  # each command imports its operation alone
    from sessiontree.context.context import Context
    from sessiontree.context.providers.values import Request
    from sessiontree.context.resolved import ResolvedHandle
    from sessiontree.handles.registry import HandleSchema
    from sessiontree.ops.branch import BranchesFound
    from sessiontree.ops.context import PathTo
    from sessiontree.ops.look import ShownSession
    from sessiontree.ops.node import EntryRead
    from sessiontree.views.turns import SessionOutline

_MAX_NAMES: Final = 5
_MAX_ENDS: Final = 20
_OF_PIECES = ("block", "index", "messageUuid", "role")
_STRUCTURE = ("type", "uuid", "parentUuid", "lane", "timestamp", "crc")


def _model_name(model: Mapping[str, Any] | None) -> str:
    return "/".join(str(part) for part in model.values() if part) if model else ""


@renders("session.show", with_json=True)
def _(call: CommandCall, found: ShownSession) -> None:
    facts = found.facts
    if call.as_json:
        out_json(facts)
        return
    from sessiontree.library.one import as_listed  # what other commands here do without

    outline = as_listed(found.session.outline(), found.row)
    about = _about(outline, *_spent(found, outline.work.usage))
    shown = {
        "entries": f"{facts.entries:,}",
        "branches": f"{facts.branches:,}",
        "lanes": _some(without_scratch(dict.fromkeys(facts.lanes, 1))),
        "model": _model_name(facts.model),
        "parentSession": facts.parent_session and for_people(facts.parent_session),
        "metadata": facts.metadata and for_people(facts.metadata),
        "damage": f"{len(facts.damage):,} found"
        if facts.damage
        else _without_damage(facts.metadata),
        "notes": in_short(facts.notes),
    }
    out_facts({**about, **msgspec.to_builtins(facts), **shown})
    for turn in outline.ends()[-_MAX_ENDS:]:
        mark = "●" if turn.current else "○"
        prompt = one_line(turn.prompt or "", 100)
        out(f"  {mark} {_when(turn.work.started)}  turn {turn.name}  {short(turn.leaf)}  {prompt}")


def _without_damage(metadata: Mapping[str, Any]) -> str:
    """What is said of a file without damage: its agent's file may have some."""
    if "importedFrom" in metadata:
        return "none found in this import, which leaves out what could not be read"
    return "none found"


def _when(timestamp: str | None) -> str:
    moment = moment_of(timestamp)
    return "unknown" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M}"


def _spent(found: ShownSession, usage: Usage) -> tuple[Usage, str]:
    """What a session used, and what that cost; empty if that is not known."""
    if not (usage.tokens or usage.cost):
        return usage, ""
    from sessiontree.library.spending import numbers_of  # few sessions are of several files

    numbers = found.session.stats()
    whole = numbers_of(found.row, numbers)
    cost = whole.cost
    words = cost_in_words(*cost) if cost.dollars else ""
    return usage if whole is numbers else whole.usage, words


def _turns(outline: SessionOutline) -> str:
    """The turns of a file, and those of the conversation if other copies have more."""
    own, whole = f"{outline.last_number:,}", outline.turns_in_all
    return f"{own} in this file, {whole:,} with its other copies" if whole else own


def _about(outline: SessionOutline, usage: Usage, cost: str) -> dict[str, Any]:
    """What people ask first about a session, of all its branches."""
    work, own = outline.work, [turn for turn in outline.turns if not turn.subagent]
    seconds = sum(turn.work.seconds or 0.0 for turn in own)
    return {
        "title": one_line(outline.title or "", 200),
        "origin": outline.kin,
        "when": f"{_when(work.started)} to {_when(work.ended)}, active for {lasting(seconds)}",
        "turns": _turns(outline),
        "models": ", ".join(map(one_line, work.models)),
        **usage_in_words(usage, cost),
        "changed": _some(work.changed),
    }


def _some(names: Collection[str]) -> str:
    """The first of some names, and how many more there are."""
    shown = [one_line(name, 200) for name in islice(names, _MAX_NAMES)]
    more = len(names) - len(shown)
    return ", ".join([*shown, *([f"{more:,} more"] if more else [])])


@renders("node.get", with_json=True)
def _(call: CommandCall, read: EntryRead) -> None:
    session, entry = read
    out_json(entry) if call.as_json else _out_entry(session, entry)
    content = next((found for found in session.cursor.up(entry) if found.is_content), None)
    if content is not None and content != entry and not is_typed(entry):
        said = f"{{}} is a {one_line(entry.type)} entry, and adds nothing to the conversation"
        last = f"; the last entry that does is {short(content.uuid)}"
        call.note(said + last, call.given.entry)


def without_scratch(lanes: Mapping[str, int]) -> dict[str, int]:
    """The count of each lane; of all scratch lanes together, since there may be hundreds."""
    counts = {lane: count for lane, count in lanes.items() if not is_scratch(lane)}
    if scratch := len(lanes) - len(counts):
        counts[counted(scratch, "scratch lane")] = sum(lanes.values()) - sum(counts.values())
    return counts


def _out_entry(session: Session, entry: Entry) -> None:
    pieces = pieces_of(session.cursor, entry) if entry.type in PIECES else []
    message = folded_message(pieces) if pieces else entry.get("message")
    rest = {key: value for key, value in entry.body.items() if key not in _STRUCTURE}
    is_message = entry.type in ("message", *PIECES) and isinstance(message, dict)
    if pieces:  # people ask for the whole answer
        rest = {key: value for key, value in rest.items() if key not in _OF_PIECES}
    out_facts(
        {
            "type": entry.type,
            "uuid": entry.uuid,
            "parent": entry.parent_uuid,
            "lane": entry.lane,
            "written": entry.timestamp,
            "label": session.reader.names().labels.get(entry.uuid),
            "on the path": "yes" if session.cursor.is_above(entry) else "no",
            "role": is_message and output.speaker(entry),
            "answer": pieces and _extent(message, pieces),
        }
    )
    if is_message:
        from sessiontree.views.parts import whole_text_of  # few commands show messages

        out("\n" + whole_text_of(message))
    rest.pop("message", None)
    if rest:
        out("\n" + indented_text(rest))


def _extent(message: Mapping[str, Any], pieces: list[Entry]) -> str:
    """Which entries an answer that was streamed in blocks has, and whether it is whole."""
    cut = ", partial" if message.get("partial") else ""
    return f"{counted(len(pieces), 'entry', 'entries')} from {short(pieces[0].uuid)}{cut}"


@renders("branch.list", with_json=True)
def _(call: CommandCall, found: BranchesFound) -> None:
    if call.as_json:
        out_json_list(found.branches)
        return
    for branch, last in zip(found.branches, found.ends(), strict=True):
        parts = ["●" if branch.current else "○", short(branch.leaf)]
        parts += [f"turn {last.turn:<4}" if last.turn else " " * 9, _when(branch.updated)]
        parts += [f"{branch.length:>5,} {'entry  ' if branch.length == 1 else 'entries'}"]
        parts += [f"from {short(branch.fork)}" if branch.fork else "from start   "]
        parts += [one_line(last.prompt or branch.preview, 100) if branch.length else "no entry yet"]
        parts += [f"({one_line(branch.name)})"] if branch.name else []
        parts += [f"lane {one_line(branch.lane)}"] if branch.lane else []
        out("  ".join(parts))


@renders("context.get_path", with_json=True)
def _(call: CommandCall, path: PathTo) -> None:
    entries = path.session.cursor.below(None, path.entry)
    if call.as_json:
        out_json_list(entries)
        return
    for entry in entries:
        out_entry_row(entry)


@renders("context.get", with_json=True)
def _(call: CommandCall, found: Context) -> None:
    if (request := call.given.request(found)) is not None:
        out_json(request.params)
        tell_each("Warning", request.warnings)
    elif call.as_json:
        out_json(found)
    else:
        for message in found.messages:
            out_message(message)
        count = counted(len(found.messages), "message")
        model = f", model {one_line(_model_name(found.model))}" if found.model else ""
        out(f"— {count}, about {found.tokens:,} tokens, leaf {short(found.leaf.uuid)}{model}")
    tell_each("Warning", found.warnings)


@renders("context.request", with_json=True)
def _(call: CommandCall, sent: Request) -> None:
    out_json(sent.params)
    tell_each("Warning", sent.warnings)


@arguments.file_command("follow", json="each entry on a line of its own")
def follow(file: str, as_json: bool) -> None:
    """The command runs until you interrupt it. If the file is migrated or repaired, the command
    continues. The command reports new damage on standard error. The file may be another agent's:
    the command reads it again when the agent has written. If a new entry does not continue from the
    leaf of its lane, the command warns that two writers are on this lane.
    """
    with Session.open(file, readonly=True) as session:
        if is_terminal():
            tell(f"Following {file}; Ctrl-C ends")
        leaves = _Leaves(session.leaf)
        for entry in session.follow(lambda damage: tell(str(damage))):
            out_json(entry) if as_json else out_entry_row(entry)
            finish()
            leaves.take(entry)


class _Leaves:
    """The leaf of each lane that is followed. Warns where a leaf moves to another branch."""

    def __init__(self, leaf: Entry) -> None:
        self._of = {leaf.lane: (leaf, {leaf.uuid})}

    def take(self, entry: Entry) -> None:
        """Take the next entry of the file."""
        leaf, uuids = self._of.get(entry.lane, (None, set[str]()))
        if entry.type in ANNOTATIONS:
            uuids.add(entry.uuid)  # the next entry may hang below it
            return
        below = {*uuids, None}  # without a parent, an entry is on no branch
        if leaf is not None and entry.parent_uuid not in below and entry.type not in MOVES:
            tell(
                f"Warning: {short(entry.uuid)} is not below the leaf of {entry.lane or MAIN}, "
                f"which was {describe(leaf)}; that entry is on a side branch now"
            )
        self._of[entry.lane] = entry, {entry.uuid}


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


class _Handles(click.Group):
    LINES: Final = {
        "resolve": "Print what a handle points to.",
        "schemas": "List the forms of handles that each plugin supports.",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from sessiontree.ops.context import HANDLE  # heavy, and only for these

        line = self.LINES.get(cmd_name)
        return None if line is None else command(cmd_name, line, HANDLE.methods[cmd_name])


@click.group(cls=_Handles)
def handle() -> None:
    """Resolve handles and list the supported forms.

    A handle points to content that is stored elsewhere. The general form of a handle is
    PLUGIN@VERSION::METHOD:META.

    \b
    Example:
      sessiontree handle schemas --json
      sessiontree handle resolve file@1.0.0::path:notes.md --root .
    """


@renders("handle.schemas")
def _(call: CommandCall, found: list[HandleSchema]) -> None:
    for schema in found:
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


@renders("handle.resolve")
def _(call: CommandCall, found: ResolvedHandle) -> None:
    if found.kind == "message":
        out_message(found.data)
    elif found.kind == "output":
        out(output_text(found.data))
    elif found.kind == "document":
        out(indented_text(found.data))
    elif is_terminal():  # which would obey the bytes
        tell(f"{len(found.data):,} bytes of {found.media_type}, not printed to a terminal")
    else:
        terminal.out_bytes([found.data])
