"""Explanations of a selector's result for a message: the value of each clause, and the values that it read.

The truth tables are those of SQL's three-valued logic (JMS 1.1 §3.8.1.2). None is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias

from pyjms.spi.selector.compile import compile_condition
from pyjms.spi.selector.headers import read
from pyjms.spi.selector.nodes import And, Node, Not, Or, names_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyjms.spi.envelope import Envelope
    from pyjms.types import Stored


_WORDS: dict[Truth, str] = {True: "true", False: "false", None: "unknown"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The value of a clause for one message: True, False or None for unknown (JMS 1.1 §3.8.1.2)."""

    text: str
    """The clause's text in the selector."""
    value: Truth
    read: tuple[tuple[str, Stored], ...]
    """The names that the clause reads, with their values; None is null. Empty if the clause has clauses of its own."""
    clauses: tuple[Explanation, ...]
    """The operands of AND, OR or NOT, in the order of the text."""

    @property
    def deciding(self) -> tuple[Explanation, ...]:
        """The smallest clauses that determine the value: in AND and OR those that have the value of the whole.

        Where an AND is false or an OR true, each of them is enough; otherwise it takes them all.
        """
        if not self.clauses:
            return (self,)
        if len(self.clauses) == 1:
            return self.clauses[0].deciding
        same = [clause for clause in self.clauses if clause.value is self.value]
        return tuple(found for clause in same for found in clause.deciding)

    def __str__(self) -> str:
        """Return the clauses as a tree, one on a line, with a mark at the deciding ones."""
        deciding = {id(clause) for clause in self.deciding}
        lines = []
        pending: list[tuple[int, Explanation]] = [(0, self)]
        while pending:
            level, clause = pending.pop()
            mark = ">" if id(clause) in deciding else " "
            # A clause may span several lines.
            text = "".join(" " if character.isspace() else character for character in clause.text)
            values = ", ".join(f"{name}: {'null' if value is None else repr(value)}" for name, value in clause.read)
            lines.append(f"{mark} {'  ' * level}{_WORDS[clause.value]:<8} {text}{values and f'    ({values})'}")
            # In reverse, as the last one of the list is the next to be written.
            pending.extend((level + 1, inner) for inner in reversed(clause.clauses))
        return "\n".join(lines)


def explain(node: Node, text: str, envelope: Envelope) -> Explanation:
    """Return the explanation of the condition `node` of the selector `text`."""
    clauses: tuple[Explanation, ...] = ()
    names: tuple[str, ...] = ()
    match node:
        case And(terms=terms):
            clauses = tuple(explain(term, text, envelope) for term in terms)
            value = conjunction(clause.value for clause in clauses)
        case Or(terms=terms):
            clauses = tuple(explain(term, text, envelope) for term in terms)
            value = disjunction(clause.value for clause in clauses)
        case Not(operand=operand):
            clauses = (explain(operand, text, envelope),)
            value = NOT[clauses[0].value]
        case _:
            names = names_in(node)
            value = _evaluate(node, envelope)
    return Explanation(
        text=text[node.start : node.end],
        value=value,
        read=tuple((name, read(envelope, name)) for name in names),
        clauses=clauses,
    )


def _evaluate(node: Node, envelope: Envelope) -> Truth:
    # The clause is compiled by itself: the explanation uses the code that runs, and the rules are written once.
    matches, fails = compile_condition(node)
    if matches(envelope):
        return True
    return False if fails(envelope) else None


Truth: TypeAlias = bool | None

_TRUE: Final = True
_FALSE: Final = False
_UNKNOWN: Final = None

AND: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _FALSE,
        (_TRUE, _UNKNOWN): _UNKNOWN,
        (_FALSE, _TRUE): _FALSE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _FALSE,
        (_UNKNOWN, _TRUE): _UNKNOWN,
        (_UNKNOWN, _FALSE): _FALSE,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

OR: Final[Mapping[tuple[Truth, Truth], Truth]] = MappingProxyType(
    {
        (_TRUE, _TRUE): _TRUE,
        (_TRUE, _FALSE): _TRUE,
        (_TRUE, _UNKNOWN): _TRUE,
        (_FALSE, _TRUE): _TRUE,
        (_FALSE, _FALSE): _FALSE,
        (_FALSE, _UNKNOWN): _UNKNOWN,
        (_UNKNOWN, _TRUE): _TRUE,
        (_UNKNOWN, _FALSE): _UNKNOWN,
        (_UNKNOWN, _UNKNOWN): _UNKNOWN,
    }
)

NOT: Final[Mapping[Truth, Truth]] = MappingProxyType({_TRUE: _FALSE, _FALSE: _TRUE, _UNKNOWN: _UNKNOWN})


def conjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a AND b AND …``."""
    return reduce(lambda left, right: AND[left, right], values)


def disjunction(values: Iterable[Truth]) -> Truth:
    """Return the value of ``a OR b OR …``."""
    return reduce(lambda left, right: OR[left, right], values)
