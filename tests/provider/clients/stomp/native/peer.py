"""A broker on a loopback socket that speaks as much of the profile as a test tells it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from socket import IPPROTO_TCP, TCP_NODELAY

from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Address, Envelope
from pyjms.spi.provider import ConnectRequest, SubscribeRequest
from pyjms.spi.url import ProviderUrl
from pyjms_provider.clients.stomp.native.connection import NativeConnection
from pyjms_provider.clients.stomp.native.consumer import NativeConsumer
from pyjms_provider.clients.stomp.native.session import NativeSession
from pyjms_provider.clients.stomp.provider import StompProvider
from pyjms_provider.protocols.profile.answers import Greeting
from pyjms_provider.protocols.stomp.dialects import PYJMS
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.messages import to_frame
from tests.provider.clients.stomp.fake_broker import FakeBroker
from tests.provider.clients.stomp.world import ORDERS, QUICKLY, Events, Told
from tests.provider.helpers import make_envelope

NO_BEATS = "heart_beat_ms=0"
"""For a connection to a broker that stands still: nothing comes of that by itself."""

_GREETING = Greeting(capabilities=~Capability.NONE, resource_manager="peer", can_prepare=True)


@dataclass
class Peer(FakeBroker):
    """Answers what a pyjms client asks for; `before_answer` is called before it does."""

    before_answer: Callable[[int, Frame], None] = lambda number, frame: None
    destinations: Iterator[str] = field(default_factory=lambda: iter(f"/temp-queue/t{n}" for n in range(100)))
    denied: set[str] = field(default_factory=set)
    """Ids of consumers that are refused."""
    body_max: int = 0
    persists_all: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.unanswered |= {"CONNECT", "CREATE"}
        self.on_frame = self._answer

    def _answer(self, number: int, frame: Frame) -> None:
        if frame.command == "CONNECT":
            # else the second of two frames waits 40 ms for the acknowledgement of the first
            self._connections[number].setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            greeting = replace(_GREETING, body_max=self.body_max, persists_all=self.persists_all)
            headers = {"version": "1.2", "server": "pyjms/1", "session": f"c{number}", **greeting.headers()}
            self.push(Frame("CONNECTED", headers))
            return
        self.before_answer(number, frame)
        receipt = frame.headers.get("receipt", "")
        if frame.command == "CREATE":
            self.push(Frame("RECEIPT", {"receipt-id": receipt, "destination": next(self.destinations)}))
        if frame.command == "SUBSCRIBE" and frame.headers["id"] in self.denied:
            self.push(Frame("ERROR", {"receipt-id": receipt, "code": "PYJMS-ACCESS", "message": "not yours"}))
            frame.headers.pop("receipt")

    def deliver_to(self, consumer: NativeConsumer, number: int, envelope: Envelope | None = None) -> None:
        """Send a MESSAGE."""
        frame = to_frame(envelope or make_envelope(f"m{number}"), PYJMS, command="MESSAGE")
        frame.headers.update({"subscription": consumer.name, "ack": str(number), "message-id": "m"})
        self.push(frame)

    def numbers_on(self, connection: int, command: str) -> list[Frame]:
        """Return the frames of one command that came on one connection."""
        return [frame for number, frame in list(self.frames) if number == connection and frame.command == command]


def link_to(peer: FakeBroker, events: Events | None = None, options: str = QUICKLY) -> NativeConnection:
    """Return a started connection."""
    url = ProviderUrl.parse(f"{peer.url}?{options}")
    request = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=SystemClock())
    connection = StompProvider().connect(request, events or Events())
    assert isinstance(connection, NativeConnection)
    connection.start()
    return connection


@contextmanager
def linked(peer: FakeBroker, events: Events | None = None, options: str = QUICKLY) -> Iterator[NativeConnection]:
    connection = link_to(peer, events, options)
    try:
        yield connection
    finally:
        connection.close()


def consumer_of(
    session: NativeSession, told: Callable[[], None] | None = None, address: Address = ORDERS, *, wants: bool = True
) -> NativeConsumer:
    """Return a consumer that wants messages."""
    consumer = session.subscribe(
        SubscribeRequest(address=address, selector=None, no_local=False, durable_name=None), told or Told()
    )
    consumer.set_interested(wants)
    return consumer
