"""The clients of workflows: applications that start or control instances, and servers that do the work of steps."""

from __future__ import annotations

import logging
import uuid
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyjms.flows.codec import KIND, Start, event_message, read_content, reply_message, start_message
from pyjms.flows.definition import StepRefused
from pyjms.flows.engine import EVENTS
from pyjms.flows.instance import Answer, Retry, Suspend
from pyjms.recoverable.server import Database, RecoverableServer, Unit
from pyjms.recoverable.stored_message import envelope_of, read_message, write_message

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.runtime.factory import ConnectionFactory


class FlowClient:
    """Sends events with `session`; in a transacted one they take effect with its commit."""

    def __init__(self, session: Session, *, events: str = EVENTS) -> None:
        self._session = session
        self._producer = session.create_producer(session.create_queue(events))

    def start(
        self, flow: str, data: Mapping[str, Any] | None = None, *, version: int = 0, instance: str | None = None
    ) -> str:
        """Start an instance; return its id. data: JSON's values. version 0: the newest deployed one.

        instance: an id chosen by the application, without ``:``, at most 100 characters; the same one twice starts one
        instance.
        """
        instance_id = instance or str(uuid.uuid4())
        self._send(start_message(self._session, instance_id, Start(flow=flow, version=version, data=data or {})))
        return instance_id

    def retry(self, instance: str, *, skip: bool = False, reason: str = "") -> None:
        """Make a parked instance retry its step, or compensation; `skip`: continue as if it had been done by hand.

        reason: stored in the instance's history.
        """
        self._send(event_message(self._session, instance, Retry(skip=skip, reason=reason)))

    def suspend(self, instance: str, reason: str) -> None:
        """Stop an instance until `retry`."""
        self._send(event_message(self._session, instance, Suspend(reason=reason)))

    def park(self, instance: str, reason: str) -> None:
        """The former name of `suspend`, until 0.3."""
        warnings.warn("FlowClient.park is called suspend", DeprecationWarning, stacklevel=2)
        self.suspend(instance, reason)

    def cancel(self, instance: str, reason: str) -> None:
        """Compensate an instance: the done steps are undone."""
        self._send(event_message(self._session, instance, Suspend(reason=reason, compensate=True)))

    def _send(self, message: Message) -> None:
        self._producer.send(message)


_log = logging.getLogger("pyjms.flows")
_UNDO = ":undo"

StepWork = Callable[[Mapping[str, Any], Unit], "Mapping[str, Any] | None"]


class StepServer(RecoverableServer):
    """Serves the queue of a step, or of its compensation.

    work: gets the instance's data and the `Unit`; returns the values to add to the data. `StepRefused` makes the
    instance go back (a compensation that raises it is parked for a person); any other error rolls back, and the step is
    tried again.

    database, shared: as for `RecoverableServer`. With a database a step is done once, however often it is requested; a
    compensation undoes only a step that was done, and a step that is requested after its compensation is refused. Step
    and compensation must use the same database for that. Without a database work may be repeated.
    """

    def __init__(
        self,
        factory: ConnectionFactory,
        queue: str,
        work: StepWork,
        *,
        database: Database | None = None,
        shared: bool = False,
    ) -> None:
        super().__init__(factory, queue, self._answer_to, database=database, shared=shared)
        self._step_work = work

    def _answer_to(self, request: Message, unit: Unit) -> Message:
        key = request.jms_correlation_id or ""
        try:
            data = read_content(request)
        except ValueError as error:
            # A retry would not make it readable: the instance goes back, instead of the request being dead-lettered
            # unnoticed.
            return reply_message(unit.session, Answer(key=key, is_refused=True, reason=str(error)))
        # A compensation may be requested after a time-out, when it is unknown whether the step was done: the table of
        # replies knows.
        if key.endswith(_UNDO) and unit.connection is not None and not self._was_done(key.removesuffix(_UNDO), unit):
            _log.info("%s has nothing to undo", key)
            return reply_message(unit.session, Answer(key=key))
        return reply_message(unit.session, self._outcome(key, data, unit))

    def _outcome(self, key: str, data: Mapping[str, Any], unit: Unit) -> Answer:
        # The work of a refused step is undone, but the refusal is stored in the same transaction; so the work has its
        # own savepoint.
        savepoint = None if unit.connection is None else unit.connection.begin_nested()
        try:
            added = self._step_work(data, unit)
        except StepRefused as error:
            if savepoint is not None:
                savepoint.rollback()
            return Answer(key=key, is_refused=True, reason=str(error) or type(error).__name__)
        if savepoint is not None:
            savepoint.commit()
        return Answer(key=key, data=added or {})

    def _was_done(self, key: str, unit: Unit) -> bool:
        """Say whether the step was done; a step that was not requested yet will be refused from now on."""
        assert self._replies is not None
        known = self._replies.find(unit.connection, key)
        if known is None:
            refusal = reply_message(unit.session, Answer(key=key, is_refused=True, reason="it was compensated before"))
            # The request for the step may still be in its queue, behind this one; it must find a refusal and do
            # nothing.
            self._replies.keep(unit.connection, key, write_message(envelope_of(refusal)))
            return False
        return read_message(known).properties[KIND] == "answer"
