"""Looking at a queue without taking anything (JMS 1.1 §5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyjms.api.base import Enumeration
from pyjms.api.consumer import QueueBrowser
from pyjms.api.destination import Destination, Queue
from pyjms.api.message import Message
from pyjms.errors import IllegalStateException, JMSException
from pyjms.messages.context import TrustedClasses
from pyjms.messages.destinations import address_of
from pyjms.messages.freeze import thaw
from pyjms.runtime.error_mapping import to_jms
from pyjms.spi.envelope import Address
from pyjms.spi.errors import ProviderError
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.selector import Selector
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyjms.runtime.contracts import SessionContract


class _Looking:
    """The session as browsed messages see it: they were not consumed, so they acknowledge nothing (§3.6, §5.9)."""

    __slots__ = ("_session",)

    def __init__(self, session: SessionContract) -> None:
        self._session = session

    @property
    def trusted(self) -> TrustedClasses:
        """Which classes object messages from elsewhere may hold."""
        return self._session.trusted

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for `address`."""
        return self._session.destination_of(address)

    def acknowledge(self, message: Message) -> None:
        """Raise IllegalStateException when the session is closed."""
        self._session.check_open()


class _Walk:
    """One walk over the queue. A message that a call was about to return, as a signal ended it, comes with the next call."""

    __slots__ = ("_found", "_interrupted")

    def __init__(self, found: Iterator[Message]) -> None:
        self._found = found
        self._interrupted: list[Message] = []

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        return self._take()[1]

    @defers_signals(undo=lambda found: found[0].append(found[1]))
    def _take(self) -> tuple[list[Message], Message]:
        return self._interrupted, self._interrupted.pop() if self._interrupted else next(self._found)


class JmsQueueBrowser(QueueBrowser):
    """Each enumeration walks the queue anew, from its head, as it is while it walks."""

    __slots__ = ("_address", "_closed", "_queue", "_selector", "_session")

    def __init__(self, session: SessionContract, queue: Queue, selector: Selector | None) -> None:
        self._session = session
        self._queue = queue
        self._address = address_of(queue)
        self._selector = selector
        self._closed = False

    @property
    def queue(self) -> Queue:
        self._check_open()
        return self._queue

    @property
    def message_selector(self) -> str | None:
        self._check_open()
        return None if self._selector is None else self._selector.text

    @property
    def enumeration(self) -> Enumeration[Message]:
        self._check_open()
        return Enumeration(_Walk(self._walk()))

    def __iter__(self) -> Iterator[Message]:
        return self.enumeration

    def poison(self) -> None:
        """Give the connection up, as a signal has interrupted a call of this browser in its midst."""
        self._session.poison()

    def close(self) -> None:
        self._closed = True
        self._session.forget_browser(self)

    def _walk(self) -> Iterator[Message]:
        context = _Looking(self._session)
        try:
            for delivery in self._session.provider_session.browse(self._address, self._selector):
                self._check_open()
                yield thaw(delivery, context)
        except ProviderError as error:
            raise to_jms(error) from error
        except JMSException:
            raise
        except Exception as error:  # JMS 1.1 §7.1: a client hears of nothing but JMSExceptions
            raise to_jms(ProviderError(f"a message could not be shown: {reason_of(error)}")) from error

    def _check_open(self) -> None:
        if self._closed:
            raise IllegalStateException("the browser is closed")
        self._session.check_open()
