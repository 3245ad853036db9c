"""Which methods a server offers as tools: the core, all, or those that the user names.

The definition of each tool costs a client's model some hundred tokens, so a server offers only the
core unless it is told. A method says itself whether it is of the core.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sessiontree.errors import UsageError
from sessiontree.ops.guidance import nearest
from sessiontree.ops.operation import Effect, Method

CORE: Final = "core"
ALL: Final = "all"
OPTION: Final = "--tools"


class ToolSelection:
    """What a server offers.

    Args:
        methods: all methods by their whole names.
        chosen: names with commas between: of tools, of methods or of namespaces, `core` or `all`.
        write: whether calls may write.

    Raises:
        UsageError: a name is unknown, or its method writes where calls may only read.
    """

    def __init__(self, methods: Mapping[str, Method], chosen: str, *, write: bool) -> None:
        self._write = write
        self._words = [word.strip() for word in chosen.split(",")]
        self._chosen = {
            method.full_name for word in self._words for method in self._named(word, methods)
        }

    def effect(self, method: Method) -> Effect:
        """What a method does to sessions here."""
        return method.effect_where(self._write)

    def needs(self, method: Method) -> str | None:
        """The options that the server needs to offer a method; None: it does."""
        needed = [] if self._may(method) else ["--write"]
        if method.full_name not in self._chosen:
            needed.append(f"{OPTION} {','.join([*self._words, method.full_name])}")
        return " ".join(needed) or None

    def _may(self, method: Method) -> bool:
        return self._write or self.effect(method) == "read"

    def _named(self, word: str, methods: Mapping[str, Method]) -> list[Method]:
        every = methods.values()
        if word == ALL:
            return list(every)
        if word == CORE:
            return [method for method in every if method.core]
        found = [each for each in every if word in (each.full_name, tool_name(each.full_name))]
        if found and not self._may(found[0]):
            raise UsageError(f"{word!r} writes; give --write, too")
        found = found or [each for each in every if each.namespace == word]
        if not found:
            near = nearest(word, _names(every))
            raise UsageError(
                f"there is no tool and no namespace {word!r:.100}: {OPTION} takes names with "
                "commas between, 'core' or 'all', and 'sessiontree call --list' lists the names"
                f"{near}"
            )
        if not any(map(self._may, found)):
            raise UsageError(f"each method of {word!r} writes; give --write, too")
        return found


def tool_name(full_name: str) -> str:
    """The name of a method as a tool: `tree_render` for `tree.render`."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", full_name)


def _names(methods: Iterable[Method]) -> Iterator[str]:
    yield from (CORE, ALL)
    for method in methods:
        yield from (method.namespace, method.full_name, tool_name(method.full_name))
