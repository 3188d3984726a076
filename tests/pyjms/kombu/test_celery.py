"""Celery on a broker that is served: its workers are processes, which may be killed, and so may the broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, group
from kombu import Connection

from pyjms import ConnectionFactory, Session, TextMessage
from tests.pyjms.kombu.workers import APPLICATION, client, task, worker
from tests.pyjms.spark.served import ServedBroker

LONG_S = 30
pytestmark = pytest.mark.xdist_group("celery")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("broker"), durable=True, protocols=("stomp", "amqp")) as served:
        yield served


@pytest.fixture(scope="module")
def url(broker: ServedBroker) -> str:
    return f"pyjms+{broker.url}"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker") / "log"


@pytest.fixture(scope="module")
def one(url: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with worker(url, log) as process:
        yield process


@pytest.fixture(scope="module")
def app(url: str, one: subprocess.Popen[bytes]) -> Iterator[Celery]:
    """A client's; its worker runs."""
    with client(url) as app:
        result_of(task(app, "add", 1, 2).delay())  # a worker that does tasks hears remote control, too
        yield app


def result_of(result: Any) -> Any:
    return result.get(timeout=LONG_S)


def test_a_task_runs_and_its_result_comes_back(app: Celery) -> None:
    assert result_of(task(app, "add", 1, 2).delay()) == 3


def test_an_error_comes_back(app: Celery) -> None:
    with pytest.raises(ValueError, match="no beans"):
        result_of(task(app, "fail", "no beans").delay())


def test_a_task_that_asks_for_it_is_tried_again(app: Celery) -> None:
    assert result_of(task(app, "twice").delay()) == 1


def test_a_task_waits_for_its_time(app: Celery) -> None:
    begun = time.perf_counter()
    assert result_of(task(app, "add", 1, 2).apply_async(countdown=0.5)) == 3
    assert time.perf_counter() - begun >= 0.5


def test_groups(app: Celery) -> None:
    assert result_of(group((task(app, "add", each, each) for each in range(50)), app=app)()) == [
        2 * each for each in range(50)
    ]


def test_remote_control_and_events(app: Celery) -> None:
    inspect = app.control.inspect(destination=["one@test"], timeout=LONG_S)
    seen: list[str] = []
    with app.connection_for_read() as own:
        receiver = app.events.Receiver(own, handlers={"*": lambda event: seen.append(event["type"])})
        with receiver.consumer_context(wakeup=False) as (connection, _, _):
            app.control.enable_events(destination=["one@test"], reply=True, timeout=LONG_S, limit=1)
            assert inspect.ping() == {"one@test": {"ok": "pong"}}
            task(app, "add", 1, 2).delay().get(timeout=LONG_S)
            while "task-succeeded" not in seen:
                connection.drain_events(timeout=LONG_S)
    assert "task-received" in seen
    broker = inspect.stats()["one@test"]["broker"]
    assert broker["transport"] == "pyjms"
    assert inspect.active_queues()["one@test"][0]["name"] == "work"


def test_a_jms_program_starts_a_task(app: Celery, broker: ServedBroker) -> None:
    """As the how-to says that a program in Java can."""
    with ConnectionFactory(broker.url).create_connection() as connection:
        connection.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        message = session.create_text_message("[[1, 2], {}, {}]")
        message.set_string_property("content_type", "application/json")
        message.set_string_property("task", f"{APPLICATION}.add")
        message.set_string_property("id", "7")
        message.jms_correlation_id = "7"
        message.jms_reply_to = results = session.create_queue("results-for-java")
        session.create_producer(session.create_queue("work")).send(message)
        result = session.create_consumer(results).receive(LONG_S * 1000)
    assert isinstance(result, TextMessage)
    assert json.loads(result.text or "") | {"status": "SUCCESS", "result": 3} == json.loads(result.text or "")


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_task_comes_again_from_a_worker_that_was_killed(
    app: Celery, broker: ServedBroker, protocol: str, tmp_path: Path
) -> None:
    url, queue = f"pyjms+{broker.urls[protocol]}", f"doomed.{protocol}"
    with (
        Connection(url) as connection,
        worker(url, tmp_path / "doomed", queue=queue, name="two") as doomed,
    ):
        result = task(app, "hold").apply_async(queue=queue)
        begun = connection.SimpleQueue("begun")
        message = begun.get(timeout=LONG_S)
        message.ack()
        assert message.payload == doomed.pid
        os.kill(doomed.pid, signal.SIGKILL)
        app.control.add_consumer(queue, destination=["one@test"])
        pid, is_redelivered = result_of(result)
        assert pid != doomed.pid
        assert is_redelivered


def test_a_worker_outlives_its_broker(app: Celery, broker: ServedBroker, log: Path) -> None:
    assert result_of(task(app, "add", 1, 2).delay()) == 3
    broker.kill()
    broker.start()
    assert result_of(task(app, "add", 3, 4).delay()) == 7
    assert app.control.inspect(destination=["one@test"], timeout=LONG_S).ping() == {"one@test": {"ok": "pong"}}
    assert "Connection to broker lost" in log.read_text()


def test_a_worker_with_processes(app: Celery, url: str, tmp_path: Path) -> None:
    with worker(url, tmp_path / "log", "--pool=prefork", "--concurrency=2", queue="forked", name="three"):
        tasks = [task(app, "add", each, each).apply_async(queue="forked") for each in range(20)]
        assert [result_of(each) for each in tasks] == [2 * each for each in range(20)]
