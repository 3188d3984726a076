"""The bodies of messages in JMS 2.0: the classes by which a program asks for them, and what it sends as one."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from pyjms.porting.model import Type, Unportable, needed
from pyjms.porting.table import without_parentheses
from pyjms.porting.unit import Unit

_CLASSES: Final = {
    "java.lang.Object": "object",
    "java.io.Serializable": "object",
    "java.lang.String": "str",
    "java.util.Map": "dict",
    "java.lang.Integer": "int",
    "java.lang.Double": "float",
    "java.lang.Boolean": "bool",
    "java.lang.Long": "Long",
    "java.lang.Short": "Short",
    "java.lang.Byte": "Byte",
    "java.lang.Float": "Float",
}
_PLAIN: Final = re.compile(r"[\w.]+")


def body_class(unit: Unit, node: Node, kind: Type) -> str:
    """Return the class of Python for a class of a body, an argument of ``getBody`` and the like. Raises `Unportable`."""
    # `java.Class` has only a name, from which no class of Python can be found.
    if node.type != "class_literal":
        raise Unportable(
            node,
            "the class of a body that is known when the program runs",
            "write the class itself: getBody(String.class)",
        )
    (wanted,) = kind.args
    if wanted.dims:
        return "bytes" if wanted == Type("byte", (), 1) else "list"
    code = _CLASSES.get(wanted.name) or unit.class_code(wanted.name, node)
    if not _PLAIN.fullmatch(code):
        raise Unportable(node, f"the class {wanted.name} of a body", "ask for Object.class, and look at what comes")
    return code


_TRUSTED: Final = (
    "it is pickled: keep its class in a module that sender and receiver import, and name that in the factory's option trusted: "
    "docs/how-to/porting.md, Objects from elsewhere"
)


def tell_trusted(unit: Unit, node: Node) -> None:
    """Report that an object of the program is sent, whose class the receiver must trust."""
    unit.check(node, "an object of the program in an ObjectMessage", _TRUSTED)


def tell_body(unit: Unit, node: Node, body: Node, kind: Type) -> None:
    """Report a body of ``JMSProducer.send`` for which Java chooses the message by the declared type, and Python by the object."""
    if unit.class_info(kind.name) is not None and not kind.dims:
        tell_trusted(unit, node)
    elif _is_null(body):
        unit.check(
            node,
            "null as a body",
            "it is sent as a Message without a body, in Java as one of the declared type: see if receivers ask for that",
        )
    elif kind.name in _MAY_BE_TEXTS and not kind.dims:
        unit.check(
            node,
            f"a body declared as {kind.name.rpartition('.')[2]}",
            "Java sends an ObjectMessage; here a text, a map and bytes get the messages of these: see if receivers ask for that",
        )


_MAY_BE_TEXTS: Final = frozenset(
    {"java.io.Serializable", "java.lang.Character", "char", "java.util.UUID", "java.lang.Comparable"}
)


def _is_null(node: Node) -> bool:
    """Whether an expression is null, perhaps with a cast, which chooses the overload."""
    node = without_parentheses(node)
    return node.type == "null_literal" or (node.type == "cast_expression" and _is_null(needed(node, "value")))
