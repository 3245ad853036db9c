"""Calls by name: what programs and agents can ask of sessions, whatever carries the question.

`Dispatcher.call("tree.render", {"session": "latest"}, take)` finds the method `render` of the
namespace `tree`, checks the parameters, runs the method, and gives each event to `take`. Another
package adds a namespace by the entry point `sessiontree.namespaces`.

Invariants: a call raises nothing for a caller's fault, and its last event is `done`. Nothing here
knows of a transport.
"""

from sessiontree.calls.dispatcher import Data, Dispatcher, Done, Error, Event, Guidance, Progress
from sessiontree.calls.scope import Scope
from sessiontree.ops.budget import Budgeted, Page, Paged, page
from sessiontree.ops.guidance import Refusal
from sessiontree.ops.operation import Method, Namespace
from sessiontree.ops.params import Call, OfSession, PagedOfSession, Stopped

__all__ = [
    "Budgeted",
    "Call",
    "Data",
    "Dispatcher",
    "Done",
    "Error",
    "Event",
    "Guidance",
    "Method",
    "Namespace",
    "OfSession",
    "Page",
    "Paged",
    "PagedOfSession",
    "Progress",
    "Refusal",
    "Scope",
    "Stopped",
    "page",
]
