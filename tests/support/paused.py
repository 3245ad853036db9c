"""Two threads of a fresh process: the second acts while the first pauses inside a function."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

PATIENCE: Final = 0.5  # seconds that the first thread waits; the second may wait for the first


def together(
    act: Callable[[], Any], inside: CodeType, pause: Callable[[FrameType], bool]
) -> list[Any]:
    """Let the second thread act when the first reaches a line of a function.

    Returns the results of the first thread, of the second, and of one more call at the end; then
    whether the second ended before the first went on.
    """
    results: dict[str, Any] = {"ended": False}
    second = threading.Thread(target=lambda: results.update(second=act()))

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        is_line = frame.f_code is inside and event == "line"
        if is_line and second.ident is None and pause(frame):
            second.start()
            second.join(PATIENCE)
            results["ended"] = not second.is_alive()
        return trace

    def first() -> None:
        sys.settrace(trace)
        results["first"] = act()

    thread = threading.Thread(target=first)
    thread.start()
    thread.join()
    if second.ident is None:
        second.start()
    second.join()
    return [results["first"], results["second"], act(), results["ended"]]


def in_fresh_process(imports: str, act: str, inside: str, pause: str) -> list[Any]:
    """Return what `together` does in a process that did nothing before.

    Args:
        imports: statements.
        act: an expression, the result of which JSON has.
        inside: an expression for the function.
        pause: an expression that is true of the `frame` at the line.
    """
    code = (
        f"import json\nfrom tests.support.paused import together\n{imports}\nprint(json.dumps("
        f"together(lambda: {act}, ({inside}).__code__, lambda frame: {pause})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    results: list[Any] = json.loads(done.stdout)
    return results
