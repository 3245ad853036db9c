"""Redaction: secrets in values replaced by masks, and a report of them.

A mask is `[redacted:RULE:N]`: within one `Redaction` the same secret always has the same mask, and
two secrets never share one, so a reader can follow. A home directory becomes `~`. JSON text stays
JSON text: it is masked by its values, and written in its own style.

A `ReplacedText` is a text as a person reads it, where its spelling hides a secret. It knows for
each of its spans where that is in the text. `plain` has no characters that a terminal does not
show, and the characters that escapes (`\\u0073`, `\\x73`, `%2D`, `&#45;`) and full-width letters
spell. `joined` has words without the markup and line breaks in them; only formats are searched
there, because context does not survive it.

No rule finds a secret that is split over several strings, or is in an image, an archive, or text
that was encoded (base64) or encrypted.

Invariants: a value without secrets comes back as the same object; a mask is never masked, so a
second redaction changes nothing; only the `Redaction` itself keeps secrets, and no report names
one.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple

from sessiontree.core.entry import KNOWN, Entry
from sessiontree.core.media import binary, binary_in, left_out
from sessiontree.core.message import CALL_BLOCKS, IMAGE_BLOCKS, RESULT_BLOCKS
from sessiontree.core.spill import OPAQUE, STRUCTURE
from sessiontree.redact.rule import Rule, Rules
from sessiontree.redact.rules import RULES
from sessiontree.redact.values import HOME, VENDOR, home_rule, homes_in, is_secret_value, keyword_of

UNSEEN: Final = (
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b."
    r"|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f"
    r"\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff"
    r"\ufe00-\ufe0f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters that a terminal does not show: colours, and characters without a shape."""

_ESCAPE: Final = (
    r"\\{1,4}u(?:00[2-7c-fC-F][0-9a-fA-F]|0[14][0-9a-fA-F]{2}|30[0-9a-fA-F]{2}|[4-9][0-9a-fA-F]{3}"
    r"|[aA][c-fC-F][0-9a-fA-F]{2}|[b-cB-C][0-9a-fA-F]{3}|[fF]{2}[0-5][0-9a-fA-F]|200[b-fB-F]|2060|(?:fe|FE)(?:ff|FF)|00[aA][dD]"
    r"|\{0{0,4}[2-7][0-9a-fA-F]\})|\\{1,4}x[2-7][0-9a-fA-F]"
    r"|%[2-7][0-9a-fA-F]|&#(?:x0{0,4}(?:[2-7][0-9a-fA-F]|200[b-fB-F])|0{0,4}(?:[0-9]{2,3}"
    r"|820[3-7]));"
    r"|&(?:amp|lt|gt|quot|apos|colon|equals|commat|lowbar|period|sol|hyphen|shy|ZeroWidthSpace);"
)
_WIDE: Final = r"[\uff01-\uff5e\U0001d400-\U0001d7ff\u2460-\u24ff\ufe58-\ufe6b\u2010-\u2012]"
_HIDDEN: Final = re.compile(f"(?P<unseen>{UNSEEN})|(?P<escape>{_ESCAPE})|(?P<wide>{_WIDE})")
_SIGN: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u202e\u2060-\u206f\u2460-\u24ff\ud800-\udfff\ufe00-\ufe0f\ufe58-\ufe6b\ufeff"
    r"\uff01-\uff5e\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U0001d400-\U0001d7ff\U000e0001\U000e0020-\U000e007f%&\\\u2010-\u2012]"
)
"""Each character that a hidden piece can begin with: to search one set is faster."""

_ASCII_SIGN: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f%&\\]")

_BREAK: Final = (
    r"(?:</?[A-Za-z][^<>]{0,100}>|<!--[^<>]{0,100}-->|\*{2}|`{1,2}"
    r"|[\"'][ \t]{0,4}[+.][ \t]{0,4}[\"']"
    r"|(?:\\|[\"'][ \t]?[+.\\]?)?(?:\r?\n|\\r?\\n)[ \t>|#*+]{0,64}[\"']?)"
)
_MARKUP: Final = re.compile(_BREAK)
_BREAK_SIGN: Final = re.compile(r"<|\*\*|`|\n|\\n|\\r\\n|\"[ \t]{0,4}[+.]|'[ \t]{0,4}[+.]")
"""One of these is in each break: a text without any is passed over faster."""

_BROKEN: Final = re.compile(
    rf"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.-]{{3,}}+(?:{_BREAK}[A-Za-z0-9_+/=.-]{{2,}}+){{1,64}}+"
)
_WORD_BELOW: Final = re.compile(
    r"(?:\r?\n|\\r?\\n)[ \t>|#*+]{0,64}[A-Z]?[a-z]{2,24}(?![A-Za-z0-9_+/=.-])"
)
_DIGEST: Final = re.compile("(?<![A-Za-z0-9])(?:[0-9a-f]{32,}|[0-9A-F]{32,})(?![A-Za-z0-9])")
_BASE64: Final = re.compile("[A-Za-z0-9+]{8,}/$")
_DIGIT: Final = re.compile(r"\d")
_SHORTEST: Final = 20  # characters of a key that is worth putting together

Span = tuple[int, int]


class ReplacedText:
    """A text with some pieces replaced."""

    def __init__(self, text: str, pieces: list[tuple[int, int, str]]) -> None:
        parts: list[str] = []
        self._starts: list[int] = []  # of runs in the view
        self._sources: list[Span] = []  # the text of each run
        at = length = 0
        for start, end, new in [*pieces, (len(text), len(text), "")]:
            for part, span in ((text[at:start], (at, start)), (new, (start, end))):
                if part:
                    self._starts.append(length)
                    self._sources.append(span)
                    parts.append(part)
                    length += len(part)
            at = end
        self.text = "".join(parts)

    def source(self, start: int, end: int) -> Span:
        """The span of the text that a span of the view, not empty, was made of."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> Span:
        run = bisect_right(self._starts, at) - 1
        source, end = self._sources[run]
        follows = self._starts[run + 1] if run + 1 < len(self._starts) else len(self.text)
        if end - source != follows - self._starts[run]:  # a piece that was replaced
            return source, end
        place = source + at - self._starts[run]
        return place, place + 1


def plain(text: str) -> ReplacedText | None:
    """The view without what hides characters, or None where nothing does."""
    pieces: list[tuple[int, int, str]] = []
    at = 0
    signs = _ASCII_SIGN if text.isascii() else _SIGN
    while (sign := signs.search(text, at)) is not None:
        match = _HIDDEN.match(text, sign.start())
        at = sign.end() if match is None else match.end()
        if match is not None:
            pieces.append((*match.span(), _shown(match)))
    return ReplacedText(text, pieces) if pieces else None


def seen(text: str) -> str:
    """A text without what hides characters."""
    view = plain(text)
    return text if view is None else view.text


def joined(text: str) -> Iterator[tuple[int, ReplacedText]]:
    """Each word with markup or a line break within, put together, and where it starts."""
    if len(text) <= _SHORTEST or _BREAK_SIGN.search(text) is None:
        return
    for match in _BROKEN.finditer(text):
        word = match[0]
        if len(word) <= _SHORTEST or _DIGIT.search(word) is None:
            continue
        if _BASE64.search(text[max(match.start() - 24, 0) : match.start()]) is not None:
            continue  # a line of base64
        view = ReplacedText(word, [(*piece.span(), "") for piece in _MARKUP.finditer(word)])
        if len(view.text) >= _SHORTEST and any(map(str.isdigit, view.text)):
            yield match.start(), view


def _shown(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    return _SHOWN[kind](match[0])


@lru_cache(maxsize=4096)  # a text that is full of escapes has few different ones
def _escaped(spelled: str) -> str:
    if spelled.startswith("&"):
        char = html.unescape(spelled)
    else:
        char = chr(int(re.sub(r"^(?:\\+[ux]|%)\{?|\}$", "", spelled), 16))
    return (
        unicodedata.normalize("NFKC", char)
        if char.isascii() or char.isalpha() or char == "："
        else ""
    )


_SHOWN: Final[dict[str, Callable[[str], str]]] = {
    "unseen": lambda _: "",
    "escape": _escaped,
    "wide": lambda char: unicodedata.normalize("NFKC", char),
}


SEALS: Final = (
    *("signature", "thinkingSignature", "textSignature", "thoughtSignature"),
    *("thought_signature", "encrypted_content"),
)
"""Keys whose value signs the text beside it, and fits no other."""

_WORDS: Final = (
    KNOWN
    | STRUCTURE
    | OPAQUE
    | CALL_BLOCKS
    | RESULT_BLOCKS
    | IMAGE_BLOCKS
    | {"user", "assistant", "system", "tool", "toolResult", "bashExecution"}
    | {"content", "text", "thinking", "summary", "output", "block", "index", "base64"}
)
"""Strings of the format itself: such a whole string is never a secret."""

_ASSIGNED: Final = "assigned-secret"
_OF_COMMANDS: Final = ("command-secret", "login-secret")
_OF_WORDS: Final = ("random-token", "prefixed-token")
_MASK: Final = re.compile(r"\[redacted:([a-z0-9-]+):([0-9]{1,9})\]")
_OPENING: Final = re.compile(  # of an object or list
    r"\s*(?:\{\s*[\"}]|\[\s*(?:[\]\[{\"0-9-]|true|false|null|NaN|Infinity))"
)
_MAX_NOT_BINARY: Final = 256  # characters of bytes in base64 that may be anything else
_DEEPEST_TEXT: Final = 8  # the depth to which JSON text within JSON text is parsed
_MAX_KEYS: Final = 10_000
_SEALS: Final = frozenset(SEALS)
_UUID: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_OF_BYTES: Final = frozenset({"data", "base64"})  # keys whose strings may be images
_OF_TREE: Final = frozenset({"uuid", "parentUuid"})
_OPEN_NAMES: Final = frozenset({"nonce", "cspNonce", "kid", "etag"})  # of random public values
_LONGEST_OPEN: Final = 64
_SHORTEST_LONG: Final = 20_000  # characters of a text whose search takes milliseconds
_NAMES: Final = ("name", "key", "Name", "Key")  # of what has its value beside it
_WITHIN: Final = frozenset(
    {"key", "value", "Value", "default", "result"}
)  # what is around names it
_OF_DIGITS: Final = ("pass", "pwd", "otp", "totp", "pin")  # names of secrets of digits alone
_LISTS: Final = ("keys", "passwords", "passphrases", "cookies")  # how names of lists of secrets end
_PASSWORD: Final = "password"
_RANDOM_PASSWORD: Final = "random_password"  # Terraform's, with the password as its result
_LONGEST_COMMAND: Final = 20_000  # characters of a list of strings that is read as a command
_STYLES: Final[tuple[dict[str, Any], ...]] = (
    {"separators": (",", ":")},
    *({"indent": indent} for indent in (None, 2, 4, "\t", 1, 3)),
)
"""How programs write JSON; the first is for text in no style known."""


class _FoundSecret(NamedTuple):
    start: int
    end: int
    place: int  # of its rule, in order of precedence
    rule: Rule
    secret: str  # as it is read


class Redaction:
    """An object that masks secrets and counts what it masked.

    Args:
        rules: the rules that find secrets; by default the built-in rules.
        homes: more home directories to mask, in addition to paths that look like a home directory.
    """

    _leaves_out = True  # whether bytes, which cannot be searched, are left out

    def __init__(self, rules: Iterable[Rule] | None = None, homes: Iterable[str] = ()) -> None:
        self._given = RULES if rules is None else tuple(rules)
        self._names = tuple(dict.fromkeys((*(rule.name for rule in self._given), HOME)))
        self._is_own = not {id(rule) for rule in self._given} <= {id(rule) for rule in RULES}
        self._homes: set[str] = set()
        self._plain_texts: set[str] = set()  # short texts in which no rule finds a secret
        self._plain_long: deque[str] = deque(maxlen=4)  # the last such long texts
        self._rules = self._given
        self.know_homes(homes)
        self._masks: dict[tuple[str, str], str] = {}
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        self._plain_keys: set[str] = set(_WORDS)
        self._unmarked: set[str] = set()  # keys that mark no secret
        # the number of masked places, for each pair of a rule and an entry
        self.masked: Counter[tuple[str, str]] = Counter()
        # content that could not be searched: the entry, the media type and the size
        self.left_out: list[tuple[str, str, int]] = []
        # the entries that lost a signature because the signed text was masked
        self.unsealed: list[str] = []

    def know_homes(self, homes: Iterable[str]) -> None:
        """Add home directories to mask."""
        self._homes.update(homes)
        self._plain_texts.clear()
        self._plain_long.clear()
        known = home_rule(self._homes)
        is_wanted = known is not None and any(rule.name == HOME for rule in self._given)
        self._rules = (*self._given, known) if known is not None and is_wanted else self._given
        self._all = Rules(self._rules)
        self._formats = Rules(rule for rule in self._rules if rule.is_format)
        self._commands = Rules(rule for rule in self._rules if rule.name in _OF_COMMANDS)

    def know_homes_of(self, header: Entry) -> None:
        """Add the home directories that a session's header names."""
        if isinstance(cwd := header.get("cwd"), str):
            self.know_homes(homes_in(cwd))

    def text(self, text: str, entry: str | None = None) -> str:
        """Return a text with its secrets masked.

        Args:
            text: the text itself, not the text as a JSON string.
            entry: the uuid of the text's entry; None: masked places are not counted.
        """
        return self._text(text, entry, None, 0)

    def value(self, value: Any, entry: str | None = None) -> Any:
        """Return a copy of a JSON value, such as the object of an entry, with all secrets masked.

        Images and other bytes are left out, because they cannot be searched.
        """
        return _MaskingPass(self, entry, 0).run(value)

    def report(self) -> dict[str, Any]:
        """Return what was masked and where, as `--json` prints it. No secret is in the report."""
        secrets = Counter(name for name, secret in self._masks if not _MASK.fullmatch(secret))
        return {
            "masked": [
                {"rule": rule, "entry": entry, "count": count}
                for (rule, entry), count in self.masked.items()
            ],
            "secrets": dict(secrets),
            "leftOut": [
                {"entry": entry, "mediaType": kind, "bytes": size}
                for entry, kind, size in self.left_out
            ],
            "unsealed": self.unsealed,
        }

    def _text(
        self, text: str, entry: str | None, key: str | None, depth: int, *, is_given: bool = True
    ) -> str:
        """A text masked; with `is_given`, masks in it are those of an earlier redaction."""
        if text in _WORDS or (key is None and not self._is_own and _is_short_word(text)):
            return text
        if depth < _DEEPEST_TEXT and text.lstrip()[:1] in ("{", "["):
            masked = self._json_text(text, entry, key, depth)
            if masked is not None:
                return masked
        is_known = text in self._plain_texts and (key is None or key in self._unmarked)
        if is_known and "[redacted:" not in text:
            return text
        while (masked := self._once(text, entry, key, is_given=is_given)) != text:
            text, is_given = masked, False
        return text

    def is_plain(self, key: str, value: Any) -> bool:
        """True if the value of a key is a string of the tree or the format, never a secret."""
        if type(value) is not str:
            return False
        if key in _OF_TREE:  # each entry has another one, and no built-in rule matches one
            return not self._is_own and (
                _is_short_word(value) or _UUID.fullmatch(value) is not None
            )
        if key in _OPEN_NAMES and len(value) <= _LONGEST_OPEN:
            return value.isalnum()
        return value in _WORDS and key not in _OF_BYTES

    def are_plain(self, keys: Mapping[str, Any]) -> bool:
        """True if all keys are known to hold no secret."""
        return self._plain_keys.issuperset(keys)

    def key(self, key: str, entry: str | None) -> str:
        """A key with the secrets in it masked."""
        if key in self._plain_keys:
            return key
        masked = self._text(key, entry, None, _DEEPEST_TEXT, is_given=False)
        if masked == key and len(self._plain_keys) < _MAX_KEYS:
            self._plain_keys.add(key)
        return masked

    def _json_text(self, text: str, entry: str | None, key: str | None, depth: int) -> str | None:
        """JSON text, masked by its values, so that it stays JSON; None for other text."""
        value = _parsed(text)
        if value is None:
            return self._json_lines(text, entry, depth)
        if self._of_key(text, key) is not None:
            return None
        masked = _MaskingPass(self, entry, depth + 1).run(value)
        if masked is value:
            return text
        inner = text.strip()
        before, _, after = text.partition(inner)
        try:
            return before + _written(masked, _style_of(value, inner), inner) + after
        except RecursionError:  # nested so deeply that it can be read, but not be written
            return None

    def _json_lines(self, text: str, entry: str | None, depth: int) -> str | None:
        """Lines that are each JSON, masked; None for other text."""
        lines = text.split("\n")
        if len(lines) < 2 or any(line.strip() and _parsed(line) is None for line in lines):
            return None
        masked = (
            self._json_text(line, entry, None, depth) if line.strip() else line for line in lines
        )
        return "\n".join(line or "" for line in masked)

    def _once(self, text: str, entry: str | None, key: str | None, *, is_given: bool) -> str:
        """A text with the secrets found now masked; that may reveal more."""
        spans = self._spans(text, key)
        if not spans and "[redacted:" not in text:
            return text
        parts: list[str] = []
        at = 0
        for start, end, found in self._around_masks(text, spans):
            parts.append(text[at:start])
            if found is None:
                mask = text[start:end]
                parts.append(self._known_mask(mask) if is_given else mask)
            else:
                is_whole = (start, end) == (found.start, found.end)
                secret = found.secret if is_whole else text[start:end]
                parts.append(found.rule.stand_in or self._mask(found.rule.name, secret))
                if entry is not None:
                    self.masked[found.rule.name, entry] += 1
            at = end
        parts.append(text[at:])
        return "".join(parts)

    def _of_key(self, text: str, key: str | None) -> _FoundSecret | None:
        keyword = None if key is None or key in self._unmarked else keyword_of(key)
        if key is not None and keyword is None and len(self._unmarked) < _MAX_KEYS:
            self._unmarked.add(key)
        if keyword is None or not is_secret_value(keyword, text) or _ASSIGNED not in self._names:
            return None
        rule = next(rule for rule in self._rules if rule.name == _ASSIGNED)
        return _FoundSecret(0, len(text), self._names.index(_ASSIGNED), rule, text)

    def _spans(self, text: str, key: str | None) -> list[_FoundSecret]:
        found = [] if text in self._plain_texts else self._found_anywhere(text)
        whole = self._of_key(text, key)
        if whole is not None:
            found.append(whole)
        if len(found) < 2:
            return found
        found.sort(key=lambda each: (each.start, each.end))
        apart: list[_FoundSecret] = []
        for each in found:
            if apart and each.start < apart[-1].end:
                apart[-1] = _together(text, apart[-1], each)
            else:
                apart.append(each)
        return apart

    def _found_anywhere(self, text: str) -> list[_FoundSecret]:
        is_long = len(text) >= _SHORTEST_LONG
        if is_long and text in self._plain_long:
            return []
        if not self._is_own and _UUID.fullmatch(text):
            return []  # each entry has another one, and no built-in rule matches one by itself
        found = [*self._found(text, self._all), *self._found_behind(text)]
        if not found and is_long:
            self._plain_long.append(text)
        elif not found and len(text) <= 256:  # such as a name, which may come many times
            if len(self._plain_texts) >= _MAX_KEYS:
                self._plain_texts.clear()
            self._plain_texts.add(text)
        return found

    def _found(self, text: str, rules: Rules) -> Iterator[_FoundSecret]:
        for start, end, rule in rules.spans(text):
            yield _FoundSecret(start, end, self._names.index(rule.name), rule, text[start:end])

    def _found_behind(self, text: str) -> Iterator[_FoundSecret]:
        """The secrets that the spelling of the text hides, as spans of the text."""
        view = plain(text)
        if view is not None:
            for found in self._found(view.text, self._all):
                start, end = view.source(found.start, found.end)
                yield found._replace(start=start, end=end)
        whole = text if view is None else view.text
        for at, word in joined(whole):
            for found in self._found(word.text, self._formats):
                start, end = word.source(found.start, found.end)
                end = self._end_before_word(whole[at + start : at + end], found.rule) + start
                if _MARKUP.search(whole, at + start, at + end) is None:
                    continue  # it is whole in the text, too
                if found.rule.name in _OF_WORDS and _DIGEST.search(whole, at + start, at + end):
                    continue  # a digest, and the line above or below it
                start, end = at + start, at + end
                if view is not None:
                    start, end = view.source(start, end)
                yield found._replace(start=start, end=end)

    def _end_before_word(self, broken: str, rule: Rule) -> int:
        """Where a secret ends that has breaks within.

        That is before a line that begins with a word, if all before the word is a secret already.
        """
        for word in _WORD_BELOW.finditer(broken):
            before = _MARKUP.sub("", broken[: word.start()])
            spans = self._formats.spans(before)
            if any(end == len(before) and each.name == rule.name for _, end, each in spans):
                return word.start()
        return len(broken)

    def command(self, words: list[str]) -> list[tuple[int, int, int, Rule]]:
        """The secrets of a command given as a list: the word, and the span in it."""
        ends = list(accumulate(len(word) + 1 for word in words))
        line = " ".join(
            word if word.strip() and " " not in word else "_" * len(word) for word in words
        )
        found = []
        for each in self._found(line, self._commands):
            word = next(i for i, end in enumerate(ends) if each.start < end)
            start = ends[word] - len(words[word]) - 1
            if each.end < ends[word]:
                found.append((word, each.start - start, each.end - start, each.rule))
        return found

    def assigned(self, name: str, value: str, entry: str | None) -> str:
        """The value of a name, masked where the name says that it is a secret."""
        return self._text(value, entry, name, _DEEPEST_TEXT, is_given=False)

    def masked_word(self, word: str, start: int, end: int, rule: Rule, entry: str | None) -> str:
        """A word with the secret in it masked."""
        if entry is not None:
            self.masked[rule.name, entry] += 1
        return word[:start] + self._mask(rule.name, word[start:end]) + word[end:]

    def _around_masks(
        self, text: str, spans: list[_FoundSecret]
    ) -> list[tuple[int, int, _FoundSecret | None]]:
        """The spans without text that is masked already, and the masks, in order."""
        masks = [match.span() for match in _MASK.finditer(text)]
        pieces: list[tuple[int, int, _FoundSecret | None]] = [(*span, None) for span in masks]
        at = 0
        for found in spans:
            start, end = found.start, found.end
            while at < len(masks) and masks[at][0] < end:
                mask_start, mask_end = masks[at]
                if mask_end > start:
                    if start < mask_start:
                        pieces.append((start, mask_start, found))
                    start = mask_end
                if mask_end > end:
                    break
                at += 1
            if start < end:
                pieces.append((start, end, found))
        return sorted(pieces, key=lambda piece: piece[:2])

    def _mask(self, name: str, secret: str) -> str:
        if (name, secret) not in self._masks:
            self._masks[name, secret] = self._numbered(name, len(self._numbers[name]) + 1)
        return self._masks[name, secret]

    def _known_mask(self, mask: str) -> str:
        """A mask of an earlier redaction: unchanged, unless a secret here has the same."""
        match = _MASK.fullmatch(mask)
        if match is None or match[1] not in self._names:
            return mask
        if (match[1], mask) not in self._masks:
            self._masks[match[1], mask] = self._numbered(match[1], int(match[2]))
        return self._masks[match[1], mask]

    def _numbered(self, name: str, number: int) -> str:
        while number in self._numbers[name]:
            number += 1
        self._numbers[name].add(number)
        return f"[redacted:{name}:{number}]"


PERSONAL: Final = frozenset({HOME, "email"})
"""What is masked in a copy for others, and is no secret in one's own files."""


def secret_rules() -> tuple[Rule, ...]:
    """The built-in rules that find secrets."""
    return tuple(rule for rule in RULES if rule.name not in PERSONAL)


class SecretMasking(Redaction):
    """A redaction of one's own files: names, homes and pictures stay."""

    _leaves_out = False

    def __init__(self) -> None:
        super().__init__(secret_rules())


class SecretSearch(SecretMasking):
    """A search for secrets that gives digests of them, so that no caller has one.

    Args:
        key: a random key of the digests. Without it, a digest says nothing of a short secret.
    """

    def __init__(self, key: bytes) -> None:
        super().__init__()
        self._key = key
        # how often each pair of a rule and the digest of a secret was found
        self.found: Counter[tuple[str, bytes]] = Counter()

    def _mask(self, name: str, secret: str) -> str:
        content = secret.encode("utf-8", "surrogatepass")
        self.found[name, blake2b(content, digest_size=16, key=self._key).digest()] += 1
        return super()._mask(name, secret)


def _together(text: str, one: _FoundSecret, other: _FoundSecret) -> _FoundSecret:
    """Two secrets that overlap as one, of the rule that goes first."""
    first = min(one, other, key=lambda each: each.place)
    start, end = min(one.start, other.start), max(one.end, other.end)
    is_whole = (start, end) == (first.start, first.end)
    return first._replace(
        start=start, end=end, secret=first.secret if is_whole else seen(text[start:end])
    )


def _parsed(text: str) -> dict[str, Any] | list[Any] | None:
    """The object or list that JSON text spells, or None; keys that are the same are kept apart."""
    if _OPENING.match(text) is None:
        return None
    try:
        value = json.loads(text, parse_int=_whole_number, object_pairs_hook=_all_keys)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _all_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = dict(pairs)
    if len(keys) == len(pairs):
        return keys
    keys = {}
    for key, value in pairs:
        name, number = key, 2
        while name in keys:
            name, number = f"{key} ({number})", number + 1
        keys[name] = value
    return keys


def _style_of(value: Any, text: str) -> dict[str, Any]:
    is_one_line = "\n" not in text
    for style in _STYLES:
        if is_one_line == (style.get("indent") is None) and _written(value, style, text) == text:
            return style
    if not is_one_line:
        return _STYLES[2]
    return _STYLES[1 if '": ' in text else 0]


def _is_short_word(text: str) -> bool:
    """True if a text is a word in which no built-in rule finds a secret without its key.

    It is too short for a format, and the other rules need a sign, such as a colon or a space.
    """
    # the words in which formats are looked for have more
    return len(text) <= 15 and text.isalnum() and text.isascii()


def _written(value: Any, style: dict[str, Any], text: str) -> str:
    return json.dumps(value, ensure_ascii=not _is_unicode(text), **style)


def _whole_number(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits
        return digits


def _is_unicode(text: str) -> bool:
    """True if UTF-8 carries a text as it is: no lone surrogate, and no escape of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\\u" not in text


def _within(key: Any, above: str, part: Mapping[str, Any] | None = None) -> str:
    """The name that strings within an object or list may need; `above` is that of its holder."""
    if above == _RANDOM_PASSWORD or (part is not None and part.get("type") == _RANDOM_PASSWORD):
        return _RANDOM_PASSWORD
    if not isinstance(key, str):
        return above
    if key.startswith(f"{_RANDOM_PASSWORD}."):
        return _RANDOM_PASSWORD
    if part is not None:
        return key
    return key[:-1] if key.lower().endswith(_LISTS) else ""


def _marks(holder: Any, key: Any, above: str) -> str | None:
    """The name that decides on a string whose own key does not: one in a list, or a `value`."""
    if isinstance(key, int):
        return None if above == _RANDOM_PASSWORD else above or None
    if key == "result":
        return _PASSWORD if above == _RANDOM_PASSWORD else key
    if key != "key":
        return _PASSWORD if holder.get("sensitive") is True else above or key
    beside = (word for word in holder.values() if type(word) is str and len(word) <= 40)
    is_of_service = any(VENDOR.search(word) for word in (above, *beside, *holder))
    return "api_key" if is_of_service else key


class _MaskingPass:
    def __init__(self, redaction: Redaction, entry: str | None, depth: int) -> None:
        self._redaction = redaction
        self._entry = entry
        self._depth = depth
        self._changed = False
        self._unsealed: dict[int, dict[str, Any]] = {}
        self._made: set[tuple[int, Any]] = set()  # where masks of this pass are

    def run(self, value: Any) -> Any:
        """The same object where nothing in it changes; else a new one."""
        is_plain = self._redaction.is_plain
        leaves_out = self._redaction._leaves_out
        top: list[Any] = [value]
        waiting: list[tuple[Any, Any, str, bool, tuple[dict[str, Any], ...]]]
        waiting = [(top, 0, "", False, ())]
        while waiting:
            holder, key, above, opaque, sealed = waiting.pop()
            part = holder[key]
            if isinstance(part, str):
                self._string(holder, key, above, part, opaque, sealed)
            elif isinstance(part, int) and isinstance(key, str) and type(part) is not bool:
                self._number(holder, key, part, sealed)
            elif isinstance(part, list):
                holder[key] = part = self._words(part, sealed)
                within = _within(key, above)
                waiting += [(part, i, within, opaque, sealed) for i in reversed(range(len(part)))]
            elif isinstance(part, dict | Mapping):  # a test for dict costs less
                may_be_binary = isinstance(holder, list) and not opaque and leaves_out
                if may_be_binary and (found := binary_in(part)):
                    holder[key] = {"type": "text", "text": self._left_out(*found)}
                    continue
                holder[key] = part = self._pair(self._keys(part, sealed), sealed)
                if not opaque and not _SEALS.isdisjoint(part):
                    sealed = (*sealed, part)
                within = _within(key, above, part)
                below = [k for k in part if not is_plain(k, part[k])]
                waiting.extend(
                    (part, k, within, opaque or k in OPAQUE, sealed) for k in reversed(below)
                )
        self._drop_seals()
        return top[0] if self._changed else value

    def _string(
        self,
        holder: Any,
        key: Any,
        above: str,
        text: str,
        opaque: bool,
        sealed: tuple[dict[str, Any], ...],
    ) -> None:
        name = key if isinstance(key, str) else None
        found = binary(name, text, holder) if isinstance(holder, dict) else None
        if found is not None and self._redaction._leaves_out:
            masked = self._left_out(*found)
        elif found is not None and len(text) > _MAX_NOT_BINARY:
            return
        else:
            is_given = (id(holder), key) not in self._made
            marks = _marks(holder, key, above) if name is None or name in _WITHIN else name
            if name is not None and above.endswith("s") and above.lower().endswith(_LISTS):
                marks = f"{name}_{above[:-1]}"
            masked = self._redaction._text(text, self._entry, marks, self._depth, is_given=is_given)
        if masked != text:
            holder[key] = masked
            self._note((*sealed, holder) if name in SEALS and not opaque else sealed)

    def _number(
        self, holder: Any, key: str, number: int, sealed: tuple[dict[str, Any], ...]
    ) -> None:
        """A password or one-time code of digits alone."""
        low = key.lower()
        if not any(word in low for word in _OF_DIGITS):
            return
        keyword = keyword_of(key)
        if keyword is None or not keyword.lower().startswith(_OF_DIGITS):
            return
        masked = self._redaction.assigned(keyword, str(number), self._entry)
        if masked != str(number):
            holder[key] = masked
            self._note(sealed)

    def _words(self, words: list[Any], sealed: tuple[dict[str, Any], ...]) -> list[Any]:
        """A copy of a list with the secrets masked that are known by the words around them."""
        copy = words.copy()
        if len(copy) < 3:
            return copy
        texts = [word if isinstance(word, str) else "" for word in words]
        if not all(texts) or sum(map(len, texts)) > _LONGEST_COMMAND:
            return copy
        for place, start, end, rule in reversed(self._redaction.command(texts)):
            copy[place] = self._redaction.masked_word(copy[place], start, end, rule, self._entry)
            self._made.add((id(copy), place))
            self._note(sealed)
        return copy

    def _pair(self, keys: dict[str, Any], sealed: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        """An object with its value masked, where it is the name and the value of a secret."""
        if "value" not in keys and "Value" not in keys:
            return keys
        name = next((keys[key] for key in _NAMES if isinstance(keys.get(key), str)), None)
        value = next((key for key in ("value", "Value") if isinstance(keys.get(key), str)), None)
        if name is None or value is None:
            return keys
        masked = self._redaction.assigned(name, keys[value], self._entry)
        if masked != keys[value]:
            keys[value] = masked
            self._made.add((id(keys), value))
            self._note(sealed)
        return keys

    def _keys(self, keys: Mapping[str, Any], sealed: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        """A copy with the secrets in the keys masked, all keys kept apart."""
        if self._redaction.are_plain(keys):
            return dict(keys)
        masks = {
            key: masked for key in keys if (masked := self._redaction.key(key, self._entry)) != key
        }
        if not masks:
            return dict(keys)
        copy: dict[str, Any] = {}
        for key, value in keys.items():
            name = masked = masks.get(key, key)
            number = 2
            while name in copy or (name != key and name in keys):
                name, number = f"{masked} ({number})", number + 1
            if name != key:
                self._note(sealed)
            copy[name] = value
        return copy

    def _left_out(self, media_type: str, size: int) -> str:
        if self._entry is not None:
            self._redaction.left_out.append((self._entry, media_type, size))
        self._changed = True
        return left_out(media_type, size)

    def _note(self, sealed: tuple[dict[str, Any], ...]) -> None:
        self._changed = True
        self._unsealed.update((id(keys), keys) for keys in sealed)

    def _drop_seals(self) -> None:
        for keys in self._unsealed.values():
            for seal in SEALS:
                keys.pop(seal, None)
        unsealed = self._redaction.unsealed
        if self._unsealed and self._entry is not None and self._entry not in unsealed[-1:]:
            unsealed.append(self._entry)
