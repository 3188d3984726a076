"""Creation of objects, arrays and functions in a program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tree_sitter import Node

from pyjms.porting.calls import (
    Argument,
    arguments_for,
    call_with,
    choose,
    element_or_filled,
    given,
    library_call,
    meant,
    named_destination,
    own_arguments,
    own_call,
)
from pyjms.porting.codes import default_of, quoted
from pyjms.porting.constants import check_text
from pyjms.porting.conversions import boxed_type, convert, text_of_value
from pyjms.porting.expressions import alias_of, class_named, holder
from pyjms.porting.members import class_lines, separate
from pyjms.porting.model import INT, STRING, VOID, Expr, Type, Unportable, child, children, needed, text_of
from pyjms.porting.table import STATEMENTS, body_of, expression, indented, is_expression, is_targeted, value_for
from pyjms.porting.types import (
    LIBRARY_TYPES,
    PROVIDERS,
    arguments_of,
    find_members,
    function_method,
    type_named,
    unknown_class_advice,
    without_variables,
)
from pyjms.porting.unit import ClassInfo, MethodInfo, MethodScope, Unit, class_of


@is_expression("object_creation_expression")
def _untargeted_creation(unit: Unit, node: Node) -> Expr:
    return _created(unit, node, None)


@is_targeted("object_creation_expression")
def _targeted_creation(unit: Unit, node: Node, target: Type) -> Expr:
    return convert(unit, _created(unit, node, target), target, node)


def _created(unit: Unit, node: Node, target: Type | None) -> Expr:
    # `outer.new Inner()` has the outer object in front of `new`
    if node.children[0].type != "new":
        return _for_another(unit, node)
    raw = text_of(needed(node, "type")).partition("<")[0]
    full = unit.find_class(raw, node)
    # Before the type is resolved: providers' classes are in no table.
    if raw.rpartition(".")[2] in PROVIDERS and unit.class_info(full) is None:
        return connection_factory(unit, node, raw, target)
    if full in _DESTINATIONS:
        return _destination(unit, node, full)
    kind = unit.find_type(needed(node, "type"))
    body = next((each for each in node.children if each.type == "class_body"), None)
    if body is not None:
        return _anonymous(unit, node, kind)
    arguments = given(unit, needed(node, "arguments"))
    info = unit.class_info(kind.name)
    if info is not None:
        return Expr(_own(unit, node, info), kind, known=True)
    known = LIBRARY_TYPES.get(kind.name)
    members = [each for each in known.members if each.name == "new"] if known else []
    if target is not None and not kind.args and target.args:
        # The diamond `<>` takes its arguments from the target (JLS §15.9).
        kind = Type(kind.name, target.args)
    chosen = choose(unit, members, kind, arguments)
    if chosen is None:
        raise Unportable(node, f"new {text_of(needed(node, 'type'))}", unknown_class_advice(kind.name))
    member, types = chosen
    bound: dict[str, Type] = {}
    passed = arguments_for(unit, arguments, types, bound)
    simple = kind.name.rpartition(".")[2]
    texts = [each.node for each in arguments if each.type == STRING]
    if (
        simple in {"String", "SimpleDateFormat", "InputStreamReader", "OutputStreamWriter"}
        and texts
        # `new String(text)` has no charset; `new String(bytes, charset)` has one.
        and (simple != "String" or len(arguments) > 1)
    ):
        check_text(unit, node, texts[0], kind.name, simple)
    if kind.name == "javax.naming.InitialContext":
        unit.check(node, "names of JNDI", "keep jndi.properties, with another URL in it: docs/how-to/porting.md, JNDI")
    if member.template is None:
        code = f"{unit.class_code(kind.name, node)}({', '.join(each.code for each in passed)})"
    else:
        code = element_or_filled(member.template, "", passed, node)
    return Expr(code, kind, known=True)


_DESTINATIONS: Final = {
    "org.apache.activemq.command.ActiveMQQueue": "Queue",
    "org.apache.activemq.command.ActiveMQTopic": "Topic",
    "org.apache.activemq.artemis.jms.client.ActiveMQQueue": "Queue",
    "org.apache.activemq.artemis.jms.client.ActiveMQTopic": "Topic",
}


def _destination(unit: Unit, node: Node, full: str) -> Expr:
    """Return a destination made without a session: JNDI has one for any name."""
    arguments = given(unit, needed(node, "arguments"))
    if len(arguments) != 1 or arguments[0].type != STRING:
        raise Unportable(node, f"new {full}", unknown_class_advice(full))
    kind, name = _DESTINATIONS[full], arguments[0].as_type(unit, STRING)
    return named_destination(unit, node, kind, name)


def _for_another(unit: Unit, node: Node) -> Expr:
    """Return ``object.new Inner()``."""
    around = expression(unit, node.children[0])
    outer = unit.class_info(around.type.name)
    inner = unit.nested_class(outer, text_of(needed(node, "type"))) if outer is not None else None
    if inner is None or inner.is_static:
        raise Unportable(node, f"an object made for another: {text_of(node)[:40]}")
    return Expr(_own(unit, node, inner, around.code), Type(inner.full_name), known=True)


def _own(unit: Unit, node: Node, info: ClassInfo, around: str | None = None) -> str:
    arguments = given(unit, needed(node, "arguments"))
    found = unit.find_methods(info, "", len(arguments))
    if not found and (arguments or info.named("")):
        raise Unportable(node, f"a constructor of {info.name} with {len(arguments)} arguments")
    around_code = ""
    if not info.is_static and info.outer is not None:
        unit.needs_outer.add(info.full_name)
        around_code = around or holder(unit, info.outer, node)
    return _own_code(unit, node, info, found, arguments, around_code)


def _own_code(
    unit: Unit, node: Node, info: ClassInfo, found: list[MethodInfo], arguments: list[Argument], around: str
) -> str:
    passed, code = "", unit.class_code(info.full_name, node)
    if found:
        method = meant(unit, found, arguments, node)
        passed = own_arguments(unit, method, arguments, node)
        if method.python != "__init__":  # one of several with as many parameters
            listed = ", ".join(filter(None, (code, f"{code}.{method.python}", around, passed)))
            # `__init__` is only one of them, so the object is created first and the chosen constructor is called on it.
            return f"java.made({listed})"
    return f"{code}({', '.join(filter(None, (around, passed)))})"


def _anonymous(unit: Unit, node: Node, kind: Type) -> Expr:
    assert unit.scope is not None
    info = class_of(node, unit.file, unit.scope.info, in_method=True)
    # Anonymous classes need a name in Python, and several may stand in one method.
    info.name = unit.number(f"_{kind.name.rpartition('.')[2]}")
    above = unit.class_info(kind.name)
    arguments = given(unit, needed(node, "arguments"))
    # Thread and classes of the program are base classes; all other types count as interfaces.
    if kind.name == "java.lang.Thread" or (above is not None and above.kind == "class"):
        info.superclass = kind
    else:
        info.interfaces = [kind]
    passed = ""
    if above is not None and above.kind == "class":
        found = unit.find_methods(above, "", len(arguments))
        # Arguments go unchanged to the superclass constructor; a dispatch by count or an outer object would break that.
        if len(found) > 1 or not above.is_static or (found and found[0].python != "__init__"):
            raise Unportable(node, f"an anonymous class that extends {above.name}")
        passed = own_arguments(unit, found[0], arguments, node) if found else ""
    elif arguments:
        passed = ", ".join(each.as_type(unit, each.type).code for each in arguments)
    local_class(unit, info)
    return Expr(f"{info.name}({passed})", kind, known=True)


def local_class(unit: Unit, info: ClassInfo) -> None:
    """Write a local class before the statement that uses it."""
    assert unit.scope is not None
    unit.local_classes[info.name] = info
    separate(unit, info)
    alias = alias_of(info)
    # Collected separately, to know whether this class needs the enclosing object.
    used, unit.aliases = unit.aliases, set()
    lines = class_lines(unit, info)
    if alias in unit.aliases:
        # `self` in the class's methods is the class's own object, so the enclosing object gets another name.
        unit.before.append(f"{alias} = self")
    unit.aliases = used | (unit.aliases - {alias})
    unit.before.extend(lines)


@dataclass(slots=True)
class _Function:
    """The target of a function: the method of an interface."""

    name: str
    params: list[Type]
    returns: Type
    owner: ClassInfo | None = None
    """The interface, if it belongs to the program: then the function must become an object of it."""


def _function(unit: Unit, target: Type, node: Node) -> _Function:
    method = function_method(target.name)
    if method is not None:
        bound = arguments_of(method.owner, target)
        # A type variable that is still free: the body of the function may determine it.
        missing = {each: Type("$?") for each in list(bound)[len(target.args) :]}
        params = [type_named(each, {**bound, **missing}) for each in method.params or ()]
        returns = VOID if method.returns == "void" else type_named(method.returns, {**bound, **missing})
        return _Function(method.name, params, returns)
    info = unit.class_info(target.name)
    if info is not None and info.kind == "interface":
        # An interface with exactly one abstract method is functional (JLS §9.8), whatever its default methods.
        waiting = [
            each
            for above in unit.lineage(info)
            for each in above.methods
            if child(each.node, "body") is None and not each.is_static
        ]
        if len(waiting) == 1:
            unit.fill_signature(waiting[0])
            assert waiting[0].returns is not None
            return _Function(waiting[0].python, waiting[0].params, waiting[0].returns, info)
    raise Unportable(node, f"a function as {target}", "write a class that has the method")


def _as_object(unit: Unit, code: str, wanted: _Function, node: Node) -> str:
    """Return a function as an object of the target interface."""
    if wanted.owner is None:
        return code
    return f"java.implementing({unit.class_code(wanted.owner.full_name, node)}, {quoted(wanted.name)}, {code})"


def _returning(target: Type, wanted: _Function, found: Type | None) -> Type:
    """Return the type of a function, with its result type."""
    if found is None or not wanted.returns.name.startswith("$"):
        return target
    method = function_method(target.name)
    assert method is not None
    names = list(method.owner.parameters)
    place = names.index(method.returns) if method.returns in names else -1
    if place < 0 or place >= len(target.args):
        return target
    return Type(target.name, (*target.args[:place], found, *target.args[place + 1 :]))


@is_targeted("lambda_expression")
def _lambda(unit: Unit, node: Node, target: Type) -> Expr:
    assert unit.scope is not None
    wanted = _function(unit, target, node)
    above = unit.scope
    # `this` in a lambda is the enclosing method's (JLS §15.27.2), hence the class of the outer scope.
    scope = MethodScope(node, above.info, above.is_static, wanted.returns, above, is_lambda=True)
    body = needed(node, "body")
    with unit.within(scope):
        given_names = _names(node)
        if len(given_names) != len(wanted.params):
            raise Unportable(node, f"a function with {len(given_names)} parameters as {target}")
        names = []
        for (name, type_node), kind in zip(given_names, wanted.params, strict=True):
            declared = unit.find_type(type_node) if type_node is not None and text_of(type_node) != "var" else kind
            names.append(unit.declare(name, without_variables(declared)).python)
        lines, code = _lambda_body(unit, body, wanted.returns)
    kind = _returning(target, wanted, scope.inferred)
    if code is not None:
        return Expr(_as_object(unit, f"lambda{_parameters(names, scope)}: {code}", wanted, node), kind, known=True)
    made = unit.number(f"_{wanted.name}")
    listed = _parameters(names, scope).strip()
    # Python's lambda is a single expression, so a block becomes a function before the statement.
    unit.before.extend([f"def {made}({listed}):", *indented(lines), ""])
    return Expr(_as_object(unit, made, wanted, node), kind, known=True)


def _lambda_body(unit: Unit, body: Node, returns: Type) -> tuple[list[str], str | None]:
    """Return the lines of a function's body, or its only expression."""
    assert unit.scope is not None
    if body.type == "block":
        return body_of(unit, body), None
    # These are statements in Python and cannot stand in a lambda.
    if returns == VOID and body.type in {"assignment_expression", "update_expression", "switch_expression"}:
        lines = STATEMENTS["expression_lines"](unit, body)
        return [*unit.before, *lines], None
    if returns == VOID:
        value = expression(unit, body)
    elif returns.name.startswith("$"):
        value = expression(unit, body)
        if value.type.name in {"void", "null", "?"}:
            raise Unportable(body, "a function whose result has no type")
        value = convert(unit, value, boxed_type(value.type), body)
        unit.scope.inferred = value.type
    else:
        value = value_for(unit, body, returns)
    # The body may need functions of its own, which cannot be placed in a lambda either.
    if not unit.before:
        return [], value.code
    return [*unit.before, value.code if returns == VOID else f"return {value.code}"], None


def _parameters(names: list[str], scope: MethodScope) -> str:
    kept = [f"{name}={value}" for name, value in scope.kept.items()]
    # Captured variables are keyword-only, so that a caller's arguments never replace them.
    listed = ", ".join([*names, *(["*", *kept] if kept else [])])
    return f" {listed}" if listed else ""


def _names(node: Node) -> list[tuple[str, Node | None]]:
    params = needed(node, "parameters")
    if params.type == "identifier":
        return [(text_of(params), None)]
    return [(text_of(child(each, "name") or each), child(each, "type")) for each in children(params)]


@is_targeted("method_reference")
def _reference(unit: Unit, node: Node, target: Type) -> Expr:
    wanted = _function(unit, target, node)
    parts = [each for each in node.children if each.is_named or each.type in {"new", "super"}]
    name = text_of(parts[-1])
    # Python has no object with a method `println` that could be passed as a function.
    if text_of(parts[0]) in {"System.out", "System.err"} and name in {"println", "print"}:
        return _printing(unit, node, target, wanted, text_of(parts[0]), name)
    named = class_named(unit, parts[0]) if parts[0].type in {"identifier", "field_access"} else None
    if parts[0].type in {"generic_type", "scoped_type_identifier", "type_identifier"}:
        named = unit.find_type(parts[0]).name
    letters = [f"each{number or ''}" for number in range(len(wanted.params))]
    params = [
        Type(named) if each.name.startswith("$") and place == 0 and named else without_variables(each)
        for place, each in enumerate(wanted.params)
    ]
    arguments = [Argument(node, Expr(each, kind), kind) for each, kind in zip(letters, params, strict=True)]
    if named is not None:
        # A call with parameters named `each` is constructed, and translated like any other call.
        made = _of_named(unit, node, named, name, arguments)
    else:
        made = call_with(unit, node, expression(unit, parts[0]), name, arguments)
    kind = target
    if wanted.returns.name.startswith("$"):
        made = convert(unit, made, boxed_type(made.type), node)
        kind = _returning(target, wanted, made.type)
    elif wanted.returns != VOID:
        made = convert(unit, made, wanted.returns, node)
    code = _shortened(made.code, letters)
    return Expr(_as_object(unit, code, wanted, node), kind, known=True)


def _shortened(code: str, letters: list[str]) -> str:
    """Return the called function itself, for a function that only calls it with the same arguments."""
    listed = ", ".join(letters)
    function = code.removesuffix(f"({listed})")
    # Only plain names: `f().g` would evaluate `f()` once instead of at each call.
    if function != code and all(part.isidentifier() for part in function.split(".")):
        return function
    return f"lambda {listed}: {code}" if letters else f"lambda: {code}"


def _of_named(unit: Unit, node: Node, named: str, name: str, arguments: list[Argument]) -> Expr:
    info = unit.class_info(named)
    if name == "new":
        return _constructed(unit, node, named, arguments)
    if info is not None:
        found = unit.find_methods(info, name, len(arguments))
        if found and found[0].is_static:
            return own_call(unit, node, found, arguments, info)
    elif any(each.is_static for each in find_members(named, name)):
        try:
            return library_call(unit, node, None, name, arguments, named)
        # `Integer::toString` may be the static or the instance method: the second is tried below.
        except Unportable:
            if not arguments:
                raise
    if not arguments:
        raise Unportable(node, f"the method reference {text_of(node)}", "write a lambda")
    first = arguments[0]
    receiver = Expr("each", first.type if unit.is_subtype(first.type.name, named) else Type(named))
    return call_with(unit, node, receiver, name, arguments[1:])


def _constructed(unit: Unit, node: Node, named: str, arguments: list[Argument]) -> Expr:
    info = unit.class_info(named)
    kind = Type(named)
    if info is not None and info.is_static:
        found = unit.find_methods(info, "", len(arguments))
        if found or not (arguments or info.named("")):
            return Expr(_own_code(unit, node, info, found, arguments, ""), kind, known=True)
    known = LIBRARY_TYPES.get(named)
    chosen = choose(unit, [each for each in known.members if each.name == "new"] if known else [], kind, arguments)
    if chosen is None:
        raise Unportable(node, f"the method reference {text_of(node)}", "write a lambda")
    passed = arguments_for(unit, arguments, chosen[1])
    if chosen[0].template is None:
        code = f"{unit.class_code(named, node)}({', '.join(each.code for each in passed)})"
        return Expr(code, kind, known=True)
    return Expr(element_or_filled(chosen[0].template, "", passed, node), kind, known=True)


def _printing(unit: Unit, node: Node, target: Type, wanted: _Function, stream: str, name: str) -> Expr:
    if len(wanted.params) != 1 or wanted.returns != VOID:
        raise Unportable(node, f"the method reference {text_of(node)}", "write a lambda")
    text = text_of_value(unit, Expr("each", without_variables(wanted.params[0])), node)
    file = "" if stream == "System.out" else ", file=sys.stderr"
    end = "" if name == "println" else ', end=""'
    return Expr(f"lambda each: print({text}{end}{file})", target, known=True)


@is_expression("array_creation_expression")
def _array(unit: Unit, node: Node) -> Expr:
    element = unit.find_type(needed(node, "type"))
    sizes = [each for each in node.children if each.type == "dimensions_expr"]
    open_dims = sum(text_of(each).count("[") for each in node.children if each.type == "dimensions")
    kind = Type(element.name, element.args, len(sizes) + open_dims)
    value = child(node, "value")
    if value is not None:
        return value_for(unit, value, kind)
    lengths = [value_for(unit, children(each)[0], INT) for each in sizes]
    if kind == Type("byte", (), 1):
        # JMS takes a bytearray for `byte[]`, and it starts with zeros as Java's array does.
        return Expr(f"bytearray({lengths[0].code})", kind, known=True)
    if element.name == "byte":
        raise Unportable(node, "an array of arrays of bytes")
    default = "None" if open_dims else default_of(element)
    # A negative length would make an empty list in Python; Java raises NegativeArraySizeException.
    if len(lengths) == 1 and lengths[0].limits[0] >= 0:
        return Expr(
            f"[{default}] * ({lengths[0].code})".replace("(" + lengths[0].code + ")", _plain(lengths[0].code)),
            kind,
            known=True,
        )
    return Expr(f"java.array_of({default}, {', '.join(each.code for each in lengths)})", kind, known=True)


def _plain(code: str) -> str:
    return code if code.replace(".", "").replace("_", "").isalnum() else f"({code})"


@is_targeted("array_initializer")
def _array_literal(unit: Unit, node: Node, target: Type) -> Expr:
    if not target.dims:
        raise Unportable(node, f"the elements of an array as {target}")
    values = [value_for(unit, each, target.element) for each in children(node)]
    codes = ", ".join(each.code for each in values)
    if target == Type("byte", (), 1):
        if all(each.limits[0] >= 0 for each in values):
            return Expr(f"bytearray([{codes}])", target, known=True)
        # Java's bytes are signed, Python's are not.
        return Expr(f"bytearray(each & 0xFF for each in [{codes}])", target, known=True)
    return Expr(f"[{codes}]", target, known=True)


_WANTED: Final = {f"javax.jms.{name}": name for name in PROVIDERS.values()}
_HARMLESS: Final = {"broker.persistent=false", "broker.usejmx=false", "create=true"}
_HOST: Final = re.compile(r"(?:tcp|nio|amqp|ssl|amqps|core|netty)://(?P<host>[\w.-]+|\[[\w:]+\])")
_DEFAULT: Final = "tcp://localhost:61616"


def connection_factory(unit: Unit, node: Node, name: str, target: Type | None) -> Expr:
    """Return the pyjms factory that replaces a provider's."""
    simple = name.rpartition(".")[2]
    kind = _WANTED.get(target.name if target else "", PROVIDERS[simple])
    arguments = given(unit, needed(node, "arguments"))
    if any(each.type != STRING and each.type.name != "null" for each in arguments):
        raise Unportable(node, f"new {simple} with other arguments than texts", "pyjms.ConnectionFactory(url)")
    codes = [each.as_type(unit, STRING).code for each in arguments]
    options = ""
    if len(codes) in {2, 3}:
        user, password = (codes[1:] if len(codes) == 3 and "qpid" in unit.find_class(name, node) else codes)[:2]
        options = f", user_name={user}, password={password}"
    # Without a URL, ActiveMQ's factory connects to its default.
    url = codes[0] if len(codes) == 1 else codes[-1] if len(codes) == 3 else quoted(_DEFAULT)
    code = f"{kind}({_url(unit, node, url)}{options})"
    return Expr(
        code, Type("pyjms.AnyXAConnectionFactory" if "XA" in kind else "pyjms.AnyConnectionFactory"), known=True
    )


def _constant(unit: Unit, node: Node, code: str) -> str:
    """Return the text of a constant of the program."""
    nodes = children(needed(node, "arguments"))
    for each in nodes:
        if each.type == "identifier" and unit.scope is not None:
            field = unit.find_field(unit.scope.info, text_of(each))
            value = child(field.declarator, "value") if field is not None else None
            if (
                field is not None
                and field.is_final
                and field.is_static
                and value is not None
                and value.type == "string_literal"
                and code.endswith(f".{field.python}")
            ):
                return text_of(value)
    return code


def _url(unit: Unit, node: Node, code: str) -> str:
    """Return the URL for pyjms, if it can be derived from the provider's."""
    # The URL is often a constant of the class, and can be translated only if its text is known.
    code = _constant(unit, node, code)
    if not (code.startswith('"') and code.endswith('"')):
        unit.check(
            node, "the URL of the broker", "give a URL of pyjms: stomp://HOST:61613, or vm://NAME in this process"
        )
        return code
    url = code[1:-1]
    if url.startswith("vm://"):
        parts = urlsplit(url)
        options = [each for each in parts.query.split("&") if each]
        if "broker.persistent=false" not in [each.lower() for each in options]:
            unit.check(
                node,
                f"the broker {url}",
                "ActiveMQ's keeps messages on the disk; vm:// of pyjms does with ?store=sqlite:///FILE",
            )
        elif any(each.lower() not in _HARMLESS for each in options):
            unit.check(node, f"the options of {url}", "they are ActiveMQ's: docs/how-to/stomp.md has those of pyjms")
        # Options of ActiveMQ's URLs have no meaning for pyjms and are left out.
        return quoted(f"vm://{parts.netloc}")
    # The first host only: a failover URL has several, which the finding reports.
    found = _HOST.search(url)
    made = (
        f"{'stomps' if 'ssl' in url or 'amqps' in url else 'stomp'}://{found['host'] if found else 'localhost'}:61613"
    )
    unit.check(
        node,
        f"the broker {url}",
        f"it became {made}: see that it is the broker's STOMP port, and that options and further hosts are right "
        "(docs/how-to/stomp.md)",
    )
    return quoted(made)
