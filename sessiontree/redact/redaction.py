"""Redaction: secrets in values replaced by masks, and a report of them.

A mask is `[redacted:RULE:N]`: within one `Redaction` the same secret always has the same mask, and
two secrets never share one, so that a reader can follow. A home directory becomes `~`.

Invariants: a value without secrets comes back as the same object; a mask is never masked, so a
second redaction changes nothing; only the `Redaction` itself keeps secrets, and no report names
one.

No rule finds a secret that is split over several strings, or is in an image, an archive, or text
that was encoded (base64) or encrypted.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from sessiontree.core.embedded import binary, binary_in, left_out
from sessiontree.core.entry import KNOWN
from sessiontree.core.message import CALL_BLOCKS, IMAGE_BLOCKS, RESULT_BLOCKS
from sessiontree.core.spill import OPAQUE, STRUCTURE
from sessiontree.redact.rules import (
    ASSIGNED,
    HOME,
    RULES,
    Rule,
    home_rule,
    is_secret_value,
    keyword_of,
    lowered,
)

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

_MASK: Final = re.compile(r"\[redacted:([a-z0-9-]+):([0-9]{1,9})\]")
_UNSEEN: Final = re.compile(
    r"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b."
    r"|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f"
    r"\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ud800-\udfff"
    r"\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    r"\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Characters that a terminal does not show: colours, and characters without a shape."""

_DEEPEST_TEXT: Final = 3  # the depth to which JSON text within JSON text is parsed
_MOST_KEYS: Final = 10_000
_SHORT: Final = 400  # characters up to which one search for all hints is faster than one for each


class Redaction:
    """An object that masks secrets and counts what it masked.

    Args:
        rules: the rules that find secrets; by default the built-in rules.
        homes: more home directories to mask, in addition to paths that look like a home directory.

    Attributes:
        masked: the number of masked places, for each pair of a rule and an entry.
        left_out: content that could not be searched: the entry, the media type and the size.
        unsealed: the entries that lost a signature because the signed text was masked.
    """

    def __init__(self, rules: Iterable[Rule] | None = None, homes: Iterable[str] = ()) -> None:
        self._given = RULES if rules is None else tuple(rules)
        self._names = tuple(dict.fromkeys((*(rule.name for rule in self._given), HOME)))
        self._homes: set[str] = set()
        self._rules = self._given
        self.know_homes(homes)
        self._masks: dict[tuple[str, str], str] = {}
        self._numbers: defaultdict[str, set[int]] = defaultdict(set)
        self._plain_keys: set[str] = set(_WORDS)
        self.masked: Counter[tuple[str, str]] = Counter()
        self.left_out: list[tuple[str, str, int]] = []
        self.unsealed: list[str] = []

    def know_homes(self, homes: Iterable[str]) -> None:
        """Add home directories to mask."""
        self._homes.update(homes)
        known = home_rule(self._homes)
        is_wanted = known is not None and any(rule.name == HOME for rule in self._given)
        self._rules = (*self._given, known) if known is not None and is_wanted else self._given
        hints = [hint for rule in self._rules for hint in rule.hints]
        has_all = all(rule.hints for rule in self._rules)
        self._hint = re.compile("|".join(map(re.escape, hints))) if hints and has_all else None

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
        return _Pass(self, entry, 0).run(value)

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

    def _text(self, text: str, entry: str | None, key: str | None, depth: int) -> str:
        if text in _WORDS:
            return text
        is_given = depth == 0  # deeper text was already seen on the way there
        while (masked := self._once(text, entry, key, is_given=is_given)) != text:
            text, is_given = masked, False
        if depth < _DEEPEST_TEXT and text.lstrip()[:1] in ("{", "["):
            text = self._json_text(text, entry, depth)
        return text

    def _key(self, key: str, entry: str | None) -> str:
        if key in self._plain_keys:
            return key
        masked = self._text(key, entry, None, _DEEPEST_TEXT)
        if masked == key and len(self._plain_keys) < _MOST_KEYS:
            self._plain_keys.add(key)
        return masked

    def _json_text(self, text: str, entry: str | None, depth: int) -> str:
        """JSON text, masked by its values, so that no escape hides a secret."""
        try:
            value = json.loads(text, parse_int=_whole_number)
        except (ValueError, RecursionError):
            return text
        if not isinstance(value, dict | list):
            return text
        masked = _Pass(self, entry, depth + 1).run(value)
        if masked is value:
            return text
        return json.dumps(masked, ensure_ascii=not _is_unicode(text), separators=(",", ":"))

    def _once(self, text: str, entry: str | None, key: str | None, *, is_given: bool) -> str:
        """A text with the secrets found now masked; that may reveal more."""
        spans = self._spans(text, key)
        if not spans and "[redacted:" not in text:
            return text
        parts: list[str] = []
        at = 0
        for start, end, rule in self._around_masks(text, spans):
            parts.append(text[at:start])
            secret = text[start:end]
            if rule is None:
                parts.append(self._known_mask(secret) if is_given else secret)
            else:
                parts.append(rule.stand_in or self._mask(rule.name, secret))
                if entry is not None:
                    self.masked[rule.name, entry] += 1
            at = end
        parts.append(text[at:])
        return "".join(parts)

    def _spans(self, text: str, key: str | None) -> list[tuple[int, int, Rule]]:
        found = self._found(text)
        if _UNSEEN.search(text):
            found += self._found_behind(text)
        keyword = None if key is None else keyword_of(key)
        if keyword is not None and is_secret_value(keyword, text) and ASSIGNED in self._names:
            place = self._names.index(ASSIGNED)
            rule = next(rule for rule in self._rules if rule.name == ASSIGNED)
            found.append((0, len(text), place, rule))
        if not found:
            return []
        found.sort(key=lambda each: (each[0], each[1]))
        joined: list[tuple[int, int, int, Rule]] = []
        for start, end, place, rule in found:
            if joined and start < joined[-1][1]:
                first = min(joined[-1], (start, end, place, rule), key=lambda each: each[2])
                joined[-1] = (joined[-1][0], max(joined[-1][1], end), *first[2:])
            else:
                joined.append((start, end, place, rule))
        return [(start, end, rule) for start, end, _, rule in joined]

    def _found(self, text: str) -> list[tuple[int, int, int, Rule]]:
        low = lowered(text)
        if self._hint is not None and len(low) < _SHORT and self._hint.search(low) is None:
            return []
        return [
            (start, end, self._names.index(rule.name), rule)
            for rule in self._rules
            for start, end in rule.spans(text, low)
        ]

    def _found_behind(self, text: str) -> list[tuple[int, int, int, Rule]]:
        """The secrets in the text without invisible characters, as spans of the whole text."""
        unseen = [match.span() for match in _UNSEEN.finditer(text)]
        starts, ends = [0, *(end for _, end in unseen)], [*(at for at, _ in unseen), len(text)]
        places = list(chain.from_iterable(map(range, starts, ends)))
        return [
            (places[start], places[end - 1] + 1, place, rule)
            for start, end, place, rule in self._found(_UNSEEN.sub("", text))
        ]

    def _around_masks(
        self, text: str, spans: list[tuple[int, int, Rule]]
    ) -> Iterator[tuple[int, int, Rule | None]]:
        """The spans without text that is masked already, and the masks, in order."""
        masks = [match.span() for match in _MASK.finditer(text)]
        pieces: list[tuple[int, int, Rule | None]] = [(*span, None) for span in masks]
        at = 0
        for start, end, rule in spans:
            while at < len(masks) and masks[at][0] < end:
                mask_start, mask_end = masks[at]
                if mask_end > start:
                    if start < mask_start:
                        pieces.append((start, mask_start, rule))
                    start = mask_end
                if mask_end > end:
                    break
                at += 1
            if start < end:
                pieces.append((start, end, rule))
        yield from sorted(pieces, key=lambda piece: piece[:2])

    def _mask(self, name: str, secret: str) -> str:
        secret = _UNSEEN.sub("", secret)
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


def _whole_number(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits
        return digits


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 carries a text as it is: no lone surrogate, and no escape of one."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\\u" not in text


class _Pass:
    def __init__(self, redaction: Redaction, entry: str | None, depth: int) -> None:
        self._redaction = redaction
        self._entry = entry
        self._depth = depth
        self._changed = False
        self._unsealed: dict[int, dict[str, Any]] = {}

    def run(self, value: Any) -> Any:
        """The same object where nothing in it changes; else a new one."""
        top: list[Any] = [value]
        waiting: list[tuple[Any, Any, bool, tuple[dict[str, Any], ...]]] = [(top, 0, False, ())]
        while waiting:
            holder, key, opaque, sealed = waiting.pop()
            part = holder[key]
            if isinstance(part, str):
                self._string(holder, key, part, opaque, sealed)
            elif isinstance(part, list):
                holder[key] = part = part.copy()
                waiting.extend((part, i, opaque, sealed) for i in reversed(range(len(part))))
            elif isinstance(part, Mapping):
                if isinstance(holder, list) and not opaque and (found := binary_in(part)):
                    holder[key] = {"type": "text", "text": self._left_out(*found)}
                    continue
                holder[key] = part = self._keys(part, sealed)
                if not opaque and any(seal in part for seal in SEALS):
                    sealed = (*sealed, part)
                below = [(part, k, opaque or k in OPAQUE, sealed) for k in part]
                waiting.extend(reversed(below))
        self._drop_seals()
        return top[0] if self._changed else value

    def _string(
        self, holder: Any, key: Any, text: str, opaque: bool, sealed: tuple[dict[str, Any], ...]
    ) -> None:
        name = key if isinstance(key, str) else None
        found = binary(name, text, holder) if isinstance(holder, dict) else None
        if found is not None:
            masked = self._left_out(*found)
        else:
            masked = self._redaction._text(text, self._entry, name, self._depth)
        if masked != text:
            holder[key] = masked
            self._note((*sealed, holder) if name in SEALS and not opaque else sealed)

    def _keys(self, keys: Mapping[str, Any], sealed: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        """A copy with the secrets in the keys masked, all keys kept apart."""
        copy: dict[str, Any] = {}
        for key, value in keys.items():
            name = masked = self._redaction._key(key, self._entry)
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
