"""What has a name: variables, fields and elements, to be read and to be assigned."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from pyjms.porting.class_codes import unknown_class_advice
from pyjms.porting.classes import ClassInfo, FieldInfo
from pyjms.porting.codes import as_operand, binary, cut, is_pure
from pyjms.porting.conversions import unboxed
from pyjms.porting.model import LIMITS, Expr, Type, Unportable
from pyjms.porting.ranges import range_of_field
from pyjms.porting.syntax import child, needed, text_of
from pyjms.porting.table import expression, is_expression
from pyjms.porting.types import find_members, type_named
from pyjms.porting.unit import MethodScope, Unit, Variable

_NEVER_NULL: Final = frozenset(
    {"string_literal", "true", "false", "decimal_integer_literal", "object_creation_expression"}
)
_TIMES: Final = {"size": (0, (1 << 31) - 1), "time": (0, 1 << 50), "nanos": (0, 1 << 62)}


@dataclass(slots=True)
class Place:
    """Something that can be assigned."""

    code: str
    type: Type
    variable: Variable | None = None
    field: tuple[str, str] | None = None
    """An object, and the name of its field."""
    element: tuple[str, str] | None = None
    """An array, and an index."""
    limits: tuple[int, int] | None = None
    known: bool = False
    """Whether it is never null."""
    is_nested: bool = False
    """Whether it is an element of an array that is an expression itself, such as an element of another one."""

    def assigned(self, code: str) -> str:
        """Return the line that assigns a value."""
        if self.is_nested and self.element is not None:
            return f"java.stored({self.element[0]}, {self.element[1]}, {code})"
        return f"{self.target()} = {self.stored(code)}"

    def read(self, node: Node | None = None) -> Expr:
        """Return the present value, where assigning it evaluates nothing twice."""
        if self.element and node is not None and not all(_is_simple(each) or is_pure(each) for each in self.element):
            raise Unportable(node, "a compound assignment to an element", "write it as two statements")
        if self.field and node is not None and not _is_simple(self.field[0]):
            raise Unportable(node, "a compound assignment to a field of an expression", "write it as two statements")
        code = f"java.as_byte({self.code})" if self.element and self.type == Type("byte") else self.code
        return Expr(code, self.type, self.limits)

    def target(self) -> str:
        """Return what stands on the left of ``=``."""
        if self.element is None:
            return self.code
        return f"{as_operand(self.element[0])}[{self.element[1]}]"

    def stored(self, code: str) -> str:
        """Return what an array of bytes takes, whose elements have no sign in Python."""
        return f"{binary(code, '&', '0xFF')}" if self.element and self.type == Type("byte") else code

    def store(self, value: Expr, node: Node) -> Expr:
        """Return an assignment as an expression."""
        if self.variable is not None:
            return Expr(f"({self.code} := {value.code})", self.type, value.range, value.known)
        if self.element is not None and self.type != Type("byte"):
            array, index = self.element
            return Expr(f"java.stored({array}, {index}, {value.code})", self.type, value.range, value.known)
        raise Unportable(node, "an assignment within an expression", "make it a statement of its own")

    def step(self, by: int, *, prefix: bool, node: Node) -> Expr:
        """Return ``++place``, or ``place++``, as an expression."""
        if self.type.name not in {"int", "long"} or self.type.dims:
            raise Unportable(node, f"++ of {self.type} within an expression", "make it a statement of its own")
        low, high = self.limits or LIMITS[self.type.name]
        operator, back = ("+", "-") if by > 0 else ("-", "+")
        if self.variable is not None:
            value = cut(binary(self.code, operator, "1"), self.type, low + by, high + by)
            made = f"({self.code} := {value.code})"
        elif self.field is not None:
            made = f'java.step({self.field[0]}, "{self.field[1]}", {by}, {64 if self.type.name == "long" else 32})'
        else:
            raise Unportable(node, "++ of an element within an expression", "make it a statement of its own")
        if prefix:
            least, most = LIMITS[self.type.name]
            return Expr(made, self.type, (low + by, high + by) if least <= low + by and high + by <= most else None)
        return cut(f"{made} {back} 1", self.type, low, high)


def _is_simple(code: str) -> bool:
    return bool(_SIMPLE.fullmatch(code.replace("java.array_index(", "(").replace("len(", "(")))


_SIMPLE: Final = re.compile(r"(?:[\w.\[\], %+*-]|(?<!\w)\(|\))*")


def read_variable(unit: Unit, name: str) -> Variable | None:
    """Return the local variable of a name, and have a function around keep it where it must."""
    scope = unit.scope
    found = scope.find(name) if scope else None
    if found is not None and found.scope is not scope and found.in_loop:
        inner: MethodScope | None = scope
        while inner is not None and inner.above is not found.scope:
            inner = inner.above
        if inner is not None:
            inner.kept[found.python] = found.python
    return found


def alias_of(info: ClassInfo) -> str:
    """Return what the object around is called in a class that stands in a method."""
    depth, current = 0, info
    while current.outer is not None:
        depth += current.in_method
        current = current.outer
    return "outer" if depth == 1 else f"outer_{depth}"


def holder(unit: Unit, has: ClassInfo, node: Node) -> str:
    """Return the code of the object of a class, around or in which the program is."""
    assert unit.scope is not None
    info: ClassInfo | None = unit.scope.info
    code = "self"
    if unit.scope.is_static and not _is_in_object(unit.scope):
        raise Unportable(node, "a member of an object, where there is none")
    while info is not None:
        if info is has:
            return code
        if info.in_method:
            code = alias_of(info)
            unit.aliases.add(code)
        else:
            code = f"{code}.outer"
            unit.needs_outer.add(info.full_name)
        info = info.outer
    raise Unportable(node, f"an object of {has.name}")


def _is_in_object(scope: MethodScope) -> bool:
    return not scope.is_static or (scope.is_lambda and scope.above is not None and _is_in_object(scope.above))


def around(unit: Unit) -> list[ClassInfo]:
    """Return the class that the program is in, and those around it."""
    found: list[ClassInfo] = []
    info = unit.scope.info if unit.scope else unit.class_stack[-1] if unit.class_stack else None
    while info is not None:
        found.append(info)
        info = info.outer
    return found


def _field_place(unit: Unit, field: FieldInfo, object_code: str | None, has: ClassInfo, node: Node) -> Place:
    assert field.type is not None
    limits = range_of_field(field)
    value = child(field.declarator, "value")
    known = field.is_final and value is not None and value.type in _NEVER_NULL
    known |= field.declarator.type == "enum_constant"
    if field.is_static:
        owner = unit.class_code(field.owner.full_name, node)
        return Place(f"{owner}.{field.python}", field.type, field=(owner, field.python), limits=limits, known=known)
    code = object_code if object_code is not None else holder(unit, has, node)
    return Place(
        f"{as_operand(code)}.{field.python}", field.type, field=(code, field.python), limits=limits, known=known
    )


def place_of(unit: Unit, node: Node) -> Place:
    """Return what an assignment assigns to. Raises `Unportable`."""
    if node.type == "identifier":
        name = text_of(node)
        variable = read_variable(unit, name)
        if variable is not None:
            return Place(variable.python, variable.type, variable=variable, limits=variable.range)
        for info in around(unit):
            field = unit.find_field(info, name)
            if field is not None:
                return _field_place(unit, field, None, info, node)
        for owner in unit.static_owners(name):
            imported = unit.class_info(owner)
            field = unit.find_field(imported, name) if imported is not None else None
            if imported is not None and field is not None:
                return _field_place(unit, field, None, imported, node)
        raise Unportable(node, f"the name {name}", "it is declared in no file that was given")
    if node.type == "field_access":
        return _place_of_access(unit, node)
    if node.type == "array_access":
        array, index = expression(unit, needed(node, "array")), unboxed(expression(unit, needed(node, "index")))
        if not array.type.dims or not index.type.is_integral or index.type.name == "char":
            raise Unportable(node, "this element")
        code = index.code if index.within == array.code else f"java.array_index({index.code}, len({array.code}))"
        if code != index.code and not _is_simple(array.code):
            if not is_pure(array.code) or array.type.element == Type("byte"):
                raise Unportable(node, "an element of an array that is an expression", "give the array a name")
            read = f"java.at({array.code}, {index.code})"
            return Place(read, array.type.element, element=(array.code, index.code), is_nested=True)
        return Place(f"{as_operand(array.code)}[{code}]", array.type.element, element=(array.code, code))
    raise Unportable(node, f"an assignment to {text_of(node)}")


def _place_of_access(unit: Unit, node: Node) -> Place:
    name = text_of(needed(node, "field"))
    object_node = needed(node, "object")
    named = class_named(unit, object_node)
    if named is not None:
        info = unit.class_info(named)
        field = unit.find_field(info, name) if info else None
        if info is not None and field is not None and field.is_static:
            return _field_place(unit, field, None, info, node)
        raise Unportable(node, text_of(node))
    value = expression(unit, object_node)
    info = unit.class_info(value.type.name) if not value.type.dims else None
    field = unit.find_field(info, name) if info else None
    if info is None or field is None:
        raise Unportable(node, f"the field {name} of {value.type}")
    return _field_place(unit, field, value.code, info, node)


def class_named(unit: Unit, node: Node) -> str | None:
    """Return the class that an expression names, where it names none that has a value."""
    if node.type == "identifier":
        name = text_of(node)
        if read_variable(unit, name) or any(unit.find_field(info, name) for info in around(unit)):
            return None
    elif node.type == "field_access":
        first = node
        while first.type == "field_access":
            first = needed(first, "object")
        begin = class_named(unit, first) if first.type == "identifier" else None
        if begin is None:
            return None
        if begin.islower() and text_of(needed(node, "field"))[:1].isupper() and not unit.knows(begin):
            return unit.find_class(text_of(node), node)  # with its package
    else:
        return None
    full = unit.find_class(text_of(node), node)
    if unit.knows(full) or node.type == "identifier":
        return full
    return None


@is_expression("identifier")
def _identifier(unit: Unit, node: Node) -> Expr:
    variable = read_variable(unit, text_of(node))
    if variable is not None:
        return Expr(variable.python, variable.type, variable.range, known=variable.known, within=variable.within)
    for owner in unit.static_owners(text_of(node)):
        if unit.class_info(owner) is None and (made := _library_constant(unit, owner, text_of(node), node)) is not None:
            return made
    place = place_of(unit, node)
    return Expr(place.code, place.type, place.limits, known=place.known)


@is_expression("field_access")
def _field_access(unit: Unit, node: Node) -> Expr:
    object_node, name = needed(node, "object"), text_of(needed(node, "field"))
    named = class_named(unit, object_node)
    if needed(node, "field").type == "this" and named is not None:
        info = unit.class_info(named)
        if info is None:
            raise Unportable(node, text_of(node))
        return Expr(holder(unit, info, node), Type(named), known=True)
    if named is not None and unit.class_info(named) is None:
        if (made := _library_constant(unit, named, name, node)) is not None:
            return made
        raise Unportable(node, text_of(node), unknown_class_advice(named))
    if named is None:
        value = expression(unit, object_node)
        if value.type.dims and name == "length":
            return Expr(f"len({value.code})", Type("int"), _TIMES["size"])
        if unit.class_info(value.type.name) is None and value.type.name in _WITH_FIELDS:
            (member,) = (each for each in find_members(value.type.name, name) if each.params is None)
            return Expr(f"{as_operand(value.code)}.{name}", type_named(member.returns, {}))
    place = _place_of_access(unit, node)
    return Expr(place.code, place.type, place.limits, known=place.known)


_WITH_FIELDS: Final = frozenset({"javax.transaction.xa.XAException"})


def _library_constant(unit: Unit, owner: str, name: str, node: Node) -> Expr | None:
    for member in find_members(owner, name):
        if member.params is None:
            kind = type_named(member.returns, {})
            code = member.template or f"{unit.class_code(member.owner.name, node)}.{name}"
            return Expr(code, kind, _constant(member.template, kind), known=code != "None")
    return None


def _constant(template: str | None, kind: Type) -> tuple[int, int] | None:
    if kind.name in {"int", "long", "short", "byte"} and template and template.lstrip("-").isdecimal():
        return int(template), int(template)
    return None


def range_named(flag: str | None) -> tuple[int, int] | None:
    """Return the range that a flag of the tables stands for."""
    return _TIMES.get(flag or "")
