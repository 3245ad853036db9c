"""The pi coding agent's sessions: the reader, the messages, the writer."""
