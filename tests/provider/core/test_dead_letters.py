"""What a message looks like that was set aside, and on its way back."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.types import Long
from pyjms_provider.core.message.entry import QueueEntry
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.message.reference import MessageReference, ReferenceId
from pyjms_provider.core.queue.dead_letters import DeadEntry, DeadKind, dead_letter, origin_of, replayed
from tests.provider.helpers import NEWS, make_envelope


def dead(**changes: Any) -> DeadEntry:
    reference = MessageReference(ReferenceId(1), None, 0, 4, False)
    entry = QueueEntry(None, reference, MessageState.ABSENT)  # type: ignore[arg-type] # a letter asks no queue
    values: dict[str, Any] = {
        "entry": entry,
        "kind": DeadKind.REJECTED,
        "reason": "no such customer",
        "delivery_count": 3,
        "consumer": "shop/1",
        "subscription": None,
        "at_ms": 77,
    }
    return DeadEntry(**{**values, **changes})


def test_a_dead_letter_keeps_the_message_and_says_why() -> None:
    envelope = make_envelope("a", destination=NEWS, properties={"n": 1}, expiration_ms=5)
    letter = dead_letter(envelope, dead(), "DLQ", 77)
    assert (letter.message_id, letter.body) == (envelope.message_id, "a")
    assert letter.destination == Address(AddressKind.QUEUE, "DLQ")
    assert letter.expiration_ms == 0
    assert letter.properties == {
        "n": 1,
        "JMS_pyjms_deadKind": "rejected",
        "JMS_pyjms_deadReason": "no such customer",
        "JMS_pyjms_deadDestination": "topic://news",
        "JMS_pyjms_deadCount": 3,
        "JMS_pyjms_deadConsumer": "shop/1",
        "JMS_pyjms_deadTime": 77,
    }
    assert type(letter.properties["JMS_pyjms_deadTime"]) is Long
    assert envelope.properties == {"n": 1}, "the envelope that others share is as it was"


def test_a_letter_that_dies_again_remembers_where_it_was_first_sent_to() -> None:
    first = dead_letter(make_envelope(), dead(subscription="topic://news#ann/daily"), "DLQ", 1)
    again = dead_letter(first, dead(reason="second", consumer=None, subscription="other"), "DLQ2", 2)
    assert again.properties["JMS_pyjms_deadDestination"] == "queue://orders"
    assert again.properties["JMS_pyjms_deadSubscription"] == "topic://news#ann/daily"
    assert again.properties["JMS_pyjms_deadReason"] == "second"


@pytest.mark.parametrize(
    "address",
    [
        Address(AddressKind.QUEUE, "orders://odd"),
        Address(AddressKind.TOPIC, "news"),
        Address(AddressKind.QUEUE, "t-1", temporary=True),
    ],
)
def test_a_letter_goes_back_as_it_was_sent(address: Address) -> None:
    envelope = make_envelope("a", destination=address, properties={"n": 1}, expiration_ms=5)
    letter = dead_letter(envelope, dead(subscription="s"), "DLQ", 77)
    origin = origin_of(letter.properties)
    assert origin == (address, "s")
    back = replayed(letter, address)
    assert (back.destination, back.properties, back.expiration_ms) == (address, {"n": 1}, 0)


@pytest.mark.parametrize("said", [None, 1, "", "nonsense", "queue://", "heap://a", "temp-://a", "Queue://a"])
def test_a_message_that_is_no_dead_letter_has_no_origin(said: str | int | None) -> None:
    properties = {"n": 1} if said is None else {"JMS_pyjms_deadDestination": said}
    assert origin_of(properties) is None
    letter = dead_letter(make_envelope("a", properties=properties), dead(), "DLQ", 77)
    assert origin_of(letter.properties) == (Address(AddressKind.QUEUE, "orders"), None), (
        "what a sender made up is not kept"
    )
