"""Closing connections, sessions and consumers."""

from __future__ import annotations

from pyjms.runtime.machines import Event, State
from tests.tck.broken.mutation import body, edit, entry, mutant

__all__ = ["MUTANTS"]

_C = "pyjms.runtime.connection:JmsConnection."
_S = "pyjms.runtime.session:JmsSession."
_CONSUMER = "pyjms.runtime.consumer:JmsMessageConsumer."
_TABLE = "pyjms.runtime.machines:TRANSITIONS"
_VM = "pyjms_provider.clients.vm:"

MUTANTS = (
    mutant(
        "4.3.5-a",
        "a session is closed before its listeners have returned",
        edit(
            _C + "_end_delivery", "session.end_delivery()", "session.end_delivery()\n        session.is_closed = True"
        ),
    ),
    mutant(
        "4.3.5-b 4.4.1-a 4.5-b",
        "close does not wait for listeners and receives",
        edit(
            "pyjms.runtime.waiting:DeliveryGate.wait_until_quiet",
            "me = get_ident()",
            "if not listeners_only: return\n    me = get_ident()",
        ),
        edit("pyjms.runtime.waiting:WorkThread.end", "if not self.is_current():", "if False:"),
    ),
    mutant(
        "4.3.5-c 4.4.1-b",
        "a close commits open transactions",
        edit(
            "pyjms_provider.clients.vm:VmSession._end_work",
            "unit.rollback()",
            "unit.begin_commit(self._host.clock.time_ms())\n        self._host.finish_commit(unit)",
        ),
    ),
    mutant(
        "4.3.5-d 5.7-a",
        "a close acknowledges what was received",
        edit(
            _S + "_settle_lazy",
            "if self._mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:",
            "if self._mode is not AcknowledgeMode.SESSION_TRANSACTED:",
        ),
    ),
    mutant(
        "4.3.5-e 4.4.1-c 3.6-b",
        "acknowledge of a closed session does nothing",
        edit(_S + "acknowledge", "self.check_open()", "if self.is_closed: return"),
    ),
    mutant(
        "4.3.5-f",
        "a closed connection makes sessions",
        edit(_C + "_check_open", "if self._state is State.CLOSED:", "if False:"),
    ),
    mutant("4.3.5-f 4.4.1-c", "a closed session can be used", body(_S + "check_open", "return")),
    mutant(
        "4.3.5-g",
        "a consumer of a closed connection cannot be closed",
        edit(
            _CONSUMER + "close",
            "if not (self._is_released or self._session.is_closed):",
            "self._session.check_open()\n    if not (self._is_released or self._session.is_closed):",
        ),
    ),
    mutant(
        "4.3.5-g 4.4.1-d",
        "a closed session cannot be closed",
        edit(_S + "close", "if self.gate", "self.check_open()\n    if self.gate"),
    ),
    mutant(
        "4.3.5-h 4.4.1-c",
        "messages of a closed session cannot be read",
        edit(
            "pyjms.messages.bodies:JmsTextMessage.text",
            "return self._body",
            "if self._context is not None: self._context.check_open()\n    return self._body",
        ),
        edit(
            "pyjms.messages.base:Properties._get",
            "value =",
            "if self._context is not None: self._context.check_open()\n    value =",
        ),
        edit(
            "pyjms.messages.base:Properties.property_names",
            "return",
            "if self._context is not None: self._context.check_open()\n    return",
        ),
    ),
    mutant(
        "4.3.5-i",
        "a second close of a connection is an error",
        entry(_TABLE, (State.CLOSED, Event.CLOSE)),
    ),
    mutant(
        "4.3.5-j 4.4.1-f",
        "sessions outlive their connection",
        edit(_C + "_next_to_close", "if part not in seen:", "if False:"),
        edit(_VM + "VmConnection._shut_down", "session.close()", "pass"),
    ),
    mutant("4.3.5-k 4.4.1-a", "a close does not end receives", edit(_S + "end_delivery", "self.wake_all()", "pass")),
    mutant(
        "4.3.5-k 4.4.1-a 4.5-b",
        "a receive that is ended by close raises",
        edit(
            _CONSUMER + "_wait",
            "message = session.take",
            "self._check_open()\n            if session.is_closing: raise IllegalStateException('closed meanwhile')\n            message = session.take",
        ),
    ),
    mutant(
        "4.4.1-e",
        "consumers outlive their session",
        edit(_S + "_release", "consumer.mark_closed()", "pass"),
        edit(_CONSUMER + "_check_open", "self._session.check_open()", "pass"),
        edit("pyjms.runtime.producer:JmsMessageProducer._check_open", "self._session.check_open()", "pass"),
        edit("pyjms.runtime.consumer:JmsQueueBrowser._check_open", "self._session.check_open()", "pass"),
    ),
    mutant(
        "4.5-b", "close of a consumer does not end its receive", edit(_S + "close_consumer", "consumer.wake()", "pass")
    ),
)
