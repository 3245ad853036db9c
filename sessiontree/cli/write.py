"""Commands that write one entry at the current leaf, and `new`, which creates a session."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from typing import Any

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH
from sessiontree.cli.opening import writing
from sessiontree.cli.output import describe, out_written, speaker
from sessiontree.cli.terminal import short, tell
from sessiontree.core.entry import MAIN
from sessiontree.core.garbage import SCRATCH
from sessiontree.core.message import check_message
from sessiontree.engine.refs import check_name
from sessiontree.errors import EntryError
from sessiontree.session import Session


@click.command()
@click.argument("file", type=PATH)
@click.option("--name", metavar="NAME", help="A name for the session.")
@click.option(
    "--cwd",
    metavar="DIR",
    type=PATH,
    help="The working directory of the session [default: the current one].",
)
@click.option("--id", "id_", metavar="ID", help="The id of the session [default: a new UUID].")
@arguments.metadata
@arguments.written_json
def new(
    file: str,
    name: str | None,
    cwd: str | None,
    id_: str | None,
    metadata: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Create a session."""
    cwd = None if cwd is None else os.path.abspath(cwd)
    with Session.create(file, name=name, cwd=cwd, id=id_, metadata=metadata) as session:
        out_written(session.header, f"Created {file}, session {session.id}", as_json=as_json)


@arguments.file_command()
@click.option("--role", metavar="ROLE", help="The role of the message [default: user].")
@click.option("--text", metavar="TEXT", help="The text of the message.")
@click.option("--attach", metavar="PATH", type=PATH, help="A file; a copy is stored beside FILE.")
@click.option("--handle", metavar="HANDLE", help="A pointer to content elsewhere.")
@click.option("--preview", metavar="TEXT", help="A short text to show for the file or handle.")
@click.option("--parent", metavar="REF", help="The parent of the new entry [default: the leaf].")
@click.option("--lane", metavar="LANE", help="The lane to write on [default: main].")
@click.option("--scratch", is_flag=True, help="Write on a new scratch lane.")
@arguments.metadata
@arguments.written_json
def append(
    file: str,
    role: str | None,
    text: str | None,
    attach: str | None,
    handle: str | None,
    preview: str | None,
    parent: str | None,
    lane: str | None,
    scratch: bool,
    metadata: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Append a message, a file or a handle.

    Without --text, --attach or --handle, the message is read as JSON from standard
    input, in the shape of any provider. A model sees an attached file if it is an image,
    a PDF or text.

    A scratch lane is for work that you may want to drop: 'keep' joins it to the main
    lane, and 'gc' removes it seven days later if you do not keep it.
    """
    given = sum(value is not None for value in (text, attach, handle))
    if given > 1:
        raise click.UsageError("give one of --text, --attach and --handle")
    if role is not None and not given:
        raise click.UsageError("--role needs --text; a message as JSON names its own role")
    if preview is not None and attach is None and handle is None:
        raise click.UsageError("--preview needs --attach or --handle")
    if scratch and lane is not None:
        raise click.UsageError("give --scratch or --lane, not both")
    on = check_name(MAIN if lane is None else lane, "lane name")
    message: Any = None
    if attach is None and handle is None:
        given_text = {"role": "user" if role is None else role, "content": text}
        message = _message_read() if text is None else given_text
        check_message(message)  # before the file is touched
    with writing(file, lane=on, hold=attach is None) as opened, contextlib.ExitStack() as ended:
        session = ended.enter_context(opened.scratch()) if scratch else opened
        where: dict[str, Any] = {"parent": parent, "metadata": metadata}
        if attach is not None:
            entry = session.attach(attach, role=role or "user", preview=preview, **where)
        elif handle is not None:
            entry = session.append_handle(handle, role=role, preview=preview, **where)
        else:
            entry = session.append_message(message, **where)
        lane = session.lane_name
    done = f"Appended {speaker(entry)} {short(entry.uuid)} below {short(entry.parent_uuid or '')}"
    if entry.lane is not None:
        done += f" on lane {lane}"
    if lane.startswith(SCRATCH):
        done += f"; to keep it: {_command('keep', file, lane)}"
    out_written(entry, done, as_json=as_json)


def _command(*words: str) -> str:
    return shlex.join(("sessiontree", *words))


def _message_read() -> Any:
    if sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError(
            "give the message with --role and --text, or pipe it in as JSON: "
            """echo '{"role": "user", "content": "…"}' | sessiontree append FILE"""
        )
    text = b"" if sys.stdin is None else sys.stdin.buffer.read()
    if not text.strip():
        raise EntryError(
            "standard input is empty; pipe in a message as JSON, or give --role and --text"
        )
    try:
        return arguments.json_value(text)
    except ValueError as error:
        raise EntryError(f"standard input is not a message: not JSON: {error}") from error


@arguments.file_command()
@click.argument("lane")
@arguments.written_json
def keep(file: str, lane: str, as_json: bool) -> None:
    """Join a lane to the main lane.

    The main lane goes on from the last entry of LANE. What was written on main since
    LANE began stays as a side branch, and the command prints how to merge it or to go
    back to it. A lane that began on another scratch lane brings that part with it.
    """
    with writing(file) as session:
        entry = session.keep(lane)
        tip = session.reader.skip_markers(entry)
        left = session.entry(entry["fromUuid"]) if "fromUuid" in entry else None
    onto = session.lane_name
    done = f"Joined {lane} to {onto}; the next entry on {onto} goes below {describe(tip)}"
    out_written(entry, done, as_json=as_json)
    if left is not None:
        tell(f"The last entry of {onto} was {describe(left)}; it is on a side branch now")
        tell(f"to merge it: {_command('merge', file, left.uuid)}")
        tell(f"to go back to it: {_command('switch', file, left.uuid)}")


@arguments.file_command()
@arguments.ref
@click.argument("name", required=False)
@click.option("--clear", is_flag=True, help="Remove the label of the entry.")
@arguments.written_json
def label(file: str, ref: str, name: str | None, clear: bool, as_json: bool) -> None:
    """Give an entry a label, or remove it.

    The label NAME works as a REF: 'sessiontree switch FILE NAME'.
    """
    if (name is None) != clear:
        raise click.UsageError("give either a NAME or --clear")
    with writing(file) as session:
        entry = session.label(ref, name)
        target = session.entry(entry["targetUuid"])
    done = "Removed the label of {}" if clear else "Labelled {} '{}'"
    out_written(entry, done.format(describe(target), name), as_json=as_json)


@arguments.file_command()
@click.argument("name")
@arguments.written_json
def rename(file: str, name: str, as_json: bool) -> None:
    """Give the session a name."""
    with writing(file) as session:
        entry = session.rename(name)
    out_written(entry, f"Renamed the session to '{name}'", as_json=as_json)


@arguments.file_command("edit-context")
@arguments.ref
@click.option("--drop", is_flag=True, help="Leave the entry out of the context.")
@click.option("--text", help="Replace its content with this text.")
@click.option(
    "--content",
    type=arguments.Json((str, list), "give content as a string or a list of blocks"),
    help="Replace its content with this JSON: a string or a list of blocks.",
)
@arguments.written_json
def edit_context(
    file: str,
    ref: str,
    drop: bool,
    text: str | None,
    content: str | list[Any] | None,
    as_json: bool,
) -> None:
    """Drop or replace an entry in the context.

    This affects the context on this path from the current leaf on. The entry itself does
    not change.
    """
    if drop + (text is not None) + (content is not None) != 1:
        raise click.UsageError("give one of --drop, --text and --content")
    replacement = None if drop else {"content": content if text is None else text}
    with writing(file) as session:
        entry = session.edit_context(ref, replacement)
        target = session.entry(entry["targetUuid"])
    done = "Dropped" if drop else "Replaced the content of"
    out_written(entry, f"{done} {describe(target)} in the context", as_json=as_json)
