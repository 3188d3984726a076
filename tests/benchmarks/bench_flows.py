"""A workflow of five steps against plain transacted hops: receive here, send there, commit, one message each time.

An instance needs ten hops at least: to each step and back. The engine's store and the broker's are SQLite files that are forced to the
disk with each commit, and so are the hops'. The steps do nothing, and their servers keep nothing: what is measured is the engine.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from threading import Thread
from time import perf_counter
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, make_message, report

from pyjms import ConnectionFactory, Session
from pyjms.flows import FlowClient, FlowEngine, Status, StepServer, read_flow
from pyjms.flows.store import open_store
from pyjms_provider.broker import stop_all_brokers

HOPS = 300
INSTANCES = 300  # a second or two: of less, the first steps and the last ones alone would be a good part
STEPS = 5
HOPS_OF_AN_INSTANCE = 2 * STEPS
LEAST = 0.5
FLOW = read_flow({"name": "bench", "step": [{"name": f"step{each}", "queue": f"work.{each}"} for each in range(STEPS)]})


class Bench:
    """One broker, one store of workflows, an engine, and a server for each step."""

    def __init__(self, folder: str) -> None:
        self.factory = ConnectionFactory(f"vm://bench-flows?store={quote(f'sqlite:///{folder}/messages.db')}")
        self.connection = self.factory.create_connection()
        self.connection.start()
        self.store = open_store(f"sqlite:///{folder}/flows.db")
        self.store.deploy(FLOW)
        self.engine = FlowEngine(self.factory, self.store)
        self.servers = [StepServer(self.factory, step.queue, lambda data, unit: {}) for step in FLOW.steps]
        self.threads = [Thread(target=self.engine.run), *(Thread(target=each.serve) for each in self.servers)]
        for thread in self.threads:
            thread.start()
        self.begun = 0

    def hops_per_second(self) -> float:
        """Return how many transactions a second receive one message and send it on."""
        session = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        producer = session.create_producer(session.create_queue("hop.0"))
        producer.send(make_message(session))
        session.commit()
        consumers = [session.create_consumer(session.create_queue(f"hop.{each}")) for each in range(2)]
        producers = [session.create_producer(session.create_queue(f"hop.{each}")) for each in range(2)]
        begin = perf_counter()
        for number in range(HOPS):
            message = consumers[number % 2].receive(10_000)
            assert message is not None
            producers[1 - number % 2].send(message)
            session.commit()
        rate = HOPS / (perf_counter() - begin)
        assert consumers[HOPS % 2].receive(10_000) is not None
        session.commit()
        session.close()
        return rate

    def instances_per_second(self) -> float:
        """Return how many instances a second are completed, of many that are begun at once."""
        session = self.connection.create_session(True, Session.SESSION_TRANSACTED)
        client = FlowClient(session)
        for _ in range(INSTANCES):
            client.start(FLOW.name, {"text": "The quick brown fox jumps over the lazy dog. " * 20})
        self.begun += INSTANCES
        begin = perf_counter()
        session.commit()
        while self.store.count(status=Status.COMPLETED) < self.begun:
            self.threads[0].join(0.02)
            assert self.threads[0].is_alive()
        rate = INSTANCES / (perf_counter() - begin)
        session.close()
        return rate

    def close(self) -> None:
        """End all threads."""
        self.engine.stop()
        for server in self.servers:
            server.stop()
        for thread in self.threads:
            thread.join()
        self.connection.close()
        self.store.close()


def main() -> int:
    """Run and report."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder)
        try:
            result = compare(bench.instances_per_second, lambda: bench.hops_per_second() / HOPS_OF_AN_INSTANCE)
        finally:
            bench.close()
            stop_all_brokers()
    detail = f"{result.ours:,.1f} instances a second, {result.theirs * HOPS_OF_AN_INSTANCE:,.0f} plain transacted hops a second"
    return 0 if report("five steps / ten hops", result.ratio, least=LEAST, detail=detail) else 1


if __name__ == "__main__":
    sys.exit(main())
