"""The headers that subscribe and end a consumer in each dialect; features that a broker lacks are refused here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock

from pyjms.spi.clock import Signal
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import CapabilityError, DestinationError, ResourceError
from pyjms.spi.provider import SubscribeRequest
from pyjms.spi.selector import Selector
from pyjms.spi.selector.nodes import (
    And,
    Arithmetic,
    Between,
    Boolean,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Node,
    Not,
    Number,
    Or,
    Sign,
    names_in,
)
from pyjms_provider.clients.stomp.physical_connection import PhysicalConnection
from pyjms_provider.clients.stomp.transport import SentFlag
from pyjms_provider.protocols.stomp.dialects import Dialect, PrefetchUnit
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.message_properties import is_reserved, quoted

# Selectors for brokers that see properties as text, and compare them by the type of the literal (ActiveMQ, Artemis).
#
# Such a broker takes ``n = 2`` for true when n is the text ``2``, but not when it is ``2.0``; it cannot calculate with texts, nor
# recognize a boolean. So numbers are written as doubles, which match both, and a boolean as ``(b = TRUE)``; a condition that
# would still differ from JMS 1.1 §3.8 is refused.

_IDENTIFIER = re.compile(r"'(?:[^']|'')*'|[^\W\d][\w$]*")
_NUMBERS = frozenset({"JMSPriority", "JMSTimestamp"})
"""Header fields, which brokers have as numbers."""
# A double represents every integer up to this one.
_EXACT_MAX = 2**53


def selector_text(selector: Selector, dialect: Dialect) -> str:
    """Return `selector` as the broker reads it. Raises `CapabilityError` for a condition that would mean something else there."""
    if dialect.preserves_headers:
        return selector.text
    for name in sorted(selector.identifiers):
        if name == "JMSMessageID":
            raise CapabilityError(f"{dialect.title} gives messages ids of its own, so a selector cannot ask for {name}")
        if is_reserved(name):
            raise CapabilityError(
                f"a property {name!r} travels under another name over STOMP, so that {dialect.title} cannot select by it"
            )
    writer = _Writer(selector.text, dialect)
    writer.condition(selector.root)
    names = dialect.selector_names
    return dialect.selector_prefix + _IDENTIFIER.sub(lambda found: names.get(found[0], found[0]), writer.text())


class _Writer:
    """Walks the tree and collects replacements for the text. Raises `CapabilityError`."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._replaced: list[tuple[int, int, str]] = []

    def text(self) -> str:
        """Return the text with all replacements made."""
        text = self._text
        # From the end, so that the positions of the remaining replacements stay valid.
        for start, end, new in sorted(self._replaced, reverse=True):
            text = f"{text[:start]}{new}{text[end:]}"
        return text

    def condition(self, node: Node) -> None:
        """Check a condition, and collect its replacements."""
        match node:
            case And(terms=terms) | Or(terms=terms):
                for term in terms:
                    self.condition(term)
            case Not(operand=operand):
                self.condition(operand)
            case Identifier(name=name):
                self._replaced.append((node.start, node.end, f"({name} = TRUE)"))
            case Comparison(left=left, right=right):
                self._values(left, right)
            case Between(operand=operand, low=low, high=high):
                self._values(operand, low)
                self._values(operand, high, is_first_done=True)
            case In() | Like() | IsNull() | Boolean():
                return
            case _:
                self._refuse(node)

    def _values(self, left: Node, right: Node, *, is_first_done: bool = False) -> None:
        for side in (right,) if is_first_done else (left, right):
            match side:
                case Number(value=value):
                    self._replaced.append((side.start, side.end, _number_text(value)))
                case Arithmetic() | Sign() if any(name not in _NUMBERS for name in names_in(side)):
                    self._refuse(side)
                case And() | Or() | Not() | Comparison() | Between() | In() | Like() | IsNull():
                    self._refuse(side)
                case _:
                    continue
        # Both are text to the broker: 2 and 2.0 would differ, and 10 would come before 9.
        if names_in(left) and names_in(right) and not {*names_in(left), *names_in(right)} <= _NUMBERS:
            self._refuse(right)

    def _refuse(self, node: Node) -> None:
        raise CapabilityError(
            f"{self._dialect.title} sees properties as text over STOMP, so that {self._text[node.start : node.end]!r} in a "
            "selector would not mean what it says: compare a property with a literal"
        )


def _number_text(value: float) -> str:
    if isinstance(value, int) and abs(value) > _EXACT_MAX:
        return str(int(value))
    return repr(float(value))


# Artemis counts its window in bytes: an assumed size of a message.
_BYTES_A_MESSAGE = 10 * 1024


def place_of(address: Address, dialect: Dialect) -> Address:
    """Return the destination used for `address` at a broker without temporary ones: a lasting one with a unique name."""
    if not address.temporary or dialect.temporaries:
        return address
    return Address(address.kind, address.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscribing:
    """The headers of SUBSCRIBE and UNSUBSCRIBE for one consumer."""

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
        """Return the headers of a consumer. Raises `CapabilityError`, `DestinationError`."""
        if request.is_shared or request.shared_name is not None:
            raise CapabilityError(
                f"{dialect.title} has no shared subscriptions over STOMP (Capability.SHARED_SUBSCRIPTIONS)"
            )
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
        """Return the headers of a browser, which selects messages itself. Raises `CapabilityError`, `DestinationError`."""
        if dialect.browser is None:
            raise CapabilityError(f"{dialect.title} has no queue browsers over STOMP (Capability.BROWSING)")
        browser_id, (name, value) = f"b{number}", dialect.browser
        headers = {"id": browser_id, **_base(address, dialect), name: value}
        headers["ack"] = "auto"
        return cls(id=browser_id, subscribe=headers, unsubscribe={"id": browser_id})


# RabbitMQ: a queue that only its connection may consume from, and that ends with it.
TEMPORARY_QUEUE = {"durable": "false", "auto-delete": "false", "exclusive": "true"}


def durable_headers(dialect: Dialect, client_id: str | None, name: str) -> dict[str, str]:
    """Return the headers that name a durable subscription, for SUBSCRIBE and for its end."""
    if dialect.durable_name_header is not None:
        return {dialect.durable_name_header: name}
    identity = f"pyjms.durable.{quoted(client_id or '')}/{quoted(name)}"
    return {**dialect.durable_headers, "x-queue-name": identity}


def _selector_headers(request: SubscribeRequest, dialect: Dialect) -> dict[str, str]:
    """Return the header that has the broker select; none where this client can select as well."""
    if request.selector is None:
        return {}
    if dialect.selector_header is None:
        raise CapabilityError(f"{dialect.title} has no message selectors over STOMP (Capability.SELECTORS)")
    try:
        return {dialect.selector_header: selector_text(request.selector, dialect)}
    except CapabilityError:
        # A message that one subscriber discards is not missing at another: the client may select. A durable subscription is
        # identified by its selector.
        if request.address.kind is AddressKind.TOPIC and request.durable_name is None:
            return {}
        raise


def _base(address: Address, dialect: Dialect) -> dict[str, str]:
    if "\0" in address.name:
        raise DestinationError("the name of a destination has a NUL, which STOMP cannot carry")
    headers = dialect.destinations.headers_for(place_of(address, dialect), subscribing=True)
    # Never `auto`: the broker would settle messages that are still in a socket's buffer.
    return {**headers, "ack": "client-individual"}


def prefetch(messages: int, dialect: Dialect) -> int:
    """Return `messages` in the broker's unit."""
    if dialect.prefetch_unit is PrefetchUnit.MESSAGES:
        return messages
    return 0 if messages == 1 else messages * _BYTES_A_MESSAGE  # Artemis: 0 is one at a time


PROBE = "probe"
"""The beginning of the id of a subscription that receives the probe, a message to oneself."""
_TIMEOUT_S = 30.0
_PREFIX = "pyjms.temporary."
"""The beginning of the name of a temporary destination at a broker without temporary ones."""
_KINDS = {AddressKind.QUEUE: "queue", AddressKind.TOPIC: "topic"}


class ForeignTemporaries:
    """The temporary destinations of one connection. Any thread."""

    def __init__(self, connection_id: str, dialect: Dialect) -> None:
        self._prefix = f"{_PREFIX}{connection_id}."
        self._dialect = dialect
        self._right = Lock()
        """Held while one is made."""
        self._numbers = count(1)
        self._own: set[Address] = set()
        self._gone: set[Address] = set()
        self._physical = 0
        self._native_prefix = ""
        self._named = 1
        """The number, within this physical connection, of the last destination named to the broker, or of the next one."""
        self._naming = SentFlag()
        """Whether the SUBSCRIBE that names it was sent."""
        self._probes: list[Frame] = []
        self._probe_signal = Signal()

    def create(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        """Return a new temporary destination. Raises `ConnectionLostInCallError`, `ProviderError`."""
        make = self._make_native if self._dialect.translates_temporaries else self._make
        # One at a time: the broker numbers these destinations in the order of its requests, and so does `_named`.
        with self._right:
            address = make(kind, physical)
        self._own.add(address)
        return address

    def _make(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        address = Address(kind, f"{self._prefix}{next(self._numbers)}", temporary=True)
        self._declare(address, physical)
        return address

    def _declare(self, address: Address, physical: PhysicalConnection) -> None:
        """Have a queue exist before anything is sent to it."""
        if address.kind is AddressKind.QUEUE and self._dialect.durable_headers:
            headers = self._dialect.destinations.headers_for(place_of(address, self._dialect), subscribing=True)
            headers |= {"id": PROBE, **TEMPORARY_QUEUE, "ack": "client-individual", self._dialect.prefetch_header: "1"}
            physical.request(Frame("SUBSCRIBE", headers), Frame("UNSUBSCRIBE", {"id": PROBE}))

    def _make_native(self, kind: AddressKind, physical: PhysicalConnection) -> Address:
        naming, named = self._naming, self._named
        if self._physical != physical.number:
            naming, named, self._native_prefix = SentFlag(), 1, ""
        elif naming.is_sent:  # the broker counts the request even if its answer was late
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

    def _probed(self, physical: PhysicalConnection, begin: Frame, message: Frame, sent: SentFlag) -> str:
        """Return the id of the broker's connection, as the probe has it. Raises `ConnectionLostInCallError`, `ProviderError`."""
        self._probes.clear()
        # Clears a flag from an earlier attempt that was not answered in time.
        self._probe_signal.wait(0)
        physical.request(begin, message, sent=sent)
        self._probe_signal.wait(_TIMEOUT_S)
        if not self._probes:
            raise ResourceError("the broker has not delivered a first message to a temporary destination")
        return self._probes[0].headers.get("message-id", "").rsplit(":", 3)[0]

    def arrived(self, frame: Frame) -> None:
        """Receive the probe. The I/O thread."""
        self._probes.append(frame)
        self._probe_signal.set()

    def delete(self, address: Address) -> None:
        """Delete an own destination. Raises `DestinationError`."""
        self.check_own(address)
        self._gone.add(address)
        self._own.discard(address)

    def restore(self, physical: PhysicalConnection) -> None:
        """Make destinations again, under their old names, on a new physical connection, where the broker allows that. Raises
        `ConnectionLostInCallError`, `ProviderError`.
        """
        if self._dialect.translates_temporaries:
            # Their names have the id of the lost connection in them, so they cannot be made again.
            self._gone |= self._own
            self._own.clear()
            return
        for address in list(self._own):
            self._declare(address, physical)

    def is_gone(self, address: Address) -> bool:
        """Return whether it was this connection's and no longer exists."""
        return bool(self._gone) and address in self._gone

    def check_named(self, address: Address) -> None:
        """Raise `DestinationError` if it is another connection's temporary destination, made as a lasting one."""
        if (
            not self._dialect.temporaries
            and address.name.startswith(_PREFIX)
            and not address.name.startswith(self._prefix)
        ):
            raise DestinationError(
                f"{address} is a temporary destination of another connection, which alone may consume from it (JMS 1.1 §4.4.3)"
            )

    def check_own(self, address: Address) -> None:
        """Raise `DestinationError` unless it is this connection's, and still exists."""
        if address not in self._own:
            raise DestinationError(f"{address} is gone, or is another connection's, which alone may consume from it")

    def check_usable(self, address: Address) -> None:
        """Raise `DestinationError` if it was this connection's and no longer exists."""
        if self.is_gone(address):
            raise DestinationError(f"{address} is gone: it was deleted, or went with a connection that was lost")

    def send_headers(self, address: Address) -> dict[str, str]:
        """Return the headers for a SEND to it, at a broker without temporary destinations."""
        headers = self._dialect.destinations.headers_for(place_of(address, self._dialect))
        if address.kind is AddressKind.QUEUE and self._dialect.durable_headers:
            # RabbitMQ: /queue/ would make a lasting queue of a name that no longer exists.
            headers["destination"] = headers["destination"].replace("/queue/", "/amq/queue/", 1)
        return headers
