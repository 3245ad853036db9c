"""What an open session and its turns cost, as reported or at list prices, and how large it is.

What an entry spent, and that an answer counts once, is the rule of `core.usage`; `spending` applies
it to the entries of a session. An agent may report a cost apart from the answers: Claude Code
writes what the session cost so far (`cost-state`), and the recorder what a turn cost. An answer
that such a report covers has no cost of its own, and must not be priced again.

The list prices are those of the package `genai-prices`, which has them in itself. It is an optional
dependency, and slow to import: only `load` imports it.

Invariants:

- The whole file counts, with all branches and lanes. An answer counts in the turn that has its
  first entry; what an agent reported for the whole session counts in no turn.
- No blob is read, and no handle resolved but those that may be answers.
- Nothing is read from the network.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from sessiontree.core.blocks import role_of_entry
from sessiontree.core.entry import Entry, decode_object, is_of_subagent
from sessiontree.core.handle import Blob, blobs_needed, may_name_blob
from sessiontree.core.index import NO_ROW, TreeIndex
from sessiontree.core.jsonbytes import has_escapes
from sessiontree.core.usage import Mode, Spent, Sums, Usage, spent_by, total
from sessiontree.views.messages import with_messages
from sessiontree.views.tree import count_branches

if TYPE_CHECKING:
    from sessiontree.engine.cursor import Cursor
    from sessiontree.engine.reader import TreeReader
    from sessiontree.views.turns import SessionOutline


_VARIANT: Final = re.compile(r"\[[^]]*]$|-\d{8}$")
"""What a name of a model may have at its end in one place and not in another."""


def spending(cursor: Cursor, needed: set[Blob] | None = None) -> list[Spent]:
    """What each entry with usage spent; an answer that several entries repeat is given once.

    The blobs that entries need are added to `needed`, so that the file is read once.
    """
    sums = Sums()
    sums.begin(cursor.reader.header.as_stored)
    lack = "the usage is not counted"
    entries = may_have_usage(cursor.reader, set() if needed is None else needed)
    for entry, message in with_messages(entries, cursor.messages, lack, _may_be_answer):
        fields = entry.message_as_stored if entry.type == "message" else entry.as_stored
        fields = fields if message is None else message
        if isinstance(fields, dict):
            is_beside = entry.lane is not None and is_of_subagent(entry.lane)
            for spent in spent_by(entry.as_stored, fields):
                sums.add(spent, beside=is_beside)
    return sums.spent


def with_covered(found: list[Spent]) -> list[Spent]:
    """What one session spent, with the answers marked whose cost another entry reports.

    Such an entry is given with the provider and the name that the answers have for its model.
    """
    until: dict[str, float] = {}  # by model: the time of its last report
    named: dict[str, Spent] = {}
    for spent in found:
        model = _plain(spent.model)
        if spent.is_report:
            time = inf if spent.time is None else spent.time
            until[model] = max(until.get(model, time), time)
        else:
            named.setdefault(model, spent)
    return [_marked(spent, until, named) for spent in found] if until else found


def unreported(found: Iterable[Spent]) -> list[Spent]:
    """What was spent without the costs that were reported, so that each answer needs a price."""
    return [
        replace(spent, usage=replace(spent.usage, cost=0.0), is_reported=False, is_covered=False)
        for spent in found
        if not spent.is_report
    ]


def _marked(spent: Spent, until: Mapping[str, float], named: Mapping[str, Spent]) -> Spent:
    model = _plain(spent.model)
    if spent.is_report:
        answer = named.get(model, spent)
        return replace(spent, provider=answer.provider, model=answer.model)
    ends = [until[each] for each in (model, "") if each in until]
    is_covered = bool(ends) and (spent.time is None or spent.time <= max(ends))
    return replace(spent, is_covered=True) if is_covered and not spent.is_reported else spent


def _plain(model: str) -> str:
    return _VARIANT.sub("", _VARIANT.sub("", model))


def may_have_usage(reader: TreeReader, needed: set[Blob]) -> Iterator[Entry]:
    """The entries that may have usage; the blobs that entries need are added to `needed`."""
    with reader.alone():
        view = reader.whole()
        lines = view.entry_lines()
    for offset, line in lines:
        if may_name_blob(line):
            needed.update(blobs_needed(decode_object(line)))
        if b'"usage"' not in line and b'"handle"' not in line and not has_escapes(line):
            continue
        entry = view.decode(line, offset)
        if entry is not None:
            yield entry


def _may_be_answer(handle: Entry) -> bool:
    """Whether a handle of a message may be an answer, and does not have its usage itself."""
    return role_of_entry(handle) in (None, "assistant") and "usage" not in handle.as_stored


class CostSum(NamedTuple):
    """What answers cost in US dollars; see `Stats.cost`."""

    reported: float = 0.0  # the cost that was reported with the answers
    estimated: float = 0.0  # the list prices of the answers without a reported cost
    unpriced: int = 0  # the number of answers that have neither

    @property
    def dollars(self) -> float:
        """The sum of what is known."""
        return self.reported + self.estimated


class Stats(msgspec.Struct, frozen=True):
    """A session in numbers."""

    types: dict[str, int]  # the number of entries of each type, including the header
    branches: int  # the number of branches, without scratch lanes that were never kept
    # the number of entries on each lane; entries without a lane count for `main`
    lanes: dict[str, int]
    file_bytes: int  # the size of the session file
    blob_bytes: int  # the size of all blobs beside the file
    blobs: int  # the number of blobs beside the file
    # the number of blobs that entries need, but that are missing or of a wrong size
    lost_blobs: int
    usage: Usage  # the tokens and the cost of all answers, summaries and `usage` entries
    models: dict[str, Usage]  # the tokens and the cost for each known model (`provider/model`)
    spent: tuple[Spent, ...] = ()  # what each answer spent, from which `cost` is made

    @property
    def cost(self) -> CostSum:
        """What the session cost: as reported, and estimated for answers without a report.

        The estimate is made at the list prices of the package `genai-prices`, as by `stats --by`;
        without the extra `prices`, such answers are counted in `unpriced`. The first call loads
        the package.
        """
        return cost_of(self.spent)

    @property
    def entries(self) -> int:
        """The number of entries, including the header."""
        return sum(self.types.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON object that `stats --json` prints."""
        return {
            "entries": self.entries,
            "types": self.types,
            "branches": self.branches,
            "lanes": self.lanes,
            "bytes": {"file": self.file_bytes, "blobs": self.blob_bytes},
            "blobs": self.blobs,
            "lostBlobs": self.lost_blobs,
            "usage": self.usage.as_dict(),
            "models": {name: usage.as_dict() for name, usage in self.models.items()},
        }


def stats(cursor: Cursor, file_bytes: int) -> Stats:
    """See `Session.stats`; `file_bytes` is the size of the session file."""
    reader = cursor.reader
    tree = reader.index()
    rows = range(len(tree))
    needed: set[Blob] = set()
    found = spending(cursor, needed)
    blobs = list(reader.blobs.blobs())
    return Stats(
        types=dict(Counter(map(tree.type_of, rows)).most_common()),
        branches=count_branches(reader),
        lanes=dict(Counter(tree.lane_of(row) or "main" for row in rows)),
        file_bytes=file_bytes,
        blob_bytes=sum(blob.size for blob in blobs),
        blobs=len(blobs),
        lost_blobs=_lost(reader, needed),
        usage=total(found),
        models=_by_model(found),
        spent=tuple(found),
    )


def with_spent(numbers: Stats, found: Sequence[Spent]) -> Stats:
    """The numbers of a session of which these are all answers, also those in other files."""
    usage, models = total(found), _by_model(found)
    return replace(numbers, usage=usage, models=models, spent=tuple(found))


def _by_model(found: Iterable[Spent]) -> dict[str, Usage]:
    models: dict[str, Usage] = {}
    for spent in found:
        if name := spent.name:
            models[name] = models.get(name, Usage()) + spent.usage
    return models


def lost_blobs(reader: TreeReader) -> int:
    """The number of blobs that entries need, but that are missing or of a wrong size."""
    needed: set[Blob] = set()
    for _ in may_have_usage(reader, needed):
        pass
    return _lost(reader, needed)


def _lost(reader: TreeReader, needed: set[Blob]) -> int:
    return sum(reader.blobs.fault(blob) is not None for blob in needed)


HOW_TO_GET: Final = "pip install 'sessiontree[prices]'"


_FAST: Final = Mode("speed", "fast")

_TIMES: Final = (("claude-opus-4-6", 6), ("claude-opus-4-7", 6))
"""How many times the usual price Anthropic took for the fast mode of models that lost it.

The package does not have these prices.
"""

_OF_AMAZON: Final = re.compile(r"(?:[a-z-]+\.)?anthropic\.")
"""How the names of Anthropic's models begin at Amazon Bedrock, which has its own prices."""


class Prices:
    """The list prices of models.

    The package takes a tenth of a millisecond for an answer. The price is linear in the tokens of
    each kind, for one model, time and tier: so it is asked once for each kind, with as many tokens.
    """

    def __init__(self, calculate: Callable[..., Any], usage: Callable[..., Any], name: str) -> None:
        self._calculate = calculate
        self._usage = usage
        self.name = name
        self._models: dict[tuple[str | None, str], Any] = {}
        self._rates: dict[tuple[int, int], _Rates | None] = {}
        self._kept: dict[int, Any] = {}  # so that the ids of these objects stay theirs

    def of(self, spent: Spent) -> float | None:
        """The price in US dollars at the time of an answer; None if none is known."""
        usual = self._price(spent, spent.moment)
        if spent.mode is None or not usual:
            return usual
        price = self._price(spent, spent.moment, spent.mode)
        return price if price != usual else usual * self._times(spent)

    def _times(self, spent: Spent) -> float:
        """How many times the usual price an answer costs whose mode has no price at its time.

        The package has the prices of many modes from a day on alone, and of some not at all.
        """
        usual, price = self._price(spent, None), self._price(spent, None, spent.mode)
        if usual and price and price != usual:
            return price / usual
        is_fast = spent.mode == _FAST
        return next((n for name, n in _TIMES if is_fast and spent.model.startswith(name)), 1)

    def _price(self, spent: Spent, time: datetime | None, mode: Mode | None = None) -> float | None:
        if not spent.model:
            return None
        name = spent.provider, spent.model
        if spent.is_of_session and name not in self._models:  # of many requests, none as large
            self._price(replace(spent, usage=Usage(input=1), is_of_session=False), time)
        if name in self._models and mode is None:
            rates = self._rates_of(spent, time)
            if rates is not None:
                return float(sum(rates[kind] * count for kind, count in _kinds(spent)))
        found = self._asked(spent, _tokens(spent), time, mode)
        self._models.setdefault(name, getattr(found, "model", None))
        if found is None or all(price is None for price in vars(found.model_price).values()):
            return None
        return float(found.total_price)

    def _asked(
        self, spent: Spent, tokens: dict[str, int], time: datetime | None, mode: Mode | None
    ) -> Any:
        """What the package calculates; None for a model or tokens without a price."""
        try:
            return self._calculate(
                self._usage(**tokens),
                spent.model,
                provider_id=spent.provider or _provider_of(spent.model),
                genai_request_timestamp=time,
                price_context=mode and {mode.key: mode.value},
            )
        except (LookupError, ValueError):
            return None

    def _rates_of(self, spent: Spent, time: datetime | None) -> _Rates | None:
        """The price of one token of each kind; None where that is not known."""
        model = self._models[spent.provider, spent.model]
        total = 1 if spent.is_of_session else _input(spent)
        if model is None or not total:
            return None
        prices = model.get_prices(time or datetime.now(UTC))
        key = id(prices), sum(total > start for start in _starts(prices))
        if key not in self._rates:
            self._kept[id(prices)] = prices
            self._rates[key] = self._rates_at(spent, total, time)
        return self._rates[key]

    def _rates_at(self, spent: Spent, total: int, time: datetime | None) -> _Rates | None:
        rates: dict[str, Decimal] = {}
        for kind, names in _KINDS.items():
            tokens = dict.fromkeys(("input_tokens", *names), total)
            found = self._asked(spent, tokens, time, None)
            if found is None or not _is_by_token(found.model_price):
                return None
            rates[kind] = found.total_price / total
        rates["output"] -= rates["input"]  # it was asked beside as many tokens of input
        return rates


_Rates = dict[str, Decimal]
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "input": (),
    "output": ("output_tokens",),
    "read": ("cache_read_tokens",),
    "written": ("cache_write_tokens",),
    "written for an hour": ("cache_write_tokens", "cache_write_1h_tokens"),
    "written for minutes": ("cache_write_tokens", "cache_write_5m_tokens"),
}


def _kinds(spent: Spent) -> Iterator[tuple[str, int]]:
    used, long = spent.usage, spent.written_for_an_hour
    yield "input", used.input
    yield "output", used.output
    yield "read", used.cache_read
    if long:
        yield "written for an hour", long
        yield "written for minutes", used.cache_write - long
    else:
        yield "written", used.cache_write


def _input(spent: Spent) -> int:
    used = spent.usage
    return used.input + used.cache_read + used.cache_write


def _is_by_token(prices: Any) -> bool:
    """Whether a model has a price, and none for each request."""
    named = [name for name, price in vars(prices).items() if price is not None]
    return bool(named) and "requests_kcount" not in named


def _starts(prices: Any) -> set[int]:
    """The sizes of an input above which a model has other prices."""
    tiers = (getattr(price, "tiers", ()) for price in vars(prices).values())
    return {tier.start for found in tiers for tier in found}


def load() -> Prices | None:
    """The prices of the installed package; None if it is not installed."""
    try:
        import genai_prices
    except ImportError:
        return None
    name = f"genai-prices {genai_prices.__version__}"
    return _prices(genai_prices.calc_price, genai_prices.Usage, name)


_prices: Final = cache(Prices)
"""The prices of the package, with what they were asked before."""


def _provider_of(model: str) -> str | None:
    return "aws" if _OF_AMAZON.match(model) else None


def _tokens(spent: Spent) -> dict[str, int]:
    """The tokens as the package counts them: the input includes what a cache keeps."""
    used, long = spent.usage, spent.written_for_an_hour
    tokens = {
        "input_tokens": used.input + used.cache_read + used.cache_write,
        "output_tokens": used.output,
        "cache_read_tokens": used.cache_read,
        "cache_write_tokens": used.cache_write,
        "cache_write_1h_tokens": long,
        "cache_write_5m_tokens": used.cache_write - long if long else 0,
    }
    return {name: count for name, count in tokens.items() if count}


def costs_of_turns(cursor: Cursor, outline: SessionOutline, prices: Prices | None) -> list[CostSum]:
    """The cost of each turn of an outline, in its order."""
    tree = cursor.reader.index()
    owners = _owners(tree, outline)
    found: list[list[Spent]] = [[] for _ in outline.turns]
    for spent in spending(cursor):
        row = tree.row(spent.entry) if not spent.is_of_session else NO_ROW
        if row != NO_ROW and (place := owners[row]) >= 0:
            found[place].append(spent)
    return [_sum(with_covered(each), prices) for each in found]


def _owners(tree: TreeIndex, outline: SessionOutline) -> array[int]:
    """The turn of each row: that of the nearest row above it that begins one; -1 for none."""
    begins = {tree.row(turn.uuid): place for place, turn in enumerate(outline.turns)}
    owners = array("i", [-1]) * len(tree)
    is_done = bytearray(len(tree))
    for row in range(len(tree)):
        path: list[int] = []
        above = row
        while above != NO_ROW and not is_done[above]:
            is_done[above] = 1
            path.append(above)
            above = tree.parents[above]
        place = -1 if above == NO_ROW else owners[above]
        for each in reversed(path):
            place = owners[each] = begins.get(each, place)
    return owners


def cost_of(found: Sequence[Spent]) -> CostSum:
    """Return what answers of one session cost; list prices are loaded if an answer needs one."""
    covered = with_covered(list(found))
    return _sum(covered, load() if any(spent.needs_price for spent in covered) else None)


def _sum(found: Iterable[Spent], prices: Prices | None) -> CostSum:
    reported = estimated = 0.0
    unpriced = 0
    for spent in found:
        reported += spent.usage.cost
        if spent.needs_price:
            price = None if prices is None else prices.of(spent)
            estimated += price or 0.0
            unpriced += price is None
    return CostSum(reported, estimated, unpriced)
