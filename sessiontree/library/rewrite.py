"""Rewrite: a session of a store written again with other content, and put in place of the old one.

The new session is made whole in a folder of the trash that nothing lists, and verified there: it
has no damage, the same tree, and whatever else the caller checks. Then the session is locked. All
of its old files get second names in the trash, as if the session had been moved there; the new
blobs come beside the session; and one rename puts the new file in place. What only the old file
needed is removed last.

Invariants: at its path is the old session or the new one, whole, whenever the program is killed; a
session that grew meanwhile stays, and is an error; nothing is lost, for the old files are in the
trash; entries, their order and their parents stay. After a kill the next rewrite finishes the rest,
and 'trash --empty' removes what is in the trash.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from sessiontree.core.bulk import pruned
from sessiontree.core.damage import in_short
from sessiontree.core.entry import REWRITTEN, Entry, decode_object
from sessiontree.core.handle import Blob, Handle, blob_of, blobs_needed, media_type_in
from sessiontree.core.media import base_type, text_in
from sessiontree.engine.opening import sniff_file
from sessiontree.engine.writer import fresh_uuid, now
from sessiontree.errors import (
    CorruptionError,
    EntryError,
    ForeignFormatError,
    SessionBusyError,
    SessionTreeError,
    UsageError,
    with_step,
)
from sessiontree.library.audit import audited
from sessiontree.library.homes import agent_at
from sessiontree.library.listing import facts_of
from sessiontree.library.root import below, for_names
from sessiontree.library.trash import discard, finish, reveal
from sessiontree.operations.export import SPILL_OVER, hides_keys, masked_keys, written_again
from sessiontree.redact.redaction import SecretMasking
from sessiontree.session import Session
from sessiontree.storage.atomic import blocks_of, create_file, link
from sessiontree.storage.blobs import Blobs
from sessiontree.storage.fs import READ_PLAIN, Descriptor, FileSystem, refused
from sessiontree.storage.log import Log
from sessiontree.storage.names import BLOBS, DELETING, LOCK, TRASH
from sessiontree.storage.place import is_address
from sessiontree.storage.places import blobs_of, create_log, open_log
from sessiontree.storage.sidecars import make_folders, moving

_MASK: Final = re.compile(r"\[redacted:([a-z0-9-]+):[0-9]{1,9}\]")
_LINE_KEYS: Final = ("spilled", "crc")


class Change(Protocol):
    """Changes the content of entries, each on its own."""

    name: str  # short and fixed: it stands in changed entries

    def value(self, fields: Mapping[str, Any], entry: str) -> Mapping[str, Any]:
        """The keys of an entry, changed; the same object if nothing changes."""

    def content(self, content: bytes, media_type: str, entry: str) -> bytes:
        """The content of the blob that an entry is the handle of, changed or as it is."""


class Rewritten(NamedTuple):
    """A session that was rewritten."""

    file: str
    trashed: str  # the path of the old one in the trash
    entries: int  # how many were changed
    freed: int  # by how many bytes the session is smaller


def check_own(fs: FileSystem, root: str, file: str) -> None:
    """Check that a file is a current session in the folder of a store.

    Raises:
        ForeignFormatError: it is an agent's.
        UsageError: it is elsewhere, a link, or of version 1.
    """
    if is_address(file) or is_address(root):
        raise UsageError(f"{file} is at an address; copy it to a folder, and back afterwards")
    if fs.is_link(file):
        raise UsageError(f"{file} is a link; name the file that it leads to")
    facts = facts_of(file, fs)
    agent = facts.agent or ((found := agent_at(file)) and found.program)
    if agent:
        message = (
            f"{file} is kept by {agent}, and is never changed; import it, change the copy in the "
            f"store, and delete the session with {agent}"
        )
        raise ForeignFormatError(message, file, agent)
    name = below(root, file)
    if name is None or name.split(os.sep)[0] == TRASH:
        where = "in the trash of" if name else "not in"
        raise UsageError(f"{file} is {where} {root}; name the store it is in with --store")
    with contextlib.closing(open_log(fs, file, readonly=True)) as log:
        if sniff_file(log).kind != "current":
            raise UsageError(f"{file} is of an older version; run 'sessiontree migrate {file}'")


def rewrite(
    fs: FileSystem,
    root: str,
    file: str,
    change: Change,
    check: Callable[[str], object],
    *,
    always: bool = False,
) -> Rewritten | None:
    """Rewrite a session; None if no entry changes, unless it is done `always`.

    `check` is called with the path of the new session before that is put in place, and may raise.

    Raises:
        CorruptionError: the session is damaged, so that it cannot be told what the new one lacks.
        SessionBusyError: a writer holds the session, or it grew meanwhile.
        ForeignFormatError, UsageError: see `check_own`.
        StorageError: the system refused; the session is as it was.
    """
    check_own(fs, root, file)
    name = below(root, os.path.realpath(file)) or os.path.basename(file)
    stamps = [f"{for_names(now())}_{fresh_uuid()[:8]}" for _ in range(2)]
    new, old = (os.path.join(root, TRASH, DELETING + stamp, name) for stamp in stamps)
    finish(fs, root)
    with moving(fs, root), contextlib.closing(open_log(fs, file)) as log:
        make_folders(fs, os.path.dirname(new))
        try:
            written = _write(fs, file, new, change)
            if not (written.entries or always):
                return None
            check(new)
            with log.hold():
                if not log.ends_at(written.size):
                    message = f"{file} was changed meanwhile, and stays; try again"
                    raise SessionBusyError(message, file)
                before = _size_of(fs, file)
                _keep_all(fs, file, old)
                reveal(fs, root, stamps[1])
                _put_in_place(fs, log, written)
                freed = before - _size_of(fs, file)
            return Rewritten(
                file, os.path.join(root, TRASH, stamps[1], name), written.entries, freed
            )
        finally:
            for stamp in stamps:
                discard(fs, root, DELETING + stamp)


class _New(NamedTuple):
    file: str
    size: int  # of the old file, as it was read
    entries: int  # how many are changed
    needed: list[Blob]


def _write(fs: FileSystem, file: str, new: str, change: Change) -> _New:
    """Write the new session, and compare the trees."""
    changed = 0
    needed: dict[Blob, None] = {}
    with Session.open(file, readonly=True, fs=fs) as session:
        if session.verify():
            cause = in_short(session.notes) or "'sessiontree verify' shows the damage"
            raise with_step(CorruptionError(f"{file} is damaged; {cause}", file, 0), "repair")
        view = session.reader.ready()
        lines = _WrittenLines(session.reader.blobs, blobs_of(fs, new), change)

        def blocks() -> Iterator[bytes]:
            nonlocal changed
            for offset, _ in view.entry_lines():
                entry = view.read(offset)
                if entry is None:
                    raise CorruptionError(f"{file}, byte {offset}: no entry", file, offset)
                made = lines.line(entry)
                changed += made is not entry.line
                needed.update(dict.fromkeys(lines.needed))
                yield made + b"\n"

        create_log(fs, new, blocks())
        with Session.open(new, readonly=True, fs=fs) as copy:
            if damage := copy.verify():
                raise CorruptionError(f"the new session is damaged: {damage[0].cause}", new, 0)
            one, other = session.reader.index(), copy.reader.index()
            same = one.parents == other.parents and len(one) == len(other)
            if not same or list(map(one.type_of, range(len(one)))) != list(
                map(other.type_of, range(len(other)))
            ):
                raise CorruptionError(f"the new session of {file} has another tree", new, 0)
        return _New(new, view.size, changed, list(needed))


class _WrittenLines:
    """The lines of a rewritten session; the blobs that they need are there when one is given."""

    def __init__(self, old: Blobs, new: Blobs, change: Change) -> None:
        self._old = old
        self._new = new
        self._change = change
        self.needed: list[Blob] = []  # by the last line

    def line(self, entry: Entry) -> bytes:
        """The line of an entry: the same object if it does not change."""
        fields = {key: entry[key] for key in entry if key not in _LINE_KEYS}
        made = self._change.value(fields, entry.uuid)
        if entry.type == "handle":
            made = self._with_blob(made, entry.uuid)
        if made is not fields:
            names = list(dict.fromkeys([*names_of(entry.as_stored), self._change.name]))
            made = {**made, REWRITTEN: names}
        elif not hides_keys(entry.line):
            self.needed = list(blobs_needed(entry.as_stored))
            for lost in self._new.link_from(self._old, self.needed):
                raise lost
            return entry.line
        line = written_again(made, SPILL_OVER, self._new)
        self.needed = list(blobs_needed(decode_object(line)))
        handles = [blob for blob in self.needed if not self._new.has(blob)]
        for lost in self._new.link_from(self._old, handles):
            raise lost
        return line

    def _with_blob(self, fields: Mapping[str, Any], entry: str) -> Mapping[str, Any]:
        """The keys of a `handle` entry, with a handle of the changed content."""
        blob = blob_of(fields.get("handle"))
        if blob is None:
            return fields
        named = media_type_in(fields["handle"])
        media_type = base_type(named)
        content = self._old.read(*blob)
        made = self._change.content(content, media_type, entry)
        if made is content:
            return fields
        handle = Handle.blob(*self._new.put(made), named or media_type)
        return {**fields, "handle": str(handle)}


def names_of(body: Mapping[str, Any]) -> list[str]:
    """The names of the changes of a rewritten entry; none for another entry."""
    names = body.get(REWRITTEN)
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def is_made_of(stored: Entry, fields: Mapping[str, Any], keys: Iterable[str]) -> bool:
    """True if a rewritten entry has some keys as its changes make them of an original's fields."""
    made = fields
    for name in names_of(stored.as_stored):
        if name not in _CHANGES:
            return False
        made = _CHANGES[name]().value(made, stored.uuid)
    try:
        return all(_comparable(stored.get(key)) == _comparable(made.get(key)) for key in keys)
    except SessionTreeError:  # a blob is missing
        return False


def _comparable(value: Any) -> str:
    """A value as text, without the numbers of masks, which depend on what else was masked."""
    return _MASK.sub(r"[redacted:\1]", json.dumps(value, sort_keys=True))


def _put_in_place(fs: FileSystem, log: Log, new: _New) -> None:
    """Put a new session in place of the old one, and remove what only the old one needs."""
    own = os.path.realpath(log.name)
    blobs = blobs_of(fs, log.name)
    for lost in blobs.link_from(blobs_of(fs, new.file), new.needed):
        raise lost
    log.rewrite(_blocks(fs, new.file))
    for ending in _endings(fs, own):
        fs.unlink(own + ending)
    needed = {blob.sha256 for blob in new.needed}
    for name in _names_in(fs, own + BLOBS):
        if name not in needed:
            blobs.remove(name)


def _blocks(fs: FileSystem, file: str) -> Iterator[bytes]:
    with Descriptor(fs, fs.open(file, READ_PLAIN)) as fd:
        yield from blocks_of(fs, fd)


def _endings(fs: FileSystem, file: str) -> list[str]:
    """How the names of the files beside a session end, without its lock and its blobs."""
    folder, name = os.path.split(file)
    others = (each[len(name) :] for each in sorted(fs.list(folder)) if each.startswith(name))
    return [
        ending
        for ending in others
        if ending and ending[0] == "." and ending not in (LOCK, BLOBS)
        if os.path.isfile(file + ending)
    ]


def _names_in(fs: FileSystem, folder: str) -> list[str]:
    with contextlib.suppress(OSError):
        return sorted(fs.list(folder))
    return []


def _keep_all(fs: FileSystem, file: str, old: str) -> None:
    """Give all files of a session second names in the trash, which are durable."""
    own = os.path.realpath(file)
    make_folders(fs, os.path.dirname(old))
    for ending in ("", *_endings(fs, own)):
        _keep(fs, own + ending, old + ending)
    blobs, kept = blobs_of(fs, file), blobs_of(fs, old)
    if os.path.isdir(blobs.folder):
        kept.link_from(blobs, blobs.blobs())
        for name in set(_names_in(fs, blobs.folder)) - set(_names_in(fs, kept.folder)):
            make_folders(fs, kept.folder)
            _keep(fs, os.path.join(blobs.folder, name), os.path.join(kept.folder, name))
    fs.sync_folder(os.path.dirname(old))


def _keep(fs: FileSystem, file: str, target: str) -> None:
    """Give a file a second name; without hard links, make a copy."""
    with refused("make", target):
        if link(fs, file, target):
            return
    with Descriptor(fs, fs.open(file, READ_PLAIN)) as fd:
        create_file(fs, target, blocks_of(fs, fd))


def _size_of(fs: FileSystem, file: str) -> int:
    """What a session takes with its blobs."""
    own = os.path.realpath(file)
    files = [own, *(own + ending for ending in _endings(fs, own))]
    files += [os.path.join(own + BLOBS, name) for name in _names_in(fs, own + BLOBS)]
    return sum(fs.stat(path).size for path in files)


class Masking:
    """Masks secrets; see `Change`."""

    name = "masked"

    def __init__(self) -> None:
        self.redaction = SecretMasking()

    def value(self, fields: Mapping[str, Any], entry: str) -> Mapping[str, Any]:
        return masked_keys(fields, entry, self.redaction)

    def content(self, content: bytes, media_type: str, entry: str) -> bytes:
        text = text_in(content)
        if text is None:
            return content
        masked = self.redaction.text(text[0], entry)
        return content if masked == text[0] else masked.encode()


class Pruning:
    """Takes out what makes sessions large; see `Change`."""

    name = "pruned"

    def value(self, fields: Mapping[str, Any], entry: str) -> Mapping[str, Any]:
        try:
            return pruned(fields)
        except (EntryError, RecursionError):  # no JSON, or nested too deeply: it stays
            return fields

    def content(self, content: bytes, media_type: str, entry: str) -> bytes:
        return content


_CHANGES: Final[Mapping[str, Callable[[], Change]]] = {
    each.name: each for each in (Masking, Pruning)
}


def mask(fs: FileSystem, root: str, file: str) -> tuple[Rewritten, Counter[str]] | None:
    """Mask the secrets in a session of a store; also how many places of each kind were masked.

    None if there is none, also beside the session. Raises as `rewrite`.
    """
    check_own(fs, root, file)
    if not _secrets_in(file):
        return None
    masking = Masking()
    done = rewrite(fs, root, file, masking, _check_masked, always=True)
    assert done is not None
    kinds: Counter[str] = Counter()
    for (kind, _), count in masking.redaction.masked.items():
        kinds[kind] += count
    return done, kinds


def prune(fs: FileSystem, root: str, file: str) -> Rewritten | None:
    """Take long tool output, images and snapshots out of a session of a store; None without any.

    Raises as `rewrite`.
    """
    return rewrite(fs, root, file, Pruning(), lambda new: None)


def _check_masked(file: str) -> None:
    """Check that no rule finds a secret in a session any more."""
    if found := _secrets_in(file):
        kinds = ", ".join(sorted(found))
        raise CorruptionError(f"the masked session would still have a secret: {kinds}", file, 0)


def _secrets_in(file: str) -> set[str]:
    """The kinds of secrets in a session and beside it; raises what cannot be searched."""
    problems: list[str] = []
    found = audited([facts_of(file)], problems.append, processes=1).secrets
    if problems:
        raise CorruptionError(problems[0], file, 0)
    return {one.kind for one in found}
