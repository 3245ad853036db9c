"""A session as people see it: turns, tree, words, Markdown, costs."""
