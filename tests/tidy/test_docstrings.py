"""Modules, and what they offer to others, say what they are for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.tidy.source import LIBRARY, SHIPPED_TESTS, name_of, parse, python_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
# Their docstring stands elsewhere: an overload's at the implementation, a setter's at its property, that of a method that
# implements or replaces an inherited one at the contract, and the description of what managed objects offer in its decorator.
_DOCUMENTED_ELSEWHERE = {"overload", "override", "setter", "deleter", "java_alias", "statistic", "operation"}


def _decorators(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    names = set()
    for decorator in node.decorator_list:
        target = decorator.func if isinstance(decorator, ast.Call) else decorator
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names


def undocumented(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of public classes, public functions, and methods that no contract can document."""
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            yield from _undocumented(node, node.name, _contract_methods(tree))


def _contract_methods(tree: ast.Module) -> set[str]:
    """Return the methods that a protocol of this module documents for those that stand beside it."""
    return {
        child.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and "Protocol" in _bases(node)
        for child in node.body
        if isinstance(child, ast.FunctionDef) and ast.get_docstring(child)
    }


def _bases(node: ast.ClassDef) -> set[str]:
    names = set()
    for base in node.bases:
        target = base.value if isinstance(base, ast.Subscript) else base
        names.add(target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", ""))
    return names


def _undocumented(
    node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, name: str, contract: set[str]
) -> Iterator[tuple[int, str]]:
    if node.name.startswith("_") or _decorators(node) & _DOCUMENTED_ELSEWHERE:
        return
    if ast.get_docstring(node) is None:
        yield node.lineno, name
    if isinstance(node, ast.ClassDef) and not _inherits_a_contract(node):
        for child in node.body:
            if isinstance(child, _DEFINITIONS) and (child.name not in contract or "Protocol" in _bases(node)):
                yield from _undocumented(child, f"{name}.{child.name}", contract)


def _inherits_a_contract(node: ast.ClassDef) -> bool:
    """A class with a base of this project may implement what the base documents; `object`-like bases hold nothing."""
    plain = {"ABC", "Protocol", "Generic", "Enum", "IntEnum", "Flag", "object", "NamedTuple"}
    return bool(_bases(node) - plain)


def test_every_module_says_what_it_is_for() -> None:
    # The name of a test file says what it tests, and an example is explained by the page that shows it.
    silent = [name_of(path) for path in python_files(*LIBRARY, "tools") if ast.get_docstring(parse(path)) is None]
    assert not silent, "\n".join(silent)


def test_every_public_definition_says_what_it_does() -> None:
    silent = [
        f"{name_of(path)}:{line}: {name}"
        for path in python_files(*LIBRARY)
        if not name_of(path).startswith(SHIPPED_TESTS)
        for line, name in undocumented(parse(path))
    ]
    assert not silent, "\n".join(silent)


def test_what_is_undocumented_is_found() -> None:
    tree = ast.parse(
        """
def f(): pass
def _f(): pass
class A:
    def m(self): pass
    def _m(self): pass
    @a.setter
    def p(self, value): pass
class B(Contract):
    '''Documented.'''
    def m(self): pass
class C(Protocol):
    '''Documented.'''
    def c(self): '''Documented.'''
    def d(self): pass
class D:
    '''Documented.'''
    def c(self): pass
"""
    )
    assert [name for _, name in undocumented(tree)] == ["f", "A", "A.m", "C.d"]
