from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.forwarding.sites import duplicate_property_of, is_refusal
from pyjms.forwarding.unit import FORWARD_ID, forward_id, has_lasting_id, hops_of, marked, undeliverable
from pyjms.spi import Address, AddressKind, Envelope, MessageId
from pyjms.spi.errors import ConnectionLostError, ProviderError, ResourceError
from tests.pyjms.routing.messages import message

INBOX = Address(AddressKind.QUEUE, "inbox")


def with_id(text: str | None, **properties: str) -> Envelope:
    return replace(message("body"), message_id=None if text is None else MessageId(text), properties=properties)


def test_the_id_is_the_same_each_time_and_another_for_each_route_label_and_message() -> None:
    ids = [
        forward_id("r", "", with_id("ID:1")),
        forward_id("s", "", with_id("ID:1")),
        forward_id("r", "a", with_id("ID:1")),
        forward_id("r", "", with_id("ID:2")),
        forward_id("r", "", with_id("ID:1", pyjms_forward_id="q:1")),
    ]
    assert len(set(ids)) == 5
    assert ids[0] == forward_id("r", "", with_id("ID:1"))


@given(st.lists(st.tuples(st.text(), st.text(), st.text(min_size=1)), min_size=2, max_size=2, unique=True))
def test_no_two_identities_run_together(parts: list[tuple[str, str, str]]) -> None:
    first, second = (forward_id("r", label, with_id(own, pyjms_forward_id=before)) for label, before, own in parts)
    assert first != second


def test_what_rabbitmq_makes_up_for_a_delivery_is_no_id() -> None:
    assert has_lasting_id(with_id("ID:host-1"))
    assert not has_lasting_id(with_id("T_1@@session-abc@@7"))
    assert not has_lasting_id(with_id(None))
    assert forward_id("r", "", with_id("T_1@@session-abc@@7")) is None


def test_what_a_provider_said_stays_behind_and_the_origin_is_that_of_the_first_site() -> None:
    first = with_id(
        "ID:1", JMS_pyjms_duplicateId="own", JMSXDeliveryCount="2", JMSXGroupID="g", _AMQ_DUPL_ID="x", a="1"
    )
    sent = marked(first, first, INBOX, "r:1", "_AMQ_DUPL_ID")
    assert {"JMS_pyjms_duplicateId", "JMSXDeliveryCount"}.isdisjoint(sent.properties)
    assert (sent.properties["_AMQ_DUPL_ID"], sent.properties["JMSXGroupID"], sent.properties["a"]) == ("r:1", "g", "1")
    again = marked(sent, replace(sent, message_id=MessageId("ID:other")), INBOX, "s:1", None)
    assert again.properties["pyjms_origin_id"] == "ID:1"
    assert (again.properties[FORWARD_ID], hops_of(again)) == ("s:1", 2)
    assert "_AMQ_DUPL_ID" not in again.properties


def test_a_message_that_was_set_aside_can_be_sent_again_without_a_trace_of_it() -> None:
    aside = undeliverable(with_id("ID:1", a="1"), INBOX, "r", "t", "why")
    assert aside.properties["pyjms_undeliverable_reason"] == "why"
    assert forward_id("r", "", aside) == forward_id("r", "", with_id("ID:1"))
    assert "pyjms_undeliverable_reason" not in marked(aside, aside, INBOX, "r:1", None).properties


@pytest.mark.parametrize(
    ("name", "found_by"),
    [
        ("pyjms embedded broker", "JMS_pyjms_duplicateId"),
        ("pyjms broker", "JMS_pyjms_duplicateId"),
        ("ActiveMQ Artemis over STOMP", "_AMQ_DUPL_ID"),
        ("ActiveMQ Classic over STOMP", None),
        ("RabbitMQ over STOMP", None),
    ],
)
def test_who_finds_duplicates_and_how(name: str, found_by: str | None) -> None:
    assert duplicate_property_of(name) == found_by


def test_an_error_of_the_site_is_no_refusal_of_the_message() -> None:
    assert is_refusal(ProviderError("bad"))
    assert not is_refusal(ResourceError("full"))
    assert not is_refusal(ConnectionLostError("gone"))


@pytest.mark.parametrize("said", ["\u00b2", "9" * 5_000, "-1", "1.0", "", True, 1.5, -1, 2**62])
def test_a_number_of_hops_that_is_none_counts_as_no_hop(said: str | float) -> None:
    assert hops_of(replace(with_id("a"), properties={"pyjms_forward_hops": said})) == 0


@pytest.mark.parametrize("said", ["3", 3])
def test_a_number_of_hops_may_come_as_text(said: str | int) -> None:
    assert hops_of(replace(with_id("a"), properties={"pyjms_forward_hops": said})) == 3
