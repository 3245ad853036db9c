"""The statements that search the lines of logs on the server.

They give every line that has one of some byte strings, and may give more: who asks for them looks
at the bytes again. A row without an LF at its end is given too: a line may go on in the next row.
"""

from __future__ import annotations

from typing import Final

from sessiontree.text.pattern import Sought

_ESCAPE: Final = b"\\u"
"""Begins the unusual spellings of characters, which few lines have."""

_WHOLE: Final = ", LATERAL (SELECT l.line || ''::bytea AS line OFFSET 0) whole"
"""The line, which the server gets and decompresses once and not for each byte string."""

_FOLDED: Final = """, LATERAL (SELECT lower(encode(whole.line, 'escape') COLLATE "C") AS line
    OFFSET 0) searched"""
"""The line as text with ASCII letters in lower case; bytes beyond ASCII are escaped."""


def _found_in(sought: Sought) -> tuple[str, dict[str, bytes]]:
    """The rest of a FROM clause and a WHERE clause about `@lines l`, and their values."""
    names = {f"needle{number}": needle for number, needle in enumerate(sought.needles)}
    from_clause = _WHOLE + (_FOLDED if sought.folds else "")
    usual = [name for name, needle in names.items() if not needle.startswith(_ESCAPE)]
    unusual = [name for name in names if name not in usual]
    any_of = [_has(name, sought) for name in usual]
    if unusual:
        names["escape"] = _ESCAPE
        found = " OR ".join(_has(name, sought) for name in unusual)
        any_of.append(f"({_has('escape', sought)} AND ({found}))")
    where = f"""octet_length(whole.line) > 0
        AND (substring(whole.line FROM octet_length(whole.line)) <> '\\x0a'::bytea
            OR {" OR ".join(any_of)})"""
    return f"{from_clause} WHERE {where}", names


def _has(name: str, sought: Sought) -> str:
    if sought.folds:
        return f"position(encode(%({name})b::bytea, 'escape') IN searched.line) > 0"
    return f"position(%({name})b::bytea IN whole.line) > 0"


def offsets_with(sought: Sought) -> tuple[str, dict[str, bytes]]:
    """The statement for the offsets and sizes of such lines of a log, and values for it."""
    clauses, values = _found_in(sought)
    columns = "l.at, octet_length(l.line)"
    return f"SELECT {columns} FROM @lines l{clauses} AND l.log = %(log)s ORDER BY l.at", values


def likely(sought: Sought) -> tuple[str, dict[str, bytes]]:
    """The statement for the sessions that have such a line, and values for it."""
    clauses, values = _found_in(sought)
    statement = f"""
        SELECT s.name FROM @sessions s, LATERAL (
            SELECT FROM @lines l{clauses} AND l.log = s.log LIMIT 1) found
        WHERE s.name = ANY(%(names)s)
        UNION SELECT s.name FROM @sessions s, @lines l
        WHERE s.name = ANY(%(names)s) AND l.log = s.log AND l.at < %(within)s
            AND position(%(start)b::bytea IN l.line) > 0
    """
    return statement, values
