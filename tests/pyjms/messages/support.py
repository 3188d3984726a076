"""What the tests of messages share: a context without a session, a way through an envelope, and legal values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsObjectMessage
from pyjms.messages.destinations import JmsQueue, JmsTemporaryQueue, JmsTemporaryTopic, JmsTopic
from pyjms.messages.freeze import freeze, thaw
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, BodyKind, Envelope, MessageId, ObjectBody
from pyjms.types import Byte, Char, Double, Float, Int, Long, Short

M = TypeVar("M", bound=JmsMessage)

ORDERS = Address(AddressKind.QUEUE, "orders")
VECTORS = Path(__file__).parents[2] / "data" / "spec" / "conversions.json"


@cache
def conversions() -> dict[str, Any]:
    """Return the vectors of conversions."""
    return cast("dict[str, Any]", json.loads(VECTORS.read_text(encoding="utf-8")))


@dataclass
class Context:
    """What a session does for its messages, recorded."""

    trusted: frozenset[str] = frozenset()
    acknowledged: list[Message] = field(default_factory=list)

    def acknowledge(self, message: Message) -> None:
        self.acknowledged.append(message)

    def destination_of(self, address: Address) -> Destination:
        if address.temporary:
            return JmsTemporaryQueue(address) if address.kind is AddressKind.QUEUE else JmsTemporaryTopic(address)
        return JmsQueue(address.name) if address.kind is AddressKind.QUEUE else JmsTopic(address.name)


def frozen(message: JmsMessage, destination: Address = ORDERS) -> Envelope:
    """Send `message`, as far as messages go."""
    return freeze(message, destination, MessageId("ID:1"), 1_700_000_000_000, 0, 2, 4)


def received(message: M, context: Context | None = None, *, count: int = 1) -> M:
    """Send `message` and receive it."""
    delivery = Delivery(frozen(message), count, count > 1, None)
    return cast("M", thaw(delivery, context or Context()))


def from_elsewhere(data: bytes, *trusted: str) -> JmsObjectMessage:
    """Receive a pickle of unknown origin on a connection that trusts the classes `trusted`."""
    envelope = Envelope(ORDERS, None, 0, 0, 2, 4, None, None, None, {}, BodyKind.OBJECT, ObjectBody(data, local=False))
    message = thaw(Delivery(envelope, 1, False, None), Context(frozenset(trusted)))
    return cast("JmsObjectMessage", message)


def same(left: Any, right: Any) -> bool:
    """Say whether two values are one: of the same class and, for a float, with the same bits."""
    if type(left) is not type(right):
        return False
    return repr(left) == repr(right) if isinstance(left, float) else bool(left == right)


SINGLES = st.floats(width=32).map(Float)
PROPERTY_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**7), 2**7 - 1).map(Byte),
    st.integers(-(2**15), 2**15 - 1).map(Short),
    st.integers(-(2**31), 2**31 - 1).map(Int),
    st.integers(-(2**63), 2**63 - 1).map(Long),
    SINGLES,
    st.floats().map(Double),
    st.text(),
)
"""All that a property holds, each with the class of its type."""
BODY_VALUES = st.one_of(PROPERTY_VALUES, st.characters(max_codepoint=0xFFFF).map(Char), st.binary())
"""All that a map or a stream holds."""
NAMES = st.from_regex(r"[a-z_$][a-zA-Z0-9_$]{0,12}", fullmatch=True).filter(
    lambda name: (
        name.upper() not in {"NULL", "TRUE", "FALSE", "NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "ESCAPE"}
    )
)
"""Names of properties."""
