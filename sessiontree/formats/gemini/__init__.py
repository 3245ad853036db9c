"""The chats of Gemini CLI: the reader, and the layout that a search relies on."""
