"""Engines that share the work and may die at every step: each instance is completed or compensated, each work done once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, text

from pyjms import ConnectionFactory, JMSException, JMSSecurityException, ResourceAllocationException
from pyjms.flows import FlowClient, FlowEngine, FlowException, FlowStore, Instance, Status, StepRefused, StepServer
from pyjms.flows.definition import FlowStoreException
from pyjms.recoverable import Unit
from pyjms.recoverable.sql_logs import SqlReplies
from pyjms.runtime.connection import JmsConnection
from pyjms.runtime.session import JmsSession
from pyjms.testing import VirtualClock
from tests.pyjms.flows.supply import supply_flow


class Died(BaseException):
    """The process died here."""


class Companies:
    """Serves all steps; counts in a database what was done and undone."""

    def __init__(self, factory: ConnectionFactory, database: Engine) -> None:
        self.factory = factory
        self.database = database
        self.refusing: set[str] = set()

    def serve(self) -> int:
        """Serve what is there, at each company in turn."""
        queues = [(step.queue, step.name) for step in supply_flow().steps]
        queues += [(step.compensation, f"undo {step.name}") for step in supply_flow().steps if step.compensation]
        return sum(self.server(queue, what).serve(timeout_ms=1) for queue, what in queues)

    def server(self, queue: str, what: str) -> StepServer:
        def work(data: Mapping[str, Any], unit: Unit) -> Mapping[str, Any]:
            unit.connection.execute(text("INSERT INTO works VALUES (:what)"), {"what": f"{data['order']} {what}"})
            if what in self.refusing:
                raise StepRefused("not today")
            return {what: "done"}

        return StepServer(self.factory, queue, work, database=self.database)

    def works(self) -> Counter[str]:
        return Counter(self.history())

    def history(self) -> list[str]:
        """Return all works in the order in which they were done."""
        with self.database.connect() as connection:
            return list(connection.execute(text("SELECT what FROM works ORDER BY rowid")).scalars())


@pytest.fixture
def companies(factory: ConnectionFactory, tmp_path: Path) -> Iterator[Companies]:
    database = create_engine(f"sqlite:///{tmp_path / 'companies.db'}")
    with database.begin() as connection:
        connection.execute(text("CREATE TABLE works (what TEXT)"))
    yield Companies(factory, database)
    database.dispose()


def start(factory: ConnectionFactory, *orders: str) -> list[str]:
    with factory.create_connection() as connection:
        client = FlowClient(connection.create_session(False, 1))
        return [client.start("order", {"order": order}, instance=f"instance-{order}") for order in orders]


def settle(companies: Companies, store: FlowStore, clock: VirtualClock | None = None) -> None:
    """Let engine and companies work until nothing is left to do."""
    while FlowEngine(companies.factory, store, clock=clock).run(until_idle=True) + companies.serve():
        pass


def found(store: FlowStore, instance: str) -> Instance:
    known = store.find(instance)
    assert known is not None
    return known


@pytest.mark.realises("MOM-38", "MOM-41", "MOM-54", "MOM-55")
def test_an_order_goes_through_all_companies(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    (instance,) = start(factory, "tea")
    settle(companies, store)
    assert found(store, instance).status is Status.COMPLETED
    assert companies.history() == ["tea reserve", "tea weigh", "tea pay", "tea ship"]
    assert found(store, instance).data["ship"] == "done"


@pytest.mark.realises("MOM-43")
def test_an_order_that_cannot_be_shipped_is_taken_back(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    companies.refusing = {"ship"}
    (instance,) = start(factory, "tea")
    settle(companies, store)
    assert (found(store, instance).status, found(store, instance).reason) == (
        Status.COMPENSATED,
        "ship was refused: not today",
    )
    wanted = ["tea reserve", "tea weigh", "tea pay", "tea undo pay", "tea undo reserve"]
    assert companies.history() == wanted, "what a refused step wrote is rolled back"


@pytest.mark.realises("MOM-44")
def test_a_compensation_that_is_refused_waits_for_a_person(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    companies.refusing = {"ship", "undo pay"}
    (instance,) = start(factory, "tea")
    settle(companies, store)
    parked = found(store, instance)
    assert (parked.status, parked.reason) == (Status.PARKED, "the compensation of pay was refused: not today")
    with factory.create_connection() as connection:
        FlowClient(connection.create_session(False, 1)).retry(instance, skip=True)
    settle(companies, store)
    assert found(store, instance).status is Status.COMPENSATED


@pytest.mark.realises("MOM-39", "MOM-40")
def test_a_company_that_is_away_holds_nobody_up(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    clock = VirtualClock()
    (instance,) = start(factory, "tea")
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    clock.advance(11_000)
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    assert found(store, instance).attempt == 2
    settle(companies, store, clock)  # the company has two requests now, and works once
    assert found(store, instance).status is Status.COMPLETED
    assert companies.works()["tea reserve"] == 1


def test_a_step_that_is_asked_for_after_its_compensation_is_not_done(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    clock = VirtualClock()
    (instance,) = start(factory, "tea")
    for _ in range(3):
        FlowEngine(factory, store, clock=clock).run(until_idle=True)
        clock.advance(13_000)
    assert found(store, instance).status is Status.COMPENSATING
    undo = companies.server("stock.free", "undo reserve")
    assert undo.serve(timeout_ms=1) >= 1
    settle(companies, store, clock)
    assert found(store, instance).status is Status.COMPENSATED
    assert companies.works() == {}


def test_a_step_that_a_person_skips_is_the_only_one_though_the_engine_dies(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [{"name": name, "queue": name, "timeout_s": 10, "retries": 0, "on_timeout": "park"} for name in "abc"]
    store.deploy(supply_flow(step=steps))
    clock = VirtualClock()
    (instance,) = start(factory, "tea")
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    clock.advance(11_000)
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    with factory.create_connection() as connection:
        client = FlowClient(connection.create_session(False, 1))
        client.retry(instance, skip=True)
        client.retry(instance, skip=True)  # out of impatience: it means nothing by now

    def dying(_: object) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(JmsSession, "commit", dying)
        FlowEngine(factory, store, clock=clock).run(until_idle=True)
    assert (found(store, instance).status, found(store, instance).position) == (Status.RUNNING, 1)
    clock.advance(11_000)  # nobody was there for longer than the second step may take
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    assert (found(store, instance).status, found(store, instance).position) == (Status.PARKED, 1)
    assert [note.what for note in found(store, instance).story].count("skipped by a person") == 1
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        assert len(list(session.create_browser(session.create_queue("b")).enumeration)) == 1


def test_one_id_begins_one_instance(factory: ConnectionFactory, store: FlowStore, companies: Companies) -> None:
    store.deploy(supply_flow())
    start(factory, "tea", "tea")
    settle(companies, store)
    assert [each.status for each in store.instances()] == [Status.COMPLETED]
    assert set(companies.works().values()) == {1}


@pytest.mark.realises("MOM-43", "MOM-54")
@pytest.mark.parametrize("refusing", ["", "ship"])
@pytest.mark.parametrize("point", ["keep", "commit"])
def test_an_engine_that_dies_around_any_of_its_writes_is_followed_by_another(
    factory: ConnectionFactory,
    store: FlowStore,
    companies: Companies,
    monkeypatch: pytest.MonkeyPatch,
    refusing: str,
    point: str,
) -> None:
    store.deploy(supply_flow())
    companies.refusing = {refusing} if refusing else set()
    owner: Any = JmsSession if point == "commit" else type(store)
    original = getattr(owner, point)
    deaths = [0]

    def dying(it: Any, *arguments: Any) -> Any:
        """Die before every third call, and after every second other one."""
        deaths[0] += 1
        if deaths[0] % 3 == 1:
            raise Died
        result = original(it, *arguments)
        if deaths[0] % 3 == 2:
            raise Died
        return result

    orders = [f"order-{number}" for number in range(3)]
    start(factory, *orders)
    for _ in range(200):
        with monkeypatch.context() as patch:
            patch.setattr(owner, point, dying)
            try:
                FlowEngine(factory, store).run(until_idle=True)
                is_idle = True
            except Died:
                is_idle = False
        if not companies.serve() and is_idle:
            break
    assert deaths[0] > 3
    ended = Status.COMPENSATED if refusing else Status.COMPLETED
    assert [found(store, f"instance-{order}").status for order in orders] == [ended] * 3
    assert set(companies.works().values()) == {1}


def test_an_event_that_nobody_understands_is_put_aside(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        session.create_producer(session.create_queue("pyjms.flows")).send(session.create_text_message("hello"))
        FlowClient(session).retry("nobody")
        FlowClient(session).start("unknown")
        settle(companies, store)
        connection.start()
        consumer = session.create_consumer(session.create_queue("pyjms.flows.bad"))
        assert len(list(iter(consumer.receive_no_wait, None))) == 3


BAD_STARTS = {
    "deep": ("1", "[" * 100_000 + "]" * 100_000),
    "endless": ("1", '{"flow": "order", "version": Infinity, "data": {}}'),
    "large": ("1", '{"flow": "order", "version": 100000000000000000000, "data": {}}'),
    "fraction": ("1", '{"flow": "order", "version": 1.5, "data": {}}'),
    "half a pair": ("1", '{"flow": "\\ud800", "version": 0, "data": {}}'),
    "half a pair in data": ("1", '{"flow": "order", "version": 0, "data": {"a": "\\ud800"}}'),
    "no number": ("1", '{"flow": "order", "version": 0, "data": {"a": NaN}}'),
    "id of half a pair": ("\ud800", '{"flow": "order", "version": 0, "data": {}}'),
    "id with a zero": ("1\0", '{"flow": "order", "version": 0, "data": {}}'),
    "long name": ("1", json.dumps({"flow": "x" * 1000, "version": 0, "data": {}})),
}


@pytest.mark.parametrize("bad", BAD_STARTS)
def test_no_event_ends_an_engine(factory: ConnectionFactory, store: FlowStore, companies: Companies, bad: str) -> None:
    store.deploy(supply_flow())
    instance, body = BAD_STARTS[bad]
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        message = session.create_text_message(body)
        message.set_string_property("pyjms_flow", "start")
        message.set_string_property("pyjms_flow_instance", instance)
        session.create_producer(session.create_queue("pyjms.flows")).send(message)
        (good,) = start(factory, "tea")
        settle(companies, store)
        assert found(store, good).status is Status.COMPLETED
        assert store.ids() == [good]
        connection.start()
        consumer = session.create_consumer(session.create_queue("pyjms.flows.bad"))
        assert consumer.receive_no_wait() is not None


def test_a_version_is_not_changed_and_instances_stay_with_theirs(
    factory: ConnectionFactory, store: FlowStore, companies: Companies
) -> None:
    store.deploy(supply_flow())
    store.deploy(supply_flow())
    with pytest.raises(FlowException, match="give the changed definition a higher version"):
        store.deploy(supply_flow(title="another"))
    (instance,) = start(factory, "tea")
    FlowEngine(factory, store).run(until_idle=True)
    store.deploy(supply_flow(version=2, step=[{"name": "only", "queue": "only"}]))
    settle(companies, store)
    assert (found(store, instance).version, found(store, instance).status) == (1, Status.COMPLETED)
    assert [flow.version for flow in store.flows()] == [1, 2]
    assert store.flow("order").version == 2


def test_what_a_step_did_is_not_committed_without_its_reply(
    factory: ConnectionFactory, store: FlowStore, companies: Companies, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.deploy(supply_flow())
    (instance,) = start(factory, "tea")
    FlowEngine(factory, store).run(until_idle=True)

    def dying(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patch, pytest.raises(Died):
        patch.setattr(SqlReplies, "keep", dying)
        companies.serve()
    assert companies.works() == {}
    settle(companies, store)
    assert found(store, instance).status is Status.COMPLETED
    assert set(companies.works().values()) == {1}


def test_two_engines_that_see_one_time_out_ask_once_for_another_attempt(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.deploy(supply_flow())
    clock = VirtualClock()
    (instance,) = start(factory, "tea")
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    clock.advance(11_000)
    keep = type(store).keep
    ends: list[str] = []

    def stalled(it: FlowStore, *what: Any) -> bool:
        """Stand still before the write for as long as another engine needs for all of it."""
        if not ends:
            ends.append("stalled")
            FlowEngine(factory, store, clock=clock).run(until_idle=True)
        ends.append("kept" if (is_kept := keep(it, *what)) else "too late")
        return is_kept

    monkeypatch.setattr(type(store), "keep", stalled)
    FlowEngine(factory, store, clock=clock).run(until_idle=True)
    assert ends == ["stalled", "kept", "too late"]
    assert found(store, instance).attempt == 2
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        asked = list(session.create_browser(session.create_queue("stock.reserve")).enumeration)
    assert [each.get_int_property("pyjms_flow_attempt") for each in asked] == [1, 2]


def test_a_store_that_fails_ends_the_engine_and_loses_nothing(
    factory: ConnectionFactory, store: FlowStore, companies: Companies, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.deploy(supply_flow())
    (instance,) = start(factory, "tea")

    def full(*_: object) -> bool:
        raise FlowStoreException("the disk is full")

    with monkeypatch.context() as patch, pytest.raises(FlowStoreException):
        patch.setattr(type(store), "keep", full)
        FlowEngine(factory, store).run(until_idle=True)
    settle(companies, store)
    assert found(store, instance).status is Status.COMPLETED


def fail_at_first(patch: pytest.MonkeyPatch, error: JMSException, attempts: int) -> None:
    """Have so many attempts to connect end with `error`."""
    original, left = ConnectionFactory.create_connection, [attempts]

    def connect(*arguments: Any) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise error
        return original(*arguments)

    patch.setattr(ConnectionFactory, "create_connection", connect)


def test_an_engine_may_be_started_before_its_broker(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.deploy(supply_flow())
    start(factory, "tea")
    fail_at_first(monkeypatch, ResourceAllocationException("nobody is there"), 2)
    troubles: list[str] = []
    engine = FlowEngine(factory, store, on_trouble=lambda error: troubles.append(str(error)))
    keep = store.keep

    def keep_and_stop(*what: Any) -> bool:
        is_kept = keep(*what)
        engine.stop()
        return is_kept

    monkeypatch.setattr(store, "keep", keep_and_stop)
    engine.run()
    assert troubles == ["nobody is there"] * 2
    assert found(store, "instance-tea").status is Status.RUNNING


def test_a_connection_that_does_not_close_well_ends_no_engine(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.deploy(supply_flow())
    start(factory, "tea")
    close = JmsConnection.close

    def close_badly(connection: JmsConnection) -> None:
        close(connection)
        raise JMSException("the cable is cut")

    with monkeypatch.context() as patch:
        patch.setattr(JmsConnection, "close", close_badly)
        assert FlowEngine(factory, store).run(until_idle=True) == 1
    assert found(store, "instance-tea").status is Status.RUNNING


def test_an_engine_that_may_not_log_in_ends_at_once(
    factory: ConnectionFactory, store: FlowStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_first(monkeypatch, JMSSecurityException("who are you?"), 1)
    with pytest.raises(JMSSecurityException):
        FlowEngine(factory, store).run()


def test_park_is_the_former_name_of_suspend(factory: ConnectionFactory) -> None:
    with factory.create_connection() as connection:
        session = connection.create_session(False, 1)
        connection.start()
        with pytest.warns(DeprecationWarning, match="is called suspend"):
            FlowClient(session).park("i", "wait")
        event = session.create_consumer(session.create_queue("pyjms.flows")).receive(5_000)
        assert event is not None
        assert event.get_string_property("pyjms_flow") == "park"
