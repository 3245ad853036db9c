"""Opening a session for one command: to read, or to write one thing at the leaf."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from sessiontree.cli import output, terminal
from sessiontree.core.damage import Damage
from sessiontree.core.display import in_quotes
from sessiontree.core.entry import MAIN, Entry
from sessiontree.core.garbage import is_scratch
from sessiontree.engine.names import check_name
from sessiontree.engine.opening import KEPT_AS

if TYPE_CHECKING:
    from sessiontree.redact.redaction import Redaction
    from sessiontree.redact.rule import Rule
    from sessiontree.session import Session


@contextlib.contextmanager
def reading(file: str, root: str | None = None) -> Iterator[Session]:
    """Open a session to read; report at the end the damage that the command met."""
    from sessiontree.session import Session  # a list of sessions opens none

    with Session.open(file, readonly=True, root=root) as session:
        yield session
        if found := session.damage:
            terminal.tell(_damage_line(file, found))


_LEAST_CAUSE: Final = 20  # columns of what is wrong
_LONGEST_FILE: Final = 24  # columns of the name of a file that a line on a terminal has room for


def _damage_line(file: str, found: Sequence[Damage]) -> str:
    """What is wrong in a file, on one line: how much, the first finding, and where the rest is."""
    first, named = found[0], shlex.quote(file)
    start = "Damage: " + (f"{len(found):,} findings; " if len(found) > 1 else "")
    if not terminal.is_terminal(sys.stderr):
        place = f"{first.file}, line {first.line} (byte {first.offset}): {first.cause}"
        return f"{start}{place}; see {in_quotes(f'sessiontree verify {named}')}"
    start += f"line {first.line}: "
    named = named if len(named) <= _LONGEST_FILE else "FILE"
    end = f"; see {in_quotes(f'sessiontree verify {named}')}"
    from sessiontree.cli.screen import screen  # few files are damaged
    from sessiontree.text.columns import cut

    room = max(_LEAST_CAUSE, screen().width - len(start) - len(end))
    return start + cut(first.cause, room) + end


@contextlib.contextmanager
def writing(file: str, *, lane: str = "main", hold: bool = True) -> Iterator[Session]:
    """Open a session to write, at the lane's leaf in the file, so that `@` means that leaf.

    With `hold`, the lock is held until the end. A command that runs another program first
    does not hold it, for other writers would give up waiting; the user is warned if one of
    them moves the leaf meanwhile.
    """
    from sessiontree.library.one import open_to_write  # what only reads does without it

    session, is_old = open_to_write(file, lane, () if hold else (ConflictWarning(),))
    log = session.reader.log
    with session, contextlib.ExitStack() as locked:
        locked.enter_context(session.writer.at_tip())
        if not hold:
            locked.close()
        try:
            yield session
        finally:
            if is_old and (session.reader.log is not log or log.was_replaced()):
                tell_migrated(file)


class LaneOptions(NamedTuple):
    """The lane that a command writes on, by its options."""

    lane: str | None
    scratch: bool

    @contextlib.contextmanager
    def writing(self, file: str, *, hold: bool = True) -> Iterator[Session]:
        """Open a session to write on the lane; see `writing`."""
        with writing(file, lane=self.name(), hold=hold) as opened, self.on(opened) as session:
            yield session

    def reading(self, opened: Session) -> contextlib.AbstractContextManager[Session]:
        """The session itself, or one on the lane, to read."""
        return contextlib.nullcontext(opened) if self.lane is None else opened.lane(self.lane)

    def name(self) -> str:
        """The name of the lane to open the session on."""
        if self.scratch and self.lane is not None:
            raise click.UsageError("give --scratch or --lane, not both")
        return check_name(MAIN if self.lane is None else self.lane, "lane name")

    def on(self, opened: Session) -> contextlib.AbstractContextManager[Session]:
        """The session itself, or one on a new scratch lane of it."""
        return opened.scratch() if self.scratch else contextlib.nullcontext(opened)


def lane_note(file: str, session: Session) -> str:
    """The end of a report that says on which lane was written, if not on main."""
    lane = session.lane_name
    if lane == MAIN:
        return ""
    if not is_scratch(lane):
        return f" on lane {lane}"
    return f" on lane {lane}; to keep it: sessiontree {shlex.join(['keep', file, lane])}"


def redaction_of(asked: bool, rules: str | None) -> Redaction | None:
    """What masks secrets, if that is asked for; what is printed is masked, too, until its report.

    `rules` is a file with more rules.
    """
    if not asked:
        if rules is not None:
            raise click.UsageError("--rules needs --redact")
        return None
    from sessiontree.redact.redaction import Redaction  # slow: it compiles all rules

    made = Redaction(_own_rules(rules), homes=[os.path.expanduser("~")])
    terminal.mask_with(made.text)
    return made


def _own_rules(file: str | None) -> Iterable[Rule] | None:
    """The rules of a user's file and the built-in ones; None without a file."""
    if file is None:
        return None
    from sessiontree.operations.own_rules import OwnRules  # slow: it compiles all rules

    rules = OwnRules(Path(file).read_text("utf-8"), file)
    return click.get_current_context().find_root().with_resource(rules).rules


def list_rules(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    """Print the built-in rules, and exit."""
    if asked:
        from sessiontree.redact.rules import RULES  # slow: it compiles all rules

        for rule in RULES:
            terminal.out(f"{rule.name:<18} {rule.what}")
        ctx.exit()


class ConflictWarning:
    """A hook that warns when another writer moved the leaf while this command was busy."""

    def on_conflict(self, session: Any, entry: Entry) -> None:
        if session.leaf.offset > entry.offset:
            where = "that entry is now on a side branch, and the leaf is the entry of this command"
        elif not session.cursor.is_above(session.leaf, entry):
            where = (
                "that entry is now the leaf, and the entries of this command are on a side branch"
            )
        else:  # it goes on from what this command wrote
            return
        added = output.describe(entry)
        terminal.tell(f"Warning: meanwhile another writer added {added}; {where}")


def open_migrated(file: str) -> tuple[Session, str | None]:
    """Open a session to write; the path of the original as well if the file was migrated."""
    from sessiontree.library.one import open_to_write  # what only reads does without it

    session, is_old = open_to_write(file, MAIN, migrate=True)
    return session, tell_migrated(file) if is_old else None


def tell_migrated(file: str) -> str:
    original = (os.path.realpath(file) if os.path.islink(file) else file) + KEPT_AS
    terminal.tell(f"Migrated {file} to version 2; the original is kept as {original}")
    return original
