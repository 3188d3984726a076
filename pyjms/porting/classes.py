"""The classes of a program: what they have, and what is inherited from whom."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import attribute_name
from pyjms.porting.model import Type
from pyjms.porting.syntax import child, children, has_modifier, needed, text_of

# Annotations of Java: which ones a container would act upon.

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


_CLASSES = frozenset(
    {
        "class_declaration",
        "interface_declaration",
        "enum_declaration",
        "record_declaration",
        "annotation_type_declaration",
    }
)


@dataclass(slots=True)
class SourceFile:
    """A file, its package, its imports and its classes."""

    name: str
    root: Node
    package: str
    module: tuple[str, ...]
    single: dict[str, str] = field(default_factory=dict)
    """Simple name → full name, of what is imported by name."""
    on_demand: list[str] = field(default_factory=list)
    """Packages of which all is imported."""
    statics: list[str] = field(default_factory=list)
    classes: list[ClassInfo] = field(default_factory=list)


@dataclass(slots=True)
class FieldInfo:
    """A field of a class."""

    name: str
    python: str
    type_node: Node
    declarator: Node
    dims: int
    is_static: bool
    is_final: bool
    is_private: bool
    owner: ClassInfo
    type: Type | None = None


@dataclass(slots=True)
class MethodInfo:
    """A method of a class, or a constructor, whose name is empty."""

    name: str
    node: Node
    is_static: bool
    owner: ClassInfo
    python: str = ""
    params: list[Type] = field(default_factory=list)
    returns: Type | None = None
    variadic: bool = False
    by_types: bool = False
    """Whether its name in Python has the types of its parameters, as others have as many."""


@dataclass(slots=True)
class ClassInfo:
    """A class of the program."""

    name: str
    node: Node
    file: SourceFile
    outer: ClassInfo | None = None
    is_static: bool = True
    """Whether its objects belong to no object of the class around it."""
    in_method: bool = False
    """Whether it stands in a method: it is found by its name alone."""
    body: Node | None = None
    super_node: Node | None = None
    interface_nodes: list[Node] = field(default_factory=list)
    superclass: Type | None = None
    interfaces: list[Type] = field(default_factory=list)
    fields: dict[str, FieldInfo] = field(default_factory=dict)
    methods: list[MethodInfo] = field(default_factory=list)
    nested: dict[str, ClassInfo] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The name within its file, with those of the classes around it."""
        return f"{self.outer.path}.{self.name}" if self.outer and not self.in_method else self.name

    @property
    def full_name(self) -> str:
        """What a `Type` calls it."""
        if self.in_method:
            return self.name
        path = f"{self.outer.full_name}.{self.name}" if self.outer else self.name
        return path if self.outer else f"{self.file.package}.{path}" if self.file.package else path

    @property
    def java_name(self) -> str:
        """What ``getClass().getName()`` says."""
        package = f"{self.file.package}." if self.file.package else ""
        return package + self.path.replace(".", "$")

    @property
    def kind(self) -> str:
        """class, interface, enum, record."""
        return self.node.type.partition("_")[0]

    def named(self, name: str, count: int | None = None) -> list[MethodInfo]:
        """Return the methods of a name, and of a number of parameters, that the class itself has."""
        return [each for each in self.methods if each.name == name and count in {None, len(each.params)}]


def members(body: Node) -> Iterator[Node]:
    """Yield the members of a class's body, comments among them; those of an enum stand one deeper."""
    for each in body.named_children:
        if each.type == "enum_body_declarations":
            yield from each.named_children
        else:
            yield each


def classes_of(file: SourceFile) -> Iterator[ClassInfo]:
    """Yield the classes that stand at the top of a file, with all that is in them."""
    for node in children(file.root):
        if node.type in _CLASSES:
            yield class_of(node, file, None)


def class_of(node: Node, file: SourceFile, outer: ClassInfo | None, *, in_method: bool = False) -> ClassInfo:
    """Return a class as it is declared; `node` may be an anonymous class, which has a body alone."""
    named = child(node, "name")
    info = ClassInfo(text_of(named) if named else "Anonymous", node, file, outer, in_method=in_method)
    info.body = child(node, "body") or next((each for each in node.children if each.type == "class_body"), None)
    info.is_static = outer is None or in_method or has_modifier(node, "static") or info.kind != "class"
    if outer is not None and outer.kind == "interface":
        info.is_static = True
    superclass = child(node, "superclass")
    info.super_node = children(superclass)[0] if superclass else None
    for each in node.children:
        if each.type in {"super_interfaces", "extends_interfaces"}:
            info.interface_nodes = children(children(each)[0])
    for member in members(info.body) if info.body else ():
        _add_member(info, member)
    _name_members(info)
    return info


def _add_member(info: ClassInfo, node: Node) -> None:
    in_interface = info.kind == "interface"
    if node.type in {"field_declaration", "constant_declaration"}:
        for each in children(node):
            if each.type == "variable_declarator":
                name, dims = text_of(needed(each, "name")), child(each, "dimensions")
                info.fields[name] = FieldInfo(
                    name,
                    attribute_name(name),
                    needed(node, "type"),
                    each,
                    text_of(dims).count("[") if dims else 0,
                    is_static=in_interface or has_modifier(node, "static"),
                    is_final=in_interface or has_modifier(node, "final"),
                    is_private=has_modifier(node, "private"),
                    owner=info,
                )
    elif node.type == "enum_constant":
        name = text_of(needed(node, "name"))
        constant = FieldInfo(
            name, attribute_name(name), node, node, 0, is_static=True, is_final=True, is_private=False, owner=info
        )
        info.fields[name] = constant
    elif node.type == "method_declaration":
        name = text_of(needed(node, "name"))
        static = has_modifier(node, "static")
        info.methods.append(MethodInfo(name, node, static, info, attribute_name(name)))
    elif node.type == "constructor_declaration":
        info.methods.append(MethodInfo("", node, is_static=False, owner=info, python="__init__"))
    elif node.type in _CLASSES:
        info.nested[text_of(needed(node, "name"))] = class_of(node, info.file, info)


def _name_members(info: ClassInfo) -> None:
    """Give fields names that no method has; private ones begin with ``_``."""
    methods = {each.name for each in info.methods}
    accessors = {name[3:4].lower() + name[4:] for name in methods if name[:3] in {"get", "set"}}
    taken = {each.python for each in info.methods} | set(info.nested) | accessors
    for each in info.fields.values():
        if each.is_private and not each.is_static:
            each.python = f"_{each.name}"
        while each.python in taken:
            each.python += "_"
