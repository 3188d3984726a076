"""Properties that travel with a message once, and that the message object itself does not show."""

# ruff: noqa: SLF001 - the other half of `JmsMessage`, as `freeze` is

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from pyjms.api.message import Message
from pyjms.errors import JMSException
from pyjms.messages.base import JmsMessage


@contextmanager
def carrying(message: Message, added: Mapping[str, str]) -> Iterator[None]:
    """Have the message carry text properties when it is sent meanwhile; afterwards it is as it was.

    A message of another make has no such other half: its properties are set, if they can be, and stay.
    """
    if not isinstance(message, JmsMessage):
        for name, value in added.items():
            with suppress(JMSException):  # it is read-only: it goes without
                message.set_string_property(name, value)
        yield
        return
    kept, settable = message._properties, message._settable
    message._properties = {**kept, **added}
    try:
        yield
    finally:
        message._properties, message._settable = kept, settable
