"""Classes and their members in Python."""

from __future__ import annotations

import re
from typing import Final

from tree_sitter import Node

from pyjms.porting.calls import given, meant, own_arguments
from pyjms.porting.codes import default_of, is_constant, quoted
from pyjms.porting.constants import constant_text
from pyjms.porting.model import COMMENTS, OBJECT, Type, Unportable, child, children, has_modifier, needed, text_of
from pyjms.porting.table import block_lines, body_of, comment_lines, indented, left_out, value_for
from pyjms.porting.types import LIBRARY_TYPES, unknown_class_advice
from pyjms.porting.unit import (
    HARMLESS,
    INJECTING,
    ClassInfo,
    FieldInfo,
    MethodInfo,
    MethodScope,
    Unit,
    annotation_name,
    annotations_of,
    argument_of,
    class_of,
    members,
)

# Methods of classes in Python.


def parameters(unit: Unit, method: MethodInfo) -> list[str]:
    """Return the names of the parameters, and declare them."""
    unit.fill_signature(method)
    names = []
    for each, kind in zip(children(needed(method.node, "parameters")), method.params, strict=False):
        declarator = next((part for part in children(each) if part.type == "variable_declarator"), each)
        names.append(unit.declare(text_of(needed(declarator, "name")), kind).python)
    return names


def method_lines(unit: Unit, info: ClassInfo, node: Node, written: set[str]) -> list[str]:
    """Return a method, together with all overloads."""
    method = next(each for each in info.methods if each.node == node)
    if method.by_types:
        return _one_method(unit, info, method, method.python)
    # Overloads are written where the first of them is declared.
    if method.name in written:
        return []
    own = [each for each in info.named(method.name) if not each.by_types]
    everywhere = [each for above in unit.lineage(info) for each in above.named(method.name) if not each.by_types]
    for each in everywhere:
        unit.fill_signature(each)
    # Python has one method per name: an inherited overload of other types would be hidden, and called wrongly.
    if any(_is_other_overload(each, mine) for mine in own for each in everywhere):
        error = Unportable(
            node, f"overloads of {method.name} that the number of arguments does not tell apart", "rename them"
        )
        lines = left_out(unit, node, error)
        return [f"def {method.python}(self, *args):", *indented(lines), ""]
    # The usual case: one method of that name in the class and its superclasses needs no dispatch.
    if len({len(each.params) for each in everywhere}) == 1 and len(own) == 1:
        return _one_method(unit, info, method, method.python)
    written.add(method.name)
    return _overloads(unit, info, method.name, own)


def _overloads(unit: Unit, info: ClassInfo, name: str, own: list[MethodInfo]) -> list[str]:
    """Return the methods of one name, dispatched by the number of arguments."""
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
    # A number of arguments that this class does not have belongs to a superclass.
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
        # A default value captures a variable's present value: Java captures values, Python looks them up when the
        # function runs.
        kept = [f"{each}={each}" for each in scope.kept]
    # Java starts the first class with a `main`; nested ones are started by name only.
    if method.name == "main" and method.is_static and len(params) == 1 and info.outer is None:
        unit.main_classes.append(info)
    listed = ", ".join([*([] if method.is_static else ["self"]), *params, *(["*", *kept] if kept else [])])
    lines = ["@staticmethod"] if method.is_static else []
    lines += [f"def {name}({listed}):", *indented(body), ""]
    return [*lines, *_for_python(method)]


def _is_other_overload(above: MethodInfo, own: MethodInfo) -> bool:
    """Whether an inherited method has the same number of parameters with other types: Java has both, while Python's
    subclass method would hide it.
    """
    if above.owner is own.owner or len(above.params) != len(own.params) or above.is_static or own.is_static:
        return False
    pairs = zip(above.params, own.params, strict=True)
    return any(
        (one.name, one.dims) != (other.name, other.dims) and not _is_parameter(above, place)
        for place, (one, other) in enumerate(pairs)
    )


def _is_parameter(method: MethodInfo, place: int) -> bool:
    """Whether a parameter's type is a type parameter, as in a generic interface."""
    node = children(needed(method.node, "parameters"))[place]
    kind = child(node, "type")
    declared = child(method.owner.node, "type_parameters")
    names = {text_of(children(each)[0]) for each in children(declared)} if declared else set()
    return kind is not None and text_of(kind) in names


def dispatch(table: list[tuple[int, str]], otherwise: str) -> list[str]:
    """Return the code that dispatches overloads by the number of arguments."""
    lines = []
    for count, line in table:
        lines += [
            f"if len(args) == {count}:",
            f"    {line}" if line.startswith(("return", "raise")) else f"    return {line}",
        ]
    return [*lines, otherwise]


def _for_python(method: MethodInfo) -> list[str]:
    """Return aliases under which Python itself calls a Java method."""
    count = len(method.params)
    if (method.name, count) == ("equals", 1):
        # Collections of Python compare by `__eq__`, Java's by `equals`.
        return ["def __eq__(self, other):", "    return self.equals(other)", ""]
    if (method.name, count) == ("hashCode", 0):
        return ["def __hash__(self):", "    return self.hashCode()", ""]
    if (method.name, count) == ("toString", 0):
        return ["def __str__(self):", "    return self.toString()", ""]
    return []


def _check_annotations(unit: Unit, node: Node) -> None:
    for each in annotations_of(node):
        if annotation_name(each) not in HARMLESS:
            _tell_annotation(unit, each)
    for parameter in children(needed(node, "parameters")):
        for each in annotations_of(parameter):
            if annotation_name(each) in _ADVICE:
                _tell_annotation(unit, each)


def _tell_annotation(unit: Unit, annotation: Node) -> None:
    """Report an annotation that a container would act upon."""
    advice = _ADVICE.get(annotation_name(annotation), "nothing reads it in Python: do what it asks for")
    unit.check(annotation, f"the annotation {' '.join(text_of(annotation).split())[:60]}", advice)


_DESTINATIONS: Final = (
    "no container makes the destination: define it in jndi.properties, by queue.NAME = DESTINATION or topic.NAME = DESTINATION "
    "(docs/reference/jndi.md)"
)
_FACTORIES: Final = (
    "no container makes the factory: define it in jndi.properties, by connectionfactory.NAME = URL, with user, password and client "
    "identifier as its options (docs/reference/jndi.md)"
)
_CONTEXTS: Final = "no container makes the context: make it by createContext of the factory, with this user, password and mode, and close it"
_ADVICE: Final = {
    "JMSDestinationDefinition": _DESTINATIONS,
    "JMSDestinationDefinitions": _DESTINATIONS,
    "JMSConnectionFactoryDefinition": _FACTORIES,
    "JMSConnectionFactoryDefinitions": _FACTORIES,
    "JMSConnectionFactory": _CONTEXTS,
    "JMSPasswordCredential": _CONTEXTS,
    "JMSSessionMode": _CONTEXTS,
}
"""The advice on the annotations of JMS 2.0."""


# Fields of classes in Python.

_NO_STATICS: Final = frozenset(
    {"decimal_integer_literal", "string_literal", "true", "false", "null_literal", "character_literal"}
) | {
    "decimal_floating_point_literal",
    "hex_integer_literal",
}
_EARLY: Final = (
    "it runs when the module is imported, in Java when the class is first used: see that this makes no difference"
)


def injected_fields(unit: Unit, info: ClassInfo, node: Node) -> list[str]:
    """Return the fields of a declaration that a container would fill: a look-up for `@Resource`; others raise when they
    are read.
    """
    lines: list[str] = []
    for field in _declared(info, node):
        found = _filler(node)
        if found is None:
            continue
        kind = unit.find_field(info, field.name)
        assert kind is not None
        assert kind.type is not None
        name = _resource_name(unit, info, found, field)
        if name is not None and kind.type.name in _LOOKED_UP:
            unit.check(
                found, "names of JNDI", "keep jndi.properties, with another URL in it: docs/how-to/porting.md, JNDI"
            )
            # Looked up at the first use: the broker need not be running when the module is imported.
            lines.append(f"{field.python} = java.looked_up(lambda: InitialContext().lookup({quoted(name)}))")
            continue
        what = f"the annotation {text_of(found)[:60]}"
        advice = "no container fills it in Python: make the object, and set the field"
        if unit.is_subtype(kind.type.name, "javax.jms.JMSContext"):
            advice = (
                "no container makes the context in Python: set the field to createContext() of a factory, with the user, the password and "
                "the mode that other annotations of the field give, and close it; a container would also commit its transactions"
            )
        unit.fail(Unportable(found, what, advice), node)
        line = found.start_point.row + 1
        lines.append(f"{field.python} = java.not_ported_field({quoted(f'{unit.file.name}:{line}: {what}')})")
    return lines


_LOOKED_UP: Final = frozenset(
    f"javax.jms.{name}"
    for name in (
        "ConnectionFactory",
        "QueueConnectionFactory",
        "TopicConnectionFactory",
        "XAConnectionFactory",
        "XAQueueConnectionFactory",
        "XATopicConnectionFactory",
        "Destination",
        "Queue",
        "Topic",
    )
)


def _declared(info: ClassInfo, node: Node) -> list[FieldInfo]:
    return [field for field in info.fields.values() if field.declarator.parent == node]


def _filler(node: Node) -> Node | None:
    names = {annotation_name(each): each for each in annotations_of(node)}
    return next((each for name, each in names.items() if name == "Resource" or name in INJECTING), None)


def _resource_name(unit: Unit, info: ClassInfo, annotation: Node, field: FieldInfo) -> str | None:
    """Return the look-up name of a resource: the annotation's, or the field's."""
    if annotation_name(annotation) != "Resource":
        return None
    with unit.within(MethodScope(annotation, info, is_static=True)):
        # `lookup` names the resource itself, `mappedName` does so for one product, and `name` is the reference's.
        for key in ("lookup", "mappedName", "name"):
            given = argument_of(annotation, key)
            if given is not None:
                return constant_text(unit, given)
    # Without a name the container uses the field's.
    return field.name


def enum_constant(unit: Unit, info: ClassInfo, node: Node) -> None:
    """Add a constant of an enum to the code that runs after all classes."""
    name = text_of(needed(node, "name"))
    field = info.fields[name]
    with unit.within(MethodScope(node, info, is_static=True)):
        try:
            made = _constant_made(unit, info, node, name)
        except Unportable as error:
            unit.fail(error, node)
            made = (
                f"java.not_ported_field({quoted(f'{unit.file.name}:{error.node.start_point.row + 1}: {error.what}')})"
            )
        # After the class statement, as a constant is an object of its class.
        unit.enum_lines.extend([*unit.before, f"{info.path}.{field.python} = {made}"])


def _constant_made(unit: Unit, info: ClassInfo, node: Node, name: str) -> str:
    """Return the code that makes a constant of an enum. Raises `Unportable`."""
    if info.in_method:
        raise Unportable(node, "an enum in a method")
    listed = child(node, "arguments")
    arguments = given(unit, listed) if listed is not None else []
    found = unit.find_methods(info, "", len(arguments))
    if not found and arguments:
        raise Unportable(node, f"a constructor of {info.name} with {len(arguments)} arguments")
    method = meant(unit, found, arguments, node) if found else None
    passed = own_arguments(unit, method, arguments, node) if method is not None else ""
    code = constant_class(unit, info, node) if child(node, "body") is not None else info.path
    parts = [quoted(name), *([passed] if passed else [])]
    if method is not None and method.python != "__init__":
        return f"java.made({', '.join([code, f'{code}.{method.python}', *parts])})"
    return f"{code}({', '.join(parts)})"


def constant_class(unit: Unit, info: ClassInfo, node: Node) -> str:
    """Return the class of a constant with its own members; it is written before the constants."""
    inner = class_of(node, unit.file, info, in_method=True)
    inner.name = f"_{info.name}_{text_of(needed(node, 'name'))}"
    inner.superclass = Type(info.full_name)
    unit.local_classes[inner.name] = inner
    separate(unit, inner)
    unit.before.extend(class_lines(unit, inner))
    return inner.name


def static_fields(unit: Unit, info: ClassInfo, node: Node) -> list[str]:
    """Return the constants of a declaration; other static fields are initialized after all classes."""
    lines: list[str] = []
    if _filler(node) is not None:
        return lines
    for annotation in annotations_of(node):
        if annotation_name(annotation) not in HARMLESS:
            _tell_annotation(unit, annotation)
    for field in info.fields.values():
        if field.is_static and field.declarator.parent == node:
            lines.extend(_static_field(unit, info, field, node))
    return lines


def _static_field(unit: Unit, info: ClassInfo, field: FieldInfo, node: Node) -> list[str]:
    found = unit.find_field(info, field.name)
    assert found is not None
    assert found.type is not None
    value = child(field.declarator, "value")
    if info.in_method:
        raise Unportable(node, "a static field of a class in a method")
    with unit.within(MethodScope(node, info, is_static=True)):
        try:
            code = value_for(unit, value, found.type).code if value is not None else default_of(found.type)
            # A literal needs no other class and may be in the class; all other values are set after all classes.
            if value is None or value.type in _NO_STATICS or is_constant(code):
                return [f"{field.python} = {code}"]
            if value is not None and _runs_code(unit, value):
                unit.check(node, f"the static field {field.name}", _EARLY)
            unit.static_lines.extend([*unit.before, f"{info.path}.{field.python} = {code}"])
        except Unportable as error:
            unit.fail(error, node)
            line = error.node.start_point.row + 1
            what = quoted(f"{unit.file.name}:{line}: {error.what}")
            return [f"# {text_of(node)}".split("\n")[0], f"{field.python} = java.not_ported_field({what})"]
        return []


def static_block(unit: Unit, info: ClassInfo, node: Node) -> None:
    """Add a static initializer to the code that runs after all classes."""
    if info.in_method:
        raise Unportable(node, "a static initializer of a class in a method")
    unit.check(node, "a static initializer", _EARLY)
    # A left-out part raises: in an initializer that happens at the import, and stops the whole module.
    lost = len(unit.untranslated)
    with unit.within(MethodScope(node, info, is_static=True)):
        lines = body_of(unit, children(node)[0])
    if len(unit.untranslated) > lost:
        unit.check(
            node,
            "a static initializer that stops the import",
            "a part of it was not translated, and raises when the module is imported, with all classes in it: port that first",
        )
    unit.static_lines.extend(lines)


def field_lines(unit: Unit, info: ClassInfo) -> list[str]:
    """Return the initial values of an object's fields."""
    lines = list[str]()
    for node in members(info.body) if info.body else ():
        if node.type == "block":
            lines.extend(body_of(unit, node))
        for field in info.fields.values():
            if not field.is_static and field.declarator.parent == node and _filler(node) is None:
                lines.extend(_field(unit, info, field, node))
    return lines


def _field(unit: Unit, info: ClassInfo, field: FieldInfo, node: Node) -> list[str]:
    value = child(field.declarator, "value")
    outside, unit.before = unit.before, []
    try:
        found = unit.find_field(info, field.name)
        assert found is not None
        assert found.type is not None
        code = value_for(unit, value, found.type).code if value is not None else default_of(found.type)
    except Unportable as error:
        return left_out(unit, node, error)
    else:
        return [*unit.before, f"self.{field.python} = {code}"]
    finally:
        unit.before = outside


def _runs_code(unit: Unit, node: Node) -> bool:
    """Whether a value is computed by the program's own code."""
    if node.type == "object_creation_expression":
        return unit.class_info(unit.find_class(text_of(needed(node, "type")).partition("<")[0], node)) is not None
    if node.type == "method_invocation" and child(node, "object") is None:
        return True
    return any(_runs_code(unit, each) for each in children(node))


# Constructors of classes in Python.


def constructors(unit: Unit, info: ClassInfo, obstacle: Unportable | None) -> list[str]:
    """Return ``__init__``: of one constructor, of several, or of none; `obstacle`: the reason why no object can be
    made.
    """
    own = info.named("")
    for each in own:
        unit.fill_signature(each)
    lines = [line for each in own if each.by_types for line in _constructor(unit, info, each, each.python, obstacle)]
    if own and all(each.by_types for each in own):
        return lines
    own = [each for each in own if not each.by_types]
    if lines:
        return [*lines, *_told_apart(unit, info, own, obstacle)]
    return _told_apart(unit, info, own, obstacle)


def _told_apart(unit: Unit, info: ClassInfo, own: list[MethodInfo], obstacle: Unportable | None) -> list[str]:
    """Return ``__init__``, which dispatches to constructors by the number of arguments."""
    if len(own) < 2:
        return _constructor(unit, info, own[0] if own else None, "__init__", obstacle)
    lines: list[str] = []
    counts = [len(each.params) for each in own]
    for each in own:
        if counts.count(len(each.params)) == 1 and not each.variadic:
            lines.extend(_constructor(unit, info, each, f"_init_{len(each.params)}", obstacle))
    table = []
    shift = 0 if info.is_static and info.kind != "enum" else 1  # the enclosing object, or the name, comes first
    for count in dict.fromkeys(counts):
        if counts.count(count) == 1:
            table.append((count + shift, f"{info.path}._init_{count}(self, *args)"))
        else:
            found = next(each for each in own if len(each.params) == count)
            error = Unportable(
                found.node, f"constructors of {info.name} with {count} parameters each", "give one another number"
            )
            unit.fail(error, found.node)
            table.append((count + shift, f"raise java.NotPorted({quoted(error.what)})"))
    return [
        *lines,
        "def __init__(self, *args):",
        *indented(dispatch(table, "raise TypeError(args)")),
        "",
    ]


def _constructor(
    unit: Unit, info: ClassInfo, method: MethodInfo | None, name: str, obstacle: Unportable | None
) -> list[str]:
    scope = MethodScope(
        method.node if method else info.node,
        info,
        is_static=False,
        returns=Type("void"),
        above=unit.scope if info.in_method else None,
    )
    with unit.within(scope):
        params = parameters(unit, method) if method else []
        statements = needed(method.node, "body").named_children if method else []
        first = next((each for each in statements if each.type == "explicit_constructor_invocation"), None)
        rest = [each for each in statements if each is not first]
        try:
            above = _above(unit, info, first, method)
        except Unportable as error:
            above = left_out(unit, first or info.node, error)
        if obstacle is not None:
            above = left_out(unit, obstacle.node.children[0], obstacle)[-1:]
        is_this = first is not None and text_of(children(first)[0]) == "this"
        # With `this(…)` the other constructor initialises the fields; doing it here, too, would undo its work (JLS
        # §12.5).
        fields = [] if is_this else field_lines(unit, info)
        body = block_lines(unit, rest) if rest else []
        # The order of JLS §12.5: the superclass constructor, the fields in their order, then the body.
        lines = [*above, *_without_defaults(fields, body), *body]
        # Known after the bodies: a method may use the enclosing object.
        needs_outer = info.full_name in unit.needs_outer or not info.is_static
        kept = [f"{each}={each}" for each in scope.kept]
    if info.kind == "enum":
        params = ["constant", *params]
    if needs_outer:
        lines = ["self.outer = outer", *lines]
        params = ["outer", *params]
    if method is None and not needs_outer and not kept:
        if not lines:
            return []
        # Python calls the superclass constructor by itself when the class has none.
        if lines in (["super().__init__()"], ["super().__init__(constant)"]):
            return []
        if lines[:1] == ["super().__init__()"] and info.node.type == "object_creation_expression":
            params, lines[0] = ["*args"], "super().__init__(*args)"
    listed = ", ".join(["self", *params, *(["*", *kept] if kept else [])])
    return [f"def {name}({listed}):", *indented(lines or ["pass"]), ""]


def _above(unit: Unit, info: ClassInfo, first: Node | None, method: MethodInfo | None) -> list[str]:
    """Return the call of another constructor: ``super(…)``, explicit or not, or ``this(…)``."""
    if first is not None and text_of(children(first)[0]) == "this":
        arguments = given(unit, needed(first, "arguments"))
        found = unit.find_methods(info, "", len(arguments))
        other = meant(unit, found, arguments, first) if found else None
        if other is None or method is other:
            raise Unportable(first, "a call of another constructor")
        outer = "outer, " if not info.is_static else "constant, " if info.kind == "enum" else ""
        name = other.python if other.by_types else f"_init_{len(arguments)}"
        return [f"{info.path}.{name}(self, {outer}{own_arguments(unit, other, arguments, first)})".replace(", )", ")")]
    superclass = info.superclass
    if superclass is None or superclass.name == "java.lang.Object":
        return []
    if superclass.name == "java.lang.Enum":
        return ["super().__init__(constant)"]
    arguments = given(unit, needed(first, "arguments")) if first is not None else []
    above = unit.class_info(superclass.name)
    if above is not None:
        found = unit.find_methods(above, "", len(arguments))
        higher = meant(unit, found, arguments, first or info.node) if found else None
        codes = own_arguments(unit, higher, arguments, first or info.node) if higher is not None else ""
        if higher is not None and higher.by_types:
            outer = "outer" if not above.is_static else ""
            listed = ", ".join(filter(None, ("self", outer, codes)))
            return [f"{unit.class_code(above.full_name, info.node)}.{higher.python}({listed})"]
        if above.kind == "enum":
            codes = ", ".join(filter(None, ("constant", codes)))
        if not above.is_static:
            codes = ", ".join(filter(None, ("outer", codes)))
        return [f"super().__init__({codes})"]
    known = LIBRARY_TYPES.get(superclass.name)
    if known is None:
        return []
    codes = ", ".join(each.as_type(unit, each.type).code for each in arguments)
    return [f"super().__init__({codes})"]


def _without_defaults(fields: list[str], body: list[str]) -> list[str]:
    """Remove initial values of fields that the constructor assigns at its start."""
    assigned = set()
    for line in body:
        match = _ASSIGNED.fullmatch(line)
        # Up to the first line that does anything else: it might read a field that would have its default in Java.
        if match is None or "self" in match["value"].replace("(self)", "()"):
            break
        assigned.add(match["name"])
    return [line for line in fields if not ((match := _DEFAULT.fullmatch(line)) and match["name"] in assigned)]


_ASSIGNED: Final = re.compile(r"self\.(?P<name>\w+) = (?P<value>.*)")
_DEFAULT: Final = re.compile(r'self\.(?P<name>\w+) = (?:None|False|0|0\.0|"\\0")')


_WITHOUT_BASE: Final = frozenset(
    {
        "java.lang.Object",
        "java.lang.Runnable",
        "java.lang.Comparable",
        "java.lang.Cloneable",
        "java.util.Comparator",
        "java.util.concurrent.Callable",
        *(name for name in LIBRARY_TYPES if name.startswith("java.util.function.")),
        "java.lang.AutoCloseable",
        "java.io.Closeable",
        "java.io.Serializable",
    }
)


def resolve_supers(unit: Unit, info: ClassInfo) -> None:
    """Resolve the supertypes of a class and of its nested classes."""
    unit.class_stack.append(info.outer or info)
    try:
        if info.super_node is not None:
            info.superclass = unit.find_type(info.super_node)
        info.interfaces = [unit.find_type(each) for each in info.interface_nodes]
        if info.kind == "enum" and info.node.type == "enum_declaration":
            info.superclass = Type("java.lang.Enum")
    finally:
        # In a `finally`: an unknown supertype raises, and the caller continues with the next class.
        unit.class_stack.pop()
    for each in info.nested.values():
        resolve_supers(unit, each)


def separate(unit: Unit, info: ClassInfo) -> None:
    """Rename private members and fields of a class that have the name of an inherited member.

    Java has two separate fields, and calls a private method of the calling class: in Python the subclass member would
    hide the other.
    """
    above = [each for each in unit.lineage(info) if each is not info]
    for field in info.fields.values():
        if any(other.python == field.python for each in above for other in each.fields.values()):
            field.python = f"{field.python}_{info.name}"
    for method in info.methods:
        if method.name and any(_is_hidden(other, method) for each in above for other in each.named(method.name)):
            method.python = f"{method.python}_{info.name}"
    for inner in info.nested.values():
        separate(unit, inner)


def _is_hidden(above: MethodInfo, method: MethodInfo) -> bool:
    return above.is_static or has_modifier(above.node, "private") or has_modifier(method.node, "private")


def class_lines(unit: Unit, info: ClassInfo) -> list[str]:
    """Return the lines of a class."""
    unit.class_stack.append(info)
    try:
        if info.kind not in {"class", "interface", "object", "enum"}:
            error = Unportable(info.node, f"the {info.kind} {info.name}", "write it as a class of Python")
            return [
                f"class {info.name}:",
                *indented(["def __init__(self, *args):", *indented(left_out(unit, info.node, error))]),
                "",
            ]
        _tell_annotations(unit, info)
        bases, obstacle = _bases(unit, info)
        body = _Body(unit, info, obstacle)
        lines = body.lines()
        return [f"class {info.name}{f'({bases})' if bases else ''}:", *indented(lines or ["pass"]), ""]
    finally:
        unit.class_stack.pop()


def _tell_annotations(unit: Unit, info: ClassInfo) -> None:
    for each in annotations_of(info.node):
        name = annotation_name(each)
        if name == "MessageDriven":
            unit.check(
                each,
                f"the message-driven bean {info.name}",
                "no container makes it in Python: in a main of its own, make a consumer of the destination that the annotation names, set "
                "an object of the class as its listener, start the connection and wait: docs/how-to/porting.md, A program that only listens",
            )
        elif name not in HARMLESS:
            _tell_annotation(unit, each)


def _bases(unit: Unit, info: ClassInfo) -> tuple[str, Unportable | None]:
    codes = []
    for above in (info.superclass, *info.interfaces):
        if above is None or above.name in _WITHOUT_BASE:
            continue
        own = unit.class_info(above.name)
        # Both are in one class body, which is unfinished while its nested classes are made: only the bare name exists.
        if own is not None and own.outer is not None and own.outer is info.outer and not info.in_method:
            codes.append(own.name)
        elif own is not None and own is info.outer and not info.in_method:
            # Python makes the nested class before the enclosing one exists.
            return "", Unportable(info.node, f"{info.name} extends the class around it", "move it out of that class")
        else:
            try:
                codes.append(unit.class_code(above.name, info.node))
            except Unportable:
                what = f"{info.name} extends or implements {above.name}"
                return ", ".join(codes), Unportable(info.node, what, unknown_class_advice(above.name))
    return ", ".join(codes), None


def _is_transient(field: FieldInfo) -> bool:
    declaration = field.declarator.parent
    return declaration is not None and not field.is_static and has_modifier(declaration, "transient")


def _state(fields: list[FieldInfo]) -> list[str]:
    """Return the code by which pickle leaves out transient fields."""
    defaults = ", ".join(f"{quoted(each.python)}: {default_of(each.type or OBJECT)}" for each in fields)
    return ["def __getstate__(self):", f"    return {{**self.__dict__, {defaults}}}", ""]


def _leading(lines: list[str]) -> list[str]:
    """Return the constants at the top of a class, with the comments among them."""
    place = 0
    for number, line in enumerate(lines):
        if line.startswith(("def ", "class ", "@")):
            break
        if line and not line.startswith("#"):
            place = number + 1
    return lines[:place]


def _add_apart(lines: list[str], more: list[str]) -> None:
    """Add a method or a class, with an empty line before it and its comments."""
    place = len(lines)
    # Comments in front of a member belong to it.
    while place and lines[place - 1].startswith("#"):
        place -= 1
    if more and place and lines[place - 1]:
        lines.insert(place, "")
    lines.extend(more)


class _Body:
    """Collects the members of one class."""

    def __init__(self, unit: Unit, info: ClassInfo, obstacle: Unportable | None) -> None:
        self._unit = unit
        self._info = info
        self._obstacle = obstacle
        self._written: set[str] = set()

    def lines(self) -> list[str]:
        """Return all members, in the order of the source; constructors and initial values of fields as ``__init__``."""
        unit, info = self._unit, self._info
        lines: list[str] = []
        for node in members(info.body) if info.body else ():
            if node.type in COMMENTS:
                lines.extend(comment_lines(node))
            elif node.type == "enum_constant":
                enum_constant(unit, info, node)
            elif node.type in {"field_declaration", "constant_declaration"}:
                lines.extend(injected_fields(unit, info, node))
                lines.extend(static_fields(unit, info, node))
            elif node.type == "constructor_declaration":
                _add_apart(lines, self._constructors())
            elif node.type == "method_declaration":
                _add_apart(lines, method_lines(unit, info, node, self._written))
            elif node.type == "static_initializer":
                static_block(unit, info, node)
            elif node.type not in {"block", ";"}:
                _add_apart(lines, self._nested(node))
        # Fields with values need an `__init__`, even if the Java class has no constructor.
        if "" not in self._written and (made := self._constructors()):
            leading = _leading(lines)
            rest = lines[len(leading) :]
            lines = leading
            _add_apart(lines, made)
            lines += rest[1:] if rest[:1] == [""] else rest
        if unit.is_subtype(info.full_name, "java.lang.Throwable") and info.java_name != info.path.replace(".", "$"):
            lines = [f"java_name = {quoted(info.java_name)}", "", *lines]
        if info.kind == "enum" and info.java_name != info.path.replace(".", "$"):
            lines = [f"java_name = {quoted(info.java_name)}", "", *lines]
        if hidden := [each for each in info.fields.values() if _is_transient(each)]:
            _add_apart(lines, _state(hidden))
        while lines and not lines[-1]:
            lines.pop()
        if not any(line and not line.startswith("#") for line in lines):
            lines.append("pass")
        return lines

    def _constructors(self) -> list[str]:
        """Return the constructors, once."""
        if "" in self._written:
            return []
        self._written.add("")
        return constructors(self._unit, self._info, self._obstacle)

    def _nested(self, node: Node) -> list[str]:
        unit, info = self._unit, self._info
        named = child(node, "name")
        inner = info.nested.get(text_of(named)) if named else None
        if inner is None or inner.name in self._written:
            return []
        # Marked before its siblings are written, which may refer to it in a cycle.
        self._written.add(inner.name)
        lines: list[str] = []
        for above in (inner.superclass, *inner.interfaces):
            sibling = unit.class_info(above.name) if above else None
            # A Python class must come after its base classes; Java has no such order.
            if sibling is not None and sibling.outer is info:
                lines.extend(self._nested(sibling.node))
        return [*lines, *class_lines(unit, inner)]
