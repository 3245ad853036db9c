"""Print what the handles of a session point to, on all of its branches.

    pip install sessiontree
    python examples/walk_and_resolve.py chat.jsonl [ROOT]

`file` handles are read below the folder ROOT. The plugins of installed packages are used, too. A
handle that cannot be resolved is printed with its error; all others are resolved.
"""

import sys
from collections.abc import Iterator

from sessiontree import Entry, ResolvedHandle, Session, SessionTreeError


def walk_and_resolve(
    session: Session, ref: str | None = None
) -> Iterator[tuple[Entry, ResolvedHandle | SessionTreeError]]:
    """Yield each handle entry with its content or its error: the session's, or those below one.

    Equal handles are resolved once, and those of one plugin together if it has `resolve_many`.
    """
    waiting = [session.resolved_tree(ref)]
    while waiting:
        node = waiting.pop()
        found = node.resolved or node.error
        if found is not None:
            yield node.entry, found
        waiting += reversed(node.children)


def main(file: str, root: str | None = None) -> None:
    with Session.open(file, readonly=True, root=root) as session:
        for entry, found in walk_and_resolve(session):
            if isinstance(found, ResolvedHandle):
                print(f"{entry['handle']} → {found.kind}: {str(found.data)[:60]}")
            else:
                print(f"{entry['handle']} → {found}")


if __name__ == "__main__":
    main(*sys.argv[1:])
