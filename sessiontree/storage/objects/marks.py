"""Marks: small objects at the end of a log on object storage that say who may go on there.

A mark stands where the next block would, so it is in the way of every other writer. It has a fixed
size, which no listing needs to look into: only an object of exactly this size can be one.

- A `claim` says that a writer holds the end; `kept` that it does so until it closes the log.
- `free` is a claim that was given up. Nothing is ever deleted at the end of a log, because no
  server deletes on a condition.
- A `barrier` ends a generation and names the next one; it stays.
- `removed` and `moved` end a log for good; they stay.

Invariant: no two marks have the same bytes, so their etags differ.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import socket
from functools import lru_cache
from typing import Final

import msgspec

from sessiontree.storage.objects.bucket import Got

SIZE: Final = 512
"""The bytes of a mark."""

_MAGIC: Final = b"\0sessiontree mark 1\n"


class Mark(msgspec.Struct, frozen=True):
    """What a mark says."""

    kind: str  # see the module
    next: str = ""  # the generation that a barrier names, or that a moved log has at its new place
    kept: bool = False  # whether the owner keeps the log until it closes it
    user: str = ""  # the owner's name
    host: str = ""  # the owner's host
    pid: int = 0  # the owner's process
    machine: str = ""  # names the host until it starts again, and the owner's view of its processes
    began: str = ""  # when the process began, as its system counts
    count: int = 0  # how often the owner renewed it
    token: str = ""  # makes the bytes unlike those of all other marks

    @property
    def ends(self) -> bool:
        """Whether nothing is ever appended behind it."""
        return self.kind in ("barrier", "removed", "moved")

    @property
    def owner(self) -> str:
        """Who made it, in words."""
        return f"{self.user} (process {self.pid} on {self.host})"

    def encoded(self) -> bytes:
        """The bytes of the object."""
        return (_MAGIC + msgspec.json.encode(self)).ljust(SIZE - 1) + b"\n"


def claim(*, kept: bool, count: int) -> Mark:
    """A claim of this process."""
    return _mark("claim", kept=kept, count=count)


def free() -> Mark:
    """What takes the place of a claim that is given up."""
    return _mark("free")


def end(kind: str, next: str = "") -> Mark:
    """What ends a log: `barrier`, `removed` or `moved`."""
    return _mark(kind, next=next)


def _mark(kind: str, *, next: str = "", kept: bool = False, count: int = 0) -> Mark:
    user, host, machine = _self()
    pid = os.getpid()
    token = secrets.token_hex(8)
    return Mark(kind, next, kept, user, host, pid, machine, _began(pid), count, token)


def mark_in(got: Got) -> Mark | None:
    """The mark that an object is; None for a block.

    A block names its writer, a mark does not; so a block that begins like a mark is none.
    """
    if got.size != SIZE or got.by or not got.content.startswith(_MAGIC):
        return None
    try:
        return msgspec.json.decode(got.content[len(_MAGIC) :], type=Mark)
    except msgspec.MsgspecError:
        return None


def fate(mark: Mark) -> str:
    """What became of the owner: `alive`, `dead`, or empty if it cannot be seen from here."""
    if not mark.machine or mark.machine != _self()[2]:
        return ""
    began = _began(mark.pid)
    if not began:
        return "dead"
    return "alive" if began == mark.began else "dead"


@lru_cache(maxsize=1)
def _self() -> tuple[str, str, str]:
    user = "somebody"
    with contextlib.suppress(Exception):  # a container may know no name
        user = getpass.getuser()
    machine = ""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        machine = f"{file.read().strip()}-{os.stat('/proc/self/ns/pid').st_ino}"
    return user[:40], socket.gethostname()[:60], machine


def _began(pid: int) -> str:
    """When a process began; empty if there is none, or if the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in (b"Z", b"X") else fields[19].decode()
