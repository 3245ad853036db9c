"""Commands that look at a session: show, branches, path, context, follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import click
import msgspec

from sessiontree.catalog.about import facts_about
from sessiontree.cli import arguments, output
from sessiontree.cli.opening import reading
from sessiontree.cli.output import (
    describe,
    for_people,
    out_entry_row,
    out_facts,
    out_json,
    out_json_list,
)
from sessiontree.cli.terminal import counted, finish, is_terminal, out, short, tell, tell_each
from sessiontree.core.blocks import folded_message
from sessiontree.core.display import one_line
from sessiontree.core.entry import ANNOTATIONS, MAIN, PIECES, Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.core.message import indented_text
from sessiontree.core.notes import in_short
from sessiontree.operations.messages import is_typed, pieces_of
from sessiontree.session import Session
from sessiontree.text.preview import text_of_message

_OF_PIECES = ("block", "index", "messageUuid", "role")
_STRUCTURE = ("type", "uuid", "parentUuid", "lane", "timestamp", "crc")


def _model_name(model: Mapping[str, Any] | None) -> str:
    return "/".join(str(part) for part in model.values() if part) if model else ""


@arguments.file_command("show", json="the facts, or the entry as stored")
@arguments.optional_ref
@click.option(
    "--request",
    is_flag=True,
    help="Print a request to the model as it was sent, as JSON. REF is an answer, or the id of a "
    "request [default: the last answer]. Claude Code records its requests since version 2.1.330.",
)
def show(file: str, ref: str | None, request: bool, as_json: bool) -> None:
    """With REF, the command shows the whole entry. If the entry is a part of an answer that was
    streamed in blocks, the command shows the whole answer. Without REF, it shows facts about the
    session.
    """
    with reading(file) as session:
        if request:
            sent = session.sent_request(ref)
            out_json(sent.params)
            tell_each("Warning", sent.warnings)
            return
        if ref is not None:
            entry = session.entry(ref)
            out_json(entry) if as_json else _out_entry(session, entry)
            if not (entry.is_content or is_typed(entry)):
                _tell_of_content(session, entry, ref)
            return
        facts = facts_about(session, lambda text: tell(f"Warning: {text}"))
        shown = {
            "entries": f"{facts.entries:,}",
            "branches": f"{facts.branches:,}",
            "lanes": ", ".join(without_scratch(dict.fromkeys(facts.lanes, 1))),
            "model": _model_name(facts.model),
            "parentSession": facts.parent_session and for_people(facts.parent_session),
            "metadata": facts.metadata and for_people(facts.metadata),
            "damage": f"{len(facts.damage):,} found" if facts.damage else "none found",
            "notes": in_short(session.notes),
        }
        out_json(facts) if as_json else out_facts({**msgspec.to_builtins(facts), **shown})


def _tell_of_content(session: Session, entry: Entry, ref: str) -> None:
    """Say which entry is the nearest with content above one that has none."""
    content = next((found for found in session.cursor.up(entry) if found.is_content), None)
    if content is not None:
        said = f"{ref} is a {one_line(entry.type)} entry, and adds nothing to the conversation"
        tell(f"{said}; the last entry that does is {short(content.uuid)}")


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
        out("\n" + text_of_message(message))
    rest.pop("message", None)
    if rest:
        out("\n" + indented_text(rest))


def _extent(message: Mapping[str, Any], pieces: list[Entry]) -> str:
    """Which entries an answer that was streamed in blocks has, and whether it is whole."""
    cut = ", partial" if message.get("partial") else ""
    return f"{counted(len(pieces), 'entry', 'entries')} from {short(pieces[0].uuid)}{cut}"


@arguments.file_command("branches", json="a list of the branches")
@arguments.optional_ref
def branches(file: str, ref: str | None, as_json: bool) -> None:
    """Each line shows the last entry of a branch. With REF, only the branches below REF are
    listed. ● marks the current branch.
    """
    with reading(file) as session:
        found = session.branches(ref)
        if not found:
            where = f"in {file}" if ref is None else f"below {describe(session.entry(ref))}"
            tell(f"There is no branch {where}")
    if as_json:
        out_json_list(found)
        return
    for branch in found:
        parts = ["●" if branch.current else "○", short(branch.leaf)]
        parts += [f"{branch.length:>5,} {'entry  ' if branch.length == 1 else 'entries'}"]
        parts += [f"from {short(branch.fork)}" if branch.fork else "from start   ", branch.preview]
        parts += [f"({one_line(branch.name)})"] if branch.name else []
        parts += [f"lane {one_line(branch.lane)}"] if branch.lane else []
        out("  ".join(parts))


@arguments.file_command("path", json="a list of the entries")
@arguments.optional_ref
def path(file: str, ref: str | None, as_json: bool) -> None:
    """REF is the last entry of the path [default: the current leaf]. Handles are not resolved."""
    with reading(file) as session:
        entries = session.cursor.below(None, None if ref is None else session.entry(ref))
        if as_json:
            out_json_list(entries)
            return
        for entry in entries:
            out_entry_row(entry)


@arguments.file_command("context", json="the messages, the settings and the warnings")
@arguments.optional_ref
@click.option("--verbatim", is_flag=True, help="Print the messages exactly as they are stored.")
@click.option(
    "--to",
    type=click.Choice(["anthropic", "openai-responses", "openai-chat"]),
    help="Print the arguments of a request to this API as JSON, without the argument 'model'.",
)
@arguments.root
def context(
    file: str, ref: str | None, verbatim: bool, to: str | None, root: str | None, as_json: bool
) -> None:
    """REF is the last entry of the context [default: the current leaf]."""
    with reading(file, root) as session:
        found = session.context(ref, verbatim=verbatim)
        if to is not None:
            api: Literal["chat", "responses"] = "chat" if to == "openai-chat" else "responses"
            request = found.to_anthropic() if to == "anthropic" else found.to_openai(api)
            out_json(request.params)
            tell_each("Warning", request.warnings)
        elif as_json:
            out_json(found)
        else:
            for message in found.messages:
                output.out_message(message)
            count = counted(len(found.messages), "message")
            model = f", model {one_line(_model_name(found.model))}" if found.model else ""
            out(f"— {count}, about {found.tokens:,} tokens, leaf {short(found.leaf.uuid)}{model}")
        tell_each("Warning", found.warnings)


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
        if leaf is not None and entry.parent_uuid not in below and entry.type not in _MOVES:
            tell(
                f"Warning: {short(entry.uuid)} is not below the leaf of {entry.lane or MAIN}, "
                f"which was {describe(leaf)}; that entry is on a side branch now"
            )
        self._of[entry.lane] = entry, {entry.uuid}


_MOVES: Final = frozenset({"branch", "branch_summary", "stack_summary"})
"""Entries by which a writer leaves the path on purpose."""
