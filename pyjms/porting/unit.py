"""The state of a translation: the classes of the program, and the names, the method and the findings of one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tree_sitter import Node

from pyjms.porting.codes import attribute_name, local_name
from pyjms.porting.model import OBJECT, Finding, Type, Unportable, child, children, has_modifier, needed, text_of, walk
from pyjms.porting.types import LIBRARY_TYPES, PROVIDERS, is_subclass, unknown_class_advice

# Java annotations, and which of them a container acts upon.

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
"""Annotations without effect at run time."""
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
"""Annotations that make a container fill a field."""


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
    """Return the argument of an annotation with a name."""
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
    """Simple name → full name, of single-type imports."""
    on_demand: list[str] = field(default_factory=list)
    """Packages imported on demand."""
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
    """Whether its Python name contains its parameter types, as overloads have the same number."""


@dataclass(slots=True)
class ClassInfo:
    """A class of the program."""

    name: str
    node: Node
    file: SourceFile
    outer: ClassInfo | None = None
    is_static: bool = True
    """Whether its objects have no enclosing object."""
    in_method: bool = False
    """Whether it is a local class: it is found by its name alone."""
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
        """The name within its file, with those of the enclosing classes."""
        return f"{self.outer.path}.{self.name}" if self.outer and not self.in_method else self.name

    @property
    def full_name(self) -> str:
        """Its name in a `Type`."""
        if self.in_method:
            return self.name
        path = f"{self.outer.full_name}.{self.name}" if self.outer else self.name
        return path if self.outer else f"{self.file.package}.{path}" if self.file.package else path

    @property
    def java_name(self) -> str:
        """The result of ``getClass().getName()``."""
        package = f"{self.file.package}." if self.file.package else ""
        return package + self.path.replace(".", "$")

    @property
    def kind(self) -> str:
        """One of class, interface, enum, record."""
        return self.node.type.partition("_")[0]

    def named(self, name: str, count: int | None = None) -> list[MethodInfo]:
        """Return the class's own methods of a name, with a number of parameters."""
        return [each for each in self.methods if each.name == name and count in {None, len(each.params)}]


def members(body: Node) -> Iterator[Node]:
    """Yield the members of a class's body, including comments; those of an enum are one level deeper."""
    for each in body.named_children:
        if each.type == "enum_body_declarations":
            yield from each.named_children
        else:
            yield each


def classes_of(file: SourceFile) -> Iterator[ClassInfo]:
    """Yield the top-level classes of a file, with their members."""
    for node in children(file.root):
        if node.type in _CLASSES:
            yield class_of(node, file, None)


def class_of(node: Node, file: SourceFile, outer: ClassInfo | None, *, in_method: bool = False) -> ClassInfo:
    """Return a class from its declaration; `node` may be an anonymous class, which has only a body."""
    named = child(node, "name")
    info = ClassInfo(text_of(named) if named else "Anonymous", node, file, outer, in_method=in_method)
    info.body = child(node, "body") or next((each for each in node.children if each.type == "class_body"), None)
    # Nested interfaces, enums and records are static without the word (JLS §8.5.1, §8.9, §8.10).
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
    """Rename fields that have a method's name; private ones begin with ``_``."""
    methods = {each.name for each in info.methods}
    accessors = {name[3:4].lower() + name[4:] for name in methods if name[:3] in {"get", "set"}}
    taken = {each.python for each in info.methods} | set(info.nested) | accessors
    for each in info.fields.values():
        if each.is_private and not each.is_static:
            each.python = f"_{each.name}"
        while each.python in taken:
            each.python += "_"


_PRIMITIVES = frozenset({"integral_type", "floating_point_type", "boolean_type", "void_type"})


@dataclass(slots=True)
class Program:
    """All files of a translation."""

    files: list[SourceFile] = field(default_factory=list)
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    """By full name."""

    def add(self, info: ClassInfo) -> None:
        """Add a class, and its nested classes."""
        # The first one stays: `_tell_of_program` reports a second class of that name.
        self.classes.setdefault(info.full_name, info)
        for each in info.nested.values():
            self.add(each)


@dataclass(slots=True)
class Variable:
    """A local variable, or a parameter."""

    python: str
    type: Type
    scope: MethodScope
    range: tuple[int, int] | None = None
    known: bool = False
    within: str | None = None
    """The array whose elements it indexes."""
    in_loop: bool = False
    """Whether several variables have that name one after the other: a function that uses it later must capture its own."""


@dataclass(slots=True)
class MethodScope:
    """A method, a constructor, an initializer or a lambda in translation."""

    node: Node
    info: ClassInfo
    is_static: bool
    returns: Type | None = None
    above: MethodScope | None = None
    is_lambda: bool = False
    blocks: list[dict[str, Variable]] = field(default_factory=lambda: [{}])
    loops: int = 0
    declared: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    """The variables that a function captures, with their values when it is made."""
    uses_outer: bool = False
    inferred: Type | None = None
    """The result type of a function without a declared one."""
    casts_known: list[tuple[str, str]] = field(default_factory=list)
    """Variables whose class an enclosing ``if`` has tested, with that class."""

    def find(self, name: str) -> Variable | None:
        """Return the variable of a name, also from enclosing methods."""
        # The innermost block first; enclosing methods last, as a lambda may use their variables.
        for block in reversed(self.blocks):
            if name in block:
                return block[name]
        return self.above.find(name) if self.above else None


@dataclass(slots=True)
class Unit:
    """The translation of one file."""

    program: Program
    file: SourceFile
    findings: list[Finding] = field(default_factory=list)
    untranslated: list[Node] = field(default_factory=list)
    scope: MethodScope | None = None
    statement_call: int | None = None
    """The call whose result is not used, by the id of its node."""
    before: list[str] = field(default_factory=list)
    """Lines that must precede the statement: functions and classes that it uses."""
    levels: int = 0
    """The depth of nested statements."""
    classes_used: dict[str, ClassInfo] = field(default_factory=dict)
    """Classes of other files."""
    numbers: dict[str, int] = field(default_factory=dict)
    class_stack: list[ClassInfo] = field(default_factory=list)
    local_classes: dict[str, ClassInfo] = field(default_factory=dict)
    concurrent: bool = False
    """Whether several threads may print."""
    interrupts: bool = False
    """Whether the program interrupts sleeping threads."""
    updates: list[Sequence[str]] = field(default_factory=list)
    """The update part of each enclosing loop."""
    static_lines: list[str] = field(default_factory=list)
    """Code that runs after all classes of the file."""
    main_classes: list[ClassInfo] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)
    """Names of enclosing objects for local classes."""
    needs_outer: set[str] = field(default_factory=set)
    """Nested classes whose objects have an enclosing object."""
    told: set[tuple[int, str]] = field(default_factory=set)
    wanted: dict[int, Type] = field(default_factory=dict)
    """The result type of a call, by the id of its node, if it determines the types of its arguments."""
    enum_lines: list[str] = field(default_factory=list)
    """The constants of enums, which precede all other static code."""

    def find_type(self, node: Node) -> Type:
        """Return the type that a node names."""
        if node.type in _PRIMITIVES:
            return Type(text_of(node))
        if node.type == "array_type":
            element, dims = self.find_type(needed(node, "element")), text_of(needed(node, "dimensions")).count("[")
            return Type(element.name, element.args, element.dims + dims)
        if node.type == "generic_type":
            parts = children(node)
            args = tuple(self.find_type(each) for each in children(parts[-1]))
            return Type(self.find_class(text_of(parts[0]), parts[0]), args)
        if node.type == "wildcard":
            bound = [each for each in children(node) if each.type != "super"]
            return self.find_type(bound[-1]) if bound and "extends" in text_of(node) else OBJECT
        if node.type in {"annotated_type", "catch_type"}:
            return self.find_type(children(node)[-1])
        if node.type in {"type_identifier", "scoped_type_identifier", "identifier", "scoped_identifier"}:
            return Type(self.find_class(text_of(node), node))
        raise Unportable(node, f"the type {text_of(node)}")

    def find_class(self, name: str, node: Node | None = None) -> str:
        """Return the full name of a class; `name` may be simple, or qualified by enclosing classes or packages."""
        first, _, rest = name.partition(".")
        found = self._simple_class(first, node)
        if found and rest:
            return self._known(f"{found}.{rest}")
        return found or self._known(name)

    def knows(self, name: str) -> bool:
        """Return whether a full name belongs to a class of the program, of JMS or of the library."""
        return name in self.program.classes or name in LIBRARY_TYPES or name in self.local_classes

    def _known(self, name: str) -> str:
        name = name.replace("org.apache.activemq.command.ActiveMQDestination", "javax.jms.Destination")
        simple = name.rpartition(".")[2]
        # By the simple name, as each version of a provider has its factories in another package.
        if simple in PROVIDERS and name not in self.program.classes and name not in self.local_classes:
            return "pyjms.AnyXAConnectionFactory" if "XA" in simple else "pyjms.AnyConnectionFactory"
        return name.replace("jakarta.jms.", "javax.jms.")

    def _simple_class(self, name: str, node: Node | None) -> str | None:
        if name in self.local_classes:
            return name
        # Type parameters are erased in Java as well (JLS §4.6), and stand for Object here.
        if node is not None and _is_type_parameter(name, node):
            return "java.lang.Object"
        for info in reversed(self.class_stack):
            current: ClassInfo | None = info
            while current is not None:
                if current.name == name:
                    return current.full_name
                if (inner := self.nested_class(current, name)) is not None:
                    return inner.full_name
                current = current.outer
        # The order of JLS §6.4.1: an enclosing class, a single-type import, the own package, imports on demand.
        if name in self.file.single:
            return self._known(self.file.single[name])
        own = f"{self.file.package}.{name}" if self.file.package else name
        if own in self.program.classes:
            return own
        for package in (*self.file.on_demand, "java.lang"):
            full = self._known(f"{package}.{name}")
            if self.knows(full):
                return full
        return None

    def nested_class(self, info: ClassInfo, name: str) -> ClassInfo | None:
        """Return the class with a simple name within another, or within its superclasses."""
        for each in self.lineage(info):
            if name in each.nested:
                return each.nested[name]
        return None

    def lineage(self, info: ClassInfo) -> Iterator[ClassInfo]:
        """Yield a class of the program, and its supertypes."""
        yield info
        for above in (info.superclass, *info.interfaces):
            if above is not None and above.name in self.program.classes:
                yield from self.lineage(self.program.classes[above.name])

    def class_info(self, name: str) -> ClassInfo | None:
        """Return a class of the program."""
        found = self.local_classes.get(name) or self.program.classes.get(name)
        # Two files may have a class of the same name: each refers to its own.
        if found is not None and found.file is not self.file and found.outer is None:
            return next((each for each in self.file.classes if each.full_name == name), found)
        return found

    def library_supers(self, info: ClassInfo) -> Iterator[Type]:
        """Yield the supertypes of a class that are not part of the program."""
        for each in self.lineage(info):
            for above in (each.superclass, *each.interfaces):
                if above is not None and self.class_info(above.name) is None:
                    yield above

    def is_subtype(self, one: str, other: str) -> bool:
        """Return whether a class is another one, or a subtype."""
        if other in {one, "java.lang.Object"}:
            return True
        info = self.class_info(one)
        if info is None:
            return is_subclass(one, other)
        return any(each.full_name == other for each in self.lineage(info)) or any(
            is_subclass(each.name, other) for each in self.library_supers(info)
        )

    def find_field(self, info: ClassInfo, name: str) -> FieldInfo | None:
        """Return a field of a class, inherited ones included."""
        for each in self.lineage(info):
            if name in each.fields:
                found = each.fields[name]
                # A constant of an enum has no type node; its type is the enum itself.
                if found.declarator.type == "enum_constant":
                    found.type = Type(each.full_name)
                if found.type is None:
                    found.type = self._type_of_field(each, found)
                return found
        return None

    def _type_of_field(self, owner: ClassInfo, field: FieldInfo) -> Type:
        """Return the type of a field: if it is never assigned again, that of its initial value, which is more precise."""
        declared = self._type_within(owner, field.type_node, field.dims)
        value = child(field.declarator, "value")
        if field.is_final and value is not None and value.type == "object_creation_expression":
            made = self._type_within(owner, needed(value, "type"), 0)
            # A final field of type Map that is a LinkedHashMap is ordered, and no finding about order is needed.
            if made.name.startswith("java.util.") and self.is_subtype(made.name, declared.name):
                return Type(made.name, declared.args)
        return declared

    def find_methods(self, info: ClassInfo, name: str, count: int) -> list[MethodInfo]:
        """Return the methods of a name with that number of arguments; of overriding ones, the most derived."""
        for each in self.lineage(info):
            found = [m for m in each.methods if m.name == name and self.takes(m, count)]
            # Constructors are the class's own; methods are also inherited.
            if found or not name:
                return found
        return []

    def takes(self, method: MethodInfo, count: int) -> bool:
        """Return whether a method accepts that number of arguments."""
        self.fill_signature(method)
        return len(method.params) == count or (method.variadic and count >= len(method.params) - 1)

    def fill_signature(self, method: MethodInfo) -> None:
        """Resolve the types of a method's parameters and of its result."""
        # Once: types are resolved in the file of the method, which takes a search through imports.
        if method.returns is not None:
            return
        result = child(method.node, "type")
        method.returns = self._type_within(method.owner, result, 0) if result else Type("void")
        for each in children(needed(method.node, "parameters")):
            if each.type == "formal_parameter":
                dims = child(each, "dimensions")
                depth = text_of(dims).count("[") if dims else 0
                method.params.append(self._type_within(method.owner, needed(each, "type"), depth))
            elif each.type == "spread_parameter":
                method.variadic = True
                kind = next(part for part in children(each) if part.type != "modifiers")
                method.params.append(self._type_within(method.owner, kind, 1))

    def _type_within(self, owner: ClassInfo, node: Node, dims: int) -> Type:
        unit = self
        if owner.file is not self.file:
            # A name is resolved by the imports of its own file; findings of this throw-away unit are dropped.
            unit = Unit(self.program, owner.file)
        unit.class_stack.append(owner)
        try:
            found = unit.find_type(node)
        finally:
            unit.class_stack.pop()
        return Type(found.name, found.args, found.dims + dims)

    def static_owners(self, name: str) -> list[str]:
        """Return the classes from which a member of that name is imported by ``import static``."""
        found = []
        for full in self.file.statics:
            owner, _, member = full.rpartition(".")
            if member in {name, "*"}:
                found.append(self.find_class(owner))
        return found

    def class_code(self, name: str, node: Node) -> str:
        """Return the Python code for a class of the program, or of JMS."""
        info = self.class_info(name)
        if info is not None:
            if info.in_method:
                return info.path
            # Only the outermost class is imported: the others are its attributes.
            if info.file is not self.file:
                top = info
                while top.outer is not None:
                    top = top.outer
                self.classes_used[top.full_name] = top
            return info.path
        known = LIBRARY_TYPES.get(name)
        if known is not None and name.startswith("javax.jms."):
            return name.removeprefix("javax.jms.")
        if known is not None and known.code is not None:
            return known.code
        raise Unportable(node, f"the class {name}", unknown_class_advice(name))

    def declare(self, name: str, kind: Type, *, range: tuple[int, int] | None = None, known: bool = False) -> Variable:
        """Declare a local variable, and return it."""
        assert self.scope is not None
        scope = self.scope
        python = local_name(name)
        # Java ends a variable with its block, Python with its function: a second one of that name shares it.
        again = python in scope.declared
        scope.declared.add(python)
        made = Variable(
            python, kind, scope, range, known, in_loop=again or scope.loops > 0 or _declared_often(scope, name)
        )
        scope.blocks[-1][name] = made
        return made

    def number(self, name: str) -> str:
        """Return a new name: with a number, from the second on."""
        count = self.numbers[name] = self.numbers.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    @contextmanager
    def block(self) -> Iterator[None]:
        """Open a scope that ends its variables."""
        assert self.scope is not None
        self.scope.blocks.append({})
        try:
            yield
        finally:  # a statement that is not translated ends its block, too
            self.scope.blocks.pop()

    @contextmanager
    def within(self, scope: MethodScope) -> Iterator[MethodScope]:
        """Translate in the scope of a method."""
        above, self.scope = self.scope, scope
        before, self.before = self.before, []
        try:
            yield scope
        finally:
            self.scope, self.before = above, before

    def check(self, node: Node, what: str, advice: str) -> None:
        """Report a translated part that a human has to check."""
        self._tell(node, "check", what, advice)

    def fail(self, error: Unportable, whole: Node) -> None:
        """Report a part that was not translated, because of which `whole` is left out."""
        self._tell(error.node, "not ported", error.what, error.advice)
        self.untranslated.append(whole)

    def _tell(self, node: Node, kind: str, what: str, advice: str) -> None:
        row, column = node.start_point
        # A part may be translated twice, as when overloads are tried one after the other.
        if (row, what) not in self.told:
            self.told.add((row, what))
            self.findings.append(Finding(row + 1, column + 1, kind, what, advice))  # type: ignore[arg-type]


def _declared_often(scope: MethodScope, name: str) -> bool:
    """Return whether a method declares several variables of a name, one after the other."""
    found = 0
    for node in walk(scope.node):
        if node.type in {"variable_declarator", "enhanced_for_statement", "catch_formal_parameter", "formal_parameter"}:
            named = child(node, "name")
            found += named is not None and text_of(named) == name
    return found > 1


def _is_type_parameter(name: str, node: Node) -> bool:
    current: Node | None = node
    while current is not None:
        declared = child(current, "type_parameters")
        for each in children(declared) if declared else ():
            if text_of(children(each)[0]) == name:
                return True
        current = current.parent
    return False
