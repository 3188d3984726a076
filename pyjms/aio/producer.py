"""A producer for asyncio (JMS 1.1 §4.6)."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

from pyjms.aio.calls import Closing, SessionThread
from pyjms.api.destination import Destination
from pyjms.api.message import Message
from pyjms.runtime.producer import JmsMessageProducer


class MessageProducer(Closing):
    """A producer, which sends messages to one destination, or to any when it was made without one."""

    def __init__(self, sync: JmsMessageProducer, thread: SessionThread) -> None:
        """Made by a session."""
        self._sync = sync
        self._thread = thread

    @property
    def disable_message_id(self) -> bool:
        """A hint that message identifiers are not needed; False at first (§3.4.3)."""
        return self._sync.disable_message_id

    @disable_message_id.setter
    def disable_message_id(self, value: bool) -> None:
        self._sync.disable_message_id = value

    @property
    def disable_message_timestamp(self) -> bool:
        """A hint that time stamps are not needed; False at first (§3.4.4)."""
        return self._sync.disable_message_timestamp

    @disable_message_timestamp.setter
    def disable_message_timestamp(self, value: bool) -> None:
        self._sync.disable_message_timestamp = value

    @property
    def delivery_mode(self) -> int:
        """The `DeliveryMode` of messages sent without one; PERSISTENT at first. Another value: JMSException."""
        return self._sync.delivery_mode

    @delivery_mode.setter
    def delivery_mode(self, delivery_mode: int) -> None:
        self._sync.delivery_mode = delivery_mode

    @property
    def priority(self) -> int:
        """The priority of messages sent without one, 0 (lowest) to 9; 4 at first. Another value: JMSException."""
        return self._sync.priority

    @priority.setter
    def priority(self, default_priority: int) -> None:
        self._sync.priority = default_priority

    @property
    def time_to_live(self) -> int:
        """The time to live of messages sent without one, in milliseconds from sending; 0, the default: for ever."""
        return self._sync.time_to_live

    @time_to_live.setter
    def time_to_live(self, time_to_live: int) -> None:
        self._sync.time_to_live = time_to_live

    @property
    def delivery_delay(self) -> int:
        """The time between a send and the earliest delivery of the message, in milliseconds; 0 at first (JMS 2.0 §7.9)."""
        return self._sync.delivery_delay

    @delivery_delay.setter
    def delivery_delay(self, delivery_delay: int) -> None:
        self._sync.delivery_delay = delivery_delay

    @property
    def destination(self) -> Destination | None:
        """The destination of this producer; None if each call names one."""
        return self._sync.destination

    @overload
    async def send(
        self,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    @overload
    async def send(
        self,
        destination: Destination,
        message: Message,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live: int | None = None,
    ) -> None: ...

    async def send(self, *arguments: Any, **named: Any) -> None:
        """Send `message`, to `destination` if the producer has none of its own; returns when the provider has it.

        Takes and raises what `pyjms.MessageProducer.send` does. Leave the message alone meanwhile. If the task is cancelled, the
        message may be sent.
        """
        await self._thread.call(partial(self._sync.send, *arguments, **named))

    async def close(self) -> None:
        """Wait for the completion listeners of this producer's sends, and release its resources. Closing twice does nothing."""
        await self._thread.call(self._sync.close)
