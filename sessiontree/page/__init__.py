"""The page of a session: its turns as HTML, in one file that asks nothing of anyone."""


def is_page_name(path: str) -> bool:
    """True if a file of this name is a page, if nobody says otherwise."""
    return path.casefold().endswith((".html", ".htm"))
