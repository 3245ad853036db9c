"""The store that a command is about, and the sessions in it."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Sequence
from contextlib import suppress

from sessiontree.cli.terminal import tell
from sessiontree.core.display import in_quotes
from sessiontree.errors import NotASessionError, RefError, SessionNotFoundError
from sessiontree.library.homes import agent_folders, missing_folders, with_tilde
from sessiontree.library.listing import SessionInfo, facts_of
from sessiontree.library.lookup import find, find_conversation, to_read, to_write
from sessiontree.library.places import Selection, conversations_in
from sessiontree.library.root import named_store, naming_variable, store_of_command
from sessiontree.storage.names import is_database, is_file, unreadable
from sessiontree.storage.place import is_address, is_session_address, path_of, without_secret
from sessiontree.storage.places import shown
from sessiontree.store import Store


def store_at(folder: str | None) -> Store:
    """The store in a folder, which must exist, or at an address; by default this user's.

    The default folder is made with its first session, unless SESSIONTREE_STORE names it: what a
    user names may be on a disk that is not there.
    """
    if folder is None:
        return _default_store()
    if not is_address(folder):
        _check_folder(path_of(folder), "check the path")
    return Store(folder)


def _default_store() -> Store:
    store, variable = Store(), naming_variable()
    if is_address(store.root):
        return store
    if os.path.isfile(store.root) and store_of_command() is None:
        hint = "move the file" if variable is None else f"{variable} names it: change the variable"
        message = f"{store.root}, the default store, is a file, not a folder; {hint}"
        raise SessionNotFoundError(message, store.root)
    if named_store() is not None:
        hint = f"{variable} names it: make the folder, or change the variable"
        _check_folder(store.root, "check the path" if variable is None else hint)
    return store


def _check_folder(folder: str, hint: str) -> None:
    """Check that a folder is there; `hint` says what to do if it is not."""
    if os.path.isfile(folder):
        raise SessionNotFoundError(f"{folder} is a file, not a folder of sessions", folder)
    if os.path.isdir(folder):
        return
    try:
        os.stat(folder)
    except PermissionError as error:
        raise unreadable(folder, error) from error
    except OSError:
        pass
    raise SessionNotFoundError(f"there is no folder {folder}; {hint}", folder)


def tell_without_secret(store: str) -> None:
    """Say what a program needs that is started later, with an address without its secrets."""
    if is_address(store) and without_secret(store) != store:
        tell(
            "Note: the password is left out of the address; give it to the program by "
            "~/.pgpass or PGPASSWORD, the keys of a bucket by AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY"
        )


def places_at(named: Sequence[str] = ()) -> list[str]:
    """The places of sessions: those named; else the user's store, and the folders of the agents."""
    if named:
        return [_place_at(place) for place in named]
    return [store_at(None).root, *agent_folders()]


def only_session(places: Sequence[str]) -> str | None:
    """Return the only place, if it is a file; None for a folder, which may not be there yet.

    Raises:
        SessionTreeError: the file is not a session, or cannot be read.
    """
    if len(places) != 1:
        return None
    place = places[0]
    is_session = is_session_address(place) if is_address(place) else is_file(place)
    if not is_session or is_database(place):
        return None
    facts_of(place)
    return place


def _place_at(place: str) -> str:
    """A folder or a session file, which must exist, or an address."""
    if is_address(place):
        return shown(place)
    place = path_of(place)
    if os.path.isdir(place):
        return os.path.abspath(place)
    if is_file(place):
        return place
    try:
        kind = os.stat(place).st_mode
    except (FileNotFoundError, NotADirectoryError):
        message = f"there is no file or folder {place}; check the path"
        raise SessionNotFoundError(message, place) from None
    except OSError as error:
        raise unreadable(place, error) from error
    if not stat.S_ISREG(kind):
        message = f"{place} is a device or a pipe; give a session file or a folder"
        raise NotASessionError(message, place)
    return place


def none_found(places: Sequence[str], selection: Selection) -> str:
    """The message for a list without a session: where it looked, and what it looked for."""
    store, *others = map(with_tilde, places)
    where, more = ", ".join([store, *others]), ""
    if places == places_at():
        where = f"{store} or where agents keep theirs"
        where += f" ({', '.join(others)})" if others else ""
        missing = [
            with_tilde(folder) + (f" ({variable})" if variable else "")
            for folder, variable in missing_folders()
            if variable or not others
        ]
        more = f"; not there: {', '.join(missing)}" if missing else ""
    asked = [f"--agent {name}" for name in sorted(selection.agents)]
    if selection.project is not None:
        asked.append(f"--project {in_quotes(selection.project)}")
    if selection.since is not None:
        asked.append(f"--since {selection.since.astimezone():%Y-%m-%d %H:%M}")
    matches = f" matches {' '.join(asked)}" if asked else ""
    return f"No session in {where}{matches}{more}"


def file_to_read(row: SessionInfo) -> str:
    """The file to read of a conversation."""
    return to_read(row, tell)


def file_to_write_of(row: SessionInfo) -> str:
    """The file to write of a conversation."""
    return to_write(row, tell)


def find_row(name: str) -> SessionInfo:
    """The conversation with a name or an id, or `latest`."""
    given = store_of_command()
    command = "sessiontree ls" + ("" if given is None else f" --store {shlex.quote(shown(given))}")
    return find_conversation(name, store_at(None), agent_folders(), tell, command)


def agent_file(name: str) -> str | None:
    """The file of the one session of an agent with a name or an id, or None."""
    found = conversations_in(agent_folders(), Selection(), lambda problem: None)
    with suppress(RefError):
        return find(name, found, "", "").file
    return None


def relative_path(file: str) -> str:
    """The path of a file; relative to the current directory where the file is below that."""
    if is_address(file):
        return file
    below = os.path.relpath(file)
    return file if below.startswith(os.pardir) else below
