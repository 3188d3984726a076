"""Annotations of Java: which ones a container would act upon."""

from __future__ import annotations

from typing import Final

from tree_sitter import Node

from pyjms.porting.syntax import child, children, needed, text_of

__all__ = ["HARMLESS", "INJECTING", "annotation_name", "annotations_of", "argument_of"]

HARMLESS: Final = frozenset(
    {
        "Override",
        "SuppressWarnings",
        "Deprecated",
        "FunctionalInterface",
        "SafeVarargs",
        "Serial",
        "Nullable",
        "NonNull",
        "NotNull",
    }
)
"""Annotations that change nothing when a program runs."""
INJECTING: Final = frozenset(
    {
        "Inject",
        "EJB",
        "Autowired",
        "Value",
        "PersistenceContext",
        "PersistenceUnit",
        "Reference",
        "ConfigProperty",
        "Mock",
        "BeanProperty",
    }
)
"""Annotations by which a container fills a field."""


def annotations_of(node: Node) -> list[Node]:
    """Return the annotations of a declaration."""
    return [
        each
        for modifiers in node.children
        if modifiers.type == "modifiers"
        for each in children(modifiers)
        if each.type.endswith("annotation")
    ]


def annotation_name(node: Node) -> str:
    """Return the simple name of an annotation."""
    return text_of(needed(node, "name")).rpartition(".")[2]


def argument_of(node: Node, name: str) -> Node | None:
    """Return the argument of a name that an annotation is given."""
    listed = child(node, "arguments")
    for each in children(listed) if listed else ():
        if each.type == "element_value_pair" and text_of(needed(each, "key")) == name:
            return needed(each, "value")
    return None
