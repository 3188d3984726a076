"""What applications and operators ask of workflows: begin, try again, park. By messages, so that any engine may do it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyjms.flows.codec import Start, event_message, start_message
from pyjms.flows.engine import EVENTS
from pyjms.flows.instance import Retry, Suspend

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session


class FlowClient:
    """Sends events with `session`; in a transacted one they count from its commit on."""

    def __init__(self, session: Session, *, events: str = EVENTS) -> None:
        self._session = session
        self._producer = session.create_producer(session.create_queue(events))

    def start(
        self, flow: str, data: Mapping[str, Any] | None = None, *, version: int = 0, instance: str | None = None
    ) -> str:
        """Have an instance begin; return its id. data: JSON's values. version 0: the newest that is deployed.

        instance: an id of the application's own, without ``:``, at most 100 characters; the same one twice begins one instance.
        """
        instance_id = instance or str(uuid.uuid4())
        self._send(start_message(self._session, instance_id, Start(flow=flow, version=version, data=data or {})))
        return instance_id

    def retry(self, instance: str, *, skip: bool = False, reason: str = "") -> None:
        """Have a parked instance try its step, or compensation, again; `skip`: go on as if it had been done by hand.

        reason: kept in the instance's history.
        """
        self._send(event_message(self._session, instance, Retry(skip=skip, reason=reason)))

    def park(self, instance: str, reason: str) -> None:
        """Stop an instance until `retry`."""
        self._send(event_message(self._session, instance, Suspend(reason=reason)))

    def cancel(self, instance: str, reason: str) -> None:
        """Have an instance go back: what was done is compensated."""
        self._send(event_message(self._session, instance, Suspend(reason=reason, compensate=True)))

    def _send(self, message: Message) -> None:
        self._producer.send(message)
