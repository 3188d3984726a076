"""Commands of pyjms clients over AMQP beside transactions: groups and their pages, staged units, registered clients; order, limits and rubbish."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.errors import (
    AccessDeniedError,
    ClosedError,
    FencedError,
    GroupError,
    ProviderError,
    RegistrationError,
    RolledBackError,
    StageError,
)
from pyjms.spi.replay import StageName
from pyjms_provider.amqp.capabilities import COMMANDS, NUMBER, REDELIVERED
from pyjms_provider.amqp.envelope import write_envelope
from pyjms_provider.amqp.errors import Condition
from pyjms_provider.amqp.message import Message
from pyjms_provider.amqp.performatives import ACCEPTED, Attach, Rejected, Source, Target, TransactionalState
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.protocols.amqp.connection import ConnectionSettings
from pyjms_provider.protocols.amqp.link import OutgoingDelivery
from pyjms_provider.protocols.profile.answers import (
    ClientsListed,
    Counted,
    Found,
    GroupOpened,
    GroupsListed,
    MarkerRead,
    Promoted,
    Reserved,
    UnitsListed,
)
from pyjms_provider.protocols.profile.commands import (
    AbortTransaction,
    AcknowledgeGroup,
    CommitTransaction,
    DeregisterClient,
    DiscardUnits,
    Find,
    ListClients,
    ListGroups,
    ListUnits,
    OpenReaderGroup,
    PromoteEpoch,
    ReadGroup,
    ReadMarker,
    RegisterClient,
    ReleaseGroup,
    ReserveMessages,
    StageTransaction,
    TagUnit,
    Unsubscribe,
)
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from tests.provider.helpers import ORDERS, make_envelope
from tests.provider.protocols.amqp.server.bench import Bench, Client, ClientSession, bench_on, ready, said, texts

COMMIT = CommitTransaction(session="x")


class Group:
    """A reader group of orders, opened in a session."""

    def __init__(self, session: ClientSession, name: str = "g") -> None:
        self.session = session
        self.name = name
        opened = GroupOpened.read(session.do(OpenReaderGroup(group=name, address=ORDERS))).opened
        self.generation, self.fence = opened.group.generation, opened.fence

    def reserve(self, most: int, *, after: int = 0) -> int:
        command = ReserveMessages(
            group=self.name, generation=self.generation, fence=self.fence, after=after, max_messages=most
        )
        return Reserved.read(self.session.do(command)).high

    def read(self, upto: int, *, after: int = 0, link: str = "p") -> ReadGroup:
        return ReadGroup(group=self.name, generation=self.generation, id=link, after=after, upto=upto)


def filled(bench: Bench, count: int, size: int = 1, **options: Any) -> Group:
    """Return a group for which so many messages are reserved."""
    session = ready(bench, transacted=False, **options)
    for number in range(count):
        session.send(str(number) * size)
    group = Group(session)
    assert group.reserve(count + 1) == count
    return group


# Reader groups


def test_a_group_is_opened_reserved_read_acknowledged_and_released(bench: Bench) -> None:
    group = filled(bench, 5)
    session = group.session
    session.pages()
    assert Counted.read(session.do(group.read(5))).messages == 5
    page = session.received()
    assert texts(page) == list("01234")
    assert all(each.is_settled for each in page)
    notes = [Message(each.data).delivery_annotations for each in page]
    assert [each[NUMBER] for each in notes] == [1, 2, 3, 4, 5]
    assert {each[REDELIVERED] for each in notes} == {False}
    assert {Message(each.data).header.delivery_count for each in page} == {0}
    assert Counted.read(session.do(group.read(3, after=1))).messages == 2
    assert texts(session.received()) == ["1", "2"]
    session.do(AcknowledgeGroup(group="g", generation=group.generation, fence=group.fence, upto=2))
    (listed,) = GroupsListed.read(session.do(ListGroups())).groups
    assert (listed.low, listed.high) == (2, 5)
    with pytest.raises(GroupError):
        session.do(group.read(5))
    assert Counted.read(session.do(ReleaseGroup(group="g"))).messages == 3
    assert GroupsListed.read(session.do(ListGroups())).groups == ()


def test_a_message_of_a_page_is_what_its_sender_has_sent(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    data = write_envelope(make_envelope("x", persistent=True, properties={"a": 1}), now_ms=0, delivery_count=0)
    session.send_data(data)
    group = Group(session)
    assert group.reserve(1) == 1
    session.pages()
    session.do(group.read(1))
    (page,) = session.received()
    assert Message(page.data).bare == Message(data).bare


def test_a_message_that_was_delivered_before_says_so_in_its_page(bench: Bench) -> None:
    group = filled(bench, 1)
    group.session.do(ReleaseGroup(group="g"))
    again = Group(group.session)
    assert again.reserve(1) == 1
    group.session.pages()
    group.session.do(again.read(1))
    (page,) = group.session.received()
    assert Message(page.data).delivery_annotations[REDELIVERED] is True
    assert Message(page.data).header.delivery_count == 1


def test_a_group_that_another_client_has_opened_is_fenced(bench: Bench) -> None:
    group = filled(bench, 1)
    Group(ready(bench, transacted=False))
    with pytest.raises(FencedError):
        group.reserve(2)


def test_a_page_ends_where_the_credit_does(bench: Bench) -> None:
    group = filled(bench, 5)
    session = group.session
    link = session.pages(credit=2)
    assert Counted.read(session.do(group.read(5))).messages == 2
    assert texts(session.received()) == ["0", "1"]
    assert Counted.read(session.do(group.read(5, after=2))).messages == 0
    link.give_credit(10)
    assert Counted.read(session.do(group.read(5, after=2))).messages == 3
    assert texts(session.received()) == ["2", "3", "4"]


@pytest.mark.parametrize("window", [1, 2, 7])
def test_a_page_waits_for_the_window_and_its_answer_comes_behind_it(bench: Bench, window: int) -> None:
    # Each message is several frames.
    settings = ConnectionSettings(incoming_window=window, frame_size_max=512)
    group = filled(bench, 6, 1_500, settings=settings)
    session = group.session
    session.pages()
    session.client.events.clear()
    delivery = session.tell(group.read(6))
    assert Counted.read(session.answer(delivery)).messages == 6
    kinds = [type(each).__name__ for each in session.client.events]
    assert kinds.index("OutgoingUpdated") > max(at for at, kind in enumerate(kinds) if kind == "DeliveryReceived")
    assert texts(session.received()) == [str(number) * 1_500 for number in range(6)]


def test_a_client_that_opens_no_window_gets_no_page_and_holds_up_nobody(bench: Bench) -> None:
    group = filled(bench, 2)
    session = group.session
    session.pages()
    # As a client says that gives no window.
    session.session._incoming_window = 0
    session.session.write_flow()
    delivery = session.tell(group.read(2))
    session.client.settle()
    assert session.received() == []
    assert not delivery.is_settled
    with pytest.raises(ProviderError, match="already"):
        session.do(group.read(2))
    assert GroupsListed.read(session.do(ListGroups())).groups
    assert ready(bench, transacted=False).send("x") == ACCEPTED
    session.session._incoming_window = 10
    session.session.write_flow()
    assert Counted.read(session.answer(delivery)).messages == 2
    assert texts(session.received()) == ["0", "1"]


def test_a_page_needs_a_link_of_its_session(bench: Bench) -> None:
    group = filled(bench, 1)
    session = group.session
    session.consume("other")
    for link in ("none", "from other", "commands"):
        with pytest.raises(ProviderError, match="no link of pages"):
            session.do(group.read(1, link=link))
    other = session.client.session(transacted=False)
    other.pages()
    with pytest.raises(ProviderError, match="no link of pages"):
        session.do(group.read(1))


def test_a_page_is_over_with_its_link(bench: Bench) -> None:
    group = filled(bench, 2)
    session = group.session
    link = session.pages()
    session.session._incoming_window = 0
    session.session.write_flow()
    delivery = session.tell(group.read(2))
    session.client.settle()
    link.detach()
    with pytest.raises(ClosedError, match="has ended"):
        session.answer(delivery)
    session.pages()
    session.session._incoming_window = 10
    session.session.write_flow()
    assert Counted.read(session.do(group.read(2))).messages == 2


def test_a_link_of_pages_is_drained_when_there_is_none(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    link = session.pages()
    link.give_credit(3, drain=True)
    session.client.settle()
    assert link.credit == 0


def test_a_message_that_amqp_cannot_say_is_told(bench: Bench) -> None:
    group = filled(bench, 0)
    session = group.session
    # As a client of another protocol sends it.
    session.client.engine.connection.open_session(transacted=False).send(make_envelope("\ud800", persistent=True))
    assert group.reserve(1) == 1
    session.pages()
    with pytest.raises(ProviderError, match="cannot be read over AMQP"):
        session.do(group.read(1))
    assert session.received() == []


def test_groups_need_the_right_to_read(bench: Bench) -> None:
    group = filled(bench, 1)
    session = group.session
    bench.rules.denied.add((Operation.READ, "orders"))
    assert GroupsListed.read(session.do(ListGroups())).groups == ()
    session.pages()
    for command in (
        OpenReaderGroup(group="h", address=ORDERS),
        ReserveMessages(group="g", generation=group.generation, fence=group.fence, after=0, max_messages=1),
        group.read(1),
        AcknowledgeGroup(group="g", generation=group.generation, fence=group.fence, upto=1),
        ReleaseGroup(group="g"),
    ):
        with pytest.raises(AccessDeniedError):
            session.do(command)


def test_a_group_that_is_not_there_is_an_error_of_its_own(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    session.pages()
    for command in (ReadGroup(group="none", generation="x", id="p", after=0, upto=1), ReleaseGroup(group="none")):
        with pytest.raises(GroupError, match="no reader group 'none'"):
            session.do(command)


# Staged units


def staging(attempt: str = "a", epoch: int = 1) -> StageTransaction:
    return StageTransaction(session="x", sink="s", epoch=epoch, partition=0, attempt=attempt, keep_s=60)


def test_a_transaction_is_staged_and_promoted_once(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.send("b")
    assert Counted.read(session.do(staging())).messages == 2
    session.do(COMMIT)
    (unit,) = UnitsListed.read(session.do(ListUnits(sink="s"))).units
    assert (unit.name, unit.messages) == (StageName("s", 1, 0, "a"), 2)
    with pytest.raises(StageError):
        session.do(staging())
    promoting = PromoteEpoch(sink="s", epoch=1, units=(unit.name,))
    assert Promoted.read(session.do(promoting)).is_new
    assert not Promoted.read(session.do(promoting)).is_new
    assert MarkerRead.read(session.do(ReadMarker(sink="s"))).epoch == 1
    session.consume()
    assert texts(session.received()) == ["a", "b"]


def test_a_staged_unit_outlives_the_broker_and_is_discarded(tmp_path: Path) -> None:
    for is_first in (True, False):
        bench = bench_on(tmp_path)
        try:
            session = ready(bench)
            if is_first:
                session.send("a")
                session.do(staging())
                continue
            (unit,) = UnitsListed.read(session.do(ListUnits())).units
            session.do(DiscardUnits(units=(unit.name,)))
            assert UnitsListed.read(session.do(ListUnits())).units == ()
        finally:
            bench.close()


def test_what_was_refused_unnoticed_is_not_staged(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    bench.rules.denied.add((Operation.WRITE, "orders"))
    session.send("b", settled=True)
    with pytest.raises(RolledBackError, match="may not"):
        session.do(staging())
    assert UnitsListed.read(session.do(ListUnits())).units == ()


def test_the_list_of_all_units_needs_the_right_to_observe(bench: Bench) -> None:
    session = ready(bench)
    bench.rules.denied.add((Operation.OBSERVE, bench.host.name))
    assert UnitsListed.read(session.do(ListUnits(sink="s"))).units == ()
    with pytest.raises(AccessDeniedError):
        session.do(ListUnits())


# Registered clients


def registered(session: ClientSession, name: str = "worker") -> int:
    return ClientsListed.read(session.do(RegisterClient(client=name))).only().incarnation


def tags(session: ClientSession) -> tuple[str | None, str | None]:
    (client,) = ClientsListed.read(session.do(ListClients())).clients
    return client.request_tag, client.reply_tag


def test_tags_are_stored_with_the_transaction(bench: Bench) -> None:
    session = ready(bench)
    incarnation = registered(session)
    for request, end in (("lost", AbortTransaction(session="x")), ("kept", COMMIT)):
        session.do(TagUnit(session="x", client="worker", incarnation=incarnation, request=request, reply="r"))
        session.send("a")
        session.do(end)
    assert tags(session) == ("kept", "r")
    session.do(DeregisterClient(client="worker"))
    assert ClientsListed.read(session.do(ListClients())).clients == ()


def test_outside_of_transactions_tags_are_stored_with_the_next_message_and_receipt(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    incarnation = registered(session)
    session.send("first")
    # In one step: messages that wait for the disk would else be written with those of other connections.
    tag = session.tell(TagUnit(session="x", client="worker", incarnation=incarnation, request="q"))
    data = write_envelope(make_envelope("x", persistent=True), now_ms=0, delivery_count=0)
    sent = [session.send_data(data) for _ in range(5)]
    assert session.answer(tag) == {}
    assert all(session.states(each) == [ACCEPTED] for each in sent)
    assert tags(session) == ("q", None)
    session.consume()
    session.do(TagUnit(session="x", client="worker", incarnation=incarnation, reply="p"))
    session.accept(*session.received())
    assert tags(session) == ("q", "p")


def test_a_settled_tag_that_is_refused_spoils_the_transaction(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.say(said("TAG", {"client": "nobody", "incarnation": "1", "request-tag": "q"}), settled=True)
    with pytest.raises(RolledBackError) as raised:
        session.do(COMMIT)
    assert isinstance(raised.value.__cause__, RegistrationError)
    assert session.detached() == []
    session.send("b")
    session.say(said("NONSENSE", {}), settled=True)
    with pytest.raises(RolledBackError, match="NONSENSE"):
        session.do(COMMIT)
    with pytest.raises(RegistrationError):
        session.do(TagUnit(session="x", client="nobody", incarnation=1, request="q"))
    session.do(COMMIT)


def test_destinations_are_found(bench: Bench) -> None:
    session = ready(bench, transacted=False)
    find = Find(session="x", address=ORDERS)
    assert not Found.read(session.do(find)).is_there
    session.send("a")
    assert Found.read(session.do(find)).is_there


# Deliveries of other sessions


def test_a_transacted_session_adopts_and_accepts_what_another_one_received(bench: Bench) -> None:
    client = Client(bench)
    receiving, working = client.session(transacted=False), client.session()
    for text in "abc":
        receiving.send(text)
    receiving.consume()
    a, b, _ = receiving.received()
    state = TransactionalState(b"pyjms:" + working.session.channel.to_bytes(2, "big"), ACCEPTED)
    receiving.accept(a, state=state)
    working.send("answer", "answers")
    working.do(COMMIT)
    receiving.accept(b, state=state)
    working.do(AbortTransaction(session="x"))
    assert texts(receiving.received()) == ["b"]
    client.hang_up()
    other = ready(bench, transacted=False)
    other.consume()
    assert texts(other.received()) == ["b", "c"]
    other.consume("answers")
    assert texts(other.received()) == ["answer"]


@pytest.mark.parametrize("number", [0, 99])
def test_deliveries_are_adopted_by_transacted_sessions_alone(bench: Bench, number: int) -> None:
    session = ready(bench, transacted=False)
    session.send("a")
    session.consume()
    session.accept(*session.received(), state=TransactionalState(b"pyjms:" + number.to_bytes(2, "big"), ACCEPTED))
    (error,) = session.detached()
    assert error is not None
    assert error.condition == Condition.UNKNOWN_TRANSACTION


# Consumers


@pytest.mark.parametrize("end", ["accepted", "detached"])
def test_a_consumer_ends_and_its_unsettled_messages_stay_with_the_client(bench: Bench, end: str) -> None:
    session, other = ready(bench, transacted=False), ready(bench, transacted=False)
    session.send("one")
    session.send("two")
    link = session.consume(credit=1)
    (first,) = session.received()
    assert session.do(Unsubscribe(id=link.name)) == {}
    link.give_credit(10)
    assert session.received() == []
    other.consume()
    assert texts(other.received()) == ["two"]
    if end == "accepted":
        session.accept(first)
    link.detach()
    session.client.settle()
    assert session.detached() == []
    assert texts(other.received()) == ([] if end == "accepted" else ["one"])


@pytest.mark.parametrize("policy", [QueuePolicy(groups=True), QueuePolicy(exclusive=True)])
def test_a_consumer_that_ends_leaves_its_queue_to_the_next_one_of_its_session(
    bench: Bench, policy: QueuePolicy
) -> None:
    QueueManager.of(bench.broker.name).create("orders", policy)
    session, other = ready(bench, transacted=False), ready(bench, transacted=False)
    for text in ("one", "two"):
        session.send_envelope(make_envelope(text, properties={"JMSXGroupID": "g"}))
    link = session.consume(credit=1)
    (first,) = session.received()
    other.consume()
    session.do(Unsubscribe(id=link.name))
    following = session.session.receiver("following")
    following.attach(Attach("", 0, True, source=Source("orders", capabilities=("queue",)), target=Target()))
    session.client.settle()
    following.give_credit(1)
    assert texts(session.received()) == ["two"]
    session.accept(first)
    assert other.received() == []


# Order, limits and rubbish


def refusal_of(session: ClientSession, delivery: OutgoingDelivery) -> tuple[str, str]:
    """Return the condition and the text with which a command is refused."""
    session.client.settle()
    state = session.states(delivery)[-1]
    assert isinstance(state, Rejected)
    assert state.error is not None
    return state.error.condition, state.error.description or ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "its name as the subject"),
        (said(None, {}), "its name as the subject"),
        (said("", {}), "its name as the subject"),
        (said("NONSENSE", {}), "NONSENSE is no command"),
        (said("SUBSCRIBE", {"id": "1", "destination": "/queue/q"}), "no command over AMQP"),
        (said("ENDSESSION", {}), "no command over AMQP"),
        (said("UNSUBSCRIBE", {"id": "x"}), "no consumer with the name 'x'"),
        (said("UNSUBSCRIBE", {"id": "commands"}), "no consumer with the name 'commands'"),
        (said("BEGIN", {}), "BEGIN needs the header xid"),
        (said("BEGIN", {"xid": "1:x:y"}), "must be a branch"),
        (said("BEGIN", {"xid": 7}), "the headers of BEGIN are texts"),
        (said("BEGIN", {"xid": "1:ab:", "mode": "old"}), "one of new, join, resume"),
        (said("STAGE", {"sink": "s", "epoch": "9" * 19, "partition": "1", "attempt": "a", "keep": "9"}), "epoch"),
        (said("DISCARD", {"units": "[" * 50_000}), "units as JSON"),
        (b"\x00\x53\x75\xa0", "bytes end within"),
        (b"\xff\xff", "no section"),
    ],
)
def test_what_is_no_command_is_refused_and_the_link_goes_on(bench: Bench, data: bytes, text: str) -> None:
    session = ready(bench)
    condition, reason = refusal_of(session, session.say(data))
    assert text in reason
    assert condition in (Condition.INVALID_FIELD, Condition.DECODE_ERROR)
    session.do(COMMIT)


def test_a_command_of_another_message_format_is_refused(bench: Bench) -> None:
    session = ready(bench)
    _, reason = refusal_of(session, session.say(said("COMMIT", {}), message_format=1))
    assert "format 0" in reason


def test_answers_come_in_the_order_of_the_commands_and_behind_what_was_sent_before(bench: Bench) -> None:
    session = ready(bench)
    session.send("w")
    data = write_envelope(make_envelope("x", persistent=True), now_ms=0, delivery_count=0)
    said_ = [session.send_data(data), session.tell(COMMIT), session.say(said("NONSENSE", {})), session.tell(COMMIT)]
    session.client.settle()
    told = [each for event in session.client.events for each in getattr(event, "deliveries", ())]
    assert [each for each in told if each in said_] == said_
    session.consume()
    assert len(session.received()) == 2


def test_a_command_that_is_too_large_ends_its_link(bench: Bench) -> None:
    session = ready(bench)
    session.say(said("PROMOTE", {"sink": "x" * (9 * 1024 * 1024)}))
    (error,) = session.detached()
    assert error is not None
    assert error.condition == Condition.MESSAGE_SIZE_EXCEEDED
    assert session.client.machine.is_open


def test_a_settled_command_is_done_and_its_refusal_outside_of_transactions_ends_the_link(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.say(said("COMMIT", {}), settled=True)
    session.client.settle()
    assert session.detached() == []
    session = ready(bench, transacted=False)
    session.consume()
    assert texts(session.received()) == ["a"]
    session.say(said("NONSENSE", {}), settled=True)
    assert len(session.detached()) == 1


def test_more_commands_are_taken_as_earlier_ones_are_done(bench: Bench) -> None:
    session = ready(bench)
    for _ in range(500):
        assert session.link.credit > 0
        session.do(COMMIT)


def test_a_link_for_commands_is_for_nothing_else(bench: Bench) -> None:
    session = ready(bench)
    session.command_link((COMMANDS, "amqp:local-transactions"), name="both")
    (error,) = session.detached()
    assert error is not None
    assert error.condition == Condition.INVALID_FIELD


def test_a_refusal_ends_the_link_of_a_client_that_takes_none(bench: Bench) -> None:
    session = ready(bench)
    session._commands = session.command_link(source=Source(outcomes=("amqp:accepted:list",)))
    session.say(said("NONSENSE", {}))
    assert len(session.detached()) == 1


def test_two_sessions_have_transactions_of_their_own(bench: Bench) -> None:
    client = Client(bench)
    one, two = client.session(), client.session()
    one._commands, two._commands = one.command_link(name="one"), two.command_link(name="two")
    one.send("a")
    two.send("b")
    two.do(COMMIT)
    one.do(AbortTransaction(session="x"))
    two.consume()
    assert texts(two.received()) == ["b"]


def test_a_lost_connection_ends_what_waits(bench: Bench) -> None:
    group = filled(bench, 2)
    session = group.session
    session.pages()
    session.tell(group.read(2))
    session.tell(ListGroups())
    session.client.engine.received(session.client.machine.take())
    session.client.hang_up()
    # The group is as it was.
    other = ready(bench, transacted=False)
    (listed,) = GroupsListed.read(other.do(ListGroups())).groups
    assert (listed.name, listed.high) == ("g", 2)


def test_a_session_that_ends_finishes_its_commands(bench: Bench) -> None:
    session = ready(bench)
    session.send("a")
    session.tell(COMMIT)
    session.session.end()
    session.client.settle()
    other = ready(bench, transacted=False)
    other.consume()
    assert texts(other.received()) == ["a"]


def test_a_group_reads_a_durable_subscription_of_its_container(bench: Bench) -> None:
    session = ready(bench, transacted=False, container="shop")
    news = Address(AddressKind.TOPIC, "news")
    session.do(OpenReaderGroup(group="g", address=news, subscription="s"))
    (listed,) = GroupsListed.read(session.do(ListGroups())).groups
    assert (listed.subscription, listed.client_id) == ("s", "shop")
