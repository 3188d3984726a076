"""Staged units at ``vm://``: safe under a name, seen when their epoch is promoted, once; with a store, over restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.spi.errors import CapabilityError, ClosedError, ResourceError, RolledBackError, StageError
from pyjms.spi.replay import StageName, Stages
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.journal.journal import Journal, StageRecord
from pyjms_provider.core.transaction.unit_of_work import UnitOfWork
from tests.provider.clients.world import World, consume, drain, news, poll
from tests.provider.helpers import NEWS, HandClock, make_envelope
from tests.pyjms.runtime.helpers import eventually


def name(epoch: int, partition: int = 0, attempt: str = "a", sink: str = "sink") -> StageName:
    return StageName(sink, epoch, partition, attempt)


class Sink:
    """One sink of a broker, which may have a store."""

    def __init__(self, world: World, options: str) -> None:
        self.world = world
        self.options = options
        self.connection: VmConnection = world.connect(options)
        self.stages: Stages = self.connection.stages()

    def restart(self) -> None:
        self.world.stop()
        self.connection = self.world.connect(self.options)
        self.stages = self.connection.stages()

    def stage(self, unit: StageName, *texts: str, keep_s: int = 60, persistent: bool = True) -> int:
        session = self.connection.open_session(transacted=True)
        for text in texts:
            session.send(make_envelope(text, persistent=persistent))
        count = session.stage(unit, keep_s=keep_s)
        session.close()
        return count

    def drain(self) -> list[str]:
        session = self.connection.open_session(transacted=False)
        try:
            return drain(session, consume(session))
        finally:
            session.close()


@pytest.fixture(params=["memory", "sqlite"])
def sink(world: World, request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return Sink(world, "" if request.param == "memory" else f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off")


@pytest.fixture
def durable(world: World, tmp_path: Path) -> Sink:
    return Sink(world, f"?store=sqlite:///{tmp_path}/jms.db&synchronous=off")


def test_nobody_sees_a_staged_unit_until_its_epoch_is_promoted(sink: Sink) -> None:
    assert sink.stage(name(0, 0), "a", "b") == 2
    assert sink.stage(name(0, 1), "c") == 1
    assert sink.drain() == []
    assert [(unit.name, unit.messages) for unit in sink.stages.units()] == [(name(0, 0), 2), (name(0, 1), 1)]
    assert sink.stages.marker("sink") is None
    assert sink.stages.promote("sink", 0, [name(0, 0), name(0, 1)]) is True
    assert sink.stages.marker("sink") == 0
    assert sink.drain() == ["a", "b", "c"]
    assert sink.stages.units() == []


def test_an_epoch_is_promoted_once_however_often_that_is_asked_for(sink: Sink) -> None:
    sink.stage(name(3), "a")
    assert sink.stages.promote("sink", 3, [name(3)])
    assert not sink.stages.promote("sink", 3, [name(3)])
    assert not sink.stages.promote("sink", 2, [])
    assert sink.drain() == ["a"]


def test_other_units_up_to_the_epoch_are_discarded_and_later_ones_and_other_sinks_stay(sink: Sink) -> None:
    sink.stage(name(0, 0, "dead"), "old")
    sink.stage(name(1, 0, "lost"), "speculative")
    sink.stage(name(1, 0, "won"), "good")
    sink.stage(name(2), "next")
    sink.stage(name(0, sink="other"), "theirs")
    assert sink.stages.promote("sink", 1, [name(1, 0, "won")])
    assert sink.drain() == ["good"]
    assert [unit.name for unit in sink.stages.units("sink")] == [name(2)]
    assert [unit.name for unit in sink.stages.units("other")] == [name(0, sink="other")]


def test_an_epoch_without_units_only_moves_the_marker(sink: Sink) -> None:
    assert sink.stages.promote("sink", 5, [])
    assert sink.stages.marker("sink") == 5
    with pytest.raises(StageError, match="has promoted epoch 5"):
        sink.stage(name(5), "late")
    assert sink.drain() == []


def test_an_empty_unit_can_be_promoted(sink: Sink) -> None:
    assert sink.stage(name(0)) == 0
    assert sink.stages.promote("sink", 0, [name(0)])


@pytest.mark.parametrize("wrong", [name(0, 1), name(1), name(0, sink="other")])
def test_nothing_is_done_when_one_unit_is_wrong(sink: Sink, wrong: StageName) -> None:
    sink.stage(name(0), "a")
    sink.stage(name(1), "b")
    sink.stage(name(0, sink="other"), "c")
    with pytest.raises(StageError, match="nothing was promoted"):
        sink.stages.promote("sink", 0, [name(0), wrong])
    assert sink.drain() == []
    assert sink.stages.marker("sink") is None
    assert len(sink.stages.units()) == 3
    assert sink.stages.promote("sink", 0, [name(0)])
    assert sink.drain() == ["a"]


def test_discarding_may_be_repeated_and_is_harmless_after_a_promote(sink: Sink) -> None:
    sink.stage(name(0, 0), "a")
    sink.stage(name(0, 1), "b")
    sink.stages.discard([name(0, 1), name(7)])
    sink.stages.discard([name(0, 1)])
    sink.stages.promote("sink", 0, [name(0, 0)])
    sink.stages.discard([name(0, 0)])
    assert sink.drain() == ["a"]


def test_a_name_is_given_once_and_a_refused_unit_can_be_staged_by_another(sink: Sink) -> None:
    sink.stage(name(0), "a")
    session = sink.connection.open_session(transacted=True)
    session.send(make_envelope("b", persistent=True))
    with pytest.raises(StageError, match="there already"):
        session.stage(name(0), keep_s=60)
    assert session.stage(name(0, 1), keep_s=60) == 1
    session.send(make_envelope("in the next transaction", persistent=True))
    session.rollback()
    sink.stages.promote("sink", 0, [name(0), name(0, 1)])
    assert sink.drain() == ["a", "b"]


def test_a_unit_whose_epoch_is_promoted_while_it_is_stored_is_rolled_back(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = UnitOfWork.stage

    def promote_first(unit: UnitOfWork, record: StageRecord, journal: Journal | None) -> None:
        sink.stages.promote("sink", 0, [])
        stage(unit, record, journal)

    session = sink.connection.open_session(transacted=True)
    session.send(make_envelope("late", persistent=True))
    with monkeypatch.context() as context:
        context.setattr(UnitOfWork, "stage", promote_first)
        # Not `StageError`, after which the client may commit what it has sent.
        with pytest.raises(RolledBackError, match="its epoch was promoted"):
            session.stage(name(0), keep_s=60)
    session.commit()
    assert sink.drain() == []


def test_a_unit_that_received_cannot_be_staged_and_is_not_lost(sink: Sink) -> None:
    sink.stage(name(0), "a")
    sink.stages.promote("sink", 0, [name(0)])
    session = sink.connection.open_session(transacted=True)
    session.acknowledge([poll(consume(session))])
    session.send(make_envelope("b", persistent=True))
    with pytest.raises(StageError, match="were received"):
        session.stage(name(1), keep_s=60)
    session.commit()
    assert sink.drain() == ["b"]


@pytest.mark.parametrize(
    ("unit", "keep_s"),
    [(name(-1), 1), (name(0, attempt=""), 1), (name(0, sink=""), 1), (name(0, sink="x" * 201), 1), (name(0), 0)],
)
def test_wrong_names_and_times_are_refused(sink: Sink, unit: StageName, keep_s: int) -> None:
    with pytest.raises(StageError):
        sink.stage(unit, "a", keep_s=keep_s)


def test_only_transacted_sessions_of_open_connections_stage(sink: Sink) -> None:
    with pytest.raises(CapabilityError, match="not transacted"):
        sink.connection.open_session(transacted=False).stage(name(0), keep_s=1)
    session = sink.connection.open_session(transacted=True)
    sink.connection.close()
    with pytest.raises(ClosedError):
        session.stage(name(0), keep_s=1)
    with pytest.raises(ClosedError):
        sink.stages.promote("sink", 0, [])


def test_units_that_nobody_promotes_in_time_are_discarded(sink: Sink, world: World) -> None:
    assert isinstance(world.clock, HandClock)
    sink.stage(name(0), "a", keep_s=10)
    sink.stage(name(1), "b", keep_s=20)
    table = sink.connection.broker.virtual_host.pipelines.stages
    assert table.run_due(10_999) == 11_000
    assert table.run_due(11_000) == 21_000
    assert [unit.name for unit in sink.stages.units()] == [name(1)]
    assert table.run_due(21_000) is None
    with pytest.raises(StageError, match="its time was over"):
        sink.stages.promote("sink", 0, [name(0)])
    assert sink.drain() == []


def test_a_message_that_expires_while_it_is_staged_is_not_delivered_and_the_others_are(
    sink: Sink, world: World
) -> None:
    assert isinstance(world.clock, HandClock)
    session = sink.connection.open_session(transacted=True)
    session.send(make_envelope("a", persistent=True, expiration_ms=2_000))
    session.send(make_envelope("b", persistent=True))
    session.stage(name(0), keep_s=60)
    world.clock.now_ms = 3_000
    sink.connection.broker.virtual_host.queue("orders").run_due(3_000)
    assert sink.stages.promote("sink", 0, [name(0)])
    assert sink.drain() == ["b"]


@pytest.mark.parametrize("is_purged", [True, False])
def test_a_message_that_expires_before_it_is_staged_is_left_out_and_a_commit_is_refused_as_ever(
    sink: Sink, world: World, is_purged: bool
) -> None:
    assert isinstance(world.clock, HandClock)
    queue = sink.connection.broker.virtual_host.queue("orders")
    session = sink.connection.open_session(transacted=True)

    def send(*texts: str) -> None:
        for text in texts:
            session.send(make_envelope(text, persistent=True))
        session.send(make_envelope("short", persistent=True, expiration_ms=world.clock.time_ms() + 10))
        world.clock.now_ms += 10  # type: ignore[attr-defined]  # a `HandClock`
        if is_purged:
            queue.run_due(world.clock.time_ms())

    send("a")
    session.send(make_envelope("b", persistent=True))
    assert session.stage(name(0), keep_s=60) == (2 if is_purged else 3)
    send("c")
    with pytest.raises(RolledBackError, match="expired before the commit"):
        session.commit()
    send("d")
    session.rollback()
    assert sink.stages.promote("sink", 0, [name(0)])
    assert sink.drain() == ["a", "b"]
    assert len(sink.connection.broker.virtual_host.store) == 0


def test_a_full_queue_refuses_at_the_send_and_never_at_the_promote(world: World) -> None:
    sink = Sink(world, "?max_messages=2&overflow=reject")
    sink.stage(name(0), "a", "b")
    with pytest.raises(ResourceError):
        sink.stage(name(0, 1), "c")
    sink.stages.promote("sink", 0, [name(0)])
    assert sink.drain() == ["a", "b"]
    sink.stage(name(1), "d", "e")
    sink.stages.discard([name(1)])
    assert sink.stage(name(1, 1), "f", "g") == 2


def test_durable_subscribers_get_what_is_promoted(sink: Sink) -> None:
    reader = sink.world.connect(client_id="reader", clock=sink.world.clock)
    session = reader.open_session(transacted=False)
    consumers = [consume(session, NEWS, durable_name=each) for each in ("one", "two")]
    sender = sink.connection.open_session(transacted=True)
    sender.send(news("a", persistent=True))
    sender.send(news("b"))
    sender.stage(name(0), keep_s=60)
    assert [consumer.poll() for consumer in consumers] == [None, None]
    sink.stages.promote("sink", 0, [name(0)])
    assert [drain(session, consumer) for consumer in consumers] == [["a", "b"], ["a", "b"]]


# Restarts


@pytest.mark.parametrize("persistent", [True, False])
def test_staged_units_and_markers_outlive_the_broker(durable: Sink, persistent: bool) -> None:
    durable.stages.promote("other", 9, [])
    durable.stage(name(0, 0), "a", "b", persistent=persistent)
    durable.stage(name(0, 1), "c", persistent=persistent)
    durable.stage(name(0, 1, "lost"), "x", persistent=persistent)
    durable.restart()
    assert durable.drain() == []
    assert [(unit.name, unit.messages) for unit in durable.stages.units()] == [
        (name(0, 0), 2),
        (name(0, 1), 1),
        (name(0, 1, "lost"), 1),
    ]
    assert durable.stages.marker("other") == 9
    assert durable.stages.promote("sink", 0, [name(0, 0), name(0, 1)])
    durable.restart()
    assert durable.stages.units() == []
    assert durable.stages.marker("sink") == 0
    assert not durable.stages.promote("sink", 0, [name(0, 0), name(0, 1)])
    assert durable.drain() == ["a", "b", "c"]
    durable.restart()
    assert len(durable.connection.broker.virtual_host.store) == 0


def test_staged_messages_for_several_subscriptions_outlive_the_broker(durable: Sink) -> None:
    reader = durable.world.connect(durable.options, client_id="reader")
    session = reader.open_session(transacted=False)
    for each in ("one", "two"):
        consume(session, NEWS, durable_name=each).close()
    sender = durable.connection.open_session(transacted=True)
    sender.send(news("a"))
    sender.send(news("b", persistent=True))
    sender.stage(name(0), keep_s=60)
    durable.restart()
    durable.stages.promote("sink", 0, [name(0)])
    session = durable.world.connect(durable.options, client_id="reader").open_session(transacted=False)
    for each in ("one", "two"):
        assert drain(session, consume(session, NEWS, durable_name=each)) == ["a", "b"]


def test_discarded_units_leave_nothing_in_the_store(durable: Sink, world: World) -> None:
    durable.stage(name(0), "a")
    durable.stage(name(1), "b", keep_s=10)
    durable.stages.discard([name(0)])
    durable.connection.broker.virtual_host.pipelines.stages.run_due(11_000)
    durable.restart()
    assert durable.stages.units() == []
    assert len(durable.connection.broker.virtual_host.store) == 0


def test_a_unit_whose_time_is_over_before_the_start_is_discarded_by_the_housekeeper(
    durable: Sink, world: World
) -> None:
    assert isinstance(world.clock, HandClock)
    durable.stage(name(0), "a", keep_s=10)
    world.clock.now_ms = 12_000
    durable.restart()
    eventually(lambda: not durable.stages.units(), "the unit is discarded")


def test_a_queue_that_is_deleted_takes_its_staged_messages_along(durable: Sink) -> None:
    durable.stage(name(0), "a")
    durable.connection.broker.virtual_host.destroy_queue("orders")
    assert durable.stages.promote("sink", 0, [name(0)])
    assert durable.drain() == []
    durable.restart()
    assert durable.drain() == []
