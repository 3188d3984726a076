"""`JmsMessage`: a message with header fields and properties and, in the classes beside it, a body (JMS 1.1 §3).

Freezing shares properties and body with the envelope instead of copying them. From then on the message does not own
them: its next write copies first, so that an envelope never changes. A received message shares its envelope's parts
and is read-only until `clear_properties` or `clear_body`, which are independent of each other (§3.5.7, §3.11.1).
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, NoReturn

from pyjms.errors import MessageNotWriteableException
from pyjms.messages.properties import KNOWN_NAMES, Properties
from pyjms.spi.envelope import Body, BodyKind

_OF_THE_BODY: Final = frozenset({"content-type", "content-encoding"})
"""Headers of clients without JMS that describe the body, and go with it; messages do not show them (`property_names.is_shown`)."""


class JmsMessage(Properties):
    """A message without a body, and the base of those that have one. Not for several threads at a time."""

    __slots__ = ("_body", "_body_owned", "_body_read_only")

    kind: ClassVar[BodyKind] = BodyKind.NONE
    """Which body this class has."""
    _body: Any
    """The body, in the form that envelopes have unless the class says otherwise."""
    _body_owned: bool
    """Whether `_body` may be changed in place: neither read-only nor shared with an envelope."""
    _body_read_only: bool

    def __init__(self) -> None:
        self._context = None
        self._destination = None
        self._message_id = None
        self._timestamp = 0
        self._expiration = 0
        self._delivery_mode = 2
        self._priority = 4
        self._correlation_id = None
        self._reply_to = None
        self._redelivered = False
        self._type = None
        self._delivery_count = 0
        self._properties = {}
        self._properties_read_only = False
        self._settable = KNOWN_NAMES
        self._body = None
        self._body_owned = True
        self._body_read_only = False

    def acknowledge(self) -> None:
        if self._context is not None:  # else it was never received: there is nothing to acknowledge
            self._context.acknowledge(self)

    def clear_body(self) -> None:
        self._body_read_only = False
        self._body_owned = True
        self._body = None
        if not _OF_THE_BODY.isdisjoint(self._properties):
            for name in _OF_THE_BODY:
                self.drop_property(name)

    def frozen_body(self) -> Body:
        """Return the body as envelopes hold it; this message will not change it any more."""
        self._body_owned = False
        return self._body  # type: ignore[no-any-return]

    def received_body(self, body: Any) -> None:
        """Take over the body of an envelope, read-only."""
        self._body = body

    def _check_body_writeable(self) -> None:
        if self._body_read_only:
            raise MessageNotWriteableException(
                "the body of a received message is read-only until clear_body() (JMS 1.1 §3.11.2)"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._message_id or 'not sent'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a message cannot be copied or pickled: send it, or create another one")
