"""What management costs: lists of many queues, a start with many queues, and the way of a message while it is watched.

Processor time is measured, as other load on the machine is not ours; the start waits for the disk, so it is measured by the clock.
The way of a message is measured in turn with and without a tree, which looks over the queues, and a scrape each second; their time counts.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from threading import Event, Thread

from measure import report

from pyjms import ConnectionFactory, Session
from pyjms.testing import VirtualClock
from pyjms_provider.broker import stop_broker
from pyjms_provider.management.describing import ListRequest
from pyjms_provider.management.rest.monitoring import Metrics
from pyjms_provider.management.service import Caller, ManagementService
from pyjms_provider.model.broker import SystemConfig, manage
from pyjms_provider.model.configuration.toml_file import TomlConfigurationStore
from pyjms_provider.model.virtual_host import VirtualHost
from pyjms_provider.security.access import RuleAccessPolicy, parse_rules
from pyjms_provider.security.audit import AuditLog
from pyjms_provider.security.contracts import Principal
from pyjms_provider.security.secrets import SecretBox

QUEUES = 10_000
ROUNDS = 14  # the processor changes its pace by some per cent, and two per cent are to be seen
MESSAGES = 100_000  # more than a second, so that each measurement has its scrapes


def open_system(folder: Path) -> SystemConfig:
    """Open a broker whose configuration is in a folder."""
    store = TomlConfigurationStore(folder / "broker.toml")
    context = {"pyjms.work_dir": str(folder)}
    return SystemConfig.opened(
        store, broker={"name": "shop"}, context=context, secrets=SecretBox.open(folder / "broker.key")
    )


def many_queues() -> bool:
    """Measure lists of, and a start with, many queues that the store of messages keeps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        system = open_system(folder)
        node = system.broker.create_child("virtual_host_node", {"name": "main", "type": "json"})
        host = node.create_child("virtual_host", {"name": "shop", "store_url": f"sqlite:///{folder}/shop.db"})
        manager = host.sources()["queue"].manager  # type: ignore[attr-defined]  # the queues' source has one
        for number in range(QUEUES):
            manager.create(f"queue-{number:05}")
        system.close()
        began = time.perf_counter()
        system = open_system(folder)
        good = report(f"seconds to start with {QUEUES} queues", time.perf_counter() - began, most=10)
        desk = ManagementService(system, AuditLog(VirtualClock()))
        access = RuleAccessPolicy(parse_rules("allow * all *"))
        caller = Caller(principal=Principal(name="ann"), access=access)
        for what, request in (
            ("as they come", ListRequest(limit=50)),
            ("sorted by depth", ListRequest(limit=50, order=("-depth",))),
            ("filtered and sorted", ListRequest(limit=50, condition="depth = 0", order=("-name",))),
            ("filtered by a part of the name", ListRequest(limit=50, condition="name LIKE '%9%'", order=("-depth",))),
            ("sorted by an attribute", ListRequest(limit=50, order=("type",))),
            ("filtered by attributes", ListRequest(limit=50, condition="paused = FALSE AND consumers = 0")),
            ("sorted by a rate", ListRequest(limit=50, order=("-arrival_rate",))),
        ):
            took = []
            for _ in range(3):
                began = time.process_time()
                assert len(desk.list(caller, "queue", (), request).items) == 50
                took.append((time.process_time() - began) * 1000)
            good &= report(f"ms for a page of {QUEUES} queues, {what}", min(took), most=200)
        good &= report(f"ms for a scrape with {QUEUES} queues", scrape_ms(system), most=200)
        good &= report(f"ms for a look over {QUEUES} queues, each ten seconds", look_ms(host_of(system)), most=200)
        desk.close()
        system.close()
        return good


def host_of(system: SystemConfig) -> VirtualHost:
    """Return the one virtual host of a broker."""
    node = next(iter(system.broker.children("virtual_host_node")))
    host = next(iter(node.children("virtual_host")))
    assert isinstance(host, VirtualHost)
    return host


def look_ms(host: VirtualHost) -> float:
    """Return the milliseconds of processor time that one look for the last hour and alerts takes."""
    sampler, took = host.sampler, []
    now_ms = host.clock.time_ms()
    for step in range(4):
        began = time.process_time()
        sampler.sample(now_ms + step * 10_000)
        took.append((time.process_time() - began) * 1000)
    return min(took)


def scrape_ms(system: SystemConfig) -> float:
    """Return the milliseconds of processor time that one scrape takes."""
    metrics = Metrics(system, queues=100)
    took = []
    for _ in range(3):
        began = time.process_time()
        metrics.render()
        took.append((time.process_time() - began) * 1000)
    return min(took)


def send_and_receive() -> float:
    """Return the microseconds of processor time, of all threads, that a message takes there and back."""
    connection = ConnectionFactory("vm://bench-management").create_connection()
    connection.start()
    session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
    queue = session.create_queue("orders")
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    message = session.create_text_message("one")
    began = time.process_time()
    for _ in range(MESSAGES):
        producer.send(message)
        assert consumer.receive(1000) is not None
    took = time.process_time() - began
    connection.close()
    return took / MESSAGES * 1e6


def watched() -> float:
    """Return the same while the broker is managed and its metrics are read each second."""
    system = manage("bench-management")
    metrics, ended = Metrics(system, queues=100), Event()

    def scrape() -> None:
        while not ended.wait(1.0):
            metrics.render()

    metrics.render()
    thread = Thread(target=scrape)
    thread.start()
    try:
        return send_and_receive()
    finally:
        ended.set()
        thread.join()
        system.close()


def main() -> int:
    """Measure, and print a line for each figure."""
    keep = ConnectionFactory("vm://bench-management").create_connection()
    found = []
    for number in range(ROUNDS):
        pair = [watched, send_and_receive] if number % 2 else [send_and_receive, watched]
        took = {each: each() for each in pair}  # in turn, as the second has a warmer processor
        found.append((took[watched], took[send_and_receive]))
    # The least of each: other load on the machine makes both slower, and nothing makes them faster.
    ours, theirs = (min(each[side] for each in found) for side in (0, 1))
    good = report(
        "the way of a message while it is watched, divided by the way unwatched",
        ours / theirs,
        most=1.02,
        detail=f"{ours:.1f} and {theirs:.1f} µs",
    )
    system = manage("bench-management")
    share = scrape_ms(system) / 1000 + look_ms(host_of(system)) / 10_000
    good &= report("the share of a core for a scrape each second and a look each ten, with one queue", share, most=0.02)
    system.close()
    keep.close()
    stop_broker("bench-management")
    good &= many_queues()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
