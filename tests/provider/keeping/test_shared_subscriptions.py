"""Shared subscriptions against a naive model: whatever the order of events, each message is with one consumer of each subscription.

Consumers are on several connections, and connections, and the broker, may end at any moment. Nothing is lost or doubled, and what
somebody may have seen comes with its mark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import SubscriptionInUseError
from pyjms.spi.provider import ProviderConsumer
from pyjms_provider.clients.vm import VmConnection, VmSession
from pyjms_provider.core.message.message_state import MessageState
from tests.provider.keeping.site import NEWS, Site, consume, text

_CLIENT_IDS = (None, None, None, "shop")
"""Of each connection: the first three share their names, the fourth has names of its own."""
_PLACES = st.integers(0, len(_CLIENT_IDS) - 1)
_NAMES = st.sampled_from(["shared", "durable"])


_Key: TypeAlias = tuple[str, str | None]
"""The name of a subscription, and the client id that it belongs to."""


@dataclass(eq=False)
class _Sent:
    number: int
    seen: bool = False
    """Whether a consumer has had it: then it comes with its mark."""


@dataclass(eq=False)
class _Consumer:
    connection: int
    name: str
    session: VmSession
    consumer: ProviderConsumer
    is_transacted: bool
    holds: list[tuple[_Sent, Delivery]] = field(default_factory=list)

    @property
    def key(self) -> _Key:
        return self.name, _CLIENT_IDS[self.connection]


class SharedSubscriptions(RuleBasedStateMachine):
    """The subscription ``shared`` is not durable, ``durable`` is."""

    def __init__(self) -> None:
        super().__init__()
        self.site = Site()
        self.connections: list[VmConnection] = []
        self.waiting: dict[_Key, list[_Sent]] = {}
        """What each subscription has and nobody holds; a key that is missing: there is no such subscription."""
        self.consumers: list[_Consumer] = []
        self.sent = 0
        self.was_killed = False
        self._connect()

    def teardown(self) -> None:
        for connection in self.connections:
            connection.close()
        self._ended(list(self.consumers))
        self._connect()
        # What the model says is left is there, and nothing else.
        for name, client_id in list(self.waiting):
            self._attach(_CLIENT_IDS.index(client_id), name)
            while self._poll(self.consumers[-1]):
                pass
        self.site.stop()

    # Events

    @rule(at=_PLACES, name=_NAMES, is_transacted=st.booleans())
    def attach(self, at: int, name: str, is_transacted: bool) -> None:
        self._attach(at, name, is_transacted=is_transacted)

    @rule(at=_PLACES)
    def send(self, at: int) -> None:
        self.sent += 1
        self.site.send(str(self.sent), self.connections[at].open_session(transacted=False), NEWS)
        for waiting in self.waiting.values():
            waiting.append(_Sent(self.sent))

    @rule(at=_PLACES, commits=st.booleans())
    def send_in_a_transaction(self, at: int, commits: bool) -> None:
        session = self.connections[at].open_session(transacted=True)
        self.site.send(str(self.sent + 1), session, NEWS)
        if not commits:
            session.rollback()
            return
        session.commit()
        self.sent += 1
        for waiting in self.waiting.values():
            waiting.append(_Sent(self.sent))

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def receive(self, data: st.DataObject) -> None:
        self._poll(data.draw(st.sampled_from(self.consumers)))

    @precondition(lambda self: any(each.holds for each in self.consumers))
    @rule(data=st.data(), gives_back=st.booleans())
    def settle(self, data: st.DataObject, gives_back: bool) -> None:
        consumer = data.draw(st.sampled_from([each for each in self.consumers if each.holds]))
        deliveries = [delivery for _, delivery in consumer.holds]
        if not gives_back:
            consumer.session.acknowledge(deliveries)
        if consumer.is_transacted:
            (consumer.session.rollback if gives_back else consumer.session.commit)()
        if gives_back:
            consumer.session.recover(deliveries)
            self._returned(consumer)
        consumer.holds.clear()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def close_one(self, data: st.DataObject) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        consumer.session.close()
        self._ended([consumer])

    @rule(at=_PLACES)
    def lose_a_connection(self, at: int) -> None:
        self.connections[at].close()
        self._ended([each for each in self.consumers if each.connection == at])
        self.connections[at] = self.site.connect(_CLIENT_IDS[at])

    @rule(is_killed=st.booleans())
    def restart_the_broker(self, is_killed: bool) -> None:
        (self.site.crash if is_killed else self.site.restart)()
        self._ended(list(self.consumers))
        # Not all that waited was delivered, but a killed broker knows only up to which message somebody had some.
        self.was_killed = self.was_killed or is_killed
        self._connect()

    @rule(at=_PLACES, name=_NAMES)
    def unsubscribe(self, at: int, name: str) -> None:
        key, session = (name, _CLIENT_IDS[at]), self.connections[at].open_session(transacted=False)
        if name == "shared" or key not in self.waiting:
            return
        if any(each.key == key for each in self.consumers):
            try:
                session.unsubscribe(name)
            except SubscriptionInUseError:
                return
            raise AssertionError("a subscription with consumers was deleted")
        session.unsubscribe(name)
        del self.waiting[key]

    @invariant()
    def the_broker_has_what_the_model_has(self) -> None:
        held = sum(len(each.holds) for each in self.consumers)
        host = self.site.broker.virtual_host
        there = [*host.subscriptions.durable().values(), *host.subscriptions.shared().values()]
        assert len(there) == len(self.waiting)
        kept = sum(each.count(state) for each in there for state in (MessageState.NEW, MessageState.DELIVERED))
        assert kept == held + sum(map(len, self.waiting.values()))

    # The model

    def _connect(self) -> None:
        self.connections = [self.site.connect(client_id) for client_id in _CLIENT_IDS]

    def _attach(self, at: int, name: str, *, is_transacted: bool = False) -> None:
        session = self.connections[at].open_session(transacted=is_transacted)
        if name == "shared":
            consumer = consume(session, NEWS, shared_name=name)
        else:
            consumer = consume(session, NEWS, durable_name=name, is_shared=True)
        self.waiting.setdefault((name, _CLIENT_IDS[at]), [])
        self.consumers.append(_Consumer(at, name, session, consumer, is_transacted))

    def _poll(self, consumer: _Consumer) -> bool:
        waiting = self.waiting[consumer.key]
        delivery = consumer.consumer.poll()
        if not waiting:
            assert delivery is None
            return False
        first = min(waiting, key=lambda each: each.number)
        assert delivery is not None
        assert text(delivery) == str(first.number)
        assert delivery.redelivered or not first.seen
        assert self.was_killed or delivery.redelivered == first.seen
        waiting.remove(first)
        first.seen = True
        consumer.holds.append((first, delivery))
        return True

    def _returned(self, consumer: _Consumer) -> None:
        key = consumer.key
        self.waiting[key] += [sent for sent, _ in consumer.holds]

    def _ended(self, ended: list[_Consumer]) -> None:
        for each in ended:
            self._returned(each)
            self.consumers.remove(each)
        left = {each.key for each in self.consumers}
        for key in list(self.waiting):
            if key[0] == "shared" and key not in left:
                del self.waiting[key]


TestSharedSubscriptions = SharedSubscriptions.TestCase
TestSharedSubscriptions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
