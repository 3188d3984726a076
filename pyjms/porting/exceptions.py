"""Which of Python's exceptions a `catch` of Java stands for."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.model import Type
from pyjms.porting.unit import Unit

__all__ = ["caught_code"]

_CAUGHT: Final = {
    "java.lang.Throwable": "(Exception, java.Error)",
    "java.lang.Exception": "Exception",
    "java.lang.RuntimeException": "java.RUNTIME_EXCEPTIONS",
    "java.lang.NullPointerException": "(TypeError, AttributeError)",
    "java.lang.IllegalArgumentException": "ValueError",
    "java.lang.IndexOutOfBoundsException": "IndexError",
    "java.lang.ArrayIndexOutOfBoundsException": "IndexError",
    "java.lang.StringIndexOutOfBoundsException": "IndexError",
    "java.lang.ArithmeticException": "ArithmeticError",
    "java.io.IOException": "OSError",
}
"""Where Python raises exceptions of its own, or where `except` has another word."""


def caught_code(unit: Unit, kind: Type, node: Node) -> str:
    """Return what stands after ``except``."""
    return _CAUGHT.get(kind.name) or unit.class_code(kind.name, node)
