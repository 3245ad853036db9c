"""Structures that a hostile or broken program may write, each at a size asked for.

Each builder writes one session file of about `size` bytes into a folder, maybe with files beside
it, and returns its path. Most lines have no checksum: without it, more of them fit in a file.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from sessiontree.core import limits

Build = Callable[[Path, int], Path]
Lines = Callable[[int], Iterable[bytes]]

STRUCTURES: Final[dict[str, Build]] = {}
"""Files of this library's own format, by name."""

FOREIGN: Final[dict[str, Build]] = {}
"""Files of other agents, by name."""

HEADER: Final = (
    b'{"type":"session","version":2,"format":"sessiontree/2","uuid":"h","parentUuid":null,'
    b'"id":"hostile","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/work"}'
)
_FOLD: Final = '"role":"user","content":"x"'


def own(lines: Lines) -> Lines:
    """Register lines as a session: the header before them, each ended by LF."""
    name = lines.__name__.strip("_")

    def build(folder: Path, size: int) -> Path:
        return _written(folder / f"{name}.jsonl", [HEADER, *lines(size)])

    STRUCTURES[name] = build
    return lines


def bare(lines: Lines) -> Lines:
    """Register lines as a whole file of our own, without a header of the corpus."""
    name = lines.__name__.strip("_")
    STRUCTURES[name] = lambda folder, size: _written(folder / f"{name}.jsonl", lines(size))
    return lines


def foreign(lines: Lines) -> Lines:
    """Register lines as a file of another agent."""
    name = lines.__name__.strip("_")
    FOREIGN[name] = lambda folder, size: _written(folder / f"{name}.jsonl", lines(size))
    return lines


def _written(file: Path, lines: Iterable[bytes]) -> Path:
    with file.open("wb") as out:
        out.writelines(part for line in lines for part in (line, b"\n"))
    return file


def entry(kind: str, uuid: str, parent: str | None, /, **fields: Any) -> bytes:
    keys = {"type": kind, "uuid": uuid, "parentUuid": parent, **fields}
    return json.dumps(keys, separators=(",", ":")).encode()


def said(uuid: str, parent: str | None, content: Any = "x", role: str = "user") -> bytes:
    return entry("message", uuid, parent, message={"role": role, "content": content})


def short(uuid: str, parent: str, lane: str | None = None) -> bytes:
    """The same as `said`, made faster."""
    on = f'"lane":"{lane}",' if lane else ""
    return (
        f'{{"type":"message","uuid":"{uuid}","parentUuid":"{parent}",{on}"message":{{{_FOLD}}}}}'
    ).encode()


def count(size: int, of_each: bytes | int) -> int:
    """How many of these fit."""
    return max(3, size // (of_each if isinstance(of_each, int) else len(of_each) + 5))


def chain(n: int, prefix: str = "a", above: str = "h", lane: str | None = None) -> Iterator[bytes]:
    for i in range(n):
        yield short(f"{prefix}{i}", f"{prefix}{i - 1}" if i else above, lane)


_EACH: Final = len(short("a10000", "a10000")) + 1


# --- the shape of the tree -------------------------------------------------------------------


@own
def deep_chain(size: int) -> Iterable[bytes]:
    return chain(size // _EACH)


@own
def star(size: int) -> Iterable[bytes]:
    return (short(f"a{i}", "h") for i in range(size // _EACH))


@own
def star_at_the_end(size: int) -> Iterable[bytes]:
    half = size // _EACH // 2
    yield from chain(half)
    for i in range(half):
        yield short(f"b{i}", f"a{half - 1}")


@own
def star_below_usage(size: int) -> Iterable[bytes]:
    """Branches that each go back over many entries without a message."""
    half = size // (2 * _EACH)
    for i in range(half):
        yield entry("usage", f"a{i}", f"a{i - 1}" if i else "h", usage={"input": 1})
    for i in range(half):
        yield said(f"b{i}", f"a{half - 1}", role="assistant" if i % 2 else "user")


@own
def comb(size: int) -> Iterable[bytes]:
    for i in range(size // _EACH // 2):
        yield short(f"a{i}", f"a{i - 1}" if i else "h")
        yield short(f"b{i}", f"a{i}")


@own
def comb_of_long_teeth(size: int) -> Iterable[bytes]:
    side = int((size / _EACH) ** 0.5)
    yield from chain(side)
    for i in range(side):
        yield from chain(side - 1, f"t{i}x", f"a{i}")


@own
def binary_tree(size: int) -> Iterable[bytes]:
    for i in range(1, size // _EACH):
        yield short(f"a{i}", f"a{i // 2}" if i > 1 else "h")


@own
def interleaved_chains(size: int) -> Iterable[bytes]:
    n, apart = size // _EACH, max(2, size // _EACH // 4)
    for i in range(n):
        yield short(f"a{i}", f"a{i - apart}" if i >= apart else "h")


@own
def random_tree(size: int) -> Iterable[bytes]:
    chance = random.Random(5)
    for i in range(size // _EACH):
        yield short(f"a{i}", f"a{chance.randrange(i)}" if i else "h")


@own
def random_order(size: int) -> Iterable[bytes]:
    lines = list(chain(size // _EACH))
    random.Random(5).shuffle(lines)
    return lines


@own
def reversed_chain(size: int) -> Iterable[bytes]:
    return reversed(list(chain(size // _EACH)))


@own
def short_cycles(size: int) -> Iterable[bytes]:
    for i in range(size // _EACH // 2):
        yield short(f"a{i}", f"b{i}")
        yield short(f"b{i}", f"a{i}")


@own
def long_cycle(size: int) -> Iterable[bytes]:
    n = size // _EACH
    return (short(f"a{i}", f"a{(i + 1) % n}") for i in range(n))


@own
def own_parents(size: int) -> Iterable[bytes]:
    return (short(f"a{i}", f"a{i}") for i in range(size // _EACH))


@own
def missing_parents(size: int) -> Iterable[bytes]:
    return (short(f"a{i}", f"m{i}") for i in range(size // _EACH))


@own
def one_missing_parent(size: int) -> Iterable[bytes]:
    return (short(f"a{i}", "gone") for i in range(size // _EACH))


@own
def no_parents(size: int) -> Iterable[bytes]:
    return (entry("message", f"a{i}", None, message={}) for i in range(size // 70))


@own
def one_uuid(size: int) -> Iterable[bytes]:
    return (short("a", "h") for _ in range(size // _EACH))


@own
def one_uuid_below_itself(size: int) -> Iterable[bytes]:
    return (short("a", "a" if i else "h") for i in range(size // _EACH))


@own
def each_uuid_twice(size: int) -> Iterable[bytes]:
    half = size // _EACH // 2
    yield from chain(half)
    yield from chain(half)


@own
def two_uuids(size: int) -> Iterable[bytes]:
    for i in range(size // _EACH):
        yield short("ab"[i % 2], "ba"[i % 2] if i else "h")


@own
def escaped_uuids(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 10)):
        yield short(f"\\u0061{i}", f"a{i - 1}" if i else "h")


@own
def long_uuids(size: int) -> Iterable[bytes]:
    long = "u" * 4000
    for i in range(size // 8100):
        yield short(f"{long}{i}", f"{long}{i - 1}" if i else "h")


@own
def two_huge_uuids(size: int) -> Iterable[bytes]:
    yield short("u" * (size // 3), "h")
    yield short("v" * (size // 3), "u" * (size // 3))


@own
def decoys(size: int) -> Iterable[bytes]:
    """The uuid of each parent stands in all lines between it and its child."""
    wide = 20
    each = _EACH + wide * 10
    for i in range(size // each):
        names = [f"a{j}" for j in range(max(0, i - wide), i)]
        yield said(f"a{i}", f"a{i // 2}" if i else "h", [{"type": "text", "text": "", "q": names}])


@own
def decoys_of_one(size: int) -> Iterable[bytes]:
    """A far parent, and its quoted uuid in each line between, many times over."""
    yield short("far", "h")
    n = size // (_EACH + 12)
    for i in range(n):
        yield entry("message", f"a{i}", "far", message={"role": "user", "content": "x"}, q="far")


@own
def second_headers(size: int) -> Iterable[bytes]:
    return (HEADER for _ in range(size // len(HEADER)))


@own
def headers_with_uuids(size: int) -> Iterable[bytes]:
    for i in range(size // len(HEADER)):
        yield HEADER.replace(b'"uuid":"h"', b'"uuid":"h%d"' % i)


@own
def code_fences(size: int) -> Iterable[bytes]:
    """Much code in languages whose lexers elsewhere take the square of its length."""
    languages = ("python", "js", "ts", "css", "csharp", "sh", "html", "toml")
    texts = ("1;" * 230, "a\n" * 150, '\\"' * 110, " \n" * 150, "a= " * 150)
    for i in range(size // 650):
        fence = f"```{languages[i % 8]}\n{texts[i % 5]}{i}\n```"
        yield said(f"a{i}", f"a{i - 1}" if i else "h", fence, "assistant")


# --- lanes -----------------------------------------------------------------------------------


@own
def lanes(size: int) -> Iterable[bytes]:
    return (short(f"a{i}", "h", f"l{i}") for i in range(size // (_EACH + 16)))


@own
def lanes_in_a_row(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 16)):
        yield short(f"a{i}", f"a{i - 1}" if i else "h", f"l{i}")


@own
def lanes_off_a_chain(size: int) -> Iterable[bytes]:
    for i in range(size // (2 * _EACH + 16)):
        yield short(f"a{i}", f"a{i - 1}" if i else "h")
        yield short(f"b{i}", f"a{i}", f"l{i}")


@own
def lanes_at_the_bottom(size: int) -> Iterable[bytes]:
    half = size // (2 * _EACH + 16)
    yield from chain(half)
    for i in range(half):
        yield short(f"b{i}", f"a{half - 1}", f"l{i}")


@own
def two_lanes_in_turn(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 11)):
        yield short(f"a{i}", f"a{i - 1}" if i else "h", "one" if i % 2 else None)


@own
def lanes_that_come_back(size: int) -> Iterable[bytes]:
    """Two lanes that go on from each other's middle, over and over."""
    n = size // (_EACH + 12)
    for i in range(n):
        yield short(f"a{i}", f"a{i - 1}" if i else "h", f"l{i % 97}")


@own
def lanes_that_begin_twice(size: int) -> Iterable[bytes]:
    """Each lane has an entry at the top and one at the bottom of a long chain."""
    half = size // (_EACH + 16) // 2
    for i in range(half):
        yield short(f"a{i}", f"a{i - 1}" if i else "h", f"l{i}")
    for i in range(half):
        yield short(f"b{i}", f"a{half - 1}", f"l{i}")


@own
def scratch_lanes(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 24)):
        yield short(f"a{i}", "h", f"scratch/{i}")


@own
def scratch_lanes_that_refer(size: int) -> Iterable[bytes]:
    """Each scratch lane is kept alive only by a reference of the next."""
    n = count(size, 200)
    for i in range(n):
        yield short(f"a{i}", "h", f"scratch/{i}")
        target = f"a{i - 1}" if i else "h"
        yield entry("label", f"b{i}", f"a{i}", lane=f"scratch/{i}", targetUuid=target, label="x")
    yield entry("label", "last", "h", targetUuid=f"b{n - 1}", label="kept")


# --- messages, calls, results ----------------------------------------------------------------


def call(id: str) -> dict[str, Any]:
    return {"type": "toolCall", "id": id, "name": "t", "arguments": {}}


def result(uuid: str, parent: str, id: str) -> bytes:
    message = {"role": "toolResult", "toolCallId": id, "toolName": "t", "content": "r"}
    return entry("message", uuid, parent, message=message)


def _result_block(id: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": "r"}


def _calls_then(size: int, order: Callable[[list[int]], None]) -> Iterator[bytes]:
    n = count(size, 300)
    for i in range(n):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", [call(f"c{i}")], "assistant")
    numbers = list(range(n))
    order(numbers)
    above = f"a{n - 1}"
    for at, i in enumerate(numbers):
        yield result(f"r{at}", above, f"c{i}")
        above = f"r{at}"


@own
def late_results(size: int) -> Iterable[bytes]:
    return _calls_then(size, lambda numbers: None)


@own
def late_results_backwards(size: int) -> Iterable[bytes]:
    return _calls_then(size, lambda numbers: numbers.reverse())


@own
def late_results_in_any_order(size: int) -> Iterable[bytes]:
    return _calls_then(size, random.Random(5).shuffle)


@own
def asynchronous_results(size: int) -> Iterable[bytes]:
    """An agent whose tools answer a few turns later, with words between."""
    above = "h"
    for i in range(count(size, 520)):
        yield said(f"a{i}", above, [call(f"c{i}")], "assistant")
        yield said(f"t{i}", f"a{i}", "meanwhile", "assistant")
        yield short(f"u{i}", f"t{i}")
        above = f"u{i}"
        if i >= 5:
            yield result(f"r{i}", above, f"c{i - 5}")
            above = f"r{i}"


@own
def late_results_in_one_message(size: int) -> Iterable[bytes]:
    n = count(size, 220)
    for i in range(n):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", [call(f"c{i}")], "assistant")
    yield said("r", f"a{n - 1}", [_result_block(f"c{i}") for i in range(n)])


@own
def late_results_in_two_messages(size: int) -> Iterable[bytes]:
    n = count(size, 200)
    yield said("a", "h", [call(f"c{i}") for i in range(n)], "assistant")
    yield said("r1", "a", [_result_block(f"c{i}") for i in range(0, n, 2)] + [{"type": "text"}])
    yield said("r2", "r1", [_result_block(f"c{i}") for i in range(n - 1, 0, -2)])


@own
def parallel_calls_backwards(size: int) -> Iterable[bytes]:
    n = count(size, 220)
    yield said("a", "h", [call(f"c{i}") for i in range(n)], "assistant")
    for at, i in enumerate(reversed(range(n))):
        yield result(f"r{at}", f"r{at - 1}" if at else "a", f"c{i}")


@own
def parallel_results_in_blocks(size: int) -> Iterable[bytes]:
    """Each result of a large response in a user message of its own."""
    n = count(size, 220)
    yield said("a", "h", [call(f"c{i}") for i in range(n)], "assistant")
    for at, i in enumerate(reversed(range(n))):
        yield said(f"r{at}", f"r{at - 1}" if at else "a", [_result_block(f"c{i}")])


@own
def response_in_pieces(size: int) -> Iterable[bytes]:
    """One response whose calls come in a message each, then the results."""
    n = count(size, 320)
    for i in range(n):
        message = {"role": "assistant", "id": "m", "content": [call(f"c{i}")]}
        yield entry("message", f"a{i}", f"a{i - 1}" if i else "h", message=message)
    for i in range(n):
        yield result(f"r{i}", f"r{i - 1}" if i else f"a{n - 1}", f"c{i}")


@own
def one_call_id(size: int) -> Iterable[bytes]:
    """The same call over and over, and then as many results."""
    n = count(size, 280)
    for i in range(n):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", [call("c")], "assistant")
    for i in range(n):
        yield result(f"r{i}", f"r{i - 1}" if i else f"a{n - 1}", "c")


@own
def results_without_calls(size: int) -> Iterable[bytes]:
    for i in range(count(size, 130)):
        yield result(f"r{i}", f"r{i - 1}" if i else "h", f"c{i}")


@own
def calls_without_results(size: int) -> Iterable[bytes]:
    for i in range(count(size, 150)):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", [call(f"c{i}")], "assistant")


@own
def blocks_in_one_message(size: int) -> Iterable[bytes]:
    yield said("a", "h", [{"type": "text", "text": "x"}] * (size // 27), "assistant")


@own
def thinking_in_one_message(size: int) -> Iterable[bytes]:
    yield said("a", "h", [{"type": "thinking", "thinking": "x"}] * (size // 35), "assistant")


@own
def images_in_one_message(size: int) -> Iterable[bytes]:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    yield said("a", "h", [image] * (size // 65))


@own
def empty_blocks_in_one_message(size: int) -> Iterable[bytes]:
    return _in_one_message(b"{}", size)


@own
def texts_in_one_message(size: int) -> Iterable[bytes]:
    return _in_one_message(b'"x"', size)


def _in_one_message(block: bytes, size: int) -> Iterator[bytes]:
    start, end = said("a", "h", ["-"], "assistant").split(b'"-"')
    yield start + b",".join([block] * (size // (len(block) + 1))) + end


@own
def chat_calls_in_one_message(size: int) -> Iterable[bytes]:
    calls = b",".join(b'{"id":"%d"}' % i for i in range(size // 19))
    message = b'{"role":"assistant","content":"x","tool_calls":[%b]}' % calls
    yield b'{"type":"message","uuid":"a","parentUuid":"h","message":%b}' % message


@own
def calls_in_one_message(size: int) -> Iterable[bytes]:
    yield said("a", "h", [call(f"c{i}") for i in range(size // 60)], "assistant")


@own
def one_call_id_in_one_message(size: int) -> Iterable[bytes]:
    yield said("a", "h", [call("c") for _ in range(size // 60)], "assistant")
    yield result("r", "a", "c")


@own
def results_in_one_message(size: int) -> Iterable[bytes]:
    n = size // 125
    yield said("a", "h", [call(f"c{i}") for i in range(n)], "assistant")
    yield said("b", "a", [_result_block(f"c{i}") for i in range(n)])


@own
def results_and_words_in_one_message(size: int) -> Iterable[bytes]:
    n = size // 160
    yield said("a", "h", [call(f"c{i}") for i in range(n)], "assistant")
    text = {"type": "text", "text": "x"}
    yield said("b", "a", [b for i in range(n) for b in (_result_block(f"c{i}"), text)])


@own
def empty_messages(size: int) -> Iterable[bytes]:
    for i in range(count(size, 70)):
        yield entry("message", f"a{i}", f"a{i - 1}" if i else "h", message={})


@own
def roles(size: int) -> Iterable[bytes]:
    for i in range(count(size, 90)):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", role=f"role{i}")


@own
def system_messages(size: int) -> Iterable[bytes]:
    for i in range(count(size, 90)):
        yield said(f"a{i}", f"a{i - 1}" if i else "h", role="system")


# --- messages in pieces ----------------------------------------------------------------------


def piece(uuid: str, parent: str, message: str, index: int) -> bytes:
    block = {"type": "text", "text": "x"}
    return entry("block", uuid, parent, messageUuid=message, index=index, block=block)


@own
def pieces_of_one_message(size: int) -> Iterable[bytes]:
    n = count(size, 125)
    for i in range(n):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", "m", i)
    yield entry("message_end", "m", f"a{n - 1}", messageUuid="m", role="assistant")


@own
def pieces_backwards(size: int) -> Iterable[bytes]:
    n = count(size, 125)
    for i in range(n):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", "m", n - i)
    yield entry("message_end", "m", f"a{n - 1}", messageUuid="m", role="assistant")


@own
def pieces_of_many_messages(size: int) -> Iterable[bytes]:
    for i in range(count(size, 125)):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", f"m{i}", 0)


@own
def pieces_on_branches(size: int) -> Iterable[bytes]:
    """One message whose pieces are spread over as many branches."""
    for i in range(count(size, 120)):
        yield piece(f"a{i}", "h", "m", i)


@own
def pieces_in_turn(size: int) -> Iterable[bytes]:
    n = count(size, 125)
    for i in range(n):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", f"m{i % 50}", i)


@own
def pieces_down_a_chain(size: int) -> Iterable[bytes]:
    """Messages that begin at the top of a chain and end on branches at its bottom."""
    n = count(size, 250)
    for i in range(n):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", f"m{i}", 0)
    for i in range(n):
        yield piece(f"b{i}", f"a{n - 1}", f"m{i}", 1)


# --- compactions, edits, settings ------------------------------------------------------------


def compaction(uuid: str, parent: str, first: str) -> bytes:
    return entry(
        "compaction", uuid, parent, summary="s", firstKeptEntryUuid=first, tokensBefore=1, state={}
    )


@own
def compactions_of_the_first(size: int) -> Iterable[bytes]:
    yield short("first", "h")
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "first", "first")


@own
def compactions_of_the_header(size: int) -> Iterable[bytes]:
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "h", "h")


@own
def compactions_of_nothing(size: int) -> Iterable[bytes]:
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "h", f"a{i}")


@own
def compactions_of_what_is_gone(size: int) -> Iterable[bytes]:
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "h", f"gone{i}")


@own
def compactions_of_another_branch(size: int) -> Iterable[bytes]:
    yield short("other", "h")
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "h", "other")


@own
def compactions_under_duplicates(size: int) -> Iterable[bytes]:
    """A repeated uuid makes an ancestor's place in the file say nothing."""
    yield short("first", "h")
    yield short("twice", "first")
    yield short("twice", "first")
    for i in range(count(size, 150)):
        yield compaction(f"a{i}", f"a{i - 1}" if i else "twice", "gone" if i % 2 else "first")


@own
def compactions_on_branches(size: int) -> Iterable[bytes]:
    half = count(size, 240)
    yield from chain(half)
    for i in range(half):
        yield compaction(f"b{i}", f"a{half - 1}", "a0")


@own
def edits_of_one(size: int) -> Iterable[bytes]:
    yield short("first", "h")
    for i in range(count(size, 125)):
        yield entry(
            "context_edit",
            f"a{i}",
            f"a{i - 1}" if i else "first",
            targetUuid="first",
            replacement={"content": "y"},
        )


@own
def edits_of_each(size: int) -> Iterable[bytes]:
    half = count(size, 210)
    yield from chain(half)
    for i in range(half):
        above = f"b{i - 1}" if i else f"a{half - 1}"
        yield entry("context_edit", f"b{i}", above, targetUuid=f"a{i}", replacement=None)


@own
def edits_of_edits(size: int) -> Iterable[bytes]:
    for i in range(count(size, 115)):
        above = f"a{i - 1}" if i else "h"
        yield entry("context_edit", f"a{i}", above, targetUuid=above, replacement=None)


@own
def edits_of_a_message_in_pieces(size: int) -> Iterable[bytes]:
    n = count(size, 240)
    for i in range(n):
        yield piece(f"a{i}", f"a{i - 1}" if i else "h", "m", i)
    for i in range(n):
        above = f"b{i - 1}" if i else f"a{n - 1}"
        yield entry("context_edit", f"b{i}", above, targetUuid=f"a{i}", replacement=None)


@own
def model_changes(size: int) -> Iterable[bytes]:
    for i in range(count(size, 95)):
        above = f"a{i - 1}" if i else "h"
        yield entry("model_change", f"a{i}", above, provider="p", modelId=f"m{i}")


@own
def pushes(size: int) -> Iterable[bytes]:
    for i in range(count(size, 55)):
        yield entry("stack_push", f"a{i}", f"a{i - 1}" if i else "h")


@own
def pushes_and_pops(size: int) -> Iterable[bytes]:
    above = "h"
    for i in range(count(size, 230)):
        yield entry("stack_push", f"a{i}", above)
        yield short(f"b{i}", f"a{i}")
        yield entry("stack_summary", f"c{i}", above, summary="s", fromUuid=f"b{i}")
        above = f"c{i}"


@own
def branch_summaries(size: int) -> Iterable[bytes]:
    for i in range(count(size, 110)):
        above = f"a{i - 1}" if i else "h"
        yield entry("branch_summary", f"a{i}", above, summary="s", fromUuid=above)


@own
def usages(size: int) -> Iterable[bytes]:
    for i in range(count(size, 140)):
        above = f"a{i - 1}" if i else "h"
        yield entry("usage", f"a{i}", above, kind="k", provider="p", model=f"m{i}", usage={"i": 1})


# --- merges ----------------------------------------------------------------------------------


def merge(uuid: str, parent: str, merged: str, base: str = "h") -> bytes:
    return entry("merge", uuid, parent, mergedUuid=merged, baseUuid=base)


@own
def merges_of_each_other(size: int) -> Iterable[bytes]:
    """Two branches, each of which takes the tip of the other in, in turn."""
    yield short("a", "h")
    yield short("b", "h")
    one, other = "a", "b"
    for i in range(count(size, 85)):
        yield merge(f"m{i}", one, other)
        one, other = other, f"m{i}"


@own
def merges_of_the_tip(size: int) -> Iterable[bytes]:
    """Each merge takes in the one before it, from the top of the tree."""
    yield short("a", "h")
    above = "a"
    for i in range(count(size, 85)):
        yield merge(f"m{i}", above, above)
        above = f"m{i}"


@own
def merges_from_the_side(size: int) -> Iterable[bytes]:
    """Each is a branch at the header that takes in the branch before it."""
    yield short("a", "h")
    for i in range(count(size, 85)):
        yield merge(f"m{i}", "h", f"m{i - 1}" if i else "a")


@own
def merges_of_one_path(size: int) -> Iterable[bytes]:
    """A branch of half the file, taken in over and over."""
    half = size // 2
    n = half // _EACH
    yield from chain(n)
    yield short("b", "h")
    for i in range(half // 85):
        yield merge(f"m{i}", f"m{i - 1}" if i else "b", f"a{n - 1}")


@own
def merges_of_many_branches(size: int) -> Iterable[bytes]:
    n = size // (_EACH + 85)
    for i in range(n):
        yield short(f"a{i}", "h")
    for i in range(n):
        yield merge(f"m{i}", f"m{i - 1}" if i else "h", f"a{i}")


@own
def merges_of_growing_paths(size: int) -> Iterable[bytes]:
    """Each merge takes in a longer piece of one branch, on a branch of its own."""
    n = size // (_EACH + 85)
    yield from chain(n)
    for i in range(n):
        yield merge(f"m{i}", "h", f"a{i}")


@own
def ladder_of_merges(size: int) -> Iterable[bytes]:
    """Two branches, and from each rung a merge of the other side's."""
    yield short("a0", "h")
    yield short("b0", "h")
    for i in range(1, count(size, 190)):
        yield merge(f"a{i}", f"a{i - 1}", f"b{i - 1}")
        yield merge(f"b{i}", f"b{i - 1}", f"a{i - 1}")


@own
def merges_with_summaries(size: int) -> Iterable[bytes]:
    yield short("a", "h")
    for i in range(count(size, 100)):
        above = f"m{i - 1}" if i else "h"
        yield entry("merge", f"m{i}", above, mergedUuid="a", baseUuid="h", summary="s")


@own
def merges_of_what_is_gone(size: int) -> Iterable[bytes]:
    for i in range(count(size, 90)):
        yield merge(f"m{i}", f"m{i - 1}" if i else "h", f"gone{i}")


@own
def merges_of_compactions(size: int) -> Iterable[bytes]:
    n = count(size, 260)
    above = "h"
    for i in range(n):
        yield compaction(f"a{i}", above, "h")
        above = f"a{i}"
    for i in range(n):
        yield merge(f"m{i}", f"m{i - 1}" if i else "h", f"a{i}")


@own
def merges_on_a_chain(size: int) -> Iterable[bytes]:
    """A session that merges the same small branch again and again between its prompts."""
    yield short("side", "h")
    above = "h"
    for i in range(size // (_EACH + 85)):
        yield short(f"a{i}", above)
        yield merge(f"m{i}", f"a{i}", "side")
        above = f"m{i}"


# --- names -----------------------------------------------------------------------------------


@own
def labels_of_one(size: int) -> Iterable[bytes]:
    yield short("first", "h")
    for i in range(count(size, 100)):
        above = f"a{i - 1}" if i else "first"
        yield entry("label", f"a{i}", above, targetUuid="first", label=f"l{i}")


@own
def labels_of_each(size: int) -> Iterable[bytes]:
    half = size // (_EACH + 105)
    yield from chain(half)
    for i in range(half):
        above = f"b{i - 1}" if i else f"a{half - 1}"
        yield entry("label", f"b{i}", above, targetUuid=f"a{i}", label=f"l{i}")


@own
def one_label_for_all(size: int) -> Iterable[bytes]:
    half = size // (_EACH + 105)
    yield from chain(half)
    for i in range(half):
        above = f"b{i - 1}" if i else f"a{half - 1}"
        yield entry("label", f"b{i}", above, targetUuid=f"a{i}", label="same")


@own
def named_branches(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 70)):
        yield entry("branch", f"a{i}", "h", name=f"name{i}")
        yield short(f"b{i}", f"a{i}")


@own
def named_branches_down_a_chain(size: int) -> Iterable[bytes]:
    above = "h"
    for i in range(size // (_EACH + 70)):
        yield entry("branch", f"a{i}", above, name=f"name{i}")
        yield short(f"b{i}", f"a{i}")
        above = f"b{i}"


@own
def branches_of_one_name(size: int) -> Iterable[bytes]:
    for i in range(size // (_EACH + 70)):
        yield entry("branch", f"a{i}", "h", name="same")
        yield short(f"b{i}", f"a{i}")


@own
def branch_marks(size: int) -> Iterable[bytes]:
    for i in range(count(size, 55)):
        yield entry("branch", f"a{i}", f"a{i - 1}" if i else "h")


@own
def renames(size: int) -> Iterable[bytes]:
    for i in range(count(size, 80)):
        yield entry("session_info", f"a{i}", f"a{i - 1}" if i else "h", name=f"n{i}")


@own
def facts(size: int) -> Iterable[bytes]:
    for i in range(count(size, 90)):
        yield entry("session_info", f"a{i}", f"a{i - 1}" if i else "h", metadata={f"k{i}": i})


@own
def unknown_types(size: int) -> Iterable[bytes]:
    for i in range(count(size, 60)):
        yield entry(f"type{i}", f"a{i}", f"a{i - 1}" if i else "h")


@own
def custom_entries(size: int) -> Iterable[bytes]:
    for i in range(count(size, 75)):
        yield entry("custom", f"a{i}", f"a{i - 1}" if i else "h", customType=f"c{i}")


# --- handles and blobs -----------------------------------------------------------------------


def handle(uuid: str, parent: str, text: str) -> bytes:
    return entry("handle", uuid, parent, handle=text, kind="message")


def _entry_handle(uuid: str) -> str:
    return f"session@2.0.0::entry:hostile:{uuid}"


@own
def handles_in_a_chain(size: int) -> Iterable[bytes]:
    yield short("first", "h")
    for i in range(count(size, 130)):
        above = f"a{i - 1}" if i else "first"
        yield handle(f"a{i}", above, _entry_handle(above))


@own
def handles_in_a_circle(size: int) -> Iterable[bytes]:
    n = count(size, 130)
    for i in range(n):
        yield handle(f"a{i}", f"a{i - 1}" if i else "h", _entry_handle(f"a{(i + 1) % n}"))


@own
def handles_of_one(size: int) -> Iterable[bytes]:
    yield short("first", "h")
    for i in range(count(size, 130)):
        yield handle(f"a{i}", f"a{i - 1}" if i else "first", _entry_handle("first"))


@own
def handles_of_each(size: int) -> Iterable[bytes]:
    half = size // (_EACH + 130)
    yield from chain(half)
    for i in range(half):
        yield handle(f"b{i}", f"b{i - 1}" if i else f"a{half - 1}", _entry_handle(f"a{i}"))


@own
def handles_of_nothing(size: int) -> Iterable[bytes]:
    for i in range(count(size, 130)):
        yield handle(f"a{i}", f"a{i - 1}" if i else "h", _entry_handle(f"gone{i}"))


@own
def handles_of_blocks(size: int) -> Iterable[bytes]:
    """Handles of the blocks of one large message."""
    half = size // 2
    yield said("first", "h", [{"type": "text", "text": "x"}] * (half // 27))
    for i in range(half // 140):
        text = f"session@2.0.0::block:hostile:first:{i}"
        yield handle(f"a{i}", f"a{i - 1}" if i else "first", text)


@own
def handles_of_files(size: int) -> Iterable[bytes]:
    for i in range(count(size, 120)):
        yield handle(f"a{i}", f"a{i - 1}" if i else "h", f"file@1.0.0::path:no/{i}")


@own
def handles_of_nobody(size: int) -> Iterable[bytes]:
    for i in range(count(size, 110)):
        yield handle(f"a{i}", f"a{i - 1}" if i else "h", f"p{i}@1.0.0::m:x")


@own
def handles_that_are_none(size: int) -> Iterable[bytes]:
    for i in range(count(size, 90)):
        yield handle(f"a{i}", f"a{i - 1}" if i else "h", "@" * 10)


@own
def one_huge_handle(size: int) -> Iterable[bytes]:
    yield handle("a", "h", "p@1.0.0::m:" + "x:" * (size // 4) + "%25" * (size // 6))


def _blob(text: bytes) -> str:
    return f"blob@1.0.0::sha256:{hashlib.sha256(text).hexdigest()}:{len(text)}:text/plain"


@own
def missing_blobs(size: int) -> Iterable[bytes]:
    for i in range(count(size, 330)):
        text = _blob(b"%d" % i)
        yield entry(
            "message",
            f"a{i}",
            f"a{i - 1}" if i else "h",
            message={"role": "user", "content": text},
            spilled=[[["message", "content"], text]],
        )


@own
def spilled_paths(size: int) -> Iterable[bytes]:
    """One entry that says of each of its blocks that it is in a blob."""
    text = _blob(b"x")
    n = size // 320
    blocks = [{"type": "text", "text": text}] * n
    spilled = [[["message", "content", i, "text"], text] for i in range(n)]
    message = {"role": "user", "content": blocks}
    yield entry("message", "a", "h", message=message, spilled=spilled)


@own
def spilled_paths_that_are_none(size: int) -> Iterable[bytes]:
    spilled = [[["message", "content", i, "text"], "x"] for i in range(size // 40)]
    yield entry("message", "a", "h", message={"role": "user", "content": []}, spilled=spilled)


@own
def one_spilled_path_many_times(size: int) -> Iterable[bytes]:
    text = _blob(b"x")
    spilled = [[["message", "content"], text] for _ in range(size // 150)]
    yield entry("message", "a", "h", message={"role": "user", "content": text}, spilled=spilled)


@own
def deep_spilled_path(size: int) -> Iterable[bytes]:
    spilled = [[["message", *range(size // 8)], "x"]]
    yield entry("message", "a", "h", message={"role": "user", "content": []}, spilled=spilled)


def _with_blobs(name: str, text: bytes, texts: Callable[[int], bytes], each: int) -> Build:
    def build(folder: Path, size: int) -> Path:
        blobs = folder / f"{name}.jsonl.blobs"
        blobs.mkdir()
        lines = [HEADER]
        for i in range(count(size, each)):
            content = text or texts(i)
            (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
            spelled = _blob(content)
            lines.append(
                entry(
                    "message",
                    f"a{i}",
                    f"a{i - 1}" if i else "h",
                    message={"role": "user", "content": spelled},
                    spilled=[[["message", "content"], spelled]],
                )
            )
        return _written(folder / f"{name}.jsonl", lines)

    return build


STRUCTURES["many_small_blobs"] = _with_blobs("many_small_blobs", b"", lambda i: b"x%d" % i, 1300)
STRUCTURES["one_blob_many_times"] = _with_blobs(
    "one_blob_many_times", b"a line of text\n" * 60, lambda i: b"", 1200
)


# --- lines that are damage -------------------------------------------------------------------


def _around(lines: Callable[[int], Iterable[bytes]]) -> Lines:
    """An entry before damage and one after it."""

    def all_lines(size: int) -> Iterable[bytes]:
        yield short("a", "h")
        yield from lines(size)
        yield short("b", "a")

    all_lines.__name__ = lines.__name__
    return own(all_lines)


@_around
def blank_lines(size: int) -> Iterable[bytes]:
    yield b"\n" * size


@_around
def nul_lines(size: int) -> Iterable[bytes]:
    yield b"\0\n" * (size // 2)


@_around
def one_nul_line(size: int) -> Iterable[bytes]:
    yield b"\0" * size


@_around
def space_lines(size: int) -> Iterable[bytes]:
    yield b" \n" * (size // 2)


@_around
def carriage_returns(size: int) -> Iterable[bytes]:
    yield b"\r\n" * (size // 2)


@_around
def one_line_of_carriage_returns(size: int) -> Iterable[bytes]:
    yield b"\r" * size


@_around
def marks_in_a_row(size: int) -> Iterable[bytes]:
    yield b"\xef\xbb\xbf" * (size // 3)


@_around
def marks_and_nuls_in_a_row(size: int) -> Iterable[bytes]:
    yield b"\xef\xbb\xbf\0" * (size // 4) + short("c", "a")


@_around
def mark_lines(size: int) -> Iterable[bytes]:
    yield b"\xef\xbb\xbf\n" * (size // 4)


@_around
def number_lines(size: int) -> Iterable[bytes]:
    yield b"1\n" * (size // 2)


@_around
def object_lines(size: int) -> Iterable[bytes]:
    yield b"{}\n" * (size // 3)


@_around
def letter_lines(size: int) -> Iterable[bytes]:
    yield b"x\n" * (size // 2)


@_around
def brace_lines(size: int) -> Iterable[bytes]:
    yield b"{\n" * (size // 2)


@_around
def quote_lines(size: int) -> Iterable[bytes]:
    yield b'"\n' * (size // 2)


@_around
def one_line_of_braces(size: int) -> Iterable[bytes]:
    yield b"{" * size


@_around
def one_line_of_quotes(size: int) -> Iterable[bytes]:
    yield b'{"' * (size // 2)


@_around
def one_line_of_brackets(size: int) -> Iterable[bytes]:
    yield b"[" * size


@_around
def torn_fragments(size: int) -> Iterable[bytes]:
    yield b'{"type":"message","uuid":"c","par\n' * (size // 34)


@_around
def torn_fragments_in_one_line(size: int) -> Iterable[bytes]:
    yield b'{"type":"message","uuid":"c","par' * (size // 33)


@_around
def entries_in_one_line(size: int) -> Iterable[bytes]:
    yield b"".join(chain(size // _EACH, "c", "a"))


@_around
def entries_and_fragments_in_one_line(size: int) -> Iterable[bytes]:
    yield b'{"type":"message","uui'.join(chain(size // (_EACH + 22), "c", "a"))


@own
def wrong_checksums(size: int) -> Iterable[bytes]:
    for line in chain(size // (_EACH + 18)):
        yield line[:-1] + b',"crc":"00000000"}'


@own
def wrong_bytes(size: int) -> Iterable[bytes]:
    for line in chain(size // _EACH):
        yield line.replace(b'"x"', b'"\xff"')


@own
def windows_lines(size: int) -> Iterable[bytes]:
    return (line + b"\r" for line in chain(size // _EACH))


@own
def lines_without_uuids(size: int) -> Iterable[bytes]:
    for _ in range(count(size, 60)):
        yield b'{"type":"message","message":{"role":"user","content":"x"}}'


@own
def open_end(size: int) -> Iterable[bytes]:
    yield short("a", "h")
    yield b'{"type":"message","uuid":"b","parentUuid":"a","message":"' + b"x" * size


@bare
def no_header(size: int) -> Iterable[bytes]:
    return chain(size // _EACH, above="lost")


@bare
def blank_lines_before_the_header(size: int) -> Iterable[bytes]:
    yield b"\n" * size
    yield HEADER
    yield short("a", "h")


@bare
def nuls_before_the_header(size: int) -> Iterable[bytes]:
    yield b"\0" * size + HEADER
    yield short("a", "h")


@bare
def header_among_entries(size: int) -> Iterable[bytes]:
    yield HEADER + b"".join(chain(size // _EACH))


# --- awkward JSON ----------------------------------------------------------------------------


@own
def duplicate_keys(size: int) -> Iterable[bytes]:
    more = b'"k":1,' * 100
    for line in chain(size // (_EACH + 600)):
        yield b"{" + more + line[1:]


@own
def one_key_many_times(size: int) -> Iterable[bytes]:
    yield b"{" + b'"k":1,' * (size // 6) + short("a", "h")[1:]


@own
def structural_keys_many_times(size: int) -> Iterable[bytes]:
    yield b"{" + b'"uuid":"z",' * (size // 11) + short("a", "h")[1:]


@own
def many_keys(size: int) -> Iterable[bytes]:
    yield entry("message", "a", "h", message={}, **{f"k{i}": 1 for i in range(size // 11)})


@own
def many_keys_of_metadata(size: int) -> Iterable[bytes]:
    facts = {f"k{i}": 1 for i in range(size // 11)}
    yield entry("session_info", "a", "h", metadata=facts)


@own
def many_keys_of_arguments(size: int) -> Iterable[bytes]:
    used = {**call("c"), "arguments": {f"k{i}": 1 for i in range(size // 11)}}
    yield said("a", "h", [used], "assistant")


@own
def nested_to_the_limit(size: int) -> Iterable[bytes]:
    deep = b"[" * 450 + b"]" * 450
    for i in range(count(size, 1000)):
        above = f"a{i - 1}" if i else "h"
        yield short(f"a{i}", above)[:-1] + b',"q":' + deep + b"}"


@own
def nested_arguments(size: int) -> Iterable[bytes]:
    value: Any = {}
    for _ in range(400):
        value = {"a": value}
    for i in range(count(size, 2500)):
        block = {**call(f"c{i}"), "arguments": value}
        yield said(f"a{i}", f"a{i - 1}" if i else "h", [block], "assistant")


@own
def nested_without_end(size: int) -> Iterable[bytes]:
    yield short("a", "h")[:-1] + b',"q":' + b"[" * (size // 2) + b"]" * (size // 2) + b"}"


@own
def nested_deeper_than_decoders(size: int) -> Iterable[bytes]:
    deep = b"[" * 2000 + b"]" * 2000
    for i in range(count(size, 4100)):
        above = f"a{i - 1}" if i else "h"
        yield short(f"a{i}", above)[:-1] + b',"q":' + deep + b"}"


@own
def nested_content(size: int) -> Iterable[bytes]:
    deep = b'[{"type":"toolResult","content":' * 200 + b'"x"' + b"}]" * 200
    for i in range(count(size, 6900)):
        above = f"a{i - 1}" if i else "h"
        yield short(f"a{i}", above).replace(b'"x"', deep)


@own
def one_huge_number(size: int) -> Iterable[bytes]:
    yield short("a", "h")[:-1] + b',"q":' + b"9" * size + b"}"


@own
def numbers_in_one_line(size: int) -> Iterable[bytes]:
    yield short("a", "h")[:-1] + b',"q":[' + b"1e400," * (size // 6) + b"1]}"


@own
def lone_surrogates(size: int) -> Iterable[bytes]:
    yield short("a", "h").replace(b'"x"', b'"' + b"\\ud800" * (size // 6) + b'"')


@own
def lines_with_lone_surrogates(size: int) -> Iterable[bytes]:
    return (line.replace(b'"x"', b'"\\ud800"') for line in chain(size // (_EACH + 5)))


@own
def control_characters(size: int) -> Iterable[bytes]:
    yield said("a", "h", "\x1b[2J" * (size // 9))


# --- awkward text ----------------------------------------------------------------------------


def _text(name: str, unit: str, role: str = "user") -> None:
    def lines(size: int) -> Iterable[bytes]:
        length = len(json.dumps(unit)) - 2
        yield said("a", "h", unit * (size // length), role)

    lines.__name__ = name
    own(lines)


for _name, _unit in {
    "one_long_word": "x",
    "one_line_of_words": "word ",
    "newlines": "\n",
    "lines_of_a_letter": "x\n",
    "backticks": "`",
    "fences": "```\n",
    "quote_marks": ">",
    "list_marks": "- ",
    "stars": "*",
    "underscores": "_a",
    "square_brackets": "[",
    "links": "[a](",
    "images": "![a](http://b/c)",
    "angle_brackets": "<",
    "comments": "<!--",
    "ampersands": "&",
    "backslashes": "\\",
    "pipes": "|",
    "table_rows": "|a|b|\n",
    "spaces": " ",
    "tabs": "\t",
    "wide_letters": "字",
    "combining_marks": "e\u0301",
    "command_names": "<command-name>",
    "base64": "iVBORw0KGgoAAAANSUhEUg",
    "digits": "1234 ",
    "json_braces": "{",
}.items():
    _text(f"text_of_{_name}", _unit)


@own
def result_of_one_letter_lines(size: int) -> Iterable[bytes]:
    yield said("a", "h", [call("c")], "assistant")
    message = {"role": "toolResult", "toolCallId": "c", "content": "x\n" * (size // 3)}
    yield entry("message", "r", "a", message=message)


@own
def one_image(size: int) -> Iterable[bytes]:
    image = {"type": "image", "data": "iVBORw0KGgo" + "A" * (size // 4 * 4 + 1), "mimeType": "x/y"}
    yield said("a", "h", [image])


@own
def long_preview(size: int) -> Iterable[bytes]:
    half = size // 2
    yield entry("handle", "a", "h", handle="p@1.0.0::m:x", kind="x", preview="y" * half)
    yield entry("session_info", "b", "a", name="n" * half)


@own
def long_names(size: int) -> Iterable[bytes]:
    long = size // 4
    yield short("a", "h", "l" * long)
    yield entry("label", "b", "a", targetUuid="a", label="m" * long)
    yield entry("branch", "c", "b", name="n" * long)
    yield entry("t" * long, "d", "c")


# --- version 1 -------------------------------------------------------------------------------

_VERSION_1: Final = (
    b'{"type":"session","id":"old","timestamp":"2025-01-01T00:00:00.000Z","cwd":"/old"}'
)


@bare
def version_1(size: int) -> Iterable[bytes]:
    yield _VERSION_1
    for _ in range(size // 60):
        yield b'{"type":"message","message":{"role":"user","content":"x"}}'


@bare
def version_1_compactions(size: int) -> Iterable[bytes]:
    yield _VERSION_1
    for _ in range(size // 80):
        yield b'{"type":"compaction","summary":"s","firstKeptEntryIndex":1,"tokensBefore":1}'


@bare
def version_1_pops(size: int) -> Iterable[bytes]:
    yield _VERSION_1
    for i in range(size // 100):
        yield (
            b'{"type":"stack_push"}'
            if not i % 2
            else (b'{"type":"stack_pop","backToIndex":%d,"summary":"s"}' % (i // 2))
        )


@bare
def version_1_blank_lines(size: int) -> Iterable[bytes]:
    yield _VERSION_1
    yield b"\n" * size


# --- Claude Code -----------------------------------------------------------------------------

_TIME: Final = "2026-02-10T21:11:00.000Z"


def _claude(uuid: str, parent: str | None, kind: str = "user", **more: Any) -> bytes:
    keys: dict[str, Any] = {"parentUuid": parent, "sessionId": "s", "type": kind, "uuid": uuid}
    return json.dumps({**keys, "timestamp": _TIME, **more}, separators=(",", ":")).encode()


def _prompt(uuid: str, parent: str | None, content: Any = "x", **more: Any) -> bytes:
    return _claude(uuid, parent, message={"role": "user", "content": content}, **more)


def _answer(uuid: str, parent: str | None, *blocks: Any, id: str = "", **more: Any) -> bytes:
    content = blocks or ({"type": "text", "text": "x"},)
    message = {"role": "assistant", "content": content, "model": "m", **({"id": id} if id else {})}
    return _claude(uuid, parent, "assistant", message=message, **more)


def _use(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "t", "input": {}}


@foreign
def claude_chain(size: int) -> Iterable[bytes]:
    for i in range(count(size, 150)):
        yield _prompt(f"a{i}", f"a{i - 1}" if i else None)


@foreign
def claude_star(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    for i in range(count(size, 150)):
        yield _prompt(f"a{i}", "a")


@foreign
def claude_roots(size: int) -> Iterable[bytes]:
    return (_prompt(f"a{i}", None) for i in range(count(size, 150)))


@foreign
def claude_missing_parents(size: int) -> Iterable[bytes]:
    return (_prompt(f"a{i}", f"m{i}") for i in range(count(size, 150)))


@foreign
def claude_reversed(size: int) -> Iterable[bytes]:
    for i in reversed(range(count(size, 150))):
        yield _prompt(f"a{i}", f"a{i - 1}" if i else None)


@foreign
def claude_cycles(size: int) -> Iterable[bytes]:
    for i in range(count(size, 300)):
        yield _prompt(f"a{i}", f"b{i}")
        yield _prompt(f"b{i}", f"a{i}")


@foreign
def claude_one_uuid(size: int) -> Iterable[bytes]:
    return (_prompt("a", None) for _ in range(count(size, 150)))


@foreign
def claude_response_in_lines(size: int) -> Iterable[bytes]:
    """One response, a line for each call, and the results below each."""
    n = count(size, 480)
    for i in range(n):
        yield _answer(f"a{i}", f"a{i - 1}" if i else None, _use(f"c{i}"), id="m")
    for i in range(n):
        yield _prompt(f"r{i}", f"a{i}", [_result_block(f"c{i}")])


@foreign
def claude_responses_that_repeat(size: int) -> Iterable[bytes]:
    """Two responses whose lines alternate."""
    for i in range(count(size, 220)):
        yield _answer(f"a{i}", f"a{i - 1}" if i else None, _use(f"c{i}"), id=f"m{i % 2}")


@foreign
def claude_responses_on_branches(size: int) -> Iterable[bytes]:
    for i in range(count(size, 220)):
        yield _answer(f"a{i}", None, _use(f"c{i}"), id="m")


@foreign
def claude_late_results(size: int) -> Iterable[bytes]:
    n = count(size, 430)
    for i in range(n):
        yield _answer(f"a{i}", f"a{i - 1}" if i else None, _use(f"c{i}"), id=f"m{i}")
    for i in range(n):
        above = f"r{i - 1}" if i else f"a{n - 1}"
        yield _prompt(f"r{i}", above, [_result_block(f"c{i}")])


@foreign
def claude_sidechains(size: int) -> Iterable[bytes]:
    for i in range(count(size, 360)):
        yield _prompt(f"a{i}", f"a{i - 1}" if i else None)
        yield _prompt(f"b{i}", None, isSidechain=True)


@foreign
def claude_one_sidechain(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    for i in range(count(size, 180)):
        yield _prompt(f"b{i}", f"b{i - 1}" if i else None, isSidechain=True)


@foreign
def claude_compactions(size: int) -> Iterable[bytes]:
    above = None
    for i in range(count(size, 480)):
        boundary = {"subtype": "compact_boundary", "logicalParentUuid": above}
        yield _claude(f"b{i}", None, "system", content="c", **boundary)
        yield _prompt(f"s{i}", f"b{i}", isCompactSummary=True)
        above = f"s{i}"


@foreign
def claude_summaries(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    for i in range(count(size, 65)):
        yield b'{"type":"summary","summary":"s%d","leafUuid":"a"}' % i


@foreign
def claude_progress(size: int) -> Iterable[bytes]:
    """A chain of lines that are no messages, with a message at each end."""
    yield _prompt("p", None)
    n = count(size, 130)
    for i in range(n):
        yield _claude(f"a{i}", f"a{i - 1}" if i else "p", "progress")
    yield _prompt("q", f"a{n - 1}")


def _shortest(size: int, line: Callable[[int], bytes]) -> Iterator[bytes]:
    """As many lines as a file may have: the most that may be short, and others as short as others.

    A line is a JSON object, to which a key is added where it may not be short.
    """
    left, number = size, 0
    while left > 0:
        made = line(number)
        if number >= min(limits.SHORT_TEXTS.most - 10, size // 60):
            filler = b"x" * (limits.SHORT_BYTES - len(made) - len(b',"of":""'))
            made = made[:-1] + b',"of":"%b"}' % filler
        yield made
        left -= len(made) + 1
        number += 1


@foreign
def claude_unknown_lines(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    yield from _shortest(size, lambda i: b'{"type":"t%d"}' % i)


@foreign
def claude_blank_lines(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    yield b"\n" * size
    yield _prompt("b", "a")


@foreign
def claude_broken_lines(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    yield b"{\n" * (size // 2)
    yield _prompt("b", "a")


@foreign
def claude_result_files(size: int) -> Iterable[bytes]:
    text = " ".join(f"tool-results/f{i}.txt" for i in range(size // 25))
    yield _answer("a", None, _use("c"))
    yield _prompt("r", "a", [{**_result_block("c"), "content": text}])


@foreign
def claude_blocks(size: int) -> Iterable[bytes]:
    yield _prompt("a", None)
    yield _answer("b", "a", *[{"type": "text", "text": "x"}] * (size // 27))


# --- Codex -----------------------------------------------------------------------------------


def _codex(kind: str, /, **payload: Any) -> bytes:
    keys = {"timestamp": _TIME, "type": kind, "payload": payload}
    return json.dumps(keys, separators=(",", ":")).encode()


_CODEX: Final = _codex("session_meta", id="s", timestamp=_TIME, cwd="/w", originator="codex")


def _codex_said(role: str = "user") -> bytes:
    content = [{"type": "input_text", "text": "x"}]
    return _codex("response_item", type="message", role=role, content=content)


@foreign
def codex_chain(size: int) -> Iterable[bytes]:
    yield _CODEX
    for _ in range(count(size, 150)):
        yield _codex_said()


@foreign
def codex_compactions(size: int) -> Iterable[bytes]:
    yield _CODEX
    for _ in range(count(size, 290)):
        yield _codex_said()
        yield _codex("compacted", message="s")


@foreign
def codex_late_results(size: int) -> Iterable[bytes]:
    yield _CODEX
    n = count(size, 300)
    for i in range(n):
        yield _codex(
            "response_item", type="function_call", call_id=f"c{i}", name="t", arguments="{}"
        )
        yield _codex_said("assistant") if not i % 7 else b""
    for i in range(n):
        yield _codex("response_item", type="function_call_output", call_id=f"c{i}", output="r")


@foreign
def codex_turns(size: int) -> Iterable[bytes]:
    yield _CODEX
    for i in range(count(size, 120)):
        yield _codex("turn_context", model=f"m{i}", cwd="/w")


@foreign
def codex_events(size: int) -> Iterable[bytes]:
    yield _CODEX
    for i in range(count(size, 100)):
        yield _codex("event_msg", type=f"e{i}")


@foreign
def codex_unknown_lines(size: int) -> Iterable[bytes]:
    yield _CODEX
    yield from _shortest(size, lambda i: b'{"type":"t%d"}' % i)


@foreign
def codex_headers(size: int) -> Iterable[bytes]:
    return (_CODEX for _ in range(size // len(_CODEX)))


# --- Gemini ----------------------------------------------------------------------------------


def _gemini(name: str, messages: Callable[[int], list[dict[str, Any]]]) -> None:
    def build(folder: Path, size: int) -> Path:
        file = folder / f"session-{name}.json"
        head = {"sessionId": "s", "projectHash": "p", "startTime": _TIME, "lastUpdated": _TIME}
        file.write_text(json.dumps({**head, "messages": messages(size)}))
        return file

    FOREIGN[name] = build


def _gemini_said(i: int, **more: Any) -> dict[str, Any]:
    return {"id": f"i{i}", "timestamp": _TIME, "type": "user", "content": "x", **more}


_gemini("gemini_chain", lambda size: [_gemini_said(i) for i in range(count(size, 95))])
_gemini("gemini_one_id", lambda size: [_gemini_said(0) for _ in range(count(size, 95))])
_gemini(
    "gemini_calls",
    lambda size: [
        _gemini_said(0, type="gemini", toolCalls=[{"id": f"c{i}", "name": "t", "args": {}}])
        if i % 2
        else _gemini_said(i)
        for i in range(count(size, 130))
    ],
)
_gemini(
    "gemini_calls_in_one_message",
    lambda size: [
        _gemini_said(0),
        _gemini_said(
            1,
            type="gemini",
            toolCalls=[
                {"id": f"c{i}", "name": "a tool", "args": {}, "result": [], "of": "x" * 50}
                for i in range(size // 125)
            ],
        ),
    ],
)


@foreign
def gemini_updates(size: int) -> Iterable[bytes]:
    """The newer form: lines, among them many that set or take back."""
    yield json.dumps({"sessionId": "s", "projectHash": "p", "startTime": _TIME}).encode()
    for i in range(count(size, 160)):
        yield json.dumps(_gemini_said(i)).encode()
        yield json.dumps({"$rewindTo": f"i{i // 2}"} if i % 3 else {"$set": {"a": i}}).encode()


def _gemini_lines(size: int, types: Sequence[str]) -> Iterator[bytes]:
    yield json.dumps({"sessionId": "s", "projectHash": "p", "startTime": _TIME}).encode()
    kinds = [type.encode() for type in types]
    said = b'{"id":"i%d","type":"%b","content":"x"}'
    yield from _shortest(size, lambda i: said % (i, kinds[i % len(kinds)]))


@foreign
def gemini_short_prompts(size: int) -> Iterable[bytes]:
    return _gemini_lines(size, ["user"])


@foreign
def gemini_short_answers(size: int) -> Iterable[bytes]:
    return _gemini_lines(size, ["user", "gemini"])


@foreign
def gemini_unknown_lines(size: int) -> Iterable[bytes]:
    return _gemini_lines(size, ["t"])


# --- pi --------------------------------------------------------------------------------------

_PI: Final = json.dumps(
    {"type": "session", "version": 3, "id": "s", "timestamp": _TIME, "cwd": "/w"}
).encode()


def _pi(kind: str, id: str, parent: str | None, /, **more: Any) -> bytes:
    keys = {"type": kind, "id": id, "parentId": parent, "timestamp": _TIME}
    return json.dumps({**keys, **more}, separators=(",", ":")).encode()


def _pi_said(id: str, parent: str | None) -> bytes:
    return _pi("message", id, parent, message={"role": "user", "content": "x"})


@foreign
def pi_chain(size: int) -> Iterable[bytes]:
    yield _PI
    for i in range(count(size, 135)):
        yield _pi_said(f"a{i}", f"a{i - 1}" if i else None)


@foreign
def pi_star(size: int) -> Iterable[bytes]:
    yield _PI
    for i in range(count(size, 135)):
        yield _pi_said(f"a{i}", None)


@foreign
def pi_one_id(size: int) -> Iterable[bytes]:
    yield _PI
    for i in range(count(size, 135)):
        yield _pi_said("a", "a" if i else None)


@foreign
def pi_reversed(size: int) -> Iterable[bytes]:
    yield _PI
    for i in reversed(range(count(size, 135))):
        yield _pi_said(f"a{i}", f"a{i - 1}" if i else None)


@foreign
def pi_compactions(size: int) -> Iterable[bytes]:
    yield _PI
    yield _pi_said("first", None)
    for i in range(count(size, 170)):
        above = f"a{i - 1}" if i else "first"
        yield _pi("compaction", f"a{i}", above, summary="s", firstKeptEntryId="first")


@foreign
def pi_compactions_by_place(size: int) -> Iterable[bytes]:
    yield _PI
    yield _pi_said("first", None)
    for i in range(count(size, 170)):
        above = f"a{i - 1}" if i else "first"
        yield _pi("compaction", f"a{i}", above, summary="s", firstKeptEntryIndex=1)


@foreign
def pi_labels(size: int) -> Iterable[bytes]:
    yield _PI
    yield _pi_said("first", None)
    for i in range(count(size, 150)):
        above = f"a{i - 1}" if i else "first"
        yield _pi("label", f"a{i}", above, targetId="first", label=f"l{i}")


@foreign
def pi_unknown_lines(size: int) -> Iterable[bytes]:
    yield _PI
    yield _pi_said("first", None)
    yield from _shortest(size, lambda i: b'{"type":"t%d","id":"%d"}' % (i, i))


@foreign
def pi_edits(size: int) -> Iterable[bytes]:
    yield _PI
    yield _pi_said("first", None)
    for i in range(count(size, 150)):
        above = f"a{i - 1}" if i else "first"
        yield _pi("context_edit", f"a{i}", above, targetId="first", replacement=None)


@foreign
def pi_version_1(size: int) -> Iterable[bytes]:
    yield json.dumps({"type": "session", "id": "s", "timestamp": _TIME, "cwd": "/w"}).encode()
    for _ in range(count(size, 100)):
        yield b'{"type":"message","timestamp":"%b","message":{"role":"user","content":"x"}}' % (
            _TIME.encode()
        )


# --- edits of a file ---------------------------------------------------------------------------

EDITS: Final[list[str]] = []
"""Those of the files of our own that edit a.py."""

_PROJECT: Final = HEADER.replace(b',"cwd":"/work"', b"")


def edited(calls: Callable[[int], Iterable[tuple[str, Any, Any]]]) -> Callable[[int], Any]:
    """Register calls about a.py, each with what is kept beside its result; a.py lies beside it."""
    name = calls.__name__.strip("_")

    def lines(size: int) -> Iterator[bytes]:
        yield _PROJECT
        above = "h"
        for i, (tool, given, told) in enumerate(calls(size)):
            call = {"type": "tool_use", "id": f"t{i}", "name": tool, "input": given}
            message = {"role": "assistant", "content": [call]}
            yield entry("message", f"c{i}", above, message=message)
            result = {"type": "tool_result", "tool_use_id": f"t{i}", "content": "done"}
            message = {"role": "user", "content": [result]}
            beside = {"toolUseResult": told} if told else {}
            yield entry("message", f"r{i}", f"c{i}", message=message, **beside)
            above = f"r{i}"

    def build(folder: Path, size: int) -> Path:
        (folder / "a.py").write_text("x\ny\n" * 5000)
        return _written(folder / f"{name}.jsonl", lines(size))

    STRUCTURES[name] = build
    EDITS.append(name)
    return calls


def _edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"file_path": "a.py", "old_string": old, "new_string": new, **more}


@edited
def edit_of_a_huge_text(size: int) -> Iterator[Any]:
    yield "Edit", _edit("x\n" * (size // 6), "y\n" * (size // 6)), None


@edited
def edit_of_many_hunks(size: int) -> Iterator[Any]:
    each = count(size, 60)
    hunks = [{"oldStart": each - i, "lines": ["-x", "+y"]} for i in range(each)]
    yield "Edit", _edit("a", "b"), {"structuredPatch": hunks, "originalFile": "x\n" * each}


@edited
def patch_of_many_hunks(size: int) -> Iterator[Any]:
    hunks = "@@ x\n-y\n+x\n" * count(size, 30)
    yield "Write", {"file_path": "a.py", "content": "x\ny\n" * (size // 12)}, None
    yield "apply_patch", f"*** Begin Patch\n*** Update File: a.py\n{hunks}*** End Patch", None


@edited
def edit_of_a_long_path(size: int) -> Iterator[Any]:
    yield "Edit", {**_edit("a", "b"), "file_path": "/" * (size // 2) + "a.py"}, None
    yield "Edit", {**_edit("a", "b"), "file_path": "a/../" * (size // 12) + "a.py"}, None


@edited
def scripts_nested_deep(size: int) -> Iterator[Any]:
    each = size // 20
    for script in (
        "cd a && " * (each // 2),
        "((" * each,
        "cat <<'A' " * (each // 3) + "\nA" * each,
    ):
        yield "Bash", {"command": f"{script} a.py\nrm a.py"}, None


@edited
def edits_of_a_large_file(size: int) -> Iterator[Any]:
    yield "Write", {"file_path": "a.py", "content": "x\n" * (size // 6) + "start -1\n"}, None
    for i in range(count(size // 2, 450)):
        yield "Edit", _edit(f"start {i - 1}\n", f"start {i}\n"), None


@edited
def edits_of_what_is_not_there(size: int) -> Iterator[Any]:
    for i in range(count(size, 450)):
        yield "Edit", _edit(f"nothing of the file {i}\n", f"a line of some substance {i}\n"), None


@edited
def edits_that_multiply(size: int) -> Iterator[Any]:
    yield "Write", {"file_path": "a.py", "content": "aaaaaaaaaa"}, None
    for _ in range(20):
        yield "Edit", _edit("a", "a" * 10, replace_all=True), None


@edited
def reads_far_below(size: int) -> Iterator[Any]:
    for i in range(count(size, 500)):
        numbers = {"startLine": i * 10**5 + 1, "numLines": 1, "totalLines": 10**15}
        shown = {"filePath": "a.py", "content": "line", **numbers}
        yield "Read", {"file_path": "a.py", "offset": 1}, {"file": shown}


def _patch(body: str) -> str:
    return f"*** Begin Patch\n*** Update File: a.py\n{body}*** End Patch"


def _write(content: str) -> tuple[str, Any, None]:
    return "Write", {"file_path": "a.py", "content": content}, None


def _read(content: str) -> tuple[str, Any, Any]:
    lines = content.count("\n")
    numbers = {"startLine": 1, "numLines": lines, "totalLines": lines}
    shown = {"filePath": "a.py", "content": content, **numbers}
    return "Read", {"file_path": "a.py"}, {"file": shown}


@edited
def patches_of_many_lines_that_fit_nowhere(size: int) -> Iterator[Any]:
    lines = size // 6
    yield _write("a\n" * lines)
    for _ in range(20):
        yield "apply_patch", _patch("@@\n" + " a\n" * (lines // 25) + "-b\n+c\n"), None


@edited
def patches_of_few_lines_that_fit_nowhere(size: int) -> Iterator[Any]:
    yield _write("a\n" * (size // 5))
    for _ in range(count(size // 2, 450)):
        yield "apply_patch", _patch("@@\n a\n-b\n+c\n a\n"), None


@edited
def patches_of_a_file_of_which_a_page_has_the_states(size: int) -> Iterator[Any]:
    yield _write("ab\n" * min(size // 6, 130_000))
    for i in range(count(size - 390_000, 450)):
        yield "apply_patch", _patch(f"@@\n ab\n-{'ab' if i else 'b'}\n+ab\n ab\n"), None


@edited
def patches_below_heads(size: int) -> Iterator[Any]:
    """Each head is found only without the spaces before it, and each hunk only at the end."""
    yield _write("  x\n" * (size // 10) + "  y\n" * (size // 20))
    heads = count(size // 5, 8)
    yield "apply_patch", _patch("@@ x\n" * heads + "-  y\n+  z\n"), None
    yield "apply_patch", _patch("@@ x\n-y\n+z\n" * (heads // 2)), None


@edited
def patches_of_other_spaces(size: int) -> Iterator[Any]:
    each = size // 80
    yield _write(" x\n y \n" * each * 2)
    for _ in range(3):
        yield "apply_patch", _patch("@@\n  x\n-y\n+  y\n" * each), None


@edited
def hunks_at_wrong_numbers(size: int) -> Iterator[Any]:
    """Each hunk has two lines, which are far from the number of the hunk."""
    each = count(size, 75)
    hunks = [{"oldStart": 1, "lines": [" x", "-y", f"+z{i}"]} for i in range(each)]
    before = "a\n" * each * 2 + "x\ny\n" * each
    yield "Edit", _edit("nowhere", "b"), {"structuredPatch": hunks, "originalFile": before}


@edited
def hunks_of_alike_lines_at_wrong_numbers(size: int) -> Iterator[Any]:
    each = size // 40
    lines = [" a"] * each + ["-b", "+c"]
    told = {"structuredPatch": [{"oldStart": 7, "lines": lines}], "originalFile": "a\n" * each * 4}
    yield "Edit", _edit("nowhere", "b"), told
    yield _write("a\n" * each * 4)
    yield "Edit", _edit("nowhere", "b"), {"structuredPatch": told["structuredPatch"]}


@edited
def hunks_that_add_lines(size: int) -> Iterator[Any]:
    each = count(size, 60)
    hunks = [{"oldStart": 2 * i + 1, "lines": [" x", "+y", " x"]} for i in range(each)]
    told = {"structuredPatch": hunks, "originalFile": "x\n" * each * 3}
    yield "Edit", _edit("nowhere", "b"), told


@edited
def hunks_with_numbers_of_pi(size: int) -> Iterator[Any]:
    shown = "".join(f"+{i} a\n...\n" for i in range(1, count(size, 16)))
    yield "Edit", _edit("nowhere", "b"), {"diff": shown}


@edited
def swaps_of_each_line(size: int) -> Iterator[Any]:
    yield _write("a\n" * (size // 100))
    for i in range(count(size, 480)):
        yield "Edit", _edit("ab"[i % 2], "ba"[i % 2], replace_all=True), None


@edited
def swaps_of_a_line_of_many(size: int) -> Iterator[Any]:
    yield _write("b\n" * 60_000 + "a\n")
    for i in range(count(size, 480)):
        yield "Edit", _edit("ac"[i % 2], "ca"[i % 2]), None


@edited
def swaps_in_one_edit(size: int) -> Iterator[Any]:
    swaps = [{"oldText": "ab"[i % 2], "newText": "ba"[i % 2]} for i in range(count(size // 2, 35))]
    told = {"originalFile": "b" * (size // 2) + "a"}
    yield "Edit", {"file_path": "a.py", "edits": swaps}, told
    yield "Edit", {"file_path": "a.py", "edits": swaps[: len(swaps) // 4]}, None


@edited
def swaps_in_small_edits(size: int) -> Iterator[Any]:
    """Many edits that each have a content and many swaps of it."""
    swaps = [{"oldText": "ab"[i % 2], "newText": "ba"[i % 2]} for i in range(300)]
    for _ in range(count(size, 30_600)):
        yield "Edit", {"file_path": "a.py", "edits": swaps}, {"originalFile": "b" * 20_000 + "a"}


@edited
def swaps_in_a_text_that_repeats(size: int) -> Iterator[Any]:
    """A search compares much of the text at each place."""
    yield _write("a" * 29_000)
    for _ in range(count(size, 550)):
        yield "Edit", _edit("a" * 49 + "b" + "a" * 49, "c"), None


@edited
def swaps_in_a_long_text_that_repeats(size: int) -> Iterator[Any]:
    yield _write("a" * (size // 4))
    for _ in range(count(size // 2, 550)):
        yield "Edit", _edit("a" * 49 + "b" + "a" * 49, "c"), None


@edited
def swaps_of_unknown_lines(size: int) -> Iterator[Any]:
    """Lines of a few parts are known, and edits are looked for in them."""
    lines = size // 16
    for first in (1, lines, lines * 3):
        shown = {"filePath": "a.py", "content": "a\n" * lines, "startLine": first}
        numbers = {"numLines": lines, "totalLines": 10**6}
        yield "Read", {"file_path": "a.py", "offset": first}, {"file": {**shown, **numbers}}
    for i in range(count(size // 2, 480)):
        yield "Edit", _edit(f"a\na\nb{i}", "c"), None


@edited
def writes_without_lines_that_stand_once(size: int) -> Iterator[Any]:
    """Between lines that stand once are runs of a hundred lines that many others are like."""
    for text in ("a\nb\n" * 25 + "b\na\n" * 25, "b\nb\na\n" * 33):
        each = count(size // 3, len(text) + 12)
        yield _write("".join(f"{text}only {i}\n" for i in range(each)))


@edited
def edits_without_lines_that_stand_once(size: int) -> Iterator[Any]:
    for _ in range(count(size, 900)):
        yield "Edit", _edit("b\nb\na\n" * 33, "a\nb\n" * 25 + "b\na\n" * 25), None


@edited
def writes_of_anchors_within_anchors(size: int) -> Iterator[Any]:
    """Each line that stands once, when it is found, leaves another one beside it."""
    lead = [f"u{i + 1}\nu{i}\nv{i}\n" for i in range(60)]
    for mark in "xy":
        between = f"{mark}\n"
        yield _write(between.join(lead) + f"{mark}\na\n" * (size // 20) + "".join(lead))


@edited
def edits_of_anchors_within_anchors(size: int) -> Iterator[Any]:
    one, other = (
        f"{mark}\n".join(f"u{i + 1}\nu{i}\nv{i}\n" for i in range(60)) + f"{mark}\n" * 100
        for mark in "xy"
    )
    for _ in range(count(size, len(one) + len(other) + 400)):
        yield "Edit", _edit(one, other), None


@edited
def writes_in_another_form(size: int) -> Iterator[Any]:
    """Between lines that stand once are lines that are the same without spaces, or none."""
    each = count(size // 3, 700)
    for lines in (["a ,"] * 180, [" a,a"] * 90 + [" "] * 90):
        text = "".join(f"{line}\n" for line in lines)
        yield _write("".join(f"{text}only {i}\n" for i in range(each)))


@edited
def edit_of_each_eighth_line(size: int) -> Iterator[Any]:
    text = "".join(f"{i}\n" if i % 8 else "b\n" for i in range(size // 40))
    yield "Edit", _edit("b", "c", replace_all=True), {"originalFile": text}
    yield _write(text)
    yield "Write", {"file_path": "a.py", "content": text.replace("b", "c")}, {"originalFile": text}


@edited
def reads_of_a_part_again(size: int) -> Iterator[Any]:
    shown = {"filePath": "a.py", "content": "line", "startLine": 999_999}
    numbers = {"numLines": 1, "totalLines": 10**15}
    for _ in range(count(size, 480)):
        yield "Read", {"file_path": "a.py", "offset": 9}, {"file": {**shown, **numbers}}


@edited
def reads_of_a_part_of_what_is_known(size: int) -> Iterator[Any]:
    yield _write("a\n" * (size // 6))
    shown = {"filePath": "a.py", "content": "a", "startLine": 9, "numLines": 1, "totalLines": 10**9}
    for _ in range(count(size // 2, 480)):
        yield "Read", {"file_path": "a.py", "offset": 9}, {"file": shown}


@edited
def reads_of_lines_of_edits_that_fit_nowhere(size: int) -> Iterator[Any]:
    for i in range(100):
        yield "Edit", _edit(f"nothing of the file {i}\n", "ab\n" * 100), None
    for i in range(10):
        yield _read("ab\n" * (size // 60) + "ac\n" * i)


@edited
def reads_between_large_edits_that_fit_nowhere(size: int) -> Iterator[Any]:
    for i in range(50):
        text = f"some substance of line {i}\n" * (size // 6000)
        yield "Edit", _edit(f"nothing of the file {i}\n{text}", f"{text}more {i}\n"), None
    for i in range(count(size // 4, 800)):
        yield _read(f"a\nb\nsome other substance {i}\n" * 3)


@edited
def edits_that_were_there(size: int) -> Iterator[Any]:
    """Each edit adds lines that the file has already."""
    lines = "".join(f"a line of some substance {i}\n" for i in range(size // 90))
    yield _write(lines + "end\n")
    for i in range(count(size // 2, 520)):
        line = f"a line of some substance {i % 900}\n"
        yield "Edit", _edit(f"{i % 899}\n", f"{i % 899}\n{line}"), None


@edited
def writes_of_two_contents_in_turn(size: int) -> Iterator[Any]:
    each = size // 100
    for i in range(40):
        yield _write(f"{'ab'[i % 2]} line {i}\n" * (each // 10))


@edited
def states_of_wide_characters(size: int) -> Iterator[Any]:
    yield _write("\U0001f600" + "a\n" * 10_000 + "start -1\n")
    for i in range(count(size, 480)):
        yield "Edit", _edit(f"start {i - 1}\n", f"start {i}\n"), None


@edited
def moves_in_a_chain(size: int) -> Iterator[Any]:
    each = count(size, 450) // 30
    for move in range(30, 0, -1):
        for i in range(each):
            yield "Edit", {**_edit(f"old {i}", f"new {i}"), "file_path": f"a{move}.py"}, None
        to = f"a{move - 1}.py" if move > 1 else "a.py"
        yield "Bash", {"command": f"mv a{move}.py {to}"}, None


@edited
def paths_in_other_folders(size: int) -> Iterator[Any]:
    for i in range(count(size, 430)):
        yield "Edit", {**_edit("a", "b"), "file_path": f"/w{i}/../{i}/a.py"}, None


@edited
def scripts_of_long_words(size: int) -> Iterator[Any]:
    line = f"echo '{'x' * 8000}' > a.py\n"
    for _ in range(count(size, len(line) * 100)):
        yield "Bash", {"command": line * 100}, None


@edited
def scripts_of_many_commands(size: int) -> Iterator[Any]:
    script = "cat a.py\nrm b&&" + "mv a.py b;" * 190
    for _ in range(count(size, len(script) + 380)):
        yield "Bash", {"command": script}, None


@own
def calls_of_which_each_line_has_the_id(size: int) -> Iterator[bytes]:
    """Calls that edit a.py and have no result, and ids that all lines have."""
    call = {"type": "tool_use", "name": "Edit", "input": _edit("a", "b")}
    calls = [{**call, "id": chr(code)} for code in range(ord("#"), ord("z"))]
    yield entry("message", "c", "h", message={"role": "assistant", "content": calls})
    yield from chain(count(size, _EACH), above="c")


@foreign
def codex_items_in_a_compaction(size: int) -> Iterable[bytes]:
    """A line whose items would each hash the line."""
    yield _CODEX
    for _ in range(2):
        text = [{"type": "input_text", "text": "x"}]
        items = [{"type": "message", "role": "assistant", "content": text}] * count(size // 2, 85)
        yield _codex("compacted", message="done so far", replacement_history=items)


# --- agents whose sessions are a sequence ------------------------------------------------------

_KIMI: Final = b'{"type":"metadata","protocol_version":"1.5","created_at":1795290767000}'


def _kimi(kind: str, /, **keys: Any) -> bytes:
    return json.dumps({"type": kind, "time": 1, **keys}, separators=(",", ":")).encode()


def _kimi_said() -> bytes:
    message = {"role": "user", "content": [{"type": "text", "text": "x"}]}
    return _kimi("context.append_message", message={**message, "origin": {"kind": "user"}})


@foreign
def kimi_parts(size: int) -> Iterable[bytes]:
    """One answer in many lines."""
    yield _KIMI
    part = {"type": "content.part", "stepUuid": "s", "part": {"type": "text", "text": "x"}}
    yield from [_kimi("context.append_loop_event", event=part)] * count(size, 140)


@foreign
def kimi_undone(size: int) -> Iterable[bytes]:
    """Prompts, each of which is taken back, and then all of them."""
    yield _KIMI
    for i in range(count(size, 200)):
        yield _kimi_said()
        yield _kimi("context.undo", count=1 if i % 2 else 10**9)


def _document(name: str, made: Callable[[int], dict[str, Any]]) -> None:
    def build(folder: Path, size: int) -> Path:
        file = folder / f"{name}.messages.json"
        file.write_text(json.dumps(made(size), indent=1))
        return file

    FOREIGN[name] = build


def _cline(messages: list[Any]) -> dict[str, Any]:
    about = {"version": 1, "updated_at": _TIME, "agent": "lead", "sessionId": "s", "origin": {}}
    return {**about, "messages": messages}


_OUTCOMES: Final[list[Any]] = [{"result": "x", "success": True}]
_SAID: Final = {"role": "user", "content": "x", "ts": 1}
_document("cline_messages", lambda size: _cline([_SAID] * count(size, 60)))
_document(
    "cline_outcomes",
    lambda size: _cline(
        [{"role": "user", "content": [{**_result_block("c"), "content": _OUTCOMES * (size // 55)}]}]
    ),
)
_document(
    "continue_results",
    lambda size: {
        "sessionId": "s",
        "title": "t",
        "workspaceDirectory": "/w",
        "history": [
            {
                "message": {"role": "assistant", "content": "x"},
                "toolCallStates": [{"status": "done"}] * (size // 30),
            }
        ],
    },
)


@foreign
def crush_results(size: int) -> Iterable[bytes]:
    """One row with many results."""
    yield (
        b'{"type":"session_row","id":"s","parent_session_id":null,"prompt_tokens":0,'
        b'"completion_tokens":0}'
    )
    part = b'{"type":"tool_result"}'
    parts = b",".join([part] * (size // len(part)))
    yield b'{"type":"message","id":"m","role":"tool","parts":[%b]}' % parts
