"""A program with an embedded broker that pushes messages to a receiver, and is killed: ``python -m tests.provider.kill.receiving URL SEED``.

It prints a line for each step of the receiver, and "idle" when no message is left: ``got TEXT FLAG`` when a message comes, ``done TEXT`` when its
acknowledgement has returned. Some messages are acknowledged within the call, some at its end, some later on another thread.
"""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

from pyjms import ConnectionFactory
from pyjms.spi.receivers import MessageReceiver, PushedMessage
from pyjms_provider.receivers import Receivers


def tell(*words: object) -> None:
    """Print a line, and have it out of this process."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Teller(MessageReceiver):
    """Acknowledges in one of three ways, and tells of it."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._later = ThreadPoolExecutor(1)

    def handle(self, message: PushedMessage) -> bool:
        """Take a message."""
        tell("got", message.envelope.body, int(message.is_redelivered))
        way = self._chance.randrange(3)
        if way == 0:
            # What the program hears of is the end of its own call; the broker's work after it is not over when it returns.
            return True
        if way == 1:
            self._acknowledge(message)
        else:
            self._later.submit(self._acknowledge, message)
        return False

    def _acknowledge(self, message: PushedMessage) -> None:
        message.acknowledge()
        tell("done", message.envelope.body)


def main() -> None:
    """Push until nothing is left."""
    url, seed = sys.argv[1:]
    with ConnectionFactory(url).create_connection(), Receivers.of("killed") as receivers:
        attachment = receivers.attach("queue://orders", Teller(int(seed)), name="teller")
        tell("begun")
        attachment.deliver()
        while attachment.unacknowledged:
            attachment.deliver()
        tell("idle")


if __name__ == "__main__":
    main()
