"""The contract tests are tests of something: each mistake here, built into the folder provider, makes one of them fail."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import count
from threading import Event, Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest

from pyjms.spi import registry
from pyjms.spi.capability import Capability
from pyjms.spi.envelope import AddressKind, BodyKind
from pyjms.spi.errors import ClosedError
from pyjms.spi.provider import ProviderInfo
from pyjms.spi.registry import find_provider
from pyjms_tck.spi import (
    closing_suite,
    connecting_suite,
    delivery_suite,
    environment,
    notifying_suite,
    refusing_suite,
)
from pyjms_tck.spi.declarations import PROBES, misdeclared
from pyjms_tck.spi.environment import Environment
from tests.pyjms.spi.folder import folder_provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyjms.spi.envelope import Envelope

Session, Consumer, Folder = folder_provider._Session, folder_provider._Consumer, folder_provider._Folder
Connection, Provider = folder_provider._Connection, folder_provider.FolderProvider
_write, _send, _count_of, _encode = Folder.write, Session.send, folder_provider.count_of, folder_provider.encode
Replace = dict[tuple[type | Any, str], object]


@pytest.fixture
def impatient(folder_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Environment]:
    monkeypatch.setattr(environment, "PATIENCE_S", 0.3)
    monkeypatch.setattr(notifying_suite, "PATIENCE_S", 0.3)
    monkeypatch.setattr(notifying_suite, "AT_ONCE_S", 0.05)
    with Environment(folder_url, patience_s=0.3) as opened:
        yield opened


def tells_once(told: set[str]) -> Callable[[Any], bool]:
    """One consumer is told of each file, and nobody else if that one does not want it after all."""

    def has_news(consumer: Any) -> bool:
        news = {path.name for path in consumer._queue.iterdir()} - told
        told.update(news)
        return bool(news)

    return has_news


def copy_claim(folder: Any, path: Path) -> Path:
    claim: Path = folder._claims / path.parent.name / f"{path.name.split('.')[0]}.1.json"
    claim.parent.mkdir(exist_ok=True)
    claim.unlink(missing_ok=True)
    claim.hardlink_to(path)
    return claim


def unmarked(folder: Any, claim: Path) -> None:
    claim.rename(folder._root / "queues" / claim.parent.name / f"{claim.name.split('.')[0]}.0.json")


def at_the_end(folder: Any, claim: Path) -> None:
    name = claim.name.replace("-0", "-1", 1)
    claim.rename(folder._root / "queues" / claim.parent.name / name)


def with_whole_texts(session: Any, envelope: Envelope) -> None:
    properties = {
        name: value.encode("utf-8", "replace").decode() if type(value) is str else value
        for name, value in envelope.properties.items()
    }
    _send(session, replace(envelope, properties=properties))


def waiting_poll(consumer: Any) -> None:
    Event().wait(0.1)


def lock_around() -> Replace:
    """One lock around `poll` and around `on_ready`."""
    lock, make, poll = Lock(), Consumer.__init__, Consumer.poll

    def init(consumer: Any, session: Any, queue: Path, selector: Any, on_ready: Callable[[], None]) -> None:
        def locked() -> None:
            with lock:
                on_ready()

        make(consumer, session, queue, selector, locked)

    def locked_poll(consumer: Any) -> Any:
        with lock:
            return poll(consumer)

    return {(Consumer, "__init__"): init, (Consumer, "poll"): locked_poll}


def lock_around_closing() -> Replace:
    """One lock around `on_ready` and around the close of a consumer; whoever waits for it gives up after a while."""
    lock, make, close = Lock(), Consumer.__init__, Consumer.close

    def init(consumer: Any, session: Any, queue: Path, selector: Any, on_ready: Callable[[], None]) -> None:
        def locked() -> None:
            with lock:
                on_ready()

        make(consumer, session, queue, selector, locked)

    def locked_close(consumer: Any) -> None:
        got = lock.acquire(timeout=1)
        close(consumer)
        if got:
            lock.release()

    return {(Consumer, "__init__"): init, (Consumer, "close"): locked_close}


def tell_at_once() -> Replace:
    """A consumer is told of what is there before it asked."""
    make = Consumer.__init__

    def init(consumer: Any, session: Any, queue: Path, selector: Any, on_ready: Callable[[], None]) -> None:
        make(consumer, session, queue, selector, on_ready)
        on_ready()

    return {(Consumer, "__init__"): init}


def give_back_at_its_close() -> Replace:
    """What a session has goes back when one of its consumers closes."""
    close = Consumer.close

    def give_back(consumer: Any) -> None:
        close(consumer)
        for claim in tuple(consumer.session._claims):
            consumer.session.folder.give_back(claim)

    return {(Consumer, "close"): give_back}


def lose_later_wake_ups() -> Replace:
    """The first five looks that find something tell of it, and no other."""
    has_news, told = Consumer.has_news, count()
    return {(Consumer, "has_news"): lambda consumer: has_news(consumer) and next(told) < 5}


def tells_of_new_messages_only(consumer: Any) -> bool:
    names = {path.name for path in consumer._queue.iterdir() if path.name.endswith(".0.json")}
    news, consumer._seen = names - consumer._seen, names
    return bool(news)


def write_some_twice(folder: Any, envelope: Envelope) -> None:
    for _ in range(2 if str(envelope.body).endswith("-07") else 1):
        _write(folder, envelope)


def send_the_one_before(session: Any, envelope: Envelope) -> None:
    """What is sent waits for the next send of the session."""
    before, session.waiting = getattr(session, "waiting", None), envelope
    if before is not None:
        _send(session, before)
    if envelope.body == "end":
        _send(session, envelope)


def connect_anyway(provider: Any, request: Any, events: Any) -> Any:
    """Options that are unknown are left out."""
    options = {name: value for name, value in request.url.options.items() if name == "poll_ms"}
    return _connect(provider, replace(request, url=replace(request.url, options=MappingProxyType(options))), events)


_connect = Provider.connect


def close_without_a_word(session: Any) -> None:
    if session._closed:
        raise ClosedError("")


def refuse_when_closed(consumer: Any, interested: bool) -> None:
    if consumer._closed and interested:
        raise ClosedError("the consumer is closed")


def tell_of_whatever_is_there(consumer: Any, interested: bool) -> None:
    """As the guide could be understood: there may be work whenever there is a message, whoever it is for."""
    consumer._interested = interested
    if interested and any(consumer._queue.iterdir()):
        consumer.on_ready()


def in_state(test: Callable[..., None], state: Callable[..., None]) -> Callable[[Environment], None]:
    return lambda environment: test(closing_suite.open_scene(environment), state)


MISTAKES: dict[str, tuple[Replace, Callable[[Environment], None]]] = {
    "on_ready is never called": (
        {(Consumer, "has_news"): lambda consumer: False},
        notifying_suite.test_who_is_interested_is_told_of_what_comes,
    ),
    "begin of interest tells nothing": (
        {(Consumer, "look_again"): lambda consumer: None},
        notifying_suite.test_who_becomes_interested_is_told_of_what_is_there,
    ),
    "a wake-up is not handed on": (
        {(Consumer, "has_news"): tells_once(set())},
        lambda environment: notifying_suite.test_who_is_told_and_does_not_pull_hands_the_wake_up_on(
            environment, "loses interest"
        ),
    ),
    "on_ready is called under a lock": (
        lock_around(),
        lambda environment: notifying_suite.test_on_ready_is_called_without_a_lock(environment, True),
    ),
    "poll waits": ({(Consumer, "poll"): waiting_poll}, notifying_suite.test_poll_does_not_wait),
    "stop does not stop": (
        {(folder_provider._Connection, "stop"): lambda connection: None},
        notifying_suite.test_a_stopped_connection_keeps_its_messages,
    ),
    "types are lost": (
        {(folder_provider, "_TAGS"): {}},
        lambda environment: delivery_suite.test_a_message_arrives_as_it_was(environment, BodyKind.NONE, None),
    ),
    "half of a surrogate pair is replaced": (
        {(Session, "send"): with_whole_texts},
        delivery_suite.test_half_of_a_surrogate_pair_arrives_or_is_refused,
    ),
    "queues share a name": (
        {(folder_provider, "to_file_name"): lambda name: "".join(filter(str.isalnum, name.lower())) or "-"},
        delivery_suite.test_names_of_queues_are_taken_as_they_are,
    ),
    "the latest comes first": (
        {(Folder, "_next_number"): lambda folder: 10**19 - int.from_bytes(os.urandom(4), "big")},
        delivery_suite.test_messages_of_a_session_arrive_in_order,
    ),
    "a message is delivered twice": (
        {(Folder, "claim"): copy_claim},
        delivery_suite.test_a_message_goes_to_one_consumer,
    ),
    "nothing is acknowledged": (
        {(Session, "acknowledge"): lambda session, deliveries: None},
        delivery_suite.test_what_is_acknowledged_never_comes_again,
    ),
    "everything is acknowledged": (
        {(Session, "recover"): lambda session, deliveries: session.acknowledge(deliveries)},
        delivery_suite.test_recovering_concerns_what_is_named_only,
    ),
    "redeliveries are not marked": (
        {(Folder, "give_back"): unmarked},
        delivery_suite.test_what_is_recovered_comes_again_in_its_old_place_and_marked,
    ),
    "what is given back goes to the end": (
        {(Folder, "give_back"): at_the_end},
        delivery_suite.test_what_is_recovered_comes_again_in_its_old_place_and_marked,
    ),
    "a client id is given to all": (
        {(Folder, "lock_client_id"): lambda folder, client_id: True},
        connecting_suite.test_a_client_id_is_taken_once,
    ),
    "a session keeps what it had": (
        {(Session, "close"): lambda session: None},
        in_state(closing_suite.test_a_session_closes_in_every_state_and_gives_back, closing_suite.with_deliveries),
    ),
    "a connection keeps what it had": (
        {(Folder, "_give_back_all"): lambda folder, claims: None},
        in_state(closing_suite.test_a_connection_closes_in_every_state_and_gives_back, closing_suite.with_deliveries),
    ),
    "a closed session works on": (
        {(Session, "check"): lambda session: None},
        lambda environment: closing_suite.test_what_is_closed_refuses_all_other_calls(
            closing_suite.open_scene(environment), "session"
        ),
    ),
    "what is claimed while the session closes is lost": (
        {(Session, "keep"): lambda session, claim: not Event().wait(0.02)},
        lambda environment: closing_suite.test_closing_while_another_thread_receives_loses_nothing(
            environment, "session"
        ),
    ),
    "a consumer does not close": (
        {(Consumer, "close"): lambda consumer: None},
        in_state(closing_suite.test_a_consumer_closes_in_every_state, closing_suite.started),
    ),
    "what is sent waits for the next one": (
        {(Session, "send"): send_the_one_before},
        closing_suite.test_closing_while_another_thread_sends_and_acknowledges,
    ),
    "closing waits for on_ready": (
        lock_around_closing(),
        closing_suite.test_a_client_that_closes_in_on_ready_does_not_wait_for_itself,
    ),
    "nobody knows the scheme": (
        {(registry, "_registered"): {}},
        connecting_suite.test_the_scheme_is_known,
    ),
    "all connections have one name": (
        {(Connection, "connection_id"): property(lambda connection: "connection")},
        connecting_suite.test_each_connection_has_a_name_of_its_own,
    ),
    "groups are not among the properties": (
        {(Connection, "info"): ProviderInfo(name="folder", version="1", jmsx_property_names=("JMSXDeliveryCount",))},
        connecting_suite.test_a_provider_names_itself_and_its_version,
    ),
    "more is declared than there is": (
        {(Connection, "capabilities"): Connection.capabilities | Capability.TRANSACTIONS},
        connecting_suite.test_capabilities_are_those_that_work,
    ),
    "unknown options are overlooked": (
        {(Provider, "connect"): connect_anyway},
        connecting_suite.test_an_unknown_option_is_refused,
    ),
    "a broker elsewhere is said to be stopped": (
        {(Provider, "stop_broker"): lambda provider, url: None},
        connecting_suite.test_a_broker_elsewhere_cannot_be_stopped_from_here,
    ),
    "a branch is begun where there are none": (
        {(Session, "xa_start"): lambda session, xid: None},
        refusing_suite.test_a_call_that_is_not_declared_is_refused_as_a_missing_capability,
    ),
    "a topic is a queue": (
        {
            (Folder, "queue"): lambda folder, address, queue=Folder.queue: queue(
                folder, replace(address, kind=AddressKind.QUEUE)
            )
        },
        refusing_suite.test_a_provider_without_topics_refuses_them,
    ),
    "an error says nothing": (
        {(Session, "check"): close_without_a_word},
        refusing_suite.test_an_error_says_what_happened,
    ),
    "a message without an id is given one": (
        {(folder_provider, "encode"): lambda envelope: _encode(replace(envelope, message_id="ID:1"))},
        delivery_suite.test_what_a_client_left_out_stays_out,
    ),
    "priorities are not heeded": (
        {(Folder, "write"): lambda folder, envelope: _write(folder, replace(envelope, priority=4))},
        delivery_suite.test_higher_priorities_overtake_within_each_the_order_stays,
    ),
    "a consumer gives back when it closes": (
        give_back_at_its_close(),
        delivery_suite.test_what_was_delivered_is_acknowledged_also_when_its_consumer_is_closed,
    ),
    "counting ends at two": (
        {(folder_provider, "count_of"): lambda path: min(_count_of(path), 2)},
        delivery_suite.test_deliveries_are_counted,
    ),
    "what is rejected is not settled": (
        {(Session, "reject"): lambda session, delivery, reason: None},
        delivery_suite.test_what_is_rejected_is_settled,
    ),
    "a consumer is told before it asks": (
        tell_at_once(),
        notifying_suite.test_a_consumer_starts_uninterested,
    ),
    "who finds nothing does not wait": (
        {(Consumer, "poll_or_wait"): lambda consumer: consumer.poll()},
        notifying_suite.test_who_finds_nothing_and_waits_is_told_of_what_comes,
    ),
    "nobody is told of what is given back": (
        {(Consumer, "has_news"): tells_of_new_messages_only},
        notifying_suite.test_what_is_given_back_is_told,
    ),
    "begin of interest tells of what others are to have": (
        {(Consumer, "set_interested"): tell_of_whatever_is_there},
        notifying_suite.test_who_wants_nothing_of_what_is_there_may_sleep,
    ),
    "later wake-ups are lost": (
        lose_later_wake_ups(),
        notifying_suite.test_no_wake_up_is_lost_between_threads,
    ),
    "some messages are written twice": (
        {(Folder, "write"): write_some_twice},
        notifying_suite.test_many_threads_share_a_queue_and_each_message_comes_once,
    ),
    "a closed consumer refuses interest": (
        {(Consumer, "set_interested"): refuse_when_closed},
        notifying_suite.test_interest_may_change_at_any_moment_from_any_thread,
    ),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_found(impatient: Environment, monkeypatch: pytest.MonkeyPatch, mistake: str) -> None:
    replaced, contract_test = MISTAKES[mistake]
    for (owner, name), instead in replaced.items():
        monkeypatch.setattr(owner, name, instead)
    with pytest.raises((AssertionError, pytest.fail.Exception, ClosedError)):
        contract_test(impatient)


@pytest.mark.parametrize("scheme", ["vm", "folder"])
@pytest.mark.parametrize("capability", PROBES, ids=lambda capability: capability.name)
def test_a_wrong_declaration_is_found(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, scheme: str, capability: Capability
) -> None:
    """Each capability in turn: declared where it is missing, left out where it is there."""
    with Environment(request.getfixturevalue(f"{scheme}_url"), patience_s=2.0) as opened:
        kind = type(opened.connect())
        honest = opened.connect().capabilities
        monkeypatch.setattr(kind, "capabilities", honest ^ capability)
        findings = misdeclared(opened)
    assert list(findings) == [capability]
    assert f"{capability.name} {'is declared' if capability not in honest else 'works'}" in findings[capability]


def test_a_feature_that_is_declared_and_silently_ignored_is_found(
    impatient: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = Folder.messages
    monkeypatch.setattr(Folder, "messages", lambda folder, queue, selector: messages(folder, queue, None))
    assert misdeclared(impatient) == {
        Capability.SELECTORS: "SELECTORS is declared, and does not work: it has another effect than the capability promises"
    }


def test_every_capability_is_probed() -> None:
    assert set(PROBES) == set(Capability)


def test_the_url_of_the_folder_provider_is_found_in_the_registry(folder_url: str) -> None:
    assert isinstance(find_provider("folder"), folder_provider.FolderProvider)
