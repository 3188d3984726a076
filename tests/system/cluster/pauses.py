"""How long consumers of a cluster wait for their next message when the leader of their queue is killed, and when it is moved.

``python -m tests.system.cluster.pauses KILLS MOVES [STORED]`` prints a table. All clients are connected to one member, which is not killed; each shard has
a queue, to which a message is sent every 10 ms. With STORED, one shard has so many messages in another queue, and that one alone is moved.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from threading import Event

from pyjms import Connection, ConnectionFactory, DeliveryMode, JMSException, Session
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import AddressKind
from pyjms_provider.cluster.placement import Placement
from pyjms_tck.background import Background
from tests.system.cluster.site import SHARDS, ClusterSite, Settings

_PATIENCE_S = 120.0
_EVERY_S = 0.01
_STEP_S = 0.002
_BETWEEN_S = 0.5
_RECEIVE_MS = 1_000
_AT_ONCE = 1_000
_BODY = 500


class Stream:
    """One queue, with a sender and a consumer, each on a thread."""

    def __init__(self, connection: Connection, queue: str) -> None:
        self.queue = queue
        self._clock = SystemClock()
        self._is_over = Event()
        self.came_ms: list[float] = []
        """When messages came."""
        sending = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        receiving = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        self._threads = [
            Background(lambda: self._send(sending), _PATIENCE_S),
            Background(lambda: self._receive(receiving), _PATIENCE_S),
        ]

    def _send(self, session: Session) -> None:
        producer = session.create_producer(session.create_queue(self.queue))
        producer.delivery_mode = DeliveryMode.PERSISTENT
        while not self._is_over.wait(_EVERY_S):
            with suppress(JMSException):  # in doubt, or too late
                producer.send(session.create_text_message("x"))

    def _receive(self, session: Session) -> None:
        consumer = session.create_consumer(session.create_queue(self.queue))
        while not self._is_over.is_set():
            with suppress(JMSException):
                if consumer.receive(_RECEIVE_MS) is not None:
                    self.came_ms.append(self._clock.monotonic_ms())

    def now_ms(self) -> float:
        return self._clock.monotonic_ms()

    def await_message(self, since_ms: float) -> None:
        """Return when a message has come after that time."""
        pause = Event()
        while not self.came_ms or self.came_ms[-1] < since_ms:
            assert self.now_ms() - since_ms < 1000 * _PATIENCE_S, f"nothing comes of {self.queue}"
            pause.wait(_STEP_S)

    def longest_ms(self, since_ms: float) -> float:
        """Return the longest time between two messages, of which the second came after that time."""
        came = self.came_ms[:]
        begin = next((at for at, each in enumerate(came) if each >= since_ms), len(came))
        last = came[max(0, begin - 1) :]
        return max((after - before for before, after in pairwise(last)), default=0.0)

    def end(self) -> None:
        self._is_over.set()
        for each in self._threads:
            each.result()


class Pauses:
    """Kills and moves leaders, and measures."""

    def __init__(self, site: ClusterSite, stored: int = 0) -> None:
        """`stored`: how many messages one shard has in a queue without a consumer."""
        self._site = site
        self._home = site.members[0]
        self._stored = stored
        self.streams: dict[int, Stream] = {}

    def begin(self) -> ExitStack:
        """Have all clients work until the returned stack ends."""
        placement, ends = Placement(SHARDS), ExitStack()
        names = (f"queue-{number}" for number in range(1_000))
        by_shard: dict[int, str] = {}
        while len(by_shard) < SHARDS:
            name = next(names)
            by_shard.setdefault(placement.shard_of(AddressKind.QUEUE, name), name)
        factory = ConnectionFactory(f"stomp://127.0.0.1:{self._home.ports['stomp']}")
        self._fill(factory, next(name for name in names if placement.shard_of(AddressKind.QUEUE, name) == 0))
        for shard, queue in by_shard.items():
            connection = factory.create_connection()
            ends.callback(connection.close)
            connection.start()
            self.streams[shard] = Stream(connection, queue)
            ends.callback(self.streams[shard].end)
        return ends

    def _fill(self, factory: ConnectionFactory, queue: str) -> None:
        with factory.create_connection() as connection:
            session = connection.create_session(True, Session.SESSION_TRANSACTED)
            producer = session.create_producer(session.create_queue(queue))
            for begin in range(0, self._stored, _AT_ONCE):
                for _ in range(min(_AT_ONCE, self._stored - begin)):
                    producer.send(session.create_text_message("x" * _BODY))
                session.commit()

    def usual(self) -> list[float]:
        """Return the longest gaps of half a second each without a fault."""
        found = []
        for _ in range(10):
            since_ms = self._since()
            Event().wait(_BETWEEN_S)
            found += [each.longest_ms(since_ms) for each in self.streams.values()]
        return found

    def kill(self, number: int) -> list[float]:
        """Kill a member; return the pauses of the consumers of what it led."""
        member = self._site.members[1 + number % 2]
        led = [shard for shard, leader in self._site.leaders().items() if leader == member.name]
        since_ms = self._since()
        member.kill()
        found = self._measured(led, since_ms, lambda: self._are_led(led, {member.name}))
        member.start()
        self._site.await_whole()
        return found

    def move(self, number: int) -> list[float]:
        """Move the leader of a shard; return the pause of its consumer."""
        shards = 1 if self._stored else SHARDS
        shard = number % shards
        leader = self._site.leaders()[shard]
        others = [each.name for each in self._site.members if each.name != leader]
        target = others[number // shards % 2]
        since_ms = self._since()
        self._site.move_leader(self._home, shard, target)
        return self._measured([shard], since_ms, lambda: self._site.leaders()[shard] == target)

    def release(self) -> None:
        """Let any member lead each shard."""
        for shard in range(SHARDS):
            self._site.move_leader(self._home, shard, None)
        self._site.await_whole()

    def _since(self) -> float:
        """Return the present time, once all consumers have got a message after it was asked for."""
        asked_ms = next(iter(self.streams.values())).now_ms()
        for each in self.streams.values():
            each.await_message(asked_ms)
        return next(iter(self.streams.values())).now_ms()

    def _are_led(self, shards: Sequence[int], without: set[str]) -> bool:
        leaders = self._site.leaders()
        return all(leaders[shard] not in {None, *without} for shard in shards)

    def _measured(self, shards: Sequence[int], since_ms: float, is_over: Callable[[], bool]) -> list[float]:
        pause = Event()
        while not is_over():
            pause.wait(_STEP_S)
        streams = [self.streams[shard] for shard in shards]
        now_ms = streams[0].now_ms() if streams else 0.0
        for each in streams:
            each.await_message(now_ms)
        pause.wait(_BETWEEN_S)  # a pause may begin after the new leader is known
        for each in streams:
            each.await_message(each.now_ms())
        return [each.longest_ms(since_ms) for each in streams]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that so many are not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(folder: Path, kills: int, moves: int, stored: int) -> dict[str, list[float]]:
    """Return the pauses in milliseconds, by what happened."""
    site = ClusterSite(folder, Settings())
    found: dict[str, list[float]] = {"nothing": [], "leader killed": [], "leader moved": []}
    with ExitStack() as ends:
        ends.callback(site.close)
        pauses = Pauses(site, stored)
        ends.enter_context(pauses.begin())
        found["nothing"] = pauses.usual()
        for number in range(kills):
            found["leader killed"] += pauses.kill(number)
        for number in range(moves):
            found["leader moved"] += pauses.move(number)
        pauses.release()
    return found


def main(kills: str = "20", moves: str = "40", stored: str = "0") -> None:
    """Measure, and print a table."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), int(kills), int(moves), int(stored))
    print(f"{'what happens':16} {'consumers':>10} {'p50 ms':>8} {'p99 ms':>8} {'most ms':>8}")  # noqa: T201
    for what, values in found.items():
        if values:
            row = percentile(values, 0.5), percentile(values, 0.99), max(values)
            print(f"{what:16} {len(values):10} {row[0]:8.0f} {row[1]:8.0f} {row[2]:8.0f}")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
