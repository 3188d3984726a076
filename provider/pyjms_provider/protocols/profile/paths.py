"""How destinations are written as text: paths such as ``/queue/orders``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import DestinationError

_QUEUE, _TOPIC = AddressKind.QUEUE, AddressKind.TOPIC
_PREFIXES = {
    (_QUEUE, False): "/queue/",
    (_TOPIC, False): "/topic/",
    (_QUEUE, True): "/temp-queue/",
    (_TOPIC, True): "/temp-topic/",
}
_REMOTE = {"/remote-temp-queue/": _QUEUE, "/remote-temp-topic/": _TOPIC}
# The caches of names are bounded, as clients choose the names.
_KNOWN_MAX = 4096


class DestinationNaming(ABC):
    """One way to write destinations."""

    @abstractmethod
    def headers_for(self, address: Address, *, subscribing: bool = False) -> dict[str, str]:
        """Return the headers of SEND or SUBSCRIBE that name `address`.

        Raises `DestinationError` for a name that would mean something else to the broker.
        """

    @abstractmethod
    def read(self, headers: Mapping[str, str], assumed: Address | None = None) -> Address:
        """Return the destination that SEND, SUBSCRIBE or MESSAGE names; `assumed`: that of the subscription, if known.

        Raises `DestinationError` if it is not one.
        """

    @abstractmethod
    def write_reply_to(self, address: Address) -> str:
        """Return `address` as written in the header `reply-to`. Raises `DestinationError`."""

    @abstractmethod
    def read_reply_to(self, text: str) -> Address | None:
        """Return the destination in `reply-to`, or None if it is not one."""


class Paths(DestinationNaming):
    """Paths such as ``/queue/orders``.

    Args:
        forbidden: the characters that no name may have, with what the broker does with them.
    """

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
        # ActiveMQ's name of another connection's temporary destination is written unchanged.
        if address.temporary and address.name.startswith("/remote-temp-"):
            return address.name
        check_name(address.name)
        return _PREFIXES[address.kind, address.temporary] + self._encode(address.name)

    def parse(self, text: str) -> Address:
        """Return the destination that `text` names. Raises `DestinationError`."""
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


def check_name(name: str) -> None:
    """Raise `DestinationError` for a name that no header can carry."""
    if not name or "\0" in name:
        raise DestinationError("the name of a destination is empty or has a NUL, which STOMP cannot write")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DestinationError(
            "the name of a destination has half of a surrogate pair, which STOMP cannot write"
        ) from None


EXACT_PATHS: DestinationNaming = Paths({})
