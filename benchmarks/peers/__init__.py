"""sessiontree and others on the same sessions: `python -m benchmarks.peers`.

What is measured is in `jobs`, on what in `corpora`, and how in `process`; each
program is called by a driver of its own in `drivers`, with that program's own
calls on its own format.
"""
