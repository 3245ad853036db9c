"""Calls by name: what programs and agents can ask of sessions, whatever carries the question.

`Dispatcher.call("tree.render", {"session": "latest"}, take)` finds the method `render` of the
namespace `tree`, checks the parameters, runs the method, and gives each event to `take`. Another
package adds a namespace by the entry point `sessiontree.namespaces`.

Invariants: a call raises nothing for a caller's fault, and its last event is `done`. Nothing here
knows of a transport.
"""
