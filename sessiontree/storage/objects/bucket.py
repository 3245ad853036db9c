"""The calls to object storage: each is one request, with the errors of the library made ours.

A request that was refused wrote nothing, and raises `PreconditionFailed` or a `StorageError`. A
write whose answer was lost raises `OutcomeUnknown`: its object may be there, or may still arrive.
The library itself repeats requests that the server refused for the moment (503), and reads that
failed.

Invariants: no message has a credential in it; a forked process sends nothing.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from sessiontree.errors import StorageError, UsageError
from sessiontree.storage.place import Address, missing_library, without_secret

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PAGE: Final = 1000
"""The keys that a server lists in one answer."""

_PART: Final = 8 * 1024 * 1024
"""The bytes of a part of an upload."""

_TRIES: Final = 6
_PAUSE: Final = 0.05

T = TypeVar("T")


class PreconditionFailed(Exception):
    """The object is not as the writer took it to be; nothing was written."""


class RequestFailed(StorageError):
    """A request that the server refused, or that got no answer; it says nothing of a session."""


class OutcomeUnknown(Exception):
    """The answer to a write was lost: it may stand, not stand, or arrive later."""

    def __init__(self, why: str = "", step: str = "") -> None:
        super().__init__(why)
        self.step = step  # what to do about it


class ObjectInfo(NamedTuple):
    """An object as a listing has it; `modified` counts from 1970, by the server's clock."""

    key: str
    size: int
    etag: str
    modified: float


class ObjectRange(NamedTuple):
    """Bytes of an object."""

    content: bytes  # the bytes that were asked for
    size: int  # the bytes of the whole object
    etag: str  # names the version of the object
    by: str  # who wrote it, as given to the write; empty if nothing was
    modified: float  # when, as in `ObjectInfo`


OPTIONS: Final = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
"""Options of an address that the library takes."""


def open_store(address: Address) -> ObjectStore:
    """The store of the bucket of an address; what it does not say comes from the environment.

    Raises:
        UsageError: the address has an option that is not known, or no bucket, or only one of the
            two credentials is set.
    """
    with missing_library("objects"):
        from obstore import exceptions
        from obstore.store import S3Store
    given = dict(address.options)
    timeout = given.pop("timeout", "30")
    if unknown := sorted(set(given) - set(OPTIONS)):
        raise UsageError(
            f"{address.shown}: there is no option {unknown[0]}; there are: "
            f"{', '.join((*OPTIONS, 'timeout'))}"
        )
    bucket = address.base.partition("://")[2]
    if not bucket or "@" in bucket:
        raise UsageError(f"{address.shown} names no bucket; write s3://bucket/prefix")
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(
            f"{bucket!r} in {address.shown} is not the name of a bucket; it has letters, digits, "
            "dots and hyphens"
        )
    if not re.fullmatch(r"[0-9]{1,4}", timeout):
        raise UsageError(f"{address.shown}: the timeout is a number of seconds, not {timeout!r}")
    endpoint = _endpoint(given.pop("endpoint", ""), address.shown)
    _check_values(given, address.shown)
    options: dict[str, Any] = {key: value for key, value in given.items() if value}
    if endpoint:  # by the name that comes before all others
        options["aws_endpoint_url_s3"] = endpoint
    try:
        return S3Store(
            bucket,
            client_options={
                "allow_http": endpoint.startswith("http://"),
                "timeout": timedelta(seconds=int(timeout)),
            },
            retry_config={"max_retries": 6, "retry_timeout": timedelta(seconds=2 * int(timeout))},
            **options,
        )
    except exceptions.BaseError as error:
        raise _not_opened(address.shown, error) from error


_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_REGION: Final = re.compile(r"[A-Za-z0-9-]*")
_URL: Final = re.compile(
    r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?(/[A-Za-z0-9._~/-]*)?"
)
"""What the library makes valid requests of: at any other URL it ends with a fault of its own."""

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""The variables that name a server; the first that is set counts."""


def _endpoint(given: str, shown: str) -> str:
    """The URL of the server of an address; empty for AWS.

    Raises:
        UsageError: it is not an http or https URL.
    """
    named = [
        ("the option endpoint", given),
        *((each, os.environ.get(each, "")) for each in _ENDPOINTS),
    ]
    where, endpoint = next((one for one in named if one[1]), ("", ""))
    if not endpoint:
        return ""
    found = _URL.fullmatch(endpoint)
    if found is None or int(found["port"] or 1) not in range(1, 65536):
        raise UsageError(
            f"{shown}: {where} is not the URL of a server: {without_secret(endpoint)}; write it as "
            "http://host:port or https://host"
        )
    return endpoint


def _check_values(options: Mapping[str, str], shown: str) -> None:
    """Check what goes into each request, and would end the library with a fault of its own.

    Raises:
        UsageError: a region or a credential has a character that none can have.
    """
    for option, variables in _VARIABLES.items():
        named = [(f"the option {option}", options.get(option, ""))]
        named += [(each, os.environ.get(each, "")) for each in variables]
        for where, value in named:
            if option == "region" and not _REGION.fullmatch(value):
                raise UsageError(f"{shown}: {where} is not a region, such as eu-central-1")
            if not (value.isascii() and value.isprintable()):
                raise UsageError(
                    f"{shown}: {where} has a character that no credential has, such as the end of "
                    "a line; remove it"
                )


_VARIABLES: Final = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
"""The options that go into each request, and the variables that stand in for them."""


def _not_opened(shown: str, error: Exception) -> UsageError:
    """The error for what the library does not open."""
    missing = re.search(r"Missing(AccessKeyId|SecretAccessKey)", str(error))
    if missing is None:
        return UsageError(f"{shown} cannot be opened: {_cause(error)}; check the variables AWS_…")
    names = ("an access key id", "a secret access key")
    given, absent = names if missing[1] == "SecretAccessKey" else reversed(names)
    return UsageError(
        f"{shown}: {given} is given without {absent}; set both AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY"
    )


class Bucket:
    """The objects of a bucket.

    Args:
        url: the address of the bucket, without a password.
        store: the store of the library.
    """

    def __init__(self, url: str, store: ObjectStore) -> None:
        self.url = url
        self.requests: Counter[str] = Counter()  # how many requests of each kind were sent
        self._store = store
        self._lock = threading.Lock()

    def _sending(self, kind: str) -> ObjectStore:
        """Count a request, and return the store to send it to."""
        if _is_forked:
            raise UsageError(
                f"{self.url} was used before this process was forked, and object storage does not "
                'work in a forked process; start processes with "spawn" or "forkserver"'
            )
        global _is_used
        _is_used = True
        with self._lock:
            self.requests[kind] += 1
        return self._store

    def create(self, key: str, content: bytes, by: str = "") -> str:
        """Make an object unless there is one; return its etag.

        Raises:
            Taken: there is one.
            Unsure: the answer was lost.
        """
        return self._put(key, content, "create", by)

    def replace(self, key: str, content: bytes, etag: str, by: str = "") -> str:
        """Write an object if it still is the version `etag`; raises as `create` does."""
        return self._put(key, content, {"e_tag": etag}, by)

    def write(self, key: str, content: bytes, by: str = "") -> str:
        """Make or replace an object; raises as `create` does, but for `PreconditionFailed`."""
        return self._put(key, content, "overwrite", by)

    def _put(self, key: str, content: bytes, mode: Any, by: str) -> str:
        import obstore
        from obstore import exceptions

        store = self._sending("put")
        attributes = {"by": by} if by else None
        try:
            done = obstore.put(
                store, key, content, mode=mode, attributes=attributes, use_multipart=False
            )
        except (exceptions.AlreadyExistsError, exceptions.PreconditionError) as error:
            raise PreconditionFailed from error
        except FileNotFoundError as error:
            if mode in ("create", "overwrite"):
                raise self._failed("write", key, error) from error
            raise PreconditionFailed from error  # the version to replace is gone
        except Exception as error:
            if _is_conflict(error):
                raise PreconditionFailed from error
            if _is_definite(error):
                raise self._failed("write", key, error) from error
            raise OutcomeUnknown(_cause(error), _step(error)) from error
        return done["e_tag"] or ""

    def get(self, key: str, start: int = 0, end: int | None = None) -> ObjectRange:
        """Read an object, or its bytes from `start` to `end`.

        A range that begins behind the end of the object is empty.

        Raises:
            FileNotFoundError: there is none.
        """
        import obstore

        store = self._sending("get")
        try:
            got = obstore.get(store, key, options={} if end is None else {"range": (start, end)})
            content = bytes(got.bytes())
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error) or _is_of_another_server(error):
                raise self._failed("read", key, error) from error
            raise
        except Exception as error:
            if end is not None and _is_behind(error):
                return ObjectRange(b"", 0, "", "", 0.0)
            raise self._failed("read", key, error) from error
        found = got.meta
        attributes: Mapping[str, str] = got.attributes
        by = attributes.get("by", "")
        return ObjectRange(content, found["size"], found["e_tag"] or "", by, _seconds(found))

    def head(self, key: str) -> ObjectInfo | None:
        """What there is at a key, without its bytes."""
        import obstore

        store = self._sending("head")
        try:
            return _stored(obstore.head(store, key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._failed("look at", key, error) from error

    def list(self, folder: str, after: str = "") -> Iterator[ObjectInfo]:
        """The objects below a folder whose keys come after one, in the order of the keys."""
        import obstore

        store = self._sending("list")
        try:
            is_first = True
            for page in obstore.list(
                store, prefix=folder or None, offset=after or None, chunk_size=PAGE
            ):
                if not is_first:
                    self._sending("list")
                is_first = False
                yield from map(_stored, page)
        except Exception as error:
            raise self._failed("list", folder, error) from error

    def copy(self, source: str, target: str) -> None:
        """Make or replace an object with the bytes of another, on the server.

        Raises:
            FileNotFoundError: there is no such object.
        """
        import obstore

        store = self._sending("copy")
        try:
            obstore.copy(store, source, target)
        except FileNotFoundError:
            raise
        except Exception as error:
            raise self._failed("copy", source, error) from error

    def remove(self, keys: Iterable[str]) -> None:
        """Remove objects, those that are there."""
        import obstore

        for each in keys:
            store = self._sending("delete")
            try:
                obstore.delete(store, each)
            except FileNotFoundError:
                continue
            except Exception as error:
                raise self._failed("remove", each, error) from error

    def upload(self, key: str, source: IO[bytes]) -> None:
        """Make or replace an object with the rest of a file, part by part where it is long."""
        import obstore

        store = self._sending("put")
        try:
            first = source.read(_PART)
            more = source.read(1) if len(first) == _PART else b""
            if more:
                parts = _parts(first, more, source)
                obstore.put(store, key, parts, chunk_size=_PART, max_concurrency=4)
            else:
                obstore.put(store, key, first, use_multipart=False)
        except Exception as error:
            raise self._failed("write", key, error) from error

    def _failed(self, verb: str, key: str, error: Exception) -> StorageError:
        if isinstance(error, StorageError):
            return error
        where = f"{self.url}/{key}"
        return RequestFailed(f"cannot {verb} {where}: {_cause(error)}; {_step(error)}", where)


def surely(write: Callable[[], T]) -> T:
    """Write what may be written twice, until an answer says that it stands.

    Raises:
        StorageError: no answer came.
    """
    for attempt in range(_TRIES):
        try:
            return write()
        except OutcomeUnknown as error:
            why = f"{error}; {error.step}"
            time.sleep(_PAUSE * 2**attempt)
    raise StorageError(f"cannot write to the object storage: {why}", "")


def _parts(first: bytes, more: bytes, source: IO[bytes]) -> Iterator[bytes]:
    yield first
    block = more + source.read(_PART - 1)
    while block:
        yield block
        block = source.read(_PART)


def _seconds(found: Any) -> float:
    return float(found["last_modified"].timestamp())


def _stored(found: Any) -> ObjectInfo:
    return ObjectInfo(found["path"], found["size"], found["e_tag"] or "", _seconds(found))


_CODE: Final = re.compile(r"<Code>([^<]{1,80})</Code>")
_STATUS: Final = re.compile(r"status code: (\d{3})")
_WIRE: Final = re.compile(r"HTTP error: ([^\n]{1,200})")
_SERVER: Final = re.compile(r"Error performing [A-Z]+ (https?://[^/?\s]+)")
_ROLES: Final = ("http://169.254.169.254", "http://169.254.170.2", "http://[fd00:ec2::254]")
"""Where the library asks for the credentials of a machine of AWS, if no others are set."""


def _code(error: Exception) -> str:
    found = _CODE.search(str(error))
    return found[1] if found else ""


def _status(error: Exception) -> int:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else 0


def _cause(error: Exception) -> str:
    """What went wrong, in a few words: what the server says may have an access key in it."""
    if _is_without_credentials(error):
        return "no credentials are set"
    if code := _code(error) or (f"status {status}" if (status := _status(error)) else ""):
        return f"the server answered {code}"
    found = _WIRE.search(str(error))
    if found is None:
        return str(error).partition("\n")[0][:200]
    if "kind: Timeout" in str(error):
        return f"{_server(error)} did not answer in time"
    if "kind: Connect" in str(error):
        return f"cannot connect to {_server(error)}"
    return f"{found[1]} ({_server(error)})"


def _server(error: Exception) -> str:
    """The URL of the server that a request went to."""
    found = _SERVER.search(str(error))
    return found[1] if found else "the server"


def _is_without_credentials(error: Exception) -> bool:
    """Whether the request was not sent, because no credentials were found for it."""
    return _server(error) in _ROLES


def _is_of_another_server(error: Exception) -> bool:
    """Whether a server says that there is no such page, and not, as S3 does, no such object."""
    return _status(error) == 404 and not _code(error)


def _step(error: Exception) -> str:
    if _is_without_credentials(error):
        return "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if _is_full(error):
        return "the storage is full; make room in it, or have its limit raised"
    if _code(error) == "EntityTooLarge" or _status(error) == 413:
        return "the server refuses an object of this size; raise its limit, or use another server"
    if _status(error) in (401, 403):
        return "check the credentials and what they may do in the bucket"
    if _code(error) == "NoSuchBucket":
        return "make the bucket, or check the address"
    if _status(error) in (429, 503):
        return "the server is overloaded; try again later"
    return "check the endpoint and the network, and try again"


def _is_full(error: Exception) -> bool:
    """Whether a server has no room left, or not for this user."""
    return _status(error) == 507 or any(word in _code(error) for word in _FULL)


_FULL: Final = ("StorageFull", "QuotaExceeded")
"""In the codes of servers without room: `XMinioStorageFull`, `XMinioAdminBucketQuotaExceeded`."""


def _is_definite(error: Exception) -> bool:
    """Whether the server refused a write, so that it was not done, or it was not sent."""
    return _is_without_credentials(error) or (400 <= _status(error) < 500 and _status(error) != 408)


def _is_conflict(error: Exception) -> bool:
    """Whether another write to the same key was under way; S3 asks to look again then."""
    return _status(error) in (409, 412)


def _is_behind(error: Exception) -> bool:
    return _status(error) == 416 or "StartTooLarge" in str(error)


_is_used = False
_is_forked = False


def _note_fork() -> None:
    global _is_forked
    _is_forked = _is_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
