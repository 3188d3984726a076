"""What was fetched in advance and never seen goes back as if it had never been delivered."""

from __future__ import annotations

from pathlib import Path

from tests.provider.clients.world import World, consume, poll
from tests.provider.helpers import make_envelope, text_of


def test_it_is_neither_counted_nor_flagged_and_keeps_its_place(world: World) -> None:
    session = world.connect().open_session(transacted=False)
    for text in ("a", "b"):
        session.send(make_envelope(text))
    consumer = consume(session)
    first, second = poll(consumer), poll(consumer)
    session.give_back_unseen([first, second])
    again = poll(consumer)
    assert (text_of(again), again.count, again.redelivered) == ("a", 1, False)
    session.recover([again])
    assert poll(consumer).count == 2


def test_it_is_no_failed_attempt(world: World) -> None:
    session = world.connect("?max_deliveries=1").open_session(transacted=False)
    session.send(make_envelope("a"))
    consumer = consume(session)
    for _ in range(3):
        session.give_back_unseen([poll(consumer)])
    assert poll(consumer).count == 1


def test_a_broker_that_is_started_anew_does_not_count_it_either(tmp_path: Path, world: World) -> None:
    url = f"?store=sqlite:///{tmp_path}/jms.db"
    session = world.connect(url).open_session(transacted=False)
    session.send(make_envelope("a", persistent=True))
    consumer = consume(session)
    session.recover([poll(consumer)])
    session.give_back_unseen([poll(consumer)])
    world.stop()
    assert poll(consume(world.connect(url).open_session(transacted=False))).count == 2
