"""Where whoever traces messages takes part in sending and receiving: the contract, and who does so now.

Sessions ask once for each producer and consumer that they make. Without a tracer they make those that know nothing of tracing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final

from pyjms.api.message import Message
from pyjms.spi.envelope import Address


class MessageTracer(ABC):
    """Hears of each message. Any thread."""

    @abstractmethod
    def sending(self, address: Address, message: Message) -> AbstractContextManager[Mapping[str, str]]:
        """Return what is entered around a send; it gives the text properties that the message is to carry.

        The header fields that send decides are known when it is left.
        """

    @abstractmethod
    def receiving(self, address: Address) -> AbstractContextManager[Callable[[Message | None], None]]:
        """Return what is entered around a receive; what it gives is called with what came. None: nothing."""

    @abstractmethod
    def processing(self, address: Address, message: Message) -> AbstractContextManager[object]:
        """Return what is entered around the call of a message listener."""


_tracers: Final[list[MessageTracer]] = []


def current_tracer() -> MessageTracer | None:
    """Return who traces now; None: nobody."""
    return _tracers[-1] if _tracers else None


def trace_with(tracer: MessageTracer | None) -> None:
    """Have producers and consumers that are made from now on traced by `tracer`; None: by nobody."""
    _tracers[:] = [] if tracer is None else [tracer]
