"""The Celery application whose workers the tests run, with the broker that the environment's `PYJMS_KOMBU_URL` names."""

from __future__ import annotations

import os
from threading import Event
from typing import Any

from celery import Celery, Task

import pyjms.kombu  # noqa: F401 - makes the transport known

app = Celery("application", broker=os.environ.get("PYJMS_KOMBU_URL", "pyjms+vm://celery"), backend="rpc://")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=True,
    task_default_queue="work",
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=True,
)


@app.task
def add(first: int, second: int) -> int:
    """Return the sum."""
    return first + second


@app.task
def fail(reason: str) -> None:
    """Raise it."""
    raise ValueError(reason)


@app.task(bind=True)
def twice(self: Task) -> int:
    """Ask to be tried again; return which attempt this is."""
    if not self.request.retries:
        raise self.retry(countdown=0)
    return int(self.request.retries)


@app.task(bind=True)
def hold(self: Task) -> Any:
    """Tell who works on it, and never end; the second time return what kind of delivery it is."""
    if self.request.delivery_info["redelivered"]:
        return [os.getpid(), self.request.delivery_info["redelivered"]]
    with self.app.connection_for_write() as connection:
        connection.Producer().publish(os.getpid(), routing_key="begun")
    return Event().wait(60)
