"""What a received message needs of the session that delivered it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from pyjms.api.destination import Destination
    from pyjms.api.message import Message
    from pyjms.spi.envelope import Address

TrustedClasses: TypeAlias = AbstractSet[str]
"""Classes whose instances may be unpickled: ``package.module.Class``, or ``package.module.*`` for those of a module."""


class MessageContext(Protocol):
    """The session, as the messages that it delivered see it."""

    @property
    def trusted(self) -> TrustedClasses:
        """Which classes object messages from elsewhere may hold."""
        ...

    def acknowledge(self, message: Message) -> None:
        """Do what ``message.acknowledge()`` asks for (JMS 1.1 §3.6, §4.4.11)."""
        ...

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for `address`."""
        ...
