"""``pyjms dead-letters replay``, killed before and after each write of the journal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count

import pytest

from pyjms import ConnectionFactory, Session
from pyjms.spi.registry import find_provider
from pyjms.spi.url import ProviderUrl
from pyjms_provider.core.policy import QueuePolicies, QueuePolicy
from pyjms_provider.queue_manager import QueueManager
from tests.provider.kill.points import SIDES
from tests.provider.kill.site import PATIENCE_S, ROOT
from tests.sampling import sample

LETTERS = 25
NAME = "vm://replay"


def give_up(url: str) -> None:
    """Have so many dead letters of `orders` at a broker, and nothing else; it ends then."""
    manager = QueueManager.start(url, QueuePolicies(default=QueuePolicy(max_deliveries=1)))
    for name in manager.names():
        manager.purge(name)
    with ConnectionFactory(NAME).create_connection() as connection:
        connection.start()
        session = connection.create_session(True, Session.SESSION_TRANSACTED)
        orders = session.create_queue("orders")
        producer = session.create_producer(orders)
        for number in range(LETTERS):
            producer.send(session.create_text_message(f"{number:02}"))
        session.commit()
        consumer = session.create_consumer(orders)
        for _ in range(LETTERS):
            consumer.receive()
        session.rollback()
    find_provider("vm").stop_broker(ProviderUrl.parse(NAME))


def found_in(url: str) -> tuple[list[str], list[str]]:
    """Return what is in `orders`, and what is a dead letter still."""
    manager = QueueManager.start(url, QueuePolicies())
    found = [[str(each.body) for each in manager.browse(name)] for name in ("orders", "DLQ")]
    find_provider("vm").stop_broker(ProviderUrl.parse(NAME))
    return found[0], found[1]


@pytest.mark.parametrize("side", sample(SIDES, 1, "sides of the writes of replays"))
def test_no_letter_is_lost_or_doubled_when_its_replay_is_killed(kill_store: Callable[[], str], side: str) -> None:
    everything = [f"{number:02}" for number in range(LETTERS)]
    seen = set()
    url = f"{NAME}?store={kill_store()}"
    for passing in count(1):
        give_up(url)
        program = [sys.executable, "-m", "tests.provider.kill.replayer", side, str(passing), url]
        ended = subprocess.run(program, cwd=ROOT, capture_output=True, timeout=PATIENCE_S, check=False)
        back, dead = found_in(url)
        assert sorted([*back, *dead]) == everything, ended.stderr
        seen.add(len(back))
        if ended.returncode != -signal.SIGKILL:
            assert (ended.returncode, dead) == (0, []), ended.stderr
            break
    assert seen == {0, 10, 20, 25}
