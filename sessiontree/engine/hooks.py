"""Hooks: a caller's objects that are told of what a session writes, or refuse it.

A hook has any of the methods of `Hook`. It may use the session it is given:
append, branch, build contexts. What it writes is told to the hooks too, up to
`DEEPEST` times over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from sessiontree.core.entry import Entry
from sessiontree.errors import HookDepthError, UsageError

if TYPE_CHECKING:
    from sessiontree.session import Session

DEEPEST: Final = 8

EVENTS: Final = (
    "before_append",
    "after_append",
    "before_branch",
    "after_branch",
    "before_compact",
    "after_compact",
    "on_conflict",
)


class Hook(Protocol):
    """The methods a hook may have; any may be missing.

    A before-hook may raise `HookRejectedError`, and then nothing is written. The entry it gets
    has no place in the file yet. `on_conflict` is called when another writer
    moved the leaf of this session's lane, with the entry it moved to.
    """

    def before_append(self, session: Session, entry: Entry) -> None: ...
    def after_append(self, session: Session, entry: Entry) -> None: ...
    def before_branch(self, session: Session, entry: Entry) -> None: ...
    def after_branch(self, session: Session, entry: Entry) -> None: ...
    def before_compact(self, session: Session, entry: Entry) -> None: ...
    def after_compact(self, session: Session, entry: Entry) -> None: ...
    def on_conflict(self, session: Session, entry: Entry) -> None: ...


class Hooks:
    """The hooks of one session, called in the order given.

    Attributes:
        registered: the hooks themselves, for a session that is to call the same.
        subject: the session that they are given.
    """

    def __init__(self, hooks: Iterable[Any]) -> None:
        self.registered = tuple(hooks)
        self.subject: Any = None
        self._depth = 0
        for hook in self.registered:
            if not any(callable(getattr(hook, event, None)) for event in EVENTS):
                raise UsageError(
                    f"{hook!r:.80} is no hook: it has none of the methods {', '.join(EVENTS)}"
                )

    def __bool__(self) -> bool:
        return bool(self.registered)

    def call(self, event: str, entry: Entry) -> None:
        """Call every hook that has a method for an event.

        Raises:
            HookDepthError: hooks within hooks, deeper than `DEEPEST`.
        """
        for hook in self.registered:
            method = getattr(hook, event, None)
            if method is None:
                continue
            if self._depth >= DEEPEST:
                raise HookDepthError(
                    f"hooks of {event} wrote from within hooks {DEEPEST} times over; "
                    "let a hook ignore the entries it writes itself"
                )
            self._depth += 1
            try:
                method(self.subject, entry)
            finally:
                self._depth -= 1
