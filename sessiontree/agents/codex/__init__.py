"""The rollouts of Codex: the reader, the plan of the files of one session, and the writer."""
