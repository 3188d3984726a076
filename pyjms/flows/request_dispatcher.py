"""Sends what is asked for, with the events that asked for it. A queue that takes nothing keeps no other one waiting.

The store knows what each instance waits for, so what a queue has refused is remembered by the instance alone, and in memory: if the
engine dies, the time-out asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pyjms.errors import JMSException, TransactionRolledBackException
from pyjms.flows.codec import ask_message
from pyjms.flows.instance import Ask

if TYPE_CHECKING:
    from pyjms.api.message import Message
    from pyjms.api.session import Session
    from pyjms.flows.errors import FlowException

_log = logging.getLogger("pyjms.flows")
_POSTPONED_MAX = 10_000
"""Instances of a queue that are remembered; the time-outs of the others ask."""
_AT_ONCE = 50
"""Requests to a queue that takes them again, before events have their turn."""

Postponed = dict[str, dict[str, None]]
"""The queues that have refused something, each with the instances that are still to ask there, the first one first."""


class RequestDispatcher:
    """What one session, which is transacted, asks for; `postponed` outlives it."""

    def __init__(self, session: Session, events: str, postponed: Postponed) -> None:
        self._session = session
        self._events = session.create_queue(events)
        self._bad = session.create_queue(f"{events}.bad")
        self._producer = session.create_producer(None)
        self._postponed = postponed

    def put_aside(self, message: Message, why: FlowException) -> None:
        """Keep an event that means nothing, once the transaction is committed."""
        _log.warning("event %s is put aside: %s", message.jms_message_id, why)
        self._producer.send(self._bad, message)

    def commit(self, asks: Sequence[Ask]) -> JMSException | None:
        """Ask, and commit; return why all was rolled back instead: then all this is postponed, and what was received comes again.

        Some brokers say only that a commit failed, and not where, so nothing of it is tried together again. Raises what the
        provider raises that has nothing to do with what is asked for.
        """
        refusal: JMSException
        is_asking = False
        try:
            for ask in asks:
                if ask.queue in self._postponed:
                    self._postpone(ask)
                else:
                    is_asking = True
                    self._send(ask)
        except JMSException as error:
            self._session.rollback()  # raises, if it is the connection that fails
            refusal = error
        else:
            try:
                self._session.commit()
            except TransactionRolledBackException as error:
                if not is_asking:
                    raise
                refusal = error
            else:
                return None
        for ask in asks:
            self._postpone(ask)
        return refusal

    def ask_again(self, waited_for: Callable[[str], Ask | None]) -> JMSException | None:
        """Ask for what was postponed, one by one, until its queue refuses; return the last refusal. Raises as `commit` does."""
        refusal = None
        for queue in list(self._postponed):
            waiting = self._postponed.pop(queue)
            try:
                for instance in list(waiting)[:_AT_ONCE]:
                    ask = waited_for(instance)
                    refused = self.commit([ask]) if ask is not None and ask.queue == queue else None
                    del waiting[instance]
                    if refused is not None:
                        waiting[instance] = None  # the last one: it may be this request alone that is refused
                        refusal = refused
                        break
            finally:
                if waiting:
                    self._postponed[queue] = waiting
        return refusal

    def _send(self, ask: Ask) -> None:
        message = ask_message(self._session, ask)
        message.jms_reply_to = self._events
        self._producer.send(self._session.create_queue(ask.queue), message)

    def _postpone(self, ask: Ask) -> None:
        waiting = self._postponed.setdefault(ask.queue, {})
        if len(waiting) < _POSTPONED_MAX:
            waiting[ask.instance] = None
