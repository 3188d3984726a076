"""The policy of a queue as attributes, with its type: one of this broker, or one that a package brings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, PlainValidator

from pyjms.spi.registry import PluginError
from pyjms_provider.core.policy import PolicyError, QueuePolicy
from pyjms_provider.core.queue_types import AnyQueueType, MissingQueueType, find_queue_type
from pyjms_provider.model import tree
from pyjms_provider.model.errors import InvalidAttributesError, Problem
from pyjms_provider.security.contracts import Operation, TargetKind

if TYPE_CHECKING:
    from pyjms_provider.model.attributes import Attributes, Reached

POLICY_FIELDS: Final = tuple(field.name for field in fields(QueuePolicy))


class _QueueTypeSchema:
    """Lists the names of the types."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: Any, handler: Any) -> dict[str, Any]:
        # At each call, as packages bring types.
        return {"type": "string", "enum": list(tree.types_of("queue"))}


def _read(value: Any) -> AnyQueueType:
    """Return the type of that name; a name that nobody knows becomes a `MissingQueueType`, which a new queue cannot have."""
    if isinstance(value, AnyQueueType):
        return value
    if not isinstance(value, str):
        raise ValueError(f"should be {known_queue_types()}")  # noqa: TRY004 - pydantic reports no other error
    try:
        return find_queue_type(value)
    except PluginError as error:
        return MissingQueueType(value, error.reason)


def known_queue_types() -> str:
    """Return the types of queues that there are, for errors."""
    return f"{', '.join(map(repr, tree.types_of('queue')))}, or a type that an installed package brings"


QueueTypeChoice: TypeAlias = Annotated[Any, PlainValidator(_read), _QueueTypeSchema]
"""The type of a queue as an attribute: `AnyQueueType`, read from its name."""


def policy_reaches(values: Mapping[str, Any]) -> Iterator[Reached]:
    """Yield the queues to which a policy sends messages, apart from the default queue of dead letters."""
    for name, usual in (("dead_letter", QueuePolicy().dead_letter), ("expiry_queue", None)):
        chosen = values.get(name)
        if isinstance(chosen, str) and chosen != usual:
            yield Operation.WRITE, TargetKind.QUEUE, chosen


class PolicyPattern(BaseModel):
    """A pattern for queues, or with ``topic://`` for subscriptions, and the policy of those without one of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    pattern: str
    policy: dict[str, Any]


def policy_of(attributes: Attributes, where: str, *, is_restored: bool = False) -> QueuePolicy:
    """Return the policy in the attributes; of a restored queue, paused if its type cannot be used. Raises `InvalidAttributesError`."""
    kind: Any = attributes.type
    values = {name: getattr(attributes, name) for name in POLICY_FIELDS}
    if isinstance(kind, MissingQueueType):
        if not is_restored:
            told = Problem(name="type", text=f"should be {known_queue_types()}; {kind.reason}")
            raise InvalidAttributesError(where, (told,))
        values["type"] = MissingQueueType(kind.value, kind.reason, was_paused=values["paused"])
        values["paused"] = True
    with policy_errors_as_attribute_errors(where):
        return QueuePolicy(**values)


@contextmanager
def policy_errors_as_attribute_errors(where: str) -> Iterator[None]:
    """Convert the error of an invalid policy into that of attributes. Raises `InvalidAttributesError`."""
    try:
        yield
    except PolicyError as error:
        raise _refused(where, error, "") from error


def read_policy(values: Mapping[str, Any], where: str, attribute_name: str) -> QueuePolicy:
    """Return a policy of plain values. Raises `InvalidAttributesError`."""
    try:
        return QueuePolicy.from_mapping(values)
    except PolicyError as error:
        raise _refused(where, error, attribute_name) from error


def _refused(where: str, error: PolicyError, attribute_name: str) -> InvalidAttributesError:
    first = error.reason.partition(" ")[0].partition("=")[0]
    name = attribute_name or (first if first in POLICY_FIELDS else "")
    return InvalidAttributesError(where, (Problem(name=name, text=error.reason),))


def changed_fields(policy: QueuePolicy) -> dict[str, Any]:
    """Return the fields of a policy that differ from the defaults, as plain values."""
    default = QueuePolicy()
    return {
        name: getattr(value, "value", value)
        for name in POLICY_FIELDS
        if (value := getattr(policy, name)) != getattr(default, name)
        # A queue of a missing type is paused as long as that is missing.
        and not (name == "paused" and isinstance(policy.type, MissingQueueType) and not policy.type.was_paused)
    }
