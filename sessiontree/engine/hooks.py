"""Hooks: objects of the caller that a session calls when it writes.

A hook has any of the methods of `Hook`. It may use the session it gets: append, branch, build
contexts. The session calls the hooks for what a hook writes too, up to `DEEPEST` levels deep.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

from sessiontree.core.callback import called, check_plain
from sessiontree.core.entry import Entry
from sessiontree.errors import HookDepthError, UsageError

if TYPE_CHECKING:
    from sessiontree.session import Session

DEEPEST: Final = 8
DEPTH: Final[ContextVar[int]] = ContextVar("depth of hooks within hooks", default=0)
"""How many hooks the calling code is inside of; each thread and task counts its own."""

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
    """The methods of a hook. Each method is optional.

    `before_append` and `after_append` are called for every entry. A before-method may raise
    `HookRejectedError`; then nothing is written. The entry that a before-method gets has no
    offset yet. `on_conflict` is called after another writer has appended to the lane of this
    session; `entry` is then the new last entry of the lane.

    The methods of a hook of an `AsyncSession` may be coroutine functions, and then get the
    `AsyncSession`. Plain methods run in the thread of the session and get the `Session`.
    """

    def before_append(self, session: Session, entry: Entry) -> None: ...
    def after_append(self, session: Session, entry: Entry) -> None: ...
    def before_branch(self, session: Session, entry: Entry) -> None: ...
    def after_branch(self, session: Session, entry: Entry) -> None: ...
    def before_compact(self, session: Session, entry: Entry) -> None: ...
    def after_compact(self, session: Session, entry: Entry) -> None: ...
    def on_conflict(self, session: Session, entry: Entry) -> None: ...


class Hooks:
    """The hooks of one session, called in the order given."""

    def __init__(self, hooks: Iterable[Any]) -> None:
        self.registered = tuple(hooks)  # the hooks; another lane of the session calls the same ones
        self.subject: Any = None  # the session that they get
        for hook in self.registered:
            methods = [getattr(hook, event, None) for event in EVENTS]
            if not any(map(callable, methods)):
                raise UsageError(
                    f"{hook!r:.80} is not a hook: it has none of the methods {', '.join(EVENTS)}"
                )
            for method in methods:
                check_plain(method)

    def __bool__(self) -> bool:
        return bool(self.registered)

    def call(self, event: str, entry: Entry) -> None:
        """Call every hook that has a method for an event.

        Raises:
            HookDepthError: hooks write within hooks, deeper than `DEEPEST`.
        """
        for hook in self.registered:
            method = getattr(hook, event, None)
            if method is None:
                continue
            depth = DEPTH.get()
            if depth >= DEEPEST:
                raise HookDepthError(
                    f"hooks of {event} write within hooks, {DEEPEST} levels deep; "
                    "let a hook ignore the entries that it writes itself"
                )
            inside = DEPTH.set(depth + 1)
            try:
                called(method, self.subject, entry)
            finally:
                DEPTH.reset(inside)
