"""Mutation operators: small faults that a programmer could make, as replacements of a piece of source text.

Only code inside functions is mutated; annotations, decorators, docstrings and messages of exceptions are left alone.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Mutation:
    """One fault: the text from `start` to `end`, offsets in the source, becomes `text`."""

    line: int
    operator: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """Return the source with the fault."""
        return source[: self.start] + self.text + source[self.end :]


def mutations(source: str) -> list[Mutation]:
    """Return all faults that the operators can put into this module, in order."""
    return sorted(set(_Finder(source).found(ast.parse(source))))


class _Finder:
    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def found(self, tree: ast.Module) -> Iterator[Mutation]:
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for statement in node.body:
                    yield from self._in_statement(statement)

    def _in_statement(self, statement: ast.AST) -> Iterator[Mutation]:
        """Yield the faults of a statement and of all in it, but for functions in it, which are walked by themselves."""
        if isinstance(
            statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Raise)
        ):
            if isinstance(statement, ast.Raise):
                yield self._replaced(statement, "remove raise", "pass")
            return
        yield from self._own(statement)
        for name, value in ast.iter_fields(statement):
            if name == "annotation":
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._in_statement(child)

    def _own(self, node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Expr(value=ast.Call()) | ast.Delete() | ast.AugAssign():
                yield self._replaced(node, "remove statement", "pass")
            case ast.Return(value=value) if value is not None and not _is_none(value):
                yield self._replaced(node, "return None", "return None")
            case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, ast.Constant):
                yield self._replaced(test, "negate condition", f"(not ({ast.unparse(test)}))")
            case ast.Break():
                yield self._replaced(node, "continue for break", "continue")
            case ast.Continue():
                yield self._replaced(node, "break for continue", "break")
            case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
                changed = copy.copy(node)
                changed.ops = [COMPARISONS[type(op)]()]
                yield self._replaced(node, "comparison", f"({ast.unparse(changed)})")
            case ast.BoolOp(op=op):
                swapped = copy.copy(node)
                swapped.op = ast.Or() if isinstance(op, ast.And) else ast.And()
                yield self._replaced(node, "and/or", f"({ast.unparse(swapped)})")
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                yield self._replaced(node, "remove not", f"({ast.unparse(operand)})")
            case ast.BinOp(op=op) if type(op) in ARITHMETIC and not _is_text(node):
                other = copy.copy(node)
                other.op = ARITHMETIC[type(op)]()
                yield self._replaced(node, "arithmetic", f"({ast.unparse(other)})")
            case ast.Constant(value=bool() as value):
                yield self._replaced(node, "constant", repr(not value))
            case ast.Constant(value=int() as value):
                yield self._replaced(node, "constant", repr(value + 1))
            case _:
                return

    def _replaced(self, node: ast.expr | ast.stmt, operator: str, text: str) -> Mutation:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return Mutation(
            line=node.lineno,
            operator=operator,
            start=self._offset(node.lineno, node.col_offset),
            end=self._offset(node.end_lineno, node.end_col_offset),
            text=text,
        )

    def _offset(self, line: int, column_bytes: int) -> int:
        """Return the offset in the text of a place that the tree gives in bytes."""
        start = self._starts[line - 1]
        text = self._source[start : self._starts[line]]
        return start + len(text.encode()[:column_bytes].decode())


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, (ast.JoinedStr, ast.Constant)) and not isinstance(getattr(side, "value", 0), int)
        for side in (node.left, node.right)
    )
