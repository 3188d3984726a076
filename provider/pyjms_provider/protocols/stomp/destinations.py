"""How destinations are written in headers, and read from them: three ways, by broker.

Paths such as ``/queue/orders`` (pyjms, ActiveMQ Classic); paths with percent-encoded names (RabbitMQ); the bare name with
its kind in a header of its own (Artemis).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from urllib.parse import quote, unquote

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError

__all__ = [
    "BARE_NAMES",
    "ENCODED_PATHS",
    "EXACT_PATHS",
    "PATHS",
    "DestinationNaming",
]

_QUEUE, _TOPIC = AddressKind.QUEUE, AddressKind.TOPIC
_PREFIXES = {
    (_QUEUE, False): "/queue/",
    (_TOPIC, False): "/topic/",
    (_QUEUE, True): "/temp-queue/",
    (_TOPIC, True): "/temp-topic/",
}
_REMOTE = {"/remote-temp-queue/": _QUEUE, "/remote-temp-topic/": _TOPIC}
_TYPES = {_QUEUE: "ANYCAST", _TOPIC: "MULTICAST"}
_KNOWN_MAX = 4096


class DestinationNaming(ABC):
    """One way."""

    @abstractmethod
    def headers_for(self, address: Address, *, subscribing: bool = False) -> dict[str, str]:
        """Return the headers of SEND or SUBSCRIBE that name `address`.

        Raises `DestinationError` for a name that would mean something else there.
        """

    @abstractmethod
    def read(self, headers: Mapping[str, str], assumed: Address | None = None) -> Address:
        """Return the destination that SEND, SUBSCRIBE or MESSAGE names; `assumed`: that of the subscription, if known.

        Raises `DestinationError` for what is none.
        """

    @abstractmethod
    def write_reply_to(self, address: Address) -> str:
        """Return `address` as the header `reply-to` has it. Raises `DestinationError`."""

    @abstractmethod
    def read_reply_to(self, text: str) -> Address | None:
        """Return what `reply-to` names, or None if nobody could send there."""


class _Paths(DestinationNaming):
    def __init__(self, forbidden: Mapping[str, str]) -> None:
        self._forbidden = forbidden
        self._written: dict[Address, str] = {}
        self._read: dict[str, Address] = {}

    def headers_for(self, address: Address, *, subscribing: bool = False) -> dict[str, str]:
        return {"destination": self.write_reply_to(address)}

    def read(self, headers: Mapping[str, str], assumed: Address | None = None) -> Address:
        text = headers.get("destination")
        if text is None:
            raise DestinationError("the frame has no destination: write one, such as destination:/queue/orders")
        return self.parse(text)

    def write_reply_to(self, address: Address) -> str:
        known = self._written.get(address)
        if known is None:
            known = self._write(address)
            if len(self._written) >= _KNOWN_MAX:
                self._written.clear()
            self._written[address] = known
        return known

    def read_reply_to(self, text: str) -> Address | None:
        try:
            return self.parse(text)
        except DestinationError:
            return None

    def _write(self, address: Address) -> str:
        for character, meaning in self._forbidden.items():
            if character in address.name:
                raise DestinationError(
                    f"the name of {address} has {character!r}, with which this broker {meaning}: choose another name"
                )
        if address.temporary and address.name.startswith("/remote-temp-"):
            return address.name
        _check_name(address.name)
        return _PREFIXES[address.kind, address.temporary] + self._encode(address.name)

    def parse(self, text: str) -> Address:
        """Return the destination that `text` writes. Raises `DestinationError`."""
        known = self._read.get(text)
        if known is None:
            known = self._parse(text)
            if len(self._read) >= _KNOWN_MAX:
                self._read.clear()
            self._read[text] = known
        return known

    def _parse(self, text: str) -> Address:
        for (kind, temporary), prefix in _PREFIXES.items():
            if text.startswith(prefix) and len(text) > len(prefix):
                return Address(kind, self._decode(text[len(prefix) :]), temporary)
        for prefix, kind in _REMOTE.items():
            if text.startswith(prefix):
                return Address(kind, text, temporary=True)
        raise DestinationError(
            f"{text[:80]!r} is no destination: write /queue/NAME, /topic/NAME, /temp-queue/NAME or /temp-topic/NAME"
        )

    def _encode(self, name: str) -> str:
        return name

    def _decode(self, text: str) -> str:
        return text


class _EncodedPaths(_Paths):
    def _encode(self, name: str) -> str:
        return quote(name, safe=".*#:$", errors="surrogatepass")

    def _decode(self, text: str) -> str:
        return unquote(text, errors="surrogatepass" if "%" in text else "strict")


class _BareNames(DestinationNaming):
    def headers_for(self, address: Address, *, subscribing: bool = False) -> dict[str, str]:
        header = "subscription-type" if subscribing else "destination-type"
        return {"destination": self._name(address), header: _TYPES[address.kind]}

    def read(self, headers: Mapping[str, str], assumed: Address | None = None) -> Address:
        name = headers.get("destination")
        if not name:
            raise DestinationError("the frame has no destination: write the name of an address")
        kind = headers.get("destination-type") or headers.get("subscription-type")
        if kind is None and assumed is not None:
            if assumed.name == name:
                return assumed
            return Address(assumed.kind, name)
        return Address(_TOPIC if kind == "MULTICAST" else _QUEUE, name)

    def write_reply_to(self, address: Address) -> str:
        return self._name(address)

    def read_reply_to(self, text: str) -> Address | None:
        return Address(_QUEUE, text) if text else None

    def _name(self, address: Address) -> str:
        _check_name(address.name)
        return address.name


EXACT_PATHS: DestinationNaming = _Paths({})
PATHS: DestinationNaming = _Paths({",": "joins destinations", "?": "begins options"})
ENCODED_PATHS: DestinationNaming = _EncodedPaths({})
BARE_NAMES: DestinationNaming = _BareNames()


def _check_name(name: str) -> None:
    """Raises `DestinationError` for a name that no header can carry."""
    if not name or "\0" in name:
        raise DestinationError("the name of a destination is empty or has a NUL, which STOMP cannot write")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DestinationError(
            "the name of a destination has half of a surrogate pair, which STOMP cannot write"
        ) from None
