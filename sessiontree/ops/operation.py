"""Operations: what can be asked of sessions, each written once.

An operation is a function of a `Call` and one struct of parameters. It is a method that programs
and models call by its name, and often a command of people. Its docstring describes both: what
follows a form feed is for people only. A field of the struct carries its description, and by
`arg` or `opt` how people give it. Schemas, tools, commands and reference pages derive from these.

Invariants: each method has a description and each of its parameters, too; the same methods always
give the same hash.
"""

from __future__ import annotations

import hashlib
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from sessiontree.ops.field import parameters

if TYPE_CHECKING:
    from sessiontree.ops.params import Call

Effect = Literal["read", "write", "destroy"]
"""What a method does to sessions: it changes none, adds to some, or removes something for good."""

Given = TypeVar("Given", bound=msgspec.Struct)
Result = TypeVar("Result")

_NAME: Final = re.compile("[a-z][a-z0-9_]*")
_FORM: Final = re.compile("[^@:]+::[^@:]+")
_ABOUT: Final = ("description", "examples")
_HASH_LENGTH: Final = 16  # characters


class Method:
    """An operation, as a method of a namespace; see `Namespace.method` for what it is made of."""

    def __init__(
        self,
        namespace: str,
        function: Callable[[Call, Any], Any],
        title: str,
        effect: Effect,
        *,
        idempotent: bool,
        core: bool = False,
        read_alone: bool = False,
        produces: Sequence[str] = (),
        json: str | None = None,
        answer: Callable[[Call, Any, Any], Any] | None = None,
    ) -> None:
        if not {"given", "return"} <= inspect.get_annotations(function).keys():
            raise TypeError(
                f"{namespace}.{function.__name__} is no method: it has to be annotated as "
                "(call: Call, given: a struct) -> its result"
            )
        self.namespace = namespace
        self.name = function.__name__.rstrip("_")
        self.title = title
        self.description, _, self.details = (  # for all, and for those who call it as a command
            text.strip() for text in (inspect.getdoc(function) or "").partition("\f")
        )
        self.produces = [*produces]
        if produces:
            forms = ", ".join(produces)
            self.description += f"\n\nProduces handles: {forms}; handle.schemas describes them."
        self.effect = effect
        self.idempotent = idempotent
        self.core = core
        self.json = json
        self._read_alone = read_alone
        self._answer = answer
        self.function = function

    @cached_property
    def params(self) -> type[msgspec.Struct]:
        """The type of the parameters."""
        return _hint(self.function, "given")  # type: ignore[no-any-return]

    @cached_property
    def result(self) -> Any:
        """The type of the result."""
        return _hint(self._answer or self.function, "return")

    @property
    def item(self) -> Any:
        """The type of the items of a list or an iterator that the function returns.

        None where only type checkers know it.
        """
        try:
            return next(iter(typing.get_args(_hint(self.function, "return"))), None)
        except NameError:
            return None

    def answer(self, call: Call, given: msgspec.Struct) -> Any:
        """Do what the method does; its result, as short as a model needs it."""
        result = self.function(call, given)
        return result if self._answer is None else self._answer(call, given, result)

    @property
    def full_name(self) -> str:
        """The name that a call gives: `tree.render`."""
        return f"{self.namespace}.{self.name}"

    def effect_where(self, write: bool) -> Effect:
        """What it does to sessions where calls may write, or may only read."""
        return "read" if self._read_alone and not write else self.effect

    @cached_property
    def params_schema(self) -> dict[str, Any]:
        """The JSON schema of the parameters, an object; without those that are for people only."""
        schema = _schema(self.params)
        for one in parameters(self.params):
            if one.is_for_people:
                del schema["properties"][one.name]
        return schema

    @cached_property
    def result_schema(self) -> dict[str, Any]:
        """The JSON schema of the result."""
        return _schema(self.result)

    @property
    def content_type(self) -> str:
        """The name of the result: `sessiontree.Drawing`."""
        title = self.result_schema.get("title", "value")
        return f"sessiontree.{title}"

    @property
    def example(self) -> dict[str, Any]:
        """Parameters that fit: an example for each one that has to be given."""
        properties, needed = self.params_schema["properties"], self.params_schema["required"]
        return {name: _example(properties[name]) for name in needed}

    def as_dict(self) -> dict[str, Any]:
        """All that a client is told of the method."""
        return {
            "name": self.full_name,
            "title": self.title,
            "description": self.description,
            "effect": self.effect,
            "idempotent": self.idempotent,
            "core": self.core,
            "produces": self.produces,
            "params": self.params_schema,
            "result": self.result_schema,
        }


class Namespace:
    """Methods about one topic.

    Args:
        name: the word before the dot, of small letters, digits and `_`.
        description: what the methods are about.
    """

    def __init__(self, name: str, description: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name for a namespace; use a-z, 0-9 and _")
        self.name = name
        self.description = description
        self.methods: dict[str, Method] = {}

    def __repr__(self) -> str:
        return f"Namespace({self.name!r})"

    def sort(self, key: Callable[[Method], int]) -> None:
        """Order the methods; those with the same key keep their order."""
        self.methods = {one.name: one for one in sorted(self.methods.values(), key=key)}

    def method(
        self,
        title: str,
        effect: Effect = "read",
        *,
        idempotent: bool | None = None,
        core: bool = False,
        read_alone: bool = False,
        produces: Sequence[str] = (),
        json: str | None = None,
        answer: Callable[[Call, Any, Any], Any] | None = None,
    ) -> Callable[[Callable[[Call, Given], Result]], Callable[[Call, Given], Result]]:
        """Add a function as a method; its name loses a `_` at the end.

        Args:
            title: a few words for people.
            effect: what the method does to sessions.
            idempotent: whether a second call changes nothing more; by default if it only reads.
            core: whether an agent asks it often: a server offers such methods unless it is told
                which to offer.
            read_alone: whether a method that writes is of use also where calls may only read; it
                then refuses itself what it may not write.
            produces: the forms of the handles in the method's results, such as `blob::sha256`.
            json: what the option `--json` of its command prints; None: the entry that was written.
            answer: makes the method's result of what the function returns, if that is too much
                for a model.
        """
        for form in produces:
            if not _FORM.fullmatch(form):
                raise ValueError(f"a form of handles is PLUGIN::METHOD, not {form!r}")

        def add(function: Callable[[Call, Given], Result]) -> Callable[[Call, Given], Result]:
            again = effect == "read" if idempotent is None else idempotent
            made = Method(
                self.name,
                function,
                title,
                effect,
                idempotent=again,
                core=core,
                read_alone=read_alone,
                produces=produces,
                json=json,
                answer=answer,
            )
            if self.methods.setdefault(made.name, made) is not made:
                raise ValueError(f"{self.name} has a method {made.name!r} already")
            return function

        return add


SESSION: Final = Namespace(
    "session", "Sessions of sessiontree and of known agents: found, searched, read, brought in."
)
TREE: Final = Namespace("tree", "A session as a tree of entries: make, read, draw and copy it.")
"""Operations on sessions and trees are in several modules."""


def schema_hash(namespaces: Iterable[Namespace]) -> str:
    """The hash of all methods: the start of the SHA-256 of their descriptions as JSON."""
    every = {
        method.full_name: method.as_dict()
        for namespace in namespaces
        for method in namespace.methods.values()
    }
    text = msgspec.json.encode(every, order="sorted")
    return hashlib.sha256(text).hexdigest()[:_HASH_LENGTH]


def _hint(function: Callable[..., Any], name: str) -> Any:
    """The type of one annotation alone: what the others name may be imported for checkers only."""
    alone = types.SimpleNamespace(__annotations__={name: inspect.get_annotations(function)[name]})
    return typing.get_type_hints(alone, function.__globals__, include_extras=True)[name]


def _schema(kind: Any) -> dict[str, Any]:
    """The JSON schema of a type, with its own definition in place of the reference to it."""
    made = msgspec.json.schema(kind)
    definitions: dict[str, Any] = made.pop("$defs", {})
    reference = made.pop("$ref", None)
    if reference is not None:
        own = reference.rpartition("/")[2]
        made = {**definitions[own], **made}
        if not _refers(definitions, own) and not _refers(made, own):
            del definitions[own]
    short: dict[str, Any] = _in_short({**made, "$defs": definitions} if definitions else made)
    return short


def _in_short(schema: Any) -> Any:
    """A schema whose descriptions are their first paragraphs, each on one line.

    What describes a value that may also be null describes the whole.
    """
    if isinstance(schema, list):
        return [_in_short(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kinds = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(kinds) == 1:
        schema = {**{key: kinds[0][key] for key in _ABOUT if key in kinds[0]}, **schema}
    return {
        key: " ".join(value.split("\n\n")[0].split())
        if key == "description" and isinstance(value, str)
        else _in_short(value)
        for key, value in schema.items()
    }


def _refers(value: Any, name: str) -> bool:
    """Whether a schema refers to a definition."""
    if isinstance(value, Mapping):
        return value.get("$ref") == f"#/$defs/{name}" or any(
            _refers(each, name) for each in value.values()
        )
    return isinstance(value, list) and any(_refers(each, name) for each in value)


def _example(schema: Mapping[str, Any]) -> Any:
    if schema.get("examples"):
        return schema["examples"][0]
    if schema.get("enum"):
        return schema["enum"][0]
    kinds: Mapping[str, Any] = {"string": "…", "integer": 1, "boolean": True, "array": []}
    return kinds.get(schema.get("type", "string"), {})
