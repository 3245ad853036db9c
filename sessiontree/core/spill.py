"""Spill: large strings of an entry stored as blobs, and put back when it is read.

Spill is an encoding. The line holds a blob handle's text form in place of the string, and the
entry's `spilled` lists `[path, handle]` for each: the path as the keys and indices that lead there
from the entry. For a text, a third member is its beginning, up to 200 characters, so that it is
recognized without its blob; older files do not have it. Only what `spilled` lists is put back: a
string that looks like a handle stays a string.

An entry must be usable in the tree without its blobs: found, drawn, paired and searched. So all
content may be spilled, except

- the whole value of a key that structures an entry, a message or a block (`STRUCTURE`: type, role
  and names, provider and model, media types, a preview, the caller's own metadata, token counts);
- the value of a key that is an id by its name: `id`, `uuid`, or a name that ends in `Id`, `Uuid`,
  `_id` or `_uuid`.

Within the input or output of a tool or a program (`OPAQUE`: `arguments`, `input`, `data`,
`details`) keys have no such meaning, and everything is content. Keys themselves are never spilled.

A blob holds the string's UTF-8. Its media type is for people only: `text/plain`; for the `data` of
a block that names a media type, that type, with `;base64` where the text is the base64 of such
content.

Invariants: `restore(spill(x)) == x` for any JSON and any threshold; the same entry always spills
the same; neither changes its argument. In `SpilledBody` a key without spilled strings reads no
blob; the others are put back whole at the first access, or raise; a handle's text is never given
for the string it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar, cast

from sessiontree.core.handle import blob_of
from sessiontree.core.jsonbytes import plain
from sessiontree.errors import BlobMissingError, SpilledError

# Takes a string's UTF-8 and a media type, gives the text form of its blob's handle.
Store = Callable[[bytes, str], str]
# Takes the text form of a blob's handle, gives the blob's bytes, checked; raises BlobError.
Fetch = Callable[[str], bytes]

# Keys whose whole value stays in the line.
STRUCTURE: Final = frozenset(
    {
        *("type", "version", "format", "uuid", "parentUuid", "lane", "timestamp", "crc"),
        *("spilled", "metadata", "usage"),
        *("handle", "kind", "role", "name", "preview", "label", "note", "customType", "cwd"),
        *("provider", "api", "model", "thinkingLevel", "stopReason", "stop_reason", "status"),
        *("toolName", "mimeType", "mime_type", "media_type", "phase"),
    }
)
# Keys whose value belongs to a program: the keys in it have no meaning here.
OPAQUE: Final = frozenset({"arguments", "input", "data", "details"})
BEGINNING: Final = 200  # characters of a spilled text in the line, without leading white space
_ID: Final = re.compile(r"^(?:id|uuid)$|(?:Id|Uuid|_id|_uuid)$")
_MEDIA_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/[a-z0-9][a-z0-9!#$&^_.+-]{0,63}")
TEXT: Final = "text/plain"

Path = tuple[str | int, ...]
Body = TypeVar("Body", bound=Mapping[str, Any])


def spill(fields: Mapping[str, Any], over: int | None, store: Store) -> Mapping[str, Any]:
    """The fields of an entry with each large string of its content stored as a blob.

    A string of up to `over` UTF-8 bytes stays; with None all stay, with 0 only empty ones. The same
    object comes back where nothing is large or `spilled` is present.
    """
    if over is None or "spilled" in fields:
        return fields
    spilling = _Spilling(over, store)
    spilled = spilling.keys(fields, (), opaque=False)
    return {**spilled, "spilled": spilling.places} if spilling.places else fields


class _Spilling:
    """One entry being spilled; `places` becomes the value of `spilled`."""

    def __init__(self, over: int, store: Store) -> None:
        self.places: list[list[Any]] = []
        self._over = over
        self._store = store

    def _value(self, value: Any, path: Path, media_type: str, opaque: bool) -> Any:
        if isinstance(value, str):
            return self._string(value, path, media_type)
        if len(path) > 254:  # the codec writes no deeper
            return value
        if isinstance(value, dict):
            return self.keys(value, path, opaque)
        if isinstance(value, list | tuple):
            before = len(self.places)
            parts = [self._value(v, (*path, i), TEXT, opaque) for i, v in enumerate(value)]
            return value if len(self.places) == before else parts
        if (data := plain(value)) is not value:
            before = len(self.places)
            found = self._value(data, path, media_type, opaque)
            return value if len(self.places) == before else found
        return value

    def keys(self, keys: Mapping[str, Any], path: Path, opaque: bool) -> Mapping[str, Any]:
        before = len(self.places)
        parts = {
            key: value
            if not isinstance(key, str) or (not opaque and is_structure(key))
            else self._value(value, (*path, key), _media_type(key, keys), opaque or key in OPAQUE)
            for key, value in keys.items()
        }
        return keys if len(self.places) == before else parts

    def _string(self, text: str, path: Path, media_type: str) -> str:
        if len(text) * 4 <= self._over or not text:
            return text
        try:
            content = text.encode()
        except UnicodeEncodeError:  # a lone surrogate, which the codec refuses
            return text
        if len(content) <= self._over:
            return text
        handle = self._store(content, media_type)
        most = min(BEGINNING, self._over // 4)  # no more UTF-8 bytes than a string that stays
        # to skip leading white space
        begins = text[:2000].lstrip()[:most] if media_type.startswith("text/") else ""
        self.places.append([list(path), handle, begins] if begins else [list(path), handle])
        return handle


def is_structure(key: str) -> bool:
    """True if the value of a key of an entry, a message or a block stays in the line."""
    return key in STRUCTURE or _ID.search(key) is not None


def _media_type(key: str, siblings: Mapping[str, Any]) -> str:
    if key != "data":
        return TEXT
    found = siblings.get("mimeType", siblings.get("media_type"))
    if not isinstance(found, str) or not _MEDIA_TYPE.fullmatch(found):
        return TEXT
    return found if found.startswith("text/") else f"{found};base64"


def restore(body: Body, fetch: Fetch) -> Body:
    """An entry's keys with its spilled strings put back, and without `spilled`.

    A part of the keys is enough, with that part of `spilled`. `fetch` is called once for each
    distinct handle. The same object comes back where nothing was spilled. A `spilled` that is
    malformed, or whose path does not lead to its handle, is a SpilledError.
    """
    if "spilled" not in body:
        return body
    restored = {key: value for key, value in body.items() if key != "spilled"}
    texts: dict[str, str] = {}
    copied: set[int] = {id(restored)}
    for path, handle, _ in _places(body["spilled"]):
        above = _copied_down(restored, path, copied)
        if not _leads(above, path[-1]) or above[path[-1]] != handle:
            raise _wrong(f"at {_spelled(path)} there is no handle {handle:.100}")
        if handle not in texts:
            try:
                texts[handle] = fetch(handle).decode()
            except UnicodeDecodeError as error:
                raise _wrong(f"the blob of {handle:.100} is not text") from error
        above[path[-1]] = texts[handle]
    return cast(Body, restored)


def check_spilled(body: Mapping[str, Any]) -> None:
    """Check that an entry can be restored once its blobs are read; else raise SpilledError."""
    restore(body, _nothing)


def beginnings(body: Mapping[str, Any]) -> dict[str, str]:
    """The beginnings of the spilled strings of an entry, by handle, as far as its line has them.

    Reads no blob. A malformed `spilled` gives an empty dict.
    """
    try:
        return {handle: begins for _, handle, begins in _places(body.get("spilled", []))}
    except SpilledError:
        return {}


def _nothing(handle: str) -> bytes:
    if blob_of(handle) is None:
        raise _wrong(f"{handle:.100} is not a blob's handle")
    return b""


def _places(spilled: Any) -> list[tuple[list[Any], str, str]]:
    """The path, the handle and the beginning (may be empty) of each spilled string."""
    if not isinstance(spilled, list):
        raise _wrong("it is not a list")
    for place in spilled:
        is_place = (
            isinstance(place, list)
            and len(place) in (2, 3)
            and isinstance(place[0], list)
            and bool(place[0])
            and all(isinstance(part, str) for part in place[1:])
        )
        if not is_place:
            raise _wrong(f"{place!r:.100} is neither [path, handle] nor [path, handle, beginning]")
    return [(place[0], place[1], place[2] if len(place) == 3 else "") for place in spilled]


def _has_path(place: Any) -> bool:
    return isinstance(place, list) and bool(place) and isinstance(place[0], list) and bool(place[0])


def _copied_down(top: Any, path: list[Any], copied: set[int]) -> Any:
    """The container at the end of a path, each container on the way copied once."""
    above = top
    for step in path[:-1]:
        if not _leads(above, step):
            raise _wrong(f"{_spelled(path)} leads nowhere")
        below = above[step]
        if isinstance(below, dict | list) and id(below) not in copied:
            below = above[step] = below.copy()
            copied.add(id(below))
        above = below
    return above


def _leads(above: Any, step: Any) -> bool:
    if isinstance(above, dict):
        return isinstance(step, str) and step in above
    is_index = isinstance(step, int) and not isinstance(step, bool)
    return isinstance(above, list) and is_index and 0 <= step < len(above)


def _spelled(path: list[Any]) -> str:
    return ".".join(f"{step!s:.40}" for step in path[:20])


def _wrong(cause: str) -> SpilledError:
    return SpilledError(
        f"the entry's 'spilled' does not fit it: {cause}; look at the line, and compare it "
        "with a backup",
        "",
    )


def out_of_reach(handle: str) -> NoReturn:
    """The fetch of an entry whose file is not known."""
    raise BlobMissingError(
        f"{handle} cannot be read: the entry was decoded apart from its session's file", ""
    )


class SpilledBody(Mapping[str, Any]):
    """A mapping of the keys of a line, each with its spilled strings put back."""

    __slots__ = ("_fetch", "_whole", "stored")

    def __init__(self, stored: Mapping[str, Any], fetch: Fetch | None) -> None:
        self.stored = stored  # the keys and values as in the line
        self._fetch = fetch or out_of_reach
        self._whole: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        """The value of a key, whole; an error as of `restore`."""
        if key not in self._whole:
            value = self.stored[key]
            if (places := self._places(key)) != []:
                value = restore({key: value, "spilled": places}, self._fetch)[key]
            self._whole[key] = value
        return self._whole[key]

    def _places(self, key: str) -> Any:
        """The places of one key; `spilled` itself where it is malformed."""
        spilled = self.stored["spilled"]
        if not isinstance(spilled, list) or not all(map(self._has_key, spilled)):
            return spilled
        return [place for place in spilled if place[0][0] == key]

    def _has_key(self, place: Any) -> bool:
        key = place[0][0] if _has_path(place) else None
        return isinstance(key, str) and key in self.stored

    def __contains__(self, key: object) -> bool:
        return key in self.stored

    def __iter__(self) -> Iterator[str]:
        return iter(self.stored)

    def __len__(self) -> int:
        return len(self.stored)
