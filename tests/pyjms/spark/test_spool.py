"""A spool: exactly once from a message system that repeats nothing, whatever dies between two steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms import ConnectionFactory, Message, Session
from pyjms.spark.arrow import full_schema
from pyjms.spark.connecting import close_links
from pyjms.spark.options import DataLossError, Duplicates, JmsOptions, Mode, OptionError, SpoolError, parse_address
from pyjms.spark.planning import Limits, Offset, Planner, Receiver, in_batches
from pyjms.spark.spool import Frame, Marks, Seen, batches_between, batches_of, frames_of, pack
from pyjms.spark.spool_planning import HeldPiece, HoldingPlanner, SpoolPiece, SpoolPlanner
from pyjms.spi.capability import Capability
from pyjms.spi.delivery import Delivery
from pyjms.spi.replay import ReservedMessage
from tests.pyjms.spark.messages_of import fill, look, session_of
from tests.pyjms.spark.stripped import foreign

TEN = Limits(max_messages=10)


@pytest.fixture
def options(jms_broker_url: str, tmp_path: Path) -> Iterator[JmsOptions]:
    with foreign(jms_broker_url, Capability.REPLAY | Capability.STAGE | Capability.XA) as url:
        yield JmsOptions(
            url=url, destination=parse_address("queue:orders"), reader_group="g", spool_dir=str(tmp_path), partitions=2
        )
        close_links()


def texts_of(planner: Planner, start: Offset, end: Offset) -> list[str]:
    found: list[str] = []
    for piece in planner.pieces(start, end):
        if isinstance(piece, SpoolPiece):
            batches = list(batches_between(Path(piece.folder), piece.span.after, piece.span.upto))
        else:
            assert isinstance(piece, HeldPiece)
            batches = batches_of(piece.data)
        assert all(batch.schema == full_schema() for batch in batches)
        found += chain.from_iterable(batch.column("text").to_pylist() for batch in batches)
    return found


def all_of(planner: Planner, start: Offset) -> tuple[list[str], Offset]:
    """Run batches until there is nothing left; return what they read and where they ended."""
    found: list[str] = []
    while (end := planner.latest(start, TEN)) != start:
        found += texts_of(planner, start, end)
        start = end
    return found, start


@pytest.mark.parametrize("kind", [SpoolPlanner, HoldingPlanner])
def test_batches_follow_each_other(kind: type[SpoolPlanner], options: JmsOptions, jms_broker_url: str) -> None:
    texts = fill(jms_broker_url, 25)
    planner = kind(options)
    found, end = all_of(planner, planner.initial())
    assert (found, end.seq) == (texts, 25)
    planner.close()
    assert look(jms_broker_url, "orders") == []


@pytest.mark.parametrize("name", ["..", ".", "a/../../b"])
def test_the_spool_of_any_group_is_below_its_folder(name: str, options: JmsOptions, jms_broker_url: str) -> None:
    below = Path(options.spool_dir or "") / "spools"
    texts = fill(jms_broker_url, 3)
    planner = SpoolPlanner(replace(options, reader_group=name, spool_dir=str(below)))
    assert all_of(planner, planner.initial())[0] == texts
    planner.close()
    assert [path.name for path in below.parent.iterdir()] == ["spools"]
    assert all(path.is_dir() for path in below.iterdir())


@pytest.mark.parametrize("kind", [SpoolPlanner, HoldingPlanner])
def test_available_now_ends_with_what_was_there(
    kind: type[SpoolPlanner], options: JmsOptions, jms_broker_url: str
) -> None:
    texts = fill(jms_broker_url, 15)
    planner = kind(options)
    start = planner.initial()
    planner.prepare_available_now()
    found, end = all_of(planner, start)
    assert (found, end.seq) == (texts, 15)
    fill(jms_broker_url, 5, first=100)
    assert planner.latest(end, TEN) == end
    planner.close()


@pytest.mark.parametrize("kind", [SpoolPlanner, HoldingPlanner])
def test_available_now_ends_beside_a_producer_that_is_quicker(
    kind: type[SpoolPlanner], options: JmsOptions, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    receive = Receiver.receive
    looks: list[int] = []

    def look_on(receiver: Receiver, limits: Limits, wait_ms: int) -> list[Delivery]:
        assert len(looks) < 50, "it does not end"
        fill(jms_broker_url, 12, first=1000 + 12 * len(looks))
        found = receive(receiver, limits, wait_ms)
        looks.append(len(found))
        return found

    texts = fill(jms_broker_url, 15)
    planner = kind(options)
    start = planner.initial()
    monkeypatch.setattr(Receiver, "receive", look_on)
    planner.prepare_available_now()
    assert looks == [], "what is there waits at the broker for its batch"
    found, _ = all_of(planner, start)
    assert found[:15] == texts
    planner.close()


@pytest.mark.parametrize("kind", [SpoolPlanner, HoldingPlanner])
def test_a_batch_of_available_now_has_no_more_bytes_than_it_may(
    kind: type[SpoolPlanner], options: JmsOptions, jms_broker_url: str
) -> None:
    fill(jms_broker_url, 6)
    planner = kind(options)
    start = planner.initial()
    planner.prepare_available_now()
    end = planner.latest(start, Limits(max_messages=10, max_bytes=1_000))
    assert end.seq == 2, "a text counts as 500 bytes and its length"
    planner.close()


@pytest.mark.parametrize("what", ["map", "stream", "object", "property"])
def test_bytes_are_counted_wherever_a_message_holds_them(options: JmsOptions, jms_broker_url: str, what: str) -> None:
    with session_of(jms_broker_url) as session:
        message: Message = session.create_message()
        if what == "map":
            message = session.create_map_message()
            message.set_bytes("photo", b"x" * 10_000)
        elif what == "stream":
            message = session.create_stream_message()
            message.write_string("x" * 10_000)
        elif what == "object":
            message = session.create_object_message("x" * 10_000)
        else:
            message.set_string_property("photo", "x" * 10_000)
        producer = session.create_producer(session.create_queue("orders"))
        for _ in range(4):
            producer.send(message)
    receiver = Receiver(options)
    found = receiver.receive(Limits(max_messages=10, max_bytes=15_000), 2_000)
    receiver.disconnect()
    assert len(found) == 2
    pieces = [
        ReservedMessage(number=1, envelope=each.envelope, count=1, redelivered=False)
        for each in found
        for _ in range(500)
    ]
    assert max(map(len, in_batches([pieces]))) < 850, "8 MiB"


def test_a_spool_goes_on_after_its_driver_died_and_repeats_its_batch(options: JmsOptions, jms_broker_url: str) -> None:
    texts = fill(jms_broker_url, 25)
    first = SpoolPlanner(options)
    start = first.initial()
    middle = first.latest(start, TEN)
    assert texts_of(first, start, middle) == texts[:10]
    die(first)
    second = SpoolPlanner(options)
    assert texts_of(second, start, middle) == texts[:10]
    found, _ = all_of(second, middle)
    assert found == texts[10:]
    assert len(list(Path(options.spool_dir or "").rglob("*.spool"))) <= 1
    second.close()


def die(planner: SpoolPlanner) -> None:
    """End as kill -9 does: the system closes files and connections, and nothing else is done."""
    close_links()
    folder = planner._folder()
    folder._lock.close()
    if folder._segment is not None:
        folder._segment.close()


def test_what_was_spooled_and_not_acknowledged_is_known_when_it_comes_again(
    options: JmsOptions, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = fill(jms_broker_url, 8)

    def fail(receiver: Receiver, deliveries: Sequence[Delivery]) -> bool:
        raise KeyboardInterrupt

    first = SpoolPlanner(options)
    start = first.initial()
    with monkeypatch.context() as patched:
        patched.setattr(Receiver, "acknowledge", fail)
        with pytest.raises(KeyboardInterrupt):
            first.latest(start, TEN)
    die(first)
    assert look(jms_broker_url, "orders") == texts  # the broker has them back
    second = SpoolPlanner(options)
    found, end = all_of(second, second.initial())
    assert found == texts
    fill(jms_broker_url, 1, first=100)
    found, _ = all_of(second, end)
    assert found == ["order 100"]
    second.close()
    assert look(jms_broker_url, "orders") == []


def test_a_lost_connection_brings_nothing_twice(
    options: JmsOptions, jms_broker_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = fill(jms_broker_url, 8)
    settle = Receiver.acknowledge

    def lose(receiver: Receiver, deliveries: Sequence[Delivery]) -> bool:
        monkeypatch.setattr(Receiver, "acknowledge", settle)
        receiver.disconnect()
        return False

    monkeypatch.setattr(Receiver, "acknowledge", lose)
    planner = SpoolPlanner(options)
    found, end = all_of(planner, planner.initial())
    fill(jms_broker_url, 2, first=8)
    more, _ = all_of(planner, end)
    assert found + more == [*texts, "order 8", "order 9"]
    planner.close()


def test_two_queries_do_not_share_a_spool(options: JmsOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyjms.spark.spool._LOCK_MS", 0)
    first = SpoolPlanner(options)
    first.initial()
    with pytest.raises(SpoolError, match="is in use by another query"):
        SpoolPlanner(options).initial()
    first.close()


def test_a_message_without_an_id_is_refused_unless_duplicates_are_allowed(
    options: JmsOptions, jms_broker_url: str
) -> None:
    connection = ConnectionFactory(jms_broker_url).create_connection()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    producer = session.create_producer(session.create_queue("orders"))
    producer.disable_message_id = True
    producer.send(session.create_text_message("nameless"))
    connection.close()
    planner = SpoolPlanner(options)
    with pytest.raises(SpoolError, match="has no JMSMessageID"):
        planner.latest(planner.initial(), TEN)
    planner.close()
    careless = SpoolPlanner(replace(options, duplicates=Duplicates.ALLOW))
    assert all_of(careless, careless.initial())[0] == ["nameless"]
    careless.close()


def test_a_spool_that_was_replaced_is_noticed(options: JmsOptions, jms_broker_url: str, tmp_path: Path) -> None:
    fill(jms_broker_url, 5)
    planner = SpoolPlanner(options)
    _, end = all_of(planner, planner.initial())
    planner.close()
    other = replace(options, spool_dir=str(tmp_path / "other"))
    replaced = SpoolPlanner(other)
    with pytest.raises(DataLossError, match="another generation"):
        replaced.latest(end, TEN)
    replaced.close()


def test_of_an_old_copy_of_a_spool_no_message_goes_that_was_not_read(options: JmsOptions, jms_broker_url: str) -> None:
    texts = fill(jms_broker_url, 30)
    planner = SpoolPlanner(options)
    start = planner.initial()
    middle = planner.latest(start, TEN)
    end = planner.latest(middle, TEN)
    planner.close()
    beyond = replace(end, seq=25)
    careless = replace(options, fail_on_data_loss=False)
    planner = SpoolPlanner(careless)
    planner.latest(beyond, TEN)  # dies before Spark has its log written
    planner.close()
    planner = SpoolPlanner(careless)
    after = planner.latest(beyond, TEN)
    planner.commit(beyond)  # as Spark does when it has planned the next batch
    found = texts_of(planner, beyond, after)
    found += all_of(planner, after)[0]
    assert found == texts[10:]
    planner.close()


def test_of_a_batch_that_was_under_way_another_spool_hands_out_nothing(
    options: JmsOptions, jms_broker_url: str, tmp_path: Path
) -> None:
    fill(jms_broker_url, 5)
    planner = SpoolPlanner(options)
    start = planner.initial()
    end = planner.latest(start, TEN)
    planner.close()
    texts = fill(jms_broker_url, 5, first=100)
    other = SpoolPlanner(replace(options, spool_dir=str(tmp_path / "other")))
    other.latest(other.initial(), TEN)  # it has messages of the same numbers
    with pytest.raises(DataLossError, match="another generation"):
        other.pieces(start, end)
    other.close()
    careless = SpoolPlanner(replace(options, spool_dir=str(tmp_path / "other"), fail_on_data_loss=False))
    assert careless.pieces(start, end) == []
    assert all_of(careless, end)[0] == texts
    careless.close()


def test_of_a_batch_that_was_under_way_and_is_done_with_the_spool_hands_out_nothing(
    options: JmsOptions, jms_broker_url: str
) -> None:
    fill(jms_broker_url, 5)
    planner = SpoolPlanner(options)
    start = planner.initial()
    end = planner.latest(start, TEN)
    planner.latest(end, TEN)
    with pytest.raises(DataLossError, match="the checkpoint is an old copy"):
        planner.pieces(start, end)
    planner.close()


def test_an_old_checkpoint_is_refused_even_if_data_may_be_lost(options: JmsOptions, jms_broker_url: str) -> None:
    fill(jms_broker_url, 5)
    careless = SpoolPlanner(replace(options, fail_on_data_loss=False))
    start = careless.initial()
    careless.latest(careless.latest(start, TEN), TEN)
    with pytest.raises(DataLossError, match="with a new checkpoint and a new output folder or sinkId"):
        careless.latest(start, TEN)
    careless.close()


def test_a_range_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SpoolError, match="lacks the messages from 1 to 3"):
        list(batches_between(tmp_path, 0, 3))


def test_a_spool_needs_a_folder(options: JmsOptions) -> None:
    with pytest.raises(OptionError, match="mode=spool needs spoolDir"):
        SpoolPlanner(replace(options, spool_dir=None, mode=Mode.SPOOL))


def test_after_a_crash_at_least_once_repeats_the_batch_empty_and_brings_its_messages_again(
    options: JmsOptions, jms_broker_url: str
) -> None:
    texts = fill(jms_broker_url, 12)
    first = HoldingPlanner(options)
    start = first.initial()
    middle = first.latest(start, TEN)
    assert len(texts_of(first, start, middle)) == 10
    close_links()
    second = HoldingPlanner(options)
    assert texts_of(second, start, middle) == []
    found, end = all_of(second, middle)
    assert (sorted(found), end.seq) == (sorted(texts), 22)
    second.close()


@given(st.lists(st.binary(max_size=30), max_size=5), st.integers(1, 60))
def test_what_a_crash_cuts_off_a_segment_is_no_frame(bodies: list[bytes], cut: int) -> None:
    whole = [Frame(first=number, count=1, data=data) for number, data in enumerate(bodies, 1)]
    segment = b"".join(map(pack, whole))
    assert [frame for frame, _ in frames_of(segment)] == whole
    torn = segment[: max(0, len(segment) - cut)]
    found = [frame for frame, _ in frames_of(torn)]
    assert found == whole[: len(found)]
    assert len(found) < len(whole) or not whole
    if segment:
        wrong = segment[:-1] + bytes([segment[-1] ^ 1])
        assert len(list(frames_of(wrong))) == len(whole) - 1


def test_marks_are_read_as_they_were_written() -> None:
    marks = Marks(generation="g", low=3, settled=9, unsettled=frozenset({"ID:7"}))
    assert Marks.from_json(marks.to_json()) == marks
    with pytest.raises(SpoolError, match="is damaged"):
        Marks.from_json("{}")


def test_only_ids_that_may_come_again_are_kept() -> None:
    seen = Seen()
    seen.spooled(["a", "b", None])
    seen.settled(["a", None])
    assert (seen.is_repeated("a"), seen.is_repeated("b"), seen.is_repeated(None)) == (False, True, False)
