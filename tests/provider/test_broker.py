"""Brokers of this process, by name: when they begin, when they end, and whose they are."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from pyjms import ConnectionFactory, Session, TextMessage
from pyjms_provider.broker import stop_broker

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    if request.param == "postgresql":
        store = request.getfixturevalue("postgresql").make_store()
    yield f"vm://kept?store={quote(store, safe='')}"
    stop_broker("kept")


# Forks

PARENT = """
import os, signal, sys
from pyjms import ConnectionFactory, JMSException, Session

url, ending = sys.argv[1:]
signal.alarm(50)
connection = ConnectionFactory(url).create_connection()
connection.start()
session = connection.create_session(False, Session.CLIENT_ACKNOWLEDGE)
queue = session.create_queue("orders")
producer = session.create_producer(queue)
producer.send(session.create_text_message("before"))
consumer = session.create_consumer(queue)
child = os.fork()
if not child:
    signal.alarm(25)
    if ending == "closes":
        connection.close()
    if ending == "sends":
        try:
            producer.send(session.create_text_message("the child's"))
        except JMSException:
            sys.exit(0)
        sys.exit(1)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert consumer.receive(5000).text == "before"
producer.send(session.create_text_message("after"))
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ending", ["ends", "closes", "sends"])
def test_a_forked_child_that_ends_leaves_the_store_to_its_parent(url: str, ending: str) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, url, ending], cwd=ROOT, timeout=PATIENCE_S, capture_output=True, check=False
    )
    assert parent.returncode == -signal.SIGKILL, parent.stderr.decode()
    with ConnectionFactory(f"{url}&stand_by=wait").create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        consumer = session.create_consumer(session.create_queue("orders"))
        first, second = consumer.receive(5000), consumer.receive(5000)
        assert isinstance(first, TextMessage)
        assert isinstance(second, TextMessage)
        assert [first.text, second.text] == ["before", "after"]
        assert first.jms_redelivered  # its parent was killed, so nobody may say that all was in good order
