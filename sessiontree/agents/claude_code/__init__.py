"""Claude Code's transcripts: the reader, the conversation in a transcript, the writer."""
