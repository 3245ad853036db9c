"""The chats of Gemini CLI: the reader, the layout that a search relies on, and the writer."""
