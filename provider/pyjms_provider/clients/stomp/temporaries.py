"""Temporary destinations: the broker's own where it has some, else lasting ones of unique names.

ActiveMQ Classic's end with the connection, and their names, by which others reach them, are made by the broker: the id of
its connection and a number. STOMP tells neither; the id stands in the `message-id` of what the connection sent, and the
numbers count the destinations that it has named. So a first message to oneself tells all.
"""

from __future__ import annotations

from functools import partial
from itertools import count
from threading import Lock

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError, ResourceError
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.stomp.subscribing import TEMPORARY_QUEUE, place_of
from pyjms_provider.clients.stomp.transport import SentFlag
from pyjms_provider.protocols.stomp.dialects import Dialect
from pyjms_provider.protocols.stomp.frames import Frame

PROBE = "probe"
"""How the id of a subscription begins that gets the message to oneself."""
_PATIENCE_S = 30.0
_PREFIX = "pyjms.temporary."
"""How the name of a temporary destination begins at a broker that has none of its own."""
_KINDS = {AddressKind.QUEUE: "queue", AddressKind.TOPIC: "topic"}


class StompTemporaries:
    """Those of one connection. Any thread."""

    def __init__(self, connection_id: str, dialect: Dialect) -> None:
        self._prefix = f"{_PREFIX}{connection_id}."
        self._dialect = dialect
        self._right = Lock()
        """The right to make one."""
        self._numbers = count(1)
        self._own: set[Address] = set()
        self._gone: set[Address] = set()
        self._physical = 0
        self._native_prefix = ""
        self._named = 1
        """The number, in this physical connection, of the one that is named to the broker next, or was last."""
        self._naming = SentFlag()
        """Whether that was said."""
        self._probes: list[Frame] = []
        self._probe_signal = Signal()

    def create(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        """Return a new one. Raises `ConnectionLostInCallError`, `ProviderError`."""
        make = self._make_native if self._dialect.translates_temporaries else self._make
        with self._right:
            address = make(kind, physical)
        self._own.add(address)
        return address

    def _make(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        address = Address(kind, f"{self._prefix}{next(self._numbers)}", temporary=True)
        self._declare(address, physical)
        return address

    def _declare(self, address: Address, physical: PhysicalConnection) -> None:
        """See to it that a queue is there before anybody sends to it."""
        if address.kind is AddressKind.QUEUE and self._dialect.durable_headers:
            headers = self._dialect.destinations.headers_for(place_of(address, self._dialect), subscribing=True)
            headers |= {"id": PROBE, **TEMPORARY_QUEUE, "ack": "client-individual", self._dialect.prefetch_header: "1"}
            physical.request(Frame("SUBSCRIBE", headers), Frame("UNSUBSCRIBE", {"id": PROBE}))

    def _make_native(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        naming, named = self._naming, self._named
        if self._physical != physical.number:
            naming, named, self._native_prefix = SentFlag(), 1, ""
        elif naming.is_sent:  # the broker counts what it was asked for, though the answer may have come too late
            naming, named = SentFlag(), named + 1
        self._physical, self._naming, self._named = physical.number, naming, named
        number = next(self._numbers)
        local, probe = f"/temp-{_KINDS[kind]}/{number}", f"{PROBE}-{number}"
        begin = Frame("SUBSCRIBE", {"id": probe, "destination": local, "ack": "auto"})
        end = Frame("UNSUBSCRIBE", {"id": probe})
        if self._native_prefix:
            physical.request(begin, end, sent=naming)
        else:
            with physical.browsing(partial(physical.take_back, end)):
                self._native_prefix = self._probed(physical, begin, Frame("SEND", {"destination": local}), naming)
        return Address(kind, f"/remote-temp-{_KINDS[kind]}/{self._native_prefix}:{named}", temporary=True)

    def _probed(self, physical: PhysicalConnection, begin: Frame, message: Frame, said: SentFlag) -> str:
        """Return the id of the broker's connection, as the message to oneself has it. Raises `ConnectionLostInCallError`, `ProviderError`."""
        self._probes.clear()
        self._probe_signal.wait(0)
        physical.request(begin, message, sent=said)
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
        self._gone.add(address)
        self._own.discard(address)

    def restore(self, physical: PhysicalConnection) -> None:
        """Make in a new physical connection what can be made there under the old names. Raises `ConnectionLostInCallError`, `ProviderError`."""
        if self._dialect.translates_temporaries:
            self._gone |= self._own
            self._own.clear()
            return
        for address in list(self._own):
            self._declare(address, physical)

    def is_gone(self, address: Address) -> bool:
        """Say whether it was this connection's and is no more."""
        return bool(self._gone) and address in self._gone

    def check_named(self, address: Address) -> None:
        """Raise `DestinationError` for the name of one that another connection has made as a lasting destination."""
        if (
            not self._dialect.temporaries
            and address.name.startswith(_PREFIX)
            and not address.name.startswith(self._prefix)
        ):
            raise DestinationError(
                f"{address} is a temporary destination of another connection, which alone may consume from it (JMS 1.1 §4.4.3)"
            )

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
