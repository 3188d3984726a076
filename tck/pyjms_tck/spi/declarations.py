"""A provider's declared capabilities, compared with its behaviour: both a missing and an undeclared feature are
findings.

One probe for each capability. It returns whether the feature exists; refusing by name (`CapabilityError`) and refusing
the destination mean no, any other error is the provider's mistake and is passed on.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import CapabilityError, DestinationError, ResourceError
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.sessions import ClientTags
from pyjms.spi.xid import Xid

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyjms.spi.provider import ProviderConnection
    from pyjms_tck.spi.environment import Environment

    Probe = Callable[[Environment, ProviderConnection], bool]


def topics(environment: Environment, connection: ProviderConnection) -> bool:
    topic, session = environment.topic(), connection.open_session(transacted=False)
    subscribers = [environment.receiver(session, topic) for _ in range(2)]
    # After both have subscribed: the topic keeps nothing for later subscribers.
    environment.send(environment.session(), topic, "news")
    return [subscriber.take().envelope.body for subscriber in subscribers] == ["news", "news"]


def durable_subscriptions(environment: Environment, connection: ProviderConnection) -> bool:
    topic, session = environment.topic(), connection.open_session(transacted=False)
    # A new identifier for each run: a subscription of an earlier run must not answer for this one.
    connection.set_client_id(environment.name("prober"))
    environment.receiver(session, topic, durable_name="kept").consumer.close()
    environment.send(session, topic, "missed")
    subscriber = environment.receiver(session, topic, durable_name="kept")
    found = subscriber.take()
    session.acknowledge([found])
    subscriber.consumer.close()
    session.unsubscribe("kept")
    return found.envelope.body == "missed"


def transactions(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=True)
    receiver = environment.receiver(environment.session(), queue)
    environment.send(session, queue, "dropped")
    session.rollback()
    environment.send(session, queue, "committed")
    # Behind the two others: if it arrives first, neither the rolled back nor the uncommitted message is visible.
    environment.send(environment.session(), queue, "at once")
    seen = receiver.take_texts(1)
    session.commit()
    return seen + receiver.take_texts(1) == ["at once", "committed"]


def xa(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=True)
    receiver = environment.receiver(environment.session(), queue)
    xid = Xid(1, b"probe", b"1")
    session.xa_start(xid)
    environment.send(session, queue, "prepared")
    session.xa_end(xid)
    # Behind the prepared message: if it arrives first, that one is not visible yet.
    environment.send(environment.session(), queue, "at once")
    seen = receiver.take_texts(1)
    prepared = session.xa_prepare(xid) and xid in session.xa_recover()
    session.xa_commit(xid)
    return prepared and seen + receiver.take_texts(1) == ["at once", "prepared"]


def selectors(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    for text in ("blue", "red"):
        environment.send(session, queue, text, jms_type=text)
    return environment.receiver(session, queue, "JMSType = 'red'").take_texts(1) == ["red"]


def browsing(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "first", "second")
    looked = [delivery.envelope.body for _ in range(2) for delivery in session.browse(queue, None)]
    return looked + environment.receiver(session, queue).take_texts(2) == ["first", "second"] * 3


def temporary_destinations(environment: Environment, connection: ProviderConnection) -> bool:
    session, address = connection.open_session(transacted=False), connection.create_temporary(AddressKind.QUEUE)
    environment.send(environment.session(), address, "reply")
    receiver = environment.receiver(session, address)
    found = receiver.take_texts(1)
    receiver.consumer.close()
    session.close()
    connection.delete_temporary(address)
    return address.temporary and found == ["reply"]


def no_local(environment: Environment, connection: ProviderConnection) -> bool:
    topic, session = environment.topic(), connection.open_session(transacted=False)
    subscriber = environment.receiver(session, topic, no_local=True)
    environment.send(session, topic, "own")
    environment.send(environment.session(), topic, "another's")
    return subscriber.take_texts(1) == ["another's"]


def connection_consumers(environment: Environment, connection: ProviderConnection) -> bool:
    queue, loading = environment.queue(), connection.open_session(transacted=False)
    environment.send(loading, queue, "loaded", "left")
    delivery = environment.receiver(loading, queue).take()
    working = connection.open_session(transacted=False)
    working.adopt([delivery])
    loading.close()  # adopted messages stay hidden
    working.acknowledge([delivery])
    return environment.receiver(working, queue).take_texts(1) == ["left"]


def priorities(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    for priority in (0, 9, 4):
        environment.send(session, queue, str(priority), priority=priority)
    return environment.receiver(session, queue).take_texts(3) == ["9", "4", "0"]


def expiration(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "stale", expiration_ms=environment.clock.time_ms() + 100)
    environment.send(session, queue, "fresh", expiration_ms=environment.clock.time_ms() + 10_000)
    environment.clock.advance(200)
    return environment.receiver(session, queue).take_texts(1) == ["fresh"]


def redelivery_count(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "again")
    receiver, counts = environment.receiver(session, queue), []
    for _ in range(3):
        delivery = receiver.take()
        counts.append(delivery.count)
        session.recover([delivery])
    return counts == [1, 2, 3]


def dead_letters(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "poison", "food")
    receiver = environment.receiver(session, queue)
    session.reject(receiver.take(), "it cannot be eaten")
    session.close()  # a rejected message is not redelivered
    return environment.receiver(connection.open_session(transacted=False), queue).take_texts(1) == ["food"]


def redelivery_limits(environment: Environment, connection: ProviderConnection) -> bool:
    queue = environment.queue()
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "poison")
    receiver = environment.receiver(session, queue)
    for _ in range(100):  # no client makes so many attempts
        delivery = receiver.consumer.poll()
        if delivery is None:
            return True
        session.retry(delivery, "the listener failed")
    return False


def shared_transactions(environment: Environment, connection: ProviderConnection) -> bool:
    try:
        connection.open_session(transacted=True).commit_with(object())
    except ResourceError:
        return True  # it examined the transaction, and found that it is none
    return False


def replay(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "reserved")
    groups = connection.reader_groups()
    opened = groups.open(GroupRequest(name=environment.name("group"), address=queue))
    upto = groups.reserve(opened, after=0, max_messages=2, max_bytes=None, wait_ms=0)
    group = opened.group
    # Read twice: reserved messages must be the same each time.
    readings = [groups.read(group.name, group.generation, after=0, upto=upto) for _ in range(2)]
    groups.acknowledge(opened, upto)
    groups.release(group.name)
    return [[each.envelope.body for each in reading] for reading in readings] == [["reserved"], ["reserved"]]


def stage(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=True)
    receiver = environment.receiver(environment.session(), queue)
    unit = StageName(environment.name("sink"), 1, 0, "first")
    environment.send(session, queue, "staged")
    session.stage(unit, keep_s=60)
    # Behind the staged message: if it arrives first, that one is not visible yet.
    environment.send(environment.session(), queue, "at once")
    seen = receiver.take_texts(1)
    promotions = [connection.stages().promote(unit.sink, unit.epoch, [unit]) for _ in range(2)]
    return promotions == [True, False] and seen + receiver.take_texts(1) == ["at once", "staged"]


def persistent_sessions(environment: Environment, connection: ProviderConnection) -> bool:
    name, sessions = environment.name("client"), connection.persistent_sessions()
    client, session = sessions.register(name), connection.open_session(transacted=True)
    session.tag(ClientTags(name=name, incarnation=client.incarnation, request="committed"))
    session.commit()
    session.tag(ClientTags(name=name, incarnation=client.incarnation, request="dropped"))
    session.rollback()
    tag = sessions.register(name).request_tag
    sessions.deregister(name)
    return tag == "committed"


def shared_subscriptions(environment: Environment, connection: ProviderConnection) -> bool:
    topic, session, name = environment.topic(), connection.open_session(transacted=False), environment.name("shared")
    receivers = [environment.receiver(each, topic, shared_name=name) for each in (session, environment.session())]
    found = []
    for receiver, text in zip(receivers, ("first", "second"), strict=True):
        environment.send(session, topic, text)
        found.append(receiver.take().envelope.body)
    return found == ["first", "second"]  # with a subscription of its own, the second receiver gets both


def delivery_delay(environment: Environment, connection: ProviderConnection) -> bool:
    queue, session = environment.queue(), connection.open_session(transacted=False)
    environment.send(session, queue, "later", deliver_at_ms=environment.clock.time_ms() + 200)
    environment.send(session, queue, "at once")
    receiver = environment.receiver(session, queue)
    seen = receiver.take_texts(1)
    environment.clock.advance(300)
    return seen + receiver.take_texts(1) == ["at once", "later"]


def embedded_broker(environment: Environment, connection: ProviderConnection) -> bool:
    environment.provider.stop_broker(environment.url)
    return True


PROBES: dict[Capability, Probe] = {
    Capability.TOPICS: topics,
    Capability.DURABLE_SUBSCRIPTIONS: durable_subscriptions,
    Capability.TRANSACTIONS: transactions,
    Capability.XA: xa,
    Capability.SELECTORS: selectors,
    Capability.BROWSING: browsing,
    Capability.TEMPORARY_DESTINATIONS: temporary_destinations,
    Capability.NO_LOCAL: no_local,
    Capability.CONNECTION_CONSUMERS: connection_consumers,
    Capability.PRIORITIES: priorities,
    Capability.EXPIRATION: expiration,
    Capability.REDELIVERY_COUNT: redelivery_count,
    Capability.DEAD_LETTERS: dead_letters,
    Capability.REDELIVERY_LIMITS: redelivery_limits,
    Capability.SHARED_TRANSACTIONS: shared_transactions,
    Capability.REPLAY: replay,
    Capability.STAGE: stage,
    Capability.PERSISTENT_SESSIONS: persistent_sessions,
    Capability.SHARED_SUBSCRIPTIONS: shared_subscriptions,
    Capability.DELIVERY_DELAY: delivery_delay,
    Capability.EMBEDDED_BROKER: embedded_broker,  # last, as it ends the others' broker
}


def misdeclared(environment: Environment) -> dict[Capability, str]:
    """Return each capability whose declaration is wrong, with the error."""
    findings = {}
    for capability, probe in PROBES.items():
        # A connection for each probe: the state that one leaves does not affect the next.
        with closing(environment.connect()) as connection:
            declared = capability in connection.capabilities
            refusal = "it has another effect than the capability promises"
            try:
                works = probe(environment, connection)
            except (CapabilityError, DestinationError) as error:
                works, refusal = False, error.reason
        if declared and not works:
            findings[capability] = f"{capability.name} is declared, and does not work: {refusal}"
        elif works and not declared:
            findings[capability] = f"{capability.name} works, and is not declared, so the API refuses it"
    return findings
