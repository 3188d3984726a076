"""Contexts whose transactions a transaction manager controls (JMS 2.0 §11.4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pyjms
import pyjms.api.xa
from pyjms import (
    IllegalStateRuntimeException,
    JMSContext,
    JMSRuntimeException,
    JMSSecurityRuntimeException,
    TransactionInProgressRuntimeException,
    XAConnectionFactory,
    XAJMSContext,
    XAQueueConnectionFactory,
    XAResource,
    XATopicConnectionFactory,
)
from pyjms.testing import Fault, Faults
from tests.pyjms.runtime.contexts import received, received_texts, url_of
from tests.pyjms.runtime.helpers import text_of


@pytest.fixture
def xa_url(tmp_path: Path) -> Iterator[str]:
    """A broker with a store, which distributed transactions need."""
    with url_of("sqlite", tmp_path) as url:
        yield url


class Branch(pyjms.Xid):
    format_id = 1
    global_transaction_id = b"order-7"
    branch_qualifier = b"till"


@pytest.mark.parametrize("kind", [XAConnectionFactory, XAQueueConnectionFactory, XATopicConnectionFactory])
@pytest.mark.parametrize("name", ["create_xa_context", "createXAContext"])
@pytest.mark.parametrize("arguments", [(), ("tea", "pot")])
def test_a_factory_makes_contexts(xa_url: str, kind: Any, name: str, arguments: Any) -> None:
    with getattr(kind(xa_url), name)(*arguments) as context:
        assert isinstance(context, XAJMSContext)
        assert isinstance(context, JMSContext)
        assert isinstance(context.context, JMSContext)
        assert isinstance(context.getContext(), JMSContext)
        assert isinstance(context.xa_resource, XAResource)
        assert context.getXAResource() is context.xa_resource
        assert context.transacted is context.getTransacted() is True
        assert context.session_mode == JMSContext.SESSION_TRANSACTED


def test_the_branch_decides(xa_url: str) -> None:
    factory = XAConnectionFactory(xa_url)
    with factory.create_xa_context() as xa, factory.create_context() as other:
        queue, resource = other.create_queue("orders"), xa.xa_resource
        consumer = other.create_consumer(queue)
        for finish in ("rollback", "commit"):
            resource.start(Branch(), XAResource.TMNOFLAGS)
            xa.context.create_producer().send(queue, finish)
            resource.end(Branch(), XAResource.TMSUCCESS)
            assert consumer.receive_no_wait() is None
            if finish == "rollback":
                resource.rollback(Branch())
            else:
                resource.commit(Branch(), True)
        assert received_texts(consumer, 1) == ["commit"]
        assert consumer.receive_no_wait() is None


def test_received_messages_belong_to_the_branch(xa_url: str) -> None:
    factory = XAConnectionFactory(xa_url)
    with factory.create_xa_context() as xa, factory.create_context() as other:
        queue, resource = other.create_queue("orders"), xa.xa_resource
        other.create_producer().send(queue, "tea")
        consumer = xa.create_consumer(queue)
        resource.start(Branch(), XAResource.TMNOFLAGS)
        assert received_texts(consumer, 1) == ["tea"]
        resource.end(Branch(), XAResource.TMSUCCESS)
        resource.rollback(Branch())
        consumer.close()
        message = received(other.create_consumer(queue))
        assert (text_of(message), message.jms_redelivered) == ("tea", True)


@pytest.mark.parametrize("call", ["commit", "rollback"])
def test_only_the_manager_ends_a_transaction(xa_url: str, call: str) -> None:
    with XAConnectionFactory(xa_url).create_xa_context() as context:
        for each in (context, context.context):
            with pytest.raises(TransactionInProgressRuntimeException) as caught:
                getattr(each, call)()
            assert isinstance(caught.value.__cause__, pyjms.TransactionInProgressException)


def test_a_send_outside_of_a_branch_is_refused(xa_url: str) -> None:
    with XAConnectionFactory(xa_url).create_xa_context() as context:
        with pytest.raises(IllegalStateRuntimeException):
            context.create_producer().send(context.create_queue("orders"), "tea")
        with context.create_context(JMSContext.AUTO_ACKNOWLEDGE) as other:
            other.create_producer().send(other.create_queue("orders"), "tea")


def test_a_closed_context_refuses_its_parts(xa_url: str) -> None:
    context: Any = XAConnectionFactory(xa_url).create_xa_context()
    context.close()
    for name in ("context", "xa_resource", "transacted"):
        with pytest.raises(IllegalStateRuntimeException):
            getattr(context, name)


def test_refused_credentials_are_a_security_exception(jms_faults: Faults) -> None:
    jms_faults.inject(Fault.LOGIN_REFUSED)
    with pytest.raises(JMSSecurityRuntimeException):
        XAConnectionFactory(jms_faults.url).create_xa_context("eve", "wrong")
    jms_faults.inject(Fault.CONNECT_REFUSED)
    with pytest.raises(JMSRuntimeException):
        XAConnectionFactory(jms_faults.url).create_xa_context()


def test_a_provider_without_distributed_transactions_is_named(jms_broker_url: str) -> None:
    with pytest.raises(JMSRuntimeException, match="distributed transactions"):
        XAConnectionFactory(jms_broker_url).create_xa_context()


def test_a_factory_of_jms_1_makes_no_contexts() -> None:
    class Pool(pyjms.api.xa.XAConnectionFactory):
        def create_xa_connection(self, user_name: str | None = None, password: str | None = None) -> Any:
            return None

    with pytest.raises(pyjms.UnsupportedOperationException, match="Pool"):
        Pool().create_xa_context()
