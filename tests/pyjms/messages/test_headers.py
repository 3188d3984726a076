from __future__ import annotations

from typing import Any

import pytest

from pyjms.api.destination import Destination, Queue
from pyjms.errors import InvalidDestinationException, MessageFormatException
from pyjms.messages.bodies import JmsTextMessage
from pyjms.messages.destinations import JmsQueue, JmsTemporaryQueue, JmsTopic
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from tests.pyjms.messages.support import Context, frozen, received

FIELDS: dict[str, Any] = {
    "jms_message_id": "ID:7",
    "jms_timestamp": 1_700_000_000_000,
    "jms_correlation_id": "request 7",
    "jms_reply_to": JmsQueue("replies"),
    "jms_destination": JmsTopic("news"),
    "jms_delivery_mode": 1,
    "jms_redelivered": True,
    "jms_type": "order",
    "jms_expiration": 1_700_000_001_000,
    "jms_priority": 9,
}
WRONG: dict[str, tuple[Any, ...]] = {
    "jms_message_id": (7, b"ID:7"),
    "jms_timestamp": ("7", 7.0, None, True, 2**63),
    "jms_correlation_id": (7, b"x"),
    "jms_correlation_id_as_bytes": (7, "x"),
    "jms_destination": ("orders", 7),
    "jms_delivery_mode": ("2", None, True),
    "jms_redelivered": (1, None, "true"),
    "jms_type": (7,),
    "jms_expiration": ("7", None),
    "jms_priority": ("4", None, 4.0),
}


def test_a_new_message_has_the_default_values() -> None:
    message = JmsTextMessage()
    for name in ("message_id", "correlation_id", "correlation_id_as_bytes", "reply_to", "destination", "type"):
        assert getattr(message, f"jms_{name}") is None
    assert (message.jms_timestamp, message.jms_expiration, message.jms_redelivered) == (0, 0, False)
    assert message.jms_delivery_mode == JmsTextMessage.DEFAULT_DELIVERY_MODE
    assert message.jms_priority == JmsTextMessage.DEFAULT_PRIORITY


@pytest.mark.realises("BOIL-MSG-1", "BOIL-HDR-16", "BOIL-HDR-14")
@pytest.mark.parametrize("name", FIELDS)
def test_header_fields_can_be_set_on_every_message(name: str) -> None:
    for message in (JmsTextMessage(), received(JmsTextMessage())):
        setattr(message, name, FIELDS[name])
        assert getattr(message, name) == FIELDS[name]


def test_header_fields_have_java_names() -> None:
    message = received(JmsTextMessage())
    message.setJMSPriority(7)
    message.setJMSReplyTo(JmsQueue("replies"))
    assert (message.getJMSPriority(), message.getJMSReplyTo()) == (7, JmsQueue("replies"))
    assert message.getJMSDestination() == JmsQueue("orders")
    assert message.getJMSRedelivered() is False


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_values_of_another_type_are_refused(name: str, value: Any) -> None:
    message = JmsTextMessage()
    before = getattr(message, name)
    with pytest.raises(MessageFormatException, match="takes"):
        setattr(message, name, value)
    assert getattr(message, name) == before


@pytest.mark.parametrize("value", ["orders", 7, Address(AddressKind.QUEUE, "orders")])
def test_a_reply_goes_to_a_destination(value: Any) -> None:
    message = JmsTextMessage()
    with pytest.raises(InvalidDestinationException):
        message.jms_reply_to = value


@pytest.mark.realises("BOIL-HDR-8")
def test_what_the_client_sets_arrives() -> None:
    message = JmsTextMessage("x")
    message.jms_type = "order"
    message.jms_correlation_id = "request 7"
    message.jms_reply_to = JmsTemporaryQueue(Address(AddressKind.QUEUE, "t1", temporary=True))
    arrived = received(message)
    assert (arrived.jms_type, arrived.jms_correlation_id) == ("order", "request 7")
    assert arrived.jms_reply_to == message.jms_reply_to
    assert arrived.jms_reply_to is arrived.jms_reply_to


@pytest.mark.realises("BOIL-HDR-1", "BOIL-HDR-14")
def test_what_send_decides_does_not_come_from_the_client() -> None:
    message = JmsTextMessage()
    for name, value in FIELDS.items():
        setattr(message, name, value)
    envelope = frozen(message)
    assert envelope.destination == Address(AddressKind.QUEUE, "orders")
    assert (envelope.message_id, envelope.timestamp_ms, envelope.expiration_ms) == ("ID:1", 1_700_000_000_000, 0)
    assert (envelope.delivery_mode, envelope.priority) == (2, 4)
    assert (envelope.correlation_id, envelope.jms_type) == ("request 7", "order")
    assert received(message).jms_redelivered is False


@pytest.mark.realises("BOIL-HDR-1", "BOIL-HDR-13")
def test_a_sent_message_shows_what_the_send_used() -> None:
    message = JmsTextMessage()
    message.mark_sent(JmsQueue("orders"), "ID:2", 5, 6, 1, 8, 9)
    assert (message.jms_destination, message.jms_message_id) == (JmsQueue("orders"), "ID:2")
    assert (message.jms_timestamp, message.jms_expiration, message.jms_delivery_mode, message.jms_priority) == (
        5,
        6,
        1,
        8,
    )
    assert message.jms_delivery_time == 9


def test_correlation_ids_as_text_and_as_bytes() -> None:
    message = JmsTextMessage()
    message.jms_correlation_id = "größe"
    assert message.jms_correlation_id_as_bytes == "größe".encode()
    buffer: Any = bytearray(b"\xff\x00id")
    message.setJMSCorrelationIDAsBytes(buffer)
    buffer[:] = b"...."
    assert message.jms_correlation_id_as_bytes == b"\xff\x00id"
    assert message.getJMSCorrelationID() == "\\xff\x00id"
    assert received(message).getJMSCorrelationIDAsBytes() == b"\xff\x00id"
    message.setJMSCorrelationIDAsBytes(None)
    assert message.getJMSCorrelationID() is None
    message.setJMSCorrelationID("\ud800")
    assert message.jms_correlation_id_as_bytes == b"\xed\xa0\x80"


def test_a_reply_may_go_to_a_queue_of_another_make() -> None:
    class Foreign(Queue):
        def getQueueName(self) -> str:
            return "replies"

    class Neither(Destination):
        pass

    message = JmsTextMessage()
    queue = Foreign()
    message.jms_reply_to = queue
    assert message.jms_reply_to is queue
    assert received(message).jms_reply_to == JmsQueue("replies")
    with pytest.raises(InvalidDestinationException, match="Neither is neither"):
        message.jms_reply_to = Neither()


@pytest.mark.realises("BOIL-HDR-7")
def test_redelivery_shows() -> None:
    envelope = frozen(JmsTextMessage())
    from pyjms.messages.freeze import thaw

    first, second = (thaw(Delivery(envelope, count, count > 1, None), Context()) for count in (1, 2))
    assert (first.jms_redelivered, second.jms_redelivered) == (False, True)
    assert second.get_int_property("JMSXDeliveryCount") == 2
