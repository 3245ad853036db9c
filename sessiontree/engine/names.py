"""Refs: names of entries, as git names commits.

A ref means the first of these that fits: `@` (the leaf), a whole uuid, a label or branch name,
a lane's name, the number of a turn (`turn:46`, `turn:3.1`), a unique prefix of a uuid of four
characters or more. `~3` after any of them goes three content entries up. A branch name means the
branch's tip, a lane's name (`main` too) the last entry of the lane that is not an annotation. A
name may stand in quotation marks: `"a good state"~3`.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any, Final

from sessiontree.core.display import JOINERS
from sessiontree.core.entry import ANNOTATIONS, MAIN, MARKERS, Entry
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.errors import InvalidNameError, RefError, with_step

LEAF: Final = "@"
LABEL: Final = "label"
SHORTEST_PREFIX: Final = 4
NAMING: Final = ("label", "branch", "session_info")  # types that may give a name or a fact
_CANDIDATES: Final = 8
_QUOTED: Final = re.compile(r'"([^"]+)"@?((?:~\d{0,18})?)')
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?")
_TURN: Final = "turn:"
_STEPS: Final = re.compile(r"~(\d{0,18})\Z")


def check_name(name: object, what: str) -> str:
    """Return a label, branch or lane name that a ref can spell.

    Raises:
        InvalidNameError: it is empty, or contains one of `@ ~ :`, a control character or a space.
            A label may contain single spaces between words.
    """
    if not isinstance(name, str) or not name:
        raise InvalidNameError(f"a {what} is a string that is not empty, not {name!r}")
    words = name.split(" ") if what == LABEL else [name]
    bad = next((c for c in "".join(words) if c in "@~:" or c.isspace() or _is_control(c)), None)
    if bad is None and "" in words:
        bad = " "
    if bad is not None:
        spaces = "only single spaces between words" if what == LABEL else "no spaces"
        raise InvalidNameError(
            f"{name!r} is not a {what}: it contains {bad!r}; "
            f"a {what} has no @ ~ :, {spaces} and no control characters"
        )
    return name


def check_new_name(name: object, what: str) -> str:
    """Return a name that is given now; one that older programs gave may be a number.

    Raises:
        InvalidNameError: as for `check_name`, or a label that is the number of a turn.
    """
    name = check_name(name, what)
    if what == LABEL and is_turn_number(name):
        raise InvalidNameError(
            f"{name!r} is not a new label: 'tree' shows numbers for turns; add a letter to it"
        )
    return name


def is_turn_number(name: str) -> bool:
    """Whether a name is a number as `tree` shows it for a turn: `46` or `3.1`."""
    return _NUMBER.fullmatch(name) is not None


def turn_in(ref: str) -> str | None:
    """Return the number in `turn:46`; None if a ref has another form."""
    number = ref.removeprefix(_TURN)
    return number if number != ref and is_turn_number(number) else None


def name_taken(name: str, uuids: set[str]) -> InvalidNameError:
    """Make the error for a name that already means other entries, or else a lane."""
    owner = _listed(uuids) if uuids else "a lane, which a ref could not name then"
    return InvalidNameError(f"the name {name!r} is taken by {owner}; choose another")


def _is_control(character: str) -> bool:
    if character in JOINERS:
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs")


class Names:
    """The labels, branch names, lanes and facts of a session; the latest value of each counts.

    Attributes:
        labels: the label of each labelled entry, by uuid.
        label_entries: the offset and the target of each `label` entry, in file order.
        branches: the offsets of the `branch` entries that give a name, by name.
        lanes: the lanes but main that have an entry.
        name: the session's name, or None.
        metadata: the session's metadata, patches applied.
    """

    def __init__(self, header: Entry) -> None:
        self._givers: dict[str | None, str] = {}  # uuids, by labelled entry; None: of the name
        self.labels: dict[str, str] = {}
        self.label_entries: list[tuple[int, str]] = []
        self.branches: dict[str, list[int]] = {}
        self.lanes: set[str] = set()
        name, metadata = header.get("name"), header.get("metadata")
        self.name: str | None = None
        self._take_name(name, header)
        self.metadata: dict[str, Any] = dict(metadata) if isinstance(metadata, dict) else {}

    def note_lane(self, lane: str | None) -> None:
        """Note the lane of an entry; None is main."""
        if lane is not None:
            self.lanes.add(lane)

    def take(self, entry: Entry, offset: int) -> None:
        """Take an entry of one of the types `NAMING`, in file order."""
        stored = entry.as_stored  # names and facts are never in blobs
        if entry.type == "label":
            self._take_label(stored.get("targetUuid"), stored.get("label"), entry, offset)
            return
        name = stored.get("name")
        if entry.type == "branch":
            if isinstance(name, str):
                self.branches.setdefault(name, []).append(offset)
            return
        self._take_name(name, entry)
        patch = stored.get("metadata")
        if isinstance(patch, dict):
            self.metadata.update(patch)

    def _take_name(self, name: Any, entry: Entry) -> None:
        if isinstance(name, str):
            self.name = name
            self._givers[None] = entry.uuid

    def _take_label(self, target: Any, label: Any, entry: Entry, offset: int) -> None:
        if not isinstance(target, str):
            return
        self.labels.pop(target, None)
        self._givers[target] = entry.uuid
        self.label_entries.append((offset, target))
        if isinstance(label, str):
            self.labels[target] = label

    def is_in_force(self, entry: Entry) -> bool:
        """True if an entry gives the session's name or a label, and no later one does instead."""
        target = entry.as_stored.get("targetUuid") if entry.type == "label" else None
        return self._givers.get(target) == entry.uuid

    def labelled(self, label: str) -> set[str]:
        """Return the uuids of the entries that have a label."""
        return {uuid for uuid, given in self.labels.items() if given == label}

    def named(self, name: str, tree: TreeIndex) -> set[str]:
        """Return the uuids that a name means: labelled entries, and tips of branches."""
        found = self.labelled(name)
        if name in self.branches:
            tips = self.tips(tree)
            found.update(tree.uuids[tips[row]] for row in self.branch_rows(tree)[name])
        return found

    def branch_rows(self, tree: TreeIndex) -> dict[str, list[int]]:
        """Return the rows of the `branch` entries that give a name, by name."""
        return {name: [tree.row_at(at) for at in found] for name, found in self.branches.items()}

    def tips(self, tree: TreeIndex) -> dict[int, int]:
        """Return the tip of each named branch, by the row that names it.

        The tip is the last row on the branch's lane, without markers, whose nearest named
        ancestor is that row. So a branch within a branch has a tip of its own. A row whose parent
        comes after it is on no branch.
        """
        tips = {row: row for rows in self.branch_rows(tree).values() for row in rows}
        nearest = _nearest_above(tree, tips)
        tips.update(
            (named, row)
            for row, named in enumerate(nearest)
            if named != NO_ROW
            and tree.lane_of(row) == tree.lane_of(named)
            and tree.type_of(row) not in MARKERS
        )
        return tips

    def all_names(self) -> set[str]:
        return set(self.labels.values()) | set(self.branches)


def _nearest_above(tree: TreeIndex, wanted: Container[int]) -> array[int]:
    """Return for each row the nearest wanted row at or above it, or NO_ROW."""
    nearest = array("i", [NO_ROW]) * len(tree)
    for row in _parents_first(tree):
        parent = tree.parents[row]
        if row in wanted:
            nearest[row] = row
        elif parent != NO_ROW:
            nearest[row] = nearest[parent]
    return nearest


def _parents_first(tree: TreeIndex) -> Sequence[int]:
    """The rows in an order in which each is behind its parent; nearly always that of the file."""
    if not tree.has_late_parents:
        return range(len(tree))
    order = [row for row, parent in enumerate(tree.parents) if parent == NO_ROW]
    for row in order:
        order.extend(tree.children(row))
    return order


def tip_of(tree: TreeIndex, row: int) -> int:
    """Return the last row at or below a row on its lane, without markers; or the row itself."""
    lane = tree.lane_of(row)
    below = [
        found
        for found in tree.subtree(row)
        if tree.lane_of(found) == lane and tree.type_of(found) not in MARKERS
    ]
    return below[-1] if below else row


def lane_leaf(name: str, tree: TreeIndex) -> int:
    """Return the last row of a lane, an annotation only without any other; or NO_ROW."""
    last = NO_ROW
    for row in tree.rows_on(None if name == MAIN else name):
        if tree.type_of(row) not in ANNOTATIONS:
            return row
        last = max(last, row)
    return last


def skip_markers(entry: Entry, up: Callable[[Entry], Iterator[Entry]]) -> Entry:
    """Return the nearest entry at or above one that is not a marker."""
    if entry.type not in MARKERS:
        return entry
    return next((above for above in up(entry) if above.type not in MARKERS), entry)


def steps_up(ref: str, entry: Entry, steps: int, up: Callable[[Entry], Iterator[Entry]]) -> Entry:
    """Return the entry `steps` content entries above the one that a ref names."""
    at = skip_markers(entry, up)
    passed = 0
    for above in up(at):
        if passed == steps:
            break
        if above.is_content:
            at = above
            passed += 1
    if passed < steps:
        raise RefError(f"{ref!r} goes too far: only {passed} content entries are above", ref)
    return at


def without_quotes(ref: str) -> str:
    """Return a ref without the quotation marks around its name: `"a state"~2` is `a state~2`.

    After the quotation marks, `@` may stand before the steps.
    """
    quoted = _QUOTED.fullmatch(ref)
    return ref if quoted is None else f"{quoted[1]}{quoted[2]}"


def split_steps(ref: str) -> tuple[str, int | None]:
    """Split a ref into what is before `~n`, and n; None without one."""
    steps = _STEPS.search(ref)
    if steps is None:
        return ref, None
    return ref[: steps.start()], int(steps.group(1) or 1)


def find_row(ref: str, tree: TreeIndex, names: Names) -> int:
    """Return the row that a uuid, name or prefix means.

    Raises:
        RefError: it means none, or more than one.
    """
    row = tree.row(ref)
    if row != NO_ROW:
        return row
    uuids = {uuid for uuid in names.named(ref, tree) if tree.row(uuid) != NO_ROW}
    if not uuids and (row := lane_leaf(ref, tree)) != NO_ROW:
        return row
    if not uuids and len(ref) >= SHORTEST_PREFIX:
        uuids = {tree.uuids[row] for row in tree.rows_with_prefix(ref)}
    if len(uuids) == 1:
        return tree.row(uuids.pop())
    if uuids:
        raise RefError(
            f"{ref!r} is ambiguous: it may be {_listed(uuids)}; give more characters of the uuid",
            ref,
            sorted(uuids),
        )
    near = _near(ref, tree, names)
    hint = f"; did you mean {_listed(near)}?" if near else ""
    if is_turn_number(ref):
        hint = f"; for the prompt of turn {ref}, give turn:{ref}"
    elif 0 < len(ref) < SHORTEST_PREFIX:
        hint = f"; a prefix has {SHORTEST_PREFIX} characters or more{hint}"
    error = RefError(f"no entry is named {ref!r}{hint}", ref, sorted(near))
    if near or is_turn_number(ref):
        raise error
    error.add_note("tree(), labels() and branches() list what can be named")
    raise with_step(error, "see entries")


def _near(ref: str, tree: TreeIndex, names: Names) -> set[str]:
    from difflib import get_close_matches  # only a refusal needs it

    known = names.all_names() | {lane or MAIN for lane in tree.lanes}
    near = set(get_close_matches(ref, known, n=3))
    if len(ref) >= 3:
        near.update(tree.uuids[row] for row in tree.rows_with_prefix(ref[:4])[:_CANDIDATES])
    return near


def _listed(uuids: set[str]) -> str:
    shown = sorted(uuids)[:_CANDIDATES]
    more = f" and {len(uuids) - len(shown)} more" if len(uuids) > len(shown) else ""
    return ", ".join(shown) + more
