"""Each end of a consumer's ownership of an exclusive queue, or of a message group: the next consumer gets all the rest, in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from pyjms import Session, TextMessage
from tests.provider.ownership.site import COUNT, Owner, Site, Waiting, by_name
from tests.system.network.proxy import Proxy


def numbers(first: int) -> list[str]:
    return [str(number) for number in range(first, COUNT)]


def consumer_closed(owner: Owner) -> None:
    owner.consumer.close()


def session_closed(owner: Owner) -> None:
    owner.session.close()


def connection_closed(owner: Owner) -> None:
    owner.connection.close()


def connection_stopped_and_consumer_closed(owner: Owner) -> None:
    owner.connection.stop()
    owner.consumer.close()


def connection_stopped_and_closed(owner: Owner) -> None:
    owner.connection.stop()
    owner.connection.close()


def listener_removed_and_session_closed(owner: Owner) -> None:
    owner.consumer.message_listener = None
    owner.session.close()


ENDS = by_name(
    consumer_closed,
    session_closed,
    connection_closed,
    connection_stopped_and_consumer_closed,
    connection_stopped_and_closed,
    listener_removed_and_session_closed,
)


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_next_consumer_gets_the_rest_in_order(site: Site, how: str, end: Callable[[Owner], None]) -> None:
    owner = Owner(site)
    owner.receive("0")
    waiting = Waiting(site, how)
    end(owner)
    assert waiting.received(COUNT - 1) == [(text, False) for text in numbers(1)]
    owner.connection.close()


def consumer_closed_and_session_closed(owner: Owner) -> None:
    owner.consumer.close()
    owner.session.close()


def consumer_closed_and_work_undone(owner: Owner) -> None:
    owner.consumer.close()
    (owner.session.rollback if owner.session.transacted else owner.session.recover)()


def work_undone_and_session_closed(owner: Owner) -> None:
    (owner.session.rollback if owner.session.transacted else owner.session.recover)()
    owner.session.close()


UNSETTLED_ENDS = by_name(
    session_closed,
    connection_closed,
    connection_stopped_and_closed,
    consumer_closed_and_session_closed,
    consumer_closed_and_work_undone,
    work_undone_and_session_closed,
)
MODES = pytest.mark.parametrize("mode", [Session.SESSION_TRANSACTED, Session.CLIENT_ACKNOWLEDGE])


@MODES
@pytest.mark.parametrize("end", UNSETTLED_ENDS.values(), ids=UNSETTLED_ENDS)
def test_what_was_received_and_not_settled_comes_first(site: Site, mode: int, end: Callable[[Owner], None]) -> None:
    owner = Owner(site, mode)
    owner.receive("0", "1", "2")
    waiting = Waiting(site, "listener")
    end(owner)
    received = waiting.received(COUNT)
    assert [text for text, _ in received] == numbers(0)
    assert [redelivered for _, redelivered in received] == [True] * 3 + [False] * (COUNT - 3)
    owner.connection.close()


@MODES
def test_a_closed_consumers_messages_are_settled_before_others_get_the_next(site: Site, how: str, mode: int) -> None:
    owner = Owner(site, mode)
    messages = owner.receive("0", "1", "2")
    waiting = Waiting(site, how)
    owner.consumer.close()
    if mode == Session.SESSION_TRANSACTED:
        owner.session.commit()
    else:
        messages[-1].acknowledge()
    assert waiting.texts(COUNT - 3) == numbers(3)
    owner.connection.close()


def test_a_session_that_closes_a_consumer_goes_on_with_another_one(site: Site) -> None:
    """As programs do that make a consumer for each message of a transaction."""
    owner = Owner(site, Session.SESSION_TRANSACTED)
    owner.receive("0")
    waiting = Waiting(site, "listener")
    for number in range(1, 4):
        owner.consumer.close()
        owner.consumer = owner.consume()
        owner.receive(str(number))
    owner.session.rollback()
    owner.receive("0")
    owner.session.commit()
    owner.connection.close()
    assert waiting.texts(COUNT - 1) == numbers(1)


def test_a_session_of_the_lazy_mode_settles_before_others_get_the_next(site: Site) -> None:
    owner = Owner(site, Session.DUPS_OK_ACKNOWLEDGE)
    owner.receive("0", "1", "2")
    waiting = Waiting(site, "listener")
    owner.consumer.close()
    assert waiting.texts(COUNT - 3) == numbers(3)
    owner.connection.close()


@MODES
def test_a_connection_that_is_lost_leaves_all_in_order(served: Site, how: str, mode: int) -> None:
    host, _, port = served.url.removeprefix("stomp://").partition(":")
    with Proxy((host, int(port))) as proxy:
        owner = Owner(served, mode, f"stomp://127.0.0.1:{proxy.port}")
        owner.receive("0", "1", "2")
        waiting = Waiting(served, how)
        proxy.cut_all()
        received = waiting.texts(COUNT)
        owner.connection.close()
    assert received == numbers(0)


KILLED = """
import sys
from pyjms import ConnectionFactory, Session
connection = ConnectionFactory(sys.argv[1]).create_connection()
connection.start()
session = connection.create_session(True, Session.SESSION_TRANSACTED)
consumer = session.create_consumer(session.create_queue("orders"))
for number in range(3):
    assert consumer.receive(20_000).text == str(number)
print("received", flush=True)
sys.stdin.read()
"""


def test_a_client_that_is_killed_leaves_all_in_order(served: Site, how: str) -> None:
    command = [sys.executable, "-c", KILLED, served.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "received\n"
        waiting = Waiting(served, how)
        os.kill(owner.pid, signal.SIGKILL)
        assert waiting.texts(COUNT) == numbers(0)


def test_three_owners_after_each_other(site: Site) -> None:
    for number in range(3):
        owner = Owner(site)
        following = Owner(site)
        owner.receive(str(2 * number))
        owner.consumer.close()
        following.receive(str(2 * number + 1))
        owner.connection.close()
        following.connection.close()
    last = Owner(site)
    last.receive(*numbers(6))
    assert last.consumer.receive_no_wait() is None
    last.connection.close()


def test_closing_has_given_all_back_when_it_returns(site: Site) -> None:
    owner, following = Owner(site), Owner(site)
    owner.receive("0")
    owner.consumer.close()
    message = following.consumer.receive_no_wait()
    assert isinstance(message, TextMessage)
    assert message.text == "1"
    following.receive(*numbers(2))
    for each in (owner, following):
        each.connection.close()


def test_an_owner_whose_consumer_is_open_keeps_the_queue(site: Site) -> None:
    owner = Owner(site)
    owner.receive("0")
    waiting = Waiting(site, "listener")
    owner.receive(*numbers(1))
    owner.connection.close()
    assert waiting.texts(0) == []
