"""``switch``, old and new, as ``if`` and ``elif``."""

from __future__ import annotations

from dataclasses import dataclass, field

from tree_sitter import Node

from pyjms.porting.codes import conditional
from pyjms.porting.conversions import unboxed
from pyjms.porting.model import STRING, Expr, Type, Unportable
from pyjms.porting.syntax import children, needed, text_of
from pyjms.porting.table import expression, is_expression, is_statement, value_for
from pyjms.porting.texts import block_lines, body_of, indented
from pyjms.porting.unit import Unit

__all__: list[str] = []

_ENDS = frozenset({"break_statement", "return_statement", "throw_statement", "continue_statement"})
_INNER = frozenset(
    {
        "while_statement",
        "do_statement",
        "for_statement",
        "enhanced_for_statement",
        "switch_expression",
        "lambda_expression",
        "class_body",
    }
)


@dataclass(slots=True)
class _Case:
    labels: list[Node] = field(default_factory=list)
    is_default: bool = False
    body: list[Node] = field(default_factory=list)
    arrow: bool = False


def _cases(node: Node) -> list[_Case]:
    found = []
    for part in children(needed(node, "body")):
        case = _Case(arrow=part.type == "switch_rule")
        for each in part.named_children:
            if each.type == "switch_label":
                labels = children(each)
                case.labels.extend(labels)
                case.is_default |= not labels
            else:
                case.body.append(each)
        found.append(case)
    return found


def _selected(unit: Unit, node: Node) -> Expr:
    """Return what is asked for; None is an error, as in Java."""
    value = unboxed(expression(unit, needed(node, "condition")))
    if value.type == STRING and not value.known:
        return Expr(f"java.known({value.code})", STRING, known=True)
    info = unit.class_info(value.type.name)
    if info is not None and info.kind == "enum":
        return value if value.known else Expr(f"java.known({value.code})", value.type, known=True)
    if value.type != STRING and not (value.type.is_integral and value.type.name != "long"):
        raise Unportable(node, f"switch over {value.type}", "write it with if")
    return value


def _asked(unit: Unit, name: str, kind: Type, labels: list[Node]) -> str:
    info = unit.class_info(kind.name)
    if info is not None:  # an enum
        owner = unit.class_code(kind.name, labels[0])
        constants = [info.fields.get(text_of(each)) for each in labels]
        if None in constants:
            raise Unportable(labels[0], "a label that is no constant of the enum")
        codes = [f"{owner}.{each.python}" for each in constants if each is not None]
    else:
        codes = [value_for(unit, each, kind).code for each in labels]
    return f"{name} == {codes[0]}" if len(codes) == 1 else f"{name} in ({', '.join(codes)})"


@is_statement("switch_expression")
def _switch(unit: Unit, node: Node) -> list[str]:
    assert unit.scope is not None
    selected = _selected(unit, node)
    lines: list[str] = []
    name = selected.code
    if not name.isidentifier():
        name = unit.number("_selected")
        lines.append(f"{name} = {selected.code}")
    cases = _cases(node)
    bodies = [_body(unit, cases, place) for place in range(len(cases))]
    labels: list[Node] = []
    branches: list[tuple[str, list[str]]] = []
    otherwise: list[str] | None = None
    for place, (case, body) in enumerate(zip(cases, bodies, strict=True)):
        if not case.arrow and not case.body and place + 1 < len(cases):  # its labels are those of the next one, too
            if case.is_default or any(each.is_default for each in cases[place + 1 : place + 2]):
                raise Unportable(node, "default beside other labels", "write it with if")
            labels.extend(case.labels)
            continue
        if case.is_default:
            otherwise = body
            if case.labels or labels:
                raise Unportable(node, "default beside other labels", "write it with if")
            continue
        branches.append((_asked(unit, name, selected.type, [*labels, *case.labels]), body))
        labels = []
    for place, (asked, body) in enumerate(branches):
        lines += [f"{'elif' if place else 'if'} {asked}:", *indented(body)]
    if otherwise is not None:
        lines += ["else:", *indented(otherwise)] if branches else otherwise
    return lines


def _body(unit: Unit, cases: list[_Case], place: int) -> list[str]:
    """Return what a case does, with what it falls through to."""
    case = cases[place]
    if case.arrow:
        return body_of(unit, case.body[0])
    nodes: list[Node] = []
    for each in cases[place:]:
        statements = each.body
        if len(statements) == 1 and statements[0].type == "block":
            statements = statements[0].named_children
        done = False
        for statement in statements:
            if statement.type == "break_statement" and not children(statement):
                done = True
                break
            nodes.append(statement)
            if statement.type in _ENDS:
                done = True
                break
        if done:
            break
    with unit.block():
        lines = block_lines(unit, nodes)
    if not any(_has_jump(each, "break_statement") for each in nodes):
        return lines
    if any(_has_jump(each, "continue_statement") for each in nodes):
        raise Unportable(case.body[0], "break and continue within a case", "write the switch with if")
    return ["while True:  # until break", *indented([*lines, *([] if _always_leaves(lines) else ["break"])])]


def _has_jump(node: Node, kind: str) -> bool:
    """Whether a part of a case has a jump that leaves the case, or the loop around."""
    if node.type == kind and not children(node):
        return True
    inner = _INNER - {"switch_expression"} if kind == "continue_statement" else _INNER
    return node.type not in inner and any(_has_jump(each, kind) for each in children(node))


def _always_leaves(lines: list[str]) -> bool:
    return lines[-1].startswith(("return", "raise"))


@is_expression("switch_expression")
def _value(unit: Unit, node: Node) -> Expr:
    selected = _selected(unit, node)
    name = selected.code if selected.code.isidentifier() else unit.number("_selected")
    made: Expr | None = None
    branches: list[tuple[str, Expr]] = []
    for case in _cases(node):
        body = case.body[0] if case.body else None
        if not case.arrow or body is None or body.type != "expression_statement":
            raise Unportable(node, "switch as a value, with statements", "write it with if")
        value = expression(unit, children(body)[0])
        if case.is_default:
            made = value
        else:
            asked = name if branches or name == selected.code else f"({name} := {selected.code})"
            branches.append((_asked(unit, asked, selected.type, case.labels), value))
    if made is None or any(each.type != made.type for _, each in branches):
        raise Unportable(node, "switch as a value, of several types, or without default", "write it with if")
    code = made.code
    for asked, value in reversed(branches):
        code = conditional(value.code, asked, code)
    return Expr(code, made.type, known=made.known and all(each.known for _, each in branches))
