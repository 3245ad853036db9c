"""The command `sessiontree`; `python -m sessiontree` is the same.

Invariant: an interrupt shows no traceback, also while the command is being loaded.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130


def run() -> None:
    """Run the command that this program was started with."""
    try:
        from sessiontree.cli import main  # most of the time of a short command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    main(prog_name="sessiontree")


if __name__ == "__main__":
    run()
