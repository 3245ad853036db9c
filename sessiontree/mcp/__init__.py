"""The server of the Model Context Protocol: the dispatcher's methods as tools, sessions as
resources.

The modules that speak the protocol import the package `mcp`, which is an extra. `setup` edits the
configuration of agents, and does not need it.
"""
