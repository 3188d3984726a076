"""How messages of an ended consumer are settled at a broker that keeps them pending, and forgets the consumer (RabbitMQ).

ACK and NACK name a message as ``CONSUMER@@SESSION@@NUMBER``; the numbers are the connection's, and the consumer must be
one that is subscribed. So one subscription, to a queue of its own that nobody knows, lends its name.

What was on its way to a consumer when that ended, RabbitMQ answers with an ERROR in the message's place, and keeps pending. The
numbers are given in the order of the wire, so that they tell which message it was.
"""

from __future__ import annotations

from uuid import uuid4

from pyjms.spi.errors import DuplicateClientIdError, ResourceError
from pyjms_provider.clients.stomp.epoch import Epoch, UnansweredError
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.message_properties import quoted

__all__ = ["Janitor"]

_ID = "janitor"


class Janitor:
    """The subscription that lends its name."""

    def __init__(self, connection_id: str) -> None:
        self._connection_id = connection_id
        self._last = 0  # the number of the message that came last, or would have come

    def enter(self, epoch: Epoch, client_id: str | None) -> None:
        """Subscribe. With a client id the queue is named by that, so that no two connections have the same.

        Raises `DuplicateClientIdError`, `InterruptedLinkError`, `ProviderError`.
        """
        # A new name each time: that of the last connection may not be free yet.
        own = f"connection.{self._connection_id}.{uuid4().hex[:8]}"
        name = own if client_id is None else f"client.{quoted(client_id)}"
        self._last = 0
        headers = {"id": _ID, "destination": f"/queue/pyjms.{name}", "ack": "client-individual"}
        headers |= {"durable": "false", "auto-delete": "true", "exclusive": "true"}
        try:
            epoch.ask(Frame("SUBSCRIBE", headers))
        except UnansweredError:
            raise
        except ResourceError as error:
            if client_id is None:
                raise
            raise DuplicateClientIdError(
                f"another connection has the client id {client_id!r}: {error.reason}"
            ) from error

    def saw(self, frame: Frame) -> None:
        """Note a message that came. The I/O thread."""
        number = frame.headers.get("ack", "").rpartition("@@")[2]
        if number.isdecimal():
            self._last = int(number)

    def stray(self, frame: Frame) -> Frame | None:
        """Return the NACK of the message in whose place this ERROR came; None: it is about something else."""
        if "no current subscription with tag" not in bytes(frame.body).decode(errors="replace"):
            return None
        self._last += 1
        return Frame("NACK", {"id": f"T_{_ID}@@stray@@{self._last}", "requeue": "true"})

    def borrowed(self, ack_id: str) -> str:
        """Return `ack_id` under the janitor's name."""
        consumer, at, rest = ack_id.partition("@@")
        return f"T_{_ID}{at}{rest}" if at else consumer
