"""Plain STOMP clients at the broker: ActiveMQ Classic's dialect."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.spi.delivery import Delivery
from pyjms.spi.envelope import Address, AddressKind
from pyjms.spi.provider import SubscribeRequest
from pyjms.types import Int
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.policy import QueuePolicy
from pyjms_provider.protocols.stomp.frames import Frame
from pyjms_provider.protocols.stomp.server.standard import AckMode, StandardHandler, StandardSubscription
from pyjms_provider.queue_manager import QueueManager
from pyjms_provider.security.contracts import Operation
from tests.provider.giving_back import counted_steps
from tests.provider.helpers import ORDERS, RecordedEvents, make_envelope, text_of
from tests.provider.protocols.stomp.server.bench import Bench, Client


def subscribed(bench: Bench, **headers: str) -> Client:
    client = bench.connect()
    client.send("SUBSCRIBE", b"", **{"id": "s", "destination": "/queue/orders", **headers})
    return client


def sent(bench: Bench, *bodies: bytes, **headers: str) -> None:
    client = bench.connect()
    for body in bodies:
        client.send("SEND", body, **{"destination": "/queue/orders", **headers})
    client.settle()
    client.hang_up()


def bodies(frames: list[Frame]) -> list[bytes]:
    return [bytes(frame.body) for frame in frames if frame.command == "MESSAGE"]


# Login


@pytest.mark.realises("BJ-PE-3", "BJ-GEN-1")
@pytest.mark.parametrize(("accepted", "version"), [("1.0,1.1,1.2", "1.2"), ("1.1", "1.1"), ("1.0", "1.0")])
def test_the_highest_common_version_is_spoken(bench: Bench, accepted: str, version: str) -> None:
    answer = Client(bench, version=version).ask("CONNECT", accept_version=accepted, host="x")
    assert (answer.command, answer.headers["version"]) == ("CONNECTED", version)
    assert answer.headers["server"].startswith("pyjms/")
    assert answer.headers["session"]


def test_without_a_version_it_is_1_0(bench: Bench) -> None:
    assert Client(bench, version="1.0").ask("CONNECT").headers["version"] == "1.0"


@pytest.mark.realises("BJ-PE-4")
def test_an_unknown_version_is_answered_with_those_that_are_spoken_and_the_end(bench: Bench) -> None:
    client = Client(bench)
    answer = client.ask("CONNECT", accept_version="2.0", host="x")
    assert (answer.command, answer.headers["version"]) == ("ERROR", "1.0,1.1,1.2")
    assert client.engine.is_over


def test_a_client_that_begins_with_tls_is_told_at_once_and_the_log_says_what_it_is(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(bench)
    client.feed(b"\x16\x03\x01\x02\x00\x01")  # and so on, without the end of a line
    assert client.pull().startswith(b"ERROR")  # which is no TLS, so that the client says so
    assert client.engine.is_over
    assert "this port has no TLS" in caplog.text


def test_wrong_credentials_are_refused_without_a_hint(bench: Bench) -> None:
    client = Client(bench)
    answer = client.log_in(login="alice", passcode="guess")
    assert answer.command == "ERROR"
    assert answer.headers["code"] == "PYJMS-ACCESS"
    assert b"guess" not in answer.body
    assert client.engine.is_over


def test_who_may_not_connect_does_not(bench: Bench) -> None:
    bench.rules.denied.add((Operation.CONNECT, bench.broker.name))
    client = Client(bench)
    assert client.log_in().command == "ERROR"
    assert client.engine.is_over


def test_a_client_id_in_use_is_refused(bench: Bench) -> None:
    bench.connect(client_id="c1")
    client = Client(bench)
    assert client.log_in(client_id="c1").headers["code"] == "PYJMS-CLIENT-ID"


def test_a_frame_before_login_ends_the_connection(bench: Bench) -> None:
    client = Client(bench)
    answer = client.ask("SEND", destination="/queue/orders")
    assert answer.command == "ERROR"
    assert "log in first" in answer.headers["message"]
    assert client.engine.is_over


def test_frames_that_follow_connect_at_once_are_done_after_it(bench: Bench) -> None:
    client = Client(bench)
    client.send("CONNECT", accept_version="1.2", host="")
    client.send("SEND", b"early", destination="/queue/orders", receipt="r")
    assert [frame.command for frame in client.all()] == ["CONNECTED", "RECEIPT"]


def test_rubbish_gets_an_error_and_the_end(bench: Bench) -> None:
    client = bench.connect()
    client.feed(b"SEND\nno colon here\n\n\0")
    assert client.next().command == "ERROR"
    assert client.engine.is_over


# Sending and receiving


def test_a_message_comes_as_it_was_sent(bench: Bench) -> None:
    receiver = subscribed(bench)
    sent(bench, b"hello", cups="2", correlation_id="c", reply_to="/queue/answers", type="t", priority="7")
    message = receiver.next()
    headers = message.headers
    assert message.body == b"hello"
    assert headers["destination"] == "/queue/orders"
    assert headers["subscription"] == "s"
    assert headers["cups"] == "2"
    assert headers["correlation-id"] == "c"
    assert headers["reply-to"] == "/queue/answers"
    assert headers["type"] == "t"
    assert headers["priority"] == "7"
    assert headers["message-id"].startswith("ID:")
    assert "redelivered" not in headers
    assert not any(name.startswith("JMS_pyjms") for name in headers)


@pytest.mark.realises("BJ-GEN-2")
def test_what_came_in_by_another_way_is_translated_and_back(bench: Bench) -> None:
    receiver = subscribed(bench)
    connection = VmConnection(bench.broker, RecordedEvents())
    connection.start()
    session = connection.open_session(transacted=False)
    session.send(make_envelope("from within", priority=7, properties={"cups": Int(2), "hot": True}))
    message = receiver.next()
    assert bytes(message.body) == b"from within"
    assert [message.headers[name] for name in ("cups", "hot", "priority")] == ["2", "true", "7"]
    sent(bench, b"from outside", destination="/queue/answers", cups="2")
    answers = Address(AddressKind.QUEUE, "answers")
    request = SubscribeRequest(address=answers, selector=None, no_local=False, durable_name=None)
    delivery = session.subscribe(request, lambda: None).poll()
    assert text_of(delivery) == "from outside"
    assert delivery is not None
    assert delivery.envelope.properties["cups"] == "2"
    connection.close()


def test_text_has_no_content_length_and_bytes_have_one(bench: Bench) -> None:
    receiver = subscribed(bench)
    sent(bench, b"text")
    sent(bench, b"\0\xff", content_length="2")
    text, data = receiver.all()
    assert "content-length" not in text.headers
    assert (data.headers["content-length"], bytes(data.body)) == ("2", b"\0\xff")


def test_a_receipt_comes_when_the_message_is_safe(bench: Bench) -> None:
    client = bench.connect()
    receipt = client.ask("SEND", b"x", destination="/queue/orders", receipt="r1", persistent="true")
    assert (receipt.command, receipt.headers["receipt-id"]) == ("RECEIPT", "r1")


@pytest.mark.realises("BJ-PE-5")
@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_every_version_can_acknowledge(bench: Bench, version: str) -> None:
    client = bench.connect(version)
    client.send("SUBSCRIBE", id="s", destination="/queue/orders", ack="client-individual")
    sent(bench, b"x")
    message = client.next()
    name, value = ("id", message.headers["ack"]) if version == "1.2" else ("message-id", message.headers["message-id"])
    client.send("ACK", b"", **{name: value, "subscription": "s"})
    client.settle()
    client.hang_up()
    other = subscribed(bench)
    assert other.all() == []


def test_auto_acknowledges_what_was_written(bench: Bench) -> None:
    receiver = subscribed(bench)
    sent(bench, b"x")
    assert bodies(receiver.all()) == [b"x"]
    receiver.hang_up()
    assert subscribed(bench).all() == []


def test_client_acknowledges_everything_up_to_the_named_message(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client")
    sent(bench, b"a", b"b", b"c")
    frames = receiver.all()
    receiver.send("ACK", b"", id=frames[1].headers["ack"])
    receiver.settle()
    receiver.hang_up()
    left = subscribed(bench).all()
    assert bodies(left) == [b"c"]
    assert left[0].headers["redelivered"] == "true"


def test_an_acknowledgement_of_one_looks_at_one_however_many_are_open(bench: Bench) -> None:
    handler = bench.connect().engine.handler
    assert isinstance(handler, StandardHandler)
    subscription = StandardSubscription(
        handler, name="1", destinations=[ORDERS], shown_destination="", mode=AckMode.CLIENT, window=1, durable_name=None
    )
    delivery = Delivery(envelope=make_envelope("x"), count=1, redelivered=False, tag=None)
    numbers = list(map(str, range(1, 60_001)))
    subscription.unsettled.update(dict.fromkeys(numbers, delivery))
    for number in numbers:  # it takes minutes, if each looks at all
        assert subscription.take_covered(number) == [(number, delivery)]
        if number in {"1", "20000"}:
            subscription.put_back([(number, delivery)])
            assert subscription.take_covered(number) == [(number, delivery)]


@pytest.mark.parametrize("aborted", ["tu", "ut"])
def test_what_transactions_give_back_is_in_its_old_place(bench: Bench, aborted: str) -> None:
    receiver = subscribed(bench, ack="client")
    sent(bench, b"a", b"b", b"c", b"d", b"e")
    acks = [frame.headers["ack"] for frame in receiver.all()]
    for name, ack in ("t", acks[1]), ("u", acks[3]):
        receiver.send("BEGIN", transaction=name)
        receiver.send("ACK", id=ack, transaction=name)
    for name in aborted:
        receiver.send("ABORT", transaction=name)
    receiver.send("ACK", id=acks[2])
    receiver.settle()
    receiver.hang_up()
    assert bodies(subscribed(bench).all()) == [b"d", b"e"]


def test_individual_acknowledges_one(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client-individual")
    sent(bench, b"a", b"b", b"c")
    frames = receiver.all()
    receiver.send("ACK", b"", id=frames[1].headers["ack"])
    receiver.settle()
    receiver.hang_up()
    assert bodies(subscribed(bench).all()) == [b"a", b"c"]


def test_an_ack_of_nothing_is_an_error(bench: Bench) -> None:
    client = subscribed(bench, ack="client")
    answer = client.ask("ACK", id="77")
    assert "names no message" in answer.headers["message"]
    assert client.engine.is_over


def test_nack_brings_the_message_back_until_it_is_a_dead_letter(bench: Bench) -> None:
    QueueManager.of(bench.broker.name).create("orders", QueuePolicy(max_deliveries=2))
    receiver = subscribed(bench, ack="client-individual")
    sent(bench, b"x")
    first = receiver.next()
    receiver.send("NACK", id=first.headers["ack"])
    again = receiver.next()
    assert again.headers["redelivered"] == "true"
    receiver.send("NACK", id=again.headers["ack"])
    assert receiver.all() == []
    assert QueueManager.of(bench.broker.name).report("DLQ").waiting == 1


def test_nack_of_all_up_to_a_message_gives_them_back_in_one_step(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = counted_steps(monkeypatch)
    receiver = subscribed(bench, ack="client")
    sent(bench, b"a", b"b", b"c")
    receiver.send("NACK", id=receiver.all()[-1].headers["ack"])
    again = receiver.all()
    assert bodies(again) == [b"a", b"b", b"c"]
    assert [frame.headers["redelivered"] for frame in again] == ["true"] * 3
    assert steps == [3]


def test_a_window_holds_back_what_is_not_acknowledged(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client-individual", **{"activemq.prefetchSize": "2"})
    sent(bench, b"a", b"b", b"c")
    frames = receiver.all()
    assert bodies(frames) == [b"a", b"b"]
    receiver.send("ACK", b"", id=frames[0].headers["ack"])
    assert bodies(receiver.all()) == [b"c"]


@pytest.mark.parametrize("header", ["activemq.prefetchSize", "prefetch-count"])
def test_a_window_of_less_than_nothing_is_refused(bench: Bench, header: str) -> None:
    answer = bench.connect().ask("SUBSCRIBE", id="1", destination="/queue/orders", ack="client", **{header: "-1"})
    assert answer.headers["message"] == f"{header} is a number from 0, not -1"


def test_consumers_share_a_queue_and_a_full_window_passes_on(bench: Bench) -> None:
    one = subscribed(bench, ack="client", prefetch_count="1")
    two = subscribed(bench, ack="client", prefetch_count="1")
    sent(bench, b"a", b"b", b"c")
    assert sorted(bodies(one.all()) + bodies(two.all())) == [b"a", b"b"]


def test_topics_go_to_everybody(bench: Bench) -> None:
    one = subscribed(bench, destination="/topic/news")
    two = subscribed(bench, destination="/topic/news")
    one.settle()
    two.settle()
    sent(bench, b"x", destination="/topic/news")
    assert bodies(one.all()) == bodies(two.all()) == [b"x"]


def test_selectors_choose(bench: Bench) -> None:
    receiver = subscribed(bench, selector="colour = 'red'")
    sent(bench, b"blue", colour="blue")
    sent(bench, b"red", colour="red")
    assert bodies(receiver.all()) == [b"red"]


def test_a_wrong_selector_is_told(bench: Bench) -> None:
    client = subscribed(bench, selector="colour =")
    assert client.next().headers["code"] == "PYJMS-SELECTOR"


def test_a_browser_sees_all_and_takes_nothing(bench: Bench) -> None:
    sent(bench, b"a", b"b")
    browser = subscribed(bench, browser="true")
    frames = browser.all()
    assert bodies(frames) == [b"a", b"b", b""]
    assert frames[-1].headers["browser"] == "end"
    assert bodies(subscribed(bench).all()) == [b"a", b"b"]


def test_a_browser_that_has_seen_all_may_be_unsubscribed_as_at_activemq(bench: Bench) -> None:
    browser = subscribed(bench, browser="true")
    browser.all()
    assert browser.ask("UNSUBSCRIBE", id="s", receipt="r").command == "RECEIPT"
    browser.send("SUBSCRIBE", id="s", destination="/queue/orders", browser="true")
    assert browser.all()[-1].headers["browser"] == "end"
    browser.send("UNSUBSCRIBE", id="s")
    assert browser.ask("UNSUBSCRIBE", id="s").command == "ERROR", "once"


def test_unsubscribe_gives_back_what_was_not_acknowledged(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client")
    sent(bench, b"a")
    receiver.settle()
    receiver.send("UNSUBSCRIBE", id="s")
    receiver.settle()
    again = subscribed(bench).next()
    assert (bytes(again.body), again.headers["redelivered"]) == (b"a", "true")


def test_a_durable_subscription_waits_for_its_client(bench: Bench) -> None:
    def connect() -> Client:
        client = bench.connect(client_id="c1")
        client.send("SUBSCRIBE", b"", id="s", destination="/topic/news", **{"activemq.subscriptionName": "mine"})
        return client

    first = connect()
    first.settle()
    first.hang_up()
    sent(bench, b"x", destination="/topic/news")
    second = connect()
    assert bodies(second.all()) == [b"x"]
    second.send("UNSUBSCRIBE", b"", id="s", **{"activemq.subscriptionName": "mine"})
    second.settle()
    second.hang_up()
    sent(bench, b"y", destination="/topic/news")
    assert connect().all() == []


def test_a_message_for_later_comes_at_its_time_and_says_it(bench: Bench) -> None:
    client, at_ms = subscribed(bench), bench.clock.time_ms() + 1_000
    sender = bench.connect()
    sender.feed(f"SEND\ndestination:/queue/orders\nJMS_pyjms_deliverAt:{at_ms}\n\nlater\0".encode())
    sender.settle()
    sent(bench, b"at once")
    assert bodies(client.all()) == [b"at once"]
    bench.clock.now_ms += 1_000
    bench.broker.virtual_host.queue("orders").run_due(at_ms)
    (later,) = client.all()
    assert (bytes(later.body), later.headers["JMS_pyjms_deliverAt"]) == (b"later", str(at_ms))
    for wrong in ("soon", "-1", str(2**63), "\uff11"):
        refused = bench.connect()
        refused.feed(f"SEND\ndestination:/queue/orders\nJMS_pyjms_deliverAt:{wrong}\n\n\0".encode())
        error = refused.next()
        assert (error.command, "is a time in milliseconds" in error.headers["message"]) == ("ERROR", True)


def test_no_local_leaves_out_the_own_connection(bench: Bench) -> None:
    client = subscribed(bench, destination="/topic/news", **{"activemq.noLocal": "true"})
    client.send("SEND", b"mine", destination="/topic/news")
    client.settle()
    sent(bench, b"others", destination="/topic/news")
    assert bodies(client.all()) == [b"others"]


def test_a_temporary_queue_answers_a_request(bench: Bench) -> None:
    asker, server = bench.connect(), subscribed(bench)
    asker.send("SUBSCRIBE", id="t", destination="/temp-queue/mine")
    asker.send("SEND", b"ask", destination="/queue/orders", reply_to="/temp-queue/mine")
    asker.settle()
    request = server.next()
    server.send("SEND", b"answer", destination=request.headers["reply-to"])
    server.settle()
    answer = asker.next()
    assert (bytes(answer.body), answer.headers["destination"]) == (b"answer", "/temp-queue/mine")


@pytest.mark.parametrize("is_committed", [False, True])
def test_an_answer_to_who_has_gone_makes_nothing_and_ends_nothing(bench: Bench, *, is_committed: bool) -> None:
    asker, server = bench.connect(), subscribed(bench)
    asker.send("SUBSCRIBE", id="t", destination="/temp-queue/mine")
    asker.send("SEND", b"ask", destination="/queue/orders", reply_to="/temp-queue/mine")
    asker.settle()
    reply_to = server.next().headers["reply-to"]
    asker.hang_up()
    kind, name = AddressKind.QUEUE, reply_to.removeprefix("/temp-queue/")
    headers = {"transaction": "t"} if is_committed else {}
    if is_committed:
        server.send("BEGIN", transaction="t")
    for headers_of_one in ({"destination": reply_to}, {"destination": "/queue/others", "reply-to": reply_to}):
        answer = server.ask("SEND", b"answer", receipt="r", persistent="true", **headers_of_one, **headers)
        assert answer.command == "RECEIPT"
    if is_committed:
        assert server.ask("COMMIT", transaction="t", receipt="c").command == "RECEIPT"
    assert not bench.host.has(Address(kind, name, temporary=True))
    (forwarded,) = subscribed(bench, destination="/queue/others").all()
    assert forwarded.headers["reply-to"] == reply_to
    assert server.ask("SUBSCRIBE", id="2", destination=reply_to).command == "ERROR"


def test_an_answer_to_who_goes_at_this_moment_ends_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    asker, server = bench.connect(), subscribed(bench)
    asker.send("SEND", b"ask", destination="/queue/orders", reply_to="/temp-queue/mine")
    asker.settle()
    reply_to = server.next().headers["reply-to"]
    check = bench.rules.check

    def go_and_check(*asked: Any) -> None:
        asker.hang_up()
        check(*asked)

    monkeypatch.setattr(bench.rules, "check", go_and_check)
    assert server.ask("SEND", b"answer", destination=reply_to, receipt="r").command == "RECEIPT"


def test_a_send_makes_no_temporary_destination(bench: Bench) -> None:
    answer = bench.connect().ask("SEND", b"x", destination="/temp-queue/mine", receipt="r")
    assert (answer.command, answer.headers["receipt-id"]) == ("ERROR", "r")
    assert "SUBSCRIBE to it" in answer.headers["message"]


# Transactions


def test_a_transaction_is_seen_when_it_commits(bench: Bench) -> None:
    receiver, sender = subscribed(bench), bench.connect()
    sender.send("BEGIN", transaction="t")
    sender.send("SEND", b"x", destination="/queue/orders", transaction="t")
    sender.settle()
    assert receiver.all() == []
    sender.send("COMMIT", transaction="t")
    sender.settle()
    assert bodies(receiver.all()) == [b"x"]


def test_an_aborted_transaction_never_was(bench: Bench) -> None:
    receiver, sender = subscribed(bench), bench.connect()
    sender.send("BEGIN", transaction="t")
    sender.send("SEND", b"x", destination="/queue/orders", transaction="t")
    sender.send("ABORT", transaction="t", receipt="r")
    assert sender.next().command == "RECEIPT"
    assert receiver.all() == []


def test_acknowledgements_take_effect_with_the_commit(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client-individual")
    sent(bench, b"a", b"b")
    one, two = receiver.all()
    receiver.send("BEGIN", transaction="t")
    receiver.send("ACK", b"", id=one.headers["ack"], transaction="t")
    receiver.send("COMMIT", transaction="t")
    receiver.send("BEGIN", transaction="u")
    receiver.send("ACK", b"", id=two.headers["ack"], transaction="u")
    receiver.settle()
    receiver.hang_up()
    assert bodies(subscribed(bench).all()) == [b"b"]


def test_after_an_abort_the_message_waits_for_another_ack(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client-individual")
    sent(bench, b"a")
    ack_id = receiver.next().headers["ack"]
    receiver.send("BEGIN", transaction="t")
    receiver.send("ACK", b"", id=ack_id, transaction="t")
    receiver.send("ABORT", transaction="t")
    assert receiver.all() == []  # it is not delivered again: the client has it
    receiver.send("ACK", b"", id=ack_id, receipt="r")
    assert receiver.next().command == "RECEIPT"
    receiver.hang_up()
    assert subscribed(bench).all() == []


@pytest.mark.parametrize("command", ["SEND", "COMMIT", "ABORT"])
def test_an_unknown_transaction_is_an_error(bench: Bench, command: str) -> None:
    client = bench.connect()
    answer = client.ask(command, transaction="t", destination="/queue/orders")
    assert "BEGIN it first" in answer.headers["message"]


# Permissions


@pytest.mark.parametrize(
    ("operation", "command", "headers"),
    [
        (Operation.WRITE, "SEND", {}),
        (Operation.CREATE, "SEND", {}),
        (Operation.READ, "SUBSCRIBE", {"id": "s"}),
        (Operation.BROWSE, "SUBSCRIBE", {"id": "s", "browser": "true"}),
    ],
)
def test_what_is_not_allowed_is_refused(
    bench: Bench, operation: Operation, command: str, headers: dict[str, str]
) -> None:
    bench.rules.denied.add((operation, "orders"))
    answer = bench.connect().ask(command, b"", destination="/queue/orders", **headers)
    assert answer.headers["code"] == "PYJMS-ACCESS"


@pytest.mark.parametrize("origin", ["queue://payroll", "queue://orders", "nonsense"])
def test_who_forges_a_dead_letter_has_sent_an_ordinary_message(bench: Bench, origin: str) -> None:
    bench.rules.denied.add((Operation.WRITE, "payroll"))
    client = bench.connect()
    said = origin.replace(":", "\\c")
    client.feed(f"SEND\ndestination:/queue/orders\nreceipt:r\nJMS_pyjms_deadDestination:{said}\n\nx\0".encode())
    assert client.next().command == "RECEIPT"
    assert QueueManager.of(bench.broker.name).replay("orders", dry_run=True).returned == 0


def test_a_queue_that_is_there_needs_no_permission_to_create(bench: Bench) -> None:
    sent(bench, b"x")
    bench.rules.denied.add((Operation.CREATE, "orders"))
    assert bench.connect().ask("SEND", b"y", destination="/queue/orders", receipt="r").command == "RECEIPT"


# The end


def test_disconnect_is_answered_and_ends(bench: Bench) -> None:
    client = bench.connect()
    assert client.ask("DISCONNECT", receipt="bye").headers["receipt-id"] == "bye"
    assert client.engine.is_over


def test_a_connection_that_breaks_gives_everything_back(bench: Bench) -> None:
    receiver = subscribed(bench, ack="client")
    sent(bench, b"x")
    receiver.settle()
    receiver.hang_up()
    assert subscribed(bench).next().headers["redelivered"] == "true"


def test_a_stopped_broker_tells_its_clients(bench: Bench) -> None:
    client = bench.connect()
    bench.close()
    assert client.next().command == "ERROR"
    assert client.engine.is_over


# Time


def test_who_does_not_log_in_is_hung_up_on(bench: Bench) -> None:
    client = Client(bench)
    due_ms = client.engine.next_tick_ms()
    assert due_ms is not None
    bench.clock.now_ms = due_ms
    client.engine.tick()
    assert "nobody logged in" in client.next().headers["message"]
    assert client.engine.is_over


def test_who_observes_the_broker_sees_who_is_connected(bench: Bench) -> None:
    client = Client(bench)
    client.log_in(login="alice", passcode="secret")
    (seen,) = bench.broker.clients().values()
    assert (seen.user, seen.address, seen.protocol) == ("alice", "127.0.0.1:50000", "stomp")
