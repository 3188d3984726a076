"""Request and reply over a temporary queue between two threads, against two `queue.Queue`s."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path
from queue import Queue
from threading import Thread
from time import perf_counter
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from measure import PROPERTIES, TEXT, compare, make_message, report

from pyjms import ConnectionFactory, DeliveryMode, Session

REQUESTS = 2_000


def ours() -> float:
    """Return the median of one request and its reply, in microseconds."""
    with ConnectionFactory("vm://bench-request-reply").create_connection() as connection:
        connection.start()
        serving = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        requests = serving.create_consumer(serving.create_queue("requests"))

        def serve() -> None:
            replier = serving.create_producer(None)
            replier.delivery_mode = DeliveryMode.NON_PERSISTENT
            for _ in range(REQUESTS):
                request = requests.receive()
                assert request is not None
                reply = make_message(serving)
                reply.jms_correlation_id = request.jms_message_id
                replier.send(request.jms_reply_to, reply)

        thread = Thread(target=serve)
        thread.start()
        session = connection.create_session(False, Session.AUTO_ACKNOWLEDGE)
        producer = session.create_producer(session.create_queue("requests"))
        producer.delivery_mode = DeliveryMode.NON_PERSISTENT
        replies = session.create_temporary_queue()
        consumer = session.create_consumer(replies)
        times = []
        for _ in range(REQUESTS):
            begin = perf_counter()
            request = make_message(session)
            request.jms_reply_to = replies
            producer.send(request)
            consumer.receive()
            times.append(perf_counter() - begin)
        thread.join()
        return statistics.median(times) * 1e6


def theirs() -> float:
    """Return the median of a round trip over two queues, in microseconds."""
    requests: Queue[Any] = Queue()
    replies: Queue[Any] = Queue()

    def serve() -> None:
        for _ in range(REQUESTS):
            _, _, reply_to = requests.get()
            reply_to.put((TEXT, dict(PROPERTIES), None))

    thread = Thread(target=serve)
    thread.start()
    times = []
    for _ in range(REQUESTS):
        begin = perf_counter()
        requests.put((TEXT, dict(PROPERTIES), replies))
        replies.get()
        times.append(perf_counter() - begin)
    thread.join()
    return statistics.median(times) * 1e6


def main() -> int:
    """Run and report."""
    result = compare(ours, theirs)
    detail = f"p50 {result.ours:.0f} µs against {result.theirs:.0f} µs"
    good = report("request and reply / two queue.Queues", result.ratio, most=5, detail=detail)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
