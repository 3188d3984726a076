"""XA contexts at each bundled provider with a store: two-phase commit, rollback, and recovery after the broker has died."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest

from pyjms import ConnectionFactory, XAConnectionFactory, XAException, XAJMSContext, XAResource
from pyjms_provider.broker import stop_broker
from tests.provider.xa.coordinator import BranchId
from tests.pyjms.jms2.lossy import Outcomes, lossy
from tests.pyjms.runtime.contexts import received, received_texts
from tests.pyjms.runtime.helpers import text_of

ONE, TWO = BranchId("one", "broker"), BranchId("two", "broker")
ALL = XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN


class Broker(Protocol):
    """A broker with a store that can die."""

    @property
    def url(self) -> str:
        """Where contexts connect to."""
        ...

    def die(self) -> None:
        """Replace the broker by one that finds the store as it is now."""
        ...


class VmBroker:
    """A broker in this process. A second one on a copy of its file stands for the first one after its death."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / "first.db"
        self._names = [f"xa-{folder.name}-first"]

    @property
    def url(self) -> str:
        return f"vm://{self._names[-1]}?store=sqlite:///{self._file}"

    def die(self) -> None:
        copied = self._folder / "second"
        copied.mkdir()
        for each in self._folder.glob("first.db*"):
            shutil.copy(each, copied / each.name)
        self._file = copied / "first.db"
        self._names.append(f"xa-{self._folder.name}-second")

    def close(self) -> None:
        """Stop the brokers."""
        for name in self._names:
            stop_broker(name)


@contextmanager
def embedded(folder: Path) -> Iterator[VmBroker]:
    broker = VmBroker(folder)
    try:
        yield broker
    finally:
        broker.close()


@pytest.fixture(params=["vm", "stomp", "amqp"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Broker]:
    with embedded(tmp_path) if request.param == "vm" else lossy(request.param, tmp_path) as broker:
        yield broker


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Contexts, which end before their broker."""
    with ExitStack() as stack:
        yield stack


def xa_context(broker: Broker, opened: ExitStack) -> XAJMSContext:
    return opened.enter_context(XAConnectionFactory(broker.url).create_xa_context())


def send_orders(broker: Broker, *texts: str) -> None:
    with ConnectionFactory(broker.url).create_context() as context:
        for text in texts:
            context.create_producer().send(context.create_queue("orders"), text)


def there(broker: Broker, name: str) -> list[str | None]:
    """Return the texts in a queue."""
    with (
        ConnectionFactory(broker.url).create_context() as context,
        context.create_browser(context.create_queue(name)) as browser,
    ):
        return [text_of(message) for message in browser]


def bill(context: XAJMSContext, branch: BranchId, outcomes: Outcomes | None = None) -> None:
    """Take an order and send its bill, in a branch."""
    context.xa_resource.start(branch, XAResource.TMNOFLAGS)
    inner = context.context
    consumer = inner.create_consumer(inner.create_queue("orders"))
    order = received(consumer)
    consumer.close()
    inner.create_producer().set_async(outcomes).send(inner.create_queue("bills"), f"bill for {text_of(order)}")
    context.xa_resource.end(branch, XAResource.TMSUCCESS)


@pytest.mark.parametrize("is_async", [False, True], ids=["waiting", "async"])
def test_a_branch_is_prepared_and_committed_or_rolled_back(broker: Broker, opened: ExitStack, is_async: bool) -> None:
    outcomes = Outcomes() if is_async else None
    send_orders(broker, "a", "b")
    context = xa_context(broker, opened)
    resource = context.xa_resource
    bill(context, ONE, outcomes)
    bill(context, TWO, outcomes)
    if outcomes is not None:
        assert outcomes.told == [("bill for a", None), ("bill for b", None)]
    assert (resource.prepare(ONE), resource.prepare(TWO)) == (XAResource.XA_OK, XAResource.XA_OK)
    assert (there(broker, "orders"), there(broker, "bills")) == ([], [])
    assert {each.global_transaction_id for each in resource.recover(ALL)} == {b"one", b"two"}
    resource.commit(ONE, False)
    resource.rollback(TWO)
    assert resource.recover(ALL) == []
    assert there(broker, "bills") == ["bill for a"]
    with ConnectionFactory(broker.url).create_context() as other:
        order = received(other.create_consumer(other.create_queue("orders")))
        assert (text_of(order), order.jms_redelivered) == ("b", True)


def test_a_prepared_branch_is_found_after_the_death_of_the_broker(broker: Broker, opened: ExitStack) -> None:
    send_orders(broker, "a", "b", "c")
    context = xa_context(broker, opened)
    for branch in (ONE, TWO):
        bill(context, branch)
        assert context.xa_resource.prepare(branch) == XAResource.XA_OK
    broker.die()
    other = xa_context(broker, opened)
    resource = other.xa_resource
    assert {each.global_transaction_id for each in resource.recover(ALL)} == {b"one", b"two"}
    assert (there(broker, "orders"), there(broker, "bills")) == (["c"], [])
    resource.commit(ONE, False)
    resource.rollback(TWO)
    assert there(broker, "bills") == ["bill for a"]
    with ConnectionFactory(broker.url).create_context() as reader:
        consumer = reader.create_consumer(reader.create_queue("orders"))
        assert sorted(text or "" for text in received_texts(consumer, 2)) == ["b", "c"]
    assert resource.recover(ALL) == []


def test_a_branch_that_was_not_prepared_is_gone_after_the_death_of_the_broker(
    broker: Broker, opened: ExitStack
) -> None:
    send_orders(broker, "a")
    bill(xa_context(broker, opened), ONE)
    broker.die()
    other = xa_context(broker, opened)
    resource = other.xa_resource
    assert resource.recover(ALL) == []
    with pytest.raises(XAException) as caught:
        resource.prepare(ONE)
    assert caught.value.error_code == XAException.XAER_NOTA
    assert there(broker, "bills") == []
    bill(other, TWO)
    resource.commit(TWO, True)
    assert there(broker, "bills") == ["bill for a"]


@pytest.mark.parametrize("scheme", ["stomp", "amqp"])
def test_a_context_goes_on_at_the_broker_that_follows(scheme: str, tmp_path: Path, opened: ExitStack) -> None:
    with lossy(scheme, tmp_path) as broker, opened:
        send_orders(broker, "a", "b")
        context = xa_context(broker, opened)
        resource = context.xa_resource
        bill(context, ONE)
        assert resource.prepare(ONE) == XAResource.XA_OK
        context.xa_resource.start(TWO, XAResource.TMNOFLAGS)
        context.create_producer().send(context.create_queue("bills"), "lost")
        broker.die()
        with pytest.raises(XAException) as caught:
            resource.end(TWO, XAResource.TMSUCCESS)
            resource.prepare(TWO)
        code = caught.value.error_code
        assert (
            code in (XAException.XAER_RMFAIL, XAException.XAER_NOTA)
            or XAException.XA_RBBASE <= code <= XAException.XA_RBEND
        )
        resource.commit(ONE, False)
        bill(context, TWO)
        resource.commit(TWO, True)
        assert there(broker, "bills") == ["bill for a", "bill for b"]
        assert there(broker, "orders") == []
