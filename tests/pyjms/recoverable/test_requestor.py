"""Requests that survive: every step of a client is its last one once, and each time the work is done and printed once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, IllegalArgumentException, JMSException
from pyjms.recoverable import (
    ClientLogException,
    PersistentSession,
    RecoverableRequestor,
    RecoveryNeededException,
    Reply,
    SessionTakenException,
    State,
)
from pyjms.recoverable.registration import StoredRegistration
from pyjms.recoverable.sql_logs import SqlClientLog
from pyjms.spi.capability import Capability
from pyjms.spi.sessions import RegisteredClient
from pyjms_provider.broker import stop_broker
from tests.pyjms.recoverable.world import Died, Fate, MortalLog, Printer, Shop, mortal, requestor_of, text_message
from tests.pyjms.runtime.wrapping import Wrapped

_numbers = count(1)


@pytest.fixture(params=["queue manager", "message"])
def factory(request: pytest.FixtureRequest) -> Iterator[ConnectionFactory]:
    """The register of a client is kept by the queue manager; at brokers without persistent sessions it is a message."""
    name = f"requestor-{next(_numbers)}"
    if request.param == "message":
        with Wrapped(f"vm://{name}", remove=Capability.PERSISTENT_SESSIONS) as wrapped:
            yield ConnectionFactory(wrapped.url)
    else:
        yield ConnectionFactory(f"vm://{name}")
    stop_broker(name)


def clients_of(factory: ConnectionFactory) -> list[RegisteredClient] | None:
    """The registered clients; None: a client's register is a message."""
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        if not PersistentSession.is_supported(session):
            return None
        return list(session.connection.persistent_sessions().clients())


def one_request(
    factory: ConnectionFactory, log_url: str, fate: Fate, shop: Shop, printer: Printer, *, device: bool
) -> None:
    """What one run of the client's program does: recover first, then ask if nothing was asked yet."""
    with closing(MortalLog(log_url, fate)) as log, requestor_of(factory, log, printer if device else None) as desk:

        def handle(reply: Reply) -> None:
            fate.step("before the page is printed")
            if device or f"{reply.number}: done: tea" not in printer.pages:
                printer.print(reply)
            fate.step("after the page was printed")

        shop.serve()
        recovery = desk.recover(handle, timeout_ms=1)
        if recovery.state is State.A:
            shop.serve()
            assert desk.complete(handle, timeout_ms=1)
        if recovery.number == 0:
            desk.submit(text_message(factory, "tea"))
            shop.serve()
            assert desk.complete(handle, timeout_ms=1) is not None


@pytest.mark.realises("MOM-15", "MOM-16", "MOM-18", "MOM-19", "MOM-22", "MOM-25")
@pytest.mark.parametrize(
    "device",
    [
        pytest.param(True, marks=pytest.mark.realises("MOM-26")),
        pytest.param(False, marks=pytest.mark.realises("MOM-27", "MOM-28")),
    ],
)
def test_a_client_that_dies_at_any_step_has_its_work_done_and_printed_once(
    factory: ConnectionFactory, log_url: str, monkeypatch: pytest.MonkeyPatch, device: bool
) -> None:
    whole = Fate()
    with monkeypatch.context() as patch:
        mortal(patch, whole)
        one_request(factory, log_url, whole, Shop(factory), Printer(), device=device)
    assert len(whole.steps) >= (12 if clients_of(factory) is not None else 14)
    for step in range(1, len(whole.steps) + 1):
        shop, printer, fate = Shop(factory), Printer(), Fate(step)
        url = log_url.replace("desk", f"desk-{step}")
        drop_register(factory)
        with monkeypatch.context() as patch:
            mortal(patch, fate)
            with pytest.raises(Died):
                one_request(factory, url, fate, shop, printer, device=device)
        one_request(factory, url, Fate(), shop, printer, device=device)
        assert shop.worked_on == [("desk", 1)], whole.steps[step - 1]
        assert printer.pages == ["1: done: tea"], whole.steps[step - 1]


def drop_register(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        if PersistentSession.is_supported(session):
            for client in session.connection.persistent_sessions().clients():
                session.connection.persistent_sessions().deregister(client.name)
            return
        consumer = session.create_consumer(session.create_queue("pyjms.registered.desk"))
        connection.start()
        while consumer.receive_no_wait() is not None:
            pass


@pytest.mark.realises("MOM-21", "MOM-23", "MOM-35")
def test_the_queue_manager_keeps_the_ids_of_the_last_committed_transactions(
    factory: ConnectionFactory, log_url: str
) -> None:
    shop, log = Shop(factory), SqlClientLog(log_url)
    with requestor_of(factory, log) as desk:
        desk.submit(text_message(factory, "tea"))
        assert kept(factory) == (1, log.read("desk").request_id, 0, "")  # type: ignore[union-attr]
        shop.serve()
        desk.complete()
        entry = log.read("desk")
        assert entry is not None
        assert kept(factory) == (1, entry.request_id, 1, entry.reply_id)
    log.close()


def kept(factory: ConnectionFactory) -> tuple[int, str | None, int, str | None]:
    clients = clients_of(factory)
    if clients is not None:
        (client,) = clients
        request, reply = ((tag or "0 ").split(" ") for tag in (client.request_tag, client.reply_tag))
        return int(request[0]), request[1], int(reply[0]), reply[1]
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        browser = session.create_browser(session.create_queue("pyjms.registered.desk"))
        (register,) = browser.enumeration
        return (
            register.get_long_property("pyjms_request_number"),
            register.get_string_property("pyjms_request_id"),
            register.get_long_property("pyjms_reply_number"),
            register.get_string_property("pyjms_reply_id"),
        )


def test_requests_follow_one_another_with_growing_numbers(factory: ConnectionFactory, log_url: str) -> None:
    shop, printer = Shop(factory), Printer()
    with requestor_of(factory, log_url, printer) as desk:
        for number, text in enumerate(("tea", "milk", "sugar"), 1):
            assert desk.submit(text_message(factory, text)) == number
            shop.serve()
            desk.complete(printer.print, 1)
    assert printer.pages == ["1: done: tea", "2: done: milk", "3: done: sugar"]
    with requestor_of(factory, log_url, printer) as desk:
        assert desk.recover().state is State.D
        assert desk.submit(text_message(factory, "lemon")) == 4


def test_a_reply_that_is_late_leaves_the_request_open(factory: ConnectionFactory, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        assert desk.request(text_message(factory, "tea"), timeout_ms=1) is None
        with pytest.raises(RecoveryNeededException, match="request 1 of client 'desk' is open"):
            desk.submit(text_message(factory, "milk"))
        recovery = desk.recover(timeout_ms=1)
        assert (recovery.state, recovery.reply) == (State.B, None)
        Shop(factory).serve()
        assert desk.complete(timeout_ms=1) is not None
        with pytest.raises(RecoveryNeededException, match="there is no open request"):
            desk.complete()


def test_a_new_run_must_recover_before_it_asks(factory: ConnectionFactory, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        desk.submit(text_message(factory, "tea"))
    with requestor_of(factory, log_url) as desk, pytest.raises(RecoveryNeededException):
        desk.submit(text_message(factory, "milk"))


def test_a_handler_that_fails_gets_the_reply_again_marked_repeated(factory: ConnectionFactory, log_url: str) -> None:
    seen: list[bool] = []

    def handle(reply: Reply) -> None:
        seen.append(reply.repeated)
        if len(seen) == 1:
            raise OSError("out of paper")

    with requestor_of(factory, log_url) as desk:
        desk.submit(text_message(factory, "tea"))
        Shop(factory).serve()
        with pytest.raises(OSError, match="out of paper"):
            desk.complete(handle)
        assert desk.recover(handle).state is State.C
    assert seen == [False, True]


def test_notes_come_back_with_the_reply_of_the_next_run(factory: ConnectionFactory, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        desk.submit(text_message(factory, "tea"))
        desk.remember(read="card 17")
        desk.remember(till=2)
    Shop(factory).serve()
    notes: list[object] = []
    with requestor_of(factory, log_url) as desk:
        desk.recover(lambda reply: notes.append(dict(reply.notes)))
    assert notes == [{"read": "card 17", "till": 2}]


def test_a_client_that_lost_its_log_still_gets_its_reply(factory: ConnectionFactory, tmp_path: Path) -> None:
    printer = Printer()
    with requestor_of(factory, f"sqlite:///{tmp_path / 'first.db'}") as desk:
        desk.submit(text_message(factory, "tea"))
    Shop(factory).serve()
    with requestor_of(factory, f"sqlite:///{tmp_path / 'second.db'}") as desk:
        recovery = desk.recover(printer.print)
        assert (recovery.state, recovery.number) == (State.C, 1)
        assert desk.submit(text_message(factory, "milk")) == 2
    assert printer.pages == ["1: done: tea"]


def test_a_reply_to_another_request_is_dropped(factory: ConnectionFactory, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        desk.submit(text_message(factory, "tea"))
        with factory.create_connection() as connection:
            session = connection.create_session(False, 1)
            stray = session.create_text_message("stray")
            stray.jms_correlation_id = "of long ago"
            session.create_producer(session.create_queue("pyjms.replies.desk")).send(stray)
        Shop(factory).serve()
        reply = desk.complete()
        assert reply is not None
        assert reply.text == "done: tea"  # type: ignore[attr-defined]


@pytest.mark.realises("MOM-35")
def test_one_program_at_a_time_has_a_name(factory: ConnectionFactory, log_url: str) -> None:
    first, second = requestor_of(factory, log_url), requestor_of(factory, log_url)
    first.submit(text_message(factory, "tea"))
    assert second.recover(timeout_ms=1).state is State.B
    Shop(factory).serve()
    with pytest.raises(SessionTakenException, match="another program has registered as 'desk'"):
        first.complete()
    assert second.complete() is not None
    first.close()
    second.close()


def test_a_register_that_is_gone_is_told(factory: ConnectionFactory, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        desk.recover()
    drop_register(factory)
    is_message = clients_of(factory) is None
    error, why = (
        (SessionTakenException, "did not come within 50 ms")
        if is_message
        else (ClientLogException, "has lost its messages")
    )
    for _ in range(2):  # also when it is tried again
        with requestor_of(factory, log_url) as desk, pytest.raises(error, match=why):
            desk.recover()


def test_a_log_of_another_registration_is_refused(factory: ConnectionFactory, tmp_path: Path, log_url: str) -> None:
    with requestor_of(factory, log_url) as desk:
        desk.recover()
    drop_register(factory)
    with requestor_of(factory, f"sqlite:///{tmp_path / 'other.db'}") as desk:
        desk.recover()
    with requestor_of(factory, log_url) as desk, pytest.raises(ClientLogException, match="another registration"):
        desk.recover()


def test_a_log_that_cannot_be_used_is_told(factory: ConnectionFactory, tmp_path: Path) -> None:
    with pytest.raises(ClientLogException, match="cannot be opened"):
        requestor_of(factory, f"sqlite:///{tmp_path / 'missing' / 'desk.db'}")
    with pytest.raises(ClientLogException, match="cannot be opened"):
        requestor_of(factory, "no url")
    with pytest.raises(IllegalArgumentException, match="1 to 200"):
        RecoverableRequestor(factory, "", "orders", log=f"sqlite:///{tmp_path / 'desk.db'}")


def test_a_damaged_request_in_the_log_is_told(
    factory: ConnectionFactory, log_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fate = Fate()
    mortal(monkeypatch, fate)
    with closing(MortalLog(log_url, fate)) as log, requestor_of(factory, log) as desk:
        desk.recover()
        fate.dies_at = len(fate.steps) + 3
        with pytest.raises(Died, match="before the commit"):
            desk.submit(text_message(factory, "tea"))
    with closing(SqlClientLog(log_url)) as plain:
        entry = plain.read("desk")
        assert entry is not None
        plain.write(replace(entry, request="{}"))
        with requestor_of(factory, plain) as desk, pytest.raises(ClientLogException, match="is damaged"):
            desk.recover()


def test_a_provider_without_transactions_is_refused_by_name(log_url: str) -> None:
    with Wrapped("vm://untransacted", remove=Capability.TRANSACTIONS) as wrapped:
        with (
            requestor_of(ConnectionFactory(wrapped.url), log_url) as desk,
            pytest.raises(JMSException, match="TRANSACTIONS"),
        ):
            desk.recover()
        stop_broker("untransacted")


@pytest.mark.parametrize("dies_at", [None, "between log and commit", "after the commit"])
@pytest.mark.parametrize("has_reply", [False, True])
def test_a_register_that_an_earlier_version_made_as_a_message_is_taken_over(
    log_url: str, monkeypatch: pytest.MonkeyPatch, dies_at: str | None, has_reply: bool
) -> None:
    """Broker and program are upgraded while a request is open, or after its reply was taken; the program may die in its first run."""
    with Wrapped("vm://upgraded", remove=Capability.PERSISTENT_SESSIONS) as former:
        old, new = ConnectionFactory(former.url), ConnectionFactory("vm://upgraded")
        shop, printer = Shop(new), Printer()
        with requestor_of(old, log_url, printer) as desk:
            assert desk.submit(text_message(old, "tea")) == 1
            shop.serve()
            if has_reply:
                desk.complete(printer.print, 1)
    if dies_at is not None:
        with monkeypatch.context() as patch:
            commit = StoredRegistration.commit

            def die(registration: StoredRegistration) -> None:
                if dies_at == "after the commit":
                    commit(registration)
                raise Died(dies_at)

            patch.setattr(StoredRegistration, "commit", die)
            with requestor_of(new, log_url, printer) as desk, pytest.raises(Died):
                desk.recover(printer.print, timeout_ms=1)
    with requestor_of(new, log_url, printer) as desk:
        assert desk.recover(printer.print, timeout_ms=1).state is (State.D if has_reply else State.C)
        assert desk.submit(text_message(new, "milk")) == 2
        shop.serve()
        desk.complete(printer.print, 1)
    assert shop.worked_on == [("desk", 1), ("desk", 2)]
    assert printer.pages == ["1: done: tea", "2: done: milk"]
    assert [client.request_tag.split(" ")[0] for client in clients_of(new) or () if client.request_tag] == ["2"]
    stop_broker("upgraded")


@pytest.mark.realises("MOM-23", "MOM-35")
def test_any_program_asks_the_queue_manager_what_it_had_committed(vm_url: str) -> None:
    with ConnectionFactory(vm_url).create_connection() as connection:
        session = connection.create_session(True, 0)
        queue = session.create_queue("orders")
        first = PersistentSession(session, "till")
        assert (first.last_request, first.last_reply) == (None, None)
        session.create_producer(queue).send(session.create_message())
        first.tag_request("order 1")
        session.commit()
        first.tag_request("order 2")
        first.tag_reply("answer 1")
        session.rollback()
        second = PersistentSession(session, "till")
        assert (second.last_request, second.last_reply) == ("order 1", None)
        with pytest.raises(JMSException, match="has registered again since"):
            first.tag_reply("answer 1")
        second.deregister()
        with pytest.raises(JMSException, match="there is no registered client 'till'"):
            second.tag_reply("answer 1")


def test_a_program_at_a_broker_without_persistent_sessions_is_told(vm_url: str) -> None:
    with (
        Wrapped(vm_url, remove=Capability.PERSISTENT_SESSIONS) as wrapped,
        ConnectionFactory(wrapped.url).create_connection() as connection,
        pytest.raises(JMSException, match=r"has no persistent sessions \(Capability.PERSISTENT_SESSIONS\)"),
    ):
        PersistentSession(connection.create_session(True, 0), "till")
