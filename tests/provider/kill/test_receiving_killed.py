"""A program that embeds the broker is killed while messages are pushed to its receiver: none is lost, none comes again once its acknowledgement has returned."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from pyjms import ConnectionFactory, Session
from pyjms_provider.broker import stop_broker
from tests.provider.kill.site import start_process
from tests.sampling import SEED_NAME

MESSAGES = 80


@pytest.mark.realises("JBM-5.2.c", "JBM-5.3.b")
def test_what_was_acknowledged_does_not_come_again_and_nothing_is_lost(tmp_path: Path) -> None:
    chance = random.Random(f"{os.environ[SEED_NAME]} receiving")
    url = f"vm://killed?store=sqlite:///{tmp_path / 'store.db'}"
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("orders"))
        for number in range(MESSAGES):
            producer.send(session.create_text_message(str(number)))
    stop_broker("killed")
    got: set[str] = set()
    done: set[str] = set()
    is_idle = False
    for _ in range(40):
        process = start_process("tests.provider.kill.receiving", url, str(chance.randrange(2**32)))
        assert process.stdout is not None
        kill_after = chance.randrange(1, 40)
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # the process was killed in the midst of it
            word, *rest = line.split()
            if word == "got":
                assert rest[0] not in done, "its acknowledgement had returned"
                assert rest[1] == "1" or rest[0] not in got, "it was seen before, and is not flagged"
                got.add(rest[0])
            elif word == "done":
                done.add(rest[0])
            is_idle = is_idle or word == "idle"
            kill_after -= 1
            if not kill_after:
                process.kill()  # the lines that are in the pipe are read all the same
        process.communicate(timeout=60)
        if is_idle:
            break
    assert is_idle
    assert got == {str(number) for number in range(MESSAGES)}
