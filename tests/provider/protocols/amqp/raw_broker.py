"""A broker as raw clients reach it, and what tests often do with one."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from pyjms.spi.clock import Clock
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import ACCEPTED, Flow, Source, Target, Transfer
from pyjms_provider.model.managed import State
from pyjms_provider.protocols.amqp.frames import Frame
from pyjms_provider.serving.served_broker import ServedBroker
from tests.provider.protocols.amqp.raw import RawPeer, SocketWire

_NUMBERS = itertools.count()
_RUN = uuid.uuid4().hex[:8]
QUEUE = ("queue",)
TOPIC = ("topic",)


def fresh(prefix: str = "queue") -> str:
    """Return a name that nothing has."""
    return f"{prefix}-{_RUN}-{next(_NUMBERS)}"


@dataclass
class RawBroker:
    """Where a broker listens, and as which user raw clients log in."""

    url: str
    _peers: list[RawPeer] = field(default_factory=list)

    def connect(self) -> RawPeer:
        """Return a connection on which nothing was said."""
        parts = urlsplit(self.url)
        peer = RawPeer(SocketWire((parts.hostname or "127.0.0.1", parts.port or 5672)))
        self._peers.append(peer)
        return peer

    def opened(self, container: str | None = None, **fields: Any) -> RawPeer:
        """Return a connection that is logged in and open."""
        peer = self.connect()
        parts = urlsplit(self.url)
        peer.log_in(unquote(parts.username or ""), unquote(parts.password or ""))
        peer.open(container or fresh("raw"), **fields)
        return peer

    def in_session(self, container: str | None = None) -> RawPeer:
        """Return a connection with a session on channel 0."""
        peer = self.opened(container)
        peer.begin()
        return peer

    def sender(self, address: str, capabilities: tuple[str, ...] = QUEUE, **fields: Any) -> RawPeer:
        """Return a connection with a sender as handle 0."""
        peer = self.in_session()
        peer.attach_sender(Target(address, capabilities=capabilities), **fields)
        return peer

    def receiver(self, address: str, *, credit: int = 0, source: Any = None, **fields: Any) -> RawPeer:
        """Return a connection with a receiver as handle 1."""
        peer = self.in_session()
        peer.attach_receiver(source or Source(address, capabilities=QUEUE), credit=credit, **fields)
        return peer

    def put(self, address: str, *messages: bytes, capabilities: tuple[str, ...] = QUEUE) -> None:
        """Send messages, and wait until the broker has them."""
        with closing(self.sender(address, capabilities)) as peer:
            for each in messages:
                assert peer.outcome(each) == ACCEPTED

    def left(self, address: str) -> list[bytes]:
        """Take what is in a queue, and return the bodies."""
        with closing(self.receiver(address)) as peer:
            found = drained(peer)
            for transfer, _ in found:
                assert transfer.delivery_id is not None
                peer.settle(transfer.delivery_id, ACCEPTED)
        return [bare(data) for _, data in found]

    def close(self) -> None:
        """Close what is open still."""
        for each in self._peers:
            each.wire.close()


@contextmanager
def served_url(
    clock: Clock | None = None,
    *,
    host: Mapping[str, Any] = MappingProxyType({}),
    queues: tuple[str, ...] = (),
    **port: Any,
) -> Iterator[str]:
    """Serve a virtual host to everybody; return the URL of its port.

    Args:
        clock: the broker's.
        host: attributes of the virtual host.
        queues: that it has.
        port: attributes of the port.
    """
    with ServedBroker.open(name="broker", clock=clock) as served:
        top = served.broker
        top.create_child("authentication_provider", {"name": "who", "type": "anonymous"})
        top.create_child("access_control", {"name": "access", "rules": [{"effect": "allow", "who": "*"}]})
        node = top.create_child("virtual_host_node", {"name": "broker", "type": "memory"})
        virtual_host = node.create_child("virtual_host", {"name": "broker", "redelivery_back_off_ms": 0, **host})
        for each in queues:
            virtual_host.create_child("queue", {"name": each})
        settings = {"name": "amqp", "type": "amqp", "host": "127.0.0.1", "transports": ["tcp"], "port": 0, **port}
        top.create_child("port", {**settings, "authentication_providers": ["who"], "access_control": "access"})
        assert not served.objects_in(State.ERRORED), [each.snapshot.error for each in served.objects_in(State.ERRORED)]
        yield f"amqp://127.0.0.1:{served.addresses()[0].rpartition(':')[2]}"


@contextmanager
def closing(peer: RawPeer) -> Iterator[RawPeer]:
    """Close a connection behind a block, and see that nothing unexpected came meanwhile."""
    yield peer
    peer.close()


def drained(peer: RawPeer, *, handle: int = 1, count: int = 0) -> list[tuple[Transfer, bytes]]:
    """Return the messages that a receiver gets now. `count` is how many it has had."""
    peer.give_credit(100, handle=handle, count=count, drain=True)
    found: list[tuple[Transfer, bytes]] = []
    whole = b""
    first: Transfer | None = None
    while True:
        frame = peer.next()
        assert isinstance(frame, Frame)
        performative = frame.performative
        if isinstance(performative, Flow):
            if performative.handle is not None and performative.link_credit == 0:
                return found
            continue
        assert isinstance(performative, Transfer), performative
        first = first or performative
        whole += frame.payload
        if not performative.more:
            found.append((first, whole))
            whole, first = b"", None


def bare(data: bytes) -> bytes:
    """Return the bare message of a message."""
    return Message(data).bare
