"""A mutant: a right provider with one rule of it changed, while the suite runs in the same process.

The commonest change is to a few words of one function: its code is compiled again and put in the place of the old one,
so that every name under which it is known has the fault. A change that no longer fits the source is an error, not a
mutant that survives.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import inspect
import re
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeAlias

from pyjms.spi.selector.selector import _cached

__all__ = ["Mutant", "MutationError", "body", "edit", "entry", "mutant", "value"]

_MISSING = object()
_Undo: TypeAlias = Callable[[], None]
_edited: dict[FunctionType, str] = {}
"""The present source of functions that are edited, for further edits of the same function."""
Change: TypeAlias = Callable[[], _Undo]
"""Makes a change, and returns what takes it back."""


class MutationError(ValueError):
    """A change does not fit the source any more: the mutant must be written anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A faulty provider."""

    name: str
    about: str
    """What is wrong with it, in one line."""
    breaks: tuple[str, ...]
    """The requirements whose tests must notice."""
    changes: tuple[Change, ...]
    durable: bool = False
    """Whether the broker keeps its messages in SQLite."""

    @contextmanager
    def broken(self) -> Iterator[None]:
        """Break the rule while the block runs. Raises `MutationError`."""
        with ExitStack() as undoing:
            for change in self.changes:
                try:
                    undoing.callback(change())
                except (AttributeError, KeyError, OSError, SyntaxError, TypeError, ValueError) as error:
                    raise MutationError(f"cannot be made: {type(error).__name__}: {error}") from error
            _cached.cache_clear()  # of compiled selectors
            undoing.callback(_cached.cache_clear)
            yield


def mutant(breaks: str, about: str, *changes: Change, durable: bool = False) -> Mutant:
    """Return a mutant named after `about`; `breaks` are ids with blanks between them."""
    name = re.sub(r"[^a-z0-9]+", "-", about.lower()).strip("-")
    return Mutant(name=name, about=about, breaks=tuple(breaks.split()), changes=changes, durable=durable)


# ------------------------------------------------------------------------------------------------------ the changes


def edit(where: str, old: str, new: str) -> Change:
    """Replace the words `old` in the source of a function: ``module:Class.method``, ``module:Class.property.fset``."""

    def change() -> _Undo:
        function = _function(where)
        source = _edited.get(function) or dedent(inspect.getsource(function))
        if old not in source:
            raise MutationError(f"{where} has no {old!r}: change the mutant as the source was changed")
        changed = source.replace(old, new)
        undo = _recode(function, ast.parse(changed), where)
        _edited[function] = changed

        def restore() -> None:
            undo()
            _edited.pop(function, None)

        return restore

    return change


def body(where: str, statements: str) -> Change:
    """Replace all that a function does."""

    def change() -> _Undo:
        function = _function(where)
        tree = ast.parse(dedent(inspect.getsource(function)))
        _definition(tree).body = ast.parse(dedent(statements)).body
        return _recode(function, tree, where)

    return change


def value(where: str, new: object) -> Change:
    """Replace an attribute of a module or a class."""

    def change() -> _Undo:
        owner, name = _owner(where)
        is_shared = isinstance(owner, (type, ModuleType))  # may have it of a base, or have no dictionary
        old = vars(owner).get(name, _MISSING) if is_shared else getattr(owner, name)
        setattr(owner, name, new)
        return lambda: delattr(owner, name) if old is _MISSING else setattr(owner, name, old)

    return change


def entry(where: str, key: Any, new: Any = _MISSING) -> Change:
    """Replace an entry of a dictionary, or remove it."""

    def change() -> _Undo:
        owner, name = _owner(where)
        table: MutableMapping[Any, Any] = getattr(owner, name)
        old = table.get(key, _MISSING)
        _put(table, key, new)
        return lambda: _put(table, key, old)

    return change


def _put(table: MutableMapping[Any, Any], key: Any, new: Any) -> None:
    if new is _MISSING:
        table.pop(key, None)
    else:
        table[key] = new


def _owner(where: str) -> tuple[Any, str]:
    module, _, path = where.partition(":")
    owner: Any = import_module(module)
    *parts, name = path.split(".")
    for part in parts:
        owner = inspect.getattr_static(owner, part)
    return owner, name


def _function(where: str) -> FunctionType:
    owner, name = _owner(where)
    try:
        found = getattr(owner, name) if isinstance(owner, property) else inspect.getattr_static(owner, name)
    except AttributeError:
        raise MutationError(f"there is no {where}") from None
    found = found.fget if isinstance(found, property) else found
    found = getattr(found, "base_func", found)  # a method of a transformer of lark
    if callable(found):
        found = inspect.unwrap(found)  # what stands behind a decorator
    if not isinstance(found, FunctionType):
        raise MutationError(f"{where} is no function")
    return found


def _definition(tree: ast.Module) -> ast.FunctionDef:
    definition = tree.body[0]
    assert isinstance(definition, ast.FunctionDef)
    return definition


def _recode(function: FunctionType, tree: ast.Module, where: str) -> _Undo:
    """Give `function` the code of the definition in `tree`, with the free variables that it had."""
    definition = _definition(tree)
    free = function.__code__.co_freevars
    definition.decorator_list = []
    definition.body += ast.parse("if 0: (" + " ".join(f"{name}," for name in free) + ")").body if free else []
    outer = ast.parse(
        f"def outer():\n {''.join(f'{name} = ' for name in free if name != '__class__')}0\n class Inner: 0"
    )
    inner = outer.body[0].body[-1]  # type: ignore[attr-defined]
    inner.body = [definition]
    code = compile(
        ast.fix_missing_locations(outer), f"<mutant of {where}>", "exec", __future__.annotations.compiler_flag
    )
    new = _find(code, function.__code__.co_name)
    if new is None:
        raise MutationError(f"{where} is not where it was: its file has changed since it was imported")
    if unknown := sorted(
        name for name in _globals(new) if name not in function.__globals__ and not hasattr(builtins, name)
    ):
        raise MutationError(f"{where} knows no {', '.join(unknown)}: a mutant is wrong, not merely broken")
    old = function.__code__
    function.__code__ = new
    return lambda: setattr(function, "__code__", old)


def _globals(code: CodeType) -> set[str]:
    """Return the global names that a function reads."""
    found = {str(step.argval) for step in dis.get_instructions(code) if step.opname == "LOAD_GLOBAL"}
    return found.union(*(_globals(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


def _find(code: CodeType, name: str) -> CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_name == name:
                return constant
            if (found := _find(constant, name)) is not None:
                return found
    return None
