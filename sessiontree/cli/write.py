"""Commands that write one entry where the session stands, and the making of a session."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from typing import Any

import click

from sessiontree.cli.arguments import (
    PATH,
    file_argument,
    json_given,
    json_option,
    json_value,
    metadata_option,
    ref_argument,
    written_json_option,
)
from sessiontree.cli.opening import open_migrated, writing
from sessiontree.cli.output import named, out_json, out_written, speaker
from sessiontree.cli.terminal import short, tell
from sessiontree.core.entry import MAIN
from sessiontree.core.garbage import SCRATCH
from sessiontree.core.message import check_message
from sessiontree.engine.refs import check_name
from sessiontree.errors import EntryError
from sessiontree.session import Session


@click.command()
@click.argument("file", type=PATH)
@click.option("--name", metavar="NAME", help="A name for people.")
@click.option(
    "--cwd",
    metavar="DIR",
    type=PATH,
    help="The working directory it is about [default: this one].",
)
@click.option("--id", "id_", metavar="ID", help="Its id [default: a fresh UUID].")
@metadata_option
@written_json_option
def new(
    file: str,
    name: str | None,
    cwd: str | None,
    id_: str | None,
    metadata: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Make a new session."""
    cwd = None if cwd is None else os.path.abspath(cwd)
    with Session.create(file, name=name, cwd=cwd, id=id_, metadata=metadata) as session:
        out_written(session.header, f"Made {file}, session {session.id}", as_json=as_json)


@click.command()
@file_argument
@click.option("--role", metavar="ROLE", help="The role that speaks [default: user].")
@click.option("--text", help="What it says.")
@click.option("--attach", metavar="PATH", type=PATH, help="A file to keep beside FILE.")
@click.option("--handle", metavar="HANDLE", help="A pointer to content that is kept elsewhere.")
@click.option("--preview", metavar="WORDS", help="What people recognise either by.")
@click.option("--parent", metavar="REF", help="The entry it hangs below [default: the leaf].")
@click.option("--lane", metavar="LANE", help="The lane to write on [default: main].")
@click.option("--scratch", is_flag=True, help="Write on a fresh scratch lane, to be kept or not.")
@metadata_option
@written_json_option
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

    A message is read as JSON from standard input, in any provider's shape, unless
    --text, --attach or --handle says what to append. Of a file, models are shown images,
    PDF and text.
    """
    given = sum(value is not None for value in (text, attach, handle))
    if given > 1:
        raise click.UsageError("give one of --text, --attach and --handle")
    if role is not None and not given:
        raise click.UsageError("--role needs --text; a message as JSON names its own role")
    if preview is not None and attach is None and handle is None:
        raise click.UsageError("--preview is for what --attach or --handle gives")
    if scratch and lane is not None:
        raise click.UsageError("give --scratch for a fresh lane, or --lane with the name of one")
    on = check_name(MAIN if lane is None else lane, "lane name")
    message: Any = None
    if attach is None and handle is None:
        message = _message_read() if text is None else _message_of(role, text)
        check_message(message)  # before the file is touched
    opening = writing(file, lane=on, hold=attach is None)
    with opening as opened, contextlib.ExitStack() as ended:
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
        done += f"; to join it to main: {_command('keep', file, lane)}"
    out_written(entry, done, as_json=as_json)


def _command(*words: str) -> str:
    """A command as it can be typed."""
    return shlex.join(("sessiontree", *words))


def _message_of(role: str | None, text: str) -> dict[str, Any]:
    return {"role": "user" if role is None else role, "content": text}


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
        return json_value(text)
    except ValueError as error:
        raise EntryError(f"standard input is no message: not JSON: {error}") from error


@click.command()
@file_argument
@click.argument("lane")
@written_json_option
def keep(file: str, lane: str, as_json: bool) -> None:
    """Join a lane to main, where its last entry is.

    Main goes on from there. What it had said since the lane left it stays, as a side
    branch, and is named. A lane tried from within another takes that one's part along.
    """
    with writing(file) as session:
        entry = session.keep(lane)
        tip = session.reader.standing(entry)
        left = session.entry(entry["fromUuid"]) if "fromUuid" in entry else None
    done = f"Kept {lane} on {session.lane_name}, which goes on below {named(tip)}"
    out_written(entry, done, as_json=as_json)
    if left is not None:
        tell(f"{session.lane_name} had gone on to {named(left)}, which is a side branch now")
        tell(f"to take it in: {_command('merge', file, left.uuid)}")
        tell(f"to go back to it: {_command('switch', file, left.uuid)}")


@click.command()
@file_argument
@ref_argument
@click.argument("name", required=False)
@click.option("--clear", is_flag=True, help="Take the entry's name away.")
@written_json_option
def label(file: str, ref: str, name: str | None, clear: bool, as_json: bool) -> None:
    """Name an entry, or take its name away.

    The NAME is a ref from then on: 'sessiontree switch FILE NAME'.
    """
    if (name is None) != clear:
        raise click.UsageError("give either a NAME or --clear")
    with writing(file) as session:
        entry = session.label(ref, name)
        target = session.entry(entry["targetUuid"])
    done = f"Took the label of {named(target)}" if clear else f"Labelled {named(target)} '{name}'"
    out_written(entry, done, as_json=as_json)


@click.command()
@file_argument
@click.argument("name")
@written_json_option
def rename(file: str, name: str, as_json: bool) -> None:
    """Give the session a name."""
    with writing(file) as session:
        entry = session.rename(name)
    out_written(entry, f"The session is named '{name}'", as_json=as_json)


def _replacement_given(
    ctx: click.Context, option: click.Parameter, text: str | None
) -> dict[str, Any] | None:
    if text is None:
        return None
    content = json_given(text, ctx, option)
    if not isinstance(content, str | list):
        raise click.BadParameter("content is a string or a list of blocks", ctx, option)
    return {"content": content}


@click.command(name="edit-context")
@file_argument
@ref_argument
@click.option("--drop", is_flag=True, help="Leave the entry out of the context.")
@click.option("--text", help="Put this text in place of its content.")
@click.option(
    "--content",
    metavar="JSON",
    callback=_replacement_given,
    help="Put this content in place of its own: text or blocks, as JSON.",
)
@written_json_option
def edit_context(
    file: str,
    ref: str,
    drop: bool,
    text: str | None,
    content: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Drop or replace what an entry contributes.

    It counts on this path, from here on; the entry itself stays as it is.
    """
    if drop + (text is not None) + (content is not None) != 1:
        raise click.UsageError("give one of --drop, --text and --content")
    replacement = content if text is None else {"content": text}
    with writing(file) as session:
        entry = session.edit_context(ref, replacement)
        target = session.entry(entry["targetUuid"])
    done = "Dropped" if drop else "Replaced the content of"
    out_written(entry, f"{done} {named(target)}, from here on", as_json=as_json)


@click.command()
@file_argument
@json_option("what was done")
def migrate(file: str, as_json: bool) -> None:
    """Bring an old file to the current version.

    The original is kept beside it, as FILE.v1.
    """
    session, kept = open_migrated(file)
    with session:
        entries = len(session.reader.index())
    if kept is None:
        tell(f"{file} is of the current version already; nothing was done")
    else:
        tell(f"{entries:,} entries, the header included")
    if as_json:
        out_json({"file": file, "migrated": kept is not None, "original": kept, "entries": entries})
