"""What recording costs: the same work with and without it, and one event on the thread that makes it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, thread_time

sys.path.insert(0, str(Path(__file__).parent))
from measure import compare, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, Session
from pyjms.history import Recording, record
from pyjms.history.events import BEGIN_TX, OK
from pyjms.history.rows import Call, Scope

MESSAGES = 5_000
EVENTS_A_MESSAGE = 3
CALLS = 15_000  # fewer than the buffer takes, so that nothing is written meanwhile


def work(recording: Recording | None, url: str) -> float:
    """Return messages a second: made, sent NON_PERSISTENT, received with AUTO_ACKNOWLEDGE, one after the other."""
    with ConnectionFactory(url, record=recording).create_connection() as connection:
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        queue = session.create_queue("q")
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        connection.start()
        begin = perf_counter()
        for _ in range(MESSAGES):
            producer.send(make_message(session))
            consumer.receive()
        return MESSAGES / (perf_counter() - begin)


def recorded(*, synchronous: bool) -> Callable[[], float]:
    """Return what does the work with recording, the writing of all files included."""

    def run() -> float:
        with TemporaryDirectory() as directory:
            begin = perf_counter()
            with record(directory, synchronous=synchronous) as recording:
                work(recording, "vm://bench-history")
            return MESSAGES / (perf_counter() - begin)

    return run


def caller_cost(*, synchronous: bool) -> float:
    """Return microseconds of its processor's time that noting one event takes on the caller's thread."""
    with TemporaryDirectory() as directory, record(directory, synchronous=synchronous) as recording:
        scope, now, put = Scope(recording.pid, "c", "s"), recording.now_ns, recording.log.put
        begin = thread_time()
        for _ in range(CALLS):
            put(Call(BEGIN_TX, scope, now(), "t", None), OK, now())
        return (thread_time() - begin) / CALLS * 1e6


def main() -> int:
    """Run and report."""
    good = True
    for name, synchronous, least, most in (("buffered", False, 0.2, 5.0), ("synchronous", True, 0.08, 50.0)):
        result = compare(recorded(synchronous=synchronous), lambda: work(None, "vm://bench-history-not"))
        detail = (
            f"{1e6 / result.ours:.1f} µs a message of {EVENTS_A_MESSAGE} events against {1e6 / result.theirs:.1f} µs"
        )
        good &= report(f"recorded ({name}) / not recorded", result.ratio, least=least, detail=detail)
        good &= report(
            f"one event on the caller's thread ({name}), µs", caller_cost(synchronous=synchronous), most=most
        )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
