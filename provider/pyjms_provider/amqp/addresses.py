"""Addresses of nodes as clients write them, and as the broker writes them.

An address may be a URL of the broker, as clients of Azure write it: ``amqps://host/news`` is ``news``.

A node's kind comes from the prefix of its address, as in ``topic://news``; or from the capabilities of source or target, as Qpid JMS sends them;
or it is that of the node that is there already; or else it is a queue.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyjms.spi.envelope import Address, AddressKind
from pyjms_provider.amqp.errors import Condition, LinkFault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

QUEUE: Final = "queue"
TOPIC: Final = "topic"
TEMPORARY_QUEUE: Final = "temporary-queue"
TEMPORARY_TOPIC: Final = "temporary-topic"
SHARED: Final = "shared"
GLOBAL: Final = "global"

_PREFIXES: Final[Mapping[str, tuple[AddressKind, bool]]] = {
    "queue://": (AddressKind.QUEUE, False),
    "topic://": (AddressKind.TOPIC, False),
    "temp-queue://": (AddressKind.QUEUE, True),
    "temp-topic://": (AddressKind.TOPIC, True),
}
_CAPABILITIES: Final[Mapping[str, tuple[AddressKind, bool]]] = {
    QUEUE: (AddressKind.QUEUE, False),
    TOPIC: (AddressKind.TOPIC, False),
    TEMPORARY_QUEUE: (AddressKind.QUEUE, True),
    TEMPORARY_TOPIC: (AddressKind.TOPIC, True),
}
_in_url = re.compile(r"amqps?://[^/]*/(.+)", re.DOTALL).fullmatch
_SAID: Final = {kind: name for name, kind in _CAPABILITIES.items()}


def split_address(text: str) -> tuple[str, AddressKind | None]:
    """Return a node's name without its prefix, and the kind that the prefix says; None: it has none."""
    text = _without_host(text)
    for prefix, (kind, _) in _PREFIXES.items():
        if text.startswith(prefix):
            return text[len(prefix) :], kind
    return text, None


def _without_host(text: str) -> str:
    if not text.startswith("amqp"):
        return text
    found = _in_url(text)
    return text if found is None else found.group(1)


def kind_of(capabilities: Iterable[str]) -> tuple[AddressKind, bool] | None:
    """Return the kind of node that capabilities of a terminus say, and whether it is temporary; None: they say none."""
    for each in capabilities:
        found = _CAPABILITIES.get(each.lower())
        if found is not None:
            return found
    return None


def capability_of(address: Address) -> str:
    """Return the capability that says the kind of a node."""
    return _SAID[address.kind, address.temporary]


def resolve(text: Any, capabilities: Iterable[str], has: Callable[[Address], bool]) -> Address:
    """Return the node that a client means.

    Args:
        text: the address, as the client writes it.
        capabilities: those of source or target.
        has: tells whether there is a node.

    Raises:
        LinkFault: it is no address of a node.
    """
    if not isinstance(text, str) or not text:
        raise LinkFault(Condition.INVALID_FIELD, "an address is a text with the name of a queue or topic")
    text = _without_host(text)
    for prefix, (kind, is_temporary) in _PREFIXES.items():
        if text.startswith(prefix):
            return _found(kind, text[len(prefix) :], is_temporary, has)
    said = kind_of(capabilities)
    if said is not None:
        return _found(said[0], text, said[1], has)
    return found_in(str(text), has)


def _found(kind: AddressKind, name: str, is_temporary: bool, has: Callable[[Address], bool]) -> Address:
    if not name:
        raise LinkFault(Condition.INVALID_FIELD, "the address has a prefix and no name")
    # A requester's temporary queue is a plain reply address for many clients.
    temporary = Address(kind, str(name), True)
    return temporary if is_temporary or has(temporary) else Address(kind, str(name))


def found_in(name: str, has: Callable[[Address], bool]) -> Address:
    """Return the node of that name, of whichever kind; a queue if there is none."""
    queue = Address(AddressKind.QUEUE, name)
    candidates = (
        queue,
        Address(AddressKind.TOPIC, name),
        Address(AddressKind.QUEUE, name, True),
        Address(AddressKind.TOPIC, name, True),
    )
    return next((each for each in candidates if has(each)), queue)
