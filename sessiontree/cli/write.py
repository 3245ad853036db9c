"""Commands that write entries: at the leaf, to move the leaf, or from another branch."""

from __future__ import annotations

import shlex
import sys
from typing import Any

import click

from sessiontree.cli import arguments
from sessiontree.cli.derive import CommandCall, described, renders, run
from sessiontree.cli.opening import LaneOptions
from sessiontree.cli.output import out_json
from sessiontree.cli.terminal import out, tell
from sessiontree.errors import EntryError
from sessiontree.operations.compact import CompactionPlan
from sessiontree.ops.branch import BRANCH as BRANCH
from sessiontree.ops.branch import Rewound
from sessiontree.ops.node import NODE, CreateHandle, CreateText
from sessiontree.text.amounts import counted


@arguments.write_command("append")
@described(CreateText, "text", "attachments")
@described(CreateHandle, "role", "handle", "preview", "parent", "lane", "scratch", "metadata")
def append(
    file: str,
    role: str | None,
    text: str | None,
    attachments: tuple[str, ...],
    handle: str | None,
    preview: str | None,
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
    if handle is not None and (text is not None or attachments):
        raise click.UsageError("give --handle alone, or --text, --attach or both")
    if role is not None and text is None and not attachments and handle is None:
        raise click.UsageError("--role needs --text; a message as JSON names its own role")
    alone = attachments[0] if len(attachments) == 1 and text is None else None
    if preview is not None and alone is None and handle is None:
        raise click.UsageError("--preview needs --handle, or one --attach without --text")
    LaneOptions(where["lane"], where["scratch"]).name()  # before standard input is read
    name, values = "create_text", {"text": text, "attachments": list(attachments)}
    if alone is not None:
        name, values = "attach", {"path": alone, "preview": preview}
    elif handle is not None:
        name, values = "create_handle", {"handle": handle, "preview": preview}
    elif text is None and not attachments:
        name, values = "create_message", {"message": _message_read()}
    if role is not None:
        values["role"] = role
    run(NODE.methods[name], as_json=as_json, session=file, **values, **where)


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
