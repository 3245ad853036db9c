"""The arguments and options that commands share."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import msgspec

Command = TypeVar("Command", bound=Callable[..., Any])

PATH: Final = click.Path(readable=False)
"""A path. Whether it may be read is seen when it is: then that is told as all else is."""


_ENDINGS: Final = (".jsonl", ".zst", ".json")
"""What a name ends in that is meant to be a file's."""


def session_file(given: str) -> str:
    """The path of a session's file, given that or what names the session where `ls` looks.

    Raises:
        SessionNotFoundError: it is neither.
        RefError: it names more than one.
    """
    if os.path.lexists(given) or given.endswith(_ENDINGS):
        return given
    if os.path.isdir(os.path.dirname(given)):
        return given
    from sessiontree.cli.store import file_named  # heavy, and not needed for a path

    return file_named(given)


class _SessionFile(click.Path):
    """The path of a session's file; see `session_file`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return session_file(str(super().convert(value, param, ctx)))


SESSION_FILE: Final = _SessionFile(readable=False)

file_argument = click.argument("file", type=SESSION_FILE)
new_file_argument = click.argument("newfile", type=PATH)
ref_argument = click.argument("ref")
optional_ref_argument = click.argument("ref", required=False)

root_option = click.option(
    "--root",
    metavar="DIR",
    type=PATH,
    help="The folder that 'file' handles are below; nothing outside of it is read.",
)


def json_option(what: str) -> Callable[[Command], Command]:
    """The option `--json`; `what` says what is printed then."""
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what} as JSON.")


written_json_option = json_option("the entry as stored, not its uuid alone,")


def _object_given(
    ctx: click.Context, option: click.Parameter, text: str | None
) -> dict[str, Any] | None:
    if text is None:
        return None
    found = json_given(text, ctx, option)
    if not isinstance(found, dict):
        raise click.BadParameter('no JSON object; give {"key": "value"}', ctx, option)
    return found


def json_given(text: str, ctx: click.Context, option: click.Parameter) -> Any:
    """The value of an option that is given as JSON text."""
    try:
        return json_value(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", ctx, option) from error


metadata_option = click.option(
    "--metadata",
    metavar="JSON",
    callback=_object_given,
    help="Facts to keep with it, as a JSON object.",
)


def json_value(text: str | bytes) -> Any:
    """The value that JSON text stands for, numbers as they are written.

    Raises:
        ValueError: it is not JSON; the message says why.
    """
    try:
        return msgspec.json.decode(text if isinstance(text, str) else text.decode())
    except UnicodeDecodeError as error:
        raise ValueError(f"byte {error.start} is no UTF-8") from error
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise ValueError(str(error)) from error
    except RecursionError:
        raise ValueError("it is nested too deep") from None
