"""Making contexts, and their life (20.8)."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import (
    ConnectionFactory,
    IllegalStateRuntimeException,
    InvalidClientIDRuntimeException,
    JMSContext,
    JMSRuntimeException,
    JMSSecurityRuntimeException,
    Queue,
)
from pyjms_tck.environment import Environment, Waits
from pyjms_tck.fixtures import MakeName
from pyjms_tck.requirements import needs, requirement
from pyjms_tck.suite.chapter_20.conftest import MakeContext
from pyjms_tck.suite.exchange import Holding

MODES = [
    JMSContext.AUTO_ACKNOWLEDGE,
    JMSContext.CLIENT_ACKNOWLEDGE,
    JMSContext.DUPS_OK_ACKNOWLEDGE,
    pytest.param(JMSContext.SESSION_TRANSACTED, marks=needs("TRANSACTIONS")),
]


def credentials(environment: Environment) -> tuple[Any, Any]:
    """Return the profile's user name and password."""
    return environment.profile.user_name, environment.profile.password


@requirement("20.8-a")
@pytest.mark.parametrize("is_named", [False, True], ids=["plain", "as a user"])
def test_20_8_a_a_new_context_acknowledges_automatically(
    make_context: MakeContext, environment: Environment, queue: Queue, waits: Waits, is_named: bool
) -> None:
    context = make_context(*(credentials(environment) if is_named else ()))
    assert context.session_mode == JMSContext.AUTO_ACKNOWLEDGE
    context.create_producer().send(queue, "text")
    assert context.create_consumer(queue).receive_body(str, waits.something_ms) == "text"


@requirement("20.8-b")
@pytest.mark.parametrize("is_named", [False, True], ids=["plain", "as a user"])
@pytest.mark.parametrize("mode", MODES)
def test_20_8_b_a_new_context_has_the_given_mode(
    make_context: MakeContext, environment: Environment, is_named: bool, mode: int
) -> None:
    context = make_context(*(credentials(environment) if is_named else ()), mode)
    assert context.getSessionMode() == mode


@requirement("20.8-c")
def test_20_8_c_an_invalid_mode_is_refused(factory: ConnectionFactory) -> None:
    with pytest.raises(JMSRuntimeException):
        factory.create_context(-1)


@requirement("20.8-d")
@pytest.mark.parametrize("more", [(), (JMSContext.AUTO_ACKNOWLEDGE,)], ids=["plain", "with a mode"])
def test_20_8_d_wrong_credentials_are_refused(
    factory: ConnectionFactory, wrong_credentials: tuple[str, str], more: tuple[int, ...]
) -> None:
    with pytest.raises(JMSSecurityRuntimeException):
        factory.create_context(*wrong_credentials, *more)


@requirement("20.8-f")
def test_20_8_f_a_second_context_has_a_session_of_its_own_on_the_connection(
    make_context: MakeContext, make_name: MakeName, queue: Queue, waits: Waits
) -> None:
    first = make_context()
    name = make_name("client")
    first.client_id = name
    second = first.create_context(JMSContext.CLIENT_ACKNOWLEDGE)
    assert (second.client_id, second.session_mode) == (name, JMSContext.CLIENT_ACKNOWLEDGE)
    second.create_producer().send(queue, "text")
    second.close()
    assert first.create_consumer(queue).receive_body(str, waits.something_ms) == "text"


@requirement("20.8-g")
def test_20_8_g_the_connection_ends_with_its_last_context(
    make_context: MakeContext, make_name: MakeName, queue: Queue, waits: Waits
) -> None:
    name = make_name("client")
    first = make_context()
    first.client_id = name
    second = first.create_context(JMSContext.AUTO_ACKNOWLEDGE)
    first.close()
    second.create_producer().send(queue, "text")
    assert second.create_consumer(queue).receive_body(str, waits.something_ms) == "text"
    second.close()
    second.close()
    make_context().client_id = name  # free again, as the connection has ended


@requirement("20.8-h")
def test_20_8_h_a_closed_context_is_of_no_use(make_context: MakeContext, queue: Queue) -> None:
    context = make_context()
    consumer = context.create_consumer(queue)
    producer = context.create_producer()
    context.close()
    for call in (
        context.create_text_message,
        context.create_producer,
        lambda: context.create_consumer(queue),
        context.start,
        lambda: consumer.receive(1),
        lambda: producer.send(queue, "text"),
    ):
        with pytest.raises(IllegalStateRuntimeException):
            call()


@requirement("20.8-i")
def test_20_8_i_the_first_consumer_starts_the_connection(context: JMSContext, queue: Queue, waits: Waits) -> None:
    assert context.getAutoStart() is True
    context.create_producer().send(queue, "text")
    assert context.create_consumer(queue).receive_body(str, waits.something_ms) == "text"


@requirement("20.8-j")
def test_20_8_j_a_context_that_does_not_start_by_itself_waits(context: JMSContext, queue: Queue, waits: Waits) -> None:
    context.setAutoStart(False)
    assert context.auto_start is False
    consumer = context.create_consumer(queue)
    context.create_producer().send(queue, "text")
    assert consumer.receive(waits.nothing_ms) is None
    context.start()
    assert consumer.receive_body(str, waits.something_ms) == "text"


@requirement("20.8-k")
def test_20_8_k_stop_pauses_delivery(context: JMSContext, queue: Queue, waits: Waits) -> None:
    consumer = context.create_consumer(queue)
    context.stop()
    context.create_producer().send(queue, "text")
    assert consumer.receive(waits.nothing_ms) is None
    context.start()
    assert consumer.receive_body(str, waits.something_ms) == "text"


@requirement("20.8-l")
def test_20_8_l_a_context_has_a_client_identifier(make_context: MakeContext, make_name: MakeName) -> None:
    name = make_name("client")
    context = make_context()
    context.setClientID(name)
    assert context.getClientID() == name
    with pytest.raises(IllegalStateRuntimeException):
        context.client_id = make_name("another")
    with pytest.raises(InvalidClientIDRuntimeException):
        make_context().client_id = name


@requirement("20.8-m")
def test_20_8_m_a_context_has_an_exception_listener(context: JMSContext) -> None:
    def listener(exception: Exception) -> None:
        """Do nothing."""

    assert context.exception_listener is None
    context.setExceptionListener(listener)
    assert context.getExceptionListener() is listener


@requirement("20.8-n")
def test_20_8_n_a_context_tells_about_the_provider(context: JMSContext) -> None:
    about = context.getMetaData()
    assert about.jms_provider_name
    assert (about.jms_major_version, about.jms_minor_version) >= (2, 0)


@requirement("20.8-o")
@pytest.mark.parametrize("mode", MODES)
def test_20_8_o_a_context_tells_its_mode(make_context: MakeContext, mode: int) -> None:
    context = make_context(mode)
    assert (context.session_mode, context.getTransacted()) == (mode, mode == JMSContext.SESSION_TRANSACTED)


@requirement("20.8-p")
@pytest.mark.parametrize("method", ["close", "stop"])
def test_20_8_p_a_listener_must_not_close_or_stop_its_context(
    context: JMSContext, make_context: MakeContext, queue: Queue, waits: Waits, method: str
) -> None:
    with Holding(waits, lambda _: getattr(context, method)()) as holding:
        context.create_consumer(queue).message_listener = holding
        make_context().create_producer().send(queue, "text")
        holding.wait_until_entered()
        holding.release()
        waits.until(holding.returned.is_set, "the listener had returned")
    assert type(holding.error) is IllegalStateRuntimeException
