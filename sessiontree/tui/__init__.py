"""The browser in the terminal: all sessions, the outline of one, its entries in full.

It reads by the operations that the commands use, and has no logic of its own. Its package, textual,
is an extra. `frame` and `drawing` do not import it, so the first screen is there before it is.

Invariants: text of a session never controls the terminal and is never read as markup; only a key
that writes opens a session to write.
"""
