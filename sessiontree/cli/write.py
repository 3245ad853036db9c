"""Commands that write entries: at the leaf, to move the leaf, or from another branch."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from sessiontree.cli import arguments
from sessiontree.cli.arguments import PATH
from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.opening import LaneOptions, lane_note, lane_options
from sessiontree.cli.output import describe, out_json, out_written, speaker
from sessiontree.cli.terminal import out, short, tell
from sessiontree.core.message import check_new_message
from sessiontree.errors import EntryError
from sessiontree.operations.compact import CompactionPlan
from sessiontree.ops.branch import BRANCH as BRANCH
from sessiontree.ops.branch import Plan, Rewound
from sessiontree.text.amounts import counted


@arguments.write_command("append")
@click.option("--role", metavar="ROLE", help="The role of the message [default: user].")
@click.option("--text", metavar="TEXT", help="The text of the message.")
@click.option(
    "--attach",
    "attached",
    metavar="PATH",
    type=PATH,
    multiple=True,
    help="Store a copy of this file; with --text, as a part of the message. Can be repeated.",
)
@click.option("--handle", metavar="HANDLE", help="A handle: a pointer to content elsewhere.")
@click.option("--preview", metavar="TEXT", help="A short text that describes the file or handle.")
@click.option("--parent", metavar="REF", help="The parent of the new entry [default: the leaf].")
@lane_options
@arguments.metadata
def append(
    file: str,
    role: str | None,
    text: str | None,
    attached: tuple[str, ...],
    handle: str | None,
    preview: str | None,
    on: LaneOptions,
    as_json: bool,
    **where: Any,
) -> None:
    """Without --text, --attach or --handle, the command reads a message from standard
    input, as JSON in the shape of any provider. A model gets the content of an attached
    file if the file is an image, a PDF or text. With --text, or with several files, the
    files are a part of one prompt: 'rewind' takes back the text and the files.

    A scratch lane is for work that you may want to drop. The command 'keep' joins the lane to the
    main lane. If you do not keep the lane, 'gc' removes the lane seven days after its last entry.
    """
    if handle is not None and (text is not None or attached):
        raise click.UsageError("give --handle alone, or --text, --attach or both")
    if role is not None and text is None and not attached and handle is None:
        raise click.UsageError("--role needs --text; a message as JSON names its own role")
    alone = attached[0] if len(attached) == 1 and text is None else None
    if preview is not None and alone is None and handle is None:
        raise click.UsageError("--preview needs --handle, or one --attach without --text")
    attachments = () if alone is not None else attached
    on.name()  # refuses wrong options before standard input is read
    message: Any = {"role": "user" if role is None else role, "content": text}
    if alone is None and handle is None:
        message = _message_read() if text is None and not attachments else message
        check_new_message(message)  # before the file is touched
    with on.writing(file, hold=not attached) as session:
        before = session.leaf
        if alone is not None:
            entry = session.attach(alone, role=role or "user", preview=preview, **where)
        elif handle is not None:
            entry = session.append_handle(handle, role=role, preview=preview, **where)
        else:
            entry = session.append_message(message, attachments=attachments, **where)
        left = None if where["parent"] is None else session.reader.skip_markers(before)
        if left is not None and session.cursor.is_above(left, entry):
            left = None
    done = f"Appended {speaker(entry)} {short(entry.uuid)} below {short(entry.parent_uuid or '')}"
    out_written(entry, done + lane_note(file, session), as_json=as_json)
    if left is not None:
        tell(f"The leaf was {describe(left)}; it is on a side branch now")


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


@renders(Rewound)
def _(call: CommandCall, done: Rewound) -> None:
    assert call.entry is not None
    if not call.as_json:
        out(done.text)
        return
    out_json({"text": done.text, "prompt": done.prompt, "entry": dict(call.entry.body)})


@renders(CompactionPlan)
def _(call: CommandCall, plan: CompactionPlan) -> None:
    first, given = plan.first_kept, call.given
    assert isinstance(given, Plan)
    summarized = counted(len(plan.messages), "message")
    tell(
        f"A summary would replace {summarized}; about {plan.tokens_after:,} of "
        f"{plan.tokens_before:,} tokens would stay"
    )
    kept = ["--keep", "0"] if first is None else ["--first-kept", first.uuid]
    lane = [] if given.lane is None else ["--lane", given.lane]
    command = shlex.join(["compact", given.session, *lane, *kept])
    tell(f"to write the summary: sessiontree {command} --summary TEXT")
    out_json(plan) if call.as_json else out(plan.text)
