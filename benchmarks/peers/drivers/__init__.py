"""Programs that do one job with one peer, and print what it took as JSON.

    python -m benchmarks.peers.drivers.NAME JOB FOLDER [VARIANT]

`FOLDER` is a corpus, as `benchmarks.peers.corpora` lays it out.
"""
