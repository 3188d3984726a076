"""The planner of reader groups, called as Spark calls it, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import pytest

from pyjms.spark.connecting import Link, close_links, link_of
from pyjms.spark.jobs import acknowledge, release
from pyjms.spark.options import AckOn, DataLossError, JmsOptions, Mode, OptionError, parse_address
from pyjms.spark.planning import GroupPiece, GroupPlanner, Limits, Offset, between, pages_of_group, pieces_of_group
from pyjms.spark.source import _reserve
from pyjms.spi.errors import FencedError, GroupError
from tests.pyjms.spark.messages_of import fill, look, session_of, take

TEN = Limits(max_messages=10)


@pytest.fixture
def options(jms_broker_url: str) -> Iterator[JmsOptions]:
    yield JmsOptions(url=jms_broker_url, destination=parse_address("queue:orders"), reader_group="g", partitions=3)
    close_links()


def texts_of(options: JmsOptions, planner: GroupPlanner, start: Offset, end: Offset) -> list[str]:
    """Return what the tasks of a batch read."""
    found = []
    for piece in planner.pieces(start, end):
        assert isinstance(piece, GroupPiece)
        span = piece.span
        pages = pages_of_group(options, piece.group, piece.generation, span.after, span.upto)
        found += [str(message.envelope.body) for message in chain.from_iterable(pages)]
    return found


def begun(options: JmsOptions, url: str, messages: int) -> tuple[list[str], GroupPlanner, Offset, Offset]:
    """Have so many messages there, and a first batch of ten; return their texts, the planner, and where the batch begins and ends."""
    texts = fill(url, messages)
    planner = GroupPlanner(options)
    start = planner.initial()
    return texts, planner, start, planner.latest(start, TEN)


def through_json(offset: Offset) -> Offset:
    return Offset.from_json(json.loads(json.dumps(offset.to_json())))


def test_batches_follow_each_other_and_acknowledge_the_one_before(options: JmsOptions, jms_broker_url: str) -> None:
    texts = fill(jms_broker_url, 25)
    planner = GroupPlanner(options)
    start = planner.initial()
    assert start.seq == 0
    assert planner.initial() == start  # Spark asks twice; nothing is held yet
    read: list[str] = []
    ends = []
    while (end := planner.latest(start, TEN)) != start:
        end = through_json(end)
        read += texts_of(options, planner, start, end)
        ends.append(end.seq)
        start = end
    assert ends == [10, 20, 25]
    assert read == texts
    assert look(jms_broker_url, "orders") == []
    reported = planner.reported()
    assert reported is not None
    assert reported.seq == 25


def test_a_batch_is_the_same_each_time_it_is_read_however_it_is_cut(options: JmsOptions, jms_broker_url: str) -> None:
    texts, planner, start, end = begun(options, jms_broker_url, 10)
    assert len(planner.pieces(start, end)) == 3
    for parts in (1, 2, 7, 40):
        other = replace(options, partitions=parts)
        restarted = GroupPlanner(other)  # Spark goes straight to the pieces
        assert texts_of(other, restarted, start, end) == texts


def test_a_planner_that_died_before_the_log_was_written_reserves_nothing_more(
    options: JmsOptions, jms_broker_url: str
) -> None:
    fill(jms_broker_url, 30)
    first = GroupPlanner(options)
    start = first.initial()
    first.latest(start, TEN)
    second = GroupPlanner(options)
    assert second.initial() == start
    assert second.latest(start, TEN).seq == 10
    assert second.latest(start, Limits(max_messages=4)).seq == 4


def test_who_opened_the_group_before_must_not_go_on(options: JmsOptions, jms_broker_url: str) -> None:
    fill(jms_broker_url, 30)
    first, second = GroupPlanner(options), GroupPlanner(options)
    start = first.initial()
    first.latest(start, TEN)
    second.initial()
    with pytest.raises(FencedError, match="give each query a readerGroup of its own"):
        first.latest(start, Limits(max_messages=20))


def test_a_competing_consumer_gets_what_the_group_does_not_hold(options: JmsOptions, jms_broker_url: str) -> None:
    texts, planner, start, end = begun(options, jms_broker_url, 12)
    assert take(jms_broker_url, "orders", 5) == texts[10:]
    assert texts_of(options, planner, start, end) == texts[:10]


def test_with_commit_nothing_is_acknowledged_by_progress(options: JmsOptions, jms_broker_url: str) -> None:
    fill(jms_broker_url, 20)
    planner = GroupPlanner(replace(options, ack_on=AckOn.COMMIT))
    start = planner.initial()
    middle = planner.latest(start, TEN)
    end = planner.latest(middle, TEN)
    assert len(texts_of(options, planner, start, middle)) == 10
    planner.commit(middle)
    planner.commit(middle)  # Spark may say so again
    (piece,) = pieces_of_group(middle.group, middle.generation, between(start, middle), 1)
    with pytest.raises(GroupError):
        list(pages_of_group(options, piece.group, piece.generation, piece.span.after, piece.span.upto))
    assert len(texts_of(options, planner, middle, end)) == 10


def test_available_now_ends_with_what_was_there(options: JmsOptions, jms_broker_url: str) -> None:
    fill(jms_broker_url, 15)
    planner = GroupPlanner(options)
    start = planner.initial()
    planner.prepare_available_now()
    middle = planner.latest(start, TEN)
    fill(jms_broker_url, 5, first=100)
    end = planner.latest(middle, TEN)
    assert (middle.seq, end.seq) == (10, 15)
    assert planner.latest(end, TEN) == end
    assert len(look(jms_broker_url, "orders")) == 5


def test_a_batch_of_available_now_has_no_more_bytes_than_it_may(options: JmsOptions, jms_broker_url: str) -> None:
    fill_large(jms_broker_url, 6)
    planner = GroupPlanner(options)
    start = planner.initial()
    planner.prepare_available_now()
    ends = []
    while (end := planner.latest(start, Limits(max_messages=10, max_bytes=25_000))) != start:
        ends.append(end.seq)
        start = end
    assert ends == [2, 4, 6]


def test_a_job_holds_no_more_bytes_than_it_may(
    options: JmsOptions, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_large(jms_broker_url, 6)
    monkeypatch.setattr("pyjms.spark.planning._PAGE", 1)
    chosen = replace(options, reader_group=None, mode=Mode.RESERVE, max_bytes=35_000)
    for job, held in (("a", 3), ("b", 3), ("c", 0), ("a", 3)):
        opened, high = _reserve(replace(chosen, job_id=job))
        assert high - opened.group.low == held


def test_a_job_that_has_found_nothing_reads_nothing_until_that_is_acknowledged(
    options: JmsOptions, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(options, reader_group=None, mode=Mode.RESERVE, job_id="night")
    assert _reserve(job)[1] == 0
    fill(jms_broker_url, 5)  # else whoever counts after the output is made would have them acknowledged with it
    assert _reserve(job)[1] == 0
    assert link_of(job).call(lambda connection: connection.reader_groups().release("night")) == 0
    assert len(look(jms_broker_url, "orders")) == 5
    with monkeypatch.context() as patched:
        lose_the_first_answer(patched)
        assert _reserve(job)[1] == 5
    assert _reserve(job)[1] == 5


def lose_the_first_answer(patched: pytest.MonkeyPatch) -> None:
    """Have a link do its first action once more, as it does when the connection is lost before the answer."""
    plain = Link.call
    lost = iter([True])

    def call(link: Link, action: Callable[[Any], Any]) -> Any:
        if next(lost, False):
            plain(link, action)
        return plain(link, action)

    patched.setattr(Link, "call", call)


def fill_large(url: str, count: int) -> None:
    with session_of(url) as session:
        producer = session.create_producer(session.create_queue("orders"))
        for _ in range(count):
            producer.send(session.create_text_message("x" * 10_000))


def test_all_that_is_there_may_be_asked_for(options: JmsOptions, jms_broker_url: str) -> None:
    fill(jms_broker_url, 15)
    planner = GroupPlanner(options)
    assert planner.latest(planner.initial(), Limits(max_messages=None)).seq == 15


def test_a_released_group_stops_the_query_or_goes_on_without_the_loss(options: JmsOptions, jms_broker_url: str) -> None:
    _, _, _, middle = begun(options, jms_broker_url, 20)
    link_of(options).call(lambda connection: connection.reader_groups().release("g"))
    with pytest.raises(DataLossError, match=r"the group was released.*failOnDataLoss=false"):
        GroupPlanner(options).latest(middle, TEN)
    careless = GroupPlanner(replace(options, fail_on_data_loss=False))
    end = careless.latest(middle, TEN)
    assert (end.seq, end.begins_after) == (10, 0)
    assert len(texts_of(options, careless, middle, through_json(end))) == 10
    assert careless.latest(end, TEN).begins_after is None


def test_a_batch_that_was_under_way_when_its_group_was_released_stops_the_query_or_is_repeated_empty(
    options: JmsOptions, jms_broker_url: str
) -> None:
    texts, _, start, end = begun(options, jms_broker_url, 20)
    link_of(options).call(lambda connection: connection.reader_groups().release("g"))
    with pytest.raises(DataLossError, match=r"the group was released.*failOnDataLoss=false"):
        GroupPlanner(options).pieces(start, end)
    careless = GroupPlanner(replace(options, fail_on_data_loss=False))
    assert careless.pieces(start, end) == []
    after = careless.latest(end, Limits(max_messages=20))
    assert texts_of(options, careless, end, after) == texts


def test_of_a_batch_that_was_under_way_an_old_copy_of_the_store_has_a_part(
    options: JmsOptions, jms_broker_url: str
) -> None:
    texts, _planner, start, end = begun(options, jms_broker_url, 20)
    beyond = replace(end, seq=15)
    with pytest.raises(DataLossError, match="store is an old copy"):
        GroupPlanner(options).pieces(start, beyond)
    careless = GroupPlanner(replace(options, fail_on_data_loss=False))
    assert texts_of(options, careless, start, beyond) == texts[:10]
    after = careless.latest(beyond, TEN)
    assert texts_of(options, careless, beyond, after) == texts[10:]
    assert careless.pieces(beyond, replace(end, seq=20, begins_after=20)) == []


def test_available_now_has_a_batch_that_was_under_way_and_what_is_there_when_that_is_repeated(
    options: JmsOptions, jms_broker_url: str
) -> None:
    texts, _planner, start, middle = begun(options, jms_broker_url, 15)
    restarted = GroupPlanner(options)
    restarted.prepare_available_now()
    assert texts_of(options, restarted, start, middle) == texts[:10]
    fill(jms_broker_url, 5, first=100)
    assert restarted.latest(middle, TEN).seq == 15


def test_an_old_copy_of_the_store_is_noticed_before_it_gives_new_messages_old_numbers(
    options: JmsOptions, jms_broker_url: str
) -> None:
    fill(jms_broker_url, 30)
    planner = GroupPlanner(options)
    end = planner.latest(planner.initial(), TEN)
    beyond = replace(end, seq=15)
    for _ in range(2):  # whoever starts it again must hear the same
        with pytest.raises(DataLossError, match="store is an old copy"):
            begin_available_now(options).latest(beyond, TEN)
        with pytest.raises(DataLossError, match="store is an old copy"):
            begin_available_now(options).pieces(end, beyond)
    assert len(look(jms_broker_url, "orders")) == 20


def begin_available_now(options: JmsOptions) -> GroupPlanner:
    planner = GroupPlanner(options)
    planner.prepare_available_now()
    return planner


@pytest.mark.parametrize("ack_on", AckOn)
def test_of_an_old_copy_of_the_store_no_message_goes_that_was_not_read(
    options: JmsOptions, jms_broker_url: str, ack_on: AckOn
) -> None:
    texts = fill(jms_broker_url, 30)
    planner = GroupPlanner(options)
    end = planner.latest(planner.initial(), TEN)
    beyond = replace(end, seq=15)
    careless = replace(options, fail_on_data_loss=False, ack_on=ack_on)
    GroupPlanner(careless).latest(beyond, Limits(max_messages=20))  # dies before Spark has its log written
    planner = GroupPlanner(careless)
    after = through_json(planner.latest(beyond, Limits(max_messages=20)))
    planner.commit(beyond)  # as Spark does when it has planned the next batch
    assert texts_of(options, planner, beyond, after) == texts[10:]
    planner.commit(after)
    assert look(jms_broker_url, "orders") == []


def test_a_batch_that_is_acknowledged_is_not_asked_for_again(options: JmsOptions, jms_broker_url: str) -> None:
    _, planner, start, middle = begun(options, jms_broker_url, 20)
    planner.latest(middle, TEN)
    with pytest.raises(DataLossError, match="the checkpoint is an old copy"):
        GroupPlanner(options).pieces(start, middle)


def test_an_old_checkpoint_is_noticed(options: JmsOptions, jms_broker_url: str) -> None:
    _, planner, start, middle = begun(options, jms_broker_url, 20)
    planner.latest(middle, TEN)
    with pytest.raises(DataLossError, match="the checkpoint is an old copy"):
        planner.latest(start, TEN)
    careless = GroupPlanner(replace(options, fail_on_data_loss=False))
    with pytest.raises(DataLossError, match="with a new checkpoint and a new output folder or sinkId"):
        careless.latest(start, TEN)  # its sink would take the new rows for those of the batch that had this number
    with pytest.raises(DataLossError, match="store is an old copy"):
        planner.latest(replace(middle, seq=99), TEN)


def test_a_stream_needs_the_name_of_a_group_and_a_destination(options: JmsOptions) -> None:
    with pytest.raises(OptionError, match="option readerGroup is missing"):
        GroupPlanner(replace(options, reader_group=None))
    with pytest.raises(OptionError, match="option destination is missing"):
        GroupPlanner(replace(options, destination=None))
    with pytest.raises(OptionError, match="give subscription and clientId"):
        GroupPlanner(replace(options, destination=parse_address("topic:prices")))


def test_vm_is_not_for_jobs_of_spark(jms_broker_url: str) -> None:
    for call in (acknowledge, release):
        with pytest.raises(OptionError, match="vm:// is a broker within one process"):
            call("job", url=jms_broker_url)
