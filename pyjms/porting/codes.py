"""Python expressions as texts, put together with the fewest parentheses."""

from __future__ import annotations

import ast
import json
import re

from pyjms.porting.model import LIMITS, Expr, Type

__all__ = ["as_factor", "as_operand", "binary", "conditional", "cut", "default_of", "is_pure", "quoted", "unary"]

_CUTS = {"int": "as_int", "long": "as_long", "short": "as_short", "byte": "as_byte"}
_ATOMS = (
    ast.Name,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.Constant,
    ast.List,
    ast.Dict,
    ast.JoinedStr,
    ast.Set,
    ast.ListComp,
)


_TEXTS = re.compile(r'"(?:[^"\\]|\\.)*"')
_HARMLESS = re.compile(
    r"java\.(?:check_index|array_index|as_\w+|at|element)\(|\b(?:len|str|float|ord|range)\(|(?<![\w)\]])\("
)


def is_pure(code: str) -> bool:
    """Return whether it makes no difference when, and how often, an expression is evaluated: it calls and assigns nothing."""
    plain = _HARMLESS.sub("", _TEXTS.sub("", code) if not code.startswith('f"') else code)
    return "(" not in plain and ":=" not in plain


def is_constant(code: str) -> bool:
    """Return whether an expression is made of literals alone."""
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Expression)
    return all(isinstance(node, plain) for node in ast.walk(ast.parse(code, mode="eval")))


def _shape(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code, mode="eval"))
    except SyntaxError:
        return None


def as_operand(code: str) -> str:
    """Return `code` so that a dot, an index or a power may follow."""
    tree = ast.parse(f"({code})", mode="eval").body
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int) and not isinstance(tree.value, bool):
        return f"({code})"
    return code if isinstance(tree, _ATOMS) and _shape(code) else f"({code})"


def as_factor(code: str) -> str:
    """Return `code` so that an operator may stand beside it."""
    return code if code.isdecimal() else as_operand(code)


def conditional(one: str, asked: str, other: str) -> str:
    """Return ``one if asked else other``."""
    first, second = (
        f"({each})" if isinstance(ast.parse(f"({each})", mode="eval").body, ast.IfExp | ast.Lambda) else each
        for each in (one, asked)
    )
    return f"{first} if {second} else {other}"


def binary(left: str, operator: str, right: str) -> str:
    """Return ``left operator right``, in parentheses where they are needed."""
    wanted = _shape(f"({left}) {operator} ({right})")
    for one, other in ((left, right), (f"({left})", right), (left, f"({right})")):
        if _shape(f"{one} {operator} {other}") == wanted:
            return f"{one} {operator} {other}"
    return f"({left}) {operator} ({right})"


def unary(operator: str, operand: str) -> str:
    """Return ``operator operand``, in parentheses where they are needed."""
    bare = f"{operator}{operand}"
    return bare if _shape(bare) == _shape(f"{operator}({operand})") else f"{operator}({operand})"


def cut(code: str, kind: Type, low: int, high: int) -> Expr:
    """Return an integer whose value lies between `low` and `high`, cut to its type where it may not fit."""
    least, most = LIMITS[kind.name]
    if least <= low and high <= most:
        return Expr(code, kind, (low, high))
    return Expr(f"java.{_CUTS[kind.name]}({code})", kind)


def quoted(text: str) -> str:
    """Return a text as a literal."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def default_of(kind: Type) -> str:
    """Return the value that a field or an element of an array has at first."""
    if not kind.is_primitive:
        return "None"
    return {"boolean": "False", "char": '"\\0"', "float": "0.0", "double": "0.0"}.get(kind.name, "0")
