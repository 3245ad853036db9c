"""One open session: its file, the tree in it, the place in the tree, and the writer."""
