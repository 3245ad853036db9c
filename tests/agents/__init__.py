"""Real agents, driven offline: what they send or build is what sessiontree reads."""
