"""The rollouts of Codex: the reader, and the plan of the files that one session is made of."""
