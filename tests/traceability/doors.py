"""By which door a citing test comes in: a static look at its source.

A test that proves an item uses something public of the product: an imported name, an attribute of an object that a
fixture or a helper gave it, or another process. One that reaches the product by names with a leading underscore alone, or
by replacing them, proves how the product is made, and not what it does; so does one whose assertions all look at such
names. What a test does by its helpers counts as what it does itself; what its fixtures do does not, as every object
comes from somewhere.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRODUCT: Final = frozenset({"pyjms", "pyjms_provider", "pyjms_tck", "pyspark_jms"})
TESTS: Final = "tests"
COMMANDS: Final = frozenset({"subprocess"})
"""What runs another program, such as a command of the product."""

# Fixtures of pytest's own, and of its plugins: what a test does with them does not reach the product.
TOOLS: Final = frozenset(
    {"caplog", "capsys", "capfd", "monkeypatch", "recwarn", "request", "tmp_path", "tmp_path_factory"}
)
_REPLACING: Final = frozenset({"setattr", "delattr", "setitem", "delitem", "object", "dict"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef


def is_private(name: str) -> bool:
    """Whether a name, dotted or not, has a part with a leading underscore; ``__init__`` and the like are public."""
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))


def marks_of(decorators: list[ast.expr]) -> list[str]:
    """Return the ids that ``pytest.mark.realises`` names in these expressions."""
    return [
        str(argument.value)
        for decorator in decorators
        for call in ast.walk(decorator)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "realises"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CitingTest:
    """A test, and the ids that it cites."""

    name: str
    ids: frozenset[str]
    function: Function = field(repr=False)


@dataclass(frozen=True)
class Source:
    """The syntax tree of one module of tests."""

    tree: ast.Module

    @cached_property
    def imports(self) -> dict[str, str]:
        """The dotted origin of each imported name, wherever the import stands."""
        found: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        return found

    @cached_property
    def definitions(self) -> dict[str, ast.AST]:
        """What the module defines: functions, classes, and the expressions of its constants."""
        found: dict[str, ast.AST] = {}
        for node in self.tree.body:
            if isinstance(node, Definition):
                found[node.name] = node
            elif isinstance(node, ast.Assign):
                found |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                found[node.target.id] = node.value
        return found

    def citing_tests(self) -> Iterator[CitingTest]:
        """Yield the module's tests that cite an item: on the function, one of its cases, its class, or the module."""
        marked = self.definitions.get("pytestmark")
        whole = marks_of([marked]) if isinstance(marked, ast.expr) else []
        yield from _citing(self.tree.body, "", whole)


def _citing(body: list[ast.stmt], place: str, inherited: list[str]) -> Iterator[CitingTest]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _citing(node.body, f"{place}{node.name}::", [*inherited, *marks_of(node.decorator_list)])
        elif isinstance(node, Function) and node.name.startswith("test"):
            ids = [*inherited, *marks_of(node.decorator_list)]
            if ids:
                yield CitingTest(name=f"{place}{node.name}", ids=frozenset(ids), function=node)


class Doors:
    """Judges tests. `load` returns the source of a module of tests by its dotted name, None if there is none."""

    def __init__(self, load: Callable[[str], Source | None]) -> None:
        self._load = load
        self._known: dict[int, bool] = {}

    def is_public(self, source: Source, function: Function) -> bool:
        """Whether a test uses something public of the product, by itself or by its helpers, and looks at something public."""
        return self._reaches(source, function) and not _looks_at_privates_only(source, function)

    def _reaches(self, source: Source, node: ast.AST) -> bool:
        key = id(node)
        if key not in self._known:
            self._known[key] = False  # while it is looked at: a helper that calls itself adds nothing
            self._known[key] = _Reading(source, node, self._follow).is_public()
        return self._known[key]

    def _follow(self, source: Source, name: str) -> bool:
        """Whether what a name of a module stands for uses something public."""
        if name in source.definitions:
            return self._reaches(source, source.definitions[name])
        origin = source.imports.get(name, "")
        module, _, what = origin.rpartition(".")
        found = self._load(module) if module.partition(".")[0] == TESTS else None
        return found is not None and self._follow(found, what)


def _looks_at_privates_only(source: Source, function: Function) -> bool:
    """Whether a test asserts something, and each assertion has a private name in it."""
    looks = [node for node in ast.walk(function) if isinstance(node, ast.Assert)]
    raised = any(
        _chain(node.context_expr)[0][-1:] == ["raises"] for node in ast.walk(function) if isinstance(node, ast.withitem)
    )
    return bool(looks) and not raised and all(_has_private(source, look.test) for look in looks)


def _has_private(source: Source, expression: ast.expr) -> bool:
    return any(
        (isinstance(node, ast.Attribute) and is_private(node.attr))
        or (isinstance(node, ast.Name) and is_private(source.imports.get(node.id, "")))
        for node in ast.walk(expression)
    )


class _Reading:
    """Reads one function, class or expression."""

    def __init__(self, source: Source, node: ast.AST, follow: Callable[[Source, str], bool]) -> None:
        self._source = source
        self._node = node
        self._follow = follow
        self._given = _parameters(node)
        self._tainted: set[str] = set()

    def is_public(self) -> bool:
        return any(self._judge(use) for use in self._uses())

    def _uses(self) -> Iterator[ast.expr]:
        """Yield the chains of names, attributes and calls in the code, from the outside inwards; annotations are none."""
        waiting: list[ast.AST] = [self._node]
        while waiting:
            node = waiting.pop(0)
            for value, targets in _bindings(node):
                if self._is_private(value):
                    self._tainted |= targets
                elif _root(value) in self._given - TOOLS:
                    self._given |= targets
            if _replaces(node):
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node
            elif isinstance(node, ast.Name | ast.Attribute):
                yield node
                inner: ast.AST = node
                while isinstance(inner, ast.Attribute):  # arguments within the chain are uses of their own
                    inner = inner.value
                if not isinstance(inner, ast.Name):
                    waiting.insert(0, inner)
                continue
            waiting[:0] = [child for child in _children(node) if not isinstance(child, ast.expr_context)]

    def _judge(self, chain: ast.expr) -> bool:
        parts, root = _chain(chain)
        if any(map(is_private, parts)) or root is None:
            return False
        if root in self._tainted:
            return False
        if root in self._given:
            return root not in TOOLS and not isinstance(chain, ast.Name)
        origin = self._source.imports.get(root, "")
        if origin.partition(".")[0] in {*PRODUCT, *COMMANDS}:
            return not is_private(origin)
        return self._follow(self._source, root)

    def _is_private(self, node: ast.expr) -> bool:
        """Whether a value was had by a private name."""
        parts, root = _chain(node)
        origin = self._source.imports.get(root or "", "")
        return root in self._tainted or any(map(is_private, parts)) or is_private(origin)


def _chain(node: ast.expr) -> tuple[list[str], str | None]:
    """Return the attributes of a chain such as ``a.b().c``, and its first name; None: it begins with something else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Subscript | ast.Await):
            node = node.value
        else:
            return parts, node.id if isinstance(node, ast.Name) else None


def _root(node: ast.expr) -> str | None:
    return _chain(node)[1]


def _parameters(node: ast.AST) -> set[str]:
    """Return the parameters of a function, or of the methods of a class, but for those of a test's cases."""
    functions = node.body if isinstance(node, ast.ClassDef) else [node]
    found: set[str] = set()
    for each in functions:
        if isinstance(each, Function):
            arguments = each.args
            found |= {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return found - _cases(node) - {"self", "cls"}


def _cases(node: ast.AST) -> set[str]:
    """Return the names of the parameters that ``pytest.mark.parametrize`` gives to a test."""
    return {
        name.strip()
        for call in getattr(node, "decorator_list", ())
        if isinstance(call, ast.Call) and call.args and _chain(call.func)[0][-1:] == ["parametrize"]
        for each in ast.walk(call.args[0])
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
        for name in each.value.split(",")
    }


def _replaces(node: ast.AST) -> bool:
    """Whether a call puts something into the product in place of what is there: it uses nothing."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _REPLACING:
        return False
    _, root = _chain(node.func)
    return root is not None and ("patch" in root or root in {"mock", "context"})


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that run: no annotations, and no marks that cite."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns"}:
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST) and not isinstance(each, ast.Import | ast.ImportFrom):
                yield each


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, set[str]]]:
    """Yield the values that a node gives to local names, with those names."""
    match node:
        case ast.Assign(value=value, targets=targets):
            yield value, set().union(*map(_names, targets))
        case ast.AnnAssign(value=ast.expr() as value, target=target) | ast.NamedExpr(value=value, target=target):
            yield value, _names(target)
        case ast.For(iter=value, target=target) | ast.AsyncFor(iter=value, target=target):
            yield value, _names(target)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for each in node.generators:
                yield each.iter, _names(each.target)
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield value, _names(target)


def _names(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
