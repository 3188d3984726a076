"""One seed drives clients, clock, faults and crashes of a broker on a volatile journal, in one thread.

While a write is under way, other clients take their turns inside it: the interleavings of threads, without threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import ClosedError, ProviderError, ResourceError, RolledBackError
from pyjms.spi.provider import ProviderConsumer
from pyjms.testing import VirtualClock
from pyjms.types import Long, Stored
from pyjms_provider.clients.vm import VmSession
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.journal.in_doubt_writes import RETRY_MS
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.core.queue.queue_rules import QueueFullError
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.settings import Acknowledge
from pyjms_provider.stores.volatile import Crash
from tests.provider.helpers import make_envelope
from tests.provider.keeping.site import NEWS, ORDERS, consume
from tests.provider.simulation.coordinator import Coordinator
from tests.provider.simulation.oracle import Fate, Oracle, Record, Rules, ViolationError
from tests.provider.simulation.site import LostAnswerError, SimulatedSite

SUBSCRIBERS: Final = ("ann", "bob")
_STEPS: Final = 60
_DEPTH: Final = 2
_LATE: Final = "late"
_WRITES: Final = ("before write", "after write")
_POLICIES: Final[tuple[tuple[dict[str, Any], Rules], ...]] = (
    ({}, Rules()),
    # Whatever comes back once too often is a dead letter, and is found as such at the end.
    ({"max_deliveries": 2}, Rules()),
    ({"max_deliveries": 3}, Rules()),
    ({"max_messages": 4, "overflow": "ring"}, Rules(ring=4)),
    ({"max_messages": 5}, Rules(room=5)),
    ({"expiry_queue": _LATE, "max_deliveries": 3}, Rules(sets_expired_aside=True)),
    ({"type": "last_value", "key": "key"}, Rules(last_value=True)),
    ({"redelivery_delay_ms": 100, "redelivery_multiplier": 2.0}, Rules(delay_ms=100)),
)
"""What the queue may be, and what that means for its messages."""


class Client:
    """One client with a session: it sends, receives and settles, and knows what it holds."""

    def __init__(self, number: int, session: VmSession, consumer: ProviderConsumer, channel: str) -> None:
        self.number = number
        self.session = session
        self.consumer = consumer
        self.channel = channel
        self.transacted = session._transacted
        self.held: list[tuple[Delivery, Record]] = []
        self.sent: list[Record] = []
        self.acknowledged: list[Record] = []
        self.acknowledging: list[tuple[Delivery, Record]] = []
        self.is_busy = False
        self.is_dead = False
        self.began_ms: int | None = None
        """When its local transaction began; None: it has done nothing yet, or works in branches."""
        self.is_late = False
        """Whether the time of its transaction is over, so that it cannot commit."""
        self.timeouts = 0
        """How often that has happened."""
        self.has_branches = False


class World:
    """A run of one seed."""

    def __init__(
        self,
        seed: int,
        *,
        loses_power: bool = False,
        loses_answers: bool = False,
        chosen: tuple[dict[str, Any], Rules] | None = None,
    ) -> None:
        """`loses_power`: the machine's power fails at some of the moments at which the process dies.

        `loses_answers`: nobody hears of some writes whether they were made. `chosen`: what the queue is; None: the seed
        says that, too.
        """
        self.random = Random(seed)
        self.answers = Random(seed + 0.5) if loses_answers else None
        self.power = Random(~seed) if loses_power else None
        """Of its own, so that a seed plays the same with power as it would without this."""
        choices, rules = chosen or self.random.choice(_POLICIES)
        self.oracle = Oracle(rules)
        self.limit_ms = self.random.choice([0, 0, 0, 400])
        self.site = SimulatedSite(
            memory_bytes=self.random.choice([20_000, 10**9]),
            policy=HostPolicy(transaction_timeout_ms=self.limit_ms),
            acknowledge=self.power.choice(list(Acknowledge)) if self.power else Acknowledge.WRITTEN,
        )
        clock = self.site.clock
        assert isinstance(clock, VirtualClock)
        self.clock = clock
        self.is_starting = False
        self.clients: list[Client] = []
        self.coordinator = Coordinator(self)
        self.depth = 0
        self.messages = 0
        self.numbers = 0
        self.log: list[str] = [f"policy {choices}, transactions of {self.limit_ms} ms"]
        if choices:
            QueueManager(self.site.broker.virtual_host).create(ORDERS.name, **choices)
        for name in SUBSCRIBERS:
            connection = self.site.connect(name)
            consume(connection.open_session(transacted=False), NEWS, durable_name="all")
            connection.close()
        self.site.trap = self._interfere

    def run(self) -> None:
        """Play all steps, then restart and see what is left."""
        for _ in range(_STEPS):
            try:
                self._step()
            except Crash:
                self._restart_after_crash()
        self.site.trap = None
        end = self.random.choice(["stop", "crash", "go on"])
        self.log.append(end)
        if end == "crash":
            self.site.journal.crash()
            self._restart_after_crash()
        else:
            for client in list(self.clients):
                self._close(client)
        if end == "stop":
            self.site.restart()
            self._forget_clients()
            self.oracle.broker_died()
            self.coordinator.recover()
        self.coordinator.finish()
        self._await_all()
        self.oracle.finally_drained(self.clock.time_ms(), self._drain())

    def _await_all(self) -> None:
        """Let so much time go by that nothing stays away any more, or is in doubt."""
        if self.answers:
            self.clock.advance(RETRY_MS)
            self.site.tend()
        until_ms = max((record.not_before_ms for record in self.oracle.records.values()), default=0)
        rules = self.oracle.rules
        until_ms = max(until_ms, self.clock.time_ms() + (60_000 if rules.delay_ms or rules.sets_expired_aside else 0))
        self.clock.advance(max(0, until_ms - self.clock.time_ms()))
        self.site.tend()

    # Time, faults and crashes

    def _interfere(self, point: str, changes: Changes) -> None:
        if self.answers and point in _WRITES and not self.is_starting and self.answers.random() < 0.05:
            self.log.append(f"no answer {point}")
            raise LostAnswerError(is_written=point.startswith("after"))
        chance = self.random.random()
        if chance < 0.04:
            self.log.append(f"crash {point}")
            raise Crash
        if chance < 0.10 and point.startswith("before"):
            self.log.append(f"refuse {point}")
            raise ResourceError("the disk is full")
        if chance < 0.40 and self.depth < _DEPTH and not self.is_starting:
            self.depth += 1
            try:
                self._step()
            finally:
                self.depth -= 1

    def _restart_after_crash(self) -> None:
        self.depth = 0
        self._forget_clients()
        self.oracle.withdrawals_failed()
        self.oracle.broker_died()
        if self.power and self.power.random() < 0.5:
            self._lose_power(self.power)
        self.is_starting = True
        while self.is_starting:
            try:
                self.site.start()
            except (Crash, ResourceError) as error:
                self.log.append(f"cannot start: {type(error).__name__}")  # again: somebody makes room on the disk
            else:
                self.is_starting = False
        self.coordinator.recover()

    def _lose_power(self, random: Random) -> None:
        lost = self.site.medium.lose_power(random)
        self.log.append(f"power fails, {lost} writes are gone")
        if self.site.acknowledge is Acknowledge.WRITTEN:
            self.oracle.power_failed()

    def _forget_clients(self) -> None:
        for client in self.clients:
            client.is_dead = True
        self.clients.clear()

    # Steps

    def _step(self) -> None:
        idle = [client for client in self.clients if not client.is_busy]
        choice = self.random.random()
        if choice < 0.08 or not idle:
            if len(self.clients) < 6:
                self._open()
        elif choice < 0.12:
            self.clock.advance(self.random.choice([1, 50, 500]))
            self._tend()
        elif choice < 0.14:
            self._tend()
        elif choice < 0.18:
            self._close(self.random.choice(self.clients))  # a busy one too: close may come from any thread
        elif choice < 0.28:
            self.coordinator.settle()
        else:
            client = self.random.choice(idle)
            actions = [self.send, self.receive, self._settle, self._give_back, self.coordinator.work, self._send_again]
            action = self.random.choices(actions, weights=[5, 5, 4, 1, 2, 1])[0]
            client.is_busy = True
            try:
                action(client)
            finally:
                client.is_busy = False

    def _tend(self) -> None:
        """Let the housekeeper come, who ends what has been open for too long."""
        latest_ms = self.clock.time_ms() - self.limit_ms
        late = [each for each in self.clients if each.began_ms is not None and each.began_ms <= latest_ms]
        busy = [client.is_busy for client in late]
        for client in late:
            self.log.append(f"late {client.number}")
            self.undo(client)
            client.timeouts += 1
            client.began_ms, client.is_late, client.is_busy = None, True, True  # nobody knows in which order it happens
        self.site.tend()
        for client, was_busy in zip(late, busy, strict=True):
            client.is_busy = was_busy

    def _begin(self, client: Client) -> None:
        """Note that a client has done something in a transaction."""
        if self.limit_ms and client.transacted and not client.has_branches and client.began_ms is None:
            client.began_ms = self.clock.time_ms()

    def _open(self) -> None:
        self.numbers += 1
        number = self.numbers
        transacted = self.random.random() < 0.5
        try:
            if self.random.random() < 0.3:
                name = self.random.choice(SUBSCRIBERS)
                session = self.site.connect(name).open_session(transacted=transacted)
                consumer = consume(session, NEWS, durable_name="all")
                channel = f"news#{name}"
            else:
                session = self.site.session(transacted=transacted)
                consumer = consume(session)
                channel = "orders"
        except ProviderError:
            return  # in use, or the disk is full
        self.clients.append(Client(number, session, consumer, channel))
        self.log.append(f"open {number} {channel} transacted={transacted}")

    def send(self, client: Client) -> None:
        """Send a message, and note what is known of it then."""
        self._begin(client)
        self.messages += 1
        text = f"m{self.messages}"
        to, channels = self.random.choice([(ORDERS, ["orders"]), (NEWS, [f"news#{name}" for name in SUBSCRIBERS])])
        persistent = self.random.random() < 0.8
        now_ms = self.clock.time_ms()
        expiration_ms = (
            now_ms + 100 if self.random.random() < (0.3 if self.oracle.rules.sets_expired_aside else 0.1) else 0
        )
        not_before_ms = now_ms + 120 if not expiration_ms and self.random.random() < 0.1 else 0
        priority = self.random.choice([4, 4, 9])
        key = self.random.choice("abc")
        duplicate_id = text if to is ORDERS and persistent and self.random.random() < 0.3 else None
        records = [
            Record(
                *(text, channel, client.number, self.messages, priority, persistent, expiration_ms, Fate.PENDING),
                *(key, duplicate_id, not_before_ms, not_before_ms > 0),
            )
            for channel in channels
        ]
        for record in records:
            self.oracle.sent(record)
            if not client.transacted:
                record.fate = Fate.UNKNOWN
        self.log.append(f"send {text} by {client.number} to {to.name} persistent={persistent}")
        fate = self._try_to_send(client, records, to)
        if client.transacted and fate is Fate.THERE:
            client.sent.extend(records)
            return
        for record in records:
            if record.fate in (Fate.UNKNOWN, Fate.PENDING):  # else it was received, before its send has returned
                record.fate = fate
                if fate is Fate.THERE:
                    self.oracle.accepted(record, self.clock.time_ms())

    def _try_to_send(self, client: Client, records: list[Record], to: Address) -> Fate:
        record = records[0]
        body = f"{record.text} {'x' * self.random.choice([0, 2000])}"
        properties: dict[str, Stored] = {"key": record.key}
        if record.duplicate_id is not None:
            properties["JMS_pyjms_duplicateId"] = record.duplicate_id
        if record.not_before_ms:
            properties["JMS_pyjms_deliverAt"] = Long(record.not_before_ms)
        envelope = make_envelope(
            body,
            destination=to,
            priority=record.priority,
            expiration_ms=record.expiration_ms,
            persistent=record.persistent,
            properties=properties,
        )
        try:
            client.session.send(envelope)
        except Crash:
            if client.transacted:
                self._fate_of_pending(record.text, Fate.NEVER)
            raise
        except QueueFullError:
            self.oracle.refused(record)
            return Fate.NEVER
        except LostAnswerError as error:
            self.oracle.withdrawn([record for record in records if error.is_written])
            return Fate.NEVER
        except (ResourceError, ClosedError):
            return Fate.NEVER
        return Fate.THERE

    def _send_again(self, client: Client) -> None:
        """Send a message a second time, as a producer does that has not heard of the first one."""
        named = [record for record in self.oracle.records.values() if record.duplicate_id is not None]
        named = [record for record in named if record.fate is not Fate.PENDING]
        if client.transacted or not named:
            return
        record = self.random.choice(named)
        before = record.fate
        if before is Fate.NEVER:
            record.fate = Fate.UNKNOWN
        self.log.append(f"send {record.text} again by {client.number}, it is {before.name}")
        if self._try_to_send(client, [record], ORDERS) is Fate.NEVER:
            if before is Fate.NEVER and record.fate is Fate.UNKNOWN:
                record.fate = before
            return
        record.has_no_place = True
        if record.fate is Fate.UNKNOWN:
            record.fate = Fate.THERE

    def _fate_of_pending(self, text: str, fate: Fate) -> None:
        for record in self.oracle.records.values():
            if record.text == text:
                record.fate = fate

    def receive(self, client: Client) -> None:
        """Take a message, and have it judged."""
        now_ms, timeouts = self.clock.time_ms(), client.timeouts
        try:
            delivery = client.consumer.poll()
        except ProviderError:
            return
        if delivery is None:
            return
        self._begin(client)
        try:
            text = str(delivery.envelope.body).split(" ")[0]
        except ProviderError:  # the disk is full, or the session was closed meanwhile
            with suppress(ClosedError):
                client.session.recover([delivery])
            return
        if client.session._closed:
            return  # closed while the message was fetched: it is back on its queue, and the client is told so
        if client.timeouts > timeouts:
            return  # so is what was fetched for too long; the client will hear of it when it commits
        self.log.append(f"receive {text} by {client.number} from {client.channel} count={delivery.count}")
        record = self.oracle.delivered(client.channel, text, delivery.count, now_ms, client)
        client.held.append((delivery, record))

    def _settle(self, client: Client) -> None:
        """Acknowledge what is held; in a transaction, commit as well, or roll back."""
        if client.transacted:
            self._end_transaction(client)
        elif client.held:
            held, client.held = client.held, []
            self.log.append(f"acknowledge {[record.text for _, record in held]} by {client.number}")
            for _, record in held:
                record.fate = Fate.PERHAPS_CONSUMED
            client.acknowledging = held
            try:
                client.session.acknowledge([delivery for delivery, _ in held])
            except ClosedError:
                self._release(client.acknowledging)  # some may have counted, before the session was closed
                return
            except ResourceError:
                for _, record in held:
                    record.fate, record.holder = Fate.THERE, None
                return
            except LostAnswerError as error:
                for _, record in held:
                    record.fate = Fate.CONSUMED if error.is_written else Fate.THERE  # once the broker has asked
                    if not record.persistent:
                        record.fate = Fate.PERHAPS_CONSUMED  # it is none of the store's
                    record.holder, record.was_in_doubt = None, True
                return
            finally:
                client.acknowledging = []
            for _, record in held:
                record.fate, record.holder = Fate.CONSUMED, None

    def _end_transaction(self, client: Client) -> None:
        held, client.held = client.held, []
        sent, client.sent = client.sent, []
        was_late, client.is_late, client.began_ms = client.is_late, False, None
        if self.random.random() < 0.25:
            self.log.append(f"roll back {client.number}")
            for record in sent:
                record.fate = Fate.NEVER
            self._release(held)
            with suppress(ClosedError):
                client.session.rollback()
                client.session.recover([delivery for delivery, _ in held])
            return
        self.log.append(
            f"commit {client.number}: sends {[each.text for each in sent]}, takes {[each.text for _, each in held]}"
        )
        for record in sent:
            record.fate = Fate.UNKNOWN
        for _, record in held:
            record.fate = Fate.PERHAPS_CONSUMED
        try:
            client.session.acknowledge([delivery for delivery, _ in held])
            client.session.commit()
        except LostAnswerError as error:
            self.settled_later(sent, [record for _, record in held], is_written=error.is_written)
            return
        except (RolledBackError, ClosedError) as error:
            self.log.append(f"… {type(error).__name__}")
            for record in sent:
                record.fate = Fate.NEVER
            for _, record in held:
                record.fate = Fate.THERE
            self._release(held)
            with suppress(ClosedError):
                client.session.recover([delivery for delivery, _ in held])
            return
        if was_late:
            raise ViolationError(f"late: client {client.number} has committed what was open for too long")
        for record in sent:
            if record.fate is Fate.UNKNOWN:
                record.fate = Fate.THERE
        for _, record in held:
            record.fate, record.holder = Fate.CONSUMED, None

    def settled_later(self, sent: list[Record], taken: list[Record], *, is_written: bool) -> None:
        """Note what becomes of a transaction whose commit was not answered, when the broker asks its store."""
        for record in sent:
            record.has_no_place = True
        if not any(record.persistent for record in taken):  # so it is withdrawn
            for record in sent:
                record.fate = Fate.NEVER
            self.oracle.withdrawn(sent if is_written else ())
            self.oracle.come_back(taken, self.clock.time_ms())
        elif is_written and all(record.expiration_ms for record in taken if record.persistent):
            for record in sent:
                record.fate = Fate.UNKNOWN  # as what it took may have expired, so that it took nothing
            for record in taken:
                record.fate, record.holder = Fate.PERHAPS_CONSUMED, None
        elif is_written:
            for record in sent:
                record.fate = Fate.THERE
            for record in taken:
                record.fate, record.holder, record.was_in_doubt = Fate.CONSUMED, None, True
        else:
            for record in sent:
                record.fate = Fate.PENDING
            self.oracle.come_back(taken, self.clock.time_ms())

    def undo(self, client: Client) -> None:
        """Note that what a client did in a transaction has had no effect."""
        for record in client.sent:
            record.fate = Fate.NEVER
        client.sent = []
        self._release(client.held)
        client.held = []

    def give_back(self, records: Iterable[Record]) -> None:
        """Note that messages are nobody's."""
        self.oracle.given_back(records, self.clock.time_ms())

    def _release(self, held: list[tuple[Delivery, Record]]) -> None:
        self.give_back(record for _, record in held)

    def _give_back(self, client: Client) -> None:
        held, client.held = client.held, []
        self._release(held)
        with suppress(ClosedError):
            if client.transacted:
                for record in client.sent:
                    record.fate = Fate.NEVER
                client.sent.clear()
                client.is_late, client.began_ms = False, None
                client.session.rollback()
            client.session.recover([delivery for delivery, _ in held])
            self.log.append(f"give back {[record.text for _, record in held]} by {client.number}")

    def _close(self, client: Client) -> None:
        self.log.append(f"close {client.number}")
        if client in self.clients:
            self.clients.remove(client)
        if not client.is_busy:
            for record in client.sent:
                record.fate = Fate.NEVER
            client.sent.clear()
        self._release(client.held)
        client.held.clear()
        self._release(client.acknowledging)  # others may have them before the call returns, and fails
        client.acknowledging = []
        client.session._connection.close()

    def _drain(self) -> list[tuple[str, str]]:
        drained: list[tuple[str, str]] = []
        sources: list[tuple[str, VmSession, Address, str | None]] = [("orders", self.site.session(), ORDERS, None)]
        for name in SUBSCRIBERS:
            session = self.site.connect(name).open_session(transacted=False)
            sources.append((f"news#{name}", session, NEWS, "all"))
        for channel, session, address, durable_name in sources:
            consumer = consume(session, address, durable_name=durable_name)
            while (delivery := consumer.poll()) is not None:
                text = str(delivery.envelope.body).split(" ")[0]
                self.oracle.delivered(channel, text, delivery.count, self.clock.time_ms(), "drain")
                session.acknowledge([delivery])
                drained.append((channel, text))
        return drained + self._set_aside("DLQ") + self._set_aside(_LATE)

    def _set_aside(self, name: str) -> list[tuple[str, str]]:
        """Take what was set aside, as of the channels that it was on."""
        session = self.site.session()
        letters = consume(session, Address(AddressKind.QUEUE, name))
        found: list[tuple[str, str]] = []
        while (delivery := letters.poll()) is not None:
            text = str(delivery.envelope.body).split(" ")[0]
            subscription = delivery.envelope.properties.get("JMS_pyjms_deadSubscription")
            channel = "orders" if subscription is None else f"news#{str(subscription).split('/')[0]}"
            self.oracle.set_aside(channel, text, expired=name == _LATE, now_ms=self.clock.time_ms())
            session.acknowledge([delivery])
            found.append((channel, text))
        return found
