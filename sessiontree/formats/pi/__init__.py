"""The pi coding agent's sessions, read and written."""
