"""What a session holds, as a plain dict that knows the rules and nothing else."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """What a model knows of an entry; `first_kept` of a compaction alone."""

    type: str
    parent: str | None
    says: str = ""
    role: str = ""
    first_kept: str = ""


def path_in(known: dict[str, Known], uuid: str) -> list[str]:
    path = []
    at: str | None = uuid
    while at is not None:
        path.append(at)
        at = known[at].parent
    return path[::-1]


def context_in(known: dict[str, Known], uuid: str) -> list[str]:
    """The rules in words: the latest compaction's summary, then what it kept."""
    path = path_in(known, uuid)
    compactions = [at for at in path if known[at].type == "compaction"]
    if compactions:
        path = path[path.index(known[compactions[-1]].first_kept) :]
        path = [compactions[-1], *(at for at in path if at not in compactions)]
    return [says for at in path if (says := known[at].says)]
