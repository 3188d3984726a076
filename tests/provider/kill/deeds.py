"""What the workers of the kill tests send, and the names that all of them know."""

from __future__ import annotations

from random import Random

from pyjms import DeliveryMode, Session

LOG = "coordinator.log"
"""Beside the directory of histories."""
QUEUES = ("orders", "bills")
PARCELS = "parcels"
"""What branches of distributed transactions send, and receive, beside all else."""
TOPIC = "news"
SUBSCRIBER, SUBSCRIPTION = "kill-test", "all"
BRANCH_SUBSCRIBER, BRANCH_SUBSCRIPTION = "kill-test-branches", "branches"


def send_one(session: Session, random: Random, names: tuple[str, ...] = (*QUEUES, TOPIC)) -> None:
    """Send a message of some kind to one of these."""
    name = random.choice(names)
    destination = session.create_topic(name) if name == TOPIC else session.create_queue(name)
    producer = session.create_producer(destination)
    producer.priority = random.choice([4, 4, 8])
    producer.delivery_mode = DeliveryMode.PERSISTENT if random.random() < 0.9 else DeliveryMode.NON_PERSISTENT
    message = session.create_text_message("x" * random.choice([10, 1000, 20_000]))
    message.set_string_property("region", random.choice(["EU", "US"]))
    producer.send(message)
    producer.close()
