"""What the commands about files that agents changed print: lines, edits, states and files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from sessiontree import __version__
from sessiontree.cli.derive import CommandCall, renders
from sessiontree.cli.output import out_json, out_json_list
from sessiontree.cli.terminal import out_bytes, tell, write
from sessiontree.core.display import one_line, printable
from sessiontree.core.entry import moment_of
from sessiontree.edits.diff import lines_of
from sessiontree.errors import SessionExistsError, UsageError
from sessiontree.history.edits import SessionFileUse
from sessiontree.library.file_edits import Reason
from sessiontree.library.file_history import BlamedLine, FileEdit, FileState
from sessiontree.ops.file import FILE as FILE
from sessiontree.ops.file import Blame, History, Recover, RecoveredStates
from sessiontree.storage.atomic import create_file, swap_file
from sessiontree.storage.fs import DISK
from sessiontree.storage.sidecars import make_folders

_MARKS: Final = {"exact": "=", "normalized": "~", "hunk": "?", "none": " "}


@renders(BlamedLine)
def _(call: CommandCall, found: Sequence[BlamedLine]) -> None:
    assert isinstance(call.given, Blame)
    if call.given.format == "agent-trace":
        if call.as_json:
            raise UsageError("give --json for a list of lines, or --format agent-trace, not both")
        from sessiontree.library.agent_trace import trace_record  # few ask for it

        out_json(trace_record(call.given.path, found, __version__))
        return
    if call.as_json:
        out_json_list(found)
        return
    _out_lines(found, call.given.prompts)


def _out_lines(found: Sequence[BlamedLine], prompts: bool) -> None:
    names = [_writer(line) for line in found]
    width = max(map(len, names), default=0)
    digits = len(str(found[-1].line)) if found else 1
    last: tuple[str | None, str | None] | None = None
    for line, name in zip(found, names, strict=True):
        if prompts and (line.session, line.uuid) != last:
            last = line.session, line.uuid
            _out_reason(line)
        commit = (line.commit or "0" * 8)[:8]
        time = _time(line.time)
        text = printable(line.text.expandtabs())
        who = f"{commit} {_MARKS[line.certainty]} ({name:<{width}} {time} {line.line:>{digits}})"
        write(f"{who} {text}".rstrip(" ") + "\n")


def _writer(line: BlamedLine) -> str:
    """Who wrote a line: the agent and the turn, or the author of the commit."""
    if line.session is None:
        return one_line(line.author or "not committed", 40)
    return _named(line.agent, line.session, line.turn)


def _named(agent: str | None, session: str, turn: str | None) -> str:
    """An agent, the start of the id of its session, and the turn."""
    at = f":{turn}" if turn is not None else ""
    return f"{agent or 'sessiontree'} {printable(session[:8])}{at}"


def _time(stored: str | None) -> str:
    moment = moment_of(stored)
    return "-" * 16 if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M")


def _out_reason(line: BlamedLine) -> None:
    if line.session is None:
        return
    model = f" · {one_line(line.model, 60)}" if line.model else ""
    write(f"# {line.agent or 'sessiontree'}{model} · session {one_line(line.session, 60)}\n")
    _out_why(Reason(line.turn, line.prompt, line.reasoning))


def _out_why(reason: Reason) -> None:
    if reason.prompt:
        write(f"#   prompt: {one_line(reason.prompt, 300)}\n")
    if reason.reasoning:
        write(f"#   before the call: {one_line(reason.reasoning, 300)}\n")


@renders(FileEdit)
def _(call: CommandCall, found: Sequence[FileEdit]) -> None:
    given = call.given
    assert isinstance(given, History)
    if call.as_json:
        out_json_list(found)
        return
    for edit in found:
        _out_edit(edit, prompts=given.prompts, stat=given.stat)


def _out_edit(found: FileEdit, *, prompts: bool, stat: bool) -> None:
    edit, event = found.edit, found.edit.event
    who = _named(edit.agent, edit.session, edit.reason.turn)
    kept = f" {found.kept}" if found.outcome == "kept" else ""
    to = f" → {event.to}" if event.to else ""
    line = (
        f"{_time(event.time)}  {event.uuid[:8]}  {who}  {one_line(event.tool, 30)}  "
        f"+{found.added} −{found.removed}  {found.outcome}{kept}  {one_line(event.path, 200)}{to}"
    )
    write(line + "\n")
    if prompts:
        _out_why(edit.reason)
    if not stat:
        write("".join(f"    {printable(each.expandtabs())}\n" for each in found.diff))


@renders(RecoveredStates)
def _(call: CommandCall, found: RecoveredStates) -> None:
    if found.one is not None:
        _out_state(call, found.one)
    elif call.as_json:
        out_json_list(found.every)
    else:
        _out_states(found.every)


def _out_state(call: CommandCall, state: FileState) -> None:
    given = call.given
    assert isinstance(given, Recover)
    text = state.text(marked=given.partial)
    content = text.encode("utf-8", "surrogateescape")
    if state.commit is not None:
        tell(
            f"Based on commit {state.commit[:8]}: what a person changed after that commit and "
            "before the first edit is not in it"
        )
    if state.content.gaps():
        tell(f"Not known: {', '.join(gap.as_text() for gap in state.content.gaps())}")
    if call.as_json:
        out_json({**state.as_dict(), "text": text})
    elif given.out is None:
        out_bytes([content])
    else:
        _save(given.out, content, overwrite=given.overwrite)
        tell(f"Wrote {len(lines_of(text)):,} lines to {given.out}")


def _save(out: str, content: bytes, *, overwrite: bool) -> None:
    make_folders(DISK, os.path.dirname(os.path.abspath(out)))
    save = swap_file if overwrite and os.path.exists(out) else create_file
    try:
        save(DISK, out, iter([content]))
    except SessionExistsError as error:
        if not os.path.isfile(out):
            raise
        raise SessionExistsError(f"{error}, or give --overwrite", out) from error


def _out_states(found: Sequence[FileState]) -> None:
    for state in found:
        edit, content = state.edit, state.content
        gaps = content.gaps()
        known = f"{content.known():,} lines" if content.is_there else "deleted"
        if gaps:
            known += f", not known: {', '.join(gap.as_text() for gap in gaps[:3])}"
            known += ", …" if len(gaps) > 3 else ""
        based = f", based on commit {state.commit[:8]}" if state.commit else ""
        changed = ", changed outside before" if content.contradicted else ""
        who = _named(edit.agent, edit.session, edit.reason.turn)
        write(f"{_time(edit.event.time)}  {state.name[:8]}  {who}  {known}{based}{changed}\n")


@renders(SessionFileUse)
def _(call: CommandCall, found: Sequence[SessionFileUse]) -> None:
    if call.as_json:
        out_json_list(found)
        return
    for one in found:
        did = ", ".join(one.did()) or "nothing"
        write(f"+{one.added} −{one.removed}  {one_line(one.path, 300)}  {did}\n")
