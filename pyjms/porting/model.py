"""What the parts of the translator hand to each other: types, expressions, findings, and what comes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from tree_sitter import Node

Kind: TypeAlias = Literal["syntax", "not ported", "check"]


@dataclass(frozen=True, slots=True)
class Type:
    """A type of Java: a primitive one, or a class by its full name; a class of the program by its path in it."""

    name: str
    args: tuple[Type, ...] = ()
    dims: int = 0

    @property
    def element(self) -> Type:
        """The type of an array's elements."""
        return Type(self.name, self.args, self.dims - 1)

    @property
    def is_number(self) -> bool:
        """Whether it is a primitive type that arithmetic takes, char among them."""
        return not self.dims and self.name in _NUMBERS

    @property
    def is_integral(self) -> bool:
        """Whether it is a primitive type without a fraction, char among them."""
        return not self.dims and self.name in LIMITS

    @property
    def is_primitive(self) -> bool:
        """Whether it is no class."""
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
    """An expression in Python, with what is known of its value."""

    code: str
    type: Type
    range: tuple[int, int] | None = None
    """Least and greatest value of an integer; None: those of its type."""
    known: bool = False
    """Whether it is never null."""
    within: str | None = None
    """The array that has an element of this number, for sure."""

    @property
    def limits(self) -> tuple[int, int]:
        """Least and greatest value of an integer."""
        return self.range or LIMITS[self.type.name]


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """Something that needs a human."""

    line: int
    column: int
    kind: Kind
    what: str
    """What it is."""
    advice: str
    """What to do."""


class Unportable(Exception):
    """A part of the source that is not translated."""

    def __init__(self, node: Node, what: str, advice: str = "port it by hand") -> None:
        super().__init__(what)
        self.node = node
        self.what = what
        self.advice = advice


@dataclass(slots=True)
class PortedFile:
    """A Java file in Python."""

    name: str
    """The file in Java."""
    module: tuple[str, ...]
    """Where the file in Python belongs, below the root of the program: folders, and the name of the module."""
    python: str = ""
    statements: int = 0
    translated: int = 0
    findings: list[Finding] = field(default_factory=list)
