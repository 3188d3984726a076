"""XAJMSContext (20.13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pyjms import (
    JMSContext,
    JMSSecurityRuntimeException,
    Queue,
    TransactionInProgressRuntimeException,
    XAConnectionFactory,
    XAJMSContext,
    XAResource,
)
from pyjms_tck.environment import Environment, Waits
from pyjms_tck.fixtures import MakeFactory, MakeName
from pyjms_tck.requirements import requirement
from pyjms_tck.suite.chapter_08.branches import Branch
from pyjms_tck.suite.chapter_20.conftest import MakeContext


@pytest.fixture
def xa_factory(make_factory: MakeFactory) -> XAConnectionFactory:
    """A factory of XA contexts."""
    return make_factory(XAConnectionFactory)


@pytest.fixture
def xa_context(xa_factory: XAConnectionFactory) -> Iterator[XAJMSContext]:
    """An XA context."""
    with xa_factory.create_xa_context() as context:
        yield context


@requirement("20.13-a")
def test_20_13_a_an_xa_context_is_made(xa_factory: XAConnectionFactory, environment: Environment) -> None:
    profile = environment.profile
    user: tuple[Any, Any] = (profile.user_name, profile.password)
    for arguments in ((), user):
        context = xa_factory.createXAContext(*arguments)
        assert isinstance(context, XAJMSContext)
        context.close()


@requirement("20.13-b")
def test_20_13_b_wrong_credentials_are_refused(
    xa_factory: XAConnectionFactory, wrong_credentials: tuple[str, str]
) -> None:
    with pytest.raises(JMSSecurityRuntimeException):
        xa_factory.create_xa_context(*wrong_credentials)


@requirement("20.13-d")
def test_20_13_d_an_xa_context_has_its_parts(xa_context: XAJMSContext) -> None:
    assert xa_context.getTransacted() is True
    assert isinstance(xa_context.getContext(), JMSContext)
    assert isinstance(xa_context.getXAResource(), XAResource)


@requirement("20.13-e")
@pytest.mark.parametrize("method", ["commit", "rollback"])
def test_20_13_e_xa_controls_the_transaction(xa_context: XAJMSContext, method: str) -> None:
    with pytest.raises(TransactionInProgressRuntimeException):
        getattr(xa_context, method)()


@requirement("20.13-f")
def test_20_13_f_a_branch_takes_effect_when_it_is_committed(
    xa_context: XAJMSContext, make_context: MakeContext, make_name: MakeName, queue: Queue, waits: Waits
) -> None:
    consumer = make_context().create_consumer(queue)
    resource, branch = xa_context.xa_resource, Branch(make_name("branch"))
    resource.start(branch, XAResource.TMNOFLAGS)
    xa_context.create_producer().send(queue, "text")
    resource.end(branch, XAResource.TMSUCCESS)
    assert consumer.receive(waits.nothing_ms) is None
    resource.commit(branch, True)
    assert consumer.receive_body(str, waits.something_ms) == "text"
