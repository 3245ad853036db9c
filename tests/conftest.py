"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell starts what runs in its background with Ctrl-C ignored, and children inherit
# that: the programs that tests interrupt would never hear of it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
