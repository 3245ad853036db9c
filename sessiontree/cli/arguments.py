"""The arguments and options that commands share, and the values they are converted to."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec

from sessiontree.cli import COMMANDS
from sessiontree.cli.terminal import as_line
from sessiontree.core.entry import moment_given
from sessiontree.errors import UsageError
from sessiontree.library.root import naming_store
from sessiontree.storage.names import is_there
from sessiontree.storage.place import is_address, is_url, without_secret
from sessiontree.storage.places import shown

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from sessiontree.library.listing import SessionInfo

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Callable[..., Any]], click.Command]


class _Store(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        given = str(super().convert(value, param, ctx))
        is_address(given)  # refuses a wrong address, before a folder is made of it
        return given


class _NamedStore(_Store):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        given = super().convert(value, param, ctx)
        return given if is_address(given) else os.path.expanduser(given)  # not all shells do


class _PathOrAddress(_Store):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return shown(super().convert(value, param, ctx))


class _Path(click.Path):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        given = str(super().convert(value, param, ctx))
        if is_url(given):
            self.fail(f"{without_secret(given)} is an address; give a path", param, ctx)
        return given


class OneOf(click.Choice):  # type: ignore[type-arg]
    """One of some words; of a wrong one it says which it may be."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            import difflib  # only a misspelt word needs it

            near = difflib.get_close_matches(str(value), [*map(str, self.choices)], n=1)
            if near:
                self.fail(f"{error.message} Did you mean {near[0]!r}?", param, ctx)
            raise


PATH: Final = _Path(readable=False)
"""A path. The command finds out whether it can be read, and reports it as any other error."""

PLACE: Final = _PathOrAddress(readable=False)
"""A path, or the address of a session or a store; the command gets it without its password."""

STORE: Final = _NamedStore(readable=False)
"""A store, as given: a program that this one starts needs the password. `~` is the home folder."""

TAKES_MORE: Final = {"allow_extra_args": True}
"""The context settings of a command that calls `refuse_more`."""

WRITTEN: Final = "the whole new entry, not only its uuid"
"""What the option `--json` of a command that writes one entry prints."""

_ENDINGS: Final = (".jsonl", ".zst", ".json")


_FOUND: Final = "sessiontree.found"
"""The key of a context for the conversations that were found by a name, by their files."""


def is_path(given: str) -> bool:
    """Whether a word can only be the path or the address of a session: by its form."""
    return is_url(given) or given.endswith(_ENDINGS) or os.path.isdir(os.path.dirname(given))


def session_file(given: str) -> str:
    """The path of a session file, from a path, or an id or a name that `ls --all` lists."""
    if is_there(given) or is_path(given):
        return shown(given)
    from sessiontree.cli.lookup import file_to_read, find_row  # heavy, not needed for a path

    row = find_row(given)
    click.get_current_context().meta.setdefault(_FOUND, {})[file := file_to_read(row)] = row
    return file


def row_of(file: str) -> SessionInfo | None:
    """The conversation that `session_file` found by an id or a name; None if it was a path."""
    row: SessionInfo | None = click.get_current_context().meta.get(_FOUND, {}).get(file)
    return row


def file_to_write(file: str) -> str:
    """The path of the file to write of a session, given what `session_file` returned."""
    row = row_of(file)
    if row is None:
        return file
    from sessiontree.cli.lookup import file_to_write_of

    return file_to_write_of(row)


def refuse_more(hint: str) -> None:
    """Refuse more arguments than a command takes; `hint` names the command that takes them."""
    more = click.get_current_context().args
    if more:
        raise click.UsageError(f"unexpected {as_line(more[0])!r}; {hint}")


class _Completed(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A value that TAB completes, by the function of this name in `cli.completion`."""

    name = "text"
    items: str

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from sessiontree.cli import completion  # only TAB needs it

        found: list[CompletionItem] = getattr(completion, self.items)(ctx, incomplete)
        return found


class _SessionFile(_Completed, _Store):
    items = "session_items"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return session_file(str(super().convert(value, param, ctx)))


class _SessionName(_Completed, _PathOrAddress):
    items = "session_items"


class _SessionText(_Completed):
    items = "session_items"


class _Project(_Completed, _Path):
    items = "project_items"


class _Ref(_Completed):
    items = "entry_items"


SESSION_FILE: Final = _SessionFile(readable=False)
"""The path of a session file; see `session_file`."""

SESSION_TEXT: Final = _SessionText()
"""A session, as a method takes it."""

SESSION_NAME: Final = _SessionName(readable=False)
"""A session, which the command finds itself."""

PROJECT: Final = _Project(readable=False)
"""The path of a project, or names in it."""

REF: Final = _Ref()
"""An entry of the session before it."""

file = click.argument("file", type=SESSION_FILE)
places = click.argument("places", metavar="[DIR|FILE]…", nargs=-1, type=SESSION_FILE)
ref = click.argument("ref", type=REF)


def path_option(
    *names: str, metavar: str, help: str, type: click.Path = PATH, **settings: Any
) -> Callable[[Command], Command]:
    """An option for a path."""
    return click.option(*names, metavar=metavar, type=type, help=help, **settings)


_STORE_HELP: Final = (
    "The store: a folder, or an address: postgresql://HOST/DB or s3://BUCKET/PREFIX [default: the "
    "variable SESSIONTREE_STORE, else SESSIONTREE_HOME, else a folder in your data folder]."
)
store = path_option("--store", "folder", metavar="DIR|URL", help=_STORE_HELP, type=STORE)
_ROOT: Final = "Resolve 'file' handles to files in DIR; files outside DIR are never read."
root = path_option("--root", metavar="DIR", help=_ROOT)


def command(name: str, *, json: str | None = None, **settings: Any) -> Decorator:
    """Make a command of the table; its help is its line there, then the docstring.

    `json` is what the option `--json` prints; with None there is no such option.
    """

    def make(function: Callable[..., Any]) -> click.Command:
        text = f"{COMMANDS[name][1]}\n\n{inspect.getdoc(function) or ''}"
        plain: Decorator = click.command(name, help=text.rstrip(), **settings)
        command = plain(function)
        if not any("--store" in option.opts for option in command.params):
            default_store(command)
        if json is not None:
            json_option(json)(command)
        return command

    return make


def use_store(ctx: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """Make a store the default while the command runs; a folder must exist."""
    if given:
        from sessiontree.cli.lookup import store_at  # heavy, and few commands are given a store

        store_at(given)
        # A context whose arguments are refused is never closed, but the one above it is.
        ctx.find_root().with_resource(naming_store(given))
    return given


def own_store(
    metavar: str = "DIR|URL", help: str = _STORE_HELP, **settings: Any
) -> Callable[[Command], Command]:
    """The option for the store in which the arguments of a command are found, too."""
    return path_option(
        "--store",
        "folder",
        metavar=metavar,
        help=help,
        type=STORE,
        is_eager=True,
        **{"callback": use_store, **settings},
    )


default_store: Final = own_store(expose_value=False)
"""The option for the store in which the FILE of a command is found."""


def file_command(name: str, **settings: Any) -> Decorator:
    """Make a command of the table whose first argument is FILE, a session."""
    return lambda function: command(name, **settings)(file(function))


write_command = functools.partial(file_command, json=WRITTEN)


def json_option(what: str) -> Callable[[Command], Command]:
    """The option `--json`; `what` is what it prints."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print JSON: {what}.")


def json_value(text: str | bytes) -> Any:
    """The value of JSON text; a ValueError says why it is not JSON."""
    try:
        return msgspec.json.decode(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is not UTF-8") from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("it is nested too deep") from None


class Json(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """The value of JSON text, of one of the given types."""

    name = "json"

    def __init__(self, types: type | tuple[type, ...], hint: str) -> None:
        self._types = types
        self._hint = hint

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            found = json_value(value)
        except ValueError as error:
            self.fail(f"not JSON: {error}", param, ctx)
        if not isinstance(found, self._types):
            self.fail(self._hint, param, ctx)
        return found


metadata = click.option(
    "--metadata",
    type=Json(dict, 'not a JSON object; give {"key": "value"}'),
    help="A JSON object with your own facts, stored in the new entry.",
)


class _Time(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return moment_given(value, datetime.now(UTC))
        except UsageError as error:
            self.fail(str(error), param, ctx)


TIME: Final = _Time()
"""A date, a date and time, or how long ago."""
