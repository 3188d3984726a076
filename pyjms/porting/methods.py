"""Methods of classes in Python."""

from __future__ import annotations

from tree_sitter import Node

from pyjms.porting.annotations import HARMLESS, annotation_name, annotations_of
from pyjms.porting.classes import ClassInfo, MethodInfo
from pyjms.porting.model import Unportable
from pyjms.porting.syntax import child, children, has_modifier, needed, text_of
from pyjms.porting.texts import body_of, indented, left_out
from pyjms.porting.unit import MethodScope, Unit

__all__ = ["dispatch", "method_lines", "parameters"]


def parameters(unit: Unit, method: MethodInfo) -> list[str]:
    """Return the names of the parameters, which are known from then on."""
    unit.fill_signature(method)
    names = []
    for each, kind in zip(children(needed(method.node, "parameters")), method.params, strict=False):
        declarator = next((part for part in children(each) if part.type == "variable_declarator"), each)
        names.append(unit.declare(text_of(needed(declarator, "name")), kind).python)
    return names


def method_lines(unit: Unit, info: ClassInfo, node: Node, written: set[str]) -> list[str]:
    """Return a method, with all of its name where there are several."""
    method = next(each for each in info.methods if each.node == node)
    if method.by_types:
        return _one_method(unit, info, method, method.python)
    if method.name in written:
        return []
    own = [each for each in info.named(method.name) if not each.by_types]
    everywhere = [each for above in unit.lineage(info) for each in above.named(method.name) if not each.by_types]
    for each in everywhere:
        unit.fill_signature(each)
    if any(_is_other_overload(each, mine) for mine in own for each in everywhere):
        error = Unportable(
            node, f"overloads of {method.name} that the number of arguments does not tell apart", "rename them"
        )
        lines = left_out(unit, node, error)
        return [f"def {method.python}(self, *args):", *indented(lines), ""]
    if len({len(each.params) for each in everywhere}) == 1 and len(own) == 1:
        return _one_method(unit, info, method, method.python)
    written.add(method.name)
    return _overloads(unit, info, method.name, own)


def _overloads(unit: Unit, info: ClassInfo, name: str, own: list[MethodInfo]) -> list[str]:
    """Return methods of one name, told apart by the number of arguments."""
    lines, table = list[str](), list[tuple[int, str]]()
    counts = [len(each.params) for each in own]
    static = own[0].is_static
    for each in own:
        count = len(each.params)
        if counts.count(count) > 1 or each.variadic or each.is_static != static or info.in_method:
            error = Unportable(
                each.node, f"overloads of {name} that the number of arguments does not tell apart", "rename them"
            )
            if count not in {known for known, _ in table}:
                lines_left = left_out(unit, each.node, error)
                table.append((count, lines_left[-1]))
            else:
                unit.fail(error, each.node)
            continue
        lines.extend(_one_method(unit, info, each, f"_{name}_{count}"))
        table.append((count, f"return {info.path}._{name}_{count}({'' if static else 'self, '}*args)"))
    otherwise = f"return super().{own[0].python}(*args)" if info.superclass and not static else "raise TypeError(args)"
    head = ["@staticmethod", f"def {own[0].python}(*args):"] if static else [f"def {own[0].python}(self, *args):"]
    return [*lines, *head, *indented(dispatch(table, otherwise)), ""]


def _one_method(unit: Unit, info: ClassInfo, method: MethodInfo, name: str) -> list[str]:
    node = method.node
    _check_annotations(unit, node)
    unit.fill_signature(method)
    above = unit.scope if info.in_method else None
    scope = MethodScope(node, info, method.is_static, method.returns, above)
    with unit.within(scope):
        params = parameters(unit, method)
        body_node = child(node, "body")
        body = ["raise NotImplementedError"] if body_node is None else body_of(unit, body_node)
        if has_modifier(node, "synchronized"):
            held = unit.class_code(info.full_name, node) if method.is_static else "self"
            body = [f"with java.synchronized({held}):", *indented(body)]
        kept = [f"{each}={each}" for each in scope.kept]
    if method.name == "main" and method.is_static and len(params) == 1 and info.outer is None:
        unit.main_classes.append(info)
    listed = ", ".join([*([] if method.is_static else ["self"]), *params, *(["*", *kept] if kept else [])])
    lines = ["@staticmethod"] if method.is_static else []
    lines += [f"def {name}({listed}):", *indented(body), ""]
    return [*lines, *_for_python(method)]


def _is_other_overload(above: MethodInfo, own: MethodInfo) -> bool:
    """Whether a method above has as many parameters of other types: Java has both, and Python would have the lower one."""
    if above.owner is own.owner or len(above.params) != len(own.params) or above.is_static or own.is_static:
        return False
    pairs = zip(above.params, own.params, strict=True)
    return any(
        (one.name, one.dims) != (other.name, other.dims) and not _is_parameter(above, place)
        for place, (one, other) in enumerate(pairs)
    )


def _is_parameter(method: MethodInfo, place: int) -> bool:
    """Whether a parameter has a type that is a parameter itself, as of a generic interface."""
    node = children(needed(method.node, "parameters"))[place]
    kind = child(node, "type")
    declared = child(method.owner.node, "type_parameters")
    names = {text_of(children(each)[0]) for each in children(declared)} if declared else set()
    return kind is not None and text_of(kind) in names


def dispatch(table: list[tuple[int, str]], otherwise: str) -> list[str]:
    """Return what tells overloads apart by the number of their arguments."""
    lines = []
    for count, line in table:
        lines += [
            f"if len(args) == {count}:",
            f"    {line}" if line.startswith(("return", "raise")) else f"    return {line}",
        ]
    return [*lines, otherwise]


def _for_python(method: MethodInfo) -> list[str]:
    """Return what has Python call a method that Java knows by its name."""
    count = len(method.params)
    if (method.name, count) == ("equals", 1):
        return ["def __eq__(self, other):", "    return self.equals(other)", ""]
    if (method.name, count) == ("hashCode", 0):
        return ["def __hash__(self):", "    return self.hashCode()", ""]
    if (method.name, count) == ("toString", 0):
        return ["def __str__(self):", "    return self.toString()", ""]
    return []


def _check_annotations(unit: Unit, node: Node) -> None:
    for each in annotations_of(node):
        if annotation_name(each) not in HARMLESS:
            unit.check(each, f"the annotation {text_of(each)[:60]}", "nothing reads it in Python: do what it asks for")
