"""Each checked exception of JMS 1.1 §7.3, raised by a client's call in the case that the section names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pyjms
from pyjms import (
    IllegalStateException,
    InvalidClientIDException,
    InvalidDestinationException,
    InvalidSelectorException,
    JMSException,
    JMSRuntimeException,
    JMSSecurityException,
    MessageEOFException,
    MessageFormatException,
    MessageNotReadableException,
    MessageNotWriteableException,
    ResourceAllocationException,
    Session,
    TransactionRolledBackException,
)
from pyjms.runtime.connection import JmsConnection
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.conftest import Connect
from tests.pyjms.runtime.helpers import send_texts, take


@pytest.mark.realises("BOIL-EXC-1")
def test_jms_exception_is_the_root() -> None:
    kinds = {
        getattr(pyjms, name)
        for name in pyjms.__all__
        if isinstance(getattr(pyjms, name), type)
        and issubclass(getattr(pyjms, name), Exception)
        and getattr(pyjms, name).__module__ == "pyjms.errors"
        and not issubclass(getattr(pyjms, name), (ValueError, TypeError, NotImplementedError, IndexError))
    }
    checked = {kind for kind in kinds if issubclass(kind, JMSException)}
    assert len(checked) == 13
    assert len(kinds - checked) == 11
    assert all(issubclass(kind, JMSRuntimeException) for kind in kinds - checked)


WRONG: Any = object()


def received(session: Session, kind: str) -> pyjms.Message:
    """Return a received message with an empty body."""
    queue = session.create_queue("orders")
    message = session.create_bytes_message() if kind == "bytes" else session.create_stream_message()
    session.create_producer(queue).send(message)
    return take(session.create_consumer(queue))


def boolean_as_short(session: Session) -> object:
    """Read a short where there is a boolean."""
    stream = session.create_stream_message()
    stream.write_boolean(True)
    stream.reset()
    return stream.read_short()


CASES: list[tuple[str, type[JMSException], Callable[[Session], object]]] = [
    ("BOIL-EXC-2", IllegalStateException, lambda session: session.commit()),
    ("BOIL-EXC-2", IllegalStateException, lambda session: session.rollback()),
    (
        "BOIL-EXC-2",
        IllegalStateException,
        lambda session: session.create_durable_subscriber(session.create_topic("t"), "no client id"),
    ),
    ("BOIL-EXC-5", InvalidDestinationException, lambda session: session.create_consumer(None)),  # type: ignore[arg-type]
    ("BOIL-EXC-6", InvalidSelectorException, lambda session: session.create_consumer(session.create_queue("q"), "a >")),
    ("BOIL-EXC-7", MessageEOFException, lambda session: received(session, "bytes").read_int()),  # type: ignore[attr-defined]
    ("BOIL-EXC-7", MessageEOFException, lambda session: received(session, "stream").read_object()),  # type: ignore[attr-defined]
    ("BOIL-EXC-8", MessageFormatException, lambda session: session.create_map_message().set_object("a", WRONG)),
    ("BOIL-EXC-8", MessageFormatException, lambda session: session.create_bytes_message().write_object(WRONG)),
    ("BOIL-EXC-8", MessageFormatException, boolean_as_short),
    ("BOIL-EXC-8", MessageFormatException, lambda session: session.create_producer(session.create_queue("q")).send(5)),  # type: ignore[call-overload]
    ("BOIL-EXC-9", MessageNotReadableException, lambda session: session.create_bytes_message().read_byte()),
    ("BOIL-EXC-9", MessageNotReadableException, lambda session: session.create_stream_message().read_string()),
    ("BOIL-EXC-10", MessageNotWriteableException, lambda session: received(session, "bytes").write_byte(1)),  # type: ignore[attr-defined]
    ("BOIL-EXC-10", MessageNotWriteableException, lambda session: received(session, "stream").set_int_property("a", 1)),
]


@pytest.mark.parametrize(
    ("kind", "use"),
    [pytest.param(kind, use, marks=pytest.mark.realises(item)) for item, kind, use in CASES],
    ids=[f"{kind.__name__}-{number}" for number, (_, kind, _) in enumerate(CASES)],
)
def test_it_is_raised(session: Session, kind: type[JMSException], use: Callable[[Session], object]) -> None:
    with pytest.raises(JMSException) as caught:
        use(session)
    assert type(caught.value) is kind
    assert caught.value.getMessage()


@pytest.mark.realises("BOIL-EXC-3", "BOIL-EXC-4", "BOIL-EXC-11", "BOIL-EXC-13")
def test_those_of_the_provider(jms_faults: Faults, connect: Connect) -> None:
    connection = connect("shop")
    jms_faults.inject(Fault.LOGIN_REFUSED)
    with pytest.raises(JMSSecurityException):
        connect()
    jms_faults.inject(Fault.CONNECT_REFUSED)
    with pytest.raises(ResourceAllocationException):
        connect()
    with pytest.raises(InvalidClientIDException):
        connect("shop")
    session = connection.create_session(True, 0)
    send_texts(session, session.create_queue("orders"), "espresso")
    jms_faults.inject(Fault.COMMIT_ROLLED_BACK)
    with pytest.raises(TransactionRolledBackException):
        session.commit()


def test_an_error_shows_code_and_cause(jms_faults: Faults, connection: JmsConnection) -> None:
    session = connection.create_session()
    jms_faults.inject(Fault.SEND_REFUSED)
    with pytest.raises(ResourceAllocationException) as caught:
        send_texts(session, session.create_queue("orders"), "espresso")
    error = caught.value
    assert error.getErrorCode() == error.error_code == "PYJMS-RESOURCE"
    assert error.getLinkedException() is error.linked_exception is error.__cause__
    assert str(error) == error.getMessage()
