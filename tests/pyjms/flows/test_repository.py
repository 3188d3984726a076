"""What management sees of a store of workflows, and how a person's decision is carried out without an engine."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms.flows import FlowClient, FlowEngine, FlowStore
from pyjms.flows.codec import reply_message
from pyjms.flows.definition import FlowException
from pyjms.flows.instance import Answer, Suspend
from pyjms.flows.repository import FlowRepository
from pyjms.flows.store import check_store_url, open_store
from pyjms.spi.clock import SystemClock
from pyjms.spi.errors import ClosedError
from pyjms.spi.provider import ConnectionEvents, ConnectRequest, ProviderConnection
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms.spi.workflows import (
    InstanceOrder,
    InstanceQuery,
    SteeringCommand,
    UnknownWorkflowError,
    WorkflowChangedError,
    WorkflowRepositoryRequest,
    WorkflowStateError,
    WorkflowStatus,
    WorkflowStoreError,
    find_opener,
)
from tests.pyjms.flows.supply import SUPPLY_FLOW, keep, parked

pytestmark = pytest.mark.realises("MOM-44", "MOM-54")


@pytest.fixture
def request_(broker_url: str) -> WorkflowRepositoryRequest:
    url = ProviderUrl.parse(broker_url)
    clock = SystemClock()

    def here(events: ConnectionEvents) -> ProviderConnection:
        asked_for = ConnectRequest(url=url, user_name=None, password=None, client_id=None, clock=clock)
        return find_provider("vm").connect(asked_for, events)

    return WorkflowRepositoryRequest(url="", events="events", here=here, clock=clock)


@pytest.fixture
def repository(store: FlowStore, request_: WorkflowRepositoryRequest) -> FlowRepository:
    store.deploy(SUPPLY_FLOW)
    return FlowRepository(store, request_)


@pytest.fixture
def session(factory: ConnectionFactory) -> Iterator[Session]:
    connection = factory.create_connection()
    connection.start()
    yield connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    connection.close()


def taken(session: Session, queue: str) -> list[tuple[str, Any]]:
    """Return the correlation ids and contents of what waits in a queue."""
    consumer = session.create_consumer(session.create_queue(queue))
    found: list[tuple[str, Any]] = []
    while (message := consumer.receive_no_wait()) is not None:
        assert isinstance(message, TextMessage)
        assert str(message.jms_reply_to) == "queue://events"
        found.append((message.jms_correlation_id or "", json.loads(message.text or "")))
    consumer.close()
    return found


def test_a_parked_instance_is_shown_with_all_that_is_needed_to_decide(
    store: FlowStore, repository: FlowRepository
) -> None:
    keep(store, "parked", *parked("parked"))
    found = repository.instance("parked")
    assert found is not None
    assert (found.status, found.step, found.is_backward) == (WorkflowStatus.PARKED, "weigh", False)
    assert found.reason == "weigh was not answered after 1 attempts"
    assert (found.visible_state, found.due_at_ms, found.data) == ("reserved", None, {"item": "tea"})
    assert [each.what for each in found.notes] == ["begun", "done", "overdue", "parked"]
    assert [(each.queue, each.correlation_id, each.is_waited_for) for each in found.requests] == [
        ("stock.reserve", "parked:reserve", False),
        ("stock.weigh", "parked:weigh", False),
    ]
    assert repository.picture_of("parked").startswith("<svg")


def test_an_instance_that_goes_backward_tells_which_compensation_it_waits_for(
    store: FlowStore, repository: FlowRepository
) -> None:
    refused = Answer(key="back:weigh", is_refused=True, reason="no scales")
    keep(store, "back", Answer(key="back:reserve"), refused)
    found = repository.instance("back")
    assert found is not None
    assert found.is_backward
    waited = [each for each in found.requests if each.is_waited_for]
    assert [(each.queue, each.correlation_id) for each in waited] == [("stock.free", "back:reserve:undo")]


def test_a_person_has_the_step_tried_again_with_no_engine_running(
    store: FlowStore, repository: FlowRepository, session: Session
) -> None:
    keep(store, "parked", *parked("parked"))
    after = repository.steer("parked", SteeringCommand.RETRY, reason="the scales are back", by="ann")
    assert (after.status, after.step, after.attempt) == (WorkflowStatus.RUNNING, "weigh", 1)
    assert [note.reason for note in after.notes if "by a person" in note.what] == ["ann: the scales are back"]
    assert repository.instance("parked") == after
    assert taken(session, "stock.weigh") == [("parked:weigh", {"item": "tea"})]


@pytest.mark.parametrize(
    ("command", "status", "queue", "key"),
    [
        (SteeringCommand.SKIP, WorkflowStatus.RUNNING, "bank.pay", "parked:pay"),
        (SteeringCommand.CANCEL, WorkflowStatus.COMPENSATING, "stock.free", "parked:reserve:undo"),
    ],
)
def test_a_person_goes_on_or_goes_back(
    store: FlowStore,
    repository: FlowRepository,
    session: Session,
    command: SteeringCommand,
    status: WorkflowStatus,
    queue: str,
    key: str,
) -> None:
    keep(store, "parked", *parked("parked"))
    assert repository.steer("parked", command, reason="", by="ann").status is status
    assert [each for each, _ in taken(session, queue)] == [key]


def test_a_running_instance_is_parked_and_nothing_is_asked_for(store: FlowStore, repository: FlowRepository) -> None:
    keep(store, "i")
    after = repository.steer("i", SteeringCommand.PARK, reason="wait", by="ann")
    assert (after.status, after.reason, after.due_at_ms) == (WorkflowStatus.PARKED, "ann: wait", None)


def test_of_two_who_decide_at_once_one_is_told_of_the_other(store: FlowStore, repository: FlowRepository) -> None:
    seen = keep(store, "parked", *parked("parked")).revision
    after = repository.steer("parked", SteeringCommand.RETRY, reason="", by="ann", revision=seen)
    with pytest.raises(WorkflowChangedError, match=f"it is running at revision {after.revision} now"):
        repository.steer("parked", SteeringCommand.CANCEL, reason="", by="bob", revision=seen)
    assert repository.instance("parked") == after


def test_an_engine_that_is_quicker_wins(
    store: FlowStore, repository: FlowRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    stale = keep(store, "i")
    moved = replace(stale, revision=stale.revision + 1)
    assert store.replace(moved, stale.revision)
    found = iter([stale, moved])
    monkeypatch.setattr(store, "find", lambda _: next(found))
    with pytest.raises(WorkflowChangedError):
        repository.steer("i", SteeringCommand.PARK, reason="", by="ann")


def test_what_means_nothing_is_refused_and_changes_nothing(store: FlowStore, repository: FlowRepository) -> None:
    before = keep(store, "i")
    with pytest.raises(WorkflowStateError, match=r"i is running.*only one that is parked can try again"):
        repository.steer("i", SteeringCommand.RETRY, reason="", by="ann")
    with pytest.raises(UnknownWorkflowError, match="no instance 'nobody'"):
        repository.steer("nobody", SteeringCommand.RETRY, reason="", by="ann")
    assert store.find("i") == before


def test_a_broker_that_takes_nothing_is_told_and_the_time_out_asks_again(
    store: FlowStore, request_: WorkflowRepositoryRequest
) -> None:
    def nowhere(_: ConnectionEvents) -> ProviderConnection:
        raise ClosedError("the host does not run")

    store.deploy(SUPPLY_FLOW)
    keep(store, "parked", *parked("parked"))
    repository = FlowRepository(store, replace(request_, here=nowhere))
    with pytest.raises(WorkflowStoreError, match=r"weigh could not be asked for now.*when its time is up"):
        repository.steer("parked", SteeringCommand.RETRY, reason="", by="ann")
    found = repository.instance("parked")
    assert found is not None
    assert found.due_at_ms is not None
    assert [each.id for each in store.overdue(found.due_at_ms)] == ["parked"]


def test_instances_are_counted_chosen_and_come_page_by_page(store: FlowStore, repository: FlowRepository) -> None:
    for number in range(5):
        keep(store, f"i{number}", at_ms=1_000 * (number + 1))
    keep(store, "parked", Suspend(reason="wait"), at_ms=10)
    assert {name: dict(found) for name, found in repository.counts().items()} == {
        "order": {WorkflowStatus.RUNNING: 5, WorkflowStatus.PARKED: 1}
    }
    running = InstanceQuery(workflow="order", status=WorkflowStatus.RUNNING, offset=1, limit=2)
    assert [each.id for each in repository.instances(running)] == ["i3", "i2"]
    assert repository.count(running) == 5
    oldest = InstanceQuery(order=InstanceOrder.OLDEST_FIRST, limit=2)
    assert [each.id for each in repository.instances(oldest)] == ["parked", "i0"]
    assert repository.instance_ids() == ["i0", "i1", "i2", "i3", "i4", "parked"]
    assert repository.count(InstanceQuery(workflow="other")) == 0


def test_definitions_are_shown_and_drawn(repository: FlowRepository) -> None:
    (found,) = repository.definitions()
    assert (found.name, found.version, found.title) == ("order", 1, "An order of three companies")
    first = found.steps[0]
    assert (first.name, first.compensation, first.timeout_ms) == ("reserve", "stock.free", 10_000)
    assert "reserve" in repository.picture("order")
    with pytest.raises(UnknownWorkflowError, match="no definition nothing"):
        repository.picture("nothing")


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///:memory:", "sqlite+pysqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"],
)
def test_a_database_in_memory_is_refused_with_a_remedy(url: str) -> None:
    """Each thread had one of its own: an engine did not find what another thread had begun."""
    for opens in (check_store_url, open_store):
        with pytest.raises(FlowException, match=r"each thread would have another one.* sqlite:///flows.db"):
            opens(url)


def test_a_database_that_cannot_be_opened_is_told(request_: WorkflowRepositoryRequest) -> None:
    with pytest.raises(WorkflowStoreError, match="cannot be opened"):
        find_opener("sql").open(replace(request_, url="sqlite:////nowhere/at/all.db"))


def test_an_engine_goes_on_from_what_a_person_decided(
    store: FlowStore, repository: FlowRepository, factory: ConnectionFactory, session: Session
) -> None:
    keep(store, "parked", *parked("parked"))
    repository.steer("parked", SteeringCommand.RETRY, reason="", by="ann")
    answer = reply_message(session, Answer(key="parked:weigh", data={"grams": 250}))
    answer.jms_correlation_id = "parked:weigh"
    session.create_producer(session.create_queue("events")).send(answer)
    FlowEngine(factory, store, events="events").run(until_idle=True)
    after = repository.instance("parked")
    assert after is not None
    assert (after.status, after.step) == (WorkflowStatus.RUNNING, "pay")
    assert taken(session, "bank.pay") == [("parked:pay", {"item": "tea", "grams": 250})]


def test_a_reason_travels_with_the_event_too(store: FlowStore, factory: ConnectionFactory, session: Session) -> None:
    store.deploy(SUPPLY_FLOW)
    keep(store, "parked", *parked("parked"))
    FlowClient(session, events="events").retry("parked", reason="the scales are back")
    FlowEngine(factory, store, events="events").run(until_idle=True)
    found = store.find("parked")
    assert found is not None
    assert ("tried again by a person", "the scales are back") in [(each.what, each.reason) for each in found.story]


def test_what_fails_is_told_without_the_statement_and_what_is_in_it(tmp_path: Path, repository: FlowRepository) -> None:
    with closing(sqlite3.connect(tmp_path / "flows.db")) as database:
        database.execute("DROP TABLE pyjms_flow_instances")
    with pytest.raises(WorkflowStoreError, match="no such table: pyjms_flow_instances") as told:
        repository.instance("secret-order")
    assert "SELECT" not in str(told.value)
    assert "secret-order" not in str(told.value.__cause__)
