"""What owners, operators and the housekeeper do with a broker, each with what is there before and after: for tests that do it while the store cannot be written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyjms.spi.clock import SystemClock
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import DELIVER_AT, Address, AddressKind
from pyjms.spi.errors import ProviderError
from pyjms.spi.provider import ProviderConsumer
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms.types import Long
from pyjms_provider.broker import EmbeddedBroker, running_broker
from pyjms_provider.clients.vm import VmConnection, VmSession
from pyjms_provider.core.host.admission import DUPLICATE_ID
from pyjms_provider.core.host.virtual_host import VirtualHost
from pyjms_provider.core.message.message_state import MessageState
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.core.queue.queue import Queue
from pyjms_provider.core.transaction.branches import BranchState
from pyjms_provider.queue_manager import QueueManager
from tests.provider.helpers import make_envelope
from tests.provider.keeping.site import consume, take_all

__all__ = ["CHORES", "Chore", "Place"]

NAME: Final = "vm://chores"
LATER_MS: Final = 10_000


class MovedClock(SystemClock):
    """The system's, which a test may set forward."""

    ahead_ms = 0

    def time_ms(self) -> int:
        return super().time_ms() + self.ahead_ms


class _Nobody:
    def on_exception(self, error: ProviderError) -> None:
        """Hear that the broker has ended."""


class Place:
    """A broker on a store, in this process."""

    def __init__(self, store: str) -> None:
        """`store`: its URL, as the value of an option."""
        self.clock = MovedClock()
        self.queues = QueueManager.start(f"{NAME}?store={store}&keep_free=0", QueuePolicies(), self.clock)
        broker = running_broker("chores")
        assert broker is not None
        self.broker: EmbeddedBroker = broker
        self.held: dict[str, tuple[VmSession, ProviderConsumer, list[Delivery]]] = {}
        self._session = self.session()

    @property
    def host(self) -> VirtualHost:
        return self.broker.virtual_host

    def stop(self) -> None:
        find_provider("vm").stop_broker(ProviderUrl.parse(NAME))

    def session(self, client_id: str | None = None, *, transacted: bool = False) -> VmSession:
        connection = VmConnection(self.broker, _Nobody())
        if client_id is not None:
            connection.set_client_id(client_id)
        connection.start()
        return connection.open_session(transacted=transacted)

    def send(self, queue: str, *texts: str, session: VmSession | None = None, **fields: Any) -> None:
        """Send messages, PERSISTENT ones but for those that begin with t."""
        address = Address(AddressKind.QUEUE, queue)
        for text in texts:
            envelope = make_envelope(text, destination=fields.get("to", address))
            mode = 1 if text.startswith("t") else 2
            more = {name: value for name, value in fields.items() if name != "to"}
            (session or self._session).send(replace(envelope, delivery_mode=mode, **more))

    def texts(self, queue: str) -> list[str]:
        if self.host.find_queue(queue) is None:
            return []
        return [str(each.body) for each in self.queues.browse(queue)]

    def count(self, queue: str) -> int:
        return self.host.queue(queue).count(MessageState.NEW)

    def policy(self, queue: str) -> QueuePolicy | None:
        found = self.host.find_queue(queue)
        return None if found is None else found.policy

    def hold(self, queue: str, *, transacted: bool = False) -> None:
        """Have a session hold all messages of a queue."""
        session = self.session(transacted=transacted)
        consumer = consume(session, Address(AddressKind.QUEUE, queue))
        self.held[queue] = session, consumer, _seen(consumer)

    def give_back(self, queue: str) -> None:
        """Have the session give back what it holds, or what it gets now."""
        session, consumer, deliveries = self.held[queue]
        session.recover(deliveries or _seen(consumer))
        deliveries.clear()

    def reject(self, queue: str) -> None:
        session, consumer, deliveries = self.held[queue]
        deliveries[:] = [*deliveries, *_seen(consumer)]
        while deliveries:
            session.reject(deliveries.pop(), "it is bad")

    def prepare(self, number: int, queue: str) -> None:
        """Have a branch prepared that sends to a queue."""
        session, xid = self.session(transacted=True), _xid(number)
        session.xa_start(xid)
        self.send(queue, "bill", session=session)
        session.xa_end(xid)
        assert session.xa_prepare(xid)

    def branch(self, number: int) -> str | None:
        states = {each.xid: each.state for each in self.host.branches.reports()}
        state = states.get(_xid(number))
        return None if state is None else str(BranchState(state).name)

    def run_due(self, queue: str, ahead_ms: int) -> None:
        """Let so much time pass, and the housekeeper come to a queue."""
        self.clock.ahead_ms += ahead_ms
        self.host.queue(queue).run_due(self.clock.time_ms())

    def let_time_pass(self) -> None:
        """Have the housekeeper come to all queues when all is due that a killed broker had."""
        self.clock.ahead_ms += 2 * LATER_MS
        for name in self.queues.names():
            self.run_due(name, 0)

    def subscriptions(self, name: str) -> list[Queue]:
        return [found for key, found in self.host.subscriptions.durable().items() if key.client_id == name]

    def subscribe(self, client_id: str, selector: str | None) -> None:
        """Have a durable subscription, of which nobody is the subscriber afterwards."""
        session = self.held[client_id][0] if client_id in self.held else self.session(client_id)
        topic = Address(AddressKind.TOPIC, client_id)
        self.held[client_id] = session, None, []  # type: ignore[assignment]
        consume(session, topic, selector, durable_name="s").close()

    def publish(self, topic: str, text: str) -> None:
        self.send("", text, to=Address(AddressKind.TOPIC, topic))

    def subscribed(self, client_id: str) -> list[list[str | int | None]]:
        """Return of each durable subscription the selector and how many messages it has."""
        found: list[Any] = self.subscriptions(client_id)
        return [[each.terms.selector_text, each.count(MessageState.NEW)] for each in found]


def _seen(consumer: ProviderConsumer) -> list[Delivery]:
    """Take all that is there, as a client does that looks at it."""
    deliveries = take_all(consumer)
    for each in deliveries:
        assert each.envelope.body
    return deliveries


def _xid(number: int) -> Xid:
    return Xid(1, b"%d" % number, b"branch")


@dataclass(frozen=True, kw_only=True)
class Chore:
    """Something that is done to queues, subscriptions or branches that nobody else uses."""

    prepare: Callable[[Place], object] = lambda _: None
    act: Callable[[Place], object]
    look: Callable[[Place], Any]
    """What there is, without what need not survive where the broker has started again."""
    before: Any
    after: Any
    is_quiet: bool = False
    """Nobody waits for it who could be told of an error: then it is done here, or tried again later."""
    after_kill: Sequence[Any] = ()
    """What may be there besides when the broker was killed before the store could be written."""


def _subscribed(place: Place, name: str, selector: str) -> None:
    place.subscribe(name, selector)
    place.publish(name, "news")


def _named(place: Place) -> None:
    for text in "ab":
        place.send("deleted", text, properties={"name": text})


def _set_aside(place: Place) -> None:
    _held(place, "replayed")
    place.reject("replayed")
    place.held["replayed"][1].close()


def _own(place: Place) -> None:
    place.queues.create("destroyed")
    place.send("destroyed", "a")


def _ring(place: Place, queue: str) -> None:
    place.queues.create(queue, max_messages=2, overflow="ring")
    place.send(queue, "a", "b")


def _drop_both(place: Place) -> None:
    """Send a message with an id of its producer's, and once more."""
    for _ in range(2):
        place.send("once", "a", properties={DUPLICATE_ID: "1"})


def _expiring(place: Place, queue: str, expiry_queue: str | None) -> None:
    place.queues.create(queue, expiry_queue=expiry_queue)
    place.send(queue, "e", expiration_ms=place.clock.time_ms() + LATER_MS // 2)


def _moved(place: Place, *queues: str) -> list[list[str]]:
    return [place.texts(queue) for queue in queues]


def _settled(place: Place) -> None:
    place.prepare(2, "forgotten")
    place.host.branches.settle_heuristically(_xid(2), commit=True)


def _held(place: Place, queue: str, **choices: Any) -> None:
    place.queues.create(queue, dead_letter=f"{queue}.dead", **choices)
    place.send(queue, "a")
    place.hold(queue)


CHORES: Final[Mapping[str, Chore]] = {
    "purge": Chore(
        prepare=lambda place: place.send("purged", "a", "b", "t", "c"),
        act=lambda place: place.queues.purge("purged"),
        look=lambda place: place.texts("purged"),
        before=["a", "b", "t", "c"],
        after=[],
    ),
    "delete one": Chore(
        prepare=_named,
        act=lambda place: place.queues.purge("deleted", "name = 'a'"),
        look=lambda place: place.texts("deleted"),
        before=["a", "b"],
        after=["b"],
    ),
    "move": Chore(
        prepare=lambda place: place.send("moved", "a"),
        act=lambda place: place.queues.move("moved", "moved.there"),
        look=lambda place: _moved(place, "moved", "moved.there"),
        before=[["a"], []],
        after=[[], ["a"]],
    ),
    "copy": Chore(
        prepare=lambda place: place.send("copied", "a"),
        act=lambda place: place.queues.copy("copied", "copied.there"),
        look=lambda place: _moved(place, "copied", "copied.there"),
        before=[["a"], []],
        after=[["a"], ["a"]],
    ),
    "replay": Chore(
        prepare=_set_aside,
        act=lambda place: place.queues.replay("replayed.dead"),
        look=lambda place: _moved(place, "replayed", "replayed.dead"),
        before=[[], ["a"]],
        after=[["a"], []],
    ),
    "create": Chore(
        act=lambda place: place.queues.create("created", max_messages=7),
        look=lambda place: (policy := place.policy("created")) and policy.max_messages,
        before=None,
        after=7,
    ),
    "alter": Chore(
        prepare=lambda place: place.queues.create("altered", max_messages=7),
        act=lambda place: place.queues.alter("altered", max_messages=9),
        look=lambda place: (policy := place.policy("altered")) and policy.max_messages,
        before=7,
        after=9,
    ),
    "destroy": Chore(
        prepare=_own,
        act=lambda place: place.queues.destroy("destroyed"),
        look=lambda place: place.policy("destroyed") and place.texts("destroyed"),
        before=["a"],
        after=None,
    ),
    "pause": Chore(
        prepare=lambda place: place.queues.create("paused"),
        act=lambda place: place.queues.pause("paused"),
        look=lambda place: (policy := place.policy("paused")) and policy.paused,
        before=False,
        after=True,
    ),
    "resume": Chore(
        prepare=lambda place: place.queues.create("resumed", paused=True),
        act=lambda place: place.queues.resume("resumed"),
        look=lambda place: (policy := place.policy("resumed")) and policy.paused,
        before=True,
        after=False,
    ),
    "subscribe": Chore(
        act=lambda place: place.subscribe("ann", None),
        look=lambda place: place.subscribed("ann"),
        before=[],
        after=[[None, 0]],
    ),
    "unsubscribe": Chore(
        prepare=lambda place: _subscribed(place, "bob", "TRUE"),
        act=lambda place: place.held["bob"][0].unsubscribe("s"),
        look=lambda place: place.subscribed("bob"),
        before=[["TRUE", 1]],
        after=[],
    ),
    "another selector": Chore(
        prepare=lambda place: _subscribed(place, "carol", "TRUE"),
        act=lambda place: place.subscribe("carol", "1 = 1"),
        look=lambda place: place.subscribed("carol"),
        before=[["TRUE", 1]],
        after=[["1 = 1", 0]],
    ),
    "expire, and go elsewhere": Chore(
        prepare=lambda place: _expiring(place, "expiring", "expired"),
        act=lambda place: place.run_due("expiring", LATER_MS),
        look=lambda place: [place.count("expiring"), place.texts("expired")],
        before=[1, []],
        after=[0, ["e"]],
        is_quiet=True,
    ),
    "expire": Chore(
        prepare=lambda place: _expiring(place, "expiring.alone", None),
        act=lambda place: place.run_due("expiring.alone", LATER_MS),
        look=lambda place: place.texts("expiring.alone"),
        before=["e"],
        after=[],
        is_quiet=True,
    ),
    "displace, by a PERSISTENT message": Chore(
        prepare=lambda place: _ring(place, "ring"),
        act=lambda place: place.send("ring", "c"),
        look=lambda place: place.texts("ring"),
        before=["a", "b"],
        after=["b", "c"],
    ),
    "displace, by a NON_PERSISTENT message": Chore(
        prepare=lambda place: _ring(place, "ring2"),
        act=lambda place: place.send("ring2", "t"),
        look=lambda place: place.texts("ring2"),
        before=["a", "b"],
        after=["b", "t"],
        is_quiet=True,
        after_kill=[["a", "b"]],
    ),
    "give up": Chore(
        prepare=lambda place: _held(place, "given.up", max_deliveries=1),
        act=lambda place: place.give_back("given.up"),
        look=lambda place: _moved(place, "given.up", "given.up.dead"),
        before=[["a"], []],
        after=[[], ["a"]],
        is_quiet=True,
    ),
    "reject": Chore(
        prepare=lambda place: _held(place, "rejected"),
        act=lambda place: place.reject("rejected"),
        look=lambda place: _moved(place, "rejected", "rejected.dead"),
        before=[["a"], []],
        after=[[], ["a"]],
    ),
    "come due": Chore(
        prepare=lambda place: place.send(
            "due", "a", properties={DELIVER_AT: Long(place.clock.time_ms() + LATER_MS // 2)}
        ),
        act=lambda place: place.run_due("due", LATER_MS),
        look=lambda place: [place.host.queue("due").delayed_count, place.texts("due")],
        before=[1, ["a"]],
        after=[0, ["a"]],
        is_quiet=True,
    ),
    "drop a duplicate": Chore(
        act=_drop_both,
        look=lambda place: place.texts("once"),
        before=[],
        after=["a"],
    ),
    "decide about a branch": Chore(
        prepare=lambda place: place.prepare(1, "decided"),
        act=lambda place: place.host.branches.settle_heuristically(_xid(1), commit=True),
        look=lambda place: [place.branch(1), place.texts("decided")],
        before=["PREPARED", []],
        after=["HEURISTICALLY_COMMITTED", ["bill"]],
    ),
    "forget a branch": Chore(
        prepare=_settled,
        act=lambda place: place.host.branches.forget(_xid(2)),
        look=lambda place: [place.branch(2), place.texts("forgotten")],
        before=["HEURISTICALLY_COMMITTED", ["bill"]],
        after=[None, ["bill"]],
    ),
}
