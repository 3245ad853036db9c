"""The live view in the browser: a server for this machine alone, which only reads.

The list has what `ls` lists; a session is the page of `export --format html`, whose script gets its
parts from the server and hears of what is new. The packages, starlette and uvicorn, are an extra.

Invariants: no request names a path, only a session of the list; nothing is written but the counts
that `ls` keeps too; text of a session is escaped before it is sent.
"""
