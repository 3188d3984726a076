"""The values that the parts of the translator exchange (types, expressions, findings, files), and Java's syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Final, Literal, TypeAlias

import tree_sitter_java
from tree_sitter import Language, Node, Parser, Tree

Kind: TypeAlias = Literal["syntax", "not ported", "check"]


@dataclass(frozen=True, slots=True)
class Type:
    """A Java type: a primitive one, or a class by its full name; a class of the program by its path in it."""

    name: str
    args: tuple[Type, ...] = ()
    dims: int = 0

    @property
    def element(self) -> Type:
        """The type of an array's elements."""
        return Type(self.name, self.args, self.dims - 1)

    @property
    def is_number(self) -> bool:
        """Whether it is a primitive numeric type, including char."""
        return not self.dims and self.name in _NUMBERS

    @property
    def is_integral(self) -> bool:
        """Whether it is a primitive integral type, including char."""
        return not self.dims and self.name in LIMITS

    @property
    def is_primitive(self) -> bool:
        """Whether it is a primitive type."""
        return self.is_number or (self.name == "boolean" and not self.dims)

    def __str__(self) -> str:
        return self.name + "[]" * self.dims


LIMITS: Final = {
    "byte": (-(1 << 7), (1 << 7) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "char": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "long": (-(1 << 63), (1 << 63) - 1),
}
"""Least and greatest value of each integral type."""
_NUMBERS: Final = (*LIMITS, "float", "double")
VOID: Final = Type("void")
BOOLEAN: Final = Type("boolean")
INT: Final = Type("int")
LONG: Final = Type("long")
STRING: Final = Type("java.lang.String")
OBJECT: Final = Type("java.lang.Object")
NULL: Final = Type("null")


@dataclass(frozen=True, slots=True)
class Expr:
    """A Python expression, with facts about its value."""

    code: str
    type: Type
    range: tuple[int, int] | None = None
    """The range of an integer; None: that of its type."""
    known: bool = False
    """Whether it is never null."""
    within: str | None = None
    """The array in which this index certainly exists."""

    @property
    def limits(self) -> tuple[int, int]:
        """The range of an integer."""
        return self.range or LIMITS[self.type.name]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A remark for a human."""

    line: int
    column: int
    kind: Kind
    what: str
    """The problem."""
    advice: str
    """The advice."""


class Unportable(Exception):
    """A part of the source that is not translated."""

    def __init__(self, node: Node, what: str, advice: str = "port it by hand") -> None:
        super().__init__(what)
        self.node = node
        self.what = what
        self.advice = advice


@dataclass(slots=True)
class PortedFile:
    """The Python translation of a Java file."""

    name: str
    """The Java file."""
    module: tuple[str, ...]
    """The path of the Python file, below the root of the program."""
    python: str = ""
    statements: int = 0
    translated: int = 0
    findings: list[Finding] = field(default_factory=list)


COMMENTS = frozenset({"line_comment", "block_comment"})
STATEMENTS = frozenset(
    {
        "assert_statement",
        "break_statement",
        "continue_statement",
        "do_statement",
        "enhanced_for_statement",
        "explicit_constructor_invocation",
        "expression_statement",
        "field_declaration",
        "for_statement",
        "if_statement",
        "labeled_statement",
        "local_variable_declaration",
        "return_statement",
        "synchronized_statement",
        "throw_statement",
        "try_statement",
        "try_with_resources_statement",
        "while_statement",
        "yield_statement",
    }
)
"""The counted nodes."""


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_java.language()))


def parse(source: str) -> Tree:
    """Return the tree of a source, with its syntax errors."""
    # Columns of the nodes count bytes of UTF-8, as tree-sitter reads bytes.
    return _parser().parse(source.encode())


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all its descendants."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        # A stack and no recursion: generated Java nests deeper than Python's limit. Reversed, so that nodes come in
        # source order.
        waiting.extend(reversed(node.children))


def text_of(node: Node) -> str:
    """Return the source of a node."""
    return (node.text or b"").decode()


def child(node: Node, name: str) -> Node | None:
    """Return the child in the field `name`, or None."""
    return node.child_by_field_name(name)


def needed(node: Node, name: str) -> Node:
    """Return the child in the field `name`, which the grammar demands."""
    found = node.child_by_field_name(name)
    assert found is not None, f"{node.type} has no {name}"
    return found


def children(node: Node) -> list[Node]:
    """Return the named children except comments."""
    return [each for each in node.named_children if each.type not in COMMENTS]


def has_modifier(node: Node, word: str) -> bool:
    """Return whether a declaration has a modifier, such as ``static``."""
    return any(each.type == "modifiers" and any(word == part.type for part in each.children) for each in node.children)


def statements_in(node: Node) -> int:
    """Return the number of statements, including nested ones."""
    return sum(each.type in STATEMENTS or _is_switch(each) for each in walk(node))


def _is_switch(node: Node) -> bool:
    return (
        node.type == "switch_expression" and node.parent is not None and node.parent.type in {"block", "switch_block"}
    )


def syntax_errors(tree: Tree) -> list[Finding]:
    """Return the places of syntax errors."""
    found = []
    if tree.root_node.has_error:
        for node in walk(tree.root_node):
            # tree-sitter recovers from errors: it marks skipped and invented nodes.
            if node.type == "ERROR" or node.is_missing:
                row, column = node.start_point
                what = f"{node.type} is missing" if node.is_missing else f"this is no Java: {text_of(node)[:60]!r}"
                found.append(Finding(row + 1, column + 1, "syntax", what, "see that the source compiles, then port it"))
    return found
