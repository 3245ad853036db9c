"""Claude Code's transcripts, read and written."""
