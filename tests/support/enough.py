"""Steps that no test uses up."""

from __future__ import annotations

from typing import Final

from sessiontree.core.limits import Budget, Limit

ENOUGH: Final = Budget(Limit(10**15, "a test took more steps than all of them need"))
