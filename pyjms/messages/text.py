"""`JmsTextMessage`: a body of one text, XML for instance (JMS 1.1 §3.11)."""

from __future__ import annotations

from pyjms.api.message import TextMessage
from pyjms.messages.base import JmsMessage
from pyjms.messages.storing import store_string
from pyjms.spi.envelope import BodyKind


class JmsTextMessage(JmsMessage, TextMessage):
    """A message whose body is `text`, or None."""

    __slots__ = ()
    kind = BodyKind.TEXT

    def __init__(self, text: str | None = None) -> None:
        JmsMessage.__init__(self)
        self._body = text if type(text) is str else store_string(text, "body", "text")

    @property
    def text(self) -> str | None:
        return self._body  # type: ignore[no-any-return]

    @text.setter
    def text(self, string: str | None) -> None:
        if self._body_read_only:
            self._check_body_writeable()
        self._body = string if type(string) is str else store_string(string, "body", "text")
