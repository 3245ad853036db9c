"""Commands and options made of the operations of `sessiontree.ops`.

A command is an operation whose first line stands in `cli.COMMANDS`; `sessiontree call` makes a
command of every method in the same way, with an option for each parameter.

Invariants: no operation is named here; a command is made when it is called, and imports only the
module of its operation.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
import msgspec
from msgspec import inspect as kinds_of

from sessiontree.cli import arguments
from sessiontree.cli.opening import (
    LaneOptions,
    lane_note,
    list_rules,
    reading,
    redaction_of,
    tell_migrated,
)
from sessiontree.cli.output import describe, out_json, out_json_list, speaker
from sessiontree.cli.terminal import ProgressBar, as_line, end, finish, out, tell, tell_each
from sessiontree.core.entry import Entry
from sessiontree.errors import RefError, SessionTreeError, UsageError
from sessiontree.library.root import STORE_VARIABLE, environment, named_store, store_of_command
from sessiontree.ops.field import CommandForm, Parameter, parameters, plain
from sessiontree.ops.guidance import CHANGE, Refusal
from sessiontree.ops.operation import Method
from sessiontree.ops.params import Call

if TYPE_CHECKING:
    from sessiontree.calls.scope import Scope
    from sessiontree.handles.registry import Registry
    from sessiontree.library.listing import SessionInfo
    from sessiontree.library.places import Selection
    from sessiontree.redact.redaction import Redaction
    from sessiontree.session import Session
    from sessiontree.store import Store

T = TypeVar("T")
Made = TypeVar("Made", bound=Callable[..., Any])
Renderer = Callable[["CommandCall", Any], None]

_RENDERERS: Final[dict[type | str, Renderer]] = {}
_WITH_JSON: Final[set[type | str]] = set()
_HINTS: Final = {
    "branch": "to copy a path into a new session file, use 'sessiontree fork FILE REF NEWFILE'",
    "export": "to copy a subtree into a new session file, use 'sessiontree export-branch FILE REF "
    "NEWFILE'; to write the transcript to a file, use '-o OUT'",
    "resolve": "give one HANDLE, in quotation marks if it has a space or a semicolon",
}
"""What to do instead where a command is given more words, or a path as a REF."""

_FILE: Final = "FILE"
_GIVEN: Final = "given_"
"""Before the name of each parameter, for click: no option of every command has such a name."""


def renders(
    kind: type[T] | str, *, with_json: bool = False
) -> Callable[[Callable[[CommandCall, Any], None]], Renderer]:
    """Print results of a type, or lists and iterators of it, with the decorated function.

    The name of an operation may stand in place of the type; then JSON is printed without the
    function, but `with_json`.
    """

    def add(function: Callable[[CommandCall, Any], None]) -> Renderer:
        _RENDERERS[kind] = function
        if with_json:
            _WITH_JSON.add(kind)
        return function

    return add


class CommandCall(Call):
    """The call of an operation by a command: it reaches what the user may reach.

    What it opens to read stays open until the result is printed.
    """

    rows = False
    is_command = True

    def __init__(self, method: Method, given: msgspec.Struct, *, as_json: bool) -> None:
        self.method = method
        self.given: Any = given
        self.as_json = as_json
        self.entry: Entry | None = None
        self.done = ""
        self._lane = ""
        self._notes: list[str] = []
        self._left_out: list[str] = []
        self._stop = threading.Event()
        self.bar = ProgressBar(method.title)

    @cached_property
    def scope(self) -> Scope:  # type: ignore[override]  # few commands ask for it
        from sessiontree.calls.scope import Scope  # heavy, and only for these

        return Scope(self.store.root, confined=False, write=True)

    @property
    def width(self) -> int | None:  # type: ignore[override]
        """The columns of a terminal; None without one."""
        from sessiontree.cli.screen import screen  # few commands draw

        on = screen()
        return None if on.height is None else on.width

    @property
    def store(self) -> Store:
        from sessiontree.cli.lookup import store_at  # heavy, and only for these

        return store_at(None)

    def check(self) -> None:
        """A command is stopped by an interrupt."""

    def check_write(self) -> None:
        """A command may write."""

    def progress(self, message: str, done: float | None = None, size: float | None = None) -> None:
        self.bar(done or 0, size, message)

    def warn(self, text: str) -> None:
        tell(f"Warning: {text}")

    def leave_out(self, problem: str) -> None:
        self._left_out.append(problem)

    def tell_none(self, selection: Selection, places: Sequence[str] = ()) -> None:
        from sessiontree.cli.lookup import none_found

        self.tell_nothing(none_found(places, selection))

    def mask(self, value: Any) -> Any:
        return value

    def file(self, session: str) -> str:
        return arguments.session_file(session)

    def row(self, session: str) -> SessionInfo | None:
        return arguments.row_of(session)

    def file_to_write(self, session: str) -> str:
        return arguments.file_to_write(session)

    def file_in_store(self, session: str) -> str:
        from sessiontree.store import path_of_ref  # few commands need it

        try:
            return path_of_ref(session) or self.store.find(session, report=self.leave_out).file
        except RefError as error:
            if error.candidates:
                raise
            unknown = error
        from sessiontree.cli.lookup import agent_file

        if (file := agent_file(session)) is None:
            raise unknown
        return file  # which the store refuses

    def file_in_trash(self, session: str) -> str:
        from sessiontree.store import path_of_ref

        return path_of_ref(session) or self.store.find_trashed(session, report=self.leave_out)

    def project_file(self, path: str) -> str:
        return path

    def places(self, named: Sequence[str] = ()) -> list[str]:
        from sessiontree.cli.lookup import places_at

        return places_at(named)

    def reaches(self, file: str) -> bool:
        return True

    @property
    def registry(self) -> Registry:
        from sessiontree.handles.registry import Registry

        return Registry.default()

    def local(self, path: str) -> str:
        return path

    def new_session(self, path: str, of: Session | None = None, *, or_store: bool = False) -> str:
        if of is None:
            return _outside_store(path)
        if or_store and store_of_command() and not arguments.is_path(path):
            raise click.UsageError(
                "--store names the store of FILE and of the copy: leave out NEWFILE, or give its "
                "path, such as ./NEWFILE"
            )
        if path.startswith("@") or (not arguments.is_path(path) and _names_entry(of, path)):
            into_store = "; to copy into the store, give REF as --at REF" if or_store else ""
            raise click.UsageError(
                f"{as_line(path)!r} is a REF; NEWFILE comes last: FILE REF NEWFILE; for a new file "
                f"of that name give its path with its folder, such as ./NEWFILE{into_store}"
            )
        return path

    def redaction(self, asked: bool, rules: str | None = None) -> Redaction | None:
        return redaction_of(asked, rules)

    def new_file(self, path: str) -> str:
        if path == "-":
            raise click.UsageError(
                "without -o, the command prints to standard output; for a file named -, give ./-"
            )
        return path

    def migrated(self, file: str) -> None:
        tell_migrated(file)

    def wrote(self, entry: Entry, text: str, *about: Entry | str) -> None:
        self.entry = entry
        self.did(text, *about)

    def did(self, text: str, *about: Entry | str) -> None:
        self.done = _said(text, about)

    def show(self, item: Any) -> None:
        if not self.as_json:
            _RENDERERS[type(item)](self, item)

    def tell_nothing(self, text: str) -> None:
        if not self.as_json:
            self._notes.append(text)

    def note(self, text: str, *about: Entry | str) -> None:
        self._notes.append(_said(text, about))

    @contextlib.contextmanager
    def reading(self, session: str, root: str | None = None) -> Iterator[Session]:
        with reading(self.file(session), root) as opened:
            yield opened

    @contextlib.contextmanager
    def writing(
        self,
        session: str,
        lane: str | None = None,
        *,
        scratch: bool = False,
        hold: bool = True,
    ) -> Iterator[Session]:
        file = self.file_to_write(session)
        with LaneOptions(lane, scratch).writing(file, hold=hold) as opened:
            yield opened
            self._lane = lane_note(session, opened)

    def print(self, result: Any) -> None:
        """Print the result: on standard output the data, on standard error all else."""
        if self.done:
            tell(self.done + self._lane)
        name, is_many = self.method.full_name, isinstance(result, list | Iterator)
        if name in _RENDERERS and (name in _WITH_JSON or not self.as_json):
            _RENDERERS[name](self, result)
        elif renderer := _RENDERERS.get(self.method.item if is_many else type(result)):
            renderer(self, result)
        elif self.entry is not None:
            out_json(self.entry) if self.as_json else out(self.entry.uuid)
        elif self.as_json:
            out_json_list(result) if is_many else out_json(result)
        elif not self.done:
            raise TypeError(f"no function prints the result of {name} for people")
        self._tell_notes()

    def print_each(self, name: str, values: Sequence[str]) -> None:
        """Print the result for each value of a parameter; exit with 1 if any has none."""
        done: list[Any] = []
        for value in values:
            setattr(self.given, name, value)
            try:
                done.append(self.method.function(self, self.given))
            except SessionTreeError as error:
                if len(values) == 1:
                    raise
                tell(f"Error: {error}")
                continue
            tell(self.done)
            self.show(done[-1])
        if self.as_json:
            out_json_list(done)
        finish()
        if done:
            self._tell_notes()
        end(len(done) < len(values))

    def _tell_notes(self) -> None:
        for note in dict.fromkeys(self._notes):
            tell(note)

    def tell_left_out(self) -> None:
        """Tell what the result does without."""
        tell_each("Left out", self._left_out)


def _outside_store(path: str) -> str:
    where = "--store" if store_of_command() else STORE_VARIABLE
    if store_of_command() or (named_store() and not arguments.is_path(path)):
        raise click.UsageError(
            f"{where} names a store, which chooses the file: leave out {as_line(path)!r}, and give "
            "a name with --name; for a file outside of the store, give its path, such as "
            "./chat.jsonl, without --store"
        )
    return path


def _names_entry(session: Session, word: str) -> bool:
    with contextlib.suppress(RefError):
        return bool(session.entry(word))
    return False


def _said(text: str, about: Sequence[Entry | str]) -> str:
    return text.format(*(describe(one) if isinstance(one, Entry) else one for one in about))


class OperationCommand(click.Command):
    """A command whose help describes its arguments, but for FILE, which all help describes."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        arguments = [one for one in self.params if isinstance(one, _Argument)]
        if rows := [(str(one.metavar), one.text) for one in arguments if one.metavar != _FILE]:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        super().format_options(ctx, formatter)


class _Argument(click.Argument):
    def __init__(self, *given: Any, help: str, **settings: Any) -> None:
        super().__init__(*given, **settings)
        self.text = help  # not `help`, which new versions of click print in their own way


def command(
    name: str, line: str, method: Method, others: Mapping[str, Method] | None = None
) -> click.Command:
    """Make a command of its operation; `line` is its first line of help.

    Each of `others` is called instead where its option or argument is given: the first of them,
    and an option before an argument. It is a switch where no operation has a parameter that is
    spelled so.
    """
    others = others or {}
    every = {each: parameters(each.params) for each in (method, *others.values())}
    own = {name for each in every for name in each.params.__annotations__}
    needed = set.intersection(*(_needed(each) for each in every.values()))
    found = {
        spelling(one): one
        for each in [*every.values()][::-1]
        for one in each
        if one.door is not None
    }
    takes = [
        _parameter(one, one.door, is_needed=spelled in needed)
        for spelled, one in found.items()
        if one.door is not None
    ]
    takes.sort(key=lambda one: _place(one, own))
    command = OperationCommand(
        name,
        params=takes,
        callback=partial(_run, method, others),
        help=f"{line}\n\n{method.details}".rstrip(),
        context_settings=arguments.TAKES_MORE if name in _HINTS else {},
    )
    for key, other in others.items():
        if key not in found:
            click.option(key, is_flag=True, help=other.description.split("\n\n")[0])(command)
    if not any("--store" in option.opts for option in takes):
        arguments.default_store(command)
    arguments.json_option(method.json or arguments.WRITTEN)(command)
    return command


def spelling(one: Parameter) -> str:
    """How people spell a parameter: its first option, or the word for its argument."""
    return one.name if one.door is None else one.door.names[0].strip("[]…")


def _needed(every: Sequence[Parameter]) -> set[str]:
    return {spelling(one) for one in every if one.is_required and not one.is_optional}


def _place(parameter: click.Parameter, own: set[str]) -> tuple[bool, bool]:
    """FILE first, then the other arguments, then the options; last those of other commands, too."""
    if isinstance(parameter, click.Argument):
        return parameter.nargs == -1, parameter.metavar != _FILE
    return True, str(parameter.name).removeprefix(_GIVEN) not in own


def _run(method: Method, others: Mapping[str, Method], as_json: bool, **given: Any) -> None:
    """Call the operation that a command is given, and print its result."""
    ctx = click.get_current_context()
    name = str(ctx.command.name)
    if name in _HINTS:
        arguments.refuse_more(_HINTS[name])
    values = {_spelled(ctx, name): value for name, value in _of_command_line(ctx, given)}
    # REF alone is one operation, and another one with --request: an option decides first.
    options_first = sorted(others, key=lambda key: not key.startswith("-"))
    chosen = next((key for key in options_first if key in values), None)
    method = others.get(chosen or "", method)
    takes = {spelling(one): one for one in parameters(method.params)}
    if more := sorted(values.keys() - takes.keys() - {chosen}):
        if chosen is None:
            chosen = next(key for key, other in others.items() if _takes(other, more[0]))
            raise click.UsageError(f"{more[0]} needs {chosen}")
        raise click.UsageError(f"give {chosen} or {' and '.join(more)}, not both")
    for key, one in takes.items():
        if key not in values and one.is_required and not one.is_optional:
            if chosen is not None:
                raise click.UsageError(f"{chosen} needs {key}")
            raise click.UsageError(f"give {' or '.join([key, *others])}")
    run(method, as_json=as_json, **{takes[key].name: values[key] for key in takes.keys() & values})


def _takes(method: Method, key: str) -> bool:
    return any(spelling(one) == key for one in parameters(method.params))


def run(method: Method, *, as_json: bool, **values: Any) -> None:
    """Call an operation with the values that a command was given, and print its result."""
    ctx = click.get_current_context()
    name = str(ctx.command.name)
    missing = {one.name: None for one in parameters(method.params) if one.is_optional}
    call = CommandCall(method, method.params(**missing | values), as_json=as_json)
    repeated = next((one.name for one in parameters(method.params) if one.is_repeated), None)
    try:
        with call:
            if repeated is not None:
                call.print_each(repeated, values[repeated])
                return
            with call.bar:
                result = method.function(call, call.given)
            call.print(result)
    except Refusal as refusal:
        if refusal.kind not in ("bad_value", "bad_parameter"):
            raise click.ClickException(as_line(str(refusal))) from None
        is_all = refusal.next != CHANGE
        text = _in_options(ctx, refusal.next) if is_all else as_line(str(refusal))
        raise click.UsageError(text) from None
    except RefError as error:
        if name in _HINTS and arguments.is_path(error.ref):
            message = f"{as_line(error.ref)!r} is a path, not a REF; {_HINTS[name]}"
            raise click.UsageError(message) from None
        raise
    finally:
        call.tell_left_out()


def _spelled(ctx: click.Context, name: str) -> str:
    """A parameter as the command spells it."""
    for option in ctx.command.params:
        if option.name in (name, f"{_GIVEN}{name}"):
            return (
                option.opts[0]
                if isinstance(option, click.Option)
                else str(option.metavar).strip("[]…")
            )
    return name


def _in_options(ctx: click.Context, next: str) -> str:
    """A next step that names parameters, for a command, which has options."""
    words = re.sub("`([a-z_]+)`", lambda found: _spelled(ctx, found[1]), next)
    return words[0].lower() + words[1:].removesuffix(".")


def values_of(ctx: click.Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the parameters that are given, by their names."""
    return {name.removeprefix(_GIVEN): value for name, value in _of_command_line(ctx, given)}


def _of_command_line(ctx: click.Context, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            yield name, list(value) if isinstance(value, tuple) else value


def _parameter(one: Parameter, door: CommandForm, *, is_needed: bool) -> click.Parameter:
    """A parameter as an option, or as an argument, of a command."""
    name, metavar = f"{_GIVEN}{one.name}", door.names[0]
    if door.is_option:
        return click.Option([*door.names, name], **_settings_of(one, door))
    return _Argument(
        [name],
        metavar=metavar if is_needed or metavar.startswith("[") else f"[{metavar}]",
        nargs=-1 if one.is_list or one.is_repeated else 1,
        required=is_needed,
        type=_kind_of(one, door),
        help=one.description,
    )


def _settings_of(one: Parameter, door: CommandForm) -> dict[str, Any]:
    more = " You can give it more than once." if _is_multiple(one) else ""
    settings = _settings(one, _kind_of(one, door), door.metavar, one.description + more)
    if door.kind == "store":
        settings |= {"is_eager": True, "callback": arguments.use_store}
    if door.kind == "rules":
        settings |= {"is_eager": True, "callback": list_rules, "expose_value": False}
    if door.metavar is not None and door.metavar.startswith("["):
        settings |= {"is_flag": False, "flag_value": ""}
    return settings


def _kind_of(one: Parameter, door: CommandForm) -> click.ParamType:  # type: ignore[type-arg]
    if door.choices:
        return arguments.OneOf(door.choices)
    return _KINDS.get(door.kind or one.names or "") or type_of(item_of(one.type))


def option(
    one: Parameter,
    names: Sequence[str],
    kind: click.ParamType | None,  # type: ignore[type-arg]  # generic in new versions only
    metavar: str | None,
    help: str,
) -> click.Option:
    """A parameter as an option, which is a switch for a truth and repeated for a list."""
    return click.Option([*names, f"{_GIVEN}{one.name}"], **_settings(one, kind, metavar, help))


def _is_multiple(one: Parameter) -> bool:
    return one.is_list and item_of(one.type) is not one.type


def _settings(
    one: Parameter,
    kind: click.ParamType | None,  # type: ignore[type-arg]
    metavar: str | None,
    help: str,
) -> dict[str, Any]:
    is_switch = isinstance(one.type, kinds_of.BoolType)
    return {
        "type": None if is_switch else kind,
        "metavar": None if is_switch else metavar,
        "is_flag": is_switch,
        "default": None,
        "multiple": _is_multiple(one),
        "help": help,
    }


def described(struct: type[msgspec.Struct], *names: str) -> Callable[[Made], Made]:
    """Add options to a command made by hand: parameters of a struct, as it describes them."""
    found = {one.name: one for one in parameters(struct)}

    def add(function: Made) -> Made:
        for name in reversed(names):
            one, door = found[name], found[name].door
            assert door is not None
            settings = _settings_of(one, door) | {"default": one.default}
            function = click.option(*door.names, name, **settings)(function)
        return function

    return add


_WORDS: Final = (kinds_of.LiteralType, kinds_of.IntType, kinds_of.FloatType, kinds_of.StrType)


def item_of(kind: kinds_of.Type) -> kinds_of.Type:
    """The type of an item of a list whose items are words; any other type itself."""
    if isinstance(kind, kinds_of.ListType):
        item = plain(kind.item_type)
        return item if isinstance(item, _WORDS) else kind
    return kind


def type_of(kind: kinds_of.Type) -> click.ParamType:  # type: ignore[type-arg]
    """How the word for a value is read from the command line."""
    if isinstance(kind, kinds_of.LiteralType):
        return arguments.OneOf([str(value) for value in kind.values])
    if isinstance(kind, kinds_of.IntType):
        return click.INT if kind.ge is kind.le is None else click.IntRange(kind.ge, kind.le)
    if isinstance(kind, kinds_of.FloatType):
        return click.FLOAT
    if isinstance(kind, kinds_of.StrType):
        return click.STRING
    if isinstance(kind, kinds_of.UnionType):
        return JsonOrText((object,), "")
    if isinstance(kind, kinds_of.DictType):
        return arguments.Json(dict, 'not a JSON object; give {"key": "value"}')
    return arguments.Json((object,), "")


class JsonOrText(arguments.Json):
    """A value of JSON text; what is not JSON is a text itself."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return arguments.json_value(value)
        except ValueError:
            return value


class _Program(click.ParamType):  # type: ignore[type-arg]  # generic in new versions only
    """A program that writes a summary, as a function of the entries that it summarizes."""

    name = "cmd"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            words = shlex.split(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if not words:
            self.fail("give a command", param, ctx)
        return partial(_ask, words)


def _ask(words: Sequence[str], entries: Sequence[Entry], instructions: str | None = None) -> str:
    """The summary that a program writes of the entries, by the user's instructions if any."""
    from sessiontree.views.parts import text_of_entry  # few commands show whole entries

    transcript = "\n".join(f"{speaker(e)}: {text_of_entry(e)}\n" for e in entries if e.is_content)
    if instructions is not None:
        transcript += f"\nThe user's instructions for the summary: {instructions}\n"
    try:
        ended = subprocess.run(
            words,
            input=transcript.encode(errors="replace"),
            stdout=subprocess.PIPE,
            env=environment(),
        )
        text = ended.stdout.decode().strip()
    except OSError as error:
        fault = f"cannot be run: {error.strerror or error}"
    except UnicodeDecodeError:
        fault = "did not answer in UTF-8"
    else:
        if text and not ended.returncode:
            return text
        fault = f"failed with status {ended.returncode}" if ended.returncode else "answered nothing"
    raise UsageError(f"the summarizer {shlex.join(words)!r} {fault}; nothing was written")


_KINDS: Final[Mapping[str, click.ParamType]] = {  # type: ignore[type-arg]
    "session": arguments.SESSION_FILE,
    "session name": arguments.SESSION_NAME,
    "entry": arguments.REF,
    "project": arguments.PROJECT,
    "path": arguments.PATH,
    "place": arguments.PLACE,
    "store": arguments.STORE,
    "time": arguments.TIME,
    "program": _Program(),
    "text": click.STRING,
    "content": arguments.Json((str, list), "give content as a string or a list of blocks"),
}
"""How texts are read that name something."""
