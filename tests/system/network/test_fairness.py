"""Sessions and consumers of one connection share the wire, as real clients see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from threading import Condition

import pytest
import stomp

from pyjms import ConnectionFactory, DeliveryMode, Message, Session
from pyjms_provider.protocols.stomp.codec import FrameDecoder
from pyjms_provider.protocols.stomp.frames import Frame, Version
from pyjms_provider.protocols.stomp.packed import unpack_deliveries
from tests.system.network.proxy import Proxy, Way
from tests.system.network.served import anonymous_broker, port_of

PATIENCE_S = 30.0
MESSAGES = 300
_TURN = 32  # messages at most


class Recorder(Proxy):
    """Keeps what passes."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port))
        self._passed = {way: bytearray() for way in Way}

    def _judge(self, way: Way, data: bytes, ends: list[int]) -> tuple[int, None]:
        self._passed[way] += data
        super()._judge(way, data, ends)
        return len(data), None

    def frames(self, way: Way) -> list[Frame]:
        """Return all frames that went that way on the one connection."""
        decoder = FrameDecoder(version=Version.V1_2)
        return [event for event in decoder.feed(bytes(self._passed[way])) if isinstance(event, Frame)]


class Tally:
    """Counts messages that listeners get."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._count = 0

    def on_message(self, _: Message) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def await_count(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count, PATIENCE_S), f"{self._count} of {count} came"


@contextmanager
def recorder() -> Iterator[tuple[Recorder, int]]:
    with anonymous_broker() as broker, Recorder(port_of(broker)) as proxy:
        yield proxy, port_of(broker)


def fill(port: int, names: list[str]) -> None:
    with ConnectionFactory(f"stomp://127.0.0.1:{port}").create_connection() as connection:
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        producer = session.create_producer(None)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        for name in names:
            for _ in range(MESSAGES):
                producer.send(session.create_queue(name), session.create_text_message("x" * 500))
        session.commit()


@pytest.mark.realises("BJ-PE-7", "QCM-19", "QCM-20")
def test_a_session_with_nine_consumers_takes_no_more_of_the_wire_than_one_with_one() -> None:
    queues = [f"crowd-{number}" for number in range(9)]
    with recorder() as (proxy, port):
        fill(port, [*queues, "single"])
        tally = Tally()
        url = f"stomp://127.0.0.1:{proxy.port}?prefetch_messages={MESSAGES}"
        with ConnectionFactory(url).create_connection() as connection:
            for names in (queues, ["single"]):
                session = connection.create_session(False, Session.DUPS_OK_ACKNOWLEDGE)
                for name in names:
                    session.create_consumer(session.create_queue(name)).message_listener = tally.on_message
            connection.start()
            tally.await_count(10 * MESSAGES)
        said = proxy.frames(Way.UP)
        queue_of = {
            frame.headers["id"]: frame.headers["destination"].removeprefix("/queue/")
            for frame in said
            if frame.command == "SUBSCRIBE"
        }
        heard = [
            queue_of[frame.headers["subscription"]]
            for frame in proxy.frames(Way.DOWN)
            if frame.command == "MESSAGES"
            for _ in unpack_deliveries(frame.body, int(frame.headers["first"]))  # type: ignore[arg-type]  # as decoded
        ]
    assert Counter(heard) == dict.fromkeys([*queues, "single"], MESSAGES)
    # From its first turn to its last, as the credit of the others comes first.
    places = [place for place, name in enumerate(heard) if name == "single"]
    meanwhile = Counter(heard[places[0] : places[-1]])
    others = sum(meanwhile[name] for name in queues)
    assert others <= MESSAGES + 2 * _TURN, f"they got {others}, while the one with one consumer got {MESSAGES}"
    assert max(meanwhile[name] for name in queues) <= 3 * _TURN, "they share the turns of their session"


class Heard(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Keeps where messages are from."""

    def __init__(self, count: int) -> None:
        self._changed = Condition()
        self._count = count
        self.destinations: list[str] = []

    def on_message(self, frame: stomp.utils.Frame) -> None:
        with self._changed:
            self.destinations.append(frame.headers["destination"])
            self._changed.notify_all()

    def wait(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.destinations) == self._count, PATIENCE_S), self.destinations


@pytest.mark.realises("QCM-1", "QCM-21", "BJ-PE-7")
def test_one_subscription_of_stomp_py_gets_the_messages_of_several_queues_in_turn() -> None:
    names = ["/queue/p", "/queue/q", "/topic/t"]
    with anonymous_broker() as broker:
        port = port_of(broker)
        fill(port, ["p", "q"])
        connection = stomp.Connection12([("127.0.0.1", port)])
        heard = Heard(2 * MESSAGES + 1)
        connection.set_listener("", heard)
        connection.connect(wait=True)
        connection.subscribe(",".join(names), id="s", ack="auto")
        connection.send("/topic/t", "news")
        heard.wait()
        connection.disconnect()
    queued = [name for name in heard.destinations if name != "/topic/t"]
    assert queued == names[:2] * MESSAGES
    assert [name for name, _ in groupby(heard.destinations)].count("/topic/t") == 1
