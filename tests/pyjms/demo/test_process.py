"""The supply chain: what goes in comes out once, whatever fails, and the accounting notices when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms import Connection, JMSException, MapMessage, MessageProducer, Session
from pyjms.demo.books import Happening, Outcome, StageCounter
from pyjms.demo.plan import Plan, Value, make_plan, read_table
from pyjms.demo.process import Process
from pyjms.demo.settings import Chance, Settings
from pyjms.demo.workers import Step, StepMakers
from pyjms.spi.clock import SystemClock
from pyjms_provider.broker import find_broker
from pyjms_provider.core.host.host_policy import HostPolicy
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.settings import BrokerSettings

CITIES = ("Rome", "Oslo", "", "Lima", "Rome")
COUNT = 40
VICTIM = 7


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    file = tmp_path / "orders.csv"
    rows = [f"{1000 + number},{CITIES[number % 5]},{number / 4}" for number in range(COUNT)]
    file.write_text("order,city,price\n" + "\n".join(rows) + "\n")
    return make_plan(read_table(file), lanes=2)


def process_of(
    plan: Plan, url: str, *, seed: int = 1, rate: float = 0.0, makers: type[StepMakers] = StepMakers
) -> Process:
    return Process(plan, Settings(url=url, workers=2, chance=Chance(seed=seed, rate=rate)), makers)


def undone(counter: StageCounter) -> int:
    return counter[Happening.ROLLED_BACK] + counter[Happening.CRASHED]


@pytest.mark.realises("BOIL-TX-1")
def test_everything_arrives_where_it_belongs(plan: Plan, jms_broker_url: str) -> None:
    process = process_of(plan, jms_broker_url)
    outcome = process.run()
    assert outcome.adds_up, outcome
    assert [(lane.name, verdict.found) for lane, verdict in outcome.lanes] == [
        ("Rome", 16),
        ("(empty)", 8),
        ("everything else", 16),
    ]
    assert outcome.ledger.found == outcome.board.found == COUNT
    assert outcome.attention.found == 8
    assert [undone(counter) for counter in process.counters] == [0] * 8


@pytest.mark.realises("BOIL-TX-2", "BOIL-CONN-13", "BOIL-HDR-7")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_fails_is_undone_and_done_again(plan: Plan, jms_broker_url: str, seed: int) -> None:
    process = process_of(plan, jms_broker_url, seed=seed, rate=0.6)
    outcome = process.run()
    assert outcome.adds_up, outcome
    for counter in (process.check, process.look_up, process.dispatch):
        assert counter[Happening.DONE] == COUNT
        assert counter[Happening.ROLLED_BACK] > 0
        assert counter[Happening.CRASHED] > 0
        assert counter[Happening.REDELIVERED] + counter[Happening.SET_ASIDE] == undone(counter)


def test_what_the_broker_sets_aside_is_done_all_the_same(plan: Plan, jms_broker_url: str) -> None:
    policies = QueuePolicies(default=QueuePolicy(max_deliveries=2))
    settings = BrokerSettings(policy=HostPolicy(queues=policies))
    find_broker(jms_broker_url.removeprefix("vm://"), SystemClock(), settings)
    process = process_of(plan, jms_broker_url, rate=0.6)
    outcome = process.run()
    assert outcome.adds_up, outcome
    for counter in (process.check, process.look_up, process.dispatch):
        assert counter[Happening.SET_ASIDE] > 0
        assert counter[Happening.REDELIVERED] + counter[Happening.SET_ASIDE] == undone(counter)


def test_the_same_seed_fails_alike(plan: Plan, jms_broker_url: str) -> None:
    counts = []
    for _ in range(2):
        process = process_of(plan, jms_broker_url, seed=5, rate=0.3)
        assert process.run().adds_up
        counts.append([undone(counter) for counter in process.counters])
    assert counts[0] == counts[1]


@pytest.mark.realises("BOIL-PUB-4")
def test_the_ledger_gets_again_what_it_left_unacknowledged(plan: Plan, jms_broker_url: str) -> None:
    process = process_of(plan, jms_broker_url)
    assert process.run().adds_up
    assert process.ledger[Happening.REDELIVERED] > 0


class Losing(StepMakers):
    """One record is not sent on to its lane."""

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        if "lane" not in properties or message.get_int_property("record_id") != VICTIM:
            super().send_on(producer, message, **properties)


class Doubling(StepMakers):
    """One record is sent on twice."""

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        super().send_on(producer, message, **properties)
        if "complete" in properties and message.get_int_property("record_id") == VICTIM:
            super().send_on(producer, message, **properties)


class Altering(StepMakers):
    """One record is changed on its way."""

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        if message.get_int_property("record_id") == VICTIM:
            properties["amount"] = -1
        super().send_on(producer, message, **properties)


class Misplacing(StepMakers):
    """One record gets into another lane."""

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        if "complete" in properties and message.get_int_property("record_id") == VICTIM:
            properties["city"] = "Rome"
        super().send_on(producer, message, **properties)


class Untransacted(StepMakers):
    """The work of `check` is sent outside the unit of work, so a rollback does not undo it."""

    def check(self, connection: Connection, session: Session) -> Step:
        return super().check(connection, connection.create_session(False, Session.AUTO_ACKNOWLEDGE))


def outcome_of(plan: Plan, url: str, makers: type[StepMakers], rate: float = 0.0) -> Outcome:
    return process_of(plan, url, rate=rate, makers=makers).run()


def test_a_lost_message_is_noticed(plan: Plan, jms_broker_url: str) -> None:
    outcome = outcome_of(plan, jms_broker_url, Losing)
    assert not outcome.adds_up
    assert (outcome.nothing_lost, outcome.nothing_twice) == (False, True)
    assert outcome.all_lanes.lost == (VICTIM,)
    assert outcome.ledger.adds_up


def test_a_doubled_message_is_noticed(plan: Plan, jms_broker_url: str) -> None:
    outcome = outcome_of(plan, jms_broker_url, Doubling)
    assert not outcome.adds_up
    assert (outcome.nothing_lost, outcome.nothing_twice) == (True, False)
    assert outcome.all_lanes.doubled == outcome.ledger.doubled == outcome.board.doubled == (VICTIM,)


def test_an_altered_message_is_noticed(plan: Plan, jms_broker_url: str) -> None:
    outcome = outcome_of(plan, jms_broker_url, Altering)
    assert not outcome.adds_up
    assert outcome.all_lanes.altered == outcome.board.altered == (VICTIM,)


def test_a_message_in_the_wrong_lane_is_noticed(plan: Plan, jms_broker_url: str) -> None:
    outcome = outcome_of(plan, jms_broker_url, Misplacing)
    assert not outcome.adds_up
    assert [verdict.unexpected for lane, verdict in outcome.lanes if lane.name == "Rome"] == [(VICTIM,)]


def test_work_outside_the_unit_is_noticed(plan: Plan, jms_broker_url: str) -> None:
    outcome = outcome_of(plan, jms_broker_url, Untransacted, rate=0.5)
    assert not outcome.adds_up
    assert outcome.nothing_lost
    assert not outcome.nothing_twice


def test_a_stop_from_the_outside_ends_all_threads(plan: Plan, jms_broker_url: str) -> None:
    process = process_of(plan, jms_broker_url, rate=0.5)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process.run(interrupt)
    assert process.audit[Happening.DONE] == 0


class Breaking(StepMakers):
    """One step raises what nobody expects."""

    def send_on(self, producer: MessageProducer, message: MapMessage, **properties: Value) -> None:
        if "label" in properties:
            raise JMSException("the step is broken")
        super().send_on(producer, message, **properties)


def test_an_error_in_any_thread_ends_the_run_with_it(plan: Plan, jms_broker_url: str) -> None:
    with pytest.raises(JMSException, match="the step is broken"):
        outcome_of(plan, jms_broker_url, Breaking)
