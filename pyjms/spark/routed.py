"""Rules applied to rows: what a routing job does on each worker, apart from Spark."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyjms.routing.applying import transformed
from pyjms.routing.compiled import CompiledRules
from pyjms.routing.files import parse_document
from pyjms.routing.reading import Problem, RulesError, read_rules
from pyjms.routing.transformers import TransformerError
from pyjms.spark.errors import RowError
from pyjms.spark.kept_rules import RulesText
from pyjms.spark.messages import envelope_of
from pyjms.spark.options import parse_address
from pyjms.spark.schema import row_of
from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.reasons import reason_of
from pyjms.spi.replay import ReservedMessage

__all__ = ["REASON", "decider_of", "routing_function"]

REASON = "pyjms_undeliverable_reason"
"""The property that says why nobody got a message."""


def decider_of(given: RulesText) -> Callable[[Envelope, Address], list[Envelope]]:
    """Return the function from a message, and where those go that nobody wants, to what the rules make of it.

    Raises `RulesError`, for rules of other brokers too: a job writes to one.
    """
    rules = read_rules(*parse_document(given.text, given.name))
    for target, spec in rules.targets.items():
        if spec.url is not None:
            problem = Problem(
                f"target {target}", "it has a url, but a job on Spark writes to the broker that it reads from", None
            )
            raise RulesError((problem,))
    compiled = CompiledRules(rules)

    def decide(envelope: Envelope, unwanted: Address) -> list[Envelope]:
        choices = compiled.decide(envelope)
        made: list[Envelope] = []
        for choice in choices:
            try:
                changed = envelope if choice.rule is None else transformed(choice.rule, envelope)
            except TransformerError as error:
                return [_aside(envelope, unwanted, str(error))]
            made.append(replace(changed, destination=rules.targets[choice.target].address))
        if not compiled.is_wanted(choices):
            made.append(_aside(envelope, unwanted, "no rule wants it"))
        return made

    return decide


def _aside(envelope: Envelope, unwanted: Address, reason: str) -> Envelope:
    return replace(envelope, destination=unwanted, properties={**envelope.properties, REASON: reason})


def routing_function(
    rules: RulesText, unwanted: str, count: Callable[[int], object] | None = None
) -> Callable[[Iterable[Any]], Iterator[tuple[Any, ...]]]:
    """Return what ``mapPartitions`` takes: from rows to tuples with the columns of `COLUMNS`, moments in microseconds.

    A row that is no message goes where those go that nobody wants, and so does a message of which a transformer makes none: it would stop the
    job for ever.
    count: hears how many tuples were made of each row. Not ``mapInArrow``, which wants pandas (PySpark 4.3).
    """

    def function(rows: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        decide, place = decider_of(rules), parse_address(unwanted)
        for row in rows:
            values = row.asDict()
            if values["bytes"] is not None:
                values["bytes"] = bytes(values["bytes"])  # Spark gives a bytearray
            found = _made_of(values, decide, place)
            if count is not None:
                count(len(found))
            yield from found

    return function


def _made_of(
    values: Mapping[str, Any], decide: Callable[[Envelope, Address], list[Envelope]], place: Address
) -> list[tuple[Any, ...]]:
    try:
        envelope = envelope_of(values)
    except RowError as error:
        return [_tuple(values, _stand_in(values, place, error.reason))]
    made = decide(envelope, place)
    try:
        return [_tuple(values, each) for each in made]
    except Exception as error:  # what a transformer has made: it may be anything
        reason = f"what the rules make of it is no message: {reason_of(error)}"
        return [_tuple(values, _aside(envelope, place, reason))]


def _tuple(values: Mapping[str, Any], made: Envelope) -> tuple[Any, ...]:
    return tuple(row_of(ReservedMessage(number=values["seq"], envelope=made, count=1, redelivered=False)).values())


def _stand_in(values: Mapping[str, Any], place: Address, reason: str) -> Envelope:
    """Return a message that has in its text, as JSON, all columns of a row that is none."""
    told = json.dumps(values, default=lambda value: b64encode(value).decode(), ensure_ascii=False)
    kept = {name: values.get(name) for name in ("message_id", "timestamp")}
    return envelope_of({**kept, "text": told, "properties": {REASON: f"no message: {reason}"}}, place)
