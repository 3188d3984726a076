"""Temporary destinations: the broker's own where it has some, else lasting ones of unique names.

ActiveMQ Classic's end with the connection, and their names, by which others reach them, are made by the broker: the id of
its connection and a number. STOMP tells neither; the id stands in the `message-id` of what the connection sent, and the
numbers count the destinations that it has named. So a first message to oneself tells all.
"""

from __future__ import annotations

from itertools import count
from threading import Condition, Lock

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, ResourceError
from pyjms_provider.clients.stomp.epoch import Epoch
from pyjms_provider.clients.stomp.subscribing import TEMPORARY_QUEUE, place_of
from pyjms_provider.protocols.stomp.dialects import Dialect
from pyjms_provider.protocols.stomp.frames import Frame

__all__ = ["PROBE", "StompTemporaries"]

PROBE = "probe"
"""The id of the subscription that gets the message to oneself."""
_PATIENCE_S = 30.0
_KINDS = {AddressKind.QUEUE: "queue", AddressKind.TOPIC: "topic"}


class StompTemporaries:
    """Those of one connection. Any thread."""

    def __init__(self, connection_id: str, dialect: Dialect) -> None:
        self._prefix = f"pyjms.temporary.{connection_id}."
        self._dialect = dialect
        self._changed = Condition(Lock())
        self._is_making = False
        self._numbers = count(1)
        self._own: set[Address] = set()
        self._gone: set[Address] = set()
        self._epoch = 0
        self._native_prefix = ""
        self._named = 0  # to the broker, in this epoch
        self._probes: list[Frame] = []
        self._probe_signal = Signal()

    def create(self, kind: AddressKind, epoch: Epoch) -> Address:
        """Return a new one. Raises `InterruptedLinkError`, `ProviderError`."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._is_making, _PATIENCE_S):
                raise ResourceError("another thread waits for the broker to make a temporary destination: try again")
            self._is_making = True
        try:
            address = (
                self._make_native(kind, epoch) if self._dialect.translates_temporaries else self._make(kind, epoch)
            )
        finally:
            with self._changed:
                self._is_making = False
                self._changed.notify_all()
        self._own.add(address)
        return address

    def _make(self, kind: AddressKind, epoch: Epoch) -> Address:
        address = Address(kind, f"{self._prefix}{next(self._numbers)}", temporary=True)
        self._declare(address, epoch)
        return address

    def _declare(self, address: Address, epoch: Epoch) -> None:
        """See to it that a queue is there before anybody sends to it."""
        if address.kind is AddressKind.QUEUE and self._dialect.durable_headers:
            headers = self._dialect.destinations.headers_for(place_of(address, self._dialect), subscribing=True)
            headers |= {"id": PROBE, **TEMPORARY_QUEUE, "ack": "client-individual", self._dialect.prefetch_header: "1"}
            epoch.ask(Frame("SUBSCRIBE", headers), Frame("UNSUBSCRIBE", {"id": PROBE}))

    def _make_native(self, kind: AddressKind, epoch: Epoch) -> Address:
        if self._epoch != epoch.number:
            self._epoch, self._named, self._native_prefix = epoch.number, 0, ""
        self._named += 1  # now: the broker counts what it was asked for, though the answer may come too late
        number, local = self._named, f"/temp-{_KINDS[kind]}/{next(self._numbers)}"
        begin = Frame("SUBSCRIBE", {"id": PROBE, "destination": local, "ack": "auto"})
        end = Frame("UNSUBSCRIBE", {"id": PROBE})
        if self._native_prefix:
            epoch.ask(begin, end, needs_room=False)  # as it is counted already
        else:
            try:
                self._native_prefix = self._probed(epoch, begin, Frame("SEND", {"destination": local}))
            finally:
                epoch.take_back(end)
        return Address(kind, f"/remote-temp-{_KINDS[kind]}/{self._native_prefix}:{number}", temporary=True)

    def _probed(self, epoch: Epoch, *frames: Frame) -> str:
        """Return the id of the broker's connection, as the message to oneself has it. Raises `InterruptedLinkError`, `ProviderError`."""
        self._probes.clear()
        self._probe_signal.wait(0)
        epoch.ask(*frames, needs_room=False)
        self._probe_signal.wait(_PATIENCE_S)
        if not self._probes:
            raise ResourceError("the broker has not delivered a first message to a temporary destination")
        return self._probes[0].headers.get("message-id", "").rsplit(":", 3)[0]

    def arrived(self, frame: Frame) -> None:
        """Take the message to oneself. The I/O thread."""
        self._probes.append(frame)
        self._probe_signal.set()

    def delete(self, address: Address) -> None:
        """Forget one of this connection. Raises `DestinationError`."""
        self.check_own(address)
        self._own.discard(address)
        self._gone.add(address)

    def restore(self, epoch: Epoch) -> None:
        """Make in a new epoch what can be made there under the old names. Raises `InterruptedLinkError`, `ProviderError`."""
        if self._dialect.translates_temporaries:
            self._gone |= self._own
            self._own.clear()
            return
        for address in list(self._own):
            self._declare(address, epoch)

    def is_gone(self, address: Address) -> bool:
        """Say whether it was this connection's and is no more."""
        return bool(self._gone) and address in self._gone

    def check_own(self, address: Address) -> None:
        """Raise `DestinationError` unless it is this connection's, and there still."""
        if address not in self._own:
            raise DestinationError(f"{address} is gone, or is another connection's, which alone may consume from it")

    def check_usable(self, address: Address) -> None:
        """Raise `DestinationError` when it was this connection's, and is no more."""
        if self.is_gone(address):
            raise DestinationError(f"{address} is gone: it was deleted, or went with a connection that was lost")

    def send_headers(self, address: Address) -> dict[str, str]:
        """Return the headers by which it is sent to, at a broker that has none of its own."""
        headers = self._dialect.destinations.headers_for(place_of(address, self._dialect))
        if address.kind is AddressKind.QUEUE and self._dialect.durable_headers:
            # RabbitMQ: /queue/ would make a lasting queue of a name that is gone.
            headers["destination"] = headers["destination"].replace("/queue/", "/amq/queue/", 1)
        return headers
