"""Plain STOMP clients of exclusive queues and message groups: whatever ends a subscription, the next one gets the rest in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.queue_manager import QueueManager
from tests.provider.ownership.site import COUNT
from tests.provider.protocols.stomp.server.bench import Bench, Client

_QUEUE = "/queue/orders"


@pytest.fixture
def bench(kind: str) -> Iterator[Bench]:
    """A broker with 30 messages in one queue, which are of one group."""
    made = Bench()
    policy = QueuePolicy(exclusive=True) if kind == "exclusive" else QueuePolicy(groups=True)
    QueueManager.of(made.broker.name).create("orders", policy)
    sender = made.connect()
    for number in range(COUNT):
        sender.send("SEND", str(number).encode(), destination=_QUEUE, JMSXGroupID="g")
    sender.settle()
    yield made
    made.close()


def subscribe(bench: Bench, mode: str = "client-individual", prefetch: int = 10) -> Client:
    client = bench.connect()
    client.send("SUBSCRIBE", id="s", destination=_QUEUE, ack=mode, **{"prefetch-count": str(prefetch)})
    client.settle()
    return client


def acknowledge(client: Client, messages: list[Frame], **more: str) -> None:
    for message in messages:
        client.send("ACK", id=message.headers["ack"], **more)
    client.settle()


def texts(frames: list[Frame]) -> list[str]:
    return [bytes(frame.body).decode() for frame in frames if frame.command == "MESSAGE"]


def rest(client: Client) -> list[str]:
    """Return all that a client gets, which acknowledges each."""
    found: list[str] = []
    while messages := [frame for frame in client.all() if frame.command == "MESSAGE"]:
        found += texts(messages)
        acknowledge(client, messages)
    return found


def numbers(first: int) -> list[str]:
    return [str(number) for number in range(first, COUNT)]


def unsubscribe(client: Client) -> None:
    client.send("UNSUBSCRIBE", id="s", receipt="r")
    client.settle()


def disconnect(client: Client) -> None:
    client.send("DISCONNECT", receipt="r")
    client.settle()
    client.hang_up()


def hang_up(client: Client) -> None:
    client.hang_up()


@pytest.mark.parametrize("prefetch", [10, 1])
@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("end", [unsubscribe, disconnect, hang_up])
def test_the_next_subscription_gets_the_rest_in_order(
    bench: Bench, end: Callable[[Client], None], mode: str, prefetch: int
) -> None:
    owner = subscribe(bench, mode, prefetch)
    first = owner.all()
    assert texts(first) == [str(number) for number in range(prefetch)]
    acknowledge(owner, first[:1])
    following = subscribe(bench)
    assert following.all() == []
    end(owner)
    assert rest(following) == numbers(1)


@pytest.mark.parametrize("ending", ["COMMIT", "ABORT", "hang up"])
def test_a_transaction_holds_what_was_acknowledged_in_it(bench: Bench, ending: str) -> None:
    owner = subscribe(bench)
    first = owner.all()
    owner.send("BEGIN", transaction="t")
    acknowledge(owner, first[:3], transaction="t")
    following = subscribe(bench)
    unsubscribe(owner)
    assert following.all() == [], "what the transaction has received may yet come again"
    if ending == "hang up":
        owner.hang_up()
    else:
        owner.send(ending, transaction="t", receipt="t")
        owner.settle()
    assert rest(following) == numbers(3 if ending == "COMMIT" else 0)


def test_a_message_that_is_refused_comes_again_before_those_behind_it(bench: Bench) -> None:
    owner = subscribe(bench)
    first = owner.all()
    following = subscribe(bench)
    owner.send("NACK", id=first[1].headers["ack"])
    owner.settle()
    assert following.all() == []
    hang_up(owner)
    assert rest(following) == numbers(0)
