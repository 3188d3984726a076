"""``program.py URL ACTION …``: what a user of Azure Service Bus' SDK does, which takes any broker for Azure's emulator.

The actions are send, receive, hold, drain and flood of ``../proton/program.py``, and ``list ADDRESS``, which sends two messages at once. The SDK has words of its own for the outcomes: it completes,
abandons (failed), defers (undeliverable) and dead-letters (rejected); it has none for released.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import count
from threading import Event
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError


def say(**line: Any) -> None:
    """Print a line of JSON."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def client_of(url: str) -> Any:
    """Return a client. The SDK wants a shared key, with which it signs the token that it shows to the broker."""
    place = url.removeprefix("amqp://")
    text = f"Endpoint=sb://{place};SharedAccessKeyName=guest;SharedAccessKey=guest;UseDevelopmentEmulator=true;"
    return ServiceBusClient.from_connection_string(text, retry_total=0)


def send(client: Any, queue: str, numbers: Iterable[int]) -> None:
    """Send messages, each of which is accepted, or an error is raised."""
    with client.get_queue_sender(queue) as sender:
        for number in numbers:
            message = ServiceBusMessage(str(number), application_properties={"number": number})
            sender.send_messages(message)
            say(sent=str(number), outcome="accepted")


def send_list(client: Any, queue: str) -> None:
    """Send two messages as one; print why they are refused."""
    with client.get_queue_sender(queue) as sender:
        try:
            sender.send_messages([ServiceBusMessage("one"), ServiceBusMessage("two")])
        except ServiceBusError as error:
            say(error=str(error))


def show(message: Any) -> None:
    """Print a message."""
    say(body=str(message), count=message.delivery_count or 0, number=message.application_properties[b"number"])


def receive(client: Any, queue: str, number: int, outcome: str) -> None:
    """Receive messages, and settle each."""
    with client.get_queue_receiver(queue) as receiver:
        settle = {
            "accepted": receiver.complete_message,
            "rejected": receiver.dead_letter_message,
            "failed": receiver.abandon_message,
            "undeliverable": receiver.defer_message,
            "held": lambda _: None,
        }[outcome]
        while number:
            for message in receiver.receive_messages(max_message_count=number):
                show(message)
                settle(message)
                number -= 1
        if outcome == "held":
            Event().wait()  # until it is killed


def drain(client: Any, queue: str) -> None:
    """Receive what is there: nothing more has come for a second."""
    with client.get_queue_receiver(queue) as receiver:
        while messages := receiver.receive_messages(max_message_count=100, max_wait_time=1):
            for message in messages:
                show(message)
                receiver.complete_message(message)


def main(url: str, action: str, address: str, *rest: str) -> None:
    """Do an action."""
    queue = address.removeprefix("queue:")
    with client_of(url) as client:
        match action:
            case "send":
                send(client, queue, range(int(rest[0])))
            case "flood":
                send(client, queue, count())
            case "receive":
                receive(client, queue, int(rest[0]), rest[1])
            case "list":
                send_list(client, queue)
            case "hold":
                receive(client, queue, int(rest[0]), "held")
            case "drain":
                drain(client, queue)


if __name__ == "__main__":
    main(*sys.argv[1:])
