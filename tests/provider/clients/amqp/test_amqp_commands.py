"""Commands to a broker of pyjms: transactions and branches, each asked for once, and what a lost connection leaves of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    BranchError,
    CapabilityError,
    DestinationError,
    GroupError,
    InDoubtError,
    ProviderError,
    ResourceError,
    RolledBackError,
    StageError,
)
from pyjms.spi.replay import GroupRequest, StageName
from pyjms.spi.sessions import ClientTags
from pyjms.spi.xid import BranchFailure, Xid
from pyjms_provider.amqp.answered import parts_of
from pyjms_provider.amqp.capabilities import COMMANDS, GREETING, TRANSACTED
from pyjms_provider.amqp.codec import Symbol
from pyjms_provider.amqp.performatives import ACCEPTED, Accepted, Answered, Error, Rejected, TransactionalState
from pyjms_provider.clients.amqp.connection import AmqpConnection
from pyjms_provider.clients.amqp.session import AmqpSession
from pyjms_provider.protocols.amqp.link import Sender
from pyjms_provider.protocols.profile.answers import (
    ClientsListed,
    Counted,
    MarkerRead,
    Prepared,
    Promoted,
    Recovered,
    UnitsListed,
    error_headers,
)
from tests.provider.clients.amqp.peer import Kept, Peer, Script, message_of, pyjms_open, text_of
from tests.provider.clients.amqp.world import ORDERS, QUICKLY, Events, connected, consume, message, receive

XID, OTHER = Xid(1, b"g", b"b"), Xid(1, b"g", b"c")
UNIT = StageName("sink", 0, 0, "a")
PREPARED = Answered(Prepared(needs_commit=True).headers())
CALLS: dict[str, Callable[[AmqpSession], object]] = {
    "END": lambda session: session.xa_end(XID),
    "PREPARE": lambda session: session.xa_prepare(XID),
    "COMMIT": lambda session: session.xa_commit(XID),
    "ABORT": lambda session: session.xa_rollback(XID),
    "FORGET": lambda session: session.xa_forget(XID),
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer(Script(open=pyjms_open())) as peer:
        yield peer


@pytest.fixture
def connection(peer: Peer) -> Iterator[AmqpConnection]:
    with connected(peer) as connection:
        yield connection


@pytest.fixture
def session(connection: AmqpConnection) -> AmqpSession:
    return connection.open_session(transacted=True)


def hasten(connection: AmqpConnection, timeout_ms: int) -> None:
    """Have the connection wait only so long from now on."""
    object.__setattr__(connection.settings, "timeout_ms", timeout_ms)


def silent_about(*names: str) -> Callable[[str, dict[str, str]], Any]:
    """Return answers of a broker that says nothing to these commands."""
    return lambda name, headers: None if name in names else PREPARED if name == "PREPARE" else Answered({})


def refusing(name: str, error: ProviderError) -> Callable[[str, dict[str, str]], Any]:
    """Return answers of a broker that refuses one command."""
    info: dict[str, Any] = {Symbol(key): text for key, text in error_headers(error).items()}
    refusal = Rejected(Error("amqp:precondition-failed", error.reason, info))
    return lambda asked, headers: refusal if asked == name else Answered({})


# What the broker says of itself


def test_what_the_broker_can_do_by_commands_is_declared(connection: AmqpConnection, peer: Peer) -> None:
    asked = Capability.XA | Capability.REPLAY | Capability.STAGE | Capability.PERSISTENT_SESSIONS
    assert connection.capabilities & asked == asked
    assert connection.resource_manager == "books"
    assert connection.open_session(transacted=True).xa_get_timeout() == 30
    assert COMMANDS in peer.opens[0].desired_capabilities


def test_a_broker_without_commands_has_none_of_it() -> None:
    with Peer() as peer, connected(peer) as connection:
        assert Capability.XA not in connection.capabilities
        for ask in (connection.reader_groups, connection.stages, connection.persistent_sessions):
            with pytest.raises(CapabilityError):
                ask()
        with pytest.raises(CapabilityError):
            connection.open_session(transacted=True).xa_start(XID)


def test_a_greeting_that_is_not_understood_refuses_the_connection(peer: Peer) -> None:
    opened = pyjms_open()
    greeting = {**(opened.properties or {})[GREETING], "transaction-timeout": "soon"}
    peer.script.open = replace(opened, properties={**(opened.properties or {}), GREETING: greeting})
    with pytest.raises(ProviderError, match="use one version of pyjms"), connected(peer):
        pass


# Local transactions


def test_what_a_session_sends_belongs_to_its_transaction_without_more_ado(peer: Peer, session: AmqpSession) -> None:
    session.commit()  # of nothing: nothing is asked
    for number in range(3):
        session.send(message(str(number)))
    session.commit()
    session.send(message("dropped"))
    session.rollback()
    assert [each.name for each in peer.commands] == ["COMMIT", "ABORT"]
    assert [dict(each.properties or {}) for each in peer.begins] == [{TRANSACTED: True}]
    assert [text_of(kept.data) for kept in peer.queue("orders")] == ["0", "1", "2", "dropped"]


def test_the_first_message_to_a_destination_is_answered_and_the_others_are_not_waited_for(
    peer: Peer, session: AmqpSession
) -> None:
    outcomes: list[str] = []

    def outcome(address: str, data: bytes) -> Any:
        outcomes.append(str(text_of(data)))
        return Rejected(Error("amqp:not-found", "gone")) if text_of(data) == "refused" else ACCEPTED

    peer.script.outcome = outcome
    with pytest.raises(DestinationError, match="gone"):
        session.send(message("refused"))
    session.send(message("taken"))
    session.send(message("refused"))  # the commit tells
    peer.script.command = refusing("COMMIT", RolledBackError("gone"))
    with pytest.raises(RolledBackError, match="gone"):
        session.commit()
    with pytest.raises(DestinationError, match="gone"):
        session.send(message("refused"))
    assert outcomes == ["refused", "taken", "refused", "refused"]


def test_a_large_transaction_does_not_wait_in_memory(peer: Peer, session: AmqpSession) -> None:
    taken = 0

    def outcome(address: str, data: bytes) -> Any:
        nonlocal taken
        taken += 1
        return ACCEPTED

    peer.script.outcome = outcome
    for number in range(1, 13):
        session.send(message("x" * 1_000_000))
        assert number - taken <= 5
    session.commit()
    assert taken == 12


def test_what_is_acknowledged_in_the_transaction_is_accepted_in_its_session(peer: Peer, session: AmqpSession) -> None:
    peer.queue("orders").append(Kept(message_of("one")))
    session.acknowledge([receive(consume(session))])
    session.commit()
    peer.wait_for(lambda: bool(peer.outcomes))
    assert peer.outcomes == [ACCEPTED]


def test_a_closed_consumer_is_sent_nothing_of_what_a_failed_transaction_gives_back(
    peer: Peer, session: AmqpSession
) -> None:
    peer.queue("orders").append(Kept(message_of("one")))
    consumer = consume(session)
    delivery = receive(consumer)
    consumer.close()
    session.acknowledge([delivery])

    def roll_back(name: str, headers: dict[str, str]) -> Any:
        if name == "COMMIT":
            peer.connections[-1].put_back("orders", [Kept(message_of("one"))])
        return refusing("COMMIT", RolledBackError("small is full"))(name, headers)

    peer.script.command = roll_back
    with pytest.raises(RolledBackError, match="small is full"):
        session.commit()
    assert [text_of(kept.data) for kept in peer.queue("orders")] == ["one"]
    assert receive(consume(session)).envelope.body == "one"
    assert peer.outcomes == [ACCEPTED]


def test_a_closed_consumer_whose_messages_are_held_ends_at_the_broker(peer: Peer, session: AmqpSession) -> None:
    peer.queue("orders").append(Kept(message_of("one")))
    consumer = consume(session)
    receive(consumer)
    (link,) = [each for each in peer.connections[-1].links if isinstance(each, Sender)]
    consumer.close()
    assert [asked.headers for asked in peer.commands if asked.name == "UNSUBSCRIBE"] == [{"id": link.name}]
    assert (link.is_attached, link.credit) == (True, 0)
    consume(session).close()
    session.close()
    assert len(peer.asked("UNSUBSCRIBE")) == 1


def test_a_consumer_closes_even_if_the_broker_refuses_to_end_it(
    peer: Peer, session: AmqpSession, caplog: pytest.LogCaptureFixture
) -> None:
    peer.script.command = refusing("UNSUBSCRIBE", ProviderError("there is none"))
    peer.queue("orders").append(Kept(message_of("one")))
    consumer = consume(session)
    delivery = receive(consumer)
    consumer.close()
    assert not consumer.is_open
    assert "there is none" in caplog.text
    session.acknowledge([delivery])
    session.commit()
    assert peer.outcomes == [ACCEPTED]


def test_what_a_closed_consumer_gives_back_is_not_overtaken(peer: Peer, session: AmqpSession) -> None:
    peer.queue("orders").extend(Kept(message_of(text)) for text in ("one", "two", "three"))
    first = consume(session)
    one = receive(first)
    first.close()
    second = consume(session)
    two = receive(second)
    session.recover([one, two])
    assert [receive(second).envelope.body for _ in range(3)] == ["one", "two", "three"]


@pytest.mark.parametrize("end", ["committed", "refused", "rolled back", "branch"])
def test_the_link_of_a_closed_consumer_ends_with_what_holds_its_messages(
    peer: Peer, session: AmqpSession, end: str
) -> None:
    peer.queue("orders").append(Kept(message_of("one")))
    if end == "branch":
        session.xa_start(XID)
    consumer = consume(session)
    delivery = receive(consumer)
    consumer.close()
    session.acknowledge([delivery])

    def receivers() -> list[str]:
        return [link.name for link in peer.connections[-1].links if isinstance(link, Sender)]

    assert len(receivers()) == 1
    match end:
        case "refused":
            peer.script.command = refusing("COMMIT", RolledBackError("small is full"))
            with pytest.raises(RolledBackError):
                session.commit()
        case "rolled back":
            session.rollback()
        case "branch":
            session.xa_end(XID)
        case _:
            session.commit()
    assert receivers() == []


def test_what_another_session_has_received_is_adopted(
    peer: Peer, connection: AmqpConnection, session: AmqpSession
) -> None:
    peer.queue("orders").append(Kept(message_of("one")))
    delivery = receive(consume(connection.open_session(transacted=False)))
    session.adopt([delivery])
    session.acknowledge([delivery])
    session.send(message("two", Address(AddressKind.QUEUE, "bills")))
    session.commit()
    (commit,) = peer.asked("COMMIT")
    assert peer.outcomes == [TransactionalState(b"pyjms:" + commit.channel.to_bytes(2, "big"), Accepted())]


def test_a_commit_without_an_answer_is_in_doubt(peer: Peer, connection: AmqpConnection, session: AmqpSession) -> None:
    session.send(message("one"))
    hasten(connection, 100)
    peer.script.command = silent_about("COMMIT")
    with pytest.raises(InDoubtError):
        session.commit()
    session.commit()  # the transaction is over


def test_a_connection_that_is_lost_in_a_commit_leaves_it_in_doubt(peer: Peer, session: AmqpSession) -> None:
    session.send(message("one"))
    peer.script.cut_at = "COMMIT"
    with pytest.raises(InDoubtError):
        session.commit()
    session.send(message("two"))
    session.commit()


@pytest.mark.parametrize("step", ["transfer", "attach"])
def test_a_connection_that_is_lost_in_a_transaction_rolls_it_back(peer: Peer, step: str) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        session.send(message("zero"))
        peer.script.cut_at = step
        session.send(message("one", Address(AddressKind.QUEUE, "bills")))
        events.wait_for(1)
        session.send(message("two"))
        with pytest.raises(RolledBackError):
            session.commit()
        session.send(message("three"))
        session.commit()
        assert [each.name for each in peer.commands] == ["COMMIT"]


def test_a_broker_of_another_kind_is_not_gone_on_with(peer: Peer) -> None:
    events = Events()
    with connected(peer, f"{QUICKLY}&reconnect_attempts=2", events) as connection:
        session = connection.open_session(transacted=True)
        peer.script.open = Script().open
        peer.cut()
        assert "another kind" in events.wait_for(2)[-1].reason
        with pytest.raises(ProviderError):
            session.send(message("one"))


def test_a_staging_that_is_refused_leaves_the_transaction_as_it_was(peer: Peer, session: AmqpSession) -> None:
    session.send(message("a"))
    peer.script.command = refusing("STAGE", StageError("no"))
    for _ in range(2):
        with pytest.raises(StageError, match="no"):
            session.stage(UNIT, keep_s=60)
    session.commit()
    peer.script.command = lambda name, headers: Answered(Counted(1).headers())
    session.send(message("b"))
    assert session.stage(UNIT, keep_s=60) == 1
    assert peer.asked("STAGE")[0].headers == {
        "sink": "sink", "epoch": "0", "partition": "0", "attempt": "a", "keep": "60",
    }  # fmt: skip
    assert len(peer.asked("COMMIT")) == 1


# Branches


@pytest.mark.parametrize("command", CALLS)
def test_what_is_answered_late_is_not_asked_twice(
    peer: Peer, connection: AmqpConnection, session: AmqpSession, command: str
) -> None:
    session.xa_start(XID)
    peer.script.command = silent_about(command)
    hasten(connection, 50)
    with pytest.raises(BranchError) as raised:
        CALLS[command](session)
    assert raised.value.failure is BranchFailure.UNREACHABLE
    hasten(connection, 10_000)
    (asked,) = peer.asked(command)
    peer.answer(asked, PREPARED)
    CALLS[command](session)
    assert len(peer.asked(command)) == 1


def test_an_error_that_came_after_the_wait_is_what_the_next_call_tells(
    peer: Peer, connection: AmqpConnection, session: AmqpSession
) -> None:
    peer.script.command = silent_about("PREPARE")
    hasten(connection, 50)
    with pytest.raises(BranchError, match="not answered PREPARE"):
        session.xa_prepare(XID)
    hasten(connection, 10_000)
    over = BranchError("it is over", BranchFailure.ROLLED_BACK)
    peer.answer(peer.asked("PREPARE")[0], refusing("PREPARE", over)("PREPARE", {}))
    with pytest.raises(BranchError, match="it is over") as raised:
        session.xa_prepare(XID)
    assert raised.value.failure is BranchFailure.ROLLED_BACK
    peer.script.command = silent_about()
    assert session.xa_prepare(XID)  # which is asked for again
    assert len(peer.asked("PREPARE")) == 2


@pytest.mark.parametrize("command", CALLS)
def test_a_branch_whose_connection_is_lost_is_not_reached(peer: Peer, session: AmqpSession, command: str) -> None:
    session.xa_start(XID)
    peer.script.cut_at = command
    with pytest.raises(BranchError) as raised:
        CALLS[command](session)
    assert raised.value.failure is BranchFailure.UNREACHABLE


def test_the_end_of_a_branch_whose_connection_was_lost_is_a_rollback(peer: Peer) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        session.xa_start(XID)
        peer.cut()
        events.wait_for(1)
        for _ in range(2):
            with pytest.raises(BranchError, match="connection was lost") as raised:
                session.xa_end(XID)
            assert raised.value.failure is BranchFailure.ROLLED_BACK
        session.xa_rollback(XID)
        session.xa_start(OTHER)
        session.xa_end(OTHER)
        assert [each.headers["xid"] for each in peer.asked("END")] == ["1:67:63"]


def test_a_branch_that_has_acknowledged_what_comes_again_fails(peer: Peer) -> None:
    events = Events()
    with connected(peer, QUICKLY, events) as connection:
        session = connection.open_session(transacted=True)
        peer.queue("orders").append(Kept(message_of("one")))
        lost = receive(consume(session))
        peer.cut()
        events.wait_for(1)
        session.xa_start(XID)
        session.acknowledge([lost])
        session.xa_end(XID)
        assert [each.headers.get("mode") for each in peer.asked("END")] == ["fail"]


@pytest.mark.parametrize(
    ("start", "ends"), [({}, ["fail", "ABORT"]), ({"join": True}, ["success"]), ({"resume": True}, ["suspend"])]
)
def test_a_branch_that_was_started_after_the_wait_is_left_as_it_was(
    peer: Peer, connection: AmqpConnection, session: AmqpSession, start: dict[str, bool], ends: list[str]
) -> None:
    peer.script.command = silent_about("BEGIN")
    hasten(connection, 50)
    with pytest.raises(BranchError, match="not answered BEGIN for 50 ms"):
        session.xa_start(XID, **start)
    hasten(connection, 10_000)
    peer.answer(peer.asked("BEGIN")[0], Answered({}))
    peer.wait_for(lambda: len(peer.commands) == 1 + len(ends))
    left = {"END": "success", "ABORT": "ABORT"}  # success is not written
    assert [each.headers.get("mode", left[each.name]) for each in peer.commands[1:]] == ends
    assert {each.headers["xid"] for each in peer.commands} == {str(XID)}


def test_an_answer_of_any_length_is_read(peer: Peer, session: AmqpSession) -> None:
    branches = [Xid(1, b"global-%d" % number, b"b") for number in range(500)]
    peer.script.command = lambda name, headers: parts_of(Recovered(branches).headers(), 504)
    assert session.xa_recover() == tuple(branches)


# Commands of the connection


def test_a_command_of_the_connection_is_asked_again_on_the_next_one(peer: Peer, connection: AmqpConnection) -> None:
    peer.script.command = lambda name, headers: Answered(
        Promoted(is_new=True).headers() if name == "PROMOTE" else MarkerRead(7).headers()
    )
    peer.script.cut_at = "PROMOTE"
    assert connection.stages().promote("sink", 1, [UNIT])
    assert len(peer.asked("PROMOTE")) == 2
    assert connection.stages().marker("sink") == 7


def test_a_command_that_must_not_be_repeated_fails_with_the_connection(peer: Peer, connection: AmqpConnection) -> None:
    peer.script.cut_at = "RELEASE"
    with pytest.raises(ResourceError, match="connection was lost"):
        connection.reader_groups().release("group")
    assert len(peer.asked("RELEASE")) == 1


def test_the_brokers_error_is_raised_as_its_own_class(peer: Peer, connection: AmqpConnection) -> None:
    peer.script.command = refusing("GROUP", GroupError("no reader group"))
    with pytest.raises(GroupError, match="no reader group") as raised:
        connection.reader_groups().open(GroupRequest(name="group", address=ORDERS))
    assert raised.value.code == GroupError.code


def test_commands_one_after_the_other_share_a_session(peer: Peer, connection: AmqpConnection) -> None:
    peer.script.command = lambda name, headers: Answered(UnitsListed(()).headers() | ClientsListed(()).headers())
    for _ in range(3):
        assert list(connection.stages().units()) == []
        assert list(connection.persistent_sessions().clients()) == []
    assert len({each.channel for each in peer.commands}) == 1


def test_a_command_that_was_not_answered_holds_up_no_other(peer: Peer, connection: AmqpConnection) -> None:
    peer.script.command = lambda name, headers: None if name == "UNITS" else Answered(MarkerRead(7).headers())
    hasten(connection, 100)
    with pytest.raises(ResourceError, match="not answered UNITS"):
        connection.stages().units()
    hasten(connection, 10_000)
    assert connection.stages().marker("sink") == 7
    assert len({each.delivery.link.session for each in peer.commands}) == 2


# Tags


def test_a_tag_goes_before_the_next_send(peer: Peer, connection: AmqpConnection) -> None:
    alone = connection.open_session(transacted=False)
    alone.tag(ClientTags(name="desk", incarnation=3, request="1"))
    alone.send(message("one"))
    alone.send(message("two"))
    assert [(each.name, each.headers) for each in peer.commands] == [
        ("TAG", {"client": "desk", "incarnation": "3", "request-tag": "1"})
    ]


def test_a_tag_goes_before_the_next_acknowledgement_which_is_waited_for(peer: Peer, connection: AmqpConnection) -> None:
    alone = connection.open_session(transacted=False)
    peer.queue("orders").extend([Kept(message_of("one")), Kept(message_of("two"))])
    consumer = consume(alone)
    alone.tag(ClientTags(name="desk", incarnation=3, reply="1"))
    first: Delivery = receive(consumer)
    alone.acknowledge([first])
    assert peer.outcomes == [ACCEPTED]
    assert [each.headers["reply-tag"] for each in peer.asked("TAG")] == ["1"]


def test_a_tag_of_a_transaction_goes_with_it(peer: Peer, session: AmqpSession) -> None:
    session.tag(ClientTags(name="desk", incarnation=3, request="1", reply="2"))
    session.commit()
    assert [each.name for each in peer.commands] == ["TAG", "COMMIT"]
    assert len({each.channel for each in peer.commands}) == 1
