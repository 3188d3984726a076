"""A session: factory of all objects below it, and owner of all deliveries through it (JMS 1.1 §4.4).

`settling.py` has the ends of deliveries and transactions; `dispatch.py` serves listeners.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from pyjms.api.consumer import MessageListenerLike, QueueBrowser
from pyjms.api.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.api.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from pyjms.api.session import AcknowledgeMode
from pyjms.errors import IllegalStateException, InvalidDestinationException, JMSException
from pyjms.messages.base import JmsMessage
from pyjms.messages.bodies import JmsBytesMessage, JmsMapMessage, JmsObjectMessage, JmsStreamMessage, JmsTextMessage
from pyjms.messages.destinations import JmsQueue, JmsTopic, address_of
from pyjms.messages.freeze import thaw
from pyjms.runtime.checks import (
    check_client_id,
    check_durable,
    check_shared,
    check_shared_durable,
    message_callback,
    selector_of,
    subscribe_request,
)
from pyjms.runtime.completions import AsyncSends
from pyjms.runtime.consumer import JmsMessageConsumer, JmsQueueBrowser, JmsQueueReceiver, JmsTopicSubscriber
from pyjms.runtime.dispatch import Dispatcher
from pyjms.runtime.error_mapping import close_made, delete_made, mapped_errors, to_jms
from pyjms.runtime.machines import Event, State, next_state
from pyjms.runtime.producer import JmsMessageProducer, producer_class
from pyjms.runtime.settling import SettlingSession
from pyjms.runtime.tracing import class_in_use
from pyjms.runtime.waiting import CloseOnce, Inbox
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind, MessageId
from pyjms.spi.errors import (
    ClosedError,
    GoneError,
    InDoubtError,
    ProviderError,
    ResourceError,
)
from pyjms.spi.interrupts import defers_signals
from pyjms.spi.provider import ProviderConsumer, ProviderSession
from pyjms.spi.words import reason_of

if TYPE_CHECKING:
    from pyjms.runtime.contracts import ConnectionContract
    from pyjms.runtime.waiting import Rest

_Producer = TypeVar("_Producer", bound=JmsMessageProducer)

_NOTHING: Sequence[Delivery] = ()
_NO_DELIVERY: Delivery | None = None
_ENDING = (State.CLOSING, State.CLOSED)


class JmsSession(SettlingSession):
    """The session of the common interfaces; the domains derive from it."""

    refuses_sends = False
    """Whether a message sent now would belong to no transaction, though it must (JMS 1.1 §8.5)."""

    def __init__(
        self, connection: ConnectionContract, mode: AcknowledgeMode, provider_session: ProviderSession
    ) -> None:
        super().__init__(connection, mode, provider_session)
        self.clock = connection.clock
        self._closing = CloseOnce()
        self.has_listeners = False
        """Whether messages go to listeners, so that no synchronous receive is allowed."""
        self._state = State.STOPPED
        self._is_limited = connection.max_unacknowledged > 0
        self._consumers: dict[JmsMessageConsumer, None] = {}
        self._producers: set[JmsMessageProducer] = set()
        self._browsers: set[JmsQueueBrowser] = set()
        self._dispatcher = Dispatcher(self)
        self.async_sends = AsyncSends(self, connection.report)
        self._message_listener: MessageListenerLike | None = None
        # The connection's id is unique in the message system, and the number in the connection: no
        # id needs a request to the broker (§3.4.3).
        self._id_prefix = f"ID:{connection.connection_id}:{connection.next_number()}:"
        self._numbers = count(1)

    # Messages (§4.4.2)

    def create_message(self) -> Message:
        self.check_open()
        return JmsMessage()

    def create_text_message(self, text: str | None = None) -> TextMessage:
        self.check_open()
        return JmsTextMessage(text)

    def create_bytes_message(self) -> BytesMessage:
        self.check_open()
        return JmsBytesMessage()

    def create_map_message(self) -> MapMessage:
        self.check_open()
        return JmsMapMessage()

    def create_stream_message(self) -> StreamMessage:
        self.check_open()
        return JmsStreamMessage()

    def create_object_message(self, object: Any = None) -> ObjectMessage:
        self.check_open()
        message = JmsObjectMessage()
        if object is not None:
            message.object = object
        return message

    # Destinations (§4.4.3, §4.4.4)

    def create_queue(self, queue_name: str) -> Queue:
        self.check_open()
        return JmsQueue(queue_name)

    def create_topic(self, topic_name: str) -> Topic:
        self.check_open()
        self.connection.require(Capability.TOPICS, "topics")
        return JmsTopic(topic_name)

    @defers_signals(undo=delete_made)
    def create_temporary_queue(self) -> TemporaryQueue:
        self.check_open()
        self.connection.require(Capability.TEMPORARY_DESTINATIONS, "temporary destinations")
        return self.connection.temporaries.create_queue()

    @defers_signals(undo=delete_made)
    def create_temporary_topic(self) -> TemporaryTopic:
        self.check_open()
        self.connection.require(Capability.TEMPORARY_DESTINATIONS, "temporary destinations")
        return self.connection.temporaries.create_topic()

    # Producers, consumers, browsers (§4.5, §4.6, §5.9)

    def create_producer(self, destination: Destination | None = None) -> JmsMessageProducer:
        self.check_open()
        return self._add_producer(producer_class(destination), destination)

    @defers_signals(undo=close_made)
    def _add_producer(self, kind: type[_Producer], destination: Destination | None) -> _Producer:
        """Make a producer of the class `kind`, or of its traced variant."""
        producer = class_in_use(kind)(self, destination)
        self._producers.add(producer)
        return producer

    def create_consumer(
        self, destination: Destination, message_selector: str | None = None, no_local: bool = False
    ) -> JmsMessageConsumer:
        return self._subscribe(destination, message_selector, no_local=no_local)

    def create_durable_subscriber(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> JmsTopicSubscriber:
        self.check_open()
        check_durable(self.connection, topic, name, "a durable subscriber")
        return self._subscribe_topic(topic, message_selector, no_local=no_local, durable_name=name)

    def create_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None, no_local: bool = False
    ) -> JmsTopicSubscriber:
        self.check_open()
        check_durable(self.connection, topic, name, "a durable consumer")
        return self._subscribe_topic(topic, message_selector, no_local=no_local, durable_name=name)

    def create_shared_consumer(
        self, topic: Topic, shared_subscription_name: str, message_selector: str | None = None
    ) -> JmsTopicSubscriber:
        self.check_open()
        check_shared(self.connection, topic, shared_subscription_name)
        return self._subscribe_topic(topic, message_selector, shared_name=shared_subscription_name)

    def create_shared_durable_consumer(
        self, topic: Topic, name: str, message_selector: str | None = None
    ) -> JmsTopicSubscriber:
        self.check_open()
        check_shared_durable(self.connection, topic, name)
        return self._subscribe_topic(topic, message_selector, durable_name=name, is_shared=True)

    @defers_signals()
    def unsubscribe(self, name: str) -> None:
        """Delete a durable subscription of this connection's client; without a client id one that is shared by all that have none (§6.11.1, JMS 2.0 §8.3.4)."""
        self.check_open()
        self.connection.require(Capability.DURABLE_SUBSCRIPTIONS, "durable subscriptions")
        # Only shared durable subscriptions exist without a client id.
        if Capability.SHARED_SUBSCRIPTIONS not in self.connection.capabilities:
            check_client_id(self.connection, "unsubscribe")
        if not isinstance(name, str) or not name:
            raise InvalidDestinationException(f"{name!r} is no subscription name: use a non-empty string")
        # A subscription with unsettled messages counts as in use, and a DUPS_OK client has no call that settles them.
        self._settle_done()
        with mapped_errors:
            self.provider_session.unsubscribe(name)

    @defers_signals(undo=close_made)
    def create_browser(self, queue: Queue, message_selector: str | None = None) -> QueueBrowser:
        self.check_open()
        self.connection.require(Capability.BROWSING, "queue browsers")
        if message_selector:
            self.connection.require(Capability.SELECTORS, "message selectors")
        if not isinstance(queue, Queue):
            raise InvalidDestinationException("a browser needs a queue")
        address_of(queue)
        with mapped_errors:
            browser = JmsQueueBrowser(self, queue, selector_of(message_selector))
        self._browsers.add(browser)
        return browser

    def _subscribe_topic(self, topic: Topic, selector: str | None, **terms: Any) -> JmsTopicSubscriber:
        return cast("JmsTopicSubscriber", self._subscribe(topic, selector, **terms))

    @defers_signals(undo=close_made)
    def _subscribe(self, destination: Destination, selector: str | None, **terms: Any) -> JmsMessageConsumer:
        """Make a consumer; `terms` are the keyword arguments of `subscribe_request`."""
        self.check_open()
        request = subscribe_request(self.connection, destination, selector, **terms)
        kind = JmsQueueReceiver if request.address.kind is AddressKind.QUEUE else JmsTopicSubscriber
        consumer = class_in_use(kind)(self, destination, request)
        with mapped_errors:
            consumer.subscribe(request)
        # The consumer is entered once it has its provider's consumer: threads that iterate over the list
        # call that. They hold this lock, too.
        with self.gate.lock:
            self._consumers[consumer] = None
        return consumer

    def replace_provider(self, session: ProviderSession, consumer: ProviderConsumer) -> None:
        """Have this session and its consumers use stand-ins that refuse each call: the connection was given up."""
        self.provider_session = session
        # No lock is taken: a signal's handler runs this, and the interrupted thread may hold the
        # gate's. `list` copies in one step.
        for each in list(self._consumers):
            each.provider = consumer

    def make_inbox(self) -> Inbox:
        """Return an inbox in which a consumer of this session waits for messages."""
        return Inbox(self.provider_session.waiter(self.clock))

    # Receiving, for this session's consumers

    def take(self, consumer: JmsMessageConsumer, *, or_enter: bool = False) -> Message | None:
        """Take, thaw and, if the mode requires it, settle the next message of `consumer`; None if there is none now.

        With `or_enter`, None also means that the consumer is to be woken and that the calling thread is registered as
        blocked in a receive; a message ends both.
        """
        # Messages pending release are older than the next one, and must be in their queue again first.
        if self.unacked.pending_release and self.gives_back_at_any_time:
            with suppress(ProviderError):
                self.give_back(())
        me = get_ident()
        while True:
            gate, unsettled, delivery, is_kept = self.gate, _NOTHING, _NO_DELIVERY, False
            try:
                with gate.lock:
                    # The flag spares the usual session, which has no limit, the call of a property for each message.
                    if self._is_limited and self.unacked.is_full:
                        self._refuse_overrun()
                    # The receiver is registered in the same hold of the lock as the poll: a close has shut the
                    # gate already, or waits for it.
                    if or_enter and gate.receiver != me:
                        self._begin_receive(consumer, me)
                    if gate.is_open and not consumer.is_closed:
                        if consumer.unreturned is not None:
                            delivery, is_kept = consumer.take_unreturned(), True
                        else:
                            delivery = consumer.provider.poll_or_wait() if or_enter else consumer.provider.poll()
                        # A signal's handler, or a cancelled task, may end the receive from here on: `keep` then
                        # leaves this message to the next one.
                        consumer.latest = delivery
                    if delivery is None:
                        return None
                    # From here on a close does not wait for this call. If it overtakes the acknowledgement,
                    # that raises ClosedError, and the message is redelivered.
                    if or_enter:
                        gate.end_receive()
                message = thaw(delivery, self)
                reads_body = consumer.reads_body
                if reads_body is not None:
                    self._read_body(consumer, reads_body, message, delivery, is_kept)
                if is_kept and consumer.is_unreturned_settled:
                    pass  # not again: its connection may be lost by now, and the error would say that it is redelivered
                elif self.settles_at_once:
                    unsettled = (delivery,)
                else:  # only after it was read: a close by another thread settles all unacknowledged messages of a DUPS_OK session
                    self.unacked.delivered(delivery)
                    unsettled = self.unacked.due()
                if unsettled:
                    self._settle_taken(unsettled)
            except ProviderError as error:
                if delivery is not None and isinstance(error, GoneError):
                    self.unacked.take_one(delivery)
                    continue  # the provider reports it, or it is redelivered; the receive takes the next message
                self._release_unread(delivery, unsettled)
                if isinstance(error, ClosedError) and (self.is_closing or consumer.is_closed):
                    return None  # closed in mid-receive: the message is back on its queue
                raise to_jms(error) from error
            except Exception as error:  # JMS 1.1 §7.1: a client hears of nothing but JMSExceptions
                if isinstance(error, JMSException):
                    raise
                self._release_unread(delivery, unsettled)
                raise to_jms(ProviderError(f"a message could not be received: {reason_of(error)}")) from error
            return message

    def _read_body(
        self,
        consumer: JmsMessageConsumer,
        read: Callable[[Message], None],
        message: Message,
        delivery: Delivery,
        is_kept: bool,
    ) -> None:
        """Read the body for a `receive_body`. If that fails, the message stays the consumer's next one, or counts as received (JMS 2.0 §8.6)."""
        try:
            read(message)
        except JMSException:
            if self.settles_by_itself:
                consumer.is_unreturned_settled = is_kept and consumer.is_unreturned_settled
                consumer.unreturned, consumer.latest = delivery, None
            else:
                self.unacked.delivered(delivery)
            raise

    def _settle_taken(self, unsettled: Sequence[Delivery]) -> None:
        """Settle the deliveries that the mode requires now. Raises `ProviderError` if the client must not get the last of them."""
        try:
            self.provider_session.acknowledge(unsettled)
        except InDoubtError:
            pass  # The client gets it now, and perhaps again: if it is settled, it would be lost otherwise.
        except ClosedError:
            if self.settles_at_once:
                raise
            # Some of the batch is settled, and this one may be.

    def _release_unread(self, delivery: Delivery | None, unsettled: Sequence[Delivery]) -> None:
        """Release `delivery`, if any, which the client did not get; delivered messages that could not be settled stay unacknowledged."""
        if delivery is None:
            return
        self.unacked.take_one(delivery)
        # Of a batch that could not be settled the client has had all but the last: the others must not be redelivered now.
        self.unacked.requeue([each for each in unsettled if each is not delivery])
        with suppress(ProviderError):
            self.give_back((delivery,))

    def keep(self, consumer: JmsMessageConsumer) -> None:
        """Leave the message that `consumer` took last, and did not return, to its next receive."""
        if consumer.latest is not None:
            # A message that is not among the unacknowledged ones was settled when it was taken: only
            # another receive can return it.
            consumer.is_unreturned_settled = not self.unacked.take_one(consumer.latest)
            consumer.unreturned, consumer.latest = consumer.latest, None
            # No receive follows on a closed consumer, so the message would stay here until the session closes.
            if consumer.is_closed:
                self._give_back_unreturned(consumer)

    def release_unreturned_later(self) -> None:
        """Add the messages that interrupted receives took, and did not return, to those pending release, after earlier deliveries."""
        with self.gate.lock:
            consumers = list(self._consumers)
        for consumer in consumers:
            self._release_unreturned_later(consumer)

    def _release_unreturned_later(self, consumer: JmsMessageConsumer) -> None:
        unreturned = consumer.take_unreturned()
        if unreturned is not None:
            self.unacked.release_later((unreturned,))
        with suppress(ProviderError), self.gate.lock:  # a message that cannot be read is in its queue again
            unreturned = consumer.provider.take_unreturned()
            if unreturned is not None:
                self.unacked.release_later((unreturned,))

    def _refuse_overrun(self) -> NoReturn:
        raise ResourceError(
            f"the session holds {len(self.unacked)} unacknowledged messages, as many as max_unacknowledged allows: "
            "acknowledge or commit before receiving more"
        )

    def _begin_receive(self, consumer: JmsMessageConsumer, thread: int) -> None:
        """Make the calling thread the receiver, unless the session is closing; the gate is locked."""
        if self.gate.receiver is not None:
            # JMS 1.1 §4.4.6: a session is a single-threaded context
            raise IllegalStateException("another thread blocks in a receive of this session: use a session a thread")
        if self._state not in _ENDING:
            self.gate.receiver, self.gate.receives_for = thread, consumer

    @property
    def is_closing(self) -> bool:
        """Whether `close` has begun."""
        return self._state in _ENDING

    def destination_of(self, address: Address) -> Destination:
        """Return the API's object for an address in a received message."""
        return self.connection.destination_of(address)

    @property
    def trusted(self) -> frozenset[str]:
        """The classes that object messages from other processes may hold."""
        return self.connection.trusted

    # Listeners

    def listen(self, consumer: JmsMessageConsumer, callback: Callable[[Message], Any] | None) -> None:
        """Set the callable for the messages of `consumer` on the session's thread, or None for none."""
        self.check_open()
        if callback is not None and self._message_listener is not None:
            raise IllegalStateException("this session has a listener of its own, so its consumers can have none")
        self._dispatcher.listen(consumer, callback)
        self._note_listeners()

    def _note_listeners(self) -> None:
        self.has_listeners = self._dispatcher.is_active or self._message_listener is not None

    def wake_listener(self, consumer: JmsMessageConsumer) -> None:
        """Have the session's thread poll `consumer`. Any thread; never blocks."""
        self._dispatcher.wake(consumer)

    @property
    def message_listener(self) -> MessageListenerLike | None:
        self.check_open()
        return self._message_listener

    @message_listener.setter
    @defers_signals()
    def message_listener(self, listener: MessageListenerLike | None) -> None:
        self.check_open()
        if listener is not None and self._dispatcher.is_active:
            raise IllegalStateException("a consumer of this session has a listener: the session can have none")
        self._dispatcher.session_callback = None if listener is None else message_callback(listener)
        self._message_listener = listener
        self._note_listeners()

    @defers_signals()
    def run(self) -> None:
        """Process the messages that a connection consumer loaded, by the session's listener (§8.2.4)."""
        self.check_open()
        self._dispatcher.run_loaded()

    def load(self, deliveries: list[Delivery], rest: Rest) -> None:
        """Take over deliveries that a connection consumer received, for `run`. Raises IllegalStateException, and `ProviderError` unmapped."""
        self.check_open()
        # The provider is asked first: if it refuses, the connection consumer still has the messages
        # and releases them.
        self.provider_session.adopt(deliveries)
        # A message that fails in this session makes the connection consumer rest, which would load
        # the same one again at once.
        self._dispatcher.loader_rest = rest
        self._dispatcher.loaded.extend(deliveries)

    def unload(self, deliveries: list[Delivery]) -> None:
        """Release the deliveries that `load` took over and `run` has not delivered, as the server session could not start."""
        # The messages are pending release before the rollback: if that fails, the next piece of work releases them.
        self.unacked.release_later(self._dispatcher.unload(deliveries))
        with mapped_errors:
            if self._mode is AcknowledgeMode.SESSION_TRANSACTED:
                self.provider_session.rollback()
            self.give_back(())

    # Life cycle

    def begin_delivery(self) -> None:
        """Let messages through, if the connection is still started: another thread may be stopping it."""
        with self.gate.lock:
            # The connection is checked under the gate's lock: a stop changes its state first and then
            # shuts each gate, so one of the two sees the other.
            if self._state is State.STOPPED and self.connection.is_started:
                self._state = next_state(self._state, Event.START, "session")
                self.gate.set_open(True)
        # The wake-up follows the release of the lock: `wake_all` takes it, and it cannot be taken twice.
        self.wake_all()

    def pause_delivery(self) -> None:
        """Stop letting messages through; `wait_for_listeners` completes the stop."""
        with self.gate.lock:
            if self._state is State.STARTED:
                self._state = next_state(self._state, Event.STOP, "session")
                self.gate.set_open(False)

    def wait_for_listeners(self) -> None:
        """Return when no listener of this session runs on another thread."""
        self.gate.wait_until_quiet(listeners_only=True)

    def wake_all(self) -> None:
        """Make every waiting thread of this session check again."""
        with self.gate.lock:
            consumers = list(self._consumers)
        for consumer in consumers:
            consumer.wake()
        self._dispatcher.look_at_all()

    @defers_signals()
    def close(self) -> None:
        if self.gate.runs_listener_here():
            raise IllegalStateException("a listener cannot close its own session: it would wait for itself")
        self.refuse_in_completion("close its own session")
        self.shut_down()

    def shut_down(self) -> None:
        """Close: complete the asynchronous sends, end blocked receives, wait for a running listener, roll back, release everything (§4.4.1)."""
        self.complete_sends()
        self.end_delivery()
        self._closing.do(self._release)

    def complete_sends(self) -> None:
        """Wait until the asynchronous sends are complete (JMS 2.0 §7.3); those that wait for room in a full queue fail, as nothing may ever make it."""
        if self.async_sends.has_any:
            with suppress(ProviderError):
                self.provider_session.end_waits()
            self.async_sends.wait_before_close()

    def _release(self) -> None:
        # A listener that runs may use the session until it returns (§4.3.5), so the session is
        # marked closed only afterwards.
        self.gate.wait_until_quiet()
        with self.gate.lock:
            self.is_closed = True
            self._state = next_state(self._state, Event.FINISH, "session")
            consumers = list(self._consumers)
            for consumer in consumers:
                consumer.mark_closed()
            self._dispatcher.drop_listeners()
            self._message_listener = None
        self._dispatcher.end()  # now, as no listener can be set any more, which would start the thread again
        # The warnings follow without the gate's lock: a log handler of the application may block.
        for consumer in consumers:
            consumer.warn_unreturned()
        try:
            for consumer in consumers:
                self._give_back_unread(consumer)
            with mapped_errors:
                # The close of the provider's session would release messages that a DUPS_OK client has had, so they
                # are settled before.
                self._settle_lazy()
                self.provider_session.close()
        # A session is closed even if its provider failed: the connection must not keep it for its own close.
        finally:
            try:
                self.async_sends.end()
            finally:
                self.connection.forget_session(self)

    def end_delivery(self) -> None:
        """Begin to close: let no more messages through, and wake all waiting threads. May be repeated; does not wait."""
        with self.gate.lock:
            self._state = next_state(self._state, Event.CLOSE, "session")
            self.gate.set_open(False)
        try:
            with suppress(ProviderError):  # calls that wait there end by their own time-outs, and the close continues
                self.provider_session.end_waits()
        # The threads that wait here see the closed gate only when they are woken, even if the provider has raised.
        finally:
            self.wake_all()

    def close_consumer(self, consumer: JmsMessageConsumer) -> None:
        """Close one consumer, after its receive or listener on another thread has ended."""
        with self.gate.lock:
            # The mark is set before the wake-up: a receive that wakes checks the mark, and no new one begins.
            consumer.mark_closed()
            self._consumers.pop(consumer, None)
        consumer.wake()
        self.gate.wait_until_quiet(consumer=consumer)
        self._dispatcher.forget(consumer)
        self._note_listeners()
        # A DUPS_OK client has no call that settles its batch, and unsettled messages would keep a
        # durable subscription in use.
        self._settle_done()
        # The provider's consumer is asked for the message of an interrupted poll, so it must still be open.
        self._give_back_unreturned(consumer)
        with mapped_errors:
            consumer.release()

    def _give_back_unread(self, consumer: JmsMessageConsumer) -> None:
        """Give back a message whose body a receive could not read, as if it had never been delivered (JMS 2.0 §8.6)."""
        if consumer.unreturned is None or consumer.is_unreturned_settled or not self.settles_by_itself:
            return
        with suppress(ProviderError):  # then it is released as any other
            self.provider_session.give_back_unseen((consumer.unreturned,))
            consumer.unreturned = None

    def _give_back_unreturned(self, consumer: JmsMessageConsumer) -> None:
        """Release a message that no receive of a closed consumer has returned, or warn of it."""
        consumer.warn_unreturned()
        self._give_back_unread(consumer)
        self._release_unreturned_later(consumer)
        if self.unacked.pending_release and self.gives_back_at_any_time:
            with suppress(ProviderError):
                self.give_back(())

    def wait_for_sends(self, producer: JmsMessageProducer) -> None:
        """Wait until the asynchronous sends by `producer` are complete. Raises IllegalStateException in a completion listener of one of them."""
        if self.async_sends.is_calling(producer):
            raise IllegalStateException("a completion listener cannot close its own producer: it would wait for itself")
        # A listener of another producer must not wait either: the listeners of this one follow it.
        if not self.async_sends.is_current():
            self.async_sends.wait(producer)

    def forget_producer(self, producer: JmsMessageProducer) -> None:
        """Remove a closed producer."""
        self._producers.discard(producer)

    def forget_browser(self, browser: JmsQueueBrowser) -> None:
        """Remove a closed browser."""
        self._browsers.discard(browser)

    def next_message_id(self) -> MessageId:
        """Return an id that is unique in this message system (§3.4.3)."""
        return MessageId(self._id_prefix + str(next(self._numbers)))
