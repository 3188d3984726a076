"""What a provider inherits: calls that it does not implement are refused by the name of the capability."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import AddressKind
from pyjms.spi.errors import CapabilityError, ResourceError
from pyjms.spi.provider import Provider, ProviderConnection, ProviderConsumer, ProviderSession
from pyjms.spi.replay import StageName
from pyjms.spi.sessions import ClientTags
from pyjms.spi.url import ProviderUrl
from pyjms.spi.xid import Xid
from pyjms_tck.spi.environment import Environment, envelope

if TYPE_CHECKING:
    from collections.abc import Callable

QUEUE, XID = Environment.queue(), Xid(1, b"g", b"b")


def least(contract: type) -> object:
    """Return an object that implements what is abstract, and nothing else."""
    abstract = dict.fromkeys(contract.__abstractmethods__, lambda *_: None)  # type: ignore[attr-defined]
    made: object = type("Least", (contract,), abstract)()
    return made


COMPOSED = {"give_back_unseen", "poll_at_once", "poll_or_wait", "retry", "retry_all", "send_async", "take_unreturned"}
"""What is made of other calls of the contract."""

ANSWERED = {
    "abort",
    "advice",
    "catch_up",
    "check_url",
    "end_waits",
    "has_destination",
    "login_places",
    "may_wait",
    "waiter",
} | {
    "xa_set_timeout",
    "xa_get_timeout",
}
"""What has an answer for a provider that does not care."""

REFUSED: list[tuple[type, Capability, Callable[..., object]]] = [
    (Provider, Capability.EMBEDDED_BROKER, lambda it: it.stop_broker(ProviderUrl.parse("far://away"))),
    (ProviderConnection, Capability.TEMPORARY_DESTINATIONS, lambda it: it.create_temporary(AddressKind.TOPIC)),
    (ProviderConnection, Capability.TEMPORARY_DESTINATIONS, lambda it: it.delete_temporary(QUEUE)),
    (ProviderConnection, Capability.REPLAY, lambda it: it.reader_groups()),
    (ProviderConnection, Capability.STAGE, lambda it: it.stages()),
    (ProviderSession, Capability.STAGE, lambda it: it.stage(StageName("sink", 1, 0, "first"), keep_s=60)),
    (ProviderConnection, Capability.PERSISTENT_SESSIONS, lambda it: it.persistent_sessions()),
    (ProviderSession, Capability.PERSISTENT_SESSIONS, lambda it: it.tag(ClientTags(name="desk", incarnation=1))),
    (ProviderSession, Capability.TRANSACTIONS, lambda it: it.commit()),
    (ProviderSession, Capability.TRANSACTIONS, lambda it: it.rollback()),
    (ProviderSession, Capability.SHARED_TRANSACTIONS, lambda it: it.commit_with(None)),
    (ProviderSession, Capability.DEAD_LETTERS, lambda it: it.reject(envelope(QUEUE), "poison")),
    (ProviderSession, Capability.BROWSING, lambda it: it.browse(QUEUE, None)),
    (ProviderSession, Capability.DURABLE_SUBSCRIPTIONS, lambda it: it.unsubscribe("mine")),
    (ProviderSession, Capability.CONNECTION_CONSUMERS, lambda it: it.adopt([])),
    (ProviderSession, Capability.XA, lambda it: it.prepare(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_start(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_end(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_prepare(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_prepare_as(XID, XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_note(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_commit(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_rollback(XID)),
    (ProviderSession, Capability.XA, lambda it: it.xa_recover()),
    (ProviderSession, Capability.XA, lambda it: it.xa_forget(XID)),
]


@pytest.mark.parametrize(("contract", "capability", "call"), REFUSED)
def test_what_is_not_implemented_is_refused_by_name(
    contract: type, capability: Capability, call: Callable[..., object]
) -> None:
    with pytest.raises(CapabilityError, match=rf"^this provider has no .*\(Capability\.{capability.name}\)$"):
        call(least(contract))


@pytest.mark.parametrize("contract", [Provider, ProviderConnection, ProviderSession, ProviderConsumer])
def test_every_call_is_abstract_or_has_an_answer(contract: type) -> None:
    calls = {name for name, member in vars(contract).items() if not name.startswith("_") and callable(member)}
    refused = {call.__code__.co_names[0] for owner, _, call in REFUSED if owner is contract}
    abstract: frozenset[str] = contract.__abstractmethods__  # type: ignore[attr-defined]
    assert calls == (abstract & calls) | refused | ((COMPOSED | ANSWERED) & calls)


def test_who_does_not_care_gives_no_advice_and_heeds_no_timeouts() -> None:
    connection, session = least(ProviderConnection), least(ProviderSession)
    assert isinstance(connection, ProviderConnection)
    assert isinstance(session, ProviderSession)
    assert connection.advice(Capability.XA) == ""
    assert connection.abort() is False
    assert connection.resource_manager == connection.connection_id
    assert session.xa_set_timeout(30) is False
    assert session.xa_get_timeout() == 0
    assert session.has_destination(QUEUE) is None


@pytest.mark.parametrize("error", [KeyboardInterrupt, ResourceError])
def test_what_was_polled_and_not_returned_the_next_call_returns(error: type[BaseException]) -> None:
    """Nobody else has it: an interest that could not be ended, or an interrupt, lost it."""
    delivery = Delivery(envelope(QUEUE), 1, redelivered=False, tag=None)
    found, failing = [None, delivery], [error("cut")]

    class Consumer(ProviderConsumer):
        def poll(self) -> Delivery | None:
            return found.pop() if found else None

        def set_interested(self, interested: bool) -> None:
            if failing:
                raise failing.pop()

        def close(self) -> None: ...

    consumer = Consumer()
    with pytest.raises(error):
        consumer.poll_or_wait()
    assert consumer.poll_or_wait() is delivery
    assert consumer.poll_or_wait() is None


def test_what_was_polled_and_not_returned_is_taken_by_who_closes() -> None:
    delivery = Delivery(envelope(QUEUE), 1, redelivered=False, tag=None)

    class Consumer(ProviderConsumer):
        def poll(self) -> Delivery | None:
            return delivery

        def set_interested(self, interested: bool) -> None:
            raise KeyboardInterrupt

        def close(self) -> None: ...

    consumer = Consumer()
    with pytest.raises(KeyboardInterrupt):
        consumer.poll_or_wait()
    assert consumer.take_unreturned() is delivery
    assert consumer.take_unreturned() is None


def test_passwords_are_not_shown() -> None:
    environment = Environment("vm://shown")
    request = replace(environment.request(), user_name="ann", password="hush")
    assert "ann" in repr(request)
    assert "hush" not in repr(request)
