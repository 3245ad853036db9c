"""Small faults that a source text could have: the mutants that `benchmarks.mutants` draws from.

A mutant replaces one run of bytes of a module. The rest of the text stays as it is, so that
its lines keep their numbers up to the place of the fault.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple


class Fault(NamedTuple):
    """What a kind of mutation makes of one node."""

    kind: str
    node: ast.AST
    text: str


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault in one module; `at_import` is one outside of all functions."""

    module: str
    line: int
    at_import: bool
    kind: str
    start: int
    end: int
    was: str
    text: str

    def applied(self, source: bytes) -> bytes:
        """The module with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    @property
    def place(self) -> str:
        return f"{self.module}:{self.line}"

    @property
    def change(self) -> str:
        """The fault in one line: what stood there, and what stands there now."""
        return f"{self.kind}: {_short(self.was)} → {_short(self.text)}"


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 60 else joined[:57] + "…"


COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}

DURABLE: Final = ("sync", "unlink", "remove", "rename", "replace", "rmdir", "truncate", "link")
"""Parts of the names of calls that change what is on disk."""

LOCKING: Final = ("lock", "held", "hold", "alone", "acquire", "release", "exclusive")

UNORDERED: Final = frozenset({"isinstance", "cast", "min", "max"})
"""Functions whose arguments say the same in any order, or fail at once in another."""

KEYED: Final = frozenset({"get", "pop", "setdefault"})
"""Methods whose first argument is a key."""


def mutants(module: str, source: bytes) -> list[Mutant]:
    """All mutants of a module, in the order of its text."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found: dict[tuple[int, int, str], Mutant] = {}
    tree = ast.parse(source)
    called = _lines_in_functions(tree)
    for fault in _faults(tree):
        node = fault.node
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        was = source[start:end].decode()
        number, at_import = node.lineno, node.lineno not in called
        mutant = Mutant(module, number, at_import, fault.kind, start, end, was, fault.text)
        if not _same(was, fault.text):
            found[start, end, fault.text] = mutant
    return [found[key] for key in sorted(found)]


def _lines_in_functions(tree: ast.AST) -> set[int]:
    """The lines that run when a function is called, and not when the module is imported."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }


def _same(was: str, text: str) -> bool:
    return was.split() == text.split()


def _faults(node: ast.AST) -> Iterator[Fault]:
    """The faults of a node and of what is in it, without types and the words of messages."""
    for kind in KINDS:
        yield from kind(node)
    for child in _mutable(node):
        yield from _faults(child)


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node that run: no annotations, no f-strings, no words of errors."""
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Raise() | ast.Import() | ast.ImportFrom():
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.AnnAssign(value=value):
            yield from [value] if value is not None else []
        case (
            ast.FunctionDef(args=arguments, body=body)
            | ast.AsyncFunctionDef(args=arguments, body=body)
        ):
            yield from arguments.defaults
            yield from [default for default in arguments.kw_defaults if default is not None]
            yield from body[:-1] if _returns_nothing(body[-1]) else body
        case ast.Call(func=ast.Name(id="zip"), args=given):
            yield from given  # `strict` checks what the caller made sure of
        case ast.ClassDef(body=body):
            yield from body
        case ast.Expr(value=ast.Constant()) | ast.arguments():
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _returns_nothing(node: ast.AST) -> bool:
    """Whether a statement only returns None, as the end of a function does without it."""
    match node:
        case ast.Return(value=ast.Constant(value=None) | None):
            return True
    return False


def _compare(node: ast.AST) -> Iterator[Fault]:
    """Another comparison; a check for None that is always or never true."""
    if not (isinstance(node, ast.Compare) and len(node.ops) == 1):
        return
    is_none = isinstance(node.comparators[0], ast.Constant) and node.comparators[0].value is None
    if is_none and isinstance(node.ops[0], ast.Is | ast.IsNot):
        for text in ("True", "False"):
            yield Fault("None check", node, text)
        return
    other = COMPARISONS[type(node.ops[0])]()
    changed = ast.Compare(node.left, [other], node.comparators)
    yield Fault("comparison", node, f"({ast.unparse(changed)})")
    boundary = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
    if turned := boundary.get(type(node.ops[0])):
        changed = ast.Compare(node.left, [turned()], node.comparators)
        yield Fault("comparison", node, f"({ast.unparse(changed)})")


def _boolean(node: ast.AST) -> Iterator[Fault]:
    """`and` for `or`, an operand dropped, `not` dropped, a condition that always holds."""
    match node:
        case ast.BoolOp(op=op, values=values):
            other = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield Fault("and/or", node, f"({ast.unparse(ast.BoolOp(other, values))})")
            for at in range(len(values)):
                rest = [*values[:at], *values[at + 1 :]]
                kept = rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
                yield Fault("operand dropped", node, f"({ast.unparse(kept)})")
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield Fault("not dropped", node, f"({ast.unparse(operand)})")
        case ast.If(test=test) | ast.IfExp(test=test):
            for text in ("True", "False"):
                yield Fault("condition", test, text)
        case ast.While(test=test) if not isinstance(test, ast.Constant):
            yield Fault("condition", test, "False")


def _constant(node: ast.AST) -> Iterator[Fault]:
    """A number off by one, the other truth value, plus for minus."""
    match node:
        case ast.Constant(value=bool(value)):
            yield Fault("constant", node, str(not value))
        case ast.Constant(value=int(value)):
            yield Fault("off by one", node, str(value + 1))
            yield Fault("off by one", node, f"({value - 1})")
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            if any(_is_number(side) for side in (left, right)):
                other = ast.Sub() if isinstance(op, ast.Add) else ast.Add()
                yield Fault("off by one", node, f"({ast.unparse(ast.BinOp(left, other, right))})")


def _is_number(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=int()) | ast.Call(func=ast.Name(id="len")):
            return True
    return False


def _key(node: ast.AST) -> Iterator[Fault]:
    """Another string where a key, or what a value is compared with, stands."""
    keys: list[ast.expr | None] = []
    match node:
        case ast.Dict(keys=named):
            keys = named
        case ast.Subscript(slice=key):
            keys = [key]
        case ast.Call(func=ast.Attribute(attr=name), args=[first, *_]) if name in KEYED:
            keys = [first]
        case ast.Compare(left=left, comparators=others):
            keys = [left, *others]
    for word in keys:
        if isinstance(word, ast.Constant) and isinstance(word.value, str) and word.value:
            yield Fault("key", word, repr(word.value + "X"))


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _dropped(node: ast.AST) -> Iterator[Fault]:
    """A statement left out: a call, a raise, an assignment to what outlives the function."""
    match node:
        case ast.Expr(value=ast.Call() as call):
            name = _name(call)
            if any(part in name for part in DURABLE):
                yield Fault("sync or rename dropped", node, "pass")
            elif any(part in name for part in LOCKING):
                yield Fault("lock dropped", node, "pass")
            else:
                yield Fault("call dropped", node, "pass")
        case ast.Raise():
            yield Fault("raise dropped", node, "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.AugAssign():
            yield Fault("statement dropped", node, "pass")
        case ast.Delete() | ast.Continue() | ast.Break():
            yield Fault("statement dropped", node, "pass")
        case ast.With(items=items):
            yield from _unlocked(items)


def _unlocked(items: list[ast.withitem]) -> Iterator[Fault]:
    for item in items:
        held = item.context_expr
        name = _name(held) if isinstance(held, ast.Call) else ast.unparse(held)
        if item.optional_vars is None and any(part in name for part in LOCKING):
            yield Fault("lock dropped", held, '__import__("contextlib").nullcontext()')


def _early(node: ast.AST) -> Iterator[Fault]:
    """A return of nothing in the place of a return of something."""
    match node:
        case ast.Return(value=ast.Constant(value=None) | None):
            yield Fault("return", node, "pass")
        case ast.Return(value=value) if not isinstance(value, ast.Constant):
            yield Fault("return", node, "return None")


def _swapped(node: ast.AST) -> Iterator[Fault]:
    """The first two arguments of a call in the other order."""
    match node:
        case ast.Call(func=called, args=[first, second, *rest], keywords=keywords):
            plain = not isinstance(first, ast.Starred) and not isinstance(second, ast.Starred)
            if plain and not (isinstance(called, ast.Name) and called.id in UNORDERED):
                changed = ast.Call(called, [second, first, *rest], keywords)
                yield Fault("arguments swapped", node, ast.unparse(changed))


KINDS: Final[tuple[Callable[[ast.AST], Iterator[Fault]], ...]] = (
    _compare,
    _boolean,
    _constant,
    _key,
    _dropped,
    _early,
    _swapped,
)
"""What makes faults of a node."""
