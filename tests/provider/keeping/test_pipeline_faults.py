"""Reader groups and staged units when a write fails, is not answered, or is the last thing that the broker does.

A pipeline works through a scenario in which each write in turn goes wrong; it does again what failed, after a restart if the
broker died. At the end every message must have been processed exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import TypeVar

import pytest

from pyjms.spi.errors import InDoubtError, ProviderError, ResourceError, RolledBackError, StageError
from pyjms.spi.replay import GroupRequest, OpenGroup, StageName
from pyjms_provider.broker import EmbeddedBroker
from pyjms_provider.clients.vm import VmConnection
from pyjms_provider.core.journal.journal import Changes
from pyjms_provider.settings import BrokerSettings, StoreSettings
from pyjms_provider.stores.volatile import Crash, Medium, VolatileJournal
from tests.provider.clients.world import consume, drain
from tests.provider.helpers import ORDERS, HandClock, RecordedEvents, make_envelope

T = TypeVar("T")
SETTINGS = BrokerSettings(store=StoreSettings(url="in place of it the test gives a journal"))

FAULTS: dict[str, tuple[str, Callable[[], BaseException]]] = {
    "killed before": ("before write", Crash),
    "killed after": ("after write", Crash),
    "refused": ("before write", lambda: ResourceError("the disk is full")),
    "unanswered and lost": ("before write", lambda: InDoubtError("nobody answered")),
    "unanswered and written": ("after write", lambda: InDoubtError("nobody answered")),
    "unforeseen before": ("before write", RuntimeError),
    "unforeseen after": ("after write", RuntimeError),
}
WRITES = 24
"""More writes than the longest scenario has."""


class Fault:
    """Goes off once, at a certain write."""

    def __init__(self, kind: str, at: int) -> None:
        self.point, self.error = FAULTS[kind]
        self.at = at
        self.has_gone_off = False
        self.is_armed = False

    def __call__(self, point: str, _: Changes) -> None:
        if not self.is_armed or self.has_gone_off or point != self.point:
            return
        self.at -= 1
        if self.at < 0:
            self.has_gone_off = True
            raise self.error()


class Broker:
    """A broker that is started again when it dies."""

    def __init__(self, fault: Fault) -> None:
        self.medium = Medium()
        self.fault = fault
        self.start()

    def start(self) -> None:
        journal = VolatileJournal(self.medium, self.fault)
        self.broker = EmbeddedBroker("faults", HandClock(), SETTINGS, journal=journal)
        self.connection = VmConnection(self.broker, RecordedEvents())
        self.connection.start()

    def restart(self) -> None:
        self.broker.stop()
        self.start()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let the fault go off, and survive a death."""
        self.fault.is_armed = True
        try:
            yield
        except Crash:
            self.restart()
        finally:
            self.fault.is_armed = False

    def until_done(self, step: Callable[[], T]) -> T:
        """Do a step, again and again, until it has neither failed nor seen the broker die."""
        for _ in range(3):
            with self.watched():
                try:
                    return step()
                except (ResourceError, RolledBackError, InDoubtError, RuntimeError):
                    continue
        raise AssertionError("a step does not come to an end")

    def rest(self) -> list[str]:
        session = self.connection.open_session(transacted=False)
        try:
            return drain(session, consume(session))
        finally:
            session.close()


class Pipeline:
    """What Spark's planner does: it goes on from the low mark, and processes each number once."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.processed: dict[tuple[str, int], str] = {}

    def open(self) -> OpenGroup:
        groups = self.broker.connection.reader_groups()
        return groups.open(GroupRequest(name="g", address=ORDERS))

    def batch(self, most: int) -> int:
        """Reserve, read and acknowledge the next messages; return how many there were."""
        groups = self.broker.connection.reader_groups()
        opened = self.open()
        low = opened.group.low
        high = groups.reserve(opened, after=low, max_messages=most, max_bytes=None, wait_ms=0)
        page = groups.read("g", opened.group.generation, after=low, upto=high)
        assert [message.number for message in page] == list(range(low + 1, high + 1))
        for message in page:
            text = str(message.envelope.body)
            known = self.processed.setdefault((opened.group.generation, message.number), text)
            assert known == text, "a number was read as two different messages"
        groups.acknowledge(opened, high)
        return high - low


def _send(broker: Broker, *texts: str, persistent: bool = True) -> None:
    session = broker.connection.open_session(transacted=False)
    for text in texts:
        session.send(make_envelope(text, persistent=persistent))


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("persistent", [True, False])
def test_each_message_is_processed_once_whichever_write_of_a_reader_goes_wrong(kind: str, persistent: bool) -> None:
    """NON_PERSISTENT messages may be lost with the broker before they are reserved, and never come twice."""
    assert _all_writes(lambda fault: _read_all(fault, persistent=persistent), kind) > 3


def _all_writes(scenario: Callable[[Fault], None], kind: str) -> int:
    """Play a scenario with each of its writes going wrong in turn; return how many it has."""
    for at in range(WRITES):
        fault = Fault(kind, at)
        scenario(fault)
        if not fault.has_gone_off:
            return at
    raise AssertionError("the scenario has more writes than are tried")


def _read_all(fault: Fault, *, persistent: bool) -> None:
    broker = Broker(fault)
    texts = [f"m{number}" for number in range(5)]
    _send(broker, *texts, persistent=persistent)
    pipeline = Pipeline(broker)
    for most in (2, 1):
        broker.until_done(partial(pipeline.batch, most))
    broker.restart()
    while broker.until_done(partial(pipeline.batch, 1)):
        continue
    processed = list(pipeline.processed.values())
    assert len(processed) == len(set(processed))
    if persistent:
        assert sorted(processed) == texts
    assert broker.rest() == []
    assert not broker.medium.messages
    broker.broker.stop()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_release_gives_back_each_message_once_whatever_goes_wrong(kind: str) -> None:
    assert _all_writes(_release, kind) == 1


def _release(fault: Fault) -> None:
    broker = Broker(fault)
    _send(broker, "a", "b", "c")
    opened = Pipeline(broker).open()
    broker.connection.reader_groups().reserve(opened, after=0, max_messages=2, max_bytes=None, wait_ms=0)

    def release() -> None:
        groups = broker.connection.reader_groups()
        if groups.groups():
            groups.release("g")

    broker.until_done(release)
    assert broker.rest() == ["a", "b", "c"]
    broker.restart()
    assert (broker.rest(), list(broker.connection.reader_groups().groups())) == ([], [])
    broker.broker.stop()


class Writer:
    """What Spark's sink does: each epoch is staged anew until it has been promoted."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._attempts = count(1)

    def epoch(self, epoch: int, *partitions: list[str]) -> None:
        """Stage and promote an epoch, unless that was done."""
        stages = self.broker.connection.stages()
        marker = stages.marker("sink")
        if marker is not None and marker >= epoch:
            return
        names: list[StageName] = []
        for number, texts in enumerate(partitions):
            name = StageName("sink", epoch, number, f"attempt {next(self._attempts)}")
            session = self.broker.connection.open_session(transacted=True)
            for text in texts:
                session.send(make_envelope(text, persistent=True))
            try:
                session.stage(name, keep_s=60)
            finally:
                session.close()
            names.append(name)
        if not stages.promote("sink", epoch, names):  # an earlier attempt has made it, which nobody had answered
            stages.discard(names)


@pytest.mark.parametrize("kind", FAULTS)
def test_each_epoch_is_seen_once_whichever_write_of_a_sink_goes_wrong(kind: str) -> None:
    assert _all_writes(_write_all, kind) > 5


def _write_all(fault: Fault) -> None:
    broker = Broker(fault)
    writer = Writer(broker)
    broker.until_done(partial(writer.epoch, 0, ["a", "b"], ["c"]))
    broker.until_done(partial(writer.epoch, 1, ["d"], []))
    broker.restart()
    broker.until_done(partial(writer.epoch, 2, ["e"]))
    assert broker.rest() == [*"abcde"]
    assert list(broker.connection.stages().units()) == []
    broker.restart()
    assert (broker.rest(), broker.medium.messages, broker.medium.stages) == ([], {}, {})
    broker.broker.stop()


def test_units_whose_promotion_was_not_answered_wait_for_it_to_be_asked_for_again() -> None:
    broker = Broker(Fault("unanswered and written", 0))
    session = broker.connection.open_session(transacted=True)
    session.send(make_envelope("a", persistent=True))
    unit = StageName("sink", 0, 0, "a")
    session.stage(unit, keep_s=1)
    stages = broker.connection.stages()
    with broker.watched(), pytest.raises(InDoubtError):
        stages.promote("sink", 0, [unit])
    with pytest.raises(InDoubtError, match="promote them again"):
        stages.discard([unit])
    broker.broker.virtual_host.pipelines.stages.run_due(10**9)
    assert broker.rest() == []
    assert stages.promote("sink", 0, [unit])
    assert broker.rest() == ["a"]
    broker.broker.stop()


def test_a_refused_stage_leaves_nothing_and_its_name_is_free() -> None:
    broker = Broker(Fault("refused", 0))
    session = broker.connection.open_session(transacted=True)
    session.send(make_envelope("a", persistent=True))
    unit = StageName("sink", 0, 0, "a")
    with broker.watched(), pytest.raises(ProviderError):
        session.stage(unit, keep_s=60)
    assert list(broker.connection.stages().units()) == []
    with pytest.raises(StageError, match="not there"):
        broker.connection.stages().promote("sink", 0, [unit])
    assert session.stage(unit, keep_s=60) == 0
    broker.broker.stop()
