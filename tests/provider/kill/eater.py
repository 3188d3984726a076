"""A process that fills a queue, takes some messages of it, all acknowledged, and dies.

``python -m tests.provider.kill.eater URL SENT EATEN``. Nobody sends while it eats, so nothing forces what is written of that.
"""

from __future__ import annotations

import os
import signal
import sys

from pyjms import ConnectionFactory

QUEUE = "meals"


def main(url: str, sent: str, eaten: str) -> None:
    """Send, receive, die."""
    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session()
        queue = session.create_queue(QUEUE)
        producer = session.create_producer(queue)
        for number in range(int(sent)):
            producer.send(session.create_text_message(str(number)))
        connection.start()
        consumer = session.create_consumer(queue)
        for _ in range(int(eaten)):
            if consumer.receive(5000) is None:
                sys.exit("nothing came")
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
