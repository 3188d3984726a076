"""Conversions of a value to another type: texts, numbers, boxes, casts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import as_operand, binary, cut, quoted
from pyjms.porting.model import BOOLEAN, LIMITS, OBJECT, STRING, Expr, Type, Unportable
from pyjms.porting.types import is_subclass
from pyjms.porting.unit import Unit

BOXES: Final = {
    "java.lang.Integer": "int",
    "java.lang.Long": "long",
    "java.lang.Short": "short",
    "java.lang.Byte": "byte",
    "java.lang.Character": "char",
    "java.lang.Boolean": "boolean",
    "java.lang.Double": "double",
    "java.lang.Float": "float",
}
_BOXED: Final = {primitive: name for name, primitive in BOXES.items()}
_TYPED: Final = {"long": "Long", "short": "Short", "byte": "Byte", "char": "Char", "float": "Float"}
TAKE_BOXES: Final = frozenset({"java.lang.Number", "java.lang.Comparable", "java.io.Serializable", "java.lang.Object"})
_ORDER: Final = ("byte", "short", "int", "long", "float", "double")
_UNSPECIFIED: Final = tuple(
    f"javax.jms.{name}"
    for name in ("Message", "Destination", "Session", "Connection", "JMSContext", "JMSProducer", "JMSConsumer")
)


def unboxed(expr: Expr) -> Expr:
    """Return a box's primitive value, after a null check; other values unchanged."""
    primitive = BOXES.get(expr.type.name) if not expr.type.dims else None
    if primitive is None:
        return expr
    # Unboxing null is a NullPointerException in Java (JLS §5.1.8); Python would continue with None.
    return Expr(expr.code if expr.known else f"java.known({expr.code})", Type(primitive))


def promoted(left: Type, right: Type) -> Type:
    """Return the type of arithmetic with two numbers."""
    # Binary numeric promotion (JLS §5.6): the widest of the two, and int at least.
    for name in ("double", "float", "long"):
        if name in {left.name, right.name}:
            return Type(name)
    return Type("int")


def as_number(expr: Expr, kind: Type) -> Expr:
    """Return a number as one of a wider type."""
    low_high = expr.range
    code = expr.code
    if expr.type.name == "char" and kind.name != "char":
        # A char is a one-letter text in Python; as a number it is its code.
        code, low_high = f"ord({code})", expr.limits
    if kind.name == "double" and expr.type.is_integral:
        return Expr(_as_double(code), kind)
    if kind.name == "float" and expr.type.is_integral:
        return Expr(f"java.single_of({code})", kind)
    if kind.is_integral and expr.type.is_integral:
        return Expr(code, kind, low_high or expr.limits)
    return Expr(code, kind, known=True)


def _as_double(code: str) -> str:
    # Up to fifteen digits a double holds exactly; longer literals must be rounded as Java rounds them, by `float`.
    return f"{int(code)}.0" if code.lstrip("-").isdecimal() and len(code) < 16 else f"float({code})"


def boxed_type(kind: Type) -> Type:
    """Return the box class of a primitive type; other types unchanged."""
    return Type(_BOXED[kind.name]) if kind.is_primitive else kind


def convert(unit: Unit, expr: Expr, target: Type, node: Node) -> Expr:
    """Return a value converted as an assignment to `target` does."""
    source = expr.type
    if source.name == "java.io.PrintStream" and expr.code in {"sys.stdout", "sys.stderr"}:
        return Expr(f"java.PrintWriter({expr.code})", target, known=True)
    if source == target:
        return expr
    if target.is_primitive:
        expr = unboxed(expr)
        source = expr.type
        if source == target:
            return expr
        if source.is_number and target.is_number:
            return _to_number(expr, target, node)
        raise Unportable(node, f"{source} where {target} is wanted")
    if source.name == "void":
        raise Unportable(node, "a call without a result is used as a value")
    if source.is_primitive:
        return _box(expr, target, node)
    # A box that becomes an Object keeps its type: JMS writes a Long and an Integer as different property types.
    if source.name in BOXES and BOXES[source.name] in _TYPED and not source.dims and target.name not in BOXES:
        return Expr(f"java.boxed({_TYPED[BOXES[source.name]]}, {expr.code})", target, known=expr.known)
    # A subtype with type arguments is more precise about its elements than the target.
    narrowed = source if source.args else target
    return Expr(
        expr.code,
        narrowed
        if (
            source.name not in {"null", "?"}
            and source.dims == target.dims
            and unit.is_subtype(source.name, target.name)
        )
        else target,
        known=expr.known,
    )


def _to_number(expr: Expr, target: Type, node: Node) -> Expr:
    """Widen; or narrow a constant that fits, which Java allows."""
    if expr.type.is_integral and target.is_integral:
        low, high = expr.limits
        least, most = LIMITS[target.name]
        if target.name == "char":
            # Only a constant becomes a char without a cast (JLS §5.2).
            if expr.type.name != "char" and low == high and least <= low <= most:
                return Expr(quoted(chr(low)), target, (low, high))
        elif least <= low and high <= most:
            return as_number(expr, target)
        raise Unportable(node, f"{expr.type} where {target} is wanted")
    if expr.type.is_integral or (expr.type.name, target.name) == ("float", "double"):
        return as_number(expr, target)
    raise Unportable(node, f"{expr.type} where {target} is wanted")


def _box(expr: Expr, target: Type, node: Node) -> Expr:
    if target.name in BOXES and not target.dims:
        inner = Type(BOXES[target.name])
        value = expr if inner == expr.type else _to_number(expr, inner, node)
        typed = _TYPED.get(inner.name)
        return Expr(f"{typed}({value.code})" if typed else value.code, target, known=True)
    if target.dims or (not is_subclass(_BOXED[expr.type.name], target.name) and target.name not in TAKE_BOXES):
        raise Unportable(node, f"{expr.type} where {target} is wanted")
    # Python has one `int`; the classes of `pyjms.types` preserve a value's Java type.
    typed = _TYPED.get(expr.type.name)
    return Expr(f"{typed}({expr.code})" if typed else expr.code, target, known=True)


def text_of_value(unit: Unit, expr: Expr, node: Node) -> str:
    """Return the code of a value's text, as Java converts it beside a ``+``."""
    kind = expr.type
    if kind.dims:
        raise Unportable(node, f"the text of an array, {kind}", "Java writes its address: write what is in it")
    if kind.name in {"int", "long", "short", "byte"}:
        return f"str({expr.code})"
    if kind.name in {"double", "float"}:
        return f"java.text_of_{kind.name}({expr.code})"
    # Already a text; any other reference may be null, which Java writes as "null" (JLS §15.18.1).
    if kind.name == "char" or (kind == STRING and expr.known):
        return expr.code
    if kind.name == "java.lang.Float":
        return f"java.text(java.boxed(Float, {expr.code}))"
    if kind.name == "void":
        raise Unportable(node, "a call without a result is used as a value")
    if kind.name == "java.lang.Class" and not expr.code.startswith('java.Class("'):
        unit.check(
            node,
            "the name of a class",
            "of what JMS makes, each provider has its own classes: see that nothing depends on it",
        )
    _look_at(unit, kind, node)
    return f"java.text({expr.code})"


def _look_at(unit: Unit, kind: Type, node: Node) -> None:
    if any(unit.is_subtype(kind.name, each) for each in _UNSPECIFIED):
        unit.check(
            node,
            f"the text of a {kind.name.rpartition('.')[2]}",
            "each provider has its own, and pyjms another than yours: print its name, or what is in it",
        )
    elif kind.name in {"java.util.HashMap", "java.util.HashSet", "java.util.Map", "java.util.Set"}:
        unit.check(
            node,
            "the text of a collection without an order",
            "in Python it has the order of insertion: see if that does",
        )


def concatenated(unit: Unit, parts: Sequence[tuple[Expr, Node]]) -> Expr:
    """Return the concatenated text of several values."""
    codes = [(expr, text_of_value(unit, expr, node)) for expr, node in parts]
    inner = [code if _is_literal(code) else _within_quotes(code) for _, code in codes]
    if None not in inner:
        pieces = []
        for code in filter(None, inner):
            if _is_literal(code):
                pieces.append(code[1:-1].replace("{", "{{").replace("}", "}}"))
            # The closing parenthesis may belong to another call, as in `str(a) + str(b)`.
            elif code.startswith("str(") and code.endswith(")") and _closes_at_end(code):
                # an f-string calls `str` by itself
                pieces.append("{" + code[4:-1] + "}")
            else:
                pieces.append("{" + code + "}")
        made = "".join(pieces)
        if any(not _is_literal(code) for _, code in codes):
            return Expr(f'f"{made}"', STRING, known=True)
        return Expr(f'"{made}"'.replace("{{", "{").replace("}}", "}"), STRING, known=True)
    joined = codes[0][1]
    for _, code in codes[1:]:
        joined = binary(joined, "+", code)
    return Expr(joined, STRING, known=True)


def _within_quotes(code: str) -> str | None:
    """Return code for use in an f-string, or None if impossible."""
    # Before Python 3.12 (PEP 701) an f-string cannot hold a backslash or its own quotes.
    if {"\\", "{", "}", "\n", "'"} & set(code):
        return None
    return code.replace('"', "'")


def _is_literal(code: str) -> bool:
    return len(code) > 1 and code[0] == code[-1] == '"' and '"' not in code[1:-1].replace('\\"', "")


def _closes_at_end(code: str) -> bool:
    depth = 0
    for place, letter in enumerate(code):
        depth += (letter == "(") - (letter == ")")
        if not depth and letter == ")":
            return place == len(code) - 1
    return False


def cast(unit: Unit, expr: Expr, target: Type, node: Node) -> Expr:
    """Return a value cast to a type."""
    if target.is_number:
        return _cast_number(unboxed(_from_object(expr, target)), target, node)
    if target == BOOLEAN:
        return unboxed(_from_object(expr, target))
    if expr.type.is_primitive:
        return convert(unit, expr, target, node)
    if expr.type.dims == target.dims and unit.is_subtype(expr.type.name, target.name):
        return convert(unit, expr, target, node)
    if target.dims:
        # Byte arrays may be `bytes` from JMS or a `bytearray` of the program; other arrays cannot be distinguished at
        # run time.
        if target == Type("byte", (), 1) and expr.type == OBJECT:
            return Expr(f"java.cast_bytes({expr.code})", target, known=expr.known)
        raise Unportable(node, f"a cast to {target}")
    if target.name in BOXES or target == STRING:
        return Expr(f"java.cast_box({quoted(target.name)}, {expr.code})", target, known=expr.known)
    if target.name in {"java.io.Serializable", "java.lang.Comparable"}:
        return Expr(expr.code, target)
    return Expr(f"java.cast({unit.class_code(target.name, node)}, {expr.code})", target, known=expr.known)


def _from_object(expr: Expr, target: Type) -> Expr:
    if expr.type.is_primitive or expr.type.name in BOXES:
        return expr
    box = _BOXED[target.name]
    return Expr(f"java.cast_box({quoted(box)}, {expr.code})", Type(box))


def _cast_number(expr: Expr, target: Type, node: Node) -> Expr:
    source = expr.type
    if source == target:
        return expr
    if not source.is_number:
        raise Unportable(node, f"a cast from {source} to {target}")
    if target.name == "double":
        return as_number(expr, target)
    if target.name == "float":
        return as_number(expr, target) if source.is_integral else Expr(f"java.as_single({expr.code})", target)
    if not source.is_integral:
        whole = f"java.to_long({expr.code})" if target.name == "long" else f"java.to_int({expr.code})"
        # A floating-point number becomes an int first, even where byte or short is wanted (JLS §5.1.3).
        expr = Expr(whole, Type("long" if target.name == "long" else "int"))
    if target.name == "char":
        return Expr(f"java.as_char({expr.code})", target)
    number = as_number(expr, target) if expr.type.name == "char" else expr
    return cut(number.code, target, *number.limits)


def operand(expr: Expr) -> str:
    """Return the code of a value in a form that a dot may follow."""
    return as_operand(expr.code)
