"""Faults in the delivery delay and the asynchronous sends of JMS 2.0 (20.3, 20.4)."""

from __future__ import annotations

from tests.tck.broken.mutation import edit, mutant

__all__ = ["MUTANTS"]

_PRODUCER = "pyjms.runtime.producer:JmsMessageProducer."
_COMPLETIONS = "pyjms.runtime.completions:"
_S = "pyjms.runtime.session:JmsSession."
_THAW = "pyjms.messages.freeze:thaw"
_OWN = "callbacks = completion_callbacks(*listeners) if listeners else None"


MUTANTS = (
    # 20.3 delivery delay
    mutant(
        "20.3-a", "a producer forgets its delivery delay", edit(_PRODUCER + "delivery_delay", "self._defaults[3]", "0")
    ),
    mutant(
        "20.3-a",
        "a producer delays by a second unless it is told otherwise",
        edit(_PRODUCER + "delivery_delay", "self._defaults[3]", "self._defaults[3] or 1000"),
    ),
    mutant(
        "20.3-b",
        "a send without a delay sets no delivery time",
        edit(_PRODUCER + "_send", "deliver_at or now_ms", "deliver_at"),
    ),
    mutant(
        "20.3-b",
        "a message that was not delayed has no delivery time when it comes",
        edit(_THAW, "envelope.deliver_at_ms or envelope.timestamp_ms", "envelope.deliver_at_ms"),
    ),
    mutant(
        "20.3-c",
        "the delivery time of a received message is the time of the send",
        edit(_THAW, "envelope.deliver_at_ms or envelope.timestamp_ms", "envelope.timestamp_ms"),
    ),
    mutant("20.3-c 20.3-e", "a delay counts twice", edit(_PRODUCER + "_send", "now_ms + delay", "now_ms + 2 * delay")),
    mutant(
        "20.3-d 20.3-e 20.11-w",
        "delayed messages come at once",
        edit("pyjms_provider.core.queue.queue:Queue.place", "due_ms > self.clock.time_ms()", "due_ms < 0"),
    ),
    mutant(
        "20.3-d 20.11-w",
        "a delay ends half a second early",
        edit(
            "pyjms_provider.core.queue.queue:Queue.place",
            "self.state.delays.add(entry, due_ms)",
            "self.state.delays.add(entry, due_ms - 350)",
        ),
    ),
    # 20.4 asynchronous sends
    mutant(
        "20.4-a 20.4-c",
        "a completed send is not told",
        edit(_COMPLETIONS + "_call", "on_completion(send.message)", "pass"),
    ),
    mutant(
        "20.4-a 20.4-b",
        "a completed send is told as a failure",
        edit(_COMPLETIONS + "_call", "on_completion(send.message)", "on_exception(send.message, Exception())"),
    ),
    mutant(
        "20.4-a 20.4-h",
        "what is sent asynchronously does not arrive",
        edit(
            _COMPLETIONS + "AsyncSends.send",
            "self._session.provider_session.send_async(envelope, partial(self._complete, send))",
            "self._complete(send, None)",
        ),
    ),
    mutant(
        "20.4-b 20.4-j",
        "an asynchronous send uses the values of its producer",
        edit(_PRODUCER + "_send_sorted", _OWN, _OWN + "\n    options = {} if listeners else options"),
    ),
    mutant(
        "20.4-c",
        "a producer without a destination sends asynchronously to none",
        edit(_PRODUCER + "_send_sorted", "if destination is None:", "if destination is None or listeners:"),
    ),
    mutant(
        "20.4-d",
        "None is sent asynchronously as an empty message",
        edit(
            _PRODUCER + "_send",
            "else _convert(message)",
            "else JmsMessage() if callbacks and message is None else _convert(message)",
        ),
    ),
    mutant(
        "20.4-e",
        "an asynchronous send to None is an unsupported operation",
        edit(_PRODUCER + "_send_sorted", "raise InvalidDestinationException", "raise UnsupportedOperationException"),
    ),
    mutant(
        "20.4-f",
        "an asynchronous send to a destination uses that of the producer",
        edit(
            _PRODUCER + "_send_sorted", "if destination is not None:", "if destination is not None and not listeners:"
        ),
    ),
    mutant(
        "20.4-g",
        "a send with None for its completion listener waits for the provider",
        edit(
            _PRODUCER + "_send_sorted", "if listeners else None", "if listeners and listeners[0] is not None else None"
        ),
    ),
    mutant(
        "20.4-h",
        "completion listeners are called by the thread that sends",
        edit(_COMPLETIONS + "AsyncSends._complete", "self._worker.wake()", "self._work()"),
    ),
    mutant(
        "20.4-h 20.4-i",
        "each completion listener is called on a thread of its own",
        edit(
            _COMPLETIONS + "AsyncSends._work",
            "_call(send, *send.callbacks)",
            "__import__('threading').Thread(target=_call, args=(send, *send.callbacks), daemon=True).start()",
        ),
    ),
    mutant(
        "20.4-i",
        "the close of a producer does not wait for asynchronous sends",
        edit(_PRODUCER + "close", "self._session.wait_for_sends(self)", "pass"),
    ),
    mutant(
        "20.4-i",
        "a commit does not wait for asynchronous sends",
        edit("pyjms.runtime.settling:SettlingSession._commit", "self.async_sends.wait()", "pass"),
    ),
    mutant(
        "20.4-i",
        "a rollback does not wait for asynchronous sends",
        edit("pyjms.runtime.settling:SettlingSession.rollback", "self.async_sends.wait()", "pass"),
    ),
    mutant(
        "20.4-j",
        "a completion listener gets the message as it was before the send",
        edit(_COMPLETIONS + "_call", "send.mark_sent()", "pass"),
    ),
    mutant(
        "20.4-k",
        "a completion listener closes its own producer",
        edit(_S + "wait_for_sends", "self.async_sends.is_calling(producer)", "producer is None"),
    ),
    mutant(
        "20.4-k",
        "a completion listener that ends the transaction has no effect",
        edit(
            "pyjms.runtime.settling:SettlingSession.rollback",
            'self._check_transaction("rollback")',
            'if self.async_sends.is_current(): return\n    self._check_transaction("rollback")',
        ),
    ),
    mutant(
        "20.4-m",
        "a send waits for completion listeners that run",
        edit(
            _PRODUCER + "_send",
            "session.provider_session.send(envelope)",
            "session.async_sends.wait(); session.provider_session.send(envelope)",
        ),
    ),
    mutant(
        "20.4-m",
        "a session with asynchronous sends has no others",
        edit(
            _PRODUCER + "_send",
            "session.provider_session.send(envelope)",
            "session.async_sends._worker or session.provider_session.send(envelope)",
        ),
    ),
)
