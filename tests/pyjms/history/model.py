"""Random histories that are correct: clients at work with a model of a broker, recorded as the recorder would.

Clients are coroutines: each call has a beginning, a moment at which it takes effect, and an end, and the scheduler lets
others go on in between. Some calls fail, of some the outcome stays unknown, connections are cut, processes are killed,
the broker crashes, and the clocks of two nodes differ. One seed gives one history.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from pyjms.history.events import FAIL, OK, UNKNOWN, Event
from tests.pyjms.history.broker_model import DEAD_LETTERS, NS_PER_MS, Broker, Channel, Copy, Message

__all__ = ["RandomHistory", "random_history"]

Step = Generator[None, None, Any]

QUEUES = ("queue://orders", "queue://bills")
TOPICS = ("topic://prices",)
MODES = ("auto", "lazy", "client", "transacted", "transacted")
START_NS = 1_700_000_000 * 10**9
BATCH = 3
SELECTOR, LEAST = "number >= 5", 5


@dataclass(slots=True, eq=False)
class Receiver:
    """A consumer."""

    name: str
    channel: Channel
    note: dict[str, object]
    least: int = 0
    buffer: list[Copy] = field(default_factory=list)
    dn: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Hand:
    """A delivery that the client holds."""

    receiver: Receiver
    copy: Copy
    dn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomHistory:
    """A history, and what is known of it."""

    seed: int
    events: tuple[Event, ...]
    is_drained: bool
    features: Counter[str]


class Client:
    """One connection with one session, in a process of its own."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.rng = world.rng
        self.pid = str(1000 + number)
        self.node = world.rng.choice(world.nodes)
        self.conn = f"c{number}"
        self.sess = f"c{number}/1"
        self.mode = world.rng.choice(MODES)
        self.numbers = count(1)
        self.names = count(1)
        self.transactions = count(1)
        self.sn: Counter[str] = Counter()
        self.receivers: list[Receiver] = []
        self.hands: list[Hand] = []
        self.in_tx: list[Hand] = []
        self.unsent: list[Message] = []
        self.tx: str | None = None
        self.is_cut = False
        self.has_noticed = False
        self.current: tuple[str, int, list[dict[str, Any]]] | None = None
        self.script: Step = self.work()

    # One call

    def call(self, op: str, rows: list[dict[str, Any]], effect: Callable[[], None], *, may_fail: bool = True) -> Step:
        """Do `effect` between the beginning and the end of a call; return the outcome."""
        t0 = self.world.now(self)
        self.current = op, t0, rows
        yield
        chance = self.rng.random() if may_fail else 1.0
        outcome = UNKNOWN if self.is_cut or chance < 0.03 else FAIL if chance < 0.05 and op != "rollback" else OK
        if not self.is_cut and (outcome == OK or (outcome == UNKNOWN and chance < 0.015)):
            effect()
        elif outcome == UNKNOWN and op == "commit" and not self.is_cut:
            self.give_up_transaction()
        yield
        if self.is_cut:
            outcome = UNKNOWN
        self.current = None
        self.record(op, outcome, t0, rows)
        return outcome

    def record(self, op: str, ok: str, t0: int, rows: list[dict[str, Any]]) -> None:
        t1 = self.world.now(self)
        for row in rows:
            self.world.add(self, op, ok, t0, t1, row)

    def begin(self) -> str | None:
        if self.mode != "transacted":
            return None
        if self.tx is None:
            self.tx = f"{self.sess}#{next(self.transactions)}"
            self.record("begin_tx", OK, self.world.now(self), [{"tx": self.tx}])
        return self.tx

    # What a client does

    def work(self) -> Step:
        yield from self.consume()
        for _ in range(self.rng.randint(4, 45)):
            if self.is_cut and self.rng.random() < 0.5:
                break
            act = self.rng.choices(
                (
                    self.send,
                    self.receive,
                    self.settle,
                    self.consume,
                    self.stop_consuming,
                    self.browse,
                    self.unsubscribe,
                ),
                (8, 10, 5, 1, 1, 1, 0.5),
            )[0]
            yield from act()
        yield from self.leave()

    def send(self) -> Step:
        dest = self.rng.choice((*QUEUES, *QUEUES, *TOPICS))
        self.sn[dest] += 1
        exp_ms = self.world.true_ns // NS_PER_MS + self.rng.randint(1, 3000) if self.rng.random() < 0.1 else 0
        number = self.rng.randint(0, 9)
        message = Message(
            mid=f"ID:{self.sess}:{next(self.world.ids)}",
            dest=dest,
            sess=self.sess,
            conn=self.conn,
            sn=self.sn[dest],
            mode=self.rng.choice((1, 2, 2)),
            prio=self.rng.choice((4, 4, 4, 7)),
            exp_ms=exp_ms,
            sha=f"{self.rng.getrandbits(32):08x}",
            number=number,
        )
        tx = self.begin()
        row = {**_described(message), "dest": dest, "sn": message.sn, "tx": tx}
        effect = (lambda: self.unsent.append(message)) if tx else (lambda: self.world.broker.publish(message))
        yield from self.call("send", [row], effect)

    def receive(self) -> Step:
        if not self.receivers:
            return
        receiver = self.rng.choice(self.receivers)
        t0 = self.world.now(self)
        yield
        copy = self.next_copy(receiver)
        if copy is None:
            return
        receiver.dn += 1
        hand = Hand(receiver, copy, receiver.dn)
        self.hands.append(hand)
        tx = self.begin()
        row = {**_described(copy.message), "consumer": receiver.name, "dest": receiver.channel.dest, "dn": hand.dn}
        row |= {"sub": receiver.channel.sub, "redelivered": copy.flagged, "count": copy.count, "tx": tx}
        if "selector" in receiver.note:
            read = {"headers": {}, "properties": {"number": ["int", str(copy.message.number)]}}
            row["note"] = json.dumps({"selector": SELECTOR, **read})
        self.record("deliver", OK, t0, [row])
        self.world.features["redelivered" if copy.flagged else "delivered"] += 1
        yield
        if self.mode == "auto" or (self.mode == "lazy" and len(self.hands) >= BATCH):
            yield from self.settle()

    def next_copy(self, receiver: Receiver) -> Copy | None:
        """Return the next message of a consumer: from what its library has, or from the broker."""
        while not self.is_cut and len(receiver.buffer) < self.world.ahead:
            copy = self.world.broker.take(receiver.channel, self.conn, self.world.true_ns, receiver.least)
            self.tell_expired()
            if copy is None:
                break
            receiver.buffer.append(copy)
        while receiver.buffer:
            copy = receiver.buffer.pop(0)
            if not 0 < copy.message.exp_ms * NS_PER_MS <= self.world.true_ns:
                if not self.is_cut:
                    copy.count += 1
                    copy.is_handed_out = True
                return copy
            self.world.broker.settle(receiver.channel, copy, self.conn)
            self.world.features["expired"] += 1
            self.world.broker.expired.append((receiver.channel, copy.message))
            self.tell_expired()
        return None

    def tell_expired(self) -> None:
        """Note what has just expired, as the broker tells it: in milliseconds."""
        expired, self.world.broker.expired = self.world.broker.expired, []
        began = (self.world.true_ns + self.world.skew_ns[self.node]) // NS_PER_MS * NS_PER_MS
        for channel, message in expired:
            row = {"mid": message.mid, "dest": channel.dest, "sub": channel.sub, "exp": message.exp_ms}
            self.world.add(
                self, "expire", OK, began, began + NS_PER_MS - 1, {**row, "conn": None, "sess": None, "n": 1}
            )

    def settle(self) -> Step:
        if self.mode == "transacted":
            if self.tx is not None:
                yield from self.end_transaction()
            return
        if not self.hands:
            return
        chance = self.rng.random()
        if chance < 0.7 or self.mode == "auto":
            hands, self.hands = self.hands, []
            outcome = yield from self.call("ack", self.rows_of(hands), lambda: self.forget(hands))
            self.hands = self.hands if outcome == OK else [*hands, *self.hands]
        elif chance < 0.9:
            yield from self.recover()
        else:
            hand = self.hands.pop()
            row = self.rows_of([hand])[0] | {"note": json.dumps({"rejected": "bad"})}
            outcome = yield from self.call("ack", [row], lambda: self.dismiss(hand))
            self.hands += [] if outcome == OK else [hand]

    def end_transaction(self) -> Step:
        tx, self.tx = self.tx, None
        hands, self.hands = self.hands, []
        if self.rng.random() < 0.25:
            outcome = yield from self.call("rollback", [{"tx": tx}], self.unsent.clear)
            self.hands = hands
            if outcome == OK:
                yield from self.recover()
            return
        if hands:
            outcome = yield from self.call("ack", self.rows_of(hands, tx), lambda: self.in_tx.extend(hands))
            if outcome != OK and not self.is_cut:
                self.hands = hands
                yield from self.call("rollback", [{"tx": tx}], self.give_up_transaction, may_fail=False)
                yield from self.recover()
                return
        outcome = yield from self.call("commit", [{"tx": tx}], self.commit)
        if outcome == FAIL:
            self.unsent.clear()
            self.in_tx.clear()
            self.hands = hands
            yield from self.recover()

    def commit(self) -> None:
        self.world.features["committed"] += 1
        self.forget(self.in_tx)
        for message in self.unsent:
            self.world.broker.publish(message)
        self.unsent.clear()
        self.in_tx.clear()

    def give_up_transaction(self) -> None:
        """The broker rolled back, and took back what the transaction had acknowledged."""
        hands = list(self.in_tx)
        self.unsent.clear()
        self.in_tx.clear()
        self.return_all([hand for hand in hands if hand not in self.hands])

    def recover(self) -> Step:
        hands, self.hands = self.hands, []
        if hands:
            yield from self.call("recover", self.rows_of(hands), lambda: self.return_all(hands), may_fail=False)

    def rows_of(self, hands: list[Hand], tx: str | None = None) -> list[dict[str, Any]]:
        return [
            {
                "consumer": hand.receiver.name,
                "dest": hand.receiver.channel.dest,
                "sub": hand.receiver.channel.sub,
                "dn": hand.dn,
                "mid": hand.copy.message.mid,
                "tx": tx,
            }
            for hand in hands
        ]

    def forget(self, hands: list[Hand]) -> None:
        for hand in hands:
            self.world.broker.settle(hand.receiver.channel, hand.copy, self.conn)

    def return_all(self, hands: list[Hand]) -> None:
        for hand in hands:
            self.world.broker.give_back(hand.receiver.channel, hand.copy, self.conn)

    def dismiss(self, hand: Hand) -> None:
        self.world.features["rejected"] += 1
        if hand.copy in hand.receiver.channel.copies and hand.copy.holder == self.conn:
            self.world.broker.reject(hand.receiver.channel, hand.copy)

    # Consumers

    def consume(self, dest: str | None = None, sub: str | None = None) -> Step:
        name = f"{self.sess}/{next(self.names)}"
        dest = dest or self.rng.choice((*QUEUES, *QUEUES, *TOPICS))
        note: dict[str, object] = {"durable": False}
        if dest.startswith("topic://"):
            sub = sub or self.choose_subscription(name)
            note["durable"] = sub != name
            if sub == name and self.rng.random() < 0.3:
                note["no_local"] = True
        elif sub is None and dest != DEAD_LETTERS and self.rng.random() < 0.15:
            note["selector"] = SELECTOR
        receiver = Receiver(name, Channel(dest, sub), note, LEAST if "selector" in note else 0)
        row = {"consumer": name, "dest": dest, "sub": sub, "note": json.dumps(note)}
        outcome = yield from self.call("subscribe", [row], lambda: self.attach(receiver), may_fail=False)
        if outcome == OK:
            self.receivers.append(receiver)
            self.world.features["durable" if note["durable"] else "consumer"] += 1

    def choose_subscription(self, name: str) -> str:
        durable = f"{self.conn}/news"
        if self.rng.random() < 0.6 and not any(each.channel.sub == durable for each in self.receivers):
            return durable
        return name

    def attach(self, receiver: Receiver) -> None:
        broker, channel = self.world.broker, receiver.channel
        if channel.sub is None:
            receiver.channel = broker.queue(channel.dest)
            return
        channel.is_durable = bool(receiver.note["durable"])
        channel.no_local_conn = self.conn if "no_local" in receiver.note else None
        receiver.channel = broker.subscriptions.setdefault(channel.sub, channel)

    def stop_consuming(self) -> Step:
        if self.receivers:
            receiver = self.receivers.pop(self.rng.randrange(len(self.receivers)))
            row = {"consumer": receiver.name, "dest": receiver.channel.dest, "sub": receiver.channel.sub}
            yield from self.call("close", [row], lambda: self.detach(receiver), may_fail=False)

    def detach(self, receiver: Receiver) -> None:
        for copy in receiver.buffer:
            self.world.broker.give_back(receiver.channel, copy, self.conn)
        receiver.buffer.clear()
        if receiver.channel.sub is not None and not receiver.channel.is_durable:
            self.world.broker.subscriptions.pop(receiver.channel.sub, None)

    def unsubscribe(self) -> Step:
        sub = f"{self.conn}/news"
        held = any(hand.receiver.channel.sub == sub for hand in (*self.hands, *self.in_tx))
        if held or any(each.channel.sub == sub for each in self.receivers):
            return

        def effect() -> None:
            self.world.broker.subscriptions.pop(sub, None)

        yield from self.call("unsubscribe", [{"sub": sub}], effect)

    def browse(self, dest: str | None = None) -> Step:
        dest = dest or self.rng.choice(QUEUES)
        name, t0 = f"{self.sess}/{next(self.names)}", self.world.now(self)
        yield
        if self.is_cut:
            return
        queue = self.world.broker.queue(dest)
        self.world.broker.expire(queue, self.world.true_ns)
        self.tell_expired()
        seen = [copy.message for copy in queue.copies if copy.holder is None]
        yield
        rows = [{**_described(message), "consumer": name, "dest": dest} for message in seen]
        for row in rows:
            self.record("browse", OK, t0, [row])
        note = json.dumps({"seen": len(rows), "selector": None})
        self.record("browse", OK, t0, [{"consumer": name, "dest": dest, "note": note}])

    # The end

    def leave(self) -> Step:
        if self.is_cut:
            self.notice()
            return
        if self.rng.random() < 0.7:
            yield from self.call("close", [{}], self.gone, may_fail=False)
            self.record("close", OK, self.world.now(self), [{"sess": None}])

    def gone(self) -> None:
        """The broker learns that the connection has ended, in one way or another."""
        for receiver in self.receivers:
            self.detach(receiver)
        self.unsent.clear()
        self.in_tx.clear()
        self.world.broker.lose_connection(self.conn)

    def notice(self) -> None:
        if not self.has_noticed:
            self.has_noticed = True
            self.record("crash", OK, self.world.now(self), [{"sess": None, "note": '{"lost":true}'}])


class World:
    """All clients, the broker, and time."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.true_ns = START_NS
        self.nodes = ("a",) if self.rng.random() < 0.7 else ("a", "b")
        self.skew_ns = {"a": 0, "b": self.rng.randint(-80, 80) * NS_PER_MS}
        self.ahead = self.rng.choice((1, 1, 3))
        self.broker = Broker(self.rng)
        self.events: list[Event] = []
        self.ids = count(1)
        self.features: Counter[str] = Counter()
        self.clients = [Client(self, number) for number in range(1, self.rng.randint(2, 5))]

    def now(self, client: Client) -> int:
        self.true_ns += self.rng.randint(1, 2000) * 1000
        if self.rng.random() < 0.002:
            self.true_ns += 2000 * NS_PER_MS
        return self.true_ns + self.skew_ns[client.node]

    def add(self, client: Client, op: str, ok: str, t0: int, t1: int | None, row: dict[str, Any]) -> None:
        place = {"conn": client.conn, "sess": client.sess, "consumer": None, "n": next(client.numbers), **row}
        self.events.append(Event(run="r", node=client.node, pid=client.pid, op=op, ok=ok, t0=t0, t1=t1, **place))

    def run(self, *, with_trouble: bool = True) -> None:
        alive = list(self.clients)
        while alive:
            client = self.rng.choice(alive)
            if next(client.script, StopIteration) is StopIteration:
                alive.remove(client)
            elif with_trouble:
                self._trouble(client, alive)

    def _trouble(self, client: Client, alive: list[Client]) -> None:
        chance = self.rng.random()
        if chance < 0.004:
            self.kill(client)
            alive.remove(client)
        elif chance < 0.008:
            self.features["cut"] += 1
            client.is_cut = True
            client.gone()
        elif chance < 0.010:
            self.crash_broker(alive)

    def kill(self, client: Client) -> None:
        self.features["killed"] += 1
        if client.current is not None:
            op, t0, rows = client.current
            for row in rows:
                self.add(client, op, UNKNOWN, t0, None, row)
        client.script.close()
        since = self.now(client)
        client.gone()
        if self.rng.random() < 0.7:
            self._died(client, client.pid, since)

    def crash_broker(self, alive: list[Client]) -> None:
        self.features["crashed"] += 1
        since = self.now(self.clients[0])
        self.broker.crash()
        for client in alive:
            client.is_cut = True
            client.unsent.clear()
            client.in_tx.clear()
        self._died(self.clients[0], "", since)

    def _died(self, by: Client, pid: str, since: int) -> None:
        self.events.append(
            Event(
                run="r",
                node=by.node,
                pid=pid,
                conn=None,
                sess=None,
                consumer=None,
                op="crash",
                ok=OK,
                t0=since,
                t1=self.now(by),
            )
        )

    def drain(self) -> None:
        """Let one more client consume all there is, and look over the queues."""
        last = Client(self, 99)
        last.mode = "auto"
        for client in self.clients:
            if not client.has_noticed:
                client.gone()
        self.clients.append(last)
        last.script = self._drained_by(last)
        self.true_ns += 1000 * NS_PER_MS
        self.run(with_trouble=False)

    def _drained_by(self, last: Client) -> Step:
        for dest in (*QUEUES, DEAD_LETTERS):
            yield from last.consume(dest, "")
        for sub, channel in list(self.broker.subscriptions.items()):
            if channel.is_durable:
                yield from last.consume(channel.dest, sub)
        for receiver in last.receivers:
            receiver.least = 0
            while any(copy.holder is None for copy in receiver.channel.copies) or receiver.buffer or last.hands:
                yield from last.receive() if not last.hands else last.settle()
        while last.receivers:
            yield from last.stop_consuming()
        for dest in (*QUEUES, DEAD_LETTERS):
            yield from last.browse(dest)
        yield from last.leave()


def _described(message: Message) -> dict[str, Any]:
    return {
        "mid": message.mid,
        "mode": message.mode,
        "prio": message.prio,
        "exp": message.exp_ms,
        "sha": message.sha,
    }


def random_history(seed: int) -> RandomHistory:
    """Return the correct history of `seed`."""
    world = World(seed)
    world.run()
    is_drained = world.rng.random() < 0.7
    if is_drained:
        world.drain()
    return RandomHistory(seed=seed, events=tuple(world.events), is_drained=is_drained, features=world.features)
