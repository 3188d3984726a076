"""A process whose broker keeps more messages than it may have memory for: ``python -m tests.system.backlog.worker STORE MEMORY MODE MESSAGES BATCH``.

`BATCH`: so many are sent in each transaction, and 50 received.

Prints how many came back, whether all were in order and whole, and by how many bytes the process grew at most.
"""

from __future__ import annotations

import json
import sys
from urllib.parse import quote

import psutil

from pyjms import BytesMessage, ConnectionFactory, DeliveryMode

SIZE = 100_000
BATCH = 50
"""So many are received in a transaction."""
PATIENCE_MS = 60_000


def body(number: int) -> bytes:
    """Return the body of a message, which is no other's."""
    return number.to_bytes(8, "big") * (SIZE // 8)


def main(store: str, memory: str, mode: str, messages: str, batch: str) -> None:
    """Send all, then receive all."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    count = int(messages)
    url = f"vm://backlog?store={quote(f'sqlite:///{store}', safe='')}&memory={memory}"
    with ConnectionFactory(url).create_connection() as connection, connection.create_session(True) as session:
        connection.start()
        queue = session.create_queue("backlog")
        producer = session.create_producer(queue)
        producer.delivery_mode = DeliveryMode[mode]
        for number in range(count):
            message = session.create_bytes_message()
            message.write_bytes(body(number))
            producer.send(message)
            if number % BATCH == BATCH - 1:
                most = max(most, process.memory_info().rss)
            if number % int(batch) == int(batch) - 1:
                session.commit()
        session.commit()
        most = max(most, process.memory_info().rss)
        consumer = session.create_consumer(queue)
        received = 0
        while received < count and (found := consumer.receive(PATIENCE_MS)) is not None:
            assert isinstance(found, BytesMessage)
            content = bytearray(found.body_length)
            found.read_bytes(content)
            if content != body(received):
                break
            received += 1
            if received % BATCH == 0:
                session.commit()
                most = max(most, process.memory_info().rss)
        session.commit()
    sys.stdout.write(json.dumps({"received": received, "grown": most - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
