"""The embedded broker at work, recorded and judged: the project's demo, and clients that get in each other's way."""

from __future__ import annotations

from random import Random
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.history import check, read
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from tests.pyjms.demo.command_line import runner

if TYPE_CHECKING:
    from pathlib import Path

    from pyjms.history import Recording

QUEUES = ("one", "two", "three")
PATIENCE_S = 60


@pytest.mark.parametrize("failure_rate", ["0.03", "0.3"])
def test_the_demo_breaks_no_guarantee(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, failure_rate: str
) -> None:
    url = f"vm://demo-recorded?record={tmp_path}"
    code, _, _ = runner(monkeypatch, capsys)("demo", "--limit", "150", "--url", url, "--failure-rate", failure_rate)
    find_provider("vm").stop_broker(ProviderUrl.parse("vm://demo-recorded"))
    history = read(tmp_path)
    assert code == 0
    assert len(history.events) > 1000
    assert str(check(history)) == f"nothing found in {len(history.events):,} events"


def work(factory: ConnectionFactory, seed: int) -> None:
    """Send, receive, commit, roll back, close and come again, at random."""
    rng = Random(seed)
    for _ in range(4):
        with factory.create_connection() as connection:
            connection.start()
            mode = rng.choice([Session.SESSION_TRANSACTED, Session.CLIENT_ACKNOWLEDGE, Session.AUTO_ACKNOWLEDGE])
            session = connection.create_session(mode == Session.SESSION_TRANSACTED, mode)
            source, target = (session.create_queue(rng.choice(QUEUES)) for _ in range(2))
            consumer, producer = session.create_consumer(source), session.create_producer(target)
            for number in range(25):
                producer.priority = rng.choice([4, 4, 8])
                producer.send(session.create_text_message(f"{seed} {number}"))
                message = consumer.receive_no_wait()
                if mode == Session.SESSION_TRANSACTED and rng.random() < 0.4:
                    rng.choice([session.commit, session.rollback])()
                elif mode == Session.CLIENT_ACKNOWLEDGE and message is not None and rng.random() < 0.5:
                    rng.choice([message.acknowledge, session.recover])()


def drain(factory: ConnectionFactory) -> None:
    """Take all that is left, close the consumers, and look over the queues."""
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        for name in QUEUES:
            with session.create_consumer(session.create_queue(name)) as consumer:
                while consumer.receive_no_wait() is not None:
                    pass
            assert not list(session.create_browser(session.create_queue(name)))


def test_clients_that_get_in_each_others_way_break_no_guarantee(jms_broker_url: str, jms_recording: Recording) -> None:
    # They roll back, and give back by closing, as often as they like: no message is to become a dead letter.
    factory = ConnectionFactory(f"{jms_broker_url}?max_deliveries=0", record=jms_recording)
    threads = [Thread(target=work, args=(factory, seed)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    drain(factory)
    report = jms_recording.check(complete=True)
    assert set(report.counts()) <= {"priority", "reordered-shared", "moved"}, str(report)
    assert report.events > 500
