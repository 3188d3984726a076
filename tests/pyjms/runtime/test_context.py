"""Contexts: the arguments that make them, their connection, start and stop, sessions, and close (JMS 2.0 §2.8, §6)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import pytest

import pyjms
import pyjms.api.factory
from pyjms import (
    ConnectionFactory,
    IllegalStateRuntimeException,
    InvalidClientIDRuntimeException,
    InvalidDestinationRuntimeException,
    InvalidSelectorRuntimeException,
    JMSContext,
    JMSRuntimeException,
    JMSSecurityRuntimeException,
    MessageFormatRuntimeException,
    QueueConnectionFactory,
    TopicConnectionFactory,
    TransactionRolledBackRuntimeException,
)
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.contexts import received, received_texts, send_texts
from tests.pyjms.runtime.helpers import PATIENCE_S, Call, Recorder, text_of

MODES = [
    JMSContext.AUTO_ACKNOWLEDGE,
    JMSContext.CLIENT_ACKNOWLEDGE,
    JMSContext.DUPS_OK_ACKNOWLEDGE,
    JMSContext.SESSION_TRANSACTED,
]
EVERY_MODE = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)

# ------------------------------------------------------------------------------------------------------------- making


def test_the_constants_are_those_of_java() -> None:
    assert [int(mode) for mode in MODES] == [1, 2, 3, 0]


@EVERY_MODE
def test_a_context_has_the_mode_that_is_asked_for(each_factory: ConnectionFactory, mode: Any) -> None:
    with each_factory.create_context(mode) as context:
        assert context.session_mode == context.getSessionMode() == mode
        assert context.transacted is context.getTransacted() is (mode == JMSContext.SESSION_TRANSACTED)
        with context.create_context(mode) as other:
            assert other.session_mode == mode


@pytest.mark.parametrize(
    ("arguments", "named", "mode"),
    [
        ((), {}, 1),
        ((2,), {}, 2),
        (("tea", "pot"), {}, 1),
        (("tea", "pot", 0), {}, 0),
        ((None, None, 3), {}, 3),
        ((), {"session_mode": 2}, 2),
        ((), {"user_name": "tea", "password": "pot"}, 1),
        ((), {"user_name": "tea", "password": "pot", "session_mode": 3}, 3),
        (("tea",), {"password": "pot", "session_mode": 3}, 3),
        ((None,), {}, 1),
        ((), {"session_mode": None}, 1),
    ],
)
@pytest.mark.parametrize("name", ["create_context", "createContext"])
def test_a_factory_takes_the_arguments_of_each_overload(
    jms_connection_factory: ConnectionFactory, name: str, arguments: Any, named: Any, mode: int
) -> None:
    with getattr(jms_connection_factory, name)(*arguments, **named) as context:
        assert isinstance(context, JMSContext)
        assert context.session_mode == mode


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(("a", "b", 1, 2), {}), ((1,), {"session_mode": 1}), ((), {"mode": 1})],
)
def test_other_arguments_are_a_mistake(jms_connection_factory: Any, arguments: Any, named: Any) -> None:
    with pytest.raises(TypeError):
        jms_connection_factory.create_context(*arguments, **named)


@pytest.mark.parametrize("mode", [-1, 4, 99, True, "AUTO_ACKNOWLEDGE", 1.0])
def test_another_mode_is_refused(jms_connection_factory: Any, context: Any, mode: Any) -> None:
    with pytest.raises(JMSRuntimeException) as caught:
        jms_connection_factory.create_context(session_mode=mode)
    assert type(caught.value) is JMSRuntimeException
    with pytest.raises(JMSRuntimeException):
        jms_connection_factory.create_context("user", "word", mode)
    with pytest.raises(JMSRuntimeException):
        context.create_context(mode)


@pytest.mark.parametrize("kind", [QueueConnectionFactory, TopicConnectionFactory, pyjms.XAConnectionFactory])
def test_a_factory_of_one_domain_makes_contexts_for_both(jms_broker_url: str, kind: Any) -> None:
    with kind(jms_broker_url).create_context() as context:
        consumers = [
            context.create_consumer(context.create_queue("q")),
            context.create_consumer(context.create_topic("t")),
        ]
        context.create_producer().send(context.create_queue("q"), "tea").send(context.create_topic("t"), "news")
        assert [text_of(received(consumer)) for consumer in consumers] == ["tea", "news"]


def test_a_context_ends_with_its_block(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context() as context:
        send_texts(context, "orders", "tea")
    with pytest.raises(IllegalStateRuntimeException):
        context.create_producer()
    with each_factory.createContext() as other:
        assert received_texts(other.create_consumer(other.create_queue("orders")), 1) == ["tea"]


def test_a_factory_of_jms_1_makes_no_contexts() -> None:
    class Pool(pyjms.api.factory.ConnectionFactory):
        def create_connection(self, user_name: str | None = None, password: str | None = None) -> Any:
            return None

    with pytest.raises(pyjms.UnsupportedOperationException, match="Pool"):
        Pool().create_context()


@pytest.mark.parametrize("arguments", [("eve", "wrong"), ("eve", "wrong", 0), ()])
def test_a_refused_user_is_a_security_exception(
    jms_faults: Faults, jms_connection_factory: ConnectionFactory, arguments: Any
) -> None:
    jms_faults.inject(Fault.LOGIN_REFUSED)
    with pytest.raises(JMSSecurityRuntimeException) as caught:
        jms_connection_factory.create_context(*arguments)
    cause = caught.value.getCause()
    assert isinstance(cause, pyjms.JMSSecurityException)
    assert (caught.value.message, caught.value.error_code) == (cause.message, cause.error_code)


def test_a_broker_that_is_not_there_is_a_run_time_exception() -> None:
    with pytest.raises(JMSRuntimeException) as caught:
        ConnectionFactory("stomp://127.0.0.1:1?reconnect=false").create_context()
    assert isinstance(caught.value.__cause__, pyjms.JMSException)


def test_a_client_identifier_of_the_factory_that_is_in_use_is_refused(jms_broker_url: str) -> None:
    factory = ConnectionFactory(jms_broker_url, client_id="till")
    with factory.create_context(), pytest.raises(InvalidClientIDRuntimeException):
        factory.create_context()


# ------------------------------------------------------------------------------------------------- client identifier


def test_a_client_identifier_is_set_first(each_context: JMSContext) -> None:
    assert (each_context.client_id, each_context.getClientID()) == (None, None)
    each_context.client_id = "till-1"
    assert each_context.client_id == each_context.getClientID() == "till-1"
    with pytest.raises(IllegalStateRuntimeException):
        each_context.setClientID("till-2")


def test_a_client_identifier_in_use_is_invalid(each_factory: ConnectionFactory, each_context: JMSContext) -> None:
    each_context.client_id = "till-1"
    with each_factory.create_context() as other:
        with pytest.raises(InvalidClientIDRuntimeException):
            other.client_id = "till-1"
        other.client_id = "till-2"


@pytest.mark.parametrize("wrong", ["", None, 5])
def test_what_is_no_client_identifier_is_invalid(context: Any, wrong: Any) -> None:
    with pytest.raises(InvalidClientIDRuntimeException):
        context.client_id = wrong


USES: list[Callable[[JMSContext], object]] = [
    lambda context: context.create_context(1).close(),
    lambda context: context.create_producer(),
    lambda context: context.create_queue("q"),
    lambda context: context.create_text_message("x"),
    lambda context: context.start(),
    lambda context: context.stop(),
]


@pytest.mark.parametrize("use", USES)
def test_a_client_identifier_is_not_set_after_another_action(context: JMSContext, use: Any) -> None:
    use(context)
    with pytest.raises(IllegalStateRuntimeException):
        context.client_id = "till-1"


def test_a_client_identifier_of_the_factory_stays(jms_broker_url: str) -> None:
    with ConnectionFactory(jms_broker_url, client_id="till").create_context() as context:
        with pytest.raises(IllegalStateRuntimeException):
            context.client_id = "other"
        assert context.client_id == "till"
        with context.create_context(1) as other:
            assert other.client_id == "till"


# -------------------------------------------------------------------------------------------------- one connection


def test_contexts_of_one_connection_have_sessions_of_their_own(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    with each_context.create_context(JMSContext.SESSION_TRANSACTED) as other:
        other.create_producer().send(queue, "tea")
        each_context.create_producer().send(queue, "milk")
        consumer = each_context.create_consumer(queue)
        assert received_texts(consumer, 1) == ["milk"]
        other.commit()
    assert received_texts(consumer, 1) == ["tea"]


def test_the_last_context_closes_the_connection(each_factory: ConnectionFactory) -> None:
    first = each_factory.create_context()
    first.client_id = "till"
    second = first.create_context(JMSContext.CLIENT_ACKNOWLEDGE)
    third = second.create_context(JMSContext.AUTO_ACKNOWLEDGE)
    temporary = first.create_temporary_queue()
    first.close()
    second.close()
    second.close()
    third.create_producer().send(temporary, "still there")
    assert received_texts(third.create_consumer(temporary), 1) == ["still there"]
    assert third.client_id == "till"
    with each_factory.create_context() as other, pytest.raises(InvalidClientIDRuntimeException):
        other.client_id = "till"
    third.close()
    with each_factory.create_context() as other:
        other.client_id = "till"


def test_a_close_of_one_context_leaves_the_messages_of_another(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    consumer = each_context.create_consumer(queue)
    with each_context.create_context(JMSContext.AUTO_ACKNOWLEDGE) as other:
        other.create_producer().send(queue, "tea")
    assert received_texts(consumer, 1) == ["tea"]


# ----------------------------------------------------------------------------------------------------- start and stop


def test_the_first_consumer_starts_the_connection(each_context: JMSContext) -> None:
    assert each_context.auto_start is each_context.getAutoStart() is True
    queue = each_context.create_queue("orders")
    each_context.create_producer().send(queue, "tea")
    assert received_texts(each_context.create_consumer(queue), 1) == ["tea"]


def test_without_auto_start_only_start_delivers(each_context: JMSContext) -> None:
    each_context.auto_start = False
    assert each_context.getAutoStart() is False
    queue = each_context.create_queue("orders")
    each_context.create_producer().send(queue, "tea")
    consumer = each_context.create_consumer(queue)
    assert consumer.receive_no_wait() is None
    assert consumer.receive(50) is None
    each_context.start()
    each_context.start()
    assert received_texts(consumer, 1) == ["tea"]
    each_context.setAutoStart(True)
    assert each_context.auto_start is True


def test_auto_start_is_the_context_s_own(context: JMSContext) -> None:
    context.auto_start = False
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    context.create_producer().send(queue, "tea")
    with context.create_context(1) as other:
        assert other.auto_start is True
        assert consumer.receive_no_wait() is None
        other.create_consumer(other.create_queue("others"))
        assert received_texts(consumer, 1) == ["tea"]


def test_neither_a_producer_nor_a_browser_starts_the_connection(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    context.auto_start = False
    consumer = context.create_consumer(queue)
    context.auto_start = True
    context.create_producer().send(queue, "tea")
    assert [text_of(message) for message in context.create_browser(queue)] == ["tea"]
    assert consumer.receive_no_wait() is None


def test_a_stop_ends_delivery_to_all_contexts_of_the_connection(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    with each_context.create_context(1) as other:
        consumer = other.create_consumer(queue)
        each_context.stop()
        each_context.stop()
        each_context.create_producer().send(queue, "tea")
        assert consumer.receive(50) is None
        other.start()
        assert received_texts(consumer, 1) == ["tea"]


def test_a_consumer_starts_a_stopped_connection_again(context: JMSContext) -> None:
    queue = context.create_queue("orders")
    consumer = context.create_consumer(queue)
    context.stop()
    context.create_producer().send(queue, "tea")
    context.create_consumer(context.create_queue("others"))
    assert received_texts(consumer, 1) == ["tea"]


# ----------------------------------------------------------------------------------------------- listeners and close


def test_a_listener_gets_messages_at_once(each_context: JMSContext) -> None:
    listener = Recorder()
    consumer = each_context.create_consumer(each_context.create_queue("orders"))
    consumer.message_listener = listener
    found: Any = consumer.message_listener
    assert found is consumer.getMessageListener() is listener
    with each_context.create_context(1) as other:
        send_texts(other, "orders", "tea", "milk")
        assert listener.wait_for(2) == ["tea", "milk"]


@pytest.mark.parametrize("call", ["close", "stop"])
def test_a_listener_may_neither_close_nor_stop_its_own_context(
    jms_connection_factory: ConnectionFactory, call: str
) -> None:
    refused: list[BaseException] = []
    done = Event()
    context = jms_connection_factory.create_context()

    def on_message(_: object) -> None:
        try:
            getattr(context, call)()
        except Exception as error:
            refused.append(error)
        done.set()

    consumer = context.create_consumer(context.create_queue("orders"))
    consumer.message_listener = on_message
    with jms_connection_factory.create_context() as other:
        send_texts(other, "orders", "tea")
        assert done.wait(PATIENCE_S)
        assert [type(error) for error in refused] == [IllegalStateRuntimeException]
        # The refusal has changed nothing.
        done.clear()
        send_texts(other, "orders", "milk")
        assert done.wait(PATIENCE_S)
    context.close()


def test_a_listener_may_not_stop_the_connection_of_its_context_by_another(
    jms_connection_factory: ConnectionFactory,
) -> None:
    refused: list[BaseException] = []
    done = Event()
    context = jms_connection_factory.create_context()
    second = context.create_context(1)

    def on_message(_: object) -> None:
        try:
            second.stop()
        except Exception as error:
            refused.append(error)
        second.close()
        done.set()

    context.create_consumer(context.create_queue("orders")).message_listener = on_message
    with jms_connection_factory.create_context() as other:
        send_texts(other, "orders", "tea")
    assert done.wait(PATIENCE_S)
    assert [type(error) for error in refused] == [IllegalStateRuntimeException]
    with pytest.raises(IllegalStateRuntimeException):
        second.start()
    context.close()


def test_close_waits_for_a_listener_and_ends_a_receive(
    jms_connection_factory: ConnectionFactory, latch: Callable[[], Event]
) -> None:
    context = jms_connection_factory.create_context()
    entered, go_on = Event(), latch()

    def on_message(_: object) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)

    context.create_consumer(context.create_queue("orders")).message_listener = on_message
    send_texts(context.create_context(1), "orders", "tea")
    assert entered.wait(PATIENCE_S)
    closing = Call(context.close)
    assert closing.is_blocked()
    go_on.set()
    closing.result()

    context = jms_connection_factory.create_context()
    receiving = Call(context.create_consumer(context.create_queue("others")).receive)
    assert receiving.is_blocked()
    Call(context.close).result()
    assert receiving.result() is None


def test_close_rolls_a_transaction_back(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        queue = context.create_queue("orders")
        context.create_producer().send(queue, "tea")
        context.commit()
        assert received_texts(context.create_consumer(queue), 1) == ["tea"]
        context.create_producer().send(queue, "milk")
    with each_factory.create_context() as context:
        consumer = context.create_consumer(queue)
        assert text_of(message := received(consumer)) == "tea"
        assert message.jms_redelivered
        assert consumer.receive(50) is None


def test_closing_twice_does_nothing(each_factory: ConnectionFactory) -> None:
    context = each_factory.create_context()
    context.create_producer()
    context.close()
    context.close()
    unused = each_factory.create_context()
    unused.close()
    unused.close()


CLOSED: dict[str, Callable[[JMSContext], object]] = {
    "create_context": lambda context: context.create_context(1),
    "create_producer": lambda context: context.create_producer(),
    "client_id": lambda context: context.client_id,
    "set client_id": lambda context: context.setClientID("till"),
    "meta_data": lambda context: context.meta_data,
    "exception_listener": lambda context: context.exception_listener,
    "set exception_listener": lambda context: context.setExceptionListener(print),
    "start": lambda context: context.start(),
    "stop": lambda context: context.stop(),
    "auto_start": lambda context: context.auto_start,
    "set auto_start": lambda context: context.setAutoStart(True),
    "create_bytes_message": lambda context: context.create_bytes_message(),
    "create_map_message": lambda context: context.create_map_message(),
    "create_message": lambda context: context.create_message(),
    "create_object_message": lambda context: context.create_object_message([1]),
    "create_stream_message": lambda context: context.create_stream_message(),
    "create_text_message": lambda context: context.create_text_message("x"),
    "transacted": lambda context: context.transacted,
    "session_mode": lambda context: context.session_mode,
    "commit": lambda context: context.commit(),
    "rollback": lambda context: context.rollback(),
    "recover": lambda context: context.recover(),
    "acknowledge": lambda context: context.acknowledge(),
    "create_consumer": lambda context: context.create_consumer(ORDERS),
    "create_durable_consumer": lambda context: context.create_durable_consumer(NEWS, "n"),
    "create_shared_consumer": lambda context: context.create_shared_consumer(NEWS, "n"),
    "create_shared_durable_consumer": lambda context: context.create_shared_durable_consumer(NEWS, "n"),
    "create_browser": lambda context: context.create_browser(ORDERS),
    "unsubscribe": lambda context: context.unsubscribe("n"),
    "create_queue": lambda context: context.create_queue("q"),
    "create_topic": lambda context: context.create_topic("t"),
    "create_temporary_queue": lambda context: context.create_temporary_queue(),
    "create_temporary_topic": lambda context: context.create_temporary_topic(),
}
ORDERS: Any = None
NEWS: Any = None


@pytest.mark.parametrize("call", CLOSED.values(), ids=CLOSED)
@pytest.mark.parametrize("is_used", [False, True], ids=["unused", "used"])
def test_a_closed_context_refuses_each_call(
    jms_connection_factory: ConnectionFactory, call: Any, is_used: bool
) -> None:
    context = jms_connection_factory.create_context()
    if is_used:
        context.create_queue("orders")
    context.close()
    with pytest.raises(IllegalStateRuntimeException):
        call(context)


def test_each_member_of_a_context_is_among_these() -> None:
    names = {name.removeprefix("set ") for name in CLOSED} | {"close"}
    assert names == set(JMSContext.java_members)


def test_a_context_whose_connection_is_shared_refuses_calls_once_it_is_closed_itself(context: JMSContext) -> None:
    other = context.create_context(1)
    other.close()
    for call in CLOSED.values():
        with pytest.raises(IllegalStateRuntimeException):
            call(other)
    context.create_producer()


# ----------------------------------------------------------------------------------------------------- exceptions


def test_commit_rollback_and_recover_need_their_modes(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context() as context:
        for call in (context.commit, context.rollback):
            with pytest.raises(IllegalStateRuntimeException):
                call()
        context.recover()
        with (
            context.create_context(JMSContext.SESSION_TRANSACTED) as transacted,
            pytest.raises(IllegalStateRuntimeException),
        ):
            transacted.recover()


def test_a_commit_that_ends_in_a_rollback_says_so(
    jms_faults: Faults, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        send_texts(context, "orders", "tea")
        jms_faults.inject(Fault.COMMIT_ROLLED_BACK)
        with pytest.raises(TransactionRolledBackRuntimeException) as caught:
            context.commit()
        assert isinstance(caught.value.__cause__, pyjms.TransactionRolledBackException)


def test_wrong_destinations_selectors_and_names_are_named(each_context: Any) -> None:
    queue, topic = each_context.create_queue("q"), each_context.create_topic("t")
    for wrong in (None, "q"):
        with pytest.raises(InvalidDestinationRuntimeException):
            each_context.create_consumer(wrong)
        with pytest.raises(InvalidDestinationRuntimeException):
            each_context.create_browser(wrong)
        with pytest.raises(InvalidDestinationRuntimeException):
            each_context.create_shared_consumer(wrong, "s")
        with pytest.raises(InvalidDestinationRuntimeException):
            each_context.create_shared_durable_consumer(wrong, "s")
    with pytest.raises(InvalidSelectorRuntimeException):
        each_context.create_consumer(queue, "= 5")
    with pytest.raises(InvalidSelectorRuntimeException):
        each_context.create_consumer(topic, "= 5", True)
    with pytest.raises(InvalidSelectorRuntimeException):
        each_context.create_browser(queue, "= 5")
    with pytest.raises(InvalidSelectorRuntimeException):
        each_context.create_shared_consumer(topic, "s", "= 5")
    with pytest.raises(InvalidSelectorRuntimeException):
        each_context.create_shared_durable_consumer(topic, "s", "= 5")
    with pytest.raises(MessageFormatRuntimeException):
        each_context.create_object_message(lambda: None)


def test_a_durable_consumer_needs_a_client_identifier_a_topic_and_a_selector(each_factory: Any) -> None:
    with each_factory.create_context() as context:
        topic = context.create_topic("news")
        with pytest.raises(IllegalStateRuntimeException):
            context.create_durable_consumer(topic, "mine")
        with pytest.raises(IllegalStateRuntimeException):
            context.create_durable_consumer(topic, "mine", None, False)
    with each_factory.create_context() as context:
        context.client_id = "till"
        for wrong in (None, context.create_queue("q"), context.create_temporary_topic()):
            with pytest.raises(InvalidDestinationRuntimeException):
                context.create_durable_consumer(wrong, "mine")
        with pytest.raises(InvalidSelectorRuntimeException):
            context.create_durable_consumer(topic, "mine", "= 5", True)
        with pytest.raises(InvalidDestinationRuntimeException):
            context.unsubscribe("mine")


# ----------------------------------------------------------------------------------------------------- the session


def test_acknowledge_covers_all_that_was_delivered(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context(JMSContext.CLIENT_ACKNOWLEDGE) as context:
        send_texts(context, "orders", "a", "b", "c")
        consumer = context.create_consumer(context.create_queue("orders"))
        assert received_texts(consumer, 2) == ["a", "b"]
        context.acknowledge()
        assert received_texts(consumer, 1) == ["c"]
        context.recover()
        message = received(consumer)
        assert (text_of(message), message.jms_redelivered) == ("c", True)
        assert message.get_int_property("JMSXDeliveryCount") == 2
        message.acknowledge()
    with each_factory.create_context() as context:
        assert context.create_consumer(context.create_queue("orders")).receive(50) is None


@pytest.mark.parametrize(
    "mode", [JMSContext.AUTO_ACKNOWLEDGE, JMSContext.DUPS_OK_ACKNOWLEDGE, JMSContext.SESSION_TRANSACTED]
)
def test_acknowledge_does_nothing_in_other_modes(jms_connection_factory: ConnectionFactory, mode: int) -> None:
    with jms_connection_factory.create_context(mode) as context:
        send_texts(context.create_context(1), "orders", "tea")
        received(context.create_consumer(context.create_queue("orders")))
        context.acknowledge()
        if context.transacted:
            context.rollback()
            assert received(context.create_consumer(context.create_queue("orders"))).jms_redelivered


def test_a_transaction_is_committed_and_rolled_back(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context(JMSContext.SESSION_TRANSACTED) as context:
        queue = context.create_queue("orders")
        context.create_producer().send(queue, "tea")
        context.rollback()
        context.create_producer().send(queue, "milk")
        context.commit()
        consumer = context.create_consumer(queue)
        assert received_texts(consumer, 1) == ["milk"]
        context.rollback()
        message = received(consumer)
        assert (text_of(message), message.jms_redelivered) == ("milk", True)
        context.commit()
        assert consumer.receive(50) is None


def test_each_kind_of_message_is_made(context: JMSContext) -> None:
    assert isinstance(context.create_bytes_message(), pyjms.BytesMessage)
    assert isinstance(context.create_map_message(), pyjms.MapMessage)
    assert isinstance(context.create_stream_message(), pyjms.StreamMessage)
    assert isinstance(context.create_message(), pyjms.Message)
    assert context.create_text_message().text is None
    assert context.create_text_message("tea").text == "tea"
    assert context.create_object_message().object is None
    assert context.create_object_message([1]).object == [1]


def test_destinations_are_made(each_context: JMSContext) -> None:
    assert each_context.create_queue("q").queue_name == "q"
    assert each_context.create_topic("t").topic_name == "t"
    for temporary in (each_context.create_temporary_queue(), each_context.create_temporary_topic()):
        consumer = each_context.create_consumer(temporary)
        each_context.create_producer().send(temporary, "tea")
        assert received_texts(consumer, 1) == ["tea"]
        consumer.close()
        temporary.delete()


def test_a_browser_shows_what_a_selector_chooses(each_context: JMSContext) -> None:
    queue = each_context.create_queue("orders")
    for cups in (1, 2):
        each_context.create_producer().set_property("cups", cups).send(queue, f"{cups} cups")
    with each_context.create_browser(queue) as browser:
        assert [text_of(message) for message in browser] == ["1 cups", "2 cups"]
    assert [text_of(message) for message in each_context.create_browser(queue, "cups > 1")] == ["2 cups"]


def test_a_consumer_has_selector_and_no_local(each_context: JMSContext) -> None:
    topic = each_context.create_topic("news")
    picky = each_context.create_consumer(topic, "cups > 1")
    deaf = each_context.create_consumer(topic, None, True)
    all_of_them = each_context.create_consumer(topic, "")
    assert picky.message_selector == picky.getMessageSelector() == "cups > 1"
    assert all_of_them.message_selector is None
    for cups in (1, 2):
        each_context.create_producer().set_property("cups", cups).send(topic, f"{cups} cups")
    assert received_texts(all_of_them, 2) == ["1 cups", "2 cups"]
    assert received_texts(picky, 1) == ["2 cups"]
    assert deaf.receive_no_wait() is None


def test_a_durable_subscription_collects_until_it_is_unsubscribed(each_factory: ConnectionFactory) -> None:
    def client() -> JMSContext:
        context = each_factory.create_context()
        context.client_id = "till"
        return context

    with client() as context:
        topic = context.create_topic("news")
        context.create_durable_consumer(topic, "mine", "cups > 1", False)
    with each_factory.create_context() as context:
        for cups in (1, 2):
            context.create_producer().set_property("cups", cups).send(topic, f"{cups} cups")
    with client() as context:
        consumer = context.create_durable_consumer(topic, "mine", "cups > 1")
        assert received_texts(consumer, 1) == ["2 cups"]
        with pytest.raises(JMSRuntimeException):
            context.create_durable_consumer(topic, "mine", "cups > 1")
        with pytest.raises(JMSRuntimeException):
            context.unsubscribe("mine")
        consumer.close()
        context.unsubscribe("mine")
        with pytest.raises(InvalidDestinationRuntimeException):
            context.unsubscribe("mine")


def test_shared_consumers_divide_the_messages_of_several_contexts(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context() as context, each_factory.create_context() as other:
        topic = context.create_topic("news")
        consumers = [each.create_shared_consumer(topic, "desks", "cups > 1") for each in (context, other)]
        durable = [each.create_shared_durable_consumer(topic, "desks") for each in (context, other)]
        for cups in (1, 2, 3):
            context.create_producer().set_property("cups", cups).send(topic, f"{cups} cups")
        for group, wanted in ((consumers, ["2 cups", "3 cups"]), (durable, ["1 cups", "2 cups", "3 cups"])):
            texts: list[str] = []
            while len(texts) < len(wanted):
                texts.extend(body for each in group if (body := each.receive_body(str, 20)) is not None)
            assert sorted(texts) == wanted
        with pytest.raises(JMSRuntimeException):
            other.create_shared_consumer(topic, "desks")
        with pytest.raises(JMSRuntimeException):
            other.create_shared_durable_consumer(topic, "desks", "a = 1")
        with pytest.raises(JMSRuntimeException):
            context.unsubscribe("desks")
        for each in durable:
            each.close()
        context.unsubscribe("desks")


def test_a_shared_and_an_unshared_durable_subscription_exclude_each_other(each_factory: ConnectionFactory) -> None:
    with each_factory.create_context() as context:
        context.client_id = "till"
        topic = context.create_topic("news")
        context.create_durable_consumer(topic, "alone").close()
        context.create_shared_durable_consumer(topic, "together").close()
        with pytest.raises(JMSRuntimeException):
            context.create_shared_durable_consumer(topic, "alone")
        with pytest.raises(JMSRuntimeException):
            context.create_durable_consumer(topic, "together")
        for name in ("alone", "together"):
            context.unsubscribe(name)


# -------------------------------------------------------------------------------------------- facts and problems


def test_the_facts_are_those_of_the_connection(each_context: JMSContext) -> None:
    assert each_context.meta_data.jms_version == each_context.getMetaData().getJMSVersion() == "2.0"
    assert each_context.meta_data.jms_provider_name


def test_an_exception_listener_is_that_of_the_connection(
    jms_faults: Faults, jms_connection_factory: ConnectionFactory
) -> None:
    with jms_connection_factory.create_context() as context:
        told = Event()

        def on_exception(_: object) -> None:
            told.set()

        context.exception_listener = on_exception
        assert context.exception_listener is context.getExceptionListener() is on_exception
        with context.create_context(1) as other:
            assert other.exception_listener is on_exception
        jms_faults.inject(Fault.CONNECTION_DROPS_ON_SEND)
        with pytest.raises(JMSRuntimeException):
            context.create_producer().send(context.create_queue("orders"), "tea")
        assert told.wait(PATIENCE_S)
        context.exception_listener = None
        assert context.exception_listener is None
