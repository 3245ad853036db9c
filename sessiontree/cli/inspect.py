"""Commands that look: show, tree, branches, path, context. They write nothing."""

from __future__ import annotations

import json
from typing import Any

import click

from sessiontree.cli.arguments import (
    file_argument,
    json_option,
    optional_ref_argument,
    root_option,
)
from sessiontree.cli.opening import reading
from sessiontree.cli.output import (
    named,
    out_json,
    out_json_list,
    out_message,
    speaker,
    text_of_message,
)
from sessiontree.cli.terminal import out, short, tell, tell_each
from sessiontree.context.context import Context
from sessiontree.context.providers.values import Request
from sessiontree.context.settings import header_settings
from sessiontree.core.display import one_line
from sessiontree.core.entry import Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.core.header import AGENT_SESSION_KEY
from sessiontree.operations.outline import count_branches
from sessiontree.session import Session
from sessiontree.text.preview import preview

_STRUCTURE = ("type", "uuid", "parentUuid", "lane", "timestamp", "crc")


@click.command()
@file_argument
@optional_ref_argument
@json_option("the facts, or the entry as stored,")
def show(file: str, ref: str | None, as_json: bool) -> None:
    """Show a session's facts, or one entry."""
    with reading(file) as session:
        if ref is None:
            facts = _facts(session)
            out_json(facts) if as_json else _out_facts(facts)
            return
        entry = session.entry(ref)
        out_json(entry) if as_json else _out_entry(session, entry)


def _facts(session: Session) -> dict[str, Any]:
    tree, metadata = session.reader.index(), session.metadata
    return {
        "file": session.file,
        "id": session.id,
        "name": session.name,
        "cwd": session.header.get("cwd"),
        "created": session.header.timestamp,
        "entries": len(tree),
        "branches": count_branches(tree),
        "lanes": [lane or "main" for lane in tree.lanes],
        "leaf": session.leaf.uuid,
        "model": session.context().model or header_settings({"metadata": metadata}).get("model"),
        "agentSession": metadata.get(AGENT_SESSION_KEY),
        "parentSession": session.header.get("parentSession"),
        "metadata": metadata,
        "damage": [
            {"line": found.line, "offset": found.offset, "kind": found.kind, "cause": found.cause}
            for found in session.damage
        ],
    }


def _out_facts(facts: dict[str, Any]) -> None:
    model, origin = facts["model"], facts["parentSession"]
    shown = {
        **facts,
        "entries": f"{facts['entries']:,}",
        "branches": f"{facts['branches']:,}",
        "lanes": _lanes_named(facts["lanes"]),
        "model": model and "/".join(str(part) for part in model.values() if part),
        "parentSession": origin and _in_words(origin),
        "metadata": facts["metadata"] and _in_words(facts["metadata"]),
        "damage": f"{len(facts['damage']):,} found" if facts["damage"] else "none met",
    }
    for key, value in shown.items():
        if value:
            out(f"{key:<14} {one_line(str(value), 1000)}")


def _lanes_named(lanes: list[str]) -> str:
    lasting = [lane for lane in lanes if not is_scratch(lane)]
    trials = len(lanes) - len(lasting)
    counted = "1 scratch lane" if trials == 1 else f"{trials:,} scratch lanes"
    return ", ".join([*lasting, counted] if trials else lasting)


def _in_words(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _out_entry(session: Session, entry: Entry) -> None:
    name = session.reader.names().labels.get(entry.uuid)
    facts = {
        "type": entry.type,
        "uuid": entry.uuid,
        "parent": entry.parent_uuid,
        "lane": entry.lane,
        "written": entry.timestamp,
        "label": name,
        "on the path": "yes" if session.cursor.is_above(entry) else "no",
    }
    for key, value in facts.items():
        if value:
            out(f"{key:<12} {one_line(value, 200)}")
    message = entry.get("message")
    rest = {key: value for key, value in entry.body.items() if key not in _STRUCTURE}
    if entry.type == "message" and isinstance(message, dict):
        del rest["message"]
        out(f"{'role':<12} {speaker(entry)}")
        out()
        out(text_of_message(message))
    if rest:
        out()
        out(json.dumps(rest, ensure_ascii=False, indent=2))


@click.command()
@file_argument
@click.option("--all", "all_", is_flag=True, help="Show long unbranched runs in full.")
@json_option("a list of all entries, in file order,")
def tree(file: str, all_: bool, as_json: bool) -> None:
    """Draw the whole tree.

    ● marks the entries on the current path, ○ all others.
    """
    with reading(file) as session:
        if as_json:
            out_json_list(session.tree())
            return
        for line in session.render(all=all_):
            out(line)


@click.command()
@file_argument
@optional_ref_argument
@json_option("a list of the branches")
def branches(file: str, ref: str | None, as_json: bool) -> None:
    """List the branches by their tips.

    With REF only those below that entry. ● marks the one the session stands at.
    """
    with reading(file) as session:
        found = session.branches(ref)
        if not found:
            where = f"in {file}" if ref is None else f"at or below {named(session.entry(ref))}"
            tell(f"Nothing was said {where}, so there is no branch")
    if as_json:
        out_json_list(found)
        return
    for branch in found:
        parts = ["●" if branch.current else "○", short(branch.leaf)]
        parts += [f"{branch.length:>5,} {'entry  ' if branch.length == 1 else 'entries'}"]
        parts += [f"from {short(branch.fork)}" if branch.fork else "from the top "]
        parts += [branch.preview]
        parts += [f"({one_line(branch.name)})"] if branch.name else []
        parts += [f"lane {one_line(branch.lane)}"] if branch.lane else []
        out("  ".join(parts))


@click.command()
@file_argument
@optional_ref_argument
@json_option("a list of the entries as stored")
def path(file: str, ref: str | None, as_json: bool) -> None:
    """List the entries from the header to an entry.

    Without REF to where the session stands.
    """
    with reading(file) as session:
        entries = session.cursor.below(None, None if ref is None else session.entry(ref))
        if as_json:
            out_json_list(entries)
            return
        for entry in entries:
            out(f"{short(entry.uuid):<8}  {speaker(entry):<14}  {preview(entry)}".rstrip())


@click.command()
@file_argument
@optional_ref_argument
@click.option("--verbatim", is_flag=True, help="Exactly what was stored; calls left unpaired.")
@click.option(
    "--to",
    type=click.Choice(["anthropic", "openai-responses", "openai-chat"]),
    help="As that API takes it: its arguments, the model apart, as JSON.",
)
@root_option
@json_option("the messages, the settings in force and the warnings")
def context(
    file: str, ref: str | None, verbatim: bool, to: str | None, root: str | None, as_json: bool
) -> None:
    """Print what a model would get.

    Without REF where the session stands.
    """
    with reading(file, root) as session:
        found = session.context(ref, verbatim=verbatim)
        if to is not None:
            request = _request(found, to)
            out_json(request.params)
            tell_each("Warning", request.warnings)
        elif as_json:
            out_json(found.as_dict())
        else:
            for message in found.messages:
                out_message(message)
            model = found.model and "/".join(str(part) for part in found.model.values() if part)
            count = len(found.messages)
            facts = [
                f"{count:,} message" + ("" if count == 1 else "s"),
                f"about {found.tokens:,} tokens",
                f"leaf {short(found.leaf.uuid)}",
                f"model {one_line(model)}" if model else "",
            ]
            out("— " + ", ".join(fact for fact in facts if fact))
        tell_each("Warning", found.warnings)


def _request(found: Context, to: str) -> Request:
    if to == "anthropic":
        return found.to_anthropic()
    return found.to_openai("chat" if to == "openai-chat" else "responses")


@click.command()
@file_argument
@json_option("the numbers")
def stats(file: str, as_json: bool) -> None:
    """Count entries, bytes, tokens and cost."""
    with reading(file) as session:
        found = session.stats()
        if as_json:
            out_json(found.as_dict())
            return
        usage = found.usage
        shown = {
            "entries": _counted(found.types, found.entries),
            "branches": f"{found.branches:,}",
            "lanes": _lanes_counted(found.lanes),
            "in the file": f"{found.file_bytes:,} bytes",
            "in blobs": f"{found.blob_bytes:,} bytes ({found.blobs:,})" if found.blobs else "",
            "tokens": f"{usage.input:,} in, {usage.output:,} out, "
            f"{usage.cache_read:,} read from cache, {usage.cache_write:,} written to it",
            "cost": f"${usage.cost:,.4f}" if usage.cost else "",
        }
        for name, each in found.models.items():
            cost = f", ${each.cost:,.4f}" if each.cost else ""
            shown[f"  {name}"] = f"{each.input:,} in, {each.output:,} out{cost}"
        for key, value in shown.items():
            if value:
                out(f"{one_line(key):<14} {value}")
        if found.lost_blobs:
            lost = "1 blob" if found.lost_blobs == 1 else f"{found.lost_blobs:,} blobs"
            tell(f"Warning: {lost} missing or damaged; 'sessiontree blob ls {file}' says which")


def _lanes_counted(lanes: dict[str, int]) -> str:
    """The entries of each lane, those of scratch lanes together: there may be hundreds."""
    lasting = {lane: count for lane, count in lanes.items() if not is_scratch(lane)}
    trials = len(lanes) - len(lasting)
    if trials:
        lasting["1 scratch lane" if trials == 1 else f"{trials:,} scratch lanes"] = sum(
            count for lane, count in lanes.items() if is_scratch(lane)
        )
    return _counted(lasting, len(lanes))


def _counted(kinds: dict[str, int], total: int) -> str:
    each = ", ".join(f"{one_line(kind)} {count:,}" for kind, count in kinds.items())
    return f"{total:,} ({each})"
