"""Properties that no JMS client may set, as messages of other clients, other providers and older stores have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyjms.errors import MessageFormatException, MessageNotWriteableException
from pyjms.messages.bodies import JmsTextMessage
from pyjms.messages.freeze import thaw
from pyjms.spi.delivery import Delivery
from pyjms.types import Int, Short, Stored
from tests.pyjms.messages.support import Context, frozen, received

HIDDEN: dict[str, Stored] = {
    **dict.fromkeys(("a b", "a-b", "1x", "TRUE", "like", "JMSPriority", "JMSOther", "JMSXOther", "JMSX", "JMS"), "x"),
    **dict.fromkeys(("content-type", "reply-to", "\0persistent", "x-tenant", ""), 5),
}
SHOWN: dict[str, Stored] = {
    "a": "x",
    "JMS_vendor": Short(1),
    "JMSXGroupID": "g",
    "JMSXGroupSeq": 3,
    "gr\u00f6\u00dfe": None,
}
OF_PROVIDERS: dict[str, Stored] = {"JMSXUserID": "alice", "JMSXState": 2, "JMS_pyjms_deadReason": "x"}


def arrived(properties: dict[str, Stored], count: int = 1) -> JmsTextMessage:
    envelope = replace(frozen(JmsTextMessage("x")), properties=properties)
    return cast("JmsTextMessage", thaw(Delivery(envelope, count, count > 1, None), Context()))


def copy_of(message: JmsTextMessage) -> JmsTextMessage:
    copy = JmsTextMessage()
    for name in message.property_names:
        copy.set_object_property(name, message.get_object_property(name))
    return copy


def test_a_message_shows_what_jms_knows_and_hides_the_rest() -> None:
    message = arrived({**HIDDEN, **SHOWN, **OF_PROVIDERS})
    assert sorted(message.property_names) == sorted([*SHOWN, *OF_PROVIDERS, "JMSXDeliveryCount"])
    for name in HIDDEN:
        assert not message.property_exists(name)
        for getter in ("object", "string"):
            assert getattr(message, f"get_{getter}_property")(name) is None
    assert message.get_int_property("JMSXGroupSeq") == 3
    assert message.get_string_property("JMSXUserID") == "alice"


def test_a_copy_of_all_properties_has_those_that_clients_set() -> None:
    copy = copy_of(arrived({**HIDDEN, **SHOWN, **OF_PROVIDERS}))
    assert frozen(copy).properties == SHOWN


@example("JMSXGroupSeq", "3")
@example("JMSXGroupID", 5)
@example("JMS_pyjms_deliverAt", "soon")
@given(
    st.one_of(st.text(), st.sampled_from([*HIDDEN, *OF_PROVIDERS, *SHOWN, "JMSXDeliveryCount"])),
    st.one_of(st.text(), st.integers(-(2**31), 2**31 - 1), st.booleans(), st.none()),
)
def test_copying_all_properties_never_raises(name: str, value: Any) -> None:
    copy_of(arrived({name: value}))


def test_what_is_hidden_stays_with_a_message_that_is_sent_on() -> None:
    message = arrived({**HIDDEN, **SHOWN})
    assert frozen(message).properties == {**HIDDEN, **SHOWN}
    message.clear_properties()
    assert frozen(message).properties == {}


def test_what_describes_the_body_goes_with_it() -> None:
    message = arrived({"content-type": "application/json", "content-encoding": "gzip", "x-a": "1", "a": 1})
    message.clear_body()
    assert frozen(message).properties == {"x-a": "1", "a": 1}
    with pytest.raises(MessageNotWriteableException):
        message.set_int_property("a", 2)


@pytest.mark.parametrize("forged", ["77", 77, Short(77), True])
def test_the_delivery_count_is_that_of_the_delivery(forged: Any) -> None:
    message = arrived({"JMSXDeliveryCount": forged, "a": 1}, count=3)
    assert message.get_object_property("JMSXDeliveryCount") == Int(3)
    assert (message.get_int_property("JMSXDeliveryCount"), message.get_string_property("JMSXDeliveryCount")) == (3, "3")
    assert list(message.property_names).count("JMSXDeliveryCount") == 1
    assert frozen(message).properties == {"a": 1}


@pytest.mark.parametrize("name", [*OF_PROVIDERS, "JMSXDeliveryCount"])
def test_set_object_property_leaves_to_the_provider_what_it_sets(name: str) -> None:
    message = JmsTextMessage()
    message.set_object_property(name, 5)
    assert frozen(message).properties == {}
    with pytest.raises(MessageFormatException, match="set by the provider"):
        message.set_int_property(name, 5)
    with pytest.raises(MessageNotWriteableException):
        received(message).set_object_property(name, 5)
