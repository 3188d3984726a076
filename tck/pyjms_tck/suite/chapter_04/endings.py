"""The effects of closing and stopping: the calls that a closed object must refuse, a waiting receive, a running
listener.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from pyjms import (
    Connection,
    DeliveryMode,
    IllegalStateException,
    MessageConsumer,
    MessageProducer,
    Queue,
    QueueBrowser,
    Session,
    TextMessage,
)
from pyjms_tck.environment import Waits
from pyjms_tck.fixtures import RunBackground
from pyjms_tck.suite.exchange import Collector, Holding

Calls = Mapping[str, Callable[[], object]]


def not_refused(calls: Calls) -> dict[str, str]:
    """Return the names of the `calls` that do not raise IllegalStateException, with what they do instead."""
    wrong: dict[str, str] = {}
    for name, call in calls.items():
        try:
            call()
        except IllegalStateException:
            continue
        except Exception as error:  # the test shows any other error
            wrong[name] = f"raises {type(error).__name__}: {error}"
        else:
            wrong[name] = "raises nothing"
    return wrong


def connection_calls(connection: Connection) -> Calls:
    """Return the calls that a closed connection refuses."""
    return {
        "createSession": partial(connection.createSession, False, Session.AUTO_ACKNOWLEDGE),
        "getClientID": connection.getClientID,
        "setClientID": partial(connection.setClientID, "too_late"),
        "getMetaData": connection.getMetaData,
        "getExceptionListener": connection.getExceptionListener,
        "setExceptionListener": partial(connection.setExceptionListener, None),
        "start": connection.start,
        "stop": connection.stop,
    }


def session_calls(session: Session, queue: Queue) -> Calls:
    """Return the calls that a closed session of any provider refuses."""
    return {
        "createMessage": session.createMessage,
        "createTextMessage": session.createTextMessage,
        "createBytesMessage": session.createBytesMessage,
        "createMapMessage": session.createMapMessage,
        "createStreamMessage": session.createStreamMessage,
        "createObjectMessage": session.createObjectMessage,
        "getTransacted": session.getTransacted,
        "getAcknowledgeMode": session.getAcknowledgeMode,
        "commit": session.commit,
        "rollback": session.rollback,
        "recover": session.recover,
        "createQueue": partial(session.createQueue, queue.getQueueName()),
        "createProducer": partial(session.createProducer, queue),
        "createConsumer": partial(session.createConsumer, queue),
    }


def consumer_calls(consumer: MessageConsumer) -> Calls:
    """Return the calls that a closed consumer refuses."""
    return {
        "getMessageSelector": consumer.getMessageSelector,
        "getMessageListener": consumer.getMessageListener,
        "setMessageListener": partial(consumer.setMessageListener, Collector()),
        "receive": consumer.receive,
        "receive(timeout)": partial(consumer.receive, 1),
        "receiveNoWait": consumer.receiveNoWait,
    }


def producer_calls(producer: MessageProducer, message: TextMessage) -> Calls:
    """Return the calls that a closed producer refuses."""
    return {
        "send(message)": partial(producer.send, message),
        "send(message, mode, priority, time)": partial(producer.send, message, DeliveryMode.NON_PERSISTENT, 4, 0),
        "getDestination": producer.getDestination,
        "getDeliveryMode": producer.getDeliveryMode,
        "setDeliveryMode": partial(producer.setDeliveryMode, DeliveryMode.PERSISTENT),
        "getPriority": producer.getPriority,
        "setPriority": partial(producer.setPriority, 4),
        "getTimeToLive": producer.getTimeToLive,
        "setTimeToLive": partial(producer.setTimeToLive, 0),
        "getDisableMessageID": producer.getDisableMessageID,
        "setDisableMessageID": partial(producer.setDisableMessageID, True),
        "getDisableMessageTimestamp": producer.getDisableMessageTimestamp,
        "setDisableMessageTimestamp": partial(producer.setDisableMessageTimestamp, True),
    }


def browser_calls(browser: QueueBrowser) -> Calls:
    """Return the calls that a closed browser refuses."""
    return {
        "getQueue": browser.getQueue,
        "getMessageSelector": browser.getMessageSelector,
        "getEnumeration": browser.getEnumeration,
    }


def check_receive_ends(
    consumer: MessageConsumer,
    close: Callable[[], object],
    background: RunBackground,
    waits: Waits,
    timeout: int | None,
) -> None:
    """Check that a receive of `consumer` waits, and returns null when `close` is called. `timeout` None: without one."""
    receiving = background(consumer.receive if timeout is None else partial(consumer.receive, timeout))
    # The pause lets the other thread start to wait: a receive that starts after the close would raise instead.
    waits.pause()
    assert receiving.is_running, "receive waits for a message"
    # On a thread of its own: a close that hangs fails the test within `something_ms`.
    background(close).result()
    assert receiving.result() is None, "the pending receive returns null on close"


def check_waits_for_listener(
    end: Callable[[], object], listener: Holding, background: RunBackground, waits: Waits
) -> None:
    """Check that `end`, which closes or stops, returns only after a call of `listener` that is running or about to
    start.
    """
    listener.wait_until_entered()
    ending = background(end)
    # A close or stop that does not wait has returned by the end of this pause.
    waits.pause()
    assert ending.is_running, "close or stop waits until the listener has returned"
    listener.release()
    ending.result()
    assert listener.returned.is_set(), "close or stop returns after the listener"
