"""Filters of a table as a message selector (JMS 1.1 §3.8). Pure; what cannot be said is left out, as Spark filters again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyjms.spi.selector import quote

__all__ = ["Condition", "selector_of"]

_TEXTS: Mapping[str, str] = {
    "type": "JMSType",
    "correlation_id": "JMSCorrelationID",
    "message_id": "JMSMessageID",
    "delivery_mode": "JMSDeliveryMode",
}
_NUMBERS: Mapping[str, str] = {"priority": "JMSPriority", "timestamp": "JMSTimestamp"}
_MOST = 32_000
"""Characters of all clauses: a selector has 65,536 at most, and what a user wrote with the option `selector` stands in it, too."""
_COMPARISONS = frozenset({"=", "<", "<=", ">", ">="})


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One filter: a column, what is asked of it, and the value."""

    operator: str
    """``=``, ``<``, ``<=``, ``>``, ``>=``, ``IN``, ``STARTS``, ``IS NOT NULL``; anything else is not understood."""
    column: str
    value: Any = None


def selector_of(conditions: Iterable[Condition]) -> str | None:
    """Return a selector that chooses at least what all `conditions` choose; None: it would choose everything."""
    clauses: list[str] = []
    room = _MOST
    for each in conditions:
        clause = _clause(each)
        if clause is not None and len(clause) <= room:
            clauses.append(clause)
            room -= len(clause)
    return " AND ".join(clauses) or None


def _clause(condition: Condition) -> str | None:
    if condition.column in _TEXTS:
        return _text_clause(_TEXTS[condition.column], condition)
    if condition.column in _NUMBERS:
        return _number_clause(_NUMBERS[condition.column], condition)
    return None


def _text_clause(name: str, condition: Condition) -> str | None:
    value = condition.value
    if condition.operator == "IS NOT NULL":
        # the reverse does not hold: a column is NULL, too, where it cannot hold the header
        return f"{name} IS NOT NULL"
    if condition.operator == "=" and isinstance(value, str):  # selectors know no order of texts
        return f"{name} = {quote(value)}"
    if condition.operator == "IN" and _all(value, str):
        return f"{name} IN ({', '.join(map(quote, value))})"
    if condition.operator == "STARTS" and isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{name} LIKE {quote(escaped + '%')} ESCAPE '\\'"
    return None


def _number_clause(name: str, condition: Condition) -> str | None:
    if condition.operator == "IN" and _all(condition.value, int):
        return f"({' OR '.join(f'{name} = {value}' for value in condition.value)})"
    if condition.operator not in _COMPARISONS:
        return None
    value = condition.value
    if isinstance(value, datetime):
        return _moment_clause(name, condition.operator, value)
    return f"{name} {condition.operator} {value}" if type(value) is int else None


def _moment_clause(name: str, operator: str, value: datetime) -> str | None:
    """Compare with a whole millisecond, so that nothing is left out that the column would have chosen."""
    if value.tzinfo is None or value.timestamp() < 0:
        return None
    low = int(value.timestamp() * 1000)
    if operator in ("<", "<="):
        return f"{name} <= {low + 1}"
    if operator in (">", ">="):
        return f"{name} >= {max(0, low - 1)}"
    return f"{name} BETWEEN {max(0, low - 1)} AND {low + 1}"


def _all(values: Any, kind: type) -> bool:
    return isinstance(values, (tuple, list)) and bool(values) and all(type(value) is kind for value in values)
