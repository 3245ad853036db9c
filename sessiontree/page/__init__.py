"""The page of a session: its turns as HTML, in one file that asks nothing of anyone."""
