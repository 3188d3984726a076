"""The session's thread: it delivers one message at a time to a listener, and handles listeners that raise.

JMS 1.1 §4.5.2: a listener that raises is a client's error. AUTO and DUPS_OK redeliver: a provider that limits
redelivery decides when and how often; otherwise at once, up to `MAXIMUM_ATTEMPTS`, then the message is rejected if the provider
keeps dead letters; if not, it is redelivered after pauses that grow to a second. CLIENT and transacted sessions continue with the next message; the client
recovers or rolls back.

A message that the provider could not deliver, or settle, is redelivered. Its consumer rests before it takes the next one, or both would
loop as long as the provider's store is unavailable; the session's other consumers go on. A consumer also rests when it could
not be polled, and is polled again by itself, and when its listener raises again and again for a message that is never dead-lettered.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeAlias

from pyjms.api.message import Message
from pyjms.errors import IllegalStateException
from pyjms.messages.freeze import thaw
from pyjms.runtime.error_mapping import mapped_errors
from pyjms.runtime.waiting import Rest, WorkThread
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.errors import ClosedError, ConnectionLostError, GoneError, ProviderError, TooLateError
from pyjms.spi.interrupts import deferred
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyjms.runtime.consumer import JmsMessageConsumer
    from pyjms.runtime.contracts import SessionContract
    from pyjms.spi.envelope import MessageId
    from pyjms.spi.provider import ProviderSession

# ActiveMQ's clients make six redeliveries by default, so seven deliveries are what ported
# programs know (decision 0001).
MAXIMUM_ATTEMPTS = 7
"""The most deliveries of a message to a listener of an AUTO or DUPS_OK session that raises for it: one and six more."""

_LIMITS = Capability.DEAD_LETTERS | Capability.REDELIVERY_LIMITS

_Callback: TypeAlias = Callable[[Message], Any]

_log = logging.getLogger("pyjms.runtime")


class _UnreadError(ProviderError):
    """A message cannot be read now. `unread`: the deliveries to release, not yet pending release."""

    def __init__(self, reason: str, unread: Sequence[Delivery]) -> None:
        super().__init__(reason)
        self.unread = unread


class Dispatcher:
    """Serves the listeners of one session, one message at a time and the consumers in turn."""

    __slots__ = (
        "_failing",
        "_failures",
        "_has_warned",
        "_looks_at_all",
        "_ready",
        "_refused",
        "_rests",
        "_session",
        "_worker",
        "listening",
        "loaded",
        "loader_rest",
        "session_callback",
    )

    def __init__(self, session: SessionContract) -> None:
        self._session = session
        self._worker: WorkThread | None = None
        # Only these consumers are polled: with 2,000 listeners polling all of them took 8 ms for each message.
        self._ready: OrderedDict[JmsMessageConsumer, None] = OrderedDict()
        """The consumers that may have a message, in turn: those woken by the provider since their last poll returned None."""
        self._looks_at_all = True
        self._failures = 0
        self._has_warned = False
        self._failing: MessageId | None = None
        """The message whose listener raised last, after many deliveries; None after a message for which it did not raise."""
        self.listening: dict[JmsMessageConsumer, None] = {}
        self.session_callback: _Callback | None = None
        """The listener of the session itself, for `run_loaded` (§8.2.4)."""
        self.loaded: deque[Delivery] = deque()
        self.loader_rest: Rest | None = None
        """The rest of the connection consumer that loads this session."""
        self._rests: dict[JmsMessageConsumer, Rest] = {}
        """The rests of the consumers that failed last."""
        self._refused: list[tuple[Rest, ProviderError]] = []
        """Consumers that could not be polled, and why, not yet logged."""

    @property
    def is_active(self) -> bool:
        """Whether any consumer has a listener."""
        return bool(self.listening)

    def is_current(self) -> bool:
        """Return whether the caller runs on the session's thread."""
        return self._worker is not None and self._worker.is_current()

    def look_at_all(self) -> None:
        """Have the thread poll all consumers. Any thread; never blocks."""
        # The flag is set before the thread is woken, which might otherwise check, see no flag, and sleep again.
        self._looks_at_all = True
        self.wake()

    def wake(self, consumer: JmsMessageConsumer | None = None) -> None:
        """Have the thread look for work, also at `consumer`, which may have a message. Any thread; never blocks."""
        # The consumer is entered before the thread is woken: in the other order the thread might
        # check, find nothing, and sleep again.
        if consumer is not None:
            self._ready[consumer] = None
        worker = self._worker
        if worker is not None:
            worker.wake()

    def listen(self, consumer: JmsMessageConsumer, callback: _Callback | None) -> None:
        """Set or remove the listener of `consumer`; the first one starts the thread."""
        session, is_late = self._session, False
        # The gate's lock is held, so that no receive begins, and no close ends the thread, between
        # the checks and the change.
        with session.gate.lock:
            if callback is not None:
                if consumer.is_closed:  # by another thread meanwhile: nothing would end the thread
                    raise IllegalStateException("the consumer is closed")
                is_late = self._check_may_listen(consumer)
            if self._worker is None and callback is not None:
                name = f"pyjms-session-{session.next_message_id()[3:]}"
                worker = WorkThread(name, session.clock, self._work, self._tell)
                with mapped_errors:
                    worker.start()
                # The thread is kept only when it runs: if none could be started, the next listener tries again.
                self._worker = worker
            if callback is None:
                self.listening.pop(consumer, None)
            else:
                self.listening[consumer] = None
            consumer.callback = callback
        # Interest begins after the callback is set: an `on_ready` that is called now goes to the
        # listener, not to the inbox.
        consumer.provider.set_interested(callback is not None)
        # The provider does not wake the consumer for a message that an interrupted receive has left to the listener.
        self.wake(consumer)
        if is_late and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "PYJMS-LISTENER-2 a listener was set on a session whose listeners run already, by another thread than theirs, which JMS "
                "calls erroneous (JMS 1.1 §4.4.6): its messages come one after the other with theirs; set all listeners before start()"
            )

    def _check_may_listen(self, consumer: JmsMessageConsumer) -> bool:
        """Return whether the session belongs to the thread of its listeners, and the caller runs on another one. The gate is locked.

        Raises IllegalStateException while a receive is in progress.
        """
        gate = self._session.gate
        if gate.receiver is not None:
            raise IllegalStateException("a receive of this session is in progress: it cannot have a listener now")
        # JMS 1.1 §4.4.6: with the first listener, the session belongs to its own thread. Every Java provider lets other threads add more.
        return any(each is not consumer for each in self.listening) and gate.is_open and not self.is_current()

    def forget(self, consumer: JmsMessageConsumer) -> None:
        """Remove a closed consumer."""
        with self._session.gate.lock:
            self.listening.pop(consumer, None)
            self._ready.pop(consumer, None)
            self._rests.pop(consumer, None)

    def end(self) -> None:
        """End the thread; the gate is shut, and no listener runs."""
        if self._worker is not None:
            self._worker.end()

    def run_loaded(self) -> None:
        """Deliver each loaded message to the session's listener, on the calling thread."""
        session, callback = self._session, self.session_callback
        if callback is None:
            raise IllegalStateException(
                "set the session's message_listener before run(): nobody would get the messages"
            )
        while self.loaded:
            session.gate.wait_until_open(lambda: session.is_closing)
            # All is checked again under the lock: the connection may have been stopped since the wait ended.
            with session.gate.lock:
                if session.is_closing:
                    return
                if not session.gate.is_open or not self.loaded:
                    continue  # stopped again, or unloaded
                # The thread is registered in the same hold of the lock that takes the message: a stop from
                # now on waits for its listener.
                delivery = self.loaded.popleft()
                session.gate.enter(self)
            if self._process(delivery, callback, None) and self.loader_rest is not None:
                self.loader_rest.end()

    def unload(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Remove those of `deliveries` that are still loaded, and return them."""
        with self._session.gate.lock:
            # Compared by identity, as equality compares two deliveries field by field, and so by their whole bodies.
            kept = [delivery for delivery in deliveries if any(delivery is each for each in self.loaded)]
            self.loaded = deque(each for each in self.loaded if not any(each is delivery for delivery in kept))
        return kept

    def drop_listeners(self) -> None:
        """Drop the listeners of a closed session, which its messages may keep alive; the gate is locked."""
        self.listening = {}
        self._ready.clear()
        self.session_callback = None

    def _work(self) -> bool:
        session = self._session
        # Messages pending release are older than the next delivery, and must be in their queue again first.
        if session.unacked.pending_release:
            self._release_pending()
        with session.gate.lock:
            found = self._next()
            if found is not None:
                session.gate.enter(found[0])
        if found is not None:
            consumer, callback, delivery = found
            if self._process(delivery, callback, consumer) and self._rests:
                self._end_rest(consumer)
        # The log is written here, where the gate's lock is released, as a log may be slow.
        if self._refused:
            self._log_refused()
        return found is not None

    def _end_rest(self, consumer: JmsMessageConsumer) -> None:
        """End the rest of a consumer that got a message, if it rested."""
        rest = self._rests.pop(consumer, None)
        if rest is not None:
            rest.end()

    def _log_refused(self) -> None:
        """Log the consumers that could not be polled."""
        refused, self._refused = self._refused, []
        for rest, error in refused:
            rest.tell("a listener's consumer could not be asked for messages, so it is asked again", error)

    def _next(self) -> tuple[JmsMessageConsumer, _Callback, Delivery] | None:
        """Return the next delivery of the consumers that may have one, in turn; the gate is locked."""
        # Where the limit of unacknowledged messages is reached a receive raises. A listener's
        # thread waits: there is no call of the client to raise from.
        if not self._session.gate.is_open or self._session.unacked.is_full:
            return None
        ready = self._ready
        if self._looks_at_all:
            self._looks_at_all = False
            for consumer in self.listening:
                ready.setdefault(consumer)
        # Each consumer is polled once in a call: one that rests, or cannot be polled, goes to the
        # back and would be polled again without end.
        for _ in range(len(ready)):
            consumer, _ = ready.popitem(last=False)  # before it is asked, as the provider may wake it meanwhile
            callback = consumer.callback
            if callback is None or consumer.is_closed:
                continue
            if self._rests and self._is_resting(consumer):
                ready[consumer] = None
                continue
            try:
                delivery = self._poll(consumer)
            except (ClosedError, ConnectionLostError):
                ready[consumer] = None
                continue  # the provider tells the connection's ExceptionListener of a lost connection by itself
            except ProviderError as error:
                ready[consumer] = None
                self._refused.append((self._rest_and_poll(consumer), error))
                continue
            except Exception:
                ready[consumer] = None  # at the back: its error must not keep the others from their messages
                raise
            # It may have more messages, so it stays in turn, behind the others.
            if delivery is not None:
                ready[consumer] = None
                return consumer, callback, delivery
        return None

    def _poll(self, consumer: JmsMessageConsumer) -> Delivery | None:
        """Return the message that an interrupted receive has left to the listener, or the next delivery. The gate is locked."""
        return consumer.take_unreturned() or consumer.provider.poll()

    def _is_resting(self, consumer: JmsMessageConsumer) -> bool:
        rest, worker = self._rests.get(consumer), self._worker
        if rest is None or worker is None or not rest.lasts:
            return False
        # The thread forgets its time with each wait, so each check has to set it again.
        worker.until_ms = rest.earlier(worker.until_ms)
        return True

    def _rest_and_poll(self, consumer: JmsMessageConsumer) -> Rest:
        """Have a consumer rest, and the thread poll it afterwards."""
        rest = self._rests.setdefault(consumer, Rest(self._session.clock))
        rest.begin()
        worker = self._worker
        # The provider has woken this consumer, takes it to be at work, and does not wake it again: the
        # thread must poll by itself.
        if worker is not None:
            worker.until_ms = rest.earlier(worker.until_ms)
        return rest

    def _process(self, delivery: Delivery, callback: _Callback, consumer: JmsMessageConsumer | None) -> bool:
        """Process a delivery. Return False if the consumer rests: the provider could not deliver the message, or settle it, or its redelivery has no limit.

        `consumer` None: a connection consumer has loaded it.
        """
        session, is_resting = self._session, False
        try:
            message = self._read(delivery)
            if message is not None:
                # Entered only after it was read: a thread that works on an earlier message acknowledges all entered ones.
                session.unacked.delivered(delivery)
                failure = _call(callback, message)
                # A message without a failure shows that the listener works: only failures in a row count as endless.
                if failure is None:
                    self._failing = None
                elif self._is_endless(delivery):
                    # The rest begins before the message is released, which wakes the consumer.
                    self._rest(consumer)
                    is_resting = True
                self._settle(delivery, failure)
        except _UnreadError as error:
            # The rest begins before the message is in its queue again, which wakes the consumer.
            rest = self._rest(consumer)
            with suppress(ProviderError):
                session.give_back(error.unread)
            if rest is not None:  # only then, as any logging may raise
                rest.tell("a message could not be read for its listener, so it will come again", error)
            return False
        except ProviderError as error:
            rest = self._rest(consumer)
            self._give_back(delivery)
            if rest is not None:
                rest.tell("a delivery could not be settled after its listener ran, so it will come again", error)
            return False
        except Exception as error:  # the provider's fault, or ours: it must not hold up later messages
            self._rest(consumer)
            self._give_back(delivery)
            self._tell(error)
            _log.exception("a delivery could not be settled, so it will come again")
            return False
        # The thread leaves last of all: a close that waits for it then finds nothing left for it to settle.
        finally:
            session.gate.leave()
        return not is_resting

    def _is_endless(self, delivery: Delivery) -> bool:
        """Whether nothing limits the redelivery of a message for which its listener has raised so often: then its consumer rests, instead of looping."""
        session = self._session
        if not session.settles_by_itself or delivery.count < MAXIMUM_ATTEMPTS:
            return False
        if not session.connection.capabilities & _LIMITS:
            return True
        # Its own queue may have no limit, as that of the dead letters. A higher limit applies while other messages are delivered in between.
        before, self._failing = self._failing, delivery.envelope.message_id
        return delivery.count > MAXIMUM_ATTEMPTS and before == self._failing

    def _rest(self, consumer: JmsMessageConsumer | None) -> Rest | None:
        """Have a consumer rest. None: no connection consumer has loaded the session."""
        rest = self.loader_rest
        if consumer is not None:
            rest = self._rests.setdefault(consumer, Rest(self._session.clock))
        if rest is not None:
            rest.begin()
        return rest

    def _tell(self, error: Exception) -> None:
        """Call the connection's ExceptionListener for an unexpected error (JMS 1.1 §4.3.8)."""
        self._session.connection.report(
            ProviderError(f"a session's listeners met an unexpected error: {reason_of(error)}")
        )

    def _read(self, delivery: Delivery) -> Message | None:
        """Return the message of a delivery, not yet entered as unacknowledged; None if it no longer exists. Raises `_UnreadError`."""
        try:
            return thaw(delivery, self._session)
        except GoneError as error:
            with suppress(Exception):  # the application's logging
                _log.info("a message did not reach its listener, and the next one is taken: %s", error)
            return None
        except ProviderError as error:
            raise _UnreadError(error.reason, (delivery,)) from error
        except Exception as error:  # the next attempt will hardly succeed, so attempts are counted
            try:
                self._give_back_failed(delivery, f"the message could not be read: {reason_of(error)}")
            except ProviderError as failure:
                raise _UnreadError(
                    f"{reason_of(error)}; nor could it be given back at once: {failure.reason}", ()
                ) from failure
            finally:
                self._tell(error)
                _log.exception("a message could not be read for its listener")
            return None

    def _give_back(self, delivery: Delivery) -> None:
        """Release a delivery that could not be settled, unless a later call settles it."""
        session = self._session
        # The release is for AUTO_ACKNOWLEDGE: DUPS_OK settles the message with its next batch, and
        # in the other modes the client does.
        if session.settles_at_once and session.unacked.take_one(delivery):
            session.unacked.release_later((delivery,))
        if session.unacked.pending_release:
            self._release_pending()

    def _release_pending(self) -> None:
        """Try to release pending deliveries; if that fails, the next piece of work tries again."""
        if self._session.gives_back_at_any_time:
            with suppress(ProviderError):
                self._session.give_back(())

    def _settle(self, delivery: Delivery, failure: BaseException | None) -> None:
        session = self._session
        if failure is not None:
            try:
                self._log_failure(delivery, failure)
            finally:  # also when a handler of the application's logging cannot print its error
                if session.settles_by_itself:
                    self._redeliver(delivery, f"the listener raised {reason_of(failure)}")
            return
        if due := session.unacked.due():
            try:
                session.provider_session.acknowledge(due)
            except TooLateError as error:  # there is nothing left to settle
                with suppress(Exception):  # the application's logging
                    _log.debug("messages that a listener has had may come again: %s", error)
            except Exception:
                session.unacked.requeue(due)
                raise

    def _log_failure(self, delivery: Delivery, failure: BaseException) -> None:
        self._failures += 1
        _log.warning(
            "PYJMS-LISTENER a message listener raised, which is an error of the application (JMS 1.1 §4.5.2); "
            "failures of this session: %d, deliveries of this message: %d",
            self._failures,
            delivery.count,
            exc_info=failure,
        )

    def _redeliver(self, delivery: Delivery, reason: str) -> None:
        if self._session.unacked.take_one(delivery):  # otherwise the listener itself has recovered it
            self._give_back_failed(delivery, reason)

    def _give_back_failed(self, delivery: Delivery, reason: str) -> None:
        """Release a delivery as failed. Raises `ProviderError`: its release is pending then."""
        try:
            session = self._session
            give_back_failed(session.provider_session, session.connection.capabilities, delivery, reason)
        except Exception:
            self._session.unacked.release_later((delivery,))
            raise


def give_back_failed(session: ProviderSession, capabilities: Capability, delivery: Delivery, reason: str) -> None:
    """Release a delivery that could not be processed, or reject it if that happened too often. Raises `ProviderError`."""
    # A provider with limits of its own decides by itself; the runtime counts only for one with
    # dead letters but without limits.
    is_limited = Capability.DEAD_LETTERS in capabilities and Capability.REDELIVERY_LIMITS not in capabilities
    if is_limited and delivery.count >= MAXIMUM_ATTEMPTS:
        session.reject(delivery, reason)
    else:
        session.retry(delivery, reason)


def _call(callback: Callable[[Message], Any], message: Message) -> BaseException | None:
    try:
        if (
            deferred.depth and get_ident() == deferred.main
        ):  # `Session.run`, or `ServerSession.start`, in the main thread
            # A listener is the application's own code: a signal must end it at once, not wait for the
            # end of the call around it.
            with deferred.running_application_code():
                callback(message)
        else:
            callback(message)
    except BaseException as error:  # SystemExit of a listener ends no thread of pyjms
        return error
    return None
