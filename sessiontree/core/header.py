"""The header, the names of project folders and session files, and the origin of a line.

The header is the first line, the root of the tree, and the sign of a session. `format` decides
where it is present, because other programs number and rewrite `version` in their own way. The error
for a first line that is not a header names what the file is, so that another program's file is not
taken for a damaged session.

A project's folder is named by its working directory: `/home/me/my-app` is `+home+me+my-app`. A `+`,
`%` or `~` in a path, and each character that is not printable, is percent-encoded by its bytes. A
name that some file systems could confuse with another (capitals, letters beyond ASCII) ends in `~`
and eight hex digits of the path's SHA-256. A name that would be too long is its end, `~` and all 64
digits.

The origin of a line of a converted file is the entry that it has the content of. The other program
may go on with the file, which is then imported again. So each converted line has the key
`sessiontree`: the uuid of the entry below which the next line belongs, and a checksum of the line's
content. Programs keep this key, as all unknown keys, in unchanged lines. If the file has another id
than the conversation, because the program has a file of it already, the key also has both ids.

Invariants:

- Two directories never share a name. A name that is not cut gives its directory back.
- A name is at most 200 bytes and starts with `+` or, on systems with drives, a letter.
- A line whose content was changed has no origin. Its place, and the facts around it (times, ids,
  folders, versions), may change.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

from sessiontree.core.codec import FORMAT, VERSION
from sessiontree.core.entry import bare_line, decode_leniently, whole_number
from sessiontree.core.jsonbytes import sorted_ascii
from sessiontree.core.message import kind_of
from sessiontree.errors import (
    ForeignFormatError,
    NewerFormatError,
    NotASessionError,
    with_step,
)

LANE_KEY = "lane:"  # starts the metadata key of the facts of an agent that runs on a lane
AGENT_SESSION_KEY = "agentSessionId"  # of the agent's own session id in metadata; a fork omits it
FORKED_FROM = "forkedFrom"  # of the id of the session that the agent forked, in metadata
DERIVED_FROM = "derivedFrom"  # of the ids of the sessions that it began with, in metadata

IMPORTED_FROM: Final = "importedFrom"
"""The metadata key of the record of an import."""

CONVERTED: Final = "converted"
"""The key of that record for a source that was converted from a session."""

_ZSTANDARD = b"\x28\xb5\x2f\xfd"  # the first bytes of a file compressed by Zstandard (RFC 8878)
SQLITE: Final = b"SQLite format 3\0"
"""The first bytes of a SQLite database."""

DATABASES: Final = (".db", ".sqlite")
"""How the name of a database with sessions ends, which counts as a folder of them."""

_IN_DATABASES: Final = tuple(f"{ending}{os.sep}" for ending in DATABASES)

_CLAUDE_CODE_LINES = frozenset({"file-history-snapshot", "queue-operation", "summary"})
_CLAUDE_CODE_KEYS = frozenset({"leafUuid", "messageId", "sessionId"})  # one is in each of them


def is_in_database(path: str) -> bool:
    """True if a path may be that of a session in a database; see `storage.databases`."""
    return any(ending in path for ending in _IN_DATABASES)


def is_file_name(name: object) -> bool:
    """True if a value that a file's content gave can be the name of a file in a folder."""
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    try:
        is_short = len(os.fsencode(name)) <= 255
    except UnicodeEncodeError:  # half a character
        return False
    return is_short and {"/", os.sep, "\0"}.isdisjoint(name)


def is_version_1(header: Mapping[str, Any]) -> bool:
    """True if the header of a session is of the linear version 1."""
    has_format = header.get("format") is not None
    return not has_format and "uuid" not in header and _version_of(header) == 1


def _version_of(header: Mapping[str, Any]) -> int | None:
    return whole_number(header.get("version", 1))


def says_pi(header: Mapping[str, Any]) -> bool:
    """True if the header of a session of version 1 has the model as pi wrote it there."""
    return "provider" in header and "modelId" in header


def check_header(line: bytes, file: str, place: str) -> dict[str, Any]:
    """The keys of the first line that is not blank; errors name the file and the place in it.

    Another program's file is a ForeignFormatError, a newer format a NewerFormatError, any other
    line a NotASessionError.
    """
    if line.startswith(_ZSTANDARD):
        raise NotASessionError(
            f"{file} is compressed and does not contain another agent's session; if it contains "
            "a session of sessiontree, decompress it",
            file,
        )
    value = decode_leniently(bare_line(line))
    if not isinstance(value, dict):
        raise NotASessionError(f"{file} is not a session: {place} {_not_an_object(line)}", file)
    if (program := _foreign_program(value)) is not None:
        message = f"{file} is a file of {program}, not of sessiontree; open it with that program"
        raise with_step(ForeignFormatError(message, file, program), None)
    if value.get("type") != "session":
        raise NotASessionError(
            f"{file} is not a session: {place} is not a header, "
            f"its type is {value.get('type')!r}; a session starts with type 'session'",
            file,
        )
    if (newer := _newer(value)) is not None:
        raise NewerFormatError(
            f"{file} has {newer}, and this sessiontree reads up to {FORMAT!r}; "
            "the file is unchanged: upgrade sessiontree to open it",
            file,
        )
    return value


def _not_an_object(line: bytes) -> str:
    """What a first line is that does not hold an object, and what helps."""
    text = bare_line(line).strip()
    if line.startswith((b"\xff\xfe", b"\xfe\xff", b"{\0", b"\0{", b"[\0", b"\0[")):
        return "is UTF-16; write the file as UTF-8: iconv -f UTF-16 -t UTF-8"
    if line.startswith(SQLITE):
        return "is a SQLite database; give the file of one session"
    if text.startswith(b"{") and text.endswith(_GOES_ON) and decode_leniently(text) is None:
        return "begins an object over many lines; put each on one line: jq -c ."
    if text.startswith(b"[") and (text.endswith(_GOES_ON) or decode_leniently(text)):
        return "is a list; put each of its objects on a line: jq -c '.[]'"
    what = "is binary" if b"\0" in line[:4096] else "does not start with a JSON object"
    return f"{what}; give a file of sessiontree, or one of another agent that it reads"


_GOES_ON: Final = (b"{", b"[", b",")
"""The ends of a line in which a JSON value goes on."""


def _newer(header: Mapping[str, Any]) -> str | None:
    form, version = header.get("format"), _version_of(header)
    if form is not None:
        return None if form == FORMAT else f"format {form!r}"
    is_known = version == 1 or (version == VERSION and "uuid" in header)
    return None if is_known else f"version {header.get('version')!r}"


def _foreign_program(value: Mapping[str, Any]) -> str | None:
    kind = kind_of(value)
    if kind == "session":
        return _foreign_session(value)
    if value.get("kind") == "header" and "version" in value:
        return "the pi coding agent (version 4)"
    if kind == "session_meta" or (kind == "response_item" and "payload" in value):
        return "Codex"
    if "projectHash" in value and "sessionId" in value:
        return "Gemini CLI"
    is_claude_codes = "sessionId" in value and "isSidechain" in value and bool(kind)
    if is_claude_codes or (kind in _CLAUDE_CODE_LINES and not _CLAUDE_CODE_KEYS.isdisjoint(value)):
        return "Claude Code"
    return None


def _foreign_session(header: Mapping[str, Any]) -> str | None:
    form, version = header.get("format"), _version_of(header)
    if form is not None:
        is_own = isinstance(form, str) and form.startswith("sessiontree/")
        return None if is_own else f"another program (format {form!r})"
    if "uuid" not in header and version is not None and version >= 2:
        return f"the pi coding agent (version {version})"
    return None


LONGEST: Final = 200  # bytes; file systems allow 255, and some that encrypt names 143 characters
_SEPARATOR: Final = "+"
_MARK: Final = "~"
_ESCAPED: Final = frozenset('+%~<>:"|?*\\')  # a meaning in a name, or refused by a file system
_ESCAPE: Final = re.compile(rb"%([0-9a-f]{2})")
_WITH_MARK: Final = re.compile(r"(.*)~[0-9a-f]{8}", re.DOTALL)


def folder_name(directory: str) -> str:
    """The name of the folder with the sessions of a directory, given as an absolute plain path."""
    name = encoded(directory)
    if len(name.encode()) + 9 > LONGEST:
        digest = _sha256(directory)
        return _end_of(name, LONGEST - 1 - len(digest)) + _MARK + digest
    if name != name.lower() or not name.isascii():
        return name + _MARK + _sha256(directory)[:8]
    return name


_CUT: Final = re.compile(r"\+.*~[0-9a-f]{64}", re.DOTALL)


def is_folder_name(name: str) -> bool:
    """True if a name is that of the folder of some directory, cut or not."""
    return directory_of(name) is not None or bool(_CUT.fullmatch(name))


_LONGEST_ID: Final = 150  # bytes
_OWN_NAME: Final = re.compile(r"\d{4}(?:-\d\d){2}T\d\d(?:-\d\d){2}-\d{3}Z_([^/\n]+)\.jsonl")
"""The name of a file that a store made for a session."""


def id_in_name(id: str) -> str:
    """An id as the name of its session's file has it."""
    name = encoded(id)
    if len(name.encode()) <= _LONGEST_ID:
        return name
    return folder_name(os.sep + id)[-_LONGEST_ID:]


def stem_of(file: str) -> str:
    """The name of a session file without its suffix."""
    name = os.path.basename(file)
    ends = (".jsonl.zst", ".jsonl", ".json")
    return next((name.removesuffix(end) for end in ends if name.endswith(end)), name)


def id_of_name(file: str) -> str | None:
    """The id in the name of a file that a store made; None for a file of another name."""
    found = _OWN_NAME.fullmatch(os.path.basename(file))
    return found[1] if found else None


def _sha256(directory: str) -> str:
    import hashlib  # slow to load, and few commands need it

    return hashlib.sha256(os.fsencode(directory)).hexdigest()


def directory_of(name: str) -> str | None:
    """The directory of a folder's name; None where the name does not give all of it."""
    found = _WITH_MARK.fullmatch(name)
    directory = _decoded(found[1] if found else name)
    return directory if os.path.isabs(directory) and folder_name(directory) == name else None


def encoded(text: str) -> str:
    """Text as a part of a file name: readable, and never the same for two texts."""
    return "".join(map(_encoded, text))


def _encoded(character: str) -> str:
    if character == os.sep:
        return _SEPARATOR
    if character.isprintable() and character not in _ESCAPED:
        return character
    return "".join(f"%{byte:02x}" for byte in os.fsencode(character))


def _decoded(name: str) -> str:
    path = name.replace(_SEPARATOR, os.sep).encode("utf-8", "surrogateescape")
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), path))


def _end_of(name: str, size: int) -> str:
    end = name.encode()[1 - size :].decode("utf-8", "ignore")
    return _SEPARATOR + end.lstrip(_SEPARATOR)


KEY: Final = "sessiontree"

ORIGIN_START: Final = b'"%b":{"entry":' % KEY.encode()
"""The bytes with which the origin key of a line starts."""

_SAYS: Final = frozenset(
    {
        *("type", "message", "summary", "content", "subtype", "customType", "data", "display"),
        *("customTitle", "name", "label", "modelId", "provider", "thinkingLevel", "replacement"),
        *("details", "systemMessage", "usage", "payload", "thoughts", "toolCalls"),
        *("$set", "$rewindTo"),
    }
)
"""The keys that the checksum covers, of all formats converted to."""

_canonical: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def origin_at(
    uuid: str, fields: Mapping[str, Any], ids: tuple[str, str] | None = None
) -> dict[str, Any]:
    """The origin key for a line with these fields that stands for an entry; else empty.

    `ids` are those of the conversation and of the file, if they differ.
    """
    says = _checksum(fields)
    if says is None:
        return {}
    both = {} if ids is None else {"session": ids[0], "copy": ids[1]}
    return {KEY: {"entry": uuid, "says": says, **both}}


def origin_of(fields: Mapping[str, Any]) -> str | None:
    """The uuid of the entry that a line stands for; None without an origin, or after a change."""
    origin = fields.get(KEY)
    if not isinstance(origin, dict) or not isinstance(uuid := origin.get("entry"), str):
        return None
    return uuid if origin.get("says") == _checksum(fields) else None


GENERATED: Final = {"isMeta": True}
"""What the origin key of a line says of a message that a program wrote in the user's name."""


def is_of_program(origin: Any) -> bool:
    """True if the value of a line's origin key says that no user typed its message."""
    return isinstance(origin, dict) and origin.get("isMeta") is True


def forked_from(header: Mapping[str, Any]) -> str | None:
    """The id of the session that a session was forked from, given its header; else None.

    For what was translated that is the id that the lists of its agent's own files have.
    """
    for key, name in (("parentSession", "id"), ("metadata", FORKED_FROM)):
        found = header.get(key)
        if isinstance(found, dict) and isinstance(id := found.get(name), str):
            return id
    metadata = header.get("metadata")
    origins = metadata.get(DERIVED_FROM) if isinstance(metadata, dict) else None
    match origins:
        case [str(id)]:
            return id
    return None


def conversation_in(head: bytes, id: str) -> str | None:
    """The id of the conversation that a converted file with another id is of; None for any other.

    Args:
        head: how the file starts.
        id: the file's own id; a fork of the file repeats its lines, and has another one.
    """
    if ORIGIN_START not in head or (found := _IDS.search(head)) is None:
        return None
    conversation, own = map(json.loads, found.groups())
    return str(conversation) if own == id else None


_IDS: Final = re.compile(
    re.escape(ORIGIN_START) + rb'"[^"]*","says":"\w{8}","session":("[^"]*"),"copy":("[^"]*")'
)


def derived_uuid(session_id: str, uuid: str, number: int) -> str:
    """The uuid of the `number`th thing made from an entry in a conversion."""
    from sessiontree.core.migrate import uuid_of_line  # with hashlib, and only for this

    return uuid_of_line(session_id, number, b"made of " + uuid.encode("utf-8", "replace"))


def is_derived(name: str) -> bool:
    """True if a name ends in a uuid that may be from `derived_uuid`; agents make others."""
    return re.search(r"-5[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$", name) is not None


def _checksum(fields: Mapping[str, Any]) -> str | None:
    content = {key: value for key, value in fields.items() if key in _SAYS}
    text = sorted_ascii(content)
    try:
        text = _canonical(content).encode() if text is None else text
    except (ValueError, TypeError, RecursionError):
        return None
    return f"{zlib.crc32(text):08x}"
