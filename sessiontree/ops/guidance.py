"""What a call answers instead of a result: the kind of the error, and what to do next.

Invariant: no error of a caller, a session or the system below is raised to the caller of a
dispatcher; each has a kind, a message and a next step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

from sessiontree import errors
from sessiontree.text.amounts import counted


class Refusal(Exception):
    """A call cannot be done. It is told to the caller as guidance and an error.

    Args:
        message: what is wrong, and where.
        kind: the kind of the error.
        next: what to do next, as a sentence.
        available: names that would do.
        example: parameters that would do.
        recoverable: whether the method can succeed, with other parameters or later.
        given: the name that was given, if it stands for more than one of the available names.
    """

    def __init__(
        self,
        message: str,
        kind: str,
        next: str,
        available: Iterable[str] = (),
        example: dict[str, Any] | None = None,
        *,
        recoverable: bool = True,
        given: str | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.next = next
        self.available = list(available)
        self.example = example
        self.recoverable = recoverable
        self.given = given


_COMPARED: Final = 200
"""Characters of a name that are compared with known names."""

_MAX_AVAILABLE: Final = 20
"""The most names that a refusal offers for one that stands for more."""


CHANGE: Final = "Change what the message names, and call again."


class _Kind(NamedTuple):
    error: type[Exception]
    kind: str
    next: str
    recoverable: bool = True


_KINDS: Final = (
    _Kind(
        errors.SessionNotFoundError,
        "session_not_found",
        "Find the session with session.list or session.search, and give its id.",
    ),
    _Kind(
        errors.RefError,
        "no_such_ref",
        "Find the entry with tree.render, node.find or branch.list, and give its uuid or a label.",
    ),
    _Kind(
        errors.InvalidNameError,
        "bad_name",
        "Give another name; branch.list and node.labels show the names in use.",
    ),
    _Kind(
        errors.NothingToDoError,
        "nothing_to_do",
        "Nothing was written: go on, or name something else.",
    ),
    _Kind(errors.ReadOnlyError, "read_only", "Give another session, or go on without writing."),
    _Kind(
        errors.HandleError,
        "bad_handle",
        "Change what the message names; handle.schemas lists the forms of handles.",
    ),
    _Kind(errors.UsageError, "bad_value", CHANGE),
    _Kind(errors.ResolveError, "unresolved_handle", "Go on without the content of the handle."),
    _Kind(errors.TooMuchError, "too_much", "Ask for less: for one branch, one turn or one entry."),
    _Kind(
        errors.CorruptionError,
        "damage",
        "Call health.check to see what is damaged; other entries can be read.",
        recoverable=False,
    ),
    _Kind(
        errors.BlobError,
        "blob",
        "Go on without this content; health.blobs names each blob that is lost.",
        recoverable=False,
    ),
    _Kind(errors.FileError, "wrong_file", "Give another session; session.list names all.", False),
    _Kind(errors.SessionBusyError, "busy", "Another program writes. Wait a moment; call again."),
    _Kind(errors.SessionExistsError, "exists", "Give another name; nothing is ever overwritten."),
    _Kind(errors.StorageError, "storage", "See what the system reports; then call again."),
    _Kind(OSError, "storage", "See what the system reports; then call again."),
    _Kind(UnicodeError, "bad_value", "Give text of whole characters, as UTF-8 can carry it."),
    _Kind(RecursionError, "too_deep", "Ask for another entry: this one is nested too deep.", False),
    _Kind(MemoryError, "memory", "Ask for less, or give the program more memory.", False),
)
"""For each error the first kind whose class it is of."""


_STEPS: Final[Mapping[errors.Step | None, str]] = {
    "see context": "Give an entry that context.get shows, by its uuid.",
    "see lanes": "Give a lane that branch.lanes lists.",
    "see turns": "Give a turn that session.outline lists.",
    "see states": "Call file.recover without `at`; it lists the states.",
    "allow gaps": "Give `partial`, or the `at` of an earlier state that file.recover lists.",
    "see history": "Check `file`; give lines in `lines`. For a deleted file, call file.history.",
    "import": "Import it with session.import, and give the id of the import.",
    "repair": "Repair it with health.repair, then call again.",
    "repair copy": "Write the copy with health.repair and `out`.",
    "keep nothing": "Go on without a compaction, or give `keep` 0 to replace the whole context.",
    "name agent": "Give `agent`: the agent that goes on with it.",
    "name folder": "Give `cwd`: a folder that is there.",
    "name both": "Give `agent`, another agent, and `cwd`, a folder that is there.",
    "name session": "Give `session`: the session that the handle is in.",
    "name root": "Give `root`: the folder below which the file is.",
    "hide": "Leave it to its agent; session.trash takes a session of the store.",
    "copy": "Ask the user to copy the sessions there first.",
    "name store": "Ask the user to serve the store that the session is in.",
}
"""What to do next, where the error says more than its class."""


def refusal_of(error: Exception) -> Refusal:
    """What to answer for an error; a fault of this program is one too."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, errors.RefError) and _is_ambiguous(error):
        return ambiguous(error, "Give one of the available names.")
    for row in _KINDS:
        if isinstance(error, row.error):
            message = str(error) or type(error).__name__
            available = getattr(error, "candidates", ())
            step = getattr(error, "step", None)
            next = _STEPS.get(step, row.next)
            return Refusal(message, row.kind, next, available, recoverable=row.recoverable)
    return Refusal(
        errors.fault(error),
        "fault",
        "Another method may do; the same call fails again.",
        recoverable=False,
    )


def ambiguous(error: errors.RefError, next: str) -> Refusal:
    """What to answer for a name that stands for more than one: the first of those it may be."""
    rest = len(error.candidates) - _MAX_AVAILABLE
    more = (
        f" {counted(rest, 'more is', 'more are')} left out: a longer name leaves fewer."
        if rest > 0
        else ""
    )
    names = error.candidates[:_MAX_AVAILABLE]
    return Refusal(str(error), "ambiguous", next + more, names, given=error.ref)


def _is_ambiguous(error: errors.RefError) -> bool:
    """Whether a ref is the start of more than one of the names that would do."""
    near = error.candidates
    return len(near) > 1 and all(name.startswith(error.ref) for name in near)


def nearest(name: str, known: Iterable[str]) -> str:
    """The words `; did you mean …?`, or none if no known name is near."""
    near = get_close_matches(name[:_COMPARED], known, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
