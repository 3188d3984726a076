"""Python expressions as texts, combined with the fewest parentheses."""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import re
from typing import Final

import pyjms
from pyjms.porting.model import LIMITS, Expr, Type

# Names of a Java program in Python: unchanged, unless the name has a meaning there.

PYJMS_NAMES: Final = frozenset(pyjms.__all__)
TYPED_VALUES: Final = frozenset({"Byte", "Char", "Float", "Long", "Short"})
"""The classes of `pyjms.types` for values whose type a program may check."""
MODULES: Final = ("contextlib", "logging", "math", "os", "random", "sys", "threading", "time", "traceback", "uuid")
"""The modules of Python's library that ported code may import."""
_TAKEN: Final = (
    frozenset(name for name in dir(builtins) if not name.startswith("_"))
    | PYJMS_NAMES
    | TYPED_VALUES
    | frozenset(MODULES)
    | {"java", "outer", "self"}
)


def _no_keyword(name: str) -> str:
    name = name.replace("$", "_dollar_")
    return f"{name}_" if keyword.iskeyword(name) else name


def local_name(name: str) -> str:
    """Return a variable's name, changed if it would hide a name that the translation may need."""
    return f"{name}_" if name in _TAKEN or name.startswith("_") else _no_keyword(name)


def attribute_name(name: str) -> str:
    """Return the name of a method, or of a non-private field."""
    return f"{name}_" if name in {"outer", "java_name"} else _no_keyword(name)


def is_taken(name: str) -> bool:
    """Return whether a class of this name would hide a name that the translation may need."""
    return name in _TAKEN


def module_path(package: str) -> tuple[str, ...]:
    """Return the folders of a package."""
    return tuple(_no_keyword(part) for part in package.split(".")) if package else ()


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
    """Return whether an expression may be evaluated at any time and any number of times: it has no calls or
    assignments.
    """
    # Texts are removed first, as they may contain parentheses; an f-string stays, since it may contain calls.
    plain = _HARMLESS.sub("", _TEXTS.sub("", code) if not code.startswith('f"') else code)
    return "(" not in plain and ":=" not in plain


def is_constant(code: str) -> bool:
    """Return whether an expression consists of literals alone."""
    plain = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Expression)
    return all(isinstance(node, plain) for node in ast.walk(ast.parse(code, mode="eval")))


def _shape(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code, mode="eval"))
    except SyntaxError:
        return None


def as_operand(code: str) -> str:
    """Return `code` in a form that a dot, an index or a power may follow."""
    tree = ast.parse(f"({code})", mode="eval").body
    # `1.real` would be read as a decimal point.
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int) and not isinstance(tree.value, bool):
        return f"({code})"
    return code if isinstance(tree, _ATOMS) and _shape(code) else f"({code})"


def as_factor(code: str) -> str:
    """Return `code` in a form that may be an operand."""
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
    # Trees are compared instead of precedences: Python's own parser decides which parentheses are needed.
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
    """Return an integer between `low` and `high`, wrapped to its type if it may not fit."""
    least, most = LIMITS[kind.name]
    if least <= low and high <= most:
        return Expr(code, kind, (low, high))
    # Java's integers wrap around (JLS §15.18.2), Python's grow: only values that may be out of range are wrapped.
    return Expr(f"java.{_CUTS[kind.name]}({code})", kind)


def quoted(text: str) -> str:
    """Return a text as a literal."""
    # A text of JSON is one of Python, too; control and invisible characters are escaped so that they stay visible.
    return json.dumps(text, ensure_ascii=not text.isprintable())


def default_of(kind: Type) -> str:
    """Return the default value of a field or an array element."""
    if not kind.is_primitive:
        return "None"
    return {"boolean": "False", "char": '"\\0"', "float": "0.0", "double": "0.0"}.get(kind.name, "0")
