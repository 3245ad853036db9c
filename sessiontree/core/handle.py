"""Handle: a small, immutable pointer to content that is stored elsewhere, such as a blob.

Its text form is `plugin@version::method:meta0:meta1`. Inside a part `%`, `:`, `@` and every control
character are percent-encoded, as their UTF-8 bytes. A blob is content in a file of its own, named
by the hash of its bytes.

Invariants: `Handle.parse(str(handle)) == handle` for any parts; a text form is one printable line;
every handle is well formed. Whether its plugin is known, and its meta fits the plugin's schema, is
checked by the registry (`sessiontree.handles`).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import asdict, force_setattr

from sessiontree.core import jsonbytes
from sessiontree.errors import EntryError, HandleError

# What a handle resolves to: a chat message, a command's output, JSON, or bytes.
Kind = Literal["message", "output", "document", "binary"]
KINDS: Final = get_args(Kind)
LONGEST: Final = 8192  # characters of a text form: enough for any path, too few for content
LARGEST_METADATA: Final = 1024  # bytes of the metadata of a `handle` entry as JSON
NUMBER: Final = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER: Final = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION: Final = re.compile(
    rf"{NUMBER}\.{NUMBER}\.{NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?"  # semver.org 2.0.0, 9
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_TOKEN: Final = r"[A-Za-z0-9!#$&^_.+-]+"
MEDIA_TYPE: Final = rf"{_TOKEN}/{_TOKEN}(?: ?;[ -~]+)?"
"""A media type with its parameters, as RFC 6838 spells one."""

_LONGEST_CODE: Final = 13
"""The most characters of a text form for each one of a part: four bytes, and what separates it."""

_ENCODED: Final = frozenset("%:@")
_DRIVING: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_PERCENT_CODE: Final = re.compile(rb"%([0-9A-Fa-f]{2})?")


class Handle(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A pointer to content. `str(handle)` is the text form of a handle. Handles are hashable.

    Raises:
        HandleError: a part is empty or the version is wrong; the error names the part.
    """

    plugin: str  # the name of the plugin that resolves the handle, such as `blob`
    version: str  # the semantic version of the plugin's handles
    method: str  # the kind of pointer within the plugin, such as `sha256`
    meta: tuple[str, ...] = ()  # the location of the content, as non-empty strings

    def __post_init__(self) -> None:
        if isinstance(self.meta, str) or not isinstance(self.meta, Iterable):
            message = f"the meta of a handle must be a list of strings, not {_short(self.meta)}"
            raise HandleError(message, "meta")
        force_setattr(self, "meta", tuple(islice(self.meta, LONGEST + 1)))
        parts = (self.plugin, self.version, self.method, *self.meta)
        for place, part in enumerate(parts):
            if not isinstance(part, str) or not part:
                name = _name(place)
                message = f"the {name} of a handle must be a non-empty string"
                raise HandleError(f"{message}, not {_short(part)}", name)
        if not _VERSION.fullmatch(self.version):
            raise HandleError(
                f"{_short(self.version)} is not a version of a handle; give MAJOR.MINOR.PATCH, "
                "such as 1.0.0",
                "version",
            )
        size = sum(map(len, parts))
        if size > LONGEST or (size * _LONGEST_CODE > LONGEST and len(str(self)) > LONGEST):
            raise _too_long(self.plugin)

    def __str__(self) -> str:
        plain = f"{self.plugin}@{self.version}::{':'.join((self.method, *self.meta))}"
        if _is_plain(plain, 2 + len(self.meta)):
            return plain
        after = ":".join(map(_quoted, (self.method, *self.meta)))
        return f"{_quoted(self.plugin)}@{self.version}::{after}"

    @classmethod
    def parse(cls, text: str) -> Handle:
        """Return the handle for a text form.

        The text may percent-encode more characters than necessary.

        Raises:
            HandleError: the text is not a handle; the error names the wrong part.
        """
        if not isinstance(text, str):
            raise HandleError(f"a handle must be text, not {_short(text)}", "handle")
        return cls._of_text(text)

    @classmethod
    @lru_cache(maxsize=1024)  # handles that lead to one another are read once for each of them
    def _of_text(cls, text: str) -> Handle:
        head, colons, after = text.partition("::")
        plugin, at, version = head.partition("@")
        if at and colons and len(text) > LONGEST * _LONGEST_CODE:
            raise _too_long(plugin)
        if not at or not colons:
            raise HandleError(
                f"{_short(text)} is not a handle; give plugin@version::method:meta, such as "
                "file@1.0.0::path:notes.md",
                "handle",
            )
        method, *meta = after.split(":")
        if "%" not in text and text.isprintable():
            return cls(plugin, version, method, tuple(meta))
        return cls(
            _unquoted(plugin, "plugin"),
            version,
            _unquoted(method, "method"),
            tuple(_unquoted(part, f"meta[{i}]") for i, part in enumerate(meta)),
        )

    @classmethod
    def from_json(cls, value: Any) -> tuple[Handle, Mapping[str, Any] | None]:
        """Return the handle for a JSON value, and the metadata if the value has the older form.

        The value has one of three forms:

        - the text form of a handle
        - `{plugin, version, method, meta}`
        - the older form `{source, source_version, identifier, metadata}`

        In the older form, an identifier `msg-<id>:role:name` or `msg-<id>:role` becomes the method
        `message` with three or two meta parts. Any other identifier becomes the method `item` with
        one part.

        Raises:
            HandleError: the value has another form, or the handle is not well formed.
        """
        if isinstance(value, str):
            return cls.parse(value), None
        if not isinstance(value, Mapping):
            raise HandleError(f"a handle must be text or an object, not {_short(value)}", "handle")
        if "plugin" in value:
            plugin, version, method = map(value.get, ("plugin", "version", "method"))
            return cls(plugin, version, method, value.get("meta", ())), None  # type: ignore[arg-type]
        return _from_older(value)

    def as_dict(self) -> dict[str, Any]:
        """Return the parts by name, with `meta` as a list."""
        return {**asdict(self), "meta": list(self.meta)}

    @classmethod
    def blob(cls, sha256: str, size: int, media_type: str) -> Handle:
        """Return the handle of a blob of `size` bytes; the hash is in lower-case hexadecimal."""
        if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
            raise HandleError(f"{_short(sha256)} is not a SHA-256 in lower-case hex", "meta[0]")
        if not isinstance(media_type, str) or not re.fullmatch(MEDIA_TYPE, media_type):
            raise HandleError(f"{_short(media_type)} is not a media type like image/png", "meta[2]")
        return cls("blob", "1.0.0", "sha256", (sha256, _count(size, "meta[1]"), media_type))

    @classmethod
    def file(cls, path: str) -> Handle:
        """Return the handle of a file. The path is relative to the root, and has no `..`."""
        if not isinstance(path, str):
            raise HandleError(f"a path must be a string, not {_short(path)}", "meta[0]")
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in parts or "\0" in path or not parts:
            raise HandleError(
                f"{_short(path)} is not a path below a root; give a relative one without '..'",
                "meta[0]",
            )
        return cls("file", "1.0.0", "path", ("/".join(parts),))

    @classmethod
    def entry(cls, session_id: str, uuid: str) -> Handle:
        """Return the handle of an entry, from the id in the session's header and the uuid."""
        return cls("session", "2.0.0", "entry", (session_id, uuid))

    @classmethod
    def block(cls, session_id: str, uuid: str, index: int) -> Handle:
        """Return the handle of one content block of a message; the first block has index 0.

        `uuid` is the uuid of the entry, or the `messageUuid` of a message written in blocks.
        """
        return cls("session", "2.0.0", "block", (session_id, uuid, _count(index, "meta[2]")))

    @classmethod
    def path(cls, session_id: str, uuid: str) -> Handle:
        """Return the handle of the path to an entry: the messages up to the entry."""
        return cls("session", "2.0.0", "path", (session_id, uuid))

    @classmethod
    def branch(cls, session_id: str, name: str) -> Handle:
        """Return the handle of a branch or lane: the path to its last entry, as it is then."""
        return cls("session", "2.0.0", "branch", (session_id, name))


_BUILT_IN: Final = {
    ("blob", "sha256"): ("1", 3),
    ("file", "path"): ("1", 1),
    ("session", "entry"): ("2", 2),
    ("session", "block"): ("2", 3),
    ("session", "path"): ("2", 2),
    ("session", "branch"): ("2", 2),
}
"""The handles that the format defines: the major version, and the number of meta parts."""


def check_built_in(handle: Handle) -> None:
    """Check the meta of a handle that the format defines; else a HandleError.

    A handle of another plugin, method or major version is not checked.
    """
    pointer = (handle.plugin, handle.method)
    major, count = _BUILT_IN.get(pointer, ("", 0))
    if handle.version.partition(".")[0] != major:
        return
    if (given := len(handle.meta)) != count:
        parts = "1 part" if given == 1 else f"{given} parts"
        raise HandleError(f"{handle} has {parts} of meta, and needs {count}", "meta")
    if pointer == ("blob", "sha256"):
        sha256, size, media_type = handle.meta
        Handle.blob(sha256, _number(size, "meta[1]"), media_type)
    elif pointer == ("file", "path"):
        Handle.file(*handle.meta)
    elif pointer == ("session", "block"):
        _number(handle.meta[2], "meta[2]")


def check_metadata(metadata: Mapping[str, Any] | None) -> None:
    """Check the metadata of a `handle` entry: a dict of up to 1 KB as JSON, else a HandleError."""
    if metadata is None:
        return
    if not isinstance(metadata, Mapping):
        raise HandleError(f"metadata must be a dict, not {_short(metadata)}", "metadata")
    try:
        size = len(jsonbytes.dumps(dict(metadata)))
    except EntryError as error:
        raise HandleError(f"the metadata of a handle is {error}", "metadata") from error
    if size > LARGEST_METADATA:
        raise HandleError(
            f"the metadata of a handle has {size:,} bytes as JSON, more than {LARGEST_METADATA:,}; "
            "store large content in a blob",
            "metadata",
        )


def _from_older(value: Mapping[Any, Any]) -> tuple[Handle, Mapping[str, Any] | None]:
    source, version, identifier = map(value.get, ("source", "source_version", "identifier"))
    if not isinstance(identifier, str):
        raise HandleError(
            f"the identifier of a handle must be a string, not {_short(identifier)}", "identifier"
        )
    method, meta = "item", [identifier]
    if identifier.startswith("msg-"):
        parts = identifier.removeprefix("msg-").split(":", 2)
        if len(parts) >= 2 and all(parts):
            method, meta = "message", parts
    handle = Handle(source, version, method, tuple(meta))  # type: ignore[arg-type]
    metadata = value.get("metadata")
    if metadata is None or isinstance(metadata, Mapping):
        return handle, metadata
    return handle, {"metadata": metadata}  # any JSON was allowed there; here it is a dict


def _count(number: int, part: str) -> str:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise HandleError(f"{part} of a handle must be a whole number, not {_short(number)}", part)
    return str(number)


def _number(text: str, part: str) -> int:
    if not re.fullmatch(NUMBER, text) or len(text) > 18:
        raise HandleError(f"{part} of a handle must be a whole number, not {_short(text)}", part)
    return int(text)


def _name(place: int) -> str:
    return f"meta[{place - 3}]" if place >= 3 else ("plugin", "version", "method")[place]


def _is_plain(text: str, colons: int) -> bool:
    """True if nothing in the parts of a text form has to be encoded, given its separators."""
    return (
        "%" not in text
        and text.count(":") == colons
        and text.count("@") == 1
        and text.isprintable()
    )


def _quoted(part: str) -> str:
    if part.isprintable() and _ENCODED.isdisjoint(part):
        return part
    return "".join(
        "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
        if character in _ENCODED or unicodedata.category(character) in _DRIVING
        else character
        for character in part
    )


def _unquoted(part: str, name: str) -> str:
    if not part.isprintable() and any(unicodedata.category(c) == "Cc" for c in part):
        raise HandleError(
            f"the {name} of a handle has a control character: {_short(part)}; encode it as "
            "%0A encodes a line break",
            name,
        )
    if "%" not in part:
        return part
    try:
        content = _PERCENT_CODE.sub(_byte, part.encode("utf-8", "surrogatepass"))
        return content.decode("utf-8", "surrogatepass")
    except ValueError as error:
        raise HandleError(
            f"the {name} of a handle is not percent-encoded UTF-8: {_short(part)}; "
            "write % itself as %25",
            name,
        ) from error


def _byte(escape: re.Match[bytes]) -> bytes:
    return bytes((int(escape[1] or b"", 16),))  # ValueError without two digits


def _too_long(plugin: str) -> HandleError:
    return HandleError(
        f"a handle of {plugin:.40} has more than {LONGEST:,} characters; "
        "store the content elsewhere, and point the handle to it",
        "meta",
    )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


_SIZE: Final = re.compile("0|[1-9][0-9]{0,17}")
_PLUGIN: Final = re.compile("(?:b|%62)(?:l|%6[Cc])(?:o|%6[Ff])(?:b|%62)@")
"""How the text form of a blob's handle begins."""

_METHOD: Final = b"sha256"
_PERCENT: Final = tuple(b"::" + _METHOD[:count] + b"%" for count in range(len(_METHOD)))
BLOB_NEEDLES: Final = (_METHOD, *_PERCENT, *jsonbytes.ESCAPES)
"""Byte strings, at least one of which is in each line that names a blob.

A line has the method as it is, percent-encoded after the version, or spelled with escapes of JSON.
"""

_HASH: Final = b"([0-9a-f]{64})"
_NAMES: Final = (re.compile(_METHOD + b":" + _HASH), re.compile(b'"' + _HASH))
_ENCODED_NAME: Final = re.compile(rb"::[0-9a-fsh:]{0,70}%")
_ESCAPE: Final = re.compile(rb"\\+u00([2-7][0-9A-Fa-f])")
_CODE: Final = re.compile(rb"%([2-7][0-9A-Fa-f])")


def may_name_blob(lines: bytes) -> bool:
    """Return False only if no handle in some lines names a blob, however it is spelled."""
    if jsonbytes.find(lines, _METHOD) >= 0:
        return True
    is_encoded = jsonbytes.find(lines, b"::") >= 0 and any(
        jsonbytes.find(lines, needle) >= 0 for needle in _PERCENT
    )
    return is_encoded or jsonbytes.has_escapes(lines)


class Blob(NamedTuple):
    """The identity of a blob."""

    sha256: str  # the SHA-256 of its bytes, 64 lower-case hex digits; also its file's name
    size: int  # the number of its bytes


def text_form(value: Any) -> str:
    """Return the text form of a handle that a line has in any form (rule 3.10).

    What is not a handle is returned as it is if it is text, else as its parts or as JSON.
    """
    if isinstance(value, str) and "%" not in value:
        return value
    try:
        return str(Handle.from_json(value)[0])
    except HandleError:
        return value if isinstance(value, str) else _parts_or_json(value)


def _parts_or_json(value: Any) -> str:
    """The parts of the older form as text, such as `s@1::i`, whose version is not one; or JSON."""
    names = ("source", "source_version", "identifier")
    parts = [value.get(name) for name in names] if isinstance(value, dict) else []
    if parts and all(isinstance(part, str) for part in parts):
        return "{}@{}::{}".format(*parts)
    return json.dumps(value)


def with_parts(keys: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the keys of an entry, with the parts of a handle apart, to search each on its own.

    The same object is returned if there is no handle, or it is not well formed.
    """
    if keys.get("type") != "handle":
        return keys
    try:
        handle, older = Handle.from_json(keys.get("handle"))
    except HandleError:
        return keys
    parts = handle.as_dict()
    return {**keys, "handle": {**parts, "metadata": older} if older else parts}


def blob_of(value: Any) -> Blob | None:
    """Return the blob that a handle in any form names; None if it names no blob."""
    handle = _handle_of_blob(value)
    return None if handle is None else Blob(handle.meta[0], int(handle.meta[1]))


def media_type_in(value: Any) -> str:
    """Return the media type in the handle of a blob in any form; empty if it has none."""
    handle = _handle_of_blob(value)
    return "" if handle is None else "".join(handle.meta[2:3])


def _handle_of_blob(value: Any) -> Handle | None:
    if isinstance(value, str) and _PLUGIN.match(value) is None:
        return None  # without the time that parsing takes
    try:
        handle, _ = Handle.from_json(value)
    except HandleError:
        return None
    if (handle.plugin, handle.method) != ("blob", "sha256") or len(handle.meta) < 2:
        return None
    sha256, size = handle.meta[:2]
    return handle if _SHA256.fullmatch(sha256) and _SIZE.fullmatch(size) else None


def blobs_needed(keys: Mapping[str, Any]) -> Iterator[Blob]:
    """The blobs that an entry needs to be whole, given its keys as stored."""
    for handle in handles_of_blobs(keys):
        blob = blob_of(handle)
        if blob is not None:
            yield blob


def handles_of_blobs(keys: Mapping[str, Any]) -> Iterator[Any]:
    """Yield each value of an entry, given its keys as stored, that may be the handle of a blob."""
    spilled = keys.get("spilled")
    for place in spilled if isinstance(spilled, list) else ():
        if isinstance(place, list) and len(place) in (2, 3) and isinstance(place[1], str):
            yield place[1]
    if keys.get("type") == "handle":
        yield keys.get("handle")


def hashes_named(lines: bytes) -> set[str]:
    """Return the hash of each blob that some lines name in any spelling, also in a quotation.

    Other strings of 64 hex digits are in the result too: these blobs must stay.
    """
    named = _hashes(lines)
    is_escaped = jsonbytes.has_escapes(lines)
    if is_escaped:
        lines = _ESCAPE.sub(_character, lines)
    is_encoded = _ENCODED_NAME.search(lines) is not None
    if is_encoded:
        lines = _CODE.sub(_character, lines)
    return named | _hashes(lines) if is_escaped or is_encoded else named


def _hashes(lines: bytes) -> set[str]:
    return {match[1].decode() for name in _NAMES for match in name.finditer(lines)}


def _character(code: re.Match[bytes]) -> bytes:
    return bytes((int(code[1], 16),))
