"""JMS 1.1 §3.5.9: the properties whose names begin with JMSX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyjms import Connection, IllegalArgumentException, JMSException, Queue, Session
from pyjms_tck.checks import Checks, Raised, attempt, expect
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import MakeSession, Record
from pyjms_tck.requirements import requirement

RoundTrip = Callable[[Any], Any]
_SET_BY_PROVIDERS: dict[str, Any] = {
    "JMSXUserID": "someone",
    "JMSXAppID": "something",
    "JMSXDeliveryCount": 7,
    "JMSXProducerTXID": "1",
    "JMSXConsumerTXID": "2",
    "JMSXRcvTimestamp": 3,
    "JMSXState": 2,
}


@requirement("3.5.9-a")
def test_3_5_9_a_the_metadata_lists_jmsx_properties(connection: Connection) -> None:
    names = list(connection.meta_data.jmsx_property_names)
    with Checks() as check:
        check.same("JMSX names that are listed twice", sorted({name for name in names if names.count(name) > 1}), [])
        check.same("names that are none of JMSX", [name for name in names if not name.startswith("JMSX")], [])
        enumeration = connection.getMetaData().getJMSXPropertyNames()
        check.same("hasMoreElements of the enumeration", enumeration.hasMoreElements(), bool(names))


@requirement("3.5.9-b")
def test_3_5_9_b_groups_are_supported(connection: Connection) -> None:
    names = set(connection.meta_data.jmsx_property_names)
    missing = sorted({"JMSXGroupID", "JMSXGroupSeq"} - names)
    expect("what is missing among the JMSX properties of the metadata", missing, [])


@requirement("3.5.9-c")
def test_3_5_9_c_the_group_id_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("JMSXGroupID", "group-1")
    received = roundtrip(message)
    expect("JMSXGroupID, as received", received.getStringProperty("JMSXGroupID"), "group-1")
    expect("JMSXGroupID among the property names", "JMSXGroupID" in set(received.property_names), True)


@requirement("3.5.9-d")
def test_3_5_9_d_the_group_sequence_number_arrives(session: Session, roundtrip: RoundTrip) -> None:
    message = session.create_message()
    message.set_string_property("JMSXGroupID", "group-1")
    message.set_int_property("JMSXGroupSeq", 3)
    received = roundtrip(message)
    expect("JMSXGroupSeq, as received", received.get_int_property("JMSXGroupSeq"), 3)
    expect("the class of JMSXGroupSeq", type(received.get_object_property("JMSXGroupSeq")).__name__, "Int")


@requirement("3.5.9-e")
def test_3_5_9_e_the_delivery_count_counts(make_session: MakeSession, queue: Queue, waits: Waits) -> None:
    session = make_session(mode=Session.CLIENT_ACKNOWLEDGE)
    session.create_producer(queue).send(session.create_message())
    consumer = session.create_consumer(queue)
    with Checks() as check:
        for count in (1, 2, 3):
            message = consumer.receive(waits.something_ms)
            assert message is not None, f"delivery {count} of a message that was not acknowledged did not come"
            seen = message.get_object_property("JMSXDeliveryCount")
            check.same(f"JMSXDeliveryCount at delivery {count}", seen, count)
            check.same("its class", type(seen).__name__, "Int")
            check.same("whether it exists", message.property_exists("JMSXDeliveryCount"), True)
            check.same("how often it is enumerated", list(message.property_names).count("JMSXDeliveryCount"), 1)
            session.recover()


@requirement("3.5.9-f")
def test_3_5_9_f_a_client_that_sets_properties_of_the_provider(session: Session, record: Record) -> None:
    refused = []
    with Checks() as check:
        for name, value in _SET_BY_PROVIDERS.items():
            outcome = attempt(session.create_message().set_object_property, name, value)
            if isinstance(outcome, Raised):
                refused.append(f"{name} ({type(outcome.error).__name__})")
                is_meant = isinstance(outcome.error, JMSException | IllegalArgumentException)
                check.same(f"whether the error for {name} is one of JMS ({outcome})", is_meant, True)
            else:
                check.same(f"what setting {name} returns", outcome, None)
    record(f"a client that sets properties of the provider is refused for: {', '.join(refused) or 'none of them'}")
