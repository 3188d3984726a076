"""Contract tests: notify, then pull. `poll` never waits, `on_ready` is never lost, and needless wake-ups stop soon."""

from __future__ import annotations

from functools import partial
from threading import Event

import pytest

from pyjms.spi.clock import SystemClock
from pyjms.spi.delivery import Delivery
from pyjms_tck.requirements import needs
from pyjms_tck.spi.environment import PATIENCE_S, Environment, Threads

AT_ONCE_S = 2.0
"""Longer than any non-blocking call takes, on a busy machine, too."""
VAIN_WAKES_MAX = 50
VAIN_PAUSE_S = 0.1
"""The maximum number of needless wake-ups of a consumer, and the time without one after which they count as ended."""


def test_poll_does_not_wait(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect(started=False)
    session = connection.open_session(transacted=False)
    receiver = environment.receiver(session, queue)
    # The system's clock: the environment's own is a virtual one, which stands still.
    clock = SystemClock()
    start_ms = clock.monotonic_ms()
    assert receiver.consumer.poll() is None  # stopped
    connection.start()
    assert receiver.consumer.poll() is None  # no message
    receiver.consumer.close()
    assert receiver.consumer.poll() is None  # closed
    assert clock.monotonic_ms() - start_ms < AT_ONCE_S * 1000


def test_a_stopped_connection_keeps_its_messages(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect(started=False)
    session = connection.open_session(transacted=False)
    environment.send(session, queue, "first", "second")
    receiver = environment.receiver(session, queue)
    receiver.consumer.set_interested(True)
    assert receiver.consumer.poll() is None
    connection.start()
    assert receiver.take_texts(1) == ["first"]
    connection.stop()
    assert receiver.consumer.poll() is None
    connection.start()
    connection.start()
    assert receiver.take_texts(1) == ["second"]


def test_start_wakes_who_was_interested_before(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect(started=False)
    session = connection.open_session(transacted=False)
    receiver = environment.receiver(session, queue)
    receiver.consumer.set_interested(True)
    environment.send(session, queue, "early")
    connection.start()
    assert receiver.take_when_told().envelope.body == "early"


def test_a_consumer_starts_uninterested(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    silent, eager = (environment.receiver(session, queue) for _ in range(2))
    eager.consumer.set_interested(True)
    environment.send(session, queue, "news")
    # The eager consumer's wake-up shows that the queue has notified its consumers: the silent one needs no wait.
    eager.await_wake()
    assert silent.wakes == 0


def test_who_becomes_interested_is_told_of_what_is_there(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    receiver = environment.receiver(session, queue)
    environment.send(session, queue, "waiting")
    # Each start of interest must notify, not only the first.
    for _ in range(3):
        receiver.consumer.set_interested(True)
        receiver.await_wake()
        receiver.consumer.set_interested(False)


def test_who_finds_nothing_and_waits_is_told_of_what_comes(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    receiver = environment.receiver(environment.session(), queue)
    for number in range(5):
        assert receiver.consumer.poll_or_wait() is None
        environment.send(session, queue, f"news {number}")
        receiver.await_wake()
        found = receiver.consumer.poll_or_wait()
        assert found is not None
        assert found.envelope.body == f"news {number}"


def test_who_found_something_waits_no_longer(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    satisfied, eager = (environment.receiver(environment.session(), queue) for _ in range(2))
    assert satisfied.consumer.poll_or_wait() is None
    environment.send(session, queue, "first")
    satisfied.await_wake()
    assert satisfied.consumer.poll_or_wait() is not None
    # Counted after it has found a message: from here on it is not interested.
    wakes = satisfied.wakes
    eager.consumer.set_interested(True)
    environment.send(session, queue, "second")
    assert eager.take_when_told().envelope.body == "second"
    assert satisfied.wakes == wakes


def test_the_wake_up_of_who_waits_no_longer_is_handed_on(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    first, second = (environment.receiver(environment.session(), queue) for _ in range(2))
    assert first.consumer.poll_or_wait() is None
    environment.send(session, queue, "one")
    first.await_wake()
    second.consumer.set_interested(True)
    # "two" may have woken the first consumer, which then takes "one" and closes: the second must be woken in its place.
    environment.send(session, queue, "two")
    assert first.consumer.poll_or_wait() is not None
    assert second.take_when_told().envelope.body == "two"


def test_who_waits_at_a_stopped_connection_is_told_when_it_starts(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect(started=False)
    session = connection.open_session(transacted=False)
    receiver = environment.receiver(session, queue)
    environment.send(session, queue, "early")
    assert receiver.consumer.poll_or_wait() is None
    connection.start()
    assert receiver.take_when_told().envelope.body == "early"


def test_who_is_interested_is_told_of_what_comes(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    receiver = environment.receiver(environment.session(), queue)
    receiver.consumer.set_interested(True)
    for number in range(5):
        assert receiver.consumer.poll() is None
        environment.send(session, queue, str(number))
        assert receiver.take_when_told().envelope.body == str(number)


@needs("SELECTORS")
def test_who_wants_nothing_of_what_is_there_may_sleep(environment: Environment) -> None:
    """A consumer that is woken at each attempt to sleep would poll endlessly, at the cost of a processor."""
    queue, sender = environment.queue(), environment.session()
    environment.send(sender, queue, "for others")
    receiver = environment.receiver(environment.session(), queue, "JMSType = 'mine'")
    assert receiver.consumer.poll_or_wait() is None
    for _ in range(VAIN_WAKES_MAX):
        if not receiver.is_woken_within(VAIN_PAUSE_S):
            break
        assert receiver.consumer.poll_or_wait() is None
    else:
        pytest.fail(
            f"on_ready was called after each of {VAIN_WAKES_MAX} looks of a consumer whose selector refuses all that is there. To check: "
            "does the begin of interest tell only of a message that this consumer would take, or has not looked at yet?"
        )
    environment.send(sender, queue, "for it", jms_type="mine")
    assert receiver.take_when_told().envelope.body == "for it"


@pytest.mark.parametrize("what", ["consumer", "session"])
def test_who_is_closed_is_told_nothing_more(environment: Environment, what: str) -> None:
    queue, sender, session = environment.queue(), environment.session(), environment.session()
    closed, eager = environment.receiver(session, queue), environment.receiver(environment.session(), queue)
    for receiver in (closed, eager):
        receiver.consumer.set_interested(True)
    (closed.consumer if what == "consumer" else session).close()
    told = closed.wakes
    environment.send(sender, queue, "news")
    assert eager.take_when_told().envelope.body == "news"
    assert closed.wakes == told


def test_what_is_given_back_is_told(environment: Environment) -> None:
    queue, first, second = environment.queue(), environment.session(), environment.session()
    environment.send(first, queue, "tossed")
    one, other = environment.receiver(first, queue), environment.receiver(second, queue)
    delivery = one.take()
    other.consumer.set_interested(True)
    assert other.consumer.poll() is None
    first.recover([delivery])
    assert other.take_when_told().redelivered
    one.consumer.set_interested(True)
    assert one.consumer.poll() is None
    second.close()
    assert one.take_when_told().redelivered


@pytest.mark.parametrize("leave", ["loses interest", "closes", "closes its session", "closes its connection"])
def test_who_is_told_and_does_not_pull_hands_the_wake_up_on(environment: Environment, leave: str) -> None:
    queue = environment.queue()
    told = Event()
    receivers = []
    for _ in range(2):
        connection = environment.connect()
        session = connection.open_session(transacted=False)
        receiver = environment.receiver(session, queue)
        receiver.hook = told.set
        receiver.consumer.set_interested(True)
        receivers.append((receiver, session, connection))
    environment.send(environment.session(), queue, "for who wants it")
    assert told.wait(PATIENCE_S)
    # The woken consumer is first, and closes without a poll.
    receivers.sort(key=lambda entry: entry[0].wakes, reverse=True)
    (first, session, connection), (second, _, _) = receivers
    leaving = {
        "loses interest": lambda: first.consumer.set_interested(False),
        "closes": first.consumer.close,
        "closes its session": session.close,
        "closes its connection": connection.close,
    }
    leaving[leave]()
    assert not second.take_when_told().redelivered


def test_no_wake_up_is_lost_between_threads(environment: Environment) -> None:
    """Each waits for the other's message, so that one lost wake-up stops both."""
    ping, pong = environment.queue(), environment.queue()
    rounds = [str(number) for number in range(100)]

    def play(here: int, texts: list[str]) -> None:
        session = environment.session()
        address, other = ((ping, pong), (pong, ping))[here]
        receiver = environment.receiver(session, address)
        for text in texts:
            if here:
                environment.send(session, other, text)
            delivery = receiver.take()
            assert delivery.envelope.body == text
            session.acknowledge([delivery])
            if not here:
                environment.send(session, other, text)

    with Threads() as threads:
        threads.start(lambda: play(0, rounds))
        threads.start(lambda: play(1, rounds))


def test_many_threads_share_a_queue_and_each_message_comes_once(environment: Environment) -> None:
    queue, connection = environment.queue(), environment.connect()
    received: list[object] = []

    def produce(producer: int) -> None:
        session = connection.open_session(transacted=False)
        environment.send(session, queue, *(f"{producer}-{number:02}" for number in range(40)))

    def consume() -> None:
        session = connection.open_session(transacted=False)
        receiver = environment.receiver(session, queue)
        while (delivery := receiver.take()).envelope.body != "no more":
            received.append(delivery.envelope.body)
            session.acknowledge([delivery])

    with Threads() as consumers:
        for _ in range(3):
            consumers.start(consume)
        with Threads() as producers:
            for number in range(3):
                producers.start(partial(produce, number))
        # Sent when all producers have ended, one for each consumer.
        environment.send(environment.session(), queue, *["no more"] * 3)
    assert sorted(map(str, received)) == [f"{producer}-{number:02}" for producer in range(3) for number in range(40)]


@pytest.mark.parametrize("interest_comes_first", [True, False])
def test_on_ready_is_called_without_a_lock(environment: Environment, interest_comes_first: bool) -> None:
    queue, session = environment.queue(), environment.session()
    receiver = environment.receiver(environment.session(), queue)
    polled: list[Delivery | None] = []

    def hook() -> None:
        """Poll on another thread and wait for it. If a lock were held here, that would wait for this in turn."""
        with Threads() as threads:
            threads.start(lambda: polled.append(receiver.consumer.poll()))

    receiver.hook = hook
    if interest_comes_first:
        receiver.consumer.set_interested(True)
    environment.send(session, queue, "news")
    receiver.consumer.set_interested(True)
    while not any(polled):
        receiver.await_wake()


def test_interest_may_change_at_any_moment_from_any_thread(environment: Environment) -> None:
    queue, session = environment.queue(), environment.session()
    receiver = environment.receiver(environment.session(), queue)
    stop = Event()

    def waver() -> None:
        while not stop.is_set():
            receiver.consumer.set_interested(True)
            receiver.consumer.set_interested(False)

    def receive() -> None:
        for number in range(20):
            environment.send(session, queue, str(number))
            while (delivery := receiver.consumer.poll()) is None:
                pass
            assert delivery.envelope.body == str(number)
        stop.set()

    with Threads() as threads:
        threads.start(waver)
        threads.start(receive)
    receiver.consumer.close()
    receiver.consumer.set_interested(True)  # ignored on a closed consumer
    environment.send(session, queue, "last")
    assert environment.receiver(session, queue).take_texts(1) == ["last"]
