"""Writing an epoch as Spark does it, without Spark: staged, by branches, by plain transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from pyjms.spark.connecting import MessageIds, close_links, link_of
from pyjms.spark.messages import EnvelopeMaker, envelope_of
from pyjms.spark.options import JmsOptions, parse_address
from pyjms.spark.writing import (
    SOURCE_PROPERTY,
    Written,
    abandon,
    attempt_of,
    finish,
    ledger_of,
    way_of,
    write_partition,
)
from pyjms.spi.capability import Capability
from pyjms.spi.clock import SystemClock
from pyjms.spi.envelope import Envelope
from pyjms.spi.errors import StageError
from pyjms.spi.provider import ProviderConnection
from pyjms.spi.registry import find_provider
from pyjms.spi.replay import StageName
from pyjms.spi.url import ProviderUrl
from tests.pyjms.spark.messages_of import look, session_of
from tests.pyjms.spark.stripped import foreign

FOREIGN = {"stage": Capability.NONE, "xa": Capability.STAGE, "transaction": Capability.STAGE | Capability.XA}


@pytest.fixture
def jms_broker_url(tmp_path: Path) -> Iterator[str]:
    """Give a broker with a store, as only such a one has branches."""
    url = f"vm://writing-{tmp_path.name}?store=sqlite:///{tmp_path}/broker.db"
    yield url
    find_provider("vm").stop_broker(ProviderUrl.parse(url))


@pytest.fixture(params=FOREIGN)
def options(request: pytest.FixtureRequest, jms_broker_url: str) -> Iterator[JmsOptions]:
    with foreign(jms_broker_url, FOREIGN[request.param]) as url:
        made = JmsOptions(url=url, destination=parse_address("queue:out"))
        assert way_of(link_of(made).connection()) == request.param
        yield made
        close_links()


@pytest.fixture
def staging(jms_broker_url: str) -> Iterator[JmsOptions]:
    yield JmsOptions(url=jms_broker_url, destination=parse_address("queue:out"))
    close_links()


def rows(*texts: str) -> Callable[[ProviderConnection], Iterable[Envelope]]:
    """Return what makes messages of texts, as the sink does."""

    def envelopes(connection: ProviderConnection) -> Iterable[Envelope]:
        ids, now_ms = MessageIds(connection).next, SystemClock().time_ms
        maker = EnvelopeMaker(destination=parse_address("queue:out"), next_id=ids, now_ms=now_ms)
        return (maker.envelope({"text": text}) for text in texts)

    return envelopes


def write(options: JmsOptions, epoch: int, partition: int, *texts: str, attempt: str = "a") -> Written:
    return write_partition(StageName("sink", epoch, partition, f"{attempt}{partition}"), rows(*texts), options)


def test_what_a_row_does_not_have_nobody_gives_a_message_whose_headers_are_kept(staging: JmsOptions) -> None:
    def kept(connection: ProviderConnection) -> Iterable[Envelope]:
        ids, now_ms = MessageIds(connection).next, SystemClock().time_ms
        maker = EnvelopeMaker(destination=staging.destination, next_id=ids, now_ms=now_ms, keeps_headers=True)
        return [maker.envelope({"text": "x", "message_id": None, "timestamp": None})]

    finish("sink", 0, [write_partition(StageName("sink", 0, 0, "a"), kept, staging)], staging)
    with session_of(staging.url) as session:
        (message,) = session.create_browser(session.create_queue("out"))
        assert (message.jms_message_id, message.jms_timestamp) == (None, 0)


def test_an_epoch_is_visible_once_though_commit_comes_twice(options: JmsOptions, jms_broker_url: str) -> None:
    written = [write(options, 0, 0, "a", "b"), write(options, 0, 1, "c"), write(options, 0, 2)]
    assert [each.messages for each in written] == [2, 1, 0]
    finish("sink", 0, written, options)
    finish("sink", 0, written, options)
    assert look(jms_broker_url, "out") == ["a", "b", "c"]


@pytest.mark.parametrize("options", ["stage", "xa"], indirect=True)
def test_nothing_is_visible_before_the_commit_and_an_epoch_that_is_abandoned_never(
    options: JmsOptions, jms_broker_url: str
) -> None:
    written = [write(options, 0, 0, "a")]
    assert look(jms_broker_url, "out") == []
    abandon(written, options)
    again = [write(options, 0, 0, "b", attempt="second")]
    finish("sink", 0, again, options)
    abandon(again, options)  # Spark does so when `commit` itself raised
    assert look(jms_broker_url, "out") == ["b"]


@pytest.mark.parametrize("options", ["stage", "xa"], indirect=True)
def test_an_epoch_that_was_committed_before_the_driver_died_is_not_written_again(
    options: JmsOptions, jms_broker_url: str
) -> None:
    finish("sink", 4, [write(options, 4, 0, "a"), write(options, 4, 1, "b")], options)
    repeated = [write(options, 4, 0, "a", attempt="x"), write(options, 4, 1, "b", attempt="x")]
    assert not any(each.waits for each in repeated)
    finish("sink", 4, repeated, options)
    finish("sink", 5, [write(options, 5, 0, "c")], options)
    assert look(jms_broker_url, "out") == ["a", "b", "c"]


@pytest.mark.parametrize("options", ["stage", "xa"], indirect=True)
def test_what_a_dead_driver_had_prepared_is_dropped_by_the_repetition(options: JmsOptions, jms_broker_url: str) -> None:
    write(options, 0, 0, "lost", attempt="dead")
    write(options, 0, 1, "lost", attempt="dead")
    finish("sink", 0, [write(options, 0, 0, "a", "b")], options)  # cut in another way
    assert look(jms_broker_url, "out") == ["a", "b"]
    session = link_of(options).connection().open_session(transacted=True)
    assert list(session.xa_recover()) == []


def test_staged_epochs_may_be_cut_in_another_way(staging: JmsOptions, jms_broker_url: str) -> None:
    finish("sink", 0, [write(staging, 0, 0, "a"), write(staging, 0, 1, "b")], staging)
    again = [write(staging, 0, number, text, attempt="x") for number, text in enumerate(["a", "b", "c"])]
    finish("sink", 0, again, staging)
    assert look(jms_broker_url, "out") == ["a", "b"]
    assert list(link_of(staging).connection().stages().units()) == []


def units_of(options: JmsOptions) -> list[StageName]:
    return [unit.name for unit in link_of(options).connection().stages().units()]


def test_a_run_ends_what_runs_before_it_staged_before_it_needs_the_room(
    staging: JmsOptions, jms_broker_url: str
) -> None:
    def write_in(run: str, sink: str, epoch: int, partition: int) -> Written:
        return write_partition(StageName(sink, epoch, partition, attempt_of(run)), rows(run), staging)

    others = [write_in("dead", "another sink", 0, 0), write_in("dead", "sink", 2, 0)]
    zombies = [write_in("dead", "sink", 0, 0), write_in("dead", "sink", 1, 1)]
    write(staging, 1, 2, "of an older pyjms")
    mine = [write_in("new", "sink", 1, partition) for partition in range(3)]
    assert units_of(staging) == sorted(each.name for each in (*others, *mine))
    with pytest.raises(StageError, match="is not there"):
        finish("sink", 1, zombies[1:], staging)
    finish("sink", 1, mine, staging)
    assert look(jms_broker_url, "out") == ["new"] * 3


def test_a_dead_run_does_not_keep_its_repetition_out_of_a_queue_with_a_limit(tmp_path: Path) -> None:
    url = f"vm://bounded-{tmp_path.name}?max_messages=1000"
    staging = JmsOptions(url=url, destination=parse_address("queue:out"))
    try:
        names = [StageName("sink", 0, 0, attempt_of(run)) for run in ("dead", "dead too", "alive")]
        written = [write_partition(name, rows(*["x"] * 600), staging) for name in names]
        finish("sink", 0, written[-1:], staging)
        assert len(look(url, "out")) == 600
    finally:
        close_links()
        find_provider("vm").stop_broker(ProviderUrl.parse(url))


def test_an_epoch_behind_the_last_one_is_refused(staging: JmsOptions) -> None:
    finish("sink", 7, [write(staging, 7, 0, "a")], staging)
    with pytest.raises(StageError, match="number what is new on, or give it a new sinkId"):
        write(staging, 3, 0, "b")


@pytest.mark.parametrize("options", ["transaction"], indirect=True)
def test_where_rows_may_come_twice_they_say_which_they_are(options: JmsOptions, jms_broker_url: str) -> None:
    write(options, 3, 1, "a", "b")
    with session_of(jms_broker_url) as session:
        seen = [
            each.get_string_property(SOURCE_PROPERTY) for each in session.create_browser(session.create_queue("out"))
        ]
    assert seen == ["sink:3:1:0", "sink:3:1:1"]


@pytest.mark.parametrize("options", ["xa"], indirect=True)
def test_the_ledger_forgets_what_is_never_repeated(options: JmsOptions, jms_broker_url: str) -> None:
    for epoch in range(3):
        finish("sink", epoch, [write(options, epoch, 0, str(epoch))], options)
    with session_of(jms_broker_url) as session:
        queue = session.create_queue(ledger_of("sink").name)
        assert [each.get_long_property("sinkEpoch") for each in session.create_browser(queue)] == [2]


def test_rows_whose_time_is_over_are_left_out_and_told(
    options: JmsOptions, jms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    micros = SystemClock().time_ms() * 1000
    hour = 3600 * 1_000_000

    def envelopes(connection: ProviderConnection) -> Iterable[Envelope]:
        for text, expiration in (("a", micros - 1), ("b", micros + hour), ("c", None), ("d", 1_000)):
            yield envelope_of({"text": text, "expiration": expiration}, parse_address("queue:out"))

    written = write_partition(StageName("sink", 0, 0, "a"), envelopes, options)
    assert (written.messages, written.expired) == (2, 2)
    finish("sink", 0, [written], options)
    assert look(jms_broker_url, "out") == ["b", "c"]
    assert "without 2 messages whose time to live was over" in caplog.text
