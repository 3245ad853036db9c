"""The command that calls a method: its options, help and completion are made of
its parameters.

Invariant: no method is named here.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Final

import click
from msgspec import inspect as kinds_of

from sessiontree.calls.dispatcher import Data, Dispatcher, Error, Event, Guidance
from sessiontree.calls.dispatcher import Progress as Step
from sessiontree.calls.scope import Scope
from sessiontree.cli import COMMANDS, arguments
from sessiontree.cli.derive import item_of, option, type_of, values_of
from sessiontree.cli.lookup import store_at
from sessiontree.cli.output import for_people, out_json, out_json_indented
from sessiontree.cli.terminal import ProgressBar, as_line, out, tell, tell_each
from sessiontree.ops.field import Parameter, parameters
from sessiontree.ops.operation import Method

_NAME: Final = "call"
_TEXT: Final = "text"
"""The field of a result that is printed as it is."""

_TAKEN: Final = ("json", "help", "store")
"""Options of every method; a parameter with such a name is given as `--param-json`."""

_BAD_CALL: Final = ("bad_parameter", "unknown_namespace", "unknown_method")
_EFFECTS: Final = {
    "write": "This method changes sessions or makes files.",
    "destroy": "This method removes something for good.",
}
_DISPATCHER: Final = "sessiontree.dispatcher"


def _dispatcher(ctx: click.Context) -> Dispatcher:
    """The methods of this command, which may write, and reach what the user may reach."""
    if _DISPATCHER not in ctx.meta:
        ctx.meta[_DISPATCHER] = Dispatcher(Scope(confined=False, write=True))
    found: Dispatcher = ctx.meta[_DISPATCHER]
    return found


class Methods(click.Group):
    """The methods, each as a command that is made of its schema."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_dispatcher(ctx).methods)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        method = _dispatcher(ctx).method(cmd_name)
        return None if method is None else _command(method)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The option `--list` has them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if ctx.resilient_parsing or _dispatcher(ctx).method(args[0]) is not None:
            return super().resolve_command(ctx, args)
        tell_each("Left out", _dispatcher(ctx).problems)
        raise click.UsageError(_refused(_events(ctx, args[0], {}, _ignore)), ctx)


class _Command(click.Command):
    """A method as a command."""

    def __init__(self, method: Method, **settings: Any) -> None:
        super().__init__(method.full_name, **settings)
        self._method = method

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        result = self._method.result_schema
        fields = {
            name: {
                **result.get("$defs", {}).get(field.get("$ref", "").rpartition("/")[2], {}),
                **field,
            }
            for name, field in result.get("properties", {}).items()
        }
        rows = [(name, str(field.get("description", ""))) for name, field in fields.items()]
        if rows:
            with formatter.section("Result"):
                formatter.write_dl(rows)


def _command(method: Method) -> click.Command:
    """A method as a command."""
    every = [one for one in parameters(method.params) if not one.is_for_people]
    parts = (method.description, _EFFECTS.get(method.effect, ""))
    command = _Command(
        method,
        params=[_option(one) for one in sorted(every, key=lambda one: not one.is_required)],
        callback=partial(_call, method),
        help="\n\n".join(filter(None, parts)),
        short_help=method.title,
        context_settings=arguments.TAKES_MORE,
    )
    _json_option(command)
    _store_option(command)
    return command


def _use_store(ctx: click.Context, option: click.Parameter, given: str | None) -> None:
    """Call the methods on another store."""
    if arguments.use_store(ctx, option, given) is not None:
        ctx.meta.pop(_DISPATCHER, None)


_store_option: Final = arguments.own_store(expose_value=False, callback=_use_store)


_json_option = click.option(
    "--json",
    "text",
    is_flag=False,
    flag_value="",
    metavar="[-|OBJECT]",
    help="Print JSON: the result, on one line. With '-', also take parameters as a JSON object "
    "from standard input; OBJECT is such an object itself. An option counts before the object.",
)


def _option(one: Parameter) -> click.Option:
    """The option for a parameter."""
    kind = item_of(one.type)
    text = [one.description, "You can give it more than once." if kind is not one.type else ""]
    default = one.default
    if one.is_required:
        text.append("[required]")
    elif default not in (None, False, []):
        text.append(f"[default: {default if isinstance(default, str) else for_people(default)}]")
    spelled = f"param-{one.name}" if one.name in _TAKEN else one.name.replace("_", "-")
    can_be_off = isinstance(kind, kinds_of.BoolType) and default is not False
    flags = f"--{spelled}/--no-{spelled}" if can_be_off else f"--{spelled}"
    metavar = _METAVARS.get(type(kind), "JSON")
    read = arguments.SESSION_TEXT if one.names == "session" else type_of(kind)
    read = click.INT if isinstance(kind, kinds_of.IntType) else read  # the method checks the range
    return option(one, [flags], read, metavar, " ".join(filter(None, text)))


_METAVARS: Final[Mapping[type, str | None]] = {
    kinds_of.StrType: "TEXT",
    kinds_of.IntType: "N",
    kinds_of.FloatType: "NUMBER",
    kinds_of.LiteralType: None,
    kinds_of.UnionType: "TEXT|JSON",
}


def _ignore(*told: object) -> None:
    """Pass over what cannot be read, or what is done."""


def _call(method: Method, text: str | None, **given: Any) -> None:
    """Call a method, and print its result."""
    ctx = click.get_current_context()
    needed = method.params_schema["required"]
    arguments.refuse_more("give each parameter by its option, as --help shows")
    params = {**(_object(text) if text else {}), **values_of(ctx, given)}
    options = {option.name: option for option in ctx.command.params}
    for name in needed:
        if name not in params:
            raise click.MissingParameter(ctx=ctx, param=options[f"given_{name}"])
    store_at(None)  # which must be there if it is named
    with ProgressBar(method.title) as shown:
        found = _events(ctx, method.full_name, params, shown)
    _print(found, as_json=text is not None)
    if any(isinstance(event, Error) for event in found):
        raise _error(found, ctx)


def _object(given: str) -> dict[str, Any]:
    """The parameters of a JSON object, or of that on standard input."""
    text: str | bytes = given
    if given == "-":
        text = b"" if sys.stdin is None else sys.stdin.buffer.read()
    try:
        found = arguments.json_value(text)
    except ValueError as error:
        where = "standard input" if given == "-" else "OBJECT"
        raise _bad_json(f"{where} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise _bad_json('the parameters are a JSON object; give {"name": "value"}')
    return found


def _bad_json(message: str) -> click.BadParameter:
    return click.BadParameter(as_line(message), param_hint="'--json'")


def _events(ctx: click.Context, name: str, params: Any, shown: Any) -> list[Event]:
    """The events of a call, without its progress, which is shown."""
    found: list[Event] = []

    def take(event: Event) -> None:
        if isinstance(event, Step):
            is_known = event.fraction is not None
            shown(event.fraction or 0, 1 if is_known else None, event.message)
        else:
            found.append(event)

    _dispatcher(ctx).call(name, params, take, hashed=False)
    return found


def _print(found: list[Event], *, as_json: bool) -> None:
    """Print the result, and on standard error what the call tells beside it."""
    for event, following in pairwise(found):
        if isinstance(event, Guidance) and not isinstance(following, Error):
            tell(f"Warning: {event.next}")
        elif isinstance(event, Data):
            _print_value(event.value, as_json=as_json)
            if event.left_out:
                tell(f"Left out: {event.left_out}")


def _print_value(value: Any, *, as_json: bool) -> None:
    if as_json:
        out_json(value)
    elif isinstance(value, dict) and isinstance(value.get(_TEXT), str):
        out(value[_TEXT])
        for name, more in value.items():
            if name != _TEXT and more not in (None, [], ""):
                tell(f"{name}: {more if isinstance(more, str) else for_people(more)}")
    else:
        out_json_indented(value)


def _refused(found: list[Event]) -> str:
    """What is wrong, and what to do next, in one line."""
    guidance, error = found[-3], found[-2]
    assert isinstance(guidance, Guidance)
    assert isinstance(error, Error)
    message = error.message if error.message.endswith(("?", ".", "!")) else f"{error.message}."
    available = f" Available: {', '.join(guidance.available)}." if guidance.available else ""
    return as_line(f"{message} {guidance.next}{available}")


def _error(found: list[Event], ctx: click.Context) -> click.ClickException:
    text = _refused(found)
    guidance = found[-3]
    if isinstance(guidance, Guidance) and guidance.kind in _BAD_CALL:
        return click.UsageError(text, ctx)
    return click.ClickException(text)


def _described_methods(methods: Mapping[str, Method], hash: str) -> dict[str, Any]:
    return {"schema": hash, "methods": [method.as_dict() for method in methods.values()]}


def _rows(dispatcher: Dispatcher) -> Iterator[str]:
    """The namespaces and their methods, a line each."""
    width = max(map(len, dispatcher.methods), default=0)
    for namespace in dispatcher.namespaces.values():
        yield f"{namespace.name}  {namespace.description}"
        for method in namespace.methods.values():
            yield f"  {method.full_name:<{width}}  {method.title}"


@click.group(
    _NAME,
    cls=Methods,
    invoke_without_command=True,
    subcommand_metavar="NAMESPACE.METHOD [--PARAM VALUE …]",
)
@click.option("--list", "as_list", is_flag=True, help="List the namespaces and their methods.")
@click.option(
    "--schema",
    is_flag=False,
    flag_value="",
    metavar="[NAMESPACE.METHOD]",
    help="Print JSON: the description and the schemas of a method, or of all methods.",
)
@arguments.default_store
@click.pass_context
def call(ctx: click.Context, as_list: bool, schema: str | None) -> None:
    if ctx.invoked_subcommand is not None:
        if as_list or schema is not None:
            raise click.UsageError("give a method, --list or --schema, and only one of them")
        return
    dispatcher = _dispatcher(ctx)
    if as_list:
        for row in _rows(dispatcher):
            out(row)
    elif schema is None:
        raise click.UsageError("name a method; --list lists all")
    elif not schema:
        out_json_indented(_described_methods(dispatcher.methods, dispatcher.schema))
    elif schema in dispatcher.methods:
        out_json_indented(dispatcher.methods[schema].as_dict())
    else:
        raise click.UsageError(_refused(_events(ctx, schema, {}, _ignore)), ctx)
    tell_each("Left out", dispatcher.problems)


call.help = f"{COMMANDS[_NAME][1]}\n\n" + inspect.cleandoc(
    """
    A method belongs to a namespace, such as 'render' to 'tree'. Each parameter of the method is an
    option; 'call NAMESPACE.METHOD --help' describes them. A list is an option that you give more
    than once. An object is given as JSON. A session is given by its id, its name, 'latest' or its
    path.

    If the result has a text, the command prints the text, and all other fields on standard error.
    Any other result is printed as JSON. With --json behind the method, every result is JSON on one
    line. 'call NAMESPACE.METHOD --json -' takes the parameters as a JSON object from standard
    input.

    The methods are those that 'sessiontree mcp' serves to agents. The command is not bound to a
    root: it reads and writes what you may read and write. An answer has a budget of tokens, as for
    an agent; '--budget 0' gives all. The exit code is 2 if there is no such method or a parameter
    does not fit.

    \b
    Example:
      sessiontree call --list
      sessiontree call tree.render --session chat.jsonl
    """
)
