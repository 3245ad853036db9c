"""The namespace `schema`: which methods there are, and what they take and give."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from sessiontree.ops.budget import Budgeted, Page, Paged, page_of
from sessiontree.ops.guidance import Refusal, nearest
from sessiontree.ops.operation import Effect, Method, Namespace
from sessiontree.ops.params import Call

SCHEMA: Final = Namespace("schema", "The methods that can be called: names, parameters, results.")


class SchemaList(Paged):
    namespace: Annotated[
        str | None, Meta(description="Only the methods of this namespace; by default of all.")
    ] = None


class MethodLine(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A method on a line."""

    name: Annotated[str, Meta(description="The name by which it is called.")]
    title: Annotated[str, Meta(description="What it does, in a few words.")]
    params: Annotated[str, Meta(description="Its parameters; those with a ? can be left out.")]
    effect: Annotated[Effect, Meta(description="'read', 'write' or 'destroy'.")] = "read"
    needs: Annotated[
        str | None,
        Meta(description="It is not offered here: the options to start the server with for it."),
    ] = None


@SCHEMA.method("List methods", core=True)
def list_(call: Call, given: SchemaList) -> Page[MethodLine]:
    """List the methods that can be called, a line each; `schema.get` describes one whole.

    Refuses a namespace that there is not.
    """
    methods = call.catalog.methods
    names = list(dict.fromkeys(method.namespace for method in methods.values()))
    if given.namespace not in (None, *names):
        near = nearest(given.namespace or "", names)
        raise Refusal(
            f"there is no namespace {given.namespace!r:.100}{near}",
            "unknown_namespace",
            "Give one of the available namespaces.",
            names,
        )
    found = [one for one in methods.values() if given.namespace in (None, one.namespace)]
    return page_of(found, given, lambda method: method.full_name, lambda one: _line(call, one))


def _line(call: Call, method: Method) -> MethodLine:
    needed = method.params_schema.get("required", ())
    others = (name for name in method.params_schema["properties"] if name not in needed)
    params = [*needed, *(f"{name}?" for name in others)]
    return MethodLine(
        name=method.full_name,
        title=method.title,
        params=", ".join(params),
        effect=method.effect,
        needs=call.catalog.needs(method),
    )


class SchemaGet(Budgeted):
    method: Annotated[str, Meta(description="The name of the method.", examples=["tree.render"])]


class Described(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A method whole."""

    name: Annotated[str, Meta(description="The name by which it is called.")]
    title: Annotated[str, Meta(description="What it does, in a few words.")]
    description: Annotated[str, Meta(description="What it does, gives and refuses.")]
    effect: Annotated[Effect, Meta(description="'read', 'write' or 'destroy'.")]
    idempotent: Annotated[bool, Meta(description="Whether a second call changes nothing more.")]
    example: Annotated[dict[str, Any], Meta(description="Parameters that fit.")]
    params: Annotated[dict[str, Any], Meta(description="The JSON schema of the parameters.")]
    result: Annotated[dict[str, Any], Meta(description="The JSON schema of the result.")]
    needs: Annotated[
        str | None,
        Meta(description="It is not offered here: the options to start the server with for it."),
    ] = None


@SCHEMA.method("Describe a method", core=True)
def get(call: Call, given: SchemaGet) -> Described:
    """Describe a method: what it does, and the JSON schemas of its parameters and its result.

    The name of a tool, such as session_search, stands for its method. Refuses a name that there
    is not, and tells the nearest.
    """
    methods = call.catalog.methods
    method = methods.get(given.method) or methods.get(given.method.replace("_", ".", 1))
    if method is None:
        raise Refusal(
            f"there is no method {given.method!r:.100}{nearest(given.method, methods)}",
            "unknown_method",
            "Give one of the names that schema.list lists.",
            methods,
        )
    return Described(
        name=method.full_name,
        title=method.title,
        description=method.description,
        effect=method.effect,
        idempotent=method.idempotent,
        example=method.example,
        params=method.params_schema,
        result=method.result_schema,
        needs=call.catalog.needs(method),
    )


class Hash(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Parameters of `schema.hash`."""


class HashOfMethods(msgspec.Struct, kw_only=True):
    """The hash of all methods."""

    hash: Annotated[str, Meta(description="It changes when a method changes.")]
    methods: Annotated[int, Meta(description="The number of methods.")]


@SCHEMA.method("Hash the methods")
def hash_(call: Call, given: Hash) -> HashOfMethods:
    """Give the hash of all methods, which each event has. When it changes, ask for them anew."""
    return HashOfMethods(hash=call.catalog.schema, methods=len(call.catalog.methods))
