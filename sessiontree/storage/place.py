"""A place where sessions are kept that are no files of this machine: memory, a database, a bucket.

An address is a URL. Its path ends with the name of a session, which is like the path of a session
file in a store: `<project>/<timestamp>_<id>.jsonl`. So a session of a store has an address of its
own, and `Session.open` takes it.

A place keeps a log for each session, and contents: runs of bytes by a key, each written whole. The
blobs and the other parts of a session are contents, with keys that begin with its name.

Invariants: an address that is shown has no password; a content is never half there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from sessiontree.errors import StorageError, UsageError
from sessiontree.storage.names import SUFFIX, TRASH

if TYPE_CHECKING:
    from urllib.parse import SplitResult

    from sessiontree.storage.fs import Durability
    from sessiontree.storage.log import BlobLocation, Log
    from sessiontree.text.pattern import Prefilter

SCHEMES: Final = ("postgresql", "s3", "memory")
"""Those of addresses of places; `file` is a path."""

FILE: Final = "file"
"""The scheme of a path."""

SECRETS: Final = (
    "access_key_id",
    "secret_access_key",
    "session_token",
    "password",
    "sslpassword",
)
"""The options of an address that are never shown."""

BLOBS_OPTION: Final = "blobs"
"""The option of version 0.2 with the address where the blobs are kept."""

WAY_HOME: Final = (
    "list its sessions and copy each of them home with version 0.2.0: "
    "pip install sessiontree==0.2.0, then sessiontree copy ADDRESS NEW"
)

START: Final = 4096
"""A search reads so many bytes at the start of a session to know its format."""

LikelyNames = Callable[[Collection[str], "Prefilter", bytes], set[str]]
"""Takes names, what is sought, and a start; gives the names of those sessions that may have a hit.

Such a session has a line with what is sought, or the given start within its first `START` bytes.
"""

_ALIASES: Final = {"postgres": "postgresql"}
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)(://?)")


class StoredSession(NamedTuple):
    """A session in a place: its name, its bytes, and the seconds since 1970 of its last change."""

    name: str
    size: int
    modified: float


class HeadAndTail(NamedTuple):
    """A session in a place with the bytes at its start and at its end, which may overlap."""

    found: StoredSession
    head: bytes
    tail: bytes
    problem: StorageError | None = None  # why the session cannot be read; the bytes are then empty


class StoredContent(NamedTuple):
    """A content: its bytes, and when it was put, in seconds since 1970."""

    size: int
    modified: float


class Place(Protocol):
    """Where sessions are kept. All methods raise a `StorageError` where the place cannot be used.

    Attributes:
        url: its address, without a password.
        forks: whether a forked process can use it.
    """

    @property
    def url(self) -> str: ...
    @property
    def forks(self) -> bool: ...

    def address(self, name: str) -> str:
        """The address of a session, without a password, also the name of its log."""

    def name(self, address: str) -> str:
        """The name in an address of this place."""

    def log(self, name: str, *, readonly: bool = False, durability: Durability = "fsync") -> Log:
        """Open the log of a session.

        Raises:
            SessionNotFoundError: there is none of this name.
        """

    def blobs(self, name: str) -> BlobLocation:
        """Where the blobs of a session are kept, which need not be there."""

    def beside(self, name: str) -> Iterator[tuple[str, int]]:
        """The names of all that is kept beside a session, blobs included, each with its bytes."""

    def create(self, name: str, blocks: Iterable[bytes]) -> None:
        """Make a session with this content, in one step.

        Raises:
            SessionExistsError: there is one of this name.
        """

    def find(self, name: str) -> StoredSession | None:
        """The session of a name, or None."""

    def list(self, prefix: str = "") -> Iterator[StoredSession]:
        """The sessions whose names begin with a text, in no fixed order, also damaged ones."""

    def ends(self, prefix: str, head: int, tail: int) -> Iterator[HeadAndTail]:
        """The same sessions, with up to so many bytes at their starts and ends."""

    @property
    def likely(self) -> LikelyNames | None:
        """Finds sessions to search where the server searches them; None where no server does."""

    def move(self, source: str, target: str) -> None:
        """Give a session another name, with all that is kept beside it.

        Raises:
            SessionNotFoundError: there is none of this name.
            SessionExistsError: the other name is taken.
            SessionBusyError: an exclusive writer holds the session.
        """

    def remove(self, name: str) -> None:
        """Remove a session for good, with all that is kept beside it.

        Raises:
            SessionNotFoundError: there is none of this name.
            SessionBusyError: an exclusive writer holds the session.
        """

    def close(self) -> None:
        """Close the connections; they open again when they are needed."""


class Address(NamedTuple):
    """A URL of a place, and a session's name or the start of names in it; both may be empty."""

    scheme: str  # one of `SCHEMES`
    base: str  # the URL up to the database or the bucket, as given, with its password
    name: str  # the rest of the path, without the slash in front
    options: tuple[tuple[str, str], ...]  # the options behind the question mark

    @property
    def shown(self) -> str:
        """The base without a password."""
        return without_password(self.base)

    @property
    def shown_options(self) -> tuple[tuple[str, str], ...]:
        """The options without those that are secret."""
        return tuple((key, value) for key, value in self.options if key not in SECRETS)


def address_of(base: str, name: str, options: tuple[tuple[str, str], ...] = ()) -> str:
    """The address of a session, or of the start of names: the inverse of `address`."""
    from urllib.parse import quote, urlencode

    path = "/" + quote(name, safe="/+~,@=") if name else ""
    query = f"?{urlencode(options)}" if options else ""
    return f"{base}{path}{query}"


def shown_address(url: str) -> str:
    """An address without its password and its other secrets, which can be taken apart again."""
    try:
        found = address(url)
    except UsageError:
        return without_secret(url)
    return address_of(found.shown, found.name, found.shown_options)


def name_in(url: str) -> str:
    """The name in an address, or the start of names."""
    return address(url).name


def is_address(text: str) -> bool:
    """Whether a text is a URL of a place, and not a path.

    Raises:
        UsageError: it is a URL of something else, or the URL of a place with a slip.
    """
    if names_place(text):
        return True
    if ":/" in text:
        _check_path(text)
    return False


def names_place(text: str) -> bool:
    """Whether a text begins as the URL of a place; any other text is none."""
    scheme, colon, _ = text.partition("://")
    return bool(colon) and (scheme in SCHEMES or scheme in _ALIASES)


def is_url(text: str) -> bool:
    """Whether a text begins as a URL, of whatever scheme."""
    return _URL.match(text) is not None


def _check_path(text: str) -> None:
    """Refuse as a path what begins as a URL, so that no folder is made of a wrong address."""
    found = _URL.match(text)
    if found is None or found[0] == f"{FILE}://":
        return
    scheme, known = found[1], found[1].lower()
    if known in (*SCHEMES, *_ALIASES, FILE):
        rest = text[found.end() :].lstrip("/")
        meant = f"{FILE}:///{rest}" if known == FILE else without_secret(f"{known}://{rest}")
        raise UsageError(
            f"an address does not begin with {found[0]}; write {meant}, or ./ before a path"
        )
    if found[2] == "://":
        raise UsageError(
            f"{without_secret(text.partition('?')[0])} has the unknown scheme {scheme}; there are "
            f"{', '.join(SCHEMES)} and {FILE}; write ./ before a path"
        )


def is_session_address(text: str) -> bool:
    """Whether a text is the address of one session, by its name; nothing looks whether it is there.

    Any other address is that of a store.
    """
    return is_address(text) and name_in(text).rstrip("/").endswith(SUFFIX)


def whole_path(file: str) -> str:
    """The absolute path of a session, or its address."""
    return file if is_address(file) else os.path.abspath(file)


def path_of(text: str) -> str:
    """The path that a path or a `file` URL names.

    Raises:
        UsageError: it names a file of another machine, or has options.
    """
    if not text.startswith("file://"):
        return text
    from urllib.parse import unquote, urlsplit  # few sessions have an address

    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise UsageError(f"{text} names a file of another machine; write file:///path")
    if parts.query:
        raise UsageError(
            f"{without_secret(text)} has options, and a file has none: blobs are beside it; write "
            "%3F for a question mark in a name"
        )
    return unquote(parts.path)


def without_password(url: str) -> str:
    """A URL without its password."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if parts.password is None:
        return url
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}@{host}").geturl()


def address(url: str) -> Address:
    """Take a URL apart.

    Raises:
        UsageError: it is not the URL of a place, or keeps its blobs at another one.
    """
    from urllib.parse import parse_qsl, unquote

    parts = _split(url)
    scheme = _ALIASES.get(parts.scheme, parts.scheme)
    path = parts.path.lstrip("/")
    if scheme == "postgresql":  # the first part of the path is the database
        database, _, path = path.partition("/")
        base = f"{scheme}://{parts.netloc}/{database}"
    else:
        base = f"{scheme}://{parts.netloc}"
    options = tuple(parse_qsl(parts.query, keep_blank_values=True))
    if any(key == BLOBS_OPTION for key, _ in options):
        raise UsageError(
            f"{without_password(base)}/{path} has the option {BLOBS_OPTION}, which only version "
            f"0.2 has; {WAY_HOME}"
        )
    return Address(scheme, base, unquote(path), options)


def _split(url: str) -> SplitResult:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        for host in parts.netloc.rpartition("@")[2].split(","):  # PostgreSQL takes several
            _ = urlsplit(f"//{host}").port
    except ValueError as error:
        raise UsageError(f"{without_secret(url)} is not a URL: {error}") from None
    if not names_place(url):
        is_address(url)  # says what is wrong with it
        raise UsageError(f"{without_secret(url)} is not the address of a place of sessions")
    return parts


def without_secret(url: str) -> str:
    """A text that may be a URL, without what may be its password."""
    scheme, colon, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    host, question, query = host.partition("?")
    hidden = (*SECRETS, BLOBS_OPTION)  # the address of the blobs has secrets of its own
    options = [each for each in query.split("&") if each.partition("=")[0] not in hidden]
    mark = question if options else ""
    return f"{scheme}{colon}{user.partition(':')[0]}{at}{host}{mark}{'&'.join(options)}"


@contextlib.contextmanager
def missing_library(extra: str) -> Iterator[None]:
    """Tell which extra has a library that cannot be imported."""
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"this address needs a library that is not installed ({error}); install it with: "
            f'pip install "sessiontree[{extra}]"'
        ) from error


def no_session(name: str, where: str) -> str:
    """What is wrong where a place has no session of a name."""
    return f"there is no session {name} in {where}; check the address"


def check_name(name: str, where: str) -> str:
    """Return a name that a session can have.

    Raises:
        StorageError: no session can have it.
    """
    if not name or "\0" in name or any(part in ("", ".", "..") for part in name.split("/")):
        raise StorageError(
            f"{name!r} is not the name of a session in {where}; its address ends in "
            "/PROJECT/NAME.jsonl",
            name,
        )
    return name


def check_new_address(file: str, *, exclusive: bool = False) -> None:
    """Refuse an address for a new session that no list of sessions would have.

    Raises:
        UsageError: it does not end in `.jsonl`, or is in the trash; or no session there can be
            exclusive.
    """
    found, shown = address(file), shown_address(file)
    if not found.name.rstrip("/").endswith(SUFFIX):
        raise UsageError(
            f"{shown} is not the address of a session, which ends in /PROJECT/NAME.jsonl"
        )
    check_no_trash(shown, found.name)
    if exclusive and found.scheme == "s3":
        raise never_exclusive(shown)


def never_exclusive(shown: str) -> UsageError:
    """The error for an exclusive session in a bucket."""
    return UsageError(
        f"{shown} is in a bucket, which keeps no other program out; leave 'exclusive' out: writers "
        "never overwrite each other's entries"
    )


def check_no_trash(shown: str, name: str) -> None:
    """Refuse an address in the trash for a new session: what is there has been a session before.

    Raises:
        UsageError: it is in the trash.
    """
    if TRASH in name.split("/")[:-1]:
        raise UsageError(
            f"{shown} is in the trash, where no new session is made; choose a name "
            f"without the folder {TRASH}"
        )
