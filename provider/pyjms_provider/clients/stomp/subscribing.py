"""The headers by which a consumer is made and ended, for each dialect; what a broker cannot do is refused here."""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import CapabilityError, DestinationError
from pyjms.spi.provider import SubscribeRequest
from pyjms_provider.clients.stomp.selecting import selector_text
from pyjms_provider.protocols.stomp.dialects import Dialect, PrefetchUnit
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.message_properties import quoted

__all__ = ["TEMPORARY_QUEUE", "Subscribing", "durable_headers", "place_of", "prefetch"]

_BYTES_A_MESSAGE = 10 * 1024


def place_of(address: Address, dialect: Dialect) -> Address:
    """Return what stands for `address` at a broker without temporary destinations: a lasting one of a unique name."""
    if not address.temporary or dialect.temporaries:
        return address
    return Address(address.kind, address.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribing:
    """What SUBSCRIBE and UNSUBSCRIBE of one consumer say."""

    id: str
    subscribe: dict[str, str]
    unsubscribe: dict[str, str]
    """Ends the consumer; a durable subscription stays."""

    def frame(self) -> Frame:
        """Return a SUBSCRIBE, which may be changed."""
        return Frame("SUBSCRIBE", dict(self.subscribe))

    def end(self) -> Frame:
        """Return an UNSUBSCRIBE, which may be changed."""
        return Frame("UNSUBSCRIBE", dict(self.unsubscribe))

    @classmethod
    def for_consumer(
        cls, request: SubscribeRequest, dialect: Dialect, *, number: int, client_id: str | None, prefetch_messages: int
    ) -> Subscribing:
        """Return those of a consumer. Raises `CapabilityError`, `DestinationError`."""
        consumer_id = f"s{number}"
        headers = _base(request.address, dialect)
        headers[dialect.prefetch_header] = str(prefetch(prefetch_messages, dialect))
        headers.update(_selector_headers(request, dialect))
        if request.no_local and dialect.no_local is not None:
            name, value = dialect.no_local
            headers[name] = value
        if request.durable_name is not None:
            headers.update(durable_headers(dialect, client_id, request.durable_name))
        elif dialect.durable_headers and request.address.temporary and request.address.kind is AddressKind.QUEUE:
            headers.update(TEMPORARY_QUEUE)
        return cls(id=consumer_id, subscribe={"id": consumer_id, **headers}, unsubscribe={"id": consumer_id})

    @classmethod
    def for_browser(cls, address: Address, dialect: Dialect, *, number: int) -> Subscribing:
        """Return those of a browser, which selects by itself. Raises `CapabilityError`, `DestinationError`."""
        if dialect.browser is None:
            raise CapabilityError(f"{dialect.title} has no queue browsers over STOMP (Capability.BROWSING)")
        browser_id, (name, value) = f"b{number}", dialect.browser
        headers = {"id": browser_id, **_base(address, dialect), name: value}
        headers["ack"] = "auto"
        return cls(id=browser_id, subscribe=headers, unsubscribe={"id": browser_id})


# RabbitMQ: a queue that its connection alone may consume from, and that ends with it.
TEMPORARY_QUEUE = {"durable": "false", "auto-delete": "false", "exclusive": "true"}


def durable_headers(dialect: Dialect, client_id: str | None, name: str) -> dict[str, str]:
    """Return the headers that name a durable subscription, for SUBSCRIBE and for its end."""
    if dialect.durable_name_header is not None:
        return {dialect.durable_name_header: name}
    identity = f"pyjms.durable.{quoted(client_id or '')}/{quoted(name)}"
    return {**dialect.durable_headers, "x-queue-name": identity}


def _selector_headers(request: SubscribeRequest, dialect: Dialect) -> dict[str, str]:
    """Return the header that has the broker select; none where this client does it as well by itself."""
    if request.selector is None:
        return {}
    if dialect.selector_header is None:
        raise CapabilityError(f"{dialect.title} has no message selectors over STOMP (Capability.SELECTORS)")
    try:
        return {dialect.selector_header: selector_text(request.selector, dialect)}
    except CapabilityError:
        # What a subscriber leaves out nobody else gets, so it may be left out here; a durable one is known by its selector.
        if request.address.kind is AddressKind.TOPIC and request.durable_name is None:
            return {}
        raise


def _base(address: Address, dialect: Dialect) -> dict[str, str]:
    if "\0" in address.name:
        raise DestinationError("the name of a destination has a NUL, which STOMP cannot carry")
    headers = dialect.destinations.headers_for(place_of(address, dialect), subscribing=True)
    # Never `auto`: the broker would settle what sits in a socket's buffer.
    return {**headers, "ack": "client-individual"}


def prefetch(messages: int, dialect: Dialect) -> int:
    """Return `messages` in the unit of the broker."""
    if dialect.prefetch_unit is PrefetchUnit.MESSAGES:
        return messages
    return 0 if messages == 1 else messages * _BYTES_A_MESSAGE  # Artemis: 0 is one at a time
